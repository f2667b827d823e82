//! `whyslow read`: the same answers from what other tools printed.

use crate::options::Look;
use crate::output::{self, Failure, print};
use crate::progress::Progress;
use crate::user_rules;
use crate::why::tell;
use clap::Args;
use signal_hook::consts::SIGINT;
use signal_hook::flag::{register, register_conditional_default};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use whyslow_diagnose::{diagnose, side_by_side};
use whyslow_import::{Capture, FORMATS, Gathered, Incident, ReadCopy, Tree, Watch, join};
use whyslow_model::diagnosis::Origin;
use whyslow_sense::{Root, Sampler};
use whyslow_show::{json, text};

/// How long nothing is said of how far the reading has come, and how often then.
const QUIET: Duration = Duration::from_secs(2);
const OFTEN: Duration = Duration::from_millis(250);

/// What to read.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// The files, folders or archives (tar, gzip, xz); - or none is standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Leave out what cannot be read with certainty, and say so, instead of refusing it
    #[arg(long)]
    pub partial: bool,
    /// Exit with 1 on a bottleneck, with 3 where too little could be seen
    #[arg(long)]
    pub check: bool,
}

/// Reads the files, folders and archives, or standard input, as one incident and diagnoses it.
///
/// # Errors
/// A file that cannot be read, or a place in one whose meaning is not certain.
pub fn read(asked: &ReadArgs, look: &Look) -> Result<ExitCode, Failure> {
    let rules = user_rules::load();
    let gathered = watched(|watch| gather(asked, watch))?;
    let copies = gathered.trees.iter().map(copy).collect();
    let captures = join(gathered.captures, copies);
    let of = |c: &Capture| (c.label(), diagnose(&c.window, Origin::Import, &rules.book));
    let diagnosis = side_by_side(captures.iter().map(of).collect());
    let diagnosis = diagnosis.ok_or_else(|| Failure::usage(nothing_in(&asked.files)))?;
    tell(&diagnosis, look, asked.check)
}

fn nothing_in(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    format!(
        "{}: no file in it is one that is known by its name; give the files that matter, of a kind that 'whyslow formats' lists",
        names.join(" ")
    )
}

/// Reads while another thread says how far it has come; Ctrl-C ends the reading, and what it unpacked is removed.
fn watched<T>(reads: impl FnOnce(&Arc<Watch>) -> Result<T, Failure>) -> Result<T, Failure> {
    let watch = Arc::<Watch>::default();
    // The second Ctrl-C ends the program at once, as does the first where there is no handler to be had.
    let _ = register_conditional_default(SIGINT, Arc::clone(&watch.stop))
        .and_then(|_| register(SIGINT, Arc::clone(&watch.stop)));
    std::thread::scope(|scope| {
        let (done, ends) = channel::<()>();
        let progress = &*watch;
        scope.spawn(move || say_how_far(progress, &ends));
        let result = reads(&watch);
        drop(done);
        result
    })
}

fn say_how_far(watch: &Watch, ends: &Receiver<()>) {
    let mut wait = QUIET;
    let progress = Progress::new("", "");
    while ends.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        progress.say(&format!("reading, {} MB so far (Ctrl-C: stop)", watch.bytes.load(Ordering::Relaxed) / 1_000_000));
        wait = OFTEN;
    }
}

fn gather(asked: &ReadArgs, watch: &Arc<Watch>) -> Result<Gathered, Failure> {
    let refused = |e: whyslow_import::Refusal| Failure::usage(e.to_string());
    let mut incident = Incident::new(asked.partial, Arc::clone(watch));
    if asked.files.is_empty() {
        incident.add("standard input", io::stdin().lock()).map_err(refused)?;
    }
    for path in &asked.files {
        add(&mut incident, path)?;
    }
    incident.done().map_err(refused)
}

fn add(incident: &mut Incident, path: &Path) -> Result<(), Failure> {
    let added = if path == Path::new("-") {
        incident.add("standard input", io::stdin().lock())
    } else {
        let failed = |e: io::Error| Failure::usage(format!("{}: {e}", path.display()));
        let mut file = File::open(path).map_err(failed)?;
        let name = path.display().to_string();
        if file.metadata().map_err(failed)?.is_dir() {
            incident.add_folder(path)
        } else if let Some(converted) = whyslow_import::converted(path, &mut file).map_err(failed)? {
            incident.add(&name, converted)
        } else {
            incident.add(&name, file)
        }
    };
    added.map_err(|e| Failure::usage(e.to_string()))
}

/// A copy of /proc and /sys, read as the live one is; by the clock in it.
fn copy(tree: &Tree) -> ReadCopy {
    let root = Root::captured(&tree.path);
    let uptime = root.word("proc/uptime");
    let seconds = uptime.as_deref().and_then(|text| text.split(' ').next()?.parse::<f64>().ok()).unwrap_or(1.0);
    let snapshot = Sampler::new(root).sample_at(0, (seconds * 1e9) as u64);
    ReadCopy { name: tree.name.clone(), snapshot }
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
