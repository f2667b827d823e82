//! Runs one case with both programs in turn.

use crate::cases::{Case, Processors, Work};
use crate::peer;
use whyslow_pairs::comparison::{Comparison, Figures};
use whyslow_pairs::failure::Result;
use whyslow_pairs::in_turn::in_turn;
use whyslow_pairs::pinning::Pinning;

/// Runs pairs in random order. Returns the results of each phase.
pub fn compare(case: &Case, whyslow: &str, pairs: usize, seconds: u32) -> Result<Vec<Comparison>> {
    let _held = match case.held {
        Processors::Any => None,
        Processors::One => Some(Pinning::on_one()?),
        Processors::Two => Some(Pinning::on_two()?),
    };
    let job = case.folder.job(&job(&case.work, seconds))?;
    let ready = || case.folder.settle(cached(&case.work));
    let ours = || ready().and_then(|()| ours(case, whyslow, &job));
    let theirs = || ready().and_then(|()| theirs(case, &job));
    let pairs = in_turn(pairs, ours, theirs)?;
    let mut found = Vec::new();
    for (at, name) in phases(case).into_iter().enumerate() {
        let of_phase = |(ours, theirs): &(Phases, Phases)| Some(((*ours.get(at)?)?, (*theirs.get(at)?)?));
        let told: Vec<_> = pairs.iter().filter_map(of_phase).collect();
        if told.is_empty() && !pairs.is_empty() {
            eprintln!("bench-disk: {name}: no figure in any of {} pairs", pairs.len());
        } else {
            found.push(Comparison::from_pairs(name, &told)?);
        }
    }
    Ok(found)
}

/// Figures of each phase, if available.
type Phases = Vec<Option<Figures>>;

fn phases(case: &Case) -> Vec<String> {
    match case.work {
        Work::Bonnie => peer::PHASES.map(|phase| format!("{}: {phase}", case.name)).into(),
        _ => vec![case.name.clone()],
    }
}

fn ours(case: &Case, whyslow: &str, job: &str) -> Result<Phases> {
    match &case.work {
        Work::Fio { flow, .. } => {
            peer::requests(whyslow, &["bench", "disk", "--job", job, "--json-fio"], *flow).map(|of| vec![Some(of)])
        }
        Work::Dd { flow, .. } => peer::stream(whyslow, job, *flow).map(|of| vec![Some(of)]),
        Work::Bonnie => peer::file_system(whyslow, &case.folder).map(|phases| phases.into_iter().map(Some).collect()),
    }
}

fn theirs(case: &Case, job: &str) -> Result<Phases> {
    match &case.work {
        Work::Fio { flow, .. } => peer::requests("fio", &[job, "--output-format=json"], *flow).map(|of| vec![Some(of)]),
        Work::Dd { dd, .. } => {
            let figures = peer::dd(dd)?;
            case.folder.remove_new_file();
            Ok(vec![Some(figures)])
        }
        Work::Bonnie => peer::bonnie(&case.folder),
    }
}

fn cached(work: &Work) -> usize {
    match work {
        Work::Fio { .. } => 0,
        Work::Dd { cached, .. } => *cached,
        Work::Bonnie => peer::PHASES_BYTES,
    }
}

/// Returns the job for both programs, or for whyslow alone if the other takes no job files.
fn job(work: &Work, seconds: u32) -> String {
    match work {
        Work::Fio { options, ramp, .. } => {
            let time = format!("runtime={seconds}\nramp_time={ramp}\ntime_based=1");
            format!("[job]\nioengine=io_uring\ndirect=1\n{time}\n{options}\n")
        }
        Work::Dd { options, .. } => format!("[job]\nioengine=psync\n{options}\n"),
        Work::Bonnie => String::new(),
    }
}
