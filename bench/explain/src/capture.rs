//! Captures of a quiet machine and of each fault while it lasts.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use whyslow_pairs::failure::{Failure, Result};

/// Default faults: of every resource, long and short, obvious or without a trace on the machine as a whole.
pub const FAULTS: &str = "cpu.saturated,lock.contention,disk.saturated,net.listen_overflow,mem.oom_kill,cpu.throttled,\
    disk.flush_bound,net.loss,task.blocked,cpu.single_thread,disk.throttled,mem.cgroup_limit";

/// Observation time of the quiet machine: longer than the interval of any source.
const QUIET: &str = "75s";
/// Observation time of a fault.
const FAULT: &str = "20s";
/// Environment variables that make the lab's run of this program record: the path of whyslow, and the target folder.
const RECORD: [&str; 2] = ["BENCH_EXPLAIN_WHYSLOW", "BENCH_EXPLAIN_INTO"];

/// Makes captures, or finds existing ones.
pub struct Capturer {
    pub whyslow: PathBuf,
    pub lab: PathBuf,
    pub into: PathBuf,
}

impl Capturer {
    /// Captures the idle machine.
    pub fn quiet(&self) -> Result<PathBuf> {
        self.made("quiet", |folder| succeed(&mut recorder(&self.whyslow, folder, QUIET), "whyslow record"))
    }

    /// Captures a fault of the lab; begins and ends while the fault lasts.
    pub fn fault(&self, name: &str) -> Result<PathBuf> {
        self.made(name, |folder| {
            let mut lab = Command::new(&self.lab);
            lab.args(["--only", name, "--for", "6", "--whyslow"]).arg(std::env::current_exe()?);
            lab.envs(RECORD.into_iter().zip([self.whyslow.as_path(), folder]));
            succeed(&mut lab, &format!("whyslow-lab --only {name}"))
        })
    }

    fn made(&self, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let folder = self.into.join(name);
        if !folder.is_dir() {
            let draft = self.into.join(format!("{name}.new"));
            std::fs::create_dir_all(&draft)?;
            eprintln!("capturing {name}");
            make(&draft)?;
            std::fs::rename(&draft, &folder)?;
        }
        Ok(folder)
    }
}

/// If the lab runs this program in place of whyslow, records the current fault, and then runs whyslow to answer.
pub fn in_whyslows_place() -> Option<ExitCode> {
    let [whyslow, into] = RECORD.map(|name| std::env::var_os(name).map(PathBuf::from));
    let (whyslow, into) = (whyslow?, into?);
    if let Err(failure) = succeed(&mut recorder(&whyslow, &into, FAULT), "whyslow record") {
        eprintln!("{failure}");
        return Some(ExitCode::FAILURE);
    }
    let failed = Command::new(&whyslow).args(std::env::args_os().skip(1)).exec();
    eprintln!("{}: {failed}", whyslow.display());
    Some(ExitCode::FAILURE)
}

fn recorder(whyslow: &Path, into: &Path, time: &str) -> Command {
    let mut command = Command::new(whyslow);
    command.arg("record").arg("--dir").arg(into).args(["--for", time]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn succeed(command: &mut Command, what: &str) -> Result<()> {
    let program = command.get_program().to_owned();
    let status = command.status().map_err(|e| Failure::new(format!("{}: {e}", program.display())))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("{what}: {status}"))) }
}
