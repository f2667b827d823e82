//! The process to profile: its name, and whether it still exists.

use crate::root::Root;
use crate::source_error::SourceError;
use std::fs::File;
use std::os::unix::fs::FileExt;
use whyslow_documents::profile::ProfiledProcess;

/// PROC_PID_INIT_INO, include/linux/proc_ns.h.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// A process whose PID may be reused.
#[derive(Debug)]
pub(super) struct Target {
    process: ProfiledProcess,
    /// Reading it fails once the process has ended.
    stat: File,
}

impl Target {
    pub(super) fn find(pid: u32, root: &Root) -> Result<Self, SourceError> {
        let gone = || SourceError::Absent(format!("there is no process {pid}"));
        let status = root.maybe(&format!("proc/{pid}/status")).ok_or_else(gone)?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        match field("Tgid:").and_then(|tgid| tgid.parse::<u32>().ok()) {
            Some(tgid) if tgid != pid => {
                return Err(SourceError::Absent(format!("{pid} is a thread of process {tgid}: use --pid {tgid}")));
            }
            _ => {}
        }
        let name = root.word(&format!("proc/{pid}/comm")).ok_or_else(gone)?;
        let path = format!("proc/{pid}/stat");
        let stat = File::open(root.at(&path)).map_err(|_| gone())?;
        Ok(Self { process: ProfiledProcess { pid, name }, stat })
    }

    /// Whether the process still exists; true also for a zombie.
    pub(super) fn exists(&self) -> bool {
        self.stat.read_at(&mut [0], 0).is_ok()
    }

    pub(super) fn into_process(self) -> ProfiledProcess {
        self.process
    }
}

/// Fails if the observer is not in the initial pid namespace: BPF programs know processes only by their PIDs there.
pub(crate) fn require_own_numbers(root: &Root) -> Result<(), SourceError> {
    match root.link("proc/self/ns/pid") {
        Some(namespace) if namespace != FIRST_NAMESPACE => Err(SourceError::NotPermitted {
            why: "inside a pid namespace, process numbers differ from the kernel's".into(),
            remedy: "run on the host, or in a container with --pid=host".into(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_exists_until_it_has_been_waited_for() {
        let mut child = whyslow_testing::ends_with_test(Command::new("sleep").arg("60")).spawn().unwrap();
        let target = Target::find(child.id(), &Root::live()).unwrap();
        assert!(target.exists());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!target.exists());
        assert_eq!(target.into_process().pid, child.id());
        assert!(matches!(Target::find(child.id(), &Root::live()), Err(SourceError::Absent(_))));
    }

    #[test]
    fn a_thread_is_refused() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: gettid takes nothing and cannot fail.
            sender.send(unsafe { libc::gettid() }).unwrap();
            let _ = ended.recv();
        });
        let tid = u32::try_from(receiver.recv().unwrap()).unwrap();
        let found = Target::find(tid, &Root::live());
        let of = std::process::id();
        assert!(matches!(&found, Err(SourceError::Absent(why)) if why.ends_with(&format!("--pid {of}"))), "{found:?}");
        drop(end);
        thread.join().unwrap();
    }
}
