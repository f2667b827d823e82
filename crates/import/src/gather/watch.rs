//! How far the reading has come, whether it is to stop, and what all files of an incident together may cost.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The most bytes that compressed files and archives unfold to: what is compressed can unfold to a thousand times its size.
const MOST_UNPACKED: u64 = 8 << 30;
/// The most files and folders that archives and folders hold.
const MOST_MEMBERS: u64 = 1 << 20;
/// The most of the CPU's time. A log is read at 100 MB a second and more.
const MOST_CPU_NS: u64 = 600_000_000_000;

/// Shared between the reading and the thread that shows its progress.
#[derive(Debug)]
pub struct Watch {
    /// Bytes read so far.
    pub bytes: AtomicU64,
    /// Set to end the reading.
    pub stop: Arc<AtomicBool>,
    /// What archives unfolded to so far, and how many files were met.
    unpacked: AtomicU64,
    members: AtomicU64,
    /// The most of each, and of the CPU's time of this process.
    pub(crate) limits: Limits,
}

/// What all files together may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub unpacked: u64,
    pub members: u64,
    pub cpu_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { unpacked: MOST_UNPACKED, members: MOST_MEMBERS, cpu_ns: MOST_CPU_NS }
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::within(Limits::default())
    }
}

/// A limit was reached: not an error of the file, so that the rest of it is not just left out.
#[derive(Debug)]
pub(crate) struct OverLimit(String);

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OverLimit {}

/// An error that says which limit was reached.
pub(crate) fn over_limit(what: impl Into<String>) -> io::Error {
    io::Error::other(OverLimit(what.into()))
}

/// Whether an error says that a limit was reached.
pub(crate) fn is_over_limit(e: &io::Error) -> bool {
    e.get_ref().is_some_and(|inner| inner.is::<OverLimit>())
}

impl Watch {
    pub(crate) fn within(limits: Limits) -> Self {
        Self {
            bytes: AtomicU64::new(0),
            stop: Arc::default(),
            unpacked: AtomicU64::new(0),
            members: AtomicU64::new(0),
            limits,
        }
    }

    /// # Errors
    /// Where the reading is to stop.
    pub(crate) fn stopped(&self) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("interrupted"));
        }
        if cpu_ns() > self.limits.cpu_ns {
            let minutes = self.limits.cpu_ns / 60_000_000_000;
            return Err(over_limit(format!(
                "more than {minutes} minutes of CPU time; give the part around the incident, or fewer files"
            )));
        }
        Ok(())
    }

    /// Counts bytes that something compressed, or an archive, unfolded to.
    ///
    /// # Errors
    /// Where that is more than is read.
    pub(crate) fn unpack(&self, bytes: u64) -> io::Result<()> {
        let all = self.unpacked.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if all > self.limits.unpacked {
            let most = self.limits.unpacked >> 20;
            return Err(over_limit(format!(
                "more than {most} MiB unpacked; unpack it yourself, and give the files that matter"
            )));
        }
        Ok(())
    }

    /// Counts a file of an archive or folder.
    ///
    /// # Errors
    /// Where there are more than are looked at.
    pub(crate) fn member(&self) -> io::Result<()> {
        if self.members.fetch_add(1, Ordering::Relaxed) >= self.limits.members {
            let most = self.limits.members;
            return Err(over_limit(format!("more than {most} files; give the ones that matter")));
        }
        Ok(())
    }
}

/// The CPU time of this process (clock_gettime(2)).
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes a timespec, which outlives it.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    if result != 0 {
        return 0;
    }
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// A reader that is watched.
pub(super) struct Watched<R> {
    inner: R,
    watch: Arc<Watch>,
}

impl<R> Watched<R> {
    pub(super) fn new(inner: R, watch: Arc<Watch>) -> Self {
        Self { inner, watch }
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.watch.stopped()?;
        let count = match self.inner.read(buffer) {
            // A file that has nothing to give now, and was opened so that it says so, is at its end: /proc/kmsg.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
            count => count?,
        };
        self.watch.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// A reader of what was unpacked.
pub(crate) struct Unpacked<R> {
    inner: R,
    watch: Arc<Watch>,
}

impl<R> Unpacked<R> {
    pub(crate) fn new(inner: R, watch: Arc<Watch>) -> Self {
        Self { inner, watch }
    }
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut available = self.fill_buf()?;
        let count = available.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Unpacked<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.watch.stopped()?;
        self.watch.unpack(0)?;
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        // Whether it was too much is said when more is read.
        let _ = self.watch.unpack(amount as u64);
        self.inner.consume(amount);
    }
}
