//! Sums of the counted times, for several processes or for one thread.

use super::holders::{FileLocks, Lock};
use super::parts::{PartSums, Sources};
use super::records::{BLOCKED, ON_CPU, QUEUED, Slice, Spent, ThreadRecord, Watch};
use super::{BreakdownTracer, FirstThread, targets};
use crate::os;
use crate::profile::recorder::{self, RawStack, StackRecord};
use crate::profile::symbolizer::Symbolizer;
use crate::source_error::SourceError;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use whyslow_documents::time_breakdown::{LockedThread, ProgramTime, ThreadTime, TimePart};

/// The threads whose times are summed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadSet {
    /// The threads of these processes.
    Processes(BTreeSet<u32>),
    /// The threads of a watched process's descendants.
    Children(u32),
    /// One thread that was singled out.
    Thread(u32),
}

/// Combined time of several threads.
#[derive(Clone, Debug, Default)]
pub struct ProcessTimes {
    /// Time from when the first was watched until the last ended, or until now, seconds.
    pub seconds: f64,
    /// Number of threads, including ended ones.
    pub threads: usize,
    /// Sum of their lifetimes while they were watched, seconds.
    pub thread_seconds: f64,
    /// Number of samples taken while they ran.
    pub samples: u64,
    /// Activities, longest first.
    pub parts: Vec<TimePart>,
    /// Threads that still exist, busiest first.
    pub busiest: Vec<ThreadTime>,
    /// Programs that ran, the one with the longest total process lifetime first.
    pub programs: Vec<ProgramTime>,
    /// Threads that wait for each other's locks.
    pub deadlock: Vec<LockedThread>,
}

/// Snapshot of the maps, including waits that have not ended.
struct Moment {
    now: u64,
    watched: BTreeMap<u32, Watch>,
    threads: HashMap<u32, ThreadRecord>,
    slices: HashMap<Slice, Spent>,
    /// Maps a thread that waits for a lock to the thread that holds it, or to the main thread of the process that does.
    owners: BTreeMap<u32, u32>,
    /// Lock holders of threads that have done nothing but wait, by process and thread; the thread is 0 if the holder is another
    /// process.
    holders: HashMap<u32, (u32, u32)>,
    /// Processes that others wait for, for example as a child: their main threads do not count as idle while they sleep.
    awaited: BTreeSet<u32>,
}

impl BreakdownTracer {
    /// Returns the times of each of these sets so far.
    ///
    /// # Errors
    /// Fails if the BPF maps cannot be read.
    pub fn read(&mut self, sets: &[ThreadSet]) -> Result<Vec<ProcessTimes>, SourceError> {
        self.poll()?;
        let ids = recorder::spaces(&self.object)?;
        self.spaces.update(ids, &self.root);
        let stacks = self.stacks()?;
        let symbolizer = Symbolizer::new(stacks.values(), &self.spaces, &self.symbols, &self.root);
        self.times(sets, &stacks, Some(&symbolizer))
    }

    /// Like [`read`](Self::read), but without functions, whose symbols take long to read.
    ///
    /// # Errors
    /// Fails if the BPF maps cannot be read.
    pub fn read_without_functions(&mut self, sets: &[ThreadSet]) -> Result<Vec<ProcessTimes>, SourceError> {
        self.poll()?;
        self.times(sets, &self.stacks()?, None)
    }

    fn stacks(&self) -> Result<HashMap<u64, RawStack>, SourceError> {
        let counted = self.object.entries::<u64, StackRecord>("stacks")?;
        let mut stacks = self.ended.stacks.clone();
        stacks.extend(counted.iter().map(|(key, record)| (*key, RawStack::from(record))));
        Ok(stacks)
    }

    fn times(
        &self,
        sets: &[ThreadSet],
        stacks: &HashMap<u64, RawStack>,
        symbolizer: Option<&Symbolizer<'_>>,
    ) -> Result<Vec<ProcessTimes>, SourceError> {
        let mut moment = self.moment()?;
        let sources = Sources {
            root: &self.root,
            symbols: &self.symbols,
            functions: &self.functions,
            stacks,
            symbolizer,
            files: &self.files,
            peers: &self.peers,
            titles: &self.titles,
            names: &self.names,
            first_threads: &self.first_threads,
            destinations: &self.wanted.destinations,
        };
        moment.awaited = self.awaited(&moment, &sources);
        let all = self.processes()?;
        let mut times = Vec::new();
        for set in sets {
            times.push(match set {
                ThreadSet::Processes(pids) => self.of_processes(pids, &moment, &sources),
                ThreadSet::Children(root) => {
                    let below = all.iter().filter(|(pid, of)| *of == root && *pid != root);
                    self.of_processes(&below.map(|(pid, _)| *pid).collect(), &moment, &sources)
                }
                ThreadSet::Thread(tid) => of_thread(*tid, &moment, &sources),
            });
        }
        Ok(times)
    }

