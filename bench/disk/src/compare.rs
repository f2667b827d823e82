//! One case, run by both programs in turn.

use crate::cases::{Case, Processors, Work};
use crate::peer;
use whyslow_pairs::comparison::{Comparison, Figures};
use whyslow_pairs::dice::in_turn;
use whyslow_pairs::failure::Result;
use whyslow_pairs::held::Held;

/// Runs a case in pairs of random order. What came of each of its phases.
pub fn compare(case: &Case, whyslow: &str, pairs: usize, seconds: u32) -> Result<Vec<Comparison>> {
    let _held = match case.held {
        Processors::Any => None,
        Processors::One => Some(Held::on_one()?),
        Processors::Two => Some(Held::on_two()?),
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
            found.push(Comparison::of(name, &told)?);
        }
    }
    Ok(found)
}

/// A figure of each phase, where one was told.
type Phases = Vec<Option<Figures>>;

/// What the figures of a run are of.
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

/// How much of the page cache a case fills, bytes.
fn cached(work: &Work) -> usize {
    match work {
        Work::Fio { .. } => 0,
        Work::Dd { cached, .. } => *cached,
        Work::Bonnie => peer::PHASES_BYTES,
    }
}

/// What both run, or whyslow does where the other has its own idea of it. Load is timed, and streams end with the file.
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
