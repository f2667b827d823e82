//! Ctrl-C, and sleep that it ends at once.

use signal_hook::consts::SIGINT;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Listens for SIGINT, or others: the first is told to whoever sleeps, the second ends the program.
#[derive(Debug)]
pub struct Interrupt {
    pipe: UnixStream,
}

/// There is something to read from it once a signal came.
impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

impl Interrupt {
    /// Starts to listen for SIGINT.
    ///
    /// # Errors
    /// Where the kernel grants no socket pair or handler.
    pub fn listen() -> io::Result<Self> {
        Self::listen_for(&[SIGINT])
    }

    /// Starts to listen for these signals.
    ///
    /// # Errors
    /// Where the kernel grants no socket pair or handler.
    pub fn listen_for(signals: &[i32]) -> io::Result<Self> {
        let (pipe, writer) = UnixStream::pair()?;
        let caught = Arc::new(AtomicBool::new(false));
        for signal in signals {
            // The order counts: at the first signal the default action still finds the flag down.
            signal_hook::flag::register_conditional_default(*signal, Arc::clone(&caught))?;
            signal_hook::flag::register(*signal, Arc::clone(&caught))?;
            signal_hook::low_level::pipe::register(*signal, writer.try_clone()?)?;
        }
        Ok(Self { pipe })
    }

    /// Whether a signal came that nobody was told of.
    pub fn came(&mut self) -> bool {
        let _ = self.pipe.set_nonblocking(true);
        let read = self.pipe.read(&mut [0]);
        let _ = self.pipe.set_nonblocking(false);
        read.is_ok()
    }

    /// Sleeps until `due`. True, at once, where a signal came, be it before or during the sleep.
    pub fn ends_sleep_until(&mut self, due: Instant) -> bool {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            // Only a zero time-out can be refused, and that is excluded.
            let _ = self.pipe.set_read_timeout(Some(left));
            match self.pipe.read(&mut [0]) {
                Ok(_) => return true,
                // WouldBlock is the time-out; Interrupted is any signal, whose byte the next round reads.
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => std::thread::sleep(left),
            }
        }
    }
}
