//! Summaries of benchmarks.

use std::collections::BTreeMap;
use whyslow_documents::baseline::{Baseline, BaselineKind, BaselineSeries, Better, Distribution, Inventory};
use whyslow_documents::bench::{BenchReport, DiskRun, NetRun, Network, RequestStats, Round, Study, TargetInfo, Work};
use whyslow_documents::diagnosis::Subject;

/// Unit in which latencies are counted, seconds.
const NANOSECOND: f64 = 1e-9;

/// Summarizes one or more runs of a benchmark: each of several runs is a sample; of a single run, each interval is.
pub fn of_bench(reports: &[BenchReport]) -> Baseline {
    let mut series: BTreeMap<(String, Subject), BaselineSeries> = BTreeMap::new();
    for one in reports.iter().flat_map(|report| of_report(report, reports.len() > 1)) {
        match series.get_mut(&(one.metric.clone(), one.subject.clone())) {
            Some(known) => known.samples.extend(one.samples),
            None => drop(series.insert((one.metric.clone(), one.subject.clone()), one)),
        }
    }
    let inventory = reports.first().map(inventory).unwrap_or_default();
    let start = reports.iter().filter_map(|report| report.started.clone()).min();
    let seconds = reports.iter().map(|report| report.seconds).sum();
    Baseline { start, seconds, ..Baseline::new(BaselineKind::Bench, inventory, series.into_values().collect()) }
}

/// Returns the series of a report, without spoiled rounds.
fn of_report(report: &BenchReport, one_of_several: bool) -> Vec<BaselineSeries> {
    let mut all: Vec<BaselineSeries> =
        report.studies.iter().flat_map(|study| of_study(study, &report.targets)).collect();
    for round in report.rounds.iter().filter(|round| round.spoiled.is_none()) {
        for run in round.runs.iter().filter(|run| run.failed.is_none()) {
            let Some(target) = report.targets.get(run.target) else { continue };
            let of = Of { run, what: what(round, run), subject: subject(target), one_of_several };
            all.extend(of.flow("reads", run.read.as_ref(), &run.series.reads));
            all.extend(of.flow("writes", run.write.as_ref(), &run.series.writes));
        }
    }
    all.extend(report.network.iter().flat_map(|network| of_network(network, one_of_several)));
    all
}

/// Returns the series of figures that were measured repeatedly: repetitions are samples.
fn of_study(study: &Study, targets: &[TargetInfo]) -> impl Iterator<Item = BaselineSeries> {
    let subject = study.target.and_then(|at| targets.get(at)).map_or_else(Subject::host, subject);
    study.figures.iter().map(move |figure| {
        let under = if figure.under.is_empty() { String::new() } else { format!(", {}", figure.under) };
        let metric = format!("{}: {}{under}", study.name, figure.name);
        let better = if figure.more_is_better { Better::Higher } else { Better::Lower };
        BaselineSeries::of_repeats(&metric, subject.clone(), &figure.unit, better, figure.samples.clone())
    })
}

struct Of<'r> {
    run: &'r DiskRun,
    what: String,
    subject: Subject,
    one_of_several: bool,
}

impl Of<'_> {
    /// Returns the series of the rate and the latency of one direction.
    fn flow(&self, direction: &str, flow: Option<&RequestStats>, intervals: &[u64]) -> Vec<BaselineSeries> {
        let Some(flow) = flow else { return Vec::new() };
        let name = |of: &str| format!("{}: {of}", self.what);
        let series = |metric: String, unit: &str, better: Better, samples: Vec<f64>| {
            BaselineSeries::of_repeats(&metric, self.subject.clone(), unit, better, samples)
        };
        let rate = name(direction);
        if !self.one_of_several {
            let length = self.run.series.interval;
            return vec![BaselineSeries::of_counts(&rate, self.subject.clone(), "1/s", intervals, length)];
        }
        let percentile = |share: f64| flow.latency.percentile(share).into_iter().collect();
        let latencies = Distribution::from_counts(NANOSECOND, flow.latency.histogram.clone());
        let latency = |words: &str, share: f64| BaselineSeries {
            distribution: latencies.clone(),
            ..series(name(&format!("{direction}, {words}")), "s", Better::Lower, percentile(share))
        };
        vec![
            series(rate, "1/s", Better::Higher, vec![flow.rate]),
            latency("median latency", 0.5),
            latency("99th percentile latency", 0.99),
        ]
    }
}

/// Returns the name of a run, the same in every report that has the run.
fn what(round: &Round, run: &DiskRun) -> String {
    if round.name.contains(&run.name) { round.name.clone() } else { format!("{}, {}", round.name, run.name) }
}

/// Returns the device of a target; its path if it has no device.
fn subject(target: &TargetInfo) -> Subject {
    match &target.device {
        Some(device) => Subject::new("device", device),
        None => Subject::new("mount", &target.path),
    }
}

/// Returns the series of a network benchmark: each of several runs is a sample; of a single run, each interval is.
fn of_network(network: &Network, one_of_several: bool) -> Vec<BaselineSeries> {
    let subject = Subject::new("connection", &network.peer.name);
    let rounds = network.rounds.iter();
    let runs = rounds.flat_map(|round| round.runs.iter().map(move |run| (round, run)));
    let sound = runs.filter(|(_, run)| run.failed.is_none());
    sound
        .flat_map(|(round, run)| {
            let what = if round.name == run.name { run.name.clone() } else { format!("{}, {}", round.name, run.name) };
            if one_of_several { figures(run, &what, &subject) } else { course(run, &what, &subject) }
        })
        .collect()
}

fn figures(run: &NetRun, what: &str, subject: &Subject) -> Vec<BaselineSeries> {
    let percentile = |share| run.here.latency.as_ref().and_then(|latency| latency.percentile(share));
    let figures = [
        ("bytes received", "bytes/s", Better::Higher, run.bandwidth),
        ("answers", "1/s", Better::Higher, run.rate),
        ("answers, median latency", "s", Better::Lower, percentile(0.5)),
        ("answers, 99th percentile latency", "s", Better::Lower, percentile(0.99)),
    ];
    let series = |(name, unit, better, figure): (&str, &str, Better, Option<f64>)| {
        Some(BaselineSeries::of_repeats(&format!("{what}: {name}"), subject.clone(), unit, better, vec![figure?]))
    };
    figures.into_iter().filter_map(series).collect()
}

fn course(run: &NetRun, what: &str, subject: &Subject) -> Vec<BaselineSeries> {
    let Some(end) = run.receiver() else { return Vec::new() };
    let length = end.series.interval;
    let (name, unit, counts) = match run.asked.work {
        Work::Stream(_) => ("bytes received", "bytes/s", &end.series.bytes),
        Work::Exchange => ("answers", "1/s", &end.series.answers),
    };
    vec![BaselineSeries::of_counts(&format!("{what}: {name}"), subject.clone(), unit, counts, length)]
}

fn inventory(report: &BenchReport) -> Inventory {
    let host = &report.environment.host;
    let facts = [
        ("machine: release", host.kernel.clone()),
        ("machine: processors", host.cpus.map(|cpus| cpus.to_string())),
        ("machine: virtualization", host.virtualization.clone()),
        ("memory: mem_total", host.memory_bytes.map(|bytes| bytes.to_string())),
    ];
    let facts = facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let settings =
        report.environment.settings.iter().map(|(name, value)| (format!("setting {name}: value"), value.clone()));
    facts.chain(settings).collect()
}
