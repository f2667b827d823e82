//! Runs a program up to one of its system calls and sends it a signal there (ptrace(2)).

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Result of a run.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The signal was sent, and the program ended in some way.
    Signalled,
    /// The program exited earlier, with this status.
    Exited(i32),
}

/// System calls that change something outside the program. A kill anywhere else is equivalent to a kill at the entry of
/// the next of these.
const CHANGING: [libc::c_long; 12] = [
    libc::SYS_write,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_flock,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_mkdir,
    libc::SYS_clone3,
    libc::SYS_exit_group,
];

/// Point at which a signal is sent.
#[derive(Clone, Copy)]
pub struct Point {
    /// Number of stops before it.
    pub stop: usize,
    /// Whether each system call has two stops, instead of one at each call that changes something.
    pub every: bool,
    /// The signal.
    pub signal: libc::c_int,
}

/// Runs `command` and sends it a signal at the entry of the `stop`th system call that changes something, counted from
/// 0; with `every`, at the entry or exit of any system call.
#[expect(clippy::zombie_processes, reason = "the tracer waits for its child by waitpid")]
pub fn run_until(mut command: Command, point: Point) -> End {
    // SAFETY: only a system call is made between fork and exec.
    unsafe {
        command.pre_exec(|| {
            if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        });
    }
    let child = command.spawn().unwrap();
    let pid = child.id() as libc::pid_t;
    let mut stops = 0;
    wait(pid);
    // SAFETY: we have stopped the child; the options are flags.
    unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL) };
    let mut signal = 0;
    loop {
        // SAFETY: we have stopped the child.
        unsafe { libc::ptrace(libc::PTRACE_SYSCALL, pid, 0, signal) };
        let status = wait(pid);
        signal = 0;
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            return if stops > point.stop { End::Signalled } else { End::Exited(libc::WEXITSTATUS(status)) };
        }
        if libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) != libc::SIGTRAP | 0x80 {
            signal = libc::WSTOPSIG(status);
            continue;
        }
        if point.every || entered(pid).is_some_and(|call| CHANGING.contains(&call)) {
            if stops == point.stop {
                // SAFETY: kill has no preconditions; the process is our child and has not been waited for.
                unsafe { libc::kill(pid, point.signal) };
            }
            stops += 1;
        }
    }
}

/// Returns the system call at whose entry a child has stopped; `None` at an exit.
fn entered(pid: libc::pid_t) -> Option<libc::c_long> {
    // SAFETY: all zero bytes are a valid ptrace_syscall_info.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let size = std::mem::size_of_val(&info);
    // SAFETY: we have stopped the child, and `info` has the given size.
    unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, pid, size, &raw mut info) };
    if info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return None;
    }
    // SAFETY: at an entry, the union holds the entry.
    Some(unsafe { info.u.entry.nr } as libc::c_long)
}

fn wait(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    while unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) } < 0 {
        let error = std::io::Error::last_os_error();
        assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "{error}");
    }
    status
}
