//! Making the load: which request comes next, when, and what is counted of it.

mod job;
mod permutation;
mod stream;
mod tally;

pub(crate) use job::{Job, Outcome, Start, since};
pub(crate) use stream::{Action, Request};
pub(crate) use tally::{Span, Tally};

/// Random reads of 4 KiB, one at a time: what tests begin with.
#[cfg(test)]
pub(crate) fn sample() -> whyslow_model::bench::Workload {
    use whyslow_model::bench::{Access, Block, Cache, Engine, Workload};
    Workload {
        engine: Engine::IoUring,
        direct: true,
        cache: Cache::AsIs,
        access: Access::Uniform,
        reads: 1.0,
        read_blocks: vec![Block { bytes: 4096, share: 1.0 }],
        write_blocks: vec![Block { bytes: 4096, share: 1.0 }],
        split: true,
        depth: 1,
        jobs: 1,
        start: 0,
        size: 1 << 20,
        sync: None,
        rate: None,
        pause: 0.0,
        cpus: Vec::new(),
        verify: false,
        seconds: Some(1.0),
        bytes: None,
        ramp_seconds: 0.0,
        seed: 1,
        percentiles: whyslow_model::bench::Latency::SHARES.to_vec(),
    }
}
