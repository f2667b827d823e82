//! One end of a round: a thread for each line, and one that watches.

use super::line::{Deed, Handle, Line, Role, Side};
use super::watch::{Reading, Watch};
use crate::busy::busy_seconds;
use crate::load::since;
use crate::round::{cost, generator};
use socket2::Socket;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_model::bench::{Datagrams, NetEnd, NetLoad, Traffic, Workload};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;
use whyslow_sense::{Root, Sampler};

/// The length of an interval of the course.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);
/// How much longer than it measures an end sends, so that the other has something to measure to its own last instant.
const MARGIN: Duration = Duration::from_millis(200);
/// How long lines may take to end once all is over: a queue on the way empties.
const GRACE: Duration = Duration::from_secs(5);

/// A load and the lines it goes over.
pub(super) struct Part {
    pub(super) load: NetLoad,
    pub(super) lines: Vec<Socket>,
}

/// How a sender ends its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// What is still in buffers and queues is thrown away: nobody needs it, and on a slow path it takes long.
    Reset,
    /// As usual.
    Orderly,
}

/// The threads of this end.
pub(super) struct Crew {
    loads: Vec<Arc<NetLoad>>,
    lines: Vec<Member>,
    over: Arc<AtomicBool>,
    epoch: Instant,
    done: Receiver<(usize, Deed)>,
    ending: Ending,
}

/// One thread.
struct Member {
    load: usize,
    line: Handle,
    deed: Option<Deed>,
}

/// The time measured.
struct Measured {
    watch: Watch,
    seconds: f64,
    /// When it was over: what a line meets later is no failure.
    end: Instant,
    /// When it was looked at last, nanoseconds after the epoch.
    ended: u64,
    machine: Option<f64>,
}

impl Crew {
    /// Begins.
    ///
    /// # Errors
    /// Where there are no threads to be had.
    pub(super) fn begin(parts: Vec<Part>, side: Side, ending: Ending) -> std::io::Result<Self> {
        let (over, epoch) = (Arc::<AtomicBool>::default(), Instant::now());
        let (tell, done) = mpsc::channel();
        let mut crew = Self { loads: Vec::new(), lines: Vec::new(), over, epoch, done, ending };
        for (number, part) in parts.into_iter().enumerate() {
            let load = Arc::new(part.load);
            let role = Role::of(load.work, side);
            for socket in part.lines {
                // Calls that wait are ended by `shutdown`; a UDP socket keeps the time-out it was made with.
                let line = Line {
                    socket: Arc::new(socket),
                    load: load.clone(),
                    role,
                    meter: Arc::default(),
                    over: crew.over.clone(),
                    epoch,
                };
                let (tell, place) = (tell.clone(), crew.lines.len());
                crew.lines.push(Member { load: number, line: line.handle(), deed: None });
                let work = move || drop(tell.send((place, line.work())));
                if let Err(e) = thread::Builder::new().name("bench-net".into()).spawn(work) {
                    crew.end(Instant::now());
                    return Err(e);
                }
            }
            crew.loads.push(load);
        }
        Ok(crew)
    }

    /// Works until the time is up or `stop` says so: it is asked several times a second, and told how long it has been. What
    /// each load came to at this end.
    pub(super) fn work(mut self, stop: &mut dyn FnMut(f64) -> bool) -> Vec<NetEnd> {
        let most = |seconds: fn(&NetLoad) -> f64| self.loads.iter().map(|load| seconds(load)).fold(0.0, f64::max);
        let ramp = Duration::from_secs_f64(most(|load| load.ramp_seconds));
        let seconds = Duration::from_secs_f64(most(|load| load.seconds));
        self.rest(self.epoch + ramp, stop);
        let measured = self.measure(self.epoch + ramp + seconds, stop);
        let last = Instant::now() + MARGIN;
        if self.is_at_work() {
            self.rest(last, stop);
        }
        self.end(Instant::now() + GRACE);
        self.account(&measured)
    }

    /// Looks at all lines, interval by interval, until `due`.
    fn measure(&mut self, due: Instant, stop: &mut dyn FnMut(f64) -> bool) -> Measured {
        let lines = self.lines.iter().map(|member| member.line.clone()).collect();
        let (begun, mut watch) = (Instant::now(), Watch::begin(lines));
        let mut sampler = Sampler::of_processors(Root::live());
        let before = sampler.sample();
        let mut at = begun;
        loop {
            at += INTERVAL;
            let stopped = self.rest(at.min(due), stop);
            watch.look();
            if stopped || at >= due {
                break;
            }
        }
        let end = Instant::now();
        watch.finish();
        let seconds = end.duration_since(begun).as_secs_f64();
        let machine = machine_seconds(before, sampler.sample(), seconds);
        // Where this thread was late, the other end may have ended before it looked, as it should have.
        Measured { watch, seconds, end: end.min(due), ended: since(self.epoch), machine }
    }

