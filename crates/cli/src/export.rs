//! `whyslow export`: rows of a recording for other programs.

use crate::options::Look;
use crate::output::{Failure, quietly};
use crate::recordings::{Part, in_words};
use clap::{Args, ValueEnum};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use whyslow_model::catalogue::FamilyInfo;
use whyslow_show::rows;
use whyslow_store::{AnyRow, ParquetExport, Recording, Span, families};

/// Which rows, and what to write them as.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The family, such as disk or process; 'whyslow metrics' lists them
    family: String,
    #[command(flatten)]
    part: Part,
    /// What to write [default: as the name of FILE ends; else csv]
    #[arg(long, conflicts_with = "json")]
    format: Option<Format>,
    /// Write to this file, not to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    // No doc comments here: clap would draw each as a paragraph of the help.
    Csv,
    Json,
    Parquet,
}

/// Writes the rows.
///
/// # Errors
/// Wrong usage; a recording that cannot be read; a file that cannot be written.
pub fn run(args: &ExportArgs, look: &Look) -> Result<ExitCode, Failure> {
    let family = families().into_iter().find(|family| family.name == args.family);
    let missing = || Failure::usage(format!("no family '{}'; 'whyslow metrics' lists them", args.family));
    let family = family.ok_or_else(missing)?;
    let recording = args.part.open()?;
    let span = args.part.span(&recording)?;
    match (args.format(look), &args.output) {
        (Format::Parquet, Some(path)) => parquet(&recording, &span, &family, path)?,
        (Format::Parquet, None) => return Err(Failure::usage("Parquet needs a file: -o FILE")),
        (format, Some(path)) => {
            let unwritable = |e: &io::Error| Failure::usage(format!("{}: {e}", path.display()));
            let mut file = BufWriter::new(File::create(path).map_err(|e| unwritable(&e))?);
            lines(&recording, &span, &family, format, &mut file)?.map_err(|e| unwritable(&e))?;
        }
        (format, None) => {
            let mut out = BufWriter::new(io::stdout().lock());
            quietly(lines(&recording, &span, &family, format, &mut out)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl ExportArgs {
    fn format(&self, look: &Look) -> Format {
        let ending = self.output.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
        match (self.format, ending) {
            _ if look.json => Format::Json,
            (Some(format), _) => format,
            (None, Some("parquet")) => Format::Parquet,
            (None, Some("json" | "jsonl" | "ndjson")) => Format::Json,
            (None, _) => Format::Csv,
        }
    }
}

/// Writes lines, and tells apart that the recording cannot be read from that they cannot be written.
fn lines(
    recording: &Recording,
    span: &Span,
    family: &FamilyInfo,
    format: Format,
    out: &mut impl Write,
) -> Result<io::Result<()>, Failure> {
    let mut written = Ok(());
    if format == Format::Csv {
        written = out.write_all(rows::csv_header(family).as_bytes());
    }
    let each = |AnyRow { at, key, values }: AnyRow| {
        let at = in_words(at);
        let line = match format {
            Format::Json => rows::json_row(family, &at, &key, &values),
            Format::Csv | Format::Parquet => rows::csv_row(&at, &key, &values),
        };
        if written.is_ok() {
            written = out.write_all(line.as_bytes());
        }
        written.is_ok()
    };
    recording.each_row(span, family.name, each).map_err(|e| Failure::usage(e.to_string()))?;
    Ok(written.and_then(|()| out.flush()))
}

fn parquet(recording: &Recording, span: &Span, family: &FamilyInfo, path: &Path) -> Result<(), Failure> {
    let unwritable = |e: whyslow_store::StoreError| Failure::usage(e.to_string());
    let mut file = ParquetExport::create(path, family).map_err(unwritable)?;
    let mut written = Ok(());
    let each = |row: AnyRow| {
        written = file.push(&row);
        written.is_ok()
    };
    recording.each_row(span, family.name, each).map_err(unwritable)?;
    written.and_then(|()| file.finish()).map_err(unwritable)
}
