//! Computes how long commands to a device were held up: a lower bound, from what the log shows.

use crate::kernel_log::storage::Event;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{LogLine, LogRead};
use whyslow_model::window::Window;

/// Line numbers hold the number of the file from this bit on (`Lines::sequence` of the room `import`).
const FILE: u32 = 32;
/// Seconds in a year. A log without years that goes back by more than half of it has come to the next year.
const YEAR: f64 = 366.0 * 86_400.0;

/// Returns the file that an event was logged in.
pub fn file_of(event: &Event) -> u64 {
    event.sequence >> FILE
}

/// The log's lines, and the time that they cover.
pub struct Clock<'w> {
    log: &'w BTreeMap<u64, &'w LogLine>,
    /// Start of the observation, where the log was followed live: earlier lines do not belong to this window.
    begin: Option<f64>,
    /// Seconds that the log covers.
    pub span: Option<f64>,
}

impl<'w> Clock<'w> {
    /// Creates the clock of a window's log.
    pub fn from_window(window: &Window, log: &'w BTreeMap<u64, &'w LogLine>) -> Self {
        let reads = window.newest::<LogRead>();
        let of_files = reads.values().filter_map(|read| read.span.get()).reduce(f64::max).map(|ns| ns / 1e9);
        let live = reads.is_empty() && window.seconds() > 0.0;
        let begin = window.snapshots().first().filter(|_| live).map(|s| s.boot_ns as f64 / 1e9);
        Self { log, begin, span: if live { Some(window.seconds()) } else { of_files } }
    }

    /// Returns the time of a line, in seconds on a clock that the lines of its file share.
    pub fn at(&self, event: &Event) -> Option<f64> {
        let line = self.log.get(&event.sequence)?;
        line.clock.get().or(line.time.get().map(|ns| ns as f64)).map(|ns| ns / 1e9)
    }

    /// Returns the seconds in which a command that failed was in flight to the part: the union of the times before each line
    /// that reports the age of its command. Returns `None` if no line does.
    pub fn held_up(&self, events: &[&Event]) -> Option<f64> {
        let mut held_up = None;
        let mut before: Option<(u64, f64)> = None;
        for event in events {
            let Some((mut at, held)) = self.at(event).zip(event.held) else { continue };
            let file = file_of(event);
            let last = before.filter(|(other, _)| *other == file).map(|(_, at)| at).or(self.begin);
            if last.is_some_and(|last| at < last - YEAR / 2.0) {
                at += YEAR;
            }
            let free = last.map_or(held, |last| (at - last).max(0.0));
            held_up = Some(held_up.unwrap_or(0.0) + held.min(free));
            before = Some((file, last.map_or(at, |last| at.max(last))));
        }
        held_up
    }

    /// Returns that time as a share of the time that the log covers. Returns `None` if the log covers no more: it was cut out
    /// around an error.
    pub fn share(&self, events: &[&Event]) -> Option<f64> {
        let (held_up, span) = self.held_up(events).zip(self.span)?;
        let live = self.begin.is_some();
        (held_up > 0.0 && (live || held_up < span)).then(|| (held_up / span).min(1.0))
    }
}