    fn moment(&self) -> Result<Moment, SourceError> {
        let now = self.stopped.unwrap_or_else(os::monotonic_ns);
        let watched: BTreeMap<u32, Watch> = self.watched()?.into_iter().collect();
        let threads: HashMap<u32, ThreadRecord> = self.object.entries("threads")?.into_iter().collect();
        let singled: BTreeSet<u32> =
            self.object.entries::<u32, u32>("singled")?.into_iter().map(|(tid, _)| tid).collect();
        let mut slices = self.ended.slices.clone();
        for (slice, spent) in self.object.entries::<Slice, Spent>("slices")? {
            slices.entry(slice).or_default().add(spent);
        }
        let file_locks = FileLocks::new(&self.root);
        let mut owners = BTreeMap::new();
        let mut holders = HashMap::new();
        for (tid, thread) in self.first_threads.iter().filter(|(tid, _)| !threads.contains_key(tid)) {
            let wanted = &thread.wanted;
            let holder = wanted.lock.and_then(|lock| lock.holder(thread.tgid, wanted.file, &file_locks));
            if let Some(holder) = holder {
                owners.insert(*tid, holder.tid());
                holders.insert(*tid, holder.process_and_thread(thread.tgid));
            }
        }
        for (tid, thread) in &threads {
            let mut slice = thread.open_slice(*tid, if singled.contains(tid) { *tid } else { 0 });
            let lock = Lock::noted(thread.lock, thread.wanted).filter(|_| thread.state == BLOCKED);
            if let Some(holder) = lock.and_then(|lock| lock.holder(thread.tgid, thread.first, &file_locks)) {
                (slice.other, slice.other_thread) = holder.process_and_thread(thread.tgid);
                owners.insert(*tid, holder.tid());
            }
            slices.entry(slice).or_default().add(Spent { ns: now.saturating_sub(thread.since), times: 1 });
        }
        Ok(Moment { now, watched, threads, slices, owners, holders, awaited: BTreeSet::new() })
    }

    /// Returns the processes that others wait for, for example as a child, and those of commands.
    fn awaited(&self, moment: &Moment, sources: &Sources<'_>) -> BTreeSet<u32> {
        let commands = moment.watched.iter().filter(|(pid, watch)| {
            watch.root == **pid && !self.first_threads.values().any(|thread| thread.tgid == **pid)
        });
        let mut awaited: BTreeSet<u32> = commands.map(|(pid, _)| *pid).collect();
        awaited.extend(moment.slices.keys().filter_map(|slice| sources.awaited_child(slice)));
        let still = self
            .first_threads
            .iter()
            .filter(|(tid, thread)| !moment.threads.contains_key(tid) && thread.waits_for_child());
        awaited.extend(still.filter_map(|(_, thread)| targets::only_child(thread.tgid, &self.root)));
        awaited
    }

    fn of_processes(&self, pids: &BTreeSet<u32>, moment: &Moment, sources: &Sources<'_>) -> ProcessTimes {
        let now = moment.now;
        let mut parts = PartSums::new(sources, pids, &moment.awaited);
        let slices = moment.slices.iter().filter(|(slice, _)| pids.contains(&slice.tgid));
        slices.for_each(|(slice, spent)| parts.add(slice, *spent));
        let (mut number, mut lived) = (0, 0_u64);
        let (mut from, mut to) = (now, 0);
        for (pid, watch) in moment.watched.iter().filter(|(pid, _)| pids.contains(pid)) {
            from = from.min(watch.began);
            to = to.max(if watch.ended == 0 { now } else { watch.ended });
            let watched_for = now.saturating_sub(watch.began);
            let still = self.threads_without_event(*pid, &moment.threads);
            for (tid, thread) in &still {
                parts.add_still(**tid, thread, moment.holders.get(tid).copied(), watched_for);
            }
            lived += watch.lived + still.len() as u64 * watched_for;
            number += watch.born as usize + self.first_threads.values().filter(|thread| thread.tgid == *pid).count();
        }
        for (_, process) in self.ended.times.iter().filter(|(pid, _)| pids.contains(pid)) {
            from = from.min(process.began);
            to = to.max(process.ended);
            lived += process.lived;
            number += process.threads as usize;
        }
        let alive = moment.threads.iter().filter(|(_, thread)| pids.contains(&thread.tgid));
        lived += alive.clone().map(|(_, thread)| now.saturating_sub(thread.born)).sum::<u64>();
        ProcessTimes {
            seconds: to.saturating_sub(from) as f64 / 1e9,
            threads: number,
            thread_seconds: lived as f64 / 1e9,
            samples: parts.samples(),
            parts: parts.finish(lived),
            busiest: self.busiest(alive, now),
            programs: self.programs(pids, moment),
            deadlock: self.deadlock(pids, moment),
        }
    }

    /// Returns the threads that have stayed in one state since they are watched.
    fn threads_without_event(&self, pid: u32, threads: &HashMap<u32, ThreadRecord>) -> Vec<(&u32, &FirstThread)> {
        let silent = self.first_threads.iter().filter(|(tid, thread)| thread.tgid == pid && !threads.contains_key(tid));
        silent.filter(|(tid, _)| self.root.at(format!("proc/{pid}/task/{tid}")).exists()).collect()
    }

