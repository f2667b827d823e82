//! SIGINT and SIGTERM unwind the trial instead of ending the program.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Catches both signals from here on.
///
/// # Errors
/// Where the handlers cannot be set.
pub fn catch() -> Result<()> {
    let asked = ASKED.get_or_init(Default::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, asked.clone())?;
    }
    Ok(())
}

/// Whether a signal came.
pub fn asked() -> bool {
    ASKED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Sleeps, but not past a signal.
///
/// # Errors
/// [`Error::Interrupted`].
pub fn pause(time: Duration) -> Result<()> {
    until(time, || Ok(None::<()>)).map(drop)
}

/// Asks again and again, 20 times a second, until there is an answer or the time is up (`None`).
///
/// # Errors
/// [`Error::Interrupted`], or the question's own.
pub fn until<T>(time: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let end = Instant::now() + time;
    loop {
        if asked() {
            return Err(Error::Interrupted);
        }
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        sleep(left.min(Duration::from_millis(50)));
    }
}
