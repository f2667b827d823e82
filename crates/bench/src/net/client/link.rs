//! The connection to a server, and rounds over it.

use super::super::crew::{Crew, Ending, Part};
use super::super::door::{Pass, Place, Purpose, SessionId};
use super::super::line::Side;
use super::super::message::{Admission, Challenge, LARGE, Reply, Request, Response, SMALL};
use super::super::server::PORT;
use super::super::socket::{connect_tcp, connect_udp, tcp_info};
use super::super::token::{Role, Tag, Token, nonce};
use super::super::wire::{Channel, Heard, PATIENCE};
use super::run::run_of;
use crate::error::{Error, Result};
use socket2::{SockRef, Socket};
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};
use whyslow_model::bench::{NetEnd, NetLoad, NetRound, Peer, Transport};

/// How long a server may take to get ready: it waits for all lines.
const GETTING_READY: Duration = Duration::from_secs(15);
/// How much longer than a round its end may take: queues empty.
const CLOSING: Duration = Duration::from_secs(20);
/// How often the first datagram of a line is sent until the server has all of them.
const AGAIN: Duration = Duration::from_millis(200);

/// A session with a server.
pub(super) struct Link {
    channel: Channel,
    to: SocketAddr,
    session: SessionId,
    key: Tag,
    round: u32,
    /// Whether the last round was not played because its lines did not reach the server.
    pub(super) incomplete: bool,
    pub(super) peer: Peer,
}

/// Asked several times a second, with the seconds since the round began: whether to end it.
pub(super) type Tick<'a> = &'a mut dyn FnMut(f64) -> bool;

impl Link {
    /// Connects to a server, shows that this end knows the token, and has the server show that it does.
    ///
    /// # Errors
    /// Where there is none, or it knows another token.
    pub(super) fn open(host: &str, token: &Token) -> Result<Self> {
        let wrong = |e: io::Error| Error::new(format!("{host}: {}", words(&e)));
        let stream = reach(host, PORT, "whyslow bench net serve")?;
        let (to, local) = (stream.peer_addr().map_err(wrong)?, stream.local_addr().map_err(wrong)?);
        let mut channel = Channel::new(stream).map_err(wrong)?;
        let (own, challenge) = greet(&mut channel).map_err(wrong)?;
        let proof = token.proof(Role::Client, &challenge.nonce, &own);
        channel.send(&Response { nonce: own, proof }).map_err(wrong)?;
        let due = Instant::now() + PATIENCE;
        let welcome = match channel.receive(SMALL, due).map_err(wrong)? {
            Admission::Welcome(welcome) => welcome,
            Admission::Refused(why) => return Err(Error::new(format!("{host}: refused: {why}"))),
        };
        if !token.is_proof(&welcome.proof, Role::Server, &challenge.nonce, &own) {
            return Err(Error::new(format!("{host}: what answers there does not know the token")));
        }
        let peer = Peer {
            name: host.to_owned(),
            address: to.to_string(),
            local: local.to_string(),
            program: challenge.program,
            host: welcome.host,
            kernel: welcome.kernel,
            cpus: welcome.cpus,
            receive_most: welcome.receive_most,
            send_most: welcome.send_most,
        };
        let key = token.proof(Role::Session, &challenge.nonce, &own);
        Ok(Self { channel, to, session: welcome.session, key, round: 0, incomplete: false, peer })
    }

    /// The round-trip time the kernel measured so far, seconds.
    pub(super) fn rtt(&self) -> Option<f64> {
        tcp_info(&Socket::from(self.channel.stream().try_clone().ok()?)).min_rtt.get().map(|ns| ns / 1e9)
    }

    /// The path MTU the kernel goes by.
    pub(super) fn kernel_mtu(&self) -> Option<u32> {
        super::super::socket::path_mtu(&SockRef::from(self.channel.stream()))
    }

    /// Plays a round of named loads.
    ///
    /// # Errors
    /// Where the server refuses it or is gone.
    pub(super) fn round(&mut self, group: &str, name: &str, loads: &[(&str, NetLoad)], tick: Tick) -> Result<NetRound> {
        let asked: Vec<NetLoad> = loads.iter().map(|(_, load)| load.clone()).collect();
        let parts = self.prepare(&asked)?;
        let crew = self.start(|| Crew::begin(parts, Side::Client, Ending::Reset))?;
        let channel = &self.channel;
        let mut stopped = false;
        let mut stop = |elapsed: f64| {
            stopped = stopped || tick(elapsed);
            stopped || channel.listen(Duration::ZERO) == Heard::End
        };
        let here = crew.work(&mut stop);
        let (there, other_clients) = self.finish(stopped)?;
        let runs = loads.iter().zip(here).zip(there);
        let runs = runs.map(|(((name, load), here), there)| run_of(name, load, here, Some(there), stopped)).collect();
        Ok(NetRound { name: name.into(), group: group.into(), runs, other_clients: Some(other_clients) })
    }

    /// Has the server get ready, and opens the lines of all loads.
    ///
    /// # Errors
    /// Where it refuses, or they cannot be opened.
    pub(super) fn prepare(&mut self, loads: &[NetLoad]) -> Result<Vec<Part>> {
        self.round += 1;
        self.tell(&Request::Prepare { round: self.round, loads: loads.to_vec() })?;
        self.expect(|reply| matches!(reply, Reply::Expecting), PATIENCE)?;
        let opened = self.open_lines(loads).map_err(|e| self.wrong(&e))?;
        let due = Instant::now() + GETTING_READY;
        while self.channel.listen(AGAIN) == Heard::Nothing && Instant::now() < due {
            // The first datagrams of some lines may have been lost.
            self.knock(&opened).map_err(|e| self.wrong(&e))?;
        }
        let reply = self.hear(PATIENCE)?;
        self.incomplete = matches!(reply, Reply::Incomplete);
        if matches!(reply, Reply::Ready) { Ok(opened) } else { Err(self.unexpected(&reply)) }
    }

