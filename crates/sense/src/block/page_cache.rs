//! Page cache use by process (crates/sense/bpf/cache.bpf.c). Read on demand only, because the program runs in every read call.

use crate::bpf::{Object, c_string, c_struct, include_object};
use crate::os::{ns_to_ticks, page_size};
use crate::{Root, SourceError, SourceInfo};
use std::collections::BTreeMap;
use whyslow_model::catalogue::PageCache;
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;

c_struct! {
    /// `struct cache_user`.
    struct CacheUser {
        start: u64,
        pid: u64,
    }

    /// `struct cache_counts`.
    struct CacheCounts {
        lookups: u64,
        misses: u64,
        read_ahead_hits: u64,
        faults: u64,
        faults_cached: u64,
        pages_written_back: u64,
        command: [u8; 16],
    }
}

pub(super) const INFO: SourceInfo =
    SourceInfo::new("bpf/cache", "page cache hits, misses and waits by process, and whose writes are written back")
        .on_demand();

pub(super) fn load(root: &Root) -> Result<Object, SourceError> {
    Object::load("cache", include_object!("cache"), root)
}

pub(super) fn read(object: &mut Object, _: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let rows: BTreeMap<TaskKey, PageCache> = object.entries("users")?.into_iter().map(row).collect();
    out.block.page_cache.extend(rows.into_values());
    Ok(())
}

fn row((user, used): (CacheUser, CacheCounts)) -> (TaskKey, PageCache) {
    let pid = user.pid as u32;
    let task = TaskKey { pid, tid: pid, start: ns_to_ticks(user.start) };
    let row = PageCache {
        command: c_string(&used.command).into(),
        lookups: used.lookups.into(),
        misses: used.misses.into(),
        read_ahead_hits: used.read_ahead_hits.into(),
        faults: used.faults.into(),
        faults_cached: used.faults_cached.into(),
        written_back: (used.pages_written_back * page_size()).into(),
        ..PageCache::new(task)
    };
    (task, row)
}

#[cfg(test)]
mod live_tests {
    use super::*;
    use crate::source::{Source, loaded};
    use crate::testing::{attached, read};
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    const PAGE: usize = 4096;
    const PAGES: usize = 512;

    /// Runs dd with these arguments and returns its row.
    fn dd(source: &mut dyn Source, arguments: &[&str]) -> PageCache {
        let mut dd = Command::new("dd").args(arguments).stderr(Stdio::null()).spawn().expect("dd runs");
        assert!(dd.wait().unwrap().success());
        row_of(source, dd.id())
    }

    fn row_of(source: &mut dyn Source, pid: u32) -> PageCache {
        read(source).block.page_cache.clone().into_iter().find(|row| row.task.pid == pid).expect("dd has a row")
    }

    #[test]
    fn the_first_read_misses_and_the_second_hits() {
        let Some(mut source) = attached(loaded(INFO, load, super::read)) else { return };
        // On a disk, because tmpfs has no read-ahead.
        let mut file = whyslow_testing::file_in("/var/tmp");
        file.write_all(&vec![1; PAGES * PAGE]).unwrap();
        file.as_file().sync_all().unwrap();
        // SAFETY: advice on an open file; no memory of ours is touched.
        unsafe { libc::posix_fadvise(file.as_file().as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        let input = format!("if={}", file.path().display());
        let [cold, warm] = [(), ()].map(|()| dd(&mut *source, &[&input, "of=/dev/null", "bs=4k"]));
        assert_eq!(cold.command.get(), Some("dd"));
        assert!(cold.lookups.get().unwrap() >= PAGES as u64 && warm.lookups.get().unwrap() >= PAGES as u64);
        assert!(cold.misses.get().unwrap() > warm.misses.get().unwrap(), "{cold:?} {warm:?}");
        assert!(cold.read_ahead_hits.get().unwrap() > 0, "{cold:?}");
    }

    #[test]
    fn writeback_is_attributed_to_the_process_that_wrote() {
        let Some(mut source) = attached(loaded(INFO, load, super::read)) else { return };
        let file = whyslow_testing::file_in("/var/tmp");
        let output = format!("of={}", file.path().display());
        let pid = dd(&mut *source, &["if=/dev/zero", &output, "bs=64k", "count=32", "conv=notrunc"]).task.pid;
        // SAFETY: the descriptor is open; no memory of ours is touched.
        assert_eq!(unsafe { libc::syncfs(file.as_file().as_raw_fd()) }, 0);
        let row = row_of(&mut *source, pid);
        assert_eq!(row.written_back.get(), Some(32 * 65536), "{row:?}");
    }
}
