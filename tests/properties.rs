//! Checks properties of every diagnosis of captures, whatever they show: on all fixtures, all written captures, and
//! damaged ones. `WHYSLOW_PROPERTIES=N` damages each of them N times, `A..B` in the ways from A to B; by default, the test takes about a
//! minute.

mod captured;

use captured::{FIXTURES, captures_of};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use whyslow_diagnose::{RuleBook, diagnose, merge_diagnoses, virtual_machines};
use whyslow_documents::diagnosis::{Diagnosis, Evidence, Finding, Origin, Reading};
use whyslow_import::Capture;

static RULES: LazyLock<RuleBook> = LazyLock::new(RuleBook::built_in);
/// Rounding of the values that tools print.
const ROUNDING: f64 = 0.01;
/// Maximum excess of a share over 1: the kernel samples at ticks, the scheduler measures, and counters are not read at
/// one instant.
const SLACK: f64 = 0.1;
/// Differences, which can be negative.
const DIFFERENCES: [&str; 1] = ["disk.service_excess"];

/// Returns all captures of this repository with their file names.
fn texts() -> Vec<(String, String)> {
    let written = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/written");
    let files = [Path::new(FIXTURES), &written].into_iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let mut texts: Vec<(String, String)> = files
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .filter_map(|path| Some((path.file_name()?.to_string_lossy().into_owned(), fs::read_to_string(&path).ok()?)))
        .collect();
    texts.sort();
    assert!(texts.len() > 300, "only {} captures", texts.len());
    texts
}

/// Checks each text, in two threads; returns the complaints.
fn wrong<T: Sync>(all: &[T], check: impl Fn(&T) -> Vec<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut wrong = Vec::new();
        while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            wrong.extend(check(one));
        }
        wrong
    };
    std::thread::scope(|scope| {
        let running = [scope.spawn(run), scope.spawn(run)];
        running.into_iter().flat_map(|one| one.join().expect("no panic")).collect()
    })
}

/// Reads texts; `None` if they are refused, which damaged ones may be.
///
/// # Panics
/// Panics if the reading has reached a limit: it would make every property hold.
fn read(inputs: &[(&str, &str)]) -> Option<Vec<Capture>> {
    let read = captures_of(inputs.iter().copied(), false);
    if let Err(refusal) = &read {
        assert!(!refusal.to_string().contains("of CPU time"), "{refusal}");
    }
    read.ok()
}

fn diagnosed(captures: &[Capture]) -> Option<Diagnosis> {
    let of = |c: &Capture| (c.label(), diagnose(&c.window, Origin::Import, &RULES));
    let windows: Vec<_> = captures.iter().map(|c| (c.label(), &c.window)).collect();
    merge_diagnoses(captures.iter().map(of).collect(), virtual_machines(&windows), &RULES)
}

fn numbers(d: &Diagnosis) -> impl Iterator<Item = (&str, &Evidence, f64)> {
    let of_findings = d.findings.iter().flat_map(|f| f.evidence.iter().map(|e| (&*f.subject.name, e)));
    let of_figures = d.figures.iter().flat_map(|f| f.values.iter().map(|e| (&*f.subject.name, e)));
    of_findings.chain(of_figures).filter_map(|(subject, evidence)| match evidence.value {
        Reading::Number(number) => Some((subject, evidence, number)),
        Reading::Text(_) => None,
    })
}

/// Returns the impossible values in a diagnosis: shares above the whole, negative amounts, and values that are not
/// numbers.
fn impossible(d: &Diagnosis) -> Vec<String> {
    let mut found = Vec::new();
    let is_share = |share: f64| (0.0..=1.0 + ROUNDING).contains(&share);
    for finding in &d.findings {
        let Finding { impact, during, culprits, .. } = finding;
        if !is_share(*impact) {
            found.push(format!("impact {impact} of {}", finding.key()));
        }
        found.extend(
            culprits.iter().filter(|c| !is_share(c.share)).map(|c| format!("{} with {} of {}", c.name, c.share, c.of)),
        );
        if let Some(during) = during.as_ref().filter(|during| !is_share(during.share)) {
            found.push(format!("{} for {} of the time", finding.key(), during.share));
        }
    }
    for (subject, evidence, number) in numbers(d) {
        let is_impossible = match evidence.unit.as_str() {
            _ if DIFFERENCES.contains(&&*evidence.metric) => false,
            "ratio" if whyslow_diagnose::is_share(&evidence.metric) => number > 1.0 + SLACK,
            "ratio" => false,
            "bytes" | "bytes/s" | "1/s" | "bit/s" | "s" => number < 0.0,
            _ => false,
        };
        if is_impossible || !number.is_finite() {
            found.push(format!("{} = {number} {} of {subject}", evidence.metric, evidence.unit));
        }
    }
    found
}

