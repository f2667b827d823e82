//! Compares a diagnosis with what a trial expects.

use crate::error::{Error, Result};
use crate::expect::{EntityPattern, Expect, Figure};
use crate::trial::Trial;
use std::fs;
use whyslow_documents::diagnosis::{Confidence, Diagnosis, Finding, Reading, Verdict};

/// Maximum impact of a finding on a healthy control that still counts as slight.
pub const SLIGHT: f64 = 0.25;

/// Returns the mistakes in an answer, one sentence each.
pub fn mismatches(answer: &Diagnosis, trial: &Trial, expect: &Expect) -> Vec<String> {
    if let Some(interference) = &expect.interference {
        return interference.mismatch(&answer.interference).into_iter().collect();
    }
    let mut wrong = match trial.finding {
        Some(id) => wrong_causes(answer, id, expect),
        None => wrong_health(answer, trial),
    };
    let ruled_out = answer.ruled_out.iter().filter(|cleared| trial.not_ruled_out.contains(&&*cleared.id));
    wrong.extend(ruled_out.map(|cleared| format!("{} is ruled out: {}", cleared.id, cleared.because)));
    for finding in &answer.findings {
        // A finding that another one explains is its effect, and may appear.
        let sure = finding.confidence == Confidence::High && finding.explained_by.is_none();
        if sure && is_look_alike(&finding.id, trial, expect) {
            wrong.push(format!("{} must not be found", finding.key()));
        }
        if !(0.0..=1.0).contains(&finding.impact) {
            wrong.push(format!("{} has the impossible impact {}", finding.key(), finding.impact));
        }
    }
    wrong
}

/// Returns whether an id must not be found. The look-alike of one part of a compound fault may be another part.
fn is_look_alike(id: &str, trial: &Trial, expect: &Expect) -> bool {
    let is_part = trial.finding == Some(id) || expect.beside.iter().any(|(part, _)| *part == id);
    trial.never.contains(&id) || (expect.never.contains(&id) && !is_part)
}

/// Removes findings about steal time after the lab itself has seen the hypervisor steal CPU time; on a healthy control
/// also their effects.
pub fn remove_steal(answer: &mut Diagnosis, trial: &Trial) {
    let effect = |f: &Finding| f.explained_by.as_ref().is_some_and(|by| by.starts_with("cpu.steal@"));
    answer.findings.retain(|f| f.id != "cpu.steal" && !(trial.finding.is_none() && effect(f)));
    if answer.findings.is_empty() && answer.verdict == Verdict::Bottleneck {
        answer.verdict = Verdict::Healthy;
    }
}

/// Minimum share of all CPU time for whyslow to report steal time.
const SUBSTANTIAL: f64 = 0.05;

/// CPU time since boot, in clock ticks (proc(5), /proc/stat).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTicks {
    total: u64,
    steal: u64,
}

impl CpuTicks {
    pub fn now() -> Result<Self> {
        Self::parse(&fs::read_to_string("/proc/stat")?).ok_or_else(|| Error::failed("/proc/stat: unexpected content"))
    }

    /// Parses /proc/stat. The last columns, time of guests, are already included in user time.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).map(|t| t.parse().ok()).collect::<Option<_>>()?;
        Some(Self { total: ticks.iter().sum(), steal: *ticks.get(7)? })
    }

    /// Returns whether a substantial share of the time since then was stolen.
    pub fn substantial_since(self) -> Result<bool> {
        Self::now().map(|now| self.substantial_until(now))
    }

    fn substantial_until(self, now: Self) -> bool {
        now.steal.saturating_sub(self.steal) as f64 > SUBSTANTIAL * now.total.saturating_sub(self.total) as f64
    }
}

/// Returns the mistakes in an answer from less data than a machine usually shows: from captures, or from a machine that
/// lacks a feature. It must name the same first cause, or report no problem together with a blind spot.
pub fn mismatches_of_less(answer: &Diagnosis, trial: &Trial, expect: &Expect) -> Vec<String> {
    if expect.interference.is_some() {
        return Vec::new();
    }
    let wrong = wrong_from_less(answer, trial, expect);
    let sure = answer.findings.iter().find(|f| f.confidence == Confidence::High && f.explained_by.is_none());
    match (wrong.is_empty(), sure) {
        (true, _) => Vec::new(),
        (false, None) if answer.verdict == Verdict::Undetermined && !answer.blind_spots.is_empty() => Vec::new(),
        (false, None) => vec!["neither the cause nor a blind spot is named".into()],
        (false, Some(other)) => vec![format!("{} is found instead", other.key())],
    }
}

