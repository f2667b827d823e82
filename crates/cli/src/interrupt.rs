//! Termination signals, and a sleep that they interrupt.
//!
//! SIGTERM from a service manager and SIGHUP from a closed terminal cause the same cleanup as Ctrl-C; the exit status
//! shows which signal it was.

use crate::output::Failure;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// Signal other than SIGINT that ended the operation; 0 if none.
static ENDED_BY: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Returns the exit status after SIGTERM or SIGHUP: 128 plus the signal number, as in a shell.
pub fn exit_status() -> Option<u8> {
    let signal = ENDED_BY.load(Ordering::Relaxed);
    u8::try_from(signal).ok().filter(|&signal| signal > 0).map(|signal| signal.saturating_add(128))
}

/// Returns the signals that end a program: SIGINT, SIGTERM, and SIGHUP unless it was ignored at the start (nohup(1)).
pub fn ending_signals() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM].into_iter().chain((!is_ignored(SIGHUP)).then_some(SIGHUP))
}

/// Returns whether a signal was ignored at the start of this program (proc(5), SigIgn).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

fn cannot_listen(error: io::Error) -> Failure {
    Failure::usage(format!("cannot listen for Ctrl-C: {error}"))
}

/// Runs `register` with these signals blocked: one that arrived during the registration would be lost.
fn holding_back<T>(signals: &[i32], register: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut held = SigSet::empty();
    for &signal in signals {
        held.add(Signal::try_from(signal)?);
    }
    let before = held.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let registered = register();
    before.thread_set_mask()?;
    registered
}

/// Listens for SIGINT and other signals: the first wakes the sleeper, the second ends the program.
#[derive(Debug)]
pub struct Interrupt {
    pipe: UnixStream,
    caught: Arc<AtomicBool>,
}

/// Becomes readable once a signal has arrived.
impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

impl Interrupt {
    /// Starts to listen for signals that end a program.
    pub fn listen() -> Result<Self, Failure> {
        let signals: Vec<i32> = ending_signals().collect();
        let register = || {
            for &signal in &signals[1..] {
                signal_hook::flag::register_usize(signal, Arc::clone(&ENDED_BY), signal.unsigned_abs() as usize)?;
            }
            Self::registered(&signals)
        };
        holding_back(&signals, register).map_err(cannot_listen)
    }

    /// Starts to listen for signals that end a service. For a service this is the normal end, so the exit status does
    /// not report it.
    pub fn listen_as_service() -> Result<Self, Failure> {
        let signals: Vec<i32> = ending_signals().collect();
        holding_back(&signals, || Self::registered(&signals)).map_err(cannot_listen)
    }

    fn registered(signals: &[i32]) -> io::Result<Self> {
        let (pipe, writer) = UnixStream::pair()?;
        let caught = Arc::new(AtomicBool::new(false));
        for signal in signals {
            // The order matters: at the first signal the default action must still find the flag unset.
            signal_hook::flag::register_conditional_default(*signal, Arc::clone(&caught))?;
            signal_hook::flag::register(*signal, Arc::clone(&caught))?;
            signal_hook::low_level::pipe::register(*signal, writer.try_clone()?)?;
        }
        Ok(Self { pipe, caught })
    }

    /// Returns the flag, which is set once a signal has arrived.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.caught)
    }

    /// Returns whether a signal has arrived that was not reported yet.
    pub fn came(&mut self) -> bool {
        let _ = self.pipe.set_nonblocking(true);
        let read = self.pipe.read(&mut [0]);
        let _ = self.pipe.set_nonblocking(false);
        read.is_ok()
    }

    /// Sleeps until `due`. Returns true immediately if a signal arrives before or during the sleep.
    pub fn ends_sleep_until(&mut self, due: Instant) -> bool {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            // Only a zero timeout can be refused, which is excluded here.
            let _ = self.pipe.set_read_timeout(Some(left));
            match self.pipe.read(&mut [0]) {
                Ok(_) => return true,
                // WouldBlock is the timeout; Interrupted can be any signal, whose byte the next iteration reads.
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => std::thread::sleep(left),
            }
        }
    }
}
