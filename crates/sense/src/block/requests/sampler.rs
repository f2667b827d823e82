//! Decides which share of the requests is sampled, and when.
//!
//! The request rate of the last interval determines the share of the next: most intervals are like the one before. When a burst
//! begins, the programs halve the share themselves.
//!
//! An attached program is called at every request, if only to skip it: at high rates that costs more than the sampling. In that
//! case the programs are attached for only part of each interval.

use super::failed;
use super::layout::SamplingFilter;
use crate::SourceError;
use crate::bpf::{Attached, Object, Tracepoints};
use crate::os::monotonic_ns;
use aya::maps::{Array, MapData};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Target number of sampled requests per second; each costs one to two microseconds.
const SAMPLED: f64 = 1000.0;
/// An interval samples at most this many times the target.
const HEADROOM: f64 = 2.0;
/// At this rate, calling the programs for each request costs more than attaching and detaching them once a second.
const DETACH_ABOVE: f64 = 20_000.0;
/// At high rates, requests are sampled for one part in 16 of the interval. An equally long span follows, in which the last of
/// them complete.
const DUTY: u32 = 16;
/// The shortest interval in which attaching for part of the time pays off.
const MIN_INTERVAL: Duration = Duration::from_millis(300);

pub(super) struct RequestSampler {
    programs: Programs,
    filter: FilterMap,
    /// Whether the filter is that of an idle machine and has not been used since.
    idle: bool,
    /// The attached programs and the time when they were attached (`CLOCK_MONOTONIC`); `None` at high rates.
    attached: Option<(u64, [Attached; 2])>,
    /// The thread that attaches the programs for a span at high rates.
    span: Option<JoinHandle<Result<(), SourceError>>>,
}

#[derive(Clone)]
struct Programs {
    beginning: Tracepoints,
    end: Tracepoints,
}

/// The map that holds the filter.
#[derive(Clone)]
struct FilterMap(Arc<Mutex<Array<MapData, SamplingFilter>>>);

impl RequestSampler {
    /// Attaches the programs; samples every request at first.
    pub(super) fn attach(object: &mut Object) -> Result<Self, SourceError> {
        let (end, seeing_the_end) = object.take_tracepoints(&["block_rq_complete"])?;
        let (beginning, seeing_the_beginning) = object.take_tracepoints(&["block_rq_insert", "block_rq_issue"])?;
        let filter = Array::try_from(object.take_map("sampling_filter")?).map_err(failed)?;
        let filter = FilterMap(Arc::new(Mutex::new(filter)));
        let since = monotonic_ns();
        filter.set(all_the_time(since, 0.0, Duration::from_secs(1)))?;
        let attached = Some((since, [seeing_the_end, seeing_the_beginning]));
        Ok(Self { programs: Programs { beginning, end }, filter, idle: true, attached, span: None })
    }

    /// Adapts to the rate of requests per second. The next sample is `until` away.
    pub(super) fn adapt(&mut self, rate: f64, until: Duration) -> Result<(), SourceError> {
        if let Some(span) = self.span.take_if(|span| span.is_finished()) {
            span.join().map_err(|_| SourceError::Failed("BPF block: the thread of a span panicked".into()))??;
        }
        if self.span.is_some() {
            // Sampled early: the filter is still valid.
            return Ok(());
        }
        if rate > DETACH_ABOVE && until >= MIN_INTERVAL {
            (self.attached, self.idle) = (None, false);
            let (programs, filter) = (self.programs.clone(), self.filter.clone());
            let (delay, settings) = (delay(until), for_a_span(rate, until));
            let thread = thread::Builder::new().name("requests".into());
            let span = thread.spawn(move || programs.sample_for(until / DUTY, delay, &filter, settings));
            self.span = Some(span.map_err(|e| SourceError::Failed(format!("BPF block: {e}")))?);
            return Ok(());
        }
        let idle = rate == 0.0;
        if !(idle && self.idle) {
            let since = self.attached.as_ref().map_or_else(monotonic_ns, |(since, _)| *since);
            self.filter.set(all_the_time(since, rate, until))?;
            if self.attached.is_none() {
                self.attached = Some((since, self.programs.attach()?));
            }
            self.idle = idle;
        }
        Ok(())
    }
}

#[cfg(test)]
impl RequestSampler {
    /// Samples every request, whatever the rate. Returns false while a span has not ended.
    pub(super) fn sample_all(&mut self) -> bool {
        self.adapt(0.0, Duration::ZERO).unwrap();
        if self.span.is_some() {
            return false;
        }
        self.sample_one_in(1);
        true
    }

