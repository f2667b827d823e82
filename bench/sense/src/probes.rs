//! Cost of each source's BPF programs while a load runs, including those loaded on demand.

use crate::loads::{Kind, Load};
use crate::taken::{Counting, Programs};
use serde::Serialize;
use std::time::{Duration, Instant};
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::stop;
use whyslow_sense::{Root, Sampler};

/// Interval between two samples, the same as for `whyslow`.
const INTERVAL: Duration = Duration::from_secs(1);

/// Cost of a source's programs under a load.
#[derive(Serialize)]
pub struct Probes {
    pub source: &'static str,
    pub load: &'static str,
    pub calls_per_second: f64,
    /// Nanoseconds per call; `None` without calls.
    pub ns_per_call: Option<f64>,
    /// Share of one CPU.
    pub share: f64,
}

/// Measures every source with BPF programs separately, over this many samples.
pub fn measure(kind: &Kind, samples: u32) -> Result<Vec<Probes>> {
    let load = Load::begin(kind)?;
    load.rate(INTERVAL)?;
    let _counting = Counting::on()?;
    let sources: Vec<_> = Sampler::new(Root::live().without_bpf()).sources().map(|source| source.name).collect();
    let traced = sources.into_iter().filter(|source| source.starts_with("bpf/"));
    traced.map(|source| probes(source, kind, samples)).collect()
}

fn probes(source: &'static str, kind: &Kind, samples: u32) -> Result<Probes> {
    let missing = || Failure::new(format!("no source {source}"));
    let mut sampler = Sampler::of_source(Root::live(), source).ok_or_else(missing)?;
    // The first sample gives sources that adapt to the load no information; the second one does.
    for _ in 0..2 {
        sampler.sample();
        stop::pause(INTERVAL)?;
    }
    let (start, before) = (Instant::now(), Programs::read(std::process::id())?);
    for _ in 0..samples {
        sampler.sample();
        stop::pause(INTERVAL)?;
    }
    let (seconds, after) = (start.elapsed().as_secs_f64(), Programs::read(std::process::id())?);
    let (time, calls) = (after.time - before.time, after.calls - before.calls);
    Ok(Probes {
        source,
        load: kind.name,
        calls_per_second: calls / seconds,
        ns_per_call: (calls > 0.0).then_some(time * 1e9 / calls),
        share: time / seconds,
    })
}
