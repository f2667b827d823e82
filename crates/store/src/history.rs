//! The newest samples in memory, encoded like the tail of a recording: unchanged values take no space, and the size of
//! the rest is known exactly.

use crate::frame::FrameEncoder;
use crate::recorder::{MOST_BYTES, MOST_TIMES, drop_noise};
use crate::recording::each_reading_of_tail;
use crate::schema::{TimeRange, tables};
use crate::segment::TailByEntity;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use whyslow_model::row::{ColumnReading, ColumnSelection, SampleTime};
use whyslow_model::snapshot::Snapshot;

/// Maximum number of samples in a part: reading one of its samples decodes all of them.
const MOST_SAMPLES: usize = 300;

/// Limits of a history. The oldest part is dropped first; the newest is never dropped.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Age above which samples are dropped, five minutes' worth at a time.
    pub time: Duration,
    /// Maximum size of all samples together.
    pub bytes: usize,
}

/// The newest samples of one boot.
pub struct History {
    limits: HistoryLimits,
    encoder: FrameEncoder,
    /// Runs of consecutive samples. The first of each run is complete; the others are encoded relative to the one
    /// before.
    blocks: VecDeque<Block>,
    /// Number of times that sampling was restarted.
    restarts: usize,
}

#[derive(Clone, Default)]
struct Block {
    times: Vec<SampleTime>,
    frames: Vec<Arc<[u8]>>,
    bytes: usize,
}

impl Block {
    fn is_full(&self) -> bool {
        let first = self.frames.first().map_or(0, |frame| frame.len());
        self.times.len() >= MOST_SAMPLES || self.bytes >= MOST_BYTES.max(MOST_TIMES * first)
    }

    fn span(&self) -> Option<TimeRange> {
        Some(self.times.first()?.at..=self.times.last()?.at)
    }
}

impl History {
    /// Creates a history without samples.
    pub fn new(limits: HistoryLimits) -> Self {
        Self { limits, encoder: FrameEncoder::default(), blocks: VecDeque::new(), restarts: 0 }
    }

    /// Treats the next samples as those of another boot: values counted from the start of sampling start again.
    pub fn restart(&mut self) {
        self.restarts += 1;
    }

    /// Adds the next sample. Ignores one whose time since boot does not advance. If the wall clock was set back, drops
    /// all earlier samples, since their times occur again.
    pub fn add(&mut self, mut sample: Snapshot) {
        drop_noise(&mut sample);
        let time = SampleTime { at: sample.wall_ns, clock: sample.boot_ns, boot: self.restarts };
        if let Some(last) = self.newest() {
            if time.clock <= last.clock {
                return;
            }
            if time.at <= last.at {
                self.blocks.clear();
            }
        }
        if self.blocks.back().is_none_or(Block::is_full) {
            self.encoder = FrameEncoder::default();
            self.blocks.push_back(Block::default());
        }
        let frame: Arc<[u8]> = self.encoder.encode(sample).into();
        if let Some(block) = self.blocks.back_mut() {
            block.times.push(time);
            block.bytes += frame.len() + size_of::<(SampleTime, Arc<[u8]>)>();
            block.frames.push(frame);
        }
        self.drop_old(time.clock);
    }

    fn drop_old(&mut self, now: u64) {
        let time = u64::try_from(self.limits.time.as_nanos()).unwrap_or(u64::MAX);
        let is_old = |block: &Block| block.times.last().is_none_or(|last| now.saturating_sub(last.clock) > time);
        while self.blocks.len() > 1 && (self.bytes() > self.limits.bytes || self.blocks.front().is_some_and(is_old)) {
            self.blocks.pop_front();
        }
    }

    /// Returns the memory that the samples take, in bytes.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes).sum()
    }

    /// Returns the times of the first and last samples, nanoseconds since 1970, to the millisecond; `None` without
    /// samples.
    pub fn span(&self) -> Option<TimeRange> {
        let first = self.blocks.front()?.times.first()?.at;
        Some(first..=self.newest()?.at)
    }

    fn newest(&self) -> Option<SampleTime> {
        self.blocks.back()?.times.last().copied()
    }

    /// Returns the samples of a span. This is cheap; reading the samples decodes them.
    pub fn part(&self, span: TimeRange) -> HistoryPart {
        let overlaps = |block: &&Block| {
            block.span().is_some_and(|times| times.start() <= span.end() && span.start() <= times.end())
        };
        HistoryPart { blocks: self.blocks.iter().filter(overlaps).cloned().collect(), span }
    }
}

/// Part of the samples of a [`History`], which can grow while the part is read.
pub struct HistoryPart {
    blocks: Vec<Block>,
    span: TimeRange,
}

impl HistoryPart {
    /// Returns the times of its samples.
    pub fn times(&self) -> Vec<SampleTime> {
        let all = self.blocks.iter().flat_map(|block| &block.times);
        all.filter(|time| self.span.contains(&time.at)).copied().collect()
    }

