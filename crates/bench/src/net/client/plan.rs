//! What is measured, in which order, and what it comes to.

use super::super::crew::Part;
use super::super::line::largest_packet;
use super::far::Far;
use super::{Ask, Theme};
use crate::error::{Error, Result};
use crate::round::Progress;
use crate::session::Session;
use std::time::Duration;
use whyslow_model::bench::{Direction, Latency, Loaded, NetLoad, NetRound, NetRun, Network, PathMtu, Transport, Work};
use whyslow_model::human;

/// How often a request goes out while streams run: often enough for percentiles, too seldom to be load.
const PAUSE: f64 = 0.005;
/// Of what arrives when as much is sent as can be, the shares that are tried until nothing is lost.
const CALMER: [f64; 5] = [0.95, 0.85, 0.7, 0.5, 0.25];
/// A loss below this is none: a burst of somebody else's.
const LOSSLESS: f64 = 0.001;
/// What goes before a run unmeasured: connections find their rate within some round trips.
const RAMP: f64 = 0.3;
const RAMP_ROUND_TRIPS: f64 = 20.0;
const LONGEST_RAMP: f64 = 5.0;
/// How long the answer to a packet may take that is sent to find the MTU: a busy machine's delay, and round trips.
const ANSWER: f64 = 0.05;
const ANSWER_ROUND_TRIPS: f64 = 3.0;
/// The time an MTU may take to be found.
const PROBING: f64 = 60.0;

/// A benchmark under way.
pub(super) struct Plan<'s, 'w> {
    asked: &'s Ask,
    far: Far,
    pub(super) session: &'s mut Session<'w>,
    pub(super) found: Network,
    /// How long an answer takes with nothing else under way; none before that was measured.
    alone: Option<Latency>,
    /// Whether datagrams do not reach the server.
    no_udp: bool,
}

impl<'s, 'w> Plan<'s, 'w> {
    pub(super) fn new(asked: &'s Ask, far: Far, session: &'s mut Session<'w>) -> Self {
        Self { asked, far, session, found: Network::default(), alone: None, no_udp: false }
    }

    pub(super) fn finish(self) -> Network {
        Network { peer: self.far.peer().clone(), ..self.found }
    }

    /// Measures one theme after the other.
    ///
    /// # Errors
    /// Where the server refuses or is gone.
    pub(super) fn work(&mut self) -> Result<()> {
        for theme in &self.asked.themes {
            match theme {
                Theme::Mtu => self.mtu()?,
                Theme::Latency => self.latency()?,
                Theme::Streams => self.streams()?,
                Theme::Loaded => self.loaded()?,
                Theme::Buffers => self.buffers()?,
                Theme::Segments => self.segments()?,
                Theme::Udp => self.udp()?,
            }
        }
        Ok(())
    }

    /// One round. None where it was ended before there was anything to measure.
    fn play(&mut self, group: &str, name: &str, loads: &[(&str, NetLoad)]) -> Result<Option<&NetRound>> {
        let needs_udp = loads.iter().any(|(_, load)| load.transport == Transport::Udp);
        if self.session.stop.is_asked() || needs_udp && self.no_udp {
            return Ok(None);
        }
        let whole = loads.iter().map(|(_, load)| load.ramp_seconds + load.seconds).fold(0.0, f64::max);
        let session = &mut *self.session;
        let mut tick = |elapsed: f64| {
            session.tell(Progress { doing: name, elapsed, whole: Some(whole) });
            session.stop.is_asked()
        };
        let round = match self.far.round(group, name, loads, &mut tick) {
            Err(e) if self.far.is_incomplete() => return self.leave_out(&e, needs_udp).map(|()| None),
            round => round?,
        };
        let measured = |run: &NetRun| run.here.seconds > 0.0 && (run.bandwidth.is_some() || run.rate.is_some());
        if !round.runs.iter().any(measured)
            || session.stop.is_asked() && round.runs.iter().any(|r| r.here.seconds < 0.1)
        {
            return Ok(None);
        }
        self.found.rounds.push(round);
        Ok(self.found.rounds.last())
    }

    /// Goes on without what does not pass.
    fn leave_out(&mut self, why: &Error, udp: bool) -> Result<()> {
        if !udp {
            return Err(why.clone());
        }
        self.no_udp = true;
        self.session.caveats.push("UDP does not pass, and nothing was measured with it: a firewall?".into());
        Ok(())
    }

    /// Plays a round of one load.
    pub(super) fn play_one(&mut self, group: &str, name: &str, load: NetLoad) -> Result<Option<&NetRun>> {
        Ok(self.play(group, name, &[(name, load)])?.and_then(|round| round.runs.first()))
    }

    /// What streams of one direction are like.
    pub(super) fn stream(&self, direction: Direction, streams: u32) -> NetLoad {
        NetLoad { work: Work::Stream(direction), streams, rate: None, ..self.timed(self.asked.like.clone()) }
    }

    fn exchange(&self, transport: Transport, streams: u32) -> NetLoad {
        let load = self.timed(NetLoad::exchange(transport, self.asked.like.seconds));
        NetLoad { streams, ..load }
    }

    /// The same with as much time before it as the path needs.
    fn timed(&self, load: NetLoad) -> NetLoad {
        let ramp = RAMP + self.far.rtt().unwrap_or(0.0) * RAMP_ROUND_TRIPS;
        NetLoad { ramp_seconds: ramp.min(LONGEST_RAMP), ..load }
    }