/// Returns the text with a few lines lost, doubled, cut or swapped.
fn damaged(text: &str, seed: u64) -> String {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..random.random_range(1..4) {
        if lines.len() < 2 {
            break;
        }
        let at = random.random_range(0..lines.len());
        match random.random_range(0..4) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => {
                let end = random.random_range(0..=lines[at].len());
                let end = (0..=end).rev().find(|end| lines[at].is_char_boundary(*end)).unwrap_or(0);
                lines[at].truncate(end);
            }
            _ => {
                let other = random.random_range(0..lines.len());
                lines.swap(at, other);
            }
        }
    }
    lines.join("\n")
}

/// Returns every text with its name, and each of them damaged as often as WHYSLOW_PROPERTIES says: `20`, or the rounds `20..40`,
/// which damage them in other ways than the first twenty.
fn cases() -> Vec<(String, String)> {
    let rounds = std::env::var("WHYSLOW_PROPERTIES").unwrap_or_else(|_| "1".to_owned());
    let (from, to) = rounds.split_once("..").unwrap_or(("0", &rounds));
    let number = |text: &str| text.parse::<u64>().expect("WHYSLOW_PROPERTIES is a number, or two with .. between them");
    let rounds = number(from)..number(to);
    let with_damaged = |(name, text): (String, String)| {
        let damaged: Vec<_> =
            rounds.clone().map(|seed| (format!("{name} damaged {seed}"), damaged(&text, seed))).collect();
        std::iter::once((name, text)).chain(damaged)
    };
    texts().into_iter().flat_map(with_damaged).collect()
}

