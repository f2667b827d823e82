//! Wires between network namespaces.

use crate::error::Result;
use crate::netns::NetNs;
use crate::stage::Stage;
use crate::worker::Launch;

/// Two namespaces joined by a veth pair: `wire0`, 10.213.N.1, in one and `wire1`, 10.213.N.2, in the other.
///
/// # Errors
/// What ip(8) says.
pub fn wired_pair(stage: &mut Stage, net: u64) -> Result<(NetNs, NetNs)> {
    let (a, b) = (NetNs::new(stage, "near")?, NetNs::new(stage, "far")?);
    a.ip(&["link", "add", "wire0", "type", "veth", "peer", "name", "wire1", "netns", b.name()])?;
    a.up("wire0", &format!("10.213.{net}.1/24"))?;
    b.up("wire1", &format!("10.213.{net}.2/24"))?;
    Ok((a, b))
}

/// Joins two namespaces by a wire that takes `delay_us` each way: the TUN devices `wire0`, 10.214.N.1 and 10.214.N.2.
///
/// # Errors
/// Where TUN is missing or ip(8) refuses.
pub fn long_wire(stage: &mut Stage, near: &NetNs, far: &NetNs, net: u64, delay_us: u64) -> Result<()> {
    lossy_wire(stage, near, far, net, delay_us, 0)
}

/// The same, with `loss` of ten thousand packets lost each way.
///
/// # Errors
/// Where TUN is missing or ip(8) refuses.
pub fn lossy_wire(stage: &mut Stage, near: &NetNs, far: &NetNs, net: u64, delay_us: u64, loss: u64) -> Result<()> {
    let relay = Launch::new("relay").with("near", near.path().display()).with("far", far.path().display());
    relay.with("delay-us", delay_us).with("loss", loss).start(stage)?;
    near.up("wire0", &format!("10.214.{net}.1/24"))?;
    far.up("wire0", &format!("10.214.{net}.2/24"))
}
