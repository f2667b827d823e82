//! whyslow, as the lab runs it.

use crate::cgroup::Cgroup;
use crate::error::{During, Error, Result};
use crate::leash::{Leash, die_with_us, enter};
use crate::stage::Stage;
use crate::stop;
use nix::sched::CloneFlags;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use whyslow_model::diagnosis::Diagnosis;

/// How long whyslow may take beyond the time it observes for.
const GRACE: Duration = Duration::from_secs(30);

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

impl Observer {
    /// Its diagnosis.
    ///
    /// # Errors
    /// As [`answer`](Self::answer), and where it prints something else.
    pub fn look(&self, stage: &mut Stage) -> Result<Diagnosis> {
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
            group.take_in(&mut command)?;
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
