//! No line makes a parser panic.

use crate::{diskstats, interrupts, meminfo, mountstats, net_dev, per_cpu, snmp, softirqs, softnet};
use proptest::prelude::*;
use whyslow_model::catalogue::Meminfo;

proptest! {
    #[test]
    fn no_line_makes_a_parser_panic(line in "[0-9a-zA-Z:() -]{0,80}|([a-zA-Z:]{1,8}|[0-9]{1,25}| ){0,40}|.*", columns in "(CPU[0-9]{1,3} {0,3}){0,5}") {
        let _ = diskstats::row(&line);
        let _ = mountstats::mount(&line);
        let _ = mountstats::counts(&line).and_then(mountstats::operations);
        let _ = net_dev::row(&"".into(), &line);
        let _ = softnet::row(&line, 0);
        let _ = meminfo::take(&line, &mut Meminfo::default(), &mut String::new());
        let _ = snmp::CounterNames::default().metric("Tcp", &line);
        let _ = per_cpu::processors(&line);
        if let Some(cpus) = per_cpu::processors(&columns) {
            let mut counts = Vec::new();
            if let Some((name, rest)) = per_cpu::split(&line, &cpus, &mut counts) {
                interrupts::take(name, &counts, rest, &mut Vec::new());
                softirqs::take(name, &counts, &mut Vec::new());
            }
        }
    }
}
