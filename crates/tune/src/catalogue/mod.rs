//! The catalogue of tunables: data in `tunables/*.toml`, embedded in the program.

mod kept;
mod udev;

pub(crate) use kept::{SYSCTL, line_of, sysctl_of, value_of};

use crate::machine::{Machine, Release};
use crate::request::ChangeRequest;
use crate::target::{ChangeTarget, captured, file_of, filled, name_of, sysctl_path};
use crate::values::Values;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use toml::{Table, Value};
use whyslow_documents::tune::{Access, Effect, Persist, Risk, Stalls, Tunable, TunableScope};
use whyslow_model::suggest::did_you_mean;

const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/tunables.rs"));

/// Tunable whose instances are the lines that make settings survive a reboot: `persist@vm.swappiness`.
pub(crate) const PERSIST: &str = "persist";

/// An entry of the catalogue, with its fields parsed.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) tunable: Tunable,
    pub(crate) values: Values,
    pub(crate) since: Option<Release>,
    pub(crate) until: Option<Release>,
}

impl TryFrom<Tunable> for Entry {
    type Error = String;

    fn try_from(tunable: Tunable) -> Result<Self, String> {
        let release = |text: &Option<String>| text.as_deref().map(str::parse).transpose();
        Ok(Self {
            values: tunable.values.parse()?,
            since: release(&tunable.since)?,
            until: release(&tunable.until)?,
            tunable,
        })
    }
}

/// All known tunables.
#[derive(Debug)]
pub struct Catalogue {
    entries: Vec<Arc<Entry>>,
    by_name: HashMap<String, usize>,
}

