//! The confusion matrix of one or more runs: what was there, and what was found first.

use crate::error::{Context, Error, Result};
use crate::trial::{Kind, Mark, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The table stands between these lines.
const BEGIN: &str = "<!-- lab: written by `whyslow-lab matrix` -->\n";
const END: &str = "<!-- end of lab -->\n";

/// Writes the tables of these runs, printed with --json, into a document.
///
/// # Errors
/// If a run cannot be read, or the document has no place for the tables.
pub fn write(runs: &[PathBuf], document: &Path) -> Result<()> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    for run in runs {
        let text = fs::read(run).context(run.display())?;
        let run: Vec<Outcome> = serde_json::from_slice(&text).context(run.display())?;
        outcomes.extend(run);
    }
    let text = fs::read_to_string(document).context(document.display())?;
    let no_place = || Error::failed(format!("{}: no line {}", document.display(), BEGIN.trim_end()));
    let (before, rest) = text.split_once(BEGIN).ok_or_else(no_place)?;
    let (_, after) = rest.split_once(END).ok_or_else(no_place)?;
    fs::write(document, format!("{before}{BEGIN}{}{END}{after}", tables(&outcomes))).context(document.display())
}

/// How often each kind of trial was judged rightly, and the confusion matrix.
fn tables(outcomes: &[Outcome]) -> String {
    let judged: Vec<&Outcome> = outcomes.iter().filter(|o| o.mark != Mark::Skipped && o.kind.is_diagnosed()).collect();
    format!("{}\n{}", summary(&judged), matrix(&judged))
}

fn summary(judged: &[&Outcome]) -> String {
    let mut text =
        "| | trials | seeds | runs | right | confident and wrong |\n| --- | --- | --- | --- | --- | --- |\n".to_owned();
    let mut groups: BTreeMap<(Option<&str>, Kind), Vec<&Outcome>> = BTreeMap::new();
    for outcome in judged {
        groups.entry((outcome.without.map(|blind| blind.name()), outcome.kind)).or_default().push(outcome);
    }
    for ((without, kind), outcomes) in groups {
        let distinct = |of: fn(&Outcome) -> String| outcomes.iter().map(|o| of(o)).collect::<BTreeSet<_>>().len();
        let right = outcomes.iter().filter(|o| o.mark == Mark::Right).count();
        let confident = outcomes.iter().filter(|o| o.is_confidently_wrong()).count();
        let without = without.map_or(String::new(), |what| format!(", without {what}"));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {}{without} | {} | {} | {} | {right} ({}) | {confident} |",
            kind.plural(),
            distinct(|o| o.name.clone()),
            distinct(|o| o.seed.to_string()),
            outcomes.len(),
            percent(right, outcomes.len()),
        );
    }
    text
}

/// A row for each cause, or pair of causes: how often it was there, named first, and taken for something else.
fn matrix(judged: &[&Outcome]) -> String {
    let mut rows: BTreeMap<(usize, String), Vec<&Outcome>> = BTreeMap::new();
    for outcome in judged.iter().filter(|o| o.without.is_none()) {
        rows.entry((outcome.causes.len(), outcome.causes.join(" + "))).or_default().push(outcome);
    }
    let mut text =
        "| what was wrong | runs | named first | named later | otherwise first |\n| --- | --- | --- | --- | --- |\n"
            .to_owned();
    for ((_, cause), outcomes) in rows {
        let cause = if cause.is_empty() { "nothing" } else { &cause };
        let (first, others): (Vec<&Outcome>, Vec<&Outcome>) = outcomes.iter().partition(|o| o.is_cause_first());
        let later = others.iter().filter(|o| o.found.iter().any(|found| o.causes.contains(&found.id))).count();
        let mut instead: BTreeMap<&str, usize> = BTreeMap::new();
        for other in &others {
            *instead.entry(other.found.first().map_or("nothing", |found| &found.id)).or_default() += 1;
        }
        let instead: Vec<String> = instead.iter().map(|(id, count)| format!("{id} {count}")).collect();
        let _ = writeln!(text, "| {cause} | {} | {} | {later} | {} |", outcomes.len(), first.len(), instead.join(", "));
    }
    text
}

fn percent(part: usize, whole: usize) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blind::Blind;
    use crate::trial::Found;
    use whyslow_model::diagnosis::Confidence;

    fn outcome(kind: Kind, name: &str, seed: u64, causes: &[&str], found: &[&str]) -> Outcome {
        let mark =
            if causes.contains(found.first().unwrap_or(&"")) || causes == found { Mark::Right } else { Mark::Wrong };
        let found = found.iter().map(|id| Found { id: (*id).into(), confidence: Confidence::High, is_effect: false });
        let (found, causes) = (found.collect(), causes.iter().map(|id| (*id).to_owned()).collect());
        Outcome { kind, causes, found, mark, ..Outcome::before(name, seed) }
    }

    #[test]
    fn each_cause_is_counted_by_what_was_found_first() {
        let saturated = |seed, found: &[&str]| outcome(Kind::Fault, "a", seed, &["disk.saturated"], found);
        let both = ["disk.saturated", "net.loss"];
        let runs = [
            saturated(1, &["disk.saturated"]),
            saturated(2, &["disk.small_io", "disk.saturated"]),
            Outcome { name: "b".into(), ..saturated(1, &[]) },
            outcome(Kind::Control, "c", 1, &[], &[]),
            outcome(Kind::Control, "c", 2, &[], &["cpu.steal"]),
            Outcome { mark: Mark::Skipped, ..saturated(3, &[]) },
            Outcome { without: Some(Blind::Psi), ..saturated(1, &["disk.saturated"]) },
            outcome(Kind::Compound, "d", 1, &both, &["net.loss", "disk.saturated"]),
        ];
        let expected = "\
| | trials | seeds | runs | right | confident and wrong |
| --- | --- | --- | --- | --- | --- |
| single faults | 2 | 2 | 3 | 1 (33.3 %) | 1 |
| compound faults | 1 | 1 | 1 | 1 (100.0 %) | 0 |
| healthy controls | 1 | 2 | 2 | 1 (50.0 %) | 1 |
| single faults, without PSI | 1 | 1 | 1 | 1 (100.0 %) | 0 |

| what was wrong | runs | named first | named later | otherwise first |
| --- | --- | --- | --- | --- |
| nothing | 2 | 1 | 0 | cpu.steal 1 |
| disk.saturated | 3 | 1 | 1 | disk.small_io 1, nothing 1 |
| disk.saturated + net.loss | 1 | 1 | 0 |  |
";
        assert_eq!(tables(&runs), expected);
    }

    #[test]
    fn the_tables_are_written_between_their_marks() {
        let dir = whyslow_testing::folder();
        let (run, document) = (dir.path().join("run.json"), dir.path().join("accuracy.md"));
        let outcomes = [outcome(Kind::Control, "c", 1, &[], &[])];
        fs::write(&run, serde_json::to_string(&outcomes).unwrap()).unwrap();
        fs::write(&document, format!("# Title\n{BEGIN}old\n{END}end\n")).unwrap();
        for _ in 0..2 {
            write(std::slice::from_ref(&run), &document).unwrap();
            let expected = format!("# Title\n{BEGIN}{}{END}end\n", tables(&outcomes));
            assert_eq!(fs::read_to_string(&document).unwrap(), expected);
        }
        fs::write(&document, "no marks\n").unwrap();
        assert!(write(&[run], &document).is_err());
    }
}
