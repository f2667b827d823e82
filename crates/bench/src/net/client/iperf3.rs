//! An `iperf3 -s` as the other end: TCP streams, by iperf3's own protocol (src/iperf_api.c of iperf 3).
//!
//! One connection carries states, a byte each, and JSON after its length; each stream is a connection more. All begin with the
//! same cookie. Datagrams are left out: iperf3's carry numbers in two layouts that depend on versions, and its server tells
//! loss only of all streams together.

use super::super::crew::{Crew, Ending, Part};
use super::super::line::Side;
use super::super::message::LARGE;
use super::super::socket::connect_tcp;
use super::super::token::nonce;
use super::super::wire::Channel;
use super::link::{Tick, reach};
use super::run::run_of;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use socket2::Socket;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};
use whyslow_model::bench::{Cost, Direction, NetEnd, NetLoad, NetRound, NetStream, Peer, Work};

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

/// What is asked of the server.
#[derive(Serialize)]
struct Parameters<'a> {
    tcp: bool,
    omit: u32,
    time: u32,
    parallel: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    reverse: bool,
    len: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<u32>,
    #[serde(rename = "MSS", skip_serializing_if = "Option::is_none")]
    mss: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion: Option<&'a str>,
    client_version: &'static str,
}

/// What each end tells the other of a test.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Results {
    cpu_util_total: f64,
    cpu_util_user: f64,
    cpu_util_system: f64,
    /// 1 where retransmits are told.
    sender_has_retransmits: f64,
    streams: Vec<StreamResult>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct StreamResult {
    id: u32,
    bytes: u64,
    /// Less than nothing, or 2 to the 64th less 1, where it is not known: so are the next ones.
    retransmits: f64,
    jitter: f64,
    errors: f64,
    packets: f64,
    #[serde(default)]
    start_time: f64,
    #[serde(default)]
    end_time: f64,
}

/// A server. Each test has connections of its own; none is made without one, for it would end as a test that failed.
pub(super) struct Iperf3 {
    pub(super) peer: Peer,
}

impl Iperf3 {
    /// The server of this host.
    pub(super) fn at(host: &str) -> Self {
        Self { peer: Peer { name: host.to_owned(), program: "iperf3".to_owned(), ..Peer::default() } }
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

fn parameters(load: &NetLoad) -> Parameters<'_> {
    Parameters {
        tcp: true,
        omit: load.ramp_seconds as u32,
        // Its server ends a test that lasts longer.
        time: load.seconds.ceil() as u32 + 1,
        parallel: load.streams,
        reverse: load.work == Work::Stream(Direction::Down),
        len: load.block,
        window: load.buffer,
        mss: load.segment,
        congestion: load.congestion.as_deref(),
        client_version: "3.12",
    }
}

/// The number iperf3 gives a stream: there is no second.
fn number(place: usize) -> u32 {
    if place == 0 { 1 } else { place as u32 + 2 }
}

fn results(here: &NetEnd) -> Results {
    let share = |seconds: f64| 100.0 * seconds / here.cost.thread_seconds.max(1e-9);
    let stream = |(place, stream): (usize, &NetStream)| StreamResult {
        id: number(place),
        bytes: stream.bytes,
        retransmits: stream.retransmits.map_or(-1.0, |n| n as f64),
        end_time: here.seconds,
        ..StreamResult::default()
    };
    Results {
        cpu_util_total: share(here.cost.user_seconds + here.cost.system_seconds),
        cpu_util_user: share(here.cost.user_seconds),
        cpu_util_system: share(here.cost.system_seconds),
        sender_has_retransmits: 1.0,
        streams: here.streams.iter().enumerate().map(stream).collect(),
    }
}

/// The other end, as far as iperf3 tells of it.
fn end_of(load: &NetLoad, here: &NetEnd, theirs: &Results) -> NetEnd {
    let finite = |number: f64| if number.is_finite() { number.max(0.0) } else { 0.0 };
    let own = theirs.streams.iter().map(|s| finite(s.end_time - s.start_time)).fold(0.0, f64::max);
    let seconds = if own > 0.0 { own } else { here.seconds };
    let sends = load.work == Work::Stream(Direction::Down) && theirs.sender_has_retransmits == 1.0;
    let stream = |stream: &StreamResult| NetStream {
        bytes: stream.bytes,
        retransmits: (sends && (0.0..1e18).contains(&stream.retransmits)).then_some(stream.retransmits as u64),
        ..NetStream::default()
    };
    let bytes = theirs.streams.iter().fold(0u64, |sum, stream| sum.saturating_add(stream.bytes));
    let spent = |percent: f64| finite(percent) / 100.0 * seconds;
    let cost = Cost {
        thread_seconds: seconds,
        user_seconds: spent(theirs.cpu_util_user),
        system_seconds: spent(theirs.cpu_util_system),
        ..Cost::default()
    };
    let streams = theirs.streams.iter().map(stream).collect();
    NetEnd { seconds, bytes, all_bytes: bytes, streams, cost, ..NetEnd::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn streams_are_numbered_as_iperf3_does() {
        assert_eq!([0, 1, 2, 3].map(number), [1, 3, 4, 5]);
    }

    #[test]
    fn what_is_not_asked_for_is_not_in_the_parameters() {
        let load = NetLoad::stream(Direction::Up, 1.5);
        let json = serde_json::to_string(&parameters(&load)).unwrap();
        assert_eq!(json, r#"{"tcp":true,"omit":0,"time":3,"parallel":1,"len":131072,"client_version":"3.12"}"#);
        let load = NetLoad { segment: Some(1000), ..NetLoad::stream(Direction::Down, 1.0) };
        let json = serde_json::to_string(&parameters(&load)).unwrap();
        assert!(json.contains(r#""reverse":true"#) && json.contains(r#""MSS":1000"#), "{json}");
    }

    proptest! {
        #[test]
        fn no_results_make_it_panic(bytes: Vec<u64>, times: (f64, f64), cpu: f64) {
            let (start_time, end_time) = times;
            let stream = |bytes: u64| StreamResult { bytes, start_time, end_time, retransmits: -1.0, ..StreamResult::default() };
            let streams = bytes.into_iter().map(stream).collect();
            let results = Results { cpu_util_user: cpu, streams, ..Results::default() };
            let end = end_of(&NetLoad::stream(Direction::Up, 1.0), &NetEnd::default(), &results);
            prop_assert!(end.seconds >= 0.0 && end.cost.user_seconds >= 0.0);
        }
    }
}
