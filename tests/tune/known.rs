//! Tests of `whyslow try` on changes with a known effect on the real kernel, live and with a command.

use crate::cage::{Cage, in_cage, soon, sysctl, tool, values};
use crate::disk::Loop;
use crate::group::Group;
use crate::load::Load;
use crate::trial::{verdict, whyslow};
use crate::wire;
use std::process::Stdio;
use std::time::Duration;

/// Options for a few short measurements, because a test must not take long.
const SHORT: [&str; 5] = ["--json", "--pairs", "6", "--noise-pairs", "0"];

/// Returns the trial with these changes and options.
pub fn tried(cage: &Cage, args: &[&str]) -> serde_json::Value {
    verdict(&whyslow(cage, &[&SHORT, args].concat()).output().unwrap())
}

/// Returns a shell loop that counts to this number.
pub fn count_to(number: u32) -> String {
    format!("i=0; while [ $i -lt {number} ]; do i=$((i+1)); done")
}

#[test]
fn a_quota_taken_away_lets_a_command_run() {
    in_cage(|cage| {
        let Some(group) = Group::new(cage, "cpu") else { return };
        // So small that its cost far exceeds that of other work on this machine.
        group.write("cpu.cfs_quota_us", "2000");
        let (script, change) =
            (group.joined(&count_to(20_000)), format!("cgroup.cpu.cfs_quota_us@{}=-1", group.name()));
        let trial = tried(cage, &["--yes", &change, "--", "sh", "-c", &script]);
        assert_eq!(trial["verdict"], "helped", "{trial}");
        assert!(trial["effect"]["better"].as_f64().unwrap() > 0.5, "{trial}");
        // A far smaller one is harmful and is undone despite --keep.
        group.write("cpu.cfs_quota_us", "50000");
        let change = format!("cgroup.cpu.cfs_quota_us@{}=1000", group.name());
        let trial = tried(cage, &["--yes", "--keep", &change, "--", "sh", "-c", &script]);
        assert_eq!((&trial["verdict"], &trial["kept"]), (&"harmed".into(), &serde_json::Value::Null), "{trial}");
        assert_eq!(group.read("cpu.cfs_quota_us"), "50000");
    });
}

