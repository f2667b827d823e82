//! OOM kills and the report before them (mm/oom_kill.c, mm/memcontrol.c, mm/show_mem.c).

use super::oom_holders::{DIRTY_CACHE, SHARED_MEMORY};
use super::words::{after, between, number_after, says, until};
use super::{LogMessage, passes_prefilter};
use whyslow_model::kernel_log::{is_memory_report, slab_in_report};

/// Bytes of a page: the kernel lists processes in pages without stating their size.
const PAGE: f64 = 4096.0;
const KIB: f64 = 1024.0;

/// Start of the lines that report that a control group reached its limit.
const GROUP_IS_FULL: &str = "Memory cgroup out of memory";

/// Memory that is much on any machine, where nothing says how much there is.
const MUCH: f64 = (1u64 << 30) as f64;

/// Words of a line that reports that no process is left to kill.
const NO_VICTIM: &str = "no killable processes";

/// Maximum number of processes of a report kept by name; all of them count in the sum.
const MOST_PROCESSES: usize = 32;

/// One kill, assembled from the lines that the kernel logs about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OomKill {
    /// PID of the killed process.
    pub pid: u32,
    /// Its name; if the log ends before it, the name of the process that requested memory.
    pub command: String,
    /// Whether the log ends before it names the killed process.
    pub is_cut: bool,
    /// Its anonymous memory, bytes.
    pub anon: Option<f64>,
    /// All its resident memory, bytes.
    pub resident: Option<f64>,
    /// Whether a control group's limit was the cause.
    pub in_group: bool,
    /// Control group whose limit was reached.
    pub group: Option<String>,
    /// State of memory in the report.
    pub report: MemoryReport,
    /// Line of the kill.
    pub sequence: u64,
    /// Number of similar kills logged.
    pub times: f64,
    /// Time of that line, as printed in a log file.
    pub printed: Option<String>,
    /// Seconds from that line to the end of the capture.
    pub age: Option<f64>,
}

impl OomKill {
    /// Returns what held more memory than the killed process, and how much: another process, or memory that belongs to no
    /// process. Returns `None` if the killed process held the most, or the log does not show it.
    pub fn holder(&self) -> Option<(String, f64)> {
        let report = &self.report;
        let process = report.largest().filter(|process| process.pid != self.pid);
        let process = process.map(|process| (format!("{} (pid {})", process.name, process.pid), process.bytes));
        let shared = |words: &str, bytes: Option<f64>| bytes.map(|bytes| (words.to_owned(), bytes));
        let of_victim = report.largest().filter(|process| process.pid == self.pid).map(|process| process.bytes);
        // A log that ends before the kill can still show what held much memory.
        let killed = self.resident.into_iter().chain(of_victim).reduce(f64::max).or(self.is_cut.then_some(MUCH))?;
        let of_slab = report.largest_slab.as_ref().map_or_else(String::new, |(name, _)| format!(", most of it {name}"));
        [
            process,
            shared(DIRTY_CACHE, report.dirty),
            shared(SHARED_MEMORY, report.shmem),
            shared(&format!("unreclaimable kernel memory (slab){of_slab}"), report.fixed_slab()),
            shared("caches of files and directories (slab), which reclaim could not free", report.caches),
        ]
        .into_iter()
        .flatten()
        .filter(|(_, bytes)| *bytes > killed)
        .max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// A process in the list before a kill.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedProcess {
    /// Name of the process.
    pub name: String,
    /// PID.
    pub pid: u32,
    /// Resident memory, without shared memory where that is listed separately.
    pub bytes: f64,
}

/// Memory at the time of a kill, in bytes: of the group, or of the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryReport {
    /// Used part of the group's limit.
    pub usage: Option<f64>,
    /// The group's limit.
    pub limit: Option<f64>,
    /// Page cache of the group that must be written back first.
    pub dirty: Option<f64>,
    /// Page cache of the group.
    pub file: Option<f64>,
    /// Memory of processes in the group.
    pub anon: Option<f64>,
    /// Shared memory, and files in tmpfs.
    pub shmem: Option<f64>,
    /// Kernel memory in slabs that cannot be reclaimed.
    pub slab: Option<f64>,
    /// The largest of these slabs, and its size.
    pub largest_slab: Option<(String, f64)>,
    /// The sum of those that are listed by name.
    listed_slabs: f64,
    /// Kernel memory in slabs that can be reclaimed, and was not.
    pub caches: Option<f64>,
    /// All kernel memory of the group.
    pub kernel: Option<f64>,
    /// Memory of the machine that programs and the kernel may use.
    pub ram: Option<f64>,
    /// Unused part of the machine's memory.
    pub free: Option<f64>,
    /// The largest processes listed, largest first.
    pub processes: Vec<ListedProcess>,
    /// Resident memory of all processes listed.
    pub listed: Option<f64>,
    /// Whether only the NUMA nodes that the process may use ran out.
    pub nodes_only: bool,
    columns: Option<ProcessColumns>,
    in_group: bool,
    group: Option<String>,
}

