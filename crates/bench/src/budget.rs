//! Space that a benchmark needs on file systems and in memory, added up before anything is written.

use crate::available_memory::available as available_memory;
use crate::round::RunSpec;
use crate::{Error, Result};
use nix::sys::statvfs::{FsFlags, Statvfs, statvfs};
use std::collections::BTreeMap;
use std::path::Path;
use whyslow_documents::bench::Cache;
use whyslow_model::human;
use whyslow_sense::Root;

/// Share of a file system that stays free, and the upper limit of this reserve.
const RESERVE: f64 = 0.05;
const MOST_RESERVE: u64 = 1 << 30;
/// Upper limit of the inodes that stay free.
const MOST_INODES: u64 = 10_000;
/// Share of the available memory that may be used.
const MEMORY: f64 = 0.75;
/// Memory per thread in addition to its buffers: stack, ring, histograms.
const THREAD: u64 = 512 << 10;
/// Memory for the program within `--cache SIZE`, in addition to the buffers.
const PROGRAM: u64 = 16 << 20;
/// Space for the inode of a small file and its directory entry.
const OVERHEAD: u64 = 1024;
/// File systems that keep files in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpaceNeeded {
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
}

impl SpaceNeeded {
    pub(crate) fn file(bytes: u64) -> Self {
        Self { bytes, inodes: 1 }
    }

    /// Returns the space for files smaller than a block, in a folder of their own.
    pub(crate) fn small_files(folder: &Path, count: u32, content: u64) -> Self {
        let block = statvfs(folder).map_or(4096, |space| space.fragment_size());
        let each = content.max(1).next_multiple_of(block.max(1)) + OVERHEAD;
        Self { bytes: u64::from(count) * each, inodes: u64::from(count) + 1 }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), inodes: self.inodes.saturating_add(other.inodes) }
    }
}

/// Free space at first use, and the space reserved since.
#[derive(Clone, Copy, Debug)]
struct FsBudget {
    free: FileSystemSpace,
    claimed: SpaceNeeded,
}

#[derive(Clone, Copy, Debug)]
struct FileSystemSpace {
    bytes: u64,
    bytes_reserve: u64,
    /// `None` if inodes are allocated dynamically.
    inodes: Option<u64>,
    inodes_reserve: u64,
}

