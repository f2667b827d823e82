//! The lab's own load programs: this binary again, each a process with a name of its own.

use crate::cgroup::Cgroup;
use crate::error::{During, Error, Result};
use crate::leash::{Leash, die_with_us, enter};
use crate::netns::NetNs;
use crate::stage::Stage;
use crate::stop;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// How long a load may take to set itself up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A load that runs until the end of the trial.
pub struct Worker {
    /// Its process.
    pub pid: u32,
    /// What it said when it was ready: a thread's number, a port; empty where it has nothing to say.
    pub note: String,
    stdin: ChildStdin,
}

impl Worker {
    /// Sends it the one word it may be waiting for.
    ///
    /// # Errors
    /// Where it has ended.
    pub fn tell(&mut self, word: &str) -> Result<()> {
        writeln!(self.stdin, "{word}").during("telling a load")
    }
}

/// A load about to be started.
pub struct Launch {
    name: String,
    command: Command,
}

impl Launch {
    /// The load `name` of `whyslow-lab load`, which will go by the name `lab-NAME`.
    pub fn new(name: &str) -> Self {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(format!("lab-{name}")).args(["load", name]).stdin(Stdio::piped()).stdout(Stdio::piped());
        die_with_us(&mut command);
        Self { name: name.into(), command }
    }

    /// Adds `--key value`.
    pub fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.command.arg(format!("--{key}")).arg(value.to_string());
        self
    }

    /// Adds `--key`.
    pub fn flag(mut self, key: &str) -> Self {
        self.command.arg(format!("--{key}"));
        self
    }

    /// Starts it within a control group, so that its very first page is charged there.
    ///
    /// # Errors
    /// Where the group cannot be opened.
    pub fn in_cgroup(mut self, group: &Cgroup) -> Result<Self> {
        group.take_in(&mut self.command)?;
        Ok(self)
    }

    /// Starts it within a network namespace.
    ///
    /// # Errors
    /// Where the namespace cannot be opened.
    pub fn in_netns(mut self, ns: &NetNs) -> Result<Self> {
        enter(&mut self.command, File::open(ns.path())?, CloneFlags::CLONE_NEWNET);
        Ok(self)
    }

    /// Starts it within an IPC namespace of its own, with limits of its own.
    pub fn in_own_ipc(mut self) -> Self {
        // SAFETY: unshare(2) is one system call, async-signal-safe.
        unsafe { self.command.pre_exec(|| unshare(CloneFlags::CLONE_NEWIPC).map_err(io::Error::from)) };
        self
    }

    /// Starts it and waits until it says that it is ready.
    ///
    /// # Errors
    /// Where it does not start, ends, or is not ready in a minute.
    pub fn start(mut self, stage: &mut Stage) -> Result<Worker> {
        let mut child = Leash(self.command.spawn().during(format!("starting the load {}", self.name))?);
        let (stdin, stdout) = (child.0.stdin.take(), child.0.stdout.take());
        let pid = child.0.id();
        // On the stage before waiting: an interrupted wait must end it too.
        stage.keep_load(&self.name, child);
        let (Some(stdin), Some(mut stdout)) = (stdin, stdout) else { return Err(Error::failed("a load has no pipes")) };
        let note = ready_line(&mut stdout).during(format!("load {}", self.name))?;
        // The pipe stays open, or a later word of the load would kill it with SIGPIPE.
        stage.keep(stdout);
        Ok(Worker { pid, note, stdin })
    }
}

fn ready_line(stdout: &mut ChildStdout) -> Result<String> {
    let readable = stop::until(PATIENCE, || {
        let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)];
        Ok((poll(&mut fds, PollTimeout::ZERO)? > 0).then_some(()))
    })?;
    if readable.is_none() {
        return Err(Error::failed("not ready in time"));
    }
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    match line.trim_end().strip_prefix("ready") {
        Some(note) => Ok(note.trim().to_string()),
        None if line.is_empty() => Err(Error::failed("ended before it was ready")),
        None => Err(Error::Missing(line.trim_end().to_string())),
    }
}
