//! Conclusions of an experiment, in sentences: a load measured twice, with something changed in between.

use crate::captures::BY_CPU;
use crate::compare::changed as changed_inventory;
use crate::experiment::{counterparts, sentences, within};
use std::cmp::Ordering;
use whyslow_documents::baseline::{Baseline, BaselineKind, BaselineSeries, Inventory};
use whyslow_model::human::{change, quantity};

/// Assumed relative variation of a value that was measured only once.
const ONCE: f64 = 0.1;
/// Minimum relative variation of a value that was measured several times, however steady it was.
const STEADY: f64 = 0.02;
/// Disks with less than this share of the bytes of the busiest one are left out.
const BESIDE: f64 = 0.02;
/// Disks that are busy for less than this share of the time are idle.
const IDLE: f64 = 0.05;
/// Share of the bytes of volumes that the disks must move to be counted as the disks that carry the volumes.
const CARRIED: f64 = 0.5;
/// Factor from which sizes and numbers of requests count as different.
const OTHER: f64 = 1.3;
/// Difference in the share of reads from which loads belong to different programs.
const OTHER_MIX: f64 = 0.3;
/// Size of the smallest request.
const SECTOR: f64 = 512.0;
/// Suffixes of the settings that do not change on one machine.
const HARDWARE: [&str; 8] =
    [": product", ": processor", ": processors", ": mem_total", ": model", ": size", ": hardware_max", ": start"];
/// Maximum number of measurements or disks in a sentence.
const MOST_NAMED: usize = 6;

/// Returns the conclusions from two captures; none if they have nothing in common.
pub fn conclusions(a: &Baseline, b: &Baseline) -> Vec<String> {
    if a.kind != BaselineKind::Captures || b.kind != BaselineKind::Captures {
        return Vec::new();
    }
    let disks = Load::from_baseline(a)
        .zip(Load::from_baseline(b))
        .filter(|(a, b)| a.can_be_compared_with(b))
        .map(|(a, b)| disks(&a, &b));
    let results: Vec<String> = measurements(a, b).into_iter().chain(disks).collect();
    // Without a result, a changed setting is not an experiment.
    let settings = settings(&a.inventory, &b.inventory).filter(|_| !results.is_empty());
    settings.into_iter().chain(results).collect()
}

/// Returns the conclusions from runs within one capture that differ in one option.
pub fn conclusions_within(capture: &Baseline) -> Vec<String> {
    within(&capture.series)
}

/// Returns the disks that are at their ceiling in both captures: more requests in flight move no more data.
pub fn disks_at_ceiling(a: &Baseline, b: &Baseline) -> Vec<String> {
    let loads = Load::from_baseline(a).zip(Load::from_baseline(b)).filter(|(a, b)| a.can_be_compared_with(b));
    let Some((a, b)) = loads.filter(|(a, b)| a.names() == b.names()) else { return Vec::new() };
    let names = |load: &Load<'_>| load.disks.iter().map(|disk| disk.name.to_owned()).collect();
    if changed(&a, &b, a.bytes().effect(b.bytes())).ends_with(NO_MORE) { names(&a) } else { Vec::new() }
}

/// Returns whether two captures come from one machine, as far as they show its hardware, with different settings.
pub fn differ_in_settings(a: &Baseline, b: &Baseline) -> bool {
    let changed = changed_inventory(&a.inventory, &b.inventory);
    let mut both = changed.iter().filter(|one| one.a.is_some() && one.b.is_some()).peekable();
    both.peek().is_some() && !both.any(|one| HARDWARE.iter().any(|end| one.what.ends_with(end)))
}

/// Returns whether tools that ran in both captures ran with different options.
pub fn differ_in_options(a: &Baseline, b: &Baseline) -> bool {
    let [of_a, of_b] = [a, b].map(measured);
    counterparts(&of_a, &of_b).iter().any(|pair| !pair.is_repetition())
}