/// Finds the kills in a log.
pub fn kills<'a>(lines: impl Iterator<Item = LogMessage<'a>>) -> Vec<OomKill> {
    let mut found = Vec::new();
    let mut report = MemoryReport::default();
    let mut cut: Option<OomKill> = None;
    let mut chosen: Option<OomKill> = None;
    for said in lines {
        if let Some((command, _)) = said.text.split_once(" invoked oom-killer") {
            report = MemoryReport::default();
            let times = cut.as_ref().map_or(0.0, |cut| cut.times) + said.times;
            let command = command.trim_start().to_owned();
            cut = Some(OomKill { command, is_cut: true, sequence: said.sequence, times, ..OomKill::default() });
        } else if said.text.contains(NO_VICTIM) {
            cut = None;
        } else if let Some(mut kill) = killed(said.text) {
            kill.report = std::mem::take(&mut report);
            kill.group = kill.report.group.take();
            kill.in_group |= kill.report.in_group;
            kill.sequence = said.sequence;
            kill.times = said.times;
            found.push(kill);
            chosen = None;
        } else {
            if let Some((command, pid)) = victim(said.text) {
                let (sequence, times) = (said.sequence, said.times);
                chosen = Some(OomKill { command, pid, sequence, times, ..OomKill::default() });
            }
            report.line(said.text.trim_start());
        }
    }
    // Where the line of the kill itself was lost, the one before it names the process.
    cut = chosen.or(cut);
    // In a log with kills, lines between them may be left out.
    if let Some(mut kill) = cut.filter(|_| found.is_empty()) {
        kill.group = report.group.take();
        kill.in_group = report.in_group;
        kill.report = report;
        found.push(kill);
    }
    found
}

/// Merges kills of the same program for the same limit; the last one whose group was logged represents all.
pub fn together(kills: Vec<OomKill>) -> Vec<OomKill> {
    let mut all: Vec<OomKill> = Vec::new();
    for kill in kills {
        let alike = |other: &&mut OomKill| {
            let limit = other.group == kill.group || other.group.is_none() || kill.group.is_none();
            other.command == kill.command && other.in_group == kill.in_group && limit
        };
        match all.iter_mut().find(alike) {
            Some(other) => {
                let times = other.times + kill.times;
                if kill.group.is_some() || other.group.is_none() {
                    *other = kill;
                }
                other.times = times;
            }
            None => all.push(kill),
        }
    }
    all
}

/// Counts how often memory ran out with no process left to kill.
pub fn without_victim<'a>(lines: impl Iterator<Item = LogMessage<'a>>) -> f64 {
    lines.filter(|said| said.text.contains(NO_VICTIM)).map(|said| said.times).sum()
}

