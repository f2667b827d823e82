//! Features that sick hosts have and healthy ones lack.
//!
//! Each feature is tested for whether more sick hosts have it than chance explains. Features of exactly the same hosts
//! are one test. A feature that only marks a role would be found with any sickness of that role, so hosts are compared
//! within their roles: the exact test of Cochran, Mantel and Haenszel over one table for each role. The role itself is
//! tested over all hosts, and named as a marker, not as a cause: it stands for the work of its hosts.
//!
//! Packages, drivers and settings come together, so tests depend on each other in unknown ways. Holm's correction holds
//! under any dependence, and limits the probability that any feature is named in error. Benjamini and Yekutieli's
//! correction holds under any dependence too, but limits the share of errors among the named features, and a cause
//! named in error makes people change a healthy fleet. A feature that cannot become significant whatever the outcome,
//! since too few hosts have it or lack it, does not count as a test (Tarone, A modified Bonferroni method for discrete
//! data, Biometrics 46, 1990).
//!
//! The significant feature with the smallest p leads. The others are tested again, stratified by the lead, as in the
//! conditional analysis of genomes (Yang and others, Nature Genetics 44, 2012): a feature that is no longer significant
//! is explained by the lead; one that still is, is a cause of its own. If the lead is itself explained by a feature
//! that goes with it, the hosts cannot distinguish the two. A role leads only if nothing else does; features that
//! nearly all of its hosts have, and that explain the sick hosts as well, are listed with it.

use super::Feature;
use super::host_set::HostSet;
use crate::stats::contingency::{ContingencyTable, least_upper_p, odds_ratio, score, upper_p};
use crate::stats::{Estimate, holm};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Probability of naming any cause when there is none.
const NAMED: f64 = 0.001;
/// Probability of reporting any suspicion when there is none.
const SUSPECTED: f64 = 0.05;
/// Odds ratio that a cause must surely exceed to be worth naming: in large fleets everything differs a little.
const LEAST_ODDS: f64 = 2.0;
/// Number of standard deviations from the expected value within which no exact test is needed: it cannot be beyond
/// chance.
const NEAR: f64 = 2.0;
/// Maximum number of causes to look for, each among hosts that are alike in the ones before.
const MOST_CAUSES: usize = 3;
/// Minimum number of hosts per role, on average, that leaves enough to compare.
const LEAST_IN_ROLE: usize = 4;
/// Maximum number of listed features that go together.
const MOST_LISTED: usize = 20;

/// A set of hosts, with their health and their features.
#[derive(Debug)]
pub struct Cohort {
    sick: HostSet,
    hosts: usize,
    /// The label by whose values hosts are grouped for comparison.
    role: String,
    features: HashMap<Feature, HostSet>,
}

/// What the sick hosts share.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Why {
    /// In one word.
    pub verdict: WhyVerdict,
    /// In one sentence or two. The text is partly that of hosts: escape it where it is shown.
    pub summary: String,
    /// Sick hosts.
    pub sick: usize,
    /// Healthy hosts.
    pub healthy: usize,
    /// How many different features were tested.
    pub tests: usize,
    /// The label within whose values hosts were compared; `None` where it says nothing.
    pub within: Option<String>,
    /// What is beyond chance, the likeliest cause first.
    pub candidates: Vec<Candidate>,
    /// Caveats.
    pub caveats: Vec<String>,
}

/// What comparing sick and healthy hosts led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Verdict")]
pub enum WhyVerdict {
    /// A feature is common among the sick beyond chance.
    Cause,
    /// The same, but so it may be in one of twenty fleets without a cause.
    Suspicion,
    /// Only a role is: its work may be the reason, or anything that all of its hosts have.
    Marker,
    /// Nothing is.
    NothingBeyondChance,
    /// There are too few hosts: even a feature of all sick and of no healthy ones would not be beyond chance.
    FewHosts,
    /// There is no healthy host to compare with.
    AllSick,
    /// No host is sick.
    NoneSick,
}

/// How sure it is that a feature and sickness go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// In fewer than one of a thousand fleets without a cause.
    Strong,
    /// In fewer than one of twenty.
    Weak,
}

