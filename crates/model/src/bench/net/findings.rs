//! What the numbers of several rounds on the network come to.

use super::Direction;
use serde::{Deserialize, Serialize};

/// The largest packet that passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMtu {
    /// Bytes of the largest IP packet that arrived, none of it in fragments.
    pub bytes: u32,
    /// What the kernel goes by; none where it did not say. Where that is more, packets vanish without a word.
    pub kernel: Option<u32>,
}

/// How long an answer takes while streams run, and while nothing does. Seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Which way the streams go.
    pub direction: Direction,
    /// How many.
    pub streams: u32,
    /// Bytes a second they moved.
    pub bandwidth: f64,
    /// The median with nothing else under way.
    pub alone: f64,
    /// The median while streams run.
    pub median: f64,
    /// What one of a hundred exceeds while streams run; none where there were too few.
    pub p99: Option<f64>,
    /// Bytes that wait in queues on the way: the bandwidth times what the median grew by (Little's law).
    pub queued: f64,
}

/// A load at several sizes of something: which of them is enough.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    /// What was measured at each, in order of size.
    pub points: Vec<Size>,
    /// Bytes a second where the kernel chose the size.
    pub automatic: Option<f64>,
    /// The smallest that brings 95 % of the most there was, bytes; none where none did.
    pub needed: Option<u32>,
    /// The bandwidth-delay product: the most bytes a second there were, times the shortest time an answer took. None where
    /// that has nothing to do with the size.
    pub product: Option<f64>,
    /// Whether larger ones than the largest measured might bring more: they still did, or the kernel grants no larger ones.
    pub open: bool,
}

/// One size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Size {
    /// As it was asked for, bytes.
    pub bytes: u32,
    /// Bytes a second.
    pub bandwidth: f64,
    /// Processor time of the sending threads for each byte, seconds.
    pub send_cost: Option<f64>,
    /// The same of the receiving threads.
    pub receive_cost: Option<f64>,
}
