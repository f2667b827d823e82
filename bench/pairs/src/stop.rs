//! Handlers for SIGINT and SIGTERM, which unwind the measurement, so that everything it created is removed.

use crate::failure::{Failure, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Installs handlers for both signals.
///
/// # Errors
/// Fails if the handlers cannot be installed.
pub fn catch() -> Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, ASKED.clone())?;
    }
    Ok(())
}

/// Fails if a signal has arrived.
///
/// # Errors
/// Returns the error `interrupted` after a signal.
pub fn check() -> Result<()> {
    if ASKED.load(Ordering::Relaxed) { Err(Failure::new("interrupted")) } else { Ok(()) }
}

/// Sleeps until the time is up or a signal arrives.
///
/// # Errors
/// Fails as [`check`] does.
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
