//! `whyslow record`: records samples until it is stopped.

use crate::interrupt::Interrupt;
use crate::options::{OutputOptions, duration, next_multiple, size};
use crate::output::{Failure, ProgressLine, complain, tell};
use crate::recordings;
use crate::user_rules;
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use whyslow_diagnose::recorded_findings;
use whyslow_model::explanation::Recorded;
use whyslow_sense::supervisor::{Heartbeat, run_supervised};
use whyslow_sense::{Root, Sampler};
use whyslow_show::text;
use whyslow_store::{Judge, Recorder, Retention, SampleCounts};

/// A source that does not answer for this long is abandoned, with the sample it was read for.
const TIMEOUT: Duration = Duration::from_secs(1);

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
    /// Everything for a limited time, into any folder.
    pub fn for_a_while(time: Duration, interval: Duration, no_bpf: bool) -> Self {
        let Retention { time: keep, bytes: keep_size } = Retention::default();
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
/// Wrong usage, or the folder cannot be written or is used by another recorder.
pub fn run(args: &RecordArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    let folder = recordings::folder(args.dir.as_deref())?;
    let (counts, _) = record(args, &folder)?;
    let recorded = Recorded {
        folder: folder.display().to_string(),
        samples: counts.samples,
        missed: counts.missed,
        lost: counts.lost,
    };
    tell(&recorded, look, text::recorded)?;
    Ok(ExitCode::SUCCESS)
}

/// Records into a folder until the time is up or a signal arrives. The returned `Interrupt` tells which, and keeps catching
/// signals until it is dropped.
pub fn record(args: &RecordArgs, folder: &Path) -> Result<(SampleCounts, Interrupt), Failure> {
    args.check()?;
    let interrupt = Interrupt::listen_for(&[SIGINT, SIGTERM])?;
    let retention = Retention { time: args.keep, bytes: args.keep_size };
    // Loads the BPF programs before the recording begins.
    let sampler = Sampler::new(if args.no_bpf { Root::live().without_bpf() } else { Root::live() });
    // Each sample needs as much memory as the previous one.
    crate::keep_freed_memory();
    let recorder = Recorder::begin(folder, args.interval, retention, Arc::new(complain));
    let recorder = recorder.and_then(|recorder| recorder.judged_by(judge()));
    let recorder = Arc::new(recorder.map_err(|e| Failure::usage(e.to_string()))?);
    let sampling = SamplingLoop {
        sampler: Mutex::new(sampler),
        recorder: recorder.clone(),
        progress: ProgressLine::new("recording", "end"),
        folder: folder.to_owned(),
        interval: args.interval,
        start: Instant::now(),
        time: args.time,
    };
    run_supervised(TIMEOUT, interrupt.as_fd(), move |heartbeat| sampling.run(heartbeat))
        .map_err(|e| Failure::usage(format!("cannot start sampling: {e}")))?;
    let counts = recorder.finish().map_err(Failure::usage)?;
    Ok((counts, interrupt))
}

/// Judges by all rules.
fn judge() -> Judge {
    let book = user_rules::load().book;
    Judge { rules: book.fingerprint(), findings: Box::new(move |window| recorded_findings(window, &book)) }
}

/// Takes samples in one thread, and continues in another if that one hangs.
struct SamplingLoop {
    /// Each thread takes it, and leaves a copy for the next.
    sampler: Mutex<Sampler>,
    recorder: Arc<Recorder>,
    progress: ProgressLine,
    folder: PathBuf,
    interval: Duration,
    start: Instant,
    time: Option<Duration>,
}

impl SamplingLoop {
    /// Takes samples until the time is up, or another thread has taken over.
    fn run(&self, heartbeat: &Heartbeat) {
        let mut sampler = {
            let mut left = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
            let copy = left.clone();
            std::mem::replace(&mut *left, copy)
        };
        let end = self.time.map(|time| self.start + time);
        let mut due = self.start;
        while heartbeat.sleep_until(due) {
            let begun = Instant::now();
            let Some(sample) = sampler.sample_here(|| heartbeat.beat()) else { return };
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
