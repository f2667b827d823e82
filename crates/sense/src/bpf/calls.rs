//! Commands of bpf(2) that aya does not provide.

use aya::Pod;
use aya::maps::{HashMap, IterableMap, MapData, MapError};
use aya::sys::SyscallError;
use std::borrow::Borrow;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Entries per call; doubled if a hash bucket has more.
const BATCH_SIZE: usize = 256;

// Constants of include/uapi/linux/bpf.h.
const BPF_RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BPF_MAP_LOOKUP_BATCH: libc::c_int = 24;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_ITER_CREATE: libc::c_int = 33;
const BPF_TRACE_ITER: u32 = 28;

/// `batch` of `union bpf_attr`.
#[repr(C)]
struct BatchAttr {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// `raw_tracepoint`, without a name, because the program was loaded for its tracepoint.
#[repr(C)]
struct RawTracepoint {
    name: u64,
    prog_fd: u32,
    rest: u32,
}

/// `link_create`.
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    iter_info: u64,
    iter_info_len: u32,
    /// Explicit padding: the kernel sees every byte.
    rest: u32,
}

/// `task` of `union bpf_iter_link_info`.
#[repr(C)]
#[derive(Default)]
struct OneTask {
    tid: u32,
    pid: u32,
    pid_fd: u32,
}

/// `iter_create`.
#[repr(C)]
struct IterCreate {
    link_fd: u32,
    flags: u32,
}

/// Reads all entries of a hash map, hundreds per call; reading them one by one takes two calls each. Entries that change
/// meanwhile may be missed or returned twice.
pub(crate) fn entries<T: Borrow<MapData>, K: Pod, V: Pod>(map: &HashMap<T, K, V>) -> Result<Vec<(K, V)>, MapError> {
    let fd = map.map().fd().as_fd();
    let mut found = Vec::new();
    let mut size = BATCH_SIZE;
    let mut from: Option<u32> = None;
    loop {
        let mut keys = vec![MaybeUninit::<K>::uninit(); size];
        let mut values = vec![MaybeUninit::<V>::uninit(); size];
        let mut next = 0_u32;
        let mut batch = BatchAttr {
            in_batch: from.as_ref().map_or(0, |from| std::ptr::from_ref(from) as u64),
            out_batch: (&raw mut next) as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: size as u32,
            map_fd: fd.as_raw_fd() as u32,
            elem_flags: 0,
            flags: 0,
        };
        // SAFETY: keys and values have room for `count` entries (aya has checked their sizes), and the position in a hash map is a
        // u32.
        let done = unsafe { bpf(BPF_MAP_LOOKUP_BATCH, &mut batch) };
        let ended = match done {
            Ok(_) => false,
            Err(e) => match e.raw_os_error() {
                Some(libc::ENOENT) => true,
                // A bucket has more entries than fit.
                Some(libc::ENOSPC) => {
                    size *= 2;
                    continue;
                }
                Some(libc::EINTR) => continue,
                _ => return Err(SyscallError { call: "bpf_map_lookup_batch", io_error: e }.into()),
            },
        };
        let filled = keys.iter().zip(&values).take(batch.count as usize);
        // SAFETY: the kernel filled `count` of them, and any bytes are valid: both are `Pod`.
        found.extend(filled.map(|(key, value)| unsafe { (key.assume_init(), value.assume_init()) }));
        if ended {
            return Ok(found);
        }
        from = Some(next);
    }
}

/// Attaches a program to the tracepoint that it was loaded for, until the descriptor is closed.
pub(super) fn attach_tracepoint(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut to = RawTracepoint { name: 0, prog_fd: program.as_raw_fd() as u32, rest: 0 };
    // SAFETY: it contains no addresses.
    descriptor(unsafe { bpf(BPF_RAW_TRACEPOINT_OPEN, &mut to) })
}

/// Attaches an iterator, so that it can be run; with `once`, only to our own main thread, so that it is called once.
pub(super) fn attach_iterator(program: BorrowedFd<'_>, once: bool) -> io::Result<OwnedFd> {
    let ours = OneTask { tid: std::process::id(), ..OneTask::default() };
    let (iter_info, iter_info_len) = if once { (&raw const ours as u64, size_of_val(&ours) as u32) } else { (0, 0) };
    let prog_fd = program.as_raw_fd() as u32;
    let attach_type = BPF_TRACE_ITER;
    let mut link = LinkCreate { prog_fd, target_fd: 0, attach_type, flags: 0, iter_info, iter_info_len, rest: 0 };
    // SAFETY: the only address is that of `ours`, with its length.
    descriptor(unsafe { bpf(BPF_LINK_CREATE, &mut link) })
}

/// Opens a file from which the output of an attached iterator can be read.
pub(super) fn run_iterator(link: BorrowedFd<'_>) -> io::Result<File> {
    let mut run = IterCreate { link_fd: link.as_raw_fd() as u32, flags: 0 };
    // SAFETY: it contains no addresses.
    descriptor(unsafe { bpf(BPF_ITER_CREATE, &mut run) }).map(File::from)
}

fn descriptor(result: io::Result<libc::c_long>) -> io::Result<OwnedFd> {
    // SAFETY: the command has just created this descriptor, and nothing else owns it.
    result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Calls bpf(2).
///
/// # Safety
/// Addresses in `attributes` must point to memory that the command may read and write.
unsafe fn bpf<A>(command: libc::c_int, attributes: &mut A) -> io::Result<libc::c_long> {
    // SAFETY: the size is that of the attributes, and the caller vouches for the addresses in them.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<A>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use crate::bpf::{Object, include_object};
    use crate::testing::has_bpf;

    /// More entries than fit into one call.
    #[test]
    fn all_entries_are_read() {
        if !has_bpf() {
            return;
        }
        let mut object = Object::load("profile", include_object!("profile"), &Root::live()).unwrap();
        let mut map: HashMap<_, [u64; 2], u64> = HashMap::try_from(object.take_map("address_spaces").unwrap()).unwrap();
        assert_eq!(entries(&map).unwrap(), []);
        let all: Vec<([u64; 2], u64)> = (0..3 * BATCH_SIZE as u64 + 7).map(|n| ([n, 1], n * n)).collect();
        all.iter().for_each(|(key, value)| map.insert(key, value, 0).unwrap());
        let mut found = entries(&map).unwrap();
        found.sort_unstable();
        assert_eq!(found, all);
    }
}