/// Describes the changed settings.
fn settings(a: &Inventory, b: &Inventory) -> Option<String> {
    let both = changed_inventory(a, b).into_iter().filter_map(|one| Some((one.what, one.a?, one.b?)));
    let all: Vec<String> = both.map(|(what, before, after)| format!("{what} {before} → {after}")).collect();
    let more = all.len().checked_sub(MOST_NAMED).filter(|more| *more > 0);
    let more = more.map_or_else(String::new, |more| format!("; and {more} more"));
    let named: Vec<String> = all.into_iter().take(MOST_NAMED).collect();
    (!named.is_empty()).then(|| format!("Changed: {}{more}.", named.join("; ")))
}

/// The mean, and the relative deviation of the samples from it.
#[derive(Clone, Copy)]
pub(crate) struct Usual {
    pub(crate) value: f64,
    noise: f64,
}

impl Usual {
    pub(crate) fn from_series(series: &BaselineSeries) -> Option<Self> {
        Self::of_samples(&series.samples)
    }

    /// Returns `None` if the mean is zero, or without samples.
    fn of_samples(samples: &[f64]) -> Option<Self> {
        let (least, most) = (samples.iter().copied().reduce(f64::min)?, samples.iter().copied().reduce(f64::max)?);
        let value = mean(samples);
        let noise = if samples.len() == 1 { ONCE } else { ((most - least) / 2.0 / value).max(STEADY) };
        (value > 0.0).then_some(Self { value, noise })
    }

    /// Returns the ratio of the other value to this one, and whether it exceeds the variation of both.
    pub(crate) fn effect(self, other: Self) -> Effect {
        let ratio = other.value / self.value;
        match (ratio - 1.0).abs() {
            difference if difference > self.noise.max(other.noise) => Effect::Differs(ratio),
            difference if difference <= ONCE => Effect::Same,
            _ => Effect::Unclear(ratio),
        }
    }

    /// Returns the ratio of the other value to this one; `None` if it does not exceed the variation of both.
    fn times(self, other: Self) -> Option<f64> {
        match self.effect(other) {
            Effect::Differs(ratio) => Some(ratio),
            Effect::Same | Effect::Unclear(_) => None,
        }
    }
}

/// Effect on a value, compared with the value before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Effect {
    /// Changed by this factor.
    Differs(f64),
    /// About the same.
    Same,
    /// Changed by this factor, but no more than both vary.
    Unclear(f64),
}

impl Effect {
    /// Returns the effect with before and after exchanged.
    fn reversed(self) -> Self {
        match self {
            Self::Differs(ratio) => Self::Differs(1.0 / ratio),
            Self::Same => Self::Same,
            Self::Unclear(ratio) => Self::Unclear(1.0 / ratio),
        }
    }
}

/// Phrase for a difference that proves nothing.
pub(crate) const UNCLEAR: &str = "no more than it varies by itself";

fn measured(side: &Baseline) -> Vec<&BaselineSeries> {
    side.series.iter().filter(|one| one.experiment.is_some()).collect()
}

/// Describes the results that tools measured themselves.
fn measurements(a: &Baseline, b: &Baseline) -> Vec<String> {
    let [of_a, of_b] = [a, b].map(measured);
    let (same, changed): (Vec<_>, Vec<_>) =
        counterparts(&of_a, &of_b).into_iter().partition(|pair| pair.is_repetition());
    let same: Vec<(&BaselineSeries, &BaselineSeries)> = same.iter().map(|pair| (pair.a, pair.b)).collect();
    repeated(&of_a, &same).into_iter().chain(sentences(&changed)).collect()
}

