//! Reading a recording back.

mod closed;
mod rows;
mod tail;

use crate::error::StoreError;
use crate::folder::{Folder, Hour};
use crate::segment::{Segment, hour_files};
use crate::tail::TailReader;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use whyslow_model::catalogue::{Brief, EachFamily, Family, LogLine, Sample};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

/// Times, nanoseconds since 1970.
pub type Span = RangeInclusive<i64>;

/// How long settings and inventory stand until they are read again, nanoseconds: a minute, and time to be late.
const STANDS_NS: i64 = 75 * 1_000_000_000;

/// A folder that was recorded into, or is being.
pub struct Recording {
    folder: Folder,
    stretches: Vec<Stretch>,
}

/// Consecutive samples of one boot.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// When they were begun: the first, and the last.
    pub span: Span,
    /// The kernel's name for the boot.
    pub boot: String,
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
        let folder = Folder::open(path)?;
        // Tails first: one that is closed meanwhile is found among the hours.
        let mut stretches = Vec::new();
        for tail in folder.tails()? {
            stretches.extend(tail_stretch(&tail)?);
        }
        let running: BTreeSet<i64> = stretches.iter().map(|s: &Stretch| *s.span.start()).collect();
        for hour in folder.hours()?.into_keys() {
            for file in hour_files(&folder, Sample::INFO.name, &hour) {
                for segment in file?.segments.into_iter().filter(|segment| !running.contains(&segment.start)) {
                    stretches.push(Stretch {
                        span: segment.start..=segment.end,
                        boot: segment.boot.clone(),
                        place: Place::Closed(hour.clone(), segment),
                    });
                }
            }
        }
        stretches.sort_by_key(|stretch| *stretch.span.start());
        if stretches.is_empty() {
            return Err(StoreError::senseless(path, "nothing was recorded here; 'whyslow record' does"));
        }
        Ok(Self { folder, stretches })
    }

    /// What there is, oldest first.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// From the first sample to the last.
    pub fn span(&self) -> Span {
        let start = self.stretches.first().map_or(0, |stretch| *stretch.span.start());
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
        for stretch in self.stretches.iter().filter(|stretch| overlap(&stretch.span, span)) {
            all.extend(self.read(stretch, span, families)?);
        }
        Ok(all)
    }

    /// The same as windows, one for each boot. What hardly changes, and was last read before the span, stands in the first
    /// sample of each.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn windows(&self, span: &Span, families: &dyn Families) -> Result<Vec<Window>, StoreError> {
        let mut windows: Vec<(&str, Vec<Snapshot>)> = Vec::new();
        for stretch in self.stretches.iter().filter(|stretch| overlap(&stretch.span, span)) {
            let samples = self.read(stretch, span, families)?;
            match windows.last_mut() {
                Some((boot, window)) if *boot == stretch.boot => window.extend(samples),
                _ => windows.push((&stretch.boot, samples)),
            }
        }
        for (boot, window) in &mut windows {
            if let Some(first) = window.first_mut() {
                self.settle(first, boot, families)?;
            }
        }
        Ok(windows.into_iter().map(|(_, window)| Window::new(window)).collect())
    }

    fn read(&self, stretch: &Stretch, span: &Span, families: &dyn Families) -> Result<Vec<Snapshot>, StoreError> {
        match &stretch.place {
            Place::Tail(path) => match tail::read(path, span, families) {
                Err(error) if error.kind() == Some(ErrorKind::NotFound) => {
                    self.read_closed_since(stretch, span, families)
                }
                other => other,
            },
            Place::Closed(hour, segment) => closed::read(&self.folder, hour, segment, span, families),
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
        for file in hour_files(&self.folder, Sample::INFO.name, &hour) {
            if let Some(segment) = file?.segments.into_iter().find(|segment| segment.start == *tail.span.start()) {
                return closed::read(&self.folder, &hour, &segment, span, wanted);
            }
        }
        // Retention took it.
        Ok(Vec::new())
    }

    /// Gives the first sample of a window the rows that stood at that time, of families it does not have itself.
    fn settle(&self, first: &mut Snapshot, boot: &str, families: &dyn Families) -> Result<(), StoreError> {
        let missing = missing_families(first);
        let wanted = |family: &str| families.wants(family) && missing.contains(family);
        let before = first.wall_ns.saturating_sub(STANDS_NS)..=first.wall_ns.saturating_sub(1);
        let mut settled = BTreeSet::new();
        for stretch in self.stretches.iter().rev().filter(|s| s.boot == boot && overlap(&s.span, &before)) {
            for mut older in self.read(stretch, &before, &wanted)?.into_iter().rev() {
                older.each_family(&mut Settle { first: &mut *first, settled: &mut settled });
            }
        }
        Ok(())
    }
}

fn overlap(a: &Span, b: &Span) -> bool {
    a.start() <= b.end() && b.start() <= a.end()
}

/// The stretch of a tail; `None` where nothing is in it yet, or it has just been closed.
fn tail_stretch(path: &Path) -> Result<Option<Stretch>, StoreError> {
    let reader = match TailReader::open(path) {
        Err(error) if error.kind() == Some(ErrorKind::NotFound) => return Ok(None),
        other => other?,
    };
    let Some(mut reader) = reader else { return Ok(None) };
    let boot = reader.header().boot.clone();
    let span = tail::span(&mut reader);
    Ok(span.map(|span| Stretch { span, boot, place: Place::Tail(path.to_owned()) }))
}

/// The families of which a sample has no rows. What happens once does not stand: a line of the log, a process that came
/// and went.
fn missing_families(snapshot: &mut Snapshot) -> BTreeSet<&'static str> {
    struct Missing(BTreeSet<&'static str>);
    impl EachFamily for Missing {
        fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
            if rows.is_empty() {
                self.0.insert(F::INFO.name);
            }
        }
    }
    let mut missing = Missing(BTreeSet::new());
    snapshot.each_family(&mut missing);
    for event in [LogLine::INFO.name, Brief::INFO.name, Sample::INFO.name] {
        missing.0.remove(event);
    }
    missing.0
}

/// Hands rows over to a sample that has none of their family.
struct Settle<'a> {
    first: &'a mut Snapshot,
    settled: &'a mut BTreeSet<&'static str>,
}

impl EachFamily for Settle<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if !rows.is_empty() && F::rows(self.first).is_empty() && self.settled.insert(F::INFO.name) {
            *F::rows_mut(self.first) = std::mem::take(rows);
        }
    }
}
