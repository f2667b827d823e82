//! Evaluation of a change: the time that changed hosts lost before and after it, compared with hosts that did not
//! change then.
//!
//! Each changed host has its own time, as in a rollout by waves. Its difference is the share of time lost after the
//! change minus that before it. The difference of the unchanged hosts of its wave and role over the same time is
//! subtracted (difference in differences). Hosts that changed earlier are not used as controls, since their own change
//! may still have an effect (Goodman-Bacon, Difference-in-differences with variation in treatment timing, Journal of
//! Econometrics 225, 2021). Each unchanged host serves one wave only, so that no value counts twice. The aligned
//! differences are compared by Wilcoxon's rank sum (Hodges, Lehmann, Rank methods for combination of independent
//! experiments, Annals of Mathematical Statistics 33, 1962).
//!
//! A host that is changed because it is sick is likely to be better afterwards anyway (regression to the mean). So sick
//! hosts are compared with sick controls, by the time they lose, and healthy hosts with healthy ones, by how many
//! became sick.

use super::why::Interval;
use crate::stats::contingency::{ContingencyTable, lower_p, upper_p};
use crate::stats::{CONFIDENCE, Estimate, holm, median, ranks};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Share of lost time from which a host is sick: one hundredth, as with all shares of time.
pub const SICK: f64 = 0.01;
/// Probability of reporting that a change helped or hurt when it did neither.
const IN_ERROR: f64 = 0.05;
/// Minimum number of hosts on each side that can show anything: C(8, 4) = 70 ways, 2/70 = 0.03.
const FEWEST: usize = 4;
/// Hosts whose times are this close together are one wave.
const WAVE_MS: i64 = 3_600_000;
/// Minimum share of a span that must have been observed.
const LEAST_OBSERVED: f64 = 0.5;

/// Time lost in a span that begins at `at_ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lost {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// Seconds lost.
    pub lost_s: f64,
    /// Seconds that were judged.
    pub judged_s: f64,
}

/// A host, changed or not.
#[derive(Clone, Debug)]
pub struct RolloutHost {
    /// Its role; hosts are compared within roles where possible.
    pub role: Option<Arc<str>>,
    /// Time of its first change.
    pub changed_ms: Option<i64>,
    /// Time that it lost, in order of time.
    pub lost: Vec<Lost>,
}

/// The spans that are compared.
#[derive(Clone, Copy, Debug)]
pub struct RolloutWindows {
    /// Length of the span before the change.
    pub before_ms: i64,
    /// Time after the change until its own disturbance is over and the second span begins.
    pub settle_ms: i64,
    /// Length of the second span.
    pub after_ms: i64,
}

/// Whether a change helped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Effect")]
pub enum RolloutEffect {
    /// Less time is lost.
    Helped,
    /// More is.
    Hurt,
    /// It helped some and hurt others.
    Mixed,
    /// No difference beyond noise.
    NoDifference,
    /// There are too few hosts to compare.
    Unknown,
}

/// What a change did.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Rollout {
    /// Of all hosts.
    pub effect: RolloutEffect,
    /// In one sentence or two.
    pub summary: String,
    /// Hosts that were changed and observed before and after.
    pub changed: usize,
    /// Hosts that were not, and serve as controls.
    pub controls: usize,
    /// Hosts that were changed but not observed long enough before and after.
    pub unobserved: usize,
    /// How many waves there were.
    pub waves: usize,
    /// Hosts that were sick before.
    pub sick: GroupResult,
    /// Hosts that were healthy before.
    pub healthy: GroupResult,
    /// Caveats.
    pub caveats: Vec<String>,
}

/// What it did to hosts that were sick before, or to those that were healthy.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct GroupResult {
    /// Of these.
    pub effect: RolloutEffect,
    /// Changed hosts.
    pub changed: usize,
    /// Their controls.
    pub controls: usize,
    /// Mean share of time that changed hosts lost before and after.
    pub changed_lost: [f64; 2],
    /// The same of the controls.
    pub controls_lost: [f64; 2],
    /// Of the sick, how much larger the share is that a changed host loses, its controls' change taken off: negative is better. Of
    /// the healthy, how much larger the share of hosts is that became sick. `None` with too few hosts. The
    /// interval says which effects would not have been detected.
    pub difference: Option<Interval>,
    /// How probable it is without an effect, corrected for the two groups.
    pub p: f64,
}

/// Shares of time that a host lost before and after.
#[derive(Clone, Copy)]
struct Shares {
    before: f64,
    after: f64,
}

