//! What stands out: numbers outside the range that is declared as normal, whether or not a cause is known; and the main numbers of
//! a capture, for those who pasted one in which nothing does.

use crate::coverage::evidence;
use crate::facts::Facts;
use crate::scope::Scope;
use crate::signal::{Entity, Signal};
use crate::since_boot;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use whyslow_documents::diagnosis::{Deviation, Evidence, Reading, Subject, SubjectFigures};
use whyslow_model::normal::Normal;

/// Maximum number of deviations in a document.
const MOST: usize = 20;
/// Maximum number of deviations of one entity.
const MOST_OF_ONE: usize = 3;
/// Maximum number of entities whose main numbers are shown, and of numbers each.
const MOST_SHOWN: (usize, usize) = (3, 7);
/// Qualifier of the formulas of numbers that stand out only there.
const IN_WORST: &str = "in the worst interval";
/// Scopes of events: each is a finding, or nothing.
const EVENTS: [Scope; 3] = [Scope::Notice, Scope::Kill, Scope::Holder];

/// A number outside its normal range.
struct Candidate<'f> {
    facts: &'f Facts,
    entity: &'f Entity,
    signal: &'f Signal,
    value: &'f Option<Reading>,
    normal: Normal,
    distance: f64,
    /// When it is outside; none if that is in all of the window.
    when: Option<&'static str>,
}

impl Candidate<'_> {
    fn is_about(&self, other: &Self) -> bool {
        self.signal.name == other.signal.name && self.entity.subject == other.entity.subject
    }

    fn deviation(self) -> Option<Deviation> {
        let number = evidence(self.facts, self.entity, self.signal, self.value)?;
        let number = Evidence { expected: self.normal.text().into_owned(), ..number };
        let number = match self.when {
            Some(when) => since_boot::since(number, when),
            None => number,
        };
        let (subject, meaning) = (self.entity.subject.clone(), self.signal.help.to_owned());
        Some(Deviation { subject, meaning, number, distance: self.distance })
    }
}

/// Returns the numbers outside their normal ranges, the furthest first: in all of the window, else in its worst interval, else
/// since boot.
pub(crate) fn deviations(facts: &Facts, worst: Option<&Facts>, since_boot: Option<&Facts>) -> Vec<Deviation> {
    let mut all = candidates(facts, None);
    let of_worst = worst.map(|worst| candidates(worst, Some(IN_WORST))).unwrap_or_default();
    let of_worst: Vec<Candidate<'_>> =
        of_worst.into_iter().filter(|one| !all.iter().any(|known| known.is_about(one))).collect();
    all.extend(of_worst);
    let is_known = |one: &Candidate<'_>| {
        let same = |(_, entity): (Scope, &Entity)| {
            entity.subject == one.entity.subject && entity.reading(one.signal.name).is_some()
        };
        all_entities(facts).any(same)
    };
    let beginning = Some(since_boot::SINCE_COUNTING_BEGAN);
    let of_boot = since_boot.map(|since_boot| candidates(since_boot, beginning)).unwrap_or_default();
    all.extend(of_boot.into_iter().filter(|one| !is_known(one)));
    let kept = largest_first(all, |one| one.distance, |one| &one.entity.subject);
    kept.into_iter().filter_map(Candidate::deviation).collect()
}

/// Returns the furthest of these deviations, and few of each entity.
pub(crate) fn furthest(all: Vec<Deviation>) -> Vec<Deviation> {
    largest_first(all, |one| one.distance, |one| &one.subject)
}

fn largest_first<T>(mut all: Vec<T>, distance: impl Fn(&T) -> f64, subject: impl Fn(&T) -> &Subject) -> Vec<T> {
    all.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
    let mut kept: Vec<T> = Vec::new();
    for one in all {
        let of_one = kept.iter().filter(|known| subject(known) == subject(&one)).count();
        if of_one < MOST_OF_ONE && kept.len() < MOST {
            kept.push(one);
        }
    }
    kept
}

fn all_entities(facts: &Facts) -> impl Iterator<Item = (Scope, &Entity)> {
    let scopes = Scope::ALL.iter().filter(|scope| !EVENTS.contains(scope));
    scopes.flat_map(|scope| facts.entities(*scope).iter().map(|entity| (*scope, entity)))
}

