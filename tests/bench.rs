//! `whyslow bench` from the outside: what it refuses to touch, what it leaves behind, and whether its books balance.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use whyslow_model::bench::{Limit, Report, SCHEMA};

const MIB: u64 = 1 << 20;

/// A folder on a disk, and a loop device on a file in it; all gone when dropped.
struct Stage {
    folder: tempfile::TempDir,
    undo: Vec<Box<dyn FnOnce()>>,
}

impl Stage {
    /// None, with the reason printed, without root. In continuous integration it must be there.
    fn new() -> Option<Self> {
        // SAFETY: geteuid takes nothing and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "safety must be tested, as root");
            eprintln!("skipped: loop devices need root");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("wsl-bench-").tempdir_in("/var/tmp").unwrap();
        Some(Self { folder, undo: Vec::new() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A loop device of so many bytes, each of them 0x5a.
    fn device(&mut self, name: &str, bytes: u64) -> String {
        fs::write(self.path(name), vec![0x5a; bytes as usize]).unwrap();
        let path = self.path(name).to_string_lossy().into_owned();
        self.attach(&[&path])
    }

    fn attach(&mut self, args: &[&str]) -> String {
        let all = [&["--find", "--show", "--partscan"], args].concat();
        // Another test may take the device that was found free; then there is another.
        let out =
            (0..20).map(|_| Command::new("losetup").args(&all).output().unwrap()).find(|out| out.status.success());
        let node = String::from_utf8(out.expect("losetup(8)").stdout).unwrap().trim().to_owned();
        let gone = node.clone();
        self.undo(move || drop(Command::new("losetup").args(["--detach", &gone]).status()));
        node
    }

    fn undo(&mut self, how: impl FnOnce() + 'static) {
        self.undo.push(Box::new(how));
    }

    fn mount(&mut self, device: &str) -> String {
        must(Command::new("mkfs.ext4").args(["-q", "-F", device]));
        let point = self.path("mnt").to_string_lossy().into_owned();
        fs::create_dir_all(&point).unwrap();
        must(Command::new("mount").args([device, &point]));
        let gone = point.clone();
        self.undo(move || drop(Command::new("umount").arg(gone).status()));
        point
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        while let Some(undo) = self.undo.pop() {
            undo();
        }
    }
}

fn must(command: &mut Command) {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}

fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    command.args(["bench", "disk"]).args(args).stdin(Stdio::null());
    if !args.contains(&"--for") {
        command.args(["--for", "20ms"]);
    }
    command
}

/// The report of another benchmark than that of a disk.
fn report_of(args: &[&str]) -> Report {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    let out = command.arg("bench").args(args).arg("--json").stdin(Stdio::null()).output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("a report")
}

fn run(args: &[&str]) -> Output {
    bench(args).output().unwrap()
}

fn report(args: &[&str]) -> Report {
    let out = run(&[args, &["--json"]].concat());
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    let report: Report = serde_json::from_slice(&out.stdout).expect("a report");
    assert_eq!(report.schema, SCHEMA);
    report
}

/// That it is refused, in one line that holds these words.
fn assert_refused(args: &[&str], words: &[&str]) {
    let out = run(args);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {words:?} in {said}");
    assert!(out.stdout.is_empty());
}

/// For reading, and for writing with all that allows it.
fn assert_in_use(device: &str, serial: &str, words: &[&str]) {
    assert_refused(&[device], &[&["is in use"], words].concat());
    assert_refused(&[device, "--destroy", serial], &[&["is in use"], words].concat());
}

/// All bytes of a file or device.
fn content(path: impl AsRef<Path>) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_mounted_device_is_refused_by_any_of_its_names() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 16 * MIB);
    let point = stage.mount(&device);
    let serial = stage.path("a.img").to_string_lossy().into_owned();
    let link = stage.path("by-id");
    symlink(&device, &link).unwrap();
    let node = stage.path("another-node");
    let number = fs::read_to_string(format!("/sys/block/{}/dev", device.trim_start_matches("/dev/"))).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    must(Command::new("mknod").arg(&node).args(["b", major, minor]));
    for name in [&*device, &link.to_string_lossy(), &node.to_string_lossy()] {
        assert_in_use(name, &serial, &["mounted on", &point]);
    }
}

