//! A file and two network namespaces for the loads.

use std::time::Duration;
use whyslow_pairs::child;
use whyslow_pairs::failure::Result;

/// Prefix of all names.
const PREFIX: &str = "wsl-bench-";
/// Timeout of ip(8).
const PATIENCE: Duration = Duration::from_secs(10);

/// Two network namespaces joined by a veth pair; removed when dropped.
pub struct Wire {
    names: [String; 2],
}

impl Wire {
    /// Address of the far end.
    pub const FAR: &str = "10.214.0.2";
    /// Interface name at both ends.
    pub const NAME: &str = "wire";

    pub fn new() -> Result<Self> {
        let id = std::process::id();
        let wire = Self { names: ["near", "far"].map(|end| format!("{PREFIX}{id}-{end}")) };
        let [near, far] = &wire.names;
        ip(&["netns", "add", near])?;
        ip(&["netns", "add", far])?;
        ip(&["-n", near, "link", "add", Self::NAME, "type", "veth", "peer", "name", Self::NAME, "netns", far])?;
        for (end, address) in [(near, "10.214.0.1/24"), (far, "10.214.0.2/24")] {
            ip(&["-n", end, "address", "add", address, "dev", Self::NAME])?;
            ip(&["-n", end, "link", "set", Self::NAME, "up"])?;
        }
        Ok(wire)
    }

    pub fn near(&self) -> &str {
        &self.names[0]
    }

    pub fn far(&self) -> &str {
        &self.names[1]
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for name in &self.names {
            child::clean_up("ip", &["netns", "del", name]);
        }
    }
}

fn ip(args: &[&str]) -> Result<()> {
    child::output("ip", args, PATIENCE).map(drop)
}

/// Creates a file on a disk, which is removed when dropped.
pub fn file() -> Result<tempfile::NamedTempFile> {
    // /tmp may be in memory.
    Ok(tempfile::Builder::new().prefix(PREFIX).tempfile_in("/var/tmp")?)
}
