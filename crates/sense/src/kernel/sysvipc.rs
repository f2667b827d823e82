//! System V shared memory, semaphores and message queues against their limits (sysvipc(7), proc_sysvipc(5),
//! Documentation/admin-guide/sysctl/kernel.rst), in the observer's own IPC namespace.

use crate::os::page_size;
use crate::root::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use std::collections::BTreeMap;
use whyslow_model::catalogue::Ipc;
use whyslow_model::key;
use whyslow_model::snapshot::Snapshot;

pub(super) const INFO: SourceInfo =
    SourceInfo::new("proc/sysvipc", "System V shared memory, semaphores and message queues against their limits");

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let shm = root.polled_text("proc/sysvipc/shm");
    let shm = shm.map(|text| ShmTotals::parse(&text, page_size()));
    let of_shm = |f: fn(&ShmTotals) -> u64| shm.as_ref().ok().map(f);
    let arrays = root.polled_text("proc/sysvipc/sem").ok().map(|t| column(&t, "nsems"));
    let queues = root.polled_text("proc/sysvipc/msg").ok().map(|t| column(&t, "msqid").len() as u64);
    let shm_pages = root.setting_number("proc/sys/kernel/shmall");
    let sem = root.setting("proc/sys/kernel/sem").unwrap_or_default();
    // SEMMSL SEMMNS SEMOPM SEMMNI
    let sem_limit = |field: usize| sem.split_ascii_whitespace().nth(field).and_then(|v| v.parse::<u64>().ok());
    let ipc = Ipc {
        host: key::MachineKey,
        shm_segments: of_shm(|shm| shm.segments).into(),
        shm_segments_max: root.setting_number("proc/sys/kernel/shmmni").into(),
        shm_bytes: of_shm(|shm| shm.bytes).into(),
        // The value for unlimited is almost 2^64 pages; in bytes that fits a float but not an integer.
        shm_bytes_max: shm_pages.map(|pages| pages as f64 * page_size() as f64).into(),
        shm_segment_max: root.setting_number("proc/sys/kernel/shmmax").into(),
        shm_largest: of_shm(|shm| shm.largest).into(),
        shm_creator: shm.as_ref().ok().and_then(|shm| shm.creator).into(),
        sem_arrays: arrays.as_ref().map(|a| a.len() as u64).into(),
        sem_arrays_max: sem_limit(3).into(),
        semaphores: arrays.map(|a| a.into_iter().fold(0, u64::saturating_add)).into(),
        semaphores_max: sem_limit(1).into(),
        msg_queues: queues.into(),
        msg_queues_max: root.setting_number("proc/sys/kernel/msgmni").into(),
    };
    // Captures may have any of these files.
    match shm {
        Err(error) if ipc == Ipc::new(key::MachineKey) => Err(error),
        _ => {
            out.kernel.ipc.push(ipc);
            Ok(())
        }
    }
}

/// Totals of the shared memory segments.
#[derive(Debug, Default, PartialEq, Eq)]
struct ShmTotals {
    segments: u64,
    /// Each segment is rounded up to pages, as in the kernel's check against kernel.shmall.
    bytes: u64,
    largest: u64,
    /// The process that created the most bytes.
    creator: Option<u64>,
}

impl ShmTotals {
    fn parse(text: &str, page: u64) -> Self {
        let mut shm = Self::default();
        let mut made = BTreeMap::<u64, u64>::new();
        for (size, creator) in column(text, "size").into_iter().zip(column(text, "cpid")) {
            let bytes = size.checked_next_multiple_of(page).unwrap_or(u64::MAX);
            shm.segments += 1;
            shm.bytes = shm.bytes.saturating_add(bytes);
            shm.largest = shm.largest.max(size);
            let sum = made.entry(creator).or_default();
            *sum = sum.saturating_add(bytes);
        }
        shm.creator = made.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(creator, _)| creator);
        shm
    }
}

/// Returns the numbers in the column named `name`; skips lines without one.
fn column(text: &str, name: &str) -> Vec<u64> {
    let mut lines = text.lines();
    let heading = lines.next().unwrap_or_default();
    let Some(at) = heading.split_ascii_whitespace().position(|h| h == name) else { return Vec::new() };
    lines.filter_map(|line| line.split_ascii_whitespace().nth(at)?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    const SHM: &str = "       key      shmid perms                  size  cpid  lpid nattch   uid\n\
                0          0  1600                  4097  100   101      2     0\n\
                0          1  1600                  4096  100   101      2     0\n\
                0          2  1600                  9000  200   101      2     0\n";

    #[test]
    fn segments_are_rounded_up_to_pages() {
        let expected = ShmTotals { segments: 3, bytes: 8192 + 4096 + 12_288, largest: 9000, creator: Some(200) };
        assert_eq!(ShmTotals::parse(SHM, 4096), expected);
    }

    #[test]
    fn without_segments_there_is_no_creator() {
        assert_eq!(ShmTotals::parse("key shmid perms size cpid\n", 4096), ShmTotals::default());
        assert_eq!(ShmTotals::parse("", 4096), ShmTotals::default());
    }

    #[test]
    fn an_unlimited_total_does_not_overflow() {
        let tree = CapturedTree::with_files(&[
            ("proc/sysvipc/shm", SHM),
            ("proc/sysvipc/sem", "key semid perms nsems uid\n 0 1 600 250 0\n 0 2 600 5 0\n"),
            ("proc/sys/kernel/shmall", "18446744073692774399\n"),
            ("proc/sys/kernel/sem", "32000\t1024000000\t500\t32000\n"),
        ]);
        let mut out = Snapshot::default();
        assert_eq!(read(&tree.root(), &mut out), Ok(()));
        let ipc = &out.kernel.ipc[0];
        assert!(ipc.shm_bytes_max.get().unwrap() > 7.0e22);
        assert_eq!((ipc.sem_arrays.get(), ipc.semaphores.get()), (Some(2.0), Some(255.0)));
        assert_eq!((ipc.semaphores_max.get(), ipc.sem_arrays_max.get()), (Some(1_024_000_000.0), Some(32_000.0)));
        assert_eq!((ipc.msg_queues.get(), ipc.shm_segment_max.get()), (None, None));
    }

    #[test]
    fn a_segment_created_on_the_live_machine_is_counted() {
        let size = 123_457;
        // SAFETY: shmget only creates a segment; it is not mapped.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, size, libc::IPC_CREAT | 0o600) };
        assert!(id >= 0);
        let mut out = Snapshot::default();
        let outcome = read(&Root::live(), &mut out);
        // SAFETY: removes the segment created above; the null pointer is not used by IPC_RMID.
        unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
        assert_eq!(outcome, Ok(()));
        let ipc = &out.kernel.ipc[0];
        assert!(ipc.shm_segments.get().unwrap() >= 1.0);
        assert!(ipc.shm_largest.get().unwrap() >= size as f64);
    }
}
