//! Trials with PostgreSQL, MariaDB and Redis.

use crate::cgroup::{Cgroup, Controller};
use crate::disk::{DiskSpec, SimulatedDisk};
use crate::error::Result;
use crate::expect::EntityPattern::{self, Command, Host};
use crate::expect::Expect;
use crate::program::{ProgramCommand, give, home};
use crate::testbed::Testbed;
use crate::trial::Trial;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "postgres-flush",
        what: "clients of PostgreSQL commit one transaction after another on a disk that is slow to flush",
        finding: Some("disk.flush_bound"),
        never: &["disk.saturated", "disk.small_io", "disk.throttled", "lock.contention"],
        setup: |bed| {
            let (mut disk, dir) = data_disk(bed, 10_000..=30_000)?;
            let server = Postgres::start(bed, &dir)?;
            disk.enable_delays()?;
            let clients = bed.range(1..=4).to_string();
            server.bench(&["-c", &clients])?.start(bed)?;
            let postgres = Command("postgres");
            let subjects = [postgres.clone(), EntityPattern::device(&disk.device.name), EntityPattern::mount(&dir)];
            Ok(Expect::subject(subjects).culprit([postgres]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "mariadb-cgroup",
        what: "the cgroup of MariaDB is too small for the page cache of its table, which it keeps reading again",
        finding: Some("mem.cache_thrash"),
        never: &["disk.flush_bound", "mem.leak", "mem.thrashing"],
        setup: |bed| {
            let (mut disk, dir) = data_disk(bed, 200..=500)?;
            let group = Cgroup::new(bed, "database", &[Controller::Memory])?;
            group.set_memory_limit_without_swap(bed.range(160..=190) << 20)?;
            let server = MariaDb::start(bed, &dir, 900, 8, Some(&group))?;
            disk.enable_delays()?;
            for _ in 0..4 {
                server.look_up(bed, None)?;
            }
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([group.clone(), Host]).culprit([Command("mariadbd"), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "redis-aof",
        what: "Redis flushes its log after every command, on a disk that is slow to flush",
        finding: Some("disk.flush_bound"),
        never: &["disk.saturated", "disk.small_io", "disk.throttled", "cpu.single_thread"],
        setup: |bed| {
            let (mut disk, dir) = data_disk(bed, 10_000..=30_000)?;
            let server = Redis::start(bed, &dir, &["--appendonly", "yes", "--appendfsync", "always"])?;
            disk.enable_delays()?;
            server.command("redis-benchmark")?.args(["-q", "-t", "set", "-n", "100000000", "-c", "4"]).start(bed)?;
            let redis = Command("redis-server");
            let subjects = [redis.clone(), EntityPattern::device(&disk.device.name), EntityPattern::mount(&dir)];
            Ok(Expect::subject(subjects).culprit([redis]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "postgres",
        what: "clients of PostgreSQL commit transactions at a rate that its disk can keep up with",
        setup: |bed| {
            let (mut disk, dir) = data_disk(bed, 200..=500)?;
            let server = Postgres::start(bed, &dir)?;
            disk.enable_delays()?;
            let rate = bed.range(20..=60).to_string();
            server.bench(&["-c", "4", "-R", &rate])?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "mariadb",
        what: "clients of MariaDB look rows up in a table that its buffer pool holds, with pauses",
        setup: |bed| {
            let dir = home(bed)?;
            let server = MariaDb::start(bed, &dir, 200, 128, None)?;
            for _ in 0..bed.range(1..=4) {
                server.look_up(bed, Some(Duration::from_millis(10)))?;
            }
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "redis",
        what: "clients of Redis, which flushes its log every second, set keys at a steady rate",
        setup: |bed| {
            let (mut disk, dir) = data_disk(bed, 1_000..=3_000)?;
            let server = Redis::start(bed, &dir, &["--appendonly", "yes", "--appendfsync", "everysec"])?;
            disk.enable_delays()?;
            for _ in 0..bed.range(1..=4) {
                server.repeat(&["set", "key", "value"], Duration::from_millis(5))?.start(bed)?;
            }
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "redis-save",
        what: "Redis saves its data from a forked process every few seconds, while clients set keys at a steady rate",
        setup: |bed| {
            let (mut disk, dir) = data_disk(bed, 1_000..=3_000)?;
            let server = Redis::start(bed, &dir, &["--enable-debug-command", "local"])?;
            disk.enable_delays()?;
            let keys = bed.range(100_000..=300_000).to_string();
            server.command("redis-cli")?.args(["debug", "populate", &keys, "key", "100"]).run()?;
            server.repeat(&["bgsave"], Duration::from_secs(4))?.start(bed)?;
            server.repeat(&["set", "key", "value"], Duration::from_millis(5))?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

/// Creates a disk without delays yet, with a file system that programs may use. Once enabled, flushes take a time from
/// a range of microseconds.
fn data_disk(bed: &mut Testbed, flush_us: std::ops::RangeInclusive<u64>) -> Result<(SimulatedDisk, PathBuf)> {
    let flush = Duration::from_micros(bed.range(flush_us));
    let latency = Duration::from_micros(bed.range(100..=300));
    let disk = SimulatedDisk::new(bed, 1 << 30, DiskSpec { flush, ..DiskSpec::new(latency, 16) })?;
    let dir = disk.device.ext4(bed, "data", &[])?;
    give(bed, &dir)?;
    Ok((disk, dir))
}

struct Postgres {
    home: PathBuf,
    port: u16,
}

impl Postgres {
    /// Starts a cluster below `dir`, with the tables of pgbench.
    fn start(bed: &mut Testbed, dir: &Path) -> Result<Self> {
        let (home, port) = (home(bed)?, bed.port());
        let data = dir.join("cluster").display().to_string();
        let initdb = ProgramCommand::new(&home, "initdb", "postgresql")?;
        initdb.args(["-D", &data, "-U", "lab", "-A", "trust", "--no-sync", "--no-locale"]).run()?;
        let sockets = home.display().to_string();
        let postgres = ProgramCommand::new(&home, "postgres", "postgresql")?;
        let options = ["-D", &data, "-p", &port.to_string(), "-k", &sockets, "-c", "listen_addresses=127.0.0.1"];
        postgres.args(options).serve(bed, port)?;
        let server = Self { home, port };
        server.pgbench()?.args(["-i", "-q", "-s", "2", "postgres"]).run()?;
        Ok(server)
    }

    fn pgbench(&self) -> Result<ProgramCommand> {
        let pgbench = ProgramCommand::new(&self.home, "pgbench", "postgresql")?;
        Ok(pgbench.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "lab"]))
    }

    /// Returns a pgbench command that runs its default transactions until the end of the trial.
    fn bench(&self, options: &[&str]) -> Result<ProgramCommand> {
        Ok(self.pgbench()?.args(["-n", "-T", "3600"]).args(options).args(["postgres"]))
    }
}

struct MariaDb {
    home: PathBuf,
    socket: String,
    rows: u64,
}

impl MariaDb {
    /// Starts a server with its files below `dir`, a table with this many thousand rows of a little over 200 bytes
    /// each, and a buffer pool of `megabytes`.
    fn start(bed: &mut Testbed, dir: &Path, thousands: u64, megabytes: u64, group: Option<&Cgroup>) -> Result<Self> {
        let home = home(bed)?;
        let data = format!("--datadir={}", dir.join("data").display());
        let install = ProgramCommand::new(&home, "mariadb-install-db", "mariadb-server-core")?;
        install.args(["--no-defaults", &data, "--auth-root-authentication-method=normal", "--skip-test-db"]).run()?;
        let (port, socket) = (bed.port(), format!("--socket={}", home.join("socket").display()));
        let mut server = ProgramCommand::new(&home, "mariadbd", "mariadb-server-core")?;
        server = server.args(["--no-defaults", &data, &socket, "--bind-address=127.0.0.1", "--skip-grant-tables"]);
        // Use the page cache.
        let pool = format!("--innodb-buffer-pool-size={megabytes}M");
        server = server.args([&format!("--port={port}"), &pool, "--innodb-flush-method=fsync"]);
        if let Some(group) = group {
            server = server.in_cgroup(group)?;
        }
        server.serve(bed, port)?;
        let server = Self { home, socket, rows: 1000 * thousands };
        let table = "create database lab; use lab; create table t (id int primary key, filler char(200)) ";
        let rows = format!("select seq as id, repeat('x', 200) as filler from seq_1_to_{}", server.rows);
        server.client()?.args(["-e", &format!("{table}{rows}")]).run()?;
        Ok(server)
    }

    fn client(&self) -> Result<ProgramCommand> {
        let client = ProgramCommand::new(&self.home, "mariadb", "mariadb-client-core")?;
        Ok(client.args(["--no-defaults", &self.socket, "-u", "root"]))
    }

    /// Starts a client that looks up one random row after another, or one per pause.
    fn look_up(&self, bed: &mut Testbed, pause: Option<Duration>) -> Result<u32> {
        let pause = pause.map_or(String::new(), |pause| format!("do sleep({}); ", pause.as_secs_f64()));
        let random = format!("set @id = 1 + floor(rand() * {}); ", self.rows);
        let select = "select count(filler) into @found from lab.t where id = @id; ";
        let script = format!("begin not atomic while true do {random}{select}{pause}end while; end");
        self.client()?.args(["--delimiter=//", "-e", &script]).start(bed)
    }
}

struct Redis {
    home: PathBuf,
    port: String,
}

impl Redis {
    /// Starts a server with its files in `dir`.
    fn start(bed: &mut Testbed, dir: &Path, options: &[&str]) -> Result<Self> {
        let (home, port) = (home(bed)?, bed.port());
        let (dir, text) = (dir.display().to_string(), port.to_string());
        let server = ProgramCommand::new(&home, "redis-server", "redis-server")?;
        server
            .args(["--port", &text, "--bind", "127.0.0.1", "--dir", &dir, "--save", ""])
            .args(options)
            .serve(bed, port)?;
        Ok(Self { home, port: text })
    }

    /// Returns a client command.
    fn command(&self, name: &str) -> Result<ProgramCommand> {
        Ok(ProgramCommand::new(&self.home, name, "redis-tools")?.args(["-h", "127.0.0.1", "-p", &self.port]))
    }

    /// Returns a client that repeats one command.
    fn repeat(&self, command: &[&str], every: Duration) -> Result<ProgramCommand> {
        let every = every.as_secs_f64().to_string();
        Ok(self.command("redis-cli")?.args(["-r", "-1", "-i", &every]).args(command))
    }
}
