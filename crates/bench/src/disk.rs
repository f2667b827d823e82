//! `bench disk`: the shape of a disk. How many requests and how many bytes a second it can do, and with how many in flight.

mod climb;

use crate::error::{Error, Result};
use crate::round::Progress;
use crate::session::Session;
use crate::stop::Stop;
use crate::target::Ask;
use climb::{Climb, Point};
use whyslow_model::bench::{Access, Cache, Ceiling, Engine, Kind, Limit, Report, Sync, Workload};
use whyslow_model::human;

/// What to sweep, and how.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The target.
    pub ask: Ask,
    /// How requests reach the kernel.
    pub engine: Engine,
    /// Whether completions are polled for: with io_uring, past the page cache, on devices that can be asked.
    pub poll: bool,
    /// What is done about the page cache before each run.
    pub cache: Cache,
    /// The time measured of each run, seconds.
    pub seconds: f64,
    /// What random numbers come of.
    pub seed: u64,
}

/// The part of a run's length that goes before it unmeasured: queues fill, caches of the device take in what is new.
const RAMP: f64 = 0.2;
const SMALL: u32 = 4096;
const LARGE: u32 = 1 << 20;
/// Blocks between the small and the large one, run at the depth at which the small ones do best.
const BETWEEN: [u32; 3] = [16 << 10, 64 << 10, 256 << 10];

/// A kind of requests.
#[derive(Clone, Copy)]
struct Sort {
    name: &'static str,
    access: Access,
    reads: f64,
    limit: Limit,
}

const READS: [Sort; 2] = [
    Sort { name: "random read", access: Access::Uniform, reads: 1.0, limit: Limit::Requests },
    Sort { name: "sequential read", access: Access::Sequential, reads: 1.0, limit: Limit::Bandwidth },
];
const WRITES: [Sort; 2] = [
    Sort { name: "random write", access: Access::Uniform, reads: 0.0, limit: Limit::Requests },
    Sort { name: "sequential write", access: Access::Sequential, reads: 0.0, limit: Limit::Bandwidth },
];

/// Runs the sweep. Ended before its time by `stop`, it reports what it has.
///
/// # Errors
/// Where the target may or can not be measured.
pub fn sweep(asked: &Sweep, stop: &Stop, watch: &mut dyn FnMut(Progress)) -> Result<Report> {
    let mut session = Session::begin(stop, watch);
    let target = session.open(&asked.ask)?;
    check_engine(asked, &session)?;
    let polled = if asked.poll { session.polled(target)? } else { 0 };
    if asked.poll && polled < u64::from(LARGE) {
        let most = human::quantity(polled as f64, "bytes");
        session.caveats.push(format!("requests of more than {most} are cut, and cannot be polled for: they were not"));
    }
    session.mind_others(target, &asked.ask);
    let mut sweep = Sweeper { session, asked, target, polled, ceilings: Vec::new() };
    sweep.session.check_holds(target, sweep.small())?;
    sweep.run()?;
    Ok(sweep.session.finish(Kind::Disk, sweep.ceilings))
}

/// Whether the engine can be put to the target: a file that somebody else cuts short while it is mapped would end the program.
fn check_engine(asked: &Sweep, session: &Session) -> Result<()> {
    if asked.engine == Engine::Mmap && session.targets.iter().any(|target| target.about.kind == "file") {
        let path = asked.ask.path.display();
        return Err(Error::new(format!(
            "{path}: mmap is for devices, and for files made in a folder: others may cut this one short"
        )));
    }
    if asked.poll && (asked.engine != Engine::IoUring || !asked.ask.direct) {
        return Err(Error::new("only requests of io_uring past the page cache can be polled for: leave --poll out"));
    }
    Ok(())
}

struct Sweeper<'w> {
    session: Session<'w>,
    asked: &'w Sweep,
    target: usize,
    /// The largest request that is polled for, bytes.
    polled: u64,
    ceilings: Vec<Ceiling>,
}

