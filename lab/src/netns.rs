//! Network namespaces, and the wires between them.

use crate::error::Result;
use crate::stage::{PREFIX, Stage};
use crate::tool;
use crate::worker::Launch;
use std::path::PathBuf;

/// A named network namespace that is removed at the end of the trial.
pub struct NetNs(String);

impl NetNs {
    /// Makes the namespace `wslab-NAME` with its loopback up.
    ///
    /// # Errors
    /// Where ip(8) is missing or refuses.
    pub fn new(stage: &mut Stage, name: &str) -> Result<Self> {
        let ns = Self(format!("{PREFIX}{name}"));
        tool::run("ip", &["netns", "add", &ns.0])?;
        let name = ns.0.clone();
        stage.undo(move || tool::undo("ip", &["netns", "del", &name]));
        ns.ip(&["link", "set", "lo", "up"])?;
        Ok(ns)
    }

    /// Its file under /run/netns.
    pub fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.0)
    }

    /// Runs ip(8) within it.
    ///
    /// # Errors
    /// What ip(8) says.
    pub fn ip(&self, args: &[&str]) -> Result<()> {
        tool::run("ip", &[&["-n", &self.0], args].concat()).map(drop)
    }

    /// Runs tc(8) within it.
    ///
    /// # Errors
    /// What tc(8) says.
    pub fn tc(&self, args: &[&str]) -> Result<()> {
        tool::run("tc", &[&["-n", &self.0], args].concat()).map(drop)
    }

    /// Runs a program within it, with a /sys that shows its interfaces (ip-netns(8)).
    ///
    /// # Errors
    /// What the program says.
    pub fn exec(&self, program: &str, args: &[&str]) -> Result<()> {
        tool::run("ip", &[&["netns", "exec", &self.0, program], args].concat()).map(drop)
    }

    /// Gives an interface an address and brings it up.
    ///
    /// # Errors
    /// What ip(8) says.
    pub fn up(&self, interface: &str, address: &str) -> Result<()> {
        self.ip(&["address", "add", address, "dev", interface])?;
        self.ip(&["link", "set", interface, "up"])
    }
}

/// Two namespaces joined by a veth pair: `wire0`, 10.213.N.1, in one and `wire1`, 10.213.N.2, in the other.
///
/// # Errors
/// What ip(8) says.
pub fn wired_pair(stage: &mut Stage, net: u64) -> Result<(NetNs, NetNs)> {
    let (a, b) = (NetNs::new(stage, "near")?, NetNs::new(stage, "far")?);
    a.ip(&["link", "add", "wire0", "type", "veth", "peer", "name", "wire1", "netns", &b.0])?;
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
