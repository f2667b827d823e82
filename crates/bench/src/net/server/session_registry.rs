//! Sessions of a server, resource limits for clients, and delivery of streams to their sessions.

use super::super::handshake::{ConnectionToken, SessionId, StreamId};
use super::super::token::{Tag, nonce};
use super::TICK;
use crate::Stop;
use socket2::Socket;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Limits of unauthenticated connections, in total and per address. A client may open all its streams at once
/// ([`MAX_STREAMS`]), so a lower limit per address would evict its own. Each connection takes two file descriptors, and
/// all connections and streams must fit into the usual limit of 1,024 per process.
const MAX_PENDING: usize = 320;
const MAX_PENDING_PER_ADDRESS: usize = 288;
const MAX_SESSIONS: usize = 8;
/// Streams of all clients.
const MAX_STREAMS: u32 = 256;
/// Streams on their way to a session; more than it can expect.
const MAX_INCOMING: usize = 256;

pub(super) struct SessionRegistry {
    stop: Stop,
    pending: Arc<Mutex<PendingConnections>>,
    streams: Arc<AtomicU32>,
    sessions: Mutex<HashMap<SessionId, SessionEntry>>,
}

struct SessionEntry {
    key: Tag,
    to: SyncSender<(StreamId, IncomingStream)>,
}

pub(super) enum IncomingStream {
    Tcp(Socket),
    /// Source address of the datagrams.
    Udp(SocketAddr),
}

pub(super) type IncomingStreams = Receiver<(StreamId, IncomingStream)>;

/// Reserved streams; released when dropped.
pub(super) struct StreamQuota {
    taken: Arc<AtomicU32>,
    count: u32,
}

/// Registration of a session; removes it when dropped.
pub(super) struct SessionGuard {
    pub(super) id: SessionId,
    registry: Arc<SessionRegistry>,
}

impl SessionRegistry {
    pub(super) fn new(stop: Stop) -> Self {
        Self { stop, pending: Arc::default(), streams: Arc::default(), sessions: Mutex::default() }
    }

    /// Adds a connection that has not authenticated yet. At a limit, it replaces the oldest connection: from the same
    /// address if that is at its limit, else from the address with the most.
    pub(super) fn add_pending(&self, stream: &TcpStream) -> io::Result<PendingConnection> {
        let (address, stream) = (stream.peer_addr()?.ip().to_canonical(), stream.try_clone()?);
        let mut pending = lock(&self.pending);
        if pending.count(address) >= MAX_PENDING_PER_ADDRESS {
            pending.evict(address);
        } else if pending.waiting.len() >= MAX_PENDING
            && let Some(most) = pending.busiest()
        {
            pending.evict(most);
        }
        pending.last += 1;
        let number = pending.last;
        pending.waiting.insert(number, (address, stream));
        Ok(PendingConnection { number, all: self.pending.clone() })
    }

    /// Reserves streams. Returns `None` if too few are left.
    pub(super) fn reserve_streams(&self, count: u32) -> Option<StreamQuota> {
        let fits = |taken: u32| taken.checked_add(count).filter(|sum| *sum <= MAX_STREAMS);
        self.streams.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?;
        Some(StreamQuota { taken: self.streams.clone(), count })
    }

    /// Opens a session. Returns `None` if there are too many.
    pub(super) fn open_session(self: &Arc<Self>, key: Tag) -> io::Result<Option<(SessionGuard, IncomingStreams)>> {
        let mut id = SessionId::default();
        id.copy_from_slice(&nonce()?[..16]);
        let mut sessions = lock(&self.sessions);
        if sessions.len() >= MAX_SESSIONS {
            return Ok(None);
        }
        let (to, incoming) = sync_channel(MAX_INCOMING);
        sessions.insert(id, SessionEntry { key, to });
        Ok(Some((SessionGuard { id, registry: self.clone() }, incoming)))
    }

    pub(super) fn session_count(&self) -> u32 {
        lock(&self.sessions).len() as u32
    }

