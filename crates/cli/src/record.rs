//! `whyslow record`: samples to disk, until it is told to stop.

use crate::args::{Look, duration, size};
use crate::interrupt::Interrupt;
use crate::output::{self, Failure, complain, print};
use crate::progress::Progress;
use crate::recordings;
use crate::schedule::next_multiple;
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_model::recording::Recorded;
use whyslow_sense::{Root, Sampler};
use whyslow_show::{json, text};
use whyslow_store::{Counts, Keep, Recorder};

/// A source that does not answer is left behind after so long, so that it delays one sample only.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where to record to, how often, and how much to keep.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The folder to record into [default: /var/lib/whyslow for root, else ~/.local/state/whyslow]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How often to take a sample, at least 100ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,
    /// How long to record [default: until Ctrl-C or SIGTERM]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// For how long to keep what was recorded: 12h, 7d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = duration)]
    keep: Duration,
    /// How much to keep, at least 16MiB; the oldest hour goes first
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    keep_size: u64,
    /// Load no BPF program into the kernel: less is seen, and from /proc alone
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
            return Err(Failure::usage("--keep-size must be at least 16MiB: an hour takes some five"));
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
    let counts = record(args, &folder)?;
    let recorded = Recorded { folder: folder.display().to_string(), samples: counts.samples, missed: counts.missed };
    print(if look.json { json::pretty(&recorded) } else { text::recorded(&recorded, &output::style(look)) })?;
    Ok(ExitCode::SUCCESS)
}

/// Records into a folder until it is to end.
///
/// # Errors
/// As for [`run`].
pub fn record(args: &RecordArgs, folder: &Path) -> Result<Counts, Failure> {
    args.check()?;
    let interrupt = Interrupt::listen_for(&[SIGINT, SIGTERM]);
    let mut interrupt = interrupt.map_err(|e| Failure::usage(format!("cannot listen for Ctrl-C: {e}")))?;
    let keep = Keep { time: args.keep, bytes: args.keep_size };
    let recorder = Recorder::begin(folder, args.interval, keep, Arc::new(complain));
    let mut recorder = recorder.map_err(|e| Failure::usage(e.to_string()))?;
    let mut sampler =
        Sampler::new(if args.no_bpf { Root::live().without_bpf() } else { Root::live() }).patience(PATIENCE);

    let progress = Progress::new("recording", "end");
    let start = Instant::now();
    let end = args.time.map(|time| start + time);
    let mut due = start;
    while !interrupt.ends_sleep_until(due) {
        let begun = Instant::now();
        recorder.add(sampler.sample(), begun);
        if end.is_some_and(|end| due >= end) {
            break;
        }
        match end {
            Some(end) => progress.show(end.saturating_duration_since(begun)),
            None => progress.say(&format!("recording into {} (Ctrl-C: end)", folder.display())),
        }
        due = start + next_multiple(args.interval, start.elapsed());
        due = end.map_or(due, |end| due.min(end));
    }
    drop(progress);
    recorder.finish().map_err(Failure::usage)
}