impl FileSystemSpace {
    fn from_statvfs(space: &Statvfs) -> Self {
        let unit = space.fragment_size();
        let reserve = |all: u64, most: u64| ((all as f64 * RESERVE) as u64).min(most);
        Self {
            bytes: space.blocks_available().saturating_mul(unit),
            bytes_reserve: reserve(space.blocks().saturating_mul(unit), MOST_RESERVE),
            inodes: (space.files() > 0).then(|| space.files_available()),
            inodes_reserve: reserve(space.files(), MOST_INODES),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Budget {
    accounts: BTreeMap<String, FsBudget>,
    /// Bytes available at the start; 0 if unknown.
    memory: u64,
    /// Bytes reserved by files in memory.
    files: u64,
}

impl Budget {
    pub(crate) fn new(root: &Root) -> Self {
        Self { accounts: BTreeMap::new(), memory: available_memory(root), files: 0 }
    }

    /// Reserves space. `file_system` identifies the file system, `kind` is its type.
    pub(crate) fn reserve(&mut self, folder: &Path, file_system: &str, kind: &str, need: SpaceNeeded) -> Result<()> {
        let (account, files) = self.account(folder, file_system, kind, need)?;
        self.accounts.insert(file_system.to_owned(), account);
        self.files = files;
        Ok(())
    }

    pub(crate) fn check(&self, folder: &Path, file_system: &str, kind: &str, need: SpaceNeeded) -> Result<()> {
        self.account(folder, file_system, kind, need).map(drop)
    }

    fn account(&self, folder: &Path, file_system: &str, kind: &str, need: SpaceNeeded) -> Result<(FsBudget, u64)> {
        let space = statvfs(folder).map_err(|e| Error::at(folder, "cannot read its free space", &e.into()))?;
        if space.flags().contains(FsFlags::ST_RDONLY) {
            let what = "the file system is mounted read-only; name a folder that can be written to";
            return Err(Error::new(format!("{}: {what}", folder.display())));
        }
        let now = FileSystemSpace::from_statvfs(&space);
        let known = self.accounts.get(file_system);
        let account = known.copied().unwrap_or(FsBudget { free: now, claimed: SpaceNeeded::default() });
        let claimed = account.claimed.plus(need);
        fits(folder, account.free, claimed)?;
        // Others may have used space since then. Space reserved before may already be written, so it is not counted
        // again.
        fits(folder, now, need)?;
        let in_memory = IN_MEMORY.contains(&kind);
        let files = if in_memory { self.files.saturating_add(need.bytes) } else { self.files };
        if in_memory && self.memory > 0 && files > share(self.memory) {
            return Err(Error::new(format!(
                "{}: not enough memory for {} of files ({kind} keeps them in memory): {} available, and a quarter of \
                 that must stay free; choose a smaller size",
                folder.display(),
                human::bytes(files),
                human::bytes(self.memory),
            )));
        }
        Ok((FsBudget { claimed, ..account }, files))
    }
}

fn share(memory: u64) -> u64 {
    (memory as f64 * MEMORY) as u64
}

fn fits(folder: &Path, free: FileSystemSpace, need: SpaceNeeded) -> Result<()> {
    let folder = folder.display();
    if need.bytes > free.bytes.saturating_sub(free.bytes_reserve) {
        return Err(Error::new(format!(
            "{folder}: not enough free space: the benchmark needs {}, {} is available, and {} of that must stay free; choose a \
             smaller size",
            human::bytes(need.bytes),
            human::bytes(free.bytes),
            human::bytes(free.bytes_reserve)
        )));
    }
    match free.inodes {
        Some(inodes) if need.inodes > inodes.saturating_sub(free.inodes_reserve) => Err(Error::new(format!(
            "{folder}: not enough free inodes: the benchmark needs {}, {inodes} are available, and {} of them must stay free; \
             create fewer files",
            need.inodes, free.inodes_reserve
        ))),
        _ => Ok(()),
    }
}

/// Returns the memory for the buffers of workloads that run together.
pub(crate) fn buffers(specs: &[RunSpec]) -> u64 {
    let each = |spec: &RunSpec| {
        let slots = u64::from(spec.load.depth.max(1));
        let thread = slots.saturating_mul(spec.load.largest_block().into()).saturating_add(THREAD);
        thread.saturating_mul(spec.load.jobs.max(1).into())
    };
    specs.iter().map(each).fold(0, u64::saturating_add)
}

/// Checks that the buffers fit in memory, and in the limit of `--cache SIZE`.
pub(crate) fn check_memory(root: &Root, specs: &[RunSpec]) -> Result<()> {
    check_buffers(buffers(specs), available_memory(root), specs)
}

fn check_buffers(need: u64, available: u64, specs: &[RunSpec]) -> Result<()> {
    let smaller = "choose smaller blocks, fewer requests in flight or fewer jobs";
    if available > 0 && need > share(available) {
        return Err(Error::new(format!(
            "not enough memory: the buffers need {}, {} are available, and a quarter of that must stay free; {smaller}",
            human::bytes(need),
            human::bytes(available)
        )));
    }
    let cache = specs.iter().filter_map(|spec| match spec.load.cache {
        Cache::Small(bytes) => Some(bytes),
        _ => None,
    });
    match cache.min() {
        Some(bytes) if need > bytes.saturating_sub(PROGRAM) => Err(Error::new(format!(
            "--cache {}: too small for the buffers, which need {}: choose a larger one",
            human::bytes(bytes),
            human::bytes(need)
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::bench::Workload;

    const FOLDER: &str = "/var/tmp";

    fn budget() -> Budget {
        Budget { accounts: BTreeMap::new(), memory: 1 << 30, files: 0 }
    }

    fn spec(block: u32, depth: u32, jobs: u32) -> RunSpec {
        let load = Workload { depth, jobs, ..Workload::of_blocks(block) };
        RunSpec { name: "a".into(), target: 0, load, files: Vec::new(), delay: 0.0 }
    }

    #[test]
    fn files_are_added_up_by_file_system() {
        let free = FileSystemSpace::from_statvfs(&statvfs(FOLDER).unwrap());
        let half = (free.bytes - free.bytes_reserve) / 10 * 6;
        let mut budget = budget();
        let folder = Path::new(FOLDER);
        budget.reserve(folder, "sda1", "ext4", SpaceNeeded::file(half)).unwrap();
        let said = budget.reserve(folder, "sda1", "ext4", SpaceNeeded::file(half)).unwrap_err().to_string();
        assert!(said.contains("not enough free space") && said.contains("smaller size"), "{said}");
        budget.reserve(folder, "sdb1", "ext4", SpaceNeeded::file(half)).unwrap();
    }

    #[test]
    fn a_read_only_file_system_is_not_reported_as_full() {
        let folder = whyslow_testing::folder();
        let run = |program: &str, args: &[&str]| {
            let done = std::process::Command::new(program).args(args).arg(folder.path()).status();
            done.is_ok_and(|status| status.success())
        };
        if !crate::skip::is_root() {
            return;
        }
        assert!(run("mount", &["-t", "tmpfs", "-o", "ro,size=64k", "wsl-bench-ro"]));
        let error = budget().reserve(folder.path(), "ro", "tmpfs", SpaceNeeded::file(1 << 50)).unwrap_err().to_string();
        assert!(run("umount", &[]));
        assert!(error.contains("mounted read-only") && !error.contains("free space"), "{error}");
    }

    #[test]
    fn a_file_system_without_free_inodes_is_refused() {
        let free = FileSystemSpace { bytes: 1 << 30, bytes_reserve: 0, inodes: Some(1000), inodes_reserve: 50 };
        let need = |inodes| SpaceNeeded { bytes: 0, inodes };
        fits(Path::new("/x"), free, need(950)).unwrap();
        let said = fits(Path::new("/x"), free, need(951)).unwrap_err().to_string();
        assert!(said.contains("needs 951, 1000 are available"), "{said}");
        fits(Path::new("/x"), FileSystemSpace { inodes: None, ..free }, need(951)).unwrap();
    }

    #[test]
    fn files_in_memory_must_fit_in_memory() {
        let mut budget = budget();
        let mut reserve = |bytes| budget.reserve(Path::new(FOLDER), "tmpfs", "tmpfs", SpaceNeeded::file(bytes));
        reserve(400 << 20).unwrap();
        assert!(reserve(400 << 20).unwrap_err().to_string().contains("not enough memory for 800 MiB"));
    }

    #[test]
    fn buffers_of_all_jobs_are_added_up() {
        assert_eq!(buffers(&[spec(4 << 20, 1024, 1)]), (4 << 30) + THREAD);
        assert_eq!(buffers(&[spec(4096, 1, 2), spec(4096, 1, 1)]), 3 * (4096 + THREAD));
        let check = |need, available| check_buffers(need, available, &[]);
        assert_eq!(check(3 << 30, 4 << 30), Ok(()));
        assert!(check((3 << 30) + 1, 4 << 30).unwrap_err().to_string().starts_with("not enough memory"));
        assert_eq!(check(1 << 40, 0), Ok(()), "what is not known is not guessed");
        let small = RunSpec {
            load: Workload { cache: Cache::Small(64 << 20), ..Workload::of_blocks(4096) },
            ..spec(4096, 1, 1)
        };
        assert!(check_buffers(60 << 20, 4 << 30, &[small]).unwrap_err().to_string().contains("--cache 64 MiB"));
    }
}
