//! Interfaces, connections and protocols.

pub(crate) mod ethtool;
pub(crate) mod ifconfig;
pub(crate) mod ss;
