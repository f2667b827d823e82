//! Wake-up latency: by a timer and by another thread.

use crate::load::LatencyHistogram;
use crate::round::pin_to;
use crate::study::REPETITIONS;
use crate::study::StudyContext;
use crate::{Error, Result, Stop};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use whyslow_documents::bench::{Latency, Measurement, Study};
use whyslow_model::human;

const METHOD: &str = "Timer: lateness of a sleep until a set time on every CPU (cyclictest). Thread: time from a futex wake-up until the thread runs.";

/// Default timer slack, by which the kernel may delay wake-ups to coalesce them (prctl(2), PR_SET_TIMERSLACK).
const USUAL_SLACK: u64 = 50_000;
const PERIOD: Duration = Duration::from_millis(1);
/// Sleep time of a thread before another wakes it: its CPU has gone idle by then.
const SLEEP_TIME: Duration = Duration::from_micros(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimerMode {
    /// Default timer slack.
    Usual,
    /// No timer slack.
    Exact,
    /// SCHED_FIFO (sched(7)).
    RealTime,
}

pub(super) fn study(context: &mut StudyContext) -> Result<Study> {
    let mut figures = Vec::new();
    let modes = [
        (TimerMode::Usual, "as programs are (50 µs of slack)"),
        (TimerMode::Exact, "without slack"),
        (TimerMode::RealTime, "real time"),
    ];
    for (mode, under) in modes {
        if context.session.proceed_to(&format!("wake-ups by a timer, {under}")) {
            match by_timer(context, mode) {
                Ok(wakeups) => figures.extend(figure("by a timer", under, &wakeups)),
                Err(e) => context.session.caveats.push(format!("wake-ups by a timer, {under}, are not measured: {e}")),
            }
        }
    }
    let cpu = context.topology.quiet_cpu();
    for (under, other) in [("on the same cpu", Some(cpu)), ("on another cpu", context.topology.on_other_core(cpu))] {
        if let Some(other) = other.filter(|_| context.session.proceed_to(&format!("wake-ups by a thread {under}"))) {
            figures.extend(figure("by a thread", under, &by_thread(context, cpu, other)?));
        }
    }
    Ok(Study { name: "waking".into(), method: METHOD.into(), figures, ..Study::default() })
}

fn figure(name: &str, under: &str, repetitions: &[LatencyHistogram]) -> Option<Measurement> {
    let mut all = LatencyHistogram::default();
    repetitions.iter().for_each(|spread| all.merge(spread));
    let medians = repetitions.iter().filter_map(|spread| spread.latency(&[0.5]).percentile(0.5)).collect();
    let spread = Some(all.latency(&Latency::SHARES));
    Measurement::from_samples(name, under, "s", medians).map(|figure| Measurement { spread, ..figure })
}

/// Returns the number of wake-ups per repetition.
fn wakeups(context: &StudyContext, period: Duration) -> u32 {
    // Ten times the usual time, to collect enough of these rare events.
    let time = context.time * 10 / REPETITIONS;
    u32::try_from(time.as_nanos() / period.as_nanos()).unwrap_or(u32::MAX).max(2)
}

/// Measures the lateness on all CPUs, by repetition.
fn by_timer(context: &StudyContext, mode: TimerMode) -> io::Result<Vec<LatencyHistogram>> {
    let (wakeups, stop) = (wakeups(context, PERIOD), &context.session.stop);
    thread::scope(|scope| {
        let sleep = |cpu| move || sleep(cpu, mode, wakeups, stop);
        let start = |cpu| thread::Builder::new().name("bench".into()).spawn_scoped(scope, sleep(cpu));
        let threads: Vec<_> = context.topology.spread_over_cores().into_iter().map(start).collect::<io::Result<_>>()?;
        let mut all = vec![LatencyHistogram::default(); REPETITIONS as usize];
        for thread in threads {
            let late = thread.join().map_err(|_| io::Error::other("a measuring thread has ended"))??;
            all.iter_mut().zip(&late).for_each(|(all, more)| all.merge(more));
        }
        Ok(all)
    })
}

fn sleep(cpu: u32, mode: TimerMode, wakeups: u32, stop: &Stop) -> io::Result<Vec<LatencyHistogram>> {
    pin_to(&[cpu])?;
    set_timerslack(if mode == TimerMode::Usual { USUAL_SLACK } else { 1 })?;
    if mode == TimerMode::RealTime {
        become_real_time()?;
    }
    let mut all = Vec::new();
    let mut due = now()?;
    for _ in 0..REPETITIONS {
        let mut spread = LatencyHistogram::default();
        for _ in 0..wakeups {
            if stop.is_asked() {
                return Ok(all);
            }
            // A wake-up that is late by more than a period must not delay the next ones.
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

/// Switches this thread to the lowest real-time priority until it ends.
fn become_real_time() -> io::Result<()> {
    // The kernel's struct sched_param. The libc function of that name always fails in musl.
    let lowest: libc::c_int = 1;
    // SAFETY: `lowest` outlives the call; 0 is this thread (sched_setscheduler(2)).
    let status = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const lowest) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Measures the time from waking a thread on `other` until it runs, by repetition.
fn by_thread(context: &StudyContext, cpu: u32, other: u32) -> Result<Vec<LatencyHistogram>> {
    let (wakeups, stop) = (wakeups(context, PERIOD) as usize, &context.session.stop);
    let on = |cpu: u32| pin_to(&[cpu]).map_err(|e| Error::new(format!("cannot pin a thread to CPU {cpu}: {e}")));
    let no_thread = |e| Error::new(human::no_thread(&e));
    let ended = |_| Error::new("a measuring thread has ended");
    thread::scope(|scope| {
        let (wake, woken) = mpsc::channel::<Instant>();
        let times = move || on(other).map(|()| woken.iter().map(|sent| sent.elapsed()).collect::<Vec<Duration>>());
        let mode = thread::Builder::new().name("bench".into()).spawn_scoped(scope, times).map_err(no_thread)?;
        let wakes = move || {
            on(cpu)?;
            for _ in 0..wakeups * REPETITIONS as usize {
                thread::sleep(SLEEP_TIME);
                if stop.is_asked() || wake.send(Instant::now()).is_err() {
                    break;
                }
            }
            Ok(())
        };
        let waker = thread::Builder::new().name("bench".into()).spawn_scoped(scope, wakes).map_err(no_thread)?;
        waker.join().map_err(ended)??;
        let times = mode.join().map_err(ended)??;
        Ok(times.chunks_exact(wakeups).map(spread).collect())
    })
}

fn spread(times: &[Duration]) -> LatencyHistogram {
    let mut spread = LatencyHistogram::default();
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
