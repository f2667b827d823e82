//! Statements about a resource without findings: that it is not the cause, with the number that clears it; or, if none does,
//! what stands out.

use crate::expr::Expr;
use crate::rule::{RuleError, SourceText};
use crate::rule_context::RuleContext;
use crate::scope::Scope;
use crate::template::Template;
use serde::Deserialize;
use whyslow_documents::diagnosis::{Finding, NotCleared, RuledOut};

/// Sentences about all resources.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resources {
    cleared: Vec<Sentence>,
    #[serde(default)]
    not_cleared: Vec<Sentence>,
}

/// A sentence about one resource.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sentence {
    resource: String,
    /// Prefixes of the ids of findings that contradict it.
    ids: Vec<String>,
    when: Expr,
    because: Template,
    /// Whether it applies to captures only. On a live machine, its subject is always visible, and judged by more.
    #[serde(default)]
    captured: bool,
    /// Whether a clearing sentence takes precedence over it. Otherwise nothing clears the resource while this holds.
    #[serde(default)]
    unless_cleared: bool,
}

impl Resources {
    /// Parses the file of sentences.
    ///
    /// # Errors
    /// Fails if the text is not TOML. If the source is checked, also fails if an expression does not compile or a signal does
    /// not exist.
    pub(crate) fn parse(source: &SourceText<'_>) -> Result<Self, RuleError> {
        let resources: Self = source.parse()?;
        if source.is_checked {
            for Sentence { when, because, .. } in resources.cleared.iter().chain(&resources.not_cleared) {
                let names = [when.spanned_names(), because.spanned_names()];
                names.into_iter().try_for_each(|names| source.check(names, &[Scope::Host]))?;
            }
        }
        Ok(resources)
    }

    /// Returns the resources without findings that a number clears, each with the first sentence that holds.
    pub(crate) fn ruled_out(&self, context: &RuleContext<'_>, findings: &[Finding]) -> Vec<RuledOut> {
        let sentences = self.clearing(context).filter(|s| !s.is_found(findings));
        let all = sentences.filter_map(|s| Some((s.resource.clone(), s.because.known(context)?)));
        first_of_each(all).into_iter().map(|(id, because)| RuledOut { id, because }).collect()
    }

    /// Returns the resources that no number clears, with the number that stands out.
    ///
    /// A resource counts as found if a finding's time was felt: a suspicion explains nothing.
    pub(crate) fn not_cleared(
        &self,
        context: &RuleContext<'_>,
        findings: &[Finding],
        is_captured: bool,
    ) -> Vec<NotCleared> {
        let is_cleared = |resource: &str| self.clearing(context).any(|s| s.resource == resource);
        let felt = || findings.iter().filter(|finding| finding.is_felt());
        let sentences = self.not_cleared.iter().filter(|s| s.when.holds(context) && !s.is_found(felt()));
        let sentences = sentences.filter(|s| is_captured || !s.captured);
        let sentences = sentences.filter(|s| !s.unless_cleared || !is_cleared(&s.resource));
        let all = sentences.filter_map(|s| Some((s.resource.clone(), s.because.known(context)?)));
        first_of_each(all).into_iter().map(|(id, because)| NotCleared { id, because, during: None }).collect()
    }

    /// Returns true if a cause was found in a resource, and its time was felt.
    pub(crate) fn is_found(&self, resource: &str, findings: &[Finding]) -> bool {
        let felt = || findings.iter().filter(|finding| finding.is_felt());
        self.cleared.iter().any(|sentence| sentence.resource == resource && sentence.is_found(felt()))
    }

    /// Iterates over the sentences that clear a resource in which nothing stands out.
    fn clearing<'r>(&'r self, context: &RuleContext<'_>) -> impl Iterator<Item = &'r Sentence> {
        let stands_out = |s: &&Sentence| !s.unless_cleared && s.when.holds(context);
        let not: Vec<&str> = self.not_cleared.iter().filter(stands_out).map(|s| &*s.resource).collect();
        self.cleared.iter().filter(move |s| !not.contains(&&*s.resource) && s.when.holds(context))
    }
}

