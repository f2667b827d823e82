//! Session of one authenticated client.

use super::super::message::{ClientRequest, MAX_REQUEST, ServerReply, check};
use super::super::message_channel::{MessageChannel, Readiness, TIMEOUT};
use super::super::socket::{connect_udp, prepare};
use super::super::test_stream::StreamSide;
use super::super::worker_pool::{CloseMode, LoadStreams, WorkerPool};
use super::TICK;
use super::session_registry::{IncomingStream, IncomingStreams, SessionGuard, SessionRegistry};
use socket2::Socket;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_documents::bench::{NetEnd, NetLoad, Transport};

/// Time after which a client without requests is disconnected.
const IDLE: Duration = Duration::from_secs(60);
/// Timeouts for the next stream of a round, and for all of them.
const NEXT_STREAM: Duration = Duration::from_secs(5);
const ALL_STREAMS: Duration = Duration::from_secs(60);

pub(super) struct ClientSession {
    channel: MessageChannel,
    registry: Arc<SessionRegistry>,
    _guard: SessionGuard,
    incoming: IncomingStreams,
}

impl ClientSession {
    pub(super) fn new(
        channel: MessageChannel,
        registry: Arc<SessionRegistry>,
        guard: SessionGuard,
        incoming: IncomingStreams,
    ) -> Self {
        Self { channel, registry, _guard: guard, incoming }
    }

    /// Serves requests until the client disconnects or the server ends.
    pub(super) fn serve(mut self) {
        while let Ok(Some(request)) = self.next_request() {
            let served = match request {
                ClientRequest::Prepare { round, loads } => self.round(round, loads),
                ClientRequest::Quit => {
                    self.registry.ask_to_close();
                    self.channel.send(&ServerReply::Ending)
                }
                ClientRequest::Start => self.channel.send(&ServerReply::Refused("no round is prepared".into())),
                // It arrived after the end of the round.
                ClientRequest::Stop => Ok(()),
            };
            if served.is_err() {
                return;
            }
        }
    }

    /// Returns the next request; `None` if the client is idle or gone, or if the server ends.
    fn next_request(&mut self) -> io::Result<Option<ClientRequest>> {
        let idle = Instant::now() + IDLE;
        while !self.registry.is_closing() && Instant::now() < idle {
            match self.channel.poll(TICK) {
                Readiness::Readable => return self.channel.receive(MAX_REQUEST, Instant::now() + TIMEOUT).map(Some),
                Readiness::Closed => return Ok(None),
                Readiness::Idle => {}
            }
        }
        Ok(None)
    }

    fn round(&mut self, round: u32, loads: Vec<NetLoad>) -> io::Result<()> {
        if let Err(why) = check(&loads) {
            return self.channel.send(&ServerReply::Refused(why));
        }
        let Some(_quota) = self.registry.reserve_streams(loads.iter().map(|load| load.streams).sum()) else {
            let why = "other clients use too many streams; try again later, or with fewer --streams";
            return self.channel.send(&ServerReply::Refused(why.into()));
        };
        self.channel.send(&ServerReply::Expecting)?;
        let streams = match self.collect_streams(round, loads) {
            Ok(streams) => streams,
            Err(e) if e.kind() == ErrorKind::TimedOut => return self.channel.send(&ServerReply::Incomplete),
            Err(e) => return self.channel.send(&ServerReply::Refused(format!("cannot open a stream: {e}"))),
        };
        self.channel.send(&ServerReply::Ready)?;
        match self.next_request()? {
            Some(ClientRequest::Start) => self.channel.send(&ServerReply::Started)?,
            Some(ClientRequest::Stop) => return self.channel.send(&ServerReply::Refused("stopped".into())),
            _ => return Err(ErrorKind::InvalidData.into()),
        }
        let other_clients = self.registry.session_count().saturating_sub(1);
        let ends = self.run(streams)?;
        self.channel.send(&ServerReply::Done { ends, other_clients })
    }

    /// Waits for all streams of a round.
    fn collect_streams(&mut self, round: u32, loads: Vec<NetLoad>) -> io::Result<Vec<LoadStreams>> {
        let (mut due, latest) = (Instant::now() + NEXT_STREAM, Instant::now() + ALL_STREAMS);
        let mut streams: Vec<Vec<Option<Socket>>> =
            loads.iter().map(|load| (0..load.streams).map(|_| None).collect()).collect();
        while streams.iter().flatten().any(Option::is_none) {
            if Instant::now() > due.min(latest)
                || self.registry.is_closing()
                || self.channel.poll(Duration::ZERO) != Readiness::Idle
            {
                return Err(io::Error::new(ErrorKind::TimedOut, "not all streams arrived"));
            }
            let Ok((id, incoming)) = self.incoming.recv_timeout(TICK) else { continue };
            let slot = streams.get_mut(usize::from(id.load)).and_then(|load| load.get_mut(usize::from(id.stream)));
            // Belongs to another round, or is a repeated first datagram.
            let Some(slot) = slot.filter(|slot| id.round == round && slot.is_none()) else { continue };
            *slot = self.open(&loads[usize::from(id.load)], incoming)?;
            due = Instant::now() + NEXT_STREAM;
        }
        let opened = streams.into_iter().map(|streams| streams.into_iter().flatten().collect());
        Ok(loads.into_iter().zip(opened).map(|(load, streams)| LoadStreams { load, streams }).collect())
    }

    /// Opens a stream. Returns `None` if it has the wrong transport.
    fn open(&self, load: &NetLoad, incoming: IncomingStream) -> io::Result<Option<Socket>> {
        match (load.transport, incoming) {
            (Transport::Tcp, IncomingStream::Tcp(socket)) => {
                prepare(&socket, load)?;
                Ok(Some(socket))
            }
            (Transport::Udp, IncomingStream::Udp(from)) => {
                // If this machine has several addresses, answer from the one that the client knows.
                let own: SocketAddr = self.channel.stream().local_addr()?;
                connect_udp(Some(own), from, load).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Runs until the time is up, or until the client requests a stop or disconnects.
    fn run(&mut self, streams: Vec<LoadStreams>) -> io::Result<Vec<NetEnd>> {
        let pool = WorkerPool::start(streams, StreamSide::Server, CloseMode::Reset)?;
        let (channel, registry) = (&self.channel, &self.registry);
        Ok(pool.run(&mut |_| registry.is_closing() || channel.poll(Duration::ZERO) != Readiness::Idle))
    }
}
