//! A benchmark from its beginning to its report.

use crate::budget::{Budget, Need, check_memory};
use crate::cache::{Small, drop_cached};
use crate::environment::Surroundings;
use crate::error::{Error, Result};
use crate::ledger::{Books, elsewhere, spoiled};
use crate::round::{self, Party, Played, Progress};
use crate::stop::Stop;
use crate::target::{Ask, Map, Target};
use std::path::Path;
use whyslow_model::bench::{
    Access, Cache, Ceiling, Engine, Kind, Ledger, Report, Round, SCHEMA, Sync, Traffic, Workload,
};
use whyslow_sense::Root;

/// How files are filled: in large blocks, some at a time.
const FILL_BLOCK: u32 = 1 << 20;
const FILL_DEPTH: u32 = 8;

/// What a benchmark needs all the time, and what it has found so far.
pub(crate) struct Session<'w> {
    pub(crate) map: Map,
    pub(crate) targets: Vec<Target>,
    books: Books,
    budget: Budget,
    root: Root,
    surroundings: Surroundings,
    pub(crate) stop: Stop,
    watch: &'w mut dyn FnMut(Progress),
    pub(crate) rounds: Vec<Round>,
    pub(crate) caveats: Vec<String>,
}

impl<'w> Session<'w> {
    pub(crate) fn begin(stop: &Stop, watch: &'w mut dyn FnMut(Progress)) -> Self {
        let root = Root::live();
        Self {
            map: Map::draw(root.clone()),
            targets: Vec::new(),
            books: Books::new(root.clone()),
            budget: Budget::new(&root),
            root: root.clone(),
            surroundings: Surroundings::begin(root),
            stop: stop.clone(),
            watch,
            rounds: Vec::new(),
            caveats: Vec::new(),
        }
    }

    /// Opens a target. Its place in the report's list.
    ///
    /// # Errors
    /// Where it may or can not be measured.
    pub(crate) fn open(&mut self, ask: &Ask) -> Result<usize> {
        if ask.path.is_dir() {
            self.claim(&ask.path, Need::file(ask.size))?;
        }
        let target = Target::open(&self.map, ask)?;
        let device = target.about.device.as_deref().filter(|_| ask.write && target.about.file_system.is_none());
        for (folder, bytes) in device.map(|device| self.map.unallocated(device)).unwrap_or_default() {
            self.claim(&folder, Need { bytes, inodes: 0 })?;
        }
        self.caveats.extend(target.caveats.iter().cloned());
        self.targets.push(target);
        Ok(self.targets.len() - 1)
    }

    /// Sets room aside on a folder's file system.
    ///
    /// # Errors
    /// Where there is not enough beside what was set aside before.
    pub(crate) fn claim(&mut self, folder: &Path, need: Need) -> Result<()> {
        let (name, kind) = self.map.file_system(folder)?;
        self.budget.claim(folder, &name, &kind, need)
    }

    /// Whether there is room for all that is going to be written to a folder's file system.
    ///
    /// # Errors
    /// Where there is not.
    pub(crate) fn check_room(&self, folder: &Path, need: Need) -> Result<()> {
        let (name, kind) = self.map.file_system(folder)?;
        self.budget.check(folder, &name, &kind, need)
    }

    /// Whether the buffers of loads that run together fit in memory.
    ///
    /// # Errors
    /// Where they do not.
    pub(crate) fn check_memory(&self, parties: &[Party]) -> Result<()> {
        check_memory(&self.root, parties)
    }

    /// Whether a target holds a block of this size.
    ///
    /// # Errors
    /// Where it holds less: there is nothing to measure.
    pub(crate) fn check_holds(&self, target: usize, block: u32) -> Result<()> {
        let about = &self.targets[target].about;
        if about.bytes >= block.into() {
            return Ok(());
        }
        let size = |bytes: u64| whyslow_model::human::quantity(bytes as f64, "bytes");
        let (path, holds, block) = (&about.path, size(about.bytes), size(block.into()));
        Err(Error::new(format!(
            "{path} holds {holds}, less than a block of {block}: choose a larger one, or a larger --size"
        )))
    }

    /// The largest request to a target that can be polled for, bytes.
    ///
    /// # Errors
    /// Where none can be.
    pub(crate) fn polled(&mut self, target: usize) -> Result<u64> {
        let largest = self.map.polled(&self.targets[target].about)?;
        let busy = "a polling thread is always busy, so whether the CPU was the limit is unknown";
        self.mind(busy);
        Ok(largest)
    }

    /// Notes what is to be borne in mind, once.
    pub(crate) fn mind(&mut self, caveat: &str) {
        if !self.caveats.iter().any(|known| known == caveat) {
            self.caveats.push(caveat.into());
        }
    }

    /// Says that a device was read while in use, where that was asked for.
    pub(crate) fn mind_others(&mut self, target: usize, ask: &Ask) {
        let about = &self.targets[target].about;
        if ask.in_use && about.file_system.is_none() {
            let others = "was read while in use: its counters may include requests of other processes";
            self.caveats.push(format!("{} {others}", about.path));
        }
    }

