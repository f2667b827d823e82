//! Summaries of captures: the results of one run of a tool, for comparison with another run.

use crate::experiment::BLOCK;
use crate::summary::Summary;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_documents::baseline::{Baseline, BaselineKind, BaselineSeries, Better, Experiment, Inventory};
use whyslow_documents::diagnosis::{Evidence, Reading, Subject, SubjectFigures};
use whyslow_documents::listing::Signal;
use whyslow_model::human;
use whyslow_model::settings::{TITLE, UNSTATED, changes, in_text, tell_a_change};

/// Share of a CPU from which the CPU is the limit.
const CPU_BOUND: f64 = 0.95;
/// Share by which the ends of one run differ: they do not begin and end at the same instant.
const NOISE: f64 = 0.05;
/// Signal with the ends of a connection.
const ENDS: &str = "timed.ends";
/// Suffix of the name of a measurement that a CPU limited.
pub(crate) const BY_CPU: &str = ", limited by a CPU";

/// Summarizes a capture. `inventory` has its settings, `intervals` the known signals of each interval between its
/// reports, with its length in seconds; `whole` has those of the whole capture, which include results that belong to no
/// interval. Those of the `signals` are kept that baselines keep.
pub fn of_capture<'s>(
    signals: impl IntoIterator<Item = &'s Signal> + Clone,
    inventory: Inventory,
    intervals: &[(f64, Vec<SubjectFigures>)],
    whole: &[SubjectFigures],
) -> Baseline {
    let summed_up = |intervals: &[(f64, &[SubjectFigures])]| {
        let mut summary = Summary::from_signals(signals.clone());
        intervals.iter().for_each(|(seconds, figures)| summary.add(*seconds, figures));
        (summary.seconds(), summary.finish())
    };
    let intervals: Vec<(f64, &[SubjectFigures])> = intervals.iter().map(|(s, figures)| (*s, &**figures)).collect();
    let (seconds, mut series) = summed_up(&intervals);
    // Two tools that report at different times have no interval in common.
    let (_, all) = summed_up(&[(seconds, whole)]);
    for one in all {
        if !series.iter().any(|known| (&known.metric, &known.subject) == (&one.metric, &one.subject)) {
            series.push(BaselineSeries { interval: None, ..one });
        }
    }
    series.extend(measured(whole));
    Baseline { seconds, ..Baseline::new(BaselineKind::Captures, inventory, series) }
}

/// Returns the results that tools measured themselves. Repeating the same work in the same way adds a sample to the
/// series.
fn measured(figures: &[SubjectFigures]) -> Vec<BaselineSeries> {
    let mut series: Vec<((String, Experiment), BaselineSeries)> = Vec::new();
    let works: Vec<String> = figures.iter().filter_map(work).collect();
    let mut in_order: Vec<&SubjectFigures> = figures.iter().collect();
    in_order.sort_by_key(|figures| line(figures));
    // A run that client and server both show is one.
    let mut known_ends: BTreeSet<&str> = BTreeSet::new();
    in_order.retain(|figures| text(figures, ENDS).is_none_or(|ends| known_ends.insert(ends)));
    for figures in in_order {
        let Some((work, experiment)) = work(figures).zip(experiment(figures)) else { continue };
        let limit = if figures.number("timed.cpu_share") >= Some(CPU_BOUND) { BY_CPU } else { "" };
        // With several block sizes, each is separate work.
        let block = figures.number("timed.block").filter(|_| works.iter().filter(|w| **w == work).count() > 1);
        let block = block.map_or_else(String::new, |block| format!(" by {}", human::quantity(block, "bytes")));
        // Networks are measured in bits.
        let rate = if figures.subject.kind == "connection" { "timed.bits" } else { "timed.rate" };
        let measured = figures.evidence(rate).or_else(|| figures.evidence("timed.operations"));
        let Some(Evidence { value: Reading::Number(value), unit, .. }) = measured else { continue };
        let name = format!("{work}{block}{limit}");
        let of_work = || BaselineSeries {
            experiment: Some(experiment.clone()),
            ..BaselineSeries::of_repeats(&name, Subject::host(), unit, Better::Higher, Vec::new())
        };
        let key = (name.clone(), experiment.clone());
        let at = series.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            series.push((key, of_work()));
            series.len() - 1
        });
        series[at].1.samples.push(*value);
    }
    // Those that differ only in what the text states remain in the order of the text.
    series.sort_by(|((a, of_a), _), ((b, of_b), _)| (a, &of_a.options).cmp(&(b, &of_b.options)));
    let mut all: Vec<BaselineSeries> = series.into_iter().map(|(_, series)| series).collect();
    distinguish(&mut all);
    all
}

