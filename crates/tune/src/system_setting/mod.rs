//! Reads and writes a tunable of one instance (disk, interface, process …) on this machine. There is one file for each access
//! method.

mod disk_limit;
mod ethtool;
mod file;
mod line;
mod mount;
mod process;
mod qdisc;

use crate::catalogue::{Catalogue, Entry, PERSIST};
use crate::instances;
use crate::machine::{Machine, meminfo};
use crate::mounts;
use crate::target::{ChangeTarget, filled, sysctl_path};
use std::io;
use std::sync::Arc;
use whyslow_documents::tune::{Access, Here, SettingChange, TunableScope, Unavailable};
use whyslow_model::human;
use whyslow_sense::Root;

/// An access method for a setting.
trait Handle {
    /// Reads the value as the kernel shows it.
    fn read(&self) -> Result<String, Unavailable>;

    /// Writes a value in the form that [`Values::check`](crate::values::Values::check) returned.
    fn write(&self, value: &str) -> Result<(), Unavailable>;

    /// Returns the kernel's spelling of a value, if several are accepted.
    fn spelled(&self, value: &str) -> Result<String, String> {
        Ok(value.to_owned())
    }

    /// Returns the largest number that the instance accepts, if it reports one.
    fn most(&self) -> Option<i128> {
        None
    }

    /// Checks that the setting may be written, as far as that can be known without writing.
    fn may_write(&self) -> Result<(), Unavailable> {
        Ok(())
    }
}

/// A tunable of one instance on this machine.
pub(crate) struct SystemSetting {
    pub(crate) entry: Arc<Entry>,
    pub(crate) target: ChangeTarget,
    handle: Box<dyn Handle>,
    machine: Machine,
}

impl SystemSetting {
    /// Returns the setting that a target names.
    ///
    /// # Errors
    /// Fails if it is unsupported or the instance does not exist; `Failed` if it is not a tunable.
    pub(crate) fn for_target(machine: &Machine, target: &ChangeTarget) -> Result<Self, Unavailable> {
        let (entry, target) = Catalogue::built_in().resolve(target, machine).map_err(Unavailable::Failed)?;
        let handle = handle(machine, &entry, &target)?;
        Ok(Self { entry, target, handle, machine: machine.clone() })
    }

    /// Returns the setting that a change of the journal was made to. For a line of a file it is the line that was written then:
    /// the line for the same name today depends on which device has the name now.
    pub(crate) fn of_change(machine: &Machine, change: &SettingChange) -> Result<Self, Unavailable> {
        let target: ChangeTarget = change.target.parse().map_err(Unavailable::Failed)?;
        if target.name != PERSIST {
            return Self::for_target(machine, &target);
        }
        let line = Catalogue::built_in().line_of_change(&target, &change.identity, machine);
        let entry = line.map_err(Unavailable::Failed)?;
        let handle = handle(machine, &entry, &target)?;
        Ok(Self { entry, target, handle, machine: machine.clone() })
    }

    /// Returns the file that makes the setting survive a reboot, if the setting is a line of one.
    pub(crate) fn written_file(&self) -> Option<String> {
        match &self.entry.tunable.access {
            Access::Line { file, .. } => Some(format!("/{file}")),
            _ => None,
        }
    }

    /// Returns the setting from the target's name in the journal.
    pub(crate) fn named(machine: &Machine, target: &str) -> Result<Self, Unavailable> {
        Self::for_target(machine, &target.parse().map_err(Unavailable::Failed)?)
    }

    /// Reads the value, in the spelling that values are compared in.
    pub(crate) fn read(&self) -> Result<String, Unavailable> {
        Ok(self.entry.values.canonical(&self.handle.read().map_err(|why| self.explained(why))?))
    }

    /// Checks that the setting may be written, as far as that can be known without writing.
    pub(crate) fn may_write(&self) -> Result<(), Unavailable> {
        self.handle.may_write()
    }

    /// Returns the largest number that its instance accepts, if it reports one.
    pub(crate) fn most(&self) -> Option<i128> {
        self.handle.most()
    }

    /// Returns the kernel's spelling of a value.
    pub(crate) fn spelled(&self, value: &str) -> Result<String, String> {
        self.handle.spelled(value)
    }

