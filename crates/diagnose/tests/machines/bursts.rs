//! Loads that last for a part of the window.

use crate::{MS, SAMPLES, SECOND, first, key, machine, pressure};
use whyslow_documents::diagnosis::{Confidence, Diagnosis, Verdict};
use whyslow_model::catalogue::{Cpu, Pressure, Process, ProcessRow};
use whyslow_model::key::MachineKey;

/// Diagnoses eight processes that compute on two CPUs from one second to another, and at no other time.
fn computing(from: u64, to: u64) -> Diagnosis {
    computing_between(1000 * from, 1000 * to)
}

/// Like [`computing`], in milliseconds.
fn computing_between(from: u64, to: u64) -> Diagnosis {
    machine(|t, s| {
        let t = 1000 * t;
        let busy = t.clamp(from, to) - from;
        for number in [0, 1] {
            let (user, idle) = (busy * MS, (t - busy) * MS);
            s.processor.cpu.push(Cpu { user: user.into(), system: 0.into(), idle: idle.into(), ..Cpu::new(number) });
        }
        let [cpu_some, memory_some, io_some] = [busy, 0, 0].map(|ms| (ms * MS).into());
        s.processor.pressure.push(Pressure { cpu_some, memory_some, io_some, ..Pressure::new(MachineKey) });
        let process = |number: u32| {
            Process::from(ProcessRow {
                command: "convert".into(),
                state: if t > from && t <= to { "R" } else { "S" }.into(),
                user: (busy * MS / 4).into(),
                system: 0.into(),
                run_delay: (busy * MS * 3 / 4).into(),
                voluntary_switches: (busy / 100).into(),
                involuntary_switches: (busy / 10).into(),
                nice: 0.0.into(),
                threads: 1.0.into(),
                kernel_thread: 0.0.into(),
                ..ProcessRow::new(key(10 + number))
            })
        };
        s.task.process.extend((0..8).map(process));
    })
}

#[test]
fn a_burst_of_three_seconds_in_ten_is_found_with_its_own_numbers() {
    for (from, to) in [(4, 7), (0, 3), (7, 10), (2, 6)] {
        let d = computing(from, to);
        assert_eq!((d.verdict, first(&d)), (Verdict::Bottleneck, ("cpu.saturated", "host")), "{from}..{to}");
        let finding = &d.findings[0];
        let during = finding.during.as_ref().expect("the time of the burst");
        assert_eq!((during.from, during.to), (from as f64, to as f64));
        assert!(finding.impact > 0.9, "{}", finding.impact);
        assert_eq!(finding.culprits.first().map(|culprit| &*culprit.name), Some("convert"));
        let words = format!("for {} s of {} s", to - from, SAMPLES - 1);
        assert!(finding.summary.contains(&words), "{}", finding.summary);
    }
}

#[test]
fn a_burst_that_begins_and_ends_between_two_samples_is_found_as_well() {
    for from in (2000..5000).step_by(100) {
        let d = computing_between(from, from + 3000);
        assert_eq!((d.verdict, first(&d)), (Verdict::Bottleneck, ("cpu.saturated", "host")), "from {from} ms");
        assert!(d.findings[0].during.as_ref().is_some_and(|during| during.seconds >= 2.0), "from {from} ms");
    }
}

#[test]
fn a_load_of_the_whole_window_has_no_time_of_its_own() {
    let d = computing(0, 10);
    assert_eq!(first(&d), ("cpu.saturated", "host"));
    assert_eq!(d.findings[0].during, None);
}

#[test]
fn a_single_second_is_a_suspicion() {
    let d = computing(5, 6);
    assert_ne!(d.verdict, Verdict::Bottleneck);
    assert!(d.findings.iter().all(|finding| finding.confidence == Confidence::Low), "{:?}", d.findings);
}

#[test]
fn a_process_whose_threads_have_ended_is_no_single_thread() {
    let d = machine(|t, s| {
        let seconds = t.clamp(3, 6) - 3;
        for number in [0, 1] {
            let (user, idle) = (seconds * SECOND, (t - seconds) * SECOND);
            s.processor.cpu.push(Cpu { user: user.into(), system: 0.into(), idle: idle.into(), ..Cpu::new(number) });
        }
        pressure(seconds, s, 100, 0, 0);
        let is_computing = t > 3 && t <= 6;
        s.task.process.push(Process::from(ProcessRow {
            command: "convert".into(),
            state: if is_computing { "R" } else { "S" }.into(),
            user: (seconds * 2 * SECOND).into(),
            system: 0.into(),
            run_delay: (seconds * 4 * SECOND).into(),
            voluntary_switches: (seconds * 10).into(),
            involuntary_switches: (seconds * 100).into(),
            nice: 0.0.into(),
            threads: if is_computing { 7.0 } else { 1.0 }.into(),
            kernel_thread: 0.0.into(),
            ..ProcessRow::new(key(10))
        }));
    });
    let found: Vec<&str> = d.findings.iter().map(|finding| &*finding.id).collect();
    assert_eq!(
        (found.first().copied(), found.contains(&"cpu.single_thread")),
        (Some("cpu.saturated"), false),
        "{found:?}"
    );
}
