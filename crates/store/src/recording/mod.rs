//! Reading a recording back.

mod closed;
mod each_row;
mod rows;
mod scan;
mod tail;
mod windows;

pub use each_row::{AnyRow, families};
pub use scan::Lookout;

use crate::error::StoreError;
use crate::folder::{Folder, Hour};
use crate::recorder::Log;
use crate::segment::{Segment, hour_files};
use crate::tail::TailReader;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use whyslow_model::catalogue::{Family, Sample};
use whyslow_model::snapshot::Snapshot;

/// Times, nanoseconds since 1970.
pub type Span = RangeInclusive<i64>;

/// As much is read at once, nanoseconds: what a busy machine says in a minute fits the memory of any.
const SLICE_NS: i64 = 60 * 1_000_000_000;

/// A folder that was recorded into, or is being.
pub struct Recording {
    folder: Folder,
    stretches: Vec<Stretch>,
    damage: Damage,
}

/// Files that cannot be read, each said once; the others are.
struct Damage {
    log: Log,
    said: Mutex<BTreeSet<String>>,
}

impl Damage {
    fn new(log: Log) -> Self {
        Self { log, said: Mutex::default() }
    }

    /// Says that a file is damaged, and passes over it.
    ///
    /// # Errors
    /// What is no damage.
    fn pass_over<T>(&self, result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match result {
            Err(error) if error.is_damage() => {
                self.say(format!("{error}. The file is damaged and left out; restore it from a backup, or delete it"));
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    fn say(&self, what: String) {
        if self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(what.clone()) {
            (self.log)(&what);
        }
    }
}

/// Tables that have a row of every sample, or nearly so: they tell what samples there were where the table that has them all
/// is damaged.
const STAND_INS: [&str; 5] = ["source", "system", "cpu", "pressure", "process"];

/// Consecutive samples of one boot.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// When they were begun: the first, and the last.
    pub span: Span,
    /// The kernel's name for the boot.
    pub boot: String,
    /// Time since boot at the first sample, nanoseconds.
    clock: u64,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Closed(Hour, Segment),
    Tail(PathBuf),
}

/// Which families to read, by name.
pub trait Families {
    /// Whether this one is wanted.
    fn wants(&self, family: &str) -> bool;
}

impl<F: Fn(&str) -> bool> Families for F {
    fn wants(&self, family: &str) -> bool {
        self(family)
    }
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// Where it cannot be read, or there is nothing in it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_telling(path, Arc::new(|_: &str| {}))
    }

    /// Opens a recording, and tells `log` of damaged files, which are left out.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_telling(path: &Path, log: Log) -> Result<Self, StoreError> {
        let damage = Damage::new(log);
        let folder = Folder::open(path)?;
        // Tails first: one that is closed meanwhile is found among the hours.
        let mut stretches = Vec::new();
        let mut unreadable = None;
        for tail in folder.tails()? {
            match tail_stretch(&tail, &damage) {
                Err(error) if error.is_damage() => unreadable = unreadable.or(Some(error)),
                other => stretches.extend(other?),
            }
        }
        let running: BTreeSet<i64> = stretches.iter().map(|s: &Stretch| *s.span.start()).collect();
        for hour in folder.hours()?.into_keys() {
            for segment in segments(&folder, &hour, &damage)? {
                if !running.contains(&segment.start) {
                    stretches.push(Stretch {
                        span: segment.start..=segment.end,
                        boot: segment.boot.clone(),
                        clock: segment.clock,
                        place: Place::Closed(hour.clone(), segment),
                    });
                }
            }
        }
        sort(&mut stretches);
        if let Some(error) = unreadable {
            if stretches.is_empty() {
                return Err(error);
            }
            damage.pass_over::<()>(Err(error))?;
        }
        if stretches.is_empty() {
            return Err(StoreError::senseless(path, "nothing was recorded here; 'whyslow record' does"));
        }
        Ok(Self { folder, stretches, damage })
    }

