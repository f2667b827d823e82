//! Binary files of sar (sa21, sa20240101) and of atop (atop_20240101): only the tools themselves know the layout of each
//! version, so this machine's own sadf(1) and atop(1) convert them to text.
//!
//! The file may be hostile, and the tools are written in C: they run without privileges, under limits, and not for long.

use crate::incident::{ReadMonitor, UnpackedReader, over_limit};
use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A tool that prints its own binary files as text.
struct Converter {
    program: &'static str,
    arguments: &'static [&'static str],
    /// How its files begin.
    magic: &'static [&'static [u8]],
    /// What they are.
    what: &'static str,
    package: &'static str,
    /// How to convert one of another version.
    by_hand: &'static str,
}

const CONVERTERS: [Converter; 2] = [
    Converter {
        program: "sadf",
        arguments: &["-j", "--", "-A", STANDARD_INPUT],
        // SYSSTAT_MAGIC of sa.h, in either byte order.
        magic: &[&[0x96, 0xd5], &[0xd5, 0x96]],
        what: "a binary file of sar",
        package: "sysstat",
        by_hand: "sadf -c FILE > NEW",
    },
    Converter {
        program: "atop",
        arguments: &["-r", STANDARD_INPUT, "-P", "ALL"],
        // MYMAGIC of rawlog.h, in either byte order.
        magic: &[&[0xef, 0xbe, 0xed, 0xfe], &[0xfe, 0xed, 0xbe, 0xef]],
        what: "a raw log of atop",
        package: "atop",
        by_hand: "atopconvert FILE NEW",
    },
];
/// The longest beginning.
const MAGIC_LENGTH: u64 = 4;
/// A day of a large machine, once per second, is smaller.
const LARGEST: u64 = 1 << 30;
/// The limits of a tool: address space, CPU time, open files and total time.
const MOST_MEMORY: u64 = 1 << 30;
const MOST_CPU_SECONDS: u64 = 120;
const MOST_FILES: u64 = 64;
const MOST_TIME: Duration = Duration::from_secs(300);
/// How often to check for an interrupt, in milliseconds.
const CHECK_MS: i32 = 200;
/// The user and group nobody, which a tool runs as if whyslow runs as root.
const NOBODY: u32 = 65534;
/// The file on the tool's standard input, by a name that needs no permissions in its directories.
const STANDARD_INPUT: &str = "/proc/self/fd/0";

/// The content of a binary file of sar or atop as text; `None` for any other file.
///
/// # Errors
/// If it cannot be read, or its tool is not installed.
pub fn converted(file: &mut File, monitor: &Arc<ReadMonitor>) -> io::Result<Option<Box<dyn BufRead>>> {
    let mut magic = Vec::new();
    file.by_ref().take(MAGIC_LENGTH).read_to_end(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    let is_own = |converter: &&Converter| converter.magic.iter().any(|own| magic.starts_with(own));
    let Some(converter) = CONVERTERS.iter().find(is_own) else { return Ok(None) };
    let Converter { program, what, package, .. } = converter;
    if file.metadata()?.len() > LARGEST {
        let most = LARGEST >> 20;
        return Err(over_limit(format!("{what} of more than {most} MiB; convert a part of it with {program} first")));
    }
    // SAFETY: the call takes nothing and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    let input = if root { readable_by_all(file)? } else { file.try_clone()? };
    let mut command = Command::new(program);
    command
        .args(converter.arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()))
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if root {
        command.gid(NOBODY).uid(NOBODY);
    }
    // SAFETY: between fork and exec only setrlimit and prctl are called, which are async-signal-safe.
    unsafe {
        command.pre_exec(limited);
    }
    let mut child = command
        .spawn()
        .map_err(|e| io::Error::new(e.kind(), format!("{what}, which needs {program}: {e}; install {package}")))?;
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other(format!("{program} has no output")))?;
    let monitored = Arc::clone(monitor);
    let output =
        Conversion { converter, child, stdout, monitor: monitored, end: Instant::now() + MOST_TIME, any: false };
    Ok(Some(Box::new(UnpackedReader::new(BufReader::new(output), Arc::clone(monitor)))))
}

/// The file, readable by anyone: an unnamed copy if the original is not.
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
    // It ends with this process, and gains no privileges by executing anything.
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
    /// Whether it has printed anything.
    any: bool,
}

impl Conversion {
    /// Waits until there is something to read.
    fn wait(&self) -> io::Result<()> {
        loop {
            self.monitor.stopped()?;
            if Instant::now() > self.end {
                let most = MOST_TIME.as_secs();
                let program = self.converter.program;
                return Err(over_limit(format!("{program} takes more than {most} s; convert a part of it first")));
            }
            let mut poll = libc::pollfd { fd: self.stdout.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one pollfd is given, which outlives the call.
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
            // atop reports a file of another version without a failure.
            if !status.success() || !self.any {
                let Converter { program, by_hand, .. } = self.converter;
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
        // Nothing is left to tell of one that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
