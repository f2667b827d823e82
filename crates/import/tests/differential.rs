//! A damaged capture never gives a figure that the intact one does not give: what can no longer be read is left out, not
//! misread. Each figure is compared as a reading, before anything is judged. WHYSLOW_FUZZ_CASES says how often each capture is
//! damaged in each way, WHYSLOW_FUZZ_ONLY parts of the names of the captures that are.

mod intact;
#[path = "../../../tests/mail.rs"]
mod mail;

use intact::captures;
use mail::wrapped;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
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
    histograms: Vec<Vec<(u32, u64)>>,
}

impl Readings {
    fn add(&mut self, other: &Self) {
        self.levels.extend(&other.levels);
        self.counts.extend(&other.counts);
        self.rates.extend(&other.rates);
        self.texts.extend(other.texts.iter().cloned());
        self.histograms.extend(other.histograms.iter().cloned());
    }
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
                    Value::Histogram(histogram) => readings.histograms.extend(histogram.buckets().map(<[_]>::to_vec)),
                }
            }
        }
    }
}

fn is_known(value: &Value) -> bool {
    match value {
        Value::Counter(count) => count.get().is_some(),
        Value::Gauge(level) => level.get().is_some(),
        // No words are no statement.
        Value::State(text) => text.get().is_some_and(|text| !text.is_empty()),
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
/// of a mount, collections of a heap.
const SUMS: [&str; 8] = ["profile", "database", "disk", "request", "requester", "nfs", "latency", "heap"];
const SUMMED: [&str; 6] = ["oracle-awr", "biosnoop", "blkparse", "gc-unified", "mountstats", "slower"];

/// What command lines and setups say of a transfer, and names.
const OF_COMMANDS: [&str; 3] = ["options", "what", "object"];

/// What things are called whose own name was cut off.
const NAMELESS: &[&str] = &[
    "a disk",
    "a server",
    "a file",
    "fio: ",
    "Redis",
    "all programs",
    "ethX",
    "drive",
    "a pod",
    "a node",
    "InnoDB",
    "another host",
    "a client",
    "wlan",
    "peer",
    "container: ",
    "btrfs",
    // Of a file system without its mount point, the device.
    "loop0",
    // A serial number.
    "ZC10ABCD",
];

/// Whether a name is one of the intact text of which a part was cut off, or that was joined to what follows.
fn is_variant(found: &str, intact: &str) -> bool {
    is_contained(found, intact) || is_contained(intact, found)
}

/// Whether a text has all characters of another, in the same order; spaces do not matter.
fn is_contained(part: &str, whole: &str) -> bool {
    let mut whole = whole.chars().filter(|c| !c.is_whitespace());
    part.chars().filter(|c| !c.is_whitespace()).all(|wanted| whole.any(|c| c == wanted))
}

/// The readings of a thing; if there is none of that name, those of the things whose name may have been damaged to it.
fn intact_readings(intact: &Figures, figure: &(&'static str, String, &'static str)) -> Option<Readings> {
    let (family, entity, metric) = figure;
    let own = intact.get_key_value(figure).map(|(key, _)| key);
    let is_nameless = NAMELESS.iter().any(|name| entity.contains(name));
    let is_possible = |(of, known, what): &&(&str, String, &str)| {
        of == family && what == metric && (is_nameless || is_variant(entity, known))
    };
    let keys: Vec<_> = match own {
        Some(key) if !is_nameless => vec![key],
        _ => intact.keys().filter(is_possible).collect(),
    };
    let mut readings: Option<Readings> = None;
    keys.into_iter().for_each(|key| readings.get_or_insert_default().add(&intact[key]));
    readings
}

/// Metrics that are sums or the largest over several lines: of a text that lost one of them, they are lower.
const OVER_LINES: &[&str] = &[
    "drive.io_errors",
    "drive.checksum_errors",
    "database.",
    "ipc.",
    "process.read_bytes",
    "process.write_bytes",
    "vmstat.allocstall",
    "interface.rx_f",
    "nfs.",
    "packet_drop.",
    "process.run_delay",
    "process.voluntary_switches",
    "process.involuntary_switches",
];

/// The figures that an intact text does not give, by the kind of damage. A line that is lost shows nowhere that it was there.
fn wrong(name: &str, found: &Figures, intact: &Figures, kind: &str) -> Vec<String> {
    let is_lost = kind == "lost";
    let are_sums = |family: &str| family == SUMS[0] || SUMMED.iter().any(|trace| name.contains(trace));
    let mut wrong = Vec::new();
    for (figure, readings) in found.iter().filter(|((family, ..), _)| !(SUMS.contains(family) && are_sums(family))) {
        let (family, entity, metric) = figure;
        let name = format!("{entity:?} {family}.{metric}");
        let Some(own) = intact_readings(intact, figure) else {
            wrong.push(format!("{name} is new"));
            continue;
        };
        let short = format!("{family}.{metric}");
        let may_be_lower = is_lost && OVER_LINES.iter().any(|sum| short.starts_with(sum));
        let is_below = |value: f64, all: &[f64]| may_be_lower && all.iter().any(|own| value <= *own);
        for level in readings.levels.iter().filter(|level| !own.levels.iter().any(|own| is_near(*own, **level, 0.0))) {
            if !is_below(*level, &own.levels) {
                wrong.push(format!("{name} {level}, not {:?}", own.levels));
            }
        }
        let are_counts =
            readings.counts.iter().all(|count| own.counts.contains(count) || is_below(*count, &own.counts));
        // A count that falls begins again.
        for (rate, seconds) in readings.rates.iter().filter(|(rate, _)| !are_counts && *rate >= 0.0) {
            let is_own = own.rates.iter().any(|(own, step)| is_near(*own, *rate, 1.0 / seconds + 1.0 / step));
            // Many tools leave out what was idle in an interval.
            let is_idle = is_lost && *rate == 0.0;
            let is_lower = may_be_lower && own.rates.iter().any(|(own, _)| rate <= own);
            if !is_own && !is_idle && !is_lower {
                wrong.push(format!("{name} grows by {rate}, not {:?}", own.rates));
            }
        }
        if readings.rates.is_empty() && !are_counts {
            wrong.push(format!("{name} counts {:?}, not {:?}", readings.counts, own.counts));
        }
        let is_text = |text: &str| {
            own.texts
                .iter()
                .any(|own| is_contained(text, own) || without_spaces(text).starts_with(&without_spaces(own)))
        };
        // A program is named by the first word of its command line, whichever is left of it.
        let is_command = *metric == "command" && ["without a word", "run together"].contains(&kind);
        for text in readings.texts.iter().filter(|text| !is_text(text) && !is_command) {
            wrong.push(format!("{name} {text:?}, not {:?}", own.texts));
        }
        for histogram in &readings.histograms {
            let is_part = |own: &Vec<(u32, u64)>| {
                let is_in = |(bucket, count): &(u32, u64)| own.iter().any(|(b, most)| b == bucket && count <= most);
                is_lost && histogram.iter().all(is_in)
            };
            if !own.histograms.iter().any(|own| own == histogram || is_part(own)) {
                wrong.push(format!("{name} {histogram:?}, not {:?}", own.histograms));
            }
        }
    }
    wrong
}

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
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

/// Captures and the damage in which nothing shows it: the text says something else. What follows is read as belonging to the
/// title above the one that was lost. A statement that was cut no longer shows that its session is the one that looks.
const NOT_SHOWN: &[(&str, &str)] = &[
    ("lost", "lsusb-t"),
    ("lost", "pidstat-t"),
    ("cut off behind a word", "psql-activity"),
    ("cut off within a word", "psql-activity"),
    ("cut off within a word", "lsusb-t"),
    // The command line says it.
    ("cut off within a word", "dd-modes"),
    // What is zero is left out.
    ("without a word", "ss-tinmp"),
];

/// The captures in which no figure may be another.
fn compared() -> impl Iterator<Item = (String, String)> {
    if let Ok(only) = std::env::var("WHYSLOW_FUZZ_ONLY") {
        let is_asked_for = move |name: &str| only.split(',').any(|part| name.contains(part));
        return captures().into_iter().filter(move |(name, _)| is_asked_for(name)).collect::<Vec<_>>().into_iter();
    }
    let is_left_out = |name: &str| DERIVED.iter().any(|part| name.contains(part));
    captures().into_iter().filter(|(name, _)| !is_left_out(name)).collect::<Vec<_>>().into_iter()
}

fn cases() -> usize {
    std::env::var("WHYSLOW_FUZZ_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES)
}

/// How often each capture is damaged in each way.
const CASES: usize = 3;

/// Random numbers that depend on nothing but a name.
fn runner(name: &str) -> TestRunner {
    let mut seed = [0; 32];
    for (at, bytes) in seed.chunks_mut(8).enumerate() {
        let mut hasher = DefaultHasher::new();
        (name, at).hash(&mut hasher);
        bytes.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}

/// Damages each capture in one way, at places that are the same in every run.
fn damaged(kind: &str) {
    let (_, damage) = DAMAGES.iter().find(|(name, _)| *name == kind).expect("a kind of damage");
    let mut all = Vec::new();
    let is_shown = |name: &str| !NOT_SHOWN.iter().any(|(damage, part)| *damage == kind && name.contains(part));
    for (name, text) in compared().filter(|(name, _)| is_shown(name)) {
        let mut runner = runner(&format!("{name} {kind}"));
        let intact: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut expected = figures(&text);
        let mut with_beginnings = false;
        for _ in 0..cases() {
            let (line, place) =
                (any::<prop::sample::Index>(), any::<prop::sample::Index>()).new_tree(&mut runner).unwrap().current();
            let line = line.index(intact.len());
            let mut lines = intact.clone();
            damage(&mut lines, line, place.index(1 << 16));
            let found = figures(&lines.join("\n"));
            // Of a line that was cut to nothing nothing is left.
            let is_nothing = lines.get(line).is_some_and(|text| text.trim().is_empty());
            let kind = if is_nothing { "lost" } else { kind };
            let mut new = wrong(&name, &found, &expected, kind);
            if !new.is_empty() && !with_beginnings {
                with_beginnings = true;
                add_beginnings(&mut expected, &intact);
                new = wrong(&name, &found, &expected, kind);
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
    const MOST: usize = 200;
    for end in (1..lines.len()).take(MOST) {
        for (figure, readings) in self::figures(&lines[..end].join("\n")) {
            figures.entry(figure).or_default().add(&readings);
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
        let mut with_beginnings = false;
        for width in WIDTHS {
            for (way, mail) in mailed(&text, width) {
                let found = figures(&mail);
                let mut new = wrong(&name, &found, &expected, way);
                if !new.is_empty() && !with_beginnings {
                    with_beginnings = true;
                    add_beginnings(&mut expected, &lines);
                    new = wrong(&name, &found, &expected, way);
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
