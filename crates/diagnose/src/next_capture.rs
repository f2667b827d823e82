//! Chooses the one capture that would decide between the causes that remain possible, and says what each outcome would mean.
//!
//! The possible captures are data (`rules/next_capture.toml`). An outcome is open while none of the signals that it shows is
//! known. Its weight is the rank of the finding that it would decide, or the strength of the suspicion that the known signals
//! raise. The capture with the heaviest open outcome wins.

use crate::expr::Expr;
use crate::facts::Facts;
use crate::rule::{RuleError, SourceText};
use crate::rule_context::RuleContext;
use crate::scope::Scope;
use crate::signal::Entity;
use crate::template::Template;
use serde::Deserialize;
use toml::Spanned;
use whyslow_documents::diagnosis::{CaptureOutcome, Confidence, Finding, NextCapture, Verdict};

/// Maximum number of outcomes listed for one capture.
const MOST_OUTCOMES: usize = 3;
/// Maximum number of entities of a scope for which a capture is considered.
const MOST_ENTITIES: usize = 100;

/// Factor for the weight of a mere suspicion.
const SUSPECTED: f64 = 0.9;

/// Sort key of a capture: the weight of its heaviest outcome, whether it is about one entity alone, and the total weight of all
/// outcomes.
type Weight = (f64, bool, f64);

/// All captures of `rules/next_capture.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NextCaptures {
    capture: Vec<CaptureSpec>,
}

/// A command and what its output can show.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaptureSpec {
    /// Entities that the capture is about.
    #[serde(default = "host")]
    scope: Scope,
    command: Template,
    /// Condition under which the capture makes sense; always if absent.
    when: Option<Expr>,
    outcome: Vec<OutcomeSpec>,
    otherwise: Template,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutcomeSpec {
    /// Prefixes of the ids of findings that the outcome confirms or refutes.
    #[serde(default)]
    decides: Vec<String>,
    /// Signals that the outcome shows.
    shows: Vec<Spanned<String>>,
    when: Option<Expr>,
    /// Evidence for the outcome, each from 0 to 1; the largest known value counts.
    #[serde(default)]
    suspicion: Vec<Expr>,
    #[serde(rename = "if")]
    condition: Template,
    then: Template,
}

fn host() -> Scope {
    Scope::Host
}

impl CaptureSpec {
    fn check(&self, source: &SourceText<'_>) -> Result<(), RuleError> {
        let scopes = [self.scope, Scope::Host];
        let conditions = self.when.iter().chain(self.outcome.iter().flat_map(OutcomeSpec::expressions));
        let texts = [&self.command, &self.otherwise];
        let texts = texts.into_iter().chain(self.outcome.iter().flat_map(|o| [&o.condition, &o.then]));
        let mut names = conditions.map(Expr::spanned_names).chain(texts.map(Template::spanned_names));
        names.try_for_each(|names| source.check(names, &scopes))?;
        let shown = self.outcome.iter().flat_map(|outcome| &outcome.shows);
        shown.into_iter().try_for_each(|signal| source.check_signal(signal, Scope::ALL))
    }
}

impl NextCaptures {
    /// Parses the file of captures.
    ///
    /// # Errors
    /// Fails if the text is not TOML. If the source is checked, also fails if an expression does not compile or a signal does
    /// not exist.
    pub(crate) fn parse(source: &SourceText<'_>) -> Result<Self, RuleError> {
        let captures: Self = source.parse()?;
        if source.is_checked {
            captures.capture.iter().try_for_each(|capture| capture.check(source))?;
        }
        Ok(captures)
    }

    /// Returns the capture that decides most; `None` if the answer is certain or no capture would decide anything.
    pub(crate) fn choose(
        &self,
        facts: &Facts,
        since_boot: Option<&Facts>,
        verdict: Verdict,
        findings: &[Finding],
    ) -> Option<NextCapture> {
        let is_certain = match verdict {
            Verdict::Healthy => true,
            Verdict::Bottleneck => findings.first().is_none_or(|first| first.confidence == Confidence::High),
            Verdict::Undetermined => false,
        };
        if is_certain {
            return None;
        }
        // A capture about something else does not put a finding in doubt.
        let least = if findings.first().is_some_and(Finding::is_felt) { 1.0 } else { 0.0 };
        let mut best: Option<(Weight, NextCapture)> = None;
        for capture in &self.capture {
            for entity in capture.entities(facts, since_boot) {
                if let Some((weight, next)) = capture.open(entity, facts, findings, least)
                    && best.as_ref().is_none_or(|(most, _)| weight > *most)
                {
                    best = Some((weight, next));
                }
            }
        }
        best.map(|(_, next)| next)
    }
}

impl CaptureSpec {
    /// Returns the entities that the capture can be about: those of now, and those that only the counts since boot show.
    fn entities<'f>(&self, facts: &'f Facts, since_boot: Option<&'f Facts>) -> Vec<&'f Entity> {
        if self.scope == Scope::Host {
            return vec![&facts.host];
        }
        let now = facts.entities(self.scope);
        let earlier = since_boot.into_iter().flat_map(|facts| facts.entities(self.scope));
        let only_earlier = earlier.filter(|entity| now.iter().all(|own| own.subject != entity.subject));
        now.iter().chain(only_earlier).take(MOST_ENTITIES).collect()
    }

