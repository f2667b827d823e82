//! `whyslow record`: samples to disk, until it is told to stop.

use crate::interrupt::Interrupt;
use crate::memory;
use crate::options::{Look, duration, size};
use crate::output::{self, Failure, complain, print};
use crate::progress::Progress;
use crate::recordings;
use crate::schedule::next_multiple;
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use whyslow_model::recording::Recorded;
use whyslow_sense::watch::{Pulse, keep_at_work};
use whyslow_sense::{Root, Sampler};
use whyslow_show::{json, text};
use whyslow_store::{Counts, Keep, Recorder};

/// A source that does not answer is left behind after so long, with the sample it was read for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where to record to, how often, and how much to keep.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Folder to record into [default: /var/lib/whyslow for root, else ~/.local/state/whyslow]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Sampling interval, at least 100ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,
    /// How long to record [default: until Ctrl-C or SIGTERM]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// How long to keep samples: 12h, 7d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = duration)]
    keep: Duration,
    /// How much disk space to use, at least 16MiB; the oldest hour is deleted first
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    keep_size: u64,
    /// Load no BPF programs: sees less, and reads only /proc and /sys
    #[arg(long)]
    no_bpf: bool,
}

impl RecordArgs {
    /// All of a short time, wherever it is recorded to.
    pub fn for_a_while(time: Duration, interval: Duration, no_bpf: bool) -> Self {
        let Keep { time: keep, bytes: keep_size } = Keep::default();
        Self { dir: None, interval, time: Some(time), keep, keep_size, no_bpf }
    }

    const SHORTEST: Duration = Duration::from_millis(100);
    const LEAST: u64 = 16 << 20;

    fn check(&self) -> Result<(), Failure> {
        if self.interval < Self::SHORTEST {
            return Err(Failure::usage("--interval must be at least 100ms"));
        }
        if self.time.is_some_and(|time| time < self.interval) {
            return Err(Failure::usage("--for must be at least one --interval: a rate needs two samples"));
        }
        if self.keep_size < Self::LEAST {
            return Err(Failure::usage("--keep-size must be at least 16MiB: an hour takes about 5 MiB"));
        }
        Ok(())
    }
}

/// Records.
///
/// # Errors
/// Wrong usage; the folder cannot be written, or is recorded into by another.
pub fn run(args: &RecordArgs, look: &Look) -> Result<ExitCode, Failure> {
    let folder = recordings::folder(args.dir.as_deref())?;
    let (counts, _) = record(args, &folder)?;
    let recorded = Recorded {
        folder: folder.display().to_string(),
        samples: counts.samples,
        missed: counts.missed,
        lost: counts.lost,
    };
    print(if look.json { json::pretty(&recorded) } else { text::recorded(&recorded, &output::style(look)) })?;
    Ok(ExitCode::SUCCESS)
}

/// Records into a folder until it is to end. What tells whether a signal ended it listens on, until it is dropped.
///
/// # Errors
/// As for [`run`].
pub fn record(args: &RecordArgs, folder: &Path) -> Result<(Counts, Interrupt), Failure> {
    args.check()?;
    let interrupt = Interrupt::listen_for(&[SIGINT, SIGTERM]);
    let interrupt = interrupt.map_err(|e| Failure::usage(format!("cannot listen for Ctrl-C: {e}")))?;
    let keep = Keep { time: args.keep, bytes: args.keep_size };
    // Loads what it needs, before the recording begins.
    let sampler = Sampler::new(if args.no_bpf { Root::live().without_bpf() } else { Root::live() });
    // Each sample needs as much as the one before.
    memory::keep();
    let recorder = Recorder::begin(folder, args.interval, keep, Arc::new(complain));
    let recorder = Arc::new(recorder.map_err(|e| Failure::usage(e.to_string()))?);
    let recording = Recording {
        sampler: Mutex::new(sampler),
        recorder: recorder.clone(),
        progress: Progress::new("recording", "end"),
        folder: folder.to_owned(),
        interval: args.interval,
        start: Instant::now(),
        time: args.time,
    };
    keep_at_work(PATIENCE, interrupt.as_fd(), move |pulse| recording.go_on(pulse))
        .map_err(|e| Failure::usage(format!("cannot start sampling: {e}")))?;
    let counts = recorder.finish().map_err(Failure::usage)?;
    Ok((counts, interrupt))
}

/// A recording under way, which another thread goes on with where the one at work is stuck.
struct Recording {
    /// Each thread takes it, and leaves a copy for the next.
    sampler: Mutex<Sampler>,
    recorder: Arc<Recorder>,
    progress: Progress,
    folder: PathBuf,
    interval: Duration,
    start: Instant,
    time: Option<Duration>,
}

impl Recording {
    /// Takes samples until it is time to end, or this thread is relieved.
    fn go_on(&self, pulse: &Pulse) {
        let mut sampler = {
            let mut left = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
            let copy = left.clone();
            std::mem::replace(&mut *left, copy)
        };
        let end = self.time.map(|time| self.start + time);
        let mut due = self.start;
        while pulse.rest_until(due) {
            let begun = Instant::now();
            let Some(sample) = sampler.sample_here(|| pulse.beat()) else { return };
            self.recorder.add(sample, begun);
            if self.recorder.is_gone() || end.is_some_and(|end| due >= end) {
                return;
            }
            self.show_progress(end, begun);
            due = self.start + next_multiple(self.interval, self.start.elapsed());
            due = end.map_or(due, |end| due.min(end));
        }
    }

    fn show_progress(&self, end: Option<Instant>, now: Instant) {
        match end {
            Some(end) => self.progress.show(end.saturating_duration_since(now)),
            None => self.progress.say(&format!("recording into {} (Ctrl-C: end)", self.folder.display())),
        }
    }
}