/// Features that the same hosts have, and that go together with sickness.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Candidate {
    /// The features, the likelier cause first; the hosts cannot tell which of them it is.
    pub features: Vec<Feature>,
    /// How sure it is.
    pub strength: Strength,
    /// Whether the role is among the features.
    pub is_marker: bool,
    /// Sick hosts that have them.
    pub sick_with: usize,
    /// Sick hosts whose inventory covers it.
    pub sick_known: usize,
    /// Healthy hosts that have them.
    pub healthy_with: usize,
    /// Healthy hosts whose inventory covers it.
    pub healthy_known: usize,
    /// How much more often hosts with them are sick: the difference of two shares.
    pub risk_difference: Interval,
    /// By how many times they multiply the odds of being sick, within roles.
    pub odds_ratio: Interval,
    /// How probable it would be by chance, corrected for the number of tests.
    pub p: f64,
    /// Others that explain the sick hosts as well: the hosts cannot distinguish them.
    pub inseparable: Vec<Feature>,
    /// Others whose association is explained by these.
    pub explained: Vec<Feature>,
}

/// An estimate and the interval that holds the true value with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Interval {
    /// The best estimate; `None` where the data do not bound it.
    pub estimate: Option<f64>,
    /// Where the interval begins.
    pub low: f64,
    /// Where it ends; `None` where the data do not bound it.
    pub high: Option<f64>,
}

impl From<Estimate> for Interval {
    fn from(of: Estimate) -> Self {
        let bounded = |value: f64| value.is_finite().then_some(value);
        Self { estimate: bounded(of.shift), low: of.low, high: bounded(of.high) }
    }
}

/// Features of the same hosts.
struct Group {
    features: Vec<Feature>,
    /// The hosts that have them.
    with: HostSet,
    /// The hosts whose inventory covers them.
    known: HostSet,
    /// True if the role is one of them.
    is_marker: bool,
}

/// A group, and the probability that it occurs by chance.
struct Tested<'g> {
    group: &'g Group,
    /// Probability, corrected for the number of tests.
    p: f64,
    score: f64,
}

impl Cohort {
    /// Creates a cohort of hosts numbered as in `is_sick`, compared within the values of the label `role`.
    pub fn new(is_sick: &[bool], role: &str) -> Self {
        let mut sick = HostSet::empty(is_sick.len());
        is_sick.iter().enumerate().filter(|(_, is_sick)| **is_sick).for_each(|(host, _)| sick.insert(host));
        Self { sick, hosts: is_sick.len(), role: role.to_owned(), features: HashMap::new() }
    }

    /// Adds a feature of a host. A host without any feature of a kind counts as unknown for that kind, except for
    /// changes.
    pub fn add(&mut self, host: usize, feature: Feature) {
        if host < self.hosts {
            self.features.entry(feature).or_insert_with(|| HostSet::empty(self.hosts)).insert(host);
        }
    }

    /// Finds the features that the sick hosts share and the healthy ones lack.
    pub fn why(self) -> Why {
        let sick = self.sick.len();
        let healthy = self.hosts - sick;
        let none = |verdict| Why {
            verdict,
            summary: String::new(),
            sick,
            healthy,
            tests: 0,
            within: None,
            candidates: Vec::new(),
            caveats: Vec::new(),
        };
        let mut why = match (sick, healthy) {
            (0, _) => none(WhyVerdict::NoneSick),
            (_, 0) => none(WhyVerdict::AllSick),
            _ => self.compare(none(WhyVerdict::NothingBeyondChance)),
        };
        why.summary = summary(&why);
        why
    }

