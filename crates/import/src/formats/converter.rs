//! Binary files of sar (sa21, sa20240101), of atop (atop_20240101) and of Performance Co-Pilot (20240101.0, .meta, .index).
//! Only the tools themselves know the layout of each version, so this machine's own sadf(1), atop(1) and pmlogdump(1) convert
//! them to text.
//!
//! The file may be hostile, and the tools are written in C: they run without privileges, under limits, and for a short time.

use crate::incident::{ReadMonitor, UnpackedReader, opened, over_limit};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A tool that prints its own binary files as text.
struct Converter {
    /// Names of the program, the current one first.
    programs: &'static [&'static str],
    /// Arguments, in which [`INPUT`] stands for the input file.
    arguments: &'static [&'static str],
    /// Magic bytes of its files, and their offset.
    magic: &'static [&'static [u8]],
    magic_at: usize,
    /// Whether a recording consists of several files, so that the program expects their common name.
    has_parts: bool,
    /// Description of its files.
    what: &'static str,
    package: &'static str,
    /// Command that converts a file of another version.
    by_hand: &'static str,
}

const INPUT: &str = "{}";

const CONVERTERS: [Converter; 3] = [
    Converter {
        programs: &["sadf"],
        arguments: &["-j", "--", "-A", INPUT],
        // SYSSTAT_MAGIC of sa.h, in either byte order.
        magic: &[&[0x96, 0xd5], &[0xd5, 0x96]],
        magic_at: 0,
        has_parts: false,
        what: "a binary file of sar",
        package: "sysstat",
        by_hand: "sadf -c FILE > NEW",
    },
    Converter {
        programs: &["atop"],
        arguments: &["-r", INPUT, "-P", "ALL"],
        // MYMAGIC of rawlog.h, in either byte order.
        magic: &[&[0xef, 0xbe, 0xed, 0xfe], &[0xfe, 0xed, 0xbe, 0xef]],
        magic_at: 0,
        has_parts: false,
        what: "a raw log of atop",
        package: "atop",
        by_hand: "atopconvert FILE NEW",
    },
    Converter {
        programs: &["pmlogdump", "pmdumplog"],
        arguments: &["-x", "-Z", "UTC", "-L", "-d", "-m", INPUT],
        // PM_LOG_MAGIC of libpcp.h with versions 2 and 3, after the length of the label.
        magic: &[&[0x50, 0x05, 0x26, 0x02], &[0x50, 0x05, 0x26, 0x03]],
        magic_at: 4,
        has_parts: true,
        what: "an archive of Performance Co-Pilot",
        package: "pcp",
        by_hand: "pmlogdump -x -Z UTC -L -d -m ARCHIVE > NEW",
    },
];
/// Maximum number of bytes to read for the magic.
const MAGIC_LENGTH: u64 = 8;
/// Maximum size of a file. A day of a large machine, once per second, is smaller.
const LARGEST: u64 = 1 << 30;
/// Limits of a tool: address space, CPU time, open files and total time.
const MOST_MEMORY: u64 = 1 << 30;
const MOST_CPU_SECONDS: u64 = 120;
const MOST_FILES: u64 = 64;
const MOST_TIME: Duration = Duration::from_secs(300);
/// Interval between checks for an interrupt, in milliseconds.
const CHECK_MS: i32 = 200;
/// User and group ID of nobody, under which a tool runs if whyslow runs as root.
const NOBODY: u32 = 65534;
/// The file on the tool's standard input, by a name that needs no permissions in its directories.
const STANDARD_INPUT: &str = "/proc/self/fd/0";

/// Converts a binary file of sar, atop or Performance Co-Pilot to text. Returns `None` for any other file.
///
/// # Errors
/// Fails if the file cannot be read, or its tool is not installed.
pub fn converted(path: &Path, file: &mut File, monitor: &Arc<ReadMonitor>) -> io::Result<Option<Box<dyn BufRead>>> {
    let Some(converter) = converter_of(file, monitor)? else { return Ok(None) };
    let Converter { what, package, programs, .. } = converter;
    let program = programs[0];
    if file.metadata()?.len() > LARGEST {
        return Err(too_large(what, program));
    }
    // SAFETY: the call takes no arguments and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    let parts = if converter.has_parts { Some(RecordingParts::from_path(path, converter, monitor)?) } else { None };
    let needs =
        |e: io::Error| io::Error::new(e.kind(), format!("{what}, which needs {program}: {e}; install {package}"));
    let program = *programs.iter().find(|program| is_installed(program)).unwrap_or(&program);
    let input = match &parts {
        Some(_) => Stdio::null(),
        None if root => readable_by_all(file)?.into(),
        None => file.try_clone()?.into(),
    };
    let name = parts.as_ref().map_or(PathBuf::from(STANDARD_INPUT), RecordingParts::name);
    let mut child = command(program, converter.arguments, &name, root).stdin(input).spawn().map_err(needs)?;
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other(format!("{program} has no output")))?;
    let output = Conversion {
        converter,
        child,
        stdout,
        monitor: Arc::clone(monitor),
        end: Instant::now() + MOST_TIME,
        any: false,
        _parts: parts,
    };
    Ok(Some(Box::new(UnpackedReader::new(BufReader::new(output), Arc::clone(monitor)))))
}

