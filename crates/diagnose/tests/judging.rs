//! What is made of rules that hold on several things, and of impacts that nobody can compute.

mod seconds;

use seconds::{SECOND, judged};
use whyslow_diagnose::RuleBook;
use whyslow_model::catalogue::Cpu;
use whyslow_model::diagnosis::{Basis, Diagnosis, Verdict};

/// Two CPUs, the first 90 % busy and the second 40 %, judged by one more rule; no pressure is known.
fn judged_by(rule: &str) -> Diagnosis {
    let mut book = RuleBook::built_in();
    book.add("test.toml", rule).expect("a rule");
    judged(&book, |t, s| {
        for (cpu, busy) in [(0, 90), (1, 40)] {
            s.processor.cpu.push(Cpu {
                user: (t * SECOND * busy / 100).into(),
                system: 0.into(),
                idle: (t * SECOND * (100 - busy) / 100).into(),
                ..Cpu::new(cpu)
            });
        }
    })
}

#[test]
fn what_is_found_on_one_thing_is_not_ruled_out_by_another() {
    let rule = |limit: f64| {
        format!(
            "id = 'test.core'\nscope = 'core'\nmeans = 'A test.'\nwhen = 'core.idle >= 0.0'\nimpact = '1.0 - core.idle'\n\
             high = 'core.idle >= 0.0'\nsummary = '{{subject}}'\n\
             [[evidence]]\nsignal = 'cpu.busy'\nexpected = 'low'\n\
             [[look_alikes]]\ntext = '{{subject}} idles'\nunless = 'core.idle > {limit:.2}'\n"
        )
    };
    let is_ruled_out = |d: &Diagnosis| d.ruled_out.iter().any(|entry| entry.id.starts_with("test.core"));
    let is_found = |d: &Diagnosis| d.findings.iter().any(|finding| finding.id == "test.core");
    // The second CPU idles 60 % of the time, the first 10 %.
    let one = judged_by(&rule(0.3));
    assert!(is_found(&one) && !is_ruled_out(&one), "{:?}", one.ruled_out);
    let none = judged_by(&rule(0.05));
    assert!(!is_found(&none) && is_ruled_out(&none), "{:?}", none.ruled_out);
}

#[test]
fn an_unknown_impact_is_not_a_measured_zero() {
    let d = judged_by(
        "id = 'test.unknown'\nscope = 'host'\nmeans = 'A test.'\nwhen = 'cpu.busy > 0.1'\nimpact = 'stall.io'\n\
         high = 'cpu.busy > 0.1'\nsummary = 'A test.'\n\
         [[evidence]]\nsignal = 'cpu.busy'\nexpected = 'low'\n",
    );
    let found = d.findings.iter().find(|finding| finding.id == "test.unknown").expect("it holds");
    assert_eq!(found.impact_is, Basis::NotMeasured);
    assert!(found.impact > 0.0, "{found:?}");
    assert_eq!(d.verdict, Verdict::Bottleneck, "a certain finding is reported though nobody knows what it cost");
}
