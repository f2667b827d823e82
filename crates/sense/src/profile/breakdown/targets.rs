//! The processes of a control group, and the children of a process.

use crate::root::Root;

/// Lists the processes in control groups that `matches` accepts, by the paths in /proc/PID/cgroup (cgroups(7)). Omits kernel
/// threads and this program.
pub fn processes_where(root: &Root, matches: impl Fn(&str) -> bool) -> Vec<u32> {
    let own = std::process::id();
    let pids = root.list("proc").into_iter().filter_map(|name| name.parse::<u32>().ok()).filter(|&pid| pid != own);
    pids.filter(|pid| root.maybe(&format!("proc/{pid}/cgroup")).is_some_and(|text| paths(&text).any(&matches)))
        .collect()
}

/// Lists the children of all threads of a process (proc_pid_task_tid_children(5)).
pub(super) fn children(pid: u32, root: &Root) -> Vec<u32> {
    let tids = root.list(&format!("proc/{pid}/task"));
    let lists = tids.iter().filter_map(|tid| root.maybe(&format!("proc/{pid}/task/{tid}/children")));
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Returns the child of a process that has exactly one.
pub(super) fn only_child(pid: u32, root: &Root) -> Option<u32> {
    children(pid, root).try_into().ok().map(|[child]: [u32; 1]| child)
}

/// Iterates over the paths in lines such as `4:memory:/system.slice/nginx.service`, one for each hierarchy.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.splitn(3, ':').nth(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_path_after_two_colons() {
        let text = "12:cpu,cpuacct:/a/b:c\n1:name=systemd:/init.scope\n0::/x\nnonsense\n";
        assert_eq!(paths(text).collect::<Vec<_>>(), ["/a/b:c", "/init.scope", "/x"]);
    }

    #[test]
    fn processes_are_found_by_their_group() {
        let dir = whyslow_testing::folder();
        for (pid, group) in [("7", "0::/web\n"), ("8", "0::/other\n"), ("self", "0::/web\n")] {
            std::fs::create_dir_all(dir.path().join("proc").join(pid)).unwrap();
            std::fs::write(dir.path().join("proc").join(pid).join("cgroup"), group).unwrap();
        }
        assert_eq!(processes_where(&Root::captured(dir.path()), |path| path == "/web"), [7]);
    }
}
