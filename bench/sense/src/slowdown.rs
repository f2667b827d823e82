//! How much a load is slowed down: it runs without and with whyslow in turn, in pairs of random order.

use crate::loads::Load;
use crate::taken::{self, Taken};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use whyslow_model::bench::Median;
use whyslow_pairs::child::Running;
use whyslow_pairs::dice::Dice;
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::stop;

/// How whyslow is run beside the load.
const WAYS: [(&str, &[&str]); 2] = [("with BPF", &[]), ("without BPF", &["--no-bpf"])];
/// Time that whyslow gets to start before the load does.
const HEAD_START: Duration = Duration::from_millis(500);

/// How long and how often to run a load.
pub struct Plan {
    pairs: usize,
    time: Duration,
}

impl Plan {
    /// With this many pairs, where they are given.
    pub fn new(quick: bool, pairs: Option<usize>) -> Self {
        let (usual, seconds) = if quick { (6, 1) } else { (20, 3) };
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
///
/// # Errors
/// Where the load or whyslow fails, or a signal came.
pub fn measure(load: &mut dyn Load, whyslow: &Path, plan: &Plan) -> Result<Vec<Slowdown>> {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64);
    let mut dice = Dice::new(seed);
    // Caches fill and processors clock up.
    load.run(plan.time)?;
    WAYS.iter().map(|(way, args)| in_pairs(load, (way, args), whyslow, plan, &mut dice)).collect()
}

fn in_pairs(
    load: &mut dyn Load,
    (way, args): (&'static str, &[&str]),
    whyslow: &Path,
    plan: &Plan,
    dice: &mut Dice,
) -> Result<Slowdown> {
    let (mut lost, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..plan.pairs {
        let observed_first = dice.toss();
        let first = run(load, observed_first.then_some((whyslow, args)), plan.time)?;
        let second = run(load, (!observed_first).then_some((whyslow, args)), plan.time)?;
        let (observed, alone) = if observed_first { (first, second) } else { (second, first) };
        lost.push(1.0 - observed / alone);
        rates.push(alone);
    }
    let none = || Failure::new("no pairs to run");
    Ok(Slowdown {
        load: load.name(),
        way,
        rate: Median::of(rates).ok_or_else(none)?.value,
        unit: load.unit(),
        pairs: plan.pairs,
        lost: Median::of(lost).ok_or_else(none)?,
        taken: taken::measure(load, plan.time, || observe(whyslow, args, plan.time))?,
    })
}

/// The rate of a load, with whyslow beside it or after the same pause.
fn run(load: &mut dyn Load, observer: Option<(&Path, &[&str])>, time: Duration) -> Result<f64> {
    let _observer = observer.map(|(whyslow, args)| observe(whyslow, args, time)).transpose()?;
    stop::pause(HEAD_START)?;
    let rate = load.run(time)?;
    if rate > 0.0 { Ok(rate) } else { Err(Failure::new(format!("{} did nothing", load.name()))) }
}

/// whyslow observing for longer than the load runs: it diagnoses only at the end, which is no part of observing.
fn observe(whyslow: &Path, args: &[&str], time: Duration) -> Result<Running> {
    let path = whyslow.to_str().ok_or_else(|| Failure::new("the path of whyslow is not UTF-8"))?;
    let seconds = format!("{}s", time.as_secs() + 30);
    Running::start(path, &[&["--for", &seconds, "--json"], args].concat())
}