#[test]
fn a_disk_with_a_mounted_partition_is_refused() {
    let Some(mut stage) = Stage::new() else { return };
    let disk = stage.device("a.img", 32 * MIB);
    let serial = stage.path("a.img").to_string_lossy().into_owned();
    must(Command::new("addpart").args([&disk, "1", "2048", "32768"]));
    must(Command::new("addpart").args([&disk, "2", "40960", "16384"]));
    let gone = disk.clone();
    stage.undo(move || {
        for number in ["1", "2"] {
            drop(Command::new("delpart").args([&gone, number]).status());
        }
    });
    let part = format!("{disk}p1");
    stage.mount(&part);
    assert_in_use(&disk, &serial, &["p1 is mounted on"]);
    assert_in_use(&part, &serial, &["p1 is mounted on"]);
    let other = report(&[&format!("{disk}p2")]);
    assert_eq!((&*other.targets[0].kind, other.targets[0].bytes), ("partition", 8 * MIB));
}

#[test]
fn swap_is_refused() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 16 * MIB);
    let serial = stage.path("a.img").to_string_lossy().into_owned();
    must(Command::new("mkswap").arg(&device));
    must(Command::new("swapon").args(["--priority", "0", &device]));
    let gone = device.clone();
    stage.undo(move || drop(Command::new("swapoff").arg(gone).status()));
    assert_in_use(&device, &serial, &["is swap"]);
}

#[test]
fn a_device_that_a_loop_device_stands_on_is_refused() {
    let Some(mut stage) = Stage::new() else { return };
    let lower = stage.device("a.img", 16 * MIB);
    let serial = stage.path("a.img").to_string_lossy().into_owned();
    let upper = stage.attach(&[&lower]);
    let words = format!("{} stands on", upper.trim_start_matches("/dev/"));
    assert_in_use(&lower, &serial, &[&words]);
}

#[test]
fn a_device_that_a_process_has_open_is_refused() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 16 * MIB);
    let serial = stage.path("a.img").to_string_lossy().into_owned();
    for flags in [0, libc::O_EXCL] {
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&device).unwrap();
        let who = format!("process {}", std::process::id());
        assert_in_use(&device, &serial, &[&who]);
        drop(file);
    }
}

#[test]
fn what_is_in_use_may_be_read_where_that_is_asked_for() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 16 * MIB);
    stage.mount(&device);
    let report = report(&[&device, "--in-use"]);
    assert!(report.caveats.iter().any(|caveat| caveat.contains("in use")), "{:?}", report.caveats);
    assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.write.is_none()));
    let serial = stage.path("a.img").to_string_lossy().into_owned();
    assert_refused(&[&device, "--in-use", "--destroy", &serial], &["cannot be used with"]);
}

#[test]
fn a_device_is_written_to_only_where_its_serial_was_typed() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 4 * MIB);
    let whole = vec![0x5a; 4 * MIB as usize];
    let read = report(&[&device]);
    assert!(read.rounds.iter().flat_map(|round| &round.runs).all(|run| run.write.is_none()));
    assert!(content(&device) == whole, "reading changed it");
    for wrong in ["", "yes", "/dev/loop0", &device] {
        assert_refused(&[&device, "--destroy", wrong], &["--destroy", "the path of the file behind it"]);
    }
    assert!(content(&device) == whole, "a wrong serial changed it");
    let serial = stage.path("a.img").to_string_lossy().into_owned();
    let written = report(&[&device, "--destroy", &serial]);
    assert!(written.rounds.iter().flat_map(|round| &round.runs).any(|run| run.write.is_some()));
    assert!(content(&device) != whole);
}

#[test]
fn a_read_only_device_is_read_and_not_written() {
    let Some(mut stage) = Stage::new() else { return };
    fs::write(stage.path("a.img"), vec![0x5a; 4 * MIB as usize]).unwrap();
    let file = stage.path("a.img").to_string_lossy().into_owned();
    let device = stage.attach(&["--read-only", &file]);
    assert!(!report(&[&device]).rounds.is_empty());
    assert_refused(&[&device, "--destroy", &file], &["is read-only"]);
}

#[test]
fn a_file_that_is_there_is_read_and_stays_as_it_is() {
    let Some(stage) = Stage::new() else { return };
    let path = stage.path("data");
    fs::write(&path, vec![0x5a; 4 * MIB as usize]).unwrap();
    let name = path.to_string_lossy().into_owned();
    let report = report(&[&name]);
    assert_eq!((&*report.targets[0].kind, report.targets[0].bytes), ("file", 4 * MIB));
    assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.write.is_none() && run.read.is_some()));
    assert_refused(&[&name, "--destroy", "x"], &["is no block device"]);
    assert!(content(&path) == vec![0x5a; 4 * MIB as usize]);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let Some(stage) = Stage::new() else { return };
    let name = |name: &str| stage.path(name).to_string_lossy().into_owned();
    fs::write(stage.path("empty"), "").unwrap();
    must(Command::new("mkfifo").arg(stage.path("pipe")));
    assert_refused(&[&name("missing")], &["cannot be opened"]);
    assert_refused(&[&name("empty")], &["is empty"]);
    assert_refused(&[&name("pipe")], &["neither"]);
    assert_refused(&["/dev/null"], &["neither"]);
    assert_refused(&[&name(""), "--size", "1000T"], &["no room"]);
    assert_refused(&[&name(""), "--size", "12Q"], &["not a size"]);
    assert_eq!(fs::read_dir(stage.folder.path()).unwrap().count(), 2);
}