/// Describes the differences among measurements that were repeated in the same way.
fn repeated(of_a: &[&BaselineSeries], pairs: &[(&BaselineSeries, &BaselineSeries)]) -> Option<String> {
    let (mut differ, mut alike, mut unclear, mut by_cpu) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (one, other) in pairs {
        let name = one.metric.trim_end_matches(BY_CPU);
        let (Some(before), Some(after)) = (Usual::from_series(one), Usual::from_series(other)) else { continue };
        match before.effect(after) {
            _ if [one, other].iter().any(|side| side.metric.ends_with(BY_CPU)) => by_cpu.push(name),
            Effect::Differs(ratio) => differ.push((name, &one.unit, before, after, ratio)),
            Effect::Same => alike.push(name),
            Effect::Unclear(ratio) => unclear.push((name, ratio)),
        }
    }
    // The name of the tool is mentioned once.
    let tool = of_a.first().and_then(|one| one.metric.split_once(": ")).map_or("", |(tool, _)| tool);
    let is_of_tool = |one: &&&BaselineSeries| one.metric.split_once(": ").is_some_and(|(of, _)| of == tool);
    let tool = if of_a.iter().filter(is_of_tool).count() == of_a.len() { format!("{tool}: ") } else { String::new() };
    let short = |name: &str| name.strip_prefix(&tool).unwrap_or(name).to_owned();
    let size = |ratio: f64| ratio.ln().abs();
    differ.sort_by(|(.., one), (.., other)| size(*other).total_cmp(&size(*one)));
    let shown = differ.iter().take(MOST_NAMED).map(|(name, unit, before, after, ratio)| {
        let [before, after] = [before, after].map(|side| quantity(side.value, unit));
        format!("{} {before} → {after} ({})", short(name), change(*ratio))
    });
    let mut parts: Vec<String> = match differ.len() {
        0 if alike.is_empty() && unclear.is_empty() && by_cpu.is_empty() => return None,
        0 if unclear.is_empty() => vec!["No measurement differs".to_owned()],
        0 => vec!["No measurement differs by more than it varies by itself".to_owned()],
        _ => vec![shown.collect::<Vec<_>>().join(", ")],
    };
    parts.extend(differ.len().checked_sub(MOST_NAMED).filter(|more| *more > 0).map(|more| format!("and {more} more")));
    if !alike.is_empty() && !differ.is_empty() {
        parts.push(format!("about the same: {}", alike.iter().map(|name| short(name)).collect::<Vec<_>>().join(", ")));
    }
    if !unclear.is_empty() {
        let shown = unclear.iter().map(|(name, ratio)| format!("{} ({})", short(name), change(*ratio)));
        parts.push(format!("{UNCLEAR}: {}", shown.collect::<Vec<_>>().join(", ")));
    }
    if !by_cpu.is_empty() {
        let names: Vec<String> = by_cpu.iter().map(|name| short(name)).collect();
        parts.push(format!("limited by a CPU, so not by the disk: {}", names.join(", ")));
    }
    Some(format!("{tool}{}.", parts.join("; ")))
}

/// Load on the disks of a capture.
struct Load<'b> {
    disks: Vec<DiskLoad<'b>>,
}

struct DiskLoad<'b> {
    name: &'b str,
    /// Bytes per second.
    bytes: Usual,
    /// Requests per second; unknown if they were not counted together with the bytes.
    requests: Option<f64>,
    /// Share of reads among the bytes, if both directions are known.
    read: Option<f64>,
    /// Time of a request, in seconds.
    wait: Option<f64>,
    /// Requests in flight.
    queue: Option<f64>,
}

