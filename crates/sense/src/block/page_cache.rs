//! The page cache: crates/sense/bpf/cache.bpf.c. Every read call comes by there, so it is read only where it is asked for.

use super::requests::command;
use crate::bpf::{Object, entries, include_object};
use crate::os::{ns_to_ticks, page_size};
use crate::{Miss, Root, Source, Tempo};
use aya::maps::{HashMap, MapError};
use std::collections::BTreeMap;
use whyslow_model::catalogue::PageCache;
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;

const NAME: &str = "cache";

/// The source of family `page_cache`.
#[derive(Default)]
pub(super) struct Cache {
    object: Option<Result<Object, Miss>>,
}

/// A process, as the program keys it.
#[derive(Clone, Copy)]
#[repr(C)]
struct User {
    start: u64,
    pid: u64,
}

/// What it did.
#[derive(Clone, Copy)]
#[repr(C)]
struct Use {
    lookups: u64,
    misses: u64,
    read_ahead_hits: u64,
    faults: u64,
    faults_cached: u64,
    pages_written_back: u64,
    command: [u8; 16],
}

// SAFETY: whole numbers without gaps between them, for which all bytes make a value.
unsafe impl aya::Pod for User {}
// SAFETY: as above.
unsafe impl aya::Pod for Use {}

impl Source for Cache {
    fn name(&self) -> &'static str {
        "bpf/cache"
    }

    fn tells(&self) -> &'static str {
        "who finds what in the page cache, who waits for it to be read, and whose writing is written back"
    }

    fn tempo(&self) -> Tempo {
        Tempo::Asked
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let object = self.object.get_or_insert_with(|| Object::load(NAME, include_object!("cache"), root));
        let object = object.as_ref().map_err(Miss::clone)?;
        let users: HashMap<_, User, Use> = HashMap::try_from(object.map("users")?).map_err(failed)?;
        let users = entries(&users).map_err(failed)?;
        let rows: BTreeMap<TaskKey, PageCache> = users.into_iter().map(row).collect();
        out.block.page_cache.extend(rows.into_values());
        Ok(())
    }
}

fn row((user, used): (User, Use)) -> (TaskKey, PageCache) {
    let pid = user.pid as u32;
    let task = TaskKey { pid, tid: pid, start: ns_to_ticks(user.start) };
    let row = PageCache {
        command: command(&used.command),
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

fn failed(error: MapError) -> Miss {
    Miss::Failed(format!("BPF {NAME}: {error}"))
}

#[cfg(test)]
mod live_tests {
    use super::*;
    use crate::bpf::is_out_of_reach;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::path::Path;
    use std::process::{Command, Stdio};

    const PAGE: usize = 4096;
    const PAGES: usize = 512;

    /// What a process that reads all of a file, a page a call, did.
    fn read_through(source: &mut Cache, path: &Path) -> PageCache {
        let input = format!("if={}", path.display());
        let mut dd = Command::new("dd");
        let mut dd = dd.args([&*input, "of=/dev/null", "bs=4k"]).stderr(Stdio::null()).spawn().expect("dd runs");
        assert!(dd.wait().unwrap().success());
        rows(source).into_iter().find(|row| row.task.pid == dd.id()).expect("dd was seen")
    }

    fn rows(source: &mut Cache) -> Vec<PageCache> {
        let mut s = Snapshot::default();
        source.read(&Root::live(), &mut s).unwrap();
        s.block.page_cache
    }

    #[test]
    fn what_is_read_for_the_first_time_is_missed_and_then_found() {
        if is_out_of_reach() {
            return;
        }
        let mut source = Cache::default();
        rows(&mut source);
        // On a disk: a file in memory is never read ahead.
        let mut file = tempfile::NamedTempFile::with_prefix_in("wsl-block-", env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![1; PAGES * PAGE]).unwrap();
        file.as_file().sync_all().unwrap();
        // SAFETY: advice on an open file; no memory of ours is touched.
        unsafe { libc::posix_fadvise(file.as_file().as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        let cold = read_through(&mut source, file.path());
        let warm = read_through(&mut source, file.path());
        assert_eq!(cold.command.get(), Some("dd"));
        assert!(cold.lookups.get().unwrap() >= PAGES as u64 && warm.lookups.get().unwrap() >= PAGES as u64);
        assert!(cold.misses.get().unwrap() > warm.misses.get().unwrap(), "{cold:?} {warm:?}");
        assert!(cold.read_ahead_hits.get().unwrap() > 0, "{cold:?}");
    }

    #[test]
    fn what_the_kernel_writes_back_is_charged_to_who_wrote_it() {
        if is_out_of_reach() {
            return;
        }
        let mut source = Cache::default();
        rows(&mut source);
        let file = tempfile::NamedTempFile::with_prefix_in("wsl-block-", env!("CARGO_MANIFEST_DIR")).unwrap();
        let output = format!("of={}", file.path().display());
        let mut dd = Command::new("dd");
        let dd = dd.args(["if=/dev/zero", &output, "bs=64k", "count=32", "conv=notrunc"]).stderr(Stdio::null());
        let mut dd = dd.spawn().expect("dd runs");
        assert!(dd.wait().unwrap().success());
        // SAFETY: the descriptor is open; no memory of ours is touched.
        assert_eq!(unsafe { libc::syncfs(file.as_file().as_raw_fd()) }, 0);
        let row = rows(&mut source).into_iter().find(|row| row.task.pid == dd.id()).expect("dd was seen");
        assert_eq!(row.written_back.get(), Some(32 * 65536), "{row:?}");
    }
}
