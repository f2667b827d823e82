//! The JSON documents keep to their schemas, `docs/schema/NAME.json`, to which fields are added and from which none is removed.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use whyslow_model::{
    baseline, bench, chart, comparison, diagnosis, expectation, explanation, io_stack, overview, profile,
};
use whyslow_testing::documents::{assert_kept, assert_valid, schema};

mod recorded;

/// Every document with a number of its own, and the type that it is written from.
fn documents() -> Vec<(&'static str, Value)> {
    vec![
        (baseline::SCHEMA, schema::<baseline::Baseline>()),
        (bench::SCHEMA, schema::<bench::BenchReport>()),
        (bench::DroppedCaches::SCHEMA, schema::<bench::DroppedCaches>()),
        (comparison::SCHEMA, schema::<comparison::Comparison>()),
        (diagnosis::SCHEMA, schema::<diagnosis::Diagnosis>()),
        (expectation::SCHEMA, schema::<expectation::Expectations>()),
        (explanation::SCHEMA, schema::<explanation::Explanation>()),
        (io_stack::SCHEMA, schema::<io_stack::IoStack>()),
        (overview::SCHEMA, schema::<overview::Overview>()),
        (profile::SCHEMA, schema::<profile::StackProfile>()),
        (chart::SCHEMA, schema::<chart::PageData>()),
    ]
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

#[test]
fn fields_are_added_to_documents_and_none_is_removed() {
    for (id, schema) in documents() {
        assert_kept(id, &schema);
    }
}

fn written(args: &[&str]) -> Vec<u8> {
    let out = Command::new(env!("CARGO_BIN_EXE_whyslow")).args(args).output().expect("whyslow runs");
    assert!(!out.stdout.is_empty(), "whyslow {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr));
    out.stdout
}

#[test]
fn diagnoses_of_captures_are_as_their_schema_says() {
    let folder = std::fs::read_dir(root().join("crates/import/tests/fixtures")).unwrap();
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    files.sort();
    let mut count = 0;
    // All of them take a minute.
    for file in files.iter().step_by(4) {
        let out = Command::new(env!("CARGO_BIN_EXE_whyslow")).args(["read", "--json"]).arg(file).output().unwrap();
        if out.status.success() {
            assert_valid(&file.display().to_string(), &out.stdout);
            count += 1;
        }
    }
    assert!(count > 30, "only {count} captures were diagnosed");
}

#[test]
fn documents_of_this_machine_are_as_their_schemas_say() {
    for args in [
        &["--json", "--for", "1s", "--no-bpf"][..],
        &["stack", "--json"],
        &["expect", "--json", "--for", "1s"],
        &["bench", "cpu", "--json", "--for", "10ms"],
    ] {
        assert_valid(&args.join(" "), &written(args));
    }
}

/// When the recording begins, seconds since 1970.
const START: i64 = 1_795_279_400;

#[test]
fn documents_of_a_recording_are_as_their_schemas_say() {
    let dir = recorded::folder();
    recorded::record(dir.path(), 121, |t| {
        let at = START + i64::try_from(t).unwrap();
        recorded::two_cpus(t, at * 1_000_000_000, t.saturating_sub(60))
    });
    let dir = dir.path().to_str().unwrap();
    for args in [
        &["explain", "--json", "--dir", dir][..],
        &["report", "--format", "json", "--dir", dir],
        &["compare", "--json", dir, dir],
    ] {
        assert_valid(&args.join(" "), &written(args));
    }
}
