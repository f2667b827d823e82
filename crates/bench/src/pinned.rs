//! Threads that each keep to a processor and do the same over and over, all at once.

use crate::error::{Error, Result};
use crate::round::{Reading, keep_to};
use crate::stop::Stop;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_model::bench::Figure;

/// How often each figure is measured.
pub(crate) const REPETITIONS: u32 = 10;
/// A repetition takes no longer than so many times what is measured of it, where most has to be put aside.
const MOST_ASIDE: u32 = 20;
/// What is left of a repetition at least, where most of it was waiting: part of that may have been of what is put aside.
const MOSTLY_WAITED: f64 = 0.05;
/// A thread that waited for its processor for more of a repetition than this was disturbed.
const DISTURBED: f64 = 0.01;

/// What time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// That in which a thread had a processor: for work that never waits for anything. What others took of it is not its own.
    Running,
    /// All of it: for work that sleeps and is woken.
    Passing,
}

/// How long, by which clock, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace<'s> {
    /// For all repetitions together.
    pub(crate) time: Duration,
    pub(crate) clock: Clock,
    pub(crate) stop: &'s Stop,
}

/// A part of the work: how much of it, and how long that took up for what is not to be measured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Portion {
    pub(crate) amount: u64,
    pub(crate) aside: Duration,
}

impl From<u64> for Portion {
    fn from(amount: u64) -> Self {
        Self { amount, aside: Duration::ZERO }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repeated {
    /// The work of all threads in a second, of each repetition.
    rates: Vec<f64>,
    /// Repetitions in which a thread waited for its processor.
    disturbed: usize,
}

impl Repeated {
    /// As how much there is of it in a second.
    pub(crate) fn rate(self, name: &str, under: &str, unit: &str) -> Option<Figure> {
        let disturbed = self.disturbed;
        Figure::of(name, under, unit, self.rates).map(|figure| Figure { disturbed, ..figure })
    }

    /// As what one takes.
    pub(crate) fn time(mut self, name: &str, under: &str) -> Option<Figure> {
        self.rates.iter_mut().for_each(|rate| *rate = rate.recip());
        self.rate(name, under, "s")
    }
}

/// How many times the other a figure is, in words that say where that may be chance.
pub(crate) fn times(figure: &Figure, other: &Figure) -> String {
    let noise = if figure.is_apart_from(other) { "" } else { " (within the noise)" };
    format!("{:.2} times{noise}", figure.value / other.value)
}

/// Has a thread on each of these processors work at this pace, in as many repetitions as there are, after one that does not
/// count: caches, translations and clock frequencies settle in it. Each thread prepares its own work, on its own
/// processor, so that memory is where it is used. What was stopped has fewer repetitions, or none.
///
/// # Errors
/// Where a thread cannot be had, or cannot prepare.
pub(crate) fn repeat<W, P>(cpus: &[u32], pace: Pace<'_>, prepare: impl Fn(u32) -> Result<W> + Sync) -> Result<Repeated>
where
    W: FnMut() -> P,
    P: Into<Portion>,
{
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let mut starts = Vec::new();
        for &cpu in cpus {
            let (start, begin) = mpsc::channel();
            let (tell, prepare) = (tell.clone(), &prepare);
            let thread = thread::Builder::new().name("bench".into());
            let started = thread.spawn_scoped(scope, move || work(cpu, pace, prepare, &begin, &tell));
            started.map_err(|e| Error::new(format!("cannot start a thread: {e}")))?;
            starts.push(start);
        }
        drop(tell);
        together(&told, cpus.len())?;
        let mut all = Repeated::default();
        for repetition in 0..=REPETITIONS {
            if pace.stop.is_asked() {
                break;
            }
            for start in &starts {
                // A thread that has ended is found missing below.
                let _ = start.send(());
            }
            let slice = together(&told, cpus.len())?;
            if repetition > 0 && !pace.stop.is_asked() {
                all.rates.push(slice.rate);
                all.disturbed += usize::from(slice.disturbed);
            }
        }
        Ok(all)
    })
}

/// What a thread, or all, did in a repetition.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    rate: f64,
    disturbed: bool,
}

/// The word of every thread, added up.
fn together(told: &Receiver<Result<Slice>>, threads: usize) -> Result<Slice> {
    (0..threads).try_fold(Slice::default(), |sum, _| {
        let slice = told.recv().unwrap_or_else(|_| Err(Error::new("a thread that measured has ended")))?;
        Ok(Slice { rate: sum.rate + slice.rate, disturbed: sum.disturbed || slice.disturbed })
    })
}

