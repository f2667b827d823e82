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
    /// Returns address and port at the far end.
    pub fn address(&self, port: u16) -> String {
        format!("{}:{port}", self.far_ip)
    }

    fn new(bed: &mut Testbed, second_octet: u8) -> Result<(Self, String)> {
        let network = format!("10.{second_octet}.{}", bed.range(1..=250));
        let (near, far) = (NetNs::new(bed, "near")?, NetNs::new(bed, "far")?);
        Ok((Self { near, far, far_ip: format!("{network}.2") }, format!("{network}.1")))
    }
}

/// Sets up a veth pair: `veth0` at the near and `veth1` at the far end.
pub fn veth_pair(bed: &mut Testbed) -> Result<Link> {
    let (link, near_ip) = Link::new(bed, 213)?;
    link.near.ip(&["link", "add", "veth0", "type", "veth", "peer", "name", "veth1", "netns", link.far.name()])?;
    link.near.up("veth0", &near_ip)?;
    link.far.up("veth1", &link.far_ip)?;
    Ok(link)
}

/// Two veth links between the same two ends, `veth0` to `veth1` and `veth2` to `veth3`, each with a network of its own.
/// The far end sends to the second one from an address that the near end reaches through the first one.
pub struct TwoPaths {
    pub near: NetNs,
    pub far: NetNs,
    /// Address of the near end of the second link.
    pub near_ip: String,
}

/// Sets up [`TwoPaths`].
pub fn asymmetric_paths(bed: &mut Testbed) -> Result<TwoPaths> {
    let Link { near, far, far_ip: gateway } = veth_pair(bed)?;
    let (network, client_ip) = (format!("10.216.{}", bed.range(1..=250)), format!("198.18.{}.7", bed.range(1..=250)));
    let near_ip = format!("{network}.1");
    near.ip(&["link", "add", "veth2", "type", "veth", "peer", "name", "veth3", "netns", far.name()])?;
    near.up("veth2", &near_ip)?;
    far.up("veth3", &format!("{network}.2"))?;
    far.ip(&["address", "add", &client_ip, "dev", "lo"])?;
    far.ip(&["route", "replace", &format!("{network}.0/24"), "dev", "veth3", "src", &client_ip])?;
    // Override the machine's defaults at the far end. It sends ARP requests as a router does, with its own
    // address.
    far.set("net.ipv4.conf.all.rp_filter", 2)?;
    far.set("net.ipv4.conf.all.arp_announce", 2)?;
    near.ip(&["route", "add", &client_ip, "via", &gateway, "dev", "veth0"])?;
    Ok(TwoPaths { near, far, near_ip })
}

/// Two ends with a router between them. The router sends smaller packets to the far end than the far end itself
/// accepts.
pub struct NarrowPath {
    pub near: NetNs,
    pub router: NetNs,
    pub far: NetNs,
    pub far_ip: String,
}

/// Sets up a [`NarrowPath`] whose router sends packets of at most `mtu` bytes to the far end. The router's interfaces are `veth1` and
/// `veth2`.
pub fn narrow_path(bed: &mut Testbed, mtu: u64) -> Result<NarrowPath> {
    let Link { near, far: router, far_ip: gateway } = veth_pair(bed)?;
    let (far, network) = (NetNs::new(bed, "end")?, format!("10.217.{}", bed.range(1..=250)));
    let (router_ip, far_ip) = (format!("{network}.1"), format!("{network}.2"));
    router.ip(&["link", "add", "veth2", "type", "veth", "peer", "name", "veth3", "netns", far.name()])?;
    router.up("veth2", &router_ip)?;
    far.up("veth3", &far_ip)?;
    router.ip(&["link", "set", "veth2", "mtu", &mtu.to_string()])?;
    router.set("net.ipv4.ip_forward", 1)?;
    near.ip(&["route", "add", "default", "via", &gateway])?;
    far.ip(&["route", "add", "default", "via", &router_ip])?;
    Ok(NarrowPath { near, router, far, far_ip })
}

/// Drops the ICMP errors that a namespace sends, as many firewalls do.
pub fn drop_icmp_errors(bed: &Testbed, ns: &NetNs) -> Result<()> {
    load_chain(bed, ns, "output priority filter", "icmp type destination-unreachable drop\n")
}

