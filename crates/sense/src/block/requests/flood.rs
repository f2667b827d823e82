//! How many requests are looked at, and when.
//!
//! The rate of the last step says how many of the next are: most steps are like the one before. Where a flood begins, the
//! programs halve what they look at by themselves.
//!
//! A program that is attached is called at every request, if only to find that it is not to be looked at: in a flood that
//! costs more than all the looking. Then they are attached for a part of the time only, once between two samples.

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

/// Requests a second that are looked at, more or less, so that it costs nothing to speak of: one to two
/// microseconds each.
const LOOKED_AT: f64 = 1000.0;
/// So many more than usual may be looked at from one sample to the next.
const MOST: f64 = 2.0;
/// Requests a second of which to be called for each costs more than to attach and detach programs once a second.
const FLOOD: f64 = 20_000.0;
/// Requests are looked at for so small a part of the time in a flood. As much time again is given to the last of them to be done.
const PART: u32 = 16;
/// The least time between two samples of which such a part is worth attaching for.
const ROOM: Duration = Duration::from_millis(300);

/// The programs that see requests begin and end, and what they are told to look at.
pub(super) struct Watch {
    programs: Programs,
    choice: Chosen,
    /// Whether the choice is that for no requests, as it was made: none were seen since.
    idle: bool,
    /// Outside of floods all programs are attached all the time.
    attached: Option<[Attached; 2]>,
    /// In a flood a thread attaches them for a span, and ends.
    span: Option<JoinHandle<Result<(), SourceError>>>,
}

#[derive(Clone)]
struct Programs {
    beginning: Tracepoints,
    end: Tracepoints,
}

/// The map in which the choice stands.
#[derive(Clone)]
struct Chosen(Arc<Mutex<Array<MapData, Choice>>>);

impl Watch {
    /// Looks at every request.
    ///
    /// # Errors
    /// The object has not the programs and the map that it should have.
    pub(super) fn over(object: &mut Object) -> Result<Self, SourceError> {
        let (end, seeing_the_end) = object.take_tracepoints(&["block_rq_complete"])?;
        let (beginning, seeing_the_beginning) = object.take_tracepoints(&["block_rq_insert", "block_rq_issue"])?;
        let choice = Array::try_from(object.take_map("choice")?).map_err(failed)?;
        let choice = Chosen(Arc::new(Mutex::new(choice)));
        choice.set(all_the_time(0.0, Duration::from_secs(1)))?;
        let attached = Some([seeing_the_end, seeing_the_beginning]);
        Ok(Self { programs: Programs { beginning, end }, choice, idle: true, attached, span: None })
    }

    /// Chooses what is looked at from now on, by the rate of requests a second. The next sample is `until` away.
    ///
    /// # Errors
    /// The kernel no longer attaches the programs.
    pub(super) fn adapt(&mut self, rate: f64, until: Duration) -> Result<(), SourceError> {
        if let Some(span) = self.span.take_if(|span| span.is_finished()) {
            span.join().map_err(|_| SourceError::Failed("BPF block: the thread of a span panicked".into()))??;
        }
        if self.span.is_some() {
            // A sample that came early: what is looked at is still as it should be.
            return Ok(());
        }
        if rate > FLOOD && until >= ROOM {
            (self.attached, self.idle) = (None, false);
            let (programs, choice) = (self.programs.clone(), self.choice.clone());
            let (delay, chosen) = (delay(until), for_a_span(rate, until));
            let thread = thread::Builder::new().name("requests".into());
            let span = thread.spawn(move || programs.look_for(until / PART, delay, &choice, chosen));
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
impl Watch {
    /// Has every request looked at, however many others make. Whether that is so already: a span has to end first.
    pub(super) fn looks_at_all(&mut self) -> bool {
        self.adapt(0.0, Duration::ZERO).unwrap();
        if self.span.is_some() {
            return false;
        }
        self.choice.set(Choice { most: u64::MAX, ..all_the_time(0.0, Duration::ZERO) }).unwrap();
        true
    }
}

impl Programs {
    /// Those that see the end come first, so that none begins unseen to end.
    fn attach(&self) -> Result<[Attached; 2], SourceError> {
        Ok([self.end.attach()?, self.beginning.attach()?])
    }

    fn look_for(&self, span: Duration, delay: Duration, choice: &Chosen, chosen: Choice) -> Result<(), SourceError> {
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

/// A span stands for all the time until the next sample.
fn for_a_span(rate: f64, until: Duration) -> Choice {
    let mask = mask(rate / f64::from(PART));
    let (length, weight) = ((until / PART).as_nanos() as u64, (mask + 1) * u64::from(PART));
    Choice { from: 0, length, mask, weight, seen: 0, most: most(until) }
}

fn most(until: Duration) -> u64 {
    (MOST * LOOKED_AT * until.as_secs_f64().max(1.0)) as u64
}

/// All bits below the power of two that brings `rate` down to [`LOOKED_AT`].
fn mask(rate: f64) -> u64 {
    ((rate / LOOKED_AT).max(1.0) as u64).next_power_of_two() - 1
}

/// How long to wait for a span to begin: another time each time, or a load that comes once a second would be seen in each span
/// or in none.
fn delay(until: Duration) -> Duration {
    // Hashers are made with keys of their own.
    let chance = RandomState::new().hash_one(0) as f64 / u64::MAX as f64;
    // Both halves of a span, and what waking up late may take.
    until.mul_f64(chance * (1.0 - 3.0 / f64::from(PART)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_are_all_looked_at_and_many_thinned_out() {
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
