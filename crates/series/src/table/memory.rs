//! Charts of memory.

use super::declare::chart_table;
use whyslow_model::catalogue::{Meminfo, Node, Slab, Vmstat};
use whyslow_quantities::{node, vmstat};

chart_table! {
    "memory.use" "Memory by use" in "By" "What memory is used for; shared memory and tmpfs are part of the page cache.";
    Stacked; shows "mem.cached" "mem.cached_share" "mem.page_tables" "mem.page_tables_share" "mem.hugepages" "mem.total" "mem.fixed_slab" "mem.fixed_slab_share" "mem.anon_huge" "mem.shared" "mem.unaccounted" "mem.unaccounted_share";
    Meminfo, Machine {
        "anonymous": level(anon_pages);
        "kernel objects": level(slab);
        "page tables": level(page_tables);
        "huge pages": level(hugetlb);
        "page cache": level(cached buffers);
        "free": level(mem_free);
    }

    "memory.available" "Available memory" in "By" "Memory available without swapping, as the kernel estimates it, and free memory.";
    Lines; shows "mem.available" "mem.available_share" "mem.shrink_rate" "mem.exhausted_in" "mem.room" "proc.exhausted_in" "mem.slab_exhausted_in";
    Meminfo, Machine { "available": level(mem_available); "free": level(mem_free); }

    "memory.dirty" "Dirty memory" in "By" "Page cache that waits to be written, and that is being written.";
    Lines; shows "mem.dirty_fill" "mem.dirty_limit";
    Meminfo, Machine { "dirty": level(dirty); "write-back": level(writeback); }

    "memory.swap" "Swap used" in "By" "Swap space in use.";
    Lines; shows "mem.swap_used";
    Meminfo, Machine { "": level(swap_total - swap_free); }

    "memory.swapping" "Swapping" in "1/s" "Pages read from and written to swap.";
    Lines "only if any"; shows "mem.swap_in_rate" "mem.swap_out_rate";
    Vmstat, Machine { "in": of(vmstat::SWAPPED_IN); "out": of(vmstat::SWAPPED_OUT); }

    "memory.paging" "Paging" in "By/s" "Bytes that the kernel read from and wrote to block devices.";
    Lines; shows "mem.read_rate";
    Vmstat, Machine { "in": of(vmstat::PAGED_IN); "out": of(vmstat::PAGED_OUT); }

    "memory.faults" "Page faults" in "1/s" "Page faults of all processes, with and without I/O.";
    Lines; shows "proc.minor_faults";
    Vmstat, Machine { "": of(vmstat::FAULTS); }

    "memory.major_faults" "Major faults and refaults" in "1/s" "Page faults that needed I/O, and pages read back soon after they were evicted.";
    Lines "only if any"; shows "mem.refault_rate" "mem.refaulted" "mem.refault_share" "proc.major_faults" "proc.refill_share";
    Vmstat, Machine {
        "major faults": of(vmstat::MAJOR_FAULTS);
        "file pages refaulted": of(vmstat::FILE_REFAULTS);
        "anonymous pages refaulted": of(vmstat::ANON_REFAULTS);
    }

    "memory.reclaim" "Reclaim" in "1/s" "Pages reclaimed in the background by kswapd, and by programs themselves before they got memory.";
    Lines "only if any"; shows "mem.reclaim_rate" "mem.background_reclaim" "mem.direct_share" "mem.direct_reclaims" "mem.direct_scan_rate" "mem.reclaim_wait" "mem.reclaim_estimate" "mem.reclaim_p99";
    Vmstat, Machine {
        "background": of(vmstat::BACKGROUND_RECLAIM);
        "direct": of(vmstat::DIRECT_RECLAIM);
        "scanned in the background": of(vmstat::BACKGROUND_SCAN);
        "scanned directly": of(vmstat::DIRECT_SCAN);
    }

    "memory.compaction" "Compaction and huge pages" in "1/s" "Times a task compacted memory to get a large page, and huge pages that were split.";
    Lines "only if any"; shows "mem.compact_stalls" "mem.compact_failed" "mem.compaction_wait" "mem.huge_splits" "mem.huge_split" "mem.huge_split_share" "mem.huge_faults";
    Vmstat, Machine {
        "compactions": of(vmstat::COMPACTIONS);
        "failed": of(vmstat::FAILED_COMPACTIONS);
        "huge pages split": of(vmstat::HUGE_PAGES_SPLIT);
        "huge page faults": of(vmstat::HUGE_PAGE_FAULTS);
    }

    "memory.kills" "OOM kills" in "1/s" "Processes killed because memory ran out.";
    Lines "only if any"; shows "mem.oom_kills";
    Vmstat, Machine { "": of(vmstat::OOM_KILLS); }

    "memory.slab" "Kernel object caches" in "By" "Memory of the largest caches of kernel objects.";
    Lines; shows "mem.largest_cache_bytes" "mem.growing_cache_rate" "mem.fixed_slab_growth";
    Slab, Top(6) { "": level(bytes); }

    "memory.numa" "NUMA misses" in "1/s" "Pages allocated on a node although another was preferred, and pages moved between nodes.";
    Lines "only if any"; shows "node.foreign" "node.foreign_rate" "node.foreign_share" "node.remote_share" "mem.numa_migrated" "mem.numa_hints" "mem.numa_hints_remote" "mem.node_reclaims";
    Vmstat, Machine { "misses": of(vmstat::NUMA_MISSES); "migrated": of(vmstat::NUMA_MIGRATIONS); "hinting faults": of(vmstat::NUMA_HINTS); "failed reclaims of a node": of(vmstat::NODE_RECLAIM_FAILURES); }
    Node, Top(4) { "misses": of(node::MISSES); }
}