impl Sentence {
    fn is_found<'f>(&self, findings: impl IntoIterator<Item = &'f Finding>) -> bool {
        findings.into_iter().any(|f| self.ids.iter().any(|id| f.id.starts_with(id.as_str())))
    }
}

/// Returns the first sentence about each resource, in order.
fn first_of_each(sentences: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (resource, because) in sentences {
        if all.iter().all(|(known, _)| *known != resource) {
            all.push((resource, because));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::Entity;
    use whyslow_documents::diagnosis::Subject;

    const TWO: &str = r#"
[[cleared]]
resource = "cpu"
ids = ["cpu."]
when = "cpu.busy < 0.5"
because = "CPUs {cpu.busy} busy"

[[cleared]]
resource = "memory"
ids = ["mem."]
when = "stall.memory < 0.05"
because = "{mem.available} available"

[[not_cleared]]
resource = "memory"
ids = ["mem."]
when = "mem.exhausted_in < 900.0"
because = "none left in {mem.exhausted_in}"

[[not_cleared]]
resource = "memory"
ids = ["mem."]
unless_cleared = true
when = "mem.available_share < 0.5"
because = "half is available"
"#;

    /// Returns what clears the memory of a machine with these signals, and what stands out.
    fn of_memory(signals: &[(&str, f64)]) -> [Vec<String>; 2] {
        let mut host = Entity::unknown(Subject::host());
        host.signals = Scope::Host.signals();
        host.values = vec![None; host.signals.len()];
        for (signal, value) in [("mem.available", 1e9)].iter().chain(signals) {
            host.set(signal, Some(*value));
        }
        let (resources, context) =
            (Resources::parse(&SourceText::checked("c.toml", TWO)).unwrap(), RuleContext::new(&host, &host));
        let cleared = resources.ruled_out(&context, &[]).into_iter().map(|r| r.because);
        let stands_out = resources.not_cleared(&context, &[], false).into_iter().map(|n| n.because);
        [cleared.collect(), stands_out.collect()]
    }

    #[test]
    fn nothing_clears_a_resource_in_which_something_stands_out() {
        let said = |cleared: &[&str], stands_out: &[&str]| {
            [cleared, stands_out].map(|all| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        let calm = ("stall.memory", 0.0);
        assert_eq!(of_memory(&[calm]), said(&["954 MiB available"], &[]));
        assert_eq!(of_memory(&[calm, ("mem.exhausted_in", 60.0)]), said(&[], &["none left in 60 s"]));
        assert_eq!(of_memory(&[calm, ("mem.exhausted_in", 3600.0)]), said(&["954 MiB available"], &[]));
    }

    #[test]
    fn what_is_said_unless_it_is_cleared_clears_nothing_away() {
        let share = ("mem.available_share", 0.4);
        assert_eq!(of_memory(&[share, ("stall.memory", 0.0)])[1], [""; 0]);
        assert_eq!(of_memory(&[share, ("stall.memory", 0.5)])[1], ["half is available"]);
    }

    #[test]
    fn what_is_wrong_is_reported_with_its_line() {
        let error = |from: &str, to: &str| {
            let text = TWO.replace(from, to);
            Resources::parse(&SourceText::checked("c.toml", &text)).unwrap_err().to_string()
        };
        assert_eq!(Resources::parse(&SourceText::checked("c.toml", TWO)).unwrap().cleared.len(), 2);
        assert_eq!(
            error("stall.memory", "stall.memroy"),
            "c.toml:11: there is no signal \"stall.memroy\" in scope host"
        );
        assert_eq!(
            error("mem.exhausted_in <", "mem.lasts <"),
            "c.toml:17: there is no signal \"mem.lasts\" in scope host"
        );
        assert_eq!(error("{mem.available}", "{mem.free}"), "c.toml:12: there is no signal \"mem.free\" in scope host");
        assert_eq!(error("{cpu.busy} busy", "{disk.wait}"), "c.toml:6: there is no signal \"disk.wait\" in scope host");
        assert!(error("< 0.05", "<").starts_with("c.toml:11: "));
        assert!(error("{mem.available}", "{mem.available").starts_with("c.toml:12: "));
        assert!(error("unless_cleared", "unless").starts_with("c.toml:23: "));
    }
}