    fn compare(&self, mut why: Why) -> Why {
        let groups = self.groups();
        let roles = self.roles();
        match &roles {
            Roles::Usable(_) => why.within = Some(self.role.clone()),
            Roles::TooMany => {
                why.caveats.push(format!("too few hosts have the same {} to compare them within it", self.role))
            }
            Roles::One => {}
        }
        let everyone = [HostSet::full(self.hosts)];
        let roles = match &roles {
            Roles::Usable(roles) => &roles[..],
            _ => &everyone[..],
        };
        let tested = self.test(&groups, roles);
        why.tests = tested.len();
        let perfect = ContingencyTable { with_cases: why.sick, with: why.sick, cases: why.sick, all: self.hosts };
        if upper_p(&[perfect]) > SUSPECTED {
            return Why { verdict: WhyVerdict::FewHosts, ..why };
        }
        let mut left: Vec<Tested<'_>> = tested.into_iter().filter(|tested| tested.p <= SUSPECTED).collect();
        // A role explains everything about its hosts, so it leads only if nothing else does.
        left.sort_by(|a, b| {
            let key = |t: &Tested<'_>| (t.group.is_marker, t.p);
            let (a_key, b_key) = (key(a), key(b));
            let by_p = a_key.0.cmp(&b_key.0).then(a_key.1.total_cmp(&b_key.1)).then(b.score.total_cmp(&a.score));
            by_p.then_with(|| a.group.features[0].rank().cmp(&b.group.features[0].rank()))
        });
        let mut strata = roles.to_vec();
        let mut markers = vec![HostSet::full(self.hosts)];
        while why.candidates.len() < MOST_CAUSES && !left.is_empty() {
            let lead = left.remove(0);
            let own = if lead.group.is_marker { &everyone[..] } else { roles };
            let Some(mut candidate) = self.candidate(&lead, own) else { continue };
            (strata, markers) = (split(&strata, lead.group), split(&markers, lead.group));
            let (apart, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|other| {
                let strata = if other.group.is_marker { &markers } else { &strata };
                self.p(other.group, strata) <= NAMED
            });
            for other in rest {
                let is_explained_too = self.p(lead.group, &split(own, other.group)) > SUSPECTED;
                let list = if is_explained_too { &mut candidate.inseparable } else { &mut candidate.explained };
                list.extend(other.group.features.iter().cloned());
            }
            if lead.group.is_marker {
                candidate.inseparable.extend(self.instead_of(lead.group, &groups, why.tests));
            }
            candidate.inseparable.truncate(MOST_LISTED);
            candidate.explained.truncate(MOST_LISTED);
            why.candidates.push(candidate);
            left = apart;
        }
        why.verdict = match why.candidates.first() {
            None => WhyVerdict::NothingBeyondChance,
            Some(first) if first.is_marker => WhyVerdict::Marker,
            Some(first) if first.strength == Strength::Weak => WhyVerdict::Suspicion,
            Some(_) => WhyVerdict::Cause,
        };
        if !why.candidates.is_empty() {
            why.caveats.push(
                "hosts were observed, not assigned: a trial on some of them shows whether it is the cause".to_owned(),
            );
        }
        why
    }

    /// Groups features by the hosts that have them; omits features of all hosts, which show nothing.
    fn groups(&self) -> Vec<Group> {
        let everyone = HostSet::full(self.hosts);
        let mut known: BTreeMap<&str, HostSet> = BTreeMap::new();
        let mut named: BTreeMap<(&Arc<str>, &Arc<str>), HostSet> = BTreeMap::new();
        for (feature, with) in self.features.iter().filter(|(feature, _)| !feature.is_change) {
            known.entry(&feature.kind).or_insert_with(|| HostSet::empty(self.hosts)).add(with);
            named.entry((&feature.kind, &feature.name)).or_insert_with(|| HostSet::empty(self.hosts)).add(with);
        }
        let has = self.features.iter().map(|(feature, with)| (feature.clone(), with.clone()));
        let lacks = named.into_iter().filter(|((kind, _), _)| &***kind != "label").map(|((kind, name), with)| {
            let feature = Feature { is_change: false, kind: kind.clone(), name: name.clone(), value: None };
            (feature, known[&**kind].without(&with))
        });
        let mut groups: HashMap<(HostSet, HostSet), Vec<Feature>> = HashMap::new();
        for (feature, with) in has.chain(lacks).filter(|(_, with)| !with.is_empty()) {
            let known = if feature.is_change { &everyone } else { &known[&*feature.kind] };
            if with != *known {
                groups.entry((with, known.clone())).or_default().push(feature);
            }
        }
        let groups = groups.into_iter().map(|((with, known), mut features)| {
            features.sort_by(|a, b| a.rank().cmp(&b.rank()));
            let is_marker = features.iter().any(|feature| feature.is_label(&self.role));
            Group { features, with, known, is_marker }
        });
        let mut groups: Vec<Group> = groups.collect();
        groups.sort_by(|a, b| a.features.cmp(&b.features));
        groups
    }