#[test]
fn a_folder_is_left_as_it_was() {
    let Some(stage) = Stage::new() else { return };
    let name = stage.folder.path().to_string_lossy().into_owned();
    let report = report(&[&name, "--size", "8M"]);
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
    let found: Vec<_> = report.ceilings.iter().map(|ceiling| (ceiling.of, &*ceiling.requests)).collect();
    let expected = [
        (Limit::Requests, "random read"),
        (Limit::Bandwidth, "sequential read"),
        (Limit::Requests, "random write"),
        (Limit::Bandwidth, "sequential write"),
    ];
    assert_eq!(found, expected);
    assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.failed.is_none() && run.hung == 0));
}

#[test]
fn the_books_of_a_device_balance_to_the_request() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 16 * MIB);
    let report = report(&[&device]);
    let kernel_name = device.trim_start_matches("/dev/");
    for round in report.rounds.iter().filter(|round| round.group == "random read") {
        let ledger = &round.ledgers[0];
        let device = ledger.layers.iter().find(|layer| layer.device == kernel_name).unwrap();
        assert_eq!(ledger.asked.read_bytes, device.traffic.read_bytes, "{}", round.name);
        assert_eq!(ledger.asked.reads, device.traffic.reads + device.reads_merged, "{}", round.name);
        assert_eq!((ledger.foreign_read_bytes, device.traffic.writes), (Some(0), 0), "{}", round.name);
        let run = &round.runs[0];
        let flow = run.read.as_ref().unwrap();
        assert_eq!(run.series.reads.iter().sum::<u64>(), flow.operations);
        assert!(flow.operations <= ledger.asked.reads);
    }
}

#[test]
fn every_way_through_the_cache_is_measured() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 8 * MIB);
    for more in
        [["--cache", "warm"], ["--cache", "cold"], ["--cache", "64M"], ["--engine", "psync"], ["--engine", "mmap"]]
    {
        let report = report(&[&[&*device], &more[..]].concat());
        assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.failed.is_none()), "{more:?}");
        // What the first round read is there in the second, unless the cache is emptied.
        let cache = |round: usize| report.rounds[round].ledgers[0].cache;
        match more[1] {
            "warm" | "mmap" => {
                let left = cache(0).unwrap().after;
                assert!(left > 0 && cache(1).unwrap().before == left, "{more:?}");
            }
            "cold" | "64M" => assert_eq!(cache(1).unwrap().before, 0, "{more:?}"),
            _ => assert_eq!(cache(1), None),
        }
    }
    let file = stage.path("a.img").to_string_lossy().into_owned();
    assert_refused(&[&file, "--engine", "mmap"], &["mmap"]);
}

/// A benchmark that would take long, once it is at work.
fn long(args: &[&str]) -> Child {
    let mut command = bench(&[args, &["--for", "30s", "--json"]].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    assert_eq!(child.try_wait().unwrap(), None, "it has ended already");
    child
}

fn signal(child: &Child, signal: i32) {
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: kill takes two numbers and touches no memory; the child has not been waited for, so the number is its own.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn ctrl_c_reports_what_was_measured_and_leaves_nothing() {
    let Some(stage) = Stage::new() else { return };
    let name = stage.folder.path().to_string_lossy().into_owned();
    let child = long(&[&name, "--size", "8M"]);
    let asked = Instant::now();
    signal(&child, libc::SIGINT);
    let out = child.wait_with_output().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(10));
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let report: Report = serde_json::from_slice(&out.stdout).expect("a report");
    assert!(report.interrupted);
    assert!(report.rounds.iter().all(|round| round.runs[0].seconds < 30.0));
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
}

#[test]
fn killed_it_leaves_nothing_either() {
    let Some(stage) = Stage::new() else { return };
    let name = stage.folder.path().to_string_lossy().into_owned();
    let mut child = long(&[&name, "--size", "8M", "--cache", "64M"]);
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
    // The control group, which the kernel does not take away by itself, the next run does.
    let group = format!("/sys/fs/cgroup/memory/whyslow-bench-{}", child.id());
    let was_there = Path::new(&group).exists() || !Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists();
    fs::write(stage.path("data"), vec![0x5a; MIB as usize]).unwrap();
    report(&[&stage.path("data").to_string_lossy(), "--cache", "64M"]);
    assert!(was_there && !Path::new(&group).exists(), "{group}");
}

#[test]
fn what_is_written_to_the_device_is_not_what_was_there() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 4 * MIB);
    let serial = stage.path("a.img").to_string_lossy().into_owned();
    report(&[&device, "--destroy", &serial]);
    let file = File::open(&device).unwrap();
    let mut block = [0; 4096];
    file.read_exact_at(&mut block, 0).unwrap();
    let zeros = block.iter().filter(|&&byte| byte == 0).count();
    assert!(zeros < 100, "{zeros} zeros: a device could compress that");
}

