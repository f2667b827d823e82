//! A damaged capture never gives a figure that the intact one does not give: what can no longer be read is left out, not
//! misread. Each figure is compared as a reading, before anything is judged. WHYSLOW_FUZZ_CASES says how often each capture is
//! damaged in each way; without it only the ways through mail programs are tried.

mod intact;
#[path = "../../../tests/mail.rs"]
mod mail;

use intact::captures;
use mail::wrapped;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_import::{Input, read};
use whyslow_model::catalogue::{EachFamily, Family};
use whyslow_model::value::Value;

/// What a text says about one metric of one thing.
#[derive(Default)]
struct Readings {
    levels: Vec<f64>,
    /// Of counters: the counts themselves, and their growth per second with the seconds.
    counts: Vec<f64>,
    rates: Vec<(f64, f64)>,
    texts: BTreeSet<String>,
}

/// By family, entity and metric.
type Figures = BTreeMap<(&'static str, String, &'static str), Readings>;

/// The figures of a text; none if it is refused.
fn figures(text: &str) -> Figures {
    let input = Input { name: "x".into(), reader: Box::new(text.as_bytes()) };
    let mut figures = Figures::new();
    for capture in read(vec![input], false).unwrap_or_default() {
        let mut collect = Collect { at: 0, counts: BTreeMap::new(), figures: &mut figures };
        for snapshot in capture.window.snapshots() {
            collect.at = snapshot.boot_ns;
            snapshot.clone().each_family(&mut collect);
        }
    }
    figures
}

/// Collects the figures of one capture.
struct Collect<'f> {
    at: u64,
    /// The last time and count of each counter.
    counts: BTreeMap<(&'static str, String, &'static str), (u64, u64)>,
    figures: &'f mut Figures,
}

impl EachFamily for Collect<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        // What was left out is no figure.
        if F::INFO.name == "source" || LOGS.contains(&F::INFO.name) {
            return;
        }
        for row in rows {
            let entity = unplaced(row.key().to_string());
            let metrics = F::INFO.metrics.iter().enumerate();
            for (column, metric) in metrics.filter(|(_, metric)| !OF_COMMANDS.contains(&metric.name)) {
                let figure = (F::INFO.name, entity.clone(), metric.name);
                let Some(value) = row.value(column).filter(is_known) else { continue };
                let readings = self.figures.entry(figure.clone()).or_default();
                match value {
                    Value::Counter(count) => {
                        let count = count.get().unwrap_or_default();
                        readings.counts.push(count as f64);
                        if let Some((at, before)) = self.counts.insert(figure, (self.at, count)) {
                            let seconds = (self.at - at) as f64 / 1e9;
                            readings.rates.push(((count as f64 - before as f64) / seconds, seconds));
                        }
                    }
                    Value::Gauge(level) => readings.levels.extend(level.get()),
                    Value::State(text) => readings.texts.extend(text.get().map(str::to_owned)),
                    Value::Histogram(histogram) => drop(readings.texts.insert(format!("{histogram:?}"))),
                }
            }
        }
    }
}

fn is_known(value: &Value) -> bool {
    match value {
        Value::Counter(count) => count.get().is_some(),
        Value::Gauge(level) => level.get().is_some(),
        Value::State(text) => text.get().is_some(),
        Value::Histogram(_) => true,
    }
}

/// The key of an entity without the line it stands on.
fn unplaced(key: String) -> String {
    let placed = key.rsplit_once(", line ").or_else(|| key.rsplit_once("/?"));
    placed.map_or(key.clone(), |(name, _)| name.to_owned())
}

/// The lines of a log are text, of which a part is kept. How wrapped ones are joined is tested in tests/pasted.rs.
const LOGS: [&str; 2] = ["log", "log_read"];

/// Sums over lines, which are lower where a line was lost: shares of a profile and of events, requests of a trace, operations
/// of a mount.
const SUMS: [&str; 6] = ["profile", "database", "disk", "request", "requester", "nfs"];
const SUMMED: [&str; 4] = ["oracle-awr", "biosnoop", "blkparse", "mountstats"];

/// What command lines and setups say of a transfer.
const OF_COMMANDS: [&str; 2] = ["options", "what"];

/// The names of things whose own name was cut off.
const NAMELESS: [&str; 5] = ["a disk", "a server", "fio: ", "Redis", "all programs"];

