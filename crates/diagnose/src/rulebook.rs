//! The built-in rules and a user's own beside them.

use crate::cleared::Resources;
use crate::next_capture::NextCaptures;
use crate::rule::{Rule, RuleError};
use std::hash::{DefaultHasher, Hash, Hasher};
use whyslow_model::listing::RuleInfo;

/// The file among the built-in ones that holds no rule but what clears a resource.
const CLEARED: &str = "cleared.toml";
/// The file among them that holds what to capture next.
const NEXT_CAPTURE: &str = "next_capture.toml";

const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/rules.rs"));

/// All rules in force.
#[derive(Debug)]
pub struct RuleBook {
    rules: Vec<Rule>,
    pub(crate) resources: Resources,
    pub(crate) next_captures: NextCaptures,
    /// Of the text of all rules.
    hasher: DefaultHasher,
}

impl RuleBook {
    fn empty() -> Self {
        let (resources, next_captures) = (Resources::default(), NextCaptures::default());
        Self { rules: Vec::new(), resources, next_captures, hasher: DefaultHasher::new() }
    }

    /// The rules that come with the program.
    ///
    /// # Panics
    /// Never in a build that passed its tests, which read every one of them.
    pub fn built_in() -> Self {
        let mut book = Self::empty();
        for (file, text) in BUILT_IN {
            text.hash(&mut book.hasher);
            if *file == CLEARED {
                book.resources = Resources::parse(file, text).unwrap_or_else(|e| panic!("built-in {e}"));
            } else if *file == NEXT_CAPTURE {
                book.next_captures = NextCaptures::parse(file, text).unwrap_or_else(|e| panic!("built-in {e}"));
            } else {
                let rule = Rule::parse(file, text).unwrap_or_else(|e| panic!("built-in rule {e}"));
                // A cause can be judged in several ways on one kind of thing: by live counters, and by less.
                let variant = file.strip_prefix(&rule.id).and_then(|rest| rest.strip_suffix(".toml"));
                let variant = variant.unwrap_or_default().trim_start_matches('.').to_owned();
                book.rules.push(Rule { file: "built in".into(), variant, ..rule });
            }
        }
        book.sort();
        book
    }

    /// Adds a user's rule. It takes the place of all that are there with its id and scope.
    ///
    /// # Errors
    /// What is wrong with it, and where; the book is left as it was.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), RuleError> {
        self.take(Rule::parse(file, text)?);
        text.hash(&mut self.hasher);
        Ok(())
    }

    fn take(&mut self, rule: Rule) {
        self.rules.retain(|r| (&r.id, r.scope) != (&rule.id, rule.scope));
        self.rules.push(rule);
        self.sort();
    }

    fn sort(&mut self) {
        self.rules.sort_by(|a, b| (&a.id, a.scope).cmp(&(&b.id, b.scope)));
    }

    /// Identifies the program version and the rules. Findings recorded under another fingerprint are not reused.
    pub fn fingerprint(&self) -> String {
        format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), self.hasher.finish())
    }

    /// Every rule, for people, by id.
    pub fn rules(&self) -> Vec<RuleInfo> {
        self.rules.iter().map(Rule::info).collect()
    }

    /// The rules with this id.
    pub(crate) fn with_id(&self, id: &str) -> &[Rule] {
        let from = self.rules.partition_point(|rule| *rule.id < *id);
        let count = self.rules[from..].partition_point(|rule| rule.id == id);
        &self.rules[from..from + count]
    }

    /// Every rule, to judge with.
    pub(crate) fn all(&self) -> &[Rule] {
        &self.rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWN: &str = r#"
id = "site.queue"
scope = "disk"
means = "our array's queue is longer than we want"
when = "disk.queue > 32.0"
impact = "disk.stall"
summary = "{subject} has {disk.queue} requests in flight"
evidence = [{ signal = "disk.queue", expected = "below 32" }]
"#;

    #[test]
    fn every_built_in_rule_reads() {
        let book = RuleBook::built_in();
        for rule in book.rules() {
            assert!(!rule.sources.is_empty(), "{} names no source", rule.id);
            assert!(!rule.look_alikes.is_empty(), "{} names no look-alike", rule.id);
        }
    }

    #[test]
    fn a_users_rule_stands_beside_the_built_in_ones() {
        let mut book = RuleBook::built_in();
        let before = book.rules().len();
        book.add("own.toml", OWN).unwrap();
        book.add("own.toml", OWN).unwrap();
        assert_eq!(book.rules().len(), before + 1);
    }

    #[test]
    fn the_former_names_of_keys_are_still_read() {
        let culprits = "culprits = [{ scope = \"process\", by = \"proc.cpu\", whole = \"cpu.busy\", of = \"it\", nobody = \"x\" }]";
        let rule = Rule::parse("own.toml", &format!("{OWN}{culprits}")).unwrap();
        assert!(rule.culprits[0].total.is_some() && rule.culprits[0].unattributed.is_some());
    }

    #[test]
    fn the_fingerprint_tells_books_with_different_rules_apart() {
        let mut book = RuleBook::built_in();
        assert_eq!(book.fingerprint(), RuleBook::built_in().fingerprint());
        book.add("own.toml", OWN).unwrap();
        let strict = book.fingerprint();
        assert_ne!(strict, RuleBook::built_in().fingerprint());
        book.add("own.toml", &OWN.replace("> 32.0", "> 64.0")).unwrap();
        assert_ne!(strict, book.fingerprint());
    }

    #[test]
    fn a_broken_rule_says_where_and_hides_nothing() {
        let mut book = RuleBook::built_in();
        let before = book.rules().len();
        let error = |book: &mut RuleBook, text: &str| book.add("own.toml", text).unwrap_err().to_string();
        assert_eq!(
            error(&mut book, &OWN.replace("\"disk.queue > 32.0\"", "\"disk.length > 32.0\"")),
            "own.toml:5: there is no signal \"disk.length\" in scope disk or host"
        );
        assert_eq!(
            error(&mut book, &OWN.replace("summary =", "how_bad = \"waits {disk.weight}\"\nsummary =")),
            "own.toml:7: there is no signal \"disk.weight\" in scope disk or host"
        );
        assert!(error(&mut book, &OWN.replace("> 32.0", ">")).starts_with("own.toml:5: "));
        assert!(error(&mut book, &OWN.replace("impact =", "impakt =")).starts_with("own.toml:6: "));
        assert!(error(&mut book, &OWN.replace("\"disk\"", "\"dusk\"")).starts_with("own.toml:3: "));
        assert!(error(&mut book, "id = ").starts_with("own.toml:1: "));
        assert_eq!(book.rules().len(), before);
    }

    proptest! {
        #[test]
        fn no_rule_makes_it_panic(text in ".{0,200}") {
            drop(RuleBook::empty().add("own.toml", &text));
        }

        #[test]
        fn no_condition_makes_it_panic(condition in "[a-z.0-9<>=&|!(){}?:+*/'-]{0,40}", summary in "[a-z.{}= ]{0,40}") {
            let text = OWN.replace("disk.queue > 32.0", &condition).replace("{subject} has", &summary);
            drop(RuleBook::empty().add("own.toml", &text));
        }
    }
}
