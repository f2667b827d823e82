//! The cost of system calls and of reading clocks.

use crate::study::StudyContext;
use crate::study::{TimeBasis, repeat};
use crate::{Error, Result};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timerfd::{ClockId as TimerClock, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::ClockId;
use nix::unistd::getppid;
use std::hint::black_box;
use std::time::Duration;
use whyslow_documents::bench::{Measurement, Study};

const METHOD: &str = "Time per call. Clocks are read through the C library (vDSO) and by system call; a timer is armed and disarmed (timerfd_settime).";

/// Calls between two clock reads.
const CALLS: u64 = 200;
/// Minimum cost of a clock read, as a share of a system call, for the clock to be considered read by a system call.
const AS_A_CALL: f64 = 0.8;
const CLOCKSOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

const SYSTEM_CALL: &str = "system call (getppid)";
const BY_CALL: &str = "CLOCK_MONOTONIC, by system call";
const MONOTONIC: &str = "CLOCK_MONOTONIC";

const CLOCKS: [(&str, ClockId); 5] = [
    (MONOTONIC, ClockId::CLOCK_MONOTONIC),
    ("CLOCK_REALTIME", ClockId::CLOCK_REALTIME),
    ("CLOCK_BOOTTIME", ClockId::CLOCK_BOOTTIME),
    ("CLOCK_MONOTONIC_COARSE", ClockId::CLOCK_MONOTONIC_COARSE),
    ("CLOCK_THREAD_CPUTIME_ID", ClockId::CLOCK_THREAD_CPUTIME_ID),
];

pub(super) fn study(context: &mut StudyContext) -> Result<Study> {
    let mut figures = Vec::new();
    figures.extend(time(context, SYSTEM_CALL, || Ok(getppid))?);
    figures.extend(time(context, BY_CALL, || Ok(clock_by_call))?);
    for (name, clock) in CLOCKS {
        figures.extend(time(context, name, || Ok(move || clock.now()))?);
    }
    figures.extend(time(context, "timer set and taken back", timer)?);
    let source = context.root.word(CLOCKSOURCE);
    let findings = finding(&figures, source.as_deref()).into_iter().collect();
    Ok(Study { name: "calls".into(), method: METHOD.into(), figures, findings, ..Study::default() })
}

fn time<C: FnMut() -> R, R>(
    context: &mut StudyContext,
    name: &str,
    prepare: impl Fn() -> Result<C> + Sync,
) -> Result<Option<Measurement>> {
    if !context.session.proceed_to(name) {
        return Ok(None);
    }
    let repeated = repeat(&[context.topology.quiet_cpu()], context.options(TimeBasis::OnCpu), |_| {
        let mut call = prepare()?;
        Ok(move || {
            (0..CALLS).for_each(|_| _ = black_box(call()));
            CALLS
        })
    })?;
    Ok(repeated.time(name, ""))
}

fn clock_by_call() -> libc::c_long {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time) }
}

fn timer() -> Result<impl FnMut() -> (nix::Result<()>, nix::Result<()>)> {
    let timer = TimerFd::new(TimerClock::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC);
    let timer = timer.map_err(|e| Error::new(format!("cannot create a timer: {e}")))?;
    let minute = Expiration::OneShot(TimeSpec::nanoseconds(Duration::from_secs(60).as_nanos() as i64));
    Ok(move || (timer.set(minute, TimerSetTimeFlags::empty()), timer.unset()))
}

fn finding(figures: &[Measurement], source: Option<&str>) -> Option<String> {
    let value = |name: &str| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
    let (clock, call, source) = (value(MONOTONIC)?, value(BY_CALL)?, source?);
    Some(if clock > AS_A_CALL * call {
        format!("Clock source {source} needs a system call: programs that read the clock often are slow here.")
    } else {
        format!("Clock source {source} is read without a system call, {:.1} times as fast as with one.", call / clock)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_needs_a_system_call_is_reported() {
        let figure = |name: &str, value| Measurement::from_samples(name, "", "s", vec![value]).unwrap();
        let finding = |clock| finding(&[figure(MONOTONIC, clock), figure(BY_CALL, 200e-9)], Some("hpet"));
        assert!(finding(190e-9).unwrap().contains("hpet needs a system call"));
        assert!(finding(20e-9).unwrap().contains("10.0 times as fast"));
        assert_eq!(super::finding(&[], Some("tsc")), None);
    }

    #[test]
    fn every_call_can_be_made() {
        assert_eq!(clock_by_call(), 0);
        assert_eq!(timer().unwrap()(), (Ok(()), Ok(())));
        for (name, clock) in CLOCKS {
            clock.now().unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}
