//! Skips tests that cannot run here, so that they can be counted: libtest does not capture the line that a skip prints,
//! and `cargo test 2>&1 | grep -c '^skipped'` counts them.

use std::io::Write;
use std::process::{Command, Stdio};

/// Skips a test because this kernel lacks the tested feature.
pub(crate) fn skip(reason: &str) {
    let test = std::thread::current().name().unwrap_or("test").to_owned();
    // Bypasses libtest's capture of stderr.
    if let Ok(mut stderr) = std::fs::OpenOptions::new().append(true).open("/dev/stderr") {
        let _ = writeln!(stderr, "skipped {test}: {reason}");
    }
}

/// Skips a test because of how it was started; CI must start it correctly.
pub(crate) fn skip_unless_ci(reason: &str) {
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "must not be skipped under CI=true: {reason}");
    skip(reason);
}

/// Returns true if the tests run as root; skips otherwise.
#[allow(dead_code, reason = "not every test binary needs it")]
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        skip_unless_ci("needs root");
    }
    root
}

/// Returns true if this program is installed; skips otherwise.
#[allow(dead_code, reason = "not every test binary needs it")]
pub(crate) fn has_program(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        skip_unless_ci(&format!("needs {program} (scripts/install-missing.sh test)"));
    }
    found
}
