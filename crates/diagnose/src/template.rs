//! Sentences and commands with numbers filled in.
//!
//! `{disk.queue}` is a signal, made human; `{subject}` and `{culprit}` are names; `{= limit.max * 1.5}` is a formula,
//! written as a whole number, for settings.

use crate::expr::Expr;
use crate::scene::Stage;
use std::collections::BTreeSet;
use whyslow_model::diagnosis::Reading;
use whyslow_model::human;

/// A parsed template.
#[derive(Debug)]
pub struct Template(Vec<Piece>);

#[derive(Debug)]
enum Piece {
    Text(String),
    Name(String),
    Formula(Expr),
}

/// How names are written into the text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// For people to read.
    Prose,
    /// For a shell: names are hostile and quoted.
    Command,
}

impl Template {
    /// Parses `source`.
    ///
    /// # Errors
    /// An open brace that is not closed, or a formula that does not compile.
    pub fn parse(source: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = source;
        while let Some((text, tail)) = rest.split_once('{') {
            let (inside, tail) = tail.split_once('}').ok_or_else(|| format!("'{{' without '}}' in {source:?}"))?;
            pieces.push(Piece::Text(text.to_owned()));
            pieces.push(match inside.strip_prefix('=') {
                Some(formula) => Piece::Formula(Expr::compile(formula)?),
                None => Piece::Name(inside.trim().to_owned()),
            });
            rest = tail;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }

    /// The signals it reads.
    pub fn names(&self) -> BTreeSet<String> {
        self.0
            .iter()
            .flat_map(|p| match p {
                Piece::Text(_) => BTreeSet::new(),
                Piece::Name(name) => BTreeSet::from([name.clone()]),
                Piece::Formula(formula) => formula.names(),
            })
            .collect()
    }

    /// A sentence with everything filled in; what is not known is written so.
    pub fn prose(&self, stage: &Stage<'_>) -> String {
        self.fill(stage, Style::Prose).map(|piece| piece.unwrap_or_else(|| "unknown".into())).collect()
    }

    /// The sentence, where everything in it is known.
    pub fn known(&self, stage: &Stage<'_>) -> Option<String> {
        self.fill(stage, Style::Prose).collect()
    }

    /// A command or setting with everything filled in; `None` where something is not known: half a command is none.
    pub fn command(&self, stage: &Stage<'_>) -> Option<String> {
        self.fill(stage, Style::Command).collect()
    }

    fn fill(&self, stage: &Stage<'_>, style: Style) -> impl Iterator<Item = Option<String>> {
        self.0.iter().map(move |piece| match piece {
            Piece::Text(text) => Some(text.clone()),
            Piece::Formula(formula) => formula.number(stage).map(|n| format!("{:.0}", n.round())),
            Piece::Name(name) => stage.reading(name).map(|reading| write(reading, stage.unit(name), style)),
        })
    }
}

fn write(reading: &Reading, unit: &str, style: Style) -> String {
    match (reading, style) {
        (Reading::Text(text), Style::Command) => quoted(text),
        (Reading::Text(text), Style::Prose) => text.clone(),
        (Reading::Number(n), Style::Command) => format!("{n:.0}"),
        (Reading::Number(n), Style::Prose) => human::quantity(*n, unit),
    }
}

/// A word as a POSIX shell takes it literally.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuleBook;
    use crate::signal::Scope;

    #[test]
    fn hostile_names_stay_one_word_in_a_shell() {
        assert_eq!(quoted("sda"), "sda");
        assert_eq!(quoted("a; rm -rf /"), "'a; rm -rf /'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    /// A sentence on the screen holds few numbers; the rest is evidence.
    #[test]
    fn a_summary_has_at_most_three_numbers() {
        for rule in RuleBook::built_in().all() {
            let sight = [rule.scope, Scope::Host];
            let signals = || sight.iter().flat_map(|scope| scope.signals());
            let is_number = |piece: &&Piece| match piece {
                Piece::Text(_) => false,
                Piece::Formula(_) => true,
                Piece::Name(name) => signals().find(|s| s.name == name).is_some_and(|s| s.unit != "text"),
            };
            let literal = |piece: &Piece| match piece {
                Piece::Text(text) => {
                    text.split(' ').filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).count()
                }
                _ => 0,
            };
            let pieces = &rule.summary.0;
            let numbers = pieces.iter().filter(is_number).count() + pieces.iter().map(literal).sum::<usize>();
            assert!(numbers <= 3, "{} ({:?}): {numbers} numbers: {pieces:?}", rule.id, rule.scope);
        }
    }

    #[test]
    fn an_open_brace_is_an_error() {
        assert!(Template::parse("a {b").is_err());
        assert!(Template::parse("a {= 1 + }").is_err());
        assert_eq!(Template::parse("{a.b} {= c.d * 2.0}").unwrap().names().len(), 2);
    }
}
