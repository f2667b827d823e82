//! Kernel stacks: the format of their lines, and what a task waits for, according to the functions on its stack.
//!
//! The lines are printed by show_stack() and sched_show_task() (arch/*/kernel, kernel/sched/core.c), and by
//! /proc/PID/stack (fs/proc/base.c). The functions are the kernel's own names, of all versions since 2.6.32, from the
//! files named in [`STACK_PATTERNS`].

/// Kind of resource that a task waits for; shows which of several waiting tasks blocks the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitKind {
    /// Something that another task holds or performs: a lock, a transaction, a work item.
    Task,
    /// A request to the storage below, or to memory.
    Request,
    /// A server of requests: an array, a server, a device, a frozen file system.
    Service,
}

/// Functions that reveal what a task waits for.
#[derive(Debug)]
pub struct StackPattern {
    /// The innermost function, then functions further out, in any order.
    pub functions: &'static [&'static str],
    /// Kind of the resource.
    pub kind: WaitKind,
    /// The resource, as a continuation of "waits for …".
    pub what: &'static str,
    /// Where to look next.
    pub check: &'static str,
}

impl StackPattern {
    /// Returns whether the stack shows this wait. `frames` begins with the candidate for the innermost function.
    fn matches(&self, frames: &[&str]) -> bool {
        let [innermost, others @ ..] = self.functions else { return false };
        frames.first() == Some(innermost) && others.iter().all(|function| frames.contains(function))
    }
}

