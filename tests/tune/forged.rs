//! Tests that whyslow does not act on data that another user could have written: the journal, profiles, rules.

use crate::cage::{Cage, in_cage, sysctl};
use crate::profiles::mounted;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

const NOBODY: u32 = 65534;

/// Returns a journal that would make `recover` set net.core.somaxconn to 7.
fn journal() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let change = serde_json::json!({
        "target": "net.core.somaxconn", "identity": identity(), "original": "7",
        "intended": sysctl("net.core.somaxconn"), "collateral": [],
    });
    let begin = serde_json::json!({
        "record": "begin", "id": 1, "at": "2026-01-01T00:00:00+00:00", "why": "x", "boot": boot.trim(),
        "who": {"uid": 0, "user": "root", "pid": 1, "command": "x"}, "changes": [change],
    });
    format!("{begin}\n")
}

fn identity() -> String {
    fs::read_link("/proc/thread-self/ns/net").unwrap().to_string_lossy().into_owned()
}

fn write_journal(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
    fs::write(folder.join("journal.jsonl"), journal()).unwrap();
    fs::set_permissions(folder.join("journal.jsonl"), Permissions::from_mode(0o600)).unwrap();
}

/// Asserts that nothing in the journal is acted on, and that the error contains these words.
fn assert_refused(cage: &Cage, words: &[&str]) {
    let before = sysctl("net.core.somaxconn");
    for args in [&["recover"][..], &["undo", "--all"], &["set", "net.ipv4.tcp_keepalive_time=99"], &["history"]] {
        let out = cage.expect(2, args);
        assert!(words.iter().all(|word| out.contains(word)), "{args:?}: {words:?} in {out}");
    }
    assert_eq!((sysctl("net.core.somaxconn"), sysctl("net.ipv4.tcp_keepalive_time")), (before, "7200".into()));
}

#[test]
fn a_journal_of_this_user_is_acted_on() {
    in_cage(|cage| {
        write_journal(&cage.path("tune"));
        cage.expect(0, &["recover"]);
        assert_eq!(sysctl("net.core.somaxconn"), "7");
    });
}

#[test]
fn a_journal_of_another_user_is_not_acted_on() {
    in_cage(|cage| {
        let folder = cage.path("tune");
        write_journal(&folder);
        chown(folder.join("journal.jsonl"), Some(NOBODY), None).unwrap();
        assert_refused(cage, &["journal.jsonl belongs to another user (uid 65534)", "chown"]);
        chown(folder.join("journal.jsonl"), Some(0), None).unwrap();
        chown(&folder, Some(NOBODY), None).unwrap();
        assert_refused(cage, &["tune belongs to another user (uid 65534)"]);
    });
}

#[test]
fn a_journal_that_others_may_write_or_that_they_redirect_is_not_acted_on() {
    in_cage(|cage| {
        let folder = cage.path("tune");
        write_journal(&folder);
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        assert_refused(cage, &["others may write to", "chmod go-w"]);
        fs::remove_dir_all(&folder).unwrap();
        let elsewhere = cage.path("elsewhere");
        write_journal(&elsewhere);
        symlink(&elsewhere, &folder).unwrap();
        std::os::unix::fs::lchown(&folder, Some(NOBODY), None).unwrap();
        assert_refused(cage, &["tune belongs to another user (uid 65534)"]);
    });
}

#[test]
fn a_profile_and_a_rule_of_another_user_are_not_taken() {
    in_cage(|cage| {
        let profile = cage.path("profiles/wsl-theirs");
        for folder in [profile.clone(), cage.path("over/up"), cage.path("over/work")] {
            fs::create_dir_all(folder).unwrap();
        }
        mounted(cage);
        fs::write(profile.join("tuned.conf"), "[sysctl]\nnet.core.somaxconn=7\n").unwrap();
        cage.expect(0, &["diff", "wsl-theirs"]);
        chown(profile.join("tuned.conf"), Some(NOBODY), None).unwrap();
        let out = cage.expect(2, &["diff", "wsl-theirs"]);
        assert!(out.contains("belongs to another user (uid 65534)"), "{out}");
        // Like sudo that keeps HOME.
        let rules = cage.path("home/.config/whyslow/rules.d");
        fs::create_dir_all(&rules).unwrap();
        fs::write(rules.join("a.toml"), "not a rule").unwrap();
        let said = || {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_whyslow"));
            command.arg("rules").env("HOME", cage.path("home")).env_remove("XDG_CONFIG_HOME");
            String::from_utf8(command.output().unwrap().stderr).unwrap()
        };
        assert!(said().contains("a.toml"), "{}", said());
        chown(cage.path("home"), Some(NOBODY), None).unwrap();
        let out = said();
        assert!(out.contains("home belongs to another user (uid 65534)") && !out.contains("a.toml"), "{out}");
    });
}