    /// Passes on readings with the position of their selection; those of an entity are in order of time.
    pub fn each_reading(&self, selections: &[ColumnSelection], mut each: impl FnMut(usize, ColumnReading<'_>)) {
        let tables = tables();
        let mut next = 0;
        for block in &self.blocks {
            let samples = TailByEntity::of_frames(&tables, block.frames.iter());
            let position = |at: &i64| {
                let position = self.span.contains(at).then_some(next)?;
                next += 1;
                Some(position)
            };
            let positions: Vec<Option<usize>> = samples.times.iter().map(position).collect();
            each_reading_of_tail(&samples, &tables, &positions, selections, &mut each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::{Disk, Family};
    use whyslow_model::key::KeyPart;
    use whyslow_model::value::Value;

    const SECOND: u64 = 1_000_000_000;
    const LIMITS: HistoryLimits = HistoryLimits { time: Duration::from_secs(3600), bytes: 1 << 20 };

    /// Creates the sample taken at 1000 + `second` seconds after 1970, with a disk that completed `reads` reads.
    fn sample(second: u64, reads: u64) -> Snapshot {
        let wall_ns = ((1000 + second) * SECOND + 123_456) as i64;
        let mut sample = Snapshot { wall_ns, boot_ns: (10 + second) * SECOND, ..Snapshot::default() };
        sample.block.disk.push(Disk { reads: reads.into(), ..Disk::new("sda".into()) });
        if second >= 5 {
            sample.block.disk.push(Disk { reads: 7.into(), ..Disk::new("sdb".into()) });
        }
        sample
    }

    fn of_reads() -> Vec<ColumnSelection> {
        let column = Disk::INFO.metrics.iter().position(|metric| metric.name == "reads").unwrap();
        vec![ColumnSelection { family: Disk::INFO.name, metrics: vec![column], samples: None }]
    }

    /// Returns the samples that have this disk, and its reads in each.
    fn reads(part: &HistoryPart, disk: &str) -> Vec<(usize, u64)> {
        let mut all = Vec::new();
        part.each_reading(&of_reads(), |selection, reading| {
            assert_eq!(selection, 0);
            let [Value::Counter(reads)] = reading.values else { panic!("{reading:?}") };
            if reading.key == [KeyPart::Text(disk.into())] {
                all.extend((reading.sample..=reading.until).map(|sample| (sample, reads.get().unwrap())));
            }
        });
        all
    }

    fn seconds(part: &HistoryPart) -> Vec<i64> {
        part.times().iter().map(|time| time.at / SECOND as i64 - 1000).collect()
    }

    #[test]
    fn samples_read_back_over_the_ends_of_blocks() {
        let mut history = History::new(LIMITS);
        (0..700).for_each(|second| history.add(sample(second, 10 * second)));
        assert_eq!(history.blocks.len(), 3, "300, 300 and 100");
        assert_eq!(history.span(), Some(1000 * SECOND as i64..=1699 * SECOND as i64), "to the millisecond");
        let part = history.part(1298 * SECOND as i64..=1301 * SECOND as i64);
        assert_eq!(seconds(&part), [298, 299, 300, 301]);
        assert_eq!(reads(&part, "sda"), [(0, 2980), (1, 2990), (2, 3000), (3, 3010)]);
        let start = history.part(i64::MIN..=1006 * SECOND as i64);
        assert_eq!(reads(&start, "sdb"), [(5, 7), (6, 7)]);
        assert_eq!(seconds(&history.part(2000 * SECOND as i64..=i64::MAX)), [0; 0]);
    }

    #[test]
    fn it_is_bounded_in_time_and_memory() {
        let mut history = History::new(HistoryLimits { time: Duration::from_secs(400), ..LIMITS });
        (0..1000).for_each(|second| history.add(sample(second, second)));
        // The newest is 999; the block that ends at 599 is 400 s old, the one that ends at 299 older.
        assert_eq!(history.span().map(|span| span.start() / SECOND as i64), Some(1300));
        let bytes = 40_000;
        let mut history = History::new(HistoryLimits { bytes, ..LIMITS });
        for second in 0..3000 {
            history.add(sample(second, second * second));
            assert!(history.bytes() <= bytes, "{}", history.bytes());
        }
        assert!(history.span().is_some_and(|span| span.end() - span.start() > 200 * SECOND as i64));
    }

    #[test]
    fn what_counts_anew_is_of_another_boot() {
        let mut history = History::new(LIMITS);
        history.add(sample(0, 0));
        history.restart();
        history.add(sample(1, 1));
        let times = history.part(i64::MIN..=i64::MAX).times();
        assert_eq!(times.iter().map(|time| time.boot).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_clock_that_is_set_back_starts_anew_and_the_same_sample_counts_once() {
        let mut history = History::new(LIMITS);
        (0..3).for_each(|second| history.add(sample(second, second)));
        history.add(sample(2, 99));
        assert_eq!(reads(&history.part(i64::MIN..=i64::MAX), "sda"), [(0, 0), (1, 1), (2, 2)]);
        let set_back = Snapshot { wall_ns: 500 * SECOND as i64, ..sample(3, 3) };
        history.add(set_back);
        history.add(Snapshot { wall_ns: 501 * SECOND as i64, ..sample(4, 4) });
        assert_eq!(seconds(&history.part(i64::MIN..=i64::MAX)), [-500, -499]);
    }
}
