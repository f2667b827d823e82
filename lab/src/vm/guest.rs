//! Starts a virtual machine for a trial: the lab itself runs in it, and returns its outcome over a serial line.

use super::VmSpec;
use super::spec::ARGS;
use crate::command::{ChildGuard, kill_with_parent};
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::observer::Observer;
use crate::trial::{Mark, Outcome, Trial};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time allowed for a trial beyond whyslow's observation time. The CPUs are emulated, and the machine may have other
/// work.
const GRACE: Duration = Duration::from_secs(480);
/// Kernel command line. On a busy host, emulated timers and time stamp counters fail the kernel's self-tests.
pub(super) const KERNEL: &str = "console=ttyS0 quiet panic=-1 no_timer_check tsc=reliable mitigations=off";

/// Kernel options: a CPU that does not switch tasks for a minute ends the guest, which prints a backtrace of each CPU.
const LOCKUP: &str = "loglevel=5 watchdog_thresh=30 softlockup_panic=1 sysctl.kernel.softlockup_all_cpu_backtrace=1";
/// Message that the kernel prints in this case.
const LOCKED_UP: &str = "BUG: soft lockup";
/// Maximum number of lines for a fault: its kind and its location.
const MOST_FAULT_LINES: usize = 12;
/// Maximum number of lines for the backtraces of the CPUs.
const MOST_LINES: usize = 120;

/// Options for guests with systemd as the first process instead of a shell; udev keeps the names of interfaces.
/// Debian's unit for the first boot would wait for input.
pub(super) const FIRST_SYSTEMD: &str = "WHYSLOW_LAB_SYSTEMD=1 net.ifnames=0 systemd.mask=systemd-firstboot.service";

/// Folder that vm/build-images.sh has filled, with the initial file systems that contain the programs of this run.
pub struct Images {
    folder: PathBuf,
    whyslow: PathBuf,
    _lock: Flock<File>,
}

impl Images {
    /// Opens the folder and locks it.
    ///
    /// # Errors
    /// Fails if the folder has no root file system or another lab uses it.
    pub fn open(folder: &Path, whyslow: PathBuf) -> Result<Self> {
        if !folder.join("root.img").is_file() {
            let how = "make it with `make need-lab-vm`, or name another with --images";
            return Err(Error::failed(format!("{}: no root.img: {how}", folder.display())));
        }
        let folder = fs::canonicalize(folder).context(folder.display())?;
        let lock = File::create(folder.join("lock")).context(folder.display())?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
            .map_err(|_| Error::failed(format!("{}: another whyslow-lab uses it", folder.display())))?;
        let images = Self { folder, whyslow, _lock: lock };
        images.remove_run();
        Ok(images)
    }

    /// Returns the guest with the kernel of a Debian suite.
    ///
    /// # Errors
    /// Fails if there are no images of the suite.
    pub fn guest(&self, suite: &str, args: Vec<String>) -> Result<Guest<'_>> {
        let dir = self.folder.join(suite);
        let version = fs::read_to_string(dir.join("version"))
            .context(format!("no kernel of {suite}: run `make need-lab-vm SUITES={suite}`"))?;
        let run = self.folder.join("run");
        let initrd = run.join(suite);
        self.pack(&dir.join("initrd"), &initrd)?;
        Ok(Guest { images: self, dir, initrd, run, kernel: version.trim().to_owned(), args })
    }

    /// Appends the programs to the kernel's initial file system.
    fn pack(&self, base: &Path, initrd: &Path) -> Result<()> {
        let tree = self.folder.join("run/tree");
        let lab = tree.join("lab");
        fs::create_dir_all(&lab).context(lab.display())?;
        for (name, text, mode) in [
            ("init", include_str!("../../vm/init"), 0o755),
            ("lab/start", include_str!("../../vm/start"), 0o755),
            ("lab/run", include_str!("../../vm/run"), 0o755),
            ("lab/control", include_str!("../../vm/control"), 0o755),
            ("lab/whyslow-lab@.service", include_str!("../../vm/whyslow-lab@.service"), 0o644),
            ("lab/whyslow-record.service", include_str!("../../../systemd/whyslow-record.service"), 0o644),
            ("lab/whyslow-recover.service", include_str!("../../../systemd/whyslow-recover.service"), 0o644),
        ] {
            let path = tree.join(name);
            fs::write(&path, text).context(path.display())?;
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
        }
        strip(&self.whyslow, &lab.join("whyslow"))?;
        strip(&std::env::current_exe()?, &lab.join("whyslow-lab"))?;
        fs::copy(base, initrd).context(base.display())?;
        let mut script = Command::new("sh");
        script.args(["-c", "find . | cpio --quiet -o -H newc -R 0:0 >>\"$0\""]).arg(initrd).current_dir(&tree);
        let status = script.status().context("cpio")?;
        fs::remove_dir_all(&tree)?;
        if status.success() { Ok(()) } else { Err(Error::Missing("the program cpio".into())) }
    }

    fn remove_run(&self) {
        // It does not exist before the first run.
        drop(fs::remove_dir_all(self.folder.join("run")));
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        self.remove_run();
    }
}

