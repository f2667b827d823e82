//! A round: loads that begin together, each a number of threads.

mod thread;

use crate::engine::{Bell, GRACE};
use crate::error::{Error, Result};
use crate::load::{Outcome, Span, Start, Tally, since};
use crate::stop::Stop;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
pub(crate) use thread::{Reading, Usage, keep_to};
use whyslow_model::bench::{Cost, Flow, Generator, Run, Traffic, Workload};

/// A workload and what it is put to.
#[derive(Clone, Debug)]
pub(crate) struct Party {
    pub(crate) name: String,
    /// The target, by place in the report's list.
    pub(crate) target: usize,
    pub(crate) load: Workload,
    /// One for all jobs, or one for each.
    pub(crate) files: Vec<Arc<File>>,
    /// How much later than the others it begins, seconds.
    pub(crate) delay: f64,
}

/// How far a round is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// What is being done.
    pub doing: &'a str,
    /// Seconds since its beginning.
    pub elapsed: f64,
    /// Seconds it will take in all; none where that is not known.
    pub whole: Option<f64>,
}

/// Told how far it is, several times a second.
pub(crate) type Watch<'a> = &'a mut dyn FnMut(Progress);

/// How often it is looked whether a round is to end.
const TICK: Duration = Duration::from_millis(50);
/// The share of the time from which on a thread that ran, or wanted to, was what limited its load: it had no time to wait
/// for the target.
const WAS_LIMIT: f64 = 0.9;

/// A load and what came of it, as played.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) run: Run,
    /// All it asked for, times that are not measured included.
    pub(crate) asked: Traffic,
}

/// Plays a round.
///
/// # Errors
/// Where a load cannot even begin. What fails once it runs is told in its [`Run`].
pub(crate) fn play(name: &str, parties: &[Party], stop: &Stop, watch: Watch) -> Result<Vec<Played>> {
    let mut band = Band::assemble(parties)?;
    let epoch = band.begin(parties);
    let whole = parties.iter().map(Party::end).try_fold(0.0, |most: f64, end| Some(most.max(end?)));
    let mut last_word = None;
    loop {
        let elapsed = since(epoch);
        if stop.is_asked() || last_word.is_none() && band.ring_those_due(elapsed) {
            band.ring_all();
            last_word.get_or_insert_with(Instant::now);
        }
        if band.collect(band.next_end(elapsed)) || last_word.is_some_and(|at| at.elapsed() > GRACE + GRACE) {
            break;
        }
        watch(Progress { doing: name, elapsed: elapsed as f64 / 1e9, whole });
    }
    Ok(band.disband(parties))
}

impl Party {
    /// When it ends, seconds after the round began; none where it ends when it has done all.
    fn end(&self) -> Option<f64> {
        self.load.seconds.map(|seconds| self.delay + self.load.ramp_seconds + seconds)
    }

    fn span(&self) -> Span {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        Span { begin: ns(self.delay + self.load.ramp_seconds), end: self.end().map_or(u64::MAX, ns) }
    }
}

/// The threads of a round.
struct Band {
    players: Vec<Player>,
    done: Receiver<(usize, Outcome, Usage)>,
}

/// One thread.
struct Player {
    party: usize,
    bell: Arc<Bell>,
    go: Option<Sender<Start>>,
    /// When its party ends, nanoseconds after the epoch.
    end: u64,
    outcome: Option<(Outcome, Usage)>,
}

impl Band {
    /// Starts all threads and waits until each is ready to begin.
    fn assemble(parties: &[Party]) -> Result<Self> {
        let (done_to, done) = mpsc::channel();
        let (ready_to, ready) = mpsc::channel();
        let mut players = Vec::new();
        for (number, party) in parties.iter().enumerate() {
            for job in 0..party.load.jobs.max(1) {
                let bell =
                    Bell::new().map_err(|e| Error::new(format!("{}: cannot create an eventfd: {e}", party.name)))?;
                let (go, begin) = mpsc::channel();
                let place = players.len();
                let file = party.files[job as usize % party.files.len()].clone();
                let thread = thread::Job { load: party.load.clone(), job, file, bell: bell.clone() };
                let (ready, done) = (ready_to.clone(), done_to.clone());
                let play =
                    move || thread.play(&ready, &begin, |outcome, usage| drop(done.send((place, outcome, usage))));
                let started = std::thread::Builder::new().name("bench".into()).spawn(play);
                started.map_err(|e| Error::new(format!("{}: cannot start a thread: {e}", party.name)))?;
                players.push(Player { party: number, bell, go: Some(go), end: party.span().end, outcome: None });
            }
        }
        drop(ready_to);
        for _ in &players {
            let answer = ready.recv().unwrap_or_else(|_| Err("a thread ended before it began".into()));
            answer.map_err(|why| Error::new(format!("cannot make load: {why}")))?;
        }
        Ok(Self { players, done })
    }

