//! Compares the screens of captures in `docs/screens/` with the current output. CONTRIBUTING.md describes how to update
//! them after a deliberate change.

mod captured;
mod kept_screen;

use captured::{read, text};
use kept_screen::assert_screen;

/// Number of lines of the first screen, and of one that ends with the next capture.
const LINES: usize = 10;
const LINES_WITH_NEXT: usize = 17;

/// Asserts that a first screen is short and no wider than a terminal.
fn assert_first_screen(name: &str, command: &str, drawn: &str) {
    let most = if drawn.contains("To decide, on the captured host:") { LINES_WITH_NEXT } else { LINES };
    assert!(drawn.lines().count() <= most, "{name} takes more than {most} lines:\n{drawn}");
    // Commands for pasting stay on one line.
    let is_command = |line: &str| line.starts_with("    ");
    let fits = |line: &str| line.chars().count() <= 80 || is_command(line);
    assert!(drawn.lines().all(fits), "{name} is too wide:\n{drawn}");
    assert_screen(name, command, drawn);
}

#[test]
fn captures() {
    for (name, files) in [
        ("cpu-steal", &["cases/037-zvm-steal-old-top"][..]),
        ("cpu-interrupts", &["irq-mpstat-2.txt", "irq-proc-interrupts.txt"]),
        ("cpu-single-thread", &["cpu-top-threads-hidden.txt", "cpu-ps-elfm.txt"]),
        ("memory-kernel-leak", &["cases/016-nfsd-kernel-memory-leak-oom"]),
        ("memory-oom-kill", &["cases/021-memcg-oom-dirty-cache-slow-disk"]),
        ("disk-one-request-at-a-time", &["san-iostat-x-2k-1reader.txt"]),
        ("disk-slow", &["cases/001-md-check-one-slow-disk"]),
        ("disk-medium-error", &["scsi-messages-3-medium-error.txt"]),
        ("network-listen-overflow", &["vm-netstat-s-listen-overflow.txt"]),
        ("network-damaged-frames", &["cases/035-nic-crc-errors-one-way-slow"]),
        ("network-small-buffer", &["net-iperf-before-client.txt", "net-iperf-after-client.txt"]),
        ("network-conntrack-full", &["cases/030-conntrack-table-full-haproxy"]),
        ("database-statspack", &["oracle-statspack.txt"]),
        ("capture-healthy", &["cases/020-healthy-util-misreported-vda"]),
        ("capture-undetermined", &["san-fdisk.txt"]),
    ] {
        let out = read(&[&["--width", "80", "--utc"], files].concat());
        assert_eq!(out.status.code(), Some(0), "{name}: {}", text(&out.stderr));
        assert_first_screen(name, &format!("whyslow read {}", files.join(" ")), text(&out.stdout));
    }
}