/// The figures that an intact text does not give.
fn wrong(name: &str, found: &Figures, intact: &Figures) -> Vec<String> {
    let are_sums = |family: &str| family == SUMS[0] || SUMMED.iter().any(|trace| name.contains(trace));
    let mut wrong = Vec::new();
    for ((family, entity, metric), readings) in
        found.iter().filter(|((family, ..), _)| !(SUMS.contains(family) && are_sums(family)))
    {
        let name = format!("{entity:?} {family}.{metric}");
        let Some(own) = intact.get(&(family, entity.clone(), metric)) else {
            // A name at the end of a line goes on with the next one, if the two were joined.
            let goes_on =
                |(other, known, _): &(&str, String, &str)| other == family && entity.starts_with(known.as_str());
            if NAMELESS.iter().any(|name| entity.contains(name)) || intact.keys().any(goes_on) {
                continue;
            }
            wrong.push(format!("{name} is new"));
            continue;
        };
        for level in readings.levels.iter().filter(|level| !own.levels.iter().any(|own| is_near(*own, **level, 0.0))) {
            wrong.push(format!("{name} {level}, not {:?}", own.levels));
        }
        let are_counts = readings.counts.iter().all(|count| own.counts.contains(count));
        // A count that falls begins again.
        for (rate, seconds) in readings.rates.iter().filter(|(rate, _)| !are_counts && *rate >= 0.0) {
            if !own.rates.iter().any(|(own, step)| is_near(*own, *rate, 1.0 / seconds + 1.0 / step)) {
                wrong.push(format!("{name} grows by {rate}, not {:?}", own.rates));
            }
        }
        if readings.rates.is_empty() && !are_counts {
            wrong.push(format!("{name} counts {:?}, not {:?}", readings.counts, own.counts));
        }
        for text in &readings.texts {
            if !own.texts.iter().any(|own| text.starts_with(own.as_str())) {
                wrong.push(format!("{name} {text:?}, not {:?}", own.texts));
            }
        }
    }
    wrong
}

/// A figure that is printed in two units differs by its last digit.
const ROUNDING: f64 = 2e-3;

fn is_near(a: f64, b: f64, rounding: f64) -> bool {
    (a - b).abs() <= rounding + ROUNDING * a.abs().max(b.abs())
}

