//! `whyslow read`: diagnoses the output of other tools.

use crate::experiments;
use crate::interrupt::ending_signals;
use crate::observe::print_diagnosis;
use crate::options::OutputOptions;
use crate::output::{Failure, ProgressLine, complain};
use crate::pseudonymise::PseudonymOptions;
use crate::user_rules::{self, Rules};
use clap::Args;
use signal_hook::flag::{register, register_conditional_default};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use whyslow_diagnose::{diagnose, merge_diagnoses, virtual_machines};
use whyslow_documents::diagnosis::{Diagnosis, Origin};
use whyslow_import::{Capture, Incident, IncidentContents, ProcTree, ReadMonitor, join};
use whyslow_sense::read_captured;

/// Time before progress is first shown.
const QUIET: Duration = Duration::from_secs(2);
/// Timeout of each poll of a pipe, in milliseconds.
const LOOK_MS: i32 = 100;
/// Maximum number of bytes read from a device.
const MOST_OF_DEVICE: usize = 16 << 20;
const OFTEN: Duration = Duration::from_millis(250);

/// What to read.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// Files, folders or archives (tar, gzip, xz, PCP), all of one incident; - or none reads standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Refuse input if anything in it cannot be read with certainty, instead of leaving that out
    #[arg(long, conflicts_with = "_partial")]
    pub strict: bool,
    /// The default by now; accepted for old scripts
    #[arg(long = "partial", hide = true)]
    _partial: bool,
    /// Exit with status 1 if there is a bottleneck, 3 if too little was visible to tell
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pseudonyms: PseudonymOptions,
}

impl ReadArgs {
    /// Returns the arguments for reading these files.
    pub fn of_files(files: Vec<PathBuf>) -> Self {
        Self { files, strict: false, _partial: false, check: false, pseudonyms: PseudonymOptions::default() }
    }
}

/// Reads the files, folders and archives, or standard input, as one incident and diagnoses it.
///
/// # Errors
/// Fails if nothing is recognized or a file cannot be opened; with `--strict`, also for a passage whose meaning is not
/// certain.
pub fn read(asked: &ReadArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    let rules = user_rules::load();
    let names = asked.pseudonyms.begin()?;
    let captures = names.captures(captures(asked)?);
    let diagnosis = diagnosed(&captures, &rules, &asked.files)?;
    names.finish()?;
    print_diagnosis(&diagnosis, look, asked.check)
}

/// Diagnoses all captures.
pub fn diagnosed(captures: &[Capture], rules: &Rules, files: &[PathBuf]) -> Result<Diagnosis, Failure> {
    let several = captures.iter().any(|a| captures.iter().any(|b| a.is_of_another_host(b)));
    if several {
        let hosts: BTreeSet<&str> = captures.iter().filter_map(|c| c.host.as_deref()).collect();
        let names = hosts.into_iter().collect::<Vec<_>>().join(", ");
        complain(&format!("these are captures of several hosts ({names}): each is diagnosed separately"));
    }
    let label = |c: &Capture| match &c.host {
        Some(host) if several => format!("{} of {host}", c.label()),
        _ => c.label(),
    };
    let of = |c: &Capture| (label(c), diagnose(&c.window, Origin::Import, &rules.book));
    let labelled: Vec<_> = captures.iter().map(|capture| (label(capture), &capture.window)).collect();
    let machines = virtual_machines(&labelled);
    let diagnosis = merge_diagnoses(captures.iter().map(of).collect(), machines, &rules.book);
    let mut diagnosis = diagnosis.ok_or_else(|| Failure::usage(nothing_in(files)))?;
    experiments::add(captures, &mut diagnosis);
    Ok(diagnosis)
}

/// Reads the captures in the files.
pub fn captures(asked: &ReadArgs) -> Result<Vec<Capture>, Failure> {
    let gathered = watched(|watch| gather(asked, watch))?;
    for refusal in &gathered.skipped {
        complain(&format!("skipped {}: {}", refusal.file, refusal.reason()));
    }
    let copy = |tree: &ProcTree| tree.copy(read_captured(&tree.path));
    let copies = gathered.trees.iter().map(copy).collect();
    Ok(join(gathered.captures, copies))
}

fn nothing_in(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    format!(
        "{}: no file in it has a known name; specify the files themselves ('whyslow formats' lists the formats)",
        names.join(" ")
    )
}

