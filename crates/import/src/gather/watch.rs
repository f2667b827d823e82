//! How far the reading has come, and whether it is to stop, for whoever waits for it.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared between the reading and whoever waits.
#[derive(Debug, Default)]
pub struct Watch {
    /// Bytes read so far.
    pub bytes: AtomicU64,
    /// Set to end the reading.
    pub stop: Arc<AtomicBool>,
}

impl Watch {
    /// # Errors
    /// Where the reading is to stop.
    pub(super) fn stopped(&self) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(io::Error::other("interrupted")) } else { Ok(()) }
    }
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
        let count = self.inner.read(buffer)?;
        self.watch.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
