//! What the BPF programs of each source take while a load runs, those that run on demand included.

use crate::loads::{Kind, Load};
use crate::taken::{Counting, Programs};
use serde::Serialize;
use std::time::{Duration, Instant};
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::stop;
use whyslow_sense::{Root, Sampler};

/// Between two samples, as `whyslow` takes them.
const INTERVAL: Duration = Duration::from_secs(1);

/// The programs of a source under a load.
#[derive(Serialize)]
pub struct Probes {
    pub source: &'static str,
    pub load: &'static str,
    pub calls_per_second: f64,
    /// Absent without calls.
    pub ns_per_call: Option<f64>,
    /// Of one CPU.
    pub share: f64,
}

/// Measures every source with BPF programs, each on its own, over this many samples.
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
    // The first sample tells sources that adapt to the load nothing, the second one does.
    for _ in 0..2 {
        sampler.sample();
        stop::pause(INTERVAL)?;
    }
    let (start, before) = (Instant::now(), Programs::of(std::process::id())?);
    for _ in 0..samples {
        sampler.sample();
        stop::pause(INTERVAL)?;
    }
    let (seconds, after) = (start.elapsed().as_secs_f64(), Programs::of(std::process::id())?);
    let (time, calls) = (after.time - before.time, after.calls - before.calls);
    Ok(Probes {
        source,
        load: kind.name,
        calls_per_second: calls / seconds,
        ns_per_call: (calls > 0.0).then_some(time * 1e9 / calls),
        share: time / seconds,
    })
}
