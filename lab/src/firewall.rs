//! Packet filters that cost CPU time or drop packets, and the CPU that processes received packets.

use crate::command;
use crate::error::{Context, Result};
use crate::netns::NetNs;
use crate::testbed::Testbed;
use std::fmt::Write;
use std::fs;

/// Compares every packet received in a namespace with `rules` source addresses, none of which matches.
///
/// # Errors
/// If nft(8) is missing, or its own.
pub fn add_long_chain(bed: &Testbed, ns: &NetNs, rules: u64) -> Result<()> {
    let mut text = String::new();
    for n in 0..rules {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "ip saddr 198.18.{}.{} drop", n >> 8 & 0xff, n & 0xff);
    }
    load(bed, ns, &text)
}

/// Drops `loss` of ten thousand TCP packets received in a namespace.
///
/// # Errors
/// If nft(8) is missing, or its own.
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
///
/// # Errors
/// If the kernel lacks RPS.
pub fn set_rps_cpu(ns: &NetNs, interface: &str, cpu: u64) -> Result<()> {
    let mask = 1u64 << cpu;
    ns.exec("sh", &["-c", &format!("echo {mask:x} >/sys/class/net/{interface}/queues/rx-0/rps_cpus")])
}
