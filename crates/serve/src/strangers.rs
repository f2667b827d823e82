//! Who is connected, and who has to leave when there are too many.

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
    /// All connections by number.
    all: BTreeSet<u64>,
    /// Those that have not asked for anything yet, by number, so the oldest first. A client asks as soon as it is connected: the
    /// longer one has not, the less is lost with it.
    strangers: BTreeMap<u64, AbortHandle>,
}

/// A connection's place, which is free again when this is dropped.
pub(crate) struct Place {
    number: u64,
    connections: Connections,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, state: Arc::default() }
    }

    /// A place for a new connection, for which the oldest stranger may have to leave; `None` if all are being answered.
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

    /// Has a connection end by this handle as long as it has not asked for anything.
    pub(crate) fn may_end(&self, number: u64, task: AbortHandle) {
        self.state().strangers.insert(number, task);
    }

    /// Ends the connection of the oldest stranger. Returns whether there was one.
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

    /// The connection has asked for something, and stays until it is answered.
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
