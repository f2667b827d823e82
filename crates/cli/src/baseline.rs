//! `whyslow baseline`: records how a machine behaves when all is well.

use crate::complete;
use crate::options::{OutputOptions, duration};
use crate::output::{Failure, ProgressLine, complain, tell};
use crate::record::{RecordArgs, record};
use crate::recordings::{self, RecordingPeriod, for_people, to_the_millisecond};
use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use whyslow_compare::{OF_THE_RECORDER, Summary, inventory, of_bench};
use whyslow_diagnose::{all_signals, known_signals};
use whyslow_documents::baseline::{Baseline, BaselineKind, Listed};
use whyslow_documents::bench::{self, BenchReport};
use whyslow_model::catalogue::{Family, Process, Thread};
use whyslow_model::suggest::unknown;
use whyslow_show::text;
use whyslow_store::{Baselines, Recording, StoreError, TimeRange};

/// Shortest and longest windows in which signals are computed; the longest is that of a diagnosis.
const WINDOWS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Number of windows into which a period is cut if it is too short for the longest ones.
const CUT: u32 = 64;

/// What to do with baselines.
#[derive(Debug, Args)]
pub struct BaselineArgs {
    /// Folder whose subfolder 'baselines' holds them [default: /var/lib/whyslow for root, else ~/.local/state/whyslow]
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
    /// The list where nothing else is asked for.
    #[command(subcommand)]
    what: Option<BaselineCommand>,
}

#[derive(Debug, Subcommand)]
enum BaselineCommand {
    /// Save a baseline of the next minute, of a recording, or of benchmark results
    Save(SaveArgs),
    /// List the baselines
    List,
    /// Show a baseline: measurements, hardware and settings
    Show {
        /// Name of the baseline
        #[arg(add = ArgValueCandidates::new(complete::baselines), default_value = Baselines::DEFAULT)]
        name: String,
    },
    /// Delete a baseline
    Delete {
        /// Name of the baseline
        #[arg(add = ArgValueCandidates::new(complete::baselines))]
        name: String,
    },
}

/// What to keep, and as what.
#[derive(Debug, Args)]
struct SaveArgs {
    /// Name of the baseline; diagnoses compare with 'default'
    #[arg(default_value = Baselines::DEFAULT)]
    name: String,
    /// Use this recording instead of watching now
    #[arg(long, value_name = "DIR")]
    recording: Option<PathBuf>,
    /// Only the last part of the recording: 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["from", "to"])]
    since: Option<Duration>,
    /// Start time within the recording: 03:12, '2026-11-21 03:12', 2026-11-21T03:12:00Z
    #[arg(long, value_name = "WHEN")]
    from: Option<String>,
    /// End time
    #[arg(long, value_name = "WHEN")]
    to: Option<String>,
    /// How long to watch
    #[arg(long = "for", value_name = "TIME", default_value = "1m", value_parser = duration,
        conflicts_with_all = ["recording", "since", "from", "to", "bench"])]
    time: Duration,
    /// Sampling interval
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,
    /// Load no BPF programs
    #[arg(long)]
    no_bpf: bool,
    /// Use these files written by `whyslow bench --json`; give several runs of a benchmark to capture its noise
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["recording", "since", "from", "to"])]
    bench: Vec<PathBuf>,
    /// Overwrite an existing baseline of the same name
    #[arg(long)]
    replace: bool,
}

