//! Tests of `whyslow baseline` and `whyslow compare` on recordings of known physics, and on this machine.

mod quiet;
mod recorded;

use quiet::{SECOND, START};
use recorded::{folder, record};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use whyslow_documents::baseline::{Baseline, BaselineKind, BaselineSeries, Better, Inventory};
use whyslow_documents::comparison::Comparison;
use whyslow_documents::diagnosis::{Diagnosis, Subject};
use whyslow_model::catalogue::{Disk, MachineInfo, Setting};
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;

const LENGTH: u64 = 1800;
/// Second at which the disk becomes half as fast and a setting of the machine changes.
const WORSE: u64 = 1200;

/// Returns the number of reads up to a second: some 100 requests of 64 KiB per second, varying over a few seconds, then
/// half as many.
fn reads(t: u64) -> u64 {
    let rate = |t: u64| (100 + (t * 7919 % 13) * 2) / if t < WORSE { 1 } else { 2 };
    (0..t).map(rate).sum()
}

fn sample(t: u64) -> Snapshot {
    let mut s = quiet::machine(t, 10);
    (s.boot_ns, s.wall_ns) = ((1000 + t) * SECOND, START + (t * SECOND) as i64);
    let (reads, time) = (reads(t), t * SECOND / 5);
    s.block.disk.push(Disk {
        reads: reads.into(),
        read_bytes: (reads * 65_536).into(),
        read_time: time.into(),
        writes: 0.into(),
        write_bytes: 0.into(),
        write_time: 0.into(),
        busy_time: time.into(),
        weighted_time: time.into(),
        ..Disk::new("vda".into())
    });
    if t.is_multiple_of(60) {
        let swappiness = if t < WORSE { "60" } else { "10" };
        s.kernel.setting.push(Setting { value: swappiness.into(), ..Setting::new("vm.swappiness".into()) });
        let machine = MachineInfo { release: "6.18".into(), boot: "b00t".into(), ..MachineInfo::new(MachineKey) };
        s.kernel.machine.push(machine);
    }
    s.sort();
    s
}

fn run(dir: &Path, args: &[&str]) -> Output {
    let config = whyslow_testing::folder();
    let mut whyslow = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    whyslow.args(args).arg("--dir").arg(dir).env("XDG_CONFIG_HOME", config.path()).env("TZ", "UTC");
    whyslow.stdin(Stdio::null()).output().unwrap()
}

