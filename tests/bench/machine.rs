//! Tests of `bench memory` and `bench cpu`.

use crate::fixture::{assert_refused, report_of, whyslow};
use std::collections::BTreeSet;
use std::fs;
use whyslow_documents::baseline::{Baseline, Better};
use whyslow_documents::bench::{BenchKind, BenchReport, Study};

fn names(report: &BenchReport) -> Vec<&str> {
    report.studies.iter().map(|study| &*study.name).collect()
}

fn study<'r>(report: &'r BenchReport, name: &str) -> &'r Study {
    report.studies.iter().find(|study| study.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Asserts what holds for every figure.
fn assert_sound(report: &BenchReport) {
    assert!(!report.interrupted && report.environment.host.cpus.is_some());
    for study in &report.studies {
        assert!(!study.method.is_empty());
        let keys: BTreeSet<_> = study.figures.iter().map(|figure| (&figure.name, &figure.under)).collect();
        assert_eq!(keys.len(), study.figures.len(), "{}: two have one name", study.name);
        for figure in &study.figures {
            let [low, high] = figure.interval.unwrap();
            assert_eq!(figure.samples.len(), 10, "{figure:?}");
            assert!(0.0 < low && low <= figure.value && figure.value <= high && high.is_finite(), "{figure:?}");
            assert_eq!(figure.more_is_better, figure.unit != "s", "{figure:?}");
        }
    }
}

#[test]
fn memory_is_measured_in_every_way() {
    let report = report_of(&["memory", "--size", "1M", "--for", "10ms"]);
    assert_eq!(report.kind, BenchKind::Memory);
    assert_eq!(names(&report), ["bandwidth", "latency", "memory of nodes", "page faults"]);
    assert_sound(&report);
    let ways: BTreeSet<_> = study(&report, "bandwidth").figures.iter().map(|figure| &*figure.name).collect();
    assert!(["read", "write", "copy", "triad"].iter().all(|way| ways.contains(way)), "{ways:?}");
    let latency = study(&report, "latency");
    let small: Vec<&str> =
        latency.figures.iter().filter(|f| f.under.ends_with("KiB pages")).map(|f| &*f.name).collect();
    assert!(small.len() >= 3 && small.last().unwrap().starts_with("1 MiB"), "{small:?}");
    // A populated page needs no fault.
    let faults = study(&report, "page faults");
    assert!(faults.figures.iter().any(|figure| figure.under == "on first touch"));
}

#[test]
fn processors_are_measured_in_every_way() {
    let report = report_of(&["cpu", "--for", "10ms"]);
    assert_eq!(report.kind, BenchKind::Cpu);
    assert_eq!(names(&report), ["scaling", "waking", "context switch", "calls"]);
    assert_sound(&report);
    for figure in &study(&report, "waking").figures {
        let spread = figure.spread.as_ref().unwrap();
        assert!(spread.count > 0 && spread.min <= figure.value && figure.value <= spread.max, "{figure:?}");
    }
    let switches: BTreeSet<_> =
        study(&report, "context switch").figures.iter().map(|figure| (&*figure.name, &*figure.under)).collect();
    assert!(switches.contains(&("threads", "one cpu")) && switches.contains(&("processes", "one cpu")));
}

#[test]
fn figures_are_drawn_within_the_width() {
    let out = whyslow(&["memory", "--size", "256K", "--for", "10ms", "--width", "70"]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("Bandwidth") && text.contains("triad") && text.contains("MADV_POPULATE_WRITE"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 70), "{text}");
}

#[test]
fn what_cannot_be_asked_for_is_refused() {
    for (args, word) in [(&["memory", "--size", "1K"][..], "at least 64K"), (&["cpu", "--for", "1ms"], "at least 10ms")]
    {
        let out = whyslow(args).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(2) && said.lines().count() == 1 && said.contains(word), "{said}");
    }
    assert_refused(&["/var/tmp", "--poll", "--size", "1M", "--engine", "psync"], &["--poll"]);
}

#[test]
fn what_was_found_is_kept_under_its_name() {
    let state = whyslow_testing::folder();
    let dir = state.path().to_string_lossy();
    let save = |name: &str, more: &[&str]| {
        let args = ["memory", "--size", "64K", "--for", "10ms", "--json", "--save", name, "--dir", &dir];
        let out = whyslow(&[&args, more].concat()).output().unwrap();
        (out.status.code(), out.stdout, String::from_utf8(out.stderr).unwrap())
    };
    let (status, stdout, said) = save("may", &[]);
    assert_eq!((status, &*said), (Some(0), ""));
    let report: BenchReport = serde_json::from_slice(&stdout).expect("a report");
    let baseline: Baseline =
        serde_json::from_slice(&fs::read(state.path().join("baselines/may.json")).unwrap()).unwrap();
    assert_eq!((&*baseline.name, &baseline.start), ("may", &report.started));
    let figure = &study(&report, "latency").figures[0];
    let metric = format!("latency: {}, {}", figure.name, figure.under);
    let series = baseline.series.iter().find(|series| series.metric == metric).expect("a series for each figure");
    assert_eq!((&series.samples, series.better, &series.unit), (&figure.samples, Some(Better::Lower), &figure.unit));
    // An existing baseline is not lost, and the refusal comes before any measurement.
    for (name, word) in [("may", "--replace"), ("../may", "not a valid name")] {
        let (status, stdout, said) = save(name, &[]);
        assert!(status == Some(2) && stdout.is_empty() && said.contains(word), "{said}");
    }
    assert_eq!(save("may", &["--replace"]).0, Some(0));
}
