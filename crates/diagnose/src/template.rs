//! Sentences and commands with numbers filled in.
//!
//! `{disk.queue}` is a signal in human-readable form; `{disk.queue|request|requests}` agrees with its number, and for a rate it
//! is '203 requests/s'; `{subject}` and `{culprit}` are names; `{= limit.max * 1.5}` is a formula, written as a whole number,
//! for settings. Text in brackets is left out if something in it is unknown: `killed[ by {kill.invoked_by}]`.

use crate::expr::{Expr, SpannedNames};
use crate::rule_context::RuleContext;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::collections::BTreeSet;
use toml::Spanned;
use whyslow_documents::diagnosis::Reading;
use whyslow_model::human;

/// A parsed template.
#[derive(Debug)]
pub struct Template {
    pieces: Vec<Piece>,
    /// Byte offset of its start in its file.
    at: usize,
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::spanned(&Spanned::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Name(String),
    Count { name: String, one: String, many: String },
    Formula(Expr),
    Optional(Template),
}

/// How names are written into the text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// For people to read.
    Prose,
    /// For a shell: names are hostile and quoted.
    Command,
    /// For a setting: names and numbers as they are.
    Setting,
}

impl Template {
    /// Parses `source`.
    ///
    /// # Errors
    /// Fails if an open brace or bracket is not closed.
    pub fn parse(source: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = source;
        while let Some(at) = rest.find(['{', '[']) {
            let (open, close) = if rest[at..].starts_with('{') { ('{', '}') } else { ('[', ']') };
            let inside = &rest[at + 1..];
            let (inside, tail) =
                inside.split_once(close).ok_or_else(|| format!("'{open}' without '{close}' in {source:?}"))?;
            pieces.push(Piece::Text(rest[..at].to_owned()));
            pieces.push(if open == '[' { Piece::Optional(Self::parse(inside)?) } else { Piece::parse(inside)? });
            rest = tail;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self { pieces, at: 0 })
    }

    /// Parses a text of a file; fails like [`parse`](Self::parse).
    pub fn spanned(source: &Spanned<String>) -> Result<Self, String> {
        Ok(Self { at: source.span().start, ..Self::parse(source.get_ref())? })
    }

    /// Returns the signals that it reads, and the offset of its start.
    pub(crate) fn spanned_names(&self) -> SpannedNames {
        self.checked_names().map(|names| (self.at, names)).map_err(|what| (self.at, what))
    }

    /// Returns the signals that it reads; none if a formula in it does not compile.
    pub fn names(&self) -> BTreeSet<String> {
        self.checked_names().unwrap_or_default()
    }

    fn checked_names(&self) -> Result<BTreeSet<String>, String> {
        let mut names = BTreeSet::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(_) => {}
                Piece::Name(name) | Piece::Count { name, .. } => drop(names.insert(name.clone())),
                Piece::Formula(formula) => names.extend(formula.checked_names()?),
                Piece::Optional(template) => names.extend(template.checked_names()?),
            }
        }
        Ok(names)
    }

    /// Returns the text as `whyslow rules` shows it: names and formulas in angle brackets, nouns in the plural.
    pub fn described(&self) -> String {
        let described = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Name(name) => format!("<{name}>"),
            Piece::Count { name, many, .. } => format!("<{name}> {many}"),
            Piece::Formula(formula) => format!("<{}>", formula.source().trim()),
            Piece::Optional(part) => part.described(),
        };
        self.pieces.iter().map(described).collect()
    }

    /// Returns the sentences with everything filled in. Leaves out sentences with unknown values; returns `None` if that leaves
    /// none.
    pub fn prose(&self, context: &RuleContext<'_>) -> Option<String> {
        let mut sentences = vec![Some(String::new())];
        for (piece, filled) in self.pieces.iter().zip(self.fill(context, Style::Prose)) {
            // Only the rule's own text ends a sentence, not a name that is filled in.
            let parts: Vec<Option<&str>> = match (piece, &filled) {
                (Piece::Text(text), _) => text.split_inclusive(". ").map(Some).collect(),
                (_, filled) => vec![filled.as_deref()],
            };
            for part in parts {
                let last = sentences.last_mut().expect("it begins with one");
                *last = last.take().zip(part).map(|(sentence, part)| sentence + part);
                if matches!(piece, Piece::Text(_)) && part.is_some_and(|part| part.ends_with(". ")) {
                    sentences.push(Some(String::new()));
                }
            }
        }
        let known: String = sentences.into_iter().flatten().collect();
        Some(known.trim_end().to_owned()).filter(|text| !text.is_empty())
    }

    /// Returns the sentence if everything in it is known.
    pub fn known(&self, context: &RuleContext<'_>) -> Option<String> {
        self.fill(context, Style::Prose).collect()
    }

    /// Returns a command with everything filled in; `None` if something is unknown.
    pub fn command(&self, context: &RuleContext<'_>) -> Option<String> {
        self.fill(context, Style::Command).collect()
    }

    /// Returns a setting's name or value, or a metric, with everything filled in; `None` if something is unknown.
    pub fn setting(&self, context: &RuleContext<'_>) -> Option<String> {
        self.fill(context, Style::Setting).collect()
    }

    fn fill(&self, context: &RuleContext<'_>, style: Style) -> impl Iterator<Item = Option<String>> {
        self.pieces.iter().map(move |piece| piece.fill(context, style))
    }
}