/// Two interfaces of the near end, `veth0` and `veth2`, in the subnet of a bridge at the far end, `br0`.
pub struct SharedSubnet {
    pub near: NetNs,
    pub far: NetNs,
    /// Addresses of `veth0` and `veth2`.
    pub near_ips: [String; 2],
}

/// Sets up a [`SharedSubnet`]. The far end has learned that both addresses belong to the interface `answers`.
pub fn shared_subnet(bed: &mut Testbed, answers: [&str; 2]) -> Result<SharedSubnet> {
    let (link, near_ip) = Link::new(bed, 215)?;
    let Link { near, far, far_ip } = link;
    let near_ips = [near_ip, format!("{}3", &far_ip[..far_ip.len() - 1])];
    far.ip(&["link", "add", "br0", "type", "bridge"])?;
    far.up("br0", &far_ip)?;
    let ends = ["veth0", "veth2"];
    for (n, (end, ip)) in ends.iter().zip(&near_ips).enumerate() {
        let (other, mac) = (format!("port{n}"), mac(end));
        near.ip(&["link", "add", end, "address", &mac, "type", "veth", "peer", "name", &other, "netns", far.name()])?;
        near.up(end, ip)?;
        far.ip(&["link", "set", &other, "master", "br0", "up"])?;
    }
    for (ip, answer) in near_ips.iter().zip(answers) {
        far.ip(&["neighbour", "replace", ip, "lladdr", &mac(answer), "dev", "br0", "nud", "permanent"])?;
    }
    Ok(SharedSubnet { near, far, near_ips })
}

/// Returns a locally administered MAC address for `veth0` or `veth2`.
fn mac(end: &str) -> String {
    format!("02:00:00:00:00:0{}", end.trim_start_matches("veth"))
}

/// Sets up a relay between two TUN devices, both named `tun0`. It delays packets by `delay_us` and loses `loss` of ten
/// thousand in each direction.
pub fn tun_relay(bed: &mut Testbed, delay_us: u64, loss: u64) -> Result<Link> {
    start_relay(bed, |relay| relay.with("delay-us", delay_us).with("loss", loss))
}

/// Sets up a relay that damages `damage` of ten thousand packets in each direction, which the receiving device counts
/// and refuses.
pub fn damaging_relay(bed: &mut Testbed, delay_us: u64, damage: u64) -> Result<Link> {
    start_relay(bed, |relay| relay.with("delay-us", delay_us).with("damage", damage))
}

/// Sets up a relay that silently loses all packets of more than `largest` bytes.
pub fn black_hole_relay(bed: &mut Testbed, delay_us: u64, largest: u64) -> Result<Link> {
    start_relay(bed, |relay| relay.with("delay-us", delay_us).with("largest", largest))
}

fn start_relay(bed: &mut Testbed, settings: impl FnOnce(LoadCommand) -> LoadCommand) -> Result<Link> {
    let (link, near_ip) = Link::new(bed, 214)?;
    let relay =
        LoadCommand::new("relay").with("near", link.near.path().display()).with("far", link.far.path().display());
    settings(relay).start(bed)?;
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

/// Tracks the connections of a namespace, and keeps entries of unanswered datagrams for an hour.
pub fn track_connections(bed: &Testbed, ns: &NetNs) -> Result<()> {
    load_chain(bed, ns, "output priority filter", "ct state new accept\n")?;
    ns.set("net.netfilter.nf_conntrack_udp_timeout", 3600)
}

/// Loads a chain of rules for all received packets.
fn load(bed: &Testbed, ns: &NetNs, rules: &str) -> Result<()> {
    load_chain(bed, ns, "prerouting priority raw", rules)
}

fn load_chain(bed: &Testbed, ns: &NetNs, hook: &str, rules: &str) -> Result<()> {
    command::run("nft", &["--version"])?;
    let text = format!("table ip lab {{\nchain in {{\ntype filter hook {hook};\n{rules}}}\n}}\n");
    let path = bed.path("rules.nft");
    fs::write(&path, text).context(path.display())?;
    ns.exec("nft", &["-f", &path.to_string_lossy()])
}

/// Steers all packets received on an interface to one CPU (RPS, Documentation/networking/scaling.rst).
pub fn set_rps_cpu(ns: &NetNs, interface: &str, cpu: u64) -> Result<()> {
    let mask = 1u64 << cpu;
    ns.exec("sh", &["-c", &format!("echo {mask:x} >/sys/class/net/{interface}/queues/rx-0/rps_cpus")])
}
