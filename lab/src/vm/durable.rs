//! A virtual machine with systemd and a persistent disk, which can be rebooted and can lose its power.

use super::guest::{FIRST_SYSTEMD, Guest, KERNEL, last_lines};
use super::spec::VmSpec;
use crate::command::{self, ChildGuard, kill_with_parent};
use crate::error::{Context, Error, Result};
use crate::interrupt;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

/// Time limit of a boot or a script.
const LIMIT: Duration = Duration::from_secs(300);
/// Size of the disk, a sparse file.
const DISK_BYTES: u64 = 2 << 30;
/// Separator before the status of a script.
const STATUS: char = '\u{1f}';

/// A running machine.
pub struct Durable<'g> {
    guest: &'g Guest<'g>,
    disk: PathBuf,
    qemu: ChildGuard,
    control: UnixStream,
    /// Bytes received from the line and not yet processed.
    received: Vec<u8>,
}

/// Output of a script, and its exit status.
pub struct Ran {
    pub output: String,
    pub status: u32,
}

impl<'g> Durable<'g> {
    /// Starts the machine with an empty disk.
    ///
    /// # Errors
    /// Fails if QEMU or mkfs.ext4 is missing, or if the machine does not boot.
    pub fn start(guest: &'g Guest<'g>) -> Result<Self> {
        let disk = guest.run_folder().join("disk");
        File::create(&disk).and_then(|file| file.set_len(DISK_BYTES)).context(disk.display())?;
        command::run("mkfs.ext4", &["-q", "-F", &disk.display().to_string()])?;
        Self::boot(guest, disk)
    }

    fn boot(guest: &'g Guest<'g>, disk: PathBuf) -> Result<Self> {
        let run = guest.run_folder();
        let (console, socket, errors) = (run.join("console"), run.join("control"), run.join("qemu"));
        let mut qemu = guest.qemu(&VmSpec::PLAIN);
        qemu.arg("-drive").arg(format!("file={},format=raw,if=none,id=disk", disk.display()));
        // In a slot behind those of the other disks, so that it becomes the third.
        qemu.args(["-device", "virtio-blk-pci,drive=disk,serial=lab,addr=0x10"]);
        qemu.arg("-serial").arg(format!("file:{}", console.display()));
        qemu.arg("-serial").arg(format!("unix:{},server=on,wait=off", socket.display()));
        qemu.args(["-append", &format!("{KERNEL} {FIRST_SYSTEMD} WHYSLOW_LAB_DURABLE=1")]);
        kill_with_parent(&mut qemu);
        qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&errors)?);
        // Socket of the previous boot.
        drop(fs::remove_file(&socket));
        let qemu = ChildGuard(qemu.spawn().map_err(|_| Error::Missing("the program qemu-system-x86_64".into()))?);
        let connect = || Ok(UnixStream::connect(&socket).ok());
        let control = interrupt::wait_for(LIMIT, connect)?
            .ok_or_else(|| Error::failed(format!("QEMU: {}", last_lines(&errors))))?;
        control.set_nonblocking(true)?;
        let mut machine = Self { guest, disk, qemu, control, received: Vec::new() };
        machine.wait_until_ready()?;
        Ok(machine)
    }

    /// Runs a script to completion.
    ///
    /// # Errors
    /// Fails if the machine does not answer.
    pub fn script(&mut self, script: &str) -> Result<Ran> {
        self.send(script)?;
        let mut output = String::new();
        loop {
            let line = self.line()?;
            let (text, status) = line.split_once(STATUS).map_or((&*line, None), |(text, status)| (text, Some(status)));
            output.push_str(text);
            if let Some(status) = status {
                let status = status.trim().parse().map_err(|_| Error::failed(format!("a status of {status:?}")))?;
                return Ok(Ran { output, status });
            }
            output.push('\n');
        }
    }

    /// Shuts the machine down in order, and waits until it is up again.
    ///
    /// # Errors
    /// Fails if it does not come up again.
    pub fn reboot(&mut self) -> Result<()> {
        // systemd may end the shell before it has answered.
        self.send("systemctl reboot")?;
        self.wait_until_ready()
    }

    /// Cuts the machine's power, and starts it again with the same disk.
    ///
    /// # Errors
    /// Fails if it does not come up again.
    pub fn lose_power(self) -> Result<Self> {
        let Self { guest, disk, qemu, .. } = self;
        drop(qemu);
        Self::boot(guest, disk)
    }

    fn send(&mut self, script: &str) -> Result<()> {
        self.control.set_nonblocking(false)?;
        writeln!(self.control, "{script}\n.").context("the control line of the machine")?;
        self.control.set_nonblocking(true).map_err(Error::from)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        while self.line()? != "ready" {}
        Ok(())
    }

    /// Returns the next line from the machine.
    fn line(&mut self) -> Result<String> {
        let Self { control, received, qemu, .. } = self;
        let line = interrupt::wait_for(LIMIT, || {
            if let Some(status) = qemu.0.try_wait()? {
                return Err(Error::failed(format!("QEMU: {status}")));
            }
            let mut buffer = [0; 4096];
            loop {
                if let Some(end) = received.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = received.drain(..=end).collect();
                    return Ok(Some(String::from_utf8_lossy(&line[..end]).trim_end_matches('\r').to_owned()));
                }
                match control.read(&mut buffer) {
                    Ok(0) => return Err(Error::failed("the machine closed its control line")),
                    Ok(count) => received.extend(&buffer[..count]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                    Err(error) => return Err(error.into()),
                }
            }
        })?;
        let console = self.guest.run_folder().join("console");
        line.ok_or_else(|| {
            Error::failed(format!("the machine does not answer; its console ends with: {}", last_lines(&console)))
        })
    }
}
