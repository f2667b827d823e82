//! Tests of `whyslow record` from the outside: what remains on disk, however the recording ends.

mod signals;
mod skip;

use signals::wait_until_caught;
use skip::is_root;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use whyslow_model::catalogue::{Cpu, Family, Process, Sample, Vmstat};
use whyslow_model::snapshot::{ReadOutcome, Snapshot};
use whyslow_store::Recording;
use whyslow_testing::{ends_with_test, heeds_hangup};

fn whyslow(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    heeds_hangup(ends_with_test(&mut command));
    command
}

fn run(args: &[&str]) -> Output {
    whyslow(args).output().unwrap()
}

fn begin(dir: &str) -> Child {
    whyslow(&["record", "--dir", dir, "--interval", "100ms"]).spawn().unwrap()
}

fn signal(child: &Child, signal: i32) {
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: kill takes two numbers and touches no memory; the child has not been waited for, so the PID is still its
    // own.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

fn read(dir: &Path) -> Vec<Snapshot> {
    read_families(dir, &|_| true)
}

/// Returns the samples with only their times, which is quick even on a busy machine.
fn read_times(dir: &Path) -> Vec<Snapshot> {
    read_families(dir, &|family| family == Sample::INFO.name)
}

fn read_families(dir: &Path, wanted: &dyn Fn(&str) -> bool) -> Vec<Snapshot> {
    match Recording::open(dir) {
        Ok(recording) => recording.snapshots(&recording.span(), &wanted).expect("readable"),
        Err(_) => Vec::new(),
    }
}

/// Waits until there are this many samples.
fn wait_for(dir: &Path, samples: usize) {
    let began = Instant::now();
    while read_times(dir).len() < samples {
        assert!(began.elapsed() < Duration::from_secs(60), "{} samples", read_times(dir).len());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_is_recorded_is_there_in_full() {
    let dir = whyslow_testing::folder();
    let path = dir.path().to_str().unwrap();
    let out = run(&["record", "--dir", path, "--interval", "200ms", "--for", "4s", "--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let samples = read(dir.path());
    assert!(samples.len() >= 2);
    assert_eq!((told["samples"].as_u64(), told["folder"].as_str()), (Some(samples.len() as u64), Some(path)));
    for sample in samples.iter().filter(|sample| !has_hung(sample)) {
        let sources: Vec<_> = sample.sources.iter().map(|s| (&s.source, &s.outcome)).collect();
        let rows = (Cpu::rows(sample).len(), Process::rows(sample).len());
        assert!(rows.0 > 0 && rows.1 > 0 && !sources.is_empty(), "{rows:?} {sources:?}");
    }
    assert_eq!(samples[0].the::<Sample>().unwrap().event.get(), Some("recording began"));
}

/// Returns true if a reading hung until the recorder continued without it, as on a busy machine.
fn has_hung(sample: &Snapshot) -> bool {
    sample.sources.iter().any(|source| matches!(source.outcome, ReadOutcome::Hung(_)))
}

/// Returns the start times of the samples, in nanoseconds since 1970.
fn moments(samples: &[Snapshot]) -> Vec<i64> {
    samples.iter().map(|sample| sample.wall_ns).collect()
}

fn now_ns() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// Returns how long the threads of a process have waited for a CPU (Documentation/scheduler/sched-stats.rst): the more
/// other work the machine has, the later a sample is taken.
fn run_delay_ns(pid: u32) -> i64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|thread| thread.unwrap().path());
    let delay = |path: PathBuf| -> Option<i64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').nth(1)?.parse().ok()
    };
    threads.filter_map(delay).sum()
}

/// Runs recorders one after the other in a folder and kills each at a random moment: every second one during its start,
/// when it closes the data of the previous one, the others once they have recorded something.
fn kill_recorders(dir: &Path, count: u32) {
    const LONGEST_MS: u64 = 500;
    const MAY_BE_LOST_NS: i64 = 2_000_000_000;
    let path = dir.to_str().unwrap();
    let mut known = Vec::new();
    let mut recorded = 0;
    let samples = || moments(&read_times(dir));
    for n in 0..count {
        // Without BPF, which takes most of the start time.
        let mut child = whyslow(&["record", "--dir", path, "--interval", "100ms", "--no-bpf"]).spawn().unwrap();
        if n % 2 == 1 {
            wait_for(dir, known.len() + 1);
        }
        let moment = RandomState::new().hash_one(()) % LONGEST_MS;
        std::thread::sleep(Duration::from_millis(moment));
        let before = samples();
        let kept_from_running = run_delay_ns(child.id());
        signal(&child, libc::SIGKILL);
        let killed = now_ns();
        child.wait().unwrap();
        let after = samples();
        assert!(after.starts_with(&before) && before.starts_with(&known), "killed after {moment} ms");
        if after.len() > known.len() {
            recorded += 1;
            let lost = killed - after.last().unwrap();
            let may_be_lost = MAY_BE_LOST_NS + kept_from_running;
            assert!(lost < may_be_lost, "killed after {moment} ms: {lost} ns are not there, not {may_be_lost} at most");
        }
        known = after;
    }
    assert!(recorded >= count / 2, "{recorded} of {count} recorded something");
    let out = run(&["record", "--dir", path, "--interval", "100ms", "--for", "1s", "--no-bpf"]);
    assert_eq!(out.status.code(), Some(0));
    let closed = read(dir);
    assert!(closed.len() > known.len() && moments(&closed).starts_with(&known));
    assert!(closed.is_sorted_by_key(|sample| sample.boot_ns));
    let tails = std::fs::read_dir(dir).unwrap().filter(|e| {
        e.as_ref().is_ok_and(|entry| entry.path().extension().is_some_and(|extension| extension == "tail"))
    });
    assert_eq!(tails.count(), 0);
}

#[test]
fn recorders_killed_at_200_moments_lose_nothing_and_the_next_goes_on() {
    const KILLS: u32 = 200;
    const AT_ONCE: u32 = 4;
    // The recording is read again after each kill: many short ones take less time than a few long ones.
    const FOLDERS: u32 = 5;
    let kill_in_each = || {
        for _ in 0..FOLDERS {
            // In memory, where a flush does not wait for other programs that write to the disk.
            let dir = whyslow_testing::memory_folder();
            kill_recorders(dir.path(), KILLS / AT_ONCE / FOLDERS);
        }
    };
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(kill_in_each))));
}

