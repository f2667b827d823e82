//! The kernel: its release, its command line parameters, and settings outside of sysctl.

use super::{Section, Things};
use crate::root::Root;
use crate::source_error::SourceError;
use whyslow_model::mask;
use whyslow_model::value::Name;

/// Prefixes of parameters that name this machine or its disks, or contain secrets
/// (Documentation/admin-guide/kernel-parameters.txt, bootparam(7), systemd(1), dracut.cmdline(7)).
const OF_ONE_MACHINE: [&str; 22] = [
    "BOOT_IMAGE",
    "BOOTIF",
    "cryptdevice",
    "cryptopts",
    "ds",
    "hostname",
    "ifname",
    "initrd",
    "ip",
    "luks.",
    "netroot",
    "nfsaddrs",
    "nfsroot",
    "ostree",
    "rd.luks",
    "rd.lvm",
    "rd.md",
    "resume",
    "root",
    "systemd.hostname",
    "systemd.machine_id",
    "systemd.set_credential",
];
/// Prefixes of values that identify a machine.
const IDENTITIES: [&str; 5] = ["UUID=", "PARTUUID=", "LABEL=", "PARTLABEL=", "/dev/"];

/// Settings by name, with their files.
const FILES: [(&str, &str); 15] = [
    ("clock_source", "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("cpu.boost", "sys/devices/system/cpu/cpufreq/boost"),
    ("cpu.idle_driver", "sys/devices/system/cpu/cpuidle/current_driver"),
    ("cpu.idle_governor", "sys/devices/system/cpu/cpuidle/current_governor"),
    ("cpu.no_turbo", "sys/devices/system/cpu/intel_pstate/no_turbo"),
    ("cpu.pstate", "sys/devices/system/cpu/intel_pstate/status"),
    ("cpu.smt", "sys/devices/system/cpu/smt/control"),
    ("ksm", "sys/kernel/mm/ksm/run"),
    ("lru_gen", "sys/kernel/mm/lru_gen/enabled"),
    ("pcie_aspm", "sys/module/pcie_aspm/parameters/policy"),
    ("release", "proc/sys/kernel/osrelease"),
    ("transparent_hugepage", "sys/kernel/mm/transparent_hugepage/enabled"),
    ("transparent_hugepage.defrag", "sys/kernel/mm/transparent_hugepage/defrag"),
    ("version", "proc/sys/kernel/version"),
    ("zswap", "sys/module/zswap/parameters/enabled"),
];
const POLICIES: &str = "sys/devices/system/cpu/cpufreq";
const OF_A_POLICY: [(&str, &str); 3] = [
    ("cpu.driver", "scaling_driver"),
    ("cpu.energy_preference", "energy_performance_preference"),
    ("cpu.governor", "scaling_governor"),
];
const VULNERABILITIES: &str = "sys/devices/system/cpu/vulnerabilities";

pub(super) struct Kernel;

impl Section for Kernel {
    fn pause(&self) -> u32 {
        5
    }

    fn read(&mut self, root: &Root) -> Result<Option<(Things, Option<i64>)>, SourceError> {
        let kind = Name::from("kernel");
        let mut things = Things::default();
        for (name, file) in FILES {
            if let Some(text) = root.word(file).filter(|text| !text.is_empty()) {
                things.add(&kind, name, selected(&text));
            }
        }
        for policy in root.list(POLICIES) {
            for (name, file) in OF_A_POLICY {
                things.add_word(&kind, name, root, &format!("{POLICIES}/{policy}/{file}"));
            }
        }
        for vulnerability in root.list(VULNERABILITIES) {
            let file = format!("{VULNERABILITIES}/{vulnerability}");
            things.add_word(&kind, &format!("mitigation.{vulnerability}"), root, &file);
        }
        // All users may read it, but not all may read a recording.
        let line = mask::line(&root.maybe("proc/cmdline").unwrap_or_default());
        for (name, value) in parameters(&line) {
            things.add(&kind, &format!("cmdline.{name}"), value);
        }
        Ok(Some((things, None)))
    }
}

/// Returns the selected one of several words, `always [madvise] never`, or else the whole text.
pub(super) fn selected(text: &str) -> &str {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(text, |(chosen, _)| chosen)
}

/// Returns the parameters of a command line that are not specific to one machine. A parameter without a value is `set`.
fn parameters(line: &str) -> Vec<(&str, &str)> {
    // The words after `--` are arguments of init.
    let words = words(line).into_iter().take_while(|word| *word != "--");
    let split = words.map(|word| word.split_once('=').unwrap_or((word, "set")));
    split
        .map(|(name, value)| (name.trim_matches('"'), value.trim_matches('"')))
        .filter(|(name, value)| {
            let is_of_one_machine = OF_ONE_MACHINE.iter().any(|start| match name.strip_prefix(start) {
                Some(rest) => rest.is_empty() || start.ends_with('.') || rest.starts_with(['.', '_']),
                None => false,
            });
            !name.is_empty() && !is_of_one_machine && !IDENTITIES.iter().any(|identity| value.contains(identity))
        })
        .collect()
}

/// Splits at spaces outside of quotes.
fn words(line: &str) -> Vec<&str> {
    let mut quoted = false;
    let words = line.trim().split(|c: char| {
        quoted ^= c == '"';
        !quoted && c.is_ascii_whitespace()
    });
    words.filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CapturedTree, never_panics};

    #[test]
    fn parameters_that_name_one_machine_are_left_out() {
        let line = "BOOT_IMAGE=/vmlinuz root=UUID=1-2 ro quiet mitigations=off console=tty0 console=ttyS0,115200n8 \
                    rd.luks.uuid=luks-1 resume_offset=7 dyndbg=\"file a.c +p\" swap=/dev/sda2 rootwait isolcpus=2-3 -- debug";
        assert_eq!(
            parameters(line),
            [
                ("ro", "set"),
                ("quiet", "set"),
                ("mitigations", "off"),
                ("console", "tty0"),
                ("console", "ttyS0,115200n8"),
                ("dyndbg", "file a.c +p"),
                ("rootwait", "set"),
                ("isolcpus", "2-3"),
            ]
        );
        never_panics(line, |text| drop(parameters(text)));
    }

    #[test]
    fn secrets_on_the_command_line_are_masked() {
        let tree = CapturedTree::with_files(&[("proc/cmdline", "quiet agent.token=hunter2 panic=1\n")]);
        let (things, _) = Kernel.read(&tree.root()).unwrap().unwrap();
        let found: Vec<String> =
            things.joined().into_iter().map(|(thing, value)| format!("{} = {value}", thing.name)).collect();
        assert_eq!(found, ["cmdline.agent.token = ***", "cmdline.panic = 1", "cmdline.quiet = set"]);
    }

    #[test]
    fn the_selected_word_is_the_value() {
        assert_eq!(selected("always [madvise] never"), "madvise");
        assert_eq!(selected("performance"), "performance");
        assert_eq!(selected("a ["), "a [");
    }
}
