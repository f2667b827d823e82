//! Reads the live kernel into Snapshots.
//!
//! One file per kernel source; each names the kernel document it follows, can be pointed at another root folder, and
//! tells absent from failed from not permitted. [`Sampler`] runs them all; one that hangs is left behind, not waited for.

mod block;
mod bpf;
mod cgroup;
#[cfg(test)]
mod hostile;
mod kept;
mod kernel;
mod memory;
mod miss;
mod net;
mod os;
mod processor;
pub mod profile;
mod relay;
mod root;
mod sampler;
mod seldom;
mod source;
pub mod supervisor;
mod task;

/// Questions to the kernel over netlink, for whoever sets what is read here.
pub mod netlink {
    pub use crate::net::netlink::{Netlink, attribute, attributes_after, text, u32_at};
}

pub use net::tcp_info;
pub use root::Root;
pub use sampler::{Sampler, SourceInfo};
pub use source::{Miss, Source, Tempo};

pub(crate) use whyslow_proc::text;
