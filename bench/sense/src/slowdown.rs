//! How much a load is slowed down: while it goes on, whyslow is there and is not in turn, in pairs of random order.

use crate::loads::{Kind, Load};
use crate::taken::{self, Taken};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;
use whyslow_model::bench::Median;
use whyslow_pairs::child::Running;
use whyslow_pairs::dice::in_turn;
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::stop;

/// How whyslow is run beside the load.
const WAYS: [(&str, &[&str]); 2] = [("with BPF", &[]), ("without BPF", &["--no-bpf"])];

/// How long and how often to look at a load.
pub struct Plan {
    pairs: usize,
    time: Duration,
}

impl Plan {
    /// With this many pairs, where they are given.
    pub fn new(quick: bool, pairs: Option<usize>) -> Self {
        let (usual, seconds) = if quick { (6, 1) } else { (20, 2) };
        Self { pairs: pairs.unwrap_or(usual), time: Duration::from_secs(seconds) }
    }
}

/// How much one load was slowed down.
#[derive(Serialize)]
pub struct Slowdown {
    /// The load.
    pub load: &'static str,
    /// How whyslow was run beside it.
    pub way: &'static str,
    /// What the load did in a second without whyslow: the median.
    pub rate: f64,
    /// What that counts.
    pub unit: &'static str,
    /// Pairs run.
    pub pairs: usize,
    /// The part of its rate that the load lost; negative where it gained.
    pub lost: Median,
    /// The processor time that observing took meanwhile.
    pub taken: Taken,
}

/// Measures a load in every way.
pub fn measure(kind: &Kind, whyslow: &Path, plan: &Plan) -> Result<Vec<Slowdown>> {
    let load = Load::begin(kind).map_err(of(kind))?;
    // Caches fill and processors clock up.
    load.rate(plan.time).map_err(of(kind))?;
    WAYS.iter().map(|(way, args)| in_pairs(kind, &load, (way, args), whyslow, plan).map_err(of(kind))).collect()
}

fn of(kind: &Kind) -> impl FnOnce(Failure) -> Failure {
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
        rate: Median::of(rates.iter().map(|(alone, _)| *alone).collect()).ok_or_else(none)?.value,
        unit: kind.unit,
        pairs: plan.pairs,
        lost: Median::of(rates.iter().map(|(alone, observed)| 1.0 - observed / alone).collect()).ok_or_else(none)?,
        taken: taken::measure(load, plan.time, || observe(whyslow, args, plan.time))?,
    })
}

/// The rate of a load, with whyslow beside it or after the same pause.
fn rate(load: &Load, observer: Option<(&Path, &[&str])>, time: Duration) -> Result<f64> {
    let _observer = observer.map(|(whyslow, args)| observe(whyslow, args, time)).transpose()?;
    stop::pause(taken::START)?;
    load.rate(time)
}

/// whyslow observing for longer than the load runs: it diagnoses only at the end, which is no part of observing.
fn observe(whyslow: &Path, args: &[&str], time: Duration) -> Result<Running> {
    let path = whyslow.to_str().ok_or_else(|| Failure::new("the path of whyslow is not UTF-8"))?;
    let seconds = format!("{}s", time.as_secs() + 30);
    Running::start(path, &[&["--for", &seconds, "--json"], args].concat())
}
