//! Runs a job in a thread for days, and continues it in another thread if that one hangs.
//!
//! A thread that hangs in the kernel cannot be cancelled. The supervisor abandons it; if the thread ever returns, its next
//! heartbeat reports that it was replaced. The supervisor sleeps while all is well: the worker arms a timer (timerfd_create(2))
//! when it starts to work and disarms it when it goes to sleep, and only a timer that expires wakes the supervisor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Handle with which a worker thread shows that it is alive.
pub struct Heartbeat {
    supervisor: Arc<Supervisor>,
    /// The number of this worker.
    worker: u64,
}

struct Supervisor {
    timer: Timer,
    timeout: Duration,
    state: Mutex<WorkerState>,
}

struct WorkerState {
    /// The number of the current worker.
    worker: u64,
    /// Time of its last heartbeat; `None` while it sleeps.
    beat: Option<Instant>,
    finished: bool,
}

/// Reason why supervision ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The job returned.
    Finished,
    /// `stop` became readable. A worker may still be busy; its next heartbeat returns false.
    Stopped,
}

/// Runs `job` in a thread. If there is no heartbeat for `timeout`, `job` is started again in another thread, and so on, until one
/// returns or `stop` is readable.
///
/// # Errors
/// Fails if the timer or the first thread cannot be created.
pub fn run_supervised(
    timeout: Duration,
    stop: BorrowedFd<'_>,
    job: impl Fn(&Heartbeat) + Send + Sync + 'static,
) -> io::Result<Ending> {
    let state = Mutex::new(WorkerState { worker: 0, beat: None, finished: false });
    let supervisor = Arc::new(Supervisor { timer: Timer::new()?, timeout, state });
    let job = Arc::new(job);
    supervisor.start(0, job.clone())?;
    loop {
        if supervisor.timer.expires_before(stop)? {
            supervisor.lock().worker += 1;
            return Ok(Ending::Stopped);
        }
        match supervisor.check() {
            Check::Finished => return Ok(Ending::Finished),
            Check::Alive => {}
            // If no thread can be created now, the next check tries again.
            Check::Hangs { next } => drop(supervisor.start(next, job.clone())),
        }
    }
}

enum Check {
    Alive,
    Finished,
    Hangs {
        /// The number of the worker to be started.
        next: u64,
    },
}

impl Supervisor {
    fn start(self: &Arc<Self>, worker: u64, job: Arc<impl Fn(&Heartbeat) + Send + Sync + 'static>) -> io::Result<()> {
        let heartbeat = Heartbeat { supervisor: self.clone(), worker };
        thread::Builder::new().name("sampling".into()).spawn(move || {
            job(&heartbeat);
            heartbeat.finish();
        })?;
        Ok(())
    }

    fn check(&self) -> Check {
        let mut state = self.lock();
        let silent = match state.beat {
            _ if state.finished => return Check::Finished,
            Some(beat) => beat.elapsed(),
            None => {
                self.timer.disarm();
                return Check::Alive;
            }
        };
        if silent < self.timeout {
            self.timer.arm(self.timeout - silent);
            return Check::Alive;
        }
        state.worker += 1;
        state.beat = Some(Instant::now());
        self.timer.arm(self.timeout);
        Check::Hangs { next: state.worker }
    }

    fn lock(&self) -> MutexGuard<'_, WorkerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heartbeat {
    /// Shows that this thread is alive. Returns false if it was replaced, and must not continue.
    pub fn beat(&self) -> bool {
        let mut state = self.supervisor.lock();
        if state.worker != self.worker {
            return false;
        }
        if state.beat.replace(Instant::now()).is_none() {
            self.supervisor.timer.arm(self.supervisor.timeout);
        }
        true
    }

