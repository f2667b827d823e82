//! The control groups of this process and its ancestors: the shell, the remote login server, init.

use crate::machine::Machine;
use whyslow_documents::tune::Access;

/// Maximum number of ancestors.
const MOST_PARENTS: usize = 64;

/// Whether a control group contains this process or one of its ancestors.
pub(crate) fn is_in_group(machine: &Machine, access: &Access, group: &str) -> bool {
    let (Access::Cgroup(tree) | Access::CgroupDisk { tree, .. }) = access else { return false };
    let root = machine.root();
    let mut process = Some("self".to_owned());
    for _ in 0..MOST_PARENTS {
        let Some(id) = process.take() else { return false };
        let groups = root.maybe(&format!("proc/{id}/cgroup")).unwrap_or_default();
        if groups.lines().filter_map(|line| group_in(line, tree)).any(|path| holds(group, path)) {
            return true;
        }
        process = root.maybe(&format!("proc/{id}/stat")).and_then(|stat| parent(&stat)).filter(|parent| parent != "0");
    }
    false
}

/// Returns the group in a tree, from a line of proc_pid_cgroup(5).
fn group_in<'l>(line: &'l str, tree: &str) -> Option<&'l str> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let is_it = if controllers.is_empty() { tree == "v2" } else { controllers.split(',').any(|name| name == tree) };
    is_it.then_some(path)
}

fn holds(group: &str, path: &str) -> bool {
    let below = path.trim_matches('/').strip_prefix(group.trim_matches('/'));
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || group.trim_matches('/').is_empty())
}

/// Returns the parent's PID, which follows the command and the state (proc_pid_stat(5)).
fn parent(stat: &str) -> Option<String> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::tree;

    #[test]
    fn a_group_above_this_process_or_above_its_parents_is_found() {
        let (_folder, machine) = tree(&[
            ("proc/self/cgroup", "4:memory:/user.slice/a.scope\n0::/user.slice/a.scope\n"),
            ("proc/self/stat", "9 (a) b) S 7 9\n"),
            ("proc/7/cgroup", "0::/system.slice/ssh.service\n"),
            ("proc/7/stat", "7 (sshd) S 1 7\n"),
            ("proc/1/cgroup", "0::/init.scope\n"),
            ("proc/1/stat", "1 (init) S 0 1\n"),
        ]);
        let v2 = |group: &str| is_in_group(&machine, &Access::Cgroup("v2".into()), group);
        assert!(v2("/user.slice") && v2("user.slice/a.scope") && v2("/system.slice") && v2("/init.scope") && v2("/"));
        assert!(!v2("/user") && !v2("/user.slice/b.scope") && !v2("/machine.slice"));
        let memory = |group: &str| is_in_group(&machine, &Access::Cgroup("memory".into()), group);
        assert!(memory("/user.slice") && !memory("/system.slice"));
    }
}
