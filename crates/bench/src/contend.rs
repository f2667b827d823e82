//! `bench contend`: runs targets alone and in pairs. Targets that share a resource slow each other down, whatever their
//! names.

use crate::bench_session::BenchSession;
use crate::round::RunSpec;
use crate::target::TargetSpec;
use crate::{Error, Progress, Result, Stop};
use std::collections::BTreeSet;
use std::path::PathBuf;
use whyslow_documents::bench::{BenchKind, BenchReport, Interference, Round, Workload};

/// Options of `bench contend`.
#[derive(Clone, Debug)]
pub struct ContendOptions {
    /// Devices and files to read; in a folder, a temporary file is created.
    pub paths: Vec<PathBuf>,
    /// Size of such a temporary file in bytes.
    pub size: u64,
    /// Whether devices in use may be read.
    pub in_use: bool,
    /// Measured time of each run, seconds.
    pub seconds: f64,
    /// Seed of random offsets.
    pub seed: u64,
}

/// Large enough for bandwidth to matter, random enough for seeks, and cheap for the CPU.
const BLOCK: u32 = 64 << 10;
const DEPTH: u32 = 8;
const RAMP: f64 = 0.2;
/// The shares kept add up to 2 for independent targets and to 1 for a shared bottleneck; below the middle, they interfere.
const INTERFERENCE: f64 = 1.5;

/// Runs each target alone, then all pairs. If stopped early, reports the results so far.
///
/// # Errors
/// Fails with fewer than two targets, or if a target must not or cannot be read.
pub fn measure(options: &ContendOptions, stop: &Stop, progress: &mut dyn FnMut(Progress)) -> Result<BenchReport> {
    if options.paths.len() < 2 {
        return Err(Error::new("contend compares two or more targets: name another"));
    }
    let mut session = BenchSession::begin(stop, progress);
    for path in &options.paths {
        let (path, in_use, size) = (path.clone(), options.in_use, options.size);
        let spec = TargetSpec { path, write: false, direct: true, destroy: None, in_use, size };
        let target = session.open(&spec)?;
        session.add_in_use_caveat(target, &spec);
        session.check_block_fits(target, BLOCK)?;
    }
    let loads: Vec<Workload> = session.targets.iter().map(|target| load(target.whole_blocks(BLOCK), options)).collect();
    for (target, load) in loads.iter().enumerate() {
        if session.targets[target].temporary {
            session.fill(target, load)?;
        }
    }
    let spec = |(target, load): (usize, Workload)| session.run_spec(&session.targets[target].about.path, target, load);
    let specs: Vec<RunSpec> = loads.into_iter().enumerate().map(spec).collect();
    let pairs = all_pairs(&mut session, &specs)?;
    Ok(BenchReport { pairs, ..session.finish(BenchKind::Contend) })
}

/// Runs each workload alone, then all pairs of them.
pub(crate) fn all_pairs(session: &mut BenchSession, specs: &[RunSpec]) -> Result<Vec<Interference>> {
    let mut alone = Vec::new();
    for spec in specs {
        let round = session.run_round("alone", &spec.name, std::slice::from_ref(spec))?;
        let found = round.map(|round| rate(round, 0));
        if found == Some(None) {
            session.add_caveat(&format!(
                "{}: no request completed alone, so its pairs are left out; run longer (--for)",
                spec.name
            ));
        }
        alone.push(found.flatten());
    }
    let mut pairs = Vec::new();
    for (a, of_a) in alone.iter().enumerate() {
        for (b, of_b) in alone.iter().enumerate().skip(a + 1) {
            if let (Some(of_a), Some(of_b)) = (*of_a, *of_b) {
                pairs.extend(together(session, [&specs[a], &specs[b]], [of_a, of_b])?);
            }
        }
    }
    Ok(pairs)
}

/// Returns whether two workloads interfere, judged by the share of its rate that each keeps; `None` if unknown. A
/// slowdown of a workload limited by its own CPU says nothing about the target.
fn interferes(kept: [f64; 2], cpu_bound: [bool; 2]) -> Option<bool> {
    // More than alone is noise, which must not offset a loss.
    let sum: f64 = kept.iter().map(|kept| kept.min(1.0)).sum();
    if sum >= INTERFERENCE {
        return Some(false);
    }
    let slowed = |at: usize| !cpu_bound[at] && kept[at] < INTERFERENCE / 2.0;
    (slowed(0) || slowed(1)).then_some(true)
}

/// Runs a pair. Returns `None` if it was stopped or nothing completed.
fn together(session: &mut BenchSession, specs: [&RunSpec; 2], alone: [f64; 2]) -> Result<Option<Interference>> {
    let names = specs.map(|spec| spec.name.clone());
    let known = shared_devices(session, specs.map(|spec| spec.target));
    let name = format!("{} and {}", names[0], names[1]);
    let Some(round) = session.run_round("together", &name, &specs.map(RunSpec::clone))? else { return Ok(None) };
    let rates = [rate(round, 0), rate(round, 1)];
    let cpu_bound = [0, 1].map(|at| round.runs.get(at).is_some_and(|run| run.generator.was_limit));
    let [Some(a), Some(b)] = rates else {
        session.add_caveat(&format!("{name}: no request of one of them completed, so this pair is left out"));
        return Ok(None);
    };
    let kept = [a / alone[0], b / alone[1]];
    let (sum, contend) = (kept[0] + kept[1], interferes(kept, cpu_bound));
    Ok(Some(Interference { names, alone, together: [a, b], kept, sum, contend, known }))
}

/// Returns the requests per second of a run, reads and writes together.
fn rate(round: &Round, run: usize) -> Option<f64> {
    let run = round.runs.get(run)?;
    let rate: f64 = [&run.read, &run.write].into_iter().flatten().map(|flow| flow.rate).sum();
    (rate > 0.0).then_some(rate)
}

/// Returns the block devices below both targets. Leaves out other sources, such as a FUSE program or a server: they may
/// differ under one name.
fn shared_devices(session: &BenchSession, targets: [usize; 2]) -> Vec<String> {
    let [a, b] = targets.map(|target| {
        let about = &session.targets[target].about;
        let devices = about.device.iter().chain(&about.below).filter(|name| session.map.queue(name).is_some());
        devices.cloned().collect::<BTreeSet<String>>()
    });
    a.intersection(&b).cloned().collect()
}

fn load(size: u64, options: &ContendOptions) -> Workload {
    Workload {
        depth: DEPTH,
        size,
        seconds: Some(options.seconds),
        ramp_seconds: options.seconds * RAMP,
        seed: options.seed,
        ..Workload::of_blocks(BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slowdown_counts_unless_the_workload_is_cpu_bound() {
        // A log next to a stream whose thread is always busy.
        assert_eq!(interferes([0.95, 0.047], [true, false]), Some(true));
        assert_eq!(interferes([1.6, 0.047], [true, false]), Some(true));
        assert_eq!(interferes([0.5, 0.5], [false, false]), Some(true));
        assert_eq!(interferes([0.5, 0.5], [true, true]), None);
        assert_eq!(interferes([0.98, 1.02], [true, false]), Some(false));
    }
}
