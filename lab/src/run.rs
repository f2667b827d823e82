//! Runs a trial, from an empty testbed to a judgement, and prints the table of outcomes.

use crate::blind::Blind;
use crate::capture;
use crate::commands;
use crate::error::{Error, Result};
use crate::expect::pair_name;
use crate::gain;
use crate::interrupt;
use crate::judge;
use crate::noise;
use crate::observer::Observer;
use crate::recording;
use crate::testbed::Testbed;
use crate::trial::{Found, Mark, Outcome, Trial};
use crate::trials;
use std::time::Duration;
use whyslow_documents::diagnosis::{Diagnosis, Finding};

/// Time between setup and observation: the setup itself must not be in the window.
const SETTLE: Duration = Duration::from_millis(1500);

/// Maximum number of setups of a trial if its load ends before whyslow has observed it.
const ATTEMPTS: usize = 3;

/// Sets the trial up, observes, judges and tears down.
///
/// # Errors
/// Returns only [`Error::Interrupted`]: all other errors become outcomes.
pub fn run(trial: &Trial, seed: u64, observer: &Observer) -> Result<Outcome> {
    Outcome::run(trial.name, seed, |outcome| {
        (outcome.kind, outcome.without) = (trials::kind(trial), observer.without);
        outcome.causes = trial.causes().into_iter().map(str::to_owned).collect();
        if trial.needs_bpf && matches!(observer.without, Some(Blind::Bpf | Blind::Root)) {
            return Err(Error::Missing("BPF".into()));
        }
        for _ in 1..ATTEMPTS {
            match attempt(trial, seed, observer, outcome)? {
                None => return Ok(()),
                Some(ended) => eprintln!("whyslow-lab: {}: {ended}; set up again", trial.name),
            }
        }
        attempt(trial, seed, observer, outcome)?.map_or(Ok(()), |ended| Err(Error::failed(ended)))
    })
}

/// Sets up, observes and judges once. If a load ended meanwhile, there is nothing to judge, and its name is returned.
fn attempt(trial: &Trial, seed: u64, observer: &Observer, outcome: &mut Outcome) -> Result<Option<String>> {
    let _noise = if observer.noise { Some(noise::start(trial.name, seed)?) } else { None };
    let mut bed = Testbed::new(trial.name, seed)?;
    let expect = trial.set_up(&mut bed)?;
    outcome.expected = match trial.finding {
        Some(id) => expect.describe(id),
        None if expect.interference.is_some() => expect.to_string(),
        None => "healthy".into(),
    };
    interrupt::sleep(SETTLE)?;
    let before = judge::CpuTicks::now()?;
    let mut answer = observer.look(&bed)?;
    if observer.answers {
        outcome.answers.push(serde_json::to_value(&answer)?);
    }
    if let Some(ended) = bed.exited_load()? {
        return Ok(Some(ended));
    }
    if before.substantial_since()? {
        judge::remove_steal(&mut answer, trial);
    }
    if expect.interference.is_some() {
        outcome.found_first = worst_pair(&answer);
    } else {
        outcome.found_first = found_first(&answer);
        outcome.found = answer.findings.iter().map(found).collect();
    }
    outcome.because = match observer.without {
        None => judge::mismatches(&answer, trial, &expect),
        Some(_) => judge::mismatches_of_less(&answer, trial, &expect),
    };
    if observer.gains {
        outcome.fix = gain::tried(observer, &bed, trial, &answer.findings)?;
    }
    if observer.commands {
        let wrong = commands::mismatches(observer, &bed, &expect)?;
        outcome.found_first.push_str(if wrong.is_some() { "; commands" } else { "; no commands" });
        outcome.because.extend(wrong.unwrap_or_default());
    }
    if observer.captures {
        let (answer, wrong) = capture::judged(observer, &bed, trial, &expect)?;
        outcome.found_first = format!("{}; read: {}", outcome.found_first, found_first(&answer));
        outcome.because.extend(wrong);
    }
    if observer.recordings {
        let (explained, wrong) = recording::judged(observer, &bed, trial, &expect, &answer)?;
        outcome.found_first = format!("{}; explain: {}", outcome.found_first, found_first(&explained));
        outcome.because.extend(wrong);
        if observer.answers {
            outcome.answers.push(serde_json::to_value(&explained)?);
        }
    }
    Ok(None)
}

fn found_first(answer: &Diagnosis) -> String {
    answer.findings.first().map_or_else(|| format!("{:?}", answer.verdict).to_lowercase(), describe)
}

fn found(finding: &Finding) -> Found {
    let (confidence, is_effect) = (finding.confidence, finding.explained_by.is_some());
    Found { id: finding.id.clone(), confidence, is_effect }
}

fn worst_pair(answer: &Diagnosis) -> String {
    answer.interference.first().map_or_else(|| "no pair".into(), pair_name)
}

fn describe(finding: &Finding) -> String {
    let culprit = finding.culprits.first().map_or(String::new(), |c| {
        let pid = c.pid.map_or(String::new(), |pid| format!("[{pid}]"));
        format!(" by {}{pid}", c.name)
    });
    let confidence = format!("{:?}", finding.confidence).to_lowercase();
    format!("{}{culprit} {confidence} {:.2}", finding.key(), finding.impact)
}

pub fn heading() -> String {
    line("trial", "expected", "found first", "", 0.0).trim_end_matches(['0', '.', ' ']).to_string()
}

/// Returns one trial's row, followed by what was wrong.
pub fn row(outcome: &Outcome) -> String {
    let mark = match outcome.mark {
        Mark::Right => "right",
        Mark::Wrong => "WRONG",
        Mark::Skipped => "skipped",
    };
    let mut text = line(&outcome.name, &outcome.expected, &outcome.found_first, mark, outcome.seconds);
    if let Some(blind) = outcome.without {
        text.push_str(&format!(" without {}", blind.name()));
    }
    if let Some(kernel) = &outcome.kernel {
        text.push_str(&format!(" on {kernel}"));
    }
    if let Some(fix) = &outcome.fix {
        text.push_str(&format!("\n    {}", fix.to_string().escape_debug()));
    }
    for why in &outcome.because {
        text.push_str(&format!("\n    {}", why.escape_debug()));
    }
    text
}

pub fn summary(outcomes: &[Outcome]) -> String {
    let count = |mark| outcomes.iter().filter(|o| o.mark == mark).count();
    format!("{} passed, {} failed, {} skipped", count(Mark::Right), count(Mark::Wrong), count(Mark::Skipped))
}

fn line(name: &str, expected: &str, found: &str, mark: &str, seconds: f64) -> String {
    // Names in a finding are untrusted text.
    let found = found.escape_debug();
    format!("{name:<20} {expected:<46} {:<60} {mark:<7} {seconds:>5.1}", found.to_string())
}