#[test]
fn sigterm_ends_it_as_ctrl_c_does() {
    for end in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let dir = whyslow_testing::folder();
        let child = begin(dir.path().to_str().unwrap());
        wait_for(dir.path(), 2);
        signal(&child, end);
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(String::from_utf8_lossy(&out.stdout).starts_with("recorded "));
    }
}

#[test]
fn a_folder_of_other_peoples_files_is_refused_and_left_alone() {
    let dir = whyslow_testing::folder();
    let theirs = dir.path().join("events/day=2020-01-01/05.parquet");
    std::fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    std::fs::write(&theirs, "theirs").unwrap();
    let out = run(&["record", "--dir", dir.path().to_str().unwrap(), "--for", "1s"]);
    assert_eq!(out.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&out.stderr);
    assert!(complaint.contains("not a recording, and not empty"), "{complaint}");
    assert!(theirs.exists() && !dir.path().join("lock").exists());

    // A state folder without a recording, and a new file system.
    let dir = whyslow_testing::folder();
    ["baselines", "tune", "lost+found"].iter().for_each(|name| std::fs::create_dir(dir.path().join(name)).unwrap());
    let record = ["record", "--dir", dir.path().to_str().unwrap(), "--interval", "200ms", "--for", "400ms"];
    assert_eq!(run(&record).status.code(), Some(0));
    // From then on it is a recording, regardless of other files in it.
    std::fs::write(dir.path().join("notes.txt"), "theirs").unwrap();
    assert_eq!(run(&record).status.code(), Some(0));
}

#[test]
fn a_recording_whose_folder_is_removed_ends_with_an_error() {
    for (remove, words) in [("rm -r \"$1\"", "removed"), ("mv \"$1\" \"$1.moved\"", "removed")] {
        let parent = whyslow_testing::folder();
        let dir = parent.path().join("recording");
        let child = begin(dir.to_str().unwrap());
        wait_for(&dir, 2);
        let removed = Command::new("sh").args(["-c", remove, "sh"]).arg(&dir).status().unwrap();
        assert!(removed.success());
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{remove}");
        let complaint = String::from_utf8_lossy(&out.stderr);
        assert!(complaint.contains(words) && complaint.contains(dir.to_str().unwrap()), "{remove}: {complaint}");
        assert!(!dir.exists(), "{remove}: it is not made again");
    }
}

