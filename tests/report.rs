//! Tests of `whyslow report` on captures with known figures, as data, pictures and text.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use whyslow_diagnose::SignalSelector;
use whyslow_documents::chart::{Chart, PageData};
use whyslow_series::charts;

const SAR: &str = "\
Linux 6.1.0-13-amd64 (db1) \t2026-11-21 \t_x86_64_\t(2 CPU)

16:00:01        CPU     %user     %nice   %system   %iowait    %steal     %idle
16:10:01        all     10.00      0.00      5.00     20.00      0.00     65.00
16:20:01        all     30.00      0.00      5.50     10.00      0.00     54.50
16:30:01        all      1.25      0.00      0.75      0.00      0.00     98.00
";

const VMSTAT: &str = "\
$ vmstat 1 3
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 1  0      0 100000  20000 300000    0    0     5    10  100  200 10  5 80  5  0
 2  1      0  90000  20000 310000    0    0  1024  2048  300  400 20 10 60 10  0
 3  0      0  80000  20000 320000    0    0   512     0  500  600 30  5 65  0  0
";

fn run(args: &[&str]) -> Output {
    let config = whyslow_testing::folder();
    let mut whyslow = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    whyslow.arg("report").args(args).env("TZ", "UTC").env("XDG_CONFIG_HOME", config.path()).stdin(Stdio::null());
    whyslow.output().unwrap()
}