/// Parses `Memory cgroup out of memory: Killed process 123 (name) total-vm:1kB, anon-rss:2kB, ...`; before 2.6.33 the line read
/// `Out of memory: Killed process 123 (name).`; `Killed process 1792, UID 48, (httpd)` in between.
fn killed(line: &str) -> Option<OomKill> {
    let rest = after(line, "Killed process ")?;
    let (_, named) = rest.split_once('(')?;
    let (command, numbers) = named.rsplit_once(')')?;
    let [anon, file, shmem] = ["anon-rss:", "file-rss:", "shmem-rss:"].map(|word| kib_after(numbers, word));
    Some(OomKill {
        pid: until(rest, |c| !c.is_ascii_digit()).parse().ok()?,
        command: command.to_owned(),
        anon,
        resident: anon.map(|anon| anon + file.unwrap_or(0.0) + shmem.unwrap_or(0.0)),
        in_group: line.contains(GROUP_IS_FULL),
        ..OomKill::default()
    })
}

/// Returns the process to be killed in `oom-kill:constraint=CONSTRAINT_NONE,...,task_memcg=/docker/1,task=python,pid=2953,uid=999`.
fn victim(text: &str) -> Option<(String, u32)> {
    let (_, rest) = after(text, "oom-kill:constraint=")?.rsplit_once(",task=")?;
    let (command, rest) = rest.rsplit_once(",pid=")?;
    Some((command.to_owned(), until(rest.trim_start(), |c| !c.is_ascii_digit()).parse().ok()?))
}

fn kib_after(text: &str, word: &str) -> Option<f64> {
    number_after::<u64>(text, word).map(|kib| kib as f64 * KIB)
}

/// Columns of the list of processes: their number, the index of the resident memory, and that of its shared part.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ProcessColumns {
    count: usize,
    resident: usize,
    shared: Option<usize>,
}

impl MemoryReport {
    /// Returns the kernel memory in slabs that cannot be reclaimed.
    pub fn fixed_slab(&self) -> Option<f64> {
        self.slab.or(Some(self.listed_slabs)).filter(|bytes| *bytes > 0.0)
    }

    /// Returns the largest process listed.
    pub fn largest(&self) -> Option<&ListedProcess> {
        self.processes.first()
    }

    fn line(&mut self, text: &str) {
        let before = cfg!(test).then(|| self.clone());
        self.parse(text);
        if before.is_some_and(|before| before != *self) {
            let is_kept = text.starts_with('[') || is_memory_report(text);
            assert!(is_kept || passes_prefilter(text), "add words of {text:?} to model/src/kernel_log.rs");
        }
    }

    fn parse(&mut self, text: &str) {
        if text.starts_with('[') {
            self.process(text);
        } else if let Some(constraint) = after(text, "oom-kill:constraint=") {
            self.nodes_only = says(constraint, &["CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY"]);
            let group = after(constraint, "oom_memcg=").map(|rest| until(rest, |c| c == ','));
            self.limited_by(group.filter(|_| constraint.contains("CONSTRAINT_MEMCG")));
        } else if let Some(group) = after(text, "killed as a result of limit of ") {
            self.limited_by(Some(group.trim_end()));
        } else if text.contains(GROUP_IS_FULL) {
            self.in_group = true;
        } else if let Some(memory) = text.strip_prefix("memory: usage ") {
            self.usage = until(memory, |c| c == 'k').parse::<u64>().ok().map(|kib| kib as f64 * KIB);
            self.limit = kib_after(memory, "limit ");
        } else if text.starts_with("slab_reclaimable:") {
            let bytes = |words| number_after::<u64>(text, words).map(|pages| pages as f64 * PAGE);
            (self.slab, self.caches) = (bytes("slab_unreclaimable:"), bytes("slab_reclaimable:"));
        } else if text.starts_with("mapped:") {
            self.shmem = number_after::<u64>(text, "shmem:").map(|pages| pages as f64 * PAGE);
        } else if text.starts_with("free:") {
            self.free = number_after::<u64>(text, "free:").map(|pages| pages as f64 * PAGE);
        } else if let Some((name, kib)) = slab_in_report(text) {
            let bytes = kib as f64 * KIB;
            self.listed_slabs += bytes;
            if self.largest_slab.as_ref().is_none_or(|(_, largest)| bytes > *largest) {
                self.largest_slab = Some((name.to_owned(), bytes));
            }
        } else if let Some((pages, what)) = text.split_once(' ')
            && let Ok(pages) = pages.parse::<u64>()
        {
            // `262013 pages RAM`, `9384 pages reserved`; before 2.6.27 `114672 pages of RAM`, `5150 reserved pages`
            match what.trim_end() {
                "pages RAM" | "pages of RAM" => self.ram = Some(pages as f64 * PAGE),
                "pages reserved" | "reserved pages" => {
                    self.ram = self.ram.map(|ram| (ram - pages as f64 * PAGE).max(0.0));
                }
                _ => {}
            }
        } else if let Some(statistics) = after(text, "Memory cgroup stats for ") {
            // Before Linux 5.3 all on one line: `/shop: cache:0KB rss:1024KB shmem:0KB dirty:0KB writeback:0KB`.
            let kib = |word: &str| {
                let (name, value) = word.split_once(':')?;
                Some((name.to_owned(), value.strip_suffix("KB")?.parse::<u64>().ok()? as f64 * KIB))
            };
            statistics.split_whitespace().filter_map(kib).for_each(|(name, bytes)| self.statistic(&name, bytes));
        } else if let Some((name, value)) = text.split_once(' ')
            && let Ok(bytes) = value.trim().parse::<u64>()
        {
            self.statistic(name, bytes as f64);
        }
    }

