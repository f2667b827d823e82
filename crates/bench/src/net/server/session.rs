//! One client, from its admission on.

use super::super::crew::{Crew, Ending, Part};
use super::super::message::{MEDIUM, Reply, Request, check};
use super::super::socket::{connect_udp, prepare};
use super::super::wire::{Channel, Heard, PATIENCE};
use super::desk::{Arrival, Arrivals, Desk, Seat};
use super::{SIDE, TICK};
use socket2::Socket;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_model::bench::{NetEnd, NetLoad, Transport};

/// A client that asks for nothing is sent away after so long.
const IDLE: Duration = Duration::from_secs(60);
/// How long the next line of a round may take to come, and how long all of them: they come one after the other.
const NEXT_LINE: Duration = Duration::from_secs(5);
const ALL_LINES: Duration = Duration::from_secs(60);

/// A client that may have loads made.
pub(super) struct Session {
    channel: Channel,
    desk: Arc<Desk>,
    _seat: Seat,
    arrivals: Arrivals,
}

impl Session {
    pub(super) fn new(channel: Channel, desk: Arc<Desk>, seat: Seat, arrivals: Arrivals) -> Self {
        Self { channel, desk, _seat: seat, arrivals }
    }

    /// Does what the client asks for until it is gone, or the server ends.
    pub(super) fn serve(mut self) {
        // A client that is gone has nobody to tell what went wrong.
        while let Ok(Some(request)) = self.next_request() {
            let served = match request {
                Request::Prepare { round, loads } => self.round(round, loads),
                Request::Quit => {
                    self.desk.ask_to_close();
                    self.channel.send(&Reply::Ending)
                }
                Request::Start => self.channel.send(&Reply::Refused("no round is prepared".into())),
                // It came when the round was over already.
                Request::Stop => Ok(()),
            };
            if served.is_err() {
                return;
            }
        }
    }

    /// What the client asks for next; none where it asks for nothing, or the server ends.
    fn next_request(&mut self) -> io::Result<Option<Request>> {
        let idle = Instant::now() + IDLE;
        while !self.desk.is_closing() && Instant::now() < idle {
            match self.channel.listen(TICK) {
                Heard::Something => return self.channel.receive(MEDIUM, Instant::now() + PATIENCE).map(Some),
                Heard::End => return Ok(None),
                Heard::Nothing => {}
            }
        }
        Ok(None)
    }

    /// One round, from its lines to what came of it.
    fn round(&mut self, round: u32, loads: Vec<NetLoad>) -> io::Result<()> {
        if let Err(why) = check(&loads) {
            return self.channel.send(&Reply::Refused(why));
        }
        let Some(_seats) = self.desk.seat_streams(loads.iter().map(|load| load.streams).sum()) else {
            return self.channel.send(&Reply::Refused("other clients have all the streams there are".into()));
        };
        self.channel.send(&Reply::Expecting)?;
        let parts = match self.gather(round, loads) {
            Ok(parts) => parts,
            Err(e) if e.kind() == ErrorKind::TimedOut => return self.channel.send(&Reply::Incomplete),
            Err(e) => return self.channel.send(&Reply::Refused(format!("a line of the round: {e}"))),
        };
        self.channel.send(&Reply::Ready)?;
        match self.next_request()? {
            Some(Request::Start) => self.channel.send(&Reply::Started)?,
            Some(Request::Stop) => return self.channel.send(&Reply::Refused("stopped".into())),
            _ => return Err(ErrorKind::InvalidData.into()),
        }
        let other_clients = self.desk.session_count().saturating_sub(1);
        let ends = self.play(parts)?;
        self.channel.send(&Reply::Done { ends, other_clients })
    }

    /// Waits for the lines of a round.
    fn gather(&mut self, round: u32, loads: Vec<NetLoad>) -> io::Result<Vec<Part>> {
        let (mut due, latest) = (Instant::now() + NEXT_LINE, Instant::now() + ALL_LINES);
        let mut lines: Vec<Vec<Option<Socket>>> =
            loads.iter().map(|load| (0..load.streams).map(|_| None).collect()).collect();
        while lines.iter().flatten().any(Option::is_none) {
            if Instant::now() > due.min(latest)
                || self.desk.is_closing()
                || self.channel.listen(Duration::ZERO) != Heard::Nothing
            {
                return Err(io::Error::new(ErrorKind::TimedOut, "not all of them came"));
            }
            let Ok((place, arrival)) = self.arrivals.recv_timeout(TICK) else { continue };
            let slot = lines.get_mut(usize::from(place.load)).and_then(|load| load.get_mut(usize::from(place.line)));
            // Of an earlier round, of none, or here already: a first datagram may come twice.
            let Some(slot) = slot.filter(|slot| place.round == round && slot.is_none()) else { continue };
            *slot = self.open(&loads[usize::from(place.load)], arrival)?;
            due = Instant::now() + NEXT_LINE;
        }
        let whole =
            |(load, lines): (NetLoad, Vec<Option<Socket>>)| Part { load, lines: lines.into_iter().flatten().collect() };
        Ok(loads.into_iter().zip(lines).map(whole).collect())
    }

    /// Makes a line of what has come; none where it is of another kind than expected.
    fn open(&self, load: &NetLoad, arrival: Arrival) -> io::Result<Option<Socket>> {
        match (load.transport, arrival) {
            (Transport::Tcp, Arrival::Stream(socket)) => {
                prepare(&socket, load)?;
                Ok(Some(socket))
            }
            (Transport::Udp, Arrival::Datagrams(from)) => {
                // The address the client knows: with several, the kernel might answer from another.
                let own: SocketAddr = self.channel.stream().local_addr()?;
                connect_udp(Some(own), from, load).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Plays this end until the time is up, the client says so, or it is gone.
    fn play(&mut self, parts: Vec<Part>) -> io::Result<Vec<NetEnd>> {
        let crew = Crew::begin(parts, SIDE, Ending::Reset)?;
        let (channel, desk) = (&self.channel, &self.desk);
        let ends = crew.work(&mut |_| desk.is_closing() || channel.listen(Duration::ZERO) != Heard::Nothing);
        Ok(ends)
    }
}