/// Reads while another thread shows progress; Ctrl-C, SIGTERM and SIGHUP end the reading and remove unpacked files.
fn watched<T>(reads: impl FnOnce(&Arc<ReadMonitor>) -> Result<T, Failure>) -> Result<T, Failure> {
    let watch = Arc::<ReadMonitor>::default();
    // The second Ctrl-C ends the program at once, as does the first if no handler can be set.
    for signal in ending_signals() {
        let _ = register_conditional_default(signal, Arc::clone(&watch.stop))
            .and_then(|_| register(signal, Arc::clone(&watch.stop)));
    }
    std::thread::scope(|scope| {
        let (done, ends) = channel::<()>();
        let progress = &*watch;
        // Without this thread no progress is shown.
        let progress = move || say_how_far(progress, &ends);
        let _ = std::thread::Builder::new().name("progress".into()).spawn_scoped(scope, progress);
        let result = reads(&watch);
        drop(done);
        result
    })
}

fn say_how_far(watch: &ReadMonitor, ends: &Receiver<()>) {
    let mut wait = QUIET;
    let progress = ProgressLine::empty();
    while ends.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        let megabytes = watch.bytes.load(Ordering::Relaxed) / 1_000_000;
        if megabytes > 0 {
            progress.say(&format!("reading, {megabytes} MB so far (Ctrl-C: stop)"));
        }
        wait = OFTEN;
    }
}

fn gather(asked: &ReadArgs, watch: &Arc<ReadMonitor>) -> Result<IncidentContents, Failure> {
    let refused = |e: whyslow_import::Refusal| Failure::usage(e.to_string());
    let mut incident = Incident::new(asked.strict, Arc::clone(watch));
    if asked.files.is_empty() {
        incident.add("standard input", standard_input(watch)?).map_err(refused)?;
    }
    for path in &asked.files {
        add(&mut incident, path, watch)?;
    }
    incident.done().map_err(refused)
}

fn add(incident: &mut Incident, path: &Path, watch: &Arc<ReadMonitor>) -> Result<(), Failure> {
    let recording = whyslow_import::recording(path);
    let path = recording.as_deref().unwrap_or(path);
    let added = if path == Path::new("-") {
        incident.add("standard input", standard_input(watch)?)
    } else {
        let failed = |e: io::Error| Failure::usage(format!("{}: cannot read it: {e}", path.display()));
        // A named pipe without a writer must not delay Ctrl-C.
        let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
        let name = path.display().to_string();
        let kind = file.metadata().map_err(failed)?.file_type();
        if kind.is_dir() {
            incident.add_folder(path)
        } else if kind.is_block_device() {
            return Err(failed(io::Error::other("it is a disk; specify files or a folder")));
        } else if kind.is_char_device() && !file.is_terminal() {
            // A device without an end is an error, whatever its beginning looks like.
            let mut bytes = Vec::new();
            DeviceReader { file, left: MOST_OF_DEVICE }.read_to_end(&mut bytes).map_err(failed)?;
            incident.add(&name, io::Cursor::new(bytes))
        } else if !kind.is_file() {
            incident.add(&name, InterruptibleReader::new(file, watch))
        } else {
            match whyslow_import::converted(path, &mut file, watch) {
                Ok(Some(converted)) => incident.add(&name, converted),
                Ok(None) => incident.add(&name, file),
                Err(e) => incident.skip(&name, &e),
            }
        }
    };
    added.map_err(|e| Failure::usage(e.to_string()))
}

fn standard_input(watch: &Arc<ReadMonitor>) -> Result<InterruptibleReader, Failure> {
    if io::stdin().is_terminal() {
        eprintln!("Reading from the terminal: paste the output of a tool, then press Enter and Ctrl-D.");
    }
    let own = io::stdin().as_fd().try_clone_to_owned();
    let own = own.map_err(|e| Failure::usage(format!("standard input: cannot read it: {e}")))?;
    Ok(InterruptibleReader::new(own.into(), watch))
}

/// A pipe or terminal, which may block indefinitely: Ctrl-C ends the wait.
struct InterruptibleReader {
    file: File,
    watch: Arc<ReadMonitor>,
}

impl InterruptibleReader {
    fn new(file: File, watch: &Arc<ReadMonitor>) -> Self {
        Self { file, watch: Arc::clone(watch) }
    }
}

impl Read for InterruptibleReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.watch.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("interrupted"));
            }
            let mut poll = libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one pollfd is given, which outlives the call.
            if unsafe { libc::poll(&mut poll, 1, LOOK_MS) } <= 0 {
                continue;
            }
            match self.file.read(buffer) {
                Err(e) if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&e.kind()) => {}
                read => return read,
            }
        }
    }
}

/// A device such as /dev/kmsg, which is at its end when it has no data; /dev/zero never is.
struct DeviceReader {
    file: File,
    left: usize,
}

impl Read for DeviceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other("a device without an end; specify a file"));
        }
        let most = buffer.len().min(self.left);
        let count = match self.file.read(&mut buffer[..most]) {
            // Messages were overwritten before they were read (Documentation/ABI/testing/dev-kmsg).
            Err(e) if e.raw_os_error() == Some(libc::EPIPE) => return self.read(buffer),
            count => count?,
        };
        self.left -= count;
        Ok(count)
    }
}
