//! Results of several rounds together.

use super::Direction;
use serde::{Deserialize, Serialize};

/// The path MTU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMtu {
    /// The largest unfragmented IP packet that arrived, bytes.
    pub bytes: u32,
    /// The kernel's own value; if it is larger, packets are lost silently.
    pub kernel: Option<u32>,
}

/// Response time while streams run and idle, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Direction of the streams.
    pub direction: Direction,
    /// Number of streams.
    pub streams: u32,
    /// Their bandwidth, bytes per second.
    pub bandwidth: f64,
    /// Median while idle.
    pub alone: f64,
    /// The median while streams run.
    pub median: f64,
    /// 99th percentile while streams run.
    pub p99: Option<f64>,
    /// Bytes queued on the path: bandwidth times the increase of the median (Little's law).
    pub queued: f64,
}

/// Bandwidth by size of socket buffers or segments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    /// In order of size.
    pub points: Vec<Size>,
    /// Bandwidth with the kernel's default, bytes per second.
    pub automatic: Option<f64>,
    /// The smallest size that reaches 95 % of the best; `None` if bandwidth does not depend on it.
    pub needed: Option<u32>,
    /// The bandwidth-delay product, bytes: best bandwidth times shortest response time.
    pub product: Option<f64>,
    /// Whether a larger size than the largest measured might bring more.
    pub open: bool,
}

/// One size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Size {
    /// As it was asked for, bytes.
    pub bytes: u32,
    /// Bytes per second.
    pub bandwidth: f64,
    /// CPU time of the sending threads per byte, seconds.
    pub send_cost: Option<f64>,
    /// CPU time of the receiving threads per byte, seconds.
    pub receive_cost: Option<f64>,
}
