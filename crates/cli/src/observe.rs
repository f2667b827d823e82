//! Observes this machine, with samples on an absolute schedule, and diagnoses it.

use crate::baseline;
use crate::interrupt::Interrupt;
use crate::options::{Observe, OutputOptions, next_multiple};
use crate::output::{self, Failure, ProgressLine, print};
use crate::pseudonymise::PseudonymSession;
use crate::user_rules;
use crate::why::{TargetWatch, WhyTarget};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use whyslow_diagnose::diagnose;
use whyslow_documents::diagnosis::{Diagnosis, Origin, Verdict};
use whyslow_model::catalogue::Process;
use whyslow_model::key::TaskKey;
use whyslow_model::window::Window;
use whyslow_sense::profile::breakdown::BreakdownTracer;
use whyslow_sense::{Root, Sampler, command_line};
use whyslow_show::{json, nagios, text};

/// Redraw interval of the progress line.
const SECOND: Duration = Duration::from_secs(1);

/// Maximum observation time of a command, and the time after which a first judgement of it decides what to trace.
const LONGEST_COMMAND: Duration = Duration::from_secs(7 * 86_400);
const FIRST_LOOK_AT_COMMAND: Duration = Duration::from_secs(3);
/// Approximate number of samples of a long command for each doubling of its runtime.
const LONGEST_IN_SAMPLES: u32 = 100;

/// Share of the observation time after which a first judgement decides what to trace.
const FIRST_LOOK: f64 = 1.0 / 3.0;

/// Observes this machine and diagnoses it.
pub fn diagnosed(asked: &Observe) -> Result<Diagnosis, Failure> {
    Ok(observed(asked)?.0)
}

/// Observes and diagnoses this machine; also returns the samples.
pub fn observed(asked: &Observe) -> Result<(Diagnosis, Window), Failure> {
    observed_as(asked, &PseudonymSession::default())
}

/// Observes and diagnoses this machine with the names replaced by pseudonyms.
pub fn observed_as(asked: &Observe, names: &PseudonymSession) -> Result<(Diagnosis, Window), Failure> {
    watched(asked, None, names)
}

/// Observes this machine and explains where the time of a program goes. A command is run and observed until it ends;
/// its output goes to stderr if the answer is JSON.
pub fn explained(asked: &Observe, target: &WhyTarget, json: bool) -> Result<Diagnosis, Failure> {
    let mut companion = Companion { target, json, watch: None };
    let (mut diagnosis, window) = watched(asked, Some(&mut companion), &PseudonymSession::default())?;
    if let Some(watch) = companion.watch {
        watch.finish(&window, &mut diagnosis)?;
    }
    Ok(diagnosis)
}

fn watched(
    asked: &Observe,
    companion: Option<&mut Companion<'_>>,
    names: &PseudonymSession,
) -> Result<(Diagnosis, Window), Failure> {
    // First of all, because reading the rules takes a while on a busy machine.
    let interrupt = Interrupt::listen()?;
    let rules = user_rules::load();
    let closer = |window: &Window| whyslow_diagnose::requested_sources(window, &rules.book);
    let window = names.window(observe(asked, interrupt, closer, companion)?);
    let usual = baseline::default().map(|usual| names.baseline(usual));
    let window = window.with_usual(usual.as_ref().map(whyslow_compare::usual).unwrap_or_default());
    let mut diagnosis = diagnose(&window, Origin::Live, &rules.book);
    if let Some(usual) = &usual {
        whyslow_compare::remember(&mut diagnosis, usual);
    }
    // Command lines contain names.
    if !names.is_on() {
        add_command_lines(&mut diagnosis, &window, &Root::live());
    }
    Ok((diagnosis, window))
}

/// A program that is traced while the machine is observed.
struct Companion<'a> {
    target: &'a WhyTarget,
    json: bool,
    watch: Option<TargetWatch>,
}

impl Companion<'_> {
    fn begin(&mut self) -> Result<(), Failure> {
        if self.watch.is_none() {
            self.watch = Some(TargetWatch::begin(self.target, self.json)?);
        }
        Ok(())
    }

    fn end(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.end();
        }
    }

    /// Returns the polling interval of the tracing.
    fn pace(&self) -> Duration {
        self.watch.as_ref().map_or(BreakdownTracer::PACE, TargetWatch::pace)
    }

    /// Polls the tracing. Returns false once the program has ended.
    fn tick(&mut self) -> Result<bool, Failure> {
        self.watch.as_mut().map_or(Ok(true), TargetWatch::tick)
    }
}

/// Adds the command lines of the named culprits only: reading those of all processes would cost too much.
pub fn add_command_lines(diagnosis: &mut Diagnosis, window: &Window, root: &Root) {
    let processes: BTreeMap<u32, &TaskKey> =
        window.changes::<Process>().iter().map(|c| (c.key().pid, c.key())).collect();
    for culprit in diagnosis.findings.iter_mut().flat_map(|finding| &mut finding.culprits) {
        let process = culprit.pid.and_then(|pid| processes.get(&pid));
        culprit.command_line = process.and_then(|process| command_line(root, process));
    }
}