impl Shares {
    fn is_sick(self) -> bool {
        self.before >= SICK
    }

    fn change(self) -> f64 {
        self.after - self.before
    }
}

/// Changed hosts of one role and wave.
struct Block<'h> {
    at_ms: i64,
    role: Option<&'h str>,
    changed: Vec<Shares>,
    /// The controls that serve only this block.
    controls: Vec<Shares>,
    /// Median change of the controls of the wave and role, whichever block they serve: of the sick and of the healthy
    /// ones.
    usual: [f64; 2],
}

/// Judges a change.
pub fn judge_rollout(hosts: &[RolloutHost], windows: &RolloutWindows) -> Rollout {
    let (changed, controls) = sides(hosts, windows);
    let observed: Vec<(&RolloutHost, i64, Shares)> = changed
        .iter()
        .filter_map(|host| Some((*host, host.changed_ms?, shares(host, host.changed_ms?, windows)?)))
        .collect();
    let mut blocks: BTreeMap<(i64, Option<&str>), Block<'_>> = BTreeMap::new();
    for (host, at, shares) in &observed {
        let wave = at.div_euclid(WAVE_MS);
        let role = host.role.as_deref();
        let new = || Block { at_ms: *at, role, changed: Vec::new(), controls: Vec::new(), usual: [0.0; 2] };
        blocks.entry((wave, role)).or_insert_with(new).changed.push(*shares);
    }
    let waves = blocks.keys().map(|(wave, _)| wave).collect::<BTreeSet<_>>().len();
    let mut blocks: Vec<Block<'_>> = blocks.into_values().collect();
    assign(&mut blocks, &controls, windows);
    let [mut sick, mut healthy] = [judge_sick(&blocks), judge_healthy(&blocks)];
    let corrected = holm(&[sick.p, healthy.p]);
    for (group, corrected) in [&mut sick, &mut healthy].into_iter().zip(corrected) {
        group.p = corrected.p;
        group.effect = group.effect_of();
    }
    let mut rollout = Rollout {
        effect: together(sick.effect, healthy.effect),
        summary: String::new(),
        changed: observed.len(),
        controls: blocks.iter().map(|block| block.controls.len()).sum(),
        unobserved: changed.len() - observed.len(),
        waves,
        caveats: caveats(&blocks, &sick),
        sick,
        healthy,
    };
    rollout.summary = rollout.sentence();
    rollout
}

/// Splits hosts into changed ones and controls: those that never changed, or if there are too few, the later half of
/// the changed.
fn sides<'h>(hosts: &'h [RolloutHost], windows: &RolloutWindows) -> (Vec<&'h RolloutHost>, Vec<&'h RolloutHost>) {
    let (changed, never): (Vec<_>, Vec<_>) = hosts.iter().partition(|host| host.changed_ms.is_some());
    if never.len() >= FEWEST {
        return (changed, never);
    }
    let mut times: Vec<i64> = changed.iter().filter_map(|host| host.changed_ms).collect();
    times.sort_unstable();
    let Some(middle) = times.get(times.len().saturating_sub(1) / 2) else { return (changed, never) };
    let is_early = |host: &&RolloutHost| host.changed_ms.is_some_and(|at| at <= *middle);
    let (early, late): (Vec<_>, Vec<_>) = changed.iter().copied().partition(is_early);
    // If all hosts changed at once, the later ones changed within the time that is compared.
    let is_control =
        |host: &&RolloutHost| host.changed_ms.is_some_and(|at| at > middle + windows.settle_ms + windows.after_ms);
    let late: Vec<&RolloutHost> = late.into_iter().filter(is_control).collect();
    if late.len() < FEWEST { (changed, never) } else { (early, late) }
}

/// Returns the shares of time that a host lost before and after; `None` if it was not observed for long enough.
fn shares(host: &RolloutHost, at_ms: i64, windows: &RolloutWindows) -> Option<Shares> {
    let from = at_ms + windows.settle_ms;
    Some(Shares {
        before: share(&host.lost, at_ms - windows.before_ms, at_ms)?,
        after: share(&host.lost, from, from + windows.after_ms)?,
    })
}

fn share(lost: &[Lost], from_ms: i64, to_ms: i64) -> Option<f64> {
    let first = lost.partition_point(|lost| lost.at_ms < from_ms);
    let of_span = lost[first..].iter().take_while(|lost| lost.at_ms < to_ms);
    let (lost, judged) = of_span.fold((0.0, 0.0), |(lost, judged), one| (lost + one.lost_s, judged + one.judged_s));
    let least = LEAST_OBSERVED * (to_ms - from_ms) as f64 / 1000.0;
    (judged > 0.0 && judged >= least).then(|| lost / judged)
}

