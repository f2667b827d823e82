//! Load of the nodes of the stacks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a device or interface did over a few seconds. What is not known is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeLoad {
    /// Of a device, the share of the time with a request in flight, 0..1; of an interface, the fuller direction against what it can
    /// carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Of a device, the share of the time, 0..1, in which a task waited for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<f64>,
    /// Bytes read or received per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<f64>,
    /// Bytes written or sent per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<f64>,
    /// Requests completed, or packets, per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<f64>,
    /// Mean time of a read or write, waiting included, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<f64>,
    /// Mean number of requests in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<f64>,
    /// Bytes per second that it cannot exceed: of a device the throughput that more requests in flight do not raise, if that was
    /// seen; of an interface what its link carries one way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<f64>,
    /// Requests per second that a device cannot exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_ceiling: Option<f64>,
}
