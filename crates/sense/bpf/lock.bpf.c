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
struct wait { u64 lock; u64 tid; };
struct owner { u64 start; u64 pid; };
struct waited { u64 ns[KINDS]; u64 times; };
struct began { u64 at; u64 flags; };

struct { __uint(type, MAP_LRU_HASH); __uint(max_entries, WAITS); __type(key, struct wait); __type(value, struct began); } waits SEC(".maps");
struct { __uint(type, MAP_HASH); __uint(max_entries, PROCESSES); __type(key, struct owner); __type(value, struct waited); } waited SEC(".maps");

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
	struct wait wait = { .lock = ctx[0], .tid = (u32)bpf_get_current_pid_tgid() };
	struct began began = { .at = bpf_ktime_get_ns(), .flags = ctx[1] };

	/* A mutex that stops spinning and sleeps begins a second time: the first time counts. */
	bpf_map_update_elem(&waits, &wait, &began, NOEXIST);
	return 0;
}

SEC("tp_btf/contention_end")
int contention_end(u64 *ctx)
{
	struct wait wait = { .lock = ctx[0], .tid = (u32)bpf_get_current_pid_tgid() };
	struct began *began = bpf_map_lookup_elem(&waits, &wait);
	struct task_struct *task = bpf_get_current_task_btf();
	struct waited none = {};

	if (!began)
		return 0;
	u64 ns = bpf_ktime_get_ns() - began->at;
	u32 kind = kind_of(began->flags);
	struct owner owner = { .start = task->group_leader->start_boottime, .pid = task->tgid };
	struct waited *all = bpf_map_lookup_elem(&waited, &owner);

	bpf_map_delete_elem(&waits, &wait);
	if (!all) {
		bpf_map_update_elem(&waited, &owner, &none, NOEXIST);
		all = bpf_map_lookup_elem(&waited, &owner);
	}
	if (all && kind < KINDS) {
		ADD(all->ns[kind], ns);
		ADD(all->times, 1);
	}
	return 0;
}