/// Declares patterns: kind, resource, where to look next; then the functions. If several patterns match the same
/// function, the first one wins.
macro_rules! stack_patterns {
    ($($(#[$doc:meta])* $name:ident { $($kind:ident $what:literal, $check:literal => $($functions:tt)|+ ;)* })*) => {
        $(
            $(#[$doc])*
            pub const $name: &[StackPattern] = &[ $( $( StackPattern {
                functions: &$functions, kind: WaitKind::$kind, what: $what, check: $check,
            }, )+ )* ];
        )*
    };
}

stack_patterns! {
    /// Functions that show by themselves what is waited for.
    STACK_PATTERNS {
        // fs/super.c, include/linux/fs.h: sb_start_write() is inlined into its callers.
        Service "a frozen file system", "Find what froze it (a snapshot, a backup agent, fsfreeze), and thaw it: fsfreeze -u MOUNT" =>
            ["percpu_rwsem_wait", "lo_rw_aio"] | ["percpu_rwsem_wait", "mnt_want_write"] | ["percpu_rwsem_wait", "mnt_want_write_file"]
            | ["percpu_rwsem_wait", "vfs_write"] | ["percpu_rwsem_wait", "vfs_iter_write"] | ["percpu_rwsem_wait", "vfs_fallocate"]
            | ["percpu_rwsem_wait", "do_page_mkwrite"] | ["percpu_rwsem_wait", "xfs_trans_alloc"] | ["percpu_rwsem_wait", "ext4_journal_check_start"]
            | ["__percpu_down_read", "mnt_want_write"] | ["__percpu_down_read", "vfs_write"] | ["__percpu_down_read", "do_page_mkwrite"]
            | ["__sb_start_write"] | ["vfs_check_frozen"];
        Task "writers to end before a file system is frozen", "Find the writer that does not end among the other tasks" =>
            ["sb_wait_write"] | ["percpu_down_write", "freeze_super"];

        // drivers/md
        Service "an md array that is suspended or frozen", "Read /proc/mdstat and /sys/block/md*/md/{sync_action,array_state,suspend_lo,suspend_hi}; look for the md thread that is to resume it" =>
            ["md_handle_request"] | ["md_make_request"] | ["freeze_array"] | ["mddev_suspend"] | ["raid5_quiesce"] | ["raid1_quiesce"] | ["raid10_quiesce"];
        Service "an md array to write its superblocks", "Look for a member that does not complete writes, or for external metadata whose mdmon is gone" =>
            ["md_write_start"] | ["md_super_wait"] | ["md_update_sb"] | ["md_allow_write"];
        Service "the barrier of a resync or check of an md array", "Compare the resync with the load: /sys/block/md*/md/sync_speed_max" =>
            ["wait_barrier"] | ["_wait_barrier"] | ["wait_read_barrier"] | ["raise_barrier"] | ["regular_request_wait"] | ["wait_for_serialization"];
        Service "a free stripe of an md array", "Look for a member that does not complete requests; if all do, enlarge /sys/block/md*/md/stripe_cache_size" =>
            ["raid5_get_active_stripe"] | ["get_active_stripe"] | ["raid5_make_request"];
        Service "the bitmap of an md array", "Look for a member that does not complete writes" =>
            ["bitmap_startwrite"] | ["md_bitmap_startwrite"] | ["md_bitmap_unplug"] | ["bitmap_unplug"] | ["bitmap_wait_behind_writes"];

        // net/sunrpc, fs/nfs, fs/smb, fs/ceph, fs/fuse, fs/9p, fs/dlm, fs/gfs2, fs/ocfs2, drivers/block/drbd
        Service "an NFS server", "Check the server and the path to it: nfsstat -m, mountstats, the log for 'not responding'" =>
            ["rpc_wait_bit_killable"] | ["nfs_wait_bit_killable"] | ["nfs4_wait_clnt_recover"] | ["nfs_wait_on_request"]
            | ["rpc_wait_for_completion_task"] | ["nfs_wait_client_init_complete"] | ["nfs_iocounter_wait"] | ["nfs4_handle_exception"];
        Service "an SMB server", "Check the server and the path to it" =>
            ["wait_for_response"] | ["wait_for_free_credits"] | ["wait_for_free_request"] | ["compound_send_recv"] | ["cifs_send_recv"];
        Service "a Ceph cluster", "Check its health: ceph -s" =>
            ["ceph_mdsc_wait_request"] | ["ceph_mdsc_do_request"] | ["ceph_get_caps"] | ["ceph_osdc_wait_request"] | ["rbd_wait_state_locked"];
        Service "the process that serves a FUSE file system", "Look at that process: it does not answer" =>
            ["request_wait_answer"] | ["__fuse_request_send"] | ["fuse_request_send"] | ["__fuse_simple_request"] | ["fuse_simple_request"]
            | ["fuse_wait_on_page_writeback"];
        Service "a 9p server", "Check the host that serves it" => ["p9_client_rpc"];
        Service "a Lustre server", "Check the servers and the path to them" => ["ptlrpc_set_wait"] | ["ptlrpc_queue_wait"] | ["cl_sync_io_wait"];
        Service "a lock of the cluster", "Check the other nodes, and whether one is being fenced" =>
            ["dlm_lock_sync"] | ["gfs2_glock_wait"] | ["gfs2_glock_nq"] | ["__ocfs2_cluster_lock"] | ["ocfs2_wait_for_recovery"];
        Service "the peer of a DRBD device", "Check the peer and the link to it: drbdadm status" =>
            ["drbd_al_begin_io"] | ["drbd_al_begin_io_prepare"] | ["_drbd_wait_ee_list_empty"] | ["drbd_send_and_submit"];

        // drivers/scsi, drivers/ata, drivers/nvme, drivers/mmc, drivers/usb, block/blk-exec.c
        Service "the recovery of a SCSI host from errors", "Read the log for the errors, and check the device and the path to it" =>
            ["scsi_block_when_processing_errors"] | ["ata_port_wait_eh"] | ["scsi_try_host_reset"] | ["scsi_try_bus_reset"];
        Service "a command to a device", "Read the log for its errors, and check the device and the path to it" =>
            ["blk_execute_rq"] | ["scsi_execute"] | ["__scsi_execute"] | ["scsi_execute_cmd"] | ["scsi_execute_req"] | ["ata_exec_internal_sg"]
            | ["nvme_submit_sync_cmd"] | ["__nvme_submit_sync_cmd"] | ["mmc_wait_for_req_done"] | ["mmc_wait_for_req"] | ["usb_start_wait_urb"];
        Service "the host of a memory card", "Look for the task that holds it: a card that does not answer" => ["__mmc_claim_host"];

        // kernel/rcu
        Service "an RCU grace period", "Look for a CPU that does not pass through the scheduler: RCU stalls and lockups in the log" =>
            ["wait_rcu_gp"] | ["__wait_rcu_gp"] | ["synchronize_rcu"] | ["synchronize_rcu_normal"] | ["synchronize_sched"] | ["_rcu_barrier"] | ["rcu_barrier"]
            | ["synchronize_rcu_expedited"] | ["__synchronize_srcu"] | ["synchronize_srcu"];

        // block
        Request "a free tag of a device's queue", "Look for the device whose requests do not complete" =>
            ["blk_mq_get_tag"] | ["blk_mq_get_request"] | ["get_request_wait"] | ["get_request"] | ["sbq_wait"];
        Request "the block layer, which throttles it", "Check wbt_lat_usec, io.latency, io.cost and io.max" =>
            ["rq_qos_wait"] | ["wbt_wait"] | ["__wbt_wait"] | ["ioc_rqos_throttle"] | ["blkcg_iolatency_throttle"] | ["blkcg_maybe_throttle_current"];
        Request "a request queue that is frozen", "Look for the task that froze it, and for its requests that do not complete" =>
            ["blk_queue_enter"] | ["__bio_queue_enter"] | ["blk_mq_freeze_queue_wait"] | ["blk_mq_quiesce_queue"];
        Request "a flush of a device's cache", "Check the device that is flushed" => ["blkdev_issue_flush"];
        Request "a discard", "Check the device: discards take a long time there" =>
            ["blkdev_issue_discard"] | ["blkdev_issue_zeroout"] | ["ext4_issue_discard"];
        Request "a block request", "Look for the device whose requests do not complete" => ["submit_bio_wait"] | ["swap_read_folio"] | ["swap_readpage"];
        Request "direct I/O", "Look for the device whose requests do not complete" =>
            ["do_blockdev_direct_IO"] | ["__blockdev_direct_IO"] | ["dio_await_completion"] | ["iomap_dio_complete"] | ["__iomap_dio_rw"] | ["iomap_dio_rw"]
            | ["__blkdev_direct_IO_simple"] | ["__blkdev_direct_IO"] | ["inode_dio_wait"] | ["__inode_dio_wait"];

        // fs/jbd2, fs/jbd, fs/ext4
        Task "a commit of the journal", "Look at the journal's thread (jbd2/…) among the tasks" =>
            ["jbd2_log_wait_commit"] | ["log_wait_commit"] | ["jbd2_complete_transaction"] | ["wait_transaction_locked"]
            | ["wait_transaction_switching"] | ["jbd2_journal_lock_updates"];
        Task "a block that the journal is writing", "Look at the journal's thread (jbd2/…) among the tasks" => ["do_get_write_access"];
        Task "space in the journal", "Consider a larger journal, and check the device it is on" =>
            ["add_transaction_credits"] | ["__jbd2_log_wait_for_space"] | ["__log_wait_for_space"];
        Task "a transaction of the journal", "Look at the journal's thread (jbd2/…) among the tasks" => ["start_this_handle"];
        Task "open transactions to end before the journal commits", "Look for the task that has one open" => ["jbd2_journal_wait_updates"];
        Request "the journal to be written", "Look for the device of the journal, whose writes do not complete" =>
            ["jbd2_journal_commit_transaction"] | ["journal_commit_transaction"] | ["jbd2_log_do_checkpoint"] | ["jbd2_write_superblock"];

        // fs/xfs
        Task "space in the XFS log", "Look at xfsaild among the tasks, which makes room; consider a larger log, and check the device it is on" =>
            ["xlog_grant_head_wait"] | ["xlog_grant_head_check"] | ["xlog_grant_log_space"] | ["xfs_log_reserve"] | ["xfs_log_regrant"] | ["xlog_state_get_iclog_space"];
        Request "the XFS log to be written", "Look for the device of the log, whose writes do not complete" =>
            ["xlog_wait_on_iclog"] | ["xlog_cil_force_seq"] | ["xlog_cil_force_lsn"] | ["__xfs_log_force_lsn"] | ["_xfs_log_force_lsn"]
            | ["xlog_force_lsn"] | ["xfs_log_force_lsn"] | ["_xfs_log_force"] | ["xfs_log_force"] | ["xlog_cil_push_work"];
        Task "the lock of an XFS buffer", "Look for the task that reads or writes it" => ["xfs_buf_lock"];
        Task "an XFS inode that is being written", "Look at xfsaild and the log among the tasks" =>
            ["__xfs_iflock"] | ["xfs_iunpin_wait"] | ["__xfs_iunpin_wait"] | ["xfs_buf_wait_unpin"];
        Request "XFS metadata", "Look for the device below, whose requests do not complete" =>
            ["xfs_buf_iowait"] | ["xfs_buf_submit_wait"] | ["__xfs_buf_submit"] | ["_xfs_buf_read"] | ["xfs_buf_delwri_submit"] | ["xfs_wait_buftarg"];

        // fs/btrfs
        Task "a transaction of btrfs", "Look at btrfs-transacti among the tasks" =>
            ["wait_current_trans"] | ["btrfs_commit_transaction"] | ["wait_for_commit"] | ["btrfs_wait_for_commit"];
        Task "space in btrfs", "Run btrfs filesystem usage; look at the flushing worker among the tasks" =>
            ["handle_reserve_ticket"] | ["wait_reserve_ticket"] | ["__reserve_bytes"];
        Task "an extent that btrfs has locked", "Look for the task that writes it" =>
            ["btrfs_tree_lock"] | ["btrfs_tree_read_lock"] | ["wait_extent_bit"] | ["lock_extent_bits"] | ["btrfs_start_ordered_extent"];

        // OpenZFS: module/zfs/txg.c, zio.c
        Task "a transaction group of ZFS", "Look at txg_sync among the tasks" =>
            ["txg_wait_open"] | ["txg_wait_synced"] | ["txg_wait_synced_impl"] | ["txg_wait_synced_flags"] | ["txg_quiesce"] | ["dmu_tx_wait"];
        Request "I/O of ZFS", "Look for the device of the pool whose requests do not complete: zpool status, zpool iostat -v" => ["zio_wait"];

        // mm, fs/buffer.c, fs/fs-writeback.c
        Request "a page to be written", "Look for the device below, whose writes do not complete" =>
            ["folio_wait_writeback"] | ["wait_on_page_writeback"] | ["folio_wait_stable"] | ["wait_for_stable_page"];
        Request "a page to be read", "Look for the device below, whose reads do not complete" =>
            ["folio_put_wait_locked"] | ["put_and_wait_on_page_locked"] | ["filemap_update_page"] | ["filemap_read_folio"] | ["wait_on_page_read"]
            | ["page_cache_ra_unbounded"] | ["do_swap_page"] | ["read_cache_page"] | ["do_read_cache_folio"];
        Request "a block of metadata", "Look for the device below, whose requests do not complete" =>
            ["__wait_on_buffer"] | ["wait_on_buffer"] | ["__lock_buffer"] | ["__bread_gfp"] | ["__bread_slow"] | ["bh_uptodate_or_lock"]
            | ["ext4_read_block_bitmap_nowait"] | ["ext4_wait_block_bitmap"] | ["ext4_read_bh"] | ["ext4_read_bh_lock"];
        Request "a page that is locked", "Look for the device below, whose requests do not complete" =>
            ["__folio_lock"] | ["__folio_lock_killable"] | ["__folio_lock_or_retry"] | ["__lock_page"] | ["__lock_page_killable"] | ["__lock_page_or_retry"] | ["lock_page"];
        Request "writeback, because of the limit of dirty pages", "Look for the device that the pages are written to; compare vm.dirty_bytes with its throughput" =>
            ["balance_dirty_pages"] | ["balance_dirty_pages_ratelimited"] | ["balance_dirty_pages_ratelimited_flags"] | ["balance_dirty_pages_ratelimited_nr"];
        Task "the writeback of a file system", "Look at the flushing worker (kworker … flush-…) among the tasks" =>
            ["wb_wait_for_completion"] | ["__inode_wait_for_writeback"] | ["inode_wait_for_writeback"] | ["inode_sleep_on_writeback"] | ["wait_sb_inodes"]
            | ["bdi_sched_wait"];
        Request "memory to be compacted for a large block, such as a huge page", "Let page faults not wait for huge pages (thp.defrag=defer), and see whether free memory is fragmented: /proc/buddyinfo" =>
            ["congestion_wait", "compact_zone"] | ["reclaim_throttle", "compact_zone"] | ["compact_zone"] | ["isolate_migratepages"] | ["isolate_freepages"]
            | ["migrate_pages", "compact_zone"];
        Request "memory to be reclaimed", "Look at what fills memory, and at the device that dirty pages are written to" =>
            ["throttle_direct_reclaim"] | ["reclaim_throttle"] | ["congestion_wait"] | ["wait_iff_congested"] | ["too_many_isolated"] | ["shrink_inactive_list"];
        Request "memory of its cgroup", "Compare memory.high and memory.max with what it needs" =>
            ["mem_cgroup_handle_over_high"] | ["__mem_cgroup_handle_over_high"] | ["mem_cgroup_oom_synchronize"];

        // drivers/md/dm.c
        Request "outstanding requests of a device-mapper volume, before it is suspended", "Look for the device below, whose requests do not complete" =>
            ["dm_wait_for_completion"] | ["dm_wait_for_bios_completion"] | ["__dm_suspend"] | ["dm_suspend"];

        // kernel/workqueue.c, kernel/kthread.c, kernel/fork.c, fs/inode.c, fs/dcache.c
        Task "a kernel work item", "Look at the kworker threads among the tasks" =>
            ["__flush_work"] | ["flush_work"] | ["__flush_workqueue"] | ["flush_workqueue"] | ["drain_workqueue"] | ["__cancel_work_timer"] | ["cancel_work_sync"];
        Task "an inode that another task creates or removes", "Look for the task that does" =>
            ["__wait_on_freeing_inode"] | ["find_inode_fast"] | ["find_inode"] | ["wait_on_new_inode"] | ["d_alloc_parallel"] | ["d_wait_lookup"];
        Task "its vfork child to run a program", "This is harmless in itself: look at the child" => ["wait_for_vfork_done"];
        Task "a core dump", "Look at the program that takes the dump" => ["dump_emit"] | ["pipe_wait_writable"];
        Task "a memory map that another task has locked", "Look for the task that holds the mmap lock" =>
            ["rwsem_down_read_slowpath", "exc_page_fault"] | ["rwsem_down_write_slowpath", "vm_mmap_pgoff"] | ["rwsem_down_read_failed", "do_page_fault"];

        // kernel/locking
        Task "a lock", "Look for the task that holds it: one that waits for something else" =>
            ["__mutex_lock"] | ["__mutex_lock_slowpath"] | ["__mutex_lock_killable_slowpath"] | ["mutex_lock"] | ["__mutex_lock_common"]
            | ["rwsem_down_read_slowpath"] | ["rwsem_down_write_slowpath"] | ["rwsem_down_read_failed"] | ["rwsem_down_write_failed"]
            | ["call_rwsem_down_read_failed"] | ["call_rwsem_down_write_failed"] | ["rwsem_down_failed_common"] | ["down_read"] | ["down_write"]
            | ["down_read_killable"] | ["down_write_killable"] | ["__down"] | ["__down_common"] | ["___down_common"] | ["__down_interruptible"] | ["down"]
            | ["percpu_rwsem_wait"] | ["percpu_down_write"] | ["__percpu_down_read"] | ["rt_mutex_slowlock"] | ["rt_mutex_slowlock_block"];

        // A CPU that spins: kernel/locking/qspinlock.c, kernel/locking/qrwlock.c, kernel/smp.c, arch/x86/mm/tlb.c
        Task "a spinlock", "Look at what holds it: the same function on the other CPUs" =>
            ["native_queued_spin_lock_slowpath"] | ["queued_spin_lock_slowpath"] | ["__pv_queued_spin_lock_slowpath"] | ["pv_queued_spin_lock_slowpath"]
            | ["queued_write_lock_slowpath"] | ["queued_read_lock_slowpath"] | ["__ticket_spin_lock"] | ["_raw_spin_lock"] | ["_raw_spin_lock_irqsave"]
            | ["_raw_spin_lock_irq"] | ["_raw_spin_lock_bh"] | ["_spin_lock"] | ["osq_lock"] | ["mutex_spin_on_owner"] | ["rwsem_spin_on_owner"];
        Service "other CPUs, which do not answer an interrupt", "Look for the CPU that does not answer: it has interrupts disabled, or the hypervisor does not run it" =>
            ["smp_call_function_many_cond"] | ["smp_call_function_many"] | ["smp_call_function_single"] | ["csd_lock_wait"] | ["native_flush_tlb_multi"]
            | ["native_flush_tlb_others"] | ["flush_tlb_others"] | ["multi_cpu_stop"];
    }

    /// Functions that show it where no other function does; those of the first pattern say more than those of the next.
    GENERAL_PATTERNS {
        Request "a page", "Look for the device below, whose requests do not complete" =>
            ["folio_wait_bit_common"] | ["folio_wait_bit"] | ["folio_wait_bit_killable"] | ["wait_on_page_bit_common"] | ["wait_on_page_bit"] | ["__wait_on_page_bit"]
            | ["wait_on_page_bit_killable"] | ["sleep_on_page"];
        Request "I/O", "Look for the device whose requests do not complete" =>
            ["io_schedule"] | ["io_schedule_timeout"] | ["wait_for_completion_io"] | ["wait_for_completion_io_timeout"] | ["bit_wait_io"] | ["sleep_on_buffer"];
        Task "something in ZFS", "Look for the task that does not wait for another one" => ["cv_wait_common"] | ["__cv_wait"];
        Task "something that another task completes", "Look for the task that does not complete it" =>
            ["wait_for_completion"] | ["wait_for_completion_killable"] | ["wait_for_completion_state"] | ["wait_for_completion_timeout"] | ["__wait_for_common"] | ["wait_for_common"];
    }
}

/// Returns what a task waits for, according to the functions on its stack, innermost first; `None` if none of them
/// shows it.
pub fn waited_for(frames: &[&str]) -> Option<&'static StackPattern> {
    let specific =
        (0..frames.len()).find_map(|at| STACK_PATTERNS.iter().find(|pattern| pattern.matches(&frames[at..])));
    let general = || GENERAL_PATTERNS.iter().find(|pattern| frames.contains(&pattern.functions[0]));
    specific.or_else(general)
}

/// A function in a line of a stack, without the suffix that the compiler gives to clones of it. `reliable` is false if
/// the kernel merely found its address on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackFrame<'t> {
    /// Its name.
    pub function: &'t str,
    /// True if it certainly called the function before it.
    pub reliable: bool,
}

/// Parses `[<0>] folio_wait_bit+0xd6/0x220`, ` ? schedule+0x23/0xa0 [md_mod]`,
/// `[<c0105d2d>] (io_schedule+0xd/0x10) from …`, `[c0000000] [c0000000] schedule+0x10/0x20 (unreliable)`,
/// `RIP: 0010:delay_tsc+0x39/0x50`.
pub fn frame(line: &str) -> Option<StackFrame<'_>> {
    let (before, rest) = line.split_once("+0x")?;
    let (offset, size) = rest.split_once("/0x")?;
    let is_hex = |text: &str| text.bytes().next().is_some_and(|b| b.is_ascii_hexdigit());
    if !offset.bytes().all(|b| b.is_ascii_hexdigit()) || !is_hex(offset) || !is_hex(size) {
        return None;
    }
    let at = before.rfind([' ', '(', ':', ']']).map_or(0, |at| at + 1);
    let (marks, name) = before.split_at(at);
    let function = name.split('.').next().filter(|name| !name.is_empty())?;
    let is_name = function.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let marks = marks.trim_end_matches('(').trim_end();
    let is_marked = marks.is_empty() || marks.ends_with([']', '?', ':']);
    (is_name && is_marked)
        .then(|| StackFrame { function, reliable: !marks.ends_with('?') && !line.contains("(unreliable)") })
}

