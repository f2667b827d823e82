//! Making the load: which request comes next, when, and what is counted of it.

mod job;
mod permutation;
mod stream;
mod tally;

pub(crate) use job::{Job, Outcome, Start, since};
pub(crate) use permutation::Permutation;
pub(crate) use stream::{Action, Request};
pub(crate) use tally::{Span, Spread, Tally, Times};

/// Random reads of 4 KiB, one at a time: what tests begin with.
#[cfg(test)]
pub(crate) fn sample() -> whyslow_model::bench::Workload {
    use whyslow_model::bench::Workload;
    Workload { size: 1 << 20, seconds: Some(1.0), ..Workload::of_blocks(4096) }
}
