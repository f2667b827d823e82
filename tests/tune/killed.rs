//! Kills the program at one system call after the other: afterwards, the settings must be as before, or as the journal
//! states.
//!
//! The tests of setting and undoing kill at all calls, some seven hundred each, the others only at calls that change
//! something; `WHYSLOW_EVERY_SYSCALL=1` makes all of them use every call, which takes hours.

use crate::cage::{Cage, changes, in_cage, soon, values, wanted};
use crate::tracer::{End, Point, run_until};
use crate::trial::whyslow;
use std::fs;
use std::process::Command;

fn every() -> bool {
    std::env::var_os("WHYSLOW_EVERY_SYSCALL").is_some()
}

/// Kills a run at one point after the other, until it ends by itself; returns the number of points.
fn at_each_point(cage: &Cage, args: &[&str], prepare: impl FnMut(), check: impl FnMut(usize)) -> usize {
    signalled_at_each_point(cage, libc::SIGKILL, args, prepare, check)
}

/// Kills a run at every system call; returns the number of points.
fn at_each_call(cage: &Cage, args: &[&str], mut prepare: impl FnMut(), mut check: impl FnMut(usize)) -> usize {
    let all = Points { signal: libc::SIGKILL, every: true, step: 1 };
    at_each_point_of(cage, &all, &|| cage.whyslow(args), &mut prepare, &mut check)
}

fn signalled_at_each_point(
    cage: &Cage,
    signal: libc::c_int,
    args: &[&str],
    mut prepare: impl FnMut(),
    mut check: impl FnMut(usize),
) -> usize {
    let points = Points { signal, every: every(), step: 1 };
    at_each_point_of(cage, &points, &|| cage.whyslow(args), &mut prepare, &mut check)
}

/// Points at which a run gets a signal.
struct Points {
    signal: libc::c_int,
    /// Uses every system call; otherwise only those that change something.
    every: bool,
    /// Uses only every nth of these.
    step: usize,
}

/// Signals any run of the program at these points; returns the number of points.
fn at_each_point_of(
    cage: &Cage,
    &Points { signal, every, step }: &Points,
    command: &dyn Fn() -> Command,
    prepare: &mut dyn FnMut(),
    check: &mut dyn FnMut(usize),
) -> usize {
    for stop in (0..).step_by(step) {
        fs::remove_file(cage.path("tune/journal.jsonl")).ok();
        prepare();
        let mut command = command();
        let command_words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        match run_until(command, Point { stop, every, signal }) {
            End::Signalled => check(stop),
            End::Exited(status) => {
                assert_eq!(status, 0, "{:?}", command_words);
                check(stop);
                eprintln!("{command_words:?}: signal {signal} at {} points of {stop}", stop / step);
                return stop;
            }
        }
    }
    unreachable!("a program ends")
}

fn set_words() -> Vec<String> {
    ["set", "--no-confirm"].map(str::to_owned).into_iter().chain(changes()).collect()
}

fn words(owned: &[String]) -> Vec<&str> {
    owned.iter().map(String::as_str).collect()
}

#[test]
fn killed_while_setting() {
    in_cage(|cage| {
        let before = values();
        let set = set_words();
        let points = at_each_call(
            cage,
            &words(&set),
            || (),
            |point| {
                cage.expect(0, &["recover"]);
                let history = cage.json(&["history"]);
                let applied =
                    history.as_array().is_some_and(|all| all.iter().any(|entry| entry["status"] == "applied"));
                assert_eq!(values(), if applied { wanted() } else { before.clone() }, "at point {point}");
                cage.expect(0, &["undo", "--all"]);
                assert_eq!(values(), before, "at point {point}");
            },
        );
        assert!(points >= 300, "{points}");
    });
}

#[test]
fn killed_while_undoing() {
    in_cage(|cage| {
        let before = values();
        let set = set_words();
        let points = at_each_call(
            cage,
            &["undo"],
            || drop(cage.expect(0, &words(&set))),
            |point| {
                // What has not been undone yet can still be undone, and then is as before.
                cage.expect(0, &["undo", "--all"]);
                assert_eq!(values(), before, "at point {point}");
            },
        );
        assert!(points >= 300, "{points}");
    });
}

#[test]
fn killed_before_anybody_confirms() {
    in_cage(|cage| {
        let before = values();
        let set: Vec<String> =
            ["set", "--confirm-within", "1ms"].map(str::to_owned).into_iter().chain(changes()).collect();
        let points = at_each_point(
            cage,
            &words(&set),
            || (),
            |point| {
                soon(&format!("nobody confirms it, at point {point}"), || {
                    cage.expect(0, &["recover"]);
                    values() == before
                });
            },
        );
        assert!(points >= 20, "{points}");
    });
}

#[test]
fn killed_while_persisting() {
    in_cage(|cage| {
        let before = values();
        let set = set_words();
        let file = "/etc/sysctl.d/99-whyslow.conf";
        fs::write(file, "vm.swappiness = 60\n").unwrap();
        let points = at_each_point(
            cage,
            &["persist"],
            || drop(cage.expect(0, &words(&set))),
            |point| {
                cage.expect(0, &["recover"]);
                let text = fs::read_to_string(file).unwrap();
                assert!(
                    text.starts_with("vm.swappiness = 60\n") && [1, 4].contains(&text.lines().count()),
                    "at point {point}: {text}"
                );
                cage.expect(0, &["undo", "--all"]);
                assert_eq!(fs::read_to_string(file).unwrap(), "vm.swappiness = 60\n", "at point {point}");
                assert_eq!(values(), before, "at point {point}");
            },
        );
        assert!(points >= 20, "{points}");
    });
}

#[test]
fn terminated_while_setting() {
    in_cage(|cage| {
        let before = values();
        let set = set_words();
        let points = signalled_at_each_point(
            cage,
            libc::SIGTERM,
            &words(&set),
            || (),
            |point| {
                // The run rolls back its own changes, without recover.
                let now = values();
                assert!(now == before || now == wanted(), "at point {point}: {now:?}");
                cage.expect(0, &["undo", "--all"]);
                assert_eq!(values(), before, "at point {point}");
            },
        );
        assert!(points >= 20, "{points}");
    });
}

#[test]
fn killed_while_trying() {
    in_cage(|cage| {
        let before = values();
        // Six pairs have some hundred points, many of them alike: by default, the test uses every seventh, which covers
        // all kinds in turn.
        let points = Points { signal: libc::SIGKILL, every: every(), step: if every() { 1 } else { 7 } };
        let changes = changes();
        let run = || {
            let how = ["--pairs", "6", "--noise-pairs", "0", "--settle", "0", "--seed", "7", "--", "true"];
            whyslow(cage, &[&words(&changes)[..], &how].concat())
        };
        let points = at_each_point_of(cage, &points, &run, &mut || (), &mut |point| {
            cage.expect(0, &["recover"]);
            assert_eq!(values(), before, "at point {point}");
        });
        assert!(points >= 60, "{points}");
    });
}