impl<'b> Load<'b> {
    /// Returns the load; `None` if no disk has anything to do.
    fn from_baseline(side: &'b Baseline) -> Option<Self> {
        let devices = side.series.iter().filter(|series| series.subject.kind == "device");
        let mut names: Vec<&str> = devices.map(|series| series.subject.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let mut disks: Vec<DiskLoad<'_>> =
            names.iter().filter_map(|name| DiskLoad::from_baseline(side, name)).collect();
        leave_out_parts(&mut disks);
        let most = disks.iter().map(|disk| disk.bytes.value).fold(0.0, f64::max);
        disks.retain(|disk| disk.bytes.value >= BESIDE * most);
        (!disks.is_empty()).then_some(Self { disks })
    }

    fn bytes(&self) -> Usual {
        let value = self.disks.iter().map(|disk| disk.bytes.value).sum();
        Usual { value, noise: self.disks.iter().map(|disk| disk.bytes.noise).fold(0.0, f64::max) }
    }

    /// Returns whether this can be the same load as the other, on at least one common disk.
    fn can_be_compared_with(&self, other: &Self) -> bool {
        let is_shared = self.disks.iter().any(|disk| other.disk(disk.name).is_some());
        let mixes = self.read().zip(other.read());
        is_shared && mixes.is_none_or(|(a, b)| (a - b).abs() <= OTHER_MIX)
    }

    fn requests(&self) -> Option<f64> {
        self.disks.iter().map(|disk| disk.requests).sum()
    }

    fn request_size(&self) -> Option<f64> {
        Some(self.bytes().value / self.requests()?).filter(|size| *size >= SECTOR)
    }

    fn read(&self) -> Option<f64> {
        let read: Option<f64> = self.disks.iter().map(|disk| Some(disk.read? * disk.bytes.value)).sum();
        Some(read? / self.bytes().value)
    }

    fn queue(&self) -> Option<f64> {
        self.disks.iter().map(|disk| disk.queue).sum()
    }

    /// Returns the mean over all requests.
    fn wait(&self) -> Option<f64> {
        if let [disk] = &self.disks[..] {
            return disk.wait;
        }
        let total: Option<f64> = self.disks.iter().map(|disk| Some(disk.wait? * disk.requests?)).sum();
        Some(total? / self.requests()?)
    }

    fn rate(&self) -> String {
        quantity(self.bytes().value, "bytes/s")
    }

    fn names(&self) -> String {
        names(self.disks.iter().map(|disk| disk.name))
    }

    fn disk(&self, name: &str) -> Option<&DiskLoad<'b>> {
        self.disks.iter().find(|disk| disk.name == name)
    }
}

impl<'b> DiskLoad<'b> {
    fn from_baseline(side: &'b Baseline, name: &'b str) -> Option<Self> {
        let samples = |metric: &str| -> &[f64] {
            let mut all = side.series.iter().filter(|s| s.subject.kind == "device" && s.subject.name == name);
            all.find(|series| series.metric == metric).map_or(&[], |series| &series.samples)
        };
        let busy = samples("disk.busy");
        if !busy.is_empty() && mean(busy) < IDLE {
            return None;
        }
        let [read_rates, write_rates] = ["disk.read_rate", "disk.write_rate"].map(samples);
        let [reads, writes] = ["disk.reads", "disk.writes"].map(samples);
        let bytes = Usual::of_samples(&sums(read_rates, write_rates))?;
        let requests = sums(reads, writes);
        let is_counted_together = (read_rates.len(), write_rates.len()) == (reads.len(), writes.len());
        let read = (!read_rates.is_empty() && !write_rates.is_empty()).then(|| mean(read_rates) / bytes.value);
        let waits = samples("disk.wait");
        // An interval without requests has no wait.
        let of_requests: Vec<f64> = requests.iter().copied().filter(|requests| *requests > 0.0).collect();
        let wait = match waits.len() {
            0 => None,
            n if n == of_requests.len() => {
                let total: f64 = waits.iter().zip(&of_requests).map(|(wait, requests)| wait * requests).sum();
                Some(total / of_requests.iter().sum::<f64>())
            }
            _ => Some(mean(waits)),
        };
        let queue = samples("disk.queue");
        let queue = (!queue.is_empty()).then(|| mean(queue));
        let requests = Some(mean(&requests)).filter(|requests| is_counted_together && *requests > 0.0);
        Some(Self { name, bytes, requests, read, wait, queue })
    }
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// Returns the sums of samples of the same intervals; if one side is missing, returns the other.
fn sums(a: &[f64], b: &[f64]) -> Vec<f64> {
    match (a, b) {
        (a, []) => a.to_vec(),
        ([], b) => b.to_vec(),
        (a, b) => a.iter().zip(b).map(|(a, b)| a + b).collect(),
    }
}

/// Leaves out devices that would be counted twice: partitions, which are counted with their disk, and volumes, which
/// are counted with the disks that carry them.
fn leave_out_parts(disks: &mut Vec<DiskLoad<'_>>) {
    let all: Vec<&str> = disks.iter().map(|disk| disk.name).collect();
    disks.retain(|disk| !all.iter().any(|other| is_partition_of(disk.name, other)));
    let moved = |volumes: bool| -> f64 {
        disks.iter().filter(|disk| is_volume(disk.name) == volumes).map(|disk| disk.bytes.value).sum()
    };
    // Reads that the page cache serves do not reach the disks.
    let is_carried = moved(false) >= CARRIED * moved(true);
    if disks.iter().any(|disk| !is_volume(disk.name)) && is_carried {
        disks.retain(|disk| !is_volume(disk.name));
    }
}

/// Returns whether a device is built on top of others: its bytes are also theirs.
fn is_volume(name: &str) -> bool {
    ["dm-", "md", "loop", "bcache", "drbd"]
        .iter()
        .any(|start| name.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())))
        || name.starts_with("mapper/")
}