    /// Writes all of a file that was made for this, so that reads of it reach the device.
    ///
    /// # Errors
    /// Where it cannot be written, for want of room or otherwise.
    pub(crate) fn fill(&mut self, target: usize, load: &Workload) -> Result<()> {
        let file = &self.targets[target];
        let fill = Workload {
            engine: if load.engine == Engine::IoUring { Engine::IoUring } else { Engine::Psync },
            direct: load.direct,
            access: Access::Sequential,
            reads: 0.0,
            depth: if load.engine == Engine::IoUring { FILL_DEPTH } else { 1 },
            size: file.about.bytes / u64::from(FILL_BLOCK) * u64::from(FILL_BLOCK),
            sync: Some(Sync { every: None, data_only: true }),
            verify: load.verify,
            seed: load.seed,
            ..Workload::of_blocks(FILL_BLOCK)
        };
        let path = file.about.path.clone();
        let party = self.party("fill", target, fill);
        let played = round::play("writing the file to measure", &[party], &self.stop, self.watch)?;
        match played.into_iter().find_map(|played| played.run.failed) {
            Some(why) => Err(Error::new(format!("{path}: filling the file: {why}"))),
            None => Ok(()),
        }
    }

    /// Says how far it is, for what is not played as a round.
    pub(crate) fn tell(&mut self, progress: Progress) {
        (self.watch)(progress);
    }

    /// Says what is done next, where that is to be done. Whether it is.
    pub(crate) fn goes_on_to(&mut self, doing: &str) -> bool {
        self.tell(Progress { doing, elapsed: self.surroundings.seconds(), whole: None });
        !self.stop.is_asked()
    }

    /// A workload on a target.
    pub(crate) fn party(&self, name: &str, target: usize, load: Workload) -> Party {
        let files = vec![self.targets[target].file.clone()];
        Party { name: name.into(), target, load, files, delay: 0.0 }
    }

    /// Plays a round and keeps its books. None where it was stopped before it began.
    ///
    /// # Errors
    /// Where it cannot begin.
    pub(crate) fn play(&mut self, group: &str, name: &str, parties: &[Party]) -> Result<Option<&Round>> {
        if self.stop.is_asked() {
            return Ok(None);
        }
        if parties.iter().any(|party| !party.load.direct)
            && let Some(caveat) = self.surroundings.caveat_of_page_cache()
        {
            self.mind(caveat);
        }
        self.check_memory(parties)?;
        let _small = self.prepare_cache(parties)?;
        let mut used: Vec<usize> = parties.iter().map(|party| party.target).collect();
        used.sort_unstable();
        used.dedup();
        let opening = self.books.open(&used.iter().map(|&at| &self.targets[at]).collect::<Vec<_>>());
        let mut played = round::play(name, parties, &self.stop, self.watch)?;
        let books: Vec<_> = used.iter().map(|&at| (at, &self.targets[at], asked(&played, at))).collect();
        let closing = self.books.close(opening, &self.map, &books);
        share_cost(&mut played, closing.machine);
        let counted = |ledger: &&Ledger| {
            let target = &self.targets[ledger.target];
            target.is_direct() && self.map.counts_all(&target.about)
        };
        let missed = closing.ledgers.iter().filter(counted).find_map(elsewhere);
        let spoiled = spoiled(&closing.ledgers).or(missed);
        let runs = played.into_iter().map(|played| played.run).collect();
        self.rounds.push(Round { name: name.into(), group: group.into(), runs, ledgers: closing.ledgers, spoiled });
        Ok(self.rounds.last())
    }

    /// Does to the page cache what the loads of a round ask for, until what is returned is dropped.
    fn prepare_cache(&self, parties: &[Party]) -> Result<Option<Small>> {
        let mut small = None;
        for party in parties.iter().filter(|party| party.load.cache != Cache::AsIs) {
            for file in &party.files {
                drop_cached(file)
                    .map_err(|e| Error::new(format!("{}: dropping it from the cache: {e}", party.name)))?;
            }
            if let Cache::Small(bytes) = party.load.cache {
                small = Some(bytes);
            }
        }
        small.map(Small::hold).transpose()
    }

    /// The report.
    pub(crate) fn finish(self, kind: Kind, ceilings: Vec<Ceiling>) -> Report {
        let (started, started_ms) = self.surroundings.started().unzip();
        let seconds = self.surroundings.seconds();
        let environment = self.surroundings.end(&self.targets);
        Report {
            schema: SCHEMA.to_owned(),
            kind,
            started,
            started_ms,
            seconds,
            interrupted: self.stop.is_asked(),
            environment,
            targets: self.targets.into_iter().map(|target| target.about).collect(),
            rounds: self.rounds,
            ceilings,
            layers: Vec::new(),
            files: Vec::new(),
            pairs: Vec::new(),
            studies: Vec::new(),
            network: None,
            caveats: self.caveats,
        }
    }
}

/// All that was asked of a target in a round.
fn asked(played: &[Played], target: usize) -> Traffic {
    let of_target = played.iter().filter(|played| played.run.target == target);
    of_target.fold(Traffic::default(), |sum, played| sum.plus(played.asked))
}

/// Shares the machine's processor time out among all requests of a round.
fn share_cost(played: &mut [Played], machine: Option<f64>) {
    let operations = |traffic: Traffic| traffic.reads + traffic.writes + traffic.flushes;
    let all: u64 = played.iter().map(|played| operations(played.asked)).sum();
    let each = machine.filter(|_| all > 0).map(|seconds| seconds / all as f64);
    played.iter_mut().for_each(|played| played.run.cost.machine_per_operation = each);
}
