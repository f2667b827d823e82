//! Checks that the kernel supports a value: by its own lists, and by the modules that it would load for it. A value that the
//! kernel would refuse is refused before anything is changed.

use crate::system_setting::SystemSetting;
use crate::target::filled;
use crate::values::Values;
use whyslow_model::cpu_list;
use whyslow_sense::Root;

/// The CPUs and NUMA nodes that are possible (Documentation/ABI/stable/sysfs-devices-system-cpu, sysfs-devices-node).
const CPUS: &str = "sys/devices/system/cpu/possible";
const NODES: &str = "sys/devices/system/node/possible";

impl SystemSetting {
    /// Returns a value under the name that the kernel shows.
    pub(crate) fn offered(&self, value: String) -> Result<String, String> {
        let value = self.spelled(&value)?;
        let tunable = &self.entry.tunable;
        self.check_cpus(&value)?;
        let listed = self.kernel_lists();
        if listed.contains(&value) {
            return Ok(value);
        }
        let alias = tunable.aliases.get(&value);
        if listed.is_empty() {
            return Ok(alias.cloned().unwrap_or(value));
        }
        if let Some(own) = alias.filter(|own| listed.contains(own) || self.is_loadable(own)) {
            return Ok(own.clone());
        }
        // If a sign precedes the value, the list is one of switches.
        if self.is_loadable(&value) || value.starts_with(['+', '-']) {
            return Ok(value);
        }
        Err(format!("this kernel has no {value}; it has {}", listed.join(", ")))
    }

    /// Returns the values that the kernel lists; empty if it lists none.
    pub(crate) fn kernel_lists(&self) -> Vec<String> {
        let listed_in = self.entry.tunable.listed_in.as_ref().and_then(|file| {
            let path = filled(file, self.target.instance.as_deref().unwrap_or_default());
            let words = self.root().maybe(&path)?;
            Some(words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        });
        match listed_in {
            Some(listed) => listed,
            None if matches!(self.entry.values, Values::Listed) => self.listed(),
            None => Vec::new(),
        }
    }

    /// Whether a module may provide a value.
    fn is_loadable(&self, value: &str) -> bool {
        let is_name = value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        let module = self.entry.tunable.module.as_ref().filter(|_| is_name);
        module.is_some_and(|module| may_be_loaded(self.root(), &module.replace("{}", value)))
    }

    /// Rejects CPUs or nodes that are not possible.
    fn check_cpus(&self, value: &str) -> Result<(), String> {
        let is_nodes = self.target.name.ends_with("cpuset.mems");
        let asked = match self.entry.values {
            Values::CpuList => cpu_list::parse(value),
            Values::CpuMask => Some(crate::values::mask_cpus(value)),
            _ => return Ok(()),
        };
        let (what, path) = if is_nodes { ("NUMA node", NODES) } else { ("CPU", CPUS) };
        let possible = self.root().word(path).and_then(|text| cpu_list::parse(&text));
        let (Some(asked), Some(possible)) = (asked, possible) else { return Ok(()) };
        match asked.iter().find(|number| !possible.contains(number)) {
            Some(missing) => Err(format!("there is no {what} {missing}; there are {}", cpu_list::format(&possible))),
            None => Ok(()),
        }
    }
}

/// Whether the kernel could load a module, by its name or an alias. Returns true if the list of modules is missing, as in a
/// container, because it is unknown then.
fn may_be_loaded(root: &Root, name: &str) -> bool {
    // This file is missing if the kernel does not support modules.
    if !root.at("proc/modules").exists() {
        return false;
    }
    let release = root.word("proc/sys/kernel/osrelease").unwrap_or_default();
    let list = |file: &str| root.maybe(&format!("lib/modules/{release}/{file}"));
    let Some(files) = list("modules.dep") else { return true };
    let spelled = |text: &str| text.replace('-', "_");
    let is_file = |line: &str| {
        let file = line.split(':').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        spelled(file.split(".ko").next().unwrap_or_default()) == spelled(name)
    };
    let is_alias = |line: &str| line.split(' ').nth(1).is_some_and(|alias| spelled(alias) == spelled(name));
    files.lines().any(is_file) || list("modules.alias").is_some_and(|aliases| aliases.lines().any(is_alias))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::{tree, write};

    #[test]
    fn a_module_is_found_by_name_and_alias_and_without_a_list_nobody_knows() {
        let (folder, machine) = tree(&[("proc/sys/kernel/osrelease", "6.1\n")]);
        let root = machine.root();
        assert!(!may_be_loaded(root, "tcp_bbr"), "a kernel without modules");
        write(&folder, "proc/modules", "");
        assert!(may_be_loaded(root, "tcp_bbr"));
        write(
            &folder,
            "lib/modules/6.1/modules.dep",
            "kernel/net/ipv4/tcp_bbr.ko.xz: kernel/x.ko\nkernel/block/bfq.ko:\n",
        );
        write(&folder, "lib/modules/6.1/modules.alias", "alias bfq-iosched bfq\n");
        assert!(may_be_loaded(root, "tcp_bbr") && may_be_loaded(root, "bfq-iosched"));
        assert!(!may_be_loaded(root, "tcp_vegas") && !may_be_loaded(root, "x"));
    }

    #[test]
    fn an_alias_is_resolved_and_what_the_kernel_lacks_is_refused() {
        let (_folder, machine) = tree(&[
            ("proc/sys/kernel/osrelease", "6.1\n"),
            ("sys/block/sda/queue/scheduler", "[none] mq-deadline\n"),
            ("sys/block/sda/device/x", ""),
            ("proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic\n"),
            ("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"),
            ("sys/devices/system/cpu/possible", "0-3\n"),
            ("proc/irq/default_smp_affinity", "f\n"),
        ]);
        let offered = |target: &str, value: &str| {
            SystemSetting::named(&machine, target).map_err(|why| why.to_string())?.offered(value.to_owned())
        };
        let scheduler = |value: &str| offered("disk.scheduler@sda", value);
        assert_eq!(scheduler("deadline").as_deref(), Ok("mq-deadline"));
        assert_eq!(scheduler("noop").as_deref(), Ok("none"));
        assert_eq!(scheduler("cfq").unwrap_err(), "this kernel has no cfq; it has none, mq-deadline");
        assert_eq!(offered("net.ipv4.tcp_congestion_control", "reno").as_deref(), Ok("reno"));
        let why = offered("net.ipv4.tcp_congestion_control", "vegas").unwrap_err();
        assert_eq!(why, "this kernel has no vegas; it has reno, cubic");
        assert_eq!(offered("irq.default_affinity", "f").as_deref(), Ok("f"));
        assert_eq!(offered("irq.default_affinity", "1f").unwrap_err(), "there is no CPU 4; there are 0-3");
    }
}