    /// Returns the hosts of each role.
    fn roles(&self) -> Roles {
        let labelled = self.features.iter().filter(|(feature, _)| feature.is_label(&self.role));
        let mut labelled: Vec<_> = labelled.collect();
        labelled.sort_by(|a, b| a.0.cmp(b.0));
        let mut rest = HostSet::full(self.hosts);
        let mut roles = Vec::new();
        for (_, with) in labelled {
            // A host with two values counts for the first.
            roles.push(with.and(&rest));
            rest = rest.without(with);
        }
        roles.push(rest);
        roles.retain(|role| !role.is_empty());
        match roles.len() {
            0 | 1 => Roles::One,
            count if count * LEAST_IN_ROLE > self.hosts => Roles::TooMany,
            _ => Roles::Usable(roles),
        }
    }

    /// Tests all groups, corrected for the number of groups that could become significant.
    fn test<'g>(&self, groups: &'g [Group], roles: &[HostSet]) -> Vec<Tested<'g>> {
        let everyone = [HostSet::full(self.hosts)];
        let tables = |group: &Group| self.tables(group, if group.is_marker { &everyone[..] } else { roles });
        let mut possible: Vec<(f64, &Group, Vec<ContingencyTable>)> = groups
            .iter()
            .map(|group| (group, tables(group)))
            .map(|(group, tables)| (least_upper_p(&tables), group, tables))
            .collect();
        possible.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Tarone's K: the smallest number of tests such that at most K can reach the level divided by K.
        let least: Vec<f64> = possible.iter().map(|(least, ..)| *least).collect();
        let is_enough = |tests: &usize| least.partition_point(|least| *least <= SUSPECTED / *tests as f64) <= *tests;
        let tests = (1..=least.len()).find(is_enough).unwrap_or(0);
        possible.truncate(least.partition_point(|least| *least <= SUSPECTED / tests.max(1) as f64));
        let scores: Vec<f64> = possible.iter().map(|(.., tables)| score(tables)).collect();
        let p = |(score, (.., tables)): (&f64, &(f64, &Group, Vec<ContingencyTable>))| {
            if *score < NEAR { 1.0 } else { upper_p(tables) }
        };
        let corrected = holm(&scores.iter().zip(&possible).map(p).collect::<Vec<f64>>());
        let all = possible.iter().zip(scores).zip(corrected);
        all.map(|(((_, group, _), score), corrected)| Tested { group, p: corrected.p, score }).collect()
    }

    /// Returns the probability that at least as many sick hosts of these strata have a group's features by chance.
    fn p(&self, group: &Group, strata: &[HostSet]) -> f64 {
        let tables = self.tables(group, strata);
        if score(&tables) < NEAR { 1.0 } else { upper_p(&tables) }
    }

    /// Returns features that nearly all hosts of a role have, and few others, so that comparing within roles shows
    /// nothing about them, but that explain the sick hosts as well as the role does. The best fit comes first.
    fn instead_of(&self, role: &Group, groups: &[Group], tests: usize) -> Vec<Feature> {
        let everyone = [HostSet::full(self.hosts)];
        let level = NAMED / tests.max(1) as f64;
        let explains = |group: &&Group| {
            !group.is_marker && self.p(group, &everyone) <= level && self.p(role, &split(&everyone, group)) > SUSPECTED
        };
        let mut fitting: Vec<(f64, &Group)> = groups
            .iter()
            .filter(explains)
            .map(|group| (self.table(group, &everyone[0]).log_likelihood(), group))
            .collect();
        fitting.sort_by(|a, b| {
            let by_kind = || a.1.features[0].rank().cmp(&b.1.features[0].rank());
            b.0.total_cmp(&a.0).then_with(by_kind)
        });
        fitting.into_iter().flat_map(|(_, group)| group.features.iter().cloned()).collect()
    }

    fn tables(&self, group: &Group, strata: &[HostSet]) -> Vec<ContingencyTable> {
        strata.iter().map(|stratum| self.table(group, stratum)).collect()
    }

    fn table(&self, group: &Group, stratum: &HostSet) -> ContingencyTable {
        let known = stratum.and(&group.known);
        let with = known.and(&group.with);
        ContingencyTable {
            with_cases: with.common(&self.sick),
            with: with.len(),
            cases: known.common(&self.sick),
            all: known.len(),
        }
    }

    /// Returns a group as a candidate; `None` if its effect may be too small to matter.
    fn candidate(&self, tested: &Tested<'_>, roles: &[HostSet]) -> Option<Candidate> {
        let group = tested.group;
        let odds = odds_ratio(&self.tables(group, roles))?;
        if odds.low < LEAST_ODDS {
            return None;
        }
        let all = self.table(group, &HostSet::full(self.hosts));
        Some(Candidate {
            features: group.features.iter().take(MOST_LISTED).cloned().collect(),
            strength: if tested.p <= NAMED { Strength::Strong } else { Strength::Weak },
            is_marker: group.is_marker,
            sick_with: all.with_cases,
            sick_known: all.cases,
            healthy_with: all.with - all.with_cases,
            healthy_known: all.all - all.cases,
            risk_difference: all.risk_difference()?.into(),
            odds_ratio: odds.into(),
            p: tested.p,
            inseparable: Vec::new(),
            explained: Vec::new(),
        })
    }
}

