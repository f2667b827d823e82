//! `whyslow compare`: shows differences beyond noise.

use crate::baseline::{named, of_files, of_recording};
use crate::complete;
use crate::experiments;
use crate::options::OutputOptions;
use crate::output::{Failure, tell};
use crate::pseudonymise::{PseudonymOptions, PseudonymSession};
use crate::recordings::{self, RecordingPeriod};
use clap::Args;
use clap_complete::ArgValueCandidates;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use whyslow_compare::{LEAST, compare};
use whyslow_documents::baseline::Baseline;
use whyslow_show::text;
use whyslow_store::{Baselines, read_baseline};

/// Accepted range of the difference to ignore, in percent: smaller values are probably typos, larger ones make no
/// sense.
const PERCENT: std::ops::RangeInclusive<f64> = 0.1..=1000.0;

/// What to compare with what.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A baseline's name; FROM..TO of the recording, such as 03:00..04:00; a recording's folder, DIR or DIR@FROM..TO; or a
    /// file: a baseline, the output of `whyslow bench --json`, or the output of other tools (`whyslow formats`)
    #[arg(add = ArgValueCandidates::new(complete::baselines))]
    a: String,
    /// What to compare with it, specified the same way
    #[arg(add = ArgValueCandidates::new(complete::baselines))]
    b: Option<String>,
    /// Smallest difference to report, percent
    #[arg(long, value_name = "PERCENT", default_value_t = LEAST * 100.0)]
    least: f64,
    /// Folder with recordings and baselines [default: /var/lib/whyslow for root, else ~/.local/state/whyslow]
    #[arg(long)]
    dir: Option<PathBuf>,
    #[command(flatten)]
    pseudonyms: PseudonymOptions,
}

pub fn run(args: &CompareArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    if !PERCENT.contains(&args.least) {
        return Err(Failure::usage(format!("--least must be between {} and {}", PERCENT.start(), PERCENT.end())));
    }
    let folder = recordings::folder(args.dir.as_deref())?;
    let names = args.pseudonyms.begin()?;
    let side = |text: &str| side(text, &folder, &names).map(|side| Baseline { name: names.argument(text), ..side });
    let a = side(&args.a)?;
    let b = args.b.as_ref().ok_or_else(|| {
        Failure::usage(format!("{}: compared with what? Add a second file, baseline or period", args.a))
    })?;
    let comparison = compare(&a, &side(b)?, args.least / 100.0);
    names.finish()?;
    tell(&comparison, look, text::comparison)?;
    Ok(ExitCode::SUCCESS)
}

/// Loads a side of the comparison: decides by the form of the argument, then by what exists.
fn side(text: &str, folder: &Path, names: &PseudonymSession) -> Result<Baseline, Failure> {
    let path = Path::new(text);
    // `../old.json` is not a time.
    if let Some((from, to)) = text.rsplit_once("..").filter(|_| !path.exists()) {
        let (dir, from) = from.rsplit_once('@').map_or((folder, from), |(dir, from)| (Path::new(dir), from));
        let when = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let part = RecordingPeriod { dir: Some(dir.to_owned()), since: None, from: when(from), to: when(to) };
        return recorded(part, names);
    }
    let baselines = Baselines::in_folder(folder);
    match path.metadata() {
        _ if baselines.names().is_ok_and(|names| names.iter().any(|name| name == text)) => {
            named(&baselines, text).map(|baseline| names.baseline(baseline))
        }
        Ok(there) if there.is_dir() => {
            recorded(RecordingPeriod { dir: Some(path.to_owned()), since: None, from: None, to: None }, names)
        }
        Ok(_) if is_bench(path) => of_files(&[path.to_owned()]).map(|baseline| names.baseline(baseline)),
        Ok(_) if schema(path).is_some() => {
            let baseline = read_baseline(path).map_err(|error| Failure::usage(error.to_string()))?;
            Ok(names.baseline(baseline))
        }
        Ok(_) => experiments::of_file(path, names),
        Err(_) if text.contains('/') => Err(Failure::usage(format!("{text}: there is no such file or folder"))),
        Err(_) if text.contains('.') => Err(Failure::usage(format!(
            "{text}: there is no such file, and no baseline of that name ('whyslow baseline list' lists them)"
        ))),
        Err(_) => named(&baselines, text),
    }
}

/// Returns whether a file identifies itself as the output of a benchmark.
fn is_bench(path: &Path) -> bool {
    schema(path).as_deref() == Some(whyslow_documents::bench::SCHEMA)
}

/// Returns the schema that a document of ours declares.
fn schema(path: &Path) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Document {
        schema: String,
    }
    let json = std::fs::read(path).ok()?;
    serde_json::from_slice::<Document>(&json).ok().map(|document| document.schema)
}

fn recorded(part: RecordingPeriod, names: &PseudonymSession) -> Result<Baseline, Failure> {
    let recording = names.recording(part.open()?).map_err(|e| Failure::usage(e.to_string()))?;
    of_recording(&recording, &part.span(&recording)?)
}
