//! No text makes a parser of this wing panic.

use super::{meminfo, numa, slabinfo, swaps, vmstat};
use crate::testing::never_panics;
use whyslow_model::catalogue::{Meminfo, Node, Vmstat};
use whyslow_model::key::Machine;

#[test]
fn meminfo() {
    never_panics("MemTotal:  24684096 kB\nActive(anon):  18446744073709551615 kB\nHugePages_Total:  0\n", |text| {
        let _ = meminfo::parse(text, &mut Meminfo::new(Machine));
        let _ = numa::parse_meminfo(text, &mut Node::new(0));
    });
}

#[test]
fn vmstat() {
    never_panics("pgpgin 18446744073709551615\nallocstall_dma 18446744073709551614\nallocstall_normal 9\n", |text| {
        let _ = vmstat::parse(text, &mut Vmstat::new(Machine));
        let _ = numa::parse_numastat(text, &mut Node::new(0));
    });
}

#[test]
fn slabinfo() {
    never_panics("dentry 1 2 192 21 2 : tunables 0 0 0 : slabdata 826 18446744073709551615 0\n", |text| {
        let _ = slabinfo::parse(text, 4096, &mut Vec::new());
    });
}

#[test]
fn swaps() {
    never_panics("Filename Type Size Used Priority\n/a\\040b\\x partition 1048572 4 -2\n", |text| {
        let _ = swaps::parse(text, &mut Vec::new());
    });
}