fn written(folder: &Path, name: &str, text: &str) -> String {
    let path: PathBuf = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn page(args: &[&str]) -> PageData {
    let out = run(&[args, &["--format", "json"]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn chart<'p>(page: &'p PageData, id: &str) -> &'p Chart {
    page.charts.iter().find(|chart| chart.id == id).unwrap_or_else(|| {
        panic!("{id} is not among {:?}", page.charts.iter().map(|chart| &chart.id).collect::<Vec<_>>())
    })
}

fn mean(chart: &Chart, name: &str) -> Vec<Option<f64>> {
    chart.series.iter().find(|series| series.name == name).unwrap_or_else(|| panic!("{name}: {chart:?}")).mean.clone()
}

#[test]
fn the_figures_of_sar_are_those_of_the_chart() {
    let folder = whyslow_testing::folder();
    let page = page(&[&written(folder.path(), "sar.txt", SAR)]);
    assert_eq!((page.host.as_str(), page.is_elapsed, page.schema.as_str()), ("db1", false, "whyslow.report/1"));
    // 2026-11-21 16:00:01 UTC.
    assert_eq!((page.from, page.to), (1_795_276_801.0, 1_795_278_601.0));
    assert_eq!(page.title, "whyslow: db1, 2026-11-21 16:00:01–16:30:01 UTC");
    let modes = chart(&page, "cpu.modes");
    assert_eq!(modes.times, [1_795_276_801.0, 1_795_277_401.0, 1_795_278_001.0, 1_795_278_601.0]);
    assert_eq!(mean(modes, "user"), [None, Some(0.1), Some(0.3), Some(0.0125)]);
    assert_eq!(mean(modes, "system"), [None, Some(0.05), Some(0.055), Some(0.0075)]);
    assert_eq!(mean(modes, "iowait"), [None, Some(0.2), Some(0.1), Some(0.0)]);
    assert!(page.diagnosis.is_some() && page.explanation.is_none());
}

#[test]
fn captures_without_times_are_drawn_over_the_time_since_their_beginning() {
    let folder = whyslow_testing::folder();
    let file = written(folder.path(), "vmstat.txt", VMSTAT);
    let page = page(&[&file]);
    assert!(page.is_elapsed);
    let modes = chart(&page, "cpu.modes");
    assert_eq!(modes.times, [0.0, 1.0, 2.0]);
    // The first report covers the time since boot.
    assert_eq!(mean(modes, "user"), [None, Some(0.2), Some(0.3)]);
    assert_eq!(mean(chart(&page, "memory.paging"), "in"), [None, Some(1_048_600.0), Some(524_290.0)]);
    assert_eq!(mean(chart(&page, "memory.available"), "free")[1..], [Some(92_160_000.0), Some(81_920_000.0)]);
    let drawn = run(&[&file, "--format", "svg", "--chart", "cpu.modes"]);
    let drawn = String::from_utf8(drawn.stdout).unwrap();
    assert!(drawn.starts_with("<svg ") && drawn.contains(">2 s from the first reading<"), "{drawn}");
}

#[test]
fn modes_of_cpu_time_come_from_one_tool_so_that_they_add_up() {
    const IOSTAT: &str = "\
$ iostat -c 1 2
avg-cpu:  %user   %nice    %sys   %idle
          11.50    0.00    2.00   86.50

avg-cpu:  %user   %nice    %sys   %idle
          40.00    5.00   10.00   45.00
";
    let folder = whyslow_testing::folder();
    let files = [("iostat.txt", IOSTAT), ("vmstat.txt", VMSTAT)];
    let files = files.map(|(name, text)| written(folder.path(), name, text));
    // iostat's output has no I/O wait, which vmstat reports: iostat counts it as idle time.
    let exact = page(&[&files[0], &files[1], "--chart", "cpu.modes"]);
    let modes = chart(&exact, "cpu.modes");
    assert_eq!(modes.series.iter().map(|series| &*series.name).collect::<Vec<_>>(), ["user", "nice", "system"]);
    assert_eq!(mean(modes, "user"), [None, Some(0.4), None]);
    // Four seconds of iostat, and 18 of vmstat.
    let fixture = |name: &str| format!("{}/../import/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let files = ["x232-iostat-x-sdb1.txt", "x232-vmstat-2.txt"].map(fixture);
    let long = page(&[&files[0], &files[1], "--chart", "cpu.modes"]);
    let modes = chart(&long, "cpu.modes");
    // Of the first row's modes, which are rounded and add up to 99 %.
    let shares = |shares: [f64; 9]| [vec![None], shares.map(Some).to_vec()].concat();
    assert_eq!(mean(modes, "user"), shares([0.88889, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]));
    assert_eq!(mean(modes, "system"), shares([0.10101, 0.0, 0.01, 0.01, 0.03, 0.06, 0.11, 0.03, 0.0]));
    assert_eq!(mean(modes, "iowait"), shares([0.010101, 1.0, 0.99, 0.99, 0.97, 0.94, 0.89, 0.97, 1.0]));
}

#[test]
fn two_captures_of_the_same_things_have_charts_of_their_own() {
    let folder = whyslow_testing::folder();
    let files = ["before.txt", "after.txt"].map(|name| written(folder.path(), name, VMSTAT));
    let page = page(&[&files[0], &files[1], "--chart", "cpu.modes"]);
    let mut ids: Vec<&str> = page.charts.iter().map(|chart| &*chart.id).collect();
    ids.sort_unstable();
    let expected = [&files[1], &files[0]].map(|file| format!("cpu.modes@{file}"));
    assert_eq!(ids, expected);
}

#[test]
fn a_report_is_a_picture_or_a_text_by_the_extension_of_its_file() {
    let folder = whyslow_testing::folder();
    let sar = written(folder.path(), "sar.txt", SAR);
    let file = |name: &str| folder.path().join(name).display().to_string();
    for (name, start) in [
        ("x.html", &b"<!doctype html>"[..]),
        ("x.svg", b"<svg "),
        ("x.png", b"\x89PNG"),
        ("x.md", b"# whyslow: db1"),
        ("x.json", b"{\"schema\""),
    ] {
        let out = run(&[&sar, "-o", &file(name)]);
        assert_eq!(
            (out.status.code(), out.stdout.len()),
            (Some(0), 0),
            "{name}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        assert!(std::fs::read(file(name)).unwrap().starts_with(start), "{name}");
    }
    let text = std::fs::read_to_string(file("x.md")).unwrap();
    assert!(text.contains("| CPU time by mode: user | 13.8 % | 1.25 % | 30 % |"), "{text}");
    let other = run(&[&sar, "-o", &file("y.svg"), "--chart", "cpu.modes"]);
    assert_eq!(other.status.code(), Some(0));
    assert!(std::fs::read_to_string(file("y.svg")).unwrap().contains("CPU time by mode"));
}

#[test]
fn a_chart_without_data_is_no_error_of_usage_and_an_unknown_one_is() {
    let folder = whyslow_testing::folder();
    let sar = written(folder.path(), "sar.txt", SAR);
    for (chart, status, words) in [
        ("disk.latency", 1, "there is no data for the chart disk.latency"),
        ("disk.latencies", 2, "did you mean 'disk.latency'?"),
    ] {
        let out = run(&[&sar, "--format", "svg", "--chart", chart]);
        let complaint = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), complaint.lines().count()), (Some(status), 1), "{complaint}");
        assert!(complaint.contains(words), "{complaint}");
    }
}

#[test]
fn this_machine_is_drawn_live() {
    let page = page(&["--for", "2s"]);
    assert!(page.charts.len() > 10, "{} charts", page.charts.len());
    for chart in &page.charts {
        let lengths: BTreeSet<usize> =
            chart.series.iter().map(|series| series.mean.len()).chain([chart.times.len()]).collect();
        assert_eq!(lengths.len(), 1, "{}", chart.id);
        assert!(chart.times.is_sorted() && chart.buckets.is_sorted(), "{}", chart.id);
    }
    let shares = chart(&page, "cpu.modes").series.iter().filter_map(|series| series.highest());
    assert!(shares.clone().all(|share| (0.0..=1.0).contains(&share)), "{:?}", shares.collect::<Vec<_>>());
}

#[test]
fn the_signals_of_charts_exist() {
    for chart in charts() {
        for signal in chart.signals {
            // The signals of one of several subjects are selected with the subject's name.
            let known = signal.parse::<SignalSelector>().or_else(|_| format!("{signal}@x").parse());
            assert!(known.is_ok(), "{}: {signal}: {known:?}", chart.id);
        }
    }
}

fn fixture(name: &str) -> String {
    format!("{}/../show/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_result_of_a_benchmark_is_drawn_by_size_with_its_intervals() {
    let page = page(&[&fixture("bench-memory.json")]);
    let result = page.result.as_ref().unwrap();
    assert_eq!((result.headline.as_str(), page.host.as_str()), ("Benchmark: memory", "vm"));
    assert!(result.text.contains("Summary"), "{}", result.text);
    let bandwidth = chart(&page, "bench.bandwidth");
    let axis = bandwidth.x.as_ref().unwrap();
    assert_eq!((axis.labels[0].as_str(), axis.labels[1].as_str()), ("24 KiB (L1d)", "1 MiB (L2)"));
    let read = bandwidth.series.iter().find(|series| series.name == "read").unwrap();
    // The values of the document, with five significant digits.
    assert_eq!((read.mean[0], read.mean[1]), (Some(83_108_000_000.0), Some(63_874_000_000.0)));
    assert_eq!(read.min.as_ref().unwrap()[0], Some(82_764_000_000.0));
}

#[test]
fn the_result_of_an_experiment_has_each_pair_and_is_a_picture_too() {
    let file = fixture("try.json");
    let page = page(&[&file]);
    assert_eq!(page.result.as_ref().unwrap().headline, "Harmed: disk.read_ahead_kb@loop0=0");
    assert!(page.title.starts_with("whyslow try disk.read_ahead_kb@loop0=0, 2026-11-24 14:51:27"), "{}", page.title);
    let with = mean(chart(&page, "try.metric"), "with the change");
    assert_eq!((with.len(), with[0]), (6, Some(0.3123)));
    assert_eq!(chart(&page, "try.effect").series.last().unwrap().mean.last(), Some(&Some(-0.94261)));
    let svg = run(&[&file, "--format", "svg", "--chart", "try.effect"]);
    let svg = String::from_utf8_lossy(&svg.stdout);
    assert!(svg.contains(">by pair<") && svg.contains(">no change 1<"), "{svg}");
    let ticket = run(&[&file, "--format", "md"]);
    assert!(String::from_utf8_lossy(&ticket.stdout).contains("before → after"));
}

#[test]
fn the_result_of_trying_what_is_recommended_has_the_effect_of_each_change() {
    let folder = whyslow_testing::folder();
    let trial: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(fixture("try.json")).unwrap()).unwrap();
    let step = |changes: &str, trial: serde_json::Value, skipped: Option<&str>| serde_json::json!({ "text": "Change it", "changes": [changes], "trial": trial, "skipped": skipped });
    let walk = serde_json::json!({
        "id": "disk.readahead", "subject": { "kind": "device", "name": "loop0" }, "summary": "loop0 reads too little at once.",
        "steps": [
            step("disk.read_ahead_kb@loop0=128", trial.clone(), None),
            step("vm.swappiness=10", serde_json::Value::Null, Some("there is no such setting")),
            step("disk.scheduler@loop0=none", trial, None),
        ],
        "together": null, "interrupted": false, "kept": null,
    });
    let page = page(&[&written(folder.path(), "walk.json", &walk.to_string())]);
    let result = page.result.as_ref().unwrap();
    assert_eq!(result.headline, "loop0 reads too little at once.");
    assert!(result.text.contains("not tried: there is no such setting"), "{}", result.text);
    assert_eq!(page.title, "whyslow try --auto: disk.readahead");
    let changes = chart(&page, "try.changes");
    assert_eq!(changes.x.as_ref().unwrap().labels, ["disk.read_ahead_kb@loop0=128", "disk.scheduler@loop0=none"]);
    let effect = &changes.series[0];
    // The value of the document, with five significant digits.
    assert_eq!((effect.mean[1], effect.max.as_ref().unwrap()[1]), (Some(-0.94261), Some(-0.87529)));
    assert_eq!(chart(&page, "try.metric@2").title, "disk.scheduler@loop0=none: Run time of sh run.sh");
}

#[test]
fn a_profile_is_added_to_the_page() {
    let folder = whyslow_testing::folder();
    let profile = r#"{"schema":"whyslow.profile/1","kind":"on_cpu","process":null,"finding":null,"seconds":1.0,"hz":99,"cpus":1,
        "totals":{"idle":0,"lost":0,"programs":1,"without_user_stack":0,"unplaced":0,"cut_short":0},
        "frames":[{"function":"main","module":null,"space":"user","inlined":false}],
        "stacks":[{"process":{"pid":7,"name":"toy"},"frames":[0],"weight":1}],"blind_spots":[]}"#;
    let [sar, profile] =
        [("sar.txt", SAR), ("profile.json", profile)].map(|(name, text)| written(folder.path(), name, text));
    let page = page(&[&sar, "--profile", &profile]);
    assert_eq!(page.profile.unwrap().frames[0].function.as_deref(), Some("main"));
    let other = run(&[&sar, "--profile", &sar, "--format", "md"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&other.stderr).contains("not what 'whyslow profile --json' prints"));
}

#[test]
fn results_that_cannot_be_drawn_are_refused_in_one_line() {
    let folder = whyslow_testing::folder();
    let broken = written(folder.path(), "broken.json", r#"{"schema":"whyslow.bench/1","kind":"disk"}"#);
    let file = fixture("try.json");
    let cases: [(&[&str], &str); 4] = [
        (&[&broken, "--format", "md"], "not the result of a benchmark"),
        (&[&file, &file, "--format", "md"], "drawn by itself"),
        (&[&file, "--since", "1h", "--format", "md"], "drawn by itself"),
        (&[&file, "--chart", "try.efect", "--format", "svg"], "did you mean 'try.effect'?"),
    ];
    for (args, words) in cases {
        let out = run(args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
