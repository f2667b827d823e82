//! The built-in rules and the user's own rules.

use crate::cause::{self, CulpritSets};
use crate::cleared::Resources;
use crate::next_capture::NextCaptures;
use crate::rule::{Rule, RuleError, SourceText};
use std::hash::{DefaultHasher, Hash, Hasher};
use whyslow_documents::listing::RuleInfo;

/// Built-in file that holds no rule, only the conditions that clear a resource.
const CLEARED: &str = "cleared.toml";
/// Built-in file that holds what to capture next.
const NEXT_CAPTURE: &str = "next_capture.toml";
/// Built-in file that holds the sets of culprits that causes share.
const CULPRITS: &str = "culprits.toml";

const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/rules.rs"));

/// All rules in force.
#[derive(Debug)]
pub struct RuleBook {
    rules: Vec<Rule>,
    pub(crate) resources: Resources,
    pub(crate) next_captures: NextCaptures,
    culprit_sets: CulpritSets,
    /// Hasher of the text of all rules.
    hasher: DefaultHasher,
}

impl RuleBook {
    fn empty() -> Self {
        Self {
            rules: Vec::new(),
            resources: Resources::default(),
            next_captures: NextCaptures::default(),
            culprit_sets: CulpritSets::default(),
            hasher: DefaultHasher::new(),
        }
    }

    /// Loads the rules that come with the program.
    ///
    /// # Panics
    /// Never panics in a build that passed its tests, because these read every rule.
    pub fn built_in() -> Self {
        let mut book = Self::empty();
        let of_file = |name: &str| BUILT_IN.iter().find(|(file, _)| *file == name).map_or("", |(_, text)| text);
        book.culprit_sets = CulpritSets::parse(CULPRITS, of_file(CULPRITS)).unwrap_or_else(|e| panic!("built-in {e}"));
        for (file, text) in BUILT_IN {
            text.hash(&mut book.hasher);
            let source = SourceText::built_in(file, text);
            match *file {
                CULPRITS => {}
                CLEARED => {
                    book.resources = Resources::parse(&source).unwrap_or_else(|e| panic!("built-in {e}"));
                }
                NEXT_CAPTURE => {
                    book.next_captures = NextCaptures::parse(&source).unwrap_or_else(|e| panic!("built-in {e}"));
                }
                _ => {
                    let rules = cause::parse(source, &book.culprit_sets);
                    let rules = rules.unwrap_or_else(|e| panic!("built-in cause {e}")).into_iter();
                    book.rules.extend(rules.map(|rule| Rule { file: "built in".into(), ..rule }));
                }
            }
        }
        book.sort();
        book
    }

