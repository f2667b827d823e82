//! Tests of changes of every kind: made and undone.

use crate::cage::{CHANGES, Cage, changes, in_cage, soon, sysctl, tool, values, wanted};
use crate::trial::whyslow;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use whyslow_testing::ends_with_test;

/// Makes [`CHANGES`], which concern the network, permanently, so that no guard remains.
fn set(cage: &Cage, more: &[&str]) -> String {
    set_with(cage, &[&["--no-confirm"], more].concat())
}

fn set_with(cage: &Cage, more: &[&str]) -> String {
    let changes = changes();
    let args: Vec<&str> =
        ["set"].into_iter().chain(changes.iter().map(String::as_str)).chain(more.iter().copied()).collect();
    cage.expect(0, &args)
}

#[test]
fn what_is_set_is_told_and_taken_back() {
    in_cage(|cage| {
        let before = values();
        set(cage, &["--why", "a test"]);
        assert_eq!(values(), wanted());
        let history = cage.json(&["history"]);
        assert_eq!((&history[0]["status"], &history[0]["why"]), (&"applied".into(), &"a test".into()));
        assert_eq!(history[0]["changes"][0]["original"], before[0].as_str());
        cage.expect(0, &["verify"]);
        // A second run has nothing to do and records nothing.
        set(cage, &[]);
        assert_eq!(cage.json(&["history"]).as_array().unwrap().len(), 1);
        assert!(cage.expect(0, &["undo", "--dry-run"]).contains("would be"));
        assert_eq!(values(), wanted());
        cage.expect(0, &["undo"]);
        assert_eq!(values(), before);
        assert!(cage.expect(0, &["undo"]).contains("nothing to undo"));
        // A second undo changes neither status nor reason; the message names an unknown number.
        cage.expect(0, &["undo", "1"]);
        assert_eq!(cage.json(&["history"])[0]["undone_because"], "asked");
        assert_eq!(cage.json(&["recover"]), serde_json::json!([]));
        assert!(cage.expect(2, &["persist", "1"]).contains("no such change is in effect"));
        assert!(cage.expect(2, &["undo", "7", "--dry-run"]).contains("no change 7"));
    });
}

#[test]
fn what_somebody_else_has_set_is_left_alone() {
    in_cage(|cage| {
        set(cage, &[]);
        fs::write("/proc/sys/net/core/somaxconn", "77\n").unwrap();
        assert!(cage.expect(1, &["verify"]).contains("changed externally to 77"));
        assert!(cage.expect(1, &["undo"]).contains("not rolled back: changed externally to 77"));
        assert_eq!(sysctl("net.core.somaxconn"), "77");
        assert_eq!(sysctl("net.ipv4.tcp_keepalive_time"), "7200");
    });
}

#[test]
fn what_a_reboot_has_reset_is_nobodys_change() {
    in_cage(|cage| {
        let (name, before) = (CHANGES[0].0, sysctl(CHANGES[0].0));
        for value in ["1000", "2000"] {
            cage.expect(0, &["set", &format!("{name}={value}")]);
        }
        cage.expect(0, &["confirm"]);
        // As after a boot: the journal has another boot ID, and the kernel has its own value again.
        let (journal, boot) =
            (cage.path("tune/journal.jsonl"), fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap());
        let text = fs::read_to_string(&journal).unwrap();
        assert!(text.contains(boot.trim()), "{text}");
        fs::write(&journal, text.replace(boot.trim(), "00000000-0000-0000-0000-000000000000")).unwrap();
        fs::write("/proc/sys/net/core/somaxconn", &before).unwrap();
        let checked = cage.expect(1, &["verify"]);
        assert!(checked.contains("reset by a reboot") && !checked.contains("externally"), "{checked}");
        let undone = cage.expect(0, &["undo", "--all"]);
        assert!(undone.contains("a reboot has reset it") && !undone.contains("externally"), "{undone}");
        assert_eq!(sysctl(name), before);
        cage.expect(0, &["verify"]);
    });
}

#[test]
fn changes_are_taken_back_in_any_order_that_works() {
    in_cage(|cage| {
        let name = CHANGES[0].0;
        let before = sysctl(name);
        for value in ["1000", "2000"] {
            cage.expect(0, &["set", &format!("{name}={value}")]);
        }
        assert!(cage.expect(1, &["undo", "1"]).contains("undo that one first"));
        assert_eq!(sysctl(name), "2000");
        cage.expect(0, &["undo", "--all"]);
        assert_eq!(sysctl(name), before);
        let history = cage.json(&["history"]);
        assert_eq!((&history[0]["status"], &history[1]["status"]), (&"undone".into(), &"undone".into()));
    });
}

