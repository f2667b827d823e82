//! Captures: a quiet machine, and each fault while it stands.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use whyslow_pairs::failure::{Failure, Result};

/// Which faults are planted where none are named: of every resource, long and short, loud and with no trace on the machine
/// as a whole.
pub const FAULTS: &str = "cpu.saturated,lock.contention,disk.saturated,net.listen_overflow,mem.oom_kill,cpu.throttled,\
    disk.flush_bound,net.loss,task.blocked,cpu.single_thread,disk.throttled,mem.cgroup_limit";

/// How long the quiet machine is watched: longer than anything is read in.
const QUIET: &str = "75s";
/// How long a fault is watched.
const FAULT: &str = "20s";
/// Where the lab's run of this program learns that it is to record, by what and to where.
const RECORD: [&str; 2] = ["BENCH_EXPLAIN_WHYSLOW", "BENCH_EXPLAIN_INTO"];

/// Makes captures, or finds those that were made before.
pub struct Capturer {
    pub whyslow: PathBuf,
    pub lab: PathBuf,
    pub into: PathBuf,
}

impl Capturer {
    /// The machine with nothing to do.
    pub fn quiet(&self) -> Result<PathBuf> {
        self.made("quiet", |folder| succeed(&mut recorder(&self.whyslow, folder, QUIET), "whyslow record"))
    }

    /// A fault of the lab's, from a time when it stood to a time when it still did.
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

/// Where the lab runs this program in whyslow's place: records the fault that stands, and lets whyslow answer.
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