/// Returns whether a device is a partition of a disk. After a name that ends in a digit, `p` precedes the number
/// (block/partitions/core.c).
fn is_partition_of(name: &str, disk: &str) -> bool {
    let rest = name.strip_prefix(disk);
    let number = match disk.ends_with(|c: char| c.is_ascii_digit()) {
        true => rest.and_then(|rest| rest.strip_prefix('p')),
        false => rest,
    };
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

fn names<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.len().checked_sub(MOST_NAMED) {
        Some(more @ 1..) => format!("{} and {more} more", names[..MOST_NAMED].join(", ")),
        _ => names.join(", "),
    }
}

/// Describes the change in the load of the disks, and its result.
fn disks(a: &Load<'_>, b: &Load<'_>) -> String {
    let effect = a.bytes().effect(b.bytes());
    match a.disks.len().cmp(&b.disks.len()) {
        Ordering::Less => few_and_many(a, b, effect),
        Ordering::Greater => few_and_many(b, a, effect.reversed()),
        Ordering::Equal => as_many(a, b, effect),
    }
}

/// Describes loads on equally many disks.
fn as_many(a: &Load<'_>, b: &Load<'_>, effect: Effect) -> String {
    let names = if a.names() == b.names() { b.names() } else { format!("{} instead of {}", b.names(), a.names()) };
    let rate = b.rate();
    let (changed, waits) = (changed(a, b, effect), Waits::from_loads(a, b));
    let within = b.bytes().value / a.bytes().value - 1.0;
    let moves = match effect {
        Effect::Differs(ratio) => format!("{names}: {} → {rate} ({})", a.rate(), change(ratio)),
        Effect::Unclear(ratio) => format!("{names}: {} → {rate} ({}, {UNCLEAR})", a.rate(), change(ratio)),
        Effect::Same if changed.is_empty() && waits.as_ref().is_none_or(Waits::are_same) => {
            return format!("{names}: no difference beyond what varies by itself ({rate}, {:+.1} %).", within * 100.0);
        }
        Effect::Same => format!("{names}: the same {rate} within what varies by itself ({:+.1} %)", within * 100.0),
    };
    format!("{moves}{changed}{}.", said(waits.as_ref()))
}

/// End of a sentence about a disk at its ceiling.
const NO_MORE: &str = ": more in flight move no more";