#[test]
fn one_that_fails_takes_all_back() {
    in_cage(|cage| {
        let before = values();
        // Only the kernel can tell that this is not a list of ports.
        let name = "net.ipv4.ip_local_reserved_ports";
        let control = sysctl(name);
        let out = cage.expect(
            1,
            &["set", "net.core.somaxconn=1111", &format!("{name}=nosuch"), "net.ipv4.tcp_keepalive_time=99"],
        );
        assert!(out.contains("everything was rolled back"), "{out}");
        assert_eq!((values(), sysctl(name)), (before, control));
        // A second undo does not change the reason.
        cage.expect(0, &["undo", "1"]);
        let history = cage.json(&["history"]);
        assert_eq!((&history[0]["status"], &history[0]["undone_because"]), (&"undone".into(), &"failed".into()));
    });
}

#[test]
fn nonsense_changes_nothing() {
    in_cage(|cage| {
        for (args, words) in [
            (["set", "net.core.somaxconn"], "NAME=VALUE"),
            (["set", "net.core.somaxconn=-1"], "below 0"),
            (["set", "disk.scheduler@nosuch=none"], "no disk 'nosuch'"),
            (["set", "vm.block_dump=1"], "unsupported here: removed in kernel 5.13"),
            (["set", "/etc/passwd=x"], "only files under /sys and /proc/sys"),
            (["undo", "7"], "no change 7"),
            (["confirm", "7"], "is not waiting"),
        ] {
            let out = cage.expect(2, &args);
            assert!(out.contains(words), "{args:?}: {out}");
        }
        assert_eq!(cage.json(&["history"]), serde_json::json!([]));
    });
}

#[test]
fn what_is_risky_wants_a_yes() {
    in_cage(|cage| {
        let out = cage.expect(1, &["set", "net.netfilter.nf_conntrack_tcp_timeout_established=3600"]);
        assert!(out.contains("432000 → 3600") && out.contains("--yes"), "{out}");
        assert_eq!(sysctl("net.netfilter.nf_conntrack_tcp_timeout_established"), "432000");
        cage.expect(0, &["set", "net.netfilter.nf_conntrack_tcp_timeout_established=3600", "--yes"]);
        assert_eq!(sysctl("net.netfilter.nf_conntrack_tcp_timeout_established"), "3600");
    });
}

#[test]
fn what_nobody_confirms_is_taken_back() {
    in_cage(|cage| {
        let before = values();
        set_with(cage, &["--confirm-within", "1s"]);
        assert_eq!(values(), wanted());
        soon("the guard takes it back", || values() == before);
        soon("and says so", || cage.json(&["history"])[0]["undone_because"] == "unconfirmed");
    });
}

#[test]
fn what_is_confirmed_stays() {
    in_cage(|cage| {
        set_with(cage, &["--confirm-within", "5s"]);
        assert!(cage.expect(0, &["confirm", "--dry-run"]).contains("change 1 would be confirmed"));
        let made = last(cage);
        assert_eq!(made["status"], "unconfirmed");
        cage.expect(0, &["confirm"]);
        soon("the time to confirm passes", || left_to_confirm(&made) < 0.0);
        // The next run would undo the change.
        cage.expect(0, &["recover"]);
        assert_eq!(values(), wanted());
        assert_eq!(cage.json(&["history"])[0]["status"], "applied");
    });
}

#[test]
fn a_setting_of_the_network_waits_to_be_confirmed() {
    in_cage(|cage| {
        let before = (values(), sysctl("net.ipv4.tcp_reordering"));
        // One from the catalogue, and one that the catalogue does not contain.
        for change in ["net.ipv4.tcp_keepalive_time=99", "net.ipv4.tcp_reordering=4"] {
            let out = cage.expect(0, &["set", change, "--yes"]);
            assert!(
                out.contains("of the network") && out.contains("unless confirmed with 'whyslow tune confirm'"),
                "{out}"
            );
            let made = last(cage);
            assert_eq!(made["status"], "unconfirmed");
            let left = left_to_confirm(&made);
            assert!((200.0..=300.0).contains(&left), "{left}");
            // A change that may still be undone must not be made persistent.
            assert!(cage.expect(2, &["persist"]).contains(&format!("'whyslow tune confirm {}' first", made["id"])));
            cage.expect(0, &["undo"]);
        }
        assert_eq!((values(), sysctl("net.ipv4.tcp_reordering")), before);
        // A change outside the network is in effect at once.
        let mut other = ends_with_test(Command::new("sleep").arg("60")).spawn().unwrap();
        let out = cage.expect(0, &["set", &format!("process.nice@{}=11", other.id())]);
        assert!(!out.contains("confirm") && last(cage)["status"] == "applied", "{out}");
        other.kill().unwrap();
        other.wait().unwrap();
    });
}