fn is_installed(program: &str) -> bool {
    std::env::split_paths(&search_path()).any(|folder| folder.join(program).is_file())
}

fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into())
}

/// Returns the converter for a file. Files of recordings with several parts may be compressed.
fn converter_of(file: &mut File, monitor: &Arc<ReadMonitor>) -> io::Result<Option<&'static Converter>> {
    let mut begin = |unpacked: bool| {
        let mut bytes = Vec::new();
        let read = match unpacked {
            // A file that cannot be unpacked is read, and refused, like any other file.
            true => opened(&mut *file, monitor)
                .and_then(|mut r| r.by_ref().take(MAGIC_LENGTH).read_to_end(&mut bytes))
                .or(Ok(0)),
            false => file.by_ref().take(MAGIC_LENGTH).read_to_end(&mut bytes),
        };
        file.seek(SeekFrom::Start(0))?;
        read.map(|_| bytes)
    };
    let (plain, unpacked) = (begin(false)?, begin(true)?);
    let is_own = |converter: &&Converter| {
        let begin = if converter.has_parts { &unpacked } else { &plain };
        converter.magic.iter().any(|own| begin.get(converter.magic_at..).is_some_and(|rest| rest.starts_with(own)))
    };
    Ok(CONVERTERS.iter().find(is_own))
}

fn command(program: &str, arguments: &[&str], input: &Path, root: bool) -> Command {
    let mut command = Command::new(program);
    command
        .args(
            arguments.iter().map(|argument| if *argument == INPUT { input.as_os_str() } else { OsStr::new(*argument) }),
        )
        .env_clear()
        .env("PATH", search_path())
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if root {
        command.gid(NOBODY).uid(NOBODY);
    }
    // SAFETY: between fork and exec only setrlimit and prctl are called, which are async-signal-safe.
    unsafe {
        command.pre_exec(limited);
    }
    command
}

fn too_large(what: &str, program: &str) -> io::Error {
    let most = LARGEST >> 20;
    over_limit(format!("{what} of more than {most} MiB; convert a part of it with {program} first"))
}

/// Splits a file name into the common name of a recording and the part: `20261126` and `meta.xz` for `20261126.meta.xz`.
fn part_name(name: &str) -> Option<(&str, &str)> {
    let unpacked = PACKED.iter().find_map(|extension| name.strip_suffix(extension)).unwrap_or(name);
    let (common, part) = unpacked.rsplit_once('.')?;
    let is_part = [METADATA, "index"].contains(&part) || !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    (is_part && !common.is_empty()).then(|| (common, &name[common.len() + 1..]))
}

/// Returns true for the name of the part that describes a recording of Performance Co-Pilot.
pub fn is_metadata(name: &str) -> bool {
    part_name(name).is_some_and(|(_, part)| part.split('.').next() == Some(METADATA))
}

/// Returns the file to read for a path that may be the common name of a recording's files.
pub fn recording(path: &Path) -> Option<PathBuf> {
    let named = |extension: &str| {
        let mut name = path.file_name()?.to_owned();
        name.push(format!(".{METADATA}{extension}"));
        Some(path.with_file_name(name)).filter(|path| path.is_file())
    };
    if path.exists() { None } else { [""].iter().chain(&PACKED).find_map(|extension| named(extension)) }
}

const METADATA: &str = "meta";
const PACKED: [&str; 4] = [".xz", ".gz", ".zst", ".bz2"];

/// Unpacked copies of a recording's files, in a folder of their own that any user can read.
struct RecordingParts(TempDir);

impl RecordingParts {
    const NAME: &str = "recording";

