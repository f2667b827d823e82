//! Mounted file systems (proc_pid_mountinfo(5)), and the cgroup hierarchies among them: one in version 2, one for each controller
//! in version 1 (cgroups(7)).

use crate::machine::Machine;
use std::path::{Component, Path, PathBuf};
use whyslow_documents::tune::{Access, Unavailable};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) id: String,
    pub(crate) device: String,
    pub(crate) point: String,
    pub(crate) kind: String,
    /// Options of this mount: `noatime`, `nosuid`.
    pub(crate) options: Vec<String>,
    /// Options of the file system, shared by all its mounts: `commit=30`.
    pub(crate) super_options: Vec<String>,
}

impl Mount {
    /// Returns an identity that distinguishes it from another mount at the same point.
    pub(crate) fn identity(&self) -> String {
        format!("{} {}", self.id, self.device)
    }

    /// Whether this mount has an option.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|o| o == option)
    }

    /// Whether the file system has an option.
    pub(crate) fn has_super(&self, option: &str) -> bool {
        self.super_options.iter().any(|o| o == option)
    }

    /// Returns the value after `NAME=` among the file system's options.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.super_options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Reads every mount, in the order of creation.
pub(crate) fn read(machine: &Machine) -> Vec<Mount> {
    machine.table("proc/self/mountinfo").iter().filter_map(|fields| parse(fields)).collect()
}

/// Finds the mount at a point: the last one, which hides earlier mounts there.
pub(crate) fn find(machine: &Machine, point: &str) -> Option<Mount> {
    read(machine).into_iter().rev().find(|mount| mount.point == point)
}

fn parse(fields: &[String]) -> Option<Mount> {
    let dash = fields.iter().position(|field| field == "-")?;
    let list = |text: &String| text.split(',').map(str::to_owned).collect();
    Some(Mount {
        id: fields.first()?.clone(),
        device: fields.get(2)?.clone(),
        point: unescaped(fields.get(4)?),
        options: list(fields.get(5)?),
        kind: fields.get(dash + 1)?.clone(),
        super_options: list(fields.get(dash + 3)?),
    })
}

/// Decodes the octal escapes for spaces, tabs, newlines and backslashes (mangle in fs/proc_namespace.c).
fn unescaped(text: &str) -> String {
    let mut out = text.to_owned();
    for (octal, plain) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        out = out.replace(octal, plain);
    }
    out
}

/// Name that stands for version 2 in place of a controller.
const UNIFIED: &str = "v2";

/// Returns the folder of a group, in the tree that has the tunable's file.
///
/// # Errors
/// Unsupported if no such tree is mounted; absent if it has no such group.
pub(crate) fn cgroup_folder(machine: &Machine, access: &Access, group: &str) -> Result<PathBuf, Unavailable> {
    let (Access::Cgroup(controller) | Access::CgroupDisk { tree: controller, .. }) = access else {
        return Err(Unavailable::Failed("not a tunable of a cgroup".into()));
    };
    let tree = cgroup_tree(machine, controller).ok_or_else(|| {
        Unavailable::Unsupported(format!("no cgroup hierarchy with {} is mounted", described(controller)))
    })?;
    let within = Path::new(group.strip_prefix('/').unwrap_or(group));
    let is_plain = within.components().all(|part| matches!(part, Component::Normal(_)));
    let folder = machine.root().at(tree.trim_start_matches('/')).join(within);
    if is_plain && folder.is_dir() {
        Ok(folder)
    } else {
        Err(Unavailable::Absent(format!("there is no cgroup '{group}'")))
    }
}

fn described(controller: &str) -> String {
    if controller == UNIFIED { "version 2".to_owned() } else { format!("version 1 with the controller {controller}") }
}

/// Returns the mount point of a controller's tree.
fn cgroup_tree(machine: &Machine, controller: &str) -> Option<String> {
    let mounts = read(machine);
    let mut trees = mounts.into_iter().filter(|mount| match controller {
        UNIFIED => mount.kind == "cgroup2",
        controller => mount.kind == "cgroup" && mount.has_super(controller),
    });
    trees.next().map(|mount| mount.point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let line = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue,commit=30";
        let fields: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let mount = parse(&fields).unwrap();
        assert_eq!((mount.point.as_str(), mount.kind.as_str()), ("/mnt 2", "ext3"));
        assert_eq!((mount.value("commit"), mount.has("noatime"), mount.has("nosuid")), (Some("30"), true, false));
        assert_eq!(mount.identity(), "36 98:0");
        assert_eq!(parse(&fields[..7]), None);
    }

    #[test]
    fn this_machine_has_a_root() {
        assert!(find(&Machine::live(), "/").is_some());
    }
}