    /// Returns the capture with its open outcomes and their weight; `None` if no outcome is open, or if none weighs at least
    /// `least`.
    fn open(&self, entity: &Entity, facts: &Facts, findings: &[Finding], least: f64) -> Option<(Weight, NextCapture)> {
        let context = RuleContext::new(entity, &facts.host);
        if self.when.as_ref().is_some_and(|when| !when.holds(&context)) {
            return None;
        }
        let weighed = self.outcome.iter().filter(|outcome| outcome.is_open(entity, facts, &context));
        let weighed = weighed.map(|outcome| (outcome.weight(self.scope, entity, &context, findings), outcome));
        let mut outcomes: Vec<(f64, CaptureOutcome)> =
            weighed.filter(|(weight, _)| *weight > 0.0).filter_map(|(w, o)| Some((w, o.known(&context)?))).collect();
        outcomes.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        outcomes.truncate(MOST_OUTCOMES);
        let (most, _) = outcomes.first().filter(|(weight, _)| *weight >= least)?;
        let weight = (*most, self.scope != Scope::Host, outcomes.iter().map(|(weight, _)| weight).sum());
        let next = NextCapture {
            host: None,
            command: self.command.command(&context)?,
            outcomes: outcomes.into_iter().map(|(_, outcome)| outcome).collect(),
            otherwise: self.otherwise.known(&context)?,
        };
        Some((weight, next))
    }
}

impl OutcomeSpec {
    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.when.iter().chain(&self.suspicion)
    }

    /// Returns true if none of the signals that the outcome shows is known yet.
    fn is_open(&self, entity: &Entity, facts: &Facts, context: &RuleContext<'_>) -> bool {
        let is_known = |name: &str| {
            let own = entity.signals.iter().any(|signal| signal.name == name);
            let has_it = |scope: &&Scope| scope.signals().iter().any(|signal| signal.name == name);
            let elsewhere = Scope::ALL.iter().filter(has_it).flat_map(|scope| facts.entities(*scope));
            match own {
                true => facts.host.reading(name).is_some() || is_now(entity, facts) && entity.reading(name).is_some(),
                false => elsewhere.into_iter().any(|entity| entity.reading(name).is_some()),
            }
        };
        self.when.as_ref().is_none_or(|when| when.holds(context))
            && !self.shows.iter().any(|signal| is_known(signal.get_ref()))
    }

    /// Returns how much depends on the outcome. The first finding counts in full.
    fn weight(&self, scope: Scope, entity: &Entity, context: &RuleContext<'_>, findings: &[Finding]) -> f64 {
        let causes = findings.iter().filter(|finding| finding.explained_by.is_none()).enumerate();
        let decided = causes.filter(|(_, finding)| {
            finding.confidence < Confidence::High
                && self.decides.iter().any(|id| finding.id.starts_with(id.as_str()))
                && (scope == Scope::Host || finding.subject == entity.subject)
        });
        let found = decided.map(|(at, _)| 1.0 / (at as f64 + 1.0)).fold(0.0, f64::max);
        let suspected = self.suspicion.iter().filter_map(|suspicion| suspicion.number(context)).fold(0.0, f64::max);
        // A suspicion weighs less than a finding.
        found.max(SUSPECTED * suspected.min(1.0))
    }

    fn known(&self, context: &RuleContext<'_>) -> Option<CaptureOutcome> {
        let (condition, then) = (self.condition.known(context)?, self.then.known(context)?);
        Some(CaptureOutcome { condition, then, decides: self.decides.clone() })
    }
}

/// Returns true if the entity is known now, not only since boot.
fn is_now(entity: &Entity, facts: &Facts) -> bool {
    std::ptr::eq(entity, &facts.host) || facts.entities.values().flatten().any(|own| std::ptr::eq(own, entity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuleBook;
    use std::collections::BTreeSet;

    const ONE: &str = r#"
[[capture]]
command = "mpstat -P ALL 1 10"
otherwise = "every task has a CPU"
[[capture.outcome]]
decides = ["cpu.saturated"]
shows = ["cpu.count"]
suspicion = ["cpu.busy"]
if = "it lists fewer CPUs than {cpu.runnable}"
then = "tasks queue"
"#;

    #[test]
    fn what_is_wrong_is_reported_with_its_line() {
        let error = |from: &str, to: &str| {
            let text = ONE.replace(from, to);
            NextCaptures::parse(&SourceText::checked("n.toml", &text)).unwrap_err().to_string()
        };
        assert_eq!(NextCaptures::parse(&SourceText::checked("n.toml", ONE)).unwrap().capture.len(), 1);
        let unknown = |name: &str| format!("there is no signal \"{name}\" in scope host");
        assert_eq!(error("[\"cpu.busy\"]", "[\"cpu.bussy\"]"), format!("n.toml:8: {}", unknown("cpu.bussy")));
        assert_eq!(error("{cpu.runnable}", "{disk.wait}"), format!("n.toml:9: {}", unknown("disk.wait")));
        assert!(error("\"cpu.count\"", "\"cpu.counts\"").starts_with("n.toml:7: there is no signal"));
        assert!(error("otherwise", "else").starts_with("n.toml:4: "));
    }

    #[test]
    fn nearly_every_suspicion_has_a_capture_that_decides_it_and_every_capture_a_suspicion() {
        let book = RuleBook::built_in();
        let ids: BTreeSet<&str> = book.all().iter().map(|rule| rule.id.as_str()).collect();
        let outcomes = || book.next_captures.capture.iter().flat_map(|capture| &capture.outcome);
        // A database names the statement or the lock itself; an oops names the place of the crash.
        let is_decided = |id: &str| outcomes().any(|o| o.decides.iter().any(|start| id.starts_with(start.as_str())));
        let undecided: Vec<&&str> = ids.iter().filter(|id| !is_decided(id)).collect();
        assert!(undecided.len() * 10 < ids.len(), "{undecided:?} of {}", ids.len());
        let is_known = |start: &String| ids.iter().any(|id| id.starts_with(start.as_str()));
        let unknown: Vec<&String> = outcomes().flat_map(|o| &o.decides).filter(|start| !is_known(start)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
