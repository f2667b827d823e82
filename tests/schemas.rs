//! Tests that the JSON documents follow their schemas, `docs/schema/NAME.json`; fields may be added to a schema, but
//! not removed.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use whyslow_documents::{
    baseline, bench, chart, comparison, diagnosis, expectation, explanation, io_stack, listing, overview, profile, tune,
};
use whyslow_model::catalogue;
use whyslow_testing::documents::{assert_kept, assert_valid, assert_valid_as, file_name, schema};

mod recorded;

/// Returns every document with its own version number, and the schema of its type.
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

/// Returns the documents that do not name their schema: lists, and the output of tuning (docs/json.md).
fn unnamed_documents() -> Vec<(&'static str, Value)> {
    vec![
        ("whyslow.baselines/1", schema::<Vec<baseline::Listed>>()),
        ("whyslow.formats/1", schema::<Vec<listing::FormatInfo>>()),
        ("whyslow.metrics/1", schema::<Vec<catalogue::FamilyInfo>>()),
        ("whyslow.recorded/1", schema::<explanation::Recorded>()),
        ("whyslow.rules/1", schema::<Vec<listing::RuleInfo>>()),
        ("whyslow.rule/1", schema::<listing::RuleDetails>()),
        ("whyslow.shipped/1", schema::<explanation::Shipped>()),
        ("whyslow.try.prepared/1", schema::<tune::PreparedChange>()),
        ("whyslow.try.rehearsal/1", schema::<tune::Rehearsal>()),
        ("whyslow.try.trial/1", schema::<tune::Trial>()),
        ("whyslow.try.trials/1", schema::<Vec<tune::Trial>>()),
        ("whyslow.try.walk/1", schema::<tune::Walk>()),
        ("whyslow.tune.change/1", schema::<tune::HistoryEntry>()),
        ("whyslow.tune.checks/1", schema::<Vec<tune::CheckLine>>()),
        ("whyslow.tune.confirmed/1", schema::<Vec<u64>>()),
        ("whyslow.tune.history/1", schema::<Vec<tune::HistoryEntry>>()),
        ("whyslow.tune.import/1", schema::<tune::ImportedProfile>()),
        ("whyslow.tune.list/1", schema::<Vec<tune::TunableDocument>>()),
        ("whyslow.tune.plan/1", schema::<tune::PlanDocument>()),
        ("whyslow.tune.profile/1", schema::<tune::ProfilePlan>()),
        ("whyslow.tune.profiles/1", schema::<Vec<tune::ProfileInfo>>()),
        ("whyslow.tune.recommend/1", schema::<Vec<tune::Recommendation>>()),
        ("whyslow.tune.tunable/1", schema::<tune::TunableDocument>()),
        ("whyslow.tune.undone/1", schema::<Vec<tune::Undoing>>()),
        ("whyslow.tune.values/1", schema::<BTreeMap<String, String>>()),
    ]
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

#[test]
fn fields_are_added_to_documents_and_none_is_removed() {
    for (id, schema) in documents().into_iter().chain(unnamed_documents()) {
        assert_kept(id, &schema);
    }
}

/// The page of the manual has a row for each document.
#[test]
fn each_document_is_in_the_manual() {
    let page = std::fs::read_to_string(root().join("docs/json.md")).unwrap();
    for (id, _) in documents().into_iter().chain(unnamed_documents()) {
        assert!(page.contains(&format!("(schema/{})", file_name(id))), "docs/json.md lacks {id}");
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
    // All files would take a minute.
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

#[test]
fn documents_of_lists_and_settings_are_as_their_schemas_say() {
    for (id, args) in [
        ("whyslow.formats/1", &["formats", "--json"][..]),
        ("whyslow.metrics/1", &["metrics", "--json"]),
        ("whyslow.rules/1", &["rules", "--json"]),
        ("whyslow.rule/1", &["rules", "disk.saturated", "--json"]),
        ("whyslow.try.rehearsal/1", &["try", "vm.swappiness=10", "--dry-run", "--json", "--", "true"]),
        ("whyslow.try.trials/1", &["tune", "trials", "--json"]),
        ("whyslow.tune.checks/1", &["tune", "--json"]),
        ("whyslow.tune.history/1", &["tune", "history", "--json"]),
        ("whyslow.tune.import/1", &["tune", "import", "web-server", "--json"]),
        ("whyslow.tune.list/1", &["tune", "list", "--json"]),
        ("whyslow.tune.plan/1", &["tune", "set", "vm.swappiness=10", "--dry-run", "--json"]),
        ("whyslow.tune.profile/1", &["tune", "diff", "web-server", "--json"]),
        ("whyslow.tune.profiles/1", &["tune", "profiles", "--json"]),
        ("whyslow.tune.recommend/1", &["tune", "recommend", "--json"]),
        ("whyslow.tune.tunable/1", &["tune", "show", "vm.swappiness", "--json"]),
        ("whyslow.tune.values/1", &["tune", "get", "vm.swappiness", "--json"]),
    ] {
        assert_valid_as(id, &args.join(" "), &written(args));
    }
}

/// Start of the recording, in seconds since 1970.
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