#[test]
fn a_baseline_that_is_interrupted_is_not_saved() {
    for end in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let dir = whyslow_testing::folder();
        let save = ["baseline", "--dir", dir.path().to_str().unwrap(), "save", "--for", "1m", "--interval", "200ms"];
        let child = whyslow(&save).spawn().unwrap();
        wait_until_caught(child.id(), end);
        signal(&child, end);
        let out = child.wait_with_output().unwrap();
        let complaint = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(130), "{complaint}");
        assert!(complaint.contains("no baseline was saved"), "{complaint}");
        assert!(!dir.path().join("baselines").exists());
    }
}

#[test]
fn a_flipped_bit_in_what_a_killed_recorder_left_costs_no_sample() {
    let dir = whyslow_testing::folder();
    let path = dir.path().to_str().unwrap();
    let mut child = begin(path);
    wait_for(dir.path(), 40);
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    let before = moments(&read(dir.path()));
    let tail = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let tail = tail.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "tail")).unwrap();
    let mut bytes = std::fs::read(&tail).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&tail, bytes).unwrap();
    let out = run(&["record", "--dir", path, "--interval", "100ms", "--for", "1s"]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(moments(&read(dir.path())).starts_with(&before), "{} samples were there", before.len());
}

#[test]
fn one_folder_has_one_recorder() {
    let dir = whyslow_testing::folder();
    let mut first = begin(dir.path().to_str().unwrap());
    wait_for(dir.path(), 1);
    let second = run(&["record", "--dir", dir.path().to_str().unwrap(), "--for", "1s"]);
    signal(&first, libc::SIGTERM);
    first.wait().unwrap();
    assert_eq!(second.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&second.stderr);
    assert!(complaint.contains("another whyslow is already recording here"), "{complaint}");
}

/// A process that changes its name every fifth of a second; ended when dropped.
struct Renamed(Child);

impl Renamed {
    fn start() -> Self {
        let rename = "n=0; while :; do n=$((n + 1)); printf wsl-name-$n > /proc/$$/comm; sleep 0.2; done";
        Self(ends_with_test(Command::new("sh").args(["-c", rename]).stdin(Stdio::null())).spawn().unwrap())
    }
}

