//! Network links between two namespaces, and packet filters that cost CPU time or drop packets.

use crate::command;
use crate::error::{Context, Result};
use crate::load_process::LoadCommand;
use crate::netns::NetNs;
use crate::testbed::Testbed;
use std::fmt::Write;
use std::fs;

/// Two network namespaces and the link between them.
pub struct Link {
    pub near: NetNs,
    pub far: NetNs,
    /// Address of the far end.
    pub far_ip: String,
}

impl Link {
    /// Address and port at the far end.
    pub fn address(&self, port: u16) -> String {
        format!("{}:{port}", self.far_ip)
    }

    fn new(bed: &mut Testbed, second_octet: u8) -> Result<(Self, String)> {
        let network = format!("10.{second_octet}.{}", bed.range(1..=250));
        let (near, far) = (NetNs::new(bed, "near")?, NetNs::new(bed, "far")?);
        Ok((Self { near, far, far_ip: format!("{network}.2") }, format!("{network}.1")))
    }
}

/// A veth pair: `veth0` at the near and `veth1` at the far end.
pub fn veth_pair(bed: &mut Testbed) -> Result<Link> {
    let (link, near_ip) = Link::new(bed, 213)?;
    link.near.ip(&["link", "add", "veth0", "type", "veth", "peer", "name", "veth1", "netns", link.far.name()])?;
    link.near.up("veth0", &near_ip)?;
    link.far.up("veth1", &link.far_ip)?;
    Ok(link)
}

/// A relay between two TUN devices, both `tun0`. It delays packets by `delay_us` and loses `loss` of ten thousand, each
/// way.
pub fn tun_relay(bed: &mut Testbed, delay_us: u64, loss: u64) -> Result<Link> {
    let (link, near_ip) = Link::new(bed, 214)?;
    let relay =
        LoadCommand::new("relay").with("near", link.near.path().display()).with("far", link.far.path().display());
    relay.with("delay-us", delay_us).with("loss", loss).start(bed)?;
    link.near.up("tun0", &near_ip)?;
    link.far.up("tun0", &link.far_ip)?;
    Ok(link)
}

/// Compares every packet received in a namespace with `rules` source addresses, none of which matches.
pub fn add_long_chain(bed: &Testbed, ns: &NetNs, rules: u64) -> Result<()> {
    let mut text = String::new();
    for n in 0..rules {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "ip saddr 198.18.{}.{} drop", n >> 8 & 0xff, n & 0xff);
    }
    load(bed, ns, &text)
}

/// Drops `loss` of ten thousand TCP packets received in a namespace.
pub fn drop_randomly(bed: &Testbed, ns: &NetNs, loss: u64) -> Result<()> {
    load(bed, ns, &format!("meta l4proto tcp numgen random mod 10000 < {loss} drop\n"))
}

/// Loads a chain of rules for all received packets.
fn load(bed: &Testbed, ns: &NetNs, rules: &str) -> Result<()> {
    command::run("nft", &["--version"])?;
    let text = format!("table ip lab {{\nchain in {{\ntype filter hook prerouting priority raw;\n{rules}}}\n}}\n");
    let path = bed.path("rules.nft");
    fs::write(&path, text).context(path.display())?;
    ns.exec("nft", &["-f", &path.to_string_lossy()])
}

/// Steers all packets received on an interface to one CPU (RPS, Documentation/networking/scaling.rst).
pub fn set_rps_cpu(ns: &NetNs, interface: &str, cpu: u64) -> Result<()> {
    let mask = 1u64 << cpu;
    ns.exec("sh", &["-c", &format!("echo {mask:x} >/sys/class/net/{interface}/queues/rx-0/rps_cpus")])
}