    /// Adds a user's file: a cause, whose rules each replace all rules with the same id and scope, and quantities.
    ///
    /// # Errors
    /// Returns what is wrong with the cause, and where; leaves the book unchanged.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), RuleError> {
        let own = cause::parse_own(SourceText::checked(file, text), &self.culprit_sets)?;
        let is_replaced = |rule: &Rule| own.iter().any(|own| (&own.id, own.scope) == (&rule.id, rule.scope));
        self.rules.retain(|rule| !is_replaced(rule));
        self.rules.extend(own);
        self.sort();
        text.hash(&mut self.hasher);
        Ok(())
    }

    fn sort(&mut self) {
        self.rules.sort_by(|a, b| (&a.id, a.scope).cmp(&(&b.id, b.scope)));
    }

    /// Identifies the program version and the rules. Findings recorded under another fingerprint are not reused.
    pub fn fingerprint(&self) -> String {
        format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), self.hasher.finish())
    }

    /// Describes every rule for people, sorted by id.
    pub fn rules(&self) -> Vec<RuleInfo> {
        self.rules.iter().map(Rule::info).collect()
    }

    /// Returns the rules with this id.
    pub(crate) fn with_id(&self, id: &str) -> &[Rule] {
        let from = self.rules.partition_point(|rule| *rule.id < *id);
        let count = self.rules[from..].partition_point(|rule| rule.id == id);
        &self.rules[from..from + count]
    }

    /// Returns every rule, for judging.
    pub(crate) fn all(&self) -> &[Rule] {
        &self.rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;
    use whyslow_model::catalogue::Disk;

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
        for (file, text) in BUILT_IN {
            let source = SourceText::checked(file, text);
            match *file {
                CULPRITS => {}
                CLEARED => drop(Resources::parse(&source).unwrap()),
                NEXT_CAPTURE => drop(NextCaptures::parse(&source).unwrap()),
                _ => {
                    let rules = cause::parse(source, &book.culprit_sets).unwrap();
                    assert!(
                        rules.iter().all(|rule| format!("{}.toml", rule.id.replacen('.', "/", 1)) == *file),
                        "{file}"
                    );
                }
            }
        }
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
    fn a_cause_that_is_added_at_run_time_is_found() {
        let mut book = RuleBook::built_in();
        book.add("own.toml", OWN).unwrap();
        let window = testing::window([0, 10], |t, s| {
            s.block.disk.push(Disk {
                weighted_time: (t * 40 * testing::SECOND).into(),
                busy_time: (t * testing::SECOND).into(),
                reads: (t * 100).into(),
                read_time: (t * 40 * testing::SECOND).into(),
                ..Disk::new("sda".into())
            });
        });
        let found = crate::document::findings(&window, &book);
        let own = found.iter().find(|finding| finding.id == "site.queue").expect("the cause");
        assert_eq!((&*own.subject.name, &*own.summary), ("sda", "sda has 40 requests in flight"));
    }

    #[test]
    fn a_cause_may_bring_a_quantity_of_its_own() {
        const QUANTITY: &str = r#"
id = "site.costly_reads"
scope = "disk"
means = "a byte read takes longer than our array promises"
when = "site.read_part > 1e-8"
impact = "disk.stall"
summary = "each byte read from {subject} takes {site.read_part}"
evidence = ["site.read_part"]

[[quantity]]
name = "site.read_part"
family = "disk"
unit = "count"
meaning = "reads in flight for each one that completes"
of = "read_time"
per = "read_time + write_time"
normal = "near the share of reads"
baseline = true
"#;
        let mut book = RuleBook::built_in();
        assert!(book.add("own.toml", &QUANTITY.replace("name = \"site.read_part\"", "name = \"disk.wait\"")).is_err());
        book.add("own.toml", QUANTITY).unwrap();
        let window = testing::window([0, 10], |t, s| {
            s.block.disk.push(Disk {
                weighted_time: (t * 40 * testing::SECOND).into(),
                busy_time: (t * testing::SECOND).into(),
                reads: (t * 100).into(),
                read_time: (t * 30 * testing::SECOND).into(),
                write_time: (t * 10 * testing::SECOND).into(),
                ..Disk::new("sda".into())
            });
        });
        let found = crate::document::findings(&window, &book);
        let own = found.iter().find(|finding| finding.id == "site.costly_reads").expect("the cause");
        let [cost] = &own.evidence[..] else { panic!("{:?}", own.evidence) };
        assert_eq!(cost.value, whyslow_documents::diagnosis::Reading::Number(0.75));
        assert_eq!(
            (&*cost.expected, &*cost.how),
            ("near the share of reads", "Δread_time / Δ(read_time + write_time)")
        );
        assert!(crate::all_signals().any(|signal| signal.name == "site.read_part" && signal.baseline));
        crate::own::forget("site.read_part");
    }

    #[test]
    fn the_example_of_the_manual_is_a_rule() {
        let manual = include_str!("../../../docs/howto/own-rules.md");
        let lines = manual.lines().filter(|line| line.starts_with("    ") || line.is_empty());
        let example: String = lines.map(|line| format!("{}\n", line.trim_start())).collect();
        let mut book = RuleBook::built_in();
        book.add("own-rules.md", &example).unwrap();
        assert!(book.rules().iter().any(|rule| rule.id == "site.costly_reads"));
        crate::own::forget("site.read_cost");
    }

    #[test]
    fn the_former_names_of_keys_are_still_read() {
        let culprits = "culprits = [{ scope = \"process\", by = \"proc.cpu\", whole = \"cpu.busy\", of = \"it\", nobody = \"x\" }]";
        let text = format!("{OWN}{culprits}");
        let rules = cause::parse(SourceText::checked("own.toml", &text), &CulpritSets::default()).unwrap();
        let rule = &rules[0];
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
