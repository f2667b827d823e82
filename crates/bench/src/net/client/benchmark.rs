//! Parts of the network benchmark and the evaluation of their results.

use super::super::test_stream::largest_packet;
use super::{NetOptions, NetPart, RemoteEnd};
use crate::bench_session::BenchSession;
use crate::{Error, Progress, Result};
use std::time::Duration;
use whyslow_documents::bench::{
    Direction, Latency, Loaded, NetLoad, NetRound, NetRun, Network, PathMtu, Transport, Work,
};
use whyslow_model::human;

/// Pause between requests while streams run: enough requests for percentiles, but a negligible load.
const REQUEST_PAUSE: f64 = 0.005;
/// Shares of the highest UDP rate, tried in order until nothing is lost.
const RATE_STEPS: [f64; 5] = [0.95, 0.85, 0.7, 0.5, 0.25];
/// Share of lost datagrams below which a run counts as lossless.
const LOSSLESS: f64 = 0.001;
/// Unmeasured time before a run, in which connections find their rate: in seconds, in round trips, and its maximum.
const RAMP: f64 = 0.3;
const RAMP_ROUND_TRIPS: f64 = 20.0;
const MAX_RAMP: f64 = 5.0;
/// Timeout of a path MTU probe, in seconds and in round trips.
const PROBE_TIMEOUT: f64 = 0.05;
const PROBE_ROUND_TRIPS: f64 = 3.0;
/// Time limit of all probes, in seconds.
const PROBING: f64 = 60.0;

pub(super) struct NetBenchmark<'s, 'w> {
    options: &'s NetOptions,
    remote: RemoteEnd,
    pub(super) session: &'s mut BenchSession<'w>,
    pub(super) found: Network,
    /// Response time without other load, once measured.
    idle_latency: Option<Latency>,
    /// Set if UDP does not reach the server.
    no_udp: bool,
}

impl<'s, 'w> NetBenchmark<'s, 'w> {
    pub(super) fn new(options: &'s NetOptions, remote: RemoteEnd, session: &'s mut BenchSession<'w>) -> Self {
        Self { options, remote, session, found: Network::default(), idle_latency: None, no_udp: false }
    }

    pub(super) fn finish(self) -> Network {
        Network { peer: self.remote.peer().clone(), ..self.found }
    }

    pub(super) fn run(&mut self) -> Result<()> {
        for part in &self.options.parts {
            match part {
                NetPart::Mtu => self.mtu()?,
                NetPart::Latency => self.latency()?,
                NetPart::Streams => self.streams()?,
                NetPart::Loaded => self.loaded()?,
                NetPart::Buffers => self.buffers()?,
                NetPart::Segments => self.segments()?,
                NetPart::Udp => self.udp()?,
            }
        }
        Ok(())
    }

    /// Runs one round. Returns `None` if it was stopped before anything was measured.
    fn run_round(&mut self, group: &str, name: &str, loads: &[(&str, NetLoad)]) -> Result<Option<&NetRound>> {
        let needs_udp = loads.iter().any(|(_, load)| load.transport == Transport::Udp);
        if self.session.stop.is_asked() || needs_udp && self.no_udp {
            return Ok(None);
        }
        let whole = loads.iter().map(|(_, load)| load.ramp_seconds + load.seconds).fold(0.0, f64::max);
        let session = &mut *self.session;
        let mut tick = |elapsed: f64| {
            session.report_progress(Progress { doing: name, elapsed, whole: Some(whole) });
            session.stop.is_asked()
        };
        let round = match self.remote.run_round(group, name, loads, &mut tick) {
            Err(e) if self.remote.is_incomplete() => return self.skip_udp(&e, needs_udp).map(|()| None),
            round => round?,
        };
        let measured = |run: &NetRun| run.here.seconds > 0.0 && (run.bandwidth.is_some() || run.rate.is_some());
        let cut_short = self.session.stop.is_asked() && round.runs.iter().any(|run| run.here.seconds < 0.1);
        if cut_short || !round.runs.iter().any(measured) {
            return Ok(None);
        }
        self.found.rounds.push(round);
        Ok(self.found.rounds.last())
    }

