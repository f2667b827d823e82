//! Drops privileges that a server does not need, so that a vulnerability in it gives an attacker no more than the rest.

use std::io;

/// A capability, by number (capability.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability(u32);

/// Recordings and credential files may belong to other users.
const DAC_READ_SEARCH: Capability = Capability(2);
const NET_ADMIN: Capability = Capability(12);
const SYS_PTRACE: Capability = Capability(19);
const SYS_ADMIN: Capability = Capability(21);
const SYS_RESOURCE: Capability = Capability(24);
const SYSLOG: Capability = Capability(34);
const PERFMON: Capability = Capability(38);
const BPF: Capability = Capability(39);

/// Capabilities for reading recordings.
pub const OF_RECORDINGS: &[Capability] = &[DAC_READ_SEARCH];
/// Capabilities for reading the live machine, the same as for the services: other users' processes, namespaces, the
/// kernel log, BPF, perf events.
pub const OF_LIVE_MACHINE: &[Capability] =
    &[DAC_READ_SEARCH, NET_ADMIN, SYS_PTRACE, SYS_ADMIN, SYS_RESOURCE, SYSLOG, PERFMON, BPF];

/// Version of the two calls with 64 capabilities (capset(2)).
const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// One half of a thread's capabilities.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Drops all capabilities except these, for this thread and those it starts, and prevents programs that they start from
/// gaining new ones. Must be called before other threads are started.
///
/// # Errors
/// Fails if the kernel refuses.
pub fn keep_only(needed: &[Capability]) -> io::Result<()> {
    let mask = needed.iter().fold(0_u64, |mask, capability| mask | 1 << capability.0);
    // SAFETY: prctl takes numbers here.
    checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    for capability in (0..64_u64).filter(|capability| mask & (1 << capability) == 0) {
        // Refused without privileges, and for numbers unknown to the kernel: then there is nothing to drop. SAFETY:
        // prctl takes numbers here.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: both pointers refer to what the call expects for this version, and outlive it.
    checked(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) } as libc::c_int)?;
    let before = sets;
    for (sets, mask) in sets.iter_mut().zip([mask as u32, (mask >> 32) as u32]) {
        sets.permitted &= mask;
        sets.effective &= mask;
        sets.inheritable &= mask;
    }
    if sets == before {
        // A service may have been started with no more capabilities, and without the right to change them.
        return Ok(());
    }
    // SAFETY: as above; the call only reads.
    checked(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) } as libc::c_int)
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
