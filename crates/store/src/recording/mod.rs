//! Reads a recording back.

mod closed;
mod columns;
mod extract;
mod inventory;
mod rows;
mod tail;
mod tail_cache;
mod windows;

pub use columns::SampleTimes;
pub(crate) use columns::each_reading_of_tail;
pub use extract::{Extract, unpack};
pub use windows::WindowCutter;

use crate::error::{LogFn, StoreError};
use crate::folder::{Folder, Hour, NOTHING_RECORDED};
use crate::schema::TimeRange;
use crate::segment::{FooterCache, HourFile, Segment, hour_files};
use closed::SegmentFiles;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tail_cache::{ReadTail, TailCache};
use whyslow_model::catalogue::{Family, Sample};
use whyslow_model::rename::Renamer;
use whyslow_model::snapshot::Snapshot;

/// Maximum time span in memory at once, nanoseconds: a minute of a busy machine fits into the memory of any machine.
const SLICE_NS: i64 = 60 * 1_000_000_000;

/// A folder with a recording, finished or in progress.
pub struct Recording {
    folder: Folder,
    segments: Vec<SegmentRef>,
    damage: DamageLog,
    losses: Vec<RecordedLoss>,
    footers: FooterCache,
    tails: TailCache,
    /// Replaces the names in everything that is read.
    renamer: Option<Arc<dyn Renamer>>,
}

/// Data missing from the newest samples of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedLoss {
    /// Time of the last sample before the loss, nanoseconds since 1970.
    pub at: i64,
    /// Description of the missing data.
    pub what: String,
}

/// Reports each damaged file once; the others are read.
struct DamageLog {
    log: LogFn,
    reported: Mutex<BTreeSet<String>>,
}

impl DamageLog {
    fn new(log: LogFn) -> Self {
        Self { log, reported: Mutex::default() }
    }