fn done(dir: &Path, args: &[&str]) -> String {
    let out = run(dir, args);
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn compared(dir: &Path, a: &str, b: &str) -> Comparison {
    serde_json::from_str(&done(dir, &["compare", "--json", a, b])).expect("a comparison")
}

#[test]
fn what_differs_is_told_and_what_does_not_is_not() {
    let dir = folder();
    record(dir.path(), LENGTH, sample);
    // The first twenty minutes are steady.
    let (one, two) = ("2026-11-21 16:43:20..2026-11-21 16:53:20", "2026-11-21 16:53:21..2026-11-21 17:03:00");
    let same = compared(dir.path(), one, two);
    assert!(same.differences.is_empty() && same.undecided.is_empty() && same.inventory.is_empty(), "{same:#?}");
    assert!(same.compared > 10, "{}", same.compared);
    assert!(compared(dir.path(), one, one).differences.is_empty());

    let save = ["baseline", "save", "good", "--recording", dir.path().to_str().unwrap()];
    done(dir.path(), &[&save[..], &["--to", "2026-11-21 17:03:00"]].concat());
    let worse = compared(dir.path(), "good", "2026-11-21 17:04:30..");
    let setting = &worse.inventory[0];
    let (a, b) = (setting.a.as_deref(), setting.b.as_deref());
    assert_eq!((setting.what.as_str(), a, b), ("setting vm.swappiness: value", Some("60"), Some("10")));
    let rate = worse.differences.iter().find(|d| d.metric == "disk.read_rate").expect("the rate differs");
    assert!((rate.ratio.unwrap() + 0.5).abs() < 0.02 && rate.better.is_none(), "{rate:#?}");
    let wait =
        worse.differences.iter().find(|d| d.metric == "disk.read_wait").expect("each request takes twice as long");
    assert!((wait.ratio.unwrap() - 1.0).abs() < 0.05 && wait.better == Some(false), "{wait:#?}");
    let text = done(dir.path(), &["compare", "good", "2026-11-21 17:04:30.."]);
    assert!(text.find("vm.swappiness") < text.find("disk.read_rate"), "the inventory first: {text}");
}

#[test]
fn baselines_are_kept_listed_shown_and_deleted() {
    // On a nearly full file system, the recorder records less.
    let dir = whyslow_testing::memory_folder();
    let out: serde_json::Value =
        serde_json::from_str(&done(dir.path(), &["baseline", "save", "now", "--json", "--for", "3s"])).unwrap();
    assert!(out["series"].as_u64() > Some(10), "{out}");
    let taken = run(dir.path(), &["baseline", "save", "now", "--for", "1s"]);
    assert_eq!(taken.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&taken.stderr).contains("--replace"));
    let listed = done(dir.path(), &["baseline", "list"]);
    assert!(listed.contains("now"), "{listed}");
    assert_eq!(done(dir.path(), &["baseline"]), listed, "the list where nothing else is asked for");
    let kept: Baseline = serde_json::from_str(&done(dir.path(), &["baseline", "show", "now", "--json"])).unwrap();
    assert!(kept.inventory.contains_key("machine: release") && kept.series("cpu.busy", &Subject::host()).is_some());
    assert!(done(dir.path(), &["baseline", "show", "now", "--all"]).contains("machine: release"));
    done(dir.path(), &["baseline", "delete", "now"]);
    for wrong in [
        &["baseline", "delete", "now"][..],
        &["baseline", "show", "now"],
        &["baseline", "save", "../now", "--for", "1s"],
        &["compare", "now", "then"],
        &["compare", "soon..later", "now"],
        &["compare", "--least", "0", "now", "now"],
    ] {
        let out = run(dir.path(), wrong);
        assert_eq!(out.status.code(), Some(2), "{wrong:?}");
        assert_eq!(String::from_utf8_lossy(&out.stderr).lines().count(), 1, "{wrong:?}");
    }
}

