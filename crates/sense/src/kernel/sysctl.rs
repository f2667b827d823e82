//! Settings that matter for a diagnosis (Documentation/admin-guide/sysctl, Documentation/networking/ip-sysctl.rst).

use crate::root::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::catalogue::Setting;
use whyslow_model::snapshot::Snapshot;

/// Names of the settings; the kernel may lack some, which then have no row.
const NAMES: &[&str] = &[
    // Reclaim, and throttling of writers.
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
    // Overcommit and huge pages.
    "vm.overcommit_memory",
    "vm.overcommit_ratio",
    "vm.overcommit_kbytes",
    "vm.nr_hugepages",
    "vm.nr_overcommit_hugepages",
    "vm.zone_reclaim_mode",
    // Socket buffers, and queues between NIC and socket.
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
    // Connection establishment, and limits that run out.
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.ip_local_port_range",
    // Scheduling and accounting.
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

pub(super) const INFO: SourceInfo = SourceInfo::new("proc/sys", "kernel settings").slow();

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    out.kernel.setting.extend(NAMES.iter().filter_map(|name| {
        let text = root.maybe(&format!("proc/sys/{}", name.replace('.', "/")))?;
        let mut row = Setting::new((*name).into());
        row.value = one_line(&text).into();
        Some(row)
    }));
    if out.kernel.setting.is_empty() { Err(SourceError::Absent("/proc/sys holds none of them".into())) } else { Ok(()) }
}

/// Replaces the tabs between numbers by the spaces of sysctl.conf(5).
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn a_setting_is_read_and_a_missing_one_has_no_row() {
        let mut out = Snapshot::default();
        let tree = CapturedTree::with_files(&[("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")]);
        assert_eq!(read(&tree.root(), &mut out), Ok(()));
        assert_eq!(out.kernel.setting.len(), 1);
        let row = out.row::<Setting>(&"net.ipv4.tcp_rmem".into()).unwrap();
        assert_eq!(row.value.get(), Some("4096 131072 6291456"));
    }

    #[test]
    fn the_live_machine_has_most_settings() {
        let mut out = Snapshot::default();
        assert_eq!(read(&Root::live(), &mut out), Ok(()));
        out.sort();
        let swappiness = out.row::<Setting>(&"vm.swappiness".into()).unwrap().value.get().unwrap();
        assert!((0..=200).contains(&swappiness.parse::<u32>().unwrap()), "{swappiness}");
        assert!(out.kernel.setting.len() > NAMES.len() / 2);
    }
}
