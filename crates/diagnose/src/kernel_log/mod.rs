//! Parses the kernel log, live and from files: failing storage, arrays, OOM kills, and messages that are complete in one line.
//! The words of the messages are in [`whyslow_model::kernel_log`].

pub mod array;
#[cfg(test)]
mod fuzz;
pub mod notice;
pub mod oom;
pub mod oom_holders;
pub mod stack;
pub mod storage;
mod words;

use std::collections::BTreeMap;
use whyslow_model::catalogue::LogLine;
use whyslow_model::window::Window;

/// A message in the log.
#[derive(Clone, Copy, Debug)]
pub struct LogMessage<'a> {
    /// Position in the log.
    pub sequence: u64,
    /// Text without time and host.
    pub text: &'a str,
    /// Number of similar lines that it represents, including itself.
    pub times: f64,
}

/// Returns the disk of a partition: `sda` for `sda3`, the controller `nvme0` for `nvme0n1p2`, `mmcblk0` for `mmcblk0p1`.
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

/// Returns true if a disk is of a kind that answers SMART commands: ATA, SCSI and NVMe do, memory cards and virtual disks do
/// not.
pub fn has_smart(disk: &str) -> bool {
    ["sd", "hd", "nvme"].iter().any(|family| disk.starts_with(family))
}

/// Returns the rows of the log in the window, by their position.
pub fn rows(window: &Window) -> BTreeMap<u64, &LogLine> {
    window.snapshots().iter().flat_map(|s| &s.kernel.log).map(|line| (line.sequence, line)).collect()
}

/// Returns the messages logged in the window, in order.
pub fn lines(window: &Window) -> Vec<LogMessage<'_>> {
    rows(window)
        .into_iter()
        .filter_map(|(sequence, line)| {
            Some(LogMessage { sequence, text: line.text.get()?, times: 1.0 + line.repeated.get().unwrap_or(0.0) })
        })
        .collect()
}

/// Formats the time of a line for people: as printed, or since boot.
pub fn time(line: &LogLine) -> Option<String> {
    let since_boot = || line.time.get().map(|ns| format!("{:.3} s after boot", ns as f64 / 1e9));
    line.printed.get().map(str::to_owned).or_else(since_boot)
}

/// Returns true if the prefilter for long logs keeps a line.
fn passes_prefilter(text: &str) -> bool {
    whyslow_model::kernel_log::prefilter().any(|words| text.contains(words))
}

/// Builds a log of these lines, for tests.
#[cfg(test)]
pub fn log<'a>(lines: &[&'a str]) -> impl Iterator<Item = LogMessage<'a>> {
    let said = |(at, text): (usize, &&'a str)| LogMessage { sequence: at as u64, text, times: 1.0 };
    lines.iter().enumerate().map(said).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_belong_to_disks() {
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
