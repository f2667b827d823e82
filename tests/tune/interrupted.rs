//! Tests of Ctrl-C during a trial: everything is rolled back, and the measurements so far are reported.

use crate::cage::{in_cage, soon, sysctl, values};
use crate::group::Group;
use crate::known::count_to;
use crate::trial::{verdict, whyslow};
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use whyslow_testing::ignores_hangup;

/// Exit status after Ctrl-C, as a shell reports it.
const INTERRUPTED: Option<i32> = Some(130);

fn started(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends SIGINT, as Ctrl-C does, and returns the result.
fn interrupted(child: Child) -> Output {
    signalled(child, libc::SIGINT)
}

fn signalled(child: Child, signal: libc::c_int) -> Output {
    send(&child, signal);
    child.wait_with_output().unwrap()
}

fn send(child: &Child, signal: libc::c_int) {
    // SAFETY: kill has no preconditions; the process is our child and has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
}

#[test]
fn a_trial_is_put_back_and_told_as_far_as_it_came() {
    in_cage(|cage| {
        let before = values();
        let runs = cage.path("runs");
        let script = format!("echo >> {}; cat /proc/sys/net/core/somaxconn", runs.display());
        let how = ["--json", "--metric", "+number", "--settle", "0", "--noise-pairs", "0", "--pairs", "20"];
        let args = [&["net.core.somaxconn=8192", "--keep"][..], &how, &["--", "sh", "-c", &script]].concat();
        let child = started(&mut whyslow(cage, &args));
        // One warm-up run and two pairs.
        soon("it never ran", || fs::read(&runs).is_ok_and(|lines| lines.len() > 5));
        let out = interrupted(child);
        let trial = verdict(&out);
        assert_eq!((out.status.code(), &trial["interrupted"]), (INTERRUPTED, &true.into()), "{trial}");
        assert_eq!((&trial["verdict"], &trial["kept"]), (&"inconclusive".into(), &serde_json::Value::Null));
        assert!((2..20).contains(&trial["pairs"].as_array().unwrap().len()), "{trial}");
        assert!((trial["effect"]["better"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{trial}");
        assert_eq!(values(), before);
        assert_eq!(cage.json(&["trials"])[0]["interrupted"], true);
        assert!(cage.expect(0, &["trials"]).contains("Interrupted: net.core.somaxconn=8192"));
    });
}

#[test]
fn one_without_a_pair_says_that_all_is_as_it_was() {
    in_cage(|cage| {
        let (before, begun) = (values(), cage.path("begun"));
        let script = format!("echo > {}; sleep 60", begun.display());
        let child = started(&mut whyslow(cage, &["net.core.somaxconn=8192", "--", "sh", "-c", &script]));
        soon("it never ran", || begun.exists());
        let out = interrupted(child);
        assert_eq!(out.status.code(), INTERRUPTED);
        assert!(String::from_utf8_lossy(&out.stderr).contains("interrupted; everything was rolled back"));
        assert_eq!(values(), before);
    });
}

#[test]
fn a_walk_is_put_back_and_told_as_far_as_it_came() {
    in_cage(|cage| {
        let Some(group) = Group::new(cage, "cpu") else { return };
        group.write("cpu.cfs_quota_us", "5000");
        let quota = |is: &str| group.read("cpu.cfs_quota_us") == is;
        let (finding, load) = (format!("cpu.throttled@{}", group.name()), group.joined(&count_to(20_000)));
        let how = ["--json", "--yes", "--budget", "5m", "--noise-pairs", "0", "--settle", "0"];
        let args = [&["--auto", "--finding", &finding][..], &how, &["--", "sh", "-c", &load]].concat();
        let child = started(&mut whyslow(cage, &args));
        // Made, undone and made again: one pair is complete.
        for is in ["-1", "5000", "-1"] {
            soon("it was not tried", || quota(is));
        }
        let out = interrupted(child);
        let walk = verdict(&out);
        assert_eq!((out.status.code(), &walk["interrupted"]), (INTERRUPTED, &true.into()), "{walk}");
        assert_eq!((&walk["together"], &walk["kept"]), (&serde_json::Value::Null, &serde_json::Value::Null));
        assert_eq!(walk["steps"][0]["trial"]["interrupted"], true, "{walk}");
        assert!(quota("5000"));
    });
}

#[test]
fn whatever_ends_it_puts_it_back() {
    in_cage(|cage| {
        let before = values();
        let live = ["net.ipv4.tcp_keepalive_time=99", "--metric", "stall.cpu", "--noise-pairs", "0", "--for", "30s"];
        let begun = cage.path("begun");
        let script = format!("echo > {}; sleep 60", begun.display());
        let around = ["net.ipv4.tcp_keepalive_time=99", "--noise-pairs", "0", "--", "sh", "-c", &script];
        for signal in [libc::SIGTERM, libc::SIGHUP] {
            for args in [&live[..], &around] {
                fs::remove_file(&begun).ok();
                let child = started(&mut whyslow(cage, args));
                if args == live {
                    soon("it was not tried", || sysctl("net.ipv4.tcp_keepalive_time") == "99");
                } else {
                    soon("it never ran", || begun.exists());
                }
                let out = signalled(child, signal);
                let said = String::from_utf8_lossy(&out.stderr);
                assert_eq!(out.status.code(), INTERRUPTED, "{signal} {args:?}: {said}");
                assert_eq!(values(), before, "{signal} {args:?}: {said}");
                assert!(cage.expect(0, &["recover"]).contains("nothing to undo"));
            }
        }
    });
}

#[test]
fn under_nohup_a_hangup_does_not_end_a_trial() {
    in_cage(|cage| {
        let (runs, go_on) = (cage.path("runs"), cage.path("go-on"));
        let script = format!(
            "echo >> {0}; [ $(wc -l < {0}) -lt 4 ] || while [ ! -e {1} ]; do sleep 0.05; done; cat /proc/sys/net/core/somaxconn",
            runs.display(),
            go_on.display()
        );
        let how = ["--json", "--metric", "+number", "--settle", "0", "--noise-pairs", "0", "--pairs", "6"];
        let args = [&["net.core.somaxconn=8192"][..], &how, &["--", "sh", "-c", &script]].concat();
        let child = started(ignores_hangup(&mut whyslow(cage, &args)));
        soon("it never ran", || fs::read(&runs).is_ok_and(|lines| lines.len() == 4));
        send(&child, libc::SIGHUP);
        fs::write(&go_on, "").unwrap();
        let out = child.wait_with_output().unwrap();
        let trial = verdict(&out);
        assert_eq!((out.status.code(), &trial["verdict"]), (Some(0), &"helped".into()), "{trial}");
    });
}

/// Returns true if the process is gone or a zombie.
fn has_ended(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn the_measured_command_ends_with_the_program_with_all_it_started() {
    in_cage(|cage| {
        let before = values();
        let (draft, begun) = (cage.path("draft"), cage.path("begun"));
        // A run with the change has a child in the background and one in the foreground.
        let script = format!(
            "[ $(cat /proc/sys/net/core/somaxconn) = 8192 ] || exit 0; sleep 600 & sh -c \"echo $$ $! \\$\\$ > {}; mv {0} {}; sleep 600\"; true",
            draft.display(),
            begun.display()
        );
        for signal in [libc::SIGKILL, libc::SIGTERM] {
            fs::remove_file(&begun).ok();
            let how = ["net.core.somaxconn=8192", "--settle", "0", "--noise-pairs", "0", "--", "sh", "-c", &script];
            let child = started(&mut whyslow(cage, &how));
            soon("it never ran with the change", || begun.exists());
            let pids = fs::read_to_string(&begun).unwrap();
            let pids: Vec<&str> = pids.split_whitespace().collect();
            assert_eq!(pids.iter().filter(|pid| !has_ended(pid)).count(), 3, "{signal}: {pids:?}");
            signalled(child, signal);
            soon("the command and its children end", || pids.iter().all(|pid| has_ended(pid)));
            soon("the change is rolled back", || values() == before);
        }
    });
}
