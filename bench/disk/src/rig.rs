//! What both programs are put to.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use whyslow_pairs::child;
use whyslow_pairs::failure::{Failure, Result};

const BYTES: usize = 512 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

/// A file on a disk and a loop device in memory; gone when dropped.
pub struct Rig {
    disk: TempDir,
    device: Loop,
    _memory: TempDir,
}

struct Loop(String);

impl Rig {
    /// # Errors
    /// Without root, or where there is no room.
    pub fn new() -> Result<Self> {
        let folder = |path: &str| tempfile::Builder::new().prefix("wsl-bench-").tempdir_in(path);
        let (disk, memory) = (folder("/var/tmp")?, folder("/dev/shm")?);
        fill(&disk.path().join("file"), BYTES)?;
        let file = memory.path().join("file");
        fill(&file, BYTES)?;
        let path = text(&file)?;
        let node = child::output("losetup", &["--find", "--show", "--direct-io=on", path], PATIENCE)?;
        Ok(Self { disk, device: Loop(node.trim().to_owned()), _memory: memory })
    }

    /// The file on a disk.
    pub fn file(&self) -> String {
        self.disk.path().join("file").display().to_string()
    }

    /// Where files can be made on that disk.
    pub fn folder(&self) -> String {
        self.disk.path().display().to_string()
    }

    /// A file on that disk that is yet to be made.
    pub fn new_file(&self) -> String {
        self.disk.path().join("new").display().to_string()
    }

    /// Removes that file, where it was made.
    pub fn remove_new_file(&self) {
        let _ = std::fs::remove_file(self.disk.path().join("new"));
    }

    /// Fills as much of the page cache, and empties it again. The host of a virtual machine may have taken memory back that is
    /// free (Documentation/mm/free_page_reporting.rst); who touches it first waits for the host, and that is to be neither of
    /// those that are set side by side.
    ///
    /// # Errors
    /// Where there is no room.
    pub fn settle(&self, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let path = self.disk.path().join("settle");
        fill(&path, bytes)?;
        Ok(std::fs::remove_file(path)?)
    }

    /// The loop device.
    pub fn device(&self) -> String {
        self.device.0.clone()
    }

    /// A job file.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn job(&self, options: &str) -> Result<String> {
        let path = self.disk.path().join("job.fio");
        std::fs::write(&path, options)?;
        Ok(text(&path)?.to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // It is taken away with the machine at the latest.
        let _ = child::output("losetup", &["--detach", &self.0], PATIENCE);
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| Failure::new("a path is not UTF-8"))
}

/// Writes bytes that are really there.
fn fill(path: &Path, bytes: usize) -> Result<()> {
    let mut file = File::create(path)?;
    let block = vec![0x5a; 1 << 20];
    (0..bytes / block.len()).try_for_each(|_| file.write_all(&block))?;
    Ok(file.sync_all()?)
}
