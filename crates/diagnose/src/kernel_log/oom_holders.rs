//! Holders of memory when a process was killed for it: processes, caches and the kernel, and the rest of the total.

use super::oom::{ListedProcess, OomKill};

/// A limit above this means no limit: the kernel prints its largest number.
const NO_LIMIT: f64 = (1u64 << 60) as f64;
/// Memory that belongs to no process.
pub const DIRTY_CACHE: &str = "page cache waiting to be written";
pub const SHARED_MEMORY: &str = "tmpfs and shared memory";
/// The rest, where all processes are listed, and where they are not.
const UNACCOUNTED: &str = "the kernel and what is unaccounted for";
const NOT_LISTED: &str = "memory that the log does not show";

/// A holder of memory when a process was killed for it.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryHolder {
    /// PID of the killed process.
    pub kill: u32,
    /// Name of the process, or of the kind of memory.
    pub name: String,
    /// PID, if it is a process.
    pub pid: Option<u32>,
    /// Resident memory, bytes.
    pub bytes: f64,
}

impl OomKill {
    /// Returns the memory that ran out: the limit of the control group, or the memory of the machine. Returns `None` if the log
    /// does not show it, or only some NUMA nodes ran out.
    pub fn whole(&self) -> Option<f64> {
        let report = &self.report;
        match self.in_group {
            true => report.limit.filter(|limit| *limit < NO_LIMIT).or(report.usage),
            false => report.ram.filter(|_| !report.nodes_only),
        }
        .filter(|whole| *whole > 0.0)
    }

    /// Returns everything that held memory, as far as the log shows it, and the rest of the total. Returns nothing if the total
    /// is unknown.
    pub fn holders(&self) -> Vec<MemoryHolder> {
        let (report, Some(whole)) = (&self.report, self.whole()) else { return Vec::new() };
        let mut processes = report.processes.clone();
        match (processes.iter_mut().find(|process| process.pid == self.pid), self.resident) {
            (Some(victim), Some(resident)) => victim.bytes = victim.bytes.max(resident),
            (None, Some(bytes)) if !self.is_cut => {
                processes.push(ListedProcess { name: self.command.clone(), pid: self.pid, bytes });
            }
            _ => {}
        }
        let of_processes = processes.iter().map(|process| process.bytes).sum::<f64>().max(report.listed.unwrap_or(0.0));
        let mut left = (whole - of_processes).max(0.0);
        // Mapped pages of the page cache and of shared memory are part of the numbers listed for processes.
        let mut beside = |name: &'static str, bytes: Option<f64>| {
            let bytes = bytes.filter(|bytes| *bytes > 0.0 && *bytes <= left)?;
            left -= bytes;
            Some(MemoryHolder { kill: self.pid, name: name.to_owned(), pid: None, bytes })
        };
        let kernel = report.kernel.or(match (report.fixed_slab(), report.caches) {
            (None, None) => None,
            (slab, caches) => Some(slab.unwrap_or(0.0) + caches.unwrap_or(0.0)),
        });
        let clean = report.file.map(|file| file - report.dirty.unwrap_or(0.0) - report.shmem.unwrap_or(0.0));
        let mut all: Vec<MemoryHolder> = [
            beside(DIRTY_CACHE, report.dirty),
            beside(SHARED_MEMORY, report.shmem),
            beside("kernel memory", kernel),
            beside("page cache", clean),
        ]
        .into_iter()
        .flatten()
        .collect();
        left = (left - report.free.unwrap_or(0.0)).max(0.0);
        let rest = if report.listed.is_some() { UNACCOUNTED } else { NOT_LISTED };
        all.push(MemoryHolder { kill: self.pid, name: rest.to_owned(), pid: None, bytes: left });
        all.extend(processes.into_iter().map(|process| MemoryHolder {
            kill: self.pid,
            name: process.name,
            pid: Some(process.pid),
            bytes: process.bytes,
        }));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_log::log;
    use crate::kernel_log::oom::kills;

    /// Returns the holders by share of the memory that ran out, in per cent.
    fn shares(lines: &[&str]) -> Vec<(String, f64)> {
        let kill = kills(log(lines)).remove(0);
        let whole = kill.whole().unwrap_or(f64::NAN);
        let mut holders = kill.holders();
        holders.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
        let share = |holder: MemoryHolder| (holder.name, (holder.bytes / whole * 100.0).round());
        holders.into_iter().map(share).filter(|(_, share)| *share > 0.0).collect()
    }

    #[test]
    fn the_shares_of_what_held_memory_are_of_the_whole() {
        let victim =
            "Memory cgroup out of memory: Killed process 9 (web) total-vm:9kB, anon-rss:242688kB, file-rss:0kB";
        let limit = "memory: usage 409600kB, limit 409600kB, failcnt 12";
        let invoked = "cron invoked oom-killer: gfp_mask=0x1, order=0";
        let rest = |words: &str, share: f64| (words.to_owned(), share);
        assert_eq!(shares(&[invoked, limit, victim]), [rest("web", 59.0), rest(NOT_LISTED, 41.0)]);
        let tiny = victim.replace("242688", "1536");
        let full = limit.replace("409600", "1048576");
        assert_eq!(shares(&[invoked, &full, &tiny]), [rest(NOT_LISTED, 100.0)]);
        let table = [
            "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
            "[      9]     0     9      300    60672        65536        0             0 web",
        ];
        let listed = [invoked, limit, "kernel 83886080", table[0], table[1], victim];
        let expected = [rest("web", 58.0), rest(UNACCOUNTED, 22.0), rest("kernel memory", 20.0)];
        assert_eq!(
            shares(&listed).iter().map(|(name, _)| name).collect::<Vec<_>>(),
            expected.iter().map(|(name, _)| name).collect::<Vec<_>>()
        );
        assert!(
            shares(&listed).iter().zip(&expected).all(|((_, a), (_, b))| (a - b).abs() <= 1.0),
            "{:?}",
            shares(&listed)
        );
        assert_eq!(
            shares(&["Out of memory: Killed process 9 (web) anon-rss:512kB"]),
            [],
            "nothing says how much there was"
        );
    }

    #[test]
    fn of_the_machine_the_whole_is_its_memory() {
        let lines = [
            "cron invoked oom-killer: gfp_mask=0x1, order=0",
            " slab_reclaimable:1000 slab_unreclaimable:9000",
            " mapped:1 shmem:5000 pagetables:1",
            " free:5000 free_pcp:0 free_cma:0",
            "110000 pages RAM",
            "0 pages HighMem/MovableOnly",
            "10000 pages reserved",
            "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name",
            "[      9]     0     9      300    35000    30000        0      5000        65536        0             0 db",
            "[     10]     0    10      300    10000    10000        0         0        65536        0             0 web",
            "Out of memory: Killed process 9 (db) total-vm:9kB, anon-rss:120000kB, file-rss:0kB, shmem-rss:0kB",
        ];
        let share = |words: &str, share: f64| (words.to_owned(), share);
        let expected = [
            share(UNACCOUNTED, 40.0),
            share("db", 30.0),
            share("kernel memory", 10.0),
            share("web", 10.0),
            share(SHARED_MEMORY, 5.0),
        ];
        assert_eq!(shares(&lines), expected);
    }
}