    /// Continues without UDP if only UDP did not reach the server.
    fn skip_udp(&mut self, why: &Error, udp: bool) -> Result<()> {
        if !udp {
            return Err(why.clone());
        }
        self.no_udp = true;
        self.session.add_caveat("UDP does not reach the server, so nothing was measured with it: a firewall?");
        Ok(())
    }

    /// Runs a round of one load.
    pub(super) fn run_one(&mut self, group: &str, name: &str, load: NetLoad) -> Result<Option<&NetRun>> {
        Ok(self.run_round(group, name, &[(name, load)])?.and_then(|round| round.runs.first()))
    }

    pub(super) fn stream(&self, direction: Direction, streams: u32) -> NetLoad {
        NetLoad { work: Work::Stream(direction), streams, rate: None, ..self.with_ramp(self.options.like.clone()) }
    }

    fn exchange(&self, transport: Transport, streams: u32) -> NetLoad {
        let load = self.with_ramp(NetLoad::exchange(transport, self.options.like.seconds));
        NetLoad { streams, ..load }
    }

    fn with_ramp(&self, load: NetLoad) -> NetLoad {
        let ramp = RAMP + self.remote.rtt().unwrap_or(0.0) * RAMP_ROUND_TRIPS;
        NetLoad { ramp_seconds: ramp.min(MAX_RAMP), ..load }
    }

    fn mtu(&mut self) -> Result<()> {
        let load = NetLoad { seconds: PROBING, ..NetLoad::exchange(Transport::Udp, PROBING) };
        let timeout = Duration::from_secs_f64(PROBE_TIMEOUT + PROBE_ROUND_TRIPS * self.remote.rtt().unwrap_or(0.0));
        let RemoteEnd::Whyslow(connection) = &mut self.remote else { return Ok(()) };
        let mut loads = match connection.prepare(&[load]) {
            Err(e) if connection.incomplete => return self.skip_udp(&e, true),
            loads => loads?,
        };
        connection.start(|| Ok(()))?;
        let streams = loads.pop().map(|load| load.streams).unwrap_or_default();
        let session = &mut *self.session;
        let mut stop = || {
            session.report_progress(Progress { doing: "probing the path MTU", elapsed: 0.0, whole: None });
            session.stop.is_asked()
        };
        let found = streams.first().map_or(Ok(None), |stream| largest_packet(stream, timeout, &mut stop));
        connection.finish(true)?;
        let kernel = connection.kernel_mtu();
        match found {
            Ok(Some(bytes)) => self.found.mtu = Some(PathMtu { bytes, kernel }),
            Ok(None) if self.session.stop.is_asked() => {}
            Ok(None) => self.session.add_caveat("no UDP packet was answered, so the path MTU is unknown: a firewall?"),
            Err(e) => self.session.add_caveat(&format!("the path MTU is unknown: {e}")),
        }
        Ok(())
    }

    /// Measures the response time without other load, once.
    pub(super) fn idle_latency(&mut self) -> Result<Option<Latency>> {
        if self.idle_latency.is_none() {
            let load = self.exchange(Transport::Tcp, 1);
            let run = self.run_one("request and answer", "TCP, one at a time", load)?;
            self.idle_latency = run.and_then(|run| run.here.latency.clone()).filter(|latency| latency.count > 0);
        }
        Ok(self.idle_latency.clone())
    }

    fn latency(&mut self) -> Result<()> {
        self.idle_latency()?;
        let udp = self.exchange(Transport::Udp, 1);
        self.run_one("request and answer", "UDP, one at a time", udp)?;
        let streams = self.options.streams;
        if streams > 1 {
            let load = self.exchange(Transport::Tcp, streams);
            self.run_one("request and answer", &format!("TCP, {streams} at a time"), load)?;
        }
        Ok(())
    }

