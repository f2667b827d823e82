//! An `iperf3 -s` as the other end: TCP streams, by iperf3's own protocol (src/iperf_api.c of iperf 3).
//!
//! One connection carries states, a byte each, and JSON after its length; each stream is a connection more. All begin with the
//! same cookie. Datagrams are left out: iperf3's carry numbers in two layouts that depend on versions, and its server tells
//! loss only of all streams together.

mod results;

use super::super::crew::{Crew, Ending, Part};
use super::super::line::Side;
use super::super::message::LARGE;
use super::super::socket::connect_tcp;
use super::super::token::nonce;
use super::super::wire::Channel;
use super::link::{Tick, reach};
use super::run::run_of;
use crate::error::{Error, Result};
use results::{Results, end_of, parameters, results};
use socket2::Socket;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};
use whyslow_model::bench::{NetEnd, NetLoad, NetRound, Peer};

/// What answers.
pub(super) const PROGRAM: &str = "iperf3";
/// Where an iperf3 server listens.
const PORT: u16 = 5201;
/// 36 characters and a zero.
const COOKIE: usize = 37;
/// How long its server may take to close streams and tell of them.
const CLOSING: Duration = Duration::from_secs(15);
/// How often it is asked again after a test, and how long to wait in between.
const TRIES: u32 = 25;
const PAUSE: Duration = Duration::from_millis(200);
/// How long after the time measured it is told that the test is over.
const AFTER: f64 = 0.02;

/// States of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
enum State {
    TestStart = 1,
    TestRunning = 2,
    TestEnd = 4,
    ParamExchange = 9,
    CreateStreams = 10,
    ExchangeResults = 13,
    DisplayResults = 14,
    Done = 16,
    AccessDenied = -1,
    ServerError = -2,
}

impl State {
    const ALL: [Self; 10] = [
        Self::TestStart,
        Self::TestRunning,
        Self::TestEnd,
        Self::ParamExchange,
        Self::CreateStreams,
        Self::ExchangeResults,
        Self::DisplayResults,
        Self::Done,
        Self::AccessDenied,
        Self::ServerError,
    ];
}

/// A server. Each test has connections of its own; none is made without one, for it would end as a test that failed.
pub(super) struct Iperf3 {
    pub(super) peer: Peer,
}

impl Iperf3 {
    /// The server of this host.
    pub(super) fn at(host: &str) -> Self {
        Self { peer: Peer { name: host.to_owned(), program: PROGRAM.to_owned(), ..Peer::default() } }
    }

    /// Plays a round of one load of TCP streams.
    ///
    /// # Errors
    /// Where the server refuses it or is gone.
    pub(super) fn round(&mut self, group: &str, name: &str, load: &NetLoad, tick: Tick) -> Result<NetRound> {
        // iperf3 counts whole seconds.
        let load = NetLoad { ramp_seconds: load.ramp_seconds.ceil(), ..load.clone() };
        let host = self.peer.name.clone();
        let wrong = |e: io::Error| Error::new(format!("{host}: iperf3: {e}"));
        let test = self.begin()?;
        let (here, there, stopped) = self.play(test, &load, tick).map_err(wrong)?;
        let run = run_of(name, &load, here, Some(there), stopped);
        Ok(NetRound { name: name.into(), group: group.into(), runs: vec![run], other_clients: None })
    }

    /// Begins a test.
    ///
    /// # Errors
    /// Where the server is not there, or has another client.
    fn begin(&self) -> Result<Test> {
        let host = &self.peer.name;
        let begin = || {
            let stream = reach(host, PORT, "iperf3 -s")?;
            Test::begin(stream).map_err(|e| Error::new(format!("{host}: iperf3: {e}")))
        };
        // After a test it takes its time to tidy up, and does not even listen for a while.
        let patience = if self.peer.address.is_empty() { 0 } else { TRIES };
        for _ in 0..patience {
            match begin() {
                Ok(test) => return Ok(test),
                Err(_) => sleep(PAUSE),
            }
        }
        begin()
    }

    fn play(&mut self, mut test: Test, load: &NetLoad, tick: Tick) -> io::Result<(NetEnd, NetEnd, bool)> {
        let (to, local) = (test.channel.stream().peer_addr()?, test.channel.stream().local_addr()?);
        (self.peer.address, self.peer.local) = (to.to_string(), local.to_string());
        test.channel.send(&parameters(load))?;
        test.await_state(State::CreateStreams)?;
        let lines = (0..load.streams).map(|_| test.open_line(to, load)).collect::<io::Result<_>>()?;
        test.await_state(State::TestStart)?;
        test.await_state(State::TestRunning)?;
        let crew = Crew::begin(vec![Part { load: load.clone(), lines }], Side::Client, Ending::Orderly)?;
        let (mut stopped, mut told) = (false, false);
        let whole = load.ramp_seconds + load.seconds + AFTER;
        let mut ends = crew.work(&mut |elapsed| {
            stopped = stopped || tick(elapsed);
            if !told && (stopped || elapsed > whole) {
                // Where the server is gone, what is read next says so.
                told = test.tell(State::TestEnd).is_ok();
            }
            stopped
        });
        let here = ends.pop().unwrap_or_default();
        if !told {
            test.tell(State::TestEnd)?;
        }
        let there = test.exchange_results(load, &here)?;
        Ok((here, there, stopped))
    }
}

/// A test under way.
struct Test {
    channel: Channel,
    cookie: [u8; COOKIE],
}

impl Test {
    /// Begins one on a connection.
    fn begin(mut stream: TcpStream) -> io::Result<Self> {
        let mut cookie = [0; COOKIE];
        let letters = b"abcdefghijklmnopqrstuvwxyz234567";
        for (letter, random) in cookie[..COOKIE - 1].iter_mut().zip(nonce()?.iter().cycle()) {
            *letter = letters[usize::from(random % 32)];
        }
        stream.write_all(&cookie)?;
        let mut test = Self { channel: Channel::new(stream)?, cookie };
        test.await_state(State::ParamExchange)?;
        Ok(test)
    }

    fn open_line(&self, to: SocketAddr, load: &NetLoad) -> io::Result<Socket> {
        let mut socket = connect_tcp(to, load)?;
        socket.write_all(&self.cookie)?;
        Ok(socket)
    }

    fn tell(&mut self, state: State) -> io::Result<()> {
        self.channel.stream().write_all(&[state as u8])
    }

    /// Waits for a state.
    ///
    /// # Errors
    /// Where another comes, or none.
    fn await_state(&mut self, wanted: State) -> io::Result<()> {
        let mut byte = [0];
        self.channel.fill(&mut byte, Instant::now() + CLOSING)?;
        match State::ALL.into_iter().find(|state| *state as u8 == byte[0]) {
            Some(state) if state == wanted => Ok(()),
            Some(State::AccessDenied) => Err(io::Error::other("the server is busy with another client")),
            Some(State::ServerError) => Err(io::Error::other("the server reports an error; its own output says which")),
            _ => Err(io::Error::new(ErrorKind::InvalidData, format!("state {} instead of {wanted:?}", byte[0] as i8))),
        }
    }

    /// Tells what this end counted, and hears what the other did.
    fn exchange_results(&mut self, load: &NetLoad, here: &NetEnd) -> io::Result<NetEnd> {
        self.await_state(State::ExchangeResults)?;
        self.channel.send(&results(here))?;
        let theirs: Results = self.channel.receive(LARGE, Instant::now() + CLOSING)?;
        self.await_state(State::DisplayResults)?;
        self.tell(State::Done)?;
        Ok(end_of(load, here, &theirs))
    }
}
