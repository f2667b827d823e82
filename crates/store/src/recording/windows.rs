//! Reads a recording as consecutive windows.

use super::{Families, Recording, SLICE_NS, SegmentRef, TimeRange};
use crate::error::StoreError;
use std::collections::BTreeSet;
use std::time::Duration;
use whyslow_model::catalogue::{EachFamily, Family, Process, Thread};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

/// Validity of settings and inventory, with a margin, nanoseconds: they are read once a minute.
pub(super) const VALID_NS: i64 = 75 * 1_000_000_000;

impl Recording {
    /// Passes on a span of any length as consecutive windows of this length, oldest first, until `each` returns false.
    /// Each window starts with the last sample of the previous one, and lies within one boot. Its first sample also has
    /// the newest valid rows of families that are read rarely. At most a minute is in memory at once.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn each_window(
        &self,
        span: &TimeRange,
        length: Duration,
        families: &Families<'_>,
        each: impl FnMut(Window) -> bool,
    ) -> Result<(), StoreError> {
        let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let mut cutter = WindowCutter::new(length_ns, each);
        let mut boot: Option<&str> = None;
        for segment in &self.segments {
            for slice in self.slices(segment, span)? {
                let samples = self.read(segment, &slice, families)?;
                if let Some(first) = samples.first()
                    && boot.replace(&segment.boot) != Some(&segment.boot)
                {
                    cutter.end_boot();
                    cutter.carried = self.carried_before(segment, first, *span.start(), families)?;
                }
                samples.into_iter().for_each(|sample| cutter.add(sample));
                if !cutter.goes_on {
                    return Ok(());
                }
            }
        }
        cutter.end_boot();
        Ok(())
    }

    /// Returns the parts of a segment within a span that have samples, each small enough to be in memory.
    pub(super) fn slices(&self, segment: &SegmentRef, span: &TimeRange) -> Result<Vec<TimeRange>, StoreError> {
        let (start, end) = ((*segment.span.start()).max(*span.start()), (*segment.span.end()).min(*span.end()));
        if start > end {
            return Ok(Vec::new());
        }
        if end.saturating_sub(start) < SLICE_NS {
            return Ok(vec![start..=end]);
        }
        let mut times: Vec<i64> = self.clocks(segment, &(start..=end))?.into_iter().map(|(at, _)| at).collect();
        times.sort_unstable();
        let mut slices: Vec<TimeRange> = Vec::new();
        for at in times {
            match slices.last_mut() {
                Some(slice) if at.saturating_sub(*slice.start()) < SLICE_NS => *slice = *slice.start()..=at,
                _ => slices.push(at..=at),
            }
        }
        Ok(slices)
    }

    /// Returns the rows that were still valid at a time, from earlier samples of the same boot, for families that the
    /// first sample lacks. Tasks, most of a recording, are read in every sample.
    fn carried_before(
        &self,
        segment: &SegmentRef,
        first: &Snapshot,
        time: i64,
        families: &Families<'_>,
    ) -> Result<Snapshot, StoreError> {
        let mut carried = Snapshot::default();
        let present = families_of(first);
        let is_needed = |name: &str| !present.contains(name) && name != Process::INFO.name && name != Thread::INFO.name;
        let families = &|name: &str| is_needed(name) && families(name);
        let before = time.saturating_sub(VALID_NS)..=time.saturating_sub(1);
        for older in self.segments.iter().filter(|s| s.boot == segment.boot && overlap(&s.span, &before)) {
            for mut sample in self.read(older, &before, families)? {
                sample.clear_events();
                sample.carry_over(carried);
                carried = sample;
            }
        }
        Ok(carried)
    }
}

/// Returns the families that have rows in a sample.
fn families_of(sample: &Snapshot) -> BTreeSet<&'static str> {
    struct Names(BTreeSet<&'static str>);
    impl EachFamily for Names {
        fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
            if !rows.is_empty() {
                self.0.insert(F::INFO.name);
            }
        }
    }
    let mut names = Names(BTreeSet::new());
    sample.clone().each_family(&mut names);
    names.0
}

pub(super) fn overlap(a: &TimeRange, b: &TimeRange) -> bool {
    a.start() <= b.end() && b.start() <= a.end()
}

/// Cuts samples of one boot into consecutive windows, and passes each on until `each` returns false. A window starts
/// with the last sample of the previous one.
pub struct WindowCutter<E> {
    length_ns: u64,
    samples: Vec<Snapshot>,
    /// Time between the last two samples.
    step_ns: u64,
    /// Rows of families that the last sample lacks.
    carried: Snapshot,
    each: E,
    goes_on: bool,
}

/// A step between samples that exceeds the previous one by this factor is a gap: nothing was recorded.
const GAP: u64 = 3;

impl<E: FnMut(Window) -> bool> WindowCutter<E> {
    /// Creates a cutter for windows of this length, nanoseconds.
    pub fn new(length_ns: u64, each: E) -> Self {
        Self { length_ns, samples: Vec::new(), step_ns: u64::MAX, carried: Snapshot::default(), each, goes_on: true }
    }

    /// Takes the next sample; ignores it unless it is later than the last.
    pub fn add(&mut self, mut sample: Snapshot) {
        if let Some(last) = self.samples.last() {
            let Some(step @ 1..) = sample.boot_ns.checked_sub(last.boot_ns) else { return };
            if step > self.length_ns && step / GAP > self.step_ns {
                self.cut();
                self.samples.clear();
            }
            self.step_ns = step;
        }
        match self.samples.last_mut() {
            Some(last) => keep_missing(last, &sample, &mut self.carried),
            None => sample.carry_over(self.carried.clone()),
        }
        let first = self.samples.first().map_or(sample.boot_ns, |first| first.boot_ns);
        let is_full = sample.boot_ns - first >= self.length_ns;
        self.samples.push(sample);
        if is_full {
            self.cut();
        }
    }

    /// Passes on the window, and starts the next one with its last sample.
    fn cut(&mut self) {
        let samples = std::mem::take(&mut self.samples);
        if let (Some(last), true) = (samples.last(), samples.len() > 1) {
            let mut next = last.clone();
            // Its events are already in this window.
            next.clear_events();
            next.carry_over(self.carried.clone());
            self.goes_on = self.goes_on && (self.each)(Window::new(samples));
            self.samples.push(next);
        }
    }

    /// Passes on the rest: the next sample belongs to another boot.
    fn end_boot(&mut self) {
        self.cut();
        self.samples.clear();
        self.step_ns = u64::MAX;
        self.carried = Snapshot::default();
    }
}

/// Keeps the rows of families that `next` lacks.
fn keep_missing(last: &mut Snapshot, next: &Snapshot, carried: &mut Snapshot) {
    struct KeepMissing<'a>(&'a mut Snapshot, &'a Snapshot);
    impl EachFamily for KeepMissing<'_> {
        fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
            if !F::INFO.events && !rows.is_empty() && F::rows(self.1).is_empty() {
                F::rows_mut(self.0).clone_from(rows);
            }
        }
    }
    last.each_family(&mut KeepMissing(carried, next));
}