/// Returns the mistakes in the first finding. The culprit may be missing, the finding may be about the whole machine
/// instead of a part of it, and an effect may stand alone because its cause was not visible.
fn wrong_from_less(answer: &Diagnosis, trial: &Trial, expect: &Expect) -> Vec<String> {
    let Some(id) = trial.finding else { return wrong_health(answer, trial) };
    let Some(found) = answer.findings.first() else { return vec!["nothing was found".into()] };
    let is = |id: &str, expect: &Expect| {
        let subject = found.subject.kind == "host" || expect.subjects.iter().any(|pattern| pattern.is(&found.subject));
        found.id == id && subject
    };
    if is(id, expect) || expect.beside.iter().chain(&expect.effects).any(|(id, other)| is(id, other)) {
        Vec::new()
    } else {
        vec![format!("first is {}", found.key())]
    }
}

/// Returns the mistakes in the causes found, and in the effects of the first.
fn wrong_causes(answer: &Diagnosis, id: &str, expect: &Expect) -> Vec<String> {
    let first = answer.findings.first();
    let mut wrong = wrong_first(first, id, expect);
    if expect.beside.iter().any(|(id, other)| wrong_first(first, id, other).is_empty()) {
        wrong = missing(answer, id, expect, |f| f.explained_by.is_none());
    }
    for (id, other) in &expect.beside {
        wrong.extend(missing(answer, id, other, |f| f.explained_by.is_none()));
    }
    let cause = format!("{id}@");
    for (id, effect) in &expect.effects {
        wrong.extend(missing(answer, id, effect, |f| is_effect_of(f, &cause, answer)));
    }
    wrong
}

/// Returns whether a finding is an effect, directly or indirectly, of a finding whose key begins with `cause`.
fn is_effect_of(finding: &Finding, cause: &str, answer: &Diagnosis) -> bool {
    let mut at = finding;
    // The chain cannot be longer than the number of findings.
    for _ in &answer.findings {
        let Some(by) = &at.explained_by else { return false };
        if by.starts_with(cause) {
            return true;
        }
        let Some(next) = answer.findings.iter().find(|other| other.key() == *by) else { return false };
        at = next;
    }
    false
}

/// Returns a mistake if no finding of at least medium confidence is the expected one.
fn missing(answer: &Diagnosis, id: &str, expect: &Expect, is_so: impl Fn(&Finding) -> bool) -> Vec<String> {
    let mut found = answer.findings.iter().filter(|f| f.id == id && f.confidence >= Confidence::Medium && is_so(f));
    let is_there = found.any(|f| wrong_first(Some(f), id, expect).is_empty());
    if is_there { Vec::new() } else { vec![format!("{} is not found as it should be", expect.describe(id))] }
}

fn wrong_first(found: Option<&Finding>, id: &str, expect: &Expect) -> Vec<String> {
    let Some(found) = found else { return vec!["nothing was found".into()] };
    if found.id != id {
        return vec![format!("first is {}", found.key())];
    }
    let mut wrong = Vec::new();
    if !expect.subjects.iter().any(|pattern| pattern.is(&found.subject)) {
        wrong.push(format!("the subject is {} {}", found.subject.kind, found.subject.name));
    }
    let culprit = found.culprits.first();
    let blamed = |pattern: &EntityPattern| culprit.is_some_and(|c| pattern.did(c)) || pattern.has(&found.subject);
    if !expect.culprits.is_empty() && !expect.culprits.iter().any(blamed) {
        wrong.push(format!("the culprit is {}", culprit.map_or("nobody", |c| &c.name)));
    }
    wrong.extend(expect.figures.iter().filter_map(|figure| wrong_figure(found, figure)));
    wrong
}

