//! When a cause began and ended, to a second or two.

use super::look::times;
use std::time::Duration;
use whyslow_diagnose::{Lasting, RuleBook, diagnose};
use whyslow_model::catalogue::{Brief, EachFamily, Family, LogLine, MachineInfo};
use whyslow_model::diagnosis::Origin;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;
use whyslow_store::{Recording, StoreError};

/// The length of the windows that tell it, nanoseconds: the shortest in which the rules see what they need.
const SHORT_NS: u64 = 4 * 1_000_000_000;
/// As a part of the impact where it was worst: a window of which a cause fills a second is not taken for one it began in.
const PART: f64 = 0.3;
/// How far from the edge of the windows it was found in a cause can begin or end, nanoseconds.
const EDGE_NS: i64 = 12 * 1_000_000_000;
/// What lasts no longer than this is read once, for both of its ends; nanoseconds.
const ONCE_NS: i64 = 60 * 1_000_000_000;

/// The first and the last of the short windows in which a cause is felt as much as matters against where it was worst.
pub fn refined(recording: &Recording, lasting: &Lasting, book: &RuleBook) -> Result<(i64, i64), StoreError> {
    let (start, end) = lasting.span;
    let of = |window| Edge { window, lasting, book };
    let (began, ended) = if end - start <= ONCE_NS {
        let both = of(read(recording, start, end)?);
        (both.first(), both.last())
    } else {
        (of(read(recording, start, start)?).first(), of(read(recording, end, end)?).last())
    };
    let (began, ended) = (began.unwrap_or(start), ended.unwrap_or(end));
    Ok(if began < ended { (began, ended) } else { (start, end) })
}

/// All that was recorded from just before one time until just after another.
fn read(recording: &Recording, from: i64, to: i64) -> Result<Window, StoreError> {
    let mut all = Window::default();
    let span = from.saturating_sub(EDGE_NS)..=to.saturating_add(EDGE_NS);
    recording.each_window(&span, Duration::MAX, &|_: &str| true, |window| {
        all = window;
        true
    })?;
    Ok(all)
}

/// The time around where a cause begins or ends.
struct Edge<'e> {
    window: Window,
    lasting: &'e Lasting,
    book: &'e RuleBook,
}

impl Edge<'_> {
    /// When it is first felt.
    fn first(&self) -> Option<i64> {
        (0..self.samples()).find_map(|from| self.felt(from)).map(|times| times.0)
    }

    /// When it is last felt.
    fn last(&self) -> Option<i64> {
        (0..self.samples()).rev().find_map(|from| self.felt(from)).map(|times| times.1)
    }

    fn samples(&self) -> usize {
        self.window.snapshots().len()
    }

    /// The times of the short window from this sample on, where the cause is felt in it.
    fn felt(&self, from: usize) -> Option<(i64, i64)> {
        let window = short(self.window.snapshots(), from)?;
        let findings = diagnose(&window, Origin::Recording, self.book).findings;
        let found = findings.iter().find(|finding| finding.key() == self.lasting.key)?;
        (found.impact >= PART * self.lasting.impact).then(|| times(&window))
    }
}

/// The short window from this sample on; `None` where there are not enough samples. What was read before, and not in it, stands
/// in its first sample.
fn short(samples: &[Snapshot], from: usize) -> Option<Window> {
    let begins = samples.get(from)?.boot_ns;
    let length = samples[from..].iter().position(|sample| sample.boot_ns - begins >= SHORT_NS)?;
    let mut window = samples[from..=from + length].to_vec();
    // What is read seldom is read with what machine this is; what was read seldom before the first sample stands in that.
    let earlier = &samples[..from];
    let newest = earlier.iter().rfind(|sample| sample.the::<MachineInfo>().is_some());
    for sample in newest.into_iter().chain(earlier.first()) {
        sample.clone().each_family(&mut Standing(&mut window[0]));
    }
    Some(Window::new(window))
}

/// Rows of families that a sample lacks. What happens once does not stand.
struct Standing<'s>(&'s mut Snapshot);

impl EachFamily for Standing<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        let once = [LogLine::INFO.name, Brief::INFO.name].contains(&F::INFO.name);
        if !once && F::rows(self.0).is_empty() {
            *F::rows_mut(self.0) = std::mem::take(rows);
        }
    }
}
