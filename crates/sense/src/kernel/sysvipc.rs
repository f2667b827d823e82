//! System V shared memory, semaphores and message queues against their limits (sysvipc(7), proc_sysvipc(5),
//! Documentation/admin-guide/sysctl/kernel.rst). Those of the observer's own IPC namespace.

use super::gauge;
use crate::os::page_size;
use crate::root::Root;
use crate::source::{Miss, Source};
use std::collections::BTreeMap;
use whyslow_model::catalogue::Ipc;
use whyslow_model::key;
use whyslow_model::snapshot::Snapshot;

/// Reads /proc/sysvipc.
pub(super) struct SysvIpc;

impl Source for SysvIpc {
    fn name(&self) -> &'static str {
        "proc/sysvipc"
    }

    fn tells(&self) -> &'static str {
        "System V shared memory, semaphores and message queues against their limits"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let shm = Shm::parse(&root.kept_text("proc/sysvipc/shm")?, page_size());
        let arrays = root.kept_text("proc/sysvipc/sem").ok().map(|t| column(&t, "nsems"));
        let queues = root.kept_text("proc/sysvipc/msg").ok().map(|t| column(&t, "msqid").len() as u64);
        let shm_pages = root.setting_number("proc/sys/kernel/shmall");
        let sem = root.setting("proc/sys/kernel/sem").unwrap_or_default();
        // SEMMSL SEMMNS SEMOPM SEMMNI
        let sem_limit = |field: usize| sem.split_ascii_whitespace().nth(field).and_then(|v| v.parse().ok());
        out.kernel.ipc.push(Ipc {
            host: key::Machine,
            shm_segments: shm.segments.into(),
            shm_segments_max: gauge(root.setting_number("proc/sys/kernel/shmmni")),
            shm_bytes: shm.bytes.into(),
            // Unlimited is spelt as nearly 2^64 pages: their bytes fit a float, not an integer.
            shm_bytes_max: shm_pages
                .map(|pages| pages as f64 * page_size() as f64)
                .map_or_else(Default::default, Into::into),
            shm_segment_max: gauge(root.setting_number("proc/sys/kernel/shmmax")),
            shm_largest: shm.largest.into(),
            shm_creator: gauge(shm.creator),
            sem_arrays: gauge(arrays.as_ref().map(|a| a.len() as u64)),
            sem_arrays_max: gauge(sem_limit(3)),
            semaphores: gauge(arrays.map(|a| a.into_iter().fold(0, u64::saturating_add))),
            semaphores_max: gauge(sem_limit(1)),
            msg_queues: gauge(queues),
            msg_queues_max: gauge(root.setting_number("proc/sys/kernel/msgmni")),
        });
        Ok(())
    }
}

/// Sums over the shared memory segments.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shm {
    segments: u64,
    /// All segments, each rounded up to pages, as the kernel counts them against kernel.shmall.
    bytes: u64,
    largest: u64,
    /// The process that made the most bytes; `None` where there are no segments.
    creator: Option<u64>,
}

impl Shm {
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

/// The numbers in the column that the heading calls `name`; lines that have none there are left out.
fn column(text: &str, name: &str) -> Vec<u64> {
    let mut lines = text.lines();
    let heading = lines.next().unwrap_or_default();
    let Some(at) = heading.split_ascii_whitespace().position(|h| h == name) else { return Vec::new() };
    lines.filter_map(|line| line.split_ascii_whitespace().nth(at)?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHM: &str = "       key      shmid perms                  size  cpid  lpid nattch   uid\n\
                0          0  1600                  4097  100   101      2     0\n\
                0          1  1600                  4096  100   101      2     0\n\
                0          2  1600                  9000  200   101      2     0\n";

    #[test]
    fn segments_are_rounded_up_to_pages() {
        let expected = Shm { segments: 3, bytes: 8192 + 4096 + 12_288, largest: 9000, creator: Some(200) };
        assert_eq!(Shm::parse(SHM, 4096), expected);
    }

    #[test]
    fn nothing_made_has_no_maker() {
        assert_eq!(Shm::parse("key shmid perms size cpid\n", 4096), Shm::default());
        assert_eq!(Shm::parse("", 4096), Shm::default());
    }

    #[test]
    fn unlimited_is_huge_and_does_not_wrap() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/sysvipc/shm", SHM);
        write("proc/sysvipc/sem", "key semid perms nsems uid\n 0 1 600 250 0\n 0 2 600 5 0\n");
        write("proc/sys/kernel/shmall", "18446744073692774399\n");
        write("proc/sys/kernel/sem", "32000\t1024000000\t500\t32000\n");
        let mut out = Snapshot::default();
        SysvIpc.read(&Root::captured(folder.path()), &mut out).unwrap();
        let ipc = &out.kernel.ipc[0];
        assert!(ipc.shm_bytes_max.get().unwrap() > 7.0e22);
        assert_eq!((ipc.sem_arrays.get(), ipc.semaphores.get()), (Some(2.0), Some(255.0)));
        assert_eq!((ipc.semaphores_max.get(), ipc.sem_arrays_max.get()), (Some(1_024_000_000.0), Some(32_000.0)));
        assert_eq!((ipc.msg_queues.get(), ipc.shm_segment_max.get()), (None, None));
    }

    #[test]
    fn a_segment_made_on_the_live_machine_is_counted() {
        let size = 123_457;
        // SAFETY: shmget only makes a segment; it is not mapped.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, size, libc::IPC_CREAT | 0o600) };
        assert!(id >= 0);
        let mut out = Snapshot::default();
        let result = SysvIpc.read(&Root::live(), &mut out);
        // SAFETY: removes the segment made above; the null pointer is not used by IPC_RMID.
        unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
        result.unwrap();
        let ipc = &out.kernel.ipc[0];
        assert!(ipc.shm_segments.get().unwrap() >= 1.0);
        assert!(ipc.shm_largest.get().unwrap() >= size as f64);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String, numbers in "size cpid\n([0-9]{0,25} [0-9]{0,25}\n){0,5}", page in 1u64..) {
            let _ = Shm::parse(&text, page);
            let _ = Shm::parse(&numbers, page);
        }
    }
}
