//! Control groups by path: their members, and the systemd unit or container that they belong to.

/// Length of the short container id that people use.
const SHORT_ID: usize = 12;
/// Prefixes that container runtimes put before the id in the name of a scope.
const RUNTIMES: [&str; 5] = ["docker-", "libpod-", "crio-", "cri-containerd-", "containerd-"];

/// Returns the systemd unit of a control group: the innermost service or scope that is not a container.
///
/// `/system.slice/system-postgresql.slice/postgresql@15-main.service` is `postgresql@15-main`; scopes keep their
/// suffix.
pub fn unit(cgroup: &str) -> Option<String> {
    let parts = cgroup.rsplit('/').filter(|part| id(part).is_none());
    let mut units = parts.filter(|part| *part != "init.scope");
    units.find_map(|part| match part.strip_suffix(".service") {
        Some(service) => Some(service.to_owned()),
        None => part.ends_with(".scope").then(|| part.to_owned()),
    })
}

/// Returns the short id of the control group's container.
pub fn container(cgroup: &str) -> Option<String> {
    cgroup.rsplit('/').find_map(id)
}

/// Returns the name of the virtual machine that libvirt (`machine-qemu\x2d1\x2dweb1.scope`) or Proxmox
/// (`/qemu.slice/100.scope`) runs in the control group.
pub fn guest(cgroup: &str) -> Option<String> {
    let of_proxmox = |part: &str| cgroup.contains("/qemu.slice/").then(|| part.to_owned());
    let of_libvirt = |part: &str| {
        let name = unescaped(part.strip_prefix("machine-qemu\\x2d")?);
        let (number, name) = name.split_once('-')?;
        number.bytes().all(|b| b.is_ascii_digit()).then(|| name.to_owned())
    };
    let mut scopes = cgroup.rsplit('/').filter_map(|part| part.strip_suffix(".scope"));
    scopes.find_map(|part| of_libvirt(part).or_else(|| of_proxmox(part)))
}

/// Decodes `\xNN`, which stands for a byte in the name of a unit (systemd.unit(5)).
fn unescaped(name: &str) -> String {
    let mut parts = name.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let escaped = part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escaped {
            Some(byte) => bytes.extend(std::iter::once(byte).chain(part.bytes().skip(2))),
            None => bytes.extend(b"\\x".iter().copied().chain(part.bytes())),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the short id if a path component is a container's: 64 hexadecimal digits, alone or in a runtime's scope.
fn id(part: &str) -> Option<String> {
    let scope = part.strip_suffix(".scope").unwrap_or(part);
    let bare = RUNTIMES.iter().find_map(|runtime| scope.strip_prefix(runtime)).unwrap_or(scope);
    let is_id = bare.len() == 64 && bare.bytes().all(|b| b.is_ascii_hexdigit());
    is_id.then(|| bare[..SHORT_ID].to_owned())
}

/// Returns the group to which a process of this group is attributed: up to the container, otherwise up to the innermost
/// systemd unit.
pub fn accountable(cgroup: &str) -> &str {
    let is_unit = |part: &str| part.ends_with(".service") || part.ends_with(".scope") && part != "init.scope";
    let parts = || cgroup.rmatch_indices('/').map(|(at, _)| at);
    let part_at = |at: usize| cgroup[at + 1..].split('/').next().unwrap_or_default();
    let container = parts().find(|at| id(part_at(*at)).is_some());
    match container.or_else(|| parts().find(|at| is_unit(part_at(*at)))) {
        Some(at) => &cgroup[..at + 1 + part_at(at).len()],
        None => cgroup,
    }
}

/// Returns whether one of these control groups, one per line, is `group` or lies below it.
pub fn in_group(cgroups: Option<&str>, group: &str) -> bool {
    let inside = |path: &str| path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    cgroups.is_some_and(|all| all.lines().any(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_containers_are_told_from_paths() {
        let hex = "0123456789abcdef".repeat(4);
        for (cgroup, known_as) in [
            ("/system.slice/system-postgresql.slice/postgresql@15-main.service", (Some("postgresql@15-main"), None)),
            ("/system.slice/nginx.service/workers", (Some("nginx"), None)),
            ("/user.slice/user-1000.slice/session-3.scope", (Some("session-3.scope"), None)),
            ("/init.scope", (None, None)),
            ("/", (None, None)),
            (&format!("/system.slice/docker-{hex}.scope"), (None, Some("0123456789ab"))),
            (&format!("/docker/{hex}"), (None, Some("0123456789ab"))),
            (&format!("/machine.slice/libpod-{hex}.scope/container"), (None, Some("0123456789ab"))),
            (&format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{hex}.scope"), (None, Some("0123456789ab"))),
            (&format!("/kubepods/besteffort/pod1/{hex}"), (None, Some("0123456789ab"))),
        ] {
            let found = (unit(cgroup), container(cgroup));
            assert_eq!((found.0.as_deref(), found.1.as_deref()), known_as, "{cgroup}");
        }
    }

    #[test]
    fn guests_are_told_from_the_scopes_of_libvirt_and_proxmox() {
        for (cgroup, name) in [
            (r"/machine.slice/machine-qemu\x2d12\x2dweb\x2d1.scope/libvirt/vcpu0", Some("web-1")),
            (r"/machine.slice/machine-qemu\x2d1\x2da\xc3\xa4\x2.scope", Some(r"aä\x2")),
            ("/qemu.slice/100.scope", Some("100")),
            (r"/machine.slice/machine-lxc\x2d1\x2dweb.scope", None),
            ("/system.slice/cron.service", None),
        ] {
            assert_eq!(guest(cgroup).as_deref(), name, "{cgroup}");
        }
    }

    #[test]
    fn what_is_below_a_container_or_a_unit_counts_with_it() {
        let hex = "0123456789abcdef".repeat(4);
        let libpod = format!("/machine.slice/libpod-{hex}.scope");
        for (cgroup, counts_with) in [
            (&*format!("{libpod}/container/init.scope"), &*libpod),
            ("/system.slice/nginx.service/workers", "/system.slice/nginx.service"),
            ("/user.slice/user@1000.service/app.slice/app.scope", "/user.slice/user@1000.service/app.slice/app.scope"),
            ("/apps/web", "/apps/web"),
            ("/init.scope", "/init.scope"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(accountable(cgroup), counts_with, "{cgroup}");
        }
    }
}
