//! Background loads.

use crate::cage::tool;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

/// A load that runs until it is dropped.
pub struct Load(Child);

impl Load {
    /// Runs a script in a shell.
    pub fn shell(script: &str) -> Self {
        let mut shell = whyslow_testing::tree("sh");
        shell.args(["-c", script]).process_group(0).stdin(Stdio::null()).stderr(Stdio::null());
        Self(shell.spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Includes everything that the shell has started.
        tool("kill", &["-KILL", "--", &format!("-{}", self.0.id())]);
        self.0.wait().unwrap();
    }
}
