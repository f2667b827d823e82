//! Scaling over cores, and over the hyperthreads of a core.

use super::work::CpuWork;
use crate::Result;
use crate::study::StudyContext;
use crate::study::{TimeBasis, repeat, times};
use whyslow_documents::bench::{Measurement, Study};

const METHOD: &str = "Work per second of all threads together, each pinned to its own CPU, one per core first.";

/// A smaller gain or loss from hyperthreads counts as none.
const MIN_GAIN: f64 = 0.05;

pub(super) fn study(context: &mut StudyContext) -> Result<Study> {
    let places = context.topology.spread_over_cores();
    let cores = context.topology.cores();
    let mut figures = Vec::new();
    for work in CpuWork::ALL {
        for threads in steps(cores, places.len()) {
            let under = under(threads);
            if context.session.proceed_to(&format!("{}, {under}", work.name())) {
                let repeated = repeat(&places[..threads], context.options(TimeBasis::OnCpu), |_| work.prepare())?;
                figures.extend(repeated.rate(work.name(), &under, work.unit()));
            }
        }
    }
    let findings = findings(&figures, cores, places.len());
    Ok(Study { name: "scaling".into(), method: METHOD.into(), figures, findings, ..Study::default() })
}

/// Returns the thread counts: doubling up to all cores, then all CPUs.
fn steps(cores: usize, cpus: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(1), |threads| Some(threads * 2)).take_while(|&threads| threads < cores);
    let mut steps: Vec<usize> = doubled.chain([cores, cpus]).collect();
    steps.dedup();
    steps
}

fn under(threads: usize) -> String {
    if threads == 1 { "1 thread".into() } else { format!("{threads} threads") }
}

/// A workload, with more threads and with fewer.
type Gain<'f> = (CpuWork, &'f Measurement, &'f Measurement);

fn findings(figures: &[Measurement], cores: usize, cpus: usize) -> Vec<String> {
    let gains = |from: usize, to: usize| -> Vec<Gain<'_>> {
        let of = |work: CpuWork, threads| figures.iter().find(|f| f.name == work.name() && f.under == under(threads));
        CpuWork::ALL.into_iter().filter_map(|work| Some((work, of(work, to)?, of(work, from)?))).collect()
    };
    let listed = |gains: &[Gain<'_>]| {
        let each = |(work, more, fewer): &Gain<'_>| format!("{} {}", work.name(), times(more, fewer));
        gains.iter().map(each).collect::<Vec<String>>().join(", ")
    };
    let mut findings = Vec::new();
    let of_cores = gains(1, cores);
    if cores > 1 && !of_cores.is_empty() {
        findings.push(format!("{cores} cores compared with one: {}.", listed(&of_cores)));
    }
    let of_hyperthreads = gains(cores, cpus);
    if cpus == cores {
        findings.push("There are no hyperthreads.".into());
    } else if !of_hyperthreads.is_empty() {
        let verdict = verdict(&of_hyperthreads);
        findings.push(format!("{verdict} Compared with one thread per core: {}.", listed(&of_hyperthreads)));
    }
    findings
}

fn verdict(gains: &[Gain<'_>]) -> &'static str {
    let listed = |(_, more, fewer): &Gain<'_>| if more.is_apart_from(fewer) { more.value / fewer.value } else { 1.0 };
    let helped = gains.iter().map(listed).any(|gain| gain > 1.0 + MIN_GAIN);
    let harmed = gains.iter().map(listed).any(|gain| gain < 1.0 - MIN_GAIN);
    match (helped, harmed) {
        (true, false) => "Hyperthreads help.",
        (true, true) => "Hyperthreads help some workloads and hurt others.",
        (false, true) => "Hyperthreads hurt.",
        (false, false) => "Hyperthreads make no difference.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_double_up_to_the_cores_and_end_with_all_cpus() {
        assert_eq!(steps(1, 1), [1]);
        assert_eq!(steps(1, 2), [1, 2]);
        assert_eq!(steps(2, 2), [1, 2]);
        assert_eq!(steps(6, 12), [1, 2, 4, 6, 12]);
    }

    fn measured(work: CpuWork, threads: usize, rate: f64) -> Measurement {
        Measurement::from_samples(work.name(), under(threads), work.unit(), vec![rate]).unwrap()
    }

    #[test]
    fn hyperthreads_are_judged_by_what_they_gain() {
        let rates = [(1, 10.0), (2, 20.0), (4, 26.0)];
        let mut figures: Vec<_> = rates.map(|(threads, rate)| measured(CpuWork::Sorting, threads, rate)).into();
        let listed = findings(&figures, 2, 4);
        assert_eq!(listed[0], "2 cores compared with one: sorting numbers 2.00 times.");
        assert!(
            listed[1].starts_with("Hyperthreads help. Compared") && listed[1].contains("sorting numbers 1.30 times"),
            "{listed:?}"
        );
        figures.extend([(2, 20.0), (4, 15.0)].map(|(threads, rate)| measured(CpuWork::Arithmetic, threads, rate)));
        assert!(findings(&figures, 2, 4)[1].starts_with("Hyperthreads help some workloads"));
        assert!(findings(&figures[..2], 2, 2)[1].contains("no hyperthreads"));
        assert_eq!(findings(&[], 2, 4), [""; 0], "not measured, not judged");
    }
}
