//! Packet filters: one that is long, which makes the receipt of a packet dear, and one that loses packets.

use crate::error::{During, Result};
use crate::netns::NetNs;
use crate::stage::Stage;
use crate::tool;
use std::fmt::Write;
use std::fs;

/// Has every packet that comes into a namespace compared with `rules` addresses none of which is its own.
///
/// # Errors
/// Where nft(8) is missing or refuses.
pub fn long_chain(stage: &Stage, ns: &NetNs, rules: u64) -> Result<()> {
    let mut text = String::new();
    for n in 0..rules {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "ip saddr 198.18.{}.{} drop", n >> 8 & 0xff, n & 0xff);
    }
    load(stage, ns, &text)
}

/// Has `loss` of ten thousand TCP packets that come into a namespace thrown away.
///
/// # Errors
/// Where nft(8) is missing or refuses.
pub fn lossy(stage: &Stage, ns: &NetNs, loss: u64) -> Result<()> {
    load(stage, ns, &format!("meta l4proto tcp numgen random mod 10000 < {loss} drop\n"))
}

/// Loads a chain of these rules, through which all packets that come in must pass.
fn load(stage: &Stage, ns: &NetNs, rules: &str) -> Result<()> {
    tool::run("nft", &["--version"])?;
    let text = format!("table ip lab {{\nchain in {{\ntype filter hook prerouting priority raw;\n{rules}}}\n}}\n");
    let path = stage.path("rules.nft");
    fs::write(&path, text).during(path.display())?;
    ns.exec("nft", &["-f", &path.to_string_lossy()])
}

/// Has all packets that come in at an interface handed to one processor (RPS, Documentation/networking/scaling.rst).
///
/// # Errors
/// Where the kernel lacks RPS.
pub fn steer(ns: &NetNs, interface: &str, processor: u64) -> Result<()> {
    let mask = 1u64 << processor;
    ns.exec("sh", &["-c", &format!("echo {mask:x} >/sys/class/net/{interface}/queues/rx-0/rps_cpus")])
}