    /// What there is, oldest first.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// From the first sample to the last.
    pub fn span(&self) -> Span {
        let start = self.stretches.iter().map(|stretch| *stretch.span.start()).min().unwrap_or(0);
        let end = self.stretches.iter().map(|stretch| *stretch.span.end()).max().unwrap_or(start);
        start..=end
    }

    /// The samples of a span, oldest first, with the families that are wanted. A span of a few minutes at most: all are
    /// held in memory.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn snapshots(&self, span: &Span, families: &dyn Families) -> Result<Vec<Snapshot>, StoreError> {
        let mut all = Vec::new();
        for stretch in self.stretches.iter().filter(|stretch| windows::overlap(&stretch.span, span)) {
            all.extend(self.read(stretch, span, families)?);
        }
        Ok(all)
    }

    fn read(&self, stretch: &Stretch, span: &Span, families: &dyn Families) -> Result<Vec<Snapshot>, StoreError> {
        match &stretch.place {
            Place::Tail(path) => match tail::read(path, span, families) {
                Err(error) if error.kind() == Some(ErrorKind::NotFound) => {
                    self.read_closed_since(stretch, span, families)
                }
                other => other,
            },
            Place::Closed(hour, segment) => closed::read(&self.folder, hour, segment, span, families, &self.damage),
        }
    }

    /// A tail that was closed since the recording was opened.
    fn read_closed_since(
        &self,
        tail: &Stretch,
        span: &Span,
        wanted: &dyn Families,
    ) -> Result<Vec<Snapshot>, StoreError> {
        let hour = Hour::of(*tail.span.start());
        let segments = segments(&self.folder, &hour, &self.damage)?;
        if let Some(segment) = segments.iter().find(|segment| segment.start == *tail.span.start()) {
            return closed::read(&self.folder, &hour, segment, span, wanted, &self.damage);
        }
        // Retention took it.
        Ok(Vec::new())
    }
}

/// The segments of an hour, as the table of samples names them; where that is damaged, as others do.
fn segments(folder: &Folder, hour: &Hour, damage: &Damage) -> Result<Vec<Segment>, StoreError> {
    let mut segments: BTreeMap<i64, Segment> = BTreeMap::new();
    for table in std::iter::once(Sample::INFO.name).chain(STAND_INS) {
        let mut whole = true;
        for file in hour_files(folder, table, hour) {
            let file = damage.pass_over(file)?;
            whole &= file.is_some();
            for segment in file.into_iter().flat_map(|file| file.segments) {
                segments.entry(segment.start).or_insert(segment);
            }
        }
        if whole && !segments.is_empty() {
            break;
        }
    }
    Ok(segments.into_values().collect())
}

/// Sorts by boot, and within a boot by the time since then: the wall clock may have been set back.
fn sort(stretches: &mut [Stretch]) {
    let mut boots: BTreeMap<String, i64> = BTreeMap::new();
    for stretch in stretches.iter() {
        let first = boots.entry(stretch.boot.clone()).or_insert(i64::MAX);
        *first = (*first).min(*stretch.span.start());
    }
    stretches.sort_by(|a, b| (boots[&a.boot], &a.boot, a.clock).cmp(&(boots[&b.boot], &b.boot, b.clock)));
}

/// The stretch of a tail; `None` where nothing is in it yet, or it has just been closed.
fn tail_stretch(path: &Path, damage: &Damage) -> Result<Option<Stretch>, StoreError> {
    let reader = match TailReader::open(path) {
        Err(error) if error.kind() == Some(ErrorKind::NotFound) => return Ok(None),
        other => other?,
    };
    let Some(mut reader) = reader else { return Ok(None) };
    let boot = reader.header().boot.clone();
    let extent = tail::extent(&mut reader);
    if let lost @ 1.. = reader.lost() {
        damage.say(format!("{}: {lost} samples are damaged beyond repair and left out", path.display()));
    }
    Ok(extent.map(|(span, clock)| Stretch { span, boot, clock, place: Place::Tail(path.to_owned()) }))
}

#[cfg(test)]
mod version_tests;
