//! Tests that disturb one another: thousands of threads that begin and sleep at once fill what programs keep of sleepers, and are
//! more than a walk through all tasks has room for.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static CROWD: RwLock<()> = RwLock::new(());

/// For the test that makes the crowd.
pub(super) fn crowd() -> RwLockWriteGuard<'static, ()> {
    CROWD.write().unwrap_or_else(PoisonError::into_inner)
}

/// For those that it would disturb.
pub(crate) fn no_crowd() -> RwLockReadGuard<'static, ()> {
    CROWD.read().unwrap_or_else(PoisonError::into_inner)
}
