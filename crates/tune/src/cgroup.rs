//! Where control groups are: one tree in version 2, one for each controller in version 1 (cgroups(7)).

use crate::machine::Machine;
use crate::mounts;
use std::path::{Component, Path, PathBuf};
use whyslow_model::tune::{Access, Unavailable};

/// The controller's name that stands for version 2.
const UNIFIED: &str = "v2";

/// The folder of a group, in the tree that has the tunable's file.
///
/// # Errors
/// Unsupported where no such tree is mounted; absent where it has no such group.
pub(crate) fn folder(machine: &Machine, access: &Access, group: &str) -> Result<PathBuf, Unavailable> {
    let (Access::Cgroup(controller) | Access::CgroupDisk { tree: controller, .. }) = access else {
        return Err(Unavailable::Failed("not a tunable of a cgroup".into()));
    };
    let tree = tree(machine, controller).ok_or_else(|| {
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

/// Where the tree of a controller is mounted.
fn tree(machine: &Machine, controller: &str) -> Option<String> {
    let mounts = mounts::read(machine);
    let mut trees = mounts.into_iter().filter(|mount| match controller {
        UNIFIED => mount.kind == "cgroup2",
        controller => mount.kind == "cgroup" && mount.has_super(controller),
    });
    trees.next().map(|mount| mount.point)
}