    fn busiest<'a>(&self, alive: impl Iterator<Item = (&'a u32, &'a ThreadRecord)>, now: u64) -> Vec<ThreadTime> {
        let time = |(tid, thread): (&u32, &ThreadRecord)| {
            let open = now.saturating_sub(thread.since);
            let of = |state, sum: u64| sum + if thread.state == state { open } else { 0 };
            let life = now.saturating_sub(thread.born).max(1) as f64;
            let name = self.root.word(&format!("proc/{}/task/{tid}/comm", thread.tgid));
            ThreadTime {
                name: name.unwrap_or_default(),
                tid: *tid,
                on_cpu: of(ON_CPU, thread.on_cpu) as f64 / life,
                waiting_for_cpu: of(QUEUED, thread.queued) as f64 / life,
            }
        };
        // A thread that has just ended no longer has a name.
        let mut all: Vec<ThreadTime> = alive.map(time).filter(|thread| !thread.name.is_empty()).collect();
        all.sort_by(|a, b| (b.on_cpu + b.waiting_for_cpu).total_cmp(&(a.on_cpu + a.waiting_for_cpu)));
        all
    }

    /// Returns the programs that ran in these processes, by the last name of each.
    fn programs(&self, pids: &BTreeSet<u32>, moment: &Moment) -> Vec<ProgramTime> {
        let mut programs: BTreeMap<&str, ProgramTime> = BTreeMap::new();
        let mut add = |pid: u32, processes: usize, lived: u64, on_cpu: u64| {
            let name = self.name(pid).unwrap_or("an ended process");
            let program =
                programs.entry(name).or_insert_with(|| ProgramTime { name: name.into(), ..ProgramTime::default() });
            program.processes += processes;
            program.seconds += lived as f64 / 1e9;
            program.on_cpu += on_cpu as f64 / 1e9;
        };
        for (pid, watch) in moment.watched.iter().filter(|(pid, _)| pids.contains(pid)) {
            let until = if watch.ended == 0 { moment.now } else { watch.ended };
            add(*pid, 1, until.saturating_sub(watch.began), 0);
        }
        for (pid, process) in self.ended.times.iter().filter(|(pid, _)| pids.contains(pid)) {
            add(*pid, process.processes, process.lived, 0);
        }
        for (slice, spent) in
            moment.slices.iter().filter(|(slice, _)| slice.state == ON_CPU && pids.contains(&slice.tgid))
        {
            add(slice.tgid, 0, 0, spent.ns);
        }
        let mut programs: Vec<ProgramTime> = programs.into_values().collect();
        programs.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        programs
    }

    /// Returns threads of these processes, and of others, that wait for each other.
    fn deadlock(&self, pids: &BTreeSet<u32>, moment: &Moment) -> Vec<LockedThread> {
        let of = |tid: &u32| {
            let traced = moment.threads.get(tid).map(|thread| thread.tgid);
            traced.or_else(|| self.first_threads.get(tid).map(|thread| thread.tgid))
        };
        let tids = cycle(&moment.owners);
        if !tids.iter().filter_map(of).any(|pid| pids.contains(&pid)) {
            return Vec::new();
        }
        // Threads have folders under /proc too, although they are not listed there.
        let named = tids.iter().map(|tid| {
            let name = self.root.word(&format!("proc/{tid}/comm")).unwrap_or_default();
            LockedThread { name, tid: *tid }
        });
        named.collect()
    }
}

fn of_thread(tid: u32, moment: &Moment, sources: &Sources<'_>) -> ProcessTimes {
    let none = BTreeSet::new();
    let mut parts = PartSums::new(sources, &none, &moment.awaited);
    let mut lived = 0;
    for (slice, spent) in moment.slices.iter().filter(|(slice, _)| slice.thread == tid) {
        parts.add(slice, *spent);
        lived += if slice.is_sample() { 0 } else { spent.ns };
    }
    let seconds = lived as f64 / 1e9;
    ProcessTimes {
        seconds,
        threads: 1,
        thread_seconds: seconds,
        samples: parts.samples(),
        parts: parts.finish(lived),
        ..ProcessTimes::default()
    }
}

/// Returns threads that wait for each other, given the lock owner of each waiting thread; empty if there are none.
fn cycle(owners: &BTreeMap<u32, u32>) -> Vec<u32> {
    for &start in owners.keys() {
        let way: Vec<u32> =
            std::iter::successors(Some(start), |tid| owners.get(tid).copied()).take(owners.len() + 1).collect();
        if let Some(back) = way.iter().skip(1).position(|&tid| tid == start) {
            return way[..=back].to_vec();
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::cycle;

    #[test]
    fn threads_that_wait_for_each_other_are_found() {
        let of = |pairs: &[(u32, u32)]| cycle(&pairs.iter().copied().collect());
        assert_eq!(of(&[(1, 2), (2, 1)]), [1, 2]);
        assert_eq!(of(&[(1, 2), (2, 3), (3, 4), (4, 2)]), [2, 3, 4]);
        assert_eq!(of(&[(5, 5)]), [5]);
        assert!(of(&[(1, 2), (2, 3), (4, 3)]).is_empty() && of(&[]).is_empty());
    }
}
