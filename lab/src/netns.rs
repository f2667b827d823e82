//! Network namespaces.

use crate::command;
use crate::error::Result;
use crate::testbed::{PREFIX, Testbed};
use std::path::PathBuf;

/// A named network namespace that is removed at the end of the trial.
pub struct NetNs(String);

impl NetNs {
    /// Creates the namespace `wslab-NAME` and brings up its loopback interface.
    pub fn new(bed: &mut Testbed, name: &str) -> Result<Self> {
        let ns = Self(format!("{PREFIX}{name}"));
        command::run("ip", &["netns", "add", &ns.0])?;
        let name = ns.0.clone();
        bed.defer(move || command::run_cleanup("ip", &["netns", "del", &name]));
        ns.ip(&["link", "set", "lo", "up"])?;
        Ok(ns)
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns the path under /run/netns.
    pub fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.0)
    }

    /// Runs ip(8) in the namespace.
    pub fn ip(&self, args: &[&str]) -> Result<()> {
        command::run("ip", &[&["-n", &self.0], args].concat()).map(drop)
    }

    /// Limits the sending rate of an interface with a token bucket (tc-tbf(8)), in which a packet waits at most
    /// `latency`.
    pub fn shape(&self, interface: &str, megabits: u64, burst: &str, latency: &str) -> Result<()> {
        let rate = format!("{megabits}mbit");
        self.tc(&["qdisc", "add", "dev", interface, "root", "tbf", "rate", &rate, "burst", burst, "latency", latency])
    }

    /// Limits the sending rate of an interface to `megabits` in the default class of a hierarchical token bucket
    /// (tc-htb(8)). The bucket and its other class can send more.
    pub fn shape_class(&self, interface: &str, megabits: u64) -> Result<()> {
        let (rate, all) = (format!("{megabits}mbit"), format!("{}mbit", 10 * megabits));
        self.tc(&["qdisc", "add", "dev", interface, "root", "handle", "1:", "htb", "default", "20"])?;
        let class = |parent: &str, id: &str, rate: &str| {
            self.tc(&["class", "add", "dev", interface, "parent", parent, "classid", id, "htb", "rate", rate])
        };
        class("1:", "1:1", &all)?;
        class("1:1", "1:10", &all)?;
        class("1:1", "1:20", &rate)
    }

    fn tc(&self, args: &[&str]) -> Result<()> {
        command::run("tc", &[&["-n", &self.0], args].concat()).map(drop)
    }

    /// Runs a program in the namespace, with a /sys that shows its interfaces (ip-netns(8)).
    pub fn exec(&self, program: &str, args: &[&str]) -> Result<()> {
        command::run("ip", &[&["netns", "exec", &self.0, program], args].concat()).map(drop)
    }

    /// Sets a sysctl of the namespace.
    pub fn set(&self, name: &str, value: impl std::fmt::Display) -> Result<()> {
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        self.exec("sh", &["-c", &format!("echo '{value}' >{file}")])
    }

    /// Gives an interface an address in a /24 and brings it up.
    pub fn up(&self, interface: &str, address: &str) -> Result<()> {
        self.ip(&["address", "add", &format!("{address}/24"), "dev", interface])?;
        self.ip(&["link", "set", interface, "up"])
    }
}
