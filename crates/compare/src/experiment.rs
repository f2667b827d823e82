//! Benchmark runs that differ in their options: the changed option, and the meaning of the result.

use crate::conclusion::{Effect, UNCLEAR, Usual};
use std::collections::BTreeMap;
use whyslow_documents::baseline::{BaselineSeries, Experiment};
use whyslow_model::human::{change, quantity};
use whyslow_model::settings::{SettingChange, TITLE, UNSTATED, are_titles_of_runs, changes};

/// Options whose value is a number of bytes.
const SIZES: [&str; 3] = [BLOCK, "window", "message size"];
/// Option with the number of bytes that a tool transfers at a time.
pub(crate) const BLOCK: &str = "block";
/// Options that set the concurrency.
const AT_ONCE: [&str; 3] = ["iodepth", "numjobs", "streams"];
/// Share of the proportional gain from which a rate grows in proportion.
const PROPORTIONAL: f64 = 0.75;
/// Maximum number of options, and of runs, in one sentence.
const MOST_NAMED: usize = 4;

/// Two runs, and what differs between them.
pub(crate) struct RunPair<'b> {
    pub(crate) a: &'b BaselineSeries,
    pub(crate) b: &'b BaselineSeries,
    /// Options that differ.
    options: Vec<SettingChange<'b>>,
    /// Settings around the runs that differ, as far as the text states them.
    settings: Vec<SettingChange<'b>>,
    /// Number of options that are known for one run only.
    unknown: usize,
}

impl<'b> RunPair<'b> {
    /// Creates a pair; `None` if the two did not measure the same kind of work.
    fn from_series(a: &'b BaselineSeries, b: &'b BaselineSeries) -> Option<Self> {
        let (of_a, of_b) = (a.experiment.as_ref()?, b.experiment.as_ref()?);
        if (&of_a.tool, &of_a.work, &a.unit) != (&of_b.tool, &of_b.work, &b.unit) {
            return None;
        }
        let is_known = |change: &SettingChange<'_>| change.before != UNSTATED && change.after != UNSTATED;
        let (options, unknown): (Vec<_>, Vec<_>) =
            changes(&of_a.options, &of_b.options).into_iter().partition(is_known);
        Some(Self { a, b, options, settings: changes(&of_a.settings, &of_b.settings), unknown: unknown.len() })
    }

    /// Returns whether the runs differ in nothing that is known.
    pub(crate) fn is_repetition(&self) -> bool {
        self.options.is_empty() && self.settings.is_empty()
    }

    /// Returns what was changed. A title beside another change only says what that is.
    fn changed(&self) -> Vec<SettingChange<'b>> {
        let all = || self.options.iter().chain(&self.settings).copied();
        let untitled: Vec<SettingChange<'b>> = all().filter(|change| change.name != TITLE).collect();
        if untitled.is_empty() { all().collect() } else { untitled }
    }

    fn experiment(&self) -> &'b Experiment {
        self.a.experiment.as_ref().expect("it was made of one")
    }
}

