//! Starts the lab's load programs: this binary again, each as a process with its own name.

use crate::cgroup::Cgroup;
use crate::command::{ChildGuard, join_namespace, kill_with_parent};
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::netns::NetNs;
use crate::testbed::Testbed;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Time limit for the setup of a load.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// A load that runs until the end of the trial.
pub struct LoadProcess {
    pub pid: u32,
    /// Text that it printed when it was ready, such as a thread id; usually empty.
    pub ready_note: String,
    stdin: ChildStdin,
}

impl LoadProcess {
    /// Sends the word that the load may be waiting for.
    pub fn send(&mut self, word: &str) -> Result<()> {
        writeln!(self.stdin, "{word}").context("sending to a load")
    }
}

/// A load to be started.
pub struct LoadCommand {
    name: String,
    command: Command,
}

impl LoadCommand {
    /// Creates the load `name` of `whyslow-lab load`; its process is called `lab-NAME`.
    pub fn new(name: &str) -> Self {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(format!("lab-{name}")).args(["load", name]).stdin(Stdio::piped()).stdout(Stdio::piped());
        kill_with_parent(&mut command);
        Self { name: name.into(), command }
    }

    /// Creates the load in its own PID namespace, as the first process (unshare(1)).
    pub fn in_own_pids(name: &str) -> Result<Self> {
        Self::behind("unshare", &["--pid", "--fork", "--kill-child"], name)
    }

    /// Creates the load in a systemd scope below a slice, with these properties (systemd-run(1)).
    pub fn in_scope(name: &str, scope: &str, slice: &str, properties: &[&str]) -> Result<Self> {
        let (unit, slice) = (format!("--unit={scope}"), format!("--slice={slice}"));
        let properties = properties.iter().flat_map(|property| ["-p", property]);
        let options: Vec<&str> = ["--scope", "--quiet", &unit, &slice].into_iter().chain(properties).collect();
        Self::behind("systemd-run", &options, name)
    }

    /// Creates the load so that another program starts it.
    fn behind(program: &str, options: &[&str], name: &str) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(options).arg("--").arg(std::env::current_exe()?).args(["load", name]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        kill_with_parent(&mut command);
        Ok(Self { name: name.into(), command })
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

    /// Starts the load in a control group, so that even its first page is charged there.
    pub fn in_cgroup(mut self, group: &Cgroup) -> Result<Self> {
        group.add_on_spawn(&mut self.command)?;
        Ok(self)
    }

    /// Starts the load in a network namespace.
    pub fn in_netns(mut self, ns: &NetNs) -> Result<Self> {
        join_namespace(&mut self.command, File::open(ns.path())?, CloneFlags::CLONE_NEWNET);
        Ok(self)
    }

    /// Starts the load in a new IPC namespace, which has its own limits.
    pub fn in_own_ipc(mut self) -> Self {
        // SAFETY: unshare(2) is one system call, async-signal-safe.
        unsafe { self.command.pre_exec(|| unshare(CloneFlags::CLONE_NEWIPC).map_err(io::Error::from)) };
        self
    }

    /// Starts the load and waits until it is ready.
    ///
    /// # Errors
    /// Fails if the load does not start, ends, or is not ready within a minute.
    pub fn start(mut self, bed: &mut Testbed) -> Result<LoadProcess> {
        let mut child = ChildGuard(self.command.spawn().context(format!("starting the load {}", self.name))?);
        let (stdin, stdout) = (child.0.stdin.take(), child.0.stdout.take());
        let pid = child.0.id();
        // Kept before waiting: an interrupted wait must end the load, too.
        bed.keep_load(&self.name, child);
        let (Some(stdin), Some(mut stdout)) = (stdin, stdout) else { return Err(Error::failed("a load has no pipes")) };
        let ready_note = read_ready_line(&mut stdout).context(format!("load {}", self.name))?;
        // The pipe stays open, or SIGPIPE would kill the load when it prints again.
        bed.keep(stdout);
        Ok(LoadProcess { pid, ready_note, stdin })
    }
}

fn read_ready_line(stdout: &mut ChildStdout) -> Result<String> {
    let readable = interrupt::wait_for(READY_TIMEOUT, || {
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
