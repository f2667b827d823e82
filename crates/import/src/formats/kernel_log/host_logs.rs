//! Logs of several machines in one text: a log server writes the lines of many machines into one file.

use super::thinned_log::ThinnedLog;
use crate::tool_run::ToolRun;
use whyslow_model::value::Name;

/// Maximum number of machines whose logs are read.
const MOST_HOSTS: usize = 50;
/// Names that a machine logs before it knows its own name.
const NAMELESS: [&str; 4] = ["localhost", "localhost.localdomain", "(none)", "-"];

/// One log for each machine. Lines that name no machine belong to the previous one.
pub struct HostLogs {
    /// Template for the runs, with their common values.
    like: ToolRun,
    /// The logs. After those of [`MOST_HOSTS`], a log without a name takes the lines that are left out.
    all: Vec<(Option<Name>, ThinnedLog)>,
    current: usize,
    /// Number of lines that name machines above the limit.
    left_out: u64,
}

impl HostLogs {
    /// Creates an empty set of logs; the run is that of the first machine.
    pub fn new(run: ToolRun) -> Self {
        let like = run.beside(run.line);
        Self { like, all: vec![(None, ThinnedLog::new(run))], current: 0, left_out: 0 }
    }

    /// Switches to the log of the machine that a line names.
    pub fn choose(&mut self, host: Option<&str>, line: u32) {
        let Some(host) = host.filter(|host| !NAMELESS.contains(host)) else { return };
        let is_it = |at: &usize| self.all[*at].0.as_ref().is_some_and(|known| is_same(known, host));
        // Most lines are from the same machine as the previous line.
        let known = std::iter::once(self.current).chain(0..self.all.len()).find(is_it);
        self.current = known.unwrap_or_else(|| self.add(host, line));
    }

    /// Adds a machine. Returns the position of its log; machines above the limit share one.
    fn add(&mut self, host: &str, line: u32) -> usize {
        if self.all[0].0.is_none() {
            self.all[0].0 = Some(host.into());
            return 0;
        }
        let is_read = self.all.len() < MOST_HOSTS;
        if self.all.len() <= MOST_HOSTS {
            self.all.push((is_read.then(|| host.into()), ThinnedLog::new(self.like.beside(line))));
        }
        self.left_out += u64::from(!is_read);
        self.all.len() - 1
    }

    /// Returns the position of the log of the last line.
    pub fn position(&self) -> usize {
        self.current
    }

    /// Returns the log at a position.
    pub fn at(&mut self, position: usize) -> &mut ThinnedLog {
        &mut self.all[position].1
    }

    /// Returns the log of the last line.
    pub fn current(&mut self) -> &mut ThinnedLog {
        self.at(self.current)
    }

    /// Returns the run of each machine, starting with the first.
    pub fn finish(mut self) -> Vec<ToolRun> {
        let left_out = self.left_out;
        self.all.truncate(MOST_HOSTS);
        let finished = |(host, log): (Option<Name>, ThinnedLog)| {
            let mut run = log.finish();
            run.host = host.or(run.host.take());
            run
        };
        let mut runs: Vec<ToolRun> = self.all.into_iter().map(finished).collect();
        if left_out > 0 {
            let why = format!("lines of others are left out ({left_out}); {MOST_HOSTS} machines are read");
            runs[0].note("more machines than can be distinguished", why, "give the lines of one machine");
        }
        runs
    }
}

/// Returns true if two names are of one machine, with or without its domain.
fn is_same(a: &str, b: &str) -> bool {
    let is_longer = |long: &str, short: &str| {
        long.len() > short.len()
            && long.as_bytes()[short.len()] == b'.'
            && long[..short.len()].eq_ignore_ascii_case(short)
    };
    let is_name = |name: &str| !name.starts_with(|c: char| c.is_ascii_digit());
    a.eq_ignore_ascii_case(b) || (is_name(a) && is_name(b) && (is_longer(a, b) || is_longer(b, a)))
}

#[cfg(test)]
mod tests {
    use super::super::log_time::LogTime;
    use super::*;

    #[test]
    fn lines_of_machines_above_the_limit_are_nobody_elses() {
        let mut logs = HostLogs::new(ToolRun::new("kernel log", &"x".into()));
        for line in 1..=200 {
            logs.choose(Some(&format!("web{}", line % 60)), line);
            logs.current().count(line, LogTime::default());
        }
        logs.choose(Some("web1.example.org"), 201);
        assert_eq!(logs.position(), 0);
        let runs = logs.finish();
        assert_eq!((runs.len(), runs[0].notes.len()), (MOST_HOSTS, 1), "{:?}", runs[0].notes);
        assert!(runs.iter().all(|run| run.host.is_some()));
    }
}
