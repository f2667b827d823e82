use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

// From include/uapi/linux/loop.h.
const LOOP_CONFIGURE: libc::c_ulong = 0x4c0a;
const LOOP_CTL_ADD: libc::c_ulong = 0x4c80;
const LOOP_CTL_REMOVE: libc::c_ulong = 0x4c81;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_config`, including its `struct loop_info64`.
#[repr(C)]
#[allow(dead_code, reason = "the kernel reads it")]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    device_inode_rdevice_offset_sizelimit: [u64; 5],
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    names_and_key: [u8; 160],
    init: [u64; 2],
    reserved: [u64; 8],
}

/// First number of loop devices for tests. losetup(8) takes the lowest free number.
const FIRST: i32 = 4096;

/// A new loop device with default settings. Dropping it removes it. If its process is killed, the kernel detaches its file, and
/// the next sweep removes the device.
pub struct LoopDevice {
    number: i32,
    /// Kept open: the kernel detaches the file when no process has the device open.
    device: Option<File>,
}

impl LoopDevice {
    /// Creates a loop device on a file or another device. With `direct`, it bypasses the page cache.
    pub fn on(file: &Path, direct: bool) -> io::Result<Self> {
        crate::prefix();
        let control = File::open("/dev/loop-control")?;
        let file = OpenOptions::new().read(true).write(true).open(file)?;
        let flags = LO_FLAGS_AUTOCLEAR | if direct { LO_FLAGS_DIRECT_IO } else { 0 };
        let config = LoopConfig {
            fd: file.as_raw_fd().cast_unsigned(),
            block_size: 0,
            device_inode_rdevice_offset_sizelimit: [0; 5],
            number: 0,
            encryption: [0; 2],
            flags,
            names_and_key: [0; 160],
            init: [0; 2],
            reserved: [0; 8],
        };
        // Another test has it, or has removed it as unused before it was opened.
        let is_taken = |error: &io::Error| {
            matches!(error.raw_os_error(), Some(libc::EEXIST | libc::EBUSY | libc::ENOENT | libc::ENXIO))
        };
        let mut outcomes = (FIRST..FIRST + 100).map(|number| Self::configured(&control, number, &config));
        let outcome = outcomes.find(|outcome| !outcome.as_ref().is_err_and(is_taken));
        outcome.unwrap_or_else(|| Err(io::Error::other("all loop devices of tests are in use")))
    }

    fn configured(control: &File, number: i32, config: &LoopConfig) -> io::Result<Self> {
        // SAFETY: the argument is a number.
        checked(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_ADD as _, number) })?;
        let device = OpenOptions::new().read(true).write(true).open(format!("/dev/loop{number}"))?;
        // Dropping this removes the device if the next call fails.
        let made = Self { number, device: Some(device) };
        let device = made.device.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        // SAFETY: the argument is the structure that this call reads.
        checked(unsafe { libc::ioctl(device, LOOP_CONFIGURE as _, std::ptr::from_ref(config)) })?;
        Ok(made)
    }

    /// Returns the kernel's name: `loopN`.
    pub fn name(&self) -> String {
        format!("loop{}", self.number)
    }

    /// Returns the path `/dev/loopN`.
    pub fn node(&self) -> String {
        format!("/dev/loop{}", self.number)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        drop(self.device.take());
        let Ok(control) = File::open("/dev/loop-control") else { return };
        // It is in use until all other processes have closed it, such as udevd(8), which probes new devices.
        for _ in 0..100 {
            if remove(&control, self.number).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Removes devices without a file, whose tests were killed.
pub(crate) fn remove_unused() {
    let Ok(control) = File::open("/dev/loop-control") else { return };
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.strip_prefix("loop")?.parse().ok());
        if let Some(number) = number.filter(|number| *number >= FIRST) {
            // The kernel refuses to remove one in use.
            let _ = remove(&control, number);
        }
    }
}

fn remove(control: &File, number: i32) -> io::Result<()> {
    // SAFETY: the argument is a number.
    checked(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_REMOVE as _, number) })
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
