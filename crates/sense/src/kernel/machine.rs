//! What machine this is (Documentation/admin-guide/sysctl/kernel.rst, Documentation/ABI/testing/sysfs-devices-system-cpu).

use super::{gauge, hypervisor, state};
use crate::os::page_size;
use crate::root::Root;
use crate::source::{Miss, Source, Tempo};
use whyslow_model::catalogue::MachineInfo;
use whyslow_model::key;
use whyslow_model::snapshot::Snapshot;

const CLOCK_SOURCE: &str = "sys/devices/system/clocksource/clocksource0";

/// Reads names, processors online, hypervisor and clock source.
pub(super) struct Machine;

impl Source for Machine {
    fn name(&self) -> &'static str {
        "machine"
    }

    fn tells(&self) -> &'static str {
        "the machine's identity"
    }

    fn tempo(&self) -> Tempo {
        Tempo::Slow
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let online = root.word("sys/devices/system/cpu/online");
        out.kernel.machine.push(MachineInfo {
            host: key::Machine,
            name: state(root.word("proc/sys/kernel/hostname")),
            release: state(root.word("proc/sys/kernel/osrelease")),
            boot: state(root.word("proc/sys/kernel/random/boot_id")),
            page_size: if root.is_live() { page_size().into() } else { whyslow_model::value::Gauge::ABSENT },
            processors: gauge(online.as_deref().and_then(count)),
            virtualization: state(hypervisor::find(root).map(str::to_owned)),
            product: state(of_firmware(root, ["sys_vendor", "product_name"])),
            firmware: state(of_firmware(root, ["bios_vendor", "bios_version", "bios_date"])),
            processor: state(of_processor(root, "model name")),
            microcode: state(of_processor(root, "microcode")),
            clock_source: state(root.word(&format!("{CLOCK_SOURCE}/current_clocksource"))),
            clock_sources: state(root.word(&format!("{CLOCK_SOURCE}/available_clocksource"))),
        });
        Ok(())
    }
}

/// What the firmware tells of the machine in these files, in one line; `None` where it tells nothing.
fn of_firmware<const N: usize>(root: &Root, files: [&str; N]) -> Option<String> {
    let words = files.into_iter().filter_map(|file| root.word(&format!("sys/class/dmi/id/{file}")));
    Some(words.collect::<Vec<_>>().join(" ")).filter(|words| !words.is_empty())
}

/// What /proc/cpuinfo tells of the first processor. Other architectures than x86 have other fields.
fn of_processor(root: &Root, field: &str) -> Option<String> {
    let text = root.text("proc/cpuinfo").ok()?;
    let mut fields = text.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    fields.find(|(name, _)| name.trim_end() == field).map(|(_, value)| value.trim().to_owned())
}

/// How many numbers a list such as `0-3,8,10-11` holds.
fn count(list: &str) -> Option<u64> {
    list.split(',').map(range_length).sum()
}

fn range_length(range: &str) -> Option<u64> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    last.checked_sub(first).map(|n| u64::from(n) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn processors_are_counted_in_ranges() {
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("0-255"), Some(256));
        assert_eq!(count("0-3,8,10-11"), Some(7));
        assert_eq!(count("3-0"), None);
        assert_eq!(count(""), None);
    }

    #[test]
    fn the_live_machine_has_a_name_and_processors() {
        let mut out = Snapshot::default();
        Machine.read(&Root::live(), &mut out).unwrap();
        let machine = &out.kernel.machine[0];
        let online = std::thread::available_parallelism().unwrap().get() as f64;
        assert!(machine.processors.get().unwrap() >= online);
        assert!(machine.release.get().unwrap().contains('.'));
        assert_eq!(machine.boot.get().unwrap().len(), 36);
    }

    #[test]
    fn an_empty_tree_leaves_all_absent() {
        let folder = tempfile::tempdir().unwrap();
        let mut out = Snapshot::default();
        Machine.read(&Root::captured(folder.path()), &mut out).unwrap();
        let machine = &out.kernel.machine[0];
        assert_eq!((machine.name.get(), machine.processors.get(), machine.virtualization.get()), (None, None, None));
    }

    proptest! {
        #[test]
        fn no_list_makes_it_panic(list in "[0-9,-]{0,40}") {
            let _ = count(&list);
        }
    }
}
