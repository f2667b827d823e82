//! No text makes a parser of this wing panic.

use super::{interrupts, pressure, softirqs, softnet, stat};
use crate::testing::never_panics;
use whyslow_model::catalogue::{Pressure, System};
use whyslow_model::key::Machine;

#[test]
fn stat() {
    never_panics("cpu  3 0 4 9\ncpu0 1 0 2 5 1 0 0 0 0 0\nintr 15 0\nctxt 18446744073709551615\n", |text| {
        let _ = stat::parse_stat(text, 10_000_000, &mut Vec::new(), &mut System::new(Machine));
    });
}

#[test]
fn loadavg_and_uptime() {
    never_panics("0.07 0.07 0.03 1/91 6057\n", |text| {
        let _ = stat::parse_loadavg(text, &mut System::new(Machine));
        let _ = stat::parse_uptime(text, &mut System::new(Machine));
    });
}

#[test]
fn pressure() {
    never_panics("some avg10=0.40 avg60=0.71 avg300=0.34 total=6413953\n", |text| {
        let _ = pressure::parse(text, "proc/pressure/cpu", "cpu", &mut Pressure::new(Machine));
    });
}

#[test]
fn interrupts_and_softirqs() {
    never_panics("   CPU0   CPU1\n 24:   1   0  IO-APIC   5-edge   ACPI:Ged\nERR:   0\n", |text| {
        let _ = interrupts::parse(text, &mut Vec::new());
        let _ = softirqs::parse(text, &mut Vec::new());
    });
}

#[test]
fn softnet() {
    never_panics("0000000c 00000000 00000000 0 0 0 0 0 0 00000000 00000000 00000000 00000001\n", |text| {
        let _ = softnet::parse(text, &mut Vec::new());
    });
}