/// Returns the most recent change.
fn last(cage: &Cage) -> serde_json::Value {
    let history = cage.json(&["history"]);
    history.as_array().unwrap().iter().max_by_key(|made| made["id"].as_u64()).unwrap().clone()
}

/// Returns the seconds in which a change can still be confirmed.
fn left_to_confirm(made: &serde_json::Value) -> f64 {
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let since_boot: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
    made["confirm"]["boottime_ns"].as_u64().unwrap() as f64 / 1e9 - since_boot
}

#[test]
fn what_belongs_to_another_namespace_is_not_forgotten() {
    in_cage(|cage| {
        set(cage, &[]);
        // A process stays in the namespace that this thread leaves.
        let mut inhabitant = ends_with_test(Command::new("sleep").arg("60")).spawn().unwrap();
        // SAFETY: unshare has no preconditions; it only affects this thread.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        let out = cage.expect(1, &["undo"]);
        inhabitant.kill().unwrap();
        inhabitant.wait().unwrap();
        let words: Vec<&str> = out.split_whitespace().collect();
        assert!(words.join(" ").contains("it belongs to the network namespace net:["), "{out}");
        assert!(cage.expect(0, &["undo"]).contains("is gone"));
        assert!(cage.expect(0, &["undo"]).contains("nothing to undo"));
    });
}

#[test]
fn a_change_is_kept_over_a_reboot_and_no_longer() {
    in_cage(|cage| {
        set(cage, &[]);
        let file = "/etc/sysctl.d/99-whyslow.conf";
        let rehearsed = cage.expect(0, &["persist", "--dry-run"]);
        assert!(rehearsed.contains("persist@net.core.somaxconn"), "{rehearsed}");
        assert!(rehearsed.contains(&format!("would write {file}\n")), "{rehearsed}");
        assert_eq!(cage.json(&["persist", "--dry-run"])["files"], serde_json::json!([file]));
        assert!(!fs::exists(file).unwrap());
        cage.expect(0, &["persist"]);
        let text = fs::read_to_string(file).unwrap();
        assert!(
            text.ends_with(
                "net.core.somaxconn = 1111\nnet.ipv4.tcp_keepalive_time = 99\nnet.ipv4.tcp_rmem = 4096 65536 1048576\n"
            ),
            "{text}"
        );
        fs::write(file, text.replace("= 99", "= 100") + "vm.swappiness = 7\n").unwrap();
        let out = cage.expect(1, &["undo", "1"]);
        assert!(
            out.contains("persist@net.ipv4.tcp_keepalive_time not rolled back: changed externally to 100"),
            "{out}"
        );
        let text = fs::read_to_string(file).unwrap();
        assert!(
            text.ends_with("net.ipv4.tcp_keepalive_time = 100\nvm.swappiness = 7\n") && !text.contains("somaxconn"),
            "{text}"
        );
        assert_eq!(sysctl("net.core.somaxconn"), "4096");
    });
}

#[test]
fn a_second_run_waits_for_the_first() {
    in_cage(|cage| {
        fs::create_dir_all(cage.path("tune")).unwrap();
        let lock = fs::File::create(cage.path("tune/lock")).unwrap();
        lock.lock().unwrap();
        let mut second = cage.whyslow(&["set"]).args(changes()).stdout(Stdio::null()).spawn().unwrap();
        let holds_open = |link: PathBuf| link == cage.path("tune/lock");
        soon("the second run reaches for the lock", || {
            let files = fs::read_dir(format!("/proc/{}/fd", second.id())).unwrap().flatten();
            files.filter_map(|file| fs::read_link(file.path()).ok()).any(holds_open)
        });
        assert_eq!(second.try_wait().unwrap(), None);
        assert_ne!(values(), wanted());
        lock.unlock().unwrap();
        assert!(second.wait().unwrap().success());
        assert_eq!(values(), wanted());
    });
}

#[test]
fn without_privilege_it_is_told_at_once() {
    in_cage(|cage| {
        let run = |mut command: Command| {
            // SAFETY: only system calls are made between fork and exec.
            unsafe {
                command.pre_exec(|| {
                    if libc::setresuid(65534, 65534, 65534) == 0 {
                        Ok(())
                    } else {
                        Err(std::io::Error::last_os_error())
                    }
                })
            };
            command.output().unwrap()
        };
        let refused = |command: Command, words: &str| {
            let out = run(command);
            let stderr = String::from_utf8(out.stderr).unwrap();
            assert!(out.status.code() == Some(2) && stderr.contains(words), "{words}: {stderr}");
        };
        // Root owns the journal's folder, although its parent, a tmpfs, is world-writable.
        fs::create_dir(cage.path("tune")).unwrap();
        // This cannot be tested if only root can enter the build folder.
        if run(cage.whyslow(&["get", "net.core.somaxconn"])).stdout == b"4096\n" {
            refused(cage.whyslow(&["set", "net.core.somaxconn=1"]), "run as root");
            refused(whyslow(cage, &["--auto"]), "run as root");
            // Users with their own journal are refused before an hour of measuring.
            let own = cage.path("nobody");
            fs::create_dir(&own).unwrap();
            std::os::unix::fs::chown(&own, Some(65534), None).unwrap();
            let mut hours = whyslow(cage, &["net.core.somaxconn=1", "--", "sleep", "3600"]);
            hours.env("WHYSLOW_STATE", &own);
            refused(hours, "not permitted");
        }
        assert_eq!(sysctl("net.core.somaxconn"), "4096");
    });
}

