//! Benchmarks that are run again and again, as summaries.

use whyslow_compare::{LEAST, compare, of_bench};
use whyslow_documents::baseline::BaselineKind;
use whyslow_documents::bench::{
    BenchKind, BenchReport, CpuCost, Direction, DiskRun, DiskSeries, Environment, Generator, Latency, Measurement,
    NetEnd, NetLoad, NetRound, NetRun, NetSeries, Network, Peer, Percentile, RequestStats, Round, SCHEMA, Study,
    TargetInfo, Workload,
};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::histogram::Histogram;

/// A second of random reads of a disk, and a round that is not to be trusted.
fn report(rate: f64) -> BenchReport {
    let latency = 1.0 / rate;
    let latency = Latency {
        count: rate as u64,
        mean: latency,
        percentiles: vec![
            Percentile { share: 0.5, seconds: latency },
            Percentile { share: 0.99, seconds: latency * 4.0 },
        ],
        histogram: Histogram::from_values([(latency * 1e9) as u64]),
        ..Latency::default()
    };
    let read = RequestStats { operations: rate as u64, rate, latency, ..RequestStats::default() };
    let series = DiskSeries { interval: 0.1, reads: vec![(rate / 10.0) as u64; 10], ..DiskSeries::default() };
    let run = |name: &str| DiskRun {
        name: name.into(),
        target: 0,
        asked: Workload::of_blocks(4096),
        seconds: 1.0,
        read: Some(read.clone()),
        write: None,
        sync: None,
        series: series.clone(),
        cost: CpuCost::default(),
        generator: Generator::default(),
        failed: None,
        hung: 0,
        behind: 0,
    };
    let round = |name: &str, spoiled: Option<String>| Round {
        name: name.into(),
        group: "reads".into(),
        runs: vec![run("random read")],
        ledgers: vec![],
        spoiled,
    };
    let mut environment = Environment::default();
    environment.settings.insert("queue/scheduler".into(), "none".into());
    BenchReport {
        schema: SCHEMA.into(),
        kind: BenchKind::Disk,
        started: Some("2026-11-21T16:43:20Z".into()),
        started_ms: None,
        seconds: 2.0,
        interrupted: false,
        environment,
        targets: vec![TargetInfo { path: "/dev/vdb".into(), device: Some("vdb".into()), ..TargetInfo::default() }],
        rounds: vec![
            round("random read of 4 KiB", None),
            round("random read of 64 KiB", Some("others used the disk".into())),
        ],
        ceilings: vec![],
        splits: vec![],
        layers: vec![],
        files: vec![],
        pairs: vec![],
        studies: vec![],
        network: None,
        caveats: vec![],
    }
}

#[test]
fn of_one_run_its_intervals_are_kept() {
    let kept = of_bench(&[report(1000.0)]);
    let [rate] = &kept.series[..] else { panic!("{:#?}", kept.series) };
    assert_eq!((rate.metric.as_str(), rate.interval), ("random read of 4 KiB: reads", Some(0.1)));
    // The last interval may have been cut short.
    assert_eq!((rate.samples.as_slice(), rate.subject.name.as_str()), (&[1000.0; 9][..], "vdb"));
    assert_eq!(kept.inventory["setting queue/scheduler: value"], "none");
}

#[test]
fn of_several_runs_each_counts_as_one() {
    let runs = |rates: [f64; 6]| of_bench(&rates.map(report));
    let old = runs([1000.0, 1010.0, 990.0, 1005.0, 995.0, 1002.0]);
    assert_eq!((old.kind, old.seconds, old.series.len()), (BaselineKind::Bench, 12.0, 3));
    let median = old.series("random read of 4 KiB: reads, median latency", &Subject::new("device", "vdb")).unwrap();
    assert_eq!((median.interval, median.samples.len(), median.distribution.count()), (None, 6, 1));
    let told = compare(&old, &runs([1500.0, 1510.0, 1490.0, 1505.0, 1495.0, 1502.0]), LEAST);
    let better: Vec<(&str, Option<bool>)> = told.differences.iter().map(|d| (d.unit.as_str(), d.better)).collect();
    assert_eq!(better, [("s", Some(true)), ("1/s", Some(true)), ("s", Some(true))], "{:#?}", told.differences);
    assert!(told.caveats.is_empty());
    assert!(compare(&old, &runs([1001.0, 1008.0, 992.0, 1003.0, 996.0, 1004.0]), LEAST).differences.is_empty());
}

#[test]
fn figures_of_a_device_are_compared_with_those_of_the_same_device() {
    let samples = |value: f64| (0..10).map(|at| 1e6 * (value + f64::from(at * 7 % 10))).collect();
    let figure = |value: f64| Measurement::from_samples("direct", "64 KiB", "bytes/s", samples(value)).unwrap();
    let study =
        |target, value| Study { name: "by size".into(), target, figures: vec![figure(value)], ..Study::default() };
    let of = |target, value| BenchReport { rounds: vec![], studies: vec![study(target, value)], ..report(1.0) };
    let kept = of_bench(&[of(Some(0), 100.0)]);
    let of_device = kept.series("by size: direct, 64 KiB", &Subject::new("device", "vdb")).unwrap();
    assert_eq!((of_device.unit.as_str(), &of_device.samples[..3]), ("bytes/s", &[100e6, 107e6, 104e6][..]));
    let told = compare(&kept, &of_bench(&[of(Some(0), 50.0)]), LEAST);
    assert_eq!(told.differences.iter().map(|found| found.better).collect::<Vec<_>>(), [Some(false)]);
    let machine = of_bench(&[of(None, 100.0)]);
    assert!(machine.series("by size: direct, 64 KiB", &Subject::host()).is_some());
}

/// A stream to another machine that moved so many bytes in each tenth of a second.
fn stream(bytes: u64) -> BenchReport {
    let there =
        NetEnd { series: NetSeries { interval: 0.1, bytes: vec![bytes; 10], answers: vec![] }, ..NetEnd::default() };
    let run = NetRun {
        name: "1 stream up".into(),
        asked: NetLoad::stream(Direction::Up, 1.0),
        bandwidth: Some(bytes as f64 * 10.0),
        rate: None,
        datagrams: None,
        here: NetEnd::default(),
        there: Some(there),
        failed: None,
    };
    let failed = NetRun { failed: Some("the other end has gone".into()), ..run.clone() };
    let round = NetRound { name: "TCP".into(), runs: vec![run, failed], ..NetRound::default() };
    let peer = Peer { name: "far".into(), ..Peer::default() };
    let network = Network { peer, rounds: vec![round], ..Network::default() };
    BenchReport { rounds: vec![], network: Some(network), ..report(1.0) }
}

#[test]
fn what_the_network_does_is_told_by_who_receives() {
    let one = of_bench(&[stream(1000)]);
    let [course] = &one.series[..] else { panic!("{:#?}", one.series) };
    assert_eq!((course.metric.as_str(), course.subject.name.as_str()), ("TCP, 1 stream up: bytes received", "far"));
    assert_eq!((course.unit.as_str(), course.samples.as_slice()), ("bytes/s", &[10_000.0; 9][..]));
    let several = of_bench(&[stream(1000), stream(1100)]);
    assert_eq!(several.series[0].samples, [10_000.0, 11_000.0]);
}
