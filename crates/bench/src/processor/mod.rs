//! `bench cpu`: what processors do together, how soon a thread runs, and what calls of the kernel cost.

mod calls;
mod scaling;
mod switching;
mod waking;
mod work;

use crate::error::Result;
use crate::pinned::{Clock, Pace};
use crate::places::Processors;
use crate::round::Progress;
use crate::session::Session;
use crate::stop::Stop;
use std::time::Duration;
use whyslow_model::bench::{Kind, Report, Study};
use whyslow_sense::Root;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// The time each figure is measured for, seconds; wakings take ten times that.
    pub seconds: f64,
}

/// Measures all of it. Ended before its time by `stop`, it reports what it has.
///
/// # Errors
/// Where threads cannot be had.
pub fn measure(asked: &Cpu, stop: &Stop, watch: &mut dyn FnMut(Progress)) -> Result<Report> {
    let root = Root::live();
    let mut bench = Bench {
        processors: Processors::of(&root),
        time: Duration::from_secs_f64(asked.seconds),
        session: Session::begin(stop, watch),
        root,
    };
    bench.mind();
    let studies = [scaling::study, waking::study, switching::study, calls::study];
    let studies: Vec<Study> = studies.into_iter().map(|study| study(&mut bench)).collect::<Result<_>>()?;
    Ok(bench.session.finish_studies(Kind::Cpu, studies))
}

/// What all studies need.
struct Bench<'w> {
    root: Root,
    processors: Processors,
    /// The time each figure is measured for.
    time: Duration,
    session: Session<'w>,
}

impl Bench<'_> {
    /// How figures are measured.
    fn pace(&self, clock: Clock) -> Pace<'_> {
        Pace { time: self.time, clock, stop: &self.session.stop }
    }

    /// What is to be borne in mind from the beginning.
    fn mind(&mut self) {
        // What std counts is also bound by the quota of a control group.
        let may = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
        let count = self.processors.count();
        if may < count {
            let text = format!(
                "a control group holds this program to {may} of {count} processors: with more threads that is measured"
            );
            self.session.caveats.push(text);
        }
    }
}
