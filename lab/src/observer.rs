//! Runs whyslow against a trial.

use crate::blind::Blind;
use crate::cgroup::Cgroup;
use crate::command::{ChildGuard, join_namespace, kill_with_parent};
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::testbed::Testbed;
use crate::vm::is_guest;
use nix::sched::CloneFlags;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use whyslow_documents::diagnosis::Diagnosis;

/// Time allowed for whyslow beyond its observation time; bench-explain, which can run in its place, records for twenty
/// seconds of it.
const GRACE: Duration = Duration::from_secs(60);
/// Time for the commands that do not diagnose.
const COMMANDS: Duration = Duration::from_secs(90);

#[derive(Clone)]
pub struct Observer {
    pub whyslow: PathBuf,
    /// Observation time in seconds.
    pub seconds: u64,
    pub bpf: bool,
    /// Feature hidden from it; it may then be unsure.
    pub without: Option<Blind>,
    /// Whether it must also diagnose the output of other tools.
    pub captures: bool,
    /// Whether harmless programs run in the background.
    pub noise: bool,
    /// Whether its recommendations are tried.
    pub gains: bool,
    /// Whether it must also explain a recording.
    pub recordings: bool,
    /// Whether to run the commands that do not diagnose, too.
    pub commands: bool,
    /// Whether to keep its answers in the outcome.
    pub answers: bool,
}

impl Observer {
    /// Argument for `commands`.
    pub const COMMANDS: &str = "--commands";

    /// Returns the total observation time of a trial.
    pub fn observes(&self) -> Duration {
        let seconds = self.seconds * (1 + u64::from(self.recordings) + u64::from(self.captures));
        Duration::from_secs(seconds) + if self.commands { COMMANDS } else { Duration::ZERO }
    }

    /// Returns the arguments that make another lab observe in the same way.
    pub fn to_args(&self) -> Vec<String> {
        let flags = [
            ("--no-bpf", !self.bpf),
            ("--captures", self.captures),
            ("--noise", self.noise),
            ("--gains", self.gains),
            ("--recordings", self.recordings),
            (Self::COMMANDS, self.commands),
            ("--answers", self.answers),
        ];
        let set = flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| (*flag).to_owned());
        ["--for".to_owned(), self.seconds.to_string()].into_iter().chain(set).collect()
    }

    /// Returns its diagnosis of the running trial.
    ///
    /// # Errors
    /// Fails as [`run`](Self::run) does, and if the output is not a diagnosis.
    pub fn look(&self, bed: &Testbed) -> Result<Diagnosis> {
        let time = format!("{}s", self.seconds);
        let timeout = Duration::from_secs(self.seconds) + GRACE;
        let mut args = vec!["--json", "--for", &time];
        args.extend((!self.bpf).then_some("--no-bpf"));
        let answer = self.run(bed, &args, None, timeout)?;
        serde_json::from_slice(&answer).context("whyslow's answer")
    }

    /// Runs whyslow, optionally in a control group, and returns its output.
    ///
    /// # Errors
    /// Fails if whyslow fails or exceeds the timeout, or if the lab is interrupted.
    pub fn run(&self, bed: &Testbed, args: &[&str], group: Option<&Cgroup>, timeout: Duration) -> Result<Vec<u8>> {
        let (out, err) = (bed.path("answer.json"), bed.path("answer.err"));
        let mut command = Command::new(&self.whyslow);
        // A trial's changes and state must not mix with this machine's own.
        command.args(args).env("WHYSLOW_STATE", bed.path("state"));
        command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
        kill_with_parent(&mut command);
        if let Some(pid) = bed.ipc_namespace_of {
            join_namespace(&mut command, File::open(format!("/proc/{pid}/ns/ipc"))?, CloneFlags::CLONE_NEWIPC);
        }
        if let Some(namespace) = &bed.netns {
            join_namespace(&mut command, File::open(namespace)?, CloneFlags::CLONE_NEWNET);
        }
        if let Some(group) = group {
            group.add_on_spawn(&mut command)?;
        }
        if let Some(blind) = self.without {
            blind.take_from(&mut command)?;
        }
        let mut child = ChildGuard(command.spawn().context(self.whyslow.display())?);
        // The CPUs of a guest are emulated.
        let timeout = if is_guest() { 4 * timeout } else { timeout };
        let status = interrupt::wait_for(timeout, || Ok(child.0.try_wait()?))?
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