/// Pairs each run with its counterpart: the run that differs from it in the fewest options.
pub(crate) fn counterparts<'b>(a: &[&'b BaselineSeries], b: &[&'b BaselineSeries]) -> Vec<RunPair<'b>> {
    let mut all: Vec<(usize, usize, RunPair<'b>)> = Vec::new();
    for (at, one) in a.iter().enumerate() {
        all.extend(b.iter().enumerate().filter_map(|(to, other)| Some((at, to, RunPair::from_series(one, other)?))));
    }
    all.sort_by_key(|(at, to, pair)| (pair.options.len(), pair.unknown, pair.settings.len(), *at, *to));
    let (mut taken_a, mut taken_b) = (vec![false; a.len()], vec![false; b.len()]);
    let mut pairs = Vec::new();
    for (at, to, pair) in all {
        if !taken_a[at] && !taken_b[to] {
            (taken_a[at], taken_b[to]) = (true, true);
            pairs.push((at, pair));
        }
    }
    pairs.sort_by_key(|(at, _)| *at);
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

/// Returns the conclusions from runs of one capture that differ in one option, or in the settings that the text states: each
/// is compared with the next value of the option, or with the next run under other settings.
pub(crate) fn within(series: &[BaselineSeries]) -> Vec<String> {
    let runs: Vec<&BaselineSeries> = series.iter().filter(|series| series.experiment.is_some()).collect();
    let mut pairs: Vec<RunPair<'_>> = Vec::new();
    for (at, one) in runs.iter().enumerate() {
        let others = runs.iter().enumerate().filter(|(other, _)| *other != at);
        let alike = others.filter_map(|(to, other)| Some((to, RunPair::from_series(one, other)?)));
        let is_title = |SettingChange { name, before, after }: &SettingChange<'_>| {
            *name != TITLE || [*before, *after].contains(&UNSTATED) || are_titles_of_runs(before, after)
        };
        let is_clear = |pair: &RunPair<'_>| match pair.options.is_empty() {
            true => pair.changed().iter().all(is_title),
            false => pair.changed().len() == 1,
        };
        let alike = alike.filter(|(_, pair)| pair.unknown == 0 && !pair.is_repetition() && is_clear(pair));
        // For each option the next larger value; for text values, the next run in the text.
        let mut nearest: BTreeMap<&str, (f64, RunPair<'_>)> = BTreeMap::new();
        for (to, pair) in alike {
            let ranks = pair.options.first().and_then(|option| rank(option.before).zip(rank(option.after)));
            let distance = ranks.map_or(to as f64 - at as f64, |(before, after)| after - before);
            let name = pair.options.first().map_or(TITLE, |option| option.name);
            if distance > 0.0 && nearest.get(name).is_none_or(|(least, _)| distance < *least) {
                nearest.insert(name, (distance, pair));
            }
        }
        pairs.extend(nearest.into_values().map(|(_, pair)| pair));
    }
    sentences(&pairs)
}

/// Returns the rank of an option's value: the usual one comes first.
fn rank(value: &str) -> Option<f64> {
    match value {
        "never" | "default" | "TCP" => Some(0.0),
        "at the end" | "UDP" => Some(1.0),
        "after each write" => Some(2.0),
        _ => value.parse().ok(),
    }
}

/// Returns the conclusions from runs with different options, one sentence per set of changes.
pub(crate) fn sentences(pairs: &[RunPair<'_>]) -> Vec<String> {
    let mut groups: Vec<Vec<&RunPair<'_>>> = Vec::new();
    for pair in pairs.iter().filter(|pair| !pair.is_repetition()) {
        let same = |group: &&mut Vec<&RunPair<'_>>| {
            let first = group[0];
            (&first.experiment().tool, first.changed()) == (&pair.experiment().tool, pair.changed())
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(pair),
            None => groups.push(vec![pair]),
        }
    }
    groups.iter().filter_map(|group| sentence(group)).collect()
}

fn sentence(group: &[&RunPair<'_>]) -> Option<String> {
    let first = group.first()?;
    let tool = &first.experiment().tool;
    let changed = &first.changed();
    let words = |at: fn(&SettingChange<'_>) -> String| {
        let mut words: Vec<String> = changed.iter().take(MOST_NAMED).map(at).collect();
        words.extend(changed.len().checked_sub(MOST_NAMED + 1).map(|more| format!("{} more", more + 1)));
        words.join(", ")
    };
    let [before, after] =
        [words(|change| said(change.name, change.before)), words(|change| said(change.name, change.after))];
    let how = format!("{tool} with {after} instead of {before}");
    if changed.iter().any(|change| change.name == "protocol") {
        return Some(format!(
            "{how}: not compared, as UDP sends at the rate that it is given (-b), and TCP as fast as the path allows."
        ));
    }
    let measured: Vec<(f64, Effect, String)> = group.iter().filter_map(|pair| measured(pair)).collect();
    let (proportion, effect, _) = measured.first()?;
    let shown: Vec<&str> = measured.iter().take(MOST_NAMED).map(|(.., text)| text.as_str()).collect();
    let meaning = match (&changed[..], effect) {
        (_, Effect::Unclear(_)) => None,
        (_, Effect::Same) if first.options.is_empty() => Some("it makes no difference".to_owned()),
        (_, Effect::Differs(ratio)) if first.options.is_empty() => {
            Some(format!("the better one is {}", if *ratio > 1.0 { &after } else { &before }))
        }
        ([SettingChange { name, before, after }], Effect::Same) => {
            meaning(name, before, after, None, *proportion).map(str::to_owned)
        }
        ([SettingChange { name, before, after }], Effect::Differs(ratio)) => {
            meaning(name, before, after, Some(*ratio), *proportion).map(str::to_owned)
        }
        _ => Some("which of the changes made the difference is not known".to_owned()),
    };
    let meaning = meaning.map_or_else(String::new, |meaning| format!(": {meaning}"));
    Some(format!("{how}: {}{meaning}.", shown.join(", ")))
}

/// Returns the ratio of the rates after and before, its effect, and both in words.
fn measured(pair: &RunPair<'_>) -> Option<(f64, Effect, String)> {
    let (before, after) = (Usual::from_series(pair.a)?, Usual::from_series(pair.b)?);
    let effect = before.effect(after);
    let [from, to] = [before, after].map(|side| quantity(side.value, &pair.a.unit));
    let differs = match effect {
        Effect::Differs(ratio) => change(ratio),
        Effect::Same => "about the same".to_owned(),
        Effect::Unclear(ratio) => format!("{}, {UNCLEAR}", change(ratio)),
    };
    Some((after.value / before.value, effect, format!("{}{from} → {to} ({differs})", work(pair))))
}

/// Describes the operation and its target, as far as both runs have them in common.
fn work(pair: &RunPair<'_>) -> String {
    let Experiment { work, options, .. } = pair.experiment();
    let is_changed = |name: &str| pair.options.iter().any(|option| option.name == name);
    let common = |name: &str| options.get(name).filter(|_| !is_changed(name));
    let mut words: Vec<String> = Vec::new();
    match common("rw") {
        // In a mixed load, the work is one of two directions.
        Some(rw) if !rw.ends_with(work.as_str()) => words.push(format!("{rw} ({work})")),
        Some(rw) => words.push(rw.clone()),
        None if !work.is_empty() => words.push(work.clone()),
        None => {}
    }
    if let Some(file) = common("file") {
        words.push(format!("of {file}"));
    }
    if words.is_empty() { String::new() } else { format!("{} ", words.join(" ")) }
}

/// Describes an option.
fn said(name: &str, value: &str) -> String {
    let size = || value.parse::<f64>().ok().map(|bytes| quantity(bytes, "bytes"));
    match (name, value) {
        (TITLE, UNSTATED) => "what is above the first title".to_owned(),
        (TITLE, _) => format!("'{value}'"),
        (_, UNSTATED) => format!("{name} as it was"),
        ("direct", "1") => "O_DIRECT".to_owned(),
        ("direct", _) => "the page cache".to_owned(),
        ("flush", "never") => "no flush".to_owned(),
        ("flush", _) => format!("a flush {value}"),
        ("streams", "1") => "1 stream".to_owned(),
        ("streams", _) => format!("{value} streams"),
        ("protocol" | "file" | "from" | "to" | "peer", _) => value.to_owned(),
        (_, "default") => format!("the default {name}"),
        (BLOCK, _) => size().map_or_else(|| format!("blocks of {value}"), |size| format!("blocks of {size}")),
        (_, _) if SIZES.contains(&name) => {
            size().map_or_else(|| format!("{name} {value}"), |size| format!("a {name} of {size}"))
        }
        _ => format!("{name}={value}"),
    }
}

/// Returns the conclusion from the change of one option. `ratio` is the rate after over the rate before if that exceeds
/// the noise, `proportion` is that ratio in any case.
fn meaning(name: &str, before: &str, after: &str, ratio: Option<f64>, proportion: f64) -> Option<&'static str> {
    let factor = after.parse::<f64>().ok().zip(before.parse::<f64>().ok()).map(|(after, before)| after / before);
    let factor = factor.filter(|factor| factor.is_finite() && *factor > 0.0);
    // Reversing the direction turns less instead of more into more instead of less.
    let grown = factor.map(|factor| match factor < 1.0 {
        true => (1.0 / factor, ratio.map(|ratio| 1.0 / ratio), 1.0 / proportion),
        false => (factor, ratio, proportion),
    });
    match (name, grown) {
        ("direct", _) => Some(cached(after == "1", ratio)),
        ("flush", _) => flushed(if after == "never" { before } else { after }, ratio, after == "never"),
        ("streams", Some((factor, ratio, gain))) => Some(match ratio {
            None => "the streams share one limit: the link, a CPU or the other end",
            Some(ratio) if ratio < 1.0 => "several streams interfere with each other",
            Some(_) if gain >= PROPORTIONAL * factor => "each stream has a limit of its own: its window, or one CPU",
            Some(_) => "one stream does not use all that the path carries, and several reach the next limit",
        }),
        (name, Some((factor, ratio, gain))) if AT_ONCE.contains(&name) => Some(match ratio {
            None => "it was at its limit already, and with more in flight each request only waits longer",
            Some(ratio) if ratio < 1.0 => "more requests in flight interfere with each other",
            Some(_) if gain >= PROPORTIONAL * factor => "the time of a single request was the limit, not the device",
            Some(_) => "more in flight help, but less than in proportion: it is near its limit",
        }),
        (BLOCK, Some((factor, ratio, gain))) => Some(match ratio {
            None => "the bytes are the limit, not the number of requests",
            Some(ratio) if ratio < 1.0 => "larger blocks are slower",
            Some(_) if gain >= PROPORTIONAL * factor => "the number of requests is the limit, whatever their size",
            Some(_) => "each request has a fixed cost, which larger blocks spread over more bytes",
        }),
        ("window" | "message size", Some((_, ratio, _))) => Some(match ratio {
            None => "it is not the limit",
            Some(ratio) if ratio < 1.0 => "a larger one is slower",
            Some(_) => "it was the limit",
        }),
        _ => None,
    }
}

/// Returns the conclusion from adding a flush, or from dropping it.
fn flushed(flush: &str, ratio: Option<f64>, is_dropped: bool) -> Option<&'static str> {
    let gain = ratio.map(|ratio| if is_dropped { 1.0 / ratio } else { ratio });
    Some(match gain {
        None => "the flush costs nothing: the data reaches the device all the while, or its cache is safe",
        Some(gain) if gain > 1.0 => return None,
        Some(_) if flush == "at the end" => {
            "without the flush, part of the data is still in memory when the clock stops; with it, the device's rate is measured"
        }
        Some(_) => "each write waits until the device has it: its latency is the limit",
    })
}

/// Returns the conclusion from direct I/O instead of the page cache, or the reverse.
fn cached(is_direct: bool, ratio: Option<f64>) -> &'static str {
    let gain = ratio.map(|ratio| if is_direct { ratio } else { 1.0 / ratio });
    match gain {
        None => "the page cache makes no difference, so that both are what the device does",
        Some(gain) if gain < 1.0 => "the rate without O_DIRECT is the page cache's, the one with it the device's",
        Some(_) => "the page cache costs more here than it saves",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::baseline::Better;
    use whyslow_documents::diagnosis::Subject;

    const MIB: f64 = 1_048_576.0;

    fn run(tool: &str, work: &str, options: &[(&str, &str)], rate: f64) -> BaselineSeries {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let experiment = Experiment { tool: tool.into(), work: work.into(), options, settings: BTreeMap::new() };
        let series = BaselineSeries::of_repeats("", Subject::host(), "bytes/s", Better::Higher, vec![rate]);
        BaselineSeries { experiment: Some(experiment), ..series }
    }

    fn under(mut run: BaselineSeries, settings: &[(&str, &str)]) -> BaselineSeries {
        let experiment = run.experiment.as_mut().unwrap();
        experiment.settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        run
    }

    fn compared(a: &BaselineSeries, b: &BaselineSeries) -> String {
        sentences(&counterparts(&[a], &[b])).join(" ")
    }

    #[test]
    fn what_a_changed_option_shows_depends_on_the_gain() {
        let fio = |depth: &str, rate: f64| {
            run("fio", "write", &[("rw", "randwrite"), ("file", "/dev/sdb"), ("iodepth", depth)], rate * MIB)
        };
        let with = "fio with iodepth=8 instead of iodepth=1: randwrite of /dev/sdb 10 MiB/s → ";
        let near = "more in flight help, but less than in proportion: it is near its limit.";
        for (rate, result) in [
            (70.0, "70 MiB/s (7.0 times): the time of a single request was the limit, not the device."),
            (40.0, &format!("40 MiB/s (4.0 times): {near}")),
            (
                10.5,
                "10.5 MiB/s (about the same): it was at its limit already, and with more in flight each request only waits longer.",
            ),
            (5.0, "5 MiB/s (-50 %): more requests in flight interfere with each other."),
        ] {
            assert_eq!(compared(&fio("1", 10.0), &fio("8", rate)), format!("{with}{result}"));
        }
        let less = compared(&fio("8", 40.0), &fio("1", 10.0));
        assert!(less.starts_with("fio with iodepth=1 instead of iodepth=8: ") && less.ends_with(near), "{less}");
    }

    #[test]
    fn the_page_cache_is_told_from_the_device() {
        let dd = |direct: &str, flush: &str, rate: f64| {
            run("dd", "", &[("to", "/srv/a"), ("direct", direct), ("flush", flush)], rate * MIB)
        };
        let direct = compared(&dd("0", "never", 2000.0), &dd("1", "never", 100.0));
        assert_eq!(
            direct,
            "dd with O_DIRECT instead of the page cache: 1.95 GiB/s → 100 MiB/s (-95 %): the rate without O_DIRECT is the \
             page cache's, the one with it the device's."
        );
        let flushed = compared(&dd("0", "never", 2000.0), &dd("0", "at the end", 100.0));
        assert!(
            flushed.starts_with("dd with a flush at the end instead of no flush: ") && flushed.contains("in memory")
        );
        let each = compared(&dd("0", "after each write", 1.0), &dd("0", "never", 2000.0));
        assert!(each.ends_with("each write waits until the device has it: its latency is the limit."), "{each}");
        let both = compared(&dd("0", "never", 2000.0), &dd("1", "after each write", 1.0));
        assert!(both.contains("with O_DIRECT, a flush after each write instead of the page cache, no flush"), "{both}");
        assert!(both.ends_with("which of the changes made the difference is not known."), "{both}");
    }

    #[test]
    fn runs_under_other_settings_are_compared_in_the_order_of_the_text() {
        let iperf = |rate: f64| run("iperf3", "", &[("peer", "10.0.0.1"), ("streams", "1")], rate * MIB);
        let titled = [under(iperf(46.5), &[(TITLE, "MTU 1500")]), under(iperf(114.0), &[(TITLE, "MTU 9000")])];
        assert_eq!(
            within(&titled),
            [
                "iperf3 with 'MTU 9000' instead of 'MTU 1500': 46.5 MiB/s → 114 MiB/s (+145 %): the better one is 'MTU 9000'."
            ]
        );
        let mtu = |value: &str| under(iperf(100.0), &[("mtu of eth0", value), (TITLE, "again")]);
        let set = [iperf(100.0), mtu("9000"), mtu("1500")];
        assert_eq!(
            within(&set),
            [
                "iperf3 with mtu of eth0=9000 instead of mtu of eth0 as it was: 100 MiB/s → 100 MiB/s (about the same): it makes no difference.",
                "iperf3 with mtu of eth0=1500 instead of mtu of eth0=9000: 100 MiB/s → 100 MiB/s (about the same): it makes no difference.",
            ]
        );
    }

    #[test]
    fn datagrams_are_not_compared_with_a_stream() {
        let iperf = |protocol: &str, streams: &str, rate: f64| {
            run("iperf3", "", &[("peer", "10.0.0.1"), ("protocol", protocol), ("streams", streams)], rate * MIB)
        };
        let udp = compared(&iperf("TCP", "1", 900.0), &iperf("UDP", "1", 1.0));
        assert!(udp.starts_with("iperf3 with UDP instead of TCP: not compared") && !udp.contains("MiB"), "{udp}");
        let link = compared(&iperf("TCP", "1", 110.0), &iperf("TCP", "4", 112.0));
        assert!(link.contains("4 streams instead of 1 stream") && link.contains("share one limit"), "{link}");
        let own = compared(&iperf("TCP", "1", 30.0), &iperf("TCP", "4", 112.0));
        assert!(own.ends_with("each stream has a limit of its own: its window, or one CPU."), "{own}");
    }

    #[test]
    fn runs_of_one_text_are_compared_if_one_option_differs() {
        let fio = |block: &str, depth: &str, rate: f64| {
            run("fio", "read", &[("rw", "randread"), (BLOCK, block), ("iodepth", depth)], rate * MIB)
        };
        let all = [fio("65536", "1", 80.0), fio("4096", "1", 10.0), fio("1048576", "1", 90.0), fio("4096", "8", 70.0)];
        let found = within(&all);
        let starts = [
            "fio with blocks of 1 MiB instead of blocks of 64 KiB: randread 80 MiB/s → 90 MiB/s",
            "fio with blocks of 64 KiB instead of blocks of 4 KiB: randread 10 MiB/s → 80 MiB/s (8.0 times): each request",
            "fio with iodepth=8 instead of iodepth=1: randread 10 MiB/s → 70 MiB/s (7.0 times)",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found}");
        }
        // An option that is unknown for one run may be the one that differs.
        let unknown = run("fio", "read", &[("rw", "randread"), (BLOCK, "4096")], 20.0 * MIB);
        assert!(within(&[fio("4096", "1", 10.0), unknown]).is_empty());
    }
}
