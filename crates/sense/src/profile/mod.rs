//! Where the time goes: stacks of what runs on the processors, or of what waits, counted in the kernel and named here.
//!
//! A program's callers are found by its frame pointers, as the kernel walks them; how much of what was seen has a whole stack
//! is told in the profile. Code is named by the very files it was mapped from, so that a container's program is named by the
//! container's own files, and one that has ended by the files it had.

mod address_space;
mod assemble;
mod binaries;
mod blind_spots;
mod elf_symbols;
mod kallsyms;
mod mapping;
mod perf_clock;
mod perf_map;
mod recorder;
mod sleepers;
mod symbolizer;
mod target;

use crate::os;
use crate::root::Root;
use crate::source::Miss;
use address_space::Space;
use assemble::Assembly;
use binaries::Binaries;
use recorder::{Recorder, SpaceId};
use sleepers::Sleepers;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use symbolizer::Names;
use target::Target;
use whyslow_model::profile::{Kind, Profile};

/// What to profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What runs, or what waits.
    pub kind: Kind,
    /// How often each processor is looked at, per second; of no account for waits.
    pub hz: u32,
    /// The process; none is the whole machine.
    pub pid: Option<u32>,
    /// Whether to walk the kernel's half of stacks.
    pub kernel: bool,
    /// Whether to walk the program's half of stacks.
    pub user: bool,
}

/// A profile in the making. Dropping it ends the recording.
pub struct Profiler {
    ask: Ask,
    root: Root,
    target: Option<Target>,
    sleepers: Option<Sleepers>,
    recorder: Recorder,
    started: Instant,
    spaces: HashMap<SpaceId, Space>,
    binaries: Binaries,
}

impl Profiler {
    /// How often [`look`](Self::look) is worth calling: a process that lives shorter may leave no names.
    pub const PACE: Duration = Duration::from_millis(100);

    /// Starts to record.
    ///
    /// # Errors
    /// There is no such process; this kernel or this user may not profile.
    pub fn start(ask: Ask, root: Root) -> Result<Self, Miss> {
        target::require_own_numbers(&root)?;
        let target = ask.pid.map(|pid| Target::find(pid, &root)).transpose()?;
        let sleepers = ask.pid.filter(|_| ask.kind == Kind::OffCpu).map(|pid| Sleepers::of(pid, &root));
        let recorder = Recorder::start(&ask, &root)?;
        let (spaces, binaries) = (HashMap::new(), Binaries::default());
        Ok(Self { ask, root, target, sleepers, recorder, started: Instant::now(), spaces, binaries })
    }

    /// Looks at the processes that have been met since the last time, so that they can be named when they have ended. False
    /// where the process that is profiled has ended itself, and there is no more to come.
    ///
    /// # Errors
    /// The kernel does not tell whom it met.
    pub fn look(&mut self) -> Result<bool, Miss> {
        for id in self.recorder.spaces()? {
            if !self.spaces.contains_key(&id) {
                let space = Space::read(id.pid(), &mut self.binaries, &self.root);
                // One that is gone already is remembered too: it will not come back.
                self.spaces.insert(id, space.unwrap_or_default());
            }
        }
        Ok(self.target.as_ref().is_none_or(Target::is_there))
    }

    /// Ends the recording and names what was recorded.
    ///
    /// # Errors
    /// The kernel does not give what it counted.
    pub fn finish(mut self) -> Result<Profile, Miss> {
        self.look()?;
        self.renew_spaces()?;
        let asleep = self.sleepers.map(|sleepers| sleepers.still_asleep(&self.root)).unwrap_or_default();
        let cpus = self.recorder.cpus;
        let watched = self.started.elapsed();
        let (raw, counted) = self.recorder.finish()?;
        self.spaces.retain(|_, space| !space.is_empty());
        let names = Names::of(&raw, self.spaces, &self.binaries, &self.root);
        let process = self.target.map(Target::into_process);
        let mut assembly = Assembly::new(&self.ask, &names);
        raw.iter().for_each(|stack| assembly.add(stack));
        if let Some(process) = &process {
            asleep.into_iter().for_each(|functions| assembly.add_sleeper(process, functions, os::nanoseconds(watched)));
        }
        let mut profile = assembly.finish(counted, process, watched, cpus);
        profile.blind_spots = blind_spots::of(&profile, &names, &self.ask);
        Ok(profile)
    }

    /// Programs load libraries and make code as they go: what is mapped by now adds to what was.
    fn renew_spaces(&mut self) -> Result<(), Miss> {
        for id in self.recorder.spaces()? {
            if let Some(now) = Space::read(id.pid(), &mut self.binaries, &self.root) {
                let before = self.spaces.remove(&id).unwrap_or_default();
                self.spaces.insert(id, before.renewed(now));
            }
        }
        Ok(())
    }
}