    fn streams(&mut self) -> Result<()> {
        let many = Some(self.options.streams).filter(|&streams| streams > 1);
        for &direction in &self.options.directions {
            for streams in [Some(1), many].into_iter().flatten() {
                let name = format!("{}, {}", direction_name(direction), count(streams));
                let load = self.stream(direction, streams);
                self.run_one("TCP streams", &name, load)?;
            }
        }
        Ok(())
    }

    /// Measures the response time while streams run.
    fn loaded(&mut self) -> Result<()> {
        let Some(idle) = self.idle_latency()?.and_then(|latency| latency.percentile(0.5)) else { return Ok(()) };
        for &direction in &self.options.directions {
            let streams = self.options.streams;
            let name = format!("requests beside {} {}", count(streams), direction_name(direction));
            let requests = NetLoad { pause: REQUEST_PAUSE, ..self.exchange(Transport::Tcp, 1) };
            let loads = [("streams", self.stream(direction, streams)), ("requests", requests)];
            let round = self.run_round("latency under load", &name, &loads)?;
            let loaded = round.and_then(|round| loaded(round, direction, streams, idle));
            self.found.loaded.extend(loaded);
        }
        Ok(())
    }

    pub(super) fn direction(&self) -> Direction {
        self.options.directions.first().copied().unwrap_or(Direction::Up)
    }

    fn udp(&mut self) -> Result<()> {
        let block = self.datagram();
        for &direction in &self.options.directions {
            let load = NetLoad { transport: Transport::Udp, block, discard: false, ..self.stream(direction, 1) };
            if let Some(rate) = self.options.like.rate {
                let name = format!("{}, {}", direction_name(direction), human::quantity(rate * 8.0, "bit/s"));
                self.run_one("UDP", &name, NetLoad { rate: Some(rate), ..load })?;
                continue;
            }
            let name = format!("{}, unpaced", direction_name(direction));
            let unpaced = self.run_one("UDP", &name, load.clone())?.map(|run| (run.bandwidth, is_lossless(run)));
            let Some((Some(most), lossless)) = unpaced else { continue };
            let rate = if lossless { Some(most) } else { self.find_lossless_rate(direction, &load, most)? };
            self.found.udp_lossless = [self.found.udp_lossless, rate].into_iter().flatten().reduce(f64::min);
        }
        Ok(())
    }

    /// Reduces the rate until nothing is lost. Returns the receive rate then.
    fn find_lossless_rate(&mut self, direction: Direction, load: &NetLoad, most: f64) -> Result<Option<f64>> {
        for share in RATE_STEPS {
            let rate = (most * share).max(f64::from(load.block));
            let name = format!("{}, paced at {}", direction_name(direction), human::quantity(rate * 8.0, "bit/s"));
            let Some(run) = self.run_one("UDP", &name, NetLoad { rate: Some(rate), ..load.clone() })? else { break };
            if is_lossless(run) {
                return Ok(run.bandwidth);
            }
        }
        Ok(None)
    }

    /// Returns the size of the largest datagram that is not fragmented.
    fn datagram(&self) -> u32 {
        let mtu = self.found.mtu.map(|mtu| mtu.bytes).or_else(|| self.remote.kernel_mtu()).unwrap_or(1500);
        let headers = if self.remote.peer().address.starts_with('[') { 48 } else { 28 };
        (mtu - headers.min(mtu)).clamp(512, 65_507)
    }
}

fn loaded(round: &NetRound, direction: Direction, streams: u32, alone: f64) -> Option<Loaded> {
    let [stream, requests] = round.runs.as_slice() else { return None };
    let latency = requests.here.latency.as_ref()?;
    let (bandwidth, median) = (stream.bandwidth?, latency.percentile(0.5)?);
    let queued = bandwidth * (median - alone).max(0.0);
    Some(Loaded { direction, streams, bandwidth, alone, median, p99: latency.percentile(0.99), queued })
}

fn is_lossless(run: &NetRun) -> bool {
    run.datagrams.is_some_and(|counts| counts.lost as f64 <= LOSSLESS * counts.sent as f64)
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

fn count(streams: u32) -> String {
    if streams == 1 { "1 stream".into() } else { format!("{streams} streams") }
}
