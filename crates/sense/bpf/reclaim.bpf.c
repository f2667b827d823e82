/* Time in which tasks reclaim or compact memory themselves before they get some (include/trace/events/vmscan.h, compaction.h). The
 * kernel's own threads for that (kswapd, kcompactd) do not pass here. The reader is crates/sense/src/task/direct_reclaim.rs. */
#include "buckets.h"

struct task_struct {
	int pid, tgid;
	struct task_struct *group_leader;
	u64 start_boottime;
} CORE;
struct compact_control { _Bool direct_compaction; } CORE;

/* What a task does before it gets memory. The order of the kinds is that of struct own_work. */
enum { RECLAIM, LARGE_RECLAIM, GROUP_RECLAIM, COMPACTION, KINDS };

/* Blocks of a higher order are worth compaction to the kernel (PAGE_ALLOC_COSTLY_ORDER, include/linux/mmzone.h). */
#define COSTLY_ORDER 3

#define TASKS 16384
#define PROCESSES 8192
#define LATENCIES 32768

struct process_id { u64 start, pid; };
struct own_work { u64 ns[KINDS]; u64 times[KINDS]; };
struct begun { u64 ns, kind; };

/* The work of about the same length: see bucket_of. */
struct latency_key { struct process_id process; u32 kind, bucket; };
struct times { u64 count; };

MAP(begun, MAP_LRU_HASH, TASKS, u32, struct begun);
MAP(own_work, MAP_HASH, PROCESSES, struct process_id, struct own_work);
MAP(latencies, MAP_HASH, LATENCIES, struct latency_key, struct times);
/* Work that did not fit into the maps. */
MAP(lost, MAP_ARRAY, 1, u32, u64);

INLINE void count_lost(void)
{
	u64 *count = ONLY(lost);

	if (count)
		ADD(*count, 1);
}

/* None of these is done while another one is. */
INLINE int begin(u32 kind)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct begun work = { .ns = bpf_ktime_get_ns(), .kind = kind };

	bpf_map_update_elem(&begun, &tid, &work, ANY);
	return 0;
}

INLINE int end(void)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct begun *work = bpf_map_lookup_elem(&begun, &tid);
	struct task_struct *task = bpf_get_current_task_btf();

	/* It began before this was attached. */
	if (!work)
		return 0;
	u64 ns = bpf_ktime_get_ns() - work->ns;
	u32 kind = work->kind;
	struct process_id id = { .start = task->group_leader->start_boottime, .pid = task->tgid };
	struct latency_key key = { .process = id, .kind = kind, .bucket = bucket_of(ns) };
	struct own_work *all = FIND_OR_ADD(own_work, &id);
	struct times *latency = FIND_OR_ADD(latencies, &key);

	bpf_map_delete_elem(&begun, &tid);
	if (all && kind < KINDS) {
		ADD(all->ns[kind], ns);
		ADD(all->times[kind], 1);
	}
	if (latency)
		ADD(latency->count, 1);
	if (!all || !latency)
		count_lost();
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int mm_vmscan_direct_reclaim_begin(u64 *ctx)
{
	return begin((int)ctx[0] > COSTLY_ORDER ? LARGE_RECLAIM : RECLAIM);
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int mm_vmscan_direct_reclaim_end(u64 *ctx)
{
	return end();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int mm_vmscan_memcg_reclaim_begin(u64 *ctx)
{
	return begin(GROUP_RECLAIM);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int mm_vmscan_memcg_reclaim_end(u64 *ctx)
{
	return end();
}

/* Also kcompactd, and whoever writes to /proc/sys/vm/compact_memory, pass here. */
SEC("tp_btf/mm_compaction_begin")
int mm_compaction_begin(u64 *ctx)
{
	struct compact_control *control = (void *)ctx[0];

	return control->direct_compaction ? begin(COMPACTION) : 0;
}

SEC("tp_btf/mm_compaction_end")
int mm_compaction_end(u64 *ctx)
{
	return end();
}