#[test]
fn benchmarks_are_compared_by_their_files() {
    let dir = folder();
    let file = |name: &str, rates: [f64; 6]| {
        let series = BaselineSeries::of_repeats(
            "random read",
            Subject::new("device", "vda"),
            "1/s",
            Better::Higher,
            rates.to_vec(),
        );
        let path = dir.path().join(name);
        let baseline = Baseline::new(BaselineKind::Bench, Inventory::new(), vec![series]);
        fs::write(&path, serde_json::to_vec(&baseline).unwrap()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let old = file("old.json", [100.0, 101.0, 99.0, 100.5, 99.5, 100.2]);
    let new = file("new.json", [140.0, 141.0, 139.0, 140.5, 139.5, 140.2]);
    let told = compared(dir.path(), &old, &new);
    let [rate] = &told.differences[..] else { panic!("{told:#?}") };
    assert!((rate.ratio.unwrap() - 0.4).abs() < 0.01 && rate.better == Some(true), "{rate:#?}");
    fs::write(dir.path().join("other.json"), "{}").unwrap();
    let other = dir.path().join("other.json").display().to_string();
    assert_eq!(run(dir.path(), &["compare", &old, &other]).status.code(), Some(2));
}

/// Returns the path of a fixture.
fn capture(name: &str) -> String {
    format!("{}/../import/tests/fixtures/{name}.txt", env!("CARGO_MANIFEST_DIR"))
}

/// Returns the diagnosis that `whyslow read` makes of captures.
fn read(names: &[&str]) -> Diagnosis {
    let files: Vec<String> = names.iter().map(|name| capture(name)).collect();
    let mut whyslow = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    let out = whyslow.args(["read", "--json"]).args(files).stdin(Stdio::null()).output().unwrap();
    serde_json::from_slice(&out.stdout).expect("a diagnosis")
}

/// Returns the only conclusion from two captures; `whyslow compare` must draw the same.
fn concluded(a: &str, b: &str) -> String {
    let d = read(&[a, b]);
    let [comparison] = &d.comparisons[..] else { panic!("{:?}", d.comparisons) };
    assert!(comparison.a.ends_with(&format!("{a}.txt")) && comparison.b.ends_with(&format!("{b}.txt")));
    let [conclusion] = &comparison.conclusions[..] else { panic!("{comparison:?}") };
    assert_eq!(compared(folder().path(), &capture(a), &capture(b)).conclusions, comparison.conclusions);
    conclusion.clone()
}

#[test]
fn spreading_a_load_over_disks_only_moves_the_wait() {
    let single = "san-iostat-x-512k-6readers-single";
    let both = concluded(single, "san-iostat-x-512k-6readers-striped");
    let expected = "Spread over 2 disks (sdi, sdj) instead of 1 (sdj), the load moves no more (154 MiB/s and 155 MiB/s); each \
                    request still takes 19.4 ms: the wait was moved, not shortened.";
    assert_eq!(both, expected);
    assert!(
        concluded("san-iostat-x-512k-6readers-striped", single).starts_with("Spread over 2 disks (sdi, sdj) instead")
    );
    let small = concluded("san-iostat-x-2k-6readers", "san-iostat-x-2k-6readers-striped");
    assert!(small.contains("moves no more") && small.contains("1.28 ms instead of 975 µs"), "{small}");
}

/// Something must state that a setting was changed: two hosts, two days or two programs are not an experiment.
#[test]
fn captures_that_nothing_connects_are_not_compared() {
    let dir = folder();
    let single = fs::read_to_string(capture("san-iostat-x-2k-1reader")).unwrap();
    let other = fs::read_to_string(capture("san-iostat-x-2k-6readers")).unwrap();
    let compared = |a: &str, b: &str, before: &str, after: &str| {
        let [first, second] = [a, b].map(|name| dir.path().join(name));
        fs::write(&first, before).unwrap();
        fs::write(&second, after).unwrap();
        let mut whyslow = Command::new(env!("CARGO_BIN_EXE_whyslow"));
        let out = whyslow.args(["read", "--json"]).args([first, second]).stdin(Stdio::null()).output().unwrap();
        let d: Diagnosis = serde_json::from_slice(&out.stdout).expect("a diagnosis");
        d.comparisons.len()
    };
    assert_eq!(compared("disk-before.txt", "disk-after.txt", &single, &other), 1);
    assert_eq!(compared("disk-monday.txt", "disk-tuesday.txt", &single, &other), 0);
    assert_eq!(compared("a.txt", "b.txt", &single, &other), 0);
    let renamed = ["sdi", "sdj", "sdc", "sdb", "sda"]
        .iter()
        .fold(other.clone(), |text, disk| text.replace(disk, &format!("vd{}", &disk[2..])));
    assert_eq!(compared("x-before.txt", "x-after.txt", &single, &renamed), 0, "other devices");
}

#[test]
fn more_requests_in_flight_only_wait_longer() {
    let readers = concluded("san-iostat-x-2k-1reader", "san-iostat-x-2k-6readers");
    assert!(readers.contains("5.0 requests in flight instead of 1.0: more in flight move no more"), "{readers}");
    let sizes = concluded("san-iostat-x-4096k", "san-iostat-x-1024k");
    assert!(sizes.contains("fewer in flight move as much; each request takes 4.95 ms instead of 14.7 ms"), "{sizes}");
    let paths = concluded("san-iostat-x-multipath-rr-off", "san-iostat-x-multipath-rr-on");
    assert!(paths.contains("(+5.88 %)"), "{paths}");
}

#[test]
fn disks_that_share_something_are_slower_together() {
    for (alone, disk) in [("power5-iostat-x-seqread", "sdb"), ("power5-iostat-x-randread", "sdc")] {
        let together = concluded(alone, "power5-iostat-x-concurrent");
        assert!(together.starts_with(&format!("{disk} moves ")), "{together}");
        assert!(together.ends_with(" alone: they share what limits them."), "{together}");
    }
    // The client's disks and the server's one disk carry the same load; this is no experiment.
    let layers = read(&["power5-iostat-x-concurrent", "power5-iostat-x-server"]);
    assert_eq!((layers.findings[0].id.as_str(), layers.comparisons), ("disk.shared", vec![]));
}

#[test]
fn what_tools_measured_is_compared_unless_a_cpu_was_the_limit() {
    let xfs = concluded("san-bonnie-ext3", "san-bonnie-xfs");
    for part in ["delete in order 4572/s → 9705/s (+112 %)", "create in order 721/s → 1151/s (+59.6 %)", "(+11.4 %)"]
    {
        assert!(xfs.contains(part), "{part}: {xfs}");
    }
    let (_, by_cpu) = xfs.split_once("limited by a CPU, so not by the disk: ").expect("some were");
    assert!(by_cpu.contains("read by character") && by_cpu.contains("write by character"), "{xfs}");
    let log = concluded("san-bonnie-xfs", "san-bonnie-xfs-extlog");
    assert!(log.starts_with("bonnie++: No measurement differs"), "{log}");
    let three = read(&["san-bonnie-ext3", "san-bonnie-xfs", "san-bonnie-xfs-extlog"]);
    assert_eq!(three.comparisons.len(), 2, "each with the next one");
    let iperf = concluded("net-iperf-before-client", "net-iperf-after-client");
    assert_eq!(iperf, "iperf: 172.16.1.12 390 Mbit/s → 955 Mbit/s (+145 %).");
}

#[test]
fn one_side_is_one_capture() {
    let dir = folder();
    let single = fs::read_to_string(capture("san-iostat-x-512k-6readers-single")).unwrap();
    let twice = dir.path().join("twice.txt");
    fs::write(&twice, format!("# iostat -x 1\n{single}\nThen striped:\n# iostat -x 1\n{single}")).unwrap();
    let out = run(dir.path(), &["compare", twice.to_str().unwrap(), &capture("san-iostat-x-1024k")]);
    let complaint = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(complaint.contains("contains 2 captures of the same things"), "{complaint}");
}

#[test]
fn a_changed_option_of_a_tool_is_what_the_result_is_about() {
    let depth = concluded("fio-iodepth-1", "fio-iodepth-16");
    let expected = "fio with iodepth=16 instead of iodepth=1: randwrite of /mnt/t 36.6 MiB/s → 185 MiB/s (5.1 times): more in \
                    flight help, but less than in proportion: it is near its limit.";
    assert_eq!(depth, expected);
    // Read together, these are runs in one capture.
    let concluded = |a: &str, b: &str| {
        let [conclusion] = &compared(folder().path(), &capture(a), &capture(b)).conclusions[..] else {
            panic!("{a}, {b}")
        };
        conclusion.clone()
    };
    let streams = concluded("iperf3-one-stream", "iperf3-four-streams");
    assert_eq!(read(&["iperf3-one-stream", "iperf3-four-streams"]).comparisons[0].conclusions, [&*streams]);
    assert!(streams.starts_with("iperf3 with 4 streams instead of 1 stream: 10.3 Gbit/s → 11.6 Gbit/s"), "{streams}");
    let datagrams = concluded("iperf3-one-stream", "iperf3-udp");
    assert!(datagrams.contains("UDP instead of") && datagrams.contains("not compared, as UDP"), "{datagrams}");
}

#[test]
fn runs_in_one_text_are_compared_with_each_other() {
    let within = |name: &str| {
        let d = read(&[name]);
        let [comparison] = &d.comparisons[..] else { panic!("{name}: {:?}", d.comparisons) };
        assert_eq!(comparison.a, comparison.b);
        comparison.conclusions.join("\n")
    };
    let modes = within("dd-modes");
    for part in [
        "dd with O_DIRECT instead of the page cache: 86.8 MiB/s → 221 MiB/s (+154 %)",
        "dd with a flush at the end instead of no flush: 86.8 MiB/s → 146 MiB/s (+67.6 %)",
    ] {
        assert!(modes.contains(part), "{part}: {modes}");
    }
    assert_eq!(modes.lines().count(), 2, "the writes of 4 KiB differ in two options: {modes}");
}

#[test]
fn what_is_no_side_of_a_comparison_is_said() {
    let complaint = |args: &[&str]| {
        let out = run(folder().path(), &[&["compare"], args].concat());
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        String::from_utf8(out.stderr).unwrap()
    };
    let file = capture("dd-modes");
    for args in [&["nonexist.txt"][..], &["nonexist.txt", &file], &[&file, "nonexist.txt"]] {
        let complaint = complaint(args);
        assert!(complaint.contains("nonexist.txt: there is no such file, and no baseline of that name"), "{complaint}");
    }
    assert!(complaint(&[&file]).contains("compared with what?"));
}