    pub(crate) fn root(&self) -> &Root {
        self.machine.root()
    }

    /// Returns the values that the setting's own file lists.
    pub(crate) fn listed(&self) -> Vec<String> {
        self.read_here().map(|(_, choices)| choices).unwrap_or_default()
    }

    /// Reads the value and the other possible values, if the kernel lists them.
    fn read_here(&self) -> Result<(String, Vec<String>), Unavailable> {
        let shown = self.handle.read().map_err(|why| self.explained(why))?;
        Ok((self.entry.values.canonical(&shown), self.entry.values.choices(&shown)))
    }

    /// Writes a checked value, and returns the value that the kernel then shows. A kernel that rounds may show another number; if
    /// the value is unchanged, the kernel did not accept it.
    pub(crate) fn write(&self, value: &str) -> Result<String, Unavailable> {
        let (held, written) = self.attempt(value);
        written?;
        held.ok_or_else(|| Unavailable::Failed(format!("{} cannot be read back", self.target)))
    }

    /// Writes a checked value, and returns the value read back even if the write failed: a kernel may set another value than the
    /// one written, and a rollback has to know which one to expect.
    pub(crate) fn attempt(&self, value: &str) -> (Option<String>, Result<(), Unavailable>) {
        let before = match self.read() {
            Ok(before) => before,
            Err(why) => return (None, Err(why)),
        };
        let written = self.handle.write(value);
        let held = match (self.read(), written) {
            (Ok(held), Ok(())) => held,
            (held, Err(why)) => return (held.ok(), Err(why)),
            (Err(why), Ok(())) => return (None, Err(why)),
        };
        let is_taken =
            self.means(value, &held) || (self.entry.tunable.rounds && held != before) || self.is_alias(value, &held);
        let written = if is_taken {
            Ok(())
        } else if held == before {
            Err(Unavailable::Failed(format!("the kernel accepted {value} but the value stayed {held}")))
        } else {
            Err(Unavailable::Failed(format!("the kernel set {held} instead of {value}")))
        };
        (Some(held), written)
    }

    /// Whether the kernel accepted a name that it does not list and shows the value by a listed name. The first is then an alias,
    /// because a kernel that lists its values returns an error for any other name.
    fn is_alias(&self, asked: &str, held: &str) -> bool {
        let listed = self.kernel_lists();
        listed.iter().any(|word| word == held) && !listed.iter().any(|word| word == asked)
    }

    /// Whether a requested value equals the one that the kernel shows in its own spelling: `1` and `Y` of a module's parameter
    /// are the same.
    pub(crate) fn means(&self, asked: &str, shown: &str) -> bool {
        self.entry.values.same(asked, shown)
    }

    /// Writes a value and reads back the result, whatever it is.
    pub(crate) fn try_write(&self, value: &str) -> Result<String, Unavailable> {
        self.handle.write(value)?;
        self.read()
    }

    /// Returns the identity of its instance, because a name can be reused.
    pub(crate) fn identity(&self) -> String {
        let name = self.target.instance.as_deref().unwrap_or_default();
        instances::identity(&self.machine, self.entry.tunable.scope, &self.entry.tunable.access, name)
    }

    /// Returns another tunable of the same instance.
    pub(crate) fn sibling(&self, name: &str) -> Option<Self> {
        Self::for_target(&self.machine, &self.target.sibling(name)).ok()
    }

    /// Returns the bytes of memory that are available without swapping.
    pub(crate) fn available_memory(&self) -> Option<u64> {
        meminfo(self.machine.root(), "MemAvailable")
    }

    /// Returns the tunables that change along with this one, if they exist.
    pub(crate) fn disturbed(&self) -> Vec<Self> {
        let siblings = self.entry.tunable.disturbs.iter().map(|name| self.target.sibling(name));
        siblings.filter_map(|target| Self::for_target(&self.machine, &target).ok()).collect()
    }

    /// Whether a change was made to this very instance, rather than to an earlier one of the same name.
    pub(crate) fn is_of(&self, change: &SettingChange) -> bool {
        // A line of a file identifies itself.
        self.target.name == PERSIST || change.identity == self.identity()
    }

