//! CPU time by source: runs the library itself with one sample per second, as `whyslow` does.

use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use whyslow_pairs::failure::Result;
use whyslow_pairs::sleepers::{self, Sleepers};
use whyslow_pairs::stop;
use whyslow_sense::{Root, Sampler};

/// Compared ways to observe.
const WAYS: [(&str, bool); 2] = [("with BPF", true), ("without BPF", false)];

/// Cost of a sample. Times are in milliseconds of CPU time, averaged over the samples.
#[derive(Serialize)]
pub struct Cost {
    /// With or without BPF.
    pub way: &'static str,
    /// Number of processes.
    pub processes: usize,
    /// Number of samples.
    pub samples: usize,
    /// Cost by source, the most expensive first.
    pub sources: Vec<(String, f64)>,
    /// Cost of the whole sample, including the sampler itself.
    pub sample: f64,
    /// Median cost of whole samples.
    pub median_sample: f64,
}

/// Measures every way with this many processes.
pub fn measure(processes: usize, samples: usize) -> Result<Vec<Cost>> {
    let _sleepers = Sleepers::up_to(processes)?;
    // Let the new processes settle.
    stop::pause(Duration::from_secs(2))?;
    let root = |bpf| if bpf { Root::live() } else { Root::live().without_bpf() };
    WAYS.iter().map(|(way, bpf)| observe(way, Sampler::new(root(*bpf)), samples)).collect()
}

/// Measures the samples, except the first one, in which all sources initialise.
fn observe(way: &'static str, mut sampler: Sampler, samples: usize) -> Result<Cost> {
    sampler.sample();
    let mut sources = BTreeMap::<String, f64>::new();
    let mut whole = Vec::with_capacity(samples);
    for _ in 0..samples {
        stop::pause(Duration::from_secs(1))?;
        let before = processor_time()?;
        let snapshot = sampler.sample();
        whole.push(milliseconds(processor_time()?.saturating_sub(before)));
        for report in snapshot.sources {
            *sources.entry(report.source.to_string()).or_default() += report.cpu_ns as f64 / 1e6 / samples as f64;
        }
    }
    let mut sources: Vec<_> = sources.into_iter().collect();
    sources.sort_by(|a, b| b.1.total_cmp(&a.1));
    let sample = whole.iter().sum::<f64>() / samples as f64;
    whole.sort_by(f64::total_cmp);
    let median_sample = whole[samples / 2];
    Ok(Cost { way, processes: sleepers::processes_now()?, samples, sources, sample, median_sample })
}

fn processor_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_err(std::io::Error::from)?.into())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
