//! Benchmarks as text, and hostile names in them.

use proptest::prelude::*;
use whyslow_documents::bench::{
    BenchKind, BenchReport, CacheTraffic, Ceiling, CpuCost, DiskRun, DiskSeries, Environment, Generator, Interference,
    IoAccounting, Knee, Latency, LayerResult, LayerTraffic, Limit, Measurement, OtherProcess, Percentile, RequestStats,
    Round, SCHEMA, Study, TargetInfo, Traffic, Workload,
};
use whyslow_model::histogram::Histogram;
use whyslow_show::escape::is_deceptive;
use whyslow_show::json;
use whyslow_show::text::{self, TextStyle};

const PLAIN: TextStyle = TextStyle { width: 80, colour: false, all: false, utc: true };

/// Returns one second of random reads, with no completions in a tenth of it.
fn run(depth: u32, rate: f64, latency: f64) -> DiskRun {
    let operations = rate as u64;
    let read = RequestStats {
        operations,
        bytes: operations * 4096,
        rate,
        bandwidth: rate * 4096.0,
        latency: Latency {
            count: operations,
            min: latency / 2.0,
            mean: latency,
            deviation: 0.0,
            max: latency * 8.0,
            percentiles: vec![Percentile { share: 0.99, seconds: latency * 2.0 }],
            histogram: Histogram::from_counts([(64, operations)]),
        },
        service: None,
    };
    let reads = [vec![operations / 9; 4], vec![0], vec![operations / 9; 5]].concat();
    DiskRun {
        name: "random read".into(),
        target: 0,
        asked: Workload { depth, seconds: Some(1.0), ..Workload::of_blocks(4096) },
        seconds: 1.0,
        read: Some(read),
        write: None,
        sync: None,
        series: DiskSeries { interval: 0.1, writes: vec![0; 10], reads, ..DiskSeries::default() },
        cost: CpuCost {
            thread_seconds: 1.0,
            user_seconds: 0.05,
            system_seconds: 0.2,
            per_operation: Some(0.25 / rate),
            ..CpuCost::default()
        },
        generator: Generator { busy: Some(0.95), waited: Some(0.01), was_limit: depth > 1 },
        failed: (depth > 1).then(|| "read of 4096 bytes at 8192: Input/output error (os error 5)".to_owned()),
        hung: u64::from(depth > 1),
        behind: 0,
    }
}

fn round(depth: u32, rate: f64, latency: f64) -> Round {
    let asked = Traffic { reads: rate as u64, read_bytes: rate as u64 * 4096, ..Traffic::default() };
    let layer = LayerTraffic {
        device: "sdb".into(),
        relation: "target".into(),
        traffic: Traffic { writes: 3, write_bytes: 12_288, ..asked },
        reads_merged: 7,
        read_wait: Some(latency),
        queue: Some(f64::from(depth)),
        ..LayerTraffic::default()
    };
    let cache = CacheTraffic { before: 4096, after: 8192, fetched: 4096, served: 12_288, in_vain: 0 };
    Round {
        name: format!("random read of 4 KiB, {depth} in flight"),
        group: "random read".into(),
        runs: vec![run(depth, rate, latency)],
        ledgers: vec![IoAccounting { asked, cache: Some(cache), layers: vec![layer], ..IoAccounting::default() }],
        spoiled: (depth > 1)
            .then(|| "other processes transferred 2 MiB on sdb meanwhile, beside the 4 MiB measured".to_owned()),
    }
}

fn report() -> BenchReport {
    let knee = Knee { depth: 4, rate: 4000.0, latency: 1e-3, latency_alone: 9e-4, parallelism: 3.6 };
    let ceiling = Ceiling {
        of: Limit::Requests,
        requests: "random read".into(),
        block: 4096,
        rate: 4000.0,
        bandwidth: 16_384_000.0,
        knee: Some(knee),
        reached: true,
        generator: false,
    };
    let target = |path: &str| TargetInfo {
        path: path.into(),
        kind: "device".into(),
        device: Some("sdb".into()),
        bytes: 1 << 30,
        ..TargetInfo::default()
    };
    BenchReport {
        schema: SCHEMA.into(),
        kind: BenchKind::Disk,
        started: Some("2026-01-02T03:04:05Z".into()),
        started_ms: Some(1_767_323_045_000),
        seconds: 12.3,
        interrupted: true,
        environment: Environment {
            others_cpus: Some(0.25),
            others: vec![OtherProcess { pid: 7, name: "postgres".into(), read_bytes: 2 << 20, write_bytes: 0 }],
            ..Environment::default()
        },
        targets: vec![target("/dev/sdb"), target("/dev/sdc")],
        rounds: vec![round(4, 4000.0, 1e-3), round(1, 1100.0, 9e-4)],
        ceilings: vec![ceiling],
        splits: vec![],
        layers: Vec::new(),
        files: Vec::new(),
        pairs: Vec::new(),
        studies: Vec::new(),
        network: None,
        caveats: vec!["sdb was read while in use".into()],
    }
}

