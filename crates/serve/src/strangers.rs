//! Open connections, and the choice of those to close if there are too many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

/// All connections of a server.
#[derive(Clone)]
pub(crate) struct Connections {
    most: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The next connection's number.
    next: u64,
    /// All connections, by number.
    all: BTreeSet<u64>,
    /// Connections without a request so far, by number, hence the oldest first. A client sends a request as soon as it is
    /// connected: the longer it has not, the less is lost by closing its connection.
    strangers: BTreeMap<u64, AbortHandle>,
}

/// A connection's slot, released when this is dropped.
pub(crate) struct Place {
    number: u64,
    connections: Connections,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, state: Arc::default() }
    }

    /// Returns a slot for a new connection, and closes the oldest one without a request if necessary; `None` if all connections
    /// are being answered.
    pub(crate) fn enter(&self) -> Option<Place> {
        if self.state().all.len() >= self.most && !self.send_oldest_away() {
            return None;
        }
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.all.insert(number);
        Some(Place { number, connections: self.clone() })
    }

    /// Allows a connection to be closed through this handle until it has sent a request.
    pub(crate) fn may_end(&self, number: u64, task: AbortHandle) {
        self.state().strangers.insert(number, task);
    }

    /// Closes the oldest connection without a request. Returns whether there was one.
    pub(crate) fn send_oldest_away(&self) -> bool {
        let mut state = self.state();
        let Some((number, task)) = state.strangers.pop_first() else { return false };
        state.all.remove(&number);
        drop(state);
        task.abort();
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Records that the connection has sent a request; it then stays open until it is answered.
    pub(crate) fn has_asked(&self) {
        self.connections.state().strangers.remove(&self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        state.all.remove(&self.number);
        state.strangers.remove(&self.number);
    }
}
