//! Tests of the page in Debian's Chromium, driven by playwright-core, and of the parts that need no browser. The checks are in
//! `web/tests`; `node web/tests/browser.mjs screenshots FOLDER` draws the pages that [`pages`] writes.

#[path = "../../../tests/skip/mod.rs"]
mod skip;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;
use whyslow_documents::chart::PageData;
use whyslow_show::page::html;
use whyslow_testing::ends_with_test;

const DOCUMENTS: [&str; 9] = ["recording", "live", "healthy", "capture", "empty", "result", "array", "hostile", "day"];

fn web() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web")
}

fn node(script: &str, args: &[&str]) -> Output {
    let mut node = Command::new("node");
    node.arg(web().join("tests").join(script)).args(args).stdin(Stdio::null());
    ends_with_test(&mut node).output().expect("node")
}

/// Returns the folder with a page of each document, which is written once.
fn pages() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let write = || {
        let folder = whyslow_testing::folder();
        for name in DOCUMENTS {
            let json = node("documents.mjs", &[name]).stdout;
            let page: PageData = serde_json::from_slice(&json).expect(name);
            fs::write(folder.path().join(format!("{name}.html")), html(&page)).expect("a page");
        }
        folder
    };
    FOLDER.get_or_init(write).path()
}

/// Whether a browser can be driven; skips the test if not.
fn has_browser() -> bool {
    if !skip::has_program("node") || !skip::has_program("chromium") {
        return false;
    }
    let has_packages = web().join("node_modules/playwright-core").exists();
    if !has_packages {
        skip::skip_unless_ci("needs the packages of web/package.json (scripts/install-missing.sh test)");
    }
    has_packages
}

fn passes(out: &Output) {
    let [said, wrong] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(out.status.success(), "{said}{wrong}");
}

/// Runs a scenario of `web/tests/browser.mjs`, for a report; skips if there is no browser.
fn in_browser(scenario: &str) {
    if has_browser() {
        let folder = pages().to_str().expect("a folder of ours");
        passes(&node("browser.mjs", &[scenario, folder]));
    }
}

/// Runs a scenario of `web/tests/served.mjs`, for a server's page with a stand-in for the server; skips if there is no browser.
fn served(scenario: &str) {
    if has_browser() {
        passes(&node("served.mjs", &[scenario]));
    }
}

/// Runs a scenario of `web/tests/fleet.mjs`, for a fleet's page with a stand-in for the server; skips if there is no browser.
fn fleet(scenario: &str) {
    if has_browser() {
        let out = node("fleet.mjs", &[scenario]);
        passes(&out);
        print!("{}", String::from_utf8_lossy(&out.stdout));
    }
}

#[test]
fn formats_statistics_and_words_are_right() {
    if !skip::has_program("node") {
        return;
    }
    let mut node = Command::new("node");
    node.args(["--test", "tests/units.test.mjs"]).current_dir(web()).stdin(Stdio::null());
    let out = ends_with_test(&mut node).output().expect("node");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
}

#[test]
fn the_page_opens_from_disk_and_requests_nothing() {
    in_browser("offline");
}

#[test]
fn a_healthy_machine_is_said_to_be_healthy() {
    in_browser("healthy");
}

#[test]
fn captures_show_what_to_capture_next_and_times_since_the_first_reading() {
    in_browser("captures");
}

#[test]
fn dragging_the_wheel_and_buttons_zoom_all_charts() {
    in_browser("zoom");
}

#[test]
fn dragging_moves_the_span_in_the_pan_mode() {
    in_browser("pan");
}

#[test]
fn all_charts_share_the_cursor() {
    in_browser("cursor");
}

#[test]
fn a_brushed_span_shows_what_is_different_from_before() {
    in_browser("brush");
}

#[test]
fn a_pinned_span_is_compared_with_another_and_both_are_drawn_over_each_other() {
    in_browser("pin");
}

#[test]
fn everything_works_from_the_keyboard() {
    in_browser("keyboard");
}

#[test]
fn episodes_and_changes_are_on_the_timeline() {
    in_browser("timeline");
}

#[test]
fn numbers_of_the_evidence_lead_to_their_charts() {
    in_browser("links");
}

#[test]
fn a_profile_is_a_flame_graph_that_zooms_and_is_searched() {
    in_browser("flame");
}

