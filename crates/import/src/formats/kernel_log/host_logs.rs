//! The logs of several machines in one text: a log server writes the lines of many into one file.

use super::thinned_log::ThinnedLog;
use crate::tool_run::ToolRun;
use whyslow_model::value::Name;

/// The most machines that are told apart.
const MOST_HOSTS: usize = 50;
/// Names that a machine logs before it knows its own.
const NAMELESS: [&str; 4] = ["localhost", "localhost.localdomain", "(none)", "-"];

/// One log for each machine. Lines that name no machine are of the one before.
pub struct HostLogs {
    /// What their runs have in common.
    like: ToolRun,
    all: Vec<(Option<Name>, ThinnedLog)>,
    current: usize,
    /// Lines of machines above the limit.
    left_out: u64,
}

impl HostLogs {
    /// No lines yet; the run is of the first machine.
    pub fn new(run: ToolRun) -> Self {
        let like = run.beside(run.line);
        Self { like, all: vec![(None, ThinnedLog::new(run))], current: 0, left_out: 0 }
    }

    /// Goes on with the log of the machine that a line names.
    pub fn choose(&mut self, host: Option<&str>, line: u32) {
        let Some(host) = host.filter(|host| !NAMELESS.contains(host)) else { return };
        let is_it = |known: &Option<Name>| known.as_ref().is_none_or(|known| is_same(known, host));
        // Most lines are of the machine of the line before.
        let found = if is_it(&self.all[self.current].0) {
            Some(self.current)
        } else {
            self.all.iter().position(|(known, _)| is_it(known))
        };
        self.current = match found {
            Some(at) => at,
            None if self.all.len() < MOST_HOSTS => {
                self.all.push((None, ThinnedLog::new(self.like.beside(line))));
                self.all.len() - 1
            }
            None => {
                self.left_out += 1;
                self.current
            }
        };
        self.all[self.current].0.get_or_insert_with(|| host.into());
    }

    /// The position of the log that the last line was of.
    pub fn position(&self) -> usize {
        self.current
    }

    /// The log at a position.
    pub fn at(&mut self, position: usize) -> &mut ThinnedLog {
        &mut self.all[position].1
    }

    /// The log that the last line was of.
    pub fn current(&mut self) -> &mut ThinnedLog {
        self.at(self.current)
    }

    /// The run of each machine, the first one first.
    pub fn finish(self) -> Vec<ToolRun> {
        let left_out = self.left_out;
        let finished = |(host, log): (Option<Name>, ThinnedLog)| {
            let mut run = log.finish();
            run.host = host.or(run.host.take());
            run
        };
        let mut runs: Vec<ToolRun> = self.all.into_iter().map(finished).collect();
        if left_out > 0 {
            let why = format!("{left_out} lines are of others; {MOST_HOSTS} are told apart");
            runs[0].note("the log of more machines than can be told apart", why, "give the lines of one machine");
        }
        runs
    }
}

/// Whether two names are of one machine: with or without its domain.
fn is_same(a: &str, b: &str) -> bool {
    let is_longer = |long: &str, short: &str| {
        long.len() > short.len()
            && long.as_bytes()[short.len()] == b'.'
            && long[..short.len()].eq_ignore_ascii_case(short)
    };
    let is_name = |name: &str| !name.starts_with(|c: char| c.is_ascii_digit());
    a.eq_ignore_ascii_case(b) || (is_name(a) && is_name(b) && (is_longer(a, b) || is_longer(b, a)))
}
