//! The kernel's log as a whole.

use crate::kernel_log::{self, oom};
use whyslow_model::catalogue::LogRead;
use whyslow_model::kernel_log::ALARMS;
use whyslow_model::window::Window;

/// What is counted over the whole log.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Logged {
    /// Lines that were read; unknown while the log is followed live.
    pub lines: Option<f64>,
    /// Lines with words of alarm in them.
    pub alarms: f64,
    /// Processes killed because the machine ran out of memory. Where a control group did, other processes had no part in it.
    pub kills: f64,
    /// Memory ran out, and there was no process left to kill.
    pub no_victim: f64,
}

impl Logged {
    /// Over a window; `None` where there is no log.
    pub fn of(window: &Window) -> Option<Self> {
        let lines = window.newest::<LogRead>().values().filter_map(|read| read.lines.get()).reduce(|a, b| a + b);
        let said = kernel_log::lines(window);
        if lines.is_none() && said.is_empty() {
            return None;
        }
        let alarming = said.iter().filter(|s| ALARMS.iter().any(|words| s.text.contains(words)));
        let kills = oom::kills(said.iter().copied());
        let of_machine = kills.iter().filter(|kill| !kill.in_group);
        Some(Self {
            lines,
            alarms: alarming.map(|s| s.times).sum(),
            kills: of_machine.map(|kill| kill.times).sum(),
            no_victim: oom::without_victim(said.iter().copied()),
        })
    }
}
