//! Holds a diagnosis against what was expected.

use crate::expect::{Expect, First, SLIGHT, Who};
use whyslow_model::diagnosis::{Confidence, Diagnosis, Finding, Verdict};

/// What is wrong with an answer, a sentence each; nothing where it is right.
pub fn faults_of(answer: &Diagnosis, expect: &Expect) -> Vec<String> {
    let mut wrong = match &expect.first {
        Some(first) => wrong_first(answer.findings.first(), first),
        None => wrong_health(answer, expect),
    };
    let ruled_out = answer.ruled_out.iter().filter(|cleared| expect.not_ruled_out.contains(&&*cleared.id));
    wrong.extend(ruled_out.map(|cleared| format!("{} is ruled out: {}", cleared.id, cleared.because)));
    for finding in &answer.findings {
        // What another finding explains is its effect, and rightly there.
        let sure = finding.confidence == Confidence::High && finding.explained_by.is_none();
        if sure && expect.never.contains(&&*finding.id) {
            wrong.push(format!("{} must not be found", finding.key()));
        }
        if !(0.0..=1.0).contains(&finding.impact) {
            wrong.push(format!("{} has the impossible impact {}", finding.key(), finding.impact));
        }
    }
    wrong
}

/// Takes out of an answer what the hypervisor did, which was seen to take much; on a healthy control also what comes of that.
pub fn set_aside_steal(answer: &mut Diagnosis, expect: &Expect) {
    let came_of_it = |f: &Finding| f.explained_by.as_ref().is_some_and(|by| by.starts_with("cpu.steal@"));
    answer.findings.retain(|f| f.id != "cpu.steal" && !(expect.first.is_none() && came_of_it(f)));
    if answer.findings.is_empty() && answer.verdict == Verdict::Bottleneck {
        answer.verdict = Verdict::Healthy;
    }
}

/// What is wrong with the first cause alone, whoever is to blame: captures do not tell everything. What is the machine's
/// may be told of the machine.
pub fn first_cause(answer: &Diagnosis, expect: &Expect) -> Vec<String> {
    let Some(first) = &expect.first else { return wrong_health(answer, expect) };
    let Some(found) = answer.findings.first() else { return vec!["nothing was found".into()] };
    let subject = found.subject.kind == "host" || first.subjects.iter().any(|who| who.is(&found.subject));
    if found.id == first.id && subject { Vec::new() } else { vec![format!("first is {}", found.key())] }
}

fn wrong_first(found: Option<&Finding>, first: &First) -> Vec<String> {
    let Some(found) = found else { return vec!["nothing was found".into()] };
    if found.id != first.id {
        return vec![format!("first is {}", found.key())];
    }
    let mut wrong = Vec::new();
    if !first.subjects.iter().any(|who| who.is(&found.subject)) {
        wrong.push(format!("the subject is {} {}", found.subject.kind, found.subject.name));
    }
    let blamed = |who: &Who| found.culprits.first().is_some_and(|c| who.did(c)) || who.has(&found.subject);
    if !first.culprits.is_empty() && !first.culprits.iter().any(blamed) {
        let name = found.culprits.first().map_or("nobody", |c| &c.name);
        wrong.push(format!("the culprit is {name}"));
    }
    wrong
}

