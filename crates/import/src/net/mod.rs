//! Interfaces, connections and protocols.

pub(crate) mod ethtool;
pub(crate) mod ifconfig;
pub(crate) mod ip;
pub(crate) mod netstat;
pub(crate) mod nstat;
pub(crate) mod ss;
pub(crate) mod tc;

use whyslow_model::key::NetKey;

/// An interface of the machine the capture is of, whose other namespaces no tool shows.
fn interface(name: &str) -> NetKey {
    NetKey { ns: "".into(), name: name.into() }
}

/// The row of the protocol counters.
fn protocols() -> NetKey {
    interface("ip")
}
