//! Profiles: stacks that run on the CPUs, or that wait, counted in the kernel and symbolized here.
//!
//! The kernel walks user stacks by frame pointers; the profile reports the share of complete stacks. Code is symbolized from the
//! files that it was mapped from: a container's program from the container's files, and a program that has ended from the files
//! that it had.

mod address_space;
mod assemble;
mod blind_spots;
pub mod breakdown;
mod elf_symbols;
mod perf_map;
mod recorder;
mod sleepers;
mod symbolizer;
mod target;

use crate::kallsyms::KernelSymbols;
use crate::os;
use crate::root::Root;
use crate::source_error::SourceError;
use address_space::AddressSpaces;
use assemble::Assembly;
use recorder::StackRecorder;
use sleepers::SleepingThreads;
use std::time::{Duration, Instant};
use symbolizer::Symbolizer;
use target::Target;
pub(crate) use target::require_own_numbers;
use whyslow_documents::profile::{ProfileKind, StackProfile};

/// Options of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    /// On-CPU or off-CPU.
    pub kind: ProfileKind,
    /// Samples per second on each CPU; ignored for off-CPU profiles.
    pub hz: u32,
    /// The process; `None` for the whole machine.
    pub pid: Option<u32>,
    /// Whether to record kernel stacks.
    pub kernel: bool,
    /// Whether to record user stacks.
    pub user: bool,
}

/// Returns the name of a process.
///
/// # Errors
/// Fails if there is no such process, or if the number is a TID.
pub fn process_name(pid: u32, root: &Root) -> Result<String, SourceError> {
    Target::find(pid, root).map(|target| target.into_process().name)
}

/// A profile being recorded. Dropping it stops the recording.
pub struct Profiler {
    options: ProfileOptions,
    root: Root,
    target: Option<Target>,
    sleepers: Option<SleepingThreads>,
    recorder: StackRecorder,
    started: Instant,
    spaces: AddressSpaces,
}

impl Profiler {
    /// Interval at which to call [`poll`](Self::poll): a shorter-lived process may lack symbols.
    pub const PACE: Duration = Duration::from_millis(100);

    /// Starts recording.
    ///
    /// # Errors
    /// Fails if there is no such process, or this kernel does not allow profiling.
    pub fn start(options: ProfileOptions, root: Root) -> Result<Self, SourceError> {
        target::require_own_numbers(&root)?;
        let target = options.pid.map(|pid| Target::find(pid, &root)).transpose()?;
        let sleepers =
            options.pid.filter(|_| options.kind == ProfileKind::OffCpu).map(|pid| SleepingThreads::read(pid, &root));
        let recorder = StackRecorder::start(&options, &root)?;
        let spaces = AddressSpaces::default();
        Ok(Self { options, root, target, sleepers, recorder, started: Instant::now(), spaces })
    }

    /// Reads the mappings of processes recorded since the last call, so that they can be symbolized after they have ended.
    /// Returns false if the profiled process itself has ended.
    ///
    /// # Errors
    /// Fails if the BPF map cannot be read.
    pub fn poll(&mut self) -> Result<bool, SourceError> {
        self.spaces.add(self.recorder.spaces()?, &self.root);
        Ok(self.target.as_ref().is_none_or(Target::exists))
    }

    /// Stops the recording and symbolizes the recorded stacks.
    ///
    /// # Errors
    /// Fails if the BPF maps cannot be read.
    pub fn finish(mut self) -> Result<StackProfile, SourceError> {
        self.poll()?;
        self.spaces.update(self.recorder.spaces()?, &self.root);
        let asleep = self.sleepers.map(|sleepers| sleepers.still_asleep(&self.root)).unwrap_or_default();
        let cpus = self.recorder.cpus;
        let watched = self.started.elapsed();
        let (raw, counted) = self.recorder.finish()?;
        let kernel = KernelSymbols::read(&self.root);
        let symbolizer = Symbolizer::new(&raw, &self.spaces, &kernel, &self.root);
        let process = self.target.map(Target::into_process);
        let mut assembly = Assembly::new(&self.options, &symbolizer);
        raw.iter().for_each(|stack| assembly.add(stack));
        if let Some(process) = &process {
            asleep.into_iter().for_each(|functions| assembly.add_sleeper(process, functions, os::nanoseconds(watched)));
        }
        let mut profile = assembly.finish(counted, process, watched, cpus);
        profile.blind_spots = blind_spots::in_profile(&profile, &symbolizer, &self.options);
        Ok(profile)
    }
}