impl Piece {
    /// Parses the text in braces.
    fn parse(inside: &str) -> Result<Self, String> {
        if let Some(formula) = inside.strip_prefix('=') {
            return Ok(Self::Formula(Expr::new(formula)));
        }
        match inside.split('|').map(|part| part.trim().to_owned()).collect::<Vec<_>>().as_slice() {
            [name] => Ok(Self::Name(name.clone())),
            [name, one, many] => Ok(Self::Count { name: name.clone(), one: one.clone(), many: many.clone() }),
            _ => Err(format!("{{{inside}}} is neither {{name}} nor {{name|one|many}}")),
        }
    }

    fn fill(&self, context: &RuleContext<'_>, style: Style) -> Option<String> {
        let read =
            |name| if style == Style::Command { context.reading_in_command(name) } else { context.reading(name) };
        let read = |name| read(name).filter(|reading| !matches!(reading, Reading::Text(text) if text.is_empty()));
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Formula(formula) => formula.number(context).map(|n| format!("{:.0}", n.round())),
            Self::Count { name, one, many } => read(name).map(|reading| {
                let noun = if *reading == Reading::Number(1.0) { one } else { many };
                let number = write(reading, context.unit(name), style);
                match number.strip_suffix("/s") {
                    Some(number) => format!("{number} {noun}/s"),
                    None => format!("{number} {noun}"),
                }
            }),
            Self::Name(name) => read(name).map(|reading| write(reading, context.unit(name), style)),
            Self::Optional(template) => {
                Some(template.fill(context, style).collect::<Option<String>>().unwrap_or_default())
            }
        }
    }
}

fn write(reading: &Reading, unit: &str, style: Style) -> String {
    match (reading, style) {
        (Reading::Text(text), Style::Command) => quoted(text).into_owned(),
        (Reading::Text(text), _) => text.clone(),
        (Reading::Number(n), Style::Prose) => human::quantity(*n, unit),
        (Reading::Number(n), _) => format!("{n:.0}"),
    }
}

