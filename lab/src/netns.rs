//! Network namespaces.

use crate::error::Result;
use crate::stage::{PREFIX, Stage};
use crate::tool;
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

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
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
