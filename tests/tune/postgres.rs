//! Tests of `whyslow try` with pgbench on a separate PostgreSQL server.

use crate::cage::{Cage, in_cage, soon, tool};
use crate::group::Group;
use crate::trial::{is_undecided, verdict, whyslow};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use whyslow_testing::ends_with_test;

/// Debian's folder for the versions of PostgreSQL.
const VERSIONS: &str = "/usr/lib/postgresql";
/// A user without any rights: the server refuses to run as root.
const NOBODY: u32 = 65534;
/// Only names the socket: the server listens on no address.
const PORT: &str = "57432";

/// A server that is ended, and its data removed, when dropped.
struct Server {
    programs: PathBuf,
    folder: PathBuf,
    process: Child,
}

impl Server {
    /// Returns `None` if PostgreSQL is not installed.
    fn start(cage: &Cage, group: &Group) -> Option<Self> {
        let version = fs::read_dir(VERSIONS).ok()?.filter_map(Result::ok).next()?;
        let programs = version.path().join("bin");
        let folder = cage.path("postgres");
        fs::create_dir(&folder).unwrap();
        // The user that runs the server must be able to reach the folder.
        fs::set_permissions(cage.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
        let run = |program: &str, args: &[&str]| {
            let mut command = Command::new(programs.join(program));
            command.args(args).uid(NOBODY).gid(NOBODY).current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::null());
            command
        };
        let data = folder.join("data");
        let data = data.to_str().unwrap();
        let made = run("initdb", &["--no-sync", "--auth=trust", "--username=test", "-D", data]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let socket = folder.to_str().unwrap().to_owned();
        let mut server = run("postgres", &["-D", data, "-k", &socket, "-p", PORT, "-c", "listen_addresses=", "-F"]);
        let process = ends_with_test(server.stderr(Stdio::null())).spawn().unwrap();
        group.write("cgroup.procs", &process.id().to_string());
        let server = Self { programs, folder, process };
        soon("the server comes up", || server.client("pg_isready", &[]).status().unwrap().success());
        assert!(server.client("pgbench", &["-i", "-q", "postgres"]).status().unwrap().success());
        Some(server)
    }

    fn words(&self, program: &str, args: &[&str]) -> Vec<String> {
        let own = ["-h", self.folder.to_str().unwrap(), "-p", PORT, "-U", "test"];
        let program = self.programs.join(program).to_str().unwrap().to_owned();
        [program].into_iter().chain(own.iter().chain(args).map(|word| (*word).to_owned())).collect()
    }

    fn client(&self, program: &str, args: &[&str]) -> Command {
        let words = self.words(program, args);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGINT requests a fast shutdown: it ends sessions, and nobody needs the data any more.
        tool("kill", &["-INT", &self.process.id().to_string()]);
        self.process.wait().unwrap();
    }
}

#[test]
fn pgbench_shows_what_a_quota_costs_a_database() {
    in_cage(|cage| {
        let Some(group) = Group::new(cage, "cpu") else { return };
        let Some(server) = Server::start(cage, &group) else {
            crate::skip::skip(&format!("no PostgreSQL in {VERSIONS}"));
            return;
        };
        group.write("cpu.cfs_quota_us", "5000");
        let change = format!("cgroup.cpu.cfs_quota_us@{}=-1", group.name());
        // The last number that pgbench prints is the number of transactions per second.
        let bench = server.words("pgbench", &["-n", "-S", "-t", "300", "postgres"]);
        let how =
            ["--json", "--yes", "--pairs", "6", "--noise-pairs", "0", "--metric", "+number", "--keep", &change, "--"];
        let words: Vec<&str> = how.into_iter().chain(bench.iter().map(String::as_str)).collect();
        let trial = verdict(&whyslow(cage, &words).output().unwrap());
        if is_undecided(&trial) {
            assert_eq!(group.read("cpu.cfs_quota_us"), "5000");
            return;
        }
        assert_eq!(trial["verdict"], "helped", "{trial}");
        assert!(trial["effect"]["better"].as_f64().unwrap() > 0.5, "{trial}");
        assert_eq!(group.read("cpu.cfs_quota_us"), "-1");
        cage.expect(0, &["undo", &trial["kept"].to_string()]);
        assert_eq!(group.read("cpu.cfs_quota_us"), "5000");
    });
}
