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
/// A thread that waited for its processor for more of a repetition than this was disturbed.
const DISTURBED: f64 = 0.01;

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

/// Has a thread on each of these processors work for `time` in all, in as many repetitions as there are, after one that does
/// not count: caches, translations and clock frequencies settle in it. Each thread prepares its own work, on its own
/// processor, so that memory is where it is used. What was stopped has fewer repetitions, or none.
///
/// # Errors
/// Where a thread cannot be had, or cannot prepare.
pub(crate) fn repeat<W, P>(
    cpus: &[u32],
    time: Duration,
    stop: &Stop,
    prepare: impl Fn(u32) -> Result<W> + Sync,
) -> Result<Repeated>
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
            let started = thread.spawn_scoped(scope, move || work(cpu, time / REPETITIONS, prepare, &begin, &tell));
            started.map_err(|e| Error::new(format!("no thread to be had: {e}")))?;
            starts.push(start);
        }
        drop(tell);
        together(&told, cpus.len())?;
        let mut all = Repeated::default();
        for repetition in 0..=REPETITIONS {
            if stop.is_asked() {
                break;
            }
            for start in &starts {
                // A thread that has ended is found missing below.
                let _ = start.send(());
            }
            let slice = together(&told, cpus.len())?;
            if repetition > 0 {
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
    time: Duration,
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
        listens = tell.send(Ok(slice(time, &mut portion))).is_ok();
    }
}

/// Works for so long, a portion at least.
fn slice<P: Into<Portion>>(time: Duration, portion: &mut impl FnMut() -> P) -> Slice {
    let before = Reading::take();
    let began = Instant::now();
    let mut done = Portion::default();
    let measured = loop {
        let more: Portion = portion().into();
        done = Portion { amount: done.amount + more.amount, aside: done.aside + more.aside };
        let elapsed = began.elapsed();
        let measured = elapsed.saturating_sub(done.aside);
        if measured >= time || elapsed >= time * MOST_ASIDE {
            break measured;
        }
    };
    let disturbed = before.since().waited.is_some_and(|part| part > DISTURBED);
    Slice { rate: done.amount as f64 / measured.as_secs_f64().max(1e-9), disturbed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const TIME: Duration = Duration::from_millis(20);

    fn cpus() -> Vec<u32> {
        crate::processor::Processors::of(&whyslow_sense::Root::live()).spread_out()
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
        let repeated = repeat(&cpus, TIME, &Stop::default(), sleeps).unwrap();
        assert_eq!(prepared.load(Ordering::Relaxed), cpus.len());
        let figure = repeated.rate("naps", "", "op/s").unwrap();
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
        let figure = repeat(&cpus()[..1], TIME, &Stop::default(), work).unwrap().time("nap", "").unwrap();
        assert!(figure.value >= 0.001 && figure.samples.iter().any(|&nap| nap < 0.005), "{figure:?}");
    }

    #[test]
    fn one_that_cannot_prepare_ends_all() {
        let refuse = |_| if true { Err(Error::new("no memory")) } else { Ok(|| 1) };
        let refused = repeat(&cpus(), TIME, &Stop::default(), refuse).unwrap_err();
        assert_eq!(refused.to_string(), "no memory");
        let nowhere = repeat(&[u32::MAX], TIME, &Stop::default(), |_| Ok(|| 1)).unwrap_err();
        assert!(nowhere.to_string().contains("processor"), "{nowhere}");
    }

    #[test]
    fn what_is_stopped_has_no_figures() {
        let stop = Stop::default();
        stop.ask();
        assert_eq!(repeat(&cpus(), TIME, &stop, |_| Ok(|| 1)).unwrap().time("x", ""), None);
    }
}
