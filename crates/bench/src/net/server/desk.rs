//! Who is in the house, how many may be, and to whom a line that comes belongs.

use super::super::door::{Pass, Place, SessionId};
use super::super::token::{Tag, nonce};
use super::TICK;
use crate::stop::Stop;
use socket2::Socket;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Connections that have not authenticated yet, of all addresses and of one. One client may open all its streams at once
/// ([`MOST_STREAMS`]), so a lower limit for an address would evict its own. Each takes two file descriptors, and all of them and
/// the streams must fit into the usual 1,024 of a process.
const MOST_STRANGERS: usize = 320;
const MOST_STRANGERS_OF_ONE: usize = 288;
/// Clients at a time.
const MOST_SESSIONS: usize = 8;
/// Streams of all clients at a time.
const MOST_STREAMS: u32 = 256;
/// Lines on their way to a session; more than it can expect.
const MOST_ARRIVALS: usize = 256;

/// What the threads of a server share.
pub(super) struct Desk {
    stop: Stop,
    strangers: Arc<Mutex<Strangers>>,
    streams: Arc<AtomicU32>,
    sessions: Mutex<HashMap<SessionId, Entry>>,
}

/// A session as the desk knows it.
struct Entry {
    key: Tag,
    to: SyncSender<(Place, Arrival)>,
}

/// A line that has come.
pub(super) enum Arrival {
    /// A connection.
    Stream(Socket),
    /// Where datagrams will come from.
    Datagrams(SocketAddr),
}

/// The lines that come for a session.
pub(super) type Arrivals = Receiver<(Place, Arrival)>;

/// A place in the house, given back when dropped.
pub(super) struct Seats {
    taken: Arc<AtomicU32>,
    count: u32,
}

/// A session's place.
pub(super) struct Seat {
    pub(super) id: SessionId,
    desk: Arc<Desk>,
}

impl Desk {
    pub(super) fn new(stop: Stop) -> Self {
        Self { stop, strangers: Arc::default(), streams: Arc::default(), sessions: Mutex::default() }
    }

    /// Room for a connection that has not said yet who it is. Where there is none, the one that has waited longest makes room:
    /// of its own address, where that has as many as it may have, and otherwise of the address that has most.
    pub(super) fn seat_stranger(&self, stream: &TcpStream) -> io::Result<Stranger> {
        let (address, stream) = (stream.peer_addr()?.ip().to_canonical(), stream.try_clone()?);
        let mut strangers = lock(&self.strangers);
        let own = strangers.count(address);
        if own >= MOST_STRANGERS_OF_ONE {
            strangers.evict(address);
        } else if strangers.waiting.len() >= MOST_STRANGERS
            && let Some(most) = strangers.busiest()
        {
            strangers.evict(most);
        }
        strangers.last += 1;
        let number = strangers.last;
        strangers.waiting.insert(number, (address, stream));
        Ok(Stranger { number, all: self.strangers.clone() })
    }

    /// Room for so many streams.
    pub(super) fn seat_streams(&self, count: u32) -> Option<Seats> {
        Seats::take(&self.streams, count, MOST_STREAMS)
    }

    /// Opens a session; none where there are as many as may be.
    ///
    /// # Errors
    /// Where there are no random bytes for its number.
    pub(super) fn open_session(self: &Arc<Self>, key: Tag) -> io::Result<Option<(Seat, Arrivals)>> {
        let mut id = SessionId::default();
        id.copy_from_slice(&nonce()?[..16]);
        let mut sessions = self.sessions();
        if sessions.len() >= MOST_SESSIONS {
            return Ok(None);
        }
        let (to, arrivals) = sync_channel(MOST_ARRIVALS);
        sessions.insert(id, Entry { key, to });
        Ok(Some((Seat { id, desk: self.clone() }, arrivals)))
    }

    /// How many sessions there are.
    pub(super) fn session_count(&self) -> u32 {
        self.sessions().len() as u32
    }

    /// Brings a line to its session, where there is one that gave it its pass; otherwise it is closed.
    pub(super) fn admit(&self, pass: &Pass, arrival: Arrival) {
        let to = self.sessions().get(&pass.session).filter(|entry| pass.is_valid(&entry.key)).map(|e| e.to.clone());
        if let Some(to) = to {
            // More than fit were not asked for.
            let _ = to.try_send((pass.place, arrival));
        }
    }

