//! Memory: use, reclaim, huge pages, NUMA nodes, slab.

use super::*;
use crate::key::MachineKey;
use crate::value::Name;

family_group! {
    /// How memory is used and how it moves.
    memory: MemoryTables

    /// Memory by use.
    meminfo: Meminfo by host: MachineKey, from "/proc/meminfo" {
        mem_total: gauge bytes "system.memory.limit" "usable memory";
        mem_free: gauge bytes "system.memory.usage{system.memory.state=free}" "free memory";
        mem_available: gauge bytes "system.linux.memory.available" "memory available without swapping";
        buffers: gauge bytes "system.memory.usage{system.memory.state=buffers}" "block-device cache";
        cached: gauge bytes "system.memory.usage{system.memory.state=cached}" "page cache, shared memory included";
        swap_cached: gauge bytes "system.memory.swap_cached" "memory that is also in swap";
        active: gauge bytes "system.memory.active" "memory used lately";
        inactive: gauge bytes "system.memory.inactive" "memory not used lately";
        active_anon: gauge bytes "system.memory.active_anon" "anonymous memory used lately";
        inactive_anon: gauge bytes "system.memory.inactive_anon" "anonymous memory not used lately";
        active_file: gauge bytes "system.memory.active_file" "page cache used lately";
        inactive_file: gauge bytes "system.memory.inactive_file" "page cache not used lately";
        unevictable: gauge bytes "system.memory.unevictable" "memory that cannot be reclaimed";
        mlocked: gauge bytes "system.memory.mlocked" "memory locked by mlock";
        swap_total: gauge bytes "system.paging.limit" "swap space";
        swap_free: gauge bytes "system.paging.usage{system.paging.state=free}" "swap space unused";
        dirty: gauge bytes "system.memory.dirty" "page cache waiting to be written";
        writeback: gauge bytes "system.memory.writeback" "page cache being written";
        anon_pages: gauge bytes "system.memory.anon" "anonymous memory mapped";
        mapped: gauge bytes "system.memory.mapped" "page cache mapped";
        shmem: gauge bytes "system.memory.shared" "shared memory and tmpfs";
        k_reclaimable: gauge bytes "system.memory.kreclaimable" "kernel memory that can be reclaimed";
        slab: gauge bytes "system.linux.memory.slab.usage" "kernel object caches";
        s_reclaimable: gauge bytes "system.linux.memory.slab.usage{linux.memory.slab.state=reclaimable}" "kernel object caches that can be reclaimed";
        s_unreclaim: gauge bytes "system.linux.memory.slab.usage{linux.memory.slab.state=unreclaimable}" "kernel object caches that cannot";
        kernel_stack: gauge bytes "system.memory.kernel_stack" "kernel stacks";
        page_tables: gauge bytes "system.memory.page_tables" "page tables";
        nfs_unstable: gauge bytes "system.memory.nfs_unstable" "pages sent to a server and not yet stable";
        bounce: gauge bytes "system.memory.bounce" "bounce buffers";
        commit_limit: gauge bytes "system.memory.commit_limit" "maximum memory that may be committed";
        committed_as: gauge bytes "system.memory.committed" "memory promised";
        vmalloc_used: gauge bytes "system.memory.vmalloc" "vmalloc space used";
        percpu: gauge bytes "system.memory.percpu" "per-CPU allocations";
        hardware_corrupted: gauge bytes "system.memory.corrupted" "memory taken out of use for errors";
        anon_huge_pages: gauge bytes "system.memory.anon_huge" "anonymous memory in transparent huge pages";
        shmem_huge_pages: gauge bytes "system.memory.shmem_huge" "shared memory in transparent huge pages";
        hugetlb: gauge bytes "system.memory.hugetlb" "memory reserved for huge pages of every size";
    }

    /// Events of the virtual memory system.
    vmstat: Vmstat by host: MachineKey, from "/proc/vmstat" since boot {
        pgpgin: counter bytes "system.paging.in" "bytes read from block devices";
        pgpgout: counter bytes "system.paging.out" "bytes written to block devices";
        pswpin: counter count "system.paging.swap_in" "pages swapped in";
        pswpout: counter count "system.paging.swap_out" "pages swapped out";
        pgfault: counter count "system.paging.faults" "page faults";
        pgmajfault: counter count "system.paging.faults{system.paging.fault.type=major}" "page faults that needed I/O";
        pgalloc_normal: counter count "system.paging.alloc" "pages allocated in the normal zone";
        pgfree: counter count "system.paging.free" "pages freed";
        pgscan_kswapd: counter count "system.paging.scan" "pages scanned in the background";
        pgscan_direct: counter count "system.paging.scan" "pages scanned by direct reclaim";
        pgsteal_kswapd: counter count "system.paging.steal" "pages reclaimed in the background";
        pgsteal_direct: counter count "system.paging.steal" "pages reclaimed by direct reclaim";
        pgscan_direct_throttle: counter count "system.paging.throttle" "tasks held back in direct reclaim";
        allocstall: counter count "system.paging.allocstall" "times a task entered direct reclaim, all zones";
        kswapd_low_wmark_hit_quickly: counter count "system.paging.kswapd_low" "times free memory fell again right after background reclaim";
        workingset_refault_anon: counter count "system.paging.refault_anon" "anonymous pages read back soon after eviction";
        workingset_refault_file: counter count "system.paging.refault_file" "file pages read back soon after eviction";
        workingset_activate_file: counter count "system.paging.activate_file" "refaulted file pages taken for working set at once";
        workingset_restore_file: counter count "system.paging.restore_file" "refaulted file pages that had been active";
        nr_dirty: gauge count "system.paging.dirty" "pages dirty";
        nr_writeback: gauge count "system.paging.writeback" "pages under write-back";
        nr_dirtied: counter count "system.paging.dirtied" "pages made dirty";
        nr_written: counter count "system.paging.written" "pages written back";
        nr_dirty_threshold: gauge count "system.paging.dirty_threshold" "dirty pages at which writers are held back";
        nr_dirty_background_threshold: gauge count "system.paging.dirty_background" "dirty pages at which write-back starts";
        compact_stall: counter count "system.paging.compact_stall" "times a task compacted memory to get a large page";
        compact_fail: counter count "system.paging.compact_fail" "such compactions that failed";
        compact_success: counter count "system.paging.compact_success" "such compactions that succeeded";
        thp_fault_alloc: counter count "system.paging.thp_fault_alloc" "transparent huge pages given at a fault";
        thp_fault_fallback: counter count "system.paging.thp_fault_fallback" "faults that fell back to small pages";
        thp_split_page: counter count "system.paging.thp_split" "huge pages split";
        thp_collapse_alloc: counter count "system.paging.thp_collapse" "huge pages made by khugepaged";
        oom_kill: counter count "system.paging.oom_kill" "OOM kills";
        numa_hit: counter count "system.numa.hit" "pages allocated on the wanted node";
        numa_miss: counter count "system.numa.miss" "pages allocated here although another node was preferred";
        numa_foreign: counter count "system.numa.foreign" "pages preferred here but allocated on another node";
        numa_pages_migrated: counter count "system.numa.migrated" "pages moved by NUMA balancing";
        zone_reclaim_success: counter count "system.numa.node_reclaim" "times a task got memory by reclaiming some of its own node, before it asked another one (vm.zone_reclaim_mode)";
        zone_reclaim_failed: counter count "system.numa.node_reclaim_failed" "times a task reclaimed too little of its own node, and then asked another one";
        numa_hint_faults: counter count "system.numa.hint_faults" "NUMA hinting faults";
        numa_hint_faults_local: counter count "system.numa.hint_faults_local" "NUMA hinting faults on the local node";
        ksm_swpin_copy: counter count "system.paging.ksm_swpin" "pages merged by KSM that were copied at swap-in";
        drop_pagecache: counter count "system.paging.drop_pagecache" "times the page cache was dropped manually";
        balloon_inflate: counter count "system.paging.balloon_inflate" "pages returned to the hypervisor";
        balloon_deflate: counter count "system.paging.balloon_deflate" "pages returned by the hypervisor";
    }

    /// Reserved huge pages by page size.
    hugepages: Hugepages by size: u64, from "/sys/kernel/mm/hugepages" {
        total: gauge count "system.linux.hugepages.limit" "pages reserved";
        free: gauge count "system.linux.hugepages.usage{system.memory.linux.hugepages.state=free}" "pages reserved and not used";
        reserved: gauge count "system.linux.hugepages.reserved" "pages promised and not yet touched";
        surplus: gauge count "system.linux.hugepages.surplus" "pages beyond the reservation";
    }

    /// The cache of ZFS (arcstats of OpenZFS, module/zfs/arc.c).
    arc: Arc by host: MachineKey, from "/proc/spl/kstat/zfs/arcstats" {
        size: gauge bytes "zfs.arc.size" "memory it takes";
        size_max: gauge bytes "zfs.arc.limit" "memory it may take (zfs_arc_max)";
        metadata: gauge bytes "zfs.arc.metadata" "memory for metadata, up to OpenZFS 2.1";
        metadata_max: gauge bytes "zfs.arc.metadata_limit" "memory it may take for metadata (zfs_arc_meta_limit)";
        dnodes: gauge bytes "zfs.arc.dnodes" "memory for dnodes";
        dnodes_max: gauge bytes "zfs.arc.dnode_limit" "memory it may take for dnodes (zfs_arc_dnode_limit)";
        prunes: counter count "zfs.arc.prunes" "times file systems were asked to release what pins metadata";
    }

    /// Transparent huge pages and page sharing.
    sharing: Sharing by host: MachineKey, from "/sys/kernel/mm/transparent_hugepage, /sys/kernel/mm/ksm" {
        thp_enabled: state word "system.thp.enabled" "when transparent huge pages are used";
        thp_defrag: state word "system.thp.defrag" "when a task compacts memory for one";
        ksm_run: gauge count "system.ksm.run" "1 if page sharing is running";
        ksm_pages_shared: gauge count "system.ksm.shared" "pages kept for sharing";
        ksm_pages_sharing: gauge count "system.ksm.sharing" "pages saved by sharing";
        ksm_full_scans: counter count "system.ksm.full_scans" "times all memory was scanned";
    }

    /// Swap areas.
    swap: Swap by area: Name of source, from "/proc/swaps" {
        size: gauge bytes "system.paging.limit" "size";
        used: gauge bytes "system.paging.usage{system.paging.state=used}" "used";
        kind: state word "system.paging.type" "partition or file";
        priority: gauge count "system.paging.priority" "higher is used first";
    }

    /// Kernel object caches.
    slab: Slab by cache: Name of word, from "/proc/slabinfo" {
        active_objects: gauge count "system.slab.active" "objects in use";
        objects: gauge count "system.slab.objects" "objects allocated";
        bytes: gauge bytes "system.slab.bytes" "memory held: slabs x pages a slab x page size";
    }

    /// Memory and allocations by NUMA node.
    node: Node by node: u32, from "/sys/devices/system/node" since boot {
        mem_total: gauge bytes "system.numa.memory.limit" "memory of the node";
        mem_free: gauge bytes "system.numa.memory.free" "free memory of the node";
        anon_pages: gauge bytes "system.numa.memory.anon" "memory of programs on the node";
        numa_hit: counter count "system.numa.hit" "pages allocated here as wanted";
        numa_miss: counter count "system.numa.miss" "pages allocated here although another node was preferred";
        numa_foreign: counter count "system.numa.foreign" "pages preferred here but allocated on another node";
        interleave_hit: counter count "system.numa.interleave" "pages interleaved here as wanted";
        local_node: counter count "system.numa.local" "pages allocated here by a task of this node";
        other_node: counter count "system.numa.other" "pages allocated here by a task of another node";
        cpus: state word "system.numa.cpus" "CPUs of the node";
    }

    /// Memory modules with error correction.
    memory_module: MemoryModule by module: Name of word, from "/sys/devices/system/edac/mc" since boot {
        label: state word "hw.memory.slot" "label of its slot on the board";
        corrected: counter count "hw.errors{error.type=corrected}" "errors that were corrected";
        uncorrected: counter count "hw.errors{error.type=uncorrected}" "errors that could not be corrected";
    }

    /// A zone of a node's memory; counts are pages (Documentation/admin-guide/sysctl/vm.rst: min_free_kbytes).
    zone: Zone by name: Name of word, from "/proc/zoneinfo, /proc/buddyinfo" only captures {
        managed: gauge count "system.memory.zone.managed" "pages of the zone";
        free: gauge count "system.memory.zone.free" "free pages";
        min: gauge count "system.memory.zone.min" "below this, allocations reclaim memory themselves";
        low: gauge count "system.memory.zone.low" "below this, kswapd reclaims";
        high: gauge count "system.memory.zone.high" "kswapd reclaims up to this";
        largest_order: gauge count "system.memory.zone.largest_order" "order of the largest free block: 2 to this power pages; -1 if none is free";
        huge_share: gauge ratio "system.memory.zone.huge_share" "share of the free pages in blocks of order 9 and more: 2 MiB with pages of 4 KiB";
    }
}
