//! The main screen, word for word, and hostile names in it.

#[path = "../../../tests/kept_screen/mod.rs"]
mod kept_screen;

use kept_screen::{assert_kept, assert_screen};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use unicode_width::UnicodeWidthStr;
use whyslow_documents::diagnosis::{Diagnosis, KernelAverage, NotCleared, Since, Unattributed, Verdict};
use whyslow_show::escape::is_deceptive;
use whyslow_show::text::{self, TextStyle};
use whyslow_show::{Ink, Piece, json};

const PLAIN: TextStyle = TextStyle { width: 80, colour: false, all: false, utc: true };

fn text_of(fixture: &str) -> String {
    let path = fixture_path(fixture);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn fixture(name: &str) -> Diagnosis {
    serde_json::from_str(&text_of(&format!("{name}.json"))).expect("the fixture is a diagnosis document")
}

fn fixture_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Draws the first screen of a fixture: short, and no wider than the terminal.
fn first_screen(name: &str, style: TextStyle) -> String {
    let drawn = text::diagnosis(&fixture(name), &style);
    assert!(drawn.lines().count() <= 10, "{name} takes more than ten lines:\n{drawn}");
    assert!(drawn.lines().all(|line| line.width() <= style.width), "{name} is too wide:\n{drawn}");
    drawn
}

#[test]
fn live_diagnoses_at_80_columns() {
    for name in ["saturated", "healthy", "undetermined"] {
        assert_screen(&format!("live-{name}"), "whyslow", &first_screen(name, PLAIN));
    }
}

#[test]
fn live_diagnoses_with_all_evidence() {
    for name in ["saturated", "healthy", "undetermined"] {
        let all = text::diagnosis(&fixture(name), &TextStyle { all: true, ..PLAIN });
        assert_screen(&format!("live-{name}-all"), "whyslow -v", &all);
    }
}

#[test]
fn all_details_end_with_the_whole_answer_and_repeat_no_action() {
    let drawn = text::diagnosis(&fixture("saturated"), &TextStyle { all: true, ..PLAIN });
    let (details, answer) = drawn.split_once("Overhead: ").expect("the details end with the overhead");
    assert!(answer.contains("Less certain: eth0 sends as fast") && answer.contains("sdb cannot keep up"), "{answer}");
    assert!(answer.contains("Recommended action: Lower the I/O priority of backup.sh"), "{answer}");
    assert!(!details.contains("Lower the I/O priority") && details.contains("or: Let the queue merge"), "{details}");
}

fn brief(diagnosis: &Diagnosis, lines: usize) -> String {
    without_style(&text::brief_lines(diagnosis, &PLAIN, lines))
}

fn without_style(lines: &[Vec<Piece>]) -> String {
    lines.iter().map(|line| line.iter().map(Piece::text).collect::<String>() + "\n").collect()
}

/// The problem and the recommended action stay visible as long as possible, however few lines there are.
#[test]
fn a_brief_answer_keeps_what_to_do_longest() {
    let d = fixture("saturated");
    for lines in 1..=10 {
        let drawn = brief(&d, lines);
        assert!(drawn.lines().count() <= lines, "{lines}: {drawn}");
        assert!(drawn.starts_with("sdb cannot keep up"), "{drawn}");
        assert_eq!(drawn.contains("Recommended action: Lower the I/O priority"), lines > 1, "{drawn}");
        assert_eq!(drawn.contains("Who: ") && drawn.contains("ionice"), lines > 3, "{drawn}");
    }
    assert_eq!(brief(&fixture("healthy"), 5), "Healthy: no resource is saturated or failing.\n");
    assert!(brief(&fixture("undetermined"), 5).starts_with("Undetermined: "));
}

#[test]
fn how_long_it_has_lasted_comes_with_where_that_is_from() {
    // The name of the source does not matter.
    let how_bad = |seconds: f64, average: Option<KernelAverage>| {
        let mut d = fixture("saturated");
        d.findings[0].since = Some(Since { start: None, seconds, source: "/proc/pressure".into(), average });
        let drawn = text::diagnosis(&d, &PLAIN);
        drawn.lines().find(|line| line.contains("How bad:")).unwrap_or_default().to_owned()
    };
    let pressure = how_bad(300.0, Some(KernelAverage::Pressure));
    assert!(pressure.ends_with("of the time, also over 5 min (PSI avg300)"), "{pressure}");
    let load = how_bad(900.0, Some(KernelAverage::Load));
    assert!(load.ends_with("of the time, also over 15 min (load average)"), "{load}");
    // The steps may add up to slightly more than the window.
    assert!(how_bad(10.004, None).ends_with("of the time, for at least the 10 s watched"));
}

/// A part without data is unknown: 'healthy' covers only what was captured.
#[test]
fn a_verdict_on_captures_says_how_far_it_goes() {
    use whyslow_documents::diagnosis::{BlindSpot, NOT_CAPTURED, Origin, RuledOut, Verdict};
    let ruled_out = |id: &str| RuledOut { id: id.into(), because: "it is idle".into() };
    let missing = |what: &str| BlindSpot { what: what.into(), why: NOT_CAPTURED.into(), remedy: String::new() };
    let mut d = fixture("healthy");
    (d.window.source, d.verdict) = (Origin::Import, Verdict::Healthy);
    d.ruled_out = vec![ruled_out("disk")];
    d.blind_spots = vec![missing("the CPUs"), missing("memory")];
    let answer = |d: &Diagnosis| {
        let drawn = text::diagnosis(d, &PLAIN);
        drawn.lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(answer(&d), "No problem in the disks. Unknown, because not captured: the CPUs, memory.");
    for (spot, command) in d.blind_spots.iter_mut().zip(["mpstat 1 10", "free -m"]) {
        spot.remedy = format!("add the output of: {command}");
    }
    assert_eq!(answer(&d), "To find out more: add the output of: mpstat 1 10; free -m");
    d.ruled_out = vec![ruled_out("disk"), ruled_out("cpu"), ruled_out("memory")];
    d.blind_spots.clear();
    assert_eq!(answer(&d), "Healthy: no problem in memory, the CPUs and the disks.");
}

/// An experiment's conclusion comes first, whatever the verdict, and the screen stays short.
#[test]
fn a_comparison_of_captures_has_room() {
    use whyslow_documents::diagnosis::{CaptureComparison, Origin};
    let conclusion = "Spread over 2 disks instead of 1, the load moves no more. ".repeat(4);
    let one = CaptureComparison { a: "single.txt".into(), b: "striped.txt".into(), conclusions: vec![conclusion] };
    for name in ["saturated", "healthy", "undetermined"] {
        for count in [1, 3] {
            let mut d = fixture(name);
            (d.window.source, d.comparisons) = (Origin::Import, vec![one.clone(); count]);
            let drawn = text::diagnosis(&d, &PLAIN);
            // The result of the comparison is not cut off.
            assert!(drawn.lines().count() <= 14, "{drawn}");
            let whole = drawn.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(whole.matches("the load moves no more.").count(), 4, "{drawn}");
            let first = drawn.lines().nth(1).unwrap();
            assert_eq!(first.starts_with("Compared: Spread over 2"), count == 1, "{drawn}");
            assert_eq!(first.starts_with("Compared: single.txt → striped.txt: "), count == 3, "{drawn}");
        }
    }
    let d = Diagnosis { comparisons: vec![one; 3], ..fixture("healthy") };
    let all = text::diagnosis(&d, &TextStyle { all: true, ..PLAIN });
    assert_eq!(all.matches("single.txt → striped.txt").count(), 3, "{all}");
}

/// The command to paste is not split, and the meaning of each outcome is complete.
#[test]
fn a_capture_that_would_decide_ends_the_answer() {
    use whyslow_documents::diagnosis::{CaptureOutcome, Confidence, NextCapture, Origin};
    let outcome = CaptureOutcome {
        condition: "the total of 'some' grows by seconds".into(),
        then: "tasks wait for sdb, and it is the bottleneck".into(),
        decides: vec!["disk.saturated".into()],
    };
    let next = NextCapture {
        host: None,
        command: "cat /proc/pressure/io; sleep 10; cat /proc/pressure/io".into(),
        outcomes: vec![outcome],
        otherwise: "hardly anything waits for sdb".into(),
    };
    let mut d = fixture("saturated");
    (d.window.source, d.next_capture) = (Origin::Import, Some(next));
    d.findings[0].confidence = Confidence::Medium;
    let end = "To decide, on the captured host:\n    cat /proc/pressure/io; sleep 10; cat /proc/pressure/io\n  If the total \
               of 'some' grows by seconds: tasks wait for sdb, and it is the\n  bottleneck; otherwise hardly anything \
               waits for sdb.\n";
    for all in [false, true] {
        let drawn = text::diagnosis(&d, &TextStyle { all, ..PLAIN });
        assert!(drawn.contains(end), "{drawn}");
        assert!(all || !drawn.contains("To find out more"), "{drawn}");
    }
    let document: serde_json::Value = serde_json::from_str(&json::diagnosis(&d)).expect("JSON");
    assert_eq!(document["next_capture"]["outcomes"][0]["then"], "tasks wait for sdb, and it is the bottleneck");
}

/// A lack of privilege is answered with the command to paste.
#[test]
fn a_lack_of_privilege_has_a_command() {
    let drawn = text::diagnosis(&fixture("undetermined"), &PLAIN);
    assert!(drawn.ends_with("To find out more: sudo whyslow\n"), "{drawn}");
}

#[test]
fn a_bottleneck_at_120_columns() {
    let drawn = first_screen("saturated", TextStyle { width: 120, ..PLAIN });
    assert_kept(&fixture_path("saturated-120.txt"), &drawn);
}

#[test]
fn results_of_a_benchmark_and_a_trial() {
    let report = serde_json::from_str(&text_of("bench-memory.json")).expect("a report");
    assert_screen("bench-memory", "whyslow bench memory", &text::bench(&report, &PLAIN));
    let trial = serde_json::from_str(&text_of("try.json")).expect("a trial");
    let command = "whyslow try disk.read_ahead_kb@loop0=0 --pairs 6 --noise-pairs 2 --delta 5 -- sh run.sh";
    assert_screen("try", command, &text::tune::trial(&trial, &PLAIN));
}

#[test]
fn hostile_names_are_drawn_not_obeyed() {
    assert_kept(&fixture_path("hostile-80.txt"), &text::diagnosis(&fixture("hostile"), &PLAIN));
}

#[test]
fn styled_lines_are_those_of_the_text() {
    for name in ["saturated", "healthy", "undetermined", "hostile"] {
        let lines = text::diagnosis_lines(&fixture(name), &PLAIN);
        assert_eq!(without_style(&lines), text::diagnosis(&fixture(name), &PLAIN), "{name}");
    }
    let lines = text::brief_lines(&fixture("saturated"), &PLAIN, 3);
    assert!(lines[0].iter().any(|piece| piece.ink() == Ink::Red), "{:?}", lines[0]);
}

#[test]
fn colour_adds_codes_and_nothing_else() {
    let coloured = text::diagnosis(&fixture("saturated"), &TextStyle { colour: true, ..PLAIN });
    assert!(coloured.contains("\x1b["));
    assert_eq!(without_colour(&coloured), kept_screen::screen("live-saturated"));
}

/// Returns the fixture with its first cause on three more devices, and five that are not listed.
fn alike() -> Diagnosis {
    let mut d = fixture("saturated");
    let mut cause = d.findings[0].clone();
    cause.explains.clear();
    d.findings = ["sda", "sdb", "sdc", "sdd"]
        .map(|name| {
            cause.subject.name = name.into();
            cause.clone()
        })
        .into();
    d.findings[0].more = 5;
    d
}

#[test]
fn causes_alike_are_counted_with_those_that_are_not_listed() {
    let first = text::diagnosis(&alike(), &PLAIN);
    assert!(first.contains("(and 7 more like it)"), "three that are listed and five that are not:\n{first}");
    let all = text::diagnosis(&alike(), &TextStyle { all: true, ..PLAIN });
    assert!(all.contains("×9: also device sdb; device sdc; device sdd; 5 more"), "{all}");
}

#[test]
fn an_undetermined_verdict_shows_the_best_suspicion() {
    let suspicion = fixture("saturated").findings[0].clone();
    let d = Diagnosis { findings: vec![suspicion], ..fixture("undetermined") };
    let drawn = text::diagnosis(&d, &PLAIN);
    assert!(drawn.contains("\nPossibly: sdb cannot keep up"), "{drawn}");
    assert!(drawn.contains("(whyslow -v)") && drawn.lines().count() <= 10, "{drawn}");
}

#[test]
fn what_stands_out_without_a_cause_is_the_answer() {
    let entry = |id: &str, because: &str| NotCleared { id: id.into(), because: because.into(), during: None };
    let not_cleared = vec![
        entry("disk", "tasks waited for I/O 46 % of the time; no device was found saturated or slow"),
        entry("network", "3 % of segments were retransmitted"),
    ];
    let d = Diagnosis { verdict: Verdict::Undetermined, blind_spots: Vec::new(), not_cleared, ..fixture("healthy") };
    let drawn = text::diagnosis(&d, &PLAIN);
    assert!(
        drawn.contains("\nUndetermined: no cause was found, but tasks waited for I/O 46 % of the time;"),
        "{drawn}"
    );
    assert!(drawn.contains("\n  Network: 3 % of segments"), "{drawn}");
    assert!(!drawn.contains("Healthy") && drawn.lines().count() <= 10, "{drawn}");
    let all = text::diagnosis(&d, &TextStyle { all: true, ..PLAIN });
    assert!(all.contains("Stands out, without a known cause\n  Disk: tasks waited"), "{all}");
}

#[test]
fn a_suspicion_about_several_threads_of_a_program_counts_them() {
    let mut suspicion = fixture("saturated").findings[2].clone();
    suspicion.explained_by = None;
    let mut other = suspicion.clone();
    other.subject.tid = Some(4731);
    let d = Diagnosis { findings: vec![suspicion, other], ..fixture("undetermined") };
    let drawn = text::diagnosis(&d, &PLAIN);
    assert!(drawn.contains("waiting for sdb (and 1 more like\n  it; whyslow -v)"), "{drawn}");
}

#[test]
fn an_impact_that_is_no_waiting_is_said_in_the_words_of_its_rule() {
    let mut d = fixture("saturated");
    d.findings[0].how_bad = Some("uses 64 % of one CPU".into());
    for all in [false, true] {
        let drawn = text::diagnosis(&d, &TextStyle { all, ..PLAIN });
        assert!(drawn.contains("How bad:  uses 64 % of one CPU, also over 5 min (PSI avg300)"), "{drawn}");
        assert!(!drawn.contains("requests waited 62 %"), "{drawn}");
    }
}

#[test]
fn another_cause_is_cut_at_the_end_of_a_clause_and_certain_ones_come_first() {
    use whyslow_documents::diagnosis::Confidence;
    let mut d = fixture("saturated");
    let other = |id: &str, confidence, summary: &str| {
        let mut finding = fixture("saturated").findings[0].clone();
        (finding.id, finding.confidence, finding.summary) = (id.into(), confidence, summary.into());
        finding
    };
    let long = "There is more work than 2 CPUs can do; one program with a long name uses the most of all of them.";
    d.findings.truncate(1);
    d.findings.push(other("net.loss", Confidence::Low, "eth0 loses packets."));
    d.findings.push(other("cpu.saturated", Confidence::High, long));
    let drawn = text::diagnosis(&d, &PLAIN);
    let first = drawn.lines().nth(1).expect("a second line");
    assert!(first.starts_with("Also: There is more work than 2 CPUs can do"), "{drawn}");
    assert!(!first.contains('…') && !first.contains("one program"), "{drawn}");
    assert!(drawn.ends_with("\nLess certain: eth0 loses packets.\n"), "{drawn}");
    assert!(drawn.lines().count() <= 10, "{drawn}");
}

/// The first line is the answer or a likely cause.
#[test]
fn a_suspicion_is_below_the_answer_and_hedged_in_the_details() {
    let d = fixture("saturated");
    let drawn = text::diagnosis(&d, &PLAIN);
    assert!(drawn.lines().nth(2).is_some_and(|line| line.starts_with("sdb cannot keep up")), "{drawn}");
    assert!(drawn.ends_with("\nLess certain: eth0 sends as fast as its shaper lets it.\n"), "{drawn}");
    let all = text::diagnosis(&d, &TextStyle { all: true, ..PLAIN });
    assert!(all.contains("\nNetwork link possibly saturated (interface eth0"), "{all}");
    assert!(all.contains("at least one task waited for the network less than 1 % of the time"), "{all}");
    let title = |id: &str| {
        let mut d = d.clone();
        d.findings[1].id = id.into();
        let all = text::diagnosis(&d, &TextStyle { all: true, ..PLAIN });
        all.lines().find(|line| line.contains("(interface eth0")).unwrap_or_default().to_owned()
    };
    assert!(title("net.loss").starts_with("Possible network loss ("));
    assert!(title("disk.flush_bound").starts_with("Disk possibly flush bound ("));
}

#[test]
fn how_bad_it_is_is_left_out_if_the_headline_says_it() {
    use whyslow_documents::diagnosis::Confidence;
    let mut d = fixture("saturated");
    d.findings.truncate(1);
    let first = &mut d.findings[0];
    (first.since, first.confidence) = (None, Confidence::Medium);
    first.summary = "Connection requests are dropped (98.9/s), at 390 Mbit/s.".into();
    first.how_bad = Some("connections dropped: 98.9/s".into());
    let drawn = text::diagnosis(&d, &PLAIN);
    assert!(!drawn.contains("How bad:"), "{drawn}");
    assert!(drawn.contains("390 Mbit/s. (confidence medium)\n"), "{drawn}");
    d.findings[0].how_bad = Some("connections dropped: 99 of 100".into());
    let drawn = text::diagnosis(&d, &PLAIN);
    assert!(drawn.contains("How bad:  connections dropped: 99 of 100; confidence medium"), "{drawn}");
}

#[test]
fn an_improvement_is_only_expected_where_the_rule_states_one() {
    let mut d = fixture("saturated");
    d.findings[0].actions[0].expect = None;
    assert!(!text::diagnosis(&d, &PLAIN).contains("Expected:"));
}

/// A user who pastes the command is informed how long it lasts.
#[test]
fn an_advice_that_whyslow_carries_out_says_how_long_it_lasts() {
    let advice = |text: &str, command: &str| {
        let mut d = fixture("saturated");
        let action = &mut d.findings[0].actions[0];
        (action.text, action.try_command) = (text.into(), Some(command.into()));
        let drawn = text::diagnosis(&d, &PLAIN).replace("\n  ", " ");
        drawn.lines().find_map(|line| line.strip_prefix("Recommended action: ")).unwrap_or_default().to_owned()
    };
    let lower = advice("Lower it; then more", "whyslow tune set process.nice@8,9=10 process.nice@7=10");
    assert!(lower.starts_with("Lower it (until the process ends; undo: whyslow tune undo); then more"), "{lower}");
    let raise = advice("Raise it", "whyslow tune set fs.file-max=10");
    assert!(raise.starts_with("Raise it (until reboot; undo: whyslow tune undo)"), "{raise}");
    let trial = advice("Raise it: it is low", "whyslow try vm.x=1 --metric cpu.busy");
    assert!(trial.starts_with("Raise it (a trial: rolled back unless you add --keep): it is low"), "{trial}");
    assert_eq!(advice("Look", "ss -ltnp"), "Look");
}

/// A reason is more important than a path.
#[test]
fn what_was_not_seen_has_its_whole_reason() {
    use whyslow_documents::diagnosis::{BlindSpot, NOT_CAPTURED, Origin};
    let spot = |what: &str, why: &str| BlindSpot { what: what.into(), why: why.into(), remedy: String::new() };
    let drawn = |spots: Vec<BlindSpot>| {
        let mut d = fixture("undetermined");
        (d.window.source, d.blind_spots) = (Origin::Import, spots);
        text::diagnosis(&d, &PLAIN)
    };
    let merged = drawn(["the CPUs", "memory", "the network"].map(|what| spot(what, NOT_CAPTURED)).into());
    assert!(merged.contains("\n  Not seen: the CPUs, memory, the network: not covered by any capture\n"), "{merged}");
    let why = "the only report is an average over an unknown time, or since boot if it is the tool's first";
    let long = "x".repeat(70);
    let files =
        ["a/b/iostat.txt", &format!("a/b/{long}.txt")].map(|file| spot(&format!("{file}: rates over a time"), why));
    let of_files = drawn(files.into()).replace("\n    ", " ");
    assert!(of_files.contains("  Not seen: rates over a time (iostat.txt,…): the only"), "{of_files}");
    assert!(of_files.contains(&format!(": {why}\n")) && !of_files.contains("a/b"), "{of_files}");
    let many: Vec<BlindSpot> = (0..9).map(|i| spot(&format!("part {i}"), &format!("reason {i}"))).collect();
    let counted = drawn(many);
    assert!(counted.contains("more, add -v)") && counted.lines().count() <= 10, "{counted}");
}

#[test]
fn nobody_is_named_without_the_reason() {
    let mut d = fixture("saturated");
    d.findings[0].culprits.clear();
    d.findings[0].unattributed = Some(Unattributed {
        share: Some(0.97),
        of: "requests in flight".into(),
        why: "cannot read I/O of 9 processes of other users".into(),
        remedy: "run as root".into(),
    });
    let first = text::diagnosis(&d, &PLAIN);
    assert!(first.contains("Who:      not identified: cannot read I/O of 9 processes of other users;"), "{first}");
    let all = text::diagnosis(&d, &TextStyle { all: true, ..PLAIN });
    assert!(all.contains("not attributed: 97 % of requests in flight"), "{all}");
}

#[test]
fn the_command_line_of_a_culprit_is_a_detail() {
    let mut d = fixture("saturated");
    d.findings[0].culprits[0].command_line = Some("fio --name=load".into());
    assert!(!text::diagnosis(&d, &PLAIN).contains("--name=load"));
    assert!(text::diagnosis(&d, &TextStyle { all: true, ..PLAIN }).contains("fio --name=load"));
}

#[test]
fn findings_that_explain_each_other_in_a_circle_are_all_drawn_once() {
    let mut d = fixture("saturated");
    d.findings[0].explained_by = Some(d.findings[2].key());
    d.findings[2].explained_by = Some(d.findings[0].key());
    let drawn = text::diagnosis(&d, &TextStyle { all: true, ..PLAIN });
    for (i, finding) in d.findings.iter().enumerate() {
        // The first is also the answer, at the end, and the second is named beside it.
        assert_eq!(drawn.matches(&finding.summary[..20]).count(), 1 + usize::from(i < 2), "{drawn}");
    }
}

#[test]
fn a_chain_of_any_length_is_drawn() {
    let mut d = fixture("saturated");
    let link = d.findings[0].clone();
    d.findings = (0..20_000)
        .map(|i| {
            let mut finding = link.clone();
            finding.subject.name = format!("sd{i}");
            finding.explained_by = (i > 0).then(|| format!("disk.saturated@sd{}", i - 1));
            finding
        })
        .collect();
    assert!(text::diagnosis(&d, &TextStyle { all: true, ..PLAIN }).contains("sd19999"));
}

#[test]
fn json_reads_back_as_the_same_document() {
    for name in ["saturated", "healthy", "undetermined", "hostile"] {
        let written = json::diagnosis(&fixture(name));
        assert_eq!(serde_json::from_str::<Diagnosis>(&written).unwrap(), fixture(name));
        assert!(!written.contains(|c| c != '\n' && is_deceptive(c)), "{name}");
    }
}

fn without_colour(text: &str) -> String {
    let codes = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[1;31m", "\x1b[1;32m", "\x1b[1;33m"];
    codes.iter().fold(text.to_owned(), |text, code| text.replace(code, ""))
}

/// Replaces every string of the document with a hostile one.
fn with_every_string(d: &Diagnosis, hostile: &str) -> Diagnosis {
    fn replace(value: &mut serde_json::Value, hostile: &str) {
        match value {
            serde_json::Value::String(s) if !WORDS.contains(&&**s) => *s = hostile.into(),
            serde_json::Value::Array(items) => items.iter_mut().for_each(|v| replace(v, hostile)),
            serde_json::Value::Object(fields) => fields.values_mut().for_each(|v| replace(v, hostile)),
            _ => {}
        }
    }
    /// Words of the schema, which are not untrusted.
    const WORDS: [&str; 10] = [
        "live",
        "bottleneck",
        "measured",
        "high",
        "medium",
        "low",
        "tunable",
        "advice",
        "pressure",
        "whyslow.diagnosis/1",
    ];
    let mut value = serde_json::to_value(d).expect("a diagnosis is JSON");
    replace(&mut value, hostile);
    serde_json::from_value(value).expect("only strings were replaced")
}

proptest! {
    #[test]
    fn nothing_hostile_reaches_the_terminal(name in any::<String>(), width in 0_usize..200, all: bool, colour: bool) {
        let style = TextStyle { width, colour, all, utc: true };
        let drawn = text::diagnosis(&with_every_string(&fixture("saturated"), &name), &style);
        let rest = without_colour(&drawn);
        prop_assert!(!rest.contains(|c| c != '\n' && is_deceptive(c)), "{rest:?}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_but_commands(name in "[ -~日\u{1b}\u{202e}]{0,300}", width in 80_usize..160) {
        let mut d = with_every_string(&fixture("saturated"), &name);
        d.findings.iter_mut().for_each(|f| f.actions.clear());
        let drawn = text::diagnosis(&d, &TextStyle { width, ..PLAIN });
        for line in drawn.lines() {
            prop_assert!(line.width() <= width, "{} columns: {line}", line.width());
        }
    }
}