/// Quotes a word so that a shell takes it literally (XCU 2.2.2, single quotes), whatever is in it.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuleBook;
    use crate::scope::Scope;
    use crate::signal::Entity;
    use whyslow_documents::diagnosis::Subject;

    #[test]
    fn hostile_names_stay_one_word_in_a_shell() {
        let entity = Entity::unknown(Subject { name: "a; rm -rf /".into(), ..Subject::host() });
        let context = RuleContext::new(&entity, &entity);
        let template = Template::parse("smartctl /dev/{subject}").unwrap();
        assert_eq!(template.command(&context).as_deref(), Some("smartctl /dev/'a; rm -rf /'"));
        assert_eq!(template.setting(&context).as_deref(), Some("smartctl /dev/a; rm -rf /"));
    }

    fn numbers(piece: &Piece, is_number: &impl Fn(&str) -> bool) -> usize {
        match piece {
            Piece::Text(text) => text.split(' ').filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).count(),
            Piece::Formula(_) | Piece::Count { .. } => 1,
            Piece::Name(name) => usize::from(is_number(name)),
            Piece::Optional(template) => template.pieces.iter().map(|piece| numbers(piece, is_number)).sum(),
        }
    }

    /// Returns the names of counts that a noun in the plural follows: with a count of one, it would be wrong.
    fn disagreeing(template: &Template, is_count: &impl Fn(&str) -> bool) -> Vec<String> {
        let pairs = template.pieces.iter().zip(template.pieces.iter().skip(1));
        let pairs = pairs.filter_map(|pair| match pair {
            (Piece::Name(name), Piece::Text(text)) if is_count(name) => Some((name, text.strip_prefix(' ')?)),
            _ => None,
        });
        let noun = |text: &str| text.split([' ', ',', '.', ':', ')']).next().unwrap_or_default().to_owned();
        let found = pairs.map(|(name, text)| (name, noun(text)));
        found
            .filter(|(_, noun)| noun.len() > 3 && noun.ends_with('s'))
            .map(|(name, noun)| format!("{name} {noun}"))
            .collect()
    }

    #[test]
    fn a_noun_after_a_count_agrees_with_it() {
        for rule in RuleBook::built_in().all() {
            let signals = crate::all_signals;
            let is_count = |name: &str| signals().any(|s| s.name == name && s.unit == "count");
            let actions = rule.actions.iter().flat_map(|action| [Some(&action.text), action.expect.as_ref()]);
            let texts = [Some(&rule.summary), rule.summary_unattributed.as_ref(), rule.how_bad.as_ref()];
            let texts = texts.into_iter().chain(actions).chain(rule.look_alikes.iter().map(|alike| Some(&alike.text)));
            let found: Vec<String> = texts.flatten().flat_map(|text| disagreeing(text, &is_count)).collect();
            assert_eq!(found, Vec::<String>::new(), "{} ({:?})", rule.id, rule.scope);
        }
    }

    /// A sentence on the screen holds few numbers; the rest is evidence.
    #[test]
    fn a_summary_has_at_most_three_numbers() {
        for rule in RuleBook::built_in().all() {
            let sight = [rule.scope, Scope::Host];
            let signals = || sight.iter().flat_map(|scope| scope.signals());
            let is_number = |name: &str| signals().find(|s| s.name == name).is_some_and(|s| s.unit != "text");
            let pieces = &rule.summary.pieces;
            let numbers: usize = pieces.iter().map(|piece| numbers(piece, &is_number)).sum();
            assert!(numbers <= 3, "{} ({:?}): {numbers} numbers: {pieces:?}", rule.id, rule.scope);
        }
    }

    #[test]
    fn a_sentence_with_something_unknown_is_left_out() {
        let entity = |name: &str| Entity::unknown(Subject { name: name.into(), ..Subject::host() });
        let (disk, host) = (entity("sd. a"), entity("host"));
        let context = RuleContext::new(&disk, &host);
        let prose = |text: &str| Template::parse(text).unwrap().prose(&context).unwrap();
        assert_eq!(
            prose("{subject} is full. The busiest line is {irq.busiest} ({irq.busiest_devices})."),
            "sd. a is full."
        );
        assert_eq!(prose("The line is {irq.busiest}. {subject} is full."), "sd. a is full.");
        assert_eq!(Template::parse("The line is {irq.busiest}.").unwrap().prose(&context), None);
        assert_eq!(prose("{subject} is full[ of {irq.busiest}][, as is {subject}]."), "sd. a is full, as is sd. a.");
    }

    /// A headline never says 'unknown', however little is known: text that depends on it is left out, and if nothing is left,
    /// the rule's `means` replaces it.
    #[test]
    fn every_rule_has_a_headline_even_if_nothing_is_known() {
        let nameless = Entity::unknown(Subject { name: String::new(), ..Subject::host() });
        for rule in RuleBook::built_in().all() {
            let named = Entity::unknown(Subject { name: "x".into(), ..Subject::host() });
            for entity in [&named, &nameless] {
                let context = RuleContext::new(entity, &nameless);
                for summary in [Some(&rule.summary), rule.summary_unattributed.as_ref()].into_iter().flatten() {
                    let text = summary.prose(&context).unwrap_or_else(|| rule.means.clone());
                    let is_clean = ["unknown", "  ", "()", "{", "[", " ,", " ."].iter().all(|gap| !text.contains(gap));
                    assert!(is_clean && text.ends_with('.'), "{}: {text:?}", rule.id);
                }
            }
        }
    }

    /// A sentence that names something needs its name.
    #[test]
    fn an_empty_name_is_unknown() {
        let entity = Entity::unknown(Subject { name: String::new(), ..Subject::host() });
        let context = RuleContext::new(&entity, &entity);
        assert_eq!(Template::parse("{subject} is full.").unwrap().prose(&context), None);
    }

    #[test]
    fn a_count_agrees_with_its_noun() {
        let host = Entity::unknown(Subject::host());
        let signals = Scope::Host.signals();
        let with = |count: f64| {
            let values = signals.iter().map(|s| (s.name == "cpu.count").then_some(Reading::Number(count))).collect();
            let entity = Entity { signals, values, ..host.clone() };
            let template = Template::parse("{cpu.count|CPU is|CPUs are} busy.").unwrap();
            template.prose(&RuleContext::new(&entity, &host)).unwrap()
        };
        assert_eq!(with(1.0), "1 CPU is busy.");
        assert_eq!(with(2.0), "2 CPUs are busy.");
    }

    #[test]
    fn a_rate_has_its_noun_before_the_time() {
        let host = Entity::unknown(Subject::host());
        let signals = Scope::Disk.signals();
        let values = signals.iter().map(|s| (s.name == "disk.requests").then_some(Reading::Number(5443.0))).collect();
        let entity = Entity { signals, values, ..host.clone() };
        let template = Template::parse("up to twice the {disk.requests|request|requests}").unwrap();
        let drawn = template.prose(&RuleContext::new(&entity, &host));
        assert_eq!(drawn.as_deref(), Some("up to twice the 5443 requests/s"));
    }

    #[test]
    fn a_description_has_its_names_in_angle_brackets() {
        let template = Template::parse("{subject} has {cpu.count|CPU|CPUs} and {= cpu.count * 2.0} threads").unwrap();
        assert_eq!(template.described(), "<subject> has <cpu.count> CPUs and <cpu.count * 2.0> threads");
    }

    #[test]
    fn an_open_brace_is_an_error() {
        assert!(Template::parse("a {b").is_err());
        assert!(Template::parse("a [b").is_err());
        assert!(Template::parse("a {= 1 + }").unwrap().spanned_names().is_err());
        assert!(Template::parse("a {b|c}").is_err());
        assert_eq!(Template::parse("{a.b} {= c.d * 2.0}").unwrap().names().len(), 2);
    }

    #[test]
    fn a_shell_gets_one_word() {
        assert_eq!(quoted("/dev/sda1"), "/dev/sda1");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("$(reboot)"), "'$(reboot)'");
        assert_eq!(quoted("it's; rm -rf"), r"'it'\''s; rm -rf'");
    }

    #[test]
    fn a_real_shell_gives_the_word_back() {
        for word in ["a b", "$HOME", "`id`", "x'y\"z", "new\nline", "*", "~", "-n", "#c", "a;b|c&d"] {
            let script = format!("printf %s {}", quoted(word));
            let out = std::process::Command::new("sh").args(["-c", &script]).output().expect("sh runs");
            assert_eq!(String::from_utf8_lossy(&out.stdout), word, "{script}");
        }
    }
}