/// Assigns each control to one block: of its own role if there is one, and of these to the one with the fewest controls
/// per changed host.
fn assign(blocks: &mut [Block<'_>], controls: &[&RolloutHost], windows: &RolloutWindows) {
    let mut of_wave: Vec<Vec<(Option<&str>, Shares)>> = vec![Vec::new(); blocks.len()];
    for host in controls {
        let role = host.role.as_deref();
        let can_serve: Vec<(usize, Shares)> = blocks
            .iter()
            .enumerate()
            .filter_map(|(at, block)| Some((at, shares(host, block.at_ms, windows)?)))
            .collect();
        for (at, shares) in &can_serve {
            of_wave[*at].push((role, *shares));
        }
        let has_own = can_serve.iter().any(|(at, _)| blocks[*at].role == role);
        let needs = |at: usize| blocks[at].controls.len() as f64 / blocks[at].changed.len() as f64;
        let own = can_serve.iter().filter(|(at, _)| !has_own || blocks[*at].role == role);
        if let Some((at, shares)) = own.min_by(|a, b| needs(a.0).total_cmp(&needs(b.0))) {
            let (at, shares) = (*at, *shares);
            blocks[at].controls.push(shares);
        }
    }
    for (block, of_wave) in blocks.iter_mut().zip(of_wave) {
        for (usual, is_sick) in block.usual.iter_mut().zip([true, false]) {
            let changes = |role_only: bool| -> Vec<f64> {
                let of_group = of_wave
                    .iter()
                    .filter(|(role, shares)| shares.is_sick() == is_sick && (!role_only || *role == block.role));
                let mut changes: Vec<f64> = of_group.map(|(_, shares)| shares.change()).collect();
                changes.sort_by(f64::total_cmp);
                changes
            };
            let own = changes(true);
            let middle = median(&if own.len() >= FEWEST { own } else { changes(false) });
            *usual = if middle.is_nan() { 0.0 } else { middle };
        }
    }
}

/// The changed hosts and the controls that were sick before, or those that were healthy.
struct Sides {
    changed: Vec<Shares>,
    controls: Vec<Shares>,
    /// Their changes minus the usual change in their blocks.
    changed_by: Vec<f64>,
    controls_by: Vec<f64>,
}

impl Sides {
    fn from_blocks(blocks: &[Block<'_>], is_sick: bool) -> Self {
        let of_group =
            |of: &[Shares]| of.iter().copied().filter(|one| one.is_sick() == is_sick).collect::<Vec<Shares>>();
        let mut sides = Self { changed: vec![], controls: vec![], changed_by: vec![], controls_by: vec![] };
        for block in blocks {
            let usual = block.usual[usize::from(!is_sick)];
            let (changed, controls) = (of_group(&block.changed), of_group(&block.controls));
            sides.changed_by.extend(changed.iter().map(|one| one.change() - usual));
            sides.controls_by.extend(controls.iter().map(|one| one.change() - usual));
            sides.changed.extend(changed);
            sides.controls.extend(controls);
        }
        sides
    }

    fn result(&self, difference: Option<Estimate>, p: f64) -> GroupResult {
        let mean = |of: &[Shares], share: fn(&Shares) -> f64| match of.len() {
            0 => 0.0,
            count => of.iter().map(share).sum::<f64>() / count as f64,
        };
        let means = |of: &[Shares]| [mean(of, |one| one.before), mean(of, |one| one.after)];
        GroupResult {
            effect: RolloutEffect::Unknown,
            changed: self.changed.len(),
            controls: self.controls.len(),
            changed_lost: means(&self.changed),
            controls_lost: means(&self.controls),
            difference: difference.map(Interval::from),
            p,
        }
    }

    fn are_enough(&self) -> bool {
        self.changed.len().min(self.controls.len()) >= FEWEST
    }
}

fn judge_sick(blocks: &[Block<'_>]) -> GroupResult {
    let sides = Sides::from_blocks(blocks, true);
    if !sides.are_enough() {
        return sides.result(None, 1.0);
    }
    let difference = ranks::estimate(&sides.controls_by, &sides.changed_by, CONFIDENCE);
    sides.result(difference, ranks::p(&sides.controls_by, &sides.changed_by))
}

fn judge_healthy(blocks: &[Block<'_>]) -> GroupResult {
    let sides = Sides::from_blocks(blocks, false);
    if !sides.are_enough() {
        return sides.result(None, 1.0);
    }
    let became_sick = |of: &[Shares]| of.iter().filter(|one| one.after >= SICK).count();
    let (changed, controls) = (became_sick(&sides.changed), became_sick(&sides.controls));
    let table = ContingencyTable {
        with_cases: changed,
        with: sides.changed.len(),
        cases: changed + controls,
        all: sides.changed.len() + sides.controls.len(),
    };
    let p = (2.0 * upper_p(&[table]).min(lower_p(&[table]))).min(1.0);
    sides.result(table.risk_difference(), p)
}

impl GroupResult {
    fn effect_of(&self) -> RolloutEffect {
        match self.difference.and_then(|difference| difference.estimate) {
            None => RolloutEffect::Unknown,
            // Nobody acts on a smaller difference.
            Some(difference) if self.p > IN_ERROR || difference.abs() < SICK => RolloutEffect::NoDifference,
            Some(difference) if difference < 0.0 => RolloutEffect::Helped,
            Some(_) => RolloutEffect::Hurt,
        }
    }
}

fn together(sick: RolloutEffect, healthy: RolloutEffect) -> RolloutEffect {
    match (sick, healthy) {
        (RolloutEffect::Helped, RolloutEffect::Hurt) | (RolloutEffect::Hurt, RolloutEffect::Helped) => {
            RolloutEffect::Mixed
        }
        (RolloutEffect::Helped, _) | (_, RolloutEffect::Helped) => RolloutEffect::Helped,
        (RolloutEffect::Hurt, _) | (_, RolloutEffect::Hurt) => RolloutEffect::Hurt,
        (RolloutEffect::Unknown, RolloutEffect::Unknown) => RolloutEffect::Unknown,
        _ => RolloutEffect::NoDifference,
    }
}

fn caveats(blocks: &[Block<'_>], sick: &GroupResult) -> Vec<String> {
    let mut caveats = Vec::new();
    let changed: Vec<Shares> = blocks.iter().flat_map(|block| &block.changed).copied().collect();
    let controls: Vec<Shares> = blocks.iter().flat_map(|block| &block.controls).copied().collect();
    let count = |of: &[Shares]| of.iter().filter(|one| one.is_sick()).count();
    let table = ContingencyTable {
        with_cases: count(&changed),
        with: changed.len(),
        cases: count(&changed) + count(&controls),
        all: changed.len() + controls.len(),
    };
    let were_chosen = table.with > 0 && table.with < table.all && upper_p(&[table]) <= IN_ERROR;
    if were_chosen {
        caveats.push(
            "more of the changed hosts were sick before than of the others: sick hosts get better by themselves too, so they are \
             compared with other sick hosts only"
                .to_owned(),
        );
    }
    if sick.changed >= FEWEST && sick.controls < FEWEST {
        caveats.push(
            "too few unchanged hosts were sick at that time: how sick hosts fared without the change is unknown"
                .to_owned(),
        );
    }
    if sick.changed > 0 && sick.controls >= FEWEST && sick.changed_lost[0] > 2.0 * sick.controls_lost[0] {
        caveats.push(
            "the changed hosts were more than twice as sick before as those they are compared with: part of what \
             they gained may have come by itself"
                .to_owned(),
        );
    }
    caveats
}

impl Rollout {
    fn sentence(&self) -> String {
        let Self { sick, healthy, .. } = self;
        let points = |share: f64| format!("{:.1}", 100.0 * share);
        let range = |of: &GroupResult| {
            let interval = of.difference?;
            Some((points(interval.low), points(interval.high?)))
        };
        let of_sick = || {
            let [before, after] = sick.changed_lost.map(points);
            let [from, to] = sick.controls_lost.map(points);
            format!(
                "{} changed hosts that were sick lost {before} % of their time before and {after} % after; {} that did not \
                 change, {from} % and {to} %",
                sick.changed, sick.controls
            )
        };
        let of_healthy = || {
            let (low, high) = range(healthy).unwrap_or_default();
            format!(
                "of {} changed hosts that were healthy, {} points more became sick than of {} that did not change (95 % \
                 interval {low} to {high})",
                healthy.changed,
                points(healthy.difference.and_then(|difference| difference.estimate).unwrap_or(0.0)),
                healthy.controls
            )
        };
        match self.effect {
            RolloutEffect::Unknown => format!(
                "Cannot be judged: {} changed hosts and {} others were observed before and after, and each group needs {FEWEST}.",
                self.changed, self.controls
            ),
            RolloutEffect::NoDifference => {
                let of = |group: &GroupResult, what: &str| {
                    range(group)
                        .map(|(low, high)| format!("{what} between {low} and {high} points would not have been seen"))
                };
                let unseen = [
                    of(sick, "an effect on sick hosts"),
                    of(healthy, "a change of the share of hosts that become sick"),
                ];
                let unseen: Vec<String> = unseen.into_iter().flatten().collect();
                format!("No difference beyond noise: {}.", unseen.join("; "))
            }
            RolloutEffect::Helped if sick.effect == RolloutEffect::Helped => format!("Helped: {}.", of_sick()),
            RolloutEffect::Helped => format!("Helped: {}.", of_healthy()),
            RolloutEffect::Hurt if healthy.effect == RolloutEffect::Hurt => format!("Hurt: {}.", of_healthy()),
            RolloutEffect::Hurt => format!("Hurt: {}.", of_sick()),
            RolloutEffect::Mixed => format!("Helped some and hurt others: {}; {}.", of_sick(), of_healthy()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;
    const WINDOWS: RolloutWindows = RolloutWindows { before_ms: 4 * HOUR, settle_ms: HOUR, after_ms: 4 * HOUR };

    /// Creates a host that loses `before` of its time until `at`, and `after` from then on, whether it is changed then
    /// or not.
    fn host(at: i64, is_changed: bool, before: f64, after: f64) -> RolloutHost {
        let lost = (0..24).map(|hour| Lost {
            at_ms: hour * HOUR,
            lost_s: 3600.0 * if hour * HOUR < at { before } else { after },
            judged_s: 3600.0,
        });
        RolloutHost { role: None, changed_ms: is_changed.then_some(at), lost: lost.collect() }
    }

    fn spread(at: usize) -> f64 {
        0.002 * at as f64
    }

    #[test]
    fn sick_hosts_that_get_better_than_other_sick_hosts_were_helped() {
        // Ten changed hosts lose 0.2 to 0.218 before and 0.05 after; ten others lose 0.2 to 0.218 before and 0.1 less
        // after, without any change.
        let changed = (0..10).map(|n| host(10 * HOUR, true, 0.2 + spread(n), 0.05 + spread(n)));
        let others = (0..10).map(|n| host(10 * HOUR, false, 0.2 + spread(n), 0.1 + spread(n)));
        let rollout = judge_rollout(&changed.chain(others).collect::<Vec<_>>(), &WINDOWS);
        assert_eq!((rollout.effect, rollout.sick.changed, rollout.sick.controls), (RolloutEffect::Helped, 10, 10));
        // -0.15 minus -0.1; all of one side below all of the other: 2 / C(20, 10) = 2 / 184,756, corrected for two
        // groups.
        let difference = rollout.sick.difference.unwrap();
        assert!((difference.estimate.unwrap() + 0.05).abs() < 1e-9, "{difference:?}");
        assert!((rollout.sick.p - 4.0 / 184_756.0).abs() < 1e-9, "{}", rollout.sick.p);
        assert_eq!(
            rollout.summary,
            "Helped: 10 changed hosts that were sick lost 20.9 % of their time before and 5.9 % after; 10 that did not change, \
             20.9 % and 10.9 %."
        );
        assert_eq!(rollout.caveats, Vec::<String>::new());
    }

    #[test]
    fn what_gets_better_by_itself_is_no_help() {
        // Changed because they were sick, and no better than the other sick ones afterwards.
        let changed = (0..8).map(|n| host(10 * HOUR, true, 0.2 + spread(n), 0.05 + spread(7 - n)));
        let sick = (0..8).map(|n| host(10 * HOUR, false, 0.2 + spread(n), 0.05 + spread(7 - n)));
        let healthy = (0..40).map(|_| host(10 * HOUR, false, 0.0, 0.0));
        let rollout = judge_rollout(&changed.chain(sick).chain(healthy).collect::<Vec<_>>(), &WINDOWS);
        assert_eq!(rollout.effect, RolloutEffect::NoDifference);
        assert!(
            rollout.summary.starts_with("No difference beyond noise: an effect on sick hosts between -"),
            "{}",
            rollout.summary
        );
        assert!(rollout.caveats[0].starts_with("more of the changed hosts were sick before"), "{:?}", rollout.caveats);
        // Without sick controls there is no conclusion.
        let changed = (0..8).map(|n| host(10 * HOUR, true, 0.2 + spread(n), 0.05 + spread(n)));
        let healthy = (0..40).map(|_| host(10 * HOUR, false, 0.0, 0.0));
        let rollout = judge_rollout(&changed.chain(healthy).collect::<Vec<_>>(), &WINDOWS);
        assert_eq!((rollout.effect, rollout.sick.effect), (RolloutEffect::Unknown, RolloutEffect::Unknown));
        assert!(rollout.caveats.iter().any(|caveat| caveat.starts_with("too few unchanged hosts were sick")));
    }

    #[test]
    fn healthy_hosts_that_become_sick_were_hurt() {
        // 10 of 20 hosts changed in two waves become sick, and 1 of 20 others: by hand, 2 · (C(20,10) C(20,1) +
        // C(20,11)) / C(40,11).
        let changed =
            (0..20).map(|n| host(if n < 10 { 6 } else { 14 } * HOUR, true, 0.0, if n % 2 == 0 { 0.3 } else { 0.0 }));
        let others = (0..20).map(|n| host(10 * HOUR, false, 0.0, if n == 2 { 0.3 } else { 0.0 }));
        let rollout = judge_rollout(&changed.chain(others).collect::<Vec<_>>(), &WINDOWS);
        assert_eq!((rollout.effect, rollout.waves, rollout.controls), (RolloutEffect::Hurt, 2, 20));
        let by_hand = 2.0 * (184_756.0 * 20.0 + 167_960.0) / 2_311_801_440.0;
        assert!((rollout.healthy.p - 2.0 * by_hand).abs() < 1e-6, "{} {by_hand}", rollout.healthy.p);
        assert!((rollout.healthy.difference.unwrap().estimate.unwrap() - 0.45).abs() < 1e-9);
    }

    #[test]
    fn a_rollout_to_all_hosts_has_the_later_ones_as_controls() {
        // The first half changes at 5:00 and gets better; the second at 16:00.
        let early = (0..8).map(|n| host(5 * HOUR, true, 0.2 + spread(n), 0.02 + spread(n)));
        let late = (0..8).map(|n| host(16 * HOUR, true, 0.2 + spread(n), 0.02 + spread(n)));
        let rollout = judge_rollout(&early.chain(late).collect::<Vec<_>>(), &WINDOWS);
        assert_eq!((rollout.effect, rollout.changed, rollout.controls), (RolloutEffect::Helped, 8, 8));
        // Changing all hosts at once leaves no controls.
        let all = (0..16).map(|n| host(5 * HOUR, true, 0.2 + spread(n), 0.02 + spread(n)));
        let rollout = judge_rollout(&all.collect::<Vec<_>>(), &WINDOWS);
        assert_eq!((rollout.effect, rollout.controls), (RolloutEffect::Unknown, 0));
        assert!(rollout.summary.starts_with("Cannot be judged: 16 changed hosts and 0 others"), "{}", rollout.summary);
    }

    #[test]
    fn roles_with_other_hours_are_compared_with_their_own() {
        // Batch hosts get worse by 0.3 at that hour, changed or not; web hosts stay. Most changed hosts are batch hosts.
        let of_role = |role: &str, host: RolloutHost| RolloutHost { role: Some(role.into()), ..host };
        let mut hosts = Vec::new();
        for n in 0..10 {
            let more = spread((n * 7) % 10);
            hosts.push(of_role("batch", host(10 * HOUR, n < 8, 0.1, 0.4 + more)));
            hosts.push(of_role("batch", host(10 * HOUR, false, 0.1, 0.4 + more)));
            hosts.push(of_role("web", host(10 * HOUR, n < 2, 0.1, 0.1 + more)));
            hosts.push(of_role("web", host(10 * HOUR, false, 0.1, 0.1 + more)));
        }
        let rollout = judge_rollout(&hosts, &WINDOWS);
        assert_eq!((rollout.effect, rollout.changed, rollout.controls), (RolloutEffect::NoDifference, 10, 30));
    }

    #[test]
    fn hosts_that_were_not_observed_are_not_judged() {
        let mut hosts: Vec<RolloutHost> = (0..10).map(|n| host(10 * HOUR, n < 5, 0.2, 0.1)).collect();
        hosts[0].lost.retain(|lost| lost.at_ms >= 10 * HOUR);
        let rollout = judge_rollout(&hosts, &WINDOWS);
        assert_eq!((rollout.changed, rollout.unobserved), (4, 1));
        assert_eq!(judge_rollout(&[], &WINDOWS).effect, RolloutEffect::Unknown);
    }
}
