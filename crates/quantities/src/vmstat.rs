//! Quantities of memory management (mm/vmstat.c). Pages are those of the machine.

use crate::declare::quantities;
use whyslow_model::catalogue::Vmstat;

quantities! { Vmstat;
    SWAPPED_IN = "mem.pages_swapped_in" "1/s" "pages read from swap", "/proc/vmstat" = rate(pswpin);
    SWAPPED_OUT = "mem.pages_swapped_out" "1/s" "pages written to swap", "/proc/vmstat" = rate(pswpout);
    PAGED_IN = "mem.paged_in" "bytes/s" "bytes read from block devices", "/proc/vmstat" = rate(pgpgin);
    PAGED_OUT = "mem.paged_out" "bytes/s" "bytes written to block devices", "/proc/vmstat" = rate(pgpgout);
    FAULTS = "mem.faults" "1/s" "page faults", "/proc/vmstat" = rate(pgfault);
    MAJOR_FAULTS = "mem.major_faults" "1/s" "page faults that had to read from a disk", "/proc/vmstat", normal "few, but when a program starts" = rate(pgmajfault);
    FILE_REFAULTS = "mem.file_refaults" "1/s" "file pages read again soon after they were reclaimed", "/proc/vmstat (mm/workingset.c)"
        = rate(workingset_refault_file);
    ANON_REFAULTS = "mem.anon_refaults" "1/s" "anonymous pages read again soon after they were reclaimed", "/proc/vmstat (mm/workingset.c)"
        = rate(workingset_refault_anon);
    BACKGROUND_RECLAIM = "mem.background_reclaim" "1/s" "pages reclaimed by kswapd", "/proc/vmstat" = rate(pgsteal_kswapd);
    DIRECT_RECLAIM = "mem.direct_reclaim" "1/s" "pages that tasks reclaimed before they got theirs", "/proc/vmstat" = rate(pgsteal_direct);
    BACKGROUND_SCAN = "mem.background_scan" "1/s" "pages scanned by kswapd", "/proc/vmstat" = rate(pgscan_kswapd);
    DIRECT_SCAN = "mem.direct_scan_rate" "1/s" "pages scanned by tasks that wanted memory", "/proc/vmstat", normal (near 0.0), better lower, baseline true
        = rate(pgscan_direct);
    COMPACTIONS = "mem.compactions" "1/s" "times a task compacted memory before it got its pages", "/proc/vmstat" = rate(compact_stall);
    FAILED_COMPACTIONS = "mem.failed_compactions" "1/s" "those that did not yield what was asked for", "/proc/vmstat" = rate(compact_fail);
    HUGE_PAGES_SPLIT = "mem.huge_pages_split" "1/s" "transparent huge pages split into small ones", "/proc/vmstat" = rate(thp_split_page);
    HUGE_PAGE_FAULTS = "mem.huge_page_faults" "1/s" "page faults that got a transparent huge page", "/proc/vmstat" = rate(thp_fault_alloc);
    OOM_KILLS = "mem.oom_kill_rate" "1/s" "processes killed for lack of memory", "/proc/vmstat" = rate(oom_kill);
    NUMA_MISSES = "mem.numa_misses" "1/s" "pages allocated on another node than asked for", "/proc/vmstat" = rate(numa_miss);
    NUMA_MIGRATIONS = "mem.numa_migrations" "1/s" "pages moved to the node that uses them", "/proc/vmstat" = rate(numa_pages_migrated);
    NUMA_HINTS = "mem.numa_hints" "1/s" "faults made to learn which node uses a page", "/proc/vmstat" = rate(numa_hint_faults);
    NODE_RECLAIM_FAILURES = "mem.node_reclaim_failures" "1/s" "times reclaim of one node yielded too little", "/proc/vmstat" = rate(zone_reclaim_failed);
}
