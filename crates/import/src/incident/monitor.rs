//! Progress, interruption and limits of the reading, for all files of an incident together.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Maximum decompressed bytes of files and archives, which may be a thousand times the compressed size.
const MOST_UNPACKED: u64 = 8 << 30;
/// Maximum number of files and folders in archives and folders.
const MOST_MEMBERS: u64 = 1 << 20;
/// Maximum CPU time. Logs are read at 100 MB per second and more.
const MOST_CPU_NS: u64 = 600_000_000_000;

/// State shared between the reader and the thread that shows its progress.
#[derive(Debug)]
pub struct ReadMonitor {
    /// Bytes read so far.
    pub bytes: AtomicU64,
    /// Set to interrupt the reading.
    pub stop: Arc<AtomicBool>,
    /// Decompressed bytes and files seen so far.
    unpacked: AtomicU64,
    members: AtomicU64,
    /// CPU time of the process when the reading began: what it used before is not part of the reading.
    began_ns: u64,
    pub(crate) limits: ReadLimits,
}

/// Limits for all files together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadLimits {
    pub unpacked: u64,
    pub members: u64,
    pub cpu_ns: u64,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { unpacked: MOST_UNPACKED, members: MOST_MEMBERS, cpu_ns: MOST_CPU_NS }
    }
}

impl Default for ReadMonitor {
    fn default() -> Self {
        Self::within(ReadLimits::default())
    }
}

/// Error that reports a reached limit. The fault is not in the file, whose rest must not simply be skipped.
#[derive(Debug)]
pub(crate) struct OverLimit(String);

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OverLimit {}

/// Creates an error that names the limit that was reached.
pub(crate) fn over_limit(what: impl Into<String>) -> io::Error {
    io::Error::other(OverLimit(what.into()))
}

/// Returns true if an error reports a reached limit.
pub(crate) fn is_over_limit(e: &io::Error) -> bool {
    e.get_ref().is_some_and(|inner| inner.is::<OverLimit>())
}

impl ReadMonitor {
    pub(crate) fn within(limits: ReadLimits) -> Self {
        Self {
            bytes: AtomicU64::new(0),
            stop: Arc::default(),
            unpacked: AtomicU64::new(0),
            members: AtomicU64::new(0),
            began_ns: cpu_ns(),
            limits,
        }
    }

    /// # Errors
    /// Fails if the reading was interrupted.
    pub(crate) fn interrupted(&self) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(io::Error::other("interrupted")) } else { Ok(()) }
    }

    /// # Errors
    /// Fails if the reading was interrupted, or has used too much CPU time.
    pub(crate) fn stopped(&self) -> io::Result<()> {
        self.interrupted()?;
        if cpu_ns().saturating_sub(self.began_ns) > self.limits.cpu_ns {
            let minutes = self.limits.cpu_ns / 60_000_000_000;
            return Err(over_limit(format!(
                "more than {minutes} minutes of CPU time; give the part around the incident, or fewer files"
            )));
        }
        Ok(())
    }

    /// # Errors
    /// Fails if too many bytes were unpacked.
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
    /// Fails if there are too many.
    pub(crate) fn member(&self) -> io::Result<()> {
        if self.members.fetch_add(1, Ordering::Relaxed) >= self.limits.members {
            let most = self.limits.members;
            return Err(over_limit(format!("more than {most} files; give the ones that matter")));
        }
        Ok(())
    }
}

/// Returns the CPU time of this process (clock_gettime(2)).
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes a timespec, which outlives it.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    if result != 0 {
        return 0;
    }
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// A reader that counts bytes and can be interrupted.
pub(super) struct MonitoredReader<R> {
    inner: R,
    monitor: Arc<ReadMonitor>,
}

impl<R> MonitoredReader<R> {
    pub(super) fn new(inner: R, monitor: Arc<ReadMonitor>) -> Self {
        Self { inner, monitor }
    }
}

impl<R: Read> Read for MonitoredReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.monitor.stopped()?;
        let count = match self.inner.read(buffer) {
            // A non-blocking file without data is at its end: /proc/kmsg.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
            count => count?,
        };
        self.monitor.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// A reader of decompressed data, within limits.
pub(crate) struct UnpackedReader<R> {
    inner: R,
    monitor: Arc<ReadMonitor>,
}

impl<R> UnpackedReader<R> {
    pub(crate) fn new(inner: R, monitor: Arc<ReadMonitor>) -> Self {
        Self { inner, monitor }
    }
}

impl<R: BufRead> Read for UnpackedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut available = self.fill_buf()?;
        let count = available.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for UnpackedReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.monitor.stopped()?;
        self.monitor.unpack(0)?;
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        // Exceeding the limit is reported by the next read.
        let _ = self.monitor.unpack(amount as u64);
        self.inner.consume(amount);
    }
}
