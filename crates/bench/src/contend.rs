//! `bench contend`: targets alone and in pairs. Two that have to share something lose by being used together, whatever their
//! names and the topology say.

use crate::error::{Error, Result};
use crate::round::{Party, Progress};
use crate::session::Session;
use crate::stop::Stop;
use crate::target::Ask;
use std::collections::BTreeSet;
use std::path::PathBuf;
use whyslow_model::bench::{Kind, Pair, Report, Round, Workload};

/// What to set against each other, and how.
#[derive(Clone, Debug)]
pub struct Contest {
    /// The targets: devices and files, which are read; folders, in which a file is made.
    pub paths: Vec<PathBuf>,
    /// How large a file to make in a folder, bytes.
    pub size: u64,
    /// Whether devices that are in use may be read.
    pub in_use: bool,
    /// The time measured of each run, seconds.
    pub seconds: f64,
    /// What random numbers come of.
    pub seed: u64,
}

/// Large enough that bandwidth counts, random enough that seeks do, and little work for a processor.
const BLOCK: u32 = 64 << 10;
const DEPTH: u32 = 8;
const RAMP: f64 = 0.2;
/// Two that have nothing in common do 2, each being 1 alone; two that share one thing do 1. This is the middle.
const CONTEND: f64 = 1.5;

/// Runs each alone, then all pairs. Ended before its time by `stop`, it reports what it has.
///
/// # Errors
/// Where there are fewer than two targets, or one may or can not be read.
pub fn contend(asked: &Contest, stop: &Stop, watch: &mut dyn FnMut(Progress)) -> Result<Report> {
    if asked.paths.len() < 2 {
        return Err(Error::new("it takes two targets to contend: name another"));
    }
    let mut session = Session::begin(stop, watch);
    for path in &asked.paths {
        let ask = Ask {
            path: path.clone(),
            write: false,
            direct: true,
            destroy: None,
            in_use: asked.in_use,
            size: asked.size,
        };
        let target = session.open(&ask)?;
        session.mind_others(target, &ask);
        session.check_holds(target, BLOCK)?;
    }
    for target in (0..session.targets.len()).filter(|&target| session.targets[target].scratch).collect::<Vec<_>>() {
        session.fill(target, &load(&session, target, asked))?;
    }
    let parties: Vec<Party> = (0..session.targets.len())
        .map(|target| {
            let name = session.targets[target].about.path.clone();
            session.party(&name, target, load(&session, target, asked))
        })
        .collect();
    let pairs = all_pairs(&mut session, &parties)?;
    let mut report = session.finish(Kind::Contend, Vec::new());
    report.pairs = pairs;
    Ok(report)
}

/// Plays each party alone, then all pairs of them.
///
/// # Errors
/// Where one cannot begin.
pub(crate) fn all_pairs(session: &mut Session, parties: &[Party]) -> Result<Vec<Pair>> {
    let mut alone = Vec::new();
    for party in parties {
        let round = session.play("alone", &party.name, std::slice::from_ref(party))?;
        let found = round.map(|round| rate(round, 0));
        if found == Some(None) {
            session.mind(&format!("nothing came back from {} alone: no pair with it is here", party.name));
        }
        alone.push(found.flatten());
    }
    let mut pairs = Vec::new();
    for (a, of_a) in alone.iter().enumerate() {
        for (b, of_b) in alone.iter().enumerate().skip(a + 1) {
            if let (Some(of_a), Some(of_b)) = (*of_a, *of_b) {
                pairs.extend(together(session, [&parties[a], &parties[b]], [of_a, of_b])?);
            }
        }
    }
    Ok(pairs)
}

/// Whether two that keep so much of what each does alone contend for something. What a load loses that itself waits for its
/// target, and not for a processor, it loses to the other; what one loses whose thread had all it could take of a processor,
/// says nothing.
fn contend_for_something(kept: [f64; 2], limited: [bool; 2]) -> Option<bool> {
    // More than alone is noise, and makes up for nothing.
    let sum: f64 = kept.iter().map(|kept| kept.min(1.0)).sum();
    if sum >= CONTEND {
        return Some(false);
    }
    let lost = |at: usize| !limited[at] && kept[at] < CONTEND / 2.0;
    (lost(0) || lost(1)).then_some(true)
}

/// A pair of parties, of which it is known what each does alone; none where it was stopped, or nothing came back.
fn together(session: &mut Session, parties: [&Party; 2], alone: [f64; 2]) -> Result<Option<Pair>> {
    let names = parties.map(|party| party.name.clone());
    let known = in_common(session, parties.map(|party| party.target));
    let name = format!("{} and {}", names[0], names[1]);
    let Some(round) = session.play("together", &name, &parties.map(Party::clone))? else { return Ok(None) };
    let rates = [rate(round, 0), rate(round, 1)];
    let limited = [0, 1].map(|at| round.runs.get(at).is_some_and(|run| run.generator.was_limit));
    let [Some(a), Some(b)] = rates else {
        session.mind(&format!("nothing came back from one of {name}: this pair is left out"));
        return Ok(None);
    };
    let kept = [a / alone[0], b / alone[1]];
    let sum = kept[0] + kept[1];
    let contend = contend_for_something(kept, limited);
    Ok(Some(Pair { names, alone, together: [a, b], kept, sum, contend, known }))
}

/// Requests a second of a run in a round, both directions together.
fn rate(round: &Round, run: usize) -> Option<f64> {
    let run = round.runs.get(run)?;
    let rate: f64 = [&run.read, &run.write].into_iter().flatten().map(|flow| flow.rate).sum();
    (rate > 0.0).then_some(rate)
}

/// Block devices that both targets are known to rest on. What else may lie below, the name of a FUSE program or of a server,
/// need not be one and the same where it has the same name.
fn in_common(session: &Session, targets: [usize; 2]) -> Vec<String> {
    let [a, b] = targets.map(|target| {
        let about = &session.targets[target].about;
        let devices = about.device.iter().chain(&about.below).filter(|name| session.map.queue(name).is_some());
        devices.cloned().collect::<BTreeSet<String>>()
    });
    a.intersection(&b).cloned().collect()
}

fn load(session: &Session, target: usize, asked: &Contest) -> Workload {
    Workload {
        depth: DEPTH,
        size: session.targets[target].whole_blocks(BLOCK),
        seconds: Some(asked.seconds),
        ramp_seconds: asked.seconds * RAMP,
        seed: asked.seed,
        ..Workload::of_blocks(BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_load_that_waits_for_its_target_loses_it_loses_to_the_other() {
        // A log beside a stream whose thread is always busy.
        assert_eq!(contend_for_something([0.95, 0.047], [true, false]), Some(true));
        assert_eq!(contend_for_something([1.6, 0.047], [true, false]), Some(true));
        assert_eq!(contend_for_something([0.5, 0.5], [false, false]), Some(true));
        assert_eq!(contend_for_something([0.5, 0.5], [true, true]), None);
        assert_eq!(contend_for_something([0.98, 1.02], [true, false]), Some(false));
    }
}
