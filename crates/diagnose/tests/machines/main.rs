//! Diagnoses of synthetic machines, described second by second.

mod arrays;
mod attribution;
mod bursts;
mod disks;
mod guests;
mod memory;
mod network;
mod readahead;
mod scenarios;
mod scheduling;

use std::sync::LazyLock;
use whyslow_diagnose::{RuleBook, diagnose};
use whyslow_documents::diagnosis::{Basis, Diagnosis, Finding, Origin, Verdict};
use whyslow_model::catalogue::{Cpu, Disk, Pressure};
use whyslow_model::key::{MachineKey, TaskKey};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

const SECOND: u64 = 1_000_000_000;
/// Number of snapshots, a second apart.
const SAMPLES: u64 = 11;

/// Compiled once, as that takes longer than a diagnosis.
static RULES: LazyLock<RuleBook> = LazyLock::new(RuleBook::built_in);

/// Diagnoses a machine; `fill` writes the values of its counters after this many seconds.
fn machine(fill: impl Fn(u64, &mut Snapshot)) -> Diagnosis {
    judged(&RULES, fill)
}

/// Diagnoses a machine by these rules.
fn judged(book: &RuleBook, fill: impl Fn(u64, &mut Snapshot)) -> Diagnosis {
    diagnose(&window(fill), Origin::Live, book)
}

fn window(fill: impl Fn(u64, &mut Snapshot)) -> Window {
    let snapshots = (0..SAMPLES).map(|t| {
        let mut s = Snapshot { boot_ns: (t + 1) * SECOND, wall_ns: (t * SECOND) as i64, ..Snapshot::default() };
        fill(t, &mut s);
        s.sort();
        s
    });
    Window::new(snapshots.collect())
}

/// Returns a CPU with these percentages of the time in user and kernel mode, and otherwise idle.
fn cpu(t: u64, number: u32, user: u64, system: u64) -> Cpu {
    let time = |percent: u64| (t * SECOND * percent / 100).into();
    Cpu { user: time(user), system: time(system), idle: time(100 - user - system), ..Cpu::new(number) }
}

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// Adds two such CPUs.
fn two_cpus(t: u64, s: &mut Snapshot, user: u64, system: u64) {
    s.processor.cpu.extend([0, 1].map(|number| cpu(t, number, user, system)));
}

/// Adds pressure: percentages of the time in which a task waited for a CPU, memory or storage.
fn pressure(t: u64, s: &mut Snapshot, cpu: u64, memory: u64, io: u64) {
    let time = |percent: u64| (t * SECOND * percent / 100).into();
    let row =
        Pressure { cpu_some: time(cpu), memory_some: time(memory), io_some: time(io), ..Pressure::new(MachineKey) };
    s.processor.pressure.push(row);
}

/// Returns a disk that is busy all the time and serves `rate` reads of `size` bytes per second, with `in_flight` of them at a
/// time.
fn disk(t: u64, name: &str, rate: u64, size: u64, in_flight: f64) -> Disk {
    let waited = (t as f64 * 1e9 * in_flight) as u64;
    Disk {
        reads: (t * rate).into(),
        read_bytes: (t * rate * size).into(),
        read_time: waited.into(),
        writes: 0.into(),
        write_bytes: 0.into(),
        write_time: 0.into(),
        weighted_time: waited.into(),
        busy_time: (t * SECOND).into(),
        ..Disk::new(name.into())
    }
}

fn key(pid: u32) -> TaskKey {
    TaskKey { pid, tid: pid, start: 1 }
}

/// Returns the id of the first finding, and the name of its subject.
fn first(d: &Diagnosis) -> (&str, &str) {
    d.findings.first().map_or(("none", ""), |f| (f.id.as_str(), f.subject.name.as_str()))
}

fn found<'d>(d: &'d Diagnosis, id: &str) -> Option<&'d Finding> {
    d.findings.iter().find(|finding| finding.id == id)
}

/// Diagnoses two CPUs, the first 90 % busy and the second 40 %, by one additional rule; no pressure is known.
fn judged_by(rule: &str) -> Diagnosis {
    let mut book = RuleBook::built_in();
    book.add("test.toml", rule).expect("a rule");
    judged(&book, |t, s| s.processor.cpu.extend([cpu(t, 0, 90, 0), cpu(t, 1, 40, 0)]))
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
    let is_found = |d: &Diagnosis| found(d, "test.core").is_some();
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
    let found = found(&d, "test.unknown").expect("it holds");
    assert_eq!(found.impact_is, Basis::NotMeasured);
    assert!(found.impact > 0.0, "{found:?}");
    assert_eq!(d.verdict, Verdict::Bottleneck, "a certain finding is reported though nobody knows what it cost");
}
