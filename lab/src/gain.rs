//! Tries the setting that a diagnosis recommends while the fault still runs, and compares the promised gain with the
//! measured one.

use crate::error::{Context, Error, Result};
use crate::observer::Observer;
use crate::testbed::Testbed;
use crate::trial::{Outcome, Trial};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use std::time::Duration;
use whyslow_documents::diagnosis::{Action, Finding};
use whyslow_documents::tune::{self, Promise};

/// Arguments of `try`: long enough for six pairs of a second and a half each.
const OPTIONS: [&str; 10] = ["try", "--json", "--pairs", "6", "--noise-pairs", "0", "--settle", "1s", "--for", "32s"];
/// Time limit of a trial, including its start.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Minimum share of the promises that must be kept.
const KEPT: f64 = 0.8;

/// Result of the setting that a finding recommended.
#[derive(Debug, Serialize, Deserialize)]
pub struct TriedFix {
    /// Settings as `NAME@THING=VALUE`.
    pub changes: Vec<String>,
    /// Measured signal.
    pub metric: String,
    pub promised: Option<Promise>,
    pub measured: Factor,
}

/// Factor by which the metric improved, with its interval.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Factor {
    pub factor: f64,
    pub low: f64,
    pub high: f64,
}

impl TriedFix {
    /// Returns whether the measured factor is within 30 % of the promised one; `None` without a promise.
    fn is_near(&self) -> Option<bool> {
        Some(self.promised?.is_near(self.measured.factor))
    }

    /// Returns the settings without the entities that have them.
    fn settings(&self) -> String {
        let name = |change: &String| change.split(['@', '=']).next().unwrap_or_default().to_owned();
        self.changes.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

impl Display for TriedFix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Factor { factor, low, high } = self.measured;
        let kept = match self.is_near() {
            None => "no promise",
            Some(true) => "kept",
            Some(false) => "NOT KEPT",
        };
        let promised = self.promised.map_or_else(String::new, |promise| format!(", promised {}", in_words(&promise)));
        let (changes, metric) = (self.changes.join(" "), &self.metric);
        write!(f, "{kept}{promised}, measured {factor:.2} ({low:.2} to {high:.2}): {changes}, by {metric}")
    }
}

fn in_words(promise: &Promise) -> String {
    match promise.high {
        None => format!("at least {:.2}", promise.factor),
        Some(high) => format!("{:.2} ({:.2} to {high:.2})", promise.factor, promise.low),
    }
}

/// Tries the setting that the expected finding recommends first. Returns `None` if it was not found first or recommends
/// none.
///
/// # Errors
/// Fails if the trial fails.
pub fn tried(observer: &Observer, bed: &Testbed, trial: &Trial, findings: &[Finding]) -> Result<Option<TriedFix>> {
    let Some(words) = findings.first().filter(|first| trial.finding == Some(&*first.id)).and_then(words_to_try) else {
        return Ok(None);
    };
    let args: Vec<&str> = OPTIONS.into_iter().chain(words.iter().map(String::as_str)).collect();
    let answer = observer.run(bed, &args, None, TIMEOUT).context(words.join(" "))?;
    let tune::Trial { changes, metric, promised, effect, .. } = serde_json::from_slice(&answer).context("the trial")?;
    let effect = effect.ok_or_else(|| Error::failed("the trial measured nothing"))?;
    let [factor, low, high] = [effect.better, effect.low, effect.high].map(|better| 1.0 + better);
    Ok(Some(TriedFix { changes, metric, promised, measured: Factor { factor, low, high } }))
}

/// Returns the arguments after `whyslow try` of the first action that begins so; leaves out those for another network
/// namespace, and those that affect only new processes, which cannot be tried on running ones.
fn words_to_try(finding: &Finding) -> Option<Vec<String>> {
    let words = |action: &Action| shlex::split(action.try_command.as_ref()?);
    let mut all = finding.actions.iter().filter_map(words);
    let words = all.find_map(|words| Some(words.strip_prefix(&["whyslow".to_owned(), "try".to_owned()])?.to_vec()))?;
    (!words.contains(&"--before".to_owned())).then_some(words)
}

/// Returns the number of promises that were kept, and of all that were made.
fn kept<'o>(fixes: impl Iterator<Item = &'o TriedFix>) -> (usize, usize) {
    let near: Vec<bool> = fixes.filter_map(TriedFix::is_near).collect();
    (near.iter().filter(|near| **near).count(), near.len())
}