    /// Has all begin. The instant from which times are counted.
    fn begin(&mut self, parties: &[Party]) -> Instant {
        let epoch = Instant::now();
        for player in &mut self.players {
            let party = &parties[player.party];
            let start = Start { epoch, at: (party.delay * 1e9) as u64, span: party.span() };
            if let Some(go) = player.go.take() {
                // A thread that has ended is found missing later.
                let _ = go.send(start);
            }
        }
        epoch
    }

    /// Tells those whose time is up to end. Whether that is all.
    fn ring_those_due(&self, elapsed: u64) -> bool {
        let (due, others): (Vec<&Player>, Vec<_>) = self.players.iter().partition(|player| player.end <= elapsed);
        due.iter().filter(|player| !player.bell.is_rung()).for_each(|player| player.bell.ring());
        others.is_empty()
    }

    fn ring_all(&self) {
        self.players.iter().filter(|player| !player.bell.is_rung()).for_each(|player| player.bell.ring());
    }

    /// How long to wait until the next has to be told.
    fn next_end(&self, elapsed: u64) -> Duration {
        let ends = self.players.iter().filter(|player| !player.bell.is_rung()).map(|player| player.end);
        ends.min().map_or(TICK, |end| Duration::from_nanos(end.saturating_sub(elapsed)).min(TICK))
    }

    /// Takes in what threads tell for so long. Whether all have ended.
    fn collect(&mut self, wait: Duration) -> bool {
        match self.done.recv_timeout(wait) {
            Ok((place, outcome, usage)) => self.players[place].outcome = Some((outcome, usage)),
            Err(RecvTimeoutError::Timeout) => {}
            // A thread that panicked tells nothing more.
            Err(RecvTimeoutError::Disconnected) => return true,
        }
        self.players.iter().all(|player| player.outcome.is_some())
    }

    /// What each party did.
    fn disband(self, parties: &[Party]) -> Vec<Played> {
        let mut outcomes: Vec<Vec<Option<(Outcome, Usage)>>> = parties.iter().map(|_| Vec::new()).collect();
        for player in self.players {
            outcomes[player.party].push(player.outcome);
        }
        parties.iter().zip(outcomes).map(|(party, outcomes)| played(party, outcomes)).collect()
    }
}

/// Puts together what the threads of a party did; one that never told is hung in its request.
fn played(party: &Party, outcomes: Vec<Option<(Outcome, Usage)>>) -> Played {
    let missing = outcomes.iter().filter(|outcome| outcome.is_none()).count() as u64;
    let (jobs, usages): (Vec<Outcome>, Vec<Usage>) = outcomes.into_iter().flatten().unzip();
    let mut tally = Tally::new(party.span());
    jobs.iter().for_each(|job| tally.merge(&job.tally));
    let asked = jobs.iter().fold(Traffic::default(), |sum, job| sum.plus(job.asked));
    let seconds = tally.seconds(jobs.iter().map(|job| job.ended).max().unwrap_or(0));
    let [read, write, sync] = tally.flows(seconds, &party.load);
    let wanted = |flow: Flow, wanted: bool| wanted.then_some(flow);
    let run = Run {
        name: party.name.clone(),
        target: party.target,
        asked: party.load.clone(),
        seconds,
        read: wanted(read, party.load.does_read()),
        write: wanted(write, party.load.does_write()),
        sync: wanted(sync, party.load.sync.is_some()),
        series: tally.series(seconds),
        cost: cost(&usages, asked),
        generator: generator(&usages, party.load.poll),
        failed: jobs.iter().find_map(|job| job.failed.clone()),
        hung: jobs.iter().map(|job| job.hung).sum::<u64>() + missing,
        behind: jobs.iter().map(|job| job.behind).sum(),
    };
    Played { run, asked }
}

/// What threads used in all, and for each request.
pub(crate) fn cost(usages: &[Usage], asked: Traffic) -> Cost {
    let (user, system) = usages.iter().fold((0.0, 0.0), |(user, system), u| (user + u.user, system + u.system));
    let operations = asked.reads + asked.writes + asked.flushes;
    Cost {
        thread_seconds: usages.iter().map(|usage| usage.wall).sum(),
        user_seconds: user,
        system_seconds: system,
        per_operation: (operations > 0).then(|| (user + system) / operations as f64),
        context_switches: usages.iter().map(|usage| usage.switches).sum(),
        machine_per_operation: None,
    }
}

/// Whether who made the load was the limit: of threads that poll, and so are always busy, that cannot be told.
pub(crate) fn generator(usages: &[Usage], polls: bool) -> Generator {
    let wanting = |usage: &&Usage| usage.busy.unwrap_or(0.0) + usage.waited.unwrap_or(0.0);
    let busiest = usages.iter().max_by(|a, b| wanting(a).total_cmp(&wanting(b)));
    let Some(busiest) = busiest else { return Generator::default() };
    Generator { busy: busiest.busy, waited: busiest.waited, was_limit: !polls && wanting(&busiest) >= WAS_LIMIT }
}
