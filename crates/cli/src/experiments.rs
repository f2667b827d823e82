//! Treats captures of the same objects as experiments: what was changed between them, and with what result.

use crate::output::Failure;
use crate::pseudonymise::PseudonymSession;
use crate::read::{ReadArgs, captures};
use std::path::Path;
use whyslow_compare::{
    add_stated_changes, conclusions, conclusions_within, differ_in_options, differ_in_settings, disks_at_ceiling,
    from_both_ends, inventory, of_capture,
};
use whyslow_diagnose::{all_signals, known_signals};
use whyslow_documents::baseline::Baseline;
use whyslow_documents::diagnosis::{CaptureComparison, Diagnosis, Finding};
use whyslow_import::Capture;
use whyslow_model::settings::tell_a_change;
use whyslow_model::window::Window;

/// Maximum number of pairs that are compared; nobody reads more.
const MOST_PAIRS: usize = 20;
/// Finding that promises a gain from more requests in flight.
const DEPTH_ONE: &str = "disk.depth_one";
/// Maximum number of intervals of one capture; in a longer one, consecutive intervals are combined.
const MOST_INTERVALS: usize = 128;

/// Adds the results of comparing the captures to their diagnosis.
pub fn add(captures: &[Capture], diagnosis: &mut Diagnosis) {
    diagnosis.comparisons = comparisons(captures, diagnosis);
    for comparison in &diagnosis.comparisons {
        let side = |label: &String| captures.iter().find(|capture| capture.label() == *label).map(summed_up);
        let Some((a, b)) = side(&comparison.a).zip(side(&comparison.b)) else { continue };
        let at_ceiling = disks_at_ceiling(&a, &b);
        let is_of_them = |finding: &&mut Finding| {
            let Finding { id, subject, .. } = &**finding;
            id == DEPTH_ONE && at_ceiling.contains(&subject.name)
        };
        // The captures together have measured what one of them promises.
        for action in diagnosis.findings.iter_mut().filter(is_of_them).flat_map(|finding| &mut finding.actions) {
            (action.expect, action.gain) = (None, None);
        }
    }
}

/// Compares each capture with the next one of the same objects if there is evidence that a setting was changed between
/// them, unless they come from two hosts or one shows the other side of the same load.
///
/// Compares runs within one capture that differ in one option with each other. Of captures of two hosts, says which runs are those
/// of one connection.
fn comparisons(captures: &[Capture], diagnosis: &Diagnosis) -> Vec<CaptureComparison> {
    let own = captures.iter().take(MOST_PAIRS).filter_map(|capture| {
        let conclusions = conclusions_within(&summed_up(capture));
        let label = capture.label();
        (!conclusions.is_empty()).then_some(CaptureComparison { a: label.clone(), b: label, conclusions })
    });
    let (elsewhere, pairs): (Vec<_>, Vec<_>) =
        captures.windows(2).partition(|pair| pair[0].is_of_another_host(&pair[1]));
    let both_ends = elsewhere.into_iter().take(MOST_PAIRS).filter_map(|pair| {
        let [a, b] = [&pair[0], &pair[1]].map(|capture| known_signals(&capture.window));
        let conclusions = from_both_ends(&a, &b);
        let [a, b] = [&pair[0], &pair[1]].map(Capture::label);
        (!conclusions.is_empty()).then_some(CaptureComparison { a, b, conclusions })
    });
    let compared = pairs.into_iter().take(MOST_PAIRS).filter_map(|pair| {
        let [a, b] = [&pair[0], &pair[1]].map(Capture::label);
        let are_layers = diagnosis.findings.iter().any(|finding| is_across(finding, &a, &b));
        let mut sides = [&pair[0], &pair[1]].map(summed_up);
        let stated = add_stated_changes(&mut sides, [&pair[0].settings, &pair[1].settings]);
        let [before, after] = sides;
        let is_experiment = stated
            || tell_a_change(&a, &b)
            || differ_in_settings(&before, &after)
            || differ_in_options(&before, &after);
        let conclusions = if is_experiment { conclusions(&before, &after) } else { Vec::new() };
        (!conclusions.is_empty() && !are_layers).then_some(CaptureComparison { a, b, conclusions })
    });
    compared.chain(own).chain(both_ends).collect()
}

/// Returns whether a finding explains the content of one capture by the other.
fn is_across(finding: &Finding, a: &str, b: &str) -> bool {
    let capture = finding.subject.capture.as_deref();
    let other = if capture == Some(a) { b } else { a };
    [a, b].iter().any(|one| capture == Some(one))
        && finding.explains.iter().any(|key| key.ends_with(&format!(" in {other}")))
}

/// Summarizes a capture's intervals.
fn summed_up(capture: &Capture) -> Baseline {
    let snapshots = capture.window.snapshots();
    let length = snapshots.len().div_ceil(MOST_INTERVALS).max(1);
    let bounds = (0..snapshots.len()).step_by(length).collect::<Vec<_>>();
    let intervals = bounds.windows(2).map(|ends| {
        let window = Window::new(snapshots[ends[0]..=ends[1]].to_vec());
        (window.seconds(), known_signals(&window))
    });
    of_capture(
        all_signals(),
        inventory(&capture.window),
        &intervals.collect::<Vec<_>>(),
        &known_signals(&capture.window),
    )
}

/// Loads a file of captures as one side of a comparison.
///
/// # Errors
/// Fails if nothing in it can be read, or if it contains several captures of the same objects.
pub fn of_file(path: &Path, names: &PseudonymSession) -> Result<Baseline, Failure> {
    let captures = captures(&ReadArgs::of_files(vec![path.to_owned()]))
        .map_err(|failure| Failure::usage(format!("{failure} (it is not a baseline or a benchmark either)")))?;
    let captures = names.captures(captures);
    match &captures[..] {
        [capture] => Ok(summed_up(capture)),
        [] => Err(Failure::usage(format!("{}: nothing in it can be compared", path.display()))),
        several => Err(Failure::usage(format!(
            "{}: contains {} captures of the same things, but each side of a comparison must be one capture; 'whyslow read' compares them with each other",
            path.display(),
            several.len()
        ))),
    }
}