impl Catalogue {
    /// Returns the catalogue embedded in the program.
    pub fn built_in() -> &'static Self {
        static BUILT_IN: OnceLock<Catalogue> = OnceLock::new();
        BUILT_IN.get_or_init(|| Self::read(FILES).expect("a test reads every file of the catalogue"))
    }

    fn read(files: &[(&str, &str)]) -> Result<Self, String> {
        let mut catalogue = Self { entries: Vec::new(), by_name: HashMap::new() };
        for (file, text) in files {
            catalogue.add(text).map_err(|why| format!("{file}: {why}"))?;
        }
        Ok(catalogue)
    }

    /// Adds a file: the table `defaults` applies to each tunable that does not override it.
    fn add(&mut self, text: &str) -> Result<(), String> {
        let mut file: Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
        let defaults = match file.remove("defaults") {
            Some(Value::Table(defaults)) => defaults,
            _ => Table::new(),
        };
        let Some(Value::Array(tunables)) = file.remove("tunable") else { return Err("no [[tunable]]".into()) };
        for tunable in tunables {
            let Value::Table(own) = tunable else { return Err("a tunable is not a table".into()) };
            let mut merged = defaults.clone();
            merged.extend(own);
            let name = merged.get("name").map(ToString::to_string).unwrap_or_default();
            let mut tunable: Tunable =
                merged.try_into().map_err(|e: toml::de::Error| format!("{name}: {}", e.message()))?;
            if !matches!(tunable.effect, Effect::WashOut | Effect::Reopen) {
                tunable.settle = None;
            }
            tunable.stalls.get_or_insert(stalls(&tunable));
            let entry = Entry::try_from(tunable).map_err(|why| format!("{name}: {why}"))?;
            if self.by_name.insert(entry.tunable.name.clone(), self.entries.len()).is_some() {
                return Err(format!("{name} is listed twice"));
            }
            self.entries.push(Arc::new(entry));
        }
        Ok(())
    }

    /// Lists the names of all tunables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.tunable.name.as_str())
    }

    /// Lists all tunables.
    pub fn tunables(&self) -> impl Iterator<Item = &Tunable> {
        self.entries.iter().map(|entry| &entry.tunable)
    }

    pub(crate) fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Entry>> {
        self.by_name.get(name).map(|&at| Arc::clone(&self.entries[at]))
    }

    /// Returns the risk of changing a tunable; `None` if the catalogue has none of this name.
    pub fn risk(&self, name: &str) -> Option<Risk> {
        self.find(name).map(|entry| entry.tunable.risk)
    }

    /// Whether the catalogue lacks this name: the user typed a sysctl or a path.
    pub(crate) fn is_unknown(&self, name: &str) -> bool {
        name != PERSIST && !self.by_name.contains_key(name)
    }

    /// Returns `; did you mean 'x'?`, from the names of the catalogue and of the files in the folder that the name would lead to.
    pub(crate) fn suggestion(&self, name: &str, machine: &Machine) -> String {
        let folder = file_of(name).ok().and_then(|path| Some(path.rsplit_once('/')?.0.to_owned()));
        let beside = folder.map_or_else(Vec::new, |folder| {
            machine.root().list(&folder).iter().map(|file| name_of(&format!("{folder}/{file}"))).collect()
        });
        did_you_mean(name, self.names().map(str::to_owned).chain(beside))
    }

    /// Checks that a request is for a tunable of the catalogue and a value that it accepts. Does not check that this machine has
    /// it.
    ///
    /// # Errors
    /// Returns the problem with the request.
    pub fn check(&self, request: &ChangeRequest) -> Result<(), String> {
        let name = &request.target.name;
        let entry = self.find(name).ok_or_else(|| format!("'{name}' is not in the catalogue"))?;
        if entry.tunable.scope.is_one() != request.target.instance.is_none() {
            return Err(format!("{name} needs a {}", entry.tunable.scope.word()));
        }
        match request.wanted.value() {
            Some(value) => entry.values.check(&value, &entry.tunable.unit).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Returns the entry that a target belongs to, and the target under its name in the catalogue: a path or a sysctl may lead to
    /// a tunable that is named here. A target without an entry is taken as it is if it is a sysctl or a file under /sys.
    pub(crate) fn resolve(
        &self,
        target: &ChangeTarget,
        machine: &Machine,
    ) -> Result<(Arc<Entry>, ChangeTarget), String> {
        if target.name == PERSIST {
            return self.line(target, machine);
        }
        if let Some(entry) = self.find(&target.name) {
            return Ok((entry, target.clone()));
        }
        let suggestion = || self.suggestion(&target.name, machine);
        let path = file_of(&target.name).map_err(|why| why + &suggestion())?;
        if target.instance.is_some() {
            let name = &target.name;
            return Err(format!("'{name}' is not in the catalogue; 'whyslow tune list' lists it{}", suggestion()));
        }
        if let Some(found) = self.by_path(&path) {
            return Ok(found);
        }
        let name = name_of(&path);
        Ok((Arc::new(uncatalogued(&name, &path)?), ChangeTarget::new(&name, None)))
    }

    /// Returns the tuned.conf option for a setting, and whether it is a sysctl; `None` if the setting is not a file.
    pub(crate) fn tuned_option(&self, target: &ChangeTarget) -> Option<(String, bool)> {
        let name = target.instance.as_deref().unwrap_or_default();
        match self.find(&target.name).as_ref().map(|entry| &entry.tunable.access) {
            Some(Access::Sysctl) => Some((target.name.clone(), true)),
            Some(Access::File(template)) => Some((format!("/{}", filled(template, name)), false)),
            Some(_) => None,
            None => Some((target.name.clone(), !target.name.starts_with('/'))),
        }
    }

    /// Returns the tunable that a file belongs to.
    fn by_path(&self, path: &str) -> Option<(Arc<Entry>, ChangeTarget)> {
        self.entries.iter().find_map(|entry| {
            let name = &entry.tunable.name;
            let instance = match &entry.tunable.access {
                Access::File(template) => captured(template, path)?,
                Access::Sysctl => (sysctl_path(name) == path).then_some(None)?,
                _ => return None,
            };
            Some((Arc::clone(entry), ChangeTarget { name: name.clone(), instance }))
        })
    }

    /// Returns the line that makes a target survive a reboot, as a tunable of its own.
    fn line(&self, target: &ChangeTarget, machine: &Machine) -> Result<(Arc<Entry>, ChangeTarget), String> {
        let kept: ChangeTarget = target.instance.as_deref().unwrap_or_default().parse()?;
        let (entry, kept) = self.resolve(&kept, machine)?;
        let access = line_of(&entry, &kept, machine)?;
        Ok((Arc::new(line_entry(&entry.tunable, access, &kept)?), ChangeTarget::new(PERSIST, Some(&kept.to_string()))))
    }

    /// Returns the line that a change wrote, according to the journal. Records of earlier versions lack it; udev rules matched by
    /// name then.
    pub(crate) fn line_of_change(
        &self,
        target: &ChangeTarget,
        identity: &str,
        machine: &Machine,
    ) -> Result<Arc<Entry>, String> {
        let kept: ChangeTarget = target.instance.as_deref().unwrap_or_default().parse()?;
        let (entry, kept) = self.resolve(&kept, machine)?;
        let access = match serde_json::from_str(identity) {
            Ok(Access::Line { file, .. }) if !file.starts_with("etc/") || file.split('/').any(|part| part == "..") => {
                return Err(format!("the journal names /{file}, which whyslow did not write"));
            }
            Ok(access @ Access::Line { .. }) => access,
            _ => kept::line_of_earlier(&entry, &kept, machine)?,
        };
        Ok(Arc::new(line_entry(&entry.tunable, access, &kept)?))
    }
}

/// Returns what a wrong value can stall, for entries that do not specify it. A risky entry must state explicitly that it stalls
/// nothing.
fn stalls(tunable: &Tunable) -> Stalls {
    match tunable.scope {
        _ if tunable.risk == Risk::Low => Stalls::Nothing,
        TunableScope::Cgroup | TunableScope::GroupDisk => Stalls::Session,
        TunableScope::Process => Stalls::Nothing,
        _ => Stalls::Machine,
    }
}

/// Builds the entry for a line of a file.
fn line_entry(tunable: &Tunable, access: Access, kept: &ChangeTarget) -> Result<Entry, String> {
    Entry::try_from(Tunable {
        name: PERSIST.to_owned(),
        means: format!("The line that sets {kept} at boot; empty where there is none."),
        values: "text".to_owned(),
        scope: TunableScope::Line,
        effect: Effect::Reboot,
        settle: None,
        access,
        network: false,
        stalls: Some(Stalls::Nothing),
        limit: false,
        aliases: BTreeMap::new(),
        listed_in: None,
        module: None,
        rounds: false,
        unset: None,
        disturbs: Vec::new(),
        after: Vec::new(),
        ..tunable.clone()
    })
}

/// Builds the entry for a sysctl or a file under /sys that the catalogue does not describe: its effect is unknown.
fn uncatalogued(name: &str, path: &str) -> Result<Entry, String> {
    let is_sysctl = path.starts_with("proc/sys/");
    Entry::try_from(Tunable {
        name: name.to_owned(),
        means: "Not in the catalogue: set as given, without checks.".to_owned(),
        used_for: String::new(),
        unit: String::new(),
        // If the file lists its choices with one in brackets, that one is compared.
        values: "listed".to_owned(),
        default: None,
        scope: if path.starts_with("proc/sys/net/") { TunableScope::Netns } else { TunableScope::Machine },
        access: Access::File(path.to_owned()),
        effect: Effect::WashOut,
        settle: None,
        risk: Risk::Medium,
        network: path.contains("/net/"),
        stalls: Some(Stalls::Machine),
        limit: false,
        unlimited: None,
        aliases: BTreeMap::new(),
        listed_in: None,
        module: None,
        rounds: false,
        unset: None,
        disturbs: Vec::new(),
        after: Vec::new(),
        persist: if is_sysctl { Persist::Sysctl } else { Persist::Tmpfiles },
        since: None,
        until: None,
        source: String::new(),
        elsewhere: BTreeMap::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn resolved(name: &str) -> Result<String, String> {
        let found = Catalogue::built_in().resolve(&name.parse().unwrap(), &Machine::live());
        found.map(|(_, target)| target.to_string())
    }

    #[test]
    fn the_catalogue_is_sound() {
        let catalogue = Catalogue::read(FILES).unwrap();
        let names: HashSet<&str> = catalogue.entries.iter().map(|e| e.tunable.name.as_str()).collect();
        for entry in &catalogue.entries {
            let t = &entry.tunable;
            assert!(t.means.ends_with('.'), "{}: a sentence", t.name);
            assert!(t.used_for.ends_with('.'), "{}: a sentence", t.name);
            let systems = ["AIX", "FreeBSD", "HP-UX", "Solaris"];
            assert!(t.elsewhere.keys().all(|system| systems.contains(&&**system)), "{}: {:?}", t.name, t.elsewhere);
            for other in t.disturbs.iter().chain(&t.after) {
                assert!(names.contains(other.as_str()), "{}: no tunable {other}", t.name);
            }
            let settles = matches!(t.effect, Effect::WashOut | Effect::Reopen);
            assert_eq!(t.settle.is_some(), settles, "{}: wash-out takes some time", t.name);
            if let Access::File(path) = &t.access {
                assert_eq!(path.contains('{'), !t.scope.is_one(), "{}: {path}", t.name);
            }
            assert!(!t.limit || !matches!(entry.values, Values::OneOf(_)), "{}: a limit is a number", t.name);
            for alias in t.aliases.values() {
                assert!(entry.values.check(alias, "").is_ok(), "{}: {alias}", t.name);
            }
            if let Some(default) = t.default.as_deref().filter(|d| d.parse::<i128>().is_ok()) {
                assert_eq!(entry.values.check(default, "").as_deref(), Ok(default), "{}", t.name);
            }
        }
    }

    #[test]
    fn what_can_stall_the_machine_says_so() {
        let stalls = |name: &str| Catalogue::built_in().find(name).unwrap().tunable.stalls;
        for name in ["vm.min_free_kbytes", "vm.overcommit_memory", "vm.nr_hugepages", "kernel.sched_rt_runtime_us"] {
            assert_eq!(stalls(name), Some(Stalls::Machine), "{name}");
        }
        for name in
            ["cgroup.memory.max", "cgroup.cpu.max", "cgroup.cpuset.cpus", "cgroup.pids.max", "cgroup.io.max.rbps"]
        {
            assert_eq!(stalls(name), Some(Stalls::Session), "{name}");
        }
        for name in ["vm.swappiness", "disk.scheduler", "disk.iostats", "cgroup.cpu.weight", "process.oom_score_adj"] {
            assert_eq!(stalls(name), Some(Stalls::Nothing), "{name}");
        }
        let machine = Machine::live();
        let (entry, _) =
            Catalogue::built_in().resolve(&"/sys/devices/system/cpu/cpu1/online".parse().unwrap(), &machine).unwrap();
        assert_eq!(entry.tunable.stalls, Some(Stalls::Machine), "nobody knows what it does");
    }

    /// Files that may be missing although their folder exists, and what they require.
    const OPTIONAL: [(&str, &str); 7] = [
        ("disk.queue_depth", "a SCSI disk"),
        ("disk.timeout", "a SCSI disk"),
        ("disk.iosched.slice_idle", "the scheduler bfq"),
        ("disk.iosched.low_latency", "the scheduler bfq"),
        ("cpu.energy_perf_bias", "an Intel CPU with EPB"),
        ("cpu.energy_performance_preference", "a driver such as intel_pstate"),
        ("cpu.boost", "a driver such as acpi_cpufreq"),
    ];

    /// Expands a path with placeholders to the existing folders and files.
    fn paths(machine: &Machine, path: &str) -> Vec<String> {
        let pattern = path.replace("{}", "*").replace("{0}", "*").replace("{1}", "*");
        crate::profile::paths(machine, &pattern)
    }

    /// A misspelled name would look like a setting that this kernel does not have.
    #[test]
    fn every_file_of_the_catalogue_is_known_to_a_kernel_that_should_have_it() {
        let machine = Machine::live();
        let release = machine.release().unwrap();
        let mut found = 0;
        for entry in Catalogue::built_in().entries() {
            let name = entry.tunable.name.as_str();
            let path = match &entry.tunable.access {
                Access::Sysctl => sysctl_path(name),
                Access::File(path) => path.clone(),
                _ => continue,
            };
            let is_of_release =
                entry.since.is_none_or(|since| since <= release) && entry.until.is_none_or(|until| release < until);
            let folder = path.rsplit_once('/').unwrap().0;
            // If the folder is missing, this machine lacks the subsystem, driver or device.
            if !is_of_release || paths(&machine, folder).is_empty() {
                continue;
            }
            let is_here = !paths(&machine, &path).is_empty();
            let is_optional = OPTIONAL.iter().any(|(optional, _)| *optional == name);
            assert!(
                is_here || is_optional,
                "{name}: no /{path}: misspelt, removed (until), newer (since) or optional?"
            );
            found += usize::from(is_here);
        }
        assert!(found > 100, "{found}");
    }

    #[test]
    fn a_path_or_a_sysctl_leads_to_the_tunable() {
        for (name, target) in [
            ("/proc/sys/vm/swappiness", "vm.swappiness"),
            ("vm/swappiness", "vm.swappiness"),
            ("/sys/block/vda/queue/read_ahead_kb", "disk.read_ahead_kb@vda"),
            ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "queue.rps_cpus@eth0/rx-0"),
            ("net.ipv4.conf.eth0/100.rp_filter", "net.ipv4.conf.rp_filter@eth0.100"),
            ("net.ipv4.conf.all.arp_filter", "net.ipv4.conf.all.arp_filter"),
            ("net.ipv4.conf.eth0.arp_filter", "net.ipv4.conf.arp_filter@eth0"),
            ("kernel.core_uses_pid", "kernel.core_uses_pid"),
            ("/sys/kernel/mm/lru_gen/min_ttl_ms", "/sys/kernel/mm/lru_gen/min_ttl_ms"),
            ("persist@/proc/sys/vm/swappiness", "persist@vm.swappiness"),
        ] {
            assert_eq!(resolved(name).as_deref(), Ok(target), "{name}");
        }
    }

    #[test]
    fn nothing_else_can_be_reached() {
        for name in
            ["/etc/passwd", "/sys/../etc/passwd", "/proc/sys/../../etc", "//sys/x", "swappiness", "a.b@c", "../../x.y"]
        {
            assert!(resolved(name).is_err(), "{name}");
        }
    }

    #[test]
    fn an_entry_that_makes_no_sense_is_named() {
        let error = Catalogue::read(&[("x.toml", "[[tunable]]\nname = \"a.b\"\nvalues = \"many\"\n")]).unwrap_err();
        assert!(error.starts_with("x.toml: \"a.b\": missing field"), "{error}");
    }
}
