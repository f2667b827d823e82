//! Confusion matrix of one or more runs: the actual cause against the finding that came first.

use crate::trial::{Kind, Mark, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Returns how often each kind of trial was judged correctly, and the confusion matrix.
pub fn tables(outcomes: &[Outcome]) -> String {
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

/// Returns a row for each cause or pair of causes: how often it was present, named first, and mistaken for another.
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
    use whyslow_documents::diagnosis::Confidence;

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
}