    fn mtu(&mut self) -> Result<()> {
        let load = NetLoad { seconds: PROBING, ..NetLoad::exchange(Transport::Udp, PROBING) };
        let patience = Duration::from_secs_f64(ANSWER + ANSWER_ROUND_TRIPS * self.far.rtt().unwrap_or(0.0));
        let Far::Whyslow(link) = &mut self.far else { return Ok(()) };
        let mut parts = match link.prepare(&[load]) {
            Err(e) if link.incomplete => return self.leave_out(&e, true),
            parts => parts?,
        };
        link.start(|| Ok(()))?;
        let lines = parts.pop().map(|part: Part| part.lines).unwrap_or_default();
        let session = &mut *self.session;
        let mut stop = || {
            session.tell(Progress { doing: "looking for the largest packet that passes", elapsed: 0.0, whole: None });
            session.stop.is_asked()
        };
        let found = lines.first().map_or(Ok(None), |line| largest_packet(line, patience, &mut stop));
        link.finish(true)?;
        let kernel = link.kernel_mtu();
        match found {
            Ok(Some(bytes)) => self.found.mtu = Some(PathMtu { bytes, kernel }),
            Ok(None) if self.session.stop.is_asked() => {}
            Ok(None) => {
                self.session.caveats.push("no datagram came back: UDP does not pass, and no MTU was found".into())
            }
            Err(e) => self.session.caveats.push(format!("the largest packet that passes was not found: {e}")),
        }
        Ok(())
    }

    /// How long an answer takes with nothing else under way.
    pub(super) fn alone(&mut self) -> Result<Option<Latency>> {
        if self.alone.is_none() {
            let load = self.exchange(Transport::Tcp, 1);
            let run = self.play_one("request and answer", "TCP, one at a time", load)?;
            self.alone = run.and_then(|run| run.here.latency.clone()).filter(|latency| latency.count > 0);
        }
        Ok(self.alone.clone())
    }

    fn latency(&mut self) -> Result<()> {
        self.alone()?;
        let udp = self.exchange(Transport::Udp, 1);
        self.play_one("request and answer", "UDP, one at a time", udp)?;
        let streams = self.asked.streams;
        if streams > 1 {
            let load = self.exchange(Transport::Tcp, streams);
            self.play_one("request and answer", &format!("TCP, {streams} at a time"), load)?;
        }
        Ok(())
    }

    fn streams(&mut self) -> Result<()> {
        let many = Some(self.asked.streams).filter(|&streams| streams > 1);
        for &direction in &self.asked.directions {
            for streams in [Some(1), many].into_iter().flatten() {
                let name = format!("{}, {}", way(direction), count(streams));
                let load = self.stream(direction, streams);
                self.play_one("TCP streams", &name, load)?;
            }
        }
        Ok(())
    }

    /// Requests while streams run, beside requests alone.
    fn loaded(&mut self) -> Result<()> {
        let Some(alone) = self.alone()?.and_then(|latency| latency.percentile(0.5)) else { return Ok(()) };
        for &direction in &self.asked.directions {
            let streams = self.asked.streams;
            let name = format!("requests beside {} {}", count(streams), way(direction));
            let requests = NetLoad { pause: PAUSE, ..self.exchange(Transport::Tcp, 1) };
            let loads = [("streams", self.stream(direction, streams)), ("requests", requests)];
            let round = self.play("latency under load", &name, &loads)?;
            let loaded = round.and_then(|round| loaded(round, direction, streams, alone));
            self.found.loaded.extend(loaded);
        }
        Ok(())
    }

    /// The way that is looked at where one is enough.
    pub(super) fn direction(&self) -> Direction {
        self.asked.directions.first().copied().unwrap_or(Direction::Up)
    }

    fn udp(&mut self) -> Result<()> {
        let block = self.datagram();
        for &direction in &self.asked.directions {
            let load = NetLoad { transport: Transport::Udp, block, discard: false, ..self.stream(direction, 1) };
            if let Some(rate) = self.asked.like.rate {
                let name = format!("{}, {}", way(direction), human::quantity(rate * 8.0, "bit/s"));
                self.play_one("UDP", &name, NetLoad { rate: Some(rate), ..load })?;
                continue;
            }
            let name = format!("{}, as many as there is room for", way(direction));
            let flood = self.play_one("UDP", &name, load.clone())?.map(|run| (run.bandwidth, is_lossless(run)));
            let Some((Some(most), lossless)) = flood else { continue };
            let calm = if lossless { Some(most) } else { self.calm_down(direction, &load, most)? };
            self.found.udp_lossless = [self.found.udp_lossless, calm].into_iter().flatten().reduce(f64::min);
        }
        Ok(())
    }

    /// Sends less and less until nothing is lost. What arrived then.
    fn calm_down(&mut self, direction: Direction, load: &NetLoad, most: f64) -> Result<Option<f64>> {
        for share in CALMER {
            let rate = (most * share).max(f64::from(load.block));
            let name = format!("{}, {} asked for", way(direction), human::quantity(rate * 8.0, "bit/s"));
            let Some(run) = self.play_one("UDP", &name, NetLoad { rate: Some(rate), ..load.clone() })? else { break };
            if is_lossless(run) {
                return Ok(run.bandwidth);
            }
        }
        Ok(None)
    }

    /// The largest datagram that is not cut up, or as it was asked for.
    fn datagram(&self) -> u32 {
        let mtu = self.found.mtu.map(|mtu| mtu.bytes).or_else(|| self.far.kernel_mtu()).unwrap_or(1500);
        let headers = if self.far.peer().address.starts_with('[') { 48 } else { 28 };
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

fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

fn count(streams: u32) -> String {
    if streams == 1 { "1 stream".into() } else { format!("{streams} streams") }
}

pub(super) fn size(bytes: u32) -> String {
    human::quantity(f64::from(bytes), "bytes")
}
