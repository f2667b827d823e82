//! The faults, one file each: what it makes, and what must be found first.

mod cpu_context_switches;
mod cpu_irq_imbalance;
mod cpu_migrations;
mod cpu_saturated;
mod cpu_saturated_cron;
mod cpu_saturated_workers;
mod cpu_short_lived;
mod cpu_single_thread;
mod cpu_system_time;
mod cpu_throttled;
mod disk_depth_one;
mod disk_flush_bound;
mod disk_flush_bound_threads;
mod disk_readahead;
mod disk_readahead_large;
mod disk_request_split;
mod disk_saturated;
mod disk_shared;
mod disk_small_io;
mod disk_throttled;
mod disk_two_in_flight;
mod fs_full;
mod fs_full_held;
mod fs_inodes_full;
mod limit_open_files;
mod limit_shm;
mod lock_contention;
mod mem_cache_thrash;
mod mem_cgroup_limit;
mod mem_leak;
mod mem_oom_kill;
mod mem_thrashing;
mod net_link_saturated;
mod net_listen_overflow;
mod net_loss;
mod net_loss_here;
mod net_loss_short;
mod net_small_packets;
mod net_udp_overflow;
mod net_window_limited;
mod task_blocked;

use crate::trial::Trial;

/// All faults, in the order they are run.
pub const ALL: &[Trial] = &[
    cpu_saturated::TRIAL,
    cpu_saturated_cron::TRIAL,
    cpu_saturated_workers::TRIAL,
    cpu_single_thread::TRIAL,
    cpu_system_time::TRIAL,
    cpu_throttled::TRIAL,
    cpu_short_lived::TRIAL,
    cpu_context_switches::TRIAL,
    cpu_migrations::TRIAL,
    cpu_irq_imbalance::TRIAL,
    mem_thrashing::TRIAL,
    mem_cgroup_limit::TRIAL,
    mem_cache_thrash::TRIAL,
    mem_oom_kill::TRIAL,
    mem_leak::IN_GROUP,
    mem_leak::ON_MACHINE,
    disk_saturated::TRIAL,
    disk_depth_one::TRIAL,
    disk_two_in_flight::TRIAL,
    disk_small_io::TRIAL,
    disk_throttled::TRIAL,
    disk_shared::TRIAL,
    disk_flush_bound::TRIAL,
    disk_flush_bound_threads::TRIAL,
    disk_readahead::TRIAL,
    disk_readahead_large::TRIAL,
    disk_request_split::TRIAL,
    fs_full::TRIAL,
    fs_full_held::TRIAL,
    fs_inodes_full::TRIAL,
    net_window_limited::TRIAL,
    net_loss::TRIAL,
    net_loss_here::TRIAL,
    net_loss_short::TRIAL,
    net_link_saturated::TRIAL,
    net_small_packets::TRIAL,
    net_listen_overflow::TRIAL,
    net_udp_overflow::TRIAL,
    limit_open_files::TRIAL,
    limit_shm::TRIAL,
    task_blocked::TRIAL,
    lock_contention::TRIAL,
];
