//! Parses the kernel's text, mostly files under /proc, line by line into rows of the catalogue: live files for `sense`,
//! copies for `import`. No I/O.
//!
//! A line that does not match the kernel's documentation yields `None`; the caller reports file and line.

pub mod bonding;
pub mod cpuinfo;
pub mod device_mapper;
pub mod diskstats;
pub mod interrupts;
pub mod meminfo;
pub mod mountstats;
pub mod net;
pub mod qemu;
pub mod stat;
pub mod text;
pub mod vmstat;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whyslow_model::catalogue::{Meminfo, System, Vmstat};

    proptest! {
        #[test]
        fn no_line_makes_a_parser_panic(line in "[0-9a-zA-Z:() -]{0,80}|([a-zA-Z:]{1,8}|[0-9]{1,25}| ){0,40}|.*", columns in "(CPU[0-9]{1,3} {0,3}){0,5}") {
            let words: Vec<&str> = line.split_whitespace().collect();
            for target in ["thin-pool", "thin", "snapshot", "cache", "writecache", "raid", "multipath", "vdo"] {
                let _ = device_mapper::status(target, &words);
            }
            let _ = bonding::ports("bond0", &format!("Slave Interface: {line}\n{line}"));
            let _ = diskstats::row(&line);
            let _ = mountstats::mount(&line);
            let _ = mountstats::counts(&line).and_then(mountstats::operations);
            let _ = net::interface(&"".into(), &line);
            let _ = net::softnet(&line, 0);
            let _ = meminfo::take(&line, &mut Meminfo::default(), &mut String::new());
            let _ = vmstat::take(&line, &mut Vmstat::default());
            let _ = stat::take(&line, 10_000_000, &mut Vec::new(), &mut System::default());
            let _ = net::CounterNames::default().metric("Tcp", &line);
            let _ = interrupts::processors(&line);
            if let Some(cpus) = interrupts::processors(&columns) {
                let mut counts = Vec::new();
                if let Some((name, rest)) = interrupts::split(&line, &cpus, &mut counts) {
                    interrupts::take(name, &counts, rest, &mut Vec::new());
                    interrupts::take_softirqs(name, &counts, &mut Vec::new());
                }
            }
        }
    }
}