fn wrong_health(answer: &Diagnosis, expect: &Expect) -> Vec<String> {
    let slight = |f: &Finding| expect.slightly.contains(&&*f.id) && f.impact <= SLIGHT;
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
    use whyslow_model::diagnosis::{Basis, Cost, Culprit, Host, Origin, RuledOut, SCHEMA, Span, Subject};

    fn finding(id: &str, subject: Subject, culprit: u32) -> Finding {
        let (kind, name, of) = ("process".into(), "lab-x".into(), "it".into());
        Finding {
            id: id.into(),
            subject,
            culprits: vec![Culprit { kind, name, pid: Some(culprit), share: 1.0, of, ..Culprit::default() }],
            impact: 0.5,
            impact_is: Basis::Measured,
            confidence: Confidence::High,
            summary: String::new(),
            evidence: Vec::new(),
            explains: Vec::new(),
            explained_by: None,
            unattributed: None,
            more: 0,
            how_bad: None,
            since: None,
            actions: Vec::new(),
        }
    }

    fn answer(verdict: Verdict, findings: Vec<Finding>) -> Diagnosis {
        Diagnosis {
            schema: SCHEMA.into(),
            host: Host::default(),
            window: Span { start: None, end: None, seconds: 10.0, samples: 11, source: Origin::Live },
            verdict,
            findings,
            ruled_out: Vec::new(),
            blind_spots: Vec::new(),
            closer_looks: Vec::new(),
            cpu_explained: None,
            cost: Cost::default(),
            figures: Vec::new(),
        }
    }

    fn expect() -> Expect {
        Expect::first("disk.saturated", [Who::device("loop3")]).by([Who::Process(7)]).never(&["disk.depth_one"])
    }

    #[test]
    fn right_is_the_right_id_subject_and_culprit() {
        let right = finding("disk.saturated", Subject::new("device", "loop3"), 7);
        assert!(faults_of(&answer(Verdict::Bottleneck, vec![right]), &expect()).is_empty());
        for wrong in [
            finding("disk.small_io", Subject::new("device", "loop3"), 7),
            finding("disk.saturated", Subject::new("device", "loop4"), 7),
            finding("disk.saturated", Subject::new("device", "loop3"), 8),
        ] {
            assert_eq!(faults_of(&answer(Verdict::Bottleneck, vec![wrong]), &expect()).len(), 1);
        }
        assert_eq!(faults_of(&answer(Verdict::Healthy, vec![]), &expect()), ["nothing was found"]);
    }

    #[test]
    fn a_look_alike_spoils_the_answer() {
        let right = finding("disk.saturated", Subject::new("device", "loop3"), 7);
        let mut alike = finding("disk.depth_one", Subject::new("device", "loop3"), 7);
        let both = |alike| answer(Verdict::Bottleneck, vec![right.clone(), alike]);
        assert_eq!(faults_of(&both(alike.clone()), &expect()).len(), 1);
        alike.explained_by = Some(right.key());
        assert!(faults_of(&both(alike), &expect()).is_empty());
    }

    #[test]
    fn a_resource_that_is_ruled_out_wrongly_spoils_the_answer() {
        let right = finding("disk.saturated", Subject::new("device", "loop3"), 7);
        let cleared = RuledOut { id: "memory".into(), because: "8 GiB available".into() };
        let answer = Diagnosis { ruled_out: vec![cleared], ..answer(Verdict::Bottleneck, vec![right]) };
        assert!(faults_of(&answer, &expect()).is_empty());
        let wrong = faults_of(&answer, &expect().not_ruled_out(&["cpu", "memory"]));
        assert_eq!(wrong, ["memory is ruled out: 8 GiB available"]);
    }

    #[test]
    fn a_healthy_machine_has_no_sure_finding() {
        let mut maybe = finding("cpu.saturated", Subject::host(), 7);
        assert_eq!(faults_of(&answer(Verdict::Bottleneck, vec![maybe.clone()]), &Expect::healthy()).len(), 1);
        maybe.confidence = Confidence::Low;
        assert!(faults_of(&answer(Verdict::Healthy, vec![maybe.clone()]), &Expect::healthy()).is_empty());
        assert_eq!(faults_of(&answer(Verdict::Undetermined, vec![]), &Expect::healthy()).len(), 1);
        (maybe.confidence, maybe.impact) = (Confidence::High, 0.1);
        let build = Expect::healthy().slightly(&["cpu.saturated"]);
        assert!(faults_of(&answer(Verdict::Bottleneck, vec![maybe.clone()]), &build).is_empty());
        maybe.impact = 0.9;
        assert_eq!(faults_of(&answer(Verdict::Bottleneck, vec![maybe]), &build).len(), 1);
    }

    #[test]
    fn what_the_hypervisor_does_is_set_aside() {
        let stolen = finding("cpu.steal", Subject::new("host", ""), 7);
        let effect =
            Finding { explained_by: Some(stolen.key()), ..finding("cpu.saturated", Subject::new("host", ""), 7) };
        let all = vec![stolen.clone(), effect.clone(), finding("disk.saturated", Subject::new("device", "loop3"), 7)];
        let left = |expect: &Expect, findings: &[Finding]| {
            let mut answer = answer(Verdict::Bottleneck, findings.to_vec());
            set_aside_steal(&mut answer, expect);
            (answer.verdict, answer.findings.iter().map(|f| f.id.to_string()).collect::<Vec<_>>())
        };
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(left(&expect(), &all), (Verdict::Bottleneck, ids(&["cpu.saturated", "disk.saturated"])));
        assert_eq!(left(&Expect::healthy(), &all), (Verdict::Bottleneck, ids(&["disk.saturated"])));
        assert_eq!(left(&Expect::healthy(), &[stolen, effect]), (Verdict::Healthy, ids(&[])));
    }
}