    /// Samples one moment in `weight`, whatever the rate.
    pub(super) fn sample_one_in(&mut self, weight: u64) {
        let (since, _) = self.attached.as_ref().expect("no span is being sampled");
        let all = all_the_time(*since, 0.0, Duration::ZERO);
        self.filter.set(SamplingFilter { most: u64::MAX, mask: weight - 1, weight, ..all }).unwrap();
    }

    /// Misses completions while `meanwhile` runs.
    pub(super) fn miss_completions(&mut self, meanwhile: impl FnOnce()) {
        let (since, [end, beginning]) = self.attached.take().expect("no span is being sampled");
        drop(end);
        meanwhile();
        self.attached = Some((since, [self.programs.end.attach().unwrap(), beginning]));
    }
}

impl Programs {
    /// Attaches the programs for the end of requests first, so that no request ends unseen.
    fn attach(&self) -> Result<[Attached; 2], SourceError> {
        Ok([self.end.attach()?, self.beginning.attach()?])
    }

    fn sample_for(
        &self,
        span: Duration,
        delay: Duration,
        filter: &FilterMap,
        settings: SamplingFilter,
    ) -> Result<(), SourceError> {
        thread::sleep(delay);
        filter.set(SamplingFilter { length: 0, ..settings })?;
        let [end, beginning] = self.attach()?;
        // The clock by which the kernel times requests (block/blk.h: blk_time_get_ns).
        filter.set(SamplingFilter { from: monotonic_ns(), ..settings })?;
        thread::sleep(span);
        drop(beginning);
        thread::sleep(span);
        drop(end);
        Ok(())
    }
}

impl FilterMap {
    fn set(&self, settings: SamplingFilter) -> Result<(), SourceError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).set(0, settings, 0).map_err(failed)
    }
}

fn all_the_time(since: u64, rate: f64, until: Duration) -> SamplingFilter {
    let mask = mask(rate);
    SamplingFilter { from: since, length: u64::MAX, mask, weight: mask + 1, seen: 0, most: most(until) }
}

/// Returns settings for a span, whose requests represent those of the whole interval.
fn for_a_span(rate: f64, until: Duration) -> SamplingFilter {
    let mask = mask(rate / f64::from(DUTY));
    let (length, weight) = ((until / DUTY).as_nanos() as u64, (mask + 1) * u64::from(DUTY));
    SamplingFilter { from: 0, length, mask, weight, seen: 0, most: most(until) }
}

fn most(until: Duration) -> u64 {
    (HEADROOM * SAMPLED * until.as_secs_f64().max(1.0)) as u64
}

/// Returns all bits below the power of two that brings `rate` down to [`SAMPLED`].
fn mask(rate: f64) -> u64 {
    ((rate / SAMPLED).max(1.0) as u64).next_power_of_two() - 1
}

/// Returns a random delay before the span: otherwise a periodic load would be seen in every span or in none.
fn delay(until: Duration) -> Duration {
    // Each hasher has random keys.
    let chance = RandomState::new().hash_one(0) as f64 / u64::MAX as f64;
    // Leaves time for both halves of a span, and for late wake-ups.
    until.mul_f64(chance * (1.0 - 3.0 / f64::from(DUTY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_are_all_sampled_and_many_in_part() {
        assert_eq!([0.0, 1.0, 1000.0, 1999.0].map(mask), [0; 4]);
        assert_eq!([2000.0, 3500.0, 50_000.0].map(mask), [1, 3, 63]);
        let second = Duration::from_secs(1);
        assert_eq!((for_a_span(16_000.0, second).mask, for_a_span(16_000.0, second).weight), (0, 16));
        assert_eq!((for_a_span(100_000.0, second).mask, for_a_span(100_000.0, second).weight), (7, 8 * 16));
    }

    #[test]
    fn spans_begin_anywhere_between_two_samples() {
        let second = Duration::from_secs(1);
        let delays: Vec<Duration> = (0..1000).map(|_| delay(second)).collect();
        assert!(delays.iter().all(|delay| *delay <= second - 3 * second / DUTY));
        let tenths = delays.iter().map(|delay| (delay.as_millis() / 82).min(9)).fold([0; 10], |mut tenths, tenth| {
            tenths[tenth as usize] += 1;
            tenths
        });
        assert!(tenths.iter().all(|many| (50..150).contains(many)), "{tenths:?}");
    }
}