    /// Waits until `due`, or until it is to stop or nobody works any more, which is told.
    fn rest(&mut self, due: Instant, stop: &mut dyn FnMut(f64) -> bool) -> bool {
        loop {
            if stop(since(self.epoch) as f64 / 1e9) || !self.is_at_work() {
                return true;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.hear(left.min(INTERVAL));
        }
    }

    /// Takes in what threads tell that have ended.
    fn hear(&mut self, wait: Duration) {
        match self.done.recv_timeout(wait) {
            Ok((place, deed)) => self.lines[place].deed = Some(deed),
            Err(RecvTimeoutError::Timeout) => {}
            // A thread that panicked tells nothing; the others are found missing by those who wait for them.
            Err(RecvTimeoutError::Disconnected) => thread::sleep(wait.min(INTERVAL)),
        }
    }

    fn is_at_work(&self) -> bool {
        self.lines.iter().any(|line| line.deed.is_none())
    }

    /// Ends all: those that send at once, the others when nothing comes any more, or at `latest`.
    fn end(&mut self, latest: Instant) {
        self.over.store(true, Ordering::Relaxed);
        for member in self.lines.iter().filter(|member| matches!(member.line.role, Role::Send | Role::Ask)) {
            self.close(&member.line);
        }
        while self.is_at_work() && Instant::now() < latest {
            self.hear(INTERVAL);
        }
        for member in self.lines.iter().filter(|member| member.deed.is_none()) {
            self.close(&member.line);
        }
        let closed = Instant::now();
        while self.is_at_work() && closed.elapsed() < GRACE {
            self.hear(INTERVAL);
        }
    }

    /// Ends every call that waits on a line. Where the other end was faster there is nothing left to close.
    fn close(&self, line: &Handle) {
        if self.ending == Ending::Reset && line.role == Role::Send {
            let _ = line.socket.set_linger(Some(Duration::ZERO));
        }
        let _ = line.socket.shutdown(Shutdown::Both);
    }

    /// What each load came to.
    fn account(mut self, measured: &Measured) -> Vec<NetEnd> {
        let lines = std::mem::take(&mut self.lines);
        let mut ends: Vec<NetEnd> = self.loads.iter().map(|_| NetEnd::default()).collect();
        for (number, end) in ends.iter_mut().enumerate() {
            let own: Vec<(usize, &Member)> = lines.iter().enumerate().filter(|(_, line)| line.load == number).collect();
            *end = end_of(&own, measured);
        }
        ends
    }
}

fn end_of(lines: &[(usize, &Member)], measured: &Measured) -> NetEnd {
    let readings: Vec<&Reading> = lines.iter().filter_map(|(place, _)| measured.watch.readings.get(*place)).collect();
    let deeds: Vec<&Deed> = lines.iter().filter_map(|(_, line)| line.deed.as_ref()).collect();
    let usages: Vec<_> = deeds.iter().map(|deed| deed.usage).collect();
    let tally = deeds.iter().filter_map(|deed| deed.tally.clone()).reduce(|mut sum, tally| {
        sum.merge(&tally);
        sum
    });
    let mut end = NetEnd {
        seconds: measured.seconds,
        bytes: readings.iter().map(|reading| reading.bytes()).sum(),
        all_bytes: lines.iter().map(|(_, member)| member.line.meter.bytes()).sum(),
        datagrams: datagrams(&deeds),
        streams: lines
            .iter()
            .zip(&readings)
            .map(|((_, member), reading)| reading.stream(&member.line, measured.seconds))
            .collect(),
        machine_seconds: measured.machine,
        generator: generator(&usages, false),
        failed: failure(lines, measured),
        ..NetEnd::default()
    };
    end.series.interval = INTERVAL.as_secs_f64();
    match tally {
        Some(tally) => {
            end.seconds = tally.seconds(measured.ended);
            let [flow, ..] = tally.flows(end.seconds, &Workload::of_blocks(1));
            (end.answers, end.latency) = (flow.operations, Some(flow.latency));
            let series = tally.series(end.seconds);
            (end.series.interval, end.series.answers) = (series.interval, series.reads);
        }
        None => end.series.bytes = measured.watch.course(&readings),
    }
    end.cost = cost(&usages, Traffic { reads: end.answers, ..Traffic::default() });
    // The threads' cost is of all they did; answers are counted of the time measured only.
    end.cost.per_operation = None;
    end
}

/// Those of all lines together; none of TCP.
fn datagrams(deeds: &[&Deed]) -> Option<Datagrams> {
    deeds.iter().filter_map(|deed| deed.datagrams).reduce(|a, b| Datagrams {
        sent: a.sent + b.sent,
        received: a.received + b.received,
        lost: a.lost + b.lost,
        lost_for_buffer: a.lost_for_buffer.zip(b.lost_for_buffer).map(|(a, b)| a + b),
        out_of_order: a.out_of_order + b.out_of_order,
        jitter: a.jitter.max(b.jitter),
    })
}

/// Why a line ended before the time was up.
fn failure(lines: &[(usize, &Member)], measured: &Measured) -> Option<String> {
    lines.iter().find_map(|(_, line)| match &line.deed {
        None => Some("a thread never came back".to_owned()),
        Some(Deed { ended: (at, Some(why)), .. }) if *at < measured.end => Some(why.clone()),
        Some(_) => None,
    })
}

/// Processor time of the whole machine in so many seconds. Its readings are taken a little before and after them.
fn machine_seconds(before: Snapshot, after: Snapshot, seconds: f64) -> Option<f64> {
    let window = Window::new(vec![before, after]);
    busy_seconds(&window).map(|busy| busy / window.seconds() * seconds)
}
