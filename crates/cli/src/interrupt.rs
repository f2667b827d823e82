//! Ctrl-C, and sleep that it ends at once.

use signal_hook::consts::SIGINT;
use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Listens for SIGINT: the first is told to whoever sleeps, the second ends the program.
#[derive(Debug)]
pub struct Interrupt {
    pipe: UnixStream,
}

impl Interrupt {
    /// Starts to listen.
    ///
    /// # Errors
    /// Where the kernel grants no socket pair or handler.
    pub fn listen() -> io::Result<Self> {
        let (pipe, writer) = UnixStream::pair()?;
        let caught = Arc::new(AtomicBool::new(false));
        // The order counts: at the first signal the default action still finds the flag down.
        signal_hook::flag::register_conditional_default(SIGINT, Arc::clone(&caught))?;
        signal_hook::flag::register(SIGINT, caught)?;
        signal_hook::low_level::pipe::register(SIGINT, writer)?;
        Ok(Self { pipe })
    }

    /// Sleeps until `due`. True, at once, where SIGINT came, be it before or during the sleep.
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