#[test]
fn no_share_is_beyond_its_whole_and_no_amount_below_nothing() {
    let wrong = wrong(&cases(), |(name, text)| {
        let diagnosis = read(&[(name, text)]).and_then(|captures| diagnosed(&captures));
        let found = diagnosis.map(|d| impossible(&d)).unwrap_or_default();
        found.into_iter().map(|what| format!("{name}: {what}")).collect()
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_cleared_is_cleared_in_each_half() {
    let wrong = wrong(&cases(), |(name, text)| {
        let mut wrong = Vec::new();
        for capture in read(&[(name, text)]).unwrap_or_default() {
            let count = capture.window.snapshots().len();
            if count < 5 {
                continue;
            }
            let whole = diagnose(&capture.window, Origin::Import, &RULES);
            for (from, to) in [(0, count / 2), (count / 2, count - 1)] {
                let half = diagnose(&capture.window.part(from, to), Origin::Import, &RULES);
                for finding in half.findings.iter().filter(|finding| finding.is_felt()) {
                    let resource = match finding.id.split('.').next().unwrap_or_default() {
                        "mem" => "memory",
                        "net" => "network",
                        "fs" => "disk",
                        other => other,
                    };
                    let is_cleared = whole.ruled_out.iter().any(|entry| entry.id == resource);
                    if is_cleared && !whole.not_cleared.iter().any(|entry| entry.id == resource) {
                        wrong.push(format!("{name}: {} in {from}..{to}, {resource} cleared in all", finding.key()));
                    }
                }
            }
        }
        wrong
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn another_capture_removes_no_finding() {
    const MORE: &str = "$ uname -r\n6.1.0-18-amd64\n$ uptime\n 10:41:07 up 20 days,  4:11,  2 users,  load average: 0.02, 0.04, 0.11\n";
    let wrong = wrong(&cases(), |(name, text)| {
        let keys = |d: &Diagnosis| -> BTreeSet<String> {
            d.findings.iter().filter(|f| f.is_felt()).map(|f| format!("{}@{}", f.id, f.subject.name)).collect()
        };
        let Some(alone) = read(&[(name, text)]).and_then(|captures| diagnosed(&captures)) else { return Vec::new() };
        let Some(both) = read(&[(name, text), ("more.txt", MORE)]).and_then(|captures| diagnosed(&captures)) else {
            return vec![format!("{name}: refused beside another capture")];
        };
        let said = |key: &&String| !both.ruled_out.iter().any(|entry| entry.id == **key);
        keys(&alone).difference(&keys(&both)).filter(said).map(|key| format!("{name}: {key}")).collect()
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn subjects_are_those_of_the_input() {
    let wrong = wrong(&cases(), |(name, text)| {
        let Some(d) = read(&[(name, text)]).and_then(|captures| diagnosed(&captures)) else { return Vec::new() };
        // The input may contain the number of a device instead of its name (253:4, dev8-144, 08:03, 254,0).
        let is_numbered = |name: &str| {
            let number = |word: &str| {
                word.trim_start_matches("dev").split(['-', ':']).filter(|n| n.parse::<u32>().is_ok()).count() == 2
            };
            let comma = name.strip_prefix("dev").map(|numbers| numbers.replacen('-', ",", 1));
            comma.is_some_and(|numbers| text.contains(&numbers))
                || ["dm-", "sd"].iter().any(|kind| name.starts_with(kind))
                    && text.split([' ', '\t', '\n', '(', ')', ',']).any(number)
        };
        let is_named = |name: &str| {
            // Some names combine several words of the input ('TCP 10.0.0.1:80', 'a, b') with words of whyslow.
            let words = name.split([' ', ',', ':', '/', '@', '(', ')']).filter(|word| !word.is_empty());
            // ethX stands for the card of an output of ethtool whose command line, which names it, is lost; fio for a job
            // whose heading is lost.
            let is_ours =
                |word: &str| ["line", "all", "programs", "guest", "write", "read", "ethX", "fio"].contains(&word);
            let is_remainder = [
                "the kernel and what is unaccounted for",
                "memory that the log does not show",
                "tmpfs and shared memory",
            ]
            .contains(&name);
            words.clone().all(|word| is_ours(word) || word.parse::<u32>().is_ok() || text.contains(word))
                || is_numbered(name)
                || is_remainder
        };
        let subjects = d.findings.iter().filter(|f| ["device", "interface", "process"].contains(&&*f.subject.kind));
        let culprits = d.findings.iter().flat_map(|f| &f.culprits).map(|culprit| &culprit.name);
        let names: BTreeSet<&String> = subjects.map(|f| &f.subject.name).chain(culprits).collect();
        names.into_iter().filter(|name| !is_named(name)).map(|subject| format!("{name}: {subject}")).collect()
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the numbers in a text, including those with a unit: 3.1 GiB, 42k, 17 %.
fn numbers_of(text: &str) -> Vec<f64> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let mut found = Vec::new();
    for (at, _) in text.char_indices().filter(|(at, c)| is_part(*c) && !text[..*at].ends_with(is_part)) {
        let end = text[at..].find(|c| !is_part(c)).map_or(text.len(), |length| at + length);
        found.extend(text[at..end].trim_matches('.').parse::<f64>());
    }
    found
}

/// Returns true if the input contains a number in one of the units that tools print.
fn is_printed(number: f64, printed: &[f64]) -> bool {
    const UNITS: [f64; 15] = [
        1.0,
        100.0,
        1e3,
        1e6,
        1e9,
        1024.0,
        1048576.0,
        1073741824.0,
        1099511627776.0,
        512.0,
        4096.0,
        8.0,
        8e3,
        8e6,
        60.0,
    ];
    let is_it = |scaled: f64| printed.iter().any(|p| (p - scaled).abs() <= ROUNDING * scaled.abs().max(1e-9));
    number == 0.0 || UNITS.iter().any(|unit| is_it(number * unit) || is_it(number / unit))
}

/// Returns true if a formula computes a number from others, or counts: its result need not be in the input.
fn is_computed(how: &str) -> bool {
    const OPERATIONS: [&str; 16] = [
        "Δ",
        "Σ",
        " + ",
        " - ",
        " x ",
        " / ",
        " mod ",
        "(",
        ";",
        "sum",
        "median",
        "mean",
        "number of",
        "since",
        "percentile",
        "bucket",
    ];
    OPERATIONS.iter().any(|operation| how.contains(operation))
}

#[test]
fn what_no_formula_computes_is_printed_in_the_input() {
    let checked = AtomicUsize::new(0);
    let wrong = wrong(&cases(), |(name, text)| {
        let captures = read(&[(name, text)]).unwrap_or_default();
        let [capture] = &captures[..] else { return Vec::new() };
        // With several intervals, the diagnosis shows means.
        if capture.window.snapshots().len() > 2 {
            return Vec::new();
        }
        let d = diagnose(&capture.window, Origin::Import, &RULES);
        let printed = numbers_of(text);
        let plain: Vec<_> = numbers(&d).filter(|(_, evidence, _)| !is_computed(&evidence.how)).collect();
        checked.fetch_add(plain.len(), Ordering::Relaxed);
        let unknown = plain.iter().filter(|(_, _, number)| !is_printed(*number, &printed));
        unknown.map(|(of, e, number)| format!("{name}: {} {number} {} of {of}: {}", e.metric, e.unit, e.how)).collect()
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
    let checked = checked.into_inner();
    assert!(checked > 300, "only {checked} numbers were checked");
}

#[test]
#[ignore = "prints the text of WHYSLOW_CASE, with WHYSLOW_SEED"]
fn show() {
    let name = std::env::var("WHYSLOW_CASE").unwrap();
    let seed = std::env::var("WHYSLOW_SEED").unwrap().parse().unwrap();
    let (_, text) = texts().into_iter().find(|(own, _)| *own == name).unwrap();
    println!("{}", damaged(&text, seed));
}
