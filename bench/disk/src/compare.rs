//! One case, run by both programs in turn.

use crate::cases::{Case, Work};
use crate::peer;
use crate::rig::Rig;
use whyslow_pairs::comparison::{Comparison, Figures};
use whyslow_pairs::dice::in_turn;
use whyslow_pairs::failure::Result;

/// Runs a case in pairs of random order. What came of each of its phases.
///
/// # Errors
/// Where a program fails, or a signal came.
pub fn compare(case: &Case, rig: &Rig, whyslow: &str, pairs: usize, seconds: u32) -> Result<Vec<Comparison>> {
    let job = rig.job(&job(&case.work, seconds))?;
    let ready = || rig.settle(cached(&case.work));
    let ours = || ready().and_then(|()| ours(&case.work, whyslow, rig, &job));
    let theirs = || ready().and_then(|()| theirs(&case.work, rig, &job));
    let pairs = in_turn(pairs, ours, theirs)?;
    let phase = |(at, name): (usize, String)| {
        let of_phase = |(ours, theirs): &(Vec<Figures>, Vec<Figures>)| Some((*ours.get(at)?, *theirs.get(at)?));
        Comparison::of(name, &pairs.iter().filter_map(of_phase).collect::<Vec<_>>())
    };
    phases(case).into_iter().enumerate().map(phase).collect()
}

/// What the figures of a run are of.
fn phases(case: &Case) -> Vec<String> {
    match case.work {
        Work::Bonnie => peer::PHASES.map(|phase| format!("bonnie++: {phase}")).into(),
        _ => vec![case.name.clone()],
    }
}

fn ours(work: &Work, whyslow: &str, rig: &Rig, job: &str) -> Result<Vec<Figures>> {
    match work {
        Work::Fio { flow, .. } => {
            peer::requests(whyslow, &["bench", "disk", "--job", job, "--json-fio"], *flow).map(|of| vec![of])
        }
        Work::Dd { flow, .. } => peer::stream(whyslow, job, *flow).map(|of| vec![of]),
        Work::Bonnie => peer::file_system(whyslow, rig),
    }
}

fn theirs(work: &Work, rig: &Rig, job: &str) -> Result<Vec<Figures>> {
    match work {
        Work::Fio { flow, .. } => peer::requests("fio", &[job, "--output-format=json"], *flow).map(|of| vec![of]),
        Work::Dd { dd, .. } => {
            let figures = peer::dd(dd)?;
            rig.remove_new_file();
            Ok(vec![figures])
        }
        Work::Bonnie => peer::bonnie(rig),
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
        Work::Fio { options, .. } => {
            format!("[job]\nioengine=io_uring\ndirect=1\nruntime={seconds}\nramp_time=500ms\ntime_based=1\n{options}\n")
        }
        Work::Dd { options, .. } => format!("[job]\nioengine=psync\n{options}\n"),
        Work::Bonnie => String::new(),
    }
}