/// Returns a report without any measurements.
fn empty() -> BenchReport {
    BenchReport { targets: Vec::new(), rounds: Vec::new(), ceilings: Vec::new(), caveats: Vec::new(), ..report() }
}

#[test]
fn a_sweep_at_80_columns() {
    let expected = "\
/dev/sdb: device of 1 GiB · sdb
/dev/sdc: device of 1 GiB · sdb
took 12.3 s

Random read
  block  depth    rate   bandwidth    mean      p99      cpu      max
  4 KiB      1  1100/s  4.30 MiB/s  900 µs  1.80 ms   227 µs  7.20 ms
  4 KiB      4  4000/s  15.6 MiB/s    1 ms     2 ms  62.5 µs     8 ms
  unreliable: random read of 4 KiB, 4 in flight: other processes transferred 2
    MiB on sdb meanwhile, beside the 4 MiB measured
  failed: random read of 4 KiB, 4 in flight: read of 4096 bytes at 8192:
    Input/output error (os error 5)
  hung: random read of 4 KiB, 4 in flight: 1 request never completed
  stalled: random read of 4 KiB, 4 in flight: no request completed for 100 ms,
    from 400 ms on
  random read of 4 KiB, 4 in flight: the CPU generating the load was the limit
  stalled: random read of 4 KiB, 1 in flight: no request completed for 100 ms,
    from 400 ms on
  requests at each layer: random read of 4 KiB, 1 in flight
            reads     of  writes     of  merged    wait  queue
    issued   1100  4 KiB
       sdb   1100  4 KiB       3  4 KiB       7  900 µs      1
    page cache: 12 KiB served from it, 4 KiB read from storage, 0 B of that
      unused; cached 4 KiB before and 8 KiB after

Note: sdb was read while in use
postgres (PID 7) read or wrote 2 MiB meanwhile.
Other processes used 0.25 CPUs.

Summary
  random read of 4 KiB: 4000/s; throughput plateaus at queue depth 4 (latency
    1 ms there, 900 µs at depth 1)
Ended early: results up to that point.
";
    let drawn = text::bench(&report(), &PLAIN);
    assert_eq!(drawn, expected, "drawn:\n{drawn}");
}

#[test]
fn layers_and_pairs_have_their_own_tables() {
    let layer = |name: &str, latency, adds, takes| LayerResult {
        group: "random read".into(),
        name: name.into(),
        rate: 1.0 / latency,
        bandwidth: 4096.0 / latency,
        latency,
        cost: Some(1e-5),
        request: Some(4096.0),
        adds,
        takes,
    };
    let pair = Interference {
        names: ["/dev/sdb".into(), "/dev/sdc".into()],
        alone: [1e6, 1e6],
        together: [5e5, 5e5],
        kept: [0.5, 0.5],
        sum: 1.0,
        contend: Some(true),
        known: Vec::new(),
    };
    let drawn = text::bench(
        &BenchReport {
            rounds: Vec::new(),
            ceilings: Vec::new(),
            splits: Vec::new(),
            layers: vec![layer("sdb", 1e-4, None, None), layer("xfs, direct", 1.25e-4, Some(2.5e-5), Some(0.2))],
            pairs: vec![pair],
            ..report()
        },
        &PLAIN,
    );
    let expected = "
Cost of each layer: random read
                bandwidth  change  latency      adds  request      cpu     rate
          sdb  39.1 MiB/s           100 µs              4 KiB  10.0 µs  10000/s
  xfs, direct  31.2 MiB/s   -20 %   125 µs  +25.0 µs    4 KiB  10.0 µs   8000/s

Note: sdb was read while in use
postgres (PID 7) read or wrote 2 MiB meanwhile.
Other processes used 0.25 CPUs.

Summary
  /dev/sdb and /dev/sdc: they slow each other down; the first keeps 50 % of its
    rate (1 M/s → 500000/s), the second keeps 50 % of its rate (1 M/s →
    500000/s)
    no shared device is known: what they share is hidden from this kernel
";
    assert!(drawn.contains(expected), "drawn:\n{drawn}");
}

