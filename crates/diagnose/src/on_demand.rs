//! Requests sources that cost too much to be always on, where a rule suspects something.

use crate::facts::Facts;
use crate::interference;
use crate::rule::Rule;
use crate::rule_context::RuleContext;
use crate::rulebook::RuleBook;
use crate::sources;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_documents::diagnosis::CloserLook;
use whyslow_model::window::Window;

/// Returns the on-demand sources of the rules that suspect something in the window so far, and those that show which process
/// slows which.
pub fn requested_sources(window: &Window, book: &RuleBook) -> BTreeSet<String> {
    let facts = Facts::from_window(window);
    let suspected = book.all().iter().filter(|rule| !rule.asks.is_empty()).filter(|rule| {
        let suspect = rule.suspect.as_ref().unwrap_or(&rule.when);
        entities(rule, &facts).any(|context| suspect.holds(&context))
    });
    suspected.flat_map(|rule| rule.asks.iter().cloned()).chain(interference::requests(window, &facts)).collect()
}

fn entities<'f>(rule: &Rule, facts: &'f Facts) -> impl Iterator<Item = RuleContext<'f>> {
    let busy = facts.entities(rule.scope).iter().filter(|entity| !entity.idle);
    busy.map(move |entity| RuleContext::new(entity, &facts.host))
}

/// Returns the on-demand sources that were read and for how long; leaves out those that failed.
pub(crate) fn closer_looks(window: &Window) -> Vec<CloserLook> {
    let mut first: BTreeMap<&str, (u64, u64, &str)> = BTreeMap::new();
    for snapshot in window.snapshots() {
        for report in snapshot.sources.iter().filter(|report| report.asked && sources::was_read(report)) {
            let span = first.entry(&report.source).or_insert((snapshot.boot_ns, snapshot.boot_ns, &report.tells));
            span.1 = snapshot.boot_ns;
        }
    }
    let look = |(source, (from, to, tells)): (&str, (u64, u64, &str))| CloserLook {
        source: source.to_owned(),
        tells: tells.to_owned(),
        seconds: (to - from) as f64 / 1e9,
    };
    first.into_iter().map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SECOND, window};
    use whyslow_model::catalogue::Cpu;
    use whyslow_model::snapshot::{ReadOutcome, SourceReport};

    fn busy(busy_percent: u64) -> Window {
        window(0..5, |t, s| {
            s.processor.cpu.push(Cpu {
                user: (t * SECOND * busy_percent / 100).into(),
                idle: (t * SECOND * (100 - busy_percent) / 100).into(),
                ..Cpu::new(0)
            });
            if t > 1 {
                s.sources.push(SourceReport { source: "bpf/close".into(), asked: true, ..SourceReport::default() });
            }
        })
    }

    const RULE: &str = r#"
        id = "test.busy"
        scope = "host"
        means = "Busy."
        when = "cpu.busy > 0.9"
        impact = "1.0"
        summary = "Busy."
        evidence = []
        asks = ["bpf/close"]
        suspect = "cpu.busy > 0.5"
    "#;

    #[test]
    fn a_suspicion_enables_the_source() {
        let mut book = RuleBook::built_in();
        book.add("test.toml", RULE).unwrap();
        assert!(requested_sources(&busy(60), &book).contains("bpf/close"));
        assert!(!requested_sources(&busy(40), &book).contains("bpf/close"));
    }

    #[test]
    fn a_suspicion_without_a_source_is_an_error_with_its_line() {
        let wrong = RULE.replace("asks = [\"bpf/close\"]", "");
        let error = RuleBook::built_in().add("test.toml", &wrong).unwrap_err();
        assert_eq!((error.line, error.what.contains("needs asks")), (10, true), "{error}");
    }

    #[test]
    fn a_closer_look_lasts_from_its_first_reading_to_its_last() {
        let looks = closer_looks(&busy(60));
        assert_eq!(looks.iter().map(|l| (&*l.source, l.seconds)).collect::<Vec<_>>(), [("bpf/close", 2.0)]);
    }

    #[test]
    fn a_refused_source_is_no_closer_look() {
        let snapshots = busy(60).snapshots().to_vec();
        let refused = snapshots.into_iter().map(|mut s| {
            for report in &mut s.sources {
                report.outcome = ReadOutcome::NotPermitted { why: "BPF is switched off".into(), remedy: String::new() };
            }
            s
        });
        assert_eq!(closer_looks(&Window::new(refused.collect())), []);
    }
}
