//! Watches this machine, with samples on an absolute schedule, and diagnoses it.

use crate::baseline;
use crate::interrupt::Interrupt;
use crate::options::{Observe, OutputOptions, next_multiple};
use crate::output::{self, Failure, ProgressLine, print};
use crate::user_rules;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use whyslow_diagnose::diagnose;
use whyslow_model::catalogue::Process;
use whyslow_model::diagnosis::{Diagnosis, Origin, Verdict};
use whyslow_model::key::TaskKey;
use whyslow_model::window::Window;
use whyslow_sense::{Root, Sampler, command_line};
use whyslow_show::{json, text};

/// How often the progress line is drawn anew.
const SECOND: Duration = Duration::from_secs(1);

/// The share of the time after which a first judgement decides what to trace.
const FIRST_LOOK: f64 = 1.0 / 3.0;

/// Watches this machine and says what is wrong with it.
pub fn diagnosed(asked: &Observe) -> Result<Diagnosis, Failure> {
    // First of all: the rules take a while to read where the machine is busy.
    let interrupt = Interrupt::listen()?;
    let rules = user_rules::load();
    let window = observe(asked, interrupt, |window| whyslow_diagnose::requested_sources(window, &rules.book))?;
    let mut diagnosis = diagnose(&window, Origin::Live, &rules.book);
    baseline::remember(&mut diagnosis);
    add_command_lines(&mut diagnosis, &window, &Root::live());
    Ok(diagnosis)
}

/// The command lines of those that are named: to read those of all processes would cost too much.
fn add_command_lines(diagnosis: &mut Diagnosis, window: &Window, root: &Root) {
    let processes: BTreeMap<u32, &TaskKey> =
        window.changes::<Process>().iter().map(|c| (c.key().pid, c.key())).collect();
    for culprit in diagnosis.findings.iter_mut().flat_map(|finding| &mut finding.culprits) {
        let process = culprit.pid.and_then(|pid| processes.get(&pid));
        culprit.command_line = process.and_then(|process| command_line(root, process));
    }
}

/// Prints a diagnosis; with `check` the exit status tells its verdict.
pub fn print_diagnosis(diagnosis: &Diagnosis, look: &OutputOptions, check: bool) -> Result<ExitCode, Failure> {
    print(if look.json { json::diagnosis(diagnosis) } else { text::diagnosis(diagnosis, &output::style(look)) })?;
    Ok(match diagnosis.verdict {
        Verdict::Bottleneck if check => ExitCode::from(1),
        Verdict::Undetermined if check => ExitCode::from(3),
        _ => ExitCode::SUCCESS,
    })
}

/// Watches the live machine for as long as asked for, or until `interrupt`. What `closer` says of a first look is watched as
/// well from then on, though it costs more.
fn observe(
    asked: &Observe,
    interrupt: Interrupt,
    closer: impl Fn(&Window) -> BTreeSet<String>,
) -> Result<Window, Failure> {
    let mut sampler = Sampler::new(if asked.no_bpf { Root::live().without_bpf() } else { Root::live() });
    let start = Instant::now();
    let mut watch =
        Watch { interrupt, progress: ProgressLine::new("watching", "diagnose now"), end: start + asked.time };
    let mut window = Window::default();
    let mut due = Some(Duration::ZERO);
    let mut first_look = Some(asked.time.mul_f64(FIRST_LOOK));
    while let Some(after_start) = due.filter(|due| !watch.is_interrupted_before(start + *due)) {
        window.push(sampler.sample());
        if first_look.is_some_and(|at| after_start >= at) && window.snapshots().len() > 1 {
            first_look = None;
            for source in closer(&window) {
                sampler.ask(&source);
            }
        }
        due = next_due(after_start, start.elapsed(), asked);
    }
    if window.snapshots().len() < 2 {
        return Err(Failure::interrupted("interrupted before the second sample, so there is nothing to compare"));
    }
    Ok(window)
}

struct Watch {
    interrupt: Interrupt,
    progress: ProgressLine,
    end: Instant,
}

impl Watch {
    /// Sleeps until `due`, the progress line kept up to date.
    fn is_interrupted_before(&mut self, due: Instant) -> bool {
        loop {
            let now = Instant::now();
            self.progress.show(self.end.saturating_duration_since(now));
            if self.interrupt.ends_sleep_until(due.min(now + SECOND)) {
                return true;
            }
            if Instant::now() >= due {
                return false;
            }
        }
    }
}

/// When, after the start, the next sample is due: at every interval, and at the end.
fn next_due(last: Duration, elapsed: Duration, asked: &Observe) -> Option<Duration> {
    if last >= asked.time {
        return None;
    }
    Some(next_multiple(asked.interval, elapsed.max(last)).min(asked.time))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The schedule where each sample takes `cost` milliseconds.
    fn schedule(time: u64, interval: u64, cost: u64) -> Vec<u64> {
        let ms = Duration::from_millis;
        let asked = Observe { time: ms(time), interval: ms(interval), no_bpf: false, check: false };
        let (mut due, mut clock, mut all) = (Some(ms(0)), ms(0), Vec::new());
        while let Some(at) = due {
            all.push(at.as_millis().try_into().unwrap());
            clock = clock.max(at) + ms(cost);
            due = next_due(at, clock, &asked);
        }
        all
    }

    #[test]
    fn delays_do_not_add_up() {
        assert_eq!(schedule(4000, 1000, 300), [0, 1000, 2000, 3000, 4000]);
    }

    #[test]
    fn the_last_sample_is_at_the_end() {
        assert_eq!(schedule(2500, 1000, 10), [0, 1000, 2000, 2500]);
    }

    #[test]
    fn what_has_passed_is_skipped() {
        assert_eq!(schedule(6000, 1000, 2500), [0, 3000, 6000]);
    }

    #[test]
    fn there_are_two_samples_however_slow() {
        assert_eq!(schedule(1000, 1000, 9000), [0, 1000]);
    }
}
