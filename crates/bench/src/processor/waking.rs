//! How soon a thread runs that a timer, or another thread, wakes.

use crate::error::{Error, Result};
use crate::load::Spread;
use crate::pinned::REPETITIONS;
use crate::round::keep_to;
use crate::stop::Stop;
use crate::studies::Bench;
use nix::sys::prctl::set_timerslack;
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use whyslow_model::bench::{Figure, Latency, Study};

const METHOD: &str = "By a timer: on each processor a thread sleeps until a set time, a thousand times a second, and looks at the \
clock when it runs: how late is it (cyclictest)? By a thread: one notes the time and wakes another, which has slept for a fifth of a \
millisecond, by way of futex(2). A sample is the median of a repetition.";

/// The kernel may wake others so much later, to wake several at once (prctl(2), PR_SET_TIMERSLACK).
const USUAL_SLACK: u64 = 50_000;
const PERIOD: Duration = Duration::from_millis(1);
/// How long a thread has slept when it is woken by another: the processor has gone idle by then.
const NAP: Duration = Duration::from_micros(200);

/// As what a thread waits for its timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleeper {
    /// As programs do.
    Usual,
    /// As a program does that asks not to be kept waiting.
    Exact,
    /// Before all others (SCHED_FIFO, sched(7)).
    RealTime,
}

pub(super) fn study(bench: &mut Bench) -> Result<Study> {
    let mut figures = Vec::new();
    let sleepers = [
        (Sleeper::Usual, "as programs are (50 µs of slack)"),
        (Sleeper::Exact, "without slack"),
        (Sleeper::RealTime, "real time"),
    ];
    for (sleeper, under) in sleepers {
        if bench.session.goes_on_to(&format!("waking by a timer, {under}")) {
            match by_timer(bench, sleeper) {
                Ok(naps) => figures.extend(figure("by a timer", under, &naps)),
                Err(e) => bench.session.caveats.push(format!("waking {under} is not measured: {e}")),
            }
        }
    }
    let cpu = bench.processors.quiet();
    for (under, other) in [("on the same cpu", Some(cpu)), ("on another cpu", bench.processors.elsewhere(cpu))] {
        if let Some(other) = other.filter(|_| bench.session.goes_on_to(&format!("waking a thread {under}"))) {
            figures.extend(figure("by a thread", under, &by_thread(bench, cpu, other)?));
        }
    }
    Ok(Study { name: "waking".into(), method: METHOD.into(), figures, findings: Vec::new() })
}

/// Of the times of each repetition.
fn figure(name: &str, under: &str, repetitions: &[Spread]) -> Option<Figure> {
    let mut all = Spread::default();
    repetitions.iter().for_each(|spread| all.merge(spread));
    let medians = repetitions.iter().filter_map(|spread| spread.latency(&[0.5]).percentile(0.5)).collect();
    let spread = Some(all.latency(&Latency::SHARES));
    Figure::of(name, under, "s", medians).map(|figure| Figure { spread, ..figure })
}

/// How many times of such a period a repetition has.
fn naps(bench: &Bench, period: Duration) -> u32 {
    // Of what happens a thousand times a second there has to be more time for as many.
    let time = bench.time * 10 / REPETITIONS;
    u32::try_from(time.as_nanos() / period.as_nanos()).unwrap_or(u32::MAX).max(2)
}

/// How late threads on all processors are, each repetition by itself.
fn by_timer(bench: &Bench, sleeper: Sleeper) -> io::Result<Vec<Spread>> {
    let (naps, stop) = (naps(bench, PERIOD), &bench.session.stop);
    thread::scope(|scope| {
        let sleep = |cpu| move || sleep(cpu, sleeper, naps, stop);
        let start = |cpu| thread::Builder::new().name("bench".into()).spawn_scoped(scope, sleep(cpu));
        let threads: Vec<_> = bench.processors.spread_out().into_iter().map(start).collect::<io::Result<_>>()?;
        let mut all = vec![Spread::default(); REPETITIONS as usize];
        for thread in threads {
            let late = thread.join().map_err(|_| io::Error::other("a thread that measured has ended"))??;
            all.iter_mut().zip(&late).for_each(|(all, more)| all.merge(more));
        }
        Ok(all)
    })
}

