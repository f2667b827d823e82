//! Slow-down of a load by whyslow, in pairs of random order.

use crate::loads::{Kind, Load};
use crate::taken::{self, Taken};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;
use whyslow_documents::bench::Median;
use whyslow_pairs::child::Running;
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::in_turn::in_turn;
use whyslow_pairs::stop;

/// Options of whyslow while the load runs.
const WAYS: [(&str, &[&str]); 2] = [("with BPF", &[]), ("without BPF", &["--no-bpf"])];

pub struct Plan {
    pairs: usize,
    time: Duration,
}

impl Plan {
    pub fn new(quick: bool, pairs: Option<usize>) -> Self {
        let (usual, seconds) = if quick { (6, 1) } else { (20, 2) };
        Self { pairs: pairs.unwrap_or(usual), time: Duration::from_secs(seconds) }
    }
}

#[derive(Serialize)]
pub struct Slowdown {
    pub load: &'static str,
    pub way: &'static str,
    /// Median rate without whyslow.
    pub rate: f64,
    pub unit: &'static str,
    pub pairs: usize,
    /// Share of the rate lost; negative if gained.
    pub lost: Median,
    /// CPU time of observing during the load.
    pub taken: Taken,
}

pub fn measure(kind: &Kind, whyslow: &Path, plan: &Plan) -> Result<Vec<Slowdown>> {
    let load = Load::begin(kind).map_err(naming(kind))?;
    // Let caches fill and CPU clocks ramp up.
    load.rate(plan.time).map_err(naming(kind))?;
    WAYS.iter().map(|(way, args)| in_pairs(kind, &load, (way, args), whyslow, plan).map_err(naming(kind))).collect()
}

fn naming(kind: &Kind) -> impl FnOnce(Failure) -> Failure {
    |failure| Failure::new(format!("{}: {failure}", kind.name))
}

fn in_pairs(
    kind: &Kind,
    load: &Load,
    (way, args): (&'static str, &[&str]),
    whyslow: &Path,
    plan: &Plan,
) -> Result<Slowdown> {
    let look = |observer| rate(load, observer, plan.time);
    let rates = in_turn(plan.pairs, || look(None), || look(Some((whyslow, args))))?;
    let none = || Failure::new("no pairs to run");
    Ok(Slowdown {
        load: kind.name,
        way,
        rate: Median::from_samples(rates.iter().map(|(alone, _)| *alone).collect()).ok_or_else(none)?.value,
        unit: kind.unit,
        pairs: plan.pairs,
        lost: Median::from_samples(rates.iter().map(|(alone, observed)| 1.0 - observed / alone).collect())
            .ok_or_else(none)?,
        taken: taken::measure(load, plan.time, || observe(whyslow, args, plan.time))?,
    })
}

/// Returns the rate while whyslow observes, or after the same pause without it.
fn rate(load: &Load, observer: Option<(&Path, &[&str])>, time: Duration) -> Result<f64> {
    let _observer = observer.map(|(whyslow, args)| observe(whyslow, args, time)).transpose()?;
    stop::pause(taken::START)?;
    load.rate(time)
}

/// Observes longer than the load runs, because the diagnosis at the end is not part of observing.
fn observe(whyslow: &Path, args: &[&str], time: Duration) -> Result<Running> {
    let path = whyslow.to_str().ok_or_else(|| Failure::new("the path of whyslow is not UTF-8"))?;
    let seconds = format!("{}s", time.as_secs() + 30);
    Running::start(path, &[&["--for", &seconds, "--json"], args].concat())
}
