//! The catalogue and the rules as text.

use whyslow_documents::diagnosis::ActionKind;
use whyslow_documents::listing::{ActionInfo, EvidenceInfo, RuleInfo, Signal};
use whyslow_model::catalogue::families;
use whyslow_model::normal::Normal;
use whyslow_show::text::{self, TextStyle};

const PLAIN: TextStyle = TextStyle { width: 80, colour: false, all: false, utc: true };

fn depth_one() -> RuleInfo {
    RuleInfo {
        id: "disk.depth_one".into(),
        file: "built in".into(),
        variant: String::new(),
        means: "The device is busy all the time with one request: a caller waits for each in turn.".into(),
        scope: "disk".into(),
        when: "disk.busy > 0.9 &&\n  disk.queue < 1.5\n".into(),
        impact: "disk.busy".into(),
        severity: String::new(),
        look_alikes: vec!["disk.saturated: there the queue stands".into()],
        explains: vec!["task.blocked".into()],
        asks: Vec::new(),
        evidence: vec![EvidenceInfo { signal: "disk.queue".into(), expected: "as many as it serves at once".into() }],
        actions: vec![ActionInfo {
            kind: ActionKind::Tunable,
            text: "Read ahead further".into(),
            set: vec![("disk.read_ahead_kb@<subject>".into(), ">1024".into())],
            expect: String::new(),
            when: String::new(),
        }],
        signals: vec![Signal {
            name: "disk.queue",
            unit: "count",
            help: "requests outstanding, on average",
            how: "Δweighted_time / Δt",
            source: "/proc/diskstats",
            normal: Normal::unknown("count"),
            better: None,
            baseline: false,
        }],
        sources: vec!["Documentation/admin-guide/iostats.rst".into()],
    }
}

#[test]
fn a_rule_is_explained() {
    let expected = "\
disk.depth_one: The device is busy all the time with one request: a caller waits
  for each in turn.
checked for each disk, built in

Holds when
  disk.busy > 0.9 &&
  disk.queue < 1.5

Time lost
  disk.busy

Looks alike
  - disk.saturated: there the queue stands

Explains
  - task.blocked

Recommends
  - Read ahead further
    disk.read_ahead_kb@<subject>=1024 (at least)

Reads
  disk.queue (count): requests outstanding, on average
    healthy: as many as it serves at once
    Δweighted_time / Δt (/proc/diskstats)

Sources
  - Documentation/admin-guide/iostats.rst
";
    assert_eq!(text::rule(&[depth_one()], &PLAIN), expected);
}

#[test]
fn variants_of_a_rule_share_a_line_in_the_list_and_are_explained_together() {
    let few = RuleInfo { variant: "few".into(), means: "Few requests are in flight.".into(), ..depth_one() };
    let expected = "\
disk.depth_one  The device is busy all the time with one request: a caller waits
                for each in turn. (2 variants)
";
    let variants = [few, depth_one()];
    assert_eq!(text::rules(&variants, &PLAIN), expected);
    let explained = text::rule(&variants, &PLAIN);
    let heads: Vec<&str> = explained.lines().filter(|line| line.starts_with("disk.depth_one")).collect();
    assert_eq!(
        heads,
        [
            "disk.depth_one (variant 1 of 2): Few requests are in flight.",
            "disk.depth_one (variant 2 of 2): The device is busy all the time with one"
        ]
    );
}

#[test]
fn rules_are_listed_with_the_file_of_a_user_s_own() {
    let own = RuleInfo { id: "disk.ours".into(), file: "/etc/whyslow/rules.d/a.toml".into(), ..depth_one() };
    let expected = "\
disk.depth_one  The device is busy all the time with one request: a caller waits
                for each in turn.
disk.ours       The device is busy all the time with one request: a caller waits
                for each in turn. (/etc/whyslow/rules.d/a.toml)
";
    assert_eq!(text::rules(&[depth_one(), own], &PLAIN), expected);
}

#[test]
fn every_metric_is_listed() {
    let families = families();
    let listing = text::metrics(&families, &TextStyle { all: true, width: 400, ..PLAIN });
    for family in &families {
        assert!(listing.contains(&format!("{}: ", family.name)), "{}", family.name);
        for metric in family.metrics {
            assert!(listing.contains(metric.otel), "{}.{}", family.name, metric.name);
        }
    }
}
