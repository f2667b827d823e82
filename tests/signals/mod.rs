//! Signals for programs under test.

use std::time::{Duration, Instant};

/// Waits until a process handles a signal; before that, the signal would kill it.
pub(crate) fn wait_until_caught(pid: u32, signal: i32) {
    let status = format!("/proc/{pid}/status");
    let start = Instant::now();
    loop {
        let text = std::fs::read_to_string(&status).unwrap();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        if u64::from_str_radix(caught, 16).unwrap() >> (signal - 1) & 1 == 1 {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "process {pid} does not catch signal {signal}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
