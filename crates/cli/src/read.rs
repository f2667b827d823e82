//! `whyslow read`: the same answers from what other tools printed.

use crate::args::{self, Look};
use crate::commands::tell;
use crate::output::{self, Failure, print};
use crate::user_rules;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::process::ExitCode;
use whyslow_diagnose::{diagnose, side_by_side};
use whyslow_import::{Capture, FORMATS, Input};
use whyslow_model::diagnosis::Origin;
use whyslow_show::{json, text};

/// How much of a file is read at once.
const BUFFER: usize = 256 * 1024;

/// Reads the files, or standard input, as one incident and diagnoses it.
///
/// # Errors
/// A file that cannot be read, or a place in one whose meaning is not certain.
pub fn read(asked: &args::Read, look: &Look) -> Result<ExitCode, Failure> {
    let rules = user_rules::load();
    let captures = whyslow_import::read(inputs(asked)?, asked.partial).map_err(|e| Failure::usage(e.to_string()))?;
    let of = |c: &Capture| (c.files.join(" "), diagnose(&c.window, Origin::Import, &rules.book));
    let diagnosis = side_by_side(captures.iter().map(of).collect());
    let diagnosis = diagnosis.ok_or_else(|| Failure::usage("nothing to read: the files are empty"))?;
    tell(&diagnosis, look, asked.check)
}

/// Lists what is recognised.
///
/// # Errors
/// Where stdout cannot be written.
pub fn formats(look: &Look) -> Result<ExitCode, Failure> {
    let list: Vec<_> = FORMATS.iter().map(whyslow_import::Format::info).collect();
    print(if look.json { json::pretty(&list) } else { text::formats(&list, &output::style(look)) })?;
    Ok(ExitCode::SUCCESS)
}

fn inputs(asked: &args::Read) -> Result<Vec<Input<'static>>, Failure> {
    if asked.files.is_empty() {
        return Ok(vec![input(Path::new("-"))?]);
    }
    asked.files.iter().map(|file| input(file)).collect()
}

fn input(path: &Path) -> Result<Input<'static>, Failure> {
    if path == Path::new("-") {
        return Ok(Input { name: "standard input".into(), reader: Box::new(io::stdin().lock()) });
    }
    let failed = |e: io::Error| Failure::usage(format!("{}: {e}", path.display()));
    let mut file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(Failure::usage(format!("{}: is a directory; name the files in it", path.display())));
    }
    let converted = whyslow_import::converted(path, &mut file).map_err(failed)?;
    let reader = converted.unwrap_or_else(|| Box::new(BufReader::with_capacity(BUFFER, file)));
    Ok(Input { name: path.display().to_string(), reader })
}