fn wrong_figure(found: &Finding, figure: &Figure) -> Option<String> {
    let Figure { metric, value } = figure;
    match found.evidence.iter().find(|evidence| evidence.metric == *metric).map(|evidence| &evidence.value) {
        Some(Reading::Number(reported)) if figure.is_near(*reported) => None,
        Some(Reading::Number(reported)) => Some(format!("{metric} is {reported:.1} instead of {value:.1}")),
        _ => Some(format!("{metric} is not reported")),
    }
}

fn wrong_health(answer: &Diagnosis, trial: &Trial) -> Vec<String> {
    let slight = |f: &Finding| trial.slightly.contains(&&*f.id) && f.impact <= SLIGHT;
    let (allowed, others): (Vec<_>, Vec<_>) = answer.findings.iter().partition(|f| slight(f));
    let mut wrong: Vec<String> = others
        .iter()
        .filter(|f| f.confidence == Confidence::High)
        .map(|f| format!("{} on a healthy machine", f.key()))
        .collect();
    if wrong.is_empty() && allowed.is_empty() && answer.verdict != Verdict::Healthy {
        wrong.push(format!("the verdict is {:?}", answer.verdict).to_lowercase());
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::diagnosis::{BlindSpot, Culprit, Evidence, Origin, RuledOut, Subject, TimeSpan};

    fn finding(id: &str, subject: Subject, culprit: u32) -> Finding {
        let (kind, name, of) = ("process".into(), "lab-x".into(), "it".into());
        Finding {
            id: id.into(),
            subject,
            culprits: vec![Culprit { kind, name, pid: Some(culprit), share: 1.0, of, ..Culprit::default() }],
            impact: 0.5,
            confidence: Confidence::High,
            ..Finding::default()
        }
    }

    fn answer(verdict: Verdict, findings: Vec<Finding>) -> Diagnosis {
        Diagnosis { findings, ..Diagnosis::new(verdict, TimeSpan::new(Origin::Live, 10.0, 11)) }
    }

    const SATURATED: Trial = Trial { finding: Some("disk.saturated"), never: &["disk.depth_one"], ..Trial::IDLE };

    fn saturated(answer: &Diagnosis) -> Vec<String> {
        let expect = Expect::subject([EntityPattern::device("loop3")]).culprit([EntityPattern::Process(7)]);
        mismatches(answer, &SATURATED, &expect)
    }

    fn healthy(answer: &Diagnosis) -> Vec<String> {
        mismatches(answer, &Trial::IDLE, &Expect::healthy())
    }

    #[test]
    fn the_first_finding_must_have_the_right_id_subject_and_culprit() {
        let right = finding("disk.saturated", Subject::new("device", "loop3"), 7);
        assert!(saturated(&answer(Verdict::Bottleneck, vec![right])).is_empty());
        for (wrong, why) in [
            (finding("disk.small_io", Subject::new("device", "loop3"), 7), "first is disk.small_io@loop3"),
            (finding("disk.saturated", Subject::new("device", "loop4"), 7), "the subject is device loop4"),
            (finding("disk.saturated", Subject::new("device", "loop3"), 8), "the culprit is lab-x"),
        ] {
            assert_eq!(saturated(&answer(Verdict::Bottleneck, vec![wrong])), [why]);
        }
        assert_eq!(saturated(&answer(Verdict::Healthy, vec![])), ["nothing was found"]);
    }

    #[test]
    fn a_figure_must_be_reported_within_a_tenth() {
        let expect = Expect::subject([EntityPattern::device("loop3")]).figure("disk.ceiling", 1000.0);
        let with = |value: Option<f64>| {
            let mut found = finding("disk.saturated", Subject::new("device", "loop3"), 7);
            found.evidence.extend(value.map(|value| Evidence {
                metric: "disk.ceiling".into(),
                value: Reading::Number(value),
                unit: "1/s".into(),
                expected: String::new(),
                source: String::new(),
                how: String::new(),
            }));
            mismatches(&answer(Verdict::Bottleneck, vec![found]), &SATURATED, &expect)
        };
        assert!(with(Some(910.0)).is_empty() && with(Some(1090.0)).is_empty());
        assert_eq!(with(Some(880.0)), ["disk.ceiling is 880.0 instead of 1000.0"]);
        assert_eq!(with(None), ["disk.ceiling is not reported"]);
    }

    #[test]
    fn a_look_alike_must_not_be_found_unless_explained() {
        let right = finding("disk.saturated", Subject::new("device", "loop3"), 7);
        let mut alike = finding("disk.depth_one", Subject::new("device", "loop3"), 7);
        let both = |alike| answer(Verdict::Bottleneck, vec![right.clone(), alike]);
        assert_eq!(saturated(&both(alike.clone())), ["disk.depth_one@loop3 must not be found"]);
        alike.explained_by = Some(right.key());
        assert!(saturated(&both(alike)).is_empty());
    }

    #[test]
    fn the_resource_at_fault_must_not_be_ruled_out() {
        const LEAK: Trial = Trial { not_ruled_out: &["cpu", "memory"], ..SATURATED };
        let right = finding("disk.saturated", Subject::new("device", "loop3"), 7);
        let cleared = RuledOut { id: "memory".into(), because: "8 GiB available".into() };
        let answer = Diagnosis { ruled_out: vec![cleared], ..answer(Verdict::Bottleneck, vec![right]) };
        assert!(saturated(&answer).is_empty());
        let expect = Expect::subject([EntityPattern::device("loop3")]);
        assert_eq!(mismatches(&answer, &LEAK, &expect), ["memory is ruled out: 8 GiB available"]);
    }

    #[test]
    fn a_healthy_machine_has_no_finding_of_high_confidence() {
        const BUILD: Trial = Trial { slightly: &["cpu.saturated"], ..Trial::IDLE };
        let mut maybe = finding("cpu.saturated", Subject::host(), 7);
        let wrong = ["cpu.saturated@host on a healthy machine"];
        assert_eq!(healthy(&answer(Verdict::Bottleneck, vec![maybe.clone()])), wrong);
        maybe.confidence = Confidence::Low;
        assert!(healthy(&answer(Verdict::Healthy, vec![maybe.clone()])).is_empty());
        assert_eq!(healthy(&answer(Verdict::Undetermined, vec![])), ["the verdict is undetermined"]);
        (maybe.confidence, maybe.impact) = (Confidence::High, 0.1);
        let build = |finding| mismatches(&answer(Verdict::Bottleneck, vec![finding]), &BUILD, &Expect::healthy());
        assert!(build(maybe.clone()).is_empty());
        maybe.impact = 0.9;
        assert_eq!(build(maybe), wrong);
    }

    #[test]
    fn who_sees_less_may_be_unsure_but_not_wrong() {
        let expect = Expect::subject([EntityPattern::device("loop3")]);
        let wrong = |answer: &Diagnosis| mismatches_of_less(answer, &SATURATED, &expect);
        let blind = |verdict, findings| {
            let (what, why, remedy) = ("pressure".into(), "absent".into(), String::new());
            Diagnosis { blind_spots: vec![BlindSpot { what, why, remedy }], ..answer(verdict, findings) }
        };
        let right = finding("disk.saturated", Subject::host(), 7);
        assert!(wrong(&blind(Verdict::Bottleneck, vec![right])).is_empty());
        assert!(wrong(&blind(Verdict::Undetermined, vec![])).is_empty());
        for unsaid in [blind(Verdict::Healthy, vec![]), answer(Verdict::Undetermined, vec![])] {
            assert_eq!(wrong(&unsaid), ["neither the cause nor a blind spot is named"]);
        }
        let other = finding("disk.small_io", Subject::new("device", "loop3"), 7);
        assert_eq!(wrong(&blind(Verdict::Undetermined, vec![other])), ["disk.small_io@loop3 is found instead"]);
    }

    #[test]
    fn all_causes_of_a_compound_fault_must_be_found_in_any_order() {
        let device = |name: &str| Expect::subject([EntityPattern::device(name)]);
        let expect = device("loop3").beside(Some("disk.flush_bound"), device("loop4").never(&["disk.small_io"]));
        let saturated = finding("disk.saturated", Subject::new("device", "loop3"), 7);
        let flush = finding("disk.flush_bound", Subject::new("device", "loop4"), 8);
        let wrong = |findings: &[&Finding]| {
            let findings = findings.iter().map(|f| (*f).clone()).collect();
            mismatches(&answer(Verdict::Bottleneck, findings), &SATURATED, &expect)
        };
        assert!(wrong(&[&saturated, &flush]).is_empty() && wrong(&[&flush, &saturated]).is_empty());
        let missing = ["disk.flush_bound@loop4 is not found as it should be"];
        assert_eq!(wrong(&[&saturated]), missing);
        let hidden = Finding { explained_by: Some(saturated.key()), ..flush.clone() };
        assert_eq!(wrong(&[&saturated, &hidden]), missing);
        let unsure = Finding { confidence: Confidence::Low, ..saturated.clone() };
        let not_sure = "disk.saturated@loop3 and disk.flush_bound@loop4 is not found as it should be";
        assert_eq!(wrong(&[&flush, &unsure]), [not_sure]);
        let alike = finding("disk.small_io", Subject::new("device", "loop4"), 7);
        assert_eq!(wrong(&[&saturated, &flush, &alike]), ["disk.small_io@loop4 must not be found"]);
    }

    #[test]
    fn an_effect_must_be_found_as_the_effect_of_the_first() {
        let effect = Expect::subject([EntityPattern::device("loop4")]);
        let expect = Expect::subject([EntityPattern::device("loop3")]).effect("task.blocked", effect);
        let cause = finding("disk.saturated", Subject::new("device", "loop3"), 7);
        let alone = finding("task.blocked", Subject::new("device", "loop4"), 8);
        let effect = Finding { explained_by: Some(cause.key()), ..alone.clone() };
        let wrong = |other| mismatches(&answer(Verdict::Bottleneck, vec![cause.clone(), other]), &SATURATED, &expect);
        assert!(wrong(effect.clone()).is_empty());
        assert_eq!(wrong(alone), ["task.blocked@loop4 is not found as it should be"]);
        // Through another effect of the first.
        let shared = finding("disk.shared", Subject::new("device", "loop4"), 8);
        let through = |cause: &Finding| Finding { explained_by: Some(cause.key()), ..effect.clone() };
        let first = Finding { explained_by: Some(cause.key()), ..shared.clone() };
        let findings = vec![cause.clone(), first, through(&shared)];
        assert!(mismatches(&answer(Verdict::Bottleneck, findings), &SATURATED, &expect).is_empty());
    }

    #[test]
    fn steal_time_is_removed() {
        let stolen = finding("cpu.steal", Subject::new("host", ""), 7);
        let effect =
            Finding { explained_by: Some(stolen.key()), ..finding("cpu.saturated", Subject::new("host", ""), 7) };
        let all = vec![stolen.clone(), effect.clone(), finding("disk.saturated", Subject::new("device", "loop3"), 7)];
        let left = |trial: &Trial, findings: &[Finding]| {
            let mut answer = answer(Verdict::Bottleneck, findings.to_vec());
            remove_steal(&mut answer, trial);
            (answer.verdict, answer.findings.iter().map(|f| f.id.to_string()).collect::<Vec<_>>())
        };
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(left(&SATURATED, &all), (Verdict::Bottleneck, ids(&["cpu.saturated", "disk.saturated"])));
        assert_eq!(left(&Trial::IDLE, &all), (Verdict::Bottleneck, ids(&["disk.saturated"])));
        assert_eq!(left(&Trial::IDLE, &[stolen, effect]), (Verdict::Healthy, ids(&[])));
    }

    #[test]
    fn a_tenth_is_substantial_and_a_hundredth_is_not() {
        let ticks = |stat| CpuTicks::parse(stat).unwrap();
        let before = ticks("cpu  100 0 50 800 10 0 10 30 7 0\ncpu0 1 1 1 1 1 1 1 1\n");
        assert_eq!(before, CpuTicks { total: 1000, steal: 30 });
        assert!(before.substantial_until(ticks("cpu  190 0 50 800 10 0 10 40 7 0\n")));
        assert!(!before.substantial_until(ticks("cpu  199 0 50 800 10 0 10 31 7 0\n")));
        assert_eq!([CpuTicks::parse(""), CpuTicks::parse("cpu  1 2 3\n"), CpuTicks::parse("cpu  a\n")], [None; 3]);
    }
}
