//! The word that ends a benchmark before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asked to stop, or not. Clones are one and the same.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends what is running: what was measured is kept, what was made is removed.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked for.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