    /// Explains why it is unsupported, if this kernel's release is the reason; a name that exists nowhere is probably misspelled.
    fn explained(&self, why: Unavailable) -> Unavailable {
        match (why, self.machine.release()) {
            (Unavailable::Unsupported(why), _) if Catalogue::built_in().is_unknown(&self.target.name) => {
                Unavailable::Unsupported(why + &Catalogue::built_in().suggestion(&self.target.name, &self.machine))
            }
            (Unavailable::Unsupported(why), Some(release)) => {
                Unavailable::Unsupported(match (self.entry.since, self.entry.until) {
                    (Some(since), _) if release < since => {
                        format!("available since kernel {since}; this is {release}")
                    }
                    (_, Some(until)) if release >= until => {
                        format!("removed in kernel {until}; this is {release}")
                    }
                    _ => why,
                })
            }
            (why, _) => why,
        }
    }
}

fn handle(machine: &Machine, entry: &Entry, target: &ChangeTarget) -> Result<Box<dyn Handle>, Unavailable> {
    let tunable = &entry.tunable;
    let name = match (&target.instance, tunable.scope) {
        (Some(name), scope) if !scope.is_one() => name.as_str(),
        (None, scope) if scope.is_one() => "",
        (Some(_), _) => {
            return Err(Unavailable::Absent(format!("{} is one for the {}", tunable.name, tunable.scope.word())));
        }
        (None, scope) => {
            return Err(Unavailable::Absent(format!(
                "{0} is of a {1}: {0}@{2}",
                tunable.name,
                scope.word(),
                example(scope)
            )));
        }
    };
    instances::find(machine, tunable.scope, &tunable.access, name)?;
    let live = |handle: Box<dyn Handle>| match machine.root().is_live() {
        true => Ok(handle),
        false => Err(Unavailable::Unsupported("not part of a captured tree".into())),
    };
    match &tunable.access {
        Access::Sysctl => Ok(Box::new(file::SettingFile::at(machine, &sysctl_path(&tunable.name)))),
        Access::File(template) => Ok(Box::new(file::SettingFile::at(machine, &filled(template, name)))),
        Access::Cgroup(_) => {
            let file = tunable.name.trim_start_matches("cgroup.");
            let folder = mounts::cgroup_folder(machine, &tunable.access, name)?;
            Ok(Box::new(file::SettingFile::new(folder.join(file), format!("{name}/{file}"))))
        }
        Access::CgroupDisk { file, key, .. } => {
            let (disk, group) = name.split_once('/').unwrap_or((name, ""));
            let path = mounts::cgroup_folder(machine, &tunable.access, group)?.join(file);
            let unlimited = tunable.default.clone().unwrap_or_default();
            Ok(Box::new(disk_limit::DiskLimit::new(machine, disk, path, format!("{group}/{file}"), key, unlimited)?))
        }
        Access::Qdisc => live(Box::new(qdisc::RootQdisc::for_interface(machine, name)?)),
        Access::Line { file, prefix, suffix, header, more } => Ok(Box::new(
            line::BootLine::new(machine.root().at(file), prefix.clone(), suffix.clone(), header.clone())
                .with_more(more),
        )),
        Access::Ethtool(parameter) => live(Box::new(ethtool::Parameter::for_interface(parameter, name)?)),
        Access::Mount(option) => live(Box::new(mount::MountSetting::for_mount(machine, option, name)?)),
        Access::Process(property) => live(Box::new(process::ProcessSetting::for_process(property, name)?)),
    }
}

/// Returns an example of an instance name, for messages.
fn example(scope: TunableScope) -> &'static str {
    match scope {
        TunableScope::Disk => "sda",
        TunableScope::Interface => "eth0",
        TunableScope::NetQueue => "eth0/rx-0",
        TunableScope::Cpu => "cpu0",
        TunableScope::IdleState => "cpu0/state1",
        TunableScope::Irq => "24",
        TunableScope::Mount => "/srv",
        TunableScope::Ext4 => "sda1",
        TunableScope::Cgroup => "/system.slice",
        TunableScope::GroupDisk => "sda/system.slice",
        TunableScope::Process => "PID",
        TunableScope::PageSize => "hugepages-2048kB",
        TunableScope::Machine | TunableScope::Netns | TunableScope::Line => "",
    }
}

