//! Identity of the machine (Documentation/admin-guide/sysctl/kernel.rst, Documentation/ABI/testing/sysfs-devices-system-cpu).

use super::hypervisor;
use crate::os::page_size;
use crate::root::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use std::env::consts::ARCH;
use whyslow_model::catalogue::MachineInfo;
use whyslow_model::key;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::cpuinfo;

const CLOCK_SOURCE: &str = "sys/devices/system/clocksource/clocksource0";

pub(super) const INFO: SourceInfo = SourceInfo::new("machine", "what machine this is").slow();

pub(crate) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let online = root.word("sys/devices/system/cpu/online");
    out.kernel.machine.push(MachineInfo {
        host: key::MachineKey,
        name: root.word("proc/sys/kernel/hostname").into(),
        release: root.word("proc/sys/kernel/osrelease").into(),
        boot: root.word("proc/sys/kernel/random/boot_id").into(),
        page_size: root.is_live().then(page_size).into(),
        processors: online.as_deref().and_then(count).or_else(|| listed(root)).into(),
        virtualization: hypervisor::find(root).into(),
        product: dmi(root, ["sys_vendor", "product_name"]).into(),
        firmware: dmi(root, ["bios_vendor", "bios_version", "bios_date"]).into(),
        processor: cpu_field(root, "model name").into(),
        microcode: cpu_field(root, "microcode").into(),
        architecture: root.is_live().then_some(ARCH).into(),
        kvm: u64::from(root.at("sys/class/misc/kvm").exists()).into(),
        clock_source: root.word(&format!("{CLOCK_SOURCE}/current_clocksource")).into(),
        clock_sources: root.word(&format!("{CLOCK_SOURCE}/available_clocksource")).into(),
    });
    Ok(())
}

/// Joins these DMI strings in one line.
fn dmi<const N: usize>(root: &Root, files: [&str; N]) -> Option<String> {
    let words = files.into_iter().filter_map(|file| root.word(&format!("sys/class/dmi/id/{file}")));
    Some(words.collect::<Vec<_>>().join(" ")).filter(|words| !words.is_empty())
}

/// Returns a field of the first CPU. Architectures other than x86 have other fields.
fn cpu_field(root: &Root, field: &str) -> Option<String> {
    let text = root.text("proc/cpuinfo").ok()?;
    let mut fields = text.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    fields.find(|(name, _)| name.trim_end() == field).map(|(_, value)| value.trim().to_owned())
}

/// Counts the CPUs in a captured /proc/cpuinfo, for trees that contain no other count.
fn listed(root: &Root) -> Option<u64> {
    let text = root.maybe("proc/cpuinfo").filter(|_| !root.is_live())?;
    cpuinfo::count(text.lines(), false).map(u64::from)
}

/// Counts the numbers in a list such as `0-3,8,10-11`.
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
    use crate::testing::CapturedTree;

    #[test]
    fn cpus_are_counted_in_ranges() {
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("0-255"), Some(256));
        assert_eq!(count("0-3,8,10-11"), Some(7));
        assert_eq!(count("3-0"), None);
        assert_eq!(count(""), None);
    }

    #[test]
    fn the_live_machine_has_a_name_and_cpus() {
        let mut out = Snapshot::default();
        assert_eq!(read(&Root::live(), &mut out), Ok(()));
        let machine = &out.kernel.machine[0];
        let online = std::thread::available_parallelism().unwrap().get() as f64;
        assert!(machine.processors.get().unwrap() >= online);
        assert!(machine.release.get().unwrap().contains('.'));
        assert_eq!(machine.boot.get().unwrap().len(), 36);
    }

    #[test]
    fn a_copy_without_sys_has_the_cpus_of_cpuinfo() {
        let block = |cpu: u32| format!("processor\t: {cpu}\nmodel name\t: A\nsiblings\t: 2\n\n");
        let text = block(0) + &block(1);
        let mut out = Snapshot::default();
        assert_eq!(read(&CapturedTree::with_files(&[("proc/cpuinfo", &text)]).root(), &mut out), Ok(()));
        assert_eq!(
            (out.kernel.machine[0].processors.get(), out.kernel.machine[0].processor.get()),
            (Some(2.0), Some("A"))
        );
    }

    #[test]
    fn an_empty_tree_leaves_everything_absent() {
        let mut out = Snapshot::default();
        assert_eq!(read(&CapturedTree::with_files(&[]).root(), &mut out), Ok(()));
        let machine = &out.kernel.machine[0];
        assert_eq!((machine.name.get(), machine.processors.get(), machine.virtualization.get()), (None, None, None));
    }
}