/// Runs `whyslow baseline`.
pub fn run(args: &BaselineArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    let baselines = Baselines::in_folder(&recordings::folder(args.dir.as_deref())?);
    match args.what.as_ref().unwrap_or(&BaselineCommand::List) {
        BaselineCommand::Save(save) => {
            let baseline = Baseline { name: save.name.clone(), ..save.summed_up()? };
            baselines.save(&baseline, save.replace).map_err(unusable)?;
            tell(&Listed::from(baseline), look, text::saved)?;
        }
        BaselineCommand::List => {
            let all = baselines.names().map_err(unusable)?;
            let all: Vec<Listed> =
                all.iter().map(|name| named(&baselines, name).map(Listed::from)).collect::<Result<_, _>>()?;
            tell(&all, look, |all, style| text::baselines(all, style))?;
        }
        BaselineCommand::Show { name } => tell(&named(&baselines, name)?, look, text::baseline)?,
        BaselineCommand::Delete { name } => {
            if !baselines.delete(name).map_err(unusable)? {
                return Err(none_of(name, &baselines));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl SaveArgs {
    fn summed_up(&self) -> Result<Baseline, Failure> {
        if !self.bench.is_empty() {
            return of_files(&self.bench);
        }
        let Self { recording, since, from, to, .. } = self;
        if recording.is_some() || since.is_some() || from.is_some() || to.is_some() {
            let part = RecordingPeriod { dir: recording.clone(), since: *since, from: from.clone(), to: to.clone() };
            let recording = part.open()?;
            let span = part.span(&recording)?;
            return of_recording(&recording, &span);
        }
        let folder = tempfile::Builder::new().prefix("whyslow-baseline-").tempdir();
        let folder = folder.map_err(|e| Failure::usage(format!("no folder to record into: {e}")))?;
        let args = RecordArgs::for_a_while(self.time, self.interval, self.no_bpf);
        let mut interrupt = record(&args, folder.path())?.interrupt;
        // A partial recording does not represent this machine.
        let mut unless_interrupted = || match interrupt.came() {
            true => Err(Failure::interrupted("interrupted: no baseline was saved")),
            false => Ok(()),
        };
        unless_interrupted()?;
        let recording = Recording::open(folder.path()).map_err(unusable)?;
        let baseline = of_recording(&recording, &recording.span())?;
        unless_interrupted().map(|()| baseline)
    }
}

/// `--save` of a benchmark: keeps its result as a baseline.
#[derive(Debug, Args)]
pub struct Saving {
    /// Save the result as a baseline of this name, for whyslow compare
    #[arg(long, value_name = "NAME", global = true, display_order = 900)]
    save: Option<String>,
    /// Overwrite an existing baseline of the same name
    #[arg(long, global = true, requires = "save", display_order = 901)]
    replace: bool,
    /// Folder with the subfolder 'baselines' to save it in [default: /var/lib/whyslow for root, else ~/.local/state/whyslow]
    #[arg(long, global = true, requires = "save", display_order = 902)]
    dir: Option<PathBuf>,
}

impl Saving {
    /// Checks the name before anything is measured.
    pub fn check(&self) -> Result<(), Failure> {
        let Some(name) = &self.save else { return Ok(()) };
        let known = self.baselines()?.load(name);
        // An unreadable baseline is replaced like any other.
        if !self.replace && known.map_err(unusable)?.is_some() {
            return Err(Failure::usage(format!("baseline '{name}' already exists; --replace overwrites it")));
        }
        Ok(())
    }

    pub fn keep(&self, report: &BenchReport) -> Result<(), Failure> {
        let Some(name) = &self.save else { return Ok(()) };
        if report.interrupted {
            complain(&format!("'{name}' was not saved: the benchmark was interrupted"));
            return Ok(());
        }
        let baseline = Baseline { name: name.clone(), ..of_bench(std::slice::from_ref(report)) };
        self.baselines()?.save(&baseline, self.replace).map(drop).map_err(unusable)
    }

    fn baselines(&self) -> Result<Baselines, Failure> {
        Ok(Baselines::in_folder(&recordings::folder(self.dir.as_deref())?))
    }
}

pub fn of_files(files: &[PathBuf]) -> Result<Baseline, Failure> {
    let report = |path: &PathBuf| -> Result<BenchReport, Failure> {
        let json = fs::read(path).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
        let report: Result<BenchReport, _> = serde_json::from_slice(&json);
        let report = report.ok().filter(|report| report.schema == bench::SCHEMA);
        let what = || format!("{}: not what 'whyslow bench --json' prints ({})", path.display(), bench::SCHEMA);
        report.ok_or_else(|| Failure::usage(what()))
    };
    Ok(of_bench(&files.iter().map(report).collect::<Result<Vec<_>, _>>()?))
}

/// Summarizes a part of a recording. Does not read processes, because nothing about them is saved.
pub fn of_recording(recording: &Recording, span: &TimeRange) -> Result<Baseline, Failure> {
    let progress = ProgressLine::new("summing up", "end");
    let without_tasks = |family: &str| family != Process::INFO.name && family != Thread::INFO.name;
    let all = recording.span();
    let there = (*span.start()).max(*all.start())..=(*span.end()).min(*all.end());
    let seconds = Duration::from_nanos(there.end().saturating_sub(*there.start()).max(0).unsigned_abs());
    let length = (seconds / CUT).clamp(WINDOWS.0, WINDOWS.1);
    let mut summary = Summary::from_signals(all_signals());
    let mut newest = None;
    let read = recording.each_window(&there, length, &without_tasks, |window| {
        let at = window.last().map_or(0, |sample| sample.wall_ns);
        progress.say(&format!("summing up {} (Ctrl-C: end)", for_people(at)));
        summary.add(window.seconds(), &known_signals(&window));
        newest = Some(window);
        true
    });
    read.map_err(unusable)?;
    let newest = newest.ok_or_else(|| recordings::recorded_then("too little", recording))?;
    let mut inventory = inventory(&newest);
    if let Some(recorded) = recording.inventory(*there.end()).map_err(unusable)? {
        // For other kinds, the window has what matters.
        let kept = recorded.entries().filter(|entry| OF_THE_RECORDER.contains(&&*entry.kind));
        inventory.extend(kept.map(|entry| (format!("{} {}", entry.kind, entry.name), entry.value.to_string())));
    }
    Ok(Baseline {
        start: Some(to_the_millisecond(*there.start())),
        end: Some(to_the_millisecond(*there.end())),
        seconds: summary.seconds(),
        ..Baseline::new(BaselineKind::Period, inventory, summary.finish())
    })
}

/// Loads the baseline of this name.
pub fn named(baselines: &Baselines, name: &str) -> Result<Baseline, Failure> {
    baselines.load(name).map_err(unusable)?.ok_or_else(|| none_of(name, baselines))
}

/// Loads the default baseline of this machine, if there is a readable one: a diagnosis can do without it.
pub fn default() -> Option<Baseline> {
    let folder = recordings::folder(None).ok()?;
    // The warning about the home folder covers this case.
    if recordings::closed_home().is_some_and(|home| folder.starts_with(home.folder)) {
        return None;
    }
    default_of(&folder).unwrap_or_else(|error| {
        complain(&format!("the default baseline is left out: {error}"));
        None
    })
}

/// Loads the default baseline. It is used without being named, and 'try' changes settings because of it, so it must not
/// be writable by another user.
fn default_of(folder: &Path) -> Result<Option<Baseline>, String> {
    let baselines = Baselines::in_folder(folder);
    let path = baselines.path(Baselines::DEFAULT).map_err(|e| e.to_string())?;
    match whyslow_trusted::check(&path) {
        Err(e) if whyslow_trusted::is_untrusted(&e) => Err(e.to_string()),
        _ => baselines.load(Baselines::DEFAULT).map_err(|e| e.to_string()),
    }
}

fn none_of(name: &str, baselines: &Baselines) -> Failure {
    Failure::usage(unknown("baseline", name, "whyslow baseline list", baselines.names().unwrap_or_default()))
}

fn unusable(error: StoreError) -> Failure {
    Failure::usage(error.to_string())
}
