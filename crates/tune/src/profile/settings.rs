//! Translates the options of tuned's plugins to requested settings, or to the reason why there are none.

use super::conf::ConfigOption;
use super::devices;
use super::words::{bias, bound, flag, instead, read_ahead, tunable_of};
use crate::machine::Machine;
use crate::request::{ChangeRequest, RequestedValue};
use crate::target::ChangeTarget;

/// An option of a unit with its value expanded, and the devices it applies to.
pub(super) struct ProfileOption<'a> {
    pub(super) machine: &'a Machine,
    pub(super) kind: &'a str,
    pub(super) devices: &'a [String],
    pub(super) option: &'a ConfigOption,
}

/// Options that configure tuned's daemon rather than the machine.
const DAEMON: [&str; 6] = ["dynamic", "load_threshold", "latency_low", "latency_high", "runtime", "perf_process_fork"];

impl ProfileOption<'_> {
    /// Returns the requested settings.
    pub(super) fn requests(&self) -> Result<Vec<ChangeRequest>, String> {
        let (name, value) = (self.option.name.as_str(), self.option.value.as_str());
        if DAEMON.contains(&name) {
            return Err("it configures tuned's daemon".into());
        }
        match (self.kind, name) {
            ("sysctl", name) => self.one(name, bound(value.trim_matches('"'))),
            ("sysfs", path) => self.files(path, bound(value)),
            ("vm", name) => self.vm(name, value),
            ("disk", name) => self.disk(name, value),
            ("cpu", name) => self.cpu(name, value),
            ("net", name) => self.net(name, value),
            ("scheduler", name) => self.scheduler(name, value),
            ("audio", "timeout") => self.files("/sys/module/snd_*/parameters/power_save", bound(value)),
            ("audio", "reset_controller") => {
                self.files("/sys/module/snd_*/parameters/power_save_controller", bound(value))
            }
            ("scsi_host", "alpm") => {
                self.files("/sys/class/scsi_host/host*/link_power_management_policy", bound(value))
            }
            ("usb", "autosuspend") => self.files("/sys/bus/usb/devices/*/power/autosuspend", bound(value)),
            ("selinux", "avc_cache_threshold") => self.files("/sys/fs/selinux/avc/cache_threshold", bound(value)),
            ("acpi", "platform_profile") => self.files(
                "/sys/firmware/acpi/platform_profile",
                self.listed("/sys/firmware/acpi/platform_profile_choices", value),
            ),
            (kind, _) => Err(instead(kind)),
        }
    }

    fn request(&self, target: ChangeTarget, wanted: RequestedValue) -> ChangeRequest {
        ChangeRequest { target, wanted, reason: self.option.comment.clone() }
    }

    fn one(&self, name: &str, wanted: RequestedValue) -> Result<Vec<ChangeRequest>, String> {
        Ok(vec![self.request(ChangeTarget::new(name, None), wanted)])
    }

    /// Requests the setting for each device of the unit.
    fn each(&self, name: &str, wanted: impl Fn(&str) -> RequestedValue) -> Result<Vec<ChangeRequest>, String> {
        if self.devices.is_empty() {
            return Err("there is no such device".into());
        }
        let request = |device: &String| self.request(ChangeTarget::new(name, Some(device)), wanted(device));
        Ok(self.devices.iter().map(request).collect())
    }

    /// Requests the value for every file that matches a pattern.
    fn files(&self, pattern: &str, wanted: RequestedValue) -> Result<Vec<ChangeRequest>, String> {
        let paths = devices::paths(self.machine, pattern);
        if paths.is_empty() {
            return Err(format!("there is no {pattern}"));
        }
        Ok(paths.iter().map(|path| self.request(ChangeTarget::new(path, None), wanted.clone())).collect())
    }

    /// Returns the first of `a|b|c` that a file of choices lists.
    fn listed(&self, file: &str, value: &str) -> RequestedValue {
        let choices = self.machine.root().maybe(file.trim_start_matches('/')).unwrap_or_default();
        let mut words = value.split('|').map(str::trim);
        let found = words.clone().find(|word| choices.split_whitespace().any(|choice| choice == *word));
        RequestedValue::Exactly(found.or(words.next()).unwrap_or_default().to_owned())
    }

    fn vm(&self, name: &str, value: &str) -> Result<Vec<ChangeRequest>, String> {
        let at_boot =
            || self.machine.root().maybe("proc/cmdline").is_some_and(|line| line.contains("transparent_hugepage="));
        let exactly = bound(value);
        match name {
            "transparent_hugepages" | "transparent_hugepage" | "transparent_hugepage.enabled" if at_boot() => {
                Err("the kernel's command line has decided on transparent huge pages".into())
            }
            "transparent_hugepages" | "transparent_hugepage" | "transparent_hugepage.enabled" => {
                self.one("thp.enabled", exactly)
            }
            "transparent_hugepage.defrag" => self.one("thp.defrag", exactly),
            "dirty_bytes" | "dirty_background_bytes" => match value.strip_suffix('%') {
                Some(share) => self.one(
                    &format!("vm.{}", name.replace("bytes", "ratio")),
                    RequestedValue::Exactly(share.trim().to_owned()),
                ),
                None => self.one(&format!("vm.{name}"), exactly),
            },
            "dirty_ratio" | "dirty_background_ratio" => self.one(&format!("vm.{name}"), exactly),
            _ => Err(instead("vm")),
        }
    }

    fn disk(&self, name: &str, value: &str) -> Result<Vec<ChangeRequest>, String> {
        match name {
            "elevator" => self.each("disk.scheduler", |_| {
                RequestedValue::FirstOf(value.split('|').map(|word| word.trim().to_owned()).collect())
            }),
            "readahead" => {
                let wanted = read_ahead(value).ok_or_else(|| format!("'{value}' is not a read-ahead size"))?;
                self.each("disk.read_ahead_kb", |_| wanted.clone())
            }
            "readahead_multiply" => {
                let factor: f64 = value.parse().map_err(|_| format!("'{value}' is not a number"))?;
                let now = |disk: &str| self.machine.root().number(&format!("sys/block/{disk}/queue/read_ahead_kb"));
                // The read-ahead of a disk that does not report it cannot be multiplied.
                let known = self.devices.iter().filter_map(|disk| Some((disk, now(disk)?)));
                let request = |(disk, now): (&String, u64)| {
                    let wanted = RequestedValue::Exactly(format!("{:.0}", now as f64 * factor));
                    self.request(ChangeTarget::new("disk.read_ahead_kb", Some(disk)), wanted)
                };
                let requests: Vec<ChangeRequest> = known.map(request).collect();
                if requests.is_empty() { Err("there is no such device".into()) } else { Ok(requests) }
            }
            "scheduler_quantum" => Err("only the scheduler cfq had it, which kernel 5.0 removed".into()),
            "apm" | "spindown" => {
                Err(format!("set it in the drive itself: hdparm -{} {value}", if name == "apm" { 'B' } else { 'S' }))
            }
            _ => Err(instead("disk")),
        }
    }

    fn cpu(&self, name: &str, value: &str) -> Result<Vec<ChangeRequest>, String> {
        let exactly = |_: &str| RequestedValue::Exactly(value.to_owned());
        match name {
            "governor" => self.each("cpu.governor", |cpu| {
                self.listed(&format!("/sys/devices/system/cpu/{cpu}/cpufreq/scaling_available_governors"), value)
            }),
            "energy_performance_preference" => self.each("cpu.energy_performance_preference", |cpu| {
                let file = "energy_performance_available_preferences";
                self.listed(&format!("/sys/devices/system/cpu/{cpu}/cpufreq/{file}"), value)
            }),
            "energy_perf_bias" => self.each("cpu.energy_perf_bias", |_| RequestedValue::Exactly(bias(value))),
            "min_perf_pct" | "max_perf_pct" | "no_turbo" => {
                self.one(&format!("cpu.intel_pstate.{name}"), RequestedValue::Exactly(flag(value).to_owned()))
            }
            "boost" => self.one("cpu.boost", RequestedValue::Exactly(flag(value).to_owned())),
            "pm_qos_resume_latency_us" => self.each("cpu.resume_latency_us", exactly),
            // tuned's daemon keeps /dev/cpu_dma_latency open; the limit of each CPU does the same without a process.
            "force_latency" => match self.latency(value) {
                Some(latency) => self.each("cpu.resume_latency_us", |_| RequestedValue::Exactly(latency.clone())),
                None => Err(format!("no idle state here answers to '{value}'")),
            },
            "sampling_down_factor" => {
                self.files("/sys/devices/system/cpu/cpufreq/ondemand/sampling_down_factor", bound(value))
            }
            _ => Err(instead("cpu")),
        }
    }

    /// Returns the first of several latencies that is available: a number, or the latency of an idle state given by number or
    /// name.
    fn latency(&self, value: &str) -> Option<String> {
        value.split('|').find_map(|word| {
            let word = word.trim();
            let (how, state) = word.split_once(':').unwrap_or(("", word));
            let latency = match how {
                "" => word.parse().ok(),
                "cstate.id" | "cstate.id_no_zero" => self.state_latency(&format!("state{state}")),
                "cstate.name" | "cstate.name_no_zero" => self.state_named(state),
                _ => None,
            };
            let latency = latency.filter(|latency: &u64| *latency > 0 || !how.ends_with("no_zero"))?;
            // In a CPU's limit, 0 means no limit, and n/a that no latency is tolerated.
            Some(if latency == 0 { "n/a".to_owned() } else { latency.to_string() })
        })
    }

    fn state_latency(&self, state: &str) -> Option<u64> {
        self.machine.root().number(&format!("sys/devices/system/cpu/cpu0/cpuidle/{state}/latency"))
    }

    fn state_named(&self, name: &str) -> Option<u64> {
        let root = self.machine.root();
        let folder = "sys/devices/system/cpu/cpu0/cpuidle";
        let state = root
            .list(folder)
            .into_iter()
            .find(|state| root.word(&format!("{folder}/{state}/name")).as_deref() == Some(name))?;
        self.state_latency(&state)
    }

    fn net(&self, name: &str, value: &str) -> Result<Vec<ChangeRequest>, String> {
        let exactly = |_: &str| RequestedValue::Exactly(value.to_owned());
        match name {
            "mtu" => self.each("interface.mtu", exactly),
            "txqueuelen" => self.each("interface.tx_queue_len", exactly),
            "nf_conntrack_hashsize" => {
                self.one("net.netfilter.nf_conntrack_buckets", RequestedValue::Exactly(value.to_owned()))
            }
            "features" | "coalesce" | "pause" | "ring" | "channels" => self.ethtool(name, value),
            _ => Err(instead("net")),
        }
    }

    /// Parses `NAME VALUE NAME VALUE …`, the arguments of ethtool.
    fn ethtool(&self, group: &str, value: &str) -> Result<Vec<ChangeRequest>, String> {
        let words: Vec<&str> = value.split([' ', ',', ':', '\n', '\t']).filter(|word| !word.is_empty()).collect();
        let mut requests = Vec::new();
        for pair in words.chunks(2) {
            let [parameter, value] = pair else { return Err(format!("'{value}': each name needs a value")) };
            let name = tunable_of(group, parameter).ok_or_else(|| format!("'{parameter}' is not in the catalogue"))?;
            requests.extend(self.each(&name, |_| RequestedValue::Exactly((*value).to_owned()))?);
        }
        Ok(requests)
    }

    /// Requests a scheduler setting: a sysctl, or a file in debugfs from kernel 5.13 on.
    fn scheduler(&self, name: &str, value: &str) -> Result<Vec<ChangeRequest>, String> {
        let debugfs = match (name.strip_prefix("sched_"), name.strip_prefix("numa_balancing_")) {
            (Some(short), _) => short.to_owned(),
            (_, Some(short)) => format!("numa_balancing/{short}"),
            _ => return Err(instead("scheduler")),
        };
        let path = format!("/sys/kernel/debug/sched/{debugfs}");
        if self.machine.root().at(path.trim_start_matches('/')).exists() {
            return self.one(&path, bound(value));
        }
        self.one(&format!("kernel.{name}"), bound(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(kind: &str, name: &str, value: &str) -> Result<Vec<(String, RequestedValue)>, String> {
        let machine = Machine::live();
        let devices = ["x0".to_owned()];
        let option = ConfigOption { name: name.into(), value: value.into(), comment: String::new() };
        let requests = ProfileOption { machine: &machine, kind, devices: &devices, option: &option }.requests()?;
        Ok(requests.into_iter().map(|request| (request.target.to_string(), request.wanted)).collect())
    }

    fn one(kind: &str, name: &str, value: &str) -> (String, RequestedValue) {
        requests(kind, name, value).unwrap().remove(0)
    }

    #[test]
    fn options_are_tunables() {
        let exactly = |text: &str| RequestedValue::Exactly(text.into());
        assert_eq!(
            one("sysctl", "net.ipv4.tcp_rmem", "\"4096 87380 16777216\""),
            ("net.ipv4.tcp_rmem".into(), exactly("4096 87380 16777216"))
        );
        assert_eq!(one("sysctl", "kernel.pid_max", ">4194304").1, RequestedValue::AtLeast("4194304".into()));
        assert_eq!(
            one("disk", "readahead", ">4096"),
            ("disk.read_ahead_kb@x0".into(), RequestedValue::AtLeast("4096".into()))
        );
        assert_eq!(one("disk", "readahead", "8192 s").1, exactly("4096"));
        assert_eq!(one("vm", "dirty_bytes", "40%"), ("vm.dirty_ratio".into(), exactly("40")));
        assert_eq!(
            one("cpu", "energy_perf_bias", "powersave|power"),
            ("cpu.energy_perf_bias@x0".into(), exactly("15"))
        );
        assert_eq!(
            one("cpu", "force_latency", "cstate.id_no_zero:77|3"),
            ("cpu.resume_latency_us@x0".into(), exactly("3"))
        );
        assert_eq!(requests("net", "features", "tso off gro on lro off").unwrap().len(), 3);
        assert_eq!(one("net", "pause", "autoneg off rx on"), ("nic.pause.autoneg@x0".into(), exactly("off")));
        assert_eq!(one("net", "channels", "combined 4"), ("nic.channels.combined@x0".into(), exactly("4")));
    }

    #[test]
    fn what_cannot_be_says_what_to_do() {
        assert!(requests("bootloader", "cmdline", "+x").unwrap_err().contains("boot loader"));
        assert!(requests("script", "script", "x.sh").unwrap_err().contains("run it yourself"));
        assert!(requests("net", "features", "tso").is_err());
        assert!(requests("sysfs", "/sys/nosuch/*", "1").is_err());
    }
}