    /// Sleeps unsupervised until `due`. Returns false if the thread was replaced, as [`beat`](Self::beat) does.
    pub fn sleep_until(&self, due: Instant) -> bool {
        {
            let mut state = self.supervisor.lock();
            if state.worker != self.worker {
                return false;
            }
            state.beat = None;
            self.supervisor.timer.disarm();
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        self.beat()
    }

    fn finish(&self) {
        let mut state = self.supervisor.lock();
        if state.worker == self.worker {
            state.finished = true;
            self.supervisor.timer.arm(Duration::from_nanos(1));
        }
    }
}

/// A timer that can be polled.
struct Timer(OwnedFd);

impl Timer {
    fn new() -> io::Result<Self> {
        // SAFETY: a system call that takes numbers only.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Arms the timer to expire once, after this time.
    fn arm(&self, after: Duration) {
        let once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec {
            tv_sec: after.as_secs().try_into().unwrap_or(i32::MAX.into()),
            tv_nsec: libc::c_long::from(after.subsec_nanos() as i32),
        };
        let spec = libc::itimerspec { it_interval: once, it_value: value };
        // SAFETY: the descriptor is open, and `spec` outlives the call; nothing is written. The call fails only for values out
        // of range, which these are not.
        unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const spec, std::ptr::null_mut()) };
    }

    fn disarm(&self) {
        self.arm(Duration::ZERO);
    }

    /// Waits until the timer has expired; returns true if `stop` is readable.
    fn expires_before(&self, stop: BorrowedFd<'_>) -> io::Result<bool> {
        let readable = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut files = [readable(stop.as_raw_fd()), readable(self.0.as_raw_fd())];
        loop {
            // SAFETY: `files` has two elements, and is writable during the call.
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

    const TIMEOUT: Duration = Duration::from_millis(100);

    #[test]
    fn supervision_ends_with_the_job_and_sleeping_is_not_hanging() {
        let (stop, _hold) = UnixStream::pair().unwrap();
        let ending = run_supervised(TIMEOUT, stop.as_fd(), |heartbeat| {
            assert!(heartbeat.beat() && heartbeat.sleep_until(Instant::now() + 2 * TIMEOUT));
        });
        assert_eq!(ending.unwrap(), Ending::Finished);
    }

    #[test]
    fn a_hanging_thread_is_replaced_and_learns_of_it() {
        let (stop, _hold) = UnixStream::pair().unwrap();
        let (release, released) = channel::<()>();
        let (report, reported) = channel();
        let hanging = Mutex::new(Some(released));
        let ending = run_supervised(TIMEOUT, stop.as_fd(), move |heartbeat| {
            assert!(heartbeat.beat());
            let hanging = hanging.lock().unwrap().take();
            if let Some(released) = hanging {
                let _ = released.recv();
                report.send(heartbeat.beat() || heartbeat.sleep_until(Instant::now())).unwrap();
            }
        });
        assert_eq!(ending.unwrap(), Ending::Finished, "the second thread did the job");
        drop(release);
        assert!(!reported.recv().unwrap(), "the first thread must not continue");
    }

    #[test]
    fn a_slow_thread_with_heartbeats_is_not_replaced() {
        let finished_by = || {
            let (stop, _hold) = UnixStream::pair().unwrap();
            let (report, reported) = channel();
            run_supervised(TIMEOUT, stop.as_fd(), move |heartbeat| {
                for _ in 0..10 {
                    if !heartbeat.beat() {
                        return;
                    }
                    thread::sleep(TIMEOUT / 4);
                }
                report.send(heartbeat.worker).unwrap();
            })
            .unwrap();
            reported.recv().unwrap()
        };
        // The thread is replaced even if the whole machine stalls for longer than the timeout.
        assert!((0..20).any(|_| finished_by() == 0), "replaced each time");
    }

    #[test]
    fn a_sleeping_job_is_stopped() {
        let (stop, mut hold) = UnixStream::pair().unwrap();
        hold.write_all(b"x").unwrap();
        let ending = run_supervised(TIMEOUT, stop.as_fd(), |heartbeat| {
            heartbeat.sleep_until(Instant::now() + Duration::from_secs(5));
        });
        assert_eq!(ending.unwrap(), Ending::Stopped);
    }
}