/// Describes the change of the requests, and whether it moves more data.
fn changed(a: &Load<'_>, b: &Load<'_>, effect: Effect) -> String {
    let sizes = a.request_size().zip(b.request_size());
    if let Some((before, after)) = sizes.filter(|(before, after)| !is_near(*before, *after)) {
        let [before, after] = [before, after].map(|size| quantity(size, "bytes"));
        return format!(" with requests of {after} instead of {before}");
    }
    let Some((before, after)) = a.queue().zip(b.queue()).filter(|(a, b)| !is_near(*a, *b)) else {
        return String::new();
    };
    let gain = match effect {
        Effect::Unclear(_) => "",
        Effect::Same if after < before => ": fewer in flight move as much",
        Effect::Differs(ratio) if ratio > 1.0 => "",
        _ if after > before => NO_MORE,
        _ => "",
    };
    format!(" with {after:.1} requests in flight instead of {before:.1}{gain}")
}

/// Times of a request, in seconds.
struct Waits {
    before: f64,
    after: f64,
}

impl Waits {
    fn from_loads(a: &Load<'_>, b: &Load<'_>) -> Option<Self> {
        Some(Self { before: a.wait()?, after: b.wait()? })
    }

    fn are_same(&self) -> bool {
        (self.after / self.before - 1.0).abs() <= ONCE
    }
}

fn said(waits: Option<&Waits>) -> String {
    let Some(waits) = waits else { return String::new() };
    let [before, after] = [waits.before, waits.after].map(|wait| quantity(wait, "s"));
    if waits.are_same() {
        format!("; each request still takes {after}")
    } else {
        format!("; each request takes {after} instead of {before}")
    }
}

/// Describes a load on few disks, and one on more.
fn few_and_many(few: &Load<'_>, many: &Load<'_>, effect: Effect) -> String {
    let has_its_size = |disk: &DiskLoad<'_>| {
        let sizes = disk.requests.map(|requests| disk.bytes.value / requests).zip(few.request_size());
        sizes.is_some_and(|(own, size)| is_near(own, size))
    };
    let is_same_load = many.disks.iter().all(has_its_size);
    let moves_less = matches!(effect, Effect::Differs(times) if times <= 1.0);
    let slower = if is_same_load && !moves_less { None } else { slower_together(few, many) };
    slower.unwrap_or_else(|| spread(few, many, effect))
}

fn is_near(a: f64, b: f64) -> bool {
    (b / a).max(a / b) <= OTHER
}

/// Describes the same load on few disks and on many.
fn spread(few: &Load<'_>, many: &Load<'_>, effect: Effect) -> String {
    let of_few = format!("{} ({})", few.disks.len(), few.names());
    let of_many = format!("{} disks ({})", many.disks.len(), many.names());
    let waits = Waits::from_loads(few, many);
    let still = waits.as_ref().is_some_and(Waits::are_same);
    let waits = said(waits.as_ref());
    let moves = |difference: String| {
        let (many, few) = (many.rate(), few.rate());
        format!(
            "Spread over {of_many} instead of {of_few}, the load moves {many} instead of {few} ({difference}){waits}."
        )
    };
    match effect {
        Effect::Same => format!(
            "Spread over {of_many} instead of {of_few}, the load moves no more ({} and {}){waits}: {}.",
            many.rate(),
            few.rate(),
            if still { "the wait was moved, not shortened" } else { "more disks gain nothing" }
        ),
        Effect::Differs(ratio) => moves(change(ratio)),
        Effect::Unclear(ratio) => moves(format!("{}, {UNCLEAR}", change(ratio))),
    }
}