fn candidates<'f>(facts: &'f Facts, when: Option<&'static str>) -> Vec<Candidate<'f>> {
    let is_own = |entity: &Entity| entity.subject.pid.is_some_and(|pid| facts.observers.contains(&pid));
    let entities = all_entities(facts).filter(|(_, entity)| !entity.idle && !is_own(entity));
    let of_entity = move |(_, entity): (Scope, &'f Entity)| {
        // Unknown where only a tool's output was read.
        let is_rotational = entity.number("disk.rotational") != Some(0.0);
        entity.signals.iter().zip(&entity.values).filter_map(move |(signal, value)| {
            let Some(Reading::Number(number)) = value else { return None };
            let normal = signal.normal.on_disk(is_rotational);
            let distance = normal.distance(*number)?;
            Some(Candidate { facts, entity, signal, value, normal, distance, when })
        })
    };
    entities.flat_map(of_entity).collect()
}

/// Returns the main numbers of the most active entities of a capture, in the order in which they are declared: rates, sizes, times
/// and shares above zero.
pub(crate) fn main_figures(facts: &Facts, since_boot: Option<&Facts>) -> Vec<SubjectFigures> {
    let mut all: Vec<(Reverse<usize>, SubjectFigures)> = Vec::new();
    for (facts, is_since_boot) in [(Some(facts), false), (since_boot, true)] {
        let Some(facts) = facts else { continue };
        for (_, entity) in all_entities(facts) {
            let values = main_values(facts, entity);
            if values.is_empty() || all.iter().any(|(_, known)| known.subject == entity.subject) {
                continue;
            }
            let values = values.into_iter().map(|value| match is_since_boot {
                true => since_boot::since(value, since_boot::SINCE_COUNTING_BEGAN),
                false => value,
            });
            let values: Vec<Evidence> = values.collect();
            all.push((Reverse(values.len()), SubjectFigures { subject: entity.subject.clone(), values }));
        }
    }
    // Where nothing else was captured, the machine's other numbers are what was pasted.
    if all.is_empty() {
        let known: Vec<_> = facts.host.signals.iter().zip(&facts.host.values).collect();
        let values = above_zero(facts, &facts.host, &known);
        let subject = facts.host.subject.clone();
        all.extend((!values.is_empty()).then_some((Reverse(values.len()), SubjectFigures { subject, values })));
    }
    // The one with most to say is the most active one: what does nothing has few numbers above zero.
    all.sort_by_key(|(most, _)| *most);
    all.truncate(MOST_SHOWN.0);
    for (_, figures) in &mut all {
        figures.values.truncate(MOST_SHOWN.1);
    }
    all.into_iter().map(|(_, figures)| figures).collect()
}

fn main_values(facts: &Facts, entity: &Entity) -> Vec<Evidence> {
    let known = entity.signals.iter().zip(&entity.values);
    let (main, other): (Vec<_>, Vec<_>) = known.partition(|(signal, _)| is_main(signal));
    let values = above_zero(facts, entity, &main);
    // What a tool timed has no quantities; a number of the machine's parts alone says nothing.
    if values.is_empty() && entity.subject.kind != "host" { above_zero(facts, entity, &other) } else { values }
}

/// Returns true if a signal is a quantity, is kept in baselines, or has a normal range; others are there for rules.
fn is_main(signal: &Signal) -> bool {
    static QUANTITIES: LazyLock<BTreeSet<&'static str>> =
        LazyLock::new(|| whyslow_quantities::all().map(|quantity| quantity.name).collect());
    signal.baseline || signal.normal.range.is_some() || QUANTITIES.contains(signal.name)
}

fn above_zero(facts: &Facts, entity: &Entity, known: &[(&Signal, &Option<Reading>)]) -> Vec<Evidence> {
    let mut values: Vec<Evidence> = Vec::new();
    for (signal, value) in known {
        let Some(Reading::Number(number)) = value else { continue };
        // Where all requests are reads, their rate is that of the reads.
        let is_new = !values.iter().any(|known| known.value == Reading::Number(*number) && known.unit == signal.unit);
        if *number > 0.0 && signal.unit != "flag" && is_new {
            values.extend(evidence(facts, entity, signal, value));
        }
    }
    values
}
