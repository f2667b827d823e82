//! Settings that bear on a diagnosis (Documentation/admin-guide/sysctl, Documentation/networking/ip-sysctl.rst).

use crate::root::Root;
use crate::source::{Miss, Source, Tempo};
use whyslow_model::catalogue::Setting;
use whyslow_model::snapshot::Snapshot;

/// The settings read, by their sysctl names. One that this kernel lacks has no row.
const NAMES: &[&str] = &[
    // What is reclaimed first, and when writers are held back.
    "vm.swappiness",
    "vm.vfs_cache_pressure",
    "vm.min_free_kbytes",
    "vm.watermark_scale_factor",
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_ratio",
    "vm.dirty_expire_centisecs",
    "vm.dirty_writeback_centisecs",
    // How much may be promised.
    "vm.overcommit_memory",
    "vm.overcommit_ratio",
    "vm.overcommit_kbytes",
    "vm.nr_hugepages",
    "vm.nr_overcommit_hugepages",
    "vm.zone_reclaim_mode",
    // Socket buffers, and queues between card and socket.
    "net.core.somaxconn",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.core.netdev_max_backlog",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.default_qdisc",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_mem",
    "net.ipv4.udp_mem",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_congestion_control",
    // How connections are made, and what runs out.
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.ip_local_port_range",
    // Who runs where, and what is accounted.
    "kernel.numa_balancing",
    "kernel.sched_autogroup_enabled",
    "kernel.task_delayacct",
    // Limits.
    "kernel.shmmax",
    "kernel.shmall",
    "kernel.shmmni",
    "kernel.sem",
    "kernel.pid_max",
    "kernel.threads-max",
    "fs.file-max",
    "fs.nr_open",
    "fs.aio-max-nr",
];

/// Reads the settings.
pub(super) struct Settings;

impl Source for Settings {
    fn name(&self) -> &'static str {
        "proc/sys"
    }

    fn tells(&self) -> &'static str {
        "settings of the kernel"
    }

    fn tempo(&self) -> Tempo {
        Tempo::Slow
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        out.kernel.setting.extend(NAMES.iter().filter_map(|name| {
            let text = root.maybe(&format!("proc/sys/{}", name.replace('.', "/")))?;
            let mut row = Setting::new((*name).into());
            row.value = one_line(&text).into();
            Some(row)
        }));
        if out.kernel.setting.is_empty() { Err(Miss::Absent("/proc/sys holds none of them".into())) } else { Ok(()) }
    }
}

/// Several numbers stand between tabs; as sysctl.conf(5) takes them, between blanks.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_read_and_a_missing_one_has_no_row() {
        let folder = tempfile::tempdir().unwrap();
        let ipv4 = folder.path().join("proc/sys/net/ipv4");
        std::fs::create_dir_all(&ipv4).unwrap();
        std::fs::write(ipv4.join("tcp_rmem"), "4096\t131072\t6291456\n").unwrap();
        let mut out = Snapshot::default();
        Settings.read(&Root::captured(folder.path()), &mut out).unwrap();
        assert_eq!(out.kernel.setting.len(), 1);
        let row = out.row::<Setting>(&"net.ipv4.tcp_rmem".into()).unwrap();
        assert_eq!(row.value.get(), Some("4096 131072 6291456"));
    }

    #[test]
    fn the_live_machine_has_most_of_them() {
        let mut out = Snapshot::default();
        Settings.read(&Root::live(), &mut out).unwrap();
        out.sort();
        assert!(out.row::<Setting>(&"vm.swappiness".into()).unwrap().value.get().unwrap().parse::<u32>().is_ok());
        assert!(out.kernel.setting.len() > NAMES.len() / 2);
    }
}
