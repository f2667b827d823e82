//! What is said of a resource in which nothing was found: that it is not the cause, with the number that clears it.

use crate::expr::Expr;
use crate::rule::{RuleError, SourceText};
use crate::rule_context::RuleContext;
use crate::scope::Scope;
use crate::template::Template;
use serde::Deserialize;
use whyslow_model::diagnosis::{Finding, RuledOut};

/// One such sentence.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cleared {
    resource: String,
    /// How the ids of findings begin that say otherwise.
    ids: Vec<String>,
    when: Expr,
    unless: Option<Expr>,
    because: Template,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClearedFile {
    cleared: Vec<Cleared>,
}

impl Cleared {
    /// Reads the file of them.
    ///
    /// # Errors
    /// The text is not TOML, an expression does not compile, or a signal does not exist.
    pub fn parse_all(file: &str, text: &str) -> Result<Vec<Self>, RuleError> {
        let source = SourceText { file, text };
        let ClearedFile { cleared } = source.parse()?;
        for Self { when, unless, because, .. } in &cleared {
            let names = [when].into_iter().chain(unless).map(Expr::spanned_names).chain([because.spanned_names()]);
            names.into_iter().try_for_each(|names| source.check(names, &[Scope::Host]))?;
        }
        Ok(cleared)
    }

    /// The sentence, if it holds, all its numbers are known, and nothing was found in the resource. An `unless` whose numbers
    /// are unknown forbids nothing.
    pub fn judge(&self, context: &RuleContext<'_>, findings: &[Finding]) -> Option<RuledOut> {
        let found = findings.iter().any(|f| self.ids.iter().any(|id| f.id.starts_with(id.as_str())));
        let forbidden = self.unless.as_ref().is_some_and(|unless| unless.holds(context));
        if found || forbidden || !self.when.holds(context) {
            return None;
        }
        Some(RuledOut { id: self.resource.clone(), because: self.because.known(context)? })
    }
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
        let error =
            |from: &str, to: &str| Cleared::parse_all("c.toml", &TWO.replace(from, to)).unwrap_err().to_string();
        assert_eq!(Cleared::parse_all("c.toml", TWO).unwrap().len(), 2);
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