#[test]
fn results_are_drawn_by_queue_depth_percentile_and_pair() {
    in_browser("result");
}

#[test]
fn the_stack_is_a_diagram_in_which_the_hot_part_stands_out() {
    in_browser("stack");
}

#[test]
fn charts_and_series_are_filtered_and_what_is_left_out_is_said() {
    in_browser("filter");
}

#[test]
fn the_data_of_a_chart_is_there_as_a_table() {
    in_browser("tables");
}

#[test]
fn charts_have_data_where_there_is_some_and_gaps_where_there_is_none() {
    in_browser("pixels");
}

#[test]
fn the_page_is_light_or_dark_as_the_system_or_the_reader_wants() {
    in_browser("theme");
}

#[test]
fn the_page_fits_a_telephone() {
    in_browser("narrow");
}

#[test]
fn a_finger_zooms_too() {
    in_browser("touch");
}

#[test]
fn hostile_names_are_only_text() {
    in_browser("hostile");
}

#[test]
fn axe_finds_nothing_serious() {
    in_browser("accessible");
}

#[test]
fn on_paper_the_page_is_light_and_complete() {
    in_browser("print");
}

#[test]
fn a_day_of_ten_series_is_drawn_and_zoomed() {
    in_browser("day");
}

#[test]
fn live_charts_grow_and_slide() {
    served("live");
}

#[test]
fn a_server_is_asked_for_the_stack_and_for_a_profile() {
    served("inspect");
}

#[test]
fn the_verdict_changes_without_moving_the_reader() {
    served("verdict");
}

#[test]
fn live_charts_pause_and_stay_while_zoomed() {
    served("pause");
}

#[test]
fn a_lost_server_is_reported_and_returned_to() {
    served("lost");
}

#[test]
fn a_rejected_token_is_explained() {
    served("token");
}

#[test]
fn hosts_are_sorted_filtered_and_opened_from_the_keyboard() {
    served("hosts");
}

#[test]
fn ten_thousand_hosts_scroll() {
    served("rows");
}

#[test]
fn a_part_of_a_recording_is_chosen() {
    served("recorded");
}

#[test]
fn zooming_asks_for_finer_data() {
    served("zoom");
}

#[test]
fn charts_of_a_recording_are_asked_for_as_they_come_into_sight() {
    served("sight");
}

#[test]
fn a_machine_is_shown_live_and_recorded() {
    served("both");
}

#[test]
fn hostile_names_of_hosts_are_only_text() {
    served("hostile");
}

#[test]
fn the_page_of_a_server_fits_a_telephone() {
    served("narrow");
}

#[test]
fn axe_finds_nothing_serious_in_the_page_of_a_server() {
    served("accessible");
}

#[test]
fn hosts_are_complete_on_paper() {
    served("print");
}

#[test]
fn the_map_of_a_fleet_has_its_losses_and_its_gaps() {
    fleet("map");
}

#[test]
fn hosts_of_a_fleet_are_filtered_and_listed_as_a_table() {
    fleet("filter");
}

#[test]
fn hosts_of_a_fleet_are_grouped_and_folded() {
    fleet("groups");
}

#[test]
fn the_map_of_a_fleet_works_from_the_keyboard() {
    fleet("keyboard");
}

#[test]
fn dragging_over_the_map_shows_that_time() {
    fleet("brush");
}

#[test]
fn a_host_of_a_fleet_opens_and_leads_back() {
    fleet("host");
}

#[test]
fn findings_and_changes_of_a_fleet_lead_to_their_answers() {
    fleet("causes");
}

#[test]
fn what_a_fleets_server_refuses_and_takes_long_for_is_said() {
    fleet("failures");
}

#[test]
fn hostile_names_of_a_fleet_are_only_text() {
    fleet("hostile");
}

#[test]
fn ten_thousand_hosts_of_a_fleet_scroll() {
    fleet("rows");
}

#[test]
fn the_page_of_a_fleet_fits_a_telephone() {
    fleet("narrow");
}

#[test]
fn the_page_of_a_fleet_is_light_or_dark() {
    fleet("theme");
}

#[test]
fn axe_finds_nothing_serious_in_the_page_of_a_fleet() {
    fleet("accessible");
}
