//! Parses the kernel's text files under /proc line by line into rows of the catalogue: live ones for `sense`, copies for
//! `import`. No I/O.
//!
//! A line that does not match the kernel's documentation yields `None`; the caller reports file and line.

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