/// Prints a diagnosis; with `check` the exit status shows its verdict.
pub fn print_diagnosis(diagnosis: &Diagnosis, look: &OutputOptions, check: bool) -> Result<ExitCode, Failure> {
    print(if look.display.json {
        json::diagnosis(diagnosis)
    } else {
        text::diagnosis(diagnosis, &output::style(look))
    })?;
    Ok(match diagnosis.verdict {
        Verdict::Bottleneck if check => ExitCode::from(1),
        Verdict::Undetermined if check => ExitCode::from(3),
        _ => ExitCode::SUCCESS,
    })
}

/// Prints a diagnosis in the form of a monitoring plugin.
pub fn print_for_nagios(diagnosis: &Diagnosis) -> Result<ExitCode, Failure> {
    let (line, status) = nagios::status_line(diagnosis);
    print(line)?;
    Ok(ExitCode::from(status))
}

/// Observes the live machine for the requested time, or until `interrupt`. After a first judgement, also reads the more
/// expensive sources that `closer` returns for it. Ends with the traced program.
fn observe(
    asked: &Observe,
    interrupt: Interrupt,
    closer: impl Fn(&Window) -> BTreeSet<String>,
    companion: Option<&mut Companion<'_>>,
) -> Result<Window, Failure> {
    let runs_command = companion.as_ref().is_some_and(|companion| companion.target.is_command());
    let time = if runs_command { LONGEST_COMMAND } else { asked.time };
    let mut sampler = Sampler::new(if asked.no_bpf { Root::live().without_bpf() } else { Root::live() });
    // A command writes to the same terminal.
    let progress = (!runs_command).then(|| ProgressLine::new("watching", "diagnose now"));
    let mut watch = Watch { interrupt, progress, end: Instant::now() + time, companion };
    if !runs_command {
        watch.begin()?;
    }
    let start = Instant::now();
    watch.end = start + time;
    let mut window = Window::default();
    let mut due = Some(Duration::ZERO);
    let mut first_look = Some(time.mul_f64(FIRST_LOOK).min(if runs_command { FIRST_LOOK_AT_COMMAND } else { time }));
    while let Some(after_start) = due {
        let wake = watch.sleep_until(start + after_start)?;
        if wake == Wake::Interrupted && watch.companion.is_none() {
            break;
        }
        window.push(sampler.sample());
        watch.begin()?;
        if wake != Wake::Due {
            // A difference needs two samples.
            if window.snapshots().len() < 2 {
                window.push(sampler.sample());
            }
            break;
        }
        if first_look.is_some_and(|at| after_start >= at) && window.snapshots().len() > 1 {
            first_look = None;
            for source in closer(&window) {
                sampler.ask(&source);
            }
        }
        // Samples are held in memory.
        let interval = if runs_command { asked.interval.max(after_start / LONGEST_IN_SAMPLES) } else { asked.interval };
        due = next_due(after_start, start.elapsed(), time, interval);
    }
    if window.snapshots().len() < 2 {
        return Err(Failure::interrupted("interrupted before the second sample, so there is nothing to compare"));
    }
    Ok(window)
}

/// Reason why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    Due,
    Interrupted,
    /// The traced program has ended.
    Ended,
}

struct Watch<'c, 't> {
    interrupt: Interrupt,
    progress: Option<ProgressLine>,
    end: Instant,
    companion: Option<&'c mut Companion<'t>>,
}

impl Watch<'_, '_> {
    /// Starts to trace the program, once: an existing process at the beginning, a command after the first sample, which
    /// then covers all of its runtime.
    fn begin(&mut self) -> Result<(), Failure> {
        self.companion.as_mut().map_or(Ok(()), |companion| companion.begin())
    }

    /// Sleeps until `due`, while updating the progress line and polling the traced program.
    fn sleep_until(&mut self, due: Instant) -> Result<Wake, Failure> {
        loop {
            let pace = self.companion.as_ref().map_or(SECOND, |companion| companion.pace());
            let now = Instant::now();
            if let Some(progress) = &self.progress {
                progress.show(self.end.saturating_duration_since(now));
            }
            if self.interrupt.ends_sleep_until(due.min(now + pace)) {
                if let Some(companion) = &mut self.companion {
                    companion.end();
                }
                return Ok(Wake::Interrupted);
            }
            if let Some(companion) = &mut self.companion
                && !companion.tick()?
            {
                return Ok(Wake::Ended);
            }
            if Instant::now() >= due {
                return Ok(Wake::Due);
            }
        }
    }
}

/// Returns when the next sample is due, after the start: at every interval, and at the end.
fn next_due(last: Duration, elapsed: Duration, time: Duration, interval: Duration) -> Option<Duration> {
    if last >= time {
        return None;
    }
    Some(next_multiple(interval, elapsed.max(last)).min(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the schedule if each sample takes `cost` milliseconds.
    fn schedule(time: u64, interval: u64, cost: u64) -> Vec<u64> {
        let ms = Duration::from_millis;
        let (mut due, mut clock, mut all) = (Some(ms(0)), ms(0), Vec::new());
        while let Some(at) = due {
            all.push(at.as_millis().try_into().unwrap());
            clock = clock.max(at) + ms(cost);
            due = next_due(at, clock, ms(time), ms(interval));
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
