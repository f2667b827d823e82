//! How long commands to a device were held up: a lower bound, from what the log shows.

use crate::kernel_log::storage::Event;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{LogLine, LogRead};
use whyslow_model::window::Window;

/// A file's lines are numbered from its place among the files on (`Lines::sequence` of the room `import`).
const FILE: u32 = 32;
/// A log without years that goes back by more than half of one has come to the next.
const YEAR: f64 = 366.0 * 86_400.0;

/// The file that an event was logged in.
pub fn file_of(event: &Event) -> u64 {
    event.sequence >> FILE
}

/// The log's lines, and the time they cover.
pub struct Clock<'w> {
    log: &'w BTreeMap<u64, &'w LogLine>,
    /// When observing began, where the log was followed live: what was before is not of this window.
    begin: Option<f64>,
    /// Seconds the log covers.
    pub span: Option<f64>,
}

impl<'w> Clock<'w> {
    /// Over the log of a window.
    pub fn of(window: &Window, log: &'w BTreeMap<u64, &'w LogLine>) -> Self {
        let reads = window.newest::<LogRead>();
        let of_files = reads.values().filter_map(|read| read.span.get()).reduce(f64::max).map(|ns| ns / 1e9);
        let live = reads.is_empty() && window.seconds() > 0.0;
        let begin = window.snapshots().first().filter(|_| live).map(|s| s.boot_ns as f64 / 1e9);
        Self { log, begin, span: if live { Some(window.seconds()) } else { of_files } }
    }

    /// When a line was logged, in seconds on a clock that the lines of its file share.
    pub fn at(&self, event: &Event) -> Option<f64> {
        let line = self.log.get(&event.sequence)?;
        line.clock.get().or(line.time.get().map(|ns| ns as f64)).map(|ns| ns / 1e9)
    }

    /// Seconds in which a command to the part was under way that came to nothing: before each line that tells how long its
    /// command had been, the times put together. `None` where no line tells.
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

    /// The same as a share of the time the log covers. `None` if that is no longer: the log was cut out around an error.
    pub fn share(&self, events: &[&Event]) -> Option<f64> {
        let (held_up, span) = self.held_up(events).zip(self.span)?;
        let live = self.begin.is_some();
        (held_up > 0.0 && (live || held_up < span)).then(|| (held_up / span).min(1.0))
    }
}
