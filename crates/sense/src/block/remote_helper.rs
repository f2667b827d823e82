//! A helper process that calls statvfs on mounts whose answer depends on a server or a FUSE program.
//!
//! A thread that waits for such an answer may be unkillable (request_wait_answer in fs/fuse/dev.c), and a program does not end
//! before its threads. So no thread of ours asks: a helper does, and is abandoned if it gets no answer. While it asks, it holds
//! an abstract socket (unix(7)) that is named after the mount, and the kernel frees the name only when the process ends: as long
//! as one helper is stuck in a mount, no other program asks the same mount.

use super::statvfs::{FsSpace, statvfs};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// The program that runs [`serve`], and its arguments.
static PROGRAM: OnceLock<(PathBuf, Vec<OsString>)> = OnceLock::new();

/// Longest text accepted; longer than any path (include/uapi/linux/limits.h).
const LONGEST: usize = 1 << 16;
const NUMBERS: usize = 5;
const ANSWER: usize = 1 + NUMBERS * 8;

/// Sets the program that runs [`serve`]. Without it, the space of mounts that depend on a server or a FUSE program is not
/// queried.
pub fn set_helper(program: PathBuf, arguments: Vec<OsString>) {
    // Only the first call has an effect.
    let _ = PROGRAM.set((program, arguments));
}

/// Answers requests on standard input until it ends.
///
/// # Errors
/// Fails if the other end uses another protocol.
pub fn serve() -> io::Result<()> {
    // Closes the files inherited from the parent, so that they do not stay open if this process hangs.
    // SAFETY: nothing in this process uses a descriptor beyond the standard ones.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
    let (mut requests, mut answers) = (io::stdin().lock(), io::stdout().lock());
    while let Some(name) = text(&mut requests)? {
        let point = text(&mut requests)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        answers.write_all(&encoded(&asked(&name, &point)))?;
        answers.flush()?;
    }
    Ok(())
}

/// Result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Space(FsSpace),
    /// Not permitted, or the mount is gone.
    Nothing,
    /// Another helper is asking the same mount.
    Asked,
}

fn asked(name: &str, point: &str) -> Answer {
    let address = SocketAddr::from_abstract_name(name);
    match address.and_then(|address| UnixDatagram::bind_addr(&address)) {
        Ok(_held) => statvfs(point).map_or(Answer::Nothing, Answer::Space),
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => Answer::Asked,
        Err(_) => Answer::Nothing,
    }
}

fn encoded(answer: &Answer) -> [u8; ANSWER] {
    let (kind, numbers) = match answer {
        Answer::Space(space) => (0, [space.size, space.free, space.available, space.inodes, space.inodes_free]),
        Answer::Nothing => (1, [0; NUMBERS]),
        Answer::Asked => (2, [0; NUMBERS]),
    };
    let mut bytes = [kind; ANSWER];
    for (to, number) in bytes[1..].chunks_exact_mut(8).zip(numbers) {
        to.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn decoded(bytes: &[u8; ANSWER]) -> Option<Answer> {
    let mut numbers = [0; NUMBERS];
    for (number, from) in numbers.iter_mut().zip(bytes[1..].chunks_exact(8)) {
        *number = u64::from_le_bytes(from.try_into().ok()?);
    }
    let [size, free, available, inodes, inodes_free] = numbers;
    match bytes[0] {
        0 => Some(Answer::Space(FsSpace { size, free, available, inodes, inodes_free })),
        1 => Some(Answer::Nothing),
        2 => Some(Answer::Asked),
        _ => None,
    }
}

/// Reads a length-prefixed text; `None` at the end.
fn text(from: &mut impl Read) -> io::Result<Option<String>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    String::from_utf8(bytes).map(Some).map_err(io::Error::other)
}

#[derive(Debug)]
pub(super) struct Helper {
    child: Child,
    requests: ChildStdin,
    answers: ChildStdout,
}

impl Helper {
    /// Starts a helper. Returns `None` if no program was set or it cannot be started.
    pub(super) fn start() -> Option<Self> {
        let (program, arguments) = PROGRAM.get()?;
        let mut command = Command::new(program);
        // A process that hangs must not keep a directory or an output busy.
        command.args(arguments).current_dir("/").stderr(Stdio::null());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let (requests, answers) = (child.stdin.take()?, child.stdout.take()?);
        Some(Self { child, requests, answers })
    }

    /// Asks for the space of a mount. Returns `None` if there is no answer in time; the helper is then unusable.
    pub(super) fn ask(&mut self, name: &str, point: &str, timeout: Duration) -> Option<Answer> {
        let mut request = Vec::new();
        for text in [name, point] {
            request.extend(u32::try_from(text.len()).ok()?.to_le_bytes());
            request.extend(text.as_bytes());
        }
        self.requests.write_all(&request).ok()?;
        let mut poll = libc::pollfd { fd: self.answers.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the pointer is to one pollfd, as the count says.
        if unsafe { libc::poll(&raw mut poll, 1, timeout) } != 1 {
            return None;
        }
        let mut answer = [0; ANSWER];
        self.answers.read_exact(&mut answer).ok()?;
        decoded(&answer)
    }

    /// Kills the helper and waits briefly for its end. Returns the process if it does not end.
    pub(super) fn give_up(mut self) -> Option<Child> {
        const STEPS: u32 = 20;
        let _ = self.child.kill();
        for _ in 0..STEPS {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(self.child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let space = FsSpace { size: 1, free: 2, available: u64::MAX, inodes: 4, inodes_free: 5 };
        for answer in [Answer::Space(space), Answer::Nothing, Answer::Asked] {
            assert_eq!(decoded(&encoded(&answer)), Some(answer));
        }
        assert_eq!(decoded(&[9; ANSWER]), None);
    }

    #[test]
    fn a_mount_that_is_being_asked_is_not_asked_by_another() {
        let name = whyslow_testing::name("mount");
        assert!(matches!(asked(&name, "/"), Answer::Space(_)));
        let held = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        assert_eq!(asked(&name, "/"), Answer::Asked);
        drop(held);
        assert!(matches!(asked(&name, "/"), Answer::Space(_)));
        assert_eq!(asked(&name, "/no/such/wsl-mount"), Answer::Nothing);
    }

    #[test]
    fn a_request_that_is_cut_off_is_an_error() {
        let mut whole: &[u8] = b"\x01\0\0\0a";
        assert_eq!(text(&mut whole).unwrap().as_deref(), Some("a"));
        assert_eq!(text(&mut whole).unwrap(), None);
        for wrong in [&b"\x02\0\0\0a"[..], b"\xff\xff\xff\xff", b"\x01\0\0\0\xff"] {
            assert!(text(&mut &*wrong).is_err(), "{wrong:?}");
        }
    }
}