#[test]
fn layers_are_read_where_the_file_lies_and_nothing_is_written() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 32 * MIB);
    let point = stage.mount(&device);
    let file = Path::new(&point).join("data");
    fs::write(&file, vec![0x77; 12 * MIB as usize]).unwrap();
    must(&mut Command::new("sync"));
    let report = report_of(&["layers", &point, "--for", "20ms"]);
    let name = device.trim_start_matches("/dev/");
    let of_group = report.layers.chunk_by(|a, b| a.group == b.group).next().unwrap();
    let names: Vec<&str> = of_group.iter().map(|layer| &*layer.name).collect();
    assert!(names.ends_with(&[name, "ext4, direct", "ext4, cache cold", "ext4, cache warm"]), "{names:?}");
    assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.failed.is_none() && run.write.is_none()));
    // What the device is read for is the file's own content.
    let at_device = report.rounds.iter().flat_map(|round| &round.runs).find(|run| run.name == name).unwrap();
    let mut block = [0; 4096];
    File::open(&device).unwrap().read_exact_at(&mut block, at_device.asked.start).unwrap();
    assert!(block.iter().all(|&byte| byte == 0x77), "the device was read elsewhere");
    assert_eq!(content(&file), vec![0x77; 12 * MIB as usize]);
}

#[test]
fn targets_contend_in_pairs() {
    let Some(mut stage) = Stage::new() else { return };
    let devices: Vec<String> = ["a.img", "b.img", "c.img"].map(|name| stage.device(name, 4 * MIB)).into();
    let args: Vec<&str> = ["contend", "--for", "200ms"].into_iter().chain(devices.iter().map(String::as_str)).collect();
    let report = report_of(&args);
    let pairs: Vec<[&str; 2]> = report.pairs.iter().map(|pair| [&*pair.names[0], &*pair.names[1]]).collect();
    let [a, b, c] = [&*devices[0], &*devices[1], &*devices[2]];
    assert_eq!(pairs, [[a, b], [a, c], [b, c]]);
    assert!(report.pairs.iter().all(|pair| pair.alone.iter().chain(&pair.together).all(|&rate| rate > 0.0)));
}

#[test]
fn a_file_system_is_left_as_it_was() {
    let Some(stage) = Stage::new() else { return };
    let name = stage.folder.path().to_string_lossy().into_owned();
    let report = report_of(&["fs", &name, "--size", "8M", "--files", "50", "--for", "100ms"]);
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
    assert_eq!((report.files.len(), report.pairs.len()), (8, 3));
    assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.failed.is_none()));
    let moved = |round: &str| {
        let round = report.rounds.iter().find(|found| found.name == round).unwrap();
        round.ledgers[0].asked
    };
    assert_eq!((moved("write").write_bytes, moved("write").flushes), (8 * MIB, 1));
    assert_eq!(moved("read one of eight, cache cold").read_bytes, MIB);
    assert_eq!(moved("read backward, cache cold").read_bytes, 8 * MIB);
}

#[test]
fn waiting_for_its_turn_is_part_of_a_requests_latency() {
    let Some(stage) = Stage::new() else { return };
    let job = stage.path("job.fio").to_string_lossy().into_owned();
    let folder = stage.folder.path().display();
    // No file system makes a million writes last in a second.
    let rate = "rate_iops=1000000\nfdatasync=1\nruntime=300ms\ntime_based";
    fs::write(&job, format!("[a]\ndirectory={folder}\nsize=1m\nrw=randwrite\n{rate}\n")).unwrap();
    let out =
        Command::new(env!("CARGO_BIN_EXE_whyslow")).args(["bench", "disk", "--json", "--job", &job]).output().unwrap();
    let report: Report = serde_json::from_slice(&out.stdout).expect("a report");
    let run = &report.rounds[0].runs[0];
    let write = run.write.as_ref().unwrap();
    let service = write.service.as_ref().unwrap();
    assert!(run.behind > 100_000, "{}", run.behind);
    assert!(write.latency.max > 0.1 && write.latency.max > 2.0 * service.mean, "{:?} {service:?}", write.latency);
}