/// Separates the task from its functions if both are in one line of the log.
pub const STACK_FUNCTIONS: &str = " functions: ";

/// The task to which a stack belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackTask<'t> {
    /// Its name; empty if it is not printed.
    pub name: &'t str,
    /// Its process number.
    pub pid: u32,
    /// Its state, as ps prints it.
    pub state: Option<char>,
}

/// Parses the line before a stack: `task:dd              state:D stack:0     pid:9264  tgid:9264 …`, before 5.10
/// `dd              D ffff88003fc13480     0  9264   9235 0x00000000`, and before the stack of a CPU
/// `CPU: 1 PID: 1234 Comm: kworker/1:2 Not tainted …`.
pub fn stack_task(line: &str) -> Option<StackTask<'_>> {
    let line = line.trim();
    if let Some((name, rest)) = line.strip_prefix("task:").and_then(|rest| rest.split_once(" state:")) {
        let pid = rest.split_once("pid:")?.1.split_whitespace().next()?.parse().ok()?;
        return Some(StackTask { name: name.trim_end(), pid, state: rest.chars().next() });
    }
    if let Some((_, rest)) = line.split_once("PID: ").filter(|(before, _)| before.starts_with("CPU: ")) {
        let (pid, rest) = rest.split_once(' ')?;
        let name = rest.split_once("Comm: ")?.1.split(" Not tainted").next()?.split(" Tainted").next()?;
        return Some(StackTask { name: name.trim(), pid: pid.parse().ok()?, state: None });
    }
    ends_as_task(line).then_some(())?;
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [name, state, rest @ ..] = &fields[..] else { return None };
    // An address comes first, except in the kernels that hash addresses.
    let is_small = |word: &str| word.parse::<u32>().is_ok_and(|free| free < 100_000) && word.len() < 8;
    let at = usize::from(!rest.first().is_some_and(|word| is_small(word)));
    let [free, pid, parent, ..] = rest.get(at..)? else { return None };
    let is_state = state.len() == 1 && "RSDTtZXxI".contains(state);
    (is_state && is_small(free) && parent.parse::<u32>().is_ok()).then_some(())?;
    Some(StackTask { name, pid: pid.parse().ok()?, state: state.chars().next() })
}

