//! The process that is profiled: that it is there, what it is called, and when it has gone.

use crate::root::Root;
use crate::source::Miss;
use std::fs::File;
use std::os::unix::fs::FileExt;
use whyslow_model::profile::Process;

/// Number of the first pid namespace (PROC_PID_INIT_INO, include/linux/proc_ns.h).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// A process, however its number may be used again.
#[derive(Debug)]
pub(super) struct Target {
    process: Process,
    /// Stays that process': reading it fails when the process has ended.
    stat: File,
}

impl Target {
    /// The process of a number.
    ///
    /// # Errors
    /// There is none; or it is a thread's.
    pub(super) fn find(pid: u32, root: &Root) -> Result<Self, Miss> {
        let gone = || Miss::Absent(format!("there is no process {pid}"));
        let status = root.maybe(&format!("proc/{pid}/status")).ok_or_else(gone)?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        match field("Tgid:").and_then(|tgid| tgid.parse::<u32>().ok()) {
            Some(tgid) if tgid != pid => {
                return Err(Miss::Absent(format!("{pid} is a thread of process {tgid}: take --pid {tgid}")));
            }
            _ => {}
        }
        let name = root.word(&format!("proc/{pid}/comm")).ok_or_else(gone)?;
        let path = format!("proc/{pid}/stat");
        let stat = File::open(root.at(&path)).map_err(|_| gone())?;
        Ok(Self { process: Process { pid, name }, stat })
    }

    /// Whether it has not ended, or is at least not waited for.
    pub(super) fn is_there(&self) -> bool {
        self.stat.read_at(&mut [0], 0).is_ok()
    }

    pub(super) fn into_process(self) -> Process {
        self.process
    }
}

/// Programs in the kernel know processes by the numbers of the first pid namespace only.
///
/// # Errors
/// We are in another one, in which the same numbers are others.
pub(super) fn require_own_numbers(root: &Root) -> Result<(), Miss> {
    match root.link("proc/self/ns/pid") {
        Some(namespace) if namespace != FIRST_NAMESPACE => Err(Miss::NotPermitted {
            why: "a container's own process numbers are not those the kernel counts by".into(),
            remedy: "run on the host, or in a container with the host's (--pid=host)".into(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_found_and_seen_to_go() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let target = Target::find(child.id(), &Root::live()).unwrap();
        assert!(target.is_there());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!target.is_there());
        assert_eq!(target.into_process().pid, child.id());
        assert!(matches!(Target::find(child.id(), &Root::live()), Err(Miss::Absent(_))));
    }

    #[test]
    fn a_thread_is_no_process() {
        let (told, tell) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: gettid takes nothing and cannot fail.
            told.send(unsafe { libc::gettid() }).unwrap();
            let _ = ended.recv();
        });
        let tid = u32::try_from(tell.recv().unwrap()).unwrap();
        let found = Target::find(tid, &Root::live());
        let of = std::process::id();
        assert!(matches!(&found, Err(Miss::Absent(why)) if why.ends_with(&format!("--pid {of}"))), "{found:?}");
        drop(end);
        thread.join().unwrap();
    }
}
