//! The screens in `docs/screens/`, one for each kind of answer: drawn anew, and compared with what is there.
//!
//! `WHYSLOW_UPDATE_SCREENS=1 cargo test --test screens` writes them after a deliberate change.

mod captured;
mod kept_screen;

use captured::{FIXTURES, read, text};
use kept_screen::assert_screen;
use std::path::Path;
use whyslow_model::diagnosis::Diagnosis;
use whyslow_show::text::{self as draw, TextStyle};

/// Lines of the first screen.
const LINES: usize = 10;

/// A first screen: short, and no wider than a terminal.
fn assert_first_screen(name: &str, command: &str, drawn: &str) {
    assert!(drawn.lines().count() <= LINES, "{name} takes more than {LINES} lines:\n{drawn}");
    // What is to be pasted stays in one piece.
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

#[test]
fn live() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../show/tests/fixtures");
    for name in ["saturated", "healthy", "undetermined"] {
        let json = std::fs::read_to_string(fixtures.join(format!("{name}.json"))).expect("a fixture");
        let diagnosis: Diagnosis = serde_json::from_str(&json).expect("a diagnosis document");
        let style = TextStyle { width: 80, colour: false, all: false, utc: true };
        assert_first_screen(&format!("live-{name}"), "whyslow", &draw::diagnosis(&diagnosis, &style));
        let all = draw::diagnosis(&diagnosis, &TextStyle { all: true, ..style });
        assert_screen(&format!("live-{name}-all"), "whyslow -v", &all);
    }
}

#[test]
fn results() {
    let style = TextStyle { width: 80, colour: false, all: false, utc: true };
    let fixture =
        |name: &str| std::fs::read_to_string(Path::new(FIXTURES).join("results").join(name)).expect("a fixture");
    let report = serde_json::from_str(&fixture("bench-memory.json.txt")).expect("a report");
    assert_screen("bench-memory", "whyslow bench memory", &draw::bench(&report, &style));
    let trial = serde_json::from_str(&fixture("try.json.txt")).expect("a trial");
    assert_screen(
        "try",
        "whyslow try disk.read_ahead_kb@loop0=0 -- dd if=/mnt/f of=/dev/null",
        &draw::tune::trial(&trial, &style),
    );
}
