//! Reads the live kernel into Snapshots.
//!
//! One file per kernel source; each names the kernel document it follows, can be pointed at another root directory, and
//! distinguishes absent, not permitted and failed. [`Sampler`] reads them all and abandons one that hangs.

mod block;
mod bpf;
#[cfg(test)]
mod catalogue_tests;
mod cgroup;
mod fd_cache;
mod inventory;
mod kallsyms;
mod kernel;
mod memory;
mod net;
mod os;
mod processor;
pub mod profile;
mod root;
mod sampler;
mod source;
mod source_error;
pub mod supervisor;
mod task;
#[cfg(test)]
mod testing;

/// Netlink requests, for code that changes the settings that this crate reads.
pub mod netlink {
    pub use crate::net::netlink::{Netlink, attribute, attributes_after, text, u32_at};
}

/// Mounts and the lower devices of block devices, for code that must not touch what is in use.
pub mod storage {
    pub use crate::block::mapped_parts::{LowerRange, MappedData, MappedPart, mapped_parts};
    pub use crate::block::mountinfo::{MountInfo, holder, read as mounts};
    pub use crate::block::remote_helper::{serve as serve_helper, set_helper};
    pub use crate::block::remote_mounts::answers;
}

pub use inventory::INVENTORY;
pub use net::tcp_info;
pub use root::Root;
pub use sampler::{Sampler, read_captured};
pub use source::{Schedule, Source, SourceInfo};
pub use source_error::SourceError;
pub use task::{command_line, descriptors};

pub(crate) use whyslow_proc::text;