enum Roles {
    /// All hosts have the same role, or none.
    One,
    Usable(Vec<HostSet>),
    TooMany,
}

/// Splits each stratum into the hosts with the group's features and those without. Hosts for which that is unknown are
/// among the latter.
fn split(strata: &[HostSet], group: &Group) -> Vec<HostSet> {
    let parts = strata.iter().flat_map(|stratum| [stratum.and(&group.with), stratum.without(&group.with)]);
    parts.filter(|part| !part.is_empty()).collect()
}

fn summary(why: &Why) -> String {
    let (sick, healthy) = (why.sick, why.healthy);
    match (why.verdict, why.candidates.first()) {
        (WhyVerdict::NoneSick, _) => format!("None of {healthy} hosts has it."),
        (WhyVerdict::AllSick, _) => {
            format!(
                "All {sick} hosts have it: without a healthy host, nothing distinguishes the cause from what all hosts share."
            )
        }
        (WhyVerdict::FewHosts, _) => format!(
            "{} sick and {healthy} healthy hosts are too few: even something that all the sick and none of the healthy hosts \
             have could be chance.",
            sick
        ),
        (_, None) => format!(
            "Nothing that the {sick} sick hosts share is beyond chance: {} features compared with {healthy} healthy hosts.",
            why.tests
        ),
        (verdict, Some(first)) => first.sentence(verdict),
    }
}