impl Sweeper<'_> {
    fn run(&mut self) -> Result<()> {
        let scratch = self.session.targets[self.target].scratch;
        if scratch {
            self.session.fill(self.target, &self.load(READS[0], SMALL, 1))?;
        }
        for sort in READS {
            self.explore(sort)?;
        }
        if scratch || self.asked.ask.write {
            for sort in WRITES {
                self.explore(sort)?;
            }
            self.commits()?;
        }
        Ok(())
    }

    /// Climbs to the ceiling of a sort of requests.
    fn explore(&mut self, sort: Sort) -> Result<()> {
        let block = match sort.limit {
            Limit::Requests => self.small(),
            Limit::Bandwidth => LARGE,
        };
        let mut climb = Climb::default();
        while let Some(in_flight) = climb.next() {
            match self.point(sort, block, in_flight, 1)? {
                Some(point) => climb.add(point),
                None => break,
            }
        }
        if climb.was_generator() {
            self.more_jobs(sort, block, &mut climb)?;
        }
        self.ceilings.extend(climb.ceiling(sort.name, sort.limit, block));
        if sort.limit == Limit::Requests {
            let depth = climb.knee().map_or(1, |knee| knee.in_flight);
            let grain = self.grain();
            for block in BETWEEN.into_iter().filter(|&block| block > grain) {
                self.point(sort, block, depth, 1)?;
            }
        }
        Ok(())
    }

    /// Where one thread was not enough, lets more share the requests.
    fn more_jobs(&mut self, sort: Sort, block: u32, climb: &mut Climb) -> Result<()> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let in_flight = climb.best().map_or(1, |best| best.in_flight);
        let mut jobs = 2;
        while jobs <= cpus && jobs <= in_flight {
            let Some(point) = self.point(sort, block, in_flight, jobs)? else { break };
            if !climb.add_jobs(point) {
                break;
            }
            jobs *= 2;
        }
        Ok(())
    }

    /// Small writes each of which is made to last before the next: what a database's log does.
    fn commits(&mut self) -> Result<()> {
        let block = self.small();
        let sync = Some(Sync { every: Some(1), data_only: true });
        // A flush cannot be polled for.
        let load = Workload { access: Access::Sequential, sync, poll: false, ..self.load(WRITES[1], block, 1) };
        let name = format!("write of {}, each synced (fdatasync)", size(block));
        let party = self.session.party("synced write", self.target, load);
        self.session.play("synced write", &name, &[party])?;
        Ok(())
    }

    /// One run. None where it was stopped before there was anything to measure.
    fn point(&mut self, sort: Sort, block: u32, in_flight: u32, jobs: u32) -> Result<Option<Point>> {
        // Only io_uring has more than one request of a thread in flight.
        let jobs = if self.asked.engine == Engine::IoUring { jobs } else { in_flight };
        let load = Workload { jobs, depth: in_flight / jobs, ..self.load(sort, block, 1) };
        if load.size < u64::from(block) {
            return Ok(None);
        }
        let shared = if jobs > 1 { format!(" by {jobs} jobs") } else { String::new() };
        let name = format!("{} of {}, {in_flight} in flight{shared}", sort.name, size(block));
        let party = self.session.party(sort.name, self.target, load);
        let party = [party];
        if let Err(why) = self.session.check_memory(&party) {
            self.session.mind(&format!("more than {} in flight were not tried: {why}", in_flight / 2));
            return Ok(None);
        }
        let round = self.session.play(sort.name, &name, &party)?;
        Ok(round.and_then(|round| Point::of(in_flight, round.runs.first()?)))
    }

    fn load(&self, sort: Sort, block: u32, depth: u32) -> Workload {
        let target = &self.session.targets[self.target];
        Workload {
            engine: self.asked.engine,
            poll: u64::from(block) <= self.polled,
            direct: target.is_direct(),
            cache: self.asked.cache,
            access: sort.access,
            reads: sort.reads,
            depth,
            size: target.whole_blocks(block),
            seconds: Some(self.asked.seconds),
            ramp_seconds: self.asked.seconds * RAMP,
            seed: self.asked.seed,
            ..Workload::of_blocks(block)
        }
    }

    /// The smallest block that is asked for.
    fn small(&self) -> u32 {
        SMALL.max(self.grain())
    }

    fn grain(&self) -> u32 {
        u32::try_from(self.session.targets[self.target].grain).unwrap_or(SMALL)
    }
}

fn size(bytes: u32) -> String {
    human::quantity(f64::from(bytes), "bytes")
}
