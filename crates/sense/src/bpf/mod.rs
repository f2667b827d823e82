//! BPF: seeing inside the kernel where it allows that.
//!
//! One object a concern, each loaded, attached and detached by itself. A concern is an ordinary [`Source`](crate::Source) in
//! its wing, that loads its [`Object`] at its first reading and is a blind spot, with reason and remedy, where it cannot.
//! Nothing is pinned: what is attached hangs on file descriptors, which end with the process however it ends.

mod calls;
pub(crate) mod enums;
mod functions;
mod gate;
mod held;
mod object;
mod refusal;
mod tracepoints;

pub(crate) use calls::entries;
pub(crate) use held::Held;
pub(crate) use object::{Object, Types, include_object};
pub(crate) use tracepoints::{Attached, Tracepoints};

/// For tests of the live kernel: whether they cannot run here, which is said, and must not be so under CI=true.
#[cfg(test)]
pub(crate) fn is_out_of_reach() -> bool {
    let Err(miss) = gate::check(&crate::Root::live()) else { return false };
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "under CI=true BPF must be there: {miss:?}");
    eprintln!("skipped: {miss:?}");
    true
}