#[test]
fn a_record_of_another_version_is_kept_and_named() {
    in_cage(|cage| {
        let before = values();
        set(cage, &[]);
        let journal = cage.path("tune/journal.jsonl");
        let text = fs::read_to_string(&journal).unwrap();
        let later = "{\"record\":\"sealed\",\"id\":5,\"by\":\"somebody\"}\nnonsense\n";
        fs::write(&journal, format!("{text}{later}")).unwrap();
        let out = cage.expect(0, &["history"]);
        assert!(out.contains("line 6 is a record 'sealed' of change 5") && out.contains("and 1 more"), "{out}");
        cage.expect(0, &["undo"]);
        assert_eq!(values(), before);
        let now = fs::read_to_string(&journal).unwrap();
        assert!(now.starts_with(&format!("{text}{later}")) && now.len() > text.len() + later.len(), "{now}");
        set(cage, &[]);
        assert_eq!(last(cage)["id"], 6);
        // The record of trials is kept the same way.
        fs::write(cage.path("tune/trials.jsonl"), "{\"a\":1}\n{\"torn").unwrap();
        assert!(cage.expect(0, &["trials"]).contains("1 lines are not trials"));
    });
}

#[test]
fn what_is_written_down_is_for_root_alone_and_holds_no_secrets() {
    in_cage(|cage| {
        let mode = |name: &str| {
            use std::os::unix::fs::PermissionsExt;
            fs::metadata(cage.path(name)).unwrap().permissions().mode() & 0o777
        };
        // As an earlier version left them.
        fs::create_dir_all(cage.path("tune")).unwrap();
        for name in ["tune/journal.jsonl", "tune/trials.jsonl", "tune/lock"] {
            fs::write(cage.path(name), "").unwrap();
            tool("chmod", &["644", cage.path(name).to_str().unwrap()]);
        }
        tool("chmod", &["755", cage.path("tune").to_str().unwrap()]);
        set(cage, &["--why", "for mysql://me:hunter2@db/x with --password=hunter2"]);
        let how = ["net.core.somaxconn=8192", "--pairs", "6", "--noise-pairs", "0", "--settle", "0", "--"];
        let out = whyslow(cage, &[&how[..], &["sh", "-c", "true --token=hunter2"]].concat()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        for (name, wanted) in
            [("tune", 0o700), ("tune/journal.jsonl", 0o600), ("tune/trials.jsonl", 0o600), ("tune/lock", 0o600)]
        {
            assert_eq!(mode(name), wanted, "{name}");
        }
        for name in ["tune/journal.jsonl", "tune/trials.jsonl", "tune/lock"] {
            let text = fs::read_to_string(cage.path(name)).unwrap();
            assert!(!text.contains("hunter2"), "{name}: {text}");
            assert!(name.ends_with("lock") || text.contains("***"), "{name}: {text}");
        }
        // New files get the strict modes at once.
        cage.expect(0, &["undo", "--all"]);
        tool("rm", &["-r", cage.path("tune").to_str().unwrap()]);
        set(cage, &[]);
        assert_eq!((mode("tune"), mode("tune/journal.jsonl"), mode("tune/lock")), (0o700, 0o600, 0o600));
    });
}

#[test]
fn without_a_command_it_says_what_stands_and_how_to_go_on() {
    in_cage(|cage| {
        let out = cage.expect(0, &[]);
        assert!(out.contains("whyslow has changed nothing") && out.contains("whyslow tune recommend"), "{out}");
        let out = set(cage, &[]);
        assert!(out.contains("a reboot undoes it; 'whyslow tune persist 1' keeps it"), "{out}");
        let out = cage.expect(0, &[]);
        for words in ["net.core.somaxconn 4096 → 1111", "whyslow tune undo 1", "whyslow tune persist 1"] {
            assert!(out.contains(words), "{words}: {out}");
        }
        assert_eq!(cage.json(&[]).as_array().unwrap().len(), CHANGES.len());
    });
}