    /// Whether the server is to end.
    pub(super) fn is_closing(&self) -> bool {
        self.stop.is_asked()
    }

    /// Ends the server.
    pub(super) fn ask_to_close(&self) {
        self.stop.ask();
    }

    /// Ends it and waits for sessions to end, but not longer than so long.
    pub(super) fn close(&self, patience: Duration) {
        self.ask_to_close();
        let asked = Instant::now();
        while self.session_count() > 0 && asked.elapsed() < patience {
            sleep(TICK);
        }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Entry>> {
        lock(&self.sessions)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under a lock here can leave it half done.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connections that have not said yet who they are, the one that has waited longest first.
#[derive(Default)]
struct Strangers {
    last: u64,
    waiting: BTreeMap<u64, (IpAddr, TcpStream)>,
}

impl Strangers {
    fn count(&self, address: IpAddr) -> usize {
        self.waiting.values().filter(|(of, _)| *of == address).count()
    }

    /// The address with most of them.
    fn busiest(&self) -> Option<IpAddr> {
        self.waiting.values().map(|(of, _)| *of).max_by_key(|of| self.count(*of))
    }

    /// Closes the connection of an address that has waited longest; its thread then ends.
    fn evict(&mut self, address: IpAddr) {
        let oldest = self.waiting.iter().find(|(_, (of, _))| *of == address).map(|(number, _)| *number);
        if let Some((_, stream)) = oldest.and_then(|number| self.waiting.remove(&number)) {
            // One that is closed already is what was wanted.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// The place of a connection that has not said yet who it is, given back when dropped.
pub(super) struct Stranger {
    number: u64,
    all: Arc<Mutex<Strangers>>,
}

impl Drop for Stranger {
    fn drop(&mut self) {
        lock(&self.all).waiting.remove(&self.number);
    }
}

impl Seats {
    fn take(taken: &Arc<AtomicU32>, count: u32, most: u32) -> Option<Self> {
        let fits = |taken: u32| taken.checked_add(count).filter(|sum| *sum <= most);
        taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?;
        Some(Self { taken: taken.clone(), count })
    }
}

impl Drop for Seats {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.count, Ordering::AcqRel);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.desk.sessions().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { round: 1, load: 0, line: 0 };

    fn udp() -> Arrival {
        Arrival::Datagrams(SocketAddr::from(([127, 0, 0, 1], 9)))
    }

    #[test]
    fn places_are_given_back() {
        let desk = Desk::new(Stop::default());
        let half = desk.seat_streams(MOST_STREAMS / 2).unwrap();
        let other = desk.seat_streams(MOST_STREAMS / 2).unwrap();
        assert!(desk.seat_streams(1).is_none());
        drop(half);
        assert!(desk.seat_streams(u32::MAX).is_none());
        assert!(desk.seat_streams(MOST_STREAMS / 2).is_some());
        drop(other);
    }

    #[test]
    fn a_line_reaches_the_session_that_let_it_in_and_no_other() {
        let desk = Arc::new(Desk::new(Stop::default()));
        let (seat, arrivals) = desk.open_session([1; 32]).unwrap().unwrap();
        let (other, others) = desk.open_session([2; 32]).unwrap().unwrap();
        desk.admit(&Pass::new(seat.id, PLACE, &[2; 32]), udp());
        desk.admit(&Pass::new([0; 16], PLACE, &[1; 32]), udp());
        assert!(arrivals.try_recv().is_err() && others.try_recv().is_err());
        desk.admit(&Pass::new(seat.id, PLACE, &[1; 32]), udp());
        assert_eq!(arrivals.try_recv().unwrap().0, PLACE);
        // More than a session can expect are turned away, and nobody waits.
        (0..2 * MOST_ARRIVALS).for_each(|_| desk.admit(&Pass::new(other.id, PLACE, &[2; 32]), udp()));
        assert_eq!(others.try_iter().count(), MOST_ARRIVALS);
    }

    #[test]
    fn there_are_so_many_sessions_and_no_more() {
        let desk = Arc::new(Desk::new(Stop::default()));
        let sessions: Vec<_> = (0..MOST_SESSIONS).map(|_| desk.open_session([0; 32]).unwrap().unwrap()).collect();
        assert!(desk.open_session([0; 32]).unwrap().is_none());
        drop(sessions);
        assert!(desk.open_session([0; 32]).unwrap().is_some());
    }
}