    /// Turns damage into `None`, and reports it.
    ///
    /// # Errors
    /// Returns errors other than damage.
    fn skip<T>(&self, result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match result {
            Err(error) if error.is_damage() => {
                self.report(format!(
                    "{error}. The file is damaged and left out; restore it from a backup, or delete it"
                ));
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    fn report(&self, what: String) {
        if self.reported.lock().unwrap_or_else(PoisonError::into_inner).insert(what.clone()) {
            (self.log)(&what);
        }
    }
}

/// Tables with rows in (nearly) every sample: they show which samples exist if the table of samples is damaged.
const FALLBACK_TABLES: [&str; 5] = ["source", "system", "cpu", "pressure", "process"];

/// Consecutive samples of one boot: a closed segment, or a tail.
#[derive(Clone, Debug)]
pub struct SegmentRef {
    /// The times of the first and last samples.
    pub span: TimeRange,
    /// The boot ID.
    pub boot: String,
    /// Time since boot at the first sample, nanoseconds.
    clock: u64,
    location: SegmentLocation,
}

#[derive(Clone, Debug)]
enum SegmentLocation {
    Closed(Hour, Segment),
    Tail(PathBuf),
}

/// The families to read, by name.
pub type Families<'f> = dyn Fn(&str) -> bool + 'f;

impl Recording {
    /// Returns whether a folder has the files of a recording. Reads only their names.
    pub fn is_in(folder: &Path) -> bool {
        Folder::open(folder).is_ok_and(|folder| folder.has_samples())
    }

    /// Opens a recording.
    ///
    /// # Errors
    /// Fails if it cannot be read, or is empty.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with_log(path, Arc::new(|_: &str| {}))
    }

    /// Opens a recording. Reports damaged files to `log`, and leaves them out.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_with_log(path: &Path, log: LogFn) -> Result<Self, StoreError> {
        let damage = DamageLog::new(log);
        let (footers, tails) = (FooterCache::default(), TailCache::default());
        let mut losses = Vec::new();
        let folder = Folder::open(path)?;
        // Reads tails first: a tail that is closed in the meantime is then found among the hours.
        let mut all = Vec::new();
        let mut unreadable = None;
        for tail in folder.tails()? {
            match tails.get(&tail) {
                Err(error) if error.is_damage() => unreadable = unreadable.or(Some(error)),
                other => {
                    let Some(read) = other? else { continue };
                    losses.extend(losses_of(&tail, &read, &damage));
                    all.extend(tail_segment(&tail, &read));
                }
            }
        }
        let open_tails: BTreeSet<i64> = all.iter().map(|s: &SegmentRef| *s.span.start()).collect();
        for hour in folder.hours()?.into_keys() {
            for segment in segments(&folder, &hour, &footers, &damage)? {
                if !open_tails.contains(&segment.start) {
                    all.push(SegmentRef {
                        span: segment.start..=segment.end,
                        boot: segment.boot.clone(),
                        clock: segment.clock,
                        location: SegmentLocation::Closed(hour.clone(), segment),
                    });
                }
            }
        }
        sort(&mut all);
        if let Some(error) = unreadable {
            if all.is_empty() {
                return Err(error);
            }
            damage.skip::<()>(Err(error))?;
        }
        if all.is_empty() {
            return Err(StoreError::invalid(path, NOTHING_RECORDED));
        }
        Ok(Self { folder, segments: all, damage, losses, footers, tails, renamer: None })
    }

    /// Replaces the names in everything that is read from the recording.
    pub fn renamed_by(self, renamer: Arc<dyn Renamer>) -> Self {
        Self { renamer: Some(renamer), ..self }
    }

    /// Returns its folder; `None` if names are replaced, since other files in the folder have the real ones.
    pub fn path(&self) -> Option<&Path> {
        self.renamer.is_none().then(|| self.folder.path())
    }

    /// Returns the losses among its newest samples that no recorder has reported in the recording itself.
    pub fn losses(&self) -> &[RecordedLoss] {
        &self.losses
    }

    /// Returns all segments, oldest first.
    pub fn segments(&self) -> &[SegmentRef] {
        &self.segments
    }

    /// Returns the times of the first and last samples.
    pub fn span(&self) -> TimeRange {
        let start = self.segments.iter().map(|segment| *segment.span.start()).min().unwrap_or(0);
        let end = self.segments.iter().map(|segment| *segment.span.end()).max().unwrap_or(start);
        start..=end
    }

    /// Returns whether all files of a span still exist. A recorder turns a tail into other files, and deletes the
    /// oldest hour: data read in the meantime may lack samples.
    pub fn is_current(&self, span: &TimeRange) -> bool {
        let mut segments = self.segments.iter().filter(|segment| windows::overlap(&segment.span, span));
        segments.all(|segment| match &segment.location {
            SegmentLocation::Closed(hour, _) => {
                let mut tables = std::iter::once(Sample::INFO.name).chain(FALLBACK_TABLES);
                tables.any(|table| hour_files(&self.folder, table, hour, &self.footers).next().is_some())
            }
            SegmentLocation::Tail(path) => path.exists(),
        })
    }

    /// Returns the samples of a span, oldest first. All of them are in memory, so the span should be a few minutes at
    /// most.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn snapshots(&self, span: &TimeRange, families: &Families<'_>) -> Result<Vec<Snapshot>, StoreError> {
        let mut all = Vec::new();
        for segment in self.segments.iter().filter(|segment| windows::overlap(&segment.span, span)) {
            all.extend(self.read(segment, span, families)?);
        }
        Ok(all)
    }

    fn read(
        &self,
        segment: &SegmentRef,
        span: &TimeRange,
        families: &Families<'_>,
    ) -> Result<Vec<Snapshot>, StoreError> {
        let mut samples = self.read_stored(segment, span, families)?;
        if let Some(renamer) = &self.renamer {
            samples.iter_mut().for_each(|sample| sample.rename(&**renamer));
        }
        Ok(samples)
    }

