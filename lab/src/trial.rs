//! One fault or control, from an empty stage to a judgement.

use crate::capture;
use crate::cgroup::Cgroup;
use crate::dice::Dice;
use crate::error::{During, Error, Result};
use crate::expect::Expect;
use crate::judge;
use crate::stage::Stage;
use crate::stolen::Ticks;
use crate::stop;
use crate::worker::{Leash, die_with_us, enter, join};
use nix::sched::CloneFlags;
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use whyslow_model::diagnosis::{Diagnosis, Finding};

/// How long a fault stands before it is looked at: what is being set up must not be in the window.
const SETTLE: Duration = Duration::from_millis(1500);

/// How often a fault is made at most whose load ends before it was looked at.
const TRIES: usize = 3;

/// How long whyslow may take beyond the time it observes for.
const GRACE: Duration = Duration::from_secs(30);

/// A fault, or a healthy control.
pub struct Trial {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub what: &'static str,
    /// Whether it belongs to the quick subset.
    pub quick: bool,
    /// Puts it on the stage, running, and says what must be found.
    pub make: fn(&mut Stage) -> Result<Expect>,
}

/// How whyslow is run.
pub struct Observer {
    /// The program.
    pub whyslow: PathBuf,
    /// For how long it observes.
    pub seconds: u64,
    /// Whether it may use BPF.
    pub bpf: bool,
    /// Whether it then reads what other tools print, too.
    pub captures: bool,
}

/// How a trial went.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The trial's name.
    pub name: &'static str,
    /// What was expected, in words.
    pub expected: String,
    /// What was found first, in words.
    pub found: String,
    /// Right, wrong or skipped.
    pub mark: Mark,
    /// What is wrong, or why it was skipped.
    pub because: Vec<String>,
    /// Wall time, setting up and cleaning up included.
    pub seconds: f64,
}

/// Right, wrong or skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// What was expected was found.
    Right,
    /// It was not, or the trial could not be carried through.
    Wrong,
    /// The machine lacks what the trial needs.
    Skipped,
}

impl Outcome {
    /// What comes of carrying something out, which fills in what was expected, found and wrong.
    ///
    /// # Errors
    /// Only [`Error::Interrupted`]: all others are outcomes.
    pub fn of(name: &'static str, carry_out: impl FnOnce(&mut Self) -> Result<()>) -> Result<Self> {
        let start = Instant::now();
        let mut outcome = Self {
            name,
            expected: String::new(),
            found: String::new(),
            mark: Mark::Right,
            because: Vec::new(),
            seconds: 0.0,
        };
        match carry_out(&mut outcome) {
            Ok(()) if outcome.because.is_empty() => {}
            Ok(()) => outcome.mark = Mark::Wrong,
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(Error::Missing(what)) => (outcome.mark, outcome.because) = (Mark::Skipped, vec![what]),
            Err(Error::Failed(why)) => (outcome.mark, outcome.because) = (Mark::Wrong, vec![why]),
        }
        outcome.seconds = start.elapsed().as_secs_f64();
        Ok(outcome)
    }
}

impl Trial {
    /// Makes the fault, looks, judges, cleans up.
    ///
    /// # Errors
    /// Only [`Error::Interrupted`]: all others are outcomes.
    pub fn run(&self, seed: u64, observer: &Observer) -> Result<Outcome> {
        Outcome::of(self.name, |outcome| self.carry_out(seed, observer, outcome))
    }

    fn carry_out(&self, seed: u64, observer: &Observer, outcome: &mut Outcome) -> Result<()> {
        for _ in 1..TRIES {
            match self.try_out(seed, observer, outcome)? {
                None => return Ok(()),
                Some(ended) => eprintln!("whyslow-lab: {}: {ended}; made again", self.name),
            }
        }
        self.try_out(seed, observer, outcome)?.map_or(Ok(()), |ended| Err(Error::failed(ended)))
    }

    /// Makes, looks and judges once; or what load ended meanwhile, so that there was not what is to be judged.
    fn try_out(&self, seed: u64, observer: &Observer, outcome: &mut Outcome) -> Result<Option<String>> {
        let mut stage = Stage::new(self.name, Dice::new(seed, self.name))?;
        let expect = (self.make)(&mut stage)?;
        outcome.expected = expect.to_string();
        stop::pause(SETTLE)?;
        let before = Ticks::now()?;
        let mut answer = observer.look(&mut stage)?;
        if let Some(ended) = stage.ended_load()? {
            return Ok(Some(ended));
        }
        if before.much_since()? {
            judge::set_aside_steal(&mut answer, &expect);
        }
        outcome.found = answer.findings.first().map_or_else(|| verdict(&answer), describe);
        outcome.because = judge::faults_of(&answer, &expect);
        if observer.captures {
            let (answer, wrong) = capture::judged(observer, &stage, &expect)?;
            let found = answer.findings.first().map_or_else(|| verdict(&answer), describe);
            outcome.found = format!("{}; read: {found}", outcome.found);
            outcome.because.extend(wrong);
        }
        Ok(None)
    }
}

impl Observer {
    fn look(&self, stage: &mut Stage) -> Result<Diagnosis> {
        let time = format!("{}s", self.seconds);
        let patience = Duration::from_secs(self.seconds) + GRACE;
        let mut args = vec!["--json", "--for", &time];
        args.extend((!self.bpf).then_some("--no-bpf"));
        let answer = self.answer(stage, &args, None, patience)?;
        serde_json::from_slice(&answer).during("whyslow's answer")
    }

    /// Runs whyslow, in a control group where one is given, and returns what it printed.
    ///
    /// # Errors
    /// Where it fails, takes longer than `patience`, or the lab is interrupted.
    pub fn answer(
        &self,
        stage: &mut Stage,
        args: &[&str],
        group: Option<&Cgroup>,
        patience: Duration,
    ) -> Result<Vec<u8>> {
        let (out, err) = (stage.path("answer.json"), stage.path("answer.err"));
        let mut command = Command::new(&self.whyslow);
        command.args(args);
        command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
        die_with_us(&mut command);
        if let Some(pid) = stage.ipc_of {
            enter(&mut command, File::open(format!("/proc/{pid}/ns/ipc"))?, CloneFlags::CLONE_NEWIPC);
        }
        if let Some(namespace) = &stage.netns {
            enter(&mut command, File::open(namespace)?, CloneFlags::CLONE_NEWNET);
        }
        if let Some(group) = group {
            join(&mut command, group)?;
        }
        let mut child = Leash(command.spawn().during(self.whyslow.display())?);
        let status = stop::until(patience, || Ok(child.0.try_wait()?))?
            .ok_or_else(|| Error::failed("whyslow did not end in time"))?;
        if !status.success() {
            return Err(Error::failed(format!("whyslow: {status}: {}", first_line(&err))));
        }
        Ok(fs::read(&out)?)
    }
}

fn first_line(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or_default().to_string()
}

fn verdict(answer: &Diagnosis) -> String {
    format!("{:?}", answer.verdict).to_lowercase()
}

fn describe(found: &Finding) -> String {
    let culprit = found.culprits.first().map_or(String::new(), |c| {
        let pid = c.pid.map_or(String::new(), |pid| format!("[{pid}]"));
        format!(" by {}{pid}", c.name)
    });
    let confidence = format!("{:?}", found.confidence).to_lowercase();
    format!("{}{culprit} {confidence} {:.2}", found.key(), found.impact)
}