/// One thread: prepares, says so or why not, and works as often as it is told to.
fn work<W: FnMut() -> P, P: Into<Portion>>(
    cpu: u32,
    pace: Pace<'_>,
    prepare: impl Fn(u32) -> Result<W>,
    begin: &Receiver<()>,
    tell: &Sender<Result<Slice>>,
) {
    let kept = keep_to(&[cpu]).map_err(|e| Error::new(format!("cannot keep to processor {cpu}: {e}")));
    let mut portion = match kept.and_then(|()| prepare(cpu)) {
        Ok(portion) => portion,
        Err(e) => return drop(tell.send(Err(e))),
    };
    // Nobody listens any more where another thread could not prepare.
    let mut listens = tell.send(Ok(Slice::default())).is_ok();
    while listens && begin.recv().is_ok() {
        listens = tell.send(Ok(slice(pace, &mut portion))).is_ok();
    }
}

/// Works for one repetition, a portion at least.
fn slice<P: Into<Portion>>(pace: Pace<'_>, portion: &mut impl FnMut() -> P) -> Slice {
    let time = pace.time / REPETITIONS;
    let before = Reading::take();
    let began = Instant::now();
    let mut done = Portion::default();
    let measured = loop {
        let more: Portion = portion().into();
        done = Portion { amount: done.amount + more.amount, aside: done.aside + more.aside };
        let elapsed = began.elapsed();
        let measured = elapsed.saturating_sub(done.aside);
        if measured >= time || elapsed >= time * MOST_ASIDE || pace.stop.is_asked() {
            break measured.as_secs_f64();
        }
    };
    let used = before.since();
    // Work that sleeps waits for its processor whenever it is woken: that is what is measured of it.
    let waited = used.waited.filter(|_| pace.clock == Clock::Running).unwrap_or(0.0);
    let measured = (measured - waited * used.wall).max(MOSTLY_WAITED * measured);
    Slice { rate: done.amount as f64 / measured.max(1e-9), disturbed: waited > DISTURBED }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn pace(stop: &Stop) -> Pace<'_> {
        Pace { time: Duration::from_millis(20), clock: Clock::Passing, stop }
    }

    fn cpus() -> Vec<u32> {
        crate::places::Processors::of(&whyslow_sense::Root::live()).spread_out()
    }

    #[test]
    fn what_every_thread_does_adds_up() {
        let cpus = cpus();
        let prepared = AtomicUsize::new(0);
        let sleeps = |_| {
            prepared.fetch_add(1, Ordering::Relaxed);
            Ok(|| {
                thread::sleep(Duration::from_millis(1));
                1
            })
        };
        let repeated = repeat(&cpus, pace(&Stop::default()), sleeps).unwrap();
        assert_eq!(prepared.load(Ordering::Relaxed), cpus.len());
        let figure = repeated.rate("naps", "", "1/s").unwrap();
        assert_eq!(figure.samples.len(), REPETITIONS as usize);
        // A nap is never shorter than it is to be.
        assert!(figure.samples.iter().all(|&rate| rate > 0.0 && rate <= 1000.0 * cpus.len() as f64), "{figure:?}");
    }

    #[test]
    fn what_is_put_aside_does_not_count() {
        let aside = Duration::from_millis(5);
        let work = |_| {
            Ok(move || {
                thread::sleep(aside + Duration::from_millis(1));
                Portion { amount: 1, aside }
            })
        };
        let figure = repeat(&cpus()[..1], pace(&Stop::default()), work).unwrap().time("nap", "").unwrap();
        assert!(figure.value >= 0.001 && figure.samples.iter().any(|&nap| nap < 0.005), "{figure:?}");
    }

    #[test]
    fn one_that_cannot_prepare_ends_all() {
        let refuse = |_| if true { Err(Error::new("no memory")) } else { Ok(|| 1) };
        let refused = repeat(&cpus(), pace(&Stop::default()), refuse).unwrap_err();
        assert_eq!(refused.to_string(), "no memory");
        let nowhere = repeat(&[u32::MAX], pace(&Stop::default()), |_| Ok(|| 1)).unwrap_err();
        assert!(nowhere.to_string().contains("processor"), "{nowhere}");
    }

    #[test]
    fn what_may_be_chance_is_said_to_be() {
        let around = |value: f64| Figure::of("x", "", "s", (0..10).map(|i| value + f64::from(i)).collect()).unwrap();
        assert_eq!(times(&around(95.5), &around(45.5)), "2.00 times");
        assert_eq!(times(&around(100.0), &around(101.0)), "0.99 times (within the noise)");
    }

    #[test]
    fn what_is_stopped_has_no_figures() {
        let stop = Stop::default();
        stop.ask();
        assert_eq!(repeat(&cpus(), pace(&stop), |_| Ok(|| 1)).unwrap().time("x", ""), None);
    }
}
