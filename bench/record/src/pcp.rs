//! pmlogger of Performance Co-Pilot, with a separate pmcd.
//!
//! Uses and starts no service of the machine: pmcd listens on the loopback, with the agents for Linux and for processes
//! loaded into it (each as a process of its own, as set up by Debian, would cost more), and all its paths are in a
//! temporary folder.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use whyslow_pairs::child::{Running, output};
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::stop;

/// Metrics logged once a second: those with a counterpart in `whyslow record`. Leaves out those without (NFS, RPC,
/// XFS).
const LOGGED: &str = "log mandatory on every 1 second {
    kernel.all kernel.percpu mem.util mem.vmstat mem.numa swap disk.all disk.dev disk.md disk.dm
    network.interface network.ip network.tcp network.udp network.softnet network.sockstat network.tcpconn
    filesys vfs ipc proc.psinfo proc.memory proc.io proc.schedstat proc.fd cgroup
}
";
/// Time limit for pmcd to answer and for a helper to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Performance Co-Pilot below a root folder: `/` if the package is installed.
pub struct Pcp {
    root: PathBuf,
    /// Files of pmcd, which are not part of the recording.
    own: TempDir,
}

impl Pcp {
    /// Finds the installed version, or else the one that `scripts/install-missing.sh bench` unpacked beside this
    /// program.
    pub fn find() -> Result<Self> {
        let unpacked = std::env::current_exe()?.ancestors().nth(2).map(|target| target.join("pcp"));
        let found = [Some(PathBuf::from("/")), unpacked].into_iter().flatten().find(|root| pmcd(root).exists());
        let root = found.ok_or_else(|| Failure::new("pmlogger is missing: scripts/install-missing.sh bench"))?;
        Ok(Self { root, own: tempfile::Builder::new().prefix("wsl-bench-").tempdir()? })
    }

    /// Starts pmcd, then pmlogger, which writes into a folder once a second.
    pub fn start(&self, into: &str) -> Result<Vec<Running>> {
        fs::write(self.own("pcp.conf"), self.configuration()?)?;
        fs::write(self.own("logged"), LOGGED)?;
        fs::write(self.own("pmcd.conf"), self.agents())?;
        let names = |agent: &str| self.path(&format!("usr/lib/pcp/pmns/root_{agent}"));
        self.helper("usr/lib/pcp/bin/pmnsmerge", &["-f", &names("linux"), &names("proc"), &self.own("names")])?;
        // A port that was free a moment ago is the best option: pmcd does not accept an already open socket.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let (agents, names) = (self.own("pmcd.conf"), self.own("names"));
        let (socket, log) = (self.own("socket"), self.own("pmcd.log"));
        let pmcd = self.run(
            "usr/lib/pcp/bin/pmcd",
            &[
                "-f",
                "-U",
                "root",
                "-i",
                "127.0.0.1",
                "-p",
                &port,
                "-s",
                &socket,
                "-c",
                &agents,
                "-n",
                &names,
                "-l",
                &log,
            ],
        )?;
        let host = format!("127.0.0.1:{port}");
        self.wait_for(&host)?;
        let (logged, log) = (self.own("logged"), self.own("pmlogger.log"));
        let archive = format!("{into}/archive");
        let pmlogger = self.run("usr/bin/pmlogger", &["-h", &host, "-c", &logged, "-l", &log, &archive])?;
        Ok(vec![pmlogger, pmcd])
    }

    /// Waits until pmcd answers.
    fn wait_for(&self, host: &str) -> Result<()> {
        let end = std::time::Instant::now() + PATIENCE;
        while let Err(failure) = self.helper("usr/bin/pminfo", &["-h", host, "-f", "hinv.ncpu"]) {
            if std::time::Instant::now() > end {
                return Err(failure);
            }
            stop::pause(Duration::from_millis(100))?;
        }
        Ok(())
    }

    /// Returns the paths that the package was built with (pcp.conf(5)), below our root, with the written ones in our
    /// own folder.
    fn configuration(&self) -> Result<String> {
        let made_with = self.root.join("etc/pcp.conf");
        let made_with =
            fs::read_to_string(&made_with).map_err(|e| Failure::new(format!("{}: {e}", made_with.display())))?;
        let line = |line: &str| {
            let (name, value) = line.split_once('=')?;
            let value = match name {
                "PCP_RUN_DIR" | "PCP_LOG_DIR" | "PCP_TMP_DIR" | "PCP_TMPFILE_DIR" | "PCP_ARCHIVE_DIR" => {
                    self.own.path().display().to_string()
                }
                _ => match value.strip_prefix('/') {
                    Some(path) => self.path(path),
                    None => value.to_owned(),
                },
            };
            Some(format!("{name}={value}\n"))
        };
        Ok(made_with.lines().filter(|line| !line.starts_with('#')).filter_map(line).collect())
    }

    /// Returns the agents, loaded into pmcd itself (pmcd(1)).
    fn agents(&self) -> String {
        let agent = |(name, number): (&str, u32)| {
            let library = self.path(&format!("usr/lib/pcp/pmdas/{name}/pmda_{name}.so"));
            format!("{name} {number} dso {name}_init {library}\n")
        };
        [("proc", 3), ("linux", 60)].map(agent).concat()
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<Running> {
        let all = self.with_environment(program, args);
        Running::start("env", &all.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn helper(&self, program: &str, args: &[&str]) -> Result<String> {
        let all = self.with_environment(program, args);
        output("env", &all.iter().map(String::as_str).collect::<Vec<_>>(), PATIENCE)
    }

    /// Returns the arguments of env(1) with which the program finds its configuration and libraries.
    fn with_environment(&self, program: &str, args: &[&str]) -> Vec<String> {
        let configuration = format!("PCP_CONF={}", self.own("pcp.conf"));
        let libraries = format!("LD_LIBRARY_PATH={}", self.path("usr/lib"));
        let args = args.iter().map(|arg| (*arg).to_owned());
        [configuration, libraries, self.path(program)].into_iter().chain(args).collect()
    }

    fn path(&self, path: &str) -> String {
        self.root.join(path).display().to_string()
    }

    fn own(&self, name: &str) -> String {
        self.own.path().join(name).display().to_string()
    }
}

fn pmcd(root: &Path) -> PathBuf {
    root.join("usr/lib/pcp/bin/pmcd")
}