/// Damages a line of a text, at one of its gaps between words.
type Damage = (&'static str, fn(&mut Vec<String>, usize, usize));

/// Where the words of a line end, but for the last.
fn gaps(line: &str) -> Vec<usize> {
    let ends = line.char_indices().zip(line.chars().skip(1)).filter(|((_, a), b)| *a != ' ' && *b == ' ');
    ends.map(|((at, c), _)| at + c.len_utf8()).filter(|at| !line[*at..].trim().is_empty()).collect()
}

fn change(lines: &mut [String], at: usize, place: usize, change: impl Fn(&str, &str) -> String) {
    let places = gaps(&lines[at]);
    if let Some(gap) = places.get(place % places.len().max(1)) {
        let (before, after) = lines[at].split_at(*gap);
        lines[at] = change(before, after);
    }
}

const DAMAGES: &[Damage] = &[
    ("shifted", |lines, at, place| change(lines, at, place, |a, b| format!("{a}      {b}"))),
    ("moved to a tab stop", |lines, at, place| change(lines, at, place, |a, b| format!("{a}\t{}", b.trim_start()))),
    ("closed up", |lines, at, place| change(lines, at, place, |a, b| format!("{a} {}", b.trim_start()))),
    ("run together", |lines, at, place| change(lines, at, place, |a, b| format!("{a}{}", b.trim_start()))),
    ("without a word", |lines, at, place| {
        change(lines, at, place, |a, b| {
            let (kept, _) = a.rsplit_once(' ').unwrap_or_default();
            format!("{kept} {b}")
        });
    }),
    ("cut off behind a word", |lines, at, place| change(lines, at, place, |a, _| a.to_owned())),
    ("cut off within a word", |lines, at, place| {
        change(lines, at, place, |a, _| {
            let mut cut = a.to_owned();
            cut.pop();
            cut
        });
    }),
    ("joined with the next", |lines, at, _| {
        if at + 1 < lines.len() {
            let next = lines.remove(at + 1);
            lines[at] = format!("{} {next}", lines[at]);
        }
    }),
    ("joined without a space", |lines, at, _| {
        if at + 1 < lines.len() {
            let next = lines.remove(at + 1);
            lines[at].push_str(&next);
        }
    }),
    ("lost", |lines, at, _| drop(lines.remove(at))),
    ("broken", |lines, at, place| {
        let places = gaps(&lines[at]);
        if let Some(gap) = places.get(place % places.len().max(1)) {
            let rest = lines[at].split_off(*gap);
            lines.insert(at + 1, rest.trim_start().to_owned());
        }
    }),
];

/// Captures whose figures depend on what was damaged by right: a command line, the events of a trace, the buckets of a
/// histogram, a stack.
const DERIVED: [&str; 9] = [
    "san-dd",
    "net-free-m",
    "fio-groups",
    "time-bash",
    "ftrace",
    "offcputime",
    "biolatency-D",
    "runqslower",
    "mpstat-P-ALL.json",
];

/// Not solved: titles of which a part is missing, rows of which a field is missing where nothing shows how many there are, and
/// what these formats read of wrapped lines.
const UNSOLVED: [&str; 14] = [
    "btrfs-filesystem",
    "atop-P-ALL",
    "iperf3-",
    "dropwatch",
    "lsusb-t",
    "multipath-ll",
    "zpool-status",
    "proc-buddyinfo",
    "proc-softnet_stat",
    "proc-diskstats",
    "pidstat-t",
    "hdparm-tT",
    "ss-tinmp",
    "ps-L-o",
];

/// The captures in which no figure may be another.
fn compared() -> impl Iterator<Item = (String, String)> {
    let is_left_out = |name: &str| DERIVED.iter().chain(&UNSOLVED).any(|part| name.contains(part));
    captures().into_iter().filter(move |(name, _)| !is_left_out(name))
}

fn cases() -> usize {
    std::env::var("WHYSLOW_FUZZ_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Damages each capture in one way, at places that are the same in every run.
fn damaged(kind: &str) {
    let (_, damage) = DAMAGES.iter().find(|(name, _)| *name == kind).expect("a kind of damage");
    let mut all = Vec::new();
    for (name, text) in compared() {
        // Places depend on nothing but the text.
        let mut runner = TestRunner::deterministic();
        let intact: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut expected = figures(&text);
        for _ in 0..cases() {
            let (line, place) =
                (any::<prop::sample::Index>(), any::<prop::sample::Index>()).new_tree(&mut runner).unwrap().current();
            let line = line.index(intact.len());
            let mut lines = intact.clone();
            damage(&mut lines, line, place.index(1 << 16));
            let found = figures(&lines.join("\n"));
            let mut new = wrong(&name, &found, &expected);
            if !new.is_empty() {
                add_beginnings(&mut expected, &intact);
                new = wrong(&name, &found, &expected);
            }
            if !new.is_empty() {
                let damaged = lines.get(line).map_or("", String::as_str);
                new.truncate(2);
                all.push(format!("{name}:{} {kind}: {}\n    {damaged}", line + 1, new.join("; ")));
            }
        }
    }
    assert!(all.is_empty(), "{} give other figures:\n{}", all.len(), all.join("\n"));
}

/// Adds the figures of every beginning of a text: a report that is left alone is evidence of its own.
fn add_beginnings(figures: &mut Figures, lines: &[String]) {
    const MOST: usize = 60;
    for end in (1..lines.len()).take(MOST) {
        for (figure, readings) in self::figures(&lines[..end].join("\n")) {
            let own = figures.entry(figure).or_default();
            own.levels.extend(readings.levels);
            own.counts.extend(readings.counts);
            own.rates.extend(readings.rates);
            own.texts.extend(readings.texts);
        }
    }
}

macro_rules! damages {
    ($($test:ident $kind:literal)*) => { $(
        #[test]
        fn $test() {
            damaged($kind);
        }
    )* };
}

damages! {
    a_column_that_was_shifted "shifted"
    a_column_at_a_tab_stop "moved to a tab stop"
    columns_that_were_closed_up "closed up"
    columns_that_ran_together "run together"
    a_row_without_a_word "without a word"
    a_line_cut_off_behind_a_word "cut off behind a word"
    a_line_cut_off_within_a_word "cut off within a word"
    a_line_joined_with_the_next "joined with the next"
    a_line_joined_without_a_space "joined without a space"
    a_line_that_was_lost "lost"
    a_line_that_was_broken "broken"
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}\n")).collect()
}

/// The ways of a text through mail programs.
fn mailed(text: &str, width: usize) -> [(&'static str, String); 4] {
    [
        ("wrapped", wrapped(text, width)),
        ("wrapped, then quoted", quoted(&wrapped(text, width))),
        ("quoted, then wrapped", wrapped(&quoted(text), width)),
        ("quoted and wrapped twice", wrapped(&quoted(&wrapped(&quoted(text), width)), width)),
    ]
}

#[test]
#[ignore = "shows the figures of the file WHYSLOW_SHOW"]
fn show() {
    for (figure, readings) in figures(&std::fs::read_to_string(std::env::var("WHYSLOW_SHOW").unwrap()).unwrap()) {
        println!("{figure:?} {:?} {:?} {:?} {:?}", readings.levels, readings.counts, readings.rates, readings.texts);
    }
}

#[test]
fn a_text_that_mail_programs_wrapped() {
    const WIDTHS: [usize; 7] = [60, 64, 66, 72, 76, 78, 80];
    let mut all = Vec::new();
    let (mut same, mut fewer) = (0, 0);
    for (name, text) in compared() {
        let mut expected = figures(&text);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for width in WIDTHS {
            for (way, mail) in mailed(&text, width) {
                let found = figures(&mail);
                let mut new = wrong(&name, &found, &expected);
                if !new.is_empty() {
                    add_beginnings(&mut expected, &lines);
                    new = wrong(&name, &found, &expected);
                }
                if new.is_empty() {
                    let lost = expected.keys().any(|figure| !found.contains_key(figure));
                    *(if lost { &mut fewer } else { &mut same }) += 1;
                    if lost && std::env::var_os("WHYSLOW_FUZZ_LOST").is_some() {
                        println!("{name} {way} at {width}");
                    }
                } else {
                    new.truncate(2);
                    all.push(format!("{name} {way} at {width}: {}", new.join("; ")));
                }
            }
        }
    }
    println!("{same} give the same figures, {fewer} fewer");
    assert!(all.is_empty(), "{} give other figures:\n{}", all.len(), all.join("\n"));
}
