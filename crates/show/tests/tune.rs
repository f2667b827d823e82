//! Settings, plans and their outcomes as text, with hostile names.

use whyslow_documents::tune::{
    ChangeOutcome, ChangedBy, CheckLine, Effect, HistoryEntry, PlanDocument, PlanLine, PlanStep, ProfileNote, Reason,
    Risk, SettingChange, Transaction, Unavailable, Undoing,
};
use whyslow_show::text::{TextStyle, tune};

const HOSTILE: &str = "\x1b]0;owned\x07\u{202e}sda\n\x1b[2J";
const STYLE: TextStyle = TextStyle { width: 80, colour: false, all: true, utc: true };

fn change() -> SettingChange {
    SettingChange {
        target: HOSTILE.into(),
        identity: HOSTILE.into(),
        original: HOSTILE.into(),
        intended: HOSTILE.into(),
        collateral: Vec::new(),
    }
}

fn undoings() -> Vec<Undoing> {
    let text = || HOSTILE.to_owned();
    [
        ChangeOutcome::Restored,
        ChangeOutcome::Already,
        ChangeOutcome::ChangedSince { now: text() },
        ChangeOutcome::Superseded { by: 2 },
        ChangeOutcome::Gone { why: text() },
        ChangeOutcome::Failed { why: text() },
    ]
    .into_iter()
    .map(|outcome| Undoing { id: 1, change: 0, target: text(), original: text(), outcome })
    .collect()
}

fn entry() -> HistoryEntry {
    let who = ChangedBy { uid: 0, user: Some(HOSTILE.into()), pid: 1, command: HOSTILE.into() };
    HistoryEntry {
        undone: undoings(),
        undone_because: Some(Reason::Asked),
        ..HistoryEntry::begun(Transaction {
            id: 1,
            at: HOSTILE.into(),
            who,
            why: HOSTILE.into(),
            boot: HOSTILE.into(),
            confirm: None,
            persists: None,
            changes: vec![change()],
        })
    }
}

fn line(step: PlanStep) -> PlanLine {
    PlanLine {
        target: "disk.scheduler@sda".into(),
        wanted: "none".into(),
        step,
        reason: String::new(),
        effect: Effect::Instant,
        risk: Risk::Low,
        network: false,
        confirm: false,
        lowers: false,
    }
}

#[test]
fn hostile_names_are_drawn_not_obeyed() {
    let plan = PlanDocument {
        why: HOSTILE.into(),
        files: Vec::new(),
        lines: vec![PlanLine {
            target: HOSTILE.into(),
            reason: HOSTILE.into(),
            ..line(PlanStep::Change { from: HOSTILE.into() })
        }],
    };
    let check = CheckLine {
        id: Some(1),
        target: HOSTILE.into(),
        original: Some(HOSTILE.into()),
        wanted: HOSTILE.into(),
        now: Some(HOSTILE.into()),
        unavailable: None,
        holds: false,
        reset: false,
        is_kept: false,
    };
    let note = ProfileNote { unit: HOSTILE.into(), option: HOSTILE.into(), value: HOSTILE.into(), why: HOSTILE.into() };
    let drawn = [
        tune::plan(&plan, &STYLE),
        tune::checks(&[check], &STYLE),
        tune::undone(&undoings(), false, &STYLE),
        tune::history(&[entry()], &STYLE),
        tune::notes(&[note], &STYLE),
    ];
    for text in drawn {
        assert!(!text.contains(['\x1b', '\x07', '\u{202e}']), "{text:?}");
        assert!(text.contains(r"\x1b]0;owned\x07\u{202e}sda\n"), "{text}");
    }
}

#[test]
fn a_plan_says_what_changes_what_stays_and_what_cannot_be() {
    let lines = vec![
        PlanLine {
            risk: Risk::High,
            network: true,
            confirm: true,
            lowers: true,
            reason: "as asked".into(),
            ..line(PlanStep::Change { from: "bfq".into() })
        },
        PlanLine {
            target: "a.b".into(),
            ..line(PlanStep::Keep { now: "7".into(), why: "only more is asked for".into() })
        },
        PlanLine { target: "c.d".into(), ..line(PlanStep::Already) },
        PlanLine { target: "e.f".into(), ..line(PlanStep::Cannot(Unavailable::Unsupported("no driver".into()))) },
    ];
    let plan = PlanDocument { why: String::new(), lines, files: Vec::new() };
    assert_eq!(
        tune::plan(&plan, &TextStyle { all: false, ..STYLE }),
        "disk.scheduler@sda bfq → none  dangerous  of the network  lowers the limit\n    rolled back unless confirmed\n    as asked\ne.f none: unsupported here: no driver\nalready set: a.b, c.d\n"
    );
    assert!(tune::plan(&plan, &STYLE).contains("a.b stays 7: only more is asked for\nc.d none already\n"));
}

#[test]
fn what_is_done_to_all_disks_is_shown_once() {
    let of = |name: &str, disk: &str, step: PlanStep| PlanLine {
        target: format!("disk.{name}@{disk}"),
        wanted: "4096".into(),
        step,
        reason: "streams".into(),
        effect: Effect::Instant,
        risk: Risk::Low,
        network: false,
        confirm: false,
        lowers: false,
    };
    let from = |from: &str| PlanStep::Change { from: from.into() };
    let missing = |disk: &str| PlanStep::Cannot(Unavailable::Unsupported(format!("no /sys/block/{disk}/x")));
    let mut lines: Vec<PlanLine> = ["sda", "sdb", "sdc"].iter().map(|disk| of("ahead", disk, from("128"))).collect();
    lines.push(of("ahead", "sdd", from("256")));
    lines.push(of("ahead", "sde", from("128")));
    lines.extend(["sda", "sdb"].map(|disk| of("x", disk, missing(disk))));
    lines.extend(["sdx", "sdy"].map(|disk| of("ahead", disk, PlanStep::Already)));
    let document = PlanDocument { why: String::new(), lines, files: Vec::new() };
    let text = tune::plan(&document, &TextStyle { all: false, ..STYLE });
    assert_eq!(
        text,
        "disk.ahead (5 in all: sda, sdb, sdc, sdd, …) 128 or 256 → 4096\n    streams\n\
         disk.x (sda, sdb) 4096: unsupported here: no /sys/block/*/x\n    streams\n\
         already set: disk.ahead (sdx, sdy)\n"
    );
}

#[test]
fn the_history_has_its_times_in_the_readers_zone_to_the_second() {
    let mut entry = entry();
    entry.transaction.at = "2026-11-21T10:00:00.25+01:00".into();
    let drawn = tune::history(&[entry], &STYLE);
    assert!(drawn.contains(" 2026-11-21 09:00:00 UTC "), "{drawn}");
}
