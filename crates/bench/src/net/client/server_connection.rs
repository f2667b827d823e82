//! Connection to a `whyslow bench net serve`, and the rounds over it.

use super::super::handshake::{ConnectionPurpose, ConnectionToken, SessionId, StreamId};
use super::super::message::{
    Admission, Challenge, ClientRequest, MAX_REPLY, MAX_UNAUTHENTICATED, Response, ServerReply,
};
use super::super::message_channel::{MessageChannel, Readiness, TIMEOUT};
use super::super::server::PORT;
use super::super::socket::{connect_tcp, connect_udp, path_mtu, tcp_info};
use super::super::test_stream::StreamSide;
use super::super::token::{ProofKind, Tag, Token, nonce};
use super::super::worker_pool::{CloseMode, LoadStreams, WorkerPool};
use super::merged_run::merge_ends;
use crate::{Error, Result};
use socket2::{SockRef, Socket};
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};
use whyslow_documents::bench::{NetEnd, NetLoad, NetRound, Peer, Transport};

/// Time for the server to receive all streams.
const GETTING_READY: Duration = Duration::from_secs(15);
/// Time for a round to end while queues drain.
const CLOSING: Duration = Duration::from_secs(20);
/// Interval for resending the first datagrams until the server has all streams.
const RESEND: Duration = Duration::from_millis(200);

pub(super) struct ServerConnection {
    channel: MessageChannel,
    to: SocketAddr,
    session: SessionId,
    key: Tag,
    round: u32,
    /// Whether the last round did not run because its streams did not reach the server.
    pub(super) incomplete: bool,
    pub(super) peer: Peer,
}

/// Called several times a second with the seconds elapsed; returns whether to stop.
pub(super) type Tick<'a> = &'a mut dyn FnMut(f64) -> bool;

impl ServerConnection {
    /// Connects and authenticates: each end proves that it knows the token.
    pub(super) fn open(host: &str, token: &Token) -> Result<Self> {
        let failed = |e: io::Error| Error::new(format!("{host}: {}", describe(&e)));
        let stream = connect(host, PORT, "whyslow bench net serve")?;
        let (to, local) = (stream.peer_addr().map_err(failed)?, stream.local_addr().map_err(failed)?);
        let mut channel = MessageChannel::new(stream).map_err(failed)?;
        let challenge = greet(&mut channel).map_err(failed)?;
        let own = nonce().map_err(failed)?;
        let proof = token.proof(ProofKind::Client, &challenge.nonce, &own);
        channel.send(&Response { nonce: own, proof }).map_err(failed)?;
        let server = match channel.receive(MAX_UNAUTHENTICATED, Instant::now() + TIMEOUT).map_err(failed)? {
            Admission::Welcome(server) => server,
            Admission::Refused(why) => return Err(Error::new(format!("{host}: refused: {why}"))),
        };
        if !token.is_proof(&server.proof, ProofKind::Server, &challenge.nonce, &own) {
            return Err(Error::new(format!("{host}: the server does not know the token; do not trust it")));
        }
        let peer = Peer {
            name: host.to_owned(),
            address: to.to_string(),
            local: local.to_string(),
            program: challenge.program,
            host: server.host,
            kernel: server.kernel,
            cpus: server.cpus,
            receive_most: server.receive_most,
            send_most: server.send_most,
        };
        let key = token.proof(ProofKind::Session, &challenge.nonce, &own);
        Ok(Self { channel, to, session: server.session, key, round: 0, incomplete: false, peer })
    }

    /// Returns the round-trip time that the kernel has measured so far, in seconds.
    pub(super) fn rtt(&self) -> Option<f64> {
        tcp_info(&Socket::from(self.channel.stream().try_clone().ok()?)).min_rtt.get().map(|ns| ns / 1e9)
    }

    pub(super) fn kernel_mtu(&self) -> Option<u32> {
        path_mtu(&SockRef::from(self.channel.stream()))
    }

    pub(super) fn run_round(
        &mut self,
        group: &str,
        name: &str,
        loads: &[(&str, NetLoad)],
        tick: Tick,
    ) -> Result<NetRound> {
        let asked: Vec<NetLoad> = loads.iter().map(|(_, load)| load.clone()).collect();
        let streams = self.prepare(&asked)?;
        let pool = self.start(|| WorkerPool::start(streams, StreamSide::Client, CloseMode::Reset))?;
        let channel = &self.channel;
        let mut stopped = false;
        let mut stop = |elapsed: f64| {
            stopped = stopped || tick(elapsed);
            stopped || channel.poll(Duration::ZERO) == Readiness::Closed
        };
        let here = pool.run(&mut stop);
        let (there, other_clients) = self.finish(stopped)?;
        let merge = |(((name, load), here), there): ((&(&str, NetLoad), _), _)| {
            merge_ends(name, load, here, Some(there), stopped)
        };
        let runs = loads.iter().zip(here).zip(there).map(merge).collect();
        Ok(NetRound { name: name.into(), group: group.into(), runs, other_clients: Some(other_clients) })
    }

    /// Requests a round from the server and opens the streams of all loads.
    pub(super) fn prepare(&mut self, loads: &[NetLoad]) -> Result<Vec<LoadStreams>> {
        self.round += 1;
        self.send_request(&ClientRequest::Prepare { round: self.round, loads: loads.to_vec() })?;
        self.expect(|reply| matches!(reply, ServerReply::Expecting))?;
        let opened = self.open_streams(loads).map_err(|e| self.error(&e))?;
        let due = Instant::now() + GETTING_READY;
        while self.channel.poll(RESEND) == Readiness::Idle && Instant::now() < due {
            // The first datagrams may have been lost.
            self.resend_tokens(&opened).map_err(|e| self.error(&e))?;
        }
        let reply = self.receive_reply(TIMEOUT)?;
        self.incomplete = matches!(reply, ServerReply::Incomplete);
        if matches!(reply, ServerReply::Ready) { Ok(opened) } else { Err(self.unexpected(&reply)) }
    }

