//! Plays clips into a recording, a sample a second.

use crate::clip::Clip;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_diagnose::{RuleBook, recorded_findings};
use whyslow_model::catalogue::{EachFamily, Family, LogLine, MachineInfo};
use whyslow_model::key::{Key, KeyPart};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{State, Value};
use whyslow_store::{Judge, Recorder, Retention, StoreError};

const SECOND_NS: u64 = 1_000_000_000;
/// Clock ticks of a process' start (USER_HZ, which is 100 wherever Linux runs today).
const TICK_NS: u64 = 10_000_000;
/// Samples that may wait for the disk; the recorder misses what is beyond sixty.
const MOST_WAITING: usize = 30;

/// A recording that is being made of clips.
///
/// Each sample is played a second after the one before. Counters grow by as much as they did in the clip, from where they
/// stood; what began within a clip (a process, a line of the log) begins anew each time it is played.
pub struct Player {
    recorder: Recorder,
    epoch: Instant,
    seconds: u64,
    wall_ns: i64,
    boot_ns: u64,
    /// Everything that was ever played, and where its counters stand.
    known: Snapshot,
    lines: u64,
}

impl Player {
    /// Begins a recording in a folder, at this time of the wall clock, on a machine that has been up for so long: longer than
    /// when any of the clips was made.
    pub fn begin(folder: &Path, wall_ns: i64, boot_ns: u64) -> Result<Self, StoreError> {
        let retention = Retention { time: Duration::from_secs(365 * 86_400), bytes: u64::MAX, ..Retention::default() };
        let log = Arc::new(|line: &str| eprintln!("recorder: {line}"));
        let recorder = Recorder::begin(folder, Duration::from_secs(1), retention, log)?.judged_by(judge())?;
        let (epoch, known) = (Instant::now(), Snapshot::default());
        Ok(Self { recorder, epoch, seconds: 0, wall_ns, boot_ns, known, lines: 0 })
    }

    /// Seconds that were played.
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Plays a clip.
    pub fn play(&mut self, clip: &Clip) {
        let born = clip.before().boot_ns / TICK_NS;
        let later = clip.played().first().map_or(0, |first| self.clock().saturating_sub(first.boot_ns));
        let mut before = clip.before().clone();
        self.lines += clip.played().iter().map(|sample| sample.kernel.log.len() as u64).sum::<u64>();
        for sample in clip.played() {
            let mut played = sample.clone();
            (played.wall_ns, played.boot_ns) = (self.wall_ns + (self.seconds * SECOND_NS) as i64, self.clock());
            let mut carry = Carry { before: &mut before, known: &mut self.known, born, later, lines: self.lines };
            played.each_family(&mut carry);
            played.sort();
            self.add(played);
        }
        // What began within it does not come back.
        self.known.each_family(&mut Forget { since: self.boot_ns / TICK_NS });
    }

    fn add(&mut self, mut sample: Snapshot) {
        // A boot of its own: the clips are of several.
        sample.kernel.machine.iter_mut().for_each(|machine: &mut MachineInfo| machine.boot = State::from("played"));
        while self.recorder.waiting() > MOST_WAITING {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.recorder.add(sample, self.epoch + Duration::from_secs(self.seconds));
        self.seconds += 1;
    }

    fn clock(&self) -> u64 {
        self.boot_ns + self.seconds * SECOND_NS
    }

    /// Ends the recording.
    pub fn finish(self) -> Result<u64, String> {
        self.recorder.finish().map(|counts| counts.samples)
    }
}

/// Judges as `whyslow record` does.
fn judge() -> Judge {
    let book = RuleBook::built_in();
    Judge { rules: book.fingerprint(), findings: Box::new(move |window| recorded_findings(window, &book)) }
}

/// Makes a sample of a clip go on from what was played before.
struct Carry<'p> {
    /// The newest rows of the clip.
    before: &'p mut Snapshot,
    known: &'p mut Snapshot,
    /// When the clip began, in ticks: a task that started later began within it.
    born: u64,
    /// How much later it is played than it was made, nanoseconds.
    later: u64,
    /// What is added to the number of a line of the log.
    lines: u64,
}

impl EachFamily for Carry<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        let read = rows.clone();
        for row in rows.iter_mut() {
            let before = self.before.row::<F>(row.key()).cloned();
            if let Some(key) = self.key(row) {
                row.set_key(key);
            }
            let all = F::rows_mut(self.known);
            let at = all.binary_search_by(|known| known.key().cmp(row.key()));
            if F::INFO.name == LogLine::INFO.name {
                later(row, self.later);
                continue;
            }
            go_on(row, before.as_ref(), at.ok().map(|at| &all[at]));
            match at {
                Ok(at) => all[at].clone_from(row),
                Err(at) => all.insert(at, row.clone()),
            }
        }
        if !read.is_empty() {
            *F::rows_mut(self.before) = read;
        }
    }
}

impl Carry<'_> {
    /// The key of what began within the clip, as it is told this time.
    fn key<F: Family>(&self, row: &F) -> Option<F::Key> {
        let mut parts = Vec::new();
        row.key().take_apart(&mut parts);
        for ((name, _), part) in F::INFO.key_columns().zip(&mut parts) {
            if let KeyPart::Number(number) = part {
                match name {
                    "start" | "parent_start" if *number >= self.born => *number += self.later / TICK_NS,
                    "sequence" => *number += self.lines,
                    _ => {}
                }
            }
        }
        F::Key::put_together(&mut parts.into_iter())
    }
}

/// Sets the counters of a row to where they stood, and as much more as they grew in the clip.
fn go_on<F: Family>(row: &mut F, before: Option<&F>, known: Option<&F>) {
    for column in 0..F::INFO.metrics.len() {
        let known = known.and_then(|known| known.value(column));
        let value = match (row.value(column), before.and_then(|before| before.value(column)), known) {
            (Some(Value::Counter(now)), before, Some(Value::Counter(known))) => {
                let Some((now, known)) = now.get().zip(known.get()) else { continue };
                let grown = match before {
                    Some(Value::Counter(before)) => before.get().and_then(|before| now.checked_sub(before)),
                    _ => None,
                };
                Value::Counter((known + grown.unwrap_or(0)).into())
            }
            (Some(Value::Histogram(now)), before, Some(Value::Histogram(known))) if known.count().is_some() => {
                let grown = match before {
                    Some(Value::Histogram(before)) => now.since(&before),
                    _ => None,
                };
                Value::Histogram(grown.map_or_else(|| known.clone(), |grown| known.merged(&grown)))
            }
            _ => continue,
        };
        row.put(column, value);
    }
}

/// A line of the log says itself when it was written.
fn later<F: Family>(line: &mut F, by: u64) {
    let column = F::INFO.metrics.iter().position(|metric| metric.name == "time");
    let Some(Value::Counter(time)) = column.and_then(|column| line.value(column)) else { return };
    if let (Some(column), Some(time)) = (column, time.get()) {
        line.put(column, Value::Counter((time + by).into()));
    }
}

/// Leaves out what began at this tick or later.
struct Forget {
    since: u64,
}

impl EachFamily for Forget {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        let is_start = |name: &str| matches!(name, "start" | "parent_start");
        let starts: Vec<bool> = F::INFO.key_columns().map(|(name, _)| is_start(name)).collect();
        rows.retain(|row| {
            let mut parts = Vec::new();
            row.key().take_apart(&mut parts);
            let mut began = parts.iter().zip(&starts).filter(|(_, is_start)| **is_start);
            !began.any(|(part, _)| matches!(part, KeyPart::Number(start) if *start >= self.since))
        });
    }
}
