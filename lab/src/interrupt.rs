//! Handlers for SIGINT and SIGTERM: they end the trial with its teardown instead of killing the program.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs handlers for both signals.
pub fn install_handlers() -> Result<()> {
    let requested = REQUESTED.get_or_init(Default::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, requested.clone())?;
    }
    Ok(())
}

fn requested() -> bool {
    REQUESTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Sleeps until the time is up or a signal arrives.
///
/// # Errors
/// Returns [`Error::Interrupted`] after a signal.
pub fn sleep(time: Duration) -> Result<()> {
    wait_for(time, || Ok(None::<()>)).map(drop)
}

/// Polls 20 times a second until there is an answer; `None` if there was none in time.
///
/// # Errors
/// Returns [`Error::Interrupted`] after a signal, and errors of `poll`.
pub fn wait_for<T>(time: Duration, mut poll: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let end = Instant::now() + time;
    loop {
        if requested() {
            return Err(Error::Interrupted);
        }
        if let Some(answer) = poll()? {
            return Ok(Some(answer));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}