    /// Starts a prepared round at both ends.
    pub(super) fn start<T>(&mut self, begin: impl FnOnce() -> io::Result<T>) -> Result<T> {
        self.send_request(&ClientRequest::Start)?;
        self.expect(|reply| matches!(reply, ServerReply::Started))?;
        begin().map_err(|e| Error::new(format!("cannot start threads: {e}")))
    }

    /// Returns the server's results of a round; `stop` ends it early.
    pub(super) fn finish(&mut self, stop: bool) -> Result<(Vec<NetEnd>, u32)> {
        if stop {
            self.send_request(&ClientRequest::Stop)?;
        }
        match self.receive_reply(CLOSING)? {
            ServerReply::Done { ends, other_clients } => Ok((ends, other_clients)),
            other => Err(self.unexpected(&other)),
        }
    }

    pub(super) fn stop_server(mut self) -> Result<()> {
        self.send_request(&ClientRequest::Quit)?;
        self.expect(|reply| matches!(reply, ServerReply::Ending))
    }

    fn open_streams(&self, loads: &[NetLoad]) -> io::Result<Vec<LoadStreams>> {
        let streams = |(number, load): (usize, &NetLoad)| {
            let open = |stream| self.open_stream(load, self.token(number, stream as usize));
            let streams = (0..load.streams).map(open).collect::<io::Result<_>>()?;
            Ok(LoadStreams { load: load.clone(), streams })
        };
        loads.iter().enumerate().map(streams).collect()
    }

    fn token(&self, load: usize, stream: usize) -> ConnectionToken {
        // The server's limits on both are far below u16::MAX.
        let id = StreamId { round: self.round, load: load as u16, stream: stream as u16 };
        ConnectionToken::new(self.session, id, &self.key)
    }

    fn open_stream(&self, load: &NetLoad, token: ConnectionToken) -> io::Result<Socket> {
        if load.transport == Transport::Udp {
            let socket = connect_udp(None, self.to, load)?;
            socket.send(&token.datagram())?;
            return Ok(socket);
        }
        let mut socket = connect_tcp(self.to, load)?;
        socket.write_all(&ConnectionPurpose::TestStream.greeting())?;
        socket.write_all(&token.bytes())?;
        Ok(socket)
    }

    fn resend_tokens(&self, loads: &[LoadStreams]) -> io::Result<()> {
        let udp = loads.iter().enumerate().filter(|(_, part)| part.load.transport == Transport::Udp);
        for (number, part) in udp {
            for (stream, socket) in part.streams.iter().enumerate() {
                socket.send(&self.token(number, stream).datagram())?;
            }
        }
        Ok(())
    }

    fn send_request(&mut self, request: &ClientRequest) -> Result<()> {
        self.channel.send(request).map_err(|e| self.error(&e))
    }

    fn receive_reply(&mut self, timeout: Duration) -> Result<ServerReply> {
        self.channel.receive(MAX_REPLY, Instant::now() + timeout).map_err(|e| self.error(&e))
    }

    fn expect(&mut self, is_expected: impl Fn(&ServerReply) -> bool) -> Result<()> {
        let reply = self.receive_reply(TIMEOUT)?;
        if is_expected(&reply) { Ok(()) } else { Err(self.unexpected(&reply)) }
    }

    fn unexpected(&self, reply: &ServerReply) -> Error {
        let host = &self.peer.name;
        match reply {
            ServerReply::Incomplete => {
                Error::new(format!("{host}: not all connections reached the server: a firewall?"))
            }
            ServerReply::Refused(why) => Error::new(format!("{host}: refused: {why}")),
            _ => Error::new(format!("{host}: unexpected reply: is it another version of whyslow?")),
        }
    }

    fn error(&self, error: &io::Error) -> Error {
        Error::new(format!("{}: {}", self.peer.name, describe(error)))
    }
}

/// Sends the purpose of the connection and receives the server's challenge.
fn greet(channel: &mut MessageChannel) -> io::Result<Challenge> {
    channel.stream().write_all(&ConnectionPurpose::Control.greeting())?;
    channel.receive(MAX_UNAUTHENTICATED, Instant::now() + TIMEOUT).map_err(|e| match e.kind() {
        ErrorKind::InvalidData => io::Error::other("not a whyslow server: run 'whyslow bench net serve' there"),
        _ => e,
    })
}

/// Connects to `HOST` or `HOST:PORT`, where `program` should run.
pub(super) fn connect(host: &str, port: u16, program: &str) -> Result<TcpStream> {
    let addresses = resolve(host, port).map_err(|e| Error::new(format!("{host}: cannot resolve the name: {e}")))?;
    let mut refusal = None;
    for address in &addresses {
        match TcpStream::connect_timeout(address, TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(e) => refusal = Some((address, e)),
        }
    }
    Err(match refusal {
        Some((at, e)) => Error::new(format!("{host}: no answer at {at}: {e}; is '{program}' running there?")),
        None => Error::new(format!("{host}: has no address")),
    })
}

fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    // An IPv6 address contains colons.
    let alone = host.parse::<std::net::IpAddr>().is_ok() || !host.contains(':');
    if alone { (host, port).to_socket_addrs() } else { host.to_socket_addrs() }.map(Iterator::collect)
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        // A process that dies with unread data resets the connection; otherwise it closes it.
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "the other end closed the connection: is it 'whyslow bench net serve', and does it still run?".into()
        }
        ErrorKind::TimedOut => "timed out".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
#[path = "server_connection_tests.rs"]
mod tests;