#[test]
fn a_signal_of_the_machine_is_measured_guarded_and_explained() {
    in_cage(|cage| {
        let disk = Loop::new(cage);
        tool("blockdev", &["--setra", "128", &disk.device]);
        let at = |text: &str| text.replace('#', disk.name());
        let change = at("disk.read_ahead_kb@#=1MiB");
        // The signal is the setting itself: no load can hide this effect.
        let tried = |more: &[String]| {
            let more: Vec<&str> = more.iter().map(String::as_str).collect();
            let how = [&change, "--settle", "0", "--for", "5s", "--keep", "--metric", &at("+disk.read_ahead@#")];
            let trial = tried(cage, &[&how[..], &more].concat());
            assert_eq!(trial["pairs"][0]["without"], 65536.0, "{trial}");
            trial
        };
        let harmed = tried(&["--guard".into(), at("disk.read_ahead@#")]);
        assert_eq!((&harmed["verdict"], &harmed["guards"][0]["verdict"]), (&"harmed".into(), &"harmed".into()));
        assert_eq!(tool("blockdev", &["--getra", &disk.device]), "128");
        let unmoved = tried(&["--moves".into(), at("+disk.max_request@#")]);
        assert_eq!((&unmoved["verdict"], &unmoved["kept"]), (&"helped".into(), &serde_json::Value::Null), "{unmoved}");
        assert_eq!(unmoved["mechanism"]["verdict"], "equivalent", "{unmoved}");
        assert_eq!(tool("blockdev", &["--getra", &disk.device]), "128");
        let proven = tried(&["--moves".into(), at("+disk.read_ahead@#"), "--looks".into(), "1".into()]);
        assert!(proven["kept"].is_u64(), "{proven}");
        assert_eq!(tool("blockdev", &["--getra", &disk.device]), "2048");
        cage.expect(0, &["undo"]);
        assert_eq!(tool("blockdev", &["--getra", &disk.device]), "128");
        // Open files keep the previous value. The output mentions this if it may hide the effect, and not if a command
        // reopens the file.
        let rehearsed = |args: &[&str]| {
            let rehearsal = whyslow(cage, &[&[&change[..], "--dry-run"], args].concat()).output().unwrap();
            String::from_utf8(rehearsal.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let words = "affects only files opened after the change";
        let live = rehearsed(&["--metric", &at("disk.read_rate@#")]);
        assert!(live.contains(words) && live.contains("in all"), "{live}");
        assert!(!rehearsed(&["--", "true"]).contains(words));
        assert!(unmoved["caveat"].as_str().unwrap().contains("only files"), "{unmoved}");
    });
}

#[test]
fn buffers_help_over_a_long_wire() {
    in_cage(|cage| {
        // 20 ms each way; a megabyte takes some thirty round trips with a window of 32 KiB.
        wire::lay(Duration::from_millis(20), 1 << 20);
        std::fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 65536 65536").unwrap();
        let (address, port) = wire::SERVER;
        let script = format!("cat < /dev/tcp/{address}/{port} > /dev/null");
        // With two pairs more than the minimum, one pair may be spoiled on a busy machine.
        let how = ["--json", "--pairs", "8", "--noise-pairs", "0", "--settle", "0", "--", "bash", "-c", &script];
        let change = "net.ipv4.tcp_rmem=4096 131072 6291456";
        let trial = verdict(&whyslow(cage, &[&[change][..], &how].concat()).output().unwrap());
        assert_eq!(trial["verdict"], "helped", "{trial}");
        assert!(trial["effect"]["low"].as_f64().unwrap() > 1.0, "at least doubled: {trial}");
        assert_eq!(sysctl("net.ipv4.tcp_rmem"), "4096 65536 65536");
    });
}

#[test]
fn the_diagnosis_is_walked_and_what_helps_is_kept() {
    in_cage(|cage| {
        let Some(group) = Group::new(cage, "cpu") else { return };
        group.write("cpu.cfs_quota_us", "5000");
        let _load = Load::shell(&group.joined("while :; do :; done"));
        let how = ["--budget", "30s", "--pairs", "6", "--noise-pairs", "0", "--settle", "0", "--json"];
        let finding = format!("cpu.throttled@{}", group.name());
        let auto = ["--auto", "--finding", &finding, "--yes"];
        let walk = verdict(&whyslow(cage, &[&auto[..], &how].concat()).output().unwrap());
        assert_eq!(walk["steps"][0]["trial"]["verdict"], "helped", "{walk}");
        assert_eq!(walk["together"]["verdict"], "helped", "{walk}");
        assert_eq!(group.read("cpu.cfs_quota_us"), "-1");
        cage.expect(0, &["undo", &walk["kept"].to_string()]);
        assert_eq!(group.read("cpu.cfs_quota_us"), "5000");
    });
}

#[test]
fn killed_while_walking_a_guard_puts_back() {
    in_cage(|cage| {
        let Some(group) = Group::new(cage, "cpu") else { return };
        group.write("cpu.cfs_quota_us", "5000");
        let _load = Load::shell(&group.joined("while :; do :; done"));
        let finding = format!("cpu.throttled@{}", group.name());
        let how = ["--auto", "--finding", &finding, "--yes", "--budget", "1m", "--noise-pairs", "0", "--settle", "0"];
        let mut walk = whyslow(cage, &how).stdout(Stdio::null()).spawn().unwrap();
        let quota = || group.read("cpu.cfs_quota_us");
        soon("it never made the change", || quota() == "-1");
        walk.kill().unwrap();
        walk.wait().unwrap();
        soon("nobody put it back", || quota() == "5000");
    });
}

#[test]
fn what_shows_after_a_restart_is_compared_before_and_after() {
    in_cage(|cage| {
        let before = values();
        let half = |args: &[&str]| whyslow(cage, &[args, &["--json"]].concat()).output().unwrap();
        let first = [
            "net.core.somaxconn=8192",
            "--before",
            "--pairs",
            "6",
            "--metric",
            "+number",
            "--",
            "cat",
            "/proc/sys/net/core/somaxconn",
        ];
        assert!(half(&["--after"]).status.code() == Some(2), "nothing waits");
        let first: Vec<&str> = ["--json"].into_iter().chain(first).collect();
        let made = verdict(&whyslow(cage, &first).output().unwrap());
        assert!(made["change"].is_u64(), "{made}");
        assert_eq!(sysctl("net.core.somaxconn"), "8192");
        assert_eq!(whyslow(cage, &first).output().unwrap().status.code(), Some(2), "one at a time");
        let trial = verdict(&half(&["--after"]));
        assert_eq!((&trial["verdict"], &trial["evidence"]), (&"helped".into(), &"before-after".into()), "{trial}");
        assert_eq!(values(), before);
        let text = whyslow(cage, &first).output().unwrap();
        assert!(text.status.success());
        let trial = verdict(&half(&["--after", "--keep"]));
        assert!(trial["kept"].is_u64(), "{trial}");
        assert_eq!(sysctl("net.core.somaxconn"), "8192");
        cage.expect(0, &["undo"]);
        assert_eq!(values(), before);
    });
}

#[test]
fn what_would_be_tried_is_only_told() {
    in_cage(|cage| {
        let before = values();
        let live = ["net.ipv4.tcp_moderate_rcvbuf=0", "--settle", "1s", "--metric", "stall.io", "--for", "60s"];
        let told = verdict(&whyslow(cage, &[&live[..], &["--json", "--dry-run"]].concat()).output().unwrap());
        assert_eq!((&told["lines"][0]["target"], &told["pairs"]), (&live[0][..live[0].len() - 2].into(), &10.into()));
        assert!((told["seconds"].as_f64().unwrap() - 60.0).abs() < 0.1, "{told}");
        // The duration of a command is unknown, but the number of its runs is known.
        let command = ["net.ipv4.tcp_moderate_rcvbuf=0", "--settle", "1s", "--dry-run", "--pairs", "6", "--", "true"];
        let told = verdict(&whyslow(cage, &[&["--json"], &command[..]].concat()).output().unwrap());
        assert_eq!((&told["runs"], &told["seconds"]), (&21.into(), &serde_json::Value::Null), "{told}");
        let out = whyslow(cage, &command).output().unwrap();
        assert!(String::from_utf8_lossy(&out.stdout).contains("21 runs of the command and"), "{out:?}");
        // A plan only shows risky changes.
        let risky = ["net.netfilter.nf_conntrack_tcp_timeout_established=3600", "--", "true"];
        let out = whyslow(cage, &risky).output().unwrap();
        let (stdout, stderr) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
        assert!(stdout.contains("432000 → 3600") && stderr.contains("--yes"), "{stdout}{stderr}");
        assert_eq!((out.status.code(), values()), (Some(1), before));
        assert_eq!(cage.json(&["history"]), serde_json::json!([]));
    });
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_changed() {
    in_cage(|cage| {
        let before = values();
        for (args, words) in [
            (&["net.core.somaxconn=8192"][..], "needs a command"),
            (&["net.core.somaxconn=8192", "--metric", "number"], "needs a command"),
            (&["net.core.somaxconn=8192", "--metric", "disk.wait"], "disk.wait@DISK"),
            (&["net.core.somaxconn=8192", "--metric", "disk.length@vda"], "there is no metric"),
            (
                &["net.ipv4.tcp_moderate_rcvbuf=0", "--settle", "0", "--metric", "disk.wait@nosuch", "--for", "12s"],
                "had no value",
            ),
            (&["net.ipv4.tcp_moderate_rcvbuf=0", "--settle", "0", "--metric", "stall.io", "--for", "1s"], "too short"),
            (&["net.core.somaxconn=8192", "--metric", "stall.io"], "whyslow try --before"),
            (&["--after", "--before"], "cannot be used with"),
            (&["--metric", "stall.io"], "required"),
        ] {
            let out = whyslow(cage, args).output().unwrap();
            let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(out.status.code(), Some(2), "{args:?}: {stderr}");
            assert!(stderr.contains(words), "{args:?}: {stderr}");
        }
        assert_eq!(values(), before);
    });
}
