//! Files, devices and file systems of the cases.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use whyslow_pairs::child;
use whyslow_pairs::failure::{Failure, Result};

/// Size of the files and of the loop device.
const BYTES: usize = 512 << 20;
/// Size of the file system in memory.
const ROOM: usize = 8 << 30;
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Rig {
    disk: Folder,
    memory: Folder,
    device: Loop,
    // Dropped in this order.
    _mounted: Mounted,
    _image: Loop,
    _made: [TempDir; 2],
}

/// A folder with a file to read.
#[derive(Clone)]
pub struct Folder {
    path: PathBuf,
}

struct Loop(String);

struct Mounted(String);

impl Rig {
    pub fn new() -> Result<Self> {
        let made = |path: &str| tempfile::Builder::new().prefix("wsl-bench-").tempdir_in(path);
        let (on_disk, in_memory) = (made("/var/tmp")?, made("/dev/shm")?);
        let device = Loop::create(&in_memory.path().join("device"), BYTES)?;
        let image = Loop::create(&in_memory.path().join("image"), ROOM)?;
        // Nothing may be written in the background, and no memory may be returned to the host.
        let options = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        child::output("mkfs.ext4", &["-q", "-E", options, &image.0], PATIENCE)?;
        let mounted = Mounted::on(&image, &on_disk.path().join("memory"))?;
        let (disk, memory) = (Folder::create(on_disk.path())?, Folder::create(Path::new(&mounted.0))?);
        Ok(Self { disk, memory, device, _mounted: mounted, _image: image, _made: [on_disk, in_memory] })
    }

    pub fn disk(&self) -> &Folder {
        &self.disk
    }

    pub fn memory(&self) -> &Folder {
        &self.memory
    }

    pub fn device(&self) -> &str {
        &self.device.0
    }
}

impl Folder {
    fn create(path: &Path) -> Result<Self> {
        fill(&path.join("file"), BYTES)?;
        text(path)?;
        Ok(Self { path: path.to_owned() })
    }

    pub fn path(&self) -> String {
        self.path.display().to_string()
    }

    pub fn file(&self) -> String {
        self.path.join("file").display().to_string()
    }

    pub fn new_file(&self) -> String {
        self.path.join("new").display().to_string()
    }

    pub fn remove_new_file(&self) {
        let _ = std::fs::remove_file(self.path.join("new"));
    }

    /// Fills and empties the page cache. In a virtual machine, touching free pages may wait for the host
    /// (Documentation/mm/free_page_reporting.rst), which must not be counted against either program.
    pub fn settle(&self, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let path = self.path.join("settle");
        fill(&path, bytes)?;
        Ok(std::fs::remove_file(path)?)
    }

    /// Writes a job file.
    pub fn job(&self, options: &str) -> Result<String> {
        let path = self.path.join("job.fio");
        std::fs::write(&path, options)?;
        Ok(text(&path)?.to_owned())
    }
}

impl Loop {
    fn create(file: &Path, bytes: usize) -> Result<Self> {
        fill(file, bytes)?;
        let node = child::output("losetup", &["--find", "--show", "--direct-io=on", text(file)?], PATIENCE)?;
        let device = Self(node.trim().to_owned());
        // A loop device keeps the settings of an earlier user. Its queue may be smaller than nr_requests indicates,
        // because a change of the scheduler updates the number but not the queue (block/elevator.c): set another number
        // first.
        let queue = format!("/sys/block/{}/queue/nr_requests", device.0.trim_start_matches("/dev/"));
        ["64", "128"].iter().try_for_each(|requests| std::fs::write(&queue, requests))?;
        Ok(device)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        child::clean_up("losetup", &["--detach", &self.0]);
    }
}

impl Mounted {
    fn on(device: &Loop, point: &Path) -> Result<Self> {
        std::fs::create_dir(point)?;
        let point = text(point)?;
        child::output("mount", &[&device.0, point], PATIENCE)?;
        Ok(Self(point.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        child::clean_up("umount", &[&self.0]);
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| Failure::new("a path is not UTF-8"))
}

fn fill(path: &Path, bytes: usize) -> Result<()> {
    let mut file = File::create(path)?;
    let block = vec![0x5a; 1 << 20];
    (0..bytes / block.len()).try_for_each(|_| file.write_all(&block))?;
    Ok(file.sync_all()?)
}
