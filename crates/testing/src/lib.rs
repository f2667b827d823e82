//! Resources that tests create on this machine. They disappear with the test's process, however it ends.
//!
//! If the kernel supports it, a resource lives as long as the process: a loop device clears itself when it is closed
//! ([`LoopDevice`]), and a child is killed with the thread that started it ([`ends_with_test`], [`tree`]). Mounts and network
//! namespaces that need no name belong in private namespaces of a test's thread (unshare(2)).
//!
//! Resources with a name (folders, files, named network namespaces, cgroups), and those found by one (mounts below such a folder,
//! loop devices on such a file), get it from [`name`]: `wsl-PID-START-…`, with the PID of the test's process and its start time.
//! `sweep.sh` removes everything whose process has ended. It runs when a process first asks for a name, and again when that
//! process ends: a shell waits for that.

pub mod documents;
mod http;
mod loop_device;
mod random;
mod rules;
mod setting;

pub use http::{HttpAnswer, HttpServer, PATIENCE, UrlOn, http_get, wait_for};
pub use loop_device::LoopDevice;
pub use random::{Random, window_of};
pub use rules::{cause_files, recommended_actions, rule_files};
pub use setting::RestoredSetting;

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::{NamedTempFile, TempDir};

const SWEEP: &str = include_str!("sweep.sh");

/// Returns a unique name on this machine, ending in `what`. The first call must not come from a thread that has left the
/// machine's namespaces.
pub fn name(what: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{}{}-{what}", prefix(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Returns the prefix of all names of this process.
pub fn prefix() -> &'static str {
    static PREFIX: OnceLock<String> = OnceLock::new();
    // Holds the only open write end of the shell's standard input.
    static REAPER: OnceLock<Child> = OnceLock::new();
    let prefix = PREFIX.get_or_init(|| format!("wsl-{}-{}-", std::process::id(), start_time()));
    REAPER.get_or_init(|| {
        sweep();
        let mut reaper = shell(&[prefix]);
        // A separate process group, which Ctrl-C does not reach.
        reaper.process_group(0).stdin(Stdio::piped()).spawn().expect("sh(1)")
    });
    prefix
}

/// Removes what killed tests left behind.
pub fn sweep() {
    shell(&[]).stdin(Stdio::null()).status().expect("sh(1)");
    loop_device::remove_unused();
}

fn shell(args: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", SWEEP, "sweep"]).args(args).current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
    shell
}

/// Returns the start time of this process, in clock ticks since boot (proc_pid_stat(5)).
fn start_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc/self/stat");
    let field = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(19));
    field.and_then(|field| field.parse().ok()).expect("a start time")
}

/// Creates a temporary folder.
pub fn folder() -> TempDir {
    folder_in(std::env::temp_dir())
}

/// Creates a temporary folder in memory, where a flush does not wait for a disk; on disk if that is not possible.
pub fn memory_folder() -> TempDir {
    tempfile::Builder::new().prefix(prefix()).tempdir_in("/dev/shm").unwrap_or_else(|_| folder())
}

/// Creates a temporary folder in another. `sweep.sh` searches /tmp, /var/tmp and /dev/shm.
pub fn folder_in(parent: impl AsRef<Path>) -> TempDir {
    tempfile::Builder::new().prefix(prefix()).tempdir_in(parent).expect("a temporary folder")
}

/// Creates a temporary file in a folder.
pub fn file_in(parent: impl AsRef<Path>) -> NamedTempFile {
    tempfile::Builder::new().prefix(prefix()).tempfile_in(parent).expect("a temporary file")
}

/// Installs a program that a test runs from a file. Another process copies it: if this one did, a child that another test forks
/// meanwhile would inherit the open copy, and a file that is open for writing cannot be executed (ETXTBSY, execve(2)).
///
/// # Panics
/// Panics if the file cannot be copied.
pub fn install(file: &Path, program: &Path) {
    let done = Command::new("install").args(["-m", "755", "--"]).args([file, program]).status();
    assert!(done.expect("install(1)").success(), "{}", program.display());
}

/// Kills the child when the thread that starts it ends. The sweep kills the child's own children, unless they run without its
/// environment (WHYSLOW_TEST).
pub fn ends_with_test(command: &mut Command) -> &mut Command {
    gets_at_end_of_test(command, libc::SIGKILL)
}

/// Sends this signal to the child when the thread that starts it ends.
pub fn gets_at_end_of_test(command: &mut Command, signal: i32) -> &mut Command {
    // SAFETY: prctl(2) is async-signal-safe.
    unsafe {
        command.env("WHYSLOW_TEST", prefix()).pre_exec(move || match libc::prctl(libc::PR_SET_PDEATHSIG, signal) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        })
    }
}

/// Lets SIGHUP end a child even if the tests were started by nohup(1), whose ignored SIGHUP is inherited.
pub fn heeds_hangup(command: &mut Command) -> &mut Command {
    starts_with(command, libc::SIGHUP, libc::SIG_DFL)
}

/// Starts a child as nohup(1) does: SIGHUP is ignored.
pub fn ignores_hangup(command: &mut Command) -> &mut Command {
    starts_with(command, libc::SIGHUP, libc::SIG_IGN)
}

fn starts_with(command: &mut Command, signal: i32, disposition: libc::sighandler_t) -> &mut Command {
    // SAFETY: signal(2) is async-signal-safe, and neither disposition needs a handler.
    unsafe {
        command.pre_exec(move || match libc::signal(signal, disposition) {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            _ => Ok(()),
        })
    }
}

/// Returns a command that runs a program as the first process of a PID namespace: all its descendants end with it and with the
/// test. Needs root.
pub fn tree(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", program]);
    ends_with_test(&mut command);
    command
}
