//! `whyslow export`: writes rows of a recording for other programs.

use crate::atomic_file::AtomicFile;
use crate::complete;
use crate::options::OutputOptions;
use crate::output::{Failure, by_ending, quietly};
use crate::pseudonymise::PseudonymOptions;
use crate::recordings::{RecordingPeriod, in_words};
use crate::user_rules;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use whyslow_model::catalogue::FamilyInfo;
use whyslow_model::row::AnyRow;
use whyslow_model::suggest::unknown;
use whyslow_series::RowRates;
use whyslow_show::rows;
use whyslow_store::{ParquetExport, Recording, StoreError, TimeRange, families};

/// Which rows, and what to write them as.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Metric family, such as disk or process; 'whyslow metrics' lists them
    #[arg(add = ArgValueCandidates::new(complete::families))]
    family: String,
    #[command(flatten)]
    part: RecordingPeriod,
    /// Write counters as the kernel counts them instead of rates per second
    #[arg(long)]
    raw: bool,
    /// Output format [default: by the extension of FILE, otherwise csv]
    #[arg(long, conflicts_with = "json")]
    format: Option<ExportFormat>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    pseudonyms: PseudonymOptions,
}

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    // No doc comments here: clap would show each as a paragraph of the help.
    Csv,
    Json,
    Parquet,
}

/// Writes the rows.
///
/// # Errors
/// Fails on wrong usage, if the recording cannot be read, or if the file cannot be written.
pub fn run(args: &ExportArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    user_rules::declare_quantities();
    let families = families();
    let missing = || {
        let known = families.iter().map(|family| family.name);
        Failure::usage(unknown("metric family", &args.family, "whyslow metrics", known))
    };
    let family = families.iter().find(|family| family.is_named(&args.family)).cloned();
    let family = family.ok_or_else(missing)?;
    let format = args.format(look)?;
    if format == ExportFormat::Parquet && args.output.is_none() {
        return Err(Failure::usage("Parquet needs a file: -o FILE"));
    }
    let names = args.pseudonyms.begin()?;
    let recording = names.recording(args.part.open()?).map_err(|e| Failure::usage(e.to_string()))?;
    let span = args.part.span(&recording)?;
    let mut rows = ExportedRows {
        recording,
        span,
        rates: if args.raw { None } else { Some(RowRates::from_counted(&family)) },
        family,
    };
    match &args.output {
        Some(path) => {
            let unwritable = |e: io::Error| Failure::usage(format!("cannot write {}: {e}", path.display()));
            let (draft, file) = AtomicFile::begin(path).map_err(unwritable)?;
            if format == ExportFormat::Parquet {
                rows.parquet(file, path)?;
            } else {
                rows.lines(format, &mut BufWriter::new(file))?.map_err(unwritable)?;
            }
            draft.finish().map_err(unwritable)?;
        }
        None => quietly(rows.lines(format, &mut BufWriter::new(io::stdout().lock()))?)?,
    }
    names.finish()?;
    Ok(ExitCode::SUCCESS)
}

impl ExportArgs {
    fn format(&self, look: &OutputOptions) -> Result<ExportFormat, Failure> {
        match (self.format, &self.output) {
            _ if look.display.json => Ok(ExportFormat::Json),
            (Some(format), _) => Ok(format),
            (None, None) => Ok(ExportFormat::Csv),
            (None, Some(path)) => by_ending(path, ENDINGS, ExportFormat::Csv),
        }
    }
}

/// File name extensions and their formats.
const ENDINGS: &[(&str, ExportFormat)] = &[
    ("csv", ExportFormat::Csv),
    ("json", ExportFormat::Json),
    ("jsonl", ExportFormat::Json),
    ("ndjson", ExportFormat::Json),
    ("parquet", ExportFormat::Parquet),
];

/// Rows to write, and their source.
struct ExportedRows {
    recording: Recording,
    span: TimeRange,
    family: FamilyInfo,
    /// Converts counters to rates; `None` if counters are written as they are.
    rates: Option<RowRates>,
}

impl ExportedRows {
    fn family(&self) -> FamilyInfo {
        self.rates.as_ref().map_or(&self.family, |rates| &rates.family).clone()
    }

    /// Calls `each` for every row until it fails.
    fn each<E>(&mut self, mut each: impl FnMut(&AnyRow) -> Result<(), E>) -> Result<Result<(), E>, Failure> {
        let mut done = Ok(());
        let rates = &mut self.rates;
        let read = self.recording.each_row(&self.span, self.family.name, |row| {
            let row = match rates {
                Some(rates) => rates.row(row),
                None => row,
            };
            done = each(&row);
            done.is_ok()
        });
        read.map_err(|e| Failure::usage(e.to_string()))?;
        Ok(done)
    }

    /// Writes lines; distinguishes an unreadable recording from a failed write.
    fn lines(&mut self, format: ExportFormat, out: &mut impl Write) -> Result<io::Result<()>, Failure> {
        let family = self.family();
        if format == ExportFormat::Csv
            && let Err(error) = out.write_all(rows::csv_header(&family).as_bytes())
        {
            return Ok(Err(error));
        }
        let written = self.each(|AnyRow { at, key, values, .. }| {
            let at = in_words(*at);
            let line = match format {
                ExportFormat::Json => rows::json_row(&family, &at, key, values),
                ExportFormat::Csv | ExportFormat::Parquet => rows::csv_row(&at, key, values),
            };
            out.write_all(line.as_bytes())
        })?;
        Ok(written.and_then(|()| out.flush()))
    }

    fn parquet(&mut self, file: File, path: &Path) -> Result<(), Failure> {
        let unwritable = |e: StoreError| Failure::usage(format!("cannot write {e}"));
        let mut file = ParquetExport::begin(file, path, &self.family()).map_err(unwritable)?;
        self.each(|row| file.push(row))?.map_err(unwritable)?;
        file.finish().map_err(unwritable)
    }
}
