//! What it costs to hand over to another thread or process.

use crate::error::{Error, Result};
use crate::pinned::{Clock, repeat};
use crate::round::keep_to;
use crate::studies::Bench;
use nix::fcntl::OFlag;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe2, read, write};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};
use whyslow_model::bench::{Figure, Study};

const METHOD: &str = "Two threads, or two processes, hand a byte to and fro by two pipes, as perf bench sched pipe has it; told is half \
of a round: write(2), the change to the other, and its read(2). On two processors each goes idle meanwhile, and is woken again.";

/// Rounds between two looks at the clock.
const ROUNDS: u64 = 20;

pub(super) fn study(bench: &mut Bench) -> Result<Study> {
    let cpu = bench.processors.quiet();
    let places = [
        ("one cpu", Some(cpu)),
        ("hyperthreads of a core", bench.processors.sibling(cpu)),
        ("two cores", bench.processors.elsewhere(cpu)),
    ];
    let mut figures = Vec::new();
    for (name, kind) in [("threads", Kind::Thread), ("processes", Kind::Process)] {
        for (under, other) in places {
            if let Some(other) =
                other.filter(|_| bench.session.goes_on_to(&format!("handing over between {name}, {under}")))
            {
                figures.extend(figure(bench, (name, under), kind, [cpu, other])?);
            }
        }
    }
    Ok(Study { name: "context switch".into(), method: METHOD.into(), figures, findings: Vec::new() })
}

fn figure(bench: &Bench, (name, under): (&str, &str), kind: Kind, [cpu, other]: [u32; 2]) -> Result<Option<Figure>> {
    let repeated = repeat(&[cpu], bench.pace(Clock::Passing), |_| {
        let partner = Partner::new(kind, other).map_err(|e| Error::new(format!("{name} to hand over to: {e}")))?;
        Ok(move || {
            // A partner that has ended answers nothing: then nothing was done.
            let rounds = (0..ROUNDS).take_while(|_| partner.round().is_ok()).count() as u64;
            2 * rounds
        })
    })?;
    Ok(repeated.time(name, under))
}

/// What there is on the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Thread,
    Process,
}

/// One that gives back what it is handed. It ends when this is dropped, and where this program is killed: its pipe ends then.
struct Partner {
    to: Option<OwnedFd>,
    from: OwnedFd,
    ends: Ends,
}

/// How its end is waited for.
enum Ends {
    Thread(Option<JoinHandle<()>>),
    Process(Pid),
}

impl Partner {
    fn new(kind: Kind, cpu: u32) -> io::Result<Self> {
        let (hears, to) = pipe2(OFlag::O_CLOEXEC)?;
        let (from, answers) = pipe2(OFlag::O_CLOEXEC)?;
        let ends = match kind {
            Kind::Thread => {
                let echo = move || echo(cpu, &hears, &answers);
                Ends::Thread(Some(thread::Builder::new().name("bench".into()).spawn(echo)?))
            }
            // SAFETY: the child makes system calls only, allocates nothing, takes no lock, and ends with _exit(2).
            Kind::Process => match unsafe { fork() }? {
                ForkResult::Parent { child } => Ends::Process(child),
                ForkResult::Child => {
                    // Its own copy of the end it hears from would keep it from hearing the end of the other.
                    drop((to, from));
                    echo(cpu, &hears, &answers);
                    // SAFETY: _exit(2) ends the process, and nothing else.
                    unsafe { libc::_exit(0) }
                }
            },
        };
        Ok(Self { to: Some(to), from, ends })
    }

    /// To the other and back.
    fn round(&self) -> io::Result<()> {
        let to = self.to.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        write(to, &[0])?;
        hear(&self.from)
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        // It hears the end of its pipe.
        self.to = None;
        match &mut self.ends {
            Ends::Thread(thread) => drop(thread.take().map(JoinHandle::join)),
            Ends::Process(child) => drop(waitpid(*child, None)),
        }
    }
}

/// Gives back each byte until there are no more.
fn echo(cpu: u32, hears: &OwnedFd, answers: &OwnedFd) {
    if keep_to(&[cpu]).is_ok() {
        while hear(hears).is_ok() && write(answers, &[0]).is_ok() {}
    }
}

/// Waits for a byte.
fn hear(pipe: impl AsFd) -> io::Result<()> {
    loop {
        match read(&pipe, &mut [0]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => return Ok(()),
            // Ctrl-C reaches a child process too; it ends when this program lets it.
            Err(nix::Error::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::Processors;
    use nix::sys::wait::WaitPidFlag;
    use whyslow_sense::Root;

    #[test]
    fn a_partner_answers_and_ends_with_whoever_has_it() {
        for cpu in Processors::of(&Root::live()).spread_out() {
            for kind in [Kind::Thread, Kind::Process] {
                let partner = Partner::new(kind, cpu).unwrap();
                for _ in 0..100 {
                    partner.round().unwrap();
                }
                let child = if let Ends::Process(child) = partner.ends { Some(child) } else { None };
                drop(partner);
                let gone = child.map(|child| waitpid(child, Some(WaitPidFlag::WNOHANG)));
                assert!(gone.is_none_or(|gone| gone == Err(nix::Error::ECHILD)), "{gone:?} is left");
            }
        }
    }

    #[test]
    fn one_that_cannot_be_where_it_should_answers_nothing() {
        for kind in [Kind::Thread, Kind::Process] {
            let partner = Partner::new(kind, u32::MAX).unwrap();
            assert!(partner.round().is_err(), "{kind:?}");
        }
    }
}
