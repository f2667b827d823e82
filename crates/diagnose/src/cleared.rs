//! What is said of a resource in which nothing was found: that it is not the cause, with the number that clears it.

use crate::expr::{Expr, Truth};
use crate::rule::RuleError;
use crate::scene::Stage;
use crate::template::Template;
use serde::Deserialize;
use whyslow_model::diagnosis::{Finding, RuledOut};

/// One such sentence.
#[derive(Debug)]
pub struct Cleared {
    resource: String,
    ids: Vec<String>,
    when: Expr,
    because: Template,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cleared: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    resource: String,
    ids: Vec<String>,
    when: String,
    because: String,
}

impl Cleared {
    /// Reads the file of them.
    ///
    /// # Errors
    /// Where it is no TOML or an expression does not compile.
    pub fn parse_all(file: &str, text: &str) -> Result<Vec<Self>, RuleError> {
        let error = |what: String| RuleError { file: file.to_owned(), line: 1, what };
        let written: File = toml::from_str(text).map_err(|e| error(e.message().to_owned()))?;
        written
            .cleared
            .into_iter()
            .map(|w| {
                Ok(Self {
                    when: Expr::compile(&w.when).map_err(error)?,
                    because: Template::parse(&w.because).map_err(error)?,
                    resource: w.resource,
                    ids: w.ids,
                })
            })
            .collect()
    }

    /// The sentence, where it holds, all its numbers are known, and nothing was found in the resource.
    pub fn judge(&self, stage: &Stage<'_>, findings: &[Finding]) -> Option<RuledOut> {
        let found = findings.iter().any(|f| self.ids.iter().any(|id| f.id.starts_with(id.as_str())));
        if found || self.when.truth(stage) != Truth::True {
            return None;
        }
        Some(RuledOut { id: self.resource.clone(), because: self.because.known(stage)? })
    }
}
