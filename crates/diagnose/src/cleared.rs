//! What is said of a resource in which nothing was found: that it is not the cause, with the number that clears it; or, if
//! none does, what stands out.

use crate::expr::Expr;
use crate::judge::is_felt;
use crate::rule::{RuleError, SourceText};
use crate::rule_context::RuleContext;
use crate::scope::Scope;
use crate::template::Template;
use serde::Deserialize;
use whyslow_model::diagnosis::{Finding, NotCleared, RuledOut};

/// The sentences about all resources.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resources {
    cleared: Vec<Sentence>,
    #[serde(default)]
    not_cleared: Vec<Sentence>,
}

/// One sentence about a resource.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sentence {
    resource: String,
    /// How the ids of findings begin that say otherwise.
    ids: Vec<String>,
    when: Expr,
    unless: Option<Expr>,
    because: Template,
    /// Whether it is only said of captures. Live, what it is about is always seen, and judged by more.
    #[serde(default)]
    captured: bool,
}

impl Resources {
    /// Reads the file of them.
    ///
    /// # Errors
    /// The text is not TOML, an expression does not compile, or a signal does not exist.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Self, RuleError> {
        let source = SourceText { file, text };
        let resources: Self = source.parse()?;
        for Sentence { when, unless, because, .. } in resources.cleared.iter().chain(&resources.not_cleared) {
            let names = [when].into_iter().chain(unless).map(Expr::spanned_names).chain([because.spanned_names()]);
            names.into_iter().try_for_each(|names| source.check(names, &[Scope::Host]))?;
        }
        Ok(resources)
    }

    /// The resources in which nothing was found and that a number clears: of each the first sentence that holds.
    pub(crate) fn ruled_out(&self, context: &RuleContext<'_>, findings: &[Finding]) -> Vec<RuledOut> {
        let sentences = self.cleared.iter().filter(|s| !s.is_found(findings) && s.holds(context));
        let all = sentences.filter_map(|s| Some((s.resource.clone(), s.because.known(context)?)));
        first_of_each(all).into_iter().map(|(id, because)| RuledOut { id, because }).collect()
    }

    /// The resources that no number clears, with the number that stands out.
    ///
    /// Something was found in a resource if its time was felt: a suspicion explains nothing.
    pub(crate) fn not_cleared(
        &self,
        context: &RuleContext<'_>,
        findings: &[Finding],
        is_captured: bool,
    ) -> Vec<NotCleared> {
        let is_cleared = |resource: &str| self.cleared.iter().any(|s| s.resource == resource && s.holds(context));
        let felt = || findings.iter().filter(|finding| is_felt(finding));
        let sentences = self.not_cleared.iter().filter(|s| !is_cleared(&s.resource) && (is_captured || !s.captured));
        let sentences = sentences.filter(|s| !s.is_found(felt()) && s.holds(context));
        let all = sentences.filter_map(|s| Some((s.resource.clone(), s.because.known(context)?)));
        first_of_each(all).into_iter().map(|(id, because)| NotCleared { id, because }).collect()
    }
}

impl Sentence {
    /// An `unless` whose numbers are unknown forbids nothing.
    fn holds(&self, context: &RuleContext<'_>) -> bool {
        self.when.holds(context) && !self.unless.as_ref().is_some_and(|unless| unless.holds(context))
    }

    fn is_found<'f>(&self, findings: impl IntoIterator<Item = &'f Finding>) -> bool {
        findings.into_iter().any(|f| self.ids.iter().any(|id| f.id.starts_with(id.as_str())))
    }
}

/// The first sentence about each resource, in their order.
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
unless = "mem.exhausted_in < 900.0"
because = "{mem.available} available"
"#;

    #[test]
    fn what_is_wrong_is_reported_with_its_line() {
        let error = |from: &str, to: &str| Resources::parse("c.toml", &TWO.replace(from, to)).unwrap_err().to_string();
        assert_eq!(Resources::parse("c.toml", TWO).unwrap().cleared.len(), 2);
        assert_eq!(
            error("stall.memory", "stall.memroy"),
            "c.toml:11: there is no signal \"stall.memroy\" in scope host"
        );
        assert_eq!(error("mem.exhausted_in", "mem.lasts"), "c.toml:12: there is no signal \"mem.lasts\" in scope host");
        assert_eq!(error("{mem.available}", "{mem.free}"), "c.toml:13: there is no signal \"mem.free\" in scope host");
        assert_eq!(error("{cpu.busy} busy", "{disk.wait}"), "c.toml:6: there is no signal \"disk.wait\" in scope host");
        assert!(error("< 0.05", "<").starts_with("c.toml:11: "));
        assert!(error("{mem.available}", "{mem.available").starts_with("c.toml:13: "));
        assert!(error("unless", "unles").starts_with("c.toml:12: "));
    }
}
