//! `whyslow record`: records samples until it is stopped.

use crate::interrupt::Interrupt;
use crate::options::{OutputOptions, duration, size};
use crate::output::{Failure, ProgressLine, complain, tell};
use crate::pseudonymise::{PseudonymOptions, PseudonymSession};
use crate::recordings;
use crate::sampling::SamplingLoop;
use crate::ship::{BackgroundDelivery, Delivery, DeliveryOptions, destination};
use crate::user_rules;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_diagnose::recorded_findings;
use whyslow_documents::explanation::{Recorded, Shipped};
use whyslow_sense::{INVENTORY, Root, Sampler};
use whyslow_show::text;
use whyslow_store::{Judge, Recorder, Retention, SampleCounts};

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
    /// Also deliver the recording to the store of a fleet, as 'whyslow ship STORE' does
    #[arg(long, value_name = "STORE")]
    ship: Option<String>,
    #[command(flatten)]
    delivery: DeliveryOptions,
    #[command(flatten)]
    pseudonyms: PseudonymOptions,
    /// Not an option: see [`Retention::thin_when_full`].
    #[arg(skip = Retention::default().thin_when_full)]
    thin_when_full: bool,
}

/// Result of a recorder.
pub struct RecordingEnd {
    /// Sample counts.
    counts: SampleCounts,
    /// Result of the delivery during the recording.
    shipped: Option<Shipped>,
    /// Reports whether a signal ended it, and keeps catching signals until dropped.
    pub interrupt: Interrupt,
}

impl RecordArgs {
    /// Returns arguments for recording everything for a limited time, into any folder, regardless of its free space.
    pub fn for_a_while(time: Duration, interval: Duration, no_bpf: bool) -> Self {
        let Retention { time: keep, bytes: keep_size, .. } = Retention::default();
        Self {
            dir: None,
            interval,
            time: Some(time),
            keep,
            keep_size,
            no_bpf,
            ship: None,
            delivery: DeliveryOptions::default(),
            pseudonyms: PseudonymOptions::default(),
            thin_when_full: false,
        }
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
        if self.pseudonyms.is_given() && self.dir.is_none() {
            return Err(Failure::usage("--pseudonymise needs a folder without other recordings: --dir DIR"));
        }
        match &self.ship {
            None if self.delivery.is_given() => {
                return Err(Failure::usage(
                    "--host, --label, --every and --raw-key are about deliveries: they need --ship STORE",
                ));
            }
            None => {}
            Some(_) => self.delivery.check(&self.pseudonyms)?,
        }
        Ok(())
    }
}

/// Records until it is stopped.
///
/// # Errors
/// Fails on wrong usage, or if the folder cannot be written or is used by another recorder.
pub fn run(args: &RecordArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    let folder = recordings::folder(args.dir.as_deref())?;
    let RecordingEnd { counts, shipped, .. } = record(args, &folder)?;
    let recorded = Recorded {
        folder: folder.display().to_string(),
        samples: counts.samples,
        missed: counts.missed,
        lost: counts.lost,
        shipped,
    };
    tell(&recorded, look, text::recorded)?;
    Ok(ExitCode::SUCCESS)
}

/// Records into a folder until the time is up or a signal arrives.
pub fn record(args: &RecordArgs, folder: &Path) -> Result<RecordingEnd, Failure> {
    args.check()?;
    let names = args.pseudonyms.begin()?;
    let destination = args.ship.as_deref().map(destination).transpose()?;
    let interrupt = Interrupt::listen_as_service()?;
    let retention = Retention { time: args.keep, bytes: args.keep_size, thin_when_full: args.thin_when_full };
    // Loads the BPF programs before the recording begins.
    let mut sampler = Sampler::new(if args.no_bpf { Root::live().without_bpf() } else { Root::live() });
    sampler.ask(INVENTORY);
    // Each sample needs as much memory as the previous one.
    crate::keep_freed_memory();
    let recorder = Recorder::begin(folder, args.interval, retention, Arc::new(complain));
    let recorder = recorder.and_then(|recorder| recorder.judged_by(judge()));
    let recorder = Arc::new(recorder.map_err(|e| Failure::usage(e.to_string()))?);
    let deliver = |destination| {
        // The recording already contains pseudonyms.
        let (host, names) = (args.delivery.host(&names), PseudonymSession::default());
        let delivery = Delivery::new(destination, host, &args.delivery, folder.to_owned(), names)?;
        BackgroundDelivery::begin(delivery, interrupt.flag())
    };
    let delivery = destination.map(deliver).transpose()?;
    let progress = RecordProgress {
        line: ProgressLine::new("recording", "end"),
        folder: folder.to_owned(),
        end: args.time.map(|time| Instant::now() + time),
    };
    let taking = recorder.clone();
    let renamer = names.sample_renamer();
    let each = move |mut sample, begun| {
        if let Some(rename) = &renamer {
            rename(&mut sample);
        }
        taking.add(sample, begun);
        progress.show(begun);
        !taking.is_gone()
    };
    SamplingLoop::new(sampler, args.interval, args.time, each).run_until(&interrupt)?;
    let counts = recorder.finish().map_err(Failure::usage)?;
    let shipped = delivery.and_then(BackgroundDelivery::end);
    names.finish()?;
    Ok(RecordingEnd { counts, shipped, interrupt })
}

/// Returns a judge with all rules.
fn judge() -> Judge {
    let book = user_rules::load().book;
    Judge { rules: book.fingerprint(), findings: Box::new(move |window| recorded_findings(window, &book)) }
}

struct RecordProgress {
    line: ProgressLine,
    folder: PathBuf,
    end: Option<Instant>,
}

impl RecordProgress {
    fn show(&self, now: Instant) {
        match self.end {
            Some(end) => self.line.show(end.saturating_duration_since(now)),
            None => self.line.say(&format!("recording into {} (Ctrl-C: end)", self.folder.display())),
        }
    }
}