#[test]
fn figures_stand_side_by_side_as_far_as_there_is_room() {
    let figure = |name: &str, under: &str, noise: f64| {
        let samples = (0..10).map(|i| 1e9 * (1.0 + noise * (f64::from(i) - 4.5))).collect();
        Measurement::from_samples(name, under, "bytes/s", samples).unwrap()
    };
    let unders = ["in the first cache", "in the second cache", "in memory"];
    let mut figures: Vec<Measurement> = unders.iter().map(|under| figure("read", under, 0.001)).collect();
    figures.push(figure("write", "in memory", 0.001));
    figures.push(Measurement { disturbed: 3, ..figure("past the cache", "in memory", 0.02) });
    let method = "Arrays are summed up.".to_owned();
    let study =
        Study { name: "bandwidth".into(), method, figures, findings: vec!["It is fast.".into()], ..Study::default() };
    let report = BenchReport { kind: BenchKind::Memory, studies: vec![study], ..empty() };
    let drawn = text::bench(&report, &TextStyle { width: 60, ..PLAIN });
    let expected = "\
Bandwidth
                  in the first cache  in the second cache
            read           954 MiB/s            954 MiB/s
                      in memory
            read      954 MiB/s
           write      954 MiB/s
  past the cache  954 MiB/s ±7%
  1 of 5 figures were disturbed: a thread waited for its CPU
  Arrays are summed up.
";
    assert!(drawn.contains(expected) && drawn.contains("\nSummary\n  It is fast.\n"), "{drawn}");
    let all = text::bench(&report, &TextStyle { all: true, ..PLAIN });
    assert!(all.contains("median") && all.contains("from") && all.contains("waited"), "{all}");
}

#[test]
fn no_width_makes_a_line_longer() {
    for width in [40, 60, 80, 120] {
        let drawn = text::bench(&report(), &TextStyle { width, ..PLAIN });
        let longest = drawn.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= width, "{width}:\n{drawn}");
    }
}

#[test]
fn fios_form_has_whole_numbers_where_fio_has() {
    let json: serde_json::Value = serde_json::from_str(&json::fio(&report())).unwrap();
    let job = &json["jobs"][0];
    assert_eq!(job["read"]["io_bytes"], 4000 * 4096);
    assert_eq!(job["read"]["bw"], 16_000);
    assert_eq!((&job["read"]["iops_min"], &job["read"]["runtime"]), (&0.into(), &1000.into()));
    assert_eq!(job["read"]["clat_ns"]["mean"], 1e6);
    assert_eq!(job["read"]["clat_ns"]["percentile"]["99.000000"], 500_000);
    assert_eq!((&job["error"], &job["write"]["total_ios"]), (&5.into(), &0.into()));
    assert_eq!(job["usr_cpu"], 5.0);
}

#[test]
fn the_document_is_read_back_as_it_was() {
    let text = json::pretty(&report());
    assert_eq!(serde_json::from_str::<BenchReport>(&text).unwrap(), report());
}

proptest! {
    #[test]
    fn hostile_names_are_text_everywhere(path in ".*", device in ".*", process in ".*", why in ".*") {
        let mut hostile = report();
        hostile.targets[0].path = path;
        hostile.targets[0].below = vec![device.clone()];
        hostile.rounds[0].ledgers[0].layers[0].device = device;
        hostile.rounds[0].runs[0].failed = Some(why.clone());
        hostile.rounds[0].runs[0].name = why;
        hostile.environment.others[0].name = process;
        for drawn in [text::bench(&hostile, &PLAIN), json::pretty(&hostile), json::fio(&hostile)] {
            prop_assert!(!drawn.contains(|c| c != '\n' && is_deceptive(c)));
        }
    }
}