impl Candidate {
    fn sentence(&self, verdict: WhyVerdict) -> String {
        let Self { sick_with, sick_known, healthy_with, healthy_known, .. } = self;
        let counts =
            format!("{sick_with} of {sick_known} sick hosts have it, {healthy_with} of {healthy_known} healthy ones");
        let first = &self.features[0];
        // Labels come last.
        let role = self.features.last().unwrap_or(first);
        let others = match self.features.len() - 1 + self.inseparable.len() {
            0 => String::new(),
            1 => " One other feature explains the sick hosts as well; the hosts cannot distinguish them.".to_owned(),
            n => format!(" {n} other features explain the sick hosts as well; the hosts cannot distinguish them."),
        };
        match verdict {
            WhyVerdict::Marker => format!(
                "What the sick hosts share is their role ({role}): {counts}. It may be the work of that role, or anything \
                 that all its hosts have.{others}"
            ),
            WhyVerdict::Suspicion => {
                format!("{first} may be the reason: {counts}; one of 20 fleets looks like that by chance.{others}")
            }
            _ => format!("{first}: {counts}.{others}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a hundred hosts with the given ones sick; every second one is a database.
    fn fleet(is_sick: impl Fn(usize) -> bool) -> Cohort {
        let sick: Vec<bool> = (0..100).map(is_sick).collect();
        let mut cohort = Cohort::new(&sick, "role");
        for host in 0..100 {
            cohort.add(host, Feature::new("label", "role", if host % 2 == 0 { "db" } else { "web" }));
            cohort.add(host, Feature::new("package", "bash", "5.2"));
            cohort.add(host, Feature::new("package", "curl", if host % 3 == 0 { "8.1" } else { "8.2" }));
        }
        cohort
    }

    fn give(cohort: &mut Cohort, feature: &Feature, has: impl Fn(usize) -> bool) {
        (0..100).filter(|host| has(*host)).for_each(|host| cohort.add(host, feature.clone()));
    }

    fn first(why: &Why) -> String {
        why.candidates[0].features[0].to_string()
    }

    #[test]
    fn a_kernel_that_the_sick_share_is_named_with_its_effect() {
        // 20 of 100 hosts have the kernel; 16 of them are sick, and 4 of the other 80.
        let has = |host: usize| host < 20;
        let mut cohort = fleet(|host| host < 16 || (host >= 20 && host % 20 == 0));
        give(&mut cohort, &Feature::new("kernel", "release", "6.8.0-45"), has);
        give(&mut cohort, &Feature::new("kernel", "release", "6.8.0-31"), |host| !has(host));
        give(&mut cohort, &Feature::new("driver", "ixgbe", "5.19"), has);
        give(&mut cohort, &Feature::new("driver", "ixgbe", "5.15"), |host| !has(host));
        let why = cohort.why();
        assert_eq!((why.verdict, why.sick, why.healthy), (WhyVerdict::Cause, 20, 80));
        assert_eq!(why.within.as_deref(), Some("role"));
        let lead = &why.candidates[0];
        let names: Vec<String> = lead.features.iter().map(Feature::to_string).collect();
        assert_eq!(names, ["kernel release 6.8.0-45", "driver ixgbe 5.19"]);
        assert_eq!((lead.sick_with, lead.sick_known, lead.healthy_with, lead.healthy_known), (16, 20, 4, 80));
        // 16/20 minus 4/80; Newcombe's interval from Wilson's 0.584 to 0.919 and 0.020 to 0.122, by hand.
        let difference = lead.risk_difference;
        assert!((difference.estimate.unwrap() - 0.75).abs() < 1e-9);
        assert!(
            (difference.low - 0.522).abs() < 2e-3 && (difference.high.unwrap() - 0.873).abs() < 2e-3,
            "{difference:?}"
        );
        assert!(lead.p < 1e-8 && lead.odds_ratio.low > 10.0, "{lead:?}");
        assert_eq!(
            why.summary,
            "kernel release 6.8.0-45: 16 of 20 sick hosts have it, 4 of 80 healthy ones. One other feature explains the sick \
             hosts as well; the hosts cannot distinguish them."
        );
    }

    #[test]
    fn what_only_marks_a_role_is_no_cause() {
        // Half of the databases are sick, regardless of their other features; nearly all databases have a package, and
        // so do a few others.
        let is_sick = |host: usize| host.is_multiple_of(4);
        let mut cohort = fleet(is_sick);
        give(&mut cohort, &Feature::new("package", "postgresql", "16"), |host| (host % 2 == 0) != (host % 25 == 0));
        let why = cohort.why();
        assert_eq!(why.verdict, WhyVerdict::Marker, "{why:?}");
        assert_eq!(first(&why), "role = db");
        assert!(
            why.summary.starts_with("What the sick hosts share is their role (role = db): 25 of 25 sick hosts"),
            "{why:?}"
        );
        // If only the hosts of that role have it, the hosts cannot distinguish the two.
        let mut cohort = fleet(is_sick);
        give(&mut cohort, &Feature::new("package", "postgresql", "16"), |host| host % 2 == 0);
        let why = cohort.why();
        assert_eq!((why.verdict, first(&why)), (WhyVerdict::Marker, "package postgresql 16".to_owned()));
    }

    #[test]
    fn what_explained_the_cause_is_listed_beneath_it() {
        // 30 hosts have the setting and 25 of them are sick. 27 of the 30 and 12 others have a package.
        let has = |host: usize| (30..60).contains(&host);
        let mut cohort = fleet(|host| has(host) && host < 55);
        give(&mut cohort, &Feature::new("sysctl", "vm.dirty_ratio", "90"), has);
        give(&mut cohort, &Feature::new("sysctl", "vm.dirty_ratio", "20"), |host| !has(host));
        give(&mut cohort, &Feature::new("package", "tuned", "2"), |host| (33..72).contains(&host));
        let why = cohort.why();
        assert_eq!(why.candidates.len(), 1, "{why:?}");
        assert_eq!(first(&why), "sysctl vm.dirty_ratio = 90");
        let beneath: Vec<String> = why.candidates[0].explained.iter().map(Feature::to_string).collect();
        assert_eq!(beneath, ["package tuned 2"]);
        assert_eq!(why.candidates[0].inseparable, []);
    }

    #[test]
    fn what_the_sick_lack_and_what_was_changed_are_features_too() {
        let mut cohort = fleet(|host| host < 15);
        give(&mut cohort, &Feature::new("package", "irqbalance", "1.9"), |host| host >= 15);
        give(&mut cohort, &Feature::change("package", "irqbalance", Some("1.9"), None), |host| host < 15);
        let why = cohort.why();
        let names: Vec<String> = why.candidates[0].features.iter().map(Feature::to_string).collect();
        assert_eq!(names, ["change of package irqbalance (1.9 → none)", "no package irqbalance"]);
    }

    #[test]
    fn nothing_is_named_where_there_is_nothing_to_name() {
        let scattered = fleet(|host| host % 7 == 3).why();
        assert_eq!((scattered.verdict, scattered.candidates.len()), (WhyVerdict::NothingBeyondChance, 0));
        assert!(
            scattered.summary.starts_with("Nothing that the 14 sick hosts share is beyond chance"),
            "{scattered:?}"
        );
        assert_eq!(fleet(|_| false).why().summary, "None of 100 hosts has it.");
        assert_eq!(fleet(|_| true).why().verdict, WhyVerdict::AllSick);
        let mut few = Cohort::new(&[true, false, false, false], "role");
        (0..4).for_each(|host| few.add(host, Feature::new("kernel", "release", if host == 0 { "a" } else { "b" })));
        let few = few.why();
        assert_eq!(few.verdict, WhyVerdict::FewHosts);
        assert!(few.summary.starts_with("1 sick and 3 healthy hosts are too few"), "{few:?}");
    }

    #[test]
    fn hosts_of_which_nothing_is_known_do_not_count() {
        // Half of the hosts sent no kernel: all sick hosts with a known kernel have the new one.
        let mut cohort = fleet(|host| host < 20 || (50..60).contains(&host));
        give(&mut cohort, &Feature::new("kernel", "release", "new"), |host| host < 20);
        give(&mut cohort, &Feature::new("kernel", "release", "old"), |host| (20..50).contains(&host));
        let why = cohort.why();
        let lead = &why.candidates[0];
        assert_eq!((first(&why), lead.sick_known, lead.healthy_known), ("kernel release new".to_owned(), 20, 30));
    }

    #[test]
    fn as_many_roles_as_hosts_are_no_roles() {
        let mut cohort = Cohort::new(&(0..40).map(|host| host < 12).collect::<Vec<bool>>(), "role");
        for host in 0..40 {
            cohort.add(host, Feature::new("label", "role", &format!("role {host}")));
            cohort.add(host, Feature::new("kernel", "release", if host < 12 { "new" } else { "old" }));
        }
        let why = cohort.why();
        assert_eq!(
            (why.verdict, why.within.as_deref(), first(&why)),
            (WhyVerdict::Cause, None, "kernel release new".to_owned())
        );
        assert_eq!(why.caveats[0], "too few hosts have the same role to compare them within it");
    }
}
