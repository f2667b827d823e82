//! Tests of the page of `whyslow serve` in Debian's Chromium, with this machine, a recorded day, a machine with a
//! hostile name, and 200 recordings. `web/tests/serve.mjs` has the checks; `WHYSLOW_SCREENSHOTS=FOLDER cargo test
//! --test serve_page screenshots` takes screenshots.

mod recorded;
mod skip;

use recorded::{one_of_six, record, record_judged, two_cpus};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use whyslow_diagnose::{RuleBook, recorded_findings};
use whyslow_model::catalogue::MachineInfo;
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;
use whyslow_store::Judge;
use whyslow_testing::{HttpServer, UrlOn, ends_with_test};

const SECOND: u64 = 1_000_000_000;
/// 2026-11-21 00:00:00 UTC.
const START: i64 = 1_795_219_200 * SECOND as i64;
/// Seconds between the samples of the day.
const STEP: u64 = 10;
/// Seconds from the start with more work than processors.
const BUSY: std::ops::Range<u64> = 6 * 3600..6 * 3600 + 1800;
/// The same strings as in `web/tests/documents.mjs`.
const ATTACK: &str = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>";
const OVERRIDE: &str = "a\u{202e}gnp.exe\u{2028}\u{7}";

/// Returns a sample, after this many seconds, of a machine with two CPUs that is idle outside the busy time.
fn sample(t: u64, name: &str, process: &str) -> Snapshot {
    let busy = t.clamp(BUSY.start, BUSY.end) - BUSY.start;
    let mut s = two_cpus(t, START + (t * SECOND) as i64, busy);
    for pid in 0..6 {
        s.task.process.push(one_of_six(100 + pid, process, 50_000, busy));
    }
    let machine = MachineInfo { name: name.into(), boot: "b00t".into(), ..MachineInfo::new(MachineKey) };
    s.kernel.machine.push(machine);
    s.sort();
    s
}

/// Judges by the built-in rules while the machine is busy; otherwise there is nothing to find, and a day would take
/// long.
fn judge() -> Judge {
    let book = RuleBook::built_in();
    let rules = book.fingerprint();
    let is_busy = |window: &Window| {
        let at = window.last().map_or(0, |last| (last.wall_ns - START) / SECOND as i64);
        (BUSY.start as i64 - 60..BUSY.end as i64 + 60).contains(&at)
    };
    let findings = move |window: &Window| if is_busy(window) { recorded_findings(window, &book) } else { Vec::new() };
    Judge { rules, findings: Box::new(findings) }
}

/// Returns a folder with the recordings of a day and of a machine with a hostile name, in memory if possible.
fn two_recordings() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let write = || {
        let folder = recorded::folder();
        record_judged(&folder.path().join("day"), 86_400 / STEP, judge(), |t| sample(t * STEP, "day", "spin"));
        record(&folder.path().join("other"), 20, |t| sample(BUSY.start + t, ATTACK, OVERRIDE));
        folder
    };
    FOLDER.get_or_init(write).path()
}

/// Creates a folder with 200 recordings.
fn many_recordings() -> tempfile::TempDir {
    let folder = recorded::folder();
    for number in 0..200 {
        let name = format!("web{number}");
        record(&folder.path().join(&name), 3, |t| sample(t, &name, "spin"));
    }
    folder
}

fn web() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web")
}

/// Starts a server of these recordings, without BPF, which takes most of the start time.
fn server(recordings: &Path) -> HttpServer {
    let config = whyslow_testing::folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--no-bpf"]).arg(recordings);
    command.env("XDG_CONFIG_HOME", config.path()).env("TZ", "UTC");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    HttpServer::start(&mut command, UrlOn::Stdout)
}

/// Runs a scenario of `web/tests/serve.mjs` with the two recordings; skips if there is no browser.
fn in_browser(scenario: &str) {
    with_recordings(scenario, two_recordings, &[]);
}

fn with_recordings<F: AsRef<Path>>(scenario: &str, recordings: impl Fn() -> F, more: &[&str]) {
    if !skip::has_program("node") || !skip::has_program("chromium") {
        return;
    }
    if !web().join("node_modules/playwright-core").exists() {
        return skip::skip_unless_ci("needs the packages of web/package.json (scripts/install-missing.sh test)");
    }
    let recordings = recordings();
    let server = server(recordings.as_ref());
    let url = format!("http://{}/{}", server.address, server.path);
    let mut node = Command::new("node");
    node.arg(web().join("tests/serve.mjs")).args([scenario, &url]).args(more).stdin(Stdio::null());
    let out = ends_with_test(&mut node).output().expect("node");
    let [said, wrong] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text));
    print!("{said}");
    assert!(out.status.success(), "{said}{wrong}");
}

#[test]
fn a_live_machine_grows_and_pauses() {
    in_browser("live");
}

#[test]
fn a_recorded_day_has_its_episode_and_its_periods() {
    in_browser("recorded");
}

#[test]
fn zooming_into_a_day_gets_finer_data() {
    in_browser("zoom");
}

#[test]
fn an_episode_is_compared_with_what_was_before() {
    in_browser("brush");
}

#[test]
fn a_wrong_token_and_pages_of_others_are_refused() {
    in_browser("refused");
}

#[test]
fn hostile_names_are_only_text() {
    in_browser("hostile");
}

#[test]
fn two_hundred_recordings_are_listed_and_scroll() {
    with_recordings("hosts", many_recordings, &[]);
}

#[test]
fn a_day_is_drawn() {
    in_browser("day");
}

#[test]
fn axe_finds_nothing_serious() {
    in_browser("accessible");
}

#[test]
fn screenshots() {
    if let Ok(folder) = std::env::var("WHYSLOW_SCREENSHOTS") {
        with_recordings("screenshots", two_recordings, &[&folder]);
    }
}
