//! The kernel's text files under /proc, line by line, into rows of the catalogue: `sense` reads them where they are,
//! `import` where somebody copied them. No I/O.
//!
//! A line that is not what the kernel document says gives `None`; whoever reads says which file and line that was.

pub mod diskstats;
pub mod interrupts;
pub mod meminfo;
pub mod mountstats;
pub mod net_dev;
pub mod per_cpu;
pub mod snmp;
pub mod softirqs;
pub mod softnet;
pub mod text;

#[cfg(test)]
mod hostile;