    /// Has the server start, and does so here.
    ///
    /// # Errors
    /// Where either cannot.
    pub(super) fn start<T>(&mut self, begin: impl FnOnce() -> io::Result<T>) -> Result<T> {
        self.tell(&Request::Start)?;
        self.expect(|reply| matches!(reply, Reply::Started), PATIENCE)?;
        begin().map_err(|e| Error::new(format!("cannot start threads: {e}")))
    }

    /// Waits for what the server has to tell of a round; has it end that first, where it is to be cut short.
    ///
    /// # Errors
    /// Where it is gone.
    pub(super) fn finish(&mut self, stop: bool) -> Result<(Vec<NetEnd>, u32)> {
        if stop {
            self.tell(&Request::Stop)?;
        }
        match self.hear(CLOSING)? {
            Reply::Done { ends, other_clients } => Ok((ends, other_clients)),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Ends the server.
    ///
    /// # Errors
    /// Where it is gone already.
    pub(super) fn quit(mut self) -> Result<()> {
        self.tell(&Request::Quit)?;
        self.expect(|reply| matches!(reply, Reply::Ending), PATIENCE)
    }

    fn open_lines(&self, loads: &[NetLoad]) -> io::Result<Vec<Part>> {
        let lines = |(number, load): (usize, &NetLoad)| {
            let open = |line| self.open_line(load, self.pass(number, line as usize));
            Ok(Part { load: load.clone(), lines: (0..load.streams).map(open).collect::<io::Result<_>>()? })
        };
        loads.iter().enumerate().map(lines).collect()
    }

    fn pass(&self, load: usize, line: usize) -> Pass {
        // Both are checked by the server to be far below.
        let place = Place { round: self.round, load: load as u16, line: line as u16 };
        Pass::new(self.session, place, &self.key)
    }

    fn open_line(&self, load: &NetLoad, pass: Pass) -> io::Result<Socket> {
        if load.transport == Transport::Udp {
            let socket = connect_udp(None, self.to, load)?;
            socket.send(&pass.datagram())?;
            return Ok(socket);
        }
        let mut socket = connect_tcp(self.to, load)?;
        socket.write_all(&Purpose::Line.greeting())?;
        socket.write_all(&pass.bytes())?;
        Ok(socket)
    }

    /// Sends the first datagram of each line of UDP again.
    fn knock(&self, parts: &[Part]) -> io::Result<()> {
        let lines = parts.iter().enumerate().filter(|(_, part)| part.load.transport == Transport::Udp);
        for (number, part) in lines {
            for (line, socket) in part.lines.iter().enumerate() {
                socket.send(&self.pass(number, line).datagram())?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, request: &Request) -> Result<()> {
        self.channel.send(request).map_err(|e| self.wrong(&e))
    }

    fn hear(&mut self, patience: Duration) -> Result<Reply> {
        self.channel.receive(LARGE, Instant::now() + patience).map_err(|e| self.wrong(&e))
    }

    fn expect(&mut self, is_it: impl Fn(&Reply) -> bool, patience: Duration) -> Result<()> {
        let reply = self.hear(patience)?;
        if is_it(&reply) { Ok(()) } else { Err(self.unexpected(&reply)) }
    }

    fn unexpected(&self, reply: &Reply) -> Error {
        match reply {
            Reply::Incomplete => Error::new(format!("{}: not all connections reached the server", self.peer.name)),
            Reply::Refused(why) => Error::new(format!("{}: refused: {why}", self.peer.name)),
            _ => Error::new(format!("{}: the server answered what it was not asked", self.peer.name)),
        }
    }

    fn wrong(&self, error: &io::Error) -> Error {
        Error::new(format!("{}: {}", self.peer.name, words(error)))
    }
}

/// Says what the connection is for, and takes the server's challenge.
fn greet(channel: &mut Channel) -> io::Result<([u8; 32], Challenge)> {
    let mut stream = channel.stream();
    stream.write_all(&Purpose::Control.greeting())?;
    let challenge = channel.receive(SMALL, Instant::now() + PATIENCE).map_err(|e| match e.kind() {
        ErrorKind::InvalidData => io::Error::other("what answers there is no whyslow server"),
        _ => e,
    })?;
    Ok((nonce()?, challenge))
}

/// Connects to `HOST` or `HOST:PORT`, where `program` should run.
pub(super) fn reach(host: &str, port: u16, program: &str) -> Result<TcpStream> {
    let addresses = resolve(host, port).map_err(|e| Error::new(format!("{host}: no such host: {e}")))?;
    let mut refusal = None;
    for address in &addresses {
        match TcpStream::connect_timeout(address, PATIENCE) {
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
    // An address of IPv6 holds colons of its own.
    let alone = host.parse::<std::net::IpAddr>().is_ok() || !host.contains(':');
    if alone { (host, port).to_socket_addrs() } else { host.to_socket_addrs() }.map(Iterator::collect)
}

/// What went wrong with a connection, so that one knows what to do.
fn words(error: &io::Error) -> String {
    match error.kind() {
        // Who dies with something unread resets the connection, who has read it all ends it.
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "the other end closed the connection: is it 'whyslow bench net serve', and does it still run?".into()
        }
        ErrorKind::TimedOut => "no answer in time".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
