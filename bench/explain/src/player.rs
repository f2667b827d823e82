//! Plays clips into a recording, one sample per second.

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
/// Length of a clock tick in a process's start time (USER_HZ, which is 100 wherever Linux runs today).
const TICK_NS: u64 = 10_000_000;
/// Maximum number of samples waiting for the disk; the recorder misses those beyond sixty.
const MOST_WAITING: usize = 30;

/// A recording made of clips.
///
/// Each sample is played a second after the one before. Counters continue from their current values and grow as they
/// did in the clip; entities that began within a clip (a process, a line of the log) start again each time it is played.
pub struct Player {
    recorder: Recorder,
    epoch: Instant,
    seconds: u64,
    wall_ns: i64,
    boot_ns: u64,
    /// Everything played so far, with the current values of its counters.
    known: Snapshot,
    lines: u64,
}

impl Player {
    /// Begins a recording in a folder, at this wall-clock time, on a machine with this uptime, which must be longer
    /// than that of any clip.
    pub fn begin(folder: &Path, wall_ns: i64, boot_ns: u64) -> Result<Self, StoreError> {
        let retention = Retention { time: Duration::from_secs(365 * 86_400), bytes: u64::MAX, ..Retention::default() };
        let log = Arc::new(|line: &str| eprintln!("recorder: {line}"));
        let recorder = Recorder::begin(folder, Duration::from_secs(1), retention, log)?.judged_by(judge())?;
        let (epoch, known) = (Instant::now(), Snapshot::default());
        Ok(Self { recorder, epoch, seconds: 0, wall_ns, boot_ns, known, lines: 0 })
    }

    /// Returns the number of seconds played.
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
        // Entities that began within the clip do not come back.
        self.known.each_family(&mut Forget { since: self.boot_ns / TICK_NS });
    }

    fn add(&mut self, mut sample: Snapshot) {
        // Set a separate boot id, because the clips come from several boots.
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

/// Returns a judge like that of `whyslow record`.
fn judge() -> Judge {
    let book = RuleBook::built_in();
    Judge { rules: book.fingerprint(), findings: Box::new(move |window| recorded_findings(window, &book)) }
}

/// Makes a clip's sample continue from what was played before.
struct Carry<'p> {
    /// Newest rows of the clip.
    before: &'p mut Snapshot,
    known: &'p mut Snapshot,
    /// Start of the clip in ticks: a task that started later began within it.
    born: u64,
    /// Time from making to playing the clip, in nanoseconds.
    later: u64,
    /// Offset added to the numbers of log lines.
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
    /// Returns the key, adjusted for this playback, of an entity that began within the clip.
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

/// Continues the counters of a row from their current values, by their growth in the clip.
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

/// Shifts the time in a log line, which records when it was written.
fn later<F: Family>(line: &mut F, by: u64) {
    let column = F::INFO.metrics.iter().position(|metric| metric.name == "time");
    let Some(Value::Counter(time)) = column.and_then(|column| line.value(column)) else { return };
    if let (Some(column), Some(time)) = (column, time.get()) {
        line.put(column, Value::Counter((time + by).into()));
    }
}

/// Removes entities that began at this tick or later.
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