fn sleep(cpu: u32, sleeper: Sleeper, naps: u32, stop: &Stop) -> io::Result<Vec<Spread>> {
    keep_to(&[cpu])?;
    set_timerslack(if sleeper == Sleeper::Usual { USUAL_SLACK } else { 1 })?;
    if sleeper == Sleeper::RealTime {
        become_real_time()?;
    }
    let mut all = Vec::new();
    let mut due = now()?;
    for _ in 0..REPETITIONS {
        let mut spread = Spread::default();
        for _ in 0..naps {
            if stop.is_asked() {
                return Ok(all);
            }
            // One that is late by more than a period does not make the next ones late.
            due = now()?.max(due) + TimeSpec::nanoseconds(PERIOD.as_nanos() as i64);
            sleep_until(due)?;
            spread.add(u64::try_from((now()? - due).num_nanoseconds()).unwrap_or(0));
        }
        all.push(spread);
    }
    Ok(all)
}

fn now() -> nix::Result<TimeSpec> {
    ClockId::CLOCK_MONOTONIC.now()
}

fn sleep_until(due: TimeSpec) -> nix::Result<()> {
    loop {
        match clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &due) {
            Err(nix::Error::EINTR) => {}
            slept => return slept.map(drop),
        }
    }
}

/// Before all usual threads, until this one ends, and after all that are real time already.
fn become_real_time() -> io::Result<()> {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: `lowest` lives as long as the call; 0 is this thread (sched_setscheduler(2)).
    let status = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How long it takes from waking a thread on `other` to its running, each repetition by itself.
fn by_thread(bench: &Bench, cpu: u32, other: u32) -> Result<Vec<Spread>> {
    let (naps, stop) = (naps(bench, PERIOD) as usize, &bench.session.stop);
    let on = |cpu: u32| keep_to(&[cpu]).map_err(|e| Error::new(format!("cannot keep to processor {cpu}: {e}")));
    let no_thread = |e| Error::new(format!("cannot start a thread: {e}"));
    let ended = |_| Error::new("a thread that measured has ended");
    thread::scope(|scope| {
        let (wake, woken) = mpsc::channel::<Instant>();
        let times = move || on(other).map(|()| woken.iter().map(|sent| sent.elapsed()).collect::<Vec<Duration>>());
        let sleeper = thread::Builder::new().name("bench".into()).spawn_scoped(scope, times).map_err(no_thread)?;
        let wakes = move || {
            on(cpu)?;
            for _ in 0..naps * REPETITIONS as usize {
                thread::sleep(NAP);
                if stop.is_asked() || wake.send(Instant::now()).is_err() {
                    break;
                }
            }
            Ok(())
        };
        let waker = thread::Builder::new().name("bench".into()).spawn_scoped(scope, wakes).map_err(no_thread)?;
        waker.join().map_err(ended)??;
        let times = sleeper.join().map_err(ended)??;
        Ok(times.chunks_exact(naps).map(spread).collect())
    })
}

fn spread(times: &[Duration]) -> Spread {
    let mut spread = Spread::default();
    times.iter().for_each(|time| spread.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_of_medians_and_keeps_the_longest() {
        let us = Duration::from_micros;
        let usual = spread(&[us(2), us(2), us(2), us(2)]);
        let one_late = spread(&[us(2), us(2), us(2), us(900)]);
        let figure = figure("x", "", &[usual.clone(), one_late, usual]).unwrap();
        assert!((figure.value / 2e-6 - 1.0).abs() < 0.02, "{figure:?}");
        assert_eq!(figure.spread.unwrap().max, 900e-6);
    }
}
