//! The cost of a context switch between threads and between processes.

use crate::round::pin_to;
use crate::study::StudyContext;
use crate::study::{TimeBasis, repeat};
use crate::{Error, Result};
use nix::fcntl::OFlag;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe2, read, write};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};
use whyslow_documents::bench::{Measurement, Study};

const METHOD: &str = "Half a round trip of a byte over two pipes (perf bench sched pipe).";

/// Round trips between two clock reads.
const ROUNDS: u64 = 20;

pub(super) fn study(context: &mut StudyContext) -> Result<Study> {
    let cpu = context.topology.quiet_cpu();
    let places = [
        ("one cpu", Some(cpu)),
        ("hyperthreads of a core", context.topology.sibling(cpu)),
        ("two cores", context.topology.on_other_core(cpu)),
    ];
    let mut figures = Vec::new();
    for (name, kind) in [("threads", PartnerKind::Thread), ("processes", PartnerKind::Process)] {
        for (under, other) in places {
            if let Some(other) =
                other.filter(|_| context.session.proceed_to(&format!("handing over between {name}, {under}")))
            {
                figures.extend(figure(context, (name, under), kind, [cpu, other])?);
            }
        }
    }
    Ok(Study { name: "context switch".into(), method: METHOD.into(), figures, ..Study::default() })
}

fn figure(
    context: &StudyContext,
    (name, under): (&str, &str),
    kind: PartnerKind,
    [cpu, other]: [u32; 2],
) -> Result<Option<Measurement>> {
    let repeated = repeat(&[cpu], context.options(TimeBasis::Wall), |_| {
        let partner =
            PingPongPartner::new(kind, other).map_err(|e| Error::new(format!("{name} to hand over to: {e}")))?;
        Ok(move || {
            // A partner that has ended does not answer.
            let rounds = (0..ROUNDS).take_while(|_| partner.round().is_ok()).count() as u64;
            2 * rounds
        })
    })?;
    Ok(repeated.time(name, under))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartnerKind {
    Thread,
    Process,
}

/// A partner that echoes each byte. Ends when dropped, or when this program is killed and its pipe closes.
struct PingPongPartner {
    to: Option<OwnedFd>,
    from: OwnedFd,
    ends: PartnerHandle,
}

enum PartnerHandle {
    Thread(Option<JoinHandle<()>>),
    Process(Pid),
}

impl PingPongPartner {
    fn new(kind: PartnerKind, cpu: u32) -> io::Result<Self> {
        let (input, to) = pipe2(OFlag::O_CLOEXEC)?;
        let (from, output) = pipe2(OFlag::O_CLOEXEC)?;
        let ends = match kind {
            PartnerKind::Thread => {
                let echo = move || echo(cpu, &input, &output);
                PartnerHandle::Thread(Some(thread::Builder::new().name("bench".into()).spawn(echo)?))
            }
            // SAFETY: the child only makes system calls, allocates nothing, takes no lock, and ends with _exit(2).
            PartnerKind::Process => match unsafe { fork() }? {
                ForkResult::Parent { child } => PartnerHandle::Process(child),
                ForkResult::Child => {
                    // With a copy of the writing end, it would never see the pipe close.
                    drop((to, from));
                    echo(cpu, &input, &output);
                    // SAFETY: _exit(2) only ends the process.
                    unsafe { libc::_exit(0) }
                }
            },
        };
        Ok(Self { to: Some(to), from, ends })
    }

    fn round(&self) -> io::Result<()> {
        let to = self.to.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        write(to, &[0])?;
        read_byte(&self.from)
    }
}

impl Drop for PingPongPartner {
    fn drop(&mut self) {
        // Close the pipe.
        self.to = None;
        match &mut self.ends {
            PartnerHandle::Thread(thread) => drop(thread.take().map(JoinHandle::join)),
            PartnerHandle::Process(child) => drop(waitpid(*child, None)),
        }
    }
}

fn echo(cpu: u32, input: &OwnedFd, output: &OwnedFd) {
    if pin_to(&[cpu]).is_ok() {
        while read_byte(input).is_ok() && write(output, &[0]).is_ok() {}
    }
}

fn read_byte(pipe: impl AsFd) -> io::Result<()> {
    loop {
        match read(&pipe, &mut [0]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => return Ok(()),
            // Ctrl-C reaches the child too; it ends when its pipe closes.
            Err(nix::Error::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_topology::CpuTopology;
    use nix::sys::wait::WaitPidFlag;
    use whyslow_sense::Root;

    #[test]
    fn a_partner_answers_and_ends_when_dropped() {
        for cpu in CpuTopology::read(&Root::live()).spread_over_cores() {
            for kind in [PartnerKind::Thread, PartnerKind::Process] {
                let partner = PingPongPartner::new(kind, cpu).unwrap();
                for _ in 0..100 {
                    partner.round().unwrap();
                }
                let child = if let PartnerHandle::Process(child) = partner.ends { Some(child) } else { None };
                drop(partner);
                let gone = child.map(|child| waitpid(child, Some(WaitPidFlag::WNOHANG)));
                assert!(gone.is_none_or(|gone| gone == Err(nix::Error::ECHILD)), "{gone:?} is left");
            }
        }
    }

    #[test]
    fn a_partner_that_cannot_be_pinned_does_not_answer() {
        for kind in [PartnerKind::Thread, PartnerKind::Process] {
            let partner = PingPongPartner::new(kind, u32::MAX).unwrap();
            assert!(partner.round().is_err(), "{kind:?}");
        }
    }
}