/// Reads the value of a tunable for each of its instances here; empty if there are too many instances to list.
pub(crate) fn here(machine: &Machine, entry: &Entry, instance: Option<&str>) -> Vec<Here> {
    let scope = entry.tunable.scope;
    let names: Vec<Option<String>> = match instance {
        Some(name) => vec![Some(name.to_owned())],
        None if scope.is_one() => vec![None],
        None => instances::list(machine, scope).into_iter().map(Some).collect(),
    };
    let of = |instance: Option<String>| {
        let target = ChangeTarget { name: entry.tunable.name.clone(), instance };
        let read = SystemSetting::for_target(machine, &target).and_then(|setting| setting.read_here());
        match read {
            Ok((value, choices)) => Here { instance: target.instance, value: Some(value), unavailable: None, choices },
            Err(why) => Here { instance: target.instance, value: None, unavailable: Some(why), choices: Vec::new() },
        }
    };
    names.into_iter().map(of).collect()
}

/// Classifies an error of the kernel as unsupported, absent, not permitted or failed.
fn sorted(what: &str, error: &io::Error) -> Unavailable {
    let words = human::io_error(error);
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Unavailable::NotPermitted {
            why: format!("{what}: {words}"),
            remedy: match nix::unistd::geteuid().is_root() {
                false => "run as root, outside of a container".into(),
                true => "not even root may: a container, or a security module, forbids it".into(),
            },
        },
        Some(libc::EROFS) => Unavailable::NotPermitted {
            why: format!("{what}: mounted read-only"),
            remedy: "run on the host, not in a container".into(),
        },
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENXIO) => Unavailable::Unsupported(format!("{what}: {words}")),
        Some(libc::ENODEV | libc::ESRCH) => Unavailable::Absent(format!("{what}: {words}")),
        Some(libc::EINVAL | libc::ERANGE) => {
            Unavailable::Failed(format!("{what}: the kernel refuses the value ({words})"))
        }
        _ => Unavailable::Failed(format!("{what}: {words}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(target: &str) -> Result<String, Unavailable> {
        SystemSetting::named(&Machine::live(), target).and_then(|setting| setting.read())
    }

    #[test]
    fn what_is_missing_is_told_apart() {
        assert!((0..=200).contains(&read("vm.swappiness").unwrap().parse::<u32>().unwrap()));
        assert!(matches!(read("disk.scheduler@nosuchdisk"), Err(Unavailable::Absent(_))));
        assert!(matches!(read("disk.scheduler"), Err(Unavailable::Absent(why)) if why.contains("disk.scheduler@sda")));
        assert!(matches!(read("vm.swappiness@sda"), Err(Unavailable::Absent(_))));
        let old = read("vm.block_dump").unwrap_err().to_string();
        assert!(old.starts_with("unsupported here: removed in kernel 5.13; this is "), "{old}");
        assert!(matches!(read("vm.no_such_sysctl"), Err(Unavailable::Unsupported(_))));
        assert!(matches!(read("nonsense"), Err(Unavailable::Failed(_))));
    }

    #[test]
    fn an_error_of_the_kernel_has_words_and_no_number() {
        let why = sorted("/sys/x", &io::Error::from_raw_os_error(libc::EIO));
        assert_eq!(why, Unavailable::Failed("/sys/x: Input/output error".into()));
    }

    #[test]
    fn most_of_the_catalogue_is_here() {
        let machine = Machine::live();
        let mut values = 0;
        for entry in Catalogue::built_in().entries() {
            for here in here(&machine, entry, None) {
                let unavailable = here.unavailable.as_ref();
                assert!(!matches!(unavailable, Some(Unavailable::Failed(_))), "{}: {here:?}", entry.tunable.name);
                if let Some(value) = here.value {
                    values += 1;
                    assert_eq!(entry.values.canonical(&value), value, "{}", entry.tunable.name);
                }
            }
        }
        assert!(values > 100, "{values}");
    }
}
