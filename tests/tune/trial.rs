//! Tests of `whyslow try` on changes with a known effect.

use crate::cage::{Cage, in_cage, soon, sysctl, tool, values};
use crate::disk::Loop;
use crate::group::Group;
use std::fs;
use std::process::{Command, Output, Stdio};
use whyslow_testing::{ends_with_test, heeds_hangup};

const NAME: &str = "net.core.somaxconn";
/// Prints the setting itself: the effect is as large as the change.
const SHOW: [&str; 3] = ["--", "cat", "/proc/sys/net/core/somaxconn"];

/// Returns the program with this cage's journal.
pub fn whyslow(cage: &Cage, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    command.arg("try").args(args).env("WHYSLOW_STATE", cage.path("")).stdin(Stdio::null());
    heeds_hangup(ends_with_test(&mut command));
    command
}

fn run(cage: &Cage, args: &[&str]) -> Output {
    whyslow(cage, &[args, &["--json", "--metric", "number", "--settle", "0"], &SHOW].concat()).output().unwrap()
}

/// Returns the JSON that the program printed.
#[track_caller]
pub fn verdict(out: &Output) -> serde_json::Value {
    let stderr = String::from_utf8_lossy(&out.stderr);
    serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("a trial: {stderr}"))
}

/// Returns true if other load hid an effect that is certain on a machine with spare CPUs. Then nothing may have been
/// kept, and the test counts as skipped.
pub fn is_undecided(trial: &serde_json::Value) -> bool {
    let is_undecided = trial["verdict"] == "inconclusive";
    if is_undecided {
        assert_eq!(trial["kept"], serde_json::Value::Null, "{trial}");
        crate::skip::skip("other load on this machine hides the effect");
    }
    is_undecided
}

#[test]
fn what_helps_is_kept_where_asked_for() {
    in_cage(|cage| {
        let before = sysctl(NAME);
        let change = format!("{NAME}=8192");
        let trial = verdict(&run(cage, &[&change, "--higher-is-better", "--pairs", "6"]));
        assert_eq!((&trial["verdict"], &trial["kept"]), (&"helped".into(), &serde_json::Value::Null));
        assert!((trial["effect"]["better"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{trial}");
        assert_eq!(sysctl(NAME), before);
        let trial = verdict(&run(cage, &[&change, "--higher-is-better", "--pairs", "6", "--keep"]));
        assert!(trial["kept"].is_u64(), "{trial}");
        assert_eq!(sysctl(NAME), "8192");
        cage.expect(0, &["undo"]);
        assert_eq!(sysctl(NAME), before);
        assert_eq!(cage.json(&["trials"]).as_array().unwrap().len(), 2);
        // Trials do not hide a change that was kept.
        let history = cage.expect(0, &["history"]);
        assert!(history.contains("made and rolled back by trials") && !history.contains("only tried"), "{history}");
        assert!(cage.expect(0, &["history", "--all"]).contains("only tried"));
    });
}

#[test]
fn what_harms_or_does_nothing_is_put_back() {
    in_cage(|cage| {
        let before = values();
        let harmed = verdict(&run(cage, &[&format!("{NAME}=8192"), "--pairs", "6", "--keep"]));
        assert_eq!((&harmed["verdict"], &harmed["kept"]), (&"harmed".into(), &serde_json::Value::Null));
        let nothing = verdict(&run(cage, &["net.ipv4.tcp_keepalive_time=99", "--pairs", "6", "--keep"]));
        assert_eq!((&nothing["verdict"], &nothing["kept"]), (&"equivalent".into(), &serde_json::Value::Null));
        assert_eq!(values(), before);
    });
}

#[test]
fn a_command_that_fails_ends_it_and_all_is_put_back() {
    in_cage(|cage| {
        let before = values();
        let script = "test $(cat /proc/sys/net/core/somaxconn) = 4096";
        let out =
            whyslow(cage, &[&format!("{NAME}=8192"), "--noise-pairs", "0", "--settle", "0", "--", "sh", "-c", script])
                .output()
                .unwrap();
        assert_eq!(out.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&out.stderr).contains("everything was rolled back"));
        assert_eq!(values(), before);
    });
}

#[test]
fn killed_while_trying_a_guard_puts_back() {
    in_cage(|cage| {
        let before = values();
        let mut child =
            whyslow(cage, &[&format!("{NAME}=8192"), "--settle", "0", "--noise-pairs", "0", "--", "sleep", "0.3"])
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
        soon("it makes the change", || sysctl(NAME) == "8192");
        child.kill().unwrap();
        child.wait().unwrap();
        soon("the guard puts it back", || values() == before);
    });
}

#[test]
fn read_ahead_helps_a_stream_from_a_disk_of_few_requests() {
    in_cage(|cage| {
        let disk = Loop::new(cage);
        let Some(group) = Group::new(cage, "blkio") else { return };
        let number = fs::read_to_string(format!("/sys/block/{}/dev", disk.name())).unwrap();
        group.write("blkio.throttle.read_iops_device", &format!("{} 500", number.trim()));
        tool("blockdev", &["--setra", "128", &disk.device]);
        // 256 requests of 64 KiB take half a second, less what the throttle saved up while nothing was read; 16
        // requests of 1 MiB take next to no time.
        let script = format!("blockdev --flushbufs {0} && dd if={0} of=/dev/null bs=64k count=256", disk.device);
        let script = group.joined(&script);
        let change = format!("disk.read_ahead_kb@{}=1MiB", disk.name());
        let options = ["--json", "--settle", "0", "--pairs", "6", "--noise-pairs", "0", "--", "sh", "-c", &script];
        let tried = || verdict(&whyslow(cage, &[&[change.as_str()][..], &options].concat()).output().unwrap());
        // What runs beside this test may take the CPUs for a part of a trial, which is inconclusive then.
        let mut trials = (0..3).map(|_| tried());
        let is_conclusive = |trial: &serde_json::Value| trial["verdict"] != "inconclusive";
        let trial = trials.find(is_conclusive).expect("one of three trials is conclusive");
        assert_eq!(trial["verdict"], "helped", "{trial}");
        assert!(trial["effect"]["better"].as_f64().unwrap() > 1.0, "{trial}");
        assert_eq!(tool("blockdev", &["--getra", &disk.device]), "128");
    });
}
