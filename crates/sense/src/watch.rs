//! Work that goes on for days in one thread, and in another where that one is stuck.
//!
//! A thread that hangs in the kernel cannot be got out of it. It is left there, and told when it comes back that it has been
//! relieved. The watch sleeps for as long as all is well: the worker winds up a timer (timerfd_create(2)) before it begins and
//! stops it when it rests, and only a timer that runs down wakes the watch.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What the thread at work tells of itself.
pub struct Pulse {
    watch: Arc<Watch>,
    /// Which of the threads this is.
    turn: u64,
}

struct Watch {
    timer: Timer,
    patience: Duration,
    state: Mutex<State>,
}

struct State {
    /// Which thread is at work.
    turn: u64,
    /// Its last sign of life; `None` while it rests.
    beat: Option<Instant>,
    /// Whether it has ended by itself.
    ended: bool,
}

/// Why the work is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It ended by itself.
    Ended,
    /// It was stopped. The thread at work may still be in the middle of it; its next sign of life tells it.
    Stopped,
}

/// Runs `work` in a thread. Where that thread gives no sign of life for the time of `patience`, `work` is begun anew in
/// another, and so on, until one returns or there is something to read from `stop`.
///
/// # Errors
/// No timer or thread is to be had.
pub fn keep_at_work(
    patience: Duration,
    stop: BorrowedFd<'_>,
    work: impl Fn(&Pulse) + Send + Sync + 'static,
) -> io::Result<Over> {
    let state = Mutex::new(State { turn: 0, beat: None, ended: false });
    let watch = Arc::new(Watch { timer: Timer::new()?, patience, state });
    let work = Arc::new(work);
    watch.begin(0, work.clone())?;
    loop {
        if watch.timer.runs_down_before(stop)? {
            watch.lock().turn += 1;
            return Ok(Over::Stopped);
        }
        match watch.look() {
            Look::Ended => return Ok(Over::Ended),
            Look::Well => {}
            // Where there is no thread to be had now, there may be one later.
            Look::Stuck(turn) => drop(watch.begin(turn, work.clone())),
        }
    }
}

/// How the thread at work is.
enum Look {
    Well,
    Ended,
    /// It is stuck; the next one has this number.
    Stuck(u64),
}

impl Watch {
    fn begin(self: &Arc<Self>, turn: u64, work: Arc<impl Fn(&Pulse) + Send + Sync + 'static>) -> io::Result<()> {
        let pulse = Pulse { watch: self.clone(), turn };
        thread::Builder::new().name("sampling".into()).spawn(move || {
            work(&pulse);
            pulse.end();
        })?;
        Ok(())
    }

    fn look(&self) -> Look {
        let mut state = self.lock();
        let silent = match state.beat {
            _ if state.ended => return Look::Ended,
            Some(beat) => beat.elapsed(),
            None => {
                self.timer.stop();
                return Look::Well;
            }
        };
        let is_stuck = silent >= self.patience;
        if is_stuck {
            state.turn += 1;
            state.beat = Some(Instant::now());
        }
        self.timer.set(if is_stuck { self.patience } else { self.patience - silent });
        if is_stuck { Look::Stuck(state.turn) } else { Look::Well }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pulse {
    /// A sign of life. False where this thread has been relieved: whatever it was about to do is done by another.
    pub fn beat(&self) -> bool {
        let mut state = self.watch.lock();
        if state.turn != self.turn {
            return false;
        }
        if state.beat.replace(Instant::now()).is_none() {
            self.watch.timer.set(self.watch.patience);
        }
        true
    }

    /// Sleeps, unwatched. False as above.
    pub fn rest_until(&self, due: Instant) -> bool {
        {
            let mut state = self.watch.lock();
            if state.turn != self.turn {
                return false;
            }
            state.beat = None;
            self.watch.timer.stop();
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        self.beat()
    }

    fn end(&self) {
        let mut state = self.watch.lock();
        if state.turn == self.turn {
            state.ended = true;
            self.watch.timer.set(Duration::from_nanos(1));
        }
    }
}

/// A timer that can be waited for along with other files.
struct Timer(OwnedFd);

impl Timer {
    fn new() -> io::Result<Self> {
        // SAFETY: a system call that takes numbers only.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Has it run down once, after this time. It counts as not having run down yet.
    fn set(&self, after: Duration) {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec {
            tv_sec: libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(after.subsec_nanos() as i32),
        };
        let spec = libc::itimerspec { it_interval: none, it_value: value };
        // SAFETY: the descriptor is open, and `spec` outlives the call; nothing is written. It can only fail for values that
        // are out of range, which these are not.
        unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const spec, std::ptr::null_mut()) };
    }

    fn stop(&self) {
        self.set(Duration::ZERO);
    }

    /// Waits until it has run down; true where there is something to read from `stop`.
    fn runs_down_before(&self, stop: BorrowedFd<'_>) -> io::Result<bool> {
        let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut files = [wanted(stop.as_raw_fd()), wanted(self.0.as_raw_fd())];
        loop {
            // SAFETY: `files` has two elements that may be written to for the time of the call.
            if unsafe { libc::poll(files.as_mut_ptr(), 2, -1) } >= 0 {
                return Ok(files[0].revents != 0);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;

    const PATIENCE: Duration = Duration::from_millis(100);

    #[test]
    fn work_that_ends_is_over() {
        let (stop, _hold) = UnixStream::pair().unwrap();
        let over = keep_at_work(PATIENCE, stop.as_fd(), |pulse| {
            // To rest for longer than the patience is no hang.
            assert!(pulse.beat() && pulse.rest_until(Instant::now() + 2 * PATIENCE));
        });
        assert_eq!(over.unwrap(), Over::Ended);
    }

    #[test]
    fn a_stuck_thread_is_relieved_and_told_so() {
        let (stop, _hold) = UnixStream::pair().unwrap();
        let (release, released) = channel::<()>();
        let (tell, told) = channel();
        let stuck = Mutex::new(Some(released));
        let over = keep_at_work(PATIENCE, stop.as_fd(), move |pulse| {
            assert!(pulse.beat());
            let stuck = stuck.lock().unwrap().take();
            if let Some(released) = stuck {
                let _ = released.recv();
                tell.send(pulse.beat() || pulse.rest_until(Instant::now())).unwrap();
            }
        });
        assert_eq!(over.unwrap(), Over::Ended, "the second one did the work");
        drop(release);
        assert!(!told.recv().unwrap(), "the first has nothing to do any more");
    }

    #[test]
    fn signs_of_life_keep_a_slow_thread_at_work() {
        let (stop, _hold) = UnixStream::pair().unwrap();
        let (tell, told) = channel();
        keep_at_work(PATIENCE, stop.as_fd(), move |pulse| {
            for _ in 0..10 {
                if !pulse.beat() {
                    return;
                }
                thread::sleep(PATIENCE / 4);
            }
            tell.send(pulse.turn).unwrap();
        })
        .unwrap();
        // A machine that stands still for a moment may take it for stuck: then the next one ends it.
        assert!(told.recv().is_ok());
    }

    #[test]
    fn it_is_stopped_in_its_sleep() {
        let (stop, mut hold) = UnixStream::pair().unwrap();
        hold.write_all(b"x").unwrap();
        let over = keep_at_work(PATIENCE, stop.as_fd(), |pulse| {
            pulse.rest_until(Instant::now() + Duration::from_secs(5));
        });
        assert_eq!(over.unwrap(), Over::Stopped);
    }
}
