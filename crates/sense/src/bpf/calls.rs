//! Commands of bpf(2) that aya has no words for.

use aya::Pod;
use aya::maps::{HashMap, IterableMap, MapData, MapError};
use aya::sys::SyscallError;
use std::borrow::Borrow;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Entries asked for at a time; doubled where the kernel has more of one hash.
const ROOM: usize = 256;

/// The numbers of include/uapi/linux/bpf.h.
const BPF_RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BPF_MAP_LOOKUP_BATCH: libc::c_int = 24;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_ITER_CREATE: libc::c_int = 33;
const BPF_TRACE_ITER: u32 = 28;

/// `union bpf_attr`, `batch`.
#[repr(C)]
struct Batch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// The same, `raw_tracepoint`. No name: the program was loaded for a tracepoint.
#[repr(C)]
struct RawTracepoint {
    name: u64,
    prog_fd: u32,
    rest: u32,
}

/// The same, `link_create`.
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    iter_info: u64,
    iter_info_len: u32,
    /// The kernel is shown every byte, and these are to be something.
    rest: u32,
}

/// `union bpf_iter_link_info`, `task`.
#[repr(C)]
#[derive(Default)]
struct OneTask {
    tid: u32,
    pid: u32,
    pid_fd: u32,
}

/// The same, `iter_create`.
#[repr(C)]
struct IterCreate {
    link_fd: u32,
    flags: u32,
}

/// All entries of a hash map, in a call for hundreds of them; to ask for them one by one takes two calls each. What
/// changes while it is read may be missed, or met twice.
///
/// # Errors
/// The kernel does not give the map.
pub(crate) fn entries<T: Borrow<MapData>, K: Pod, V: Pod>(map: &HashMap<T, K, V>) -> Result<Vec<(K, V)>, MapError> {
    let fd = map.map().fd().as_fd();
    let mut found = Vec::new();
    let mut room = ROOM;
    let mut from: Option<u32> = None;
    loop {
        let mut keys = vec![MaybeUninit::<K>::uninit(); room];
        let mut values = vec![MaybeUninit::<V>::uninit(); room];
        let mut next = 0_u32;
        let mut batch = Batch {
            in_batch: from.as_ref().map_or(0, |from| std::ptr::from_ref(from) as u64),
            out_batch: (&raw mut next) as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: room as u32,
            map_fd: fd.as_raw_fd() as u32,
            elem_flags: 0,
            flags: 0,
        };
        // SAFETY: keys and values have room for `count` of the map's (aya has held their sizes against it), and the
        // position of a walk through a hash map is a u32.
        let done = unsafe { bpf(BPF_MAP_LOOKUP_BATCH, &mut batch) };
        let ended = match done {
            Ok(_) => false,
            Err(e) => match e.raw_os_error() {
                Some(libc::ENOENT) => true,
                // One hash has more entries than there was room for.
                Some(libc::ENOSPC) => {
                    room *= 2;
                    continue;
                }
                Some(libc::EINTR) => continue,
                _ => return Err(SyscallError { call: "bpf_map_lookup_batch", io_error: e }.into()),
            },
        };
        let filled = keys.iter().zip(&values).take(batch.count as usize);
        // SAFETY: so many were filled by the kernel, and any bytes make one: both are `Pod`.
        found.extend(filled.map(|(key, value)| unsafe { (key.assume_init(), value.assume_init()) }));
        if ended {
            return Ok(found);
        }
        from = Some(next);
    }
}

/// Attaches a program to the tracepoint that it was loaded for; it is detached when the descriptor is closed.
///
/// # Errors
/// The kernel does not attach it.
pub(super) fn attach_tracepoint(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut to = RawTracepoint { name: 0, prog_fd: program.as_raw_fd() as u32, rest: 0 };
    // SAFETY: there are no addresses in it.
    descriptor(unsafe { bpf(BPF_RAW_TRACEPOINT_OPEN, &mut to) })
}

/// Attaches an iterator to what it goes over, so that it can be run; or, `once`, to our own first thread, so that it is called
/// for that alone.
///
/// # Errors
/// The kernel does not attach it.
pub(super) fn attach_iterator(program: BorrowedFd<'_>, once: bool) -> io::Result<OwnedFd> {
    let ours = OneTask { tid: std::process::id(), ..OneTask::default() };
    let (iter_info, iter_info_len) = if once { (&raw const ours as u64, size_of_val(&ours) as u32) } else { (0, 0) };
    let prog_fd = program.as_raw_fd() as u32;
    let attach_type = BPF_TRACE_ITER;
    let mut link = LinkCreate { prog_fd, target_fd: 0, attach_type, flags: 0, iter_info, iter_info_len, rest: 0 };
    // SAFETY: the only address is that of `ours`, of which the length is told.
    descriptor(unsafe { bpf(BPF_LINK_CREATE, &mut link) })
}

/// A file that holds what an attached iterator writes when it is read.
///
/// # Errors
/// The kernel does not run it.
pub(super) fn run_iterator(link: BorrowedFd<'_>) -> io::Result<File> {
    let mut run = IterCreate { link_fd: link.as_raw_fd() as u32, flags: 0 };
    // SAFETY: there are no addresses in it.
    descriptor(unsafe { bpf(BPF_ITER_CREATE, &mut run) }).map(File::from)
}

fn descriptor(result: io::Result<libc::c_long>) -> io::Result<OwnedFd> {
    // SAFETY: the command has just made this descriptor, for us alone.
    result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// # Safety
/// Addresses in `attributes` must be of memory that the command may read and write.
unsafe fn bpf<A>(command: libc::c_int, attributes: &mut A) -> io::Result<libc::c_long> {
    // SAFETY: the attributes are as long as told, and what they point to is in order, as the caller says.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<A>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use crate::bpf::{Object, include_object};
    use crate::testing::has_bpf;

    /// More entries than one call has room for.
    #[test]
    fn all_entries_are_read() {
        if !has_bpf() {
            return;
        }
        let mut object = Object::load("profile", include_object!("profile"), &Root::live()).unwrap();
        let mut map: HashMap<_, [u64; 2], u64> = HashMap::try_from(object.take_map("spaces").unwrap()).unwrap();
        assert_eq!(entries(&map).unwrap(), []);
        let all: Vec<([u64; 2], u64)> = (0..3 * ROOM as u64 + 7).map(|n| ([n, 1], n * n)).collect();
        all.iter().for_each(|(key, value)| map.insert(key, value, 0).unwrap());
        let mut found = entries(&map).unwrap();
        found.sort_unstable();
        assert_eq!(found, all);
    }
}
