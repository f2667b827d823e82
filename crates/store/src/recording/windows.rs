//! A recording as consecutive windows.

use super::{Families, Recording, SLICE_NS, Span, Stretch};
use crate::error::StoreError;
use std::collections::BTreeSet;
use std::time::Duration;
use whyslow_model::catalogue::{Brief, EachFamily, Family, LogLine, Process, Sample, Thread};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

/// How long settings and inventory stand until they are read again, nanoseconds: a minute, and time to be late.
const STANDS_NS: i64 = 75 * 1_000_000_000;

impl Recording {
    /// Shows a span of any length as consecutive windows of this length, oldest first, each beginning with the sample the
    /// one before ended with. A window is of one boot; what hardly changes, and was last read before, stands in its first
    /// sample. No more than a minute is in memory at once. Ends where `each` does not want more.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn each_window(
        &self,
        span: &Span,
        length: Duration,
        families: &dyn Families,
        each: impl FnMut(Window) -> bool,
    ) -> Result<(), StoreError> {
        let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let mut cutter = Cutter::new(length_ns, each);
        let mut boot: Option<&str> = None;
        for stretch in &self.stretches {
            if boot.replace(&stretch.boot) != Some(&stretch.boot) {
                cutter.begin_boot();
                cutter.standing = self.standing_before(stretch, *span.start(), families)?;
            }
            for slice in slices(&stretch.span, span) {
                for sample in self.read(stretch, &slice, families)? {
                    cutter.add(sample);
                }
                if !cutter.goes_on {
                    return Ok(());
                }
            }
        }
        cutter.begin_boot();
        Ok(())
    }

    /// What stood at a time, where the recording of its boot began before. Tasks, which are most of a recording, are read at
    /// every sample.
    fn standing_before(&self, stretch: &Stretch, time: i64, families: &dyn Families) -> Result<Snapshot, StoreError> {
        let mut standing = Snapshot::default();
        let families = &|name: &str| name != Process::INFO.name && name != Thread::INFO.name && families.wants(name);
        let before = time.saturating_sub(STANDS_NS)..=time.saturating_sub(1);
        for older in self.stretches.iter().filter(|s| s.boot == stretch.boot && overlap(&s.span, &before)) {
            for mut sample in self.read(older, &before, families)? {
                hand_over(&mut sample, &mut standing, Which::All);
            }
        }
        Ok(standing)
    }
}

/// The parts of a stretch that are in a span, each small enough to be held in memory.
pub(super) fn slices(stretch: &Span, span: &Span) -> impl Iterator<Item = Span> + use<> {
    let (start, end) = ((*stretch.start()).max(*span.start()), (*stretch.end()).min(*span.end()));
    let next = move |from: &i64| from.checked_add(SLICE_NS);
    std::iter::successors(Some(start), next)
        .take_while(move |from| *from <= end)
        .map(move |from| from..=end.min(from.saturating_add(SLICE_NS - 1)))
}

pub(super) fn overlap(a: &Span, b: &Span) -> bool {
    a.start() <= b.end() && b.start() <= a.end()
}

/// Cuts samples into windows.
struct Cutter<E> {
    length_ns: u64,
    samples: Vec<Snapshot>,
    /// Time from the last sample but one to the last.
    step_ns: u64,
    /// The rows of each family that was read once, and not at every sample since.
    standing: Snapshot,
    each: E,
    goes_on: bool,
}

/// A step between samples that is so much longer than the one before is a gap: the recorder was not there.
const GAP: u64 = 3;

impl<E: FnMut(Window) -> bool> Cutter<E> {
    fn new(length_ns: u64, each: E) -> Self {
        Self { length_ns, samples: Vec::new(), step_ns: u64::MAX, standing: Snapshot::default(), each, goes_on: true }
    }

    fn add(&mut self, mut sample: Snapshot) {
        if let Some(last) = self.samples.last() {
            let Some(step @ 1..) = sample.boot_ns.checked_sub(last.boot_ns) else { return };
            if step > self.length_ns && step / GAP > self.step_ns {
                self.cut();
                self.samples.clear();
            }
            self.step_ns = step;
        }
        match self.samples.last_mut() {
            Some(last) => keep_standing(last, &mut sample, &mut self.standing),
            None => hand_over(&mut self.standing.clone(), &mut sample, Which::Missing),
        }
        let first = self.samples.first().map_or(sample.boot_ns, |first| first.boot_ns);
        let is_full = sample.boot_ns - first >= self.length_ns;
        self.samples.push(sample);
        if is_full {
            self.cut();
        }
    }

    /// Shows the window, and begins the next with its last sample.
    fn cut(&mut self) {
        let samples = std::mem::take(&mut self.samples);
        if let (Some(last), true) = (samples.last(), samples.len() > 1) {
            let mut next = last.clone();
            // Told in this window.
            next.kernel.log.clear();
            hand_over(&mut self.standing.clone(), &mut next, Which::Missing);
            self.goes_on = self.goes_on && (self.each)(Window::new(samples));
            self.samples.push(next);
        }
    }

    /// Shows what there is; the next sample has nothing to do with it.
    fn begin_boot(&mut self) {
        self.cut();
        self.samples.clear();
        self.step_ns = u64::MAX;
        self.standing = Snapshot::default();
    }
}

/// Which families to hand over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// All that there are rows of.
    All,
    /// Those of which the other has none.
    Missing,
}

/// Moves rows of what stands from one sample to another. What happens once does not stand: a line of the log, a process
/// that came and went.
fn hand_over(from: &mut Snapshot, to: &mut Snapshot, which: Which) {
    struct HandOver<'a>(&'a mut Snapshot, Which);
    impl EachFamily for HandOver<'_> {
        fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
            let wanted = self.1 == Which::All || F::rows(self.0).is_empty();
            if stands::<F>() && wanted && !rows.is_empty() {
                *F::rows_mut(self.0) = std::mem::take(rows);
            }
        }
    }
    from.each_family(&mut HandOver(to, which));
}

/// Remembers the rows of families that `next` does not have.
fn keep_standing(last: &mut Snapshot, next: &mut Snapshot, standing: &mut Snapshot) {
    struct Present(BTreeSet<&'static str>);
    impl EachFamily for Present {
        fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
            if !rows.is_empty() {
                self.0.insert(F::INFO.name);
            }
        }
    }
    struct Keep<'a>(&'a mut Snapshot, Present);
    impl EachFamily for Keep<'_> {
        fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
            if stands::<F>() && !rows.is_empty() && !self.1.0.contains(F::INFO.name) {
                F::rows_mut(self.0).clone_from(rows);
            }
        }
    }
    let mut present = Present(BTreeSet::new());
    next.each_family(&mut present);
    last.each_family(&mut Keep(standing, present));
}

fn stands<F: Family>() -> bool {
    ![LogLine::INFO.name, Brief::INFO.name, Sample::INFO.name].contains(&F::INFO.name)
}