    /// Passes a stream to the session for which its token is valid; otherwise closes it.
    pub(super) fn deliver(&self, token: &ConnectionToken, stream: IncomingStream) {
        let sessions = lock(&self.sessions);
        let entry = sessions.get(&token.session).filter(|entry| token.is_valid(&entry.key));
        if let Some(entry) = entry {
            // Streams beyond the limit were not requested.
            let _ = entry.to.try_send((token.id, stream));
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.stop.is_asked()
    }

    pub(super) fn ask_to_close(&self) {
        self.stop.ask();
    }

    /// Ends the server and waits at most `patience` for its sessions.
    pub(super) fn close(&self, patience: Duration) {
        self.ask_to_close();
        let asked = Instant::now();
        while self.session_count() > 0 && asked.elapsed() < patience {
            sleep(TICK);
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // No operation under a lock leaves its data inconsistent when it panics.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Unauthenticated connections, the oldest first.
#[derive(Default)]
struct PendingConnections {
    last: u64,
    waiting: BTreeMap<u64, (IpAddr, TcpStream)>,
}

impl PendingConnections {
    fn count(&self, address: IpAddr) -> usize {
        self.waiting.values().filter(|(of, _)| *of == address).count()
    }

    fn busiest(&self) -> Option<IpAddr> {
        self.waiting.values().map(|(of, _)| *of).max_by_key(|of| self.count(*of))
    }

    /// Closes the oldest connection of an address; its thread then ends.
    fn evict(&mut self, address: IpAddr) {
        let oldest = self.waiting.iter().find(|(_, (of, _))| *of == address).map(|(number, _)| *number);
        if let Some((_, stream)) = oldest.and_then(|number| self.waiting.remove(&number)) {
            // It may already be closed.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Registration of an unauthenticated connection; removed when dropped.
pub(super) struct PendingConnection {
    number: u64,
    all: Arc<Mutex<PendingConnections>>,
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        lock(&self.all).waiting.remove(&self.number);
    }
}

impl Drop for StreamQuota {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.count, Ordering::AcqRel);
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        lock(&self.registry.sessions).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: StreamId = StreamId { round: 1, load: 0, stream: 0 };

    fn udp() -> IncomingStream {
        IncomingStream::Udp(SocketAddr::from(([127, 0, 0, 1], 9)))
    }

    #[test]
    fn streams_are_released_when_their_quota_is_dropped() {
        let registry = SessionRegistry::new(Stop::default());
        let half = registry.reserve_streams(MAX_STREAMS / 2).unwrap();
        let other = registry.reserve_streams(MAX_STREAMS / 2).unwrap();
        assert!(registry.reserve_streams(1).is_none());
        drop(half);
        assert!(registry.reserve_streams(u32::MAX).is_none());
        assert!(registry.reserve_streams(MAX_STREAMS / 2).is_some());
        drop(other);
    }

    #[test]
    fn a_stream_reaches_only_the_session_its_token_is_for() {
        let registry = Arc::new(SessionRegistry::new(Stop::default()));
        let (session, incoming) = registry.open_session([1; 32]).unwrap().unwrap();
        let (other, others) = registry.open_session([2; 32]).unwrap().unwrap();
        registry.deliver(&ConnectionToken::new(session.id, ID, &[2; 32]), udp());
        registry.deliver(&ConnectionToken::new([0; 16], ID, &[1; 32]), udp());
        assert!(incoming.try_recv().is_err() && others.try_recv().is_err());
        registry.deliver(&ConnectionToken::new(session.id, ID, &[1; 32]), udp());
        assert_eq!(incoming.try_recv().unwrap().0, ID);
        // Streams that a session cannot expect are dropped without blocking.
        (0..2 * MAX_INCOMING).for_each(|_| registry.deliver(&ConnectionToken::new(other.id, ID, &[2; 32]), udp()));
        assert_eq!(others.try_iter().count(), MAX_INCOMING);
    }

    #[test]
    fn the_number_of_sessions_is_limited() {
        let registry = Arc::new(SessionRegistry::new(Stop::default()));
        let sessions: Vec<_> = (0..MAX_SESSIONS).map(|_| registry.open_session([0; 32]).unwrap().unwrap()).collect();
        assert!(registry.open_session([0; 32]).unwrap().is_none());
        drop(sessions);
        assert!(registry.open_session([0; 32]).unwrap().is_some());
    }
}