/// Copies a program without its symbols: they make up most of a debug build, and everything must fit into the guest's
/// memory twice.
fn strip(program: &Path, to: &Path) -> Result<()> {
    let status = Command::new("strip").arg("-o").args([to, program]).stdin(Stdio::null()).status();
    let status = status.map_err(|_| Error::Missing("the program strip, of binutils".into()))?;
    if status.success() { Ok(()) } else { Err(Error::failed(format!("{}: strip: {status}", program.display()))) }
}

/// A virtual machine that is started afresh for each trial.
pub struct Guest<'a> {
    images: &'a Images,
    dir: PathBuf,
    initrd: PathBuf,
    run: PathBuf,
    kernel: String,
    /// Arguments for the lab in the guest, in addition to the trial and its seed.
    args: Vec<String>,
}

impl Guest<'_> {
    /// Runs a trial in the guest.
    ///
    /// # Errors
    /// Returns only [`Error::Interrupted`]: all other errors become outcomes.
    pub fn run(&self, trial: &Trial, seed: u64, observed: Duration) -> Result<Outcome> {
        let mut outcome = Outcome::run(trial.name, seed, |outcome| {
            let text = match self.boot(trial, seed, observed) {
                // Seen once in hundreds of guests, for an unknown reason. The backtraces show whether whyslow is to
                // blame.
                Err(Error::Failed(why)) if why.contains(LOCKED_UP) => {
                    eprintln!("{}: {why}\nThe guest is started again.", trial.name);
                    self.boot(trial, seed, observed)?
                }
                other => other?,
            };
            let mut outcomes: Vec<Outcome> = serde_json::from_str(&text).context("the lab in the guest")?;
            *outcome = outcomes.pop().ok_or_else(|| Error::failed("the lab in the guest ran no trial"))?;
            match outcome.mark {
                Mark::Skipped => Err(Error::Missing(outcome.because.join("; "))),
                Mark::Right | Mark::Wrong => Ok(()),
            }
        })?;
        outcome.kernel = Some(self.kernel.clone());
        Ok(outcome)
    }

    /// Starts the guest, waits until it has ended, and returns the output of the lab in it.
    fn boot(&self, trial: &Trial, seed: u64, observed: Duration) -> Result<String> {
        let (console, answer) = (self.run.join("console"), self.run.join("answer"));
        let spec = trial.vm.unwrap_or(&VmSpec::PLAIN);
        let mut qemu = self.qemu(spec);
        for serial in [&console, &answer] {
            qemu.arg("-serial").arg(format!("file:{}", serial.display()));
        }
        let args = format!("--only {} --seed {seed} {}", trial.name, self.args.join(" "));
        // Changes there must be persisted, which takes udev and systemd.
        let with_systemd = spec.systemd || self.args.iter().any(|arg| arg == Observer::COMMANDS);
        let kernel = kernel_line(with_systemd);
        qemu.args(["-no-reboot", "-append", &format!("{kernel} {LOCKUP} {ARGS}=\"{}\"", args.trim())]);
        kill_with_parent(&mut qemu);
        let errors = self.run.join("qemu");
        qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&errors)?);
        let mut child = ChildGuard(qemu.spawn().map_err(|_| Error::Missing("the program qemu-system-x86_64".into()))?);
        let ended = interrupt::wait_for(GRACE + observed, || Ok(child.0.try_wait()?))?;
        let last = || last_lines(&console);
        match ended {
            None => Err(Error::failed(format!("the guest did not end in time; its console ends with: {}", last()))),
            Some(status) if !status.success() => Err(Error::failed(format!("QEMU: {status}: {}", last_lines(&errors)))),
            Some(_) => {
                let text = fs::read_to_string(&answer).context(answer.display())?;
                if text.trim().is_empty() {
                    return Err(Error::failed(format!(
                        "the lab in the guest printed nothing; its console ends with: {}",
                        last()
                    )));
                }
                Ok(text)
            }
        }
    }

    /// Starts the guest with the fault of a trial and a shell on this terminal, until the shell ends.
    ///
    /// # Errors
    /// Fails if QEMU is missing or fails.
    pub fn hold(&self, trial: &Trial, seed: u64) -> Result<()> {
        let spec = trial.vm.unwrap_or(&VmSpec::PLAIN);
        // Empty if this is not a terminal.
        let size = Command::new("stty").arg("size").stdin(Stdio::inherit()).stderr(Stdio::null()).output();
        let size = size.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
        let size = if size.is_empty() { "24 80" } else { &size };
        let mut qemu = self.qemu(spec);
        qemu.args(["-serial", "mon:stdio", "-serial", "null", "-no-reboot", "-append"]);
        qemu.arg(format!(
            "{} systemd.mask=serial-getty@ttyS0.service WHYSLOW_LAB_SHELL=\"{size}\" {ARGS}=\"hold {} --seed {seed}\"",
            kernel_line(spec.systemd),
            trial.name
        ));
        println!("Starting a virtual machine: a quarter of a minute. Ctrl-A x ends it at once.");
        let status = qemu.status().map_err(|_| Error::Missing("the program qemu-system-x86_64".into()))?;
        if status.success() { Ok(()) } else { Err(Error::failed(format!("QEMU: {status}"))) }
    }

    /// Returns the folder of the programs of this run and of the guest's output.
    pub(super) fn run_folder(&self) -> &Path {
        &self.run
    }

    pub(super) fn qemu(&self, spec: &VmSpec) -> Command {
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-nodefaults", "-display", "none"]);
        qemu.args(["-m", &spec.memory_mib.to_string(), "-smp", &spec.cpus.to_string()]);
        qemu.arg("-kernel").arg(self.dir.join("vmlinuz")).arg("-initrd").arg(&self.initrd);
        for image in [self.images.folder.join("root.img"), self.dir.join("modules.img")] {
            qemu.arg("-drive").arg(format!("file={},format=raw,if=virtio,readonly=on", image.display()));
        }
        qemu.args(spec.qemu);
        qemu
    }
}

fn kernel_line(with_systemd: bool) -> String {
    if with_systemd { format!("{KERNEL} {FIRST_SYSTEMD}") } else { KERNEL.to_owned() }
}

/// Joins the last lines of a log into one; after a kernel fault, the lines from there on.
pub(super) fn last_lines(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let first = |words: &str| lines.iter().position(|line| line.contains(words));
    if let Some(from) = first(LOCKED_UP) {
        return lines[from..].iter().take(MOST_LINES).copied().collect::<Vec<_>>().join("\n");
    }
    // The cause precedes it.
    let faults = ["BUG: ", "Oops: ", "general protection fault", "Kernel panic"].into_iter().filter_map(first);
    let from = faults.min().unwrap_or(lines.len().saturating_sub(3));
    lines[from..].iter().take(MOST_FAULT_LINES).copied().collect::<Vec<_>>().join(" | ")
}
