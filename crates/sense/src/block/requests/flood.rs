//! Which share of the requests is sampled, and when.
//!
//! The request rate of the last interval determines the share of the next: most intervals are like the one before. When a flood
//! begins, the programs halve the share themselves.
//!
//! An attached program is called at every request, if only to skip it: in a flood that costs more than the sampling. The programs
//! are then attached for a part of each interval only.

use super::failed;
use super::layout::Choice;
use crate::SourceError;
use crate::bpf::{Attached, Object, Tracepoints};
use crate::os::monotonic_ns;
use aya::maps::{Array, MapData};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Requests sampled per second, approximately, at one to two microseconds each.
const SAMPLED: f64 = 1000.0;
/// At most this many times as many are sampled in one interval.
const MOST: f64 = 2.0;
/// At this rate, calling the programs for each request costs more than attaching and detaching them once a second.
const FLOOD: f64 = 20_000.0;
/// In a flood, requests are sampled for one part in 16 of the interval. The same time again is left for the last of them to complete.
const PART: u32 = 16;
/// The shortest interval for which attaching for a part pays off.
const MIN_INTERVAL: Duration = Duration::from_millis(300);

pub(super) struct RequestSampler {
    programs: Programs,
    choice: Chosen,
    /// Whether the choice is that for an idle machine and unused since.
    idle: bool,
    /// Always, except in a flood.
    attached: Option<[Attached; 2]>,
    /// In a flood, a thread attaches them for a span.
    span: Option<JoinHandle<Result<(), SourceError>>>,
}

#[derive(Clone)]
struct Programs {
    beginning: Tracepoints,
    end: Tracepoints,
}

/// The map that holds the choice.
#[derive(Clone)]
struct Chosen(Arc<Mutex<Array<MapData, Choice>>>);

impl RequestSampler {
    /// Samples every request at first.
    pub(super) fn attach(object: &mut Object) -> Result<Self, SourceError> {
        let (end, seeing_the_end) = object.take_tracepoints(&["block_rq_complete"])?;
        let (beginning, seeing_the_beginning) = object.take_tracepoints(&["block_rq_insert", "block_rq_issue"])?;
        let choice = Array::try_from(object.take_map("choice")?).map_err(failed)?;
        let choice = Chosen(Arc::new(Mutex::new(choice)));
        choice.set(all_the_time(0.0, Duration::from_secs(1)))?;
        let attached = Some([seeing_the_end, seeing_the_beginning]);
        Ok(Self { programs: Programs { beginning, end }, choice, idle: true, attached, span: None })
    }

    /// Adapts to the rate of requests per second. The next sample is `until` away.
    pub(super) fn adapt(&mut self, rate: f64, until: Duration) -> Result<(), SourceError> {
        if let Some(span) = self.span.take_if(|span| span.is_finished()) {
            span.join().map_err(|_| SourceError::Failed("BPF block: the thread of a span panicked".into()))??;
        }
        if self.span.is_some() {
            // An early sample: the choice is still right.
            return Ok(());
        }
        if rate > FLOOD && until >= MIN_INTERVAL {
            (self.attached, self.idle) = (None, false);
            let (programs, choice) = (self.programs.clone(), self.choice.clone());
            let (delay, chosen) = (delay(until), for_a_span(rate, until));
            let thread = thread::Builder::new().name("requests".into());
            let span = thread.spawn(move || programs.sample_for(until / PART, delay, &choice, chosen));
            self.span = Some(span.map_err(|e| SourceError::Failed(format!("BPF block: {e}")))?);
            return Ok(());
        }
        let idle = rate == 0.0;
        if !(idle && self.idle) {
            self.choice.set(all_the_time(rate, until))?;
            self.idle = idle;
        }
        if self.attached.is_none() {
            self.attached = Some(self.programs.attach()?);
        }
        Ok(())
    }
}

#[cfg(test)]
impl RequestSampler {
    /// Samples every request, whatever the rate. False while a span has not ended.
    pub(super) fn sample_all(&mut self) -> bool {
        self.adapt(0.0, Duration::ZERO).unwrap();
        if self.span.is_some() {
            return false;
        }
        self.choice.set(Choice { most: u64::MAX, ..all_the_time(0.0, Duration::ZERO) }).unwrap();
        true
    }

    /// Has those of one in `weight` moments looked at, however few or many there are.
    pub(super) fn look_at_one_in(&mut self, weight: u64) {
        let all = all_the_time(0.0, Duration::ZERO);
        self.choice.set(Choice { most: u64::MAX, mask: weight - 1, weight, ..all }).unwrap();
    }
}

impl Programs {
    /// Those for the end first, so that no request ends unseen.
    fn attach(&self) -> Result<[Attached; 2], SourceError> {
        Ok([self.end.attach()?, self.beginning.attach()?])
    }

    fn sample_for(&self, span: Duration, delay: Duration, choice: &Chosen, chosen: Choice) -> Result<(), SourceError> {
        thread::sleep(delay);
        choice.set(Choice { length: 0, ..chosen })?;
        let [end, beginning] = self.attach()?;
        // The clock by which the kernel times requests (block/blk.h: blk_time_get_ns).
        choice.set(Choice { from: monotonic_ns(), ..chosen })?;
        thread::sleep(span);
        drop(beginning);
        thread::sleep(span);
        drop(end);
        Ok(())
    }
}

impl Chosen {
    fn set(&self, choice: Choice) -> Result<(), SourceError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).set(0, choice, 0).map_err(failed)
    }
}

fn all_the_time(rate: f64, until: Duration) -> Choice {
    let mask = mask(rate);
    Choice { from: 0, length: u64::MAX, mask, weight: mask + 1, seen: 0, most: most(until) }
}

/// The requests of a span stand for those of the whole interval.
fn for_a_span(rate: f64, until: Duration) -> Choice {
    let mask = mask(rate / f64::from(PART));
    let (length, weight) = ((until / PART).as_nanos() as u64, (mask + 1) * u64::from(PART));
    Choice { from: 0, length, mask, weight, seen: 0, most: most(until) }
}

fn most(until: Duration) -> u64 {
    (MOST * SAMPLED * until.as_secs_f64().max(1.0)) as u64
}

/// All bits below the power of two that brings `rate` down to [`SAMPLED`].
fn mask(rate: f64) -> u64 {
    ((rate / SAMPLED).max(1.0) as u64).next_power_of_two() - 1
}

/// A random delay before the span: otherwise a periodic load would be seen in every span or in none.
fn delay(until: Duration) -> Duration {
    // Each hasher has random keys.
    let chance = RandomState::new().hash_one(0) as f64 / u64::MAX as f64;
    // Leaves time for both halves of a span, and for late wake-ups.
    until.mul_f64(chance * (1.0 - 3.0 / f64::from(PART)))
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
        assert!(delays.iter().all(|delay| *delay <= second - 3 * second / PART));
        let tenths = delays.iter().map(|delay| (delay.as_millis() / 82).min(9)).fold([0; 10], |mut tenths, tenth| {
            tenths[tenth as usize] += 1;
            tenths
        });
        assert!(tenths.iter().all(|many| (50..150).contains(many)), "{tenths:?}");
    }
}