    fn from_path(path: &Path, converter: &Converter, monitor: &Arc<ReadMonitor>) -> io::Result<Self> {
        let what = converter.what;
        let name = path.file_name().and_then(OsStr::to_str).and_then(part_name);
        let (common, _) = name.ok_or_else(|| {
            io::Error::other(format!("{what} whose file is not named NAME.meta, NAME.index or NAME.0"))
        })?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let copies =
            tempfile::Builder::new().prefix("whyslow-read-").permissions(Permissions::from_mode(0o755)).tempdir()?;
        let mut left = LARGEST;
        let mut is_described = false;
        for entry in folder.read_dir()? {
            let name = entry?.file_name();
            let Some((_, part)) = name.to_str().and_then(part_name).filter(|(own, _)| *own == common) else { continue };
            let part = part.split('.').next().unwrap_or_default();
            is_described |= part == METADATA;
            let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
            let original = OpenOptions::new().read(true).custom_flags(flags).open(folder.join(&name))?;
            if !original.metadata()?.is_file() {
                continue;
            }
            let to = copies.path().join(format!("{}.{part}", Self::NAME));
            // A part and its compressed copy exist together while the part is being compressed.
            let Ok(mut copy) = OpenOptions::new().write(true).create_new(true).mode(0o644).open(to) else { continue };
            left -= io::copy(&mut opened(original, monitor)?.take(left), &mut copy)?;
            if left == 0 {
                return Err(too_large(what, converter.programs[0]));
            }
        }
        if !is_described {
            return Err(io::Error::other(format!("{what} without its {common}.{METADATA}, which names its metrics")));
        }
        Ok(Self(copies))
    }

    /// Returns the common name of the copies.
    fn name(&self) -> PathBuf {
        self.0.path().join(Self::NAME)
    }
}

/// Returns the file, readable by any user: an unnamed copy if the original is not.
fn readable_by_all(file: &mut File) -> io::Result<File> {
    const OTHERS_READ: u32 = 0o004;
    if file.metadata()?.mode() & OTHERS_READ != 0 {
        return file.try_clone();
    }
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut file.by_ref().take(LARGEST), &mut copy)?;
    copy.set_permissions(Permissions::from_mode(0o444))?;
    copy.seek(SeekFrom::Start(0))?;
    Ok(copy)
}

fn limited() -> io::Result<()> {
    let limits = [
        (libc::RLIMIT_AS, MOST_MEMORY),
        (libc::RLIMIT_CPU, MOST_CPU_SECONDS),
        (libc::RLIMIT_FSIZE, 0),
        (libc::RLIMIT_NOFILE, MOST_FILES),
        (libc::RLIMIT_CORE, 0),
    ];
    for (resource, most) in limits {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: the limit outlives the call, which only reads it.
        if unsafe { libc::setrlimit(resource, &limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // The tool ends with this process, and gains no privileges by executing anything.
    // SAFETY: both calls take numbers only.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    }
    Ok(())
}

struct Conversion {
    converter: &'static Converter,
    child: Child,
    stdout: ChildStdout,
    monitor: Arc<ReadMonitor>,
    end: Instant,
    /// Whether the tool has printed anything.
    any: bool,
    /// Files that the tool reads; removed on drop.
    _parts: Option<RecordingParts>,
}

impl Conversion {
    /// Waits until output is available.
    fn wait(&self) -> io::Result<()> {
        loop {
            self.monitor.stopped()?;
            if Instant::now() > self.end {
                let most = MOST_TIME.as_secs();
                let program = self.converter.programs[0];
                return Err(over_limit(format!("{program} takes more than {most} s; convert a part of it first")));
            }
            let mut poll = libc::pollfd { fd: self.stdout.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one pollfd is passed, which outlives the call.
            if unsafe { libc::poll(&mut poll, 1, CHECK_MS) } > 0 {
                return Ok(());
            }
        }
    }
}

impl Read for Conversion {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait()?;
        let count = self.stdout.read(buffer)?;
        self.any |= count > 0;
        if count == 0 && !buffer.is_empty() {
            let status = self.child.wait()?;
            // atop reports a file of another version without a failure status.
            if !status.success() || !self.any {
                let Converter { programs: [program, ..], by_hand, .. } = self.converter else { return Ok(0) };
                let why =
                    format!("{program} cannot read it; where another version wrote it, convert it first: {by_hand}");
                return Err(io::Error::other(format!("{why} ({status})")));
            }
        }
        Ok(count)
    }
}

impl Drop for Conversion {
    fn drop(&mut self) {
        // The error does not matter: the child may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