fn fixes(outcomes: &[Outcome]) -> impl Iterator<Item = &TriedFix> {
    outcomes.iter().filter_map(|outcome| outcome.fix.as_ref())
}

/// Returns whether enough promises were kept.
pub fn is_kept(outcomes: &[Outcome]) -> bool {
    let (kept, made) = kept(fixes(outcomes));
    kept as f64 >= KEPT * made as f64
}

/// Returns the score as a sentence.
pub fn summary(outcomes: &[Outcome]) -> String {
    let (kept, made) = kept(fixes(outcomes));
    let tried = fixes(outcomes).count();
    let share = if made == 0 { String::new() } else { format!(" ({:.0} %)", 100.0 * kept as f64 / made as f64) };
    format!("{tried} fixes tried; {made} had a promised gain, and {kept} of these{share} were within 30 % of it.")
}

/// Returns the score for a document, with a row for each cause and setting.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut rows: BTreeMap<(String, String), Vec<&TriedFix>> = BTreeMap::new();
    for outcome in outcomes {
        if let Some(fix) = &outcome.fix {
            rows.entry((outcome.causes.join(" + "), fix.settings())).or_default().push(fix);
        }
    }
    let mut text = format!(
        "{}\n\n| cause | setting | tried | promised | within 30 % | within the bounds | promised → measured |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
        summary(outcomes)
    );
    for ((cause, settings), fixes) in rows {
        let (near, made) = kept(fixes.iter().copied());
        let promises = || fixes.iter().filter_map(|fix| Some((fix.promised?, fix.measured.factor)));
        let within = promises().filter(|(promise, measured)| promise.is_kept_by(*measured)).count();
        let each: Vec<String> =
            promises().map(|(promise, measured)| format!("{} → {measured:.2}", in_words(&promise))).collect();
        let each = if each.is_empty() { "no promise".to_owned() } else { each.join("; ") };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {cause} | {settings} | {} | {made} | {near} | {within} | {each} |", fixes.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::diagnosis::ActionKind;

    fn fix(promised: Option<(f64, f64, Option<f64>)>, factor: f64) -> Outcome {
        let promised = promised.map(|(factor, low, high)| Promise { factor, low, high });
        let measured = Factor { factor, low: factor, high: factor };
        let changes = vec!["disk.read_ahead_kb@loop1=1280".to_owned()];
        let fix = TriedFix { changes, metric: "disk.read_rate@loop1 in bytes/s".into(), promised, measured };
        Outcome { causes: vec!["disk.readahead".into()], fix: Some(fix), ..Outcome::before("a", 1) }
    }

    #[test]
    fn a_promise_is_kept_within_thirty_per_cent_and_one_without_a_bound_by_anything_more() {
        let outcomes = [
            fix(Some((10.0, 8.0, Some(12.0))), 7.1),
            fix(Some((10.0, 4.0, Some(12.0))), 6.9),
            fix(Some((10.0, 9.0, None)), 50.0),
            fix(None, 3.0),
        ];
        let row = "| disk.readahead | disk.read_ahead_kb | 4 | 3 | 2 | 3 | 10.00 (8.00 to 12.00) → 7.10; \
                   10.00 (4.00 to 12.00) → 6.90; at least 10.00 → 50.00 |\n";
        assert!(table(&outcomes).ends_with(row), "{}", table(&outcomes));
        let sentence = "4 fixes tried; 3 had a promised gain, and 2 of these (67 %) were within 30 % of it.";
        assert!(summary(&outcomes) == sentence && !is_kept(&outcomes));
        assert!(is_kept(&outcomes[..1]) && is_kept(&outcomes[3..]));
    }

    #[test]
    fn the_first_setting_that_can_be_tried_is_tried() {
        let action = |command: &str| Action {
            kind: ActionKind::Tunable,
            text: String::new(),
            set: BTreeMap::new(),
            try_command: Some(command.into()),
            expect: None,
            gain: None,
        };
        let of = |commands: &[&str]| {
            let actions = commands.iter().map(|command| action(command)).collect();
            words_to_try(&Finding { actions, ..Finding::default() })
        };
        let words = of(&["ss -tinp", "whyslow try --yes 'a@b c'=1 --metric +d"]).unwrap();
        assert_eq!(words, ["--yes", "a@b c=1", "--metric", "+d"]);
        assert_eq!(of(&["whyslow tune set a=1"]), None);
        assert_eq!(of(&["whyslow try a=1 --before --metric +d"]), None);
        assert_eq!(of(&["ip netns exec blue whyslow try a=1 --metric +d"]), None);
    }
}
