//! Client for `iperf3 -s`: TCP streams, with iperf3's own protocol (src/iperf_api.c of iperf 3).
//!
//! A control connection carries states, one byte each, and JSON with its length; each stream has a connection of its
//! own. All begin with the same cookie. UDP is not supported: the layout of iperf3's datagrams depends on its version,
//! and its server reports loss only for all streams together.

mod results;

use super::super::message::MAX_REPLY;
use super::super::message_channel::MessageChannel;
use super::super::socket::connect_tcp;
use super::super::test_stream::StreamSide;
use super::super::token::nonce;
use super::super::worker_pool::{CloseMode, LoadStreams, WorkerPool};
use super::merged_run::merge_ends;
use super::server_connection::{Tick, connect};
use crate::{Error, Result};
use results::{Iperf3Results, end_of, parameters, results};
use socket2::Socket;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};
use whyslow_documents::bench::{NetEnd, NetLoad, NetRound, Peer};

pub(super) const PROGRAM: &str = "iperf3";
const PORT: u16 = 5201;
/// Length of a cookie: 36 characters and a zero.
const COOKIE: usize = 37;
/// Time for the server to close streams and send results.
const CLOSING: Duration = Duration::from_secs(15);
/// Retries of a connection: after a test the server does not listen for a while.
const RETRIES: u32 = 25;
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// Delay between the end of the measured time and the end of the test, in seconds.
const MARGIN: f64 = 0.02;

/// States of a test.
mod state {
    pub(super) const TEST_START: i8 = 1;
    pub(super) const TEST_RUNNING: i8 = 2;
    pub(super) const TEST_END: i8 = 4;
    pub(super) const PARAM_EXCHANGE: i8 = 9;
    pub(super) const CREATE_STREAMS: i8 = 10;
    pub(super) const EXCHANGE_RESULTS: i8 = 13;
    pub(super) const DISPLAY_RESULTS: i8 = 14;
    pub(super) const IPERF_DONE: i8 = 16;
    pub(super) const ACCESS_DENIED: i8 = -1;
    pub(super) const SERVER_ERROR: i8 = -2;
}

/// An iperf3 server. The client connects only for a test, because the server counts a connection without one as a
/// failed test.
pub(super) struct Iperf3 {
    pub(super) peer: Peer,
}

impl Iperf3 {
    pub(super) fn at(host: &str) -> Self {
        Self { peer: Peer { name: host.to_owned(), program: PROGRAM.to_owned(), ..Peer::default() } }
    }

    /// Runs a round of TCP streams.
    pub(super) fn run_round(&mut self, group: &str, name: &str, load: &NetLoad, tick: Tick) -> Result<NetRound> {
        // iperf3 accepts only whole seconds.
        let load = NetLoad { ramp_seconds: load.ramp_seconds.ceil(), ..load.clone() };
        let host = self.peer.name.clone();
        let failed = |e: io::Error| Error::new(format!("{host}: iperf3: {e}"));
        let test = self.begin()?;
        let (here, there, stopped) = self.run(test, &load, tick).map_err(failed)?;
        let run = merge_ends(name, &load, here, Some(there), stopped);
        Ok(NetRound { name: name.into(), group: group.into(), runs: vec![run], other_clients: None })
    }

    fn begin(&self) -> Result<Iperf3Test> {
        let host = &self.peer.name;
        let begin = || {
            let stream = connect(host, PORT, "iperf3 -s")?;
            Iperf3Test::begin(stream).map_err(|e| Error::new(format!("{host}: iperf3: {e}")))
        };
        let retries = if self.peer.address.is_empty() { 0 } else { RETRIES };
        for _ in 0..retries {
            match begin() {
                Ok(test) => return Ok(test),
                Err(_) => sleep(RETRY_DELAY),
            }
        }
        begin()
    }

    fn run(&mut self, mut test: Iperf3Test, load: &NetLoad, tick: Tick) -> io::Result<(NetEnd, NetEnd, bool)> {
        let (to, local) = (test.channel.stream().peer_addr()?, test.channel.stream().local_addr()?);
        (self.peer.address, self.peer.local) = (to.to_string(), local.to_string());
        test.channel.send(&parameters(load))?;
        test.await_state(state::CREATE_STREAMS)?;
        let streams = (0..load.streams).map(|_| test.open_stream(to, load)).collect::<io::Result<_>>()?;
        test.await_state(state::TEST_START)?;
        test.await_state(state::TEST_RUNNING)?;
        let streams = vec![LoadStreams { load: load.clone(), streams }];
        let pool = WorkerPool::start(streams, StreamSide::Client, CloseMode::Orderly)?;
        let (mut stopped, mut ended) = (false, false);
        let whole = load.ramp_seconds + load.seconds + MARGIN;
        let mut ends = pool.run(&mut |elapsed| {
            stopped = stopped || tick(elapsed);
            if !ended && (stopped || elapsed > whole) {
                // If the server is gone, the next read fails.
                ended = test.send_state(state::TEST_END).is_ok();
            }
            stopped
        });
        let here = ends.pop().unwrap_or_default();
        if !ended {
            test.send_state(state::TEST_END)?;
        }
        let there = test.exchange_results(load, &here)?;
        Ok((here, there, stopped))
    }
}

struct Iperf3Test {
    channel: MessageChannel,
    cookie: [u8; COOKIE],
}

impl Iperf3Test {
    fn begin(mut stream: TcpStream) -> io::Result<Self> {
        let mut cookie = [0; COOKIE];
        let letters = b"abcdefghijklmnopqrstuvwxyz234567";
        for (letter, random) in cookie[..COOKIE - 1].iter_mut().zip(nonce()?.iter().cycle()) {
            *letter = letters[usize::from(random % 32)];
        }
        stream.write_all(&cookie)?;
        let mut test = Self { channel: MessageChannel::new(stream)?, cookie };
        test.await_state(state::PARAM_EXCHANGE)?;
        Ok(test)
    }

    fn open_stream(&self, to: SocketAddr, load: &NetLoad) -> io::Result<Socket> {
        let mut socket = connect_tcp(to, load)?;
        socket.write_all(&self.cookie)?;
        Ok(socket)
    }

    fn send_state(&mut self, state: i8) -> io::Result<()> {
        self.channel.stream().write_all(&state.to_be_bytes())
    }

    fn await_state(&mut self, wanted: i8) -> io::Result<()> {
        let mut byte = [0];
        self.channel.fill(&mut byte, Instant::now() + CLOSING)?;
        match i8::from_be_bytes(byte) {
            state if state == wanted => Ok(()),
            state::ACCESS_DENIED => Err(io::Error::other("the server is busy with another client")),
            state::SERVER_ERROR => Err(io::Error::other("the server reports an error; its own output says which")),
            state => Err(io::Error::new(ErrorKind::InvalidData, format!("state {state} instead of {wanted}"))),
        }
    }

    fn exchange_results(&mut self, load: &NetLoad, here: &NetEnd) -> io::Result<NetEnd> {
        self.await_state(state::EXCHANGE_RESULTS)?;
        self.channel.send(&results(here))?;
        let theirs: Iperf3Results = self.channel.receive(MAX_REPLY, Instant::now() + CLOSING)?;
        self.await_state(state::DISPLAY_RESULTS)?;
        self.send_state(state::IPERF_DONE)?;
        Ok(end_of(load, here, &theirs))
    }
}
