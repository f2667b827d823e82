//! What the kernel's log says, live and in files alike: of parts that fail, arrays, kills for memory, and much else of
//! which each line tells enough by itself.

pub mod array;
#[cfg(test)]
mod fuzz;
pub mod notice;
pub mod oom;
pub mod part;
mod words;

use std::collections::BTreeMap;
use whyslow_model::catalogue::LogLine;
use whyslow_model::window::Window;

/// A line of the log.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// Its place in the log.
    pub sequence: u64,
    /// Its text, without time and host.
    pub text: &'a str,
    /// How many lines alike it stands for, itself included.
    pub times: f64,
}

/// The disk of a partition: `sda3` lies on `sda`, `nvme0n1p2` on the controller `nvme0`, `mmcblk0p1` on `mmcblk0`.
pub fn disk_of(device: &str) -> &str {
    if let Some(rest) = device.strip_prefix("nvme") {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        return if digits > 0 { &device[.."nvme".len() + digits] } else { device };
    }
    if device.starts_with("mmcblk") {
        return device.split('p').next().unwrap_or(device);
    }
    let disk = device.trim_end_matches(|c: char| c.is_ascii_digit());
    let lettered = |family: &&str| disk.strip_prefix(*family).is_some_and(|rest| !rest.is_empty());
    if ["sd", "hd", "vd", "xvd", "dasd"].iter().any(lettered) { disk } else { device }
}

/// The rows of the log in the window, by their place.
pub fn rows(window: &Window) -> BTreeMap<u64, &LogLine> {
    window.snapshots().iter().flat_map(|s| &s.kernel.log).map(|line| (line.sequence, line)).collect()
}

/// The lines logged in the window, in their order.
pub fn lines(window: &Window) -> Vec<Said<'_>> {
    rows(window)
        .into_iter()
        .filter_map(|(sequence, line)| {
            Some(Said { sequence, text: line.text.get()?, times: 1.0 + line.repeated.get().unwrap_or(0.0) })
        })
        .collect()
}

/// The time of a line as a person reads it: as it was printed, else since boot.
pub fn time(line: &LogLine) -> Option<String> {
    let since_boot = || line.time.get().map(|ns| format!("{:.3} s after boot", ns as f64 / 1e9));
    line.printed.get().map(str::to_owned).or_else(since_boot)
}

/// A log of these lines, for tests.
#[cfg(test)]
pub fn log<'a>(lines: &[&'a str]) -> impl Iterator<Item = Said<'a>> {
    let said = |(at, text): (usize, &&'a str)| Said { sequence: at as u64, text, times: 1.0 };
    lines.iter().enumerate().map(said).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_lie_on_disks() {
        for (device, disk) in [
            ("sda3", "sda"),
            ("nvme0n1p2", "nvme0"),
            ("nvme1c0n1", "nvme1"),
            ("mmcblk0p1", "mmcblk0"),
            ("dm-3", "dm-3"),
            ("md0", "md0"),
            ("sd", "sd"),
            ("nvme", "nvme"),
        ] {
            assert_eq!(disk_of(device), disk);
        }
    }
}
