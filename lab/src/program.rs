//! Real programs as loads: servers and tools of the system, run in a directory of the trial, usually by an unprivileged
//! user.

use crate::cgroup::Cgroup;
use crate::command::{ChildGuard, NOBODY, join_namespace, kill_with_parent, run_as_nobody};
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::netns::NetNs;
use crate::testbed::Testbed;
use nix::sched::CloneFlags;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid, chown};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Directories of programs; those of PostgreSQL are in a directory of their version.
pub const DIRECTORIES: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];
const POSTGRESQL: &str = "/usr/lib/postgresql";

/// Time limit for a program to set something up, or for a server to answer.
const READY_TIMEOUT: Duration = Duration::from_secs(90);
/// Time limit for processes to be gone after SIGKILL.
const GONE_TIMEOUT: Duration = Duration::from_secs(10);

/// A program to be run.
pub struct ProgramCommand {
    name: String,
    log: PathBuf,
    is_root: bool,
    command: Command,
}

impl ProgramCommand {
    /// Creates a command for the program `name` of the Debian package `package`. It works in `home`, a directory of
    /// [`home`].
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if it is not installed.
    pub fn new(home: &Path, name: &str, package: &str) -> Result<Self> {
        let missing = || Error::Missing(format!("the program {name} (package {package})"));
        let path = find(name).ok_or_else(missing)?;
        let log = home.join(format!("{name}.log"));
        let mut command = Command::new(path);
        command.current_dir(home).env_clear().env("HOME", home).env("LC_ALL", "C").env("PATH", DIRECTORIES.join(":"));
        let output = File::create(&log).context(log.display())?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        command.arg0(name);
        kill_with_parent(&mut command);
        Ok(Self { name: name.to_owned(), log, is_root: false, command })
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Runs the program as root.
    pub fn with_privileges(self) -> Self {
        Self { is_root: true, ..self }
    }

    /// Starts the program in a control group.
    pub fn in_cgroup(mut self, group: &Cgroup) -> Result<Self> {
        group.add_on_spawn(&mut self.command)?;
        Ok(self)
    }

    /// Starts the program in a network namespace.
    pub fn in_netns(mut self, ns: &NetNs) -> Result<Self> {
        join_namespace(&mut self.command, File::open(ns.path())?, CloneFlags::CLONE_NEWNET);
        Ok(self)
    }

    /// Runs the program to completion.
    ///
    /// # Errors
    /// Fails if the program fails or takes too long, with the last line that it printed.
    pub fn run(mut self) -> Result<()> {
        let mut child = self.spawn()?;
        match interrupt::wait_for(READY_TIMEOUT, || Ok(child.0.try_wait()?))? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(Error::failed(format!("{}: {status}: {}", self.name, last_line(&self.log)))),
            None => Err(Error::failed(format!("{}: did not end in time: {}", self.name, last_line(&self.log)))),
        }
    }

    /// Starts the program as a load until the end of the trial, and returns its PID.
    pub fn start(mut self, bed: &mut Testbed) -> Result<u32> {
        let child = self.spawn()?;
        let pid = child.0.id();
        bed.keep_load(&self.name, child);
        Ok(pid)
    }

    fn spawn(&mut self) -> Result<ChildGuard> {
        if !self.is_root {
            run_as_nobody(&mut self.command);
        }
        Ok(ChildGuard(self.command.spawn().context(&self.name)?))
    }

    /// Starts the program and waits until it is ready.
    pub fn start_until(self, bed: &mut Testbed, is_ready: impl Fn() -> bool) -> Result<u32> {
        let log = self.log.clone();
        let pid = self.start(bed)?;
        wait_until_ready(bed, &log, || Ok(is_ready().then_some(())))?;
        Ok(pid)
    }

    /// Starts the program and waits until it has printed a word.
    pub fn start_and_await(self, bed: &mut Testbed, word: &str) -> Result<u32> {
        let log = self.log.clone();
        self.start_until(bed, || fs::read_to_string(&log).unwrap_or_default().contains(word))
    }

    /// Starts a server and waits until it accepts connections at this port.
    pub fn serve(self, bed: &mut Testbed, port: u16) -> Result<u32> {
        self.start_until(bed, || TcpStream::connect(("127.0.0.1", port)).is_ok())
    }
}

/// Creates a working directory for programs. Processes that work there at the end of the trial are killed, because not
/// all programs end with their parent.
pub fn home(bed: &mut Testbed) -> Result<PathBuf> {
    let dir = bed.path("home");
    fs::create_dir_all(&dir).context(dir.display())?;
    give(bed, &dir)?;
    Ok(dir)
}

/// Makes a directory, such as a mounted file system, a working directory for programs.
pub fn give(bed: &mut Testbed, dir: &Path) -> Result<()> {
    chown(dir, Some(Uid::from_raw(NOBODY)), Some(Gid::from_raw(NOBODY))).context(dir.display())?;
    let given = dir.to_owned();
    bed.defer(move || kill_all_in(&given));
    Ok(())
}

/// Kills all processes whose working directory is this one or below, and waits until they are gone.
pub fn kill_all_in(dir: &Path) {
    let end = Instant::now() + GONE_TIMEOUT;
    while Instant::now() < end {
        let pids = working_in(dir);
        if pids.is_empty() {
            return;
        }
        // A process may already be gone.
        for pid in pids {
            let _ = kill(pid, Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    eprintln!("whyslow-lab: cleaning up: processes still work in {}", dir.display());
}

fn working_in(dir: &Path) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let works_there = |pid: &Pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(dir));
    let pids = processes.filter_map(|entry| Some(Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)));
    pids.filter(works_there).collect()
}

fn wait_until_ready(bed: &Testbed, log: &Path, is_ready: impl Fn() -> Result<Option<()>>) -> Result<()> {
    let ready = interrupt::wait_for(READY_TIMEOUT, || match bed.exited_load()? {
        Some(ended) => Err(Error::failed(format!("{ended}: {}", last_line(log)))),
        None => is_ready(),
    })?;
    ready.ok_or_else(|| Error::failed(format!("not ready in time: {}", last_line(log))))
}

fn find(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir(POSTGRESQL).into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let directories = versions.chain(DIRECTORIES.iter().map(PathBuf::from));
    directories.map(|dir| dir.join(name)).find(|path| path.is_file())
}

fn last_line(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_default().lines().last().unwrap_or_default().to_owned()
}
