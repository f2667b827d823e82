//! Rolls back a transaction that is not confirmed. The guard is a separate process, which continues when the program that made
//! the changes ends, for whatever reason, and when its connection drops.

use crate::Error;
use crate::journal::Journal;
use crate::machine::{self, Machine};
use crate::session::Session;
use crate::store::{self, STATE, TuneFolder};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;
use whyslow_documents::tune::Status;

/// Message of the guard once nothing can prevent it from doing its task.
const READY: &str = "ready";
/// This folder exists if systemd is the machine's init (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";

/// Starts the guard of a transaction: `whyslow tune guard ID`. Under systemd it is a unit of its own, because the processes of a
/// login session may be killed with the session.
///
/// # Errors
/// Fails if the guard did not start.
pub fn start(id: u64) -> Result<(), String> {
    if is_own_unit_possible() && as_unit(id).is_ok() {
        return Ok(());
    }
    as_process(id).map_err(|e| e.to_string())
}

/// Whether a unit would be in our namespaces: a unit is in those of init.
fn is_own_unit_possible() -> bool {
    let ours = |kind: &str| {
        std::fs::read_link(format!("/proc/self/ns/{kind}")).ok()
            == std::fs::read_link(format!("/proc/1/ns/{kind}")).ok()
    };
    std::path::Path::new(SYSTEMD).is_dir() && ours("net") && ours("mnt")
}

fn as_unit(id: u64) -> io::Result<()> {
    let mut command = Command::new("systemd-run");
    command.args(["--quiet", "--collect", &format!("--unit=whyslow-tune-guard-{id}")]);
    if let Ok(state) = std::env::var(STATE) {
        command.arg(format!("--setenv={STATE}={state}"));
    }
    let status =
        command.arg(std::env::current_exe()?).args(words(id)).stdin(Stdio::null()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("systemd-run: {status}"))) }
}

fn as_process(id: u64) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words(id)).current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut guard = command.spawn()?;
    let mut said = String::new();
    if let Some(out) = guard.stdout.take() {
        BufReader::new(out).read_line(&mut said)?;
    }
    if said.trim() == READY { Ok(()) } else { Err(io::Error::other("it ended before it was ready")) }
}

fn words(id: u64) -> [String; 3] {
    ["tune".into(), "guard".into(), id.to_string()]
}

/// Leaves the session of the program that started it, so that neither a closed terminal nor Ctrl-C ends it, and reports that.
fn detach() -> io::Result<()> {
    // Fails if this process leads a process group, which is then its own already.
    let _ = nix::unistd::setsid();
    // SAFETY: to ignore a signal needs no handler.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    let mut out = io::stdout();
    writeln!(out, "{READY}")?;
    out.flush()
}

/// Waits until a transaction is confirmed or rolled back, and rolls it back when its time is up. It waits for the run that makes
/// the changes; if that run dies, changes that it began or only tried out are rolled back at once.
///
/// # Errors
/// Fails like [`Session::open`].
pub fn guard(machine: &Machine, store: &TuneFolder, id: u64) -> Result<(), Error> {
    const LOOK: Duration = Duration::from_secs(1);
    // The parent may have exited already.
    let _ = detach();
    let journal = Journal::in_folder(store.folder());
    let who = store::who();
    drop(Session::open(machine, store, &who, None)?);
    let (mut size, mut deadline) = (None, 0);
    loop {
        if size != Some(journal.size()) {
            size = Some(journal.size());
            let ledger = journal.read()?;
            let Some(entry) = ledger.find(id).filter(|entry| entry.status == Status::Unconfirmed) else {
                return Ok(());
            };
            deadline = entry.transaction.confirm.as_ref().map_or(0, |confirm| confirm.boottime_ns);
        }
        let left = Duration::from_nanos(deadline).saturating_sub(machine::boottime());
        if left.is_zero() {
            // Opening a session rolls back the transactions that are due.
            return Session::open(machine, store, &who, None).map(|_| ());
        }
        std::thread::sleep(left.min(LOOK));
    }
}