impl Drop for Renamed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_that_changes_its_name_stays_one_process() {
    let dir = whyslow_testing::folder();
    let renamed = Renamed::start();
    let mut recorder = begin(dir.path().to_str().unwrap());
    let began = Instant::now();
    let (keys, names) = loop {
        let (mut keys, mut names) = (BTreeSet::new(), Vec::new());
        for sample in read(dir.path()).iter().filter(|sample| !has_hung(sample)) {
            let rows = Process::rows(sample);
            let rows: Vec<&Process> = rows.iter().filter(|row| row.task.pid == renamed.0.id()).collect();
            let [row] = rows[..] else { panic!("{} rows of one process", rows.len()) };
            keys.insert(row.task);
            let number = row.command.get().and_then(|name| name.strip_prefix("wsl-name-")?.parse::<u32>().ok());
            names.extend(number);
        }
        names.dedup();
        if names.len() >= 3 {
            break (keys, names);
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{names:?}");
        std::thread::sleep(Duration::from_millis(200));
    };
    signal(&recorder, libc::SIGTERM);
    recorder.wait().unwrap();
    assert_eq!(keys.len(), 1, "{keys:?}");
    assert!(names.is_sorted(), "each sample has the name of its time: {names:?}");
}

/// Mounts a FUSE file system over /proc/vmstat, in its own mount namespace. The file system is a single file and has no
/// server, so opening it hangs.
#[test]
fn a_file_of_proc_that_hangs_does_not_stop_the_recording() {
    const HANG: &str = "exec 9<>/dev/fuse && \
        mount -i -t fuse -o fd=9,rootmode=100000,user_id=0,group_id=0 wsl-record-hung /proc/vmstat && exec \"$@\"";
    if !is_root() {
        return;
    }
    let dir = whyslow_testing::folder();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", HANG, "sh", env!("CARGO_BIN_EXE_whyslow"), "record", "--no-bpf"]);
    command.args(["--dir", dir.path().to_str().unwrap(), "--interval", "200ms"]);
    let mut child = ends_with_test(command.stdin(Stdio::null()).stdout(Stdio::null())).spawn().unwrap();
    wait_for(dir.path(), 3);
    signal(&child, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let samples = read(dir.path());
    let last = samples.last().unwrap();
    let hung: Vec<_> = last.sources.iter().filter(|source| matches!(source.outcome, ReadOutcome::Hung(_))).collect();
    assert_eq!(hung.len(), 1, "{:?}", last.sources);
    assert!(Vmstat::rows(last).is_empty());
    assert!(!Cpu::rows(last).is_empty() && !Process::rows(last).is_empty(), "the others are read");
    let missed: f64 = samples.iter().filter_map(|sample| sample.the::<Sample>()?.missed.get()).sum();
    assert!(missed >= 1.0, "the sample that it hung in is missed, and said so");
}

/// Returns all files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_recording_is_shipped_once_and_while_it_goes_on() {
    let (dir, store) = (whyslow_testing::folder(), whyslow_testing::folder());
    let (path, to) = (dir.path().to_str().unwrap(), store.path().to_str().unwrap());
    // A shipper waits until there is a recording.
    let shipper = whyslow(&["ship", to, "--dir", path, "--host", "web-1", "--json"]).spawn().unwrap();
    let recorder = begin(path);
    wait_for(dir.path(), 5);
    let began = Instant::now();
    while files(store.path()).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing was shipped");
        std::thread::sleep(Duration::from_millis(100));
    }
    // Only one process can ship a recording at a time.
    let ship = |store: &str, host: &str| run(&["ship", store, "--once", "--dir", path, "--host", host, "--json"]);
    let refused = ship(to, "web-1");
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
    signal(&shipper, libc::SIGTERM);
    let out = shipper.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap()["host"], "web-1");
    signal(&recorder, libc::SIGTERM);
    recorder.wait_with_output().unwrap();

    let told = |out: &Output| -> serde_json::Value { serde_json::from_slice(&out.stdout).unwrap() };
    let first = ship(to, "web/2");
    assert_eq!(first.status.code(), Some(0), "{}", String::from_utf8_lossy(&first.stderr));
    let shipped = files(store.path()).into_iter().filter(|file| file.ends_with("web%2F2.parquet")).count();
    assert!(shipped > 10, "{shipped} tables");
    assert_eq!(told(&first)["files"].as_u64(), Some(shipped as u64));
    assert_eq!(told(&ship(to, "web/2"))["files"], 0, "nothing is new");
    let mut unreachable = whyslow(&["ship", "s3://bucket/x", "--once", "--dir", path, "--json"]);
    unreachable.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1").env("AWS_ALLOW_HTTP", "true");
    unreachable.env("AWS_ACCESS_KEY_ID", "k").env("AWS_SECRET_ACCESS_KEY", "s3cr3t");
    let out = unreachable.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!((out.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("not delivered") && !said.contains("s3cr3t"), "{said}");
    assert!(told(&out)["left"].as_u64() >= Some(1));
}

#[test]
fn a_recorder_ships_what_it_records() {
    let (dir, store) = (whyslow_testing::folder(), whyslow_testing::folder());
    let (path, to) = (dir.path().to_str().unwrap(), store.path().to_str().unwrap());
    let ship = ["--ship", to, "--host", "web-1", "--label", "role=web", "--json"];
    let out = run(&[&["record", "--dir", path, "--for", "3s", "--no-bpf"][..], &ship].concat());
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let shipped = files(store.path()).into_iter().filter(|file| file.ends_with("web-1.parquet")).count() as u64;
    assert!(shipped > 10, "{told}");
    // The hour may already have been delivered while it was in progress, and a new hour may have begun since then.
    assert!(told["shipped"]["files"].as_u64() >= Some(shipped), "{told}");
    assert_eq!(told["shipped"]["left"], 0, "what was recorded last is delivered too");
}

#[test]
fn wrong_usage_is_status_2_and_one_line() {
    for case in [
        &["ship"][..],
        &["ship", "/no/such/folder", "--once"],
        &["ship", "ftp://host/x", "--once"],
        &["ship", "/", "--once", "--every", "10s"],
        &["ship", "/", "--once", "--label", "role"],
        &["ship", "/", "--once", "--pseudonymise"],
        &["record", "--interval", "10ms"],
        &["record", "--for", "1s", "--interval", "2s"],
        &["record", "--keep-size", "1MiB"],
        &["record", "--keep-size", "much"],
        &["record", "--label", "role=db"],
        &["record", "--for", "1s", "--ship", "/no/such/folder"],
        &["record", "--dir", "/proc/no/such/folder", "--for", "1s"],
    ] {
        let out = run(case);
        assert_eq!(out.status.code(), Some(2), "{case:?}");
        assert_eq!(String::from_utf8_lossy(&out.stderr).lines().count(), 1, "{case:?}");
    }
}
