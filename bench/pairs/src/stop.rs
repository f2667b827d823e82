//! SIGINT and SIGTERM unwind the measurement, so that everything it made is removed.

use crate::failure::{Failure, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Catches both signals from here on.
///
/// # Errors
/// Where the handlers cannot be set.
pub fn catch() -> Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, ASKED.clone())?;
    }
    Ok(())
}

/// Fails where a signal came.
///
/// # Errors
/// `interrupted`.
pub fn check() -> Result<()> {
    if ASKED.load(Ordering::Relaxed) { Err(Failure::new("interrupted")) } else { Ok(()) }
}

/// Sleeps, but not past a signal.
///
/// # Errors
/// As [`check`].
pub fn pause(time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        sleep(left.min(Duration::from_millis(50)));
    }
}