    fn limited_by(&mut self, group: Option<&str>) {
        self.in_group |= group.is_some();
        self.group = group.map(str::to_owned);
    }

    /// Adds a statistic of a control group by the name that either version of control groups uses.
    fn statistic(&mut self, name: &str, bytes: f64) {
        let field = match name {
            "file_dirty" | "file_writeback" | "dirty" | "writeback" => &mut self.dirty,
            "file" | "cache" => &mut self.file,
            "anon" | "rss" => &mut self.anon,
            "shmem" => &mut self.shmem,
            "slab_unreclaimable" => &mut self.slab,
            "kernel" => &mut self.kernel,
            _ => return,
        };
        *field = Some(field.unwrap_or(0.0) + bytes);
    }

    /// Parses `[ pid ]   uid  tgid total_vm      rss ... name`, and the line of each process below it.
    fn process(&mut self, text: &str) {
        let Some(pid) = between(text, '[', ']').map(str::trim) else { return };
        let fields: Vec<&str> = after(text, "]").unwrap_or_default().split_whitespace().collect();
        if pid == "pid" {
            let at = |wanted: &str| fields.iter().position(|name| *name == wanted);
            let (count, shared) = (fields.len(), at("rss_shmem"));
            self.columns = at("rss").map(|resident| ProcessColumns { count, resident, shared });
            return;
        }
        let columns = self.columns.filter(|columns| fields.len() >= columns.count && columns.count > 0);
        let Some(ProcessColumns { count, resident, shared }) = columns else { return };
        let pages = |column: usize| fields[column].parse::<u32>();
        let (Ok(pid), Ok(resident)) = (pid.parse(), pages(resident)) else { return };
        let shared = shared.and_then(|column| pages(column).ok()).unwrap_or(0);
        let bytes = f64::from(resident.saturating_sub(shared)) * PAGE;
        self.listed = Some(self.listed.unwrap_or(0.0) + bytes);
        let at = self.processes.partition_point(|process| process.bytes >= bytes);
        if at < MOST_PROCESSES {
            self.processes.truncate(MOST_PROCESSES - 1);
            self.processes.insert(at, ListedProcess { name: fields[count - 1..].join(" "), pid, bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_log::log;

    #[test]
    fn the_line_before_the_kill_names_the_process_too() {
        let line = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/docker/1,task=python,pid=2953,uid=999";
        let kill = kills(log(&[line])).remove(0);
        assert_eq!((&*kill.command, kill.pid, kill.in_group, kill.is_cut), ("python", 2953, false, false));
    }

    #[test]
    fn the_largest_unreclaimable_slab_is_named_though_the_kill_is_not_shown() {
        let lines = [
            "ip invoked oom-killer: gfp_mask=0xc2cc0(GFP_KERNEL), order=3, oom_score_adj=0",
            "Unreclaimable slab info:",
            "Name                      Used          Total",
            "dentry                   120KB        140KB",
            "btrfs_extent_map     3207098KB    3375622KB",
        ];
        let (holder, bytes) = kills(log(&lines)).remove(0).holder().unwrap();
        assert_eq!(holder, "unreclaimable kernel memory (slab), most of it btrfs_extent_map");
        assert_eq!(bytes, 3_375_762.0 * KIB);
        assert_eq!(kills(log(&lines[..4])).remove(0).holder(), None, "140 KiB is not much");
    }

    #[test]
    fn a_kill_in_a_group_tells_what_filled_the_group() {
        let lines = [
            "rsync invoked oom-killer: gfp_mask=0x408d40(GFP_NOFS), order=0, oom_score_adj=200",
            "memory: usage 32768kB, limit 32768kB, failcnt 21239",
            "anon 0",
            "file 26927104",
            "file_dirty 26923008",
            "file_writeback 4096",
            "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
            "[ 128825]  1000 128825     3449      864    65536      192           200 rsync",
            "[ 128826]  1000 128826     3523      288    57344      288           200 my sync",
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/shop,task_memcg=/shop/a,task=hog,pid=812,uid=0",
            "Memory cgroup out of memory: Killed process 812 (hog (1)) total-vm:104448kB, anon-rss:65536kB, file-rss:1kB, shmem-rss:0kB, UID:0",
        ];
        let kill = kills(log(&lines)).remove(0);
        assert_eq!((kill.pid, kill.command.as_str(), kill.anon), (812, "hog (1)", Some(65536.0 * 1024.0)));
        assert_eq!((kill.group.as_deref(), kill.in_group), (Some("/shop"), true));
        let report = &kill.report;
        assert_eq!((report.limit, report.dirty), (Some(32768.0 * 1024.0), Some(26_927_104.0)));
        let largest = report.largest().map(|process| (process.name.as_str(), process.pid, process.bytes));
        assert_eq!(largest, Some(("rsync", 128825, 864.0 * 4096.0)));
        assert_eq!(report.listed, Some(1152.0 * 4096.0));
    }

    /// Linux 3.x to 5.0 (mm/memcontrol.c): the line of the kill itself does not mention the group.
    #[test]
    fn a_kill_in_a_group_of_linux_4() {
        let lines = [
            "java invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), nodemask=(null),  order=0, oom_score_adj=0",
            "Task in /docker/4f3c/app killed as a result of limit of /docker/4f3c",
            "memory: usage 524288kB, limit 524288kB, failcnt 12",
            "Memory cgroup stats for /docker/4f3c: cache:4KB rss:1024KB rss_huge:0KB shmem:409600KB dirty:8KB writeback:4KB",
            "Memory cgroup stats for /docker/4f3c/app: cache:0KB rss:2048KB shmem:0KB dirty:0KB writeback:0KB",
            "[ pid ]   uid  tgid total_vm      rss nr_ptes nr_pmds swapents oom_score_adj name",
            "[ 4711]     0  4711   104448    16384     200       3        0             0 java",
            "Memory cgroup out of memory: Kill process 4711 (java) score 998 or sacrifice child",
            "Killed process 4711 (java) total-vm:417792kB, anon-rss:65536kB, file-rss:0kB, shmem-rss:0kB",
        ];
        let kill = kills(log(&lines)).remove(0);
        assert_eq!((kill.group.as_deref(), kill.in_group), (Some("/docker/4f3c"), true));
        let report = &kill.report;
        assert_eq!((report.anon, report.dirty), (Some(3072.0 * KIB), Some(12.0 * KIB)));
        assert_eq!(kill.holder(), Some(("tmpfs and shared memory".into(), 409_600.0 * KIB)));
    }

    #[test]
    fn what_held_more_than_the_process_that_was_killed() {
        let kill = |table: &[&str]| {
            let lines = [
                &[
                    "cron invoked oom-killer: gfp_mask=0x1, order=0",
                    " slab_reclaimable:9 slab_unreclaimable:512",
                    " mapped:1 shmem:256 pagetables:1",
                ],
                table,
                &["Out of memory: Killed process 9 (sshd) total-vm:9kB, anon-rss:512kB, file-rss:512kB, shmem-rss:0kB"],
            ];
            kills(log(&lines.concat())).remove(0)
        };
        let head = "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name";
        let sshd = "[      9]     0     9      300      256        65536        0             0 sshd";
        let java = "[     12]     0    12     9000     4096        65536        0             0 java";
        assert_eq!(kill(&[head, sshd, java]).holder(), Some(("java (pid 12)".into(), 4096.0 * PAGE)));
        let slab = Some(("unreclaimable kernel memory (slab)".to_owned(), 512.0 * PAGE));
        assert_eq!((kill(&[head, sshd]).holder(), kill(&[]).holder()), (slab.clone(), slab));
        let report = MemoryReport { caches: Some(9e9), ..MemoryReport::default() };
        let of_caches = OomKill { resident: Some(1e9), report, ..OomKill::default() };
        assert_eq!(of_caches.holder().map(|(_, bytes)| bytes), Some(9e9));
        let large = "[      9]     0     9      300     2560        65536        0             0 sshd";
        assert_eq!(kill(&[head, large]).holder(), None);
        assert!(!kill(&[]).in_group && !kill(&[]).report.nodes_only);
        assert!(
            kill(&["oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=(null),cpuset=db,mems_allowed=0"]).report.nodes_only
        );
    }

    #[test]
    fn a_log_that_ends_before_the_kill_says_who_asked_for_memory() {
        let lines =
            ["cron invoked oom-killer: gfp_mask=0x1, order=0", "Call Trace:", "db invoked oom-killer: gfp_mask=0x1"];
        let cut = kills(log(&lines));
        assert_eq!(cut.len(), 1);
        assert_eq!((cut[0].command.as_str(), cut[0].is_cut, cut[0].times, cut[0].in_group), ("db", true, 2.0, false));
        let group = kills(log(&[lines[0], "Memory cgroup out of memory: "]));
        assert!(group[0].is_cut && group[0].in_group);
        let whole = kills(log(&[lines[0], "Out of memory: Killed process 4 (web)", lines[2]]));
        assert_eq!(whole.iter().map(|kill| (kill.pid, kill.is_cut)).collect::<Vec<_>>(), [(4, false)]);
        assert_eq!(kills(log(&[lines[0], "Out of memory and no killable processes..."])), []);
    }

    #[test]
    fn kills_again_and_again_are_one() {
        let lines = [
            "Memory cgroup out of memory: Killed process 1 (web) total-vm:1kB, anon-rss:1kB",
            "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/shop,task=web",
            "Memory cgroup out of memory: Killed process 2 (web) total-vm:1kB, anon-rss:1kB",
            "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/other,task=web",
            "Memory cgroup out of memory: Killed process 3 (web) total-vm:1kB, anon-rss:1kB",
            "Out of memory: Killed process 4 (web)",
        ];
        let all: Vec<_> = together(kills(log(&lines))).into_iter().map(|k| (k.pid, k.group, k.times)).collect();
        assert_eq!(all, [(2, Some("/shop".into()), 2.0), (3, Some("/other".into()), 1.0), (4, None, 1.0)]);
    }

    #[test]
    fn kills_of_the_machine_in_every_generation() {
        for line in [
            "Out of memory: Killed process 4711 (evolution)",
            "Out of Memory: Killed process 4711 (evolution).",
            "Killed process 4711, UID 48, (evolution) total-vm:1kB, anon-rss:2kB, file-rss:0kB",
        ] {
            let kill = kills(log(&[line])).remove(0);
            assert_eq!((kill.pid, kill.command.as_str(), kill.group, kill.in_group), (4711, "evolution", None, false));
        }
        assert_eq!(kills(log(&["Killed process x (y)", "[ pid ] rss", "[ 1 ]"])), []);
        assert_eq!(without_victim(log(&["Out of memory and no killable processes..."])), 1.0);
    }
}