/// Describes a disk that moves less while others are busy, too.
fn slower_together(few: &Load<'_>, many: &Load<'_>) -> Option<String> {
    let (alone, together) = few.disks.iter().find_map(|alone| {
        let together = many.disk(alone.name)?;
        alone.bytes.times(together.bytes).filter(|times| *times < 1.0).map(|_| (alone, together))
    })?;
    let others = names(many.disks.iter().map(|disk| disk.name).filter(|name| *name != alone.name));
    let [before, after] = [alone, together].map(|disk| quantity(disk.bytes.value, "bytes/s"));
    Some(format!("{} moves {after} beside {others}, and {before} alone: they share what limits them.", alone.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str, bytes: f64) -> DiskLoad<'_> {
        let bytes = Usual { value: bytes, noise: STEADY };
        DiskLoad { name, bytes, requests: Some(1.0), read: None, wait: None, queue: None }
    }

    fn left(disks: &[(&'static str, f64)]) -> Vec<&'static str> {
        let mut disks = disks.iter().map(|(name, bytes)| disk(name, *bytes)).collect();
        leave_out_parts(&mut disks);
        disks.iter().map(|disk| disk.name).collect()
    }

    #[test]
    fn what_is_counted_already_is_no_disk_of_its_own() {
        let all = ["sda", "sda1", "nvme0n1", "nvme0n1p2", "loop1", "loop10", "dm-1", "md0"];
        assert_eq!(left(&all.map(|name| (name, 1e6))), ["sda", "nvme0n1"]);
        let volumes = ["dm-1", "dm-12", "md1", "md127", "loop1", "loop10"];
        assert_eq!(left(&volumes.map(|name| (name, 1e6))), volumes, "without their disks they are all there is");
    }

    fn load<'d>(name: &'d str, bytes: f64, noise: f64, queue: f64) -> Load<'d> {
        let bytes = Usual { value: bytes, noise };
        let disk = DiskLoad { name, bytes, requests: Some(100.0), read: None, wait: Some(0.01), queue: Some(queue) };
        Load { disks: vec![disk] }
    }

    #[test]
    fn what_varies_by_more_than_it_differs_is_not_the_same() {
        const MIB: f64 = 1_048_576.0;
        let unclear = disks(&load("sda", 116.0 * MIB, 0.6, 1.0), &load("sda", 57.0 * MIB, 0.1, 6.0));
        assert!(unclear.contains("116 MiB/s → 57 MiB/s (-50.9 %, no more than it varies by itself)"), "{unclear}");
        assert!(!unclear.contains("the same") && !unclear.contains("move no more"), "{unclear}");
        let same = disks(&load("sda", 58.0 * MIB, 0.6, 1.0), &load("sda", 57.0 * MIB, 0.1, 6.0));
        assert!(same.contains("the same 57 MiB/s") && same.contains("more in flight move no more"), "{same}");
    }

    #[test]
    fn a_size_of_requests_is_given_only_if_both_are_counted_together() {
        let mut before = load("sda", 1e6, STEADY, 1.0);
        let mut after = load("sda", 1e8, STEADY, 1.0);
        assert!(disks(&before, &after).contains("with requests of"));
        before.disks[0].requests = None;
        assert!(!disks(&before, &after).contains("with requests of"));
        before.disks[0].requests = Some(1e9);
        assert!(!disks(&before, &after).contains("with requests of"), "less than a sector is no size");
        after.disks[0].bytes.value = 1e6;
        let small = disks(&before, &after);
        assert!(!small.contains("> -0.01") && !small.contains("< 0.01"), "{small}");
    }

    #[test]
    fn loads_of_other_disks_or_another_mix_are_not_compared() {
        let (mut a, mut b) = (load("sda", 1e8, STEADY, 1.0), load("sda", 1e6, STEADY, 1.0));
        assert!(a.can_be_compared_with(&b));
        (a.disks[0].read, b.disks[0].read) = (Some(0.95), Some(0.05));
        assert!(!a.can_be_compared_with(&b), "one reads, the other writes");
        b.disks[0].read = Some(0.9);
        assert!(a.can_be_compared_with(&b));
        assert!(!a.can_be_compared_with(&load("sdb", 1e6, STEADY, 1.0)));
    }

    #[test]
    fn a_volume_whose_bytes_reach_no_disk_is_a_disk_of_its_own() {
        assert_eq!(left(&[("vda", 1e5), ("loop0", 1e8)]), ["vda", "loop0"]);
        assert_eq!(left(&[("vda", 9e7), ("loop0", 1e8)]), ["vda"]);
    }
}