    /// Reads samples with the names as stored.
    fn read_stored(
        &self,
        segment: &SegmentRef,
        span: &TimeRange,
        families: &Families<'_>,
    ) -> Result<Vec<Snapshot>, StoreError> {
        match &segment.location {
            SegmentLocation::Tail(path) => match self.tails.get(path)? {
                Some(tail) => Ok(tail::snapshots(&tail, span, families)),
                None => self.read_closed_since(segment, span, families),
            },
            SegmentLocation::Closed(hour, closed) => closed::read(self.files(hour, closed), span, families),
        }
    }

    /// Reads a tail that was closed after the recording was opened.
    fn read_closed_since(
        &self,
        tail: &SegmentRef,
        span: &TimeRange,
        families: &Families<'_>,
    ) -> Result<Vec<Snapshot>, StoreError> {
        let hour = Hour::from_ns(*tail.span.start());
        let segments = segments(&self.folder, &hour, &self.footers, &self.damage)?;
        if let Some(segment) = segments.iter().find(|segment| segment.start == *tail.span.start()) {
            return closed::read(self.files(&hour, segment), span, families);
        }
        // It has expired.
        Ok(Vec::new())
    }

    fn files<'a>(&'a self, hour: &'a Hour, segment: &'a Segment) -> SegmentFiles<'a> {
        SegmentFiles { folder: &self.folder, hour, segment, footers: &self.footers, damage: &self.damage }
    }
}

/// Returns the segments of an hour, as listed by the table of samples, or by other tables if it is damaged.
fn segments(
    folder: &Folder,
    hour: &Hour,
    footers: &FooterCache,
    damage: &DamageLog,
) -> Result<Vec<Segment>, StoreError> {
    let mut segments: BTreeMap<i64, Segment> = BTreeMap::new();
    for table in std::iter::once(Sample::INFO.name).chain(FALLBACK_TABLES) {
        let mut intact = true;
        for file in hour_files(folder, table, hour, footers) {
            let file = damage.skip(file)?;
            intact &= file.is_some();
            for segment in file.iter().flat_map(HourFile::segments) {
                segments.entry(segment.start).or_insert_with(|| segment.clone());
            }
        }
        if intact && !segments.is_empty() {
            break;
        }
    }
    Ok(segments.into_values().collect())
}

/// Sorts by boot, then by time since boot: the wall clock may have been set back.
fn sort(segments: &mut [SegmentRef]) {
    let mut boots: BTreeMap<String, i64> = BTreeMap::new();
    for segment in segments.iter() {
        let first = boots.entry(segment.boot.clone()).or_insert(i64::MAX);
        *first = (*first).min(*segment.span.start());
    }
    segments.sort_by(|a, b| (boots[&a.boot], &a.boot, a.clock).cmp(&(boots[&b.boot], &b.boot, b.clock)));
}

/// Returns a tail as a segment; `None` if it is still empty.
fn tail_segment(path: &Path, tail: &ReadTail) -> Option<SegmentRef> {
    let samples = &tail.samples;
    let span = *samples.times.first()?..=*samples.times.last()?;
    let location = SegmentLocation::Tail(path.to_owned());
    Some(SegmentRef { span, boot: tail.boot.clone(), clock: *samples.clocks.first()?, location })
}

/// Returns the losses in a tail, and reports them.
fn losses_of(path: &Path, tail: &ReadTail, damage: &DamageLog) -> Vec<RecordedLoss> {
    let samples = &tail.samples;
    let lost = (samples.lost > 0).then(|| format!("{} samples are damaged beyond repair and left out", samples.lost));
    let cut = samples.is_cut.then(|| {
        "it ends in the middle of a sample, which is left out: the recorder was killed, or the file cut off".into()
    });
    let at = samples.times.last().copied().unwrap_or(0);
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let all = lost.into_iter().chain(cut);
    all.map(|what: String| {
        damage.report(format!("{}: {what}", path.display()));
        RecordedLoss { at, what: format!("{file}: {what}") }
    })
    .collect()
}

#[cfg(test)]
mod version_tests;