/// Adds the options that distinguish series with the same name to their names.
fn distinguish(series: &mut [BaselineSeries]) {
    let options = |one: &BaselineSeries| one.experiment.as_ref().map(|e| e.options.clone()).unwrap_or_default();
    let all: Vec<(String, BTreeMap<String, String>)> = series.iter().map(|s| (s.metric.clone(), options(s))).collect();
    for (one, (name, own)) in series.iter_mut().zip(&all) {
        let namesakes = || all.iter().filter(|(other, _)| other == name);
        let differing = own.iter().filter(|(key, value)| namesakes().any(|(_, other)| other.get(*key) != Some(value)));
        let differing: Vec<String> = differing.map(|(key, value)| format!("{key}={value}")).collect();
        if !differing.is_empty() {
            let (name, limit) = match name.strip_suffix(BY_CPU) {
                Some(name) => (name, BY_CPU),
                None => (name.as_str(), ""),
            };
            one.metric = format!("{name}, {}{limit}", differing.join(" "));
        }
    }
}

fn text<'f>(figures: &'f SubjectFigures, metric: &str) -> Option<&'f str> {
    match &figures.evidence(metric)?.value {
        Reading::Text(text) => Some(text),
        Reading::Number(_) => None,
    }
}

/// Returns a sentence for each run that two hosts show, the client and the server of one connection, from their known signals.
pub fn from_both_ends(a: &[SubjectFigures], b: &[SubjectFigures]) -> Vec<String> {
    let sentence = |here: &SubjectFigures| {
        let ends = text(here, ENDS)?;
        let there = b.iter().find(|there| text(there, ENDS) == Some(ends))?;
        let [before, after] = [here, there].map(|side| side.number("timed.bits"));
        let (before, after) = (before?, after?);
        let tool = text(here, "timed.tool").unwrap_or("the tool");
        let [before_said, after_said] = [before, after].map(|rate| human::quantity(rate, "bit/s"));
        let lost = before > after * (1.0 + NOISE) || after > before * (1.0 + NOISE);
        let verdict = if lost { "what one of them counted did not arrive" } else { "the same within what varies" };
        Some(format!(
            "{tool} between {ends} is one run, seen from both ends: {before_said} and {after_said}, {verdict}."
        ))
    };
    a.iter().filter_map(sentence).collect()
}

/// Adds the settings that the texts of two captures state to their summaries, if they state that one was changed between them.
/// Returns whether they do.
pub fn add_stated_changes(summaries: &mut [Baseline; 2], settings: [&BTreeMap<String, String>; 2]) -> bool {
    let [before, after] = settings;
    let mut changed = changes(before, after);
    // Two titles may also be those of two loads, or of two days.
    changed.retain(|change| change.name != TITLE || tell_a_change(change.before, change.after));
    for change in &changed {
        for (summary, value) in summaries.iter_mut().zip([change.before, change.after]) {
            let value = if value == UNSTATED { "as it was" } else { value };
            summary.inventory.insert(change.name.to_owned(), value.to_owned());
        }
    }
    !changed.is_empty()
}

/// Returns the line that the name of a transfer ends with: `dd of /dev/zero, line 12`.
fn line(figures: &SubjectFigures) -> Option<u32> {
    figures.subject.name.rsplit_once(", line ")?.1.parse().ok()
}

/// Returns the tool, its operation and its target.
fn work(figures: &SubjectFigures) -> Option<String> {
    let tool = text(figures, "timed.tool")?;
    Some(text(figures, "timed.peer").map_or_else(|| tool.to_owned(), |what| format!("{tool}: {what}")))
}

/// Returns the figures as an experiment, whose options are the settings that may differ between two runs.
fn experiment(figures: &SubjectFigures) -> Option<Experiment> {
    let tool = text(figures, "timed.tool")?;
    let what = text(figures, "timed.peer").unwrap_or_default();
    let all = |metric: &str| -> BTreeMap<String, String> {
        let all = in_text(text(figures, metric).unwrap_or_default());
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let mut options = all("timed.options");
    let mut settings = all("timed.settings");
    settings.retain(|name, value| name != TITLE || !is_repetition(value));
    options.extend(figures.number("timed.block").map(|block| (BLOCK.to_owned(), format!("{block:.0}"))));
    let work = match tool {
        // `randread of /srv/a, read`
        "fio" => what.rsplit(", ").next().unwrap_or_default(),
        "dd" => "",
        _ if figures.subject.kind == "connection" => {
            options.insert("peer".to_owned(), what.to_owned());
            ""
        }
        _ => what,
    };
    Some(Experiment { tool: tool.to_owned(), work: work.to_owned(), options, settings })
}

/// Returns whether a title only counts the runs, or names the end of a connection: `Run 2`, `server`.
fn is_repetition(title: &str) -> bool {
    const WORDS: [&str; 25] = [
        "again",
        "at",
        "from",
        "on",
        "attempt",
        "client",
        "first",
        "iteration",
        "loop",
        "no",
        "output",
        "pass",
        "receiver",
        "result",
        "results",
        "round",
        "run",
        "second",
        "sender",
        "server",
        "side",
        "test",
        "the",
        "third",
        "try",
    ];
    let lower = title.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.all(|word| WORDS.contains(&word) || word.parse::<u32>().is_ok())
}
