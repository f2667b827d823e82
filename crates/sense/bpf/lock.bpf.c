/* Contention on the kernel's own locks by process and kind. Only waiting fires these tracepoints, so taking a free lock costs
 * nothing. The reader is crates/sense/src/task/kernel_locks.rs. */
#include "kernel.h"

struct task_struct {
	u32 flags;
	int pid, tgid;
	struct task_struct *group_leader;
	u64 start_boottime;
} CORE;

/* flags of contention_begin, include/trace/events/lock.h */
enum { SPIN = 1, READ = 2, WRITE = 4, RT = 8, PERCPU = 16, MUTEX = 32 };
enum { SPINNING, MUTEXES, READERS, WRITERS, OTHERS, KINDS };

#define WAITS 16384
#define PROCESSES 8192

/* By lock too: a CPU can wait for a spinlock in an interrupt while it waits for another. */
struct wait_key { u64 lock; u64 tid; };
struct lock_waiter { u64 start; u64 pid; };
struct lock_waits { u64 ns[KINDS]; u64 times; };
struct wait_start { u64 ns; u64 flags; };

MAP(waits, MAP_LRU_HASH, WAITS, struct wait_key, struct wait_start);
MAP(lock_waits, MAP_HASH, PROCESSES, struct lock_waiter, struct lock_waits);

INLINE u32 kind_of(u32 flags)
{
	if (flags & MUTEX)
		return MUTEXES;
	if (flags & READ)
		return READERS;
	if (flags & WRITE)
		return WRITERS;
	return flags & SPIN ? SPINNING : OTHERS;
}

SEC("tp_btf/contention_begin")
int contention_begin(u64 *ctx)
{
	struct wait_key key = { .lock = ctx[0], .tid = (u32)bpf_get_current_pid_tgid() };
	struct wait_start start = { .ns = bpf_ktime_get_ns(), .flags = ctx[1] };

	/* A mutex that stops spinning and sleeps begins a second time: the first time counts. */
	bpf_map_update_elem(&waits, &key, &start, NOEXIST);
	return 0;
}

SEC("tp_btf/contention_end")
int contention_end(u64 *ctx)
{
	struct wait_key key = { .lock = ctx[0], .tid = (u32)bpf_get_current_pid_tgid() };
	struct wait_start *start = bpf_map_lookup_elem(&waits, &key);
	struct task_struct *task = bpf_get_current_task_btf();

	if (!start)
		return 0;
	u64 ns = bpf_ktime_get_ns() - start->ns;
	u32 kind = kind_of(start->flags);
	struct lock_waiter waiter = { .start = task->group_leader->start_boottime, .pid = task->tgid };
	struct lock_waits *all = FIND_OR_ADD(lock_waits, &waiter);

	bpf_map_delete_elem(&waits, &key);
	if (all && kind < KINDS) {
		ADD(all->ns[kind], ns);
		ADD(all->times, 1);
	}
	return 0;
}
