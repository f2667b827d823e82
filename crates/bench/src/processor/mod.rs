//! `bench cpu`: what processors do together, how soon a thread runs, and what calls of the kernel cost.

mod calls;
mod scaling;
mod switching;
mod waking;
mod work;

use crate::error::Result;
use crate::round::Progress;
use crate::stop::Stop;
use crate::studies::Bench;
use whyslow_model::bench::{Kind, Report};

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
    let mut bench = Bench::begin(asked.seconds, stop, watch);
    mind(&mut bench);
    bench.report(Kind::Cpu, &[&scaling::study, &waking::study, &switching::study, &calls::study])
}

/// What is to be borne in mind from the beginning.
fn mind(bench: &mut Bench) {
    // What std counts is also bound by the quota of a control group.
    let may = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
    let count = bench.processors.count();
    if may < count {
        let text = format!(
            "a control group holds this program to {may} of {count} processors: with more threads that is measured"
        );
        bench.session.caveats.push(text);
    }
}
