//! How a caller follows a benchmark, and ends it early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How far a benchmark is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The current step.
    pub doing: &'a str,
    /// Seconds since it began.
    pub elapsed: f64,
    /// Seconds it takes in all; `None` if unknown.
    pub whole: Option<f64>,
}

/// Called several times a second.
pub(crate) type ProgressFn<'a> = &'a mut dyn FnMut(Progress);

/// Ends a benchmark early. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends what is running: results up to then are kept, temporary files removed.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`Stop::ask`] was called.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
