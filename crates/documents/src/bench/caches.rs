//! Result of `bench drop-caches`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The caches of the machine before and after they were dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DroppedCaches {
    /// Always [`DroppedCaches::SCHEMA`].
    pub schema: String,
    /// Before.
    pub before: CacheSizes,
    /// After; what is in use or was read meanwhile is still there.
    pub after: CacheSizes,
    /// How long it took, most of it to write what was dirty; seconds.
    pub seconds: f64,
}

impl DroppedCaches {
    /// The version this code writes.
    pub const SCHEMA: &str = "whyslow.dropped_caches/1";
}

/// Memory that caches take, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheSizes {
    /// Page cache and buffers (`Cached` and `Buffers` of /proc/meminfo; tmpfs counts, and is never dropped).
    pub page_cache: u64,
    /// Dentries, inodes and other slab memory that can be reclaimed (`SReclaimable`).
    pub reclaimable_slab: u64,
}