/// Returns whether a line ends like that of a task before 5.10: with its flags, `0x00000000`, or, before 2.6.24, with
/// `(NOTLB)`.
pub fn ends_as_task(line: &str) -> bool {
    let end = line.trim_end().as_bytes();
    end.ends_with(b"TLB)") || (end.len() > 10 && end[end.len() - 10..].starts_with(b"0x"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn lines_of_every_architecture_and_version_are_read() {
        for (line, function, reliable) in [
            ("[<0>] folio_wait_bit+0xd6/0x220", "folio_wait_bit", true),
            (" __schedule+0x3cc/0xf50", "__schedule", true),
            (" ? md_thread+0x12/0x140 [md_mod]", "md_thread", false),
            (" [<ffffffff8160f5b0>] ? schedule+0x3a/0x60", "schedule", false),
            ("[<c0105d2d>] (io_schedule+0xd/0x10) from [<c0105e00>] (x+0x1/0x2)", "io_schedule", true),
            ("[c000000001] [c000000002] schedule+0x10/0x20 (unreliable)", "schedule", false),
            ("lo_rw_aio.isra.0+0x33c/0x350", "lo_rw_aio", true),
            ("RIP: 0010:delay_tsc+0x39/0x50", "delay_tsc", true),
        ] {
            assert_eq!(frame(line), Some(StackFrame { function, reliable }), "{line}");
        }
        for line in ["", "sda+0x1", "a word x+0x1/0x2", "Code: 48 89", "[<0>] 0xffffffffffffffff", "x+0xg/0x1"] {
            assert_eq!(frame(line), None, "{line}");
        }
    }

    #[test]
    fn the_task_of_a_stack_is_read() {
        let task = |name, pid, state| Some(StackTask { name, pid, state });
        for (line, expected) in [
            (
                "task:kworker/u8:5    state:D stack:0     pid:22740 tgid:22740 ppid:2",
                task("kworker/u8:5", 22740, Some('D')),
            ),
            ("dd              D ffff88003fc13480     0  9264   9235 0x00000000", task("dd", 9264, Some('D'))),
            ("CPU: 1 PID: 1234 Comm: kworker/1:2 Not tainted 6.1.0 #1", task("kworker/1:2", 1234, None)),
            ("CPU: 1 UID: 0 PID: 1234 Comm: java Tainted: G  W", task("java", 1234, None)),
            ("kswapd0         D    0   328      2 0x80004000", task("kswapd0", 328, Some('D'))),
            ("dd            D C041D9A0     0   366    353                     (NOTLB)", task("dd", 366, Some('D'))),
            (
                "jbd2/dm-9-8   D ffff81043e0a1420     0   762    585           763   748 (L-TLB)",
                task("jbd2/dm-9-8", 762, Some('D')),
            ),
            ("sda D 1 2 0x00000000", None),
            ("sda D 1 2", None),
            ("PID: 12", None),
        ] {
            assert_eq!(stack_task(line), expected, "{line}");
        }
    }

    #[test]
    fn the_innermost_function_that_shows_it_decides() {
        let what = |frames: &[&str]| waited_for(frames).map(|pattern| (pattern.what, pattern.kind));
        let fsync =
            ["__schedule", "schedule", "io_schedule", "folio_wait_bit", "folio_wait_writeback", "ext4_sync_file"];
        assert_eq!(what(&fsync), Some(("a page to be written", WaitKind::Request)));
        assert_eq!(what(&fsync[..4]), Some(("a page", WaitKind::Request)));
        let create = ["schedule", "rwsem_down_write_slowpath", "down_write", "path_openat"];
        assert_eq!(what(&create), Some(("a lock", WaitKind::Task)));
        let frozen = ["schedule", "percpu_rwsem_wait", "__percpu_down_read", "lo_rw_aio", "loop_process_work"];
        assert_eq!(what(&frozen), Some(("a frozen file system", WaitKind::Service)));
        assert_eq!(what(&["schedule", "worker_thread", "kthread"]), None);
    }

    #[test]
    fn no_pattern_is_hidden_by_an_earlier_one() {
        let mut seen = BTreeSet::new();
        for pattern in STACK_PATTERNS.iter().chain(GENERAL_PATTERNS) {
            assert!(seen.insert(pattern.functions), "{pattern:?} is listed twice");
            assert!(pattern.functions.len() == 1 || !seen.contains(&pattern.functions[..1]), "{pattern:?} is hidden");
        }
    }
}
