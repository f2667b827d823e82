//! Page cache: measures how much of a file it holds, drops files from it, and limits its size.

use crate::available_memory::{Hierarchy, own_memory_cgroups};
use crate::remove_leftovers;
use crate::{Error, Result};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use whyslow_sense::Root;

/// struct cachestat_range and struct cachestat (include/uapi/linux/mman.h).
#[repr(C)]
struct CachestatRange {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cache: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// System call number, the same on every architecture (include/uapi/asm-generic/unistd.h).
const SYS_CACHESTAT: libc::c_long = 451;

/// Returns the bytes of a file in the page cache; `None` before Linux 6.5, which introduced cachestat(2).
pub(crate) fn cached(file: &File) -> Option<u64> {
    // Length 0 means up to the end.
    let range = CachestatRange { offset: 0, length: 0 };
    let mut found = Cachestat::default();
    // SAFETY: both structures are laid out as in the kernel's header and outlive the call.
    let status = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut found, 0) };
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten()?;
    (status == 0).then(|| found.cache * page as u64)
}

/// Drops one file from the page cache, writing dirty pages first.
pub(crate) fn drop_cached(file: &File) -> io::Result<()> {
    // A file on a read-only file system has no dirty pages.
    file.sync_data().or_else(|e| if e.raw_os_error() == Some(libc::EROFS) { Ok(()) } else { Err(e) })?;
    Ok(posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?)
}

const PREFIX: &str = "whyslow-bench-";
/// Memory that the program needs in addition to its buffers.
const MIN_LIMIT: u64 = 32 << 20;

/// A memory cgroup that limits this process, page cache included, until dropped.
///
/// Pages already in the cache stay charged to the cgroup that first touched them, so drop the file from the cache
/// first.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    cgroup: PathBuf,
    /// Cgroup of the process before, to which it returns.
    home: PathBuf,
}

impl MemoryLimit {
    pub(crate) fn apply(bytes: u64) -> Result<Self> {
        if bytes < MIN_LIMIT {
            let least = whyslow_model::human::bytes(MIN_LIMIT);
            return Err(Error::new(format!(
                "--cache SIZE must be at least {least}: the program itself needs some of it"
            )));
        }
        let (hierarchy, home) = writable_hierarchy()
            .ok_or_else(|| Error::new("--cache SIZE: no memory cgroup controller is mounted under /sys/fs/cgroup"))?;
        let root = Path::new("/").join(hierarchy.root);
        remove_leftovers(&root, PREFIX, |path, _| fs::remove_dir(path));
        let cgroup = root.join(format!("{PREFIX}{}", std::process::id()));
        // A killed run with the same PID may have left one of that name.
        let _ = fs::remove_dir(&cgroup);
        fs::create_dir(&cgroup).map_err(|e| Error::at(&cgroup, "cannot create a cgroup (needs root)", &e))?;
        let limit = Self { cgroup, home };
        let file = limit.cgroup.join(hierarchy.limit);
        fs::write(&file, bytes.to_string()).map_err(|e| Error::at(&file, "cannot set the limit", &e))?;
        enter(&limit.cgroup).map_err(|e| Error::at(&limit.cgroup, "cannot enter the cgroup", &e))?;
        Ok(limit)
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // Both fail only if another program removed the cgroup; the next run removes what remains.
        let _ = enter(&self.home);
        let _ = fs::remove_dir(&self.cgroup);
    }
}

/// Returns the hierarchy that has the memory controller, and this process's cgroup in it.
fn writable_hierarchy() -> Option<(&'static Hierarchy, PathBuf)> {
    let own = own_memory_cgroups(&Root::live());
    let at = |hierarchy: &Hierarchy, file: &str| Path::new("/").join(hierarchy.root).join(file);
    let has_controller = |hierarchy: &Hierarchy| {
        at(hierarchy, hierarchy.limit).exists()
            || fs::read_to_string(at(hierarchy, "cgroup.subtree_control"))
                .is_ok_and(|controllers| controllers.split_ascii_whitespace().any(|name| name == "memory"))
    };
    let (hierarchy, path) = own.into_iter().find(|(hierarchy, _)| has_controller(hierarchy))?;
    Some((hierarchy, at(hierarchy, path.trim_start_matches('/'))))
}

fn enter(cgroup: &Path) -> io::Result<()> {
    fs::write(cgroup.join("cgroup.procs"), std::process::id().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::skip;
    use std::io::Write;

    #[test]
    fn a_dropped_file_is_no_longer_cached() {
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        let Some(before) = cached(&file) else { return skip("this kernel has no cachestat(2)") };
        assert_eq!(before, 1 << 20);
        drop_cached(&file).unwrap();
        assert_eq!(cached(&file), Some(0));
    }

    #[test]
    fn a_limit_too_small_for_the_program_is_refused() {
        assert!(MemoryLimit::apply(1 << 20).unwrap_err().to_string().contains("at least 32 MiB"));
    }
}
