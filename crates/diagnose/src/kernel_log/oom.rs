//! Kills for memory and the report before them (mm/oom_kill.c, mm/memcontrol.c, mm/show_mem.c).

use super::LogMessage;
use super::words::{after, between, number_after, until};

/// Bytes of a page: the kernel lists processes in pages, and does not say of which size.
const PAGE: f64 = 4096.0;

/// One kill, put together from the lines the kernel logs about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OomKill {
    /// The process killed.
    pub pid: u32,
    /// Its name.
    pub command: String,
    /// Anonymous memory it had, bytes.
    pub anon: Option<f64>,
    /// Whether a control group's limit was the cause.
    pub in_group: bool,
    /// The control group whose limit it was.
    pub group: Option<String>,
    /// The state of memory as it was reported.
    pub report: MemoryReport,
    /// The line of the kill.
    pub sequence: u64,
    /// How often the like was logged.
    pub times: f64,
}

/// Memory at the time of a kill, in bytes: of the group, or of the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryReport {
    /// Of the group's limit, how much is used.
    pub usage: Option<f64>,
    /// The group's limit.
    pub limit: Option<f64>,
    /// Page cache of the group that is to be written back first.
    pub dirty: Option<f64>,
    /// Page cache of the group.
    pub file: Option<f64>,
    /// Memory of processes in the group.
    pub anon: Option<f64>,
    /// Name, number and resident memory of the largest process listed.
    pub largest: Option<(String, u32, f64)>,
    /// Resident memory of all processes listed.
    pub listed: Option<f64>,
    /// Columns of the list of processes: how many there are, and which is the resident memory.
    columns: Option<(usize, usize)>,
    group: Option<String>,
}

/// Finds the kills in a log.
pub fn kills<'a>(lines: impl Iterator<Item = LogMessage<'a>>) -> Vec<OomKill> {
    let mut found = Vec::new();
    let mut report = MemoryReport::default();
    for said in lines {
        if said.text.contains("invoked oom-killer") {
            report = MemoryReport::default();
        } else if let Some(mut kill) = killed(said.text) {
            kill.report = std::mem::take(&mut report);
            kill.group = kill.report.group.take();
            kill.in_group |= kill.group.is_some();
            kill.sequence = said.sequence;
            kill.times = said.times;
            found.push(kill);
        } else {
            report.line(said.text);
        }
    }
    found
}

/// Kills of the same program for the same limit are one, told of by the last whose group was logged.
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

/// How often memory ran out with no process left to kill.
pub fn without_victim<'a>(lines: impl Iterator<Item = LogMessage<'a>>) -> f64 {
    lines.filter(|said| said.text.contains("no killable processes")).map(|said| said.times).sum()
}

/// `Memory cgroup out of memory: Killed process 123 (name) total-vm:1kB, anon-rss:2kB, ...`; before 2.6.33 the line
/// read `Out of memory: Killed process 123 (name).`; `Killed process 1792, UID 48, (httpd)` in between.
fn killed(line: &str) -> Option<OomKill> {
    let rest = after(line, "Killed process ")?;
    let (_, named) = rest.split_once('(')?;
    let (command, numbers) = named.rsplit_once(')')?;
    Some(OomKill {
        pid: until(rest, |c| !c.is_ascii_digit()).parse().ok()?,
        command: command.to_owned(),
        anon: number_after::<u64>(numbers, "anon-rss:").map(|kib| kib as f64 * 1024.0),
        in_group: line.contains("Memory cgroup out of memory"),
        ..OomKill::default()
    })
}

impl MemoryReport {
    fn line(&mut self, text: &str) {
        if text.starts_with('[') {
            self.process(text);
        } else if text.contains("oom-kill:constraint=") {
            let group = after(text, "oom_memcg=").map(|rest| until(rest, |c| c == ',').to_owned());
            self.group = group.filter(|_| text.contains("CONSTRAINT_MEMCG"));
        } else if let Some(memory) = text.strip_prefix("memory: usage ") {
            let kib = |text: &str, word: &str| number_after::<u64>(text, word).map(|kib| kib as f64 * 1024.0);
            self.usage = until(memory, |c| c == 'k').parse::<u64>().ok().map(|kib| kib as f64 * 1024.0);
            self.limit = kib(memory, "limit ");
        } else {
            self.statistic(text);
        }
    }

    /// `file_dirty 26923008`, as the second version of control groups prints them, each on a line.
    fn statistic(&mut self, text: &str) {
        let Some((name, value)) = text.split_once(' ') else { return };
        let field = match name {
            "file_dirty" | "file_writeback" => &mut self.dirty,
            "file" => &mut self.file,
            "anon" => &mut self.anon,
            _ => return,
        };
        if let Ok(bytes) = value.trim().parse::<u64>() {
            *field = Some(field.unwrap_or(0.0) + bytes as f64);
        }
    }

    /// `[ pid ]   uid  tgid total_vm      rss ... name`, and a line like it for each process.
    fn process(&mut self, text: &str) {
        let Some(pid) = between(text, '[', ']').map(str::trim) else { return };
        let fields: Vec<&str> = after(text, "]").unwrap_or_default().split_whitespace().collect();
        if pid == "pid" {
            self.columns = fields.iter().position(|name| *name == "rss").map(|rss| (fields.len(), rss));
            return;
        }
        let Some((count, rss)) = self.columns.filter(|(count, _)| fields.len() >= *count && *count > 0) else { return };
        let (Ok(pid), Ok(pages)) = (pid.parse(), fields[rss].parse::<u32>()) else { return };
        let bytes = f64::from(pages) * PAGE;
        self.listed = Some(self.listed.unwrap_or(0.0) + bytes);
        if self.largest.as_ref().is_none_or(|(.., most)| bytes > *most) {
            self.largest = Some((fields[count - 1..].join(" "), pid, bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_log::log;

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
        assert_eq!(report.largest, Some(("rsync".into(), 128825, 864.0 * 4096.0)));
        assert_eq!(report.listed, Some(1152.0 * 4096.0));
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
