/* What threads wait for, on run queues and off the CPU, and why they migrate.
 *
 * A thread blocks (sched_switch), is woken by another (sched_waking), waits on a run queue, and runs again (sched_switch). User
 * space derives the reason from the kernel functions on its stack, and for futex(2) from the arguments of the system call.
 * The reader is crates/sense/src/task/sleep/. */
#include "buckets.h"
#include "syscall.h"

struct task_struct {
	u32 __state;
	u32 flags;
	int pid, tgid;
	struct task_struct *group_leader;
	u64 start_boottime;
} CORE;

#define TASK_INTERRUPTIBLE 0x1      /* __state, include/linux/sched.h */
#define TASK_DEAD 0x80
#define TASK_WAKING 0x200
#define FAST_COMPARE (1ULL << 9)    /* flags of bpf_get_stackid */
#define DEPTH 32

/* Threads tracked at a time; processes, wait sites and lock holders seen while this is loaded. */
#define THREADS 32768
#define PROCESSES 8192
#define WAIT_SITES 16384
#define HOLDERS 4096
#define LATENCIES 65536

struct task_id {
	u64 start;                  /* of the process or thread, nanoseconds since boot */
	u32 pid, tid;               /* tid is pid for a process */
};

/* A process, the stack with which its threads wait, and whether they wait for a lock. */
struct wait_site {
	struct task_id process;
	s32 stack;
	u32 lock;
};

/* Run queue waits of the threads of a process of about the same length: see bucket_of. */
struct latency_key { struct task_id process; u64 bucket; };

struct waited { u64 ns, times; };
struct migrations { u64 waking, running, queued; };

struct thread {
	u64 left;                   /* since when it is blocked, or 0 */
	u64 queued;                 /* since when it waits on a run queue, or 0 */
	struct wait_site site;
	struct syscall call;           /* the one that led to this site */
	/* The lock that it got last after a wait: its address, when, and who had kept it waiting most. */
	u64 got, acquired;
	struct task_id kept_by;
};

MAP(threads, MAP_HASH, THREADS, u32, struct thread);
MAP(wait_sites, MAP_HASH, WAIT_SITES, struct wait_site, struct waited);
MAP(lock_holders, MAP_HASH, HOLDERS, struct task_id, struct waited);
MAP(run_queue_waits, MAP_HASH, PROCESSES, struct task_id, struct waited);
MAP(migrations, MAP_HASH, PROCESSES, struct task_id, struct migrations);
MAP(latencies, MAP_HASH, LATENCIES, struct latency_key, u64);
struct {
	__uint(type, MAP_STACK_TRACE);
	__uint(max_entries, WAIT_SITES);
	__uint(key_size, sizeof(u32));
	__uint(value_size, DEPTH * sizeof(u64));
} stacks SEC(".maps");

/* Waits and migrations that did not fit into the maps. */
MAP(lost, MAP_ARRAY, 1, u32, u64);

struct latency { u64 count[BUCKETS(37)]; };
MAP(latency, MAP_PERCPU_ARRAY, 1, u32, struct latency);

INLINE struct task_id process_of(struct task_struct *task)
{
	struct task_id id = { .start = task->group_leader->start_boottime, .pid = task->tgid, .tid = task->tgid };

	return id;
}

INLINE void count_lost(void)
{
	u64 *count = ONLY(lost);

	if (count)
		ADD(*count, 1);
}

INLINE void add_waits(void *map, const void *key, u64 ns, u64 times)
{
	struct waited first = { .ns = ns, .times = times };
	struct waited *waited = bpf_map_lookup_elem(map, key);

	if (!waited) {
		if (!bpf_map_update_elem(map, key, &first, NOEXIST))
			return;
		waited = bpf_map_lookup_elem(map, key);
	}
	if (!waited) {
		count_lost();
		return;
	}
	ADD(waited->ns, ns);
	ADD(waited->times, times);
}

INLINE void add_wait(void *map, const void *key, u64 ns)
{
	add_waits(map, key, ns, 1);
}

INLINE void add_latency(struct task_id process, u64 bucket)
{
	struct latency_key key = { .process = process, .bucket = bucket };
	u64 first = 1, *count = bpf_map_lookup_elem(&latencies, &key);

	if (!count) {
		if (!bpf_map_update_elem(&latencies, &key, &first, NOEXIST))
			return;
		count = bpf_map_lookup_elem(&latencies, &key);
	}
	if (count)
		ADD(*count, 1);
	else
		count_lost();
}

/* The record of a thread, created if there is none. */
INLINE struct thread *thread_of(u32 tid)
{
	struct thread *thread = FIND_OR_ADD(threads, &tid);

	if (!thread)
		count_lost();
	return thread;
}

/* The stack of the thread. Walking it is what costs here, so a thread that waits in the same call as the last time, on the same file
 * or futex word and from the same instruction, is assumed to have the same stack. Not in uninterruptible sleep, which the same call
 * can enter for several reasons. */
INLINE s32 stack_of(u64 *ctx, struct task_struct *task, struct thread *thread, struct syscall *call)
{
	struct syscall *last = &thread->call;

	if (call->number != NO_SYSCALL && call->number == last->number && call->ip == last->ip &&
	    call->first == last->first && task->__state & TASK_INTERRUPTIBLE)
		return thread->site.stack;
	return bpf_get_stackid(ctx, &stacks, FAST_COMPARE);
}

/* The thread blocks or is preempted. */
INLINE void switch_out(u64 *ctx, struct task_struct *task, u64 now)
{
	u32 tid = task->pid, preempted = ctx[0] & 1;
	struct thread *thread;
	struct syscall call;

	if (!tid)
		return;
	if (task->__state & TASK_DEAD) {
		bpf_map_delete_elem(&threads, &tid);
		return;
	}
	thread = thread_of(tid);
	if (!thread)
		return;
	if (preempted || !task->__state) {
		thread->queued = now;
		return;
	}
	thread->queued = 0;
	thread->left = now;
	call = current_syscall(task, task->flags);
	thread->site.process = process_of(task);
	thread->site.lock = wants_lock(&call);
	thread->site.stack = stack_of(ctx, task, thread, &call);
	thread->call = call;
}

/* The thread runs again. */
INLINE void switch_in(struct task_struct *task, u64 now)
{
	u32 tid = task->pid;
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);
	struct latency *all = ONLY(latency);

	if (!tid || !thread || !all || !thread->queued)
		return;
	u64 waited = now - thread->queued;
	u64 bucket = bucket_of(waited);
	struct task_id id = process_of(task);

	thread->queued = 0;
	if (bucket < BUCKETS(37))
		all->count[bucket]++;
	add_wait(&run_queue_waits, &id, waited);
	add_latency(id, bucket);
}

SEC("tp_btf/sched_switch")
int sched_switch(u64 *ctx)
{
	u64 now = bpf_ktime_get_ns();

	switch_out(ctx, (void *)ctx[1], now);
	switch_in((void *)ctx[2], now);
	return 0;
}

/* A thread that releases a lock wakes the next one: the current thread held it. One that had waited for the same lock itself is
 * charged only from when it got it; what was before, to whoever kept that one waiting: a lock that is handed on from one to the
 * next was held up by the first. */
INLINE void charge_holders(struct thread *thread, struct task_struct *woken, u64 now)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct task_id id = { .start = waker->start_boottime, .pid = waker->tgid, .tid = waker->pid };
	u64 waited = now - thread->left, before = 0;
	u32 tid = waker->pid;

	if (waker->tgid != woken->tgid || waker->pid == woken->pid)
		return;
	struct thread *holder = bpf_map_lookup_elem(&threads, &tid);

	thread->got = thread->call.first;
	thread->acquired = now;
	thread->kept_by = id;
	if (holder && holder->got == thread->got && holder->acquired > thread->left) {
		struct task_id first = holder->kept_by;

		before = holder->acquired - thread->left;
		add_waits(&lock_holders, &first, before, 0);
		if (before > waited / 2)
			thread->kept_by = first;
	}
	add_wait(&lock_holders, &id, waited - before);
}

/* Unlike sched_wakeup, in the context of the waking thread. */
SEC("tp_btf/sched_waking")
int sched_waking(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tid = task->pid;
	u64 now = bpf_ktime_get_ns();
	struct thread *thread = thread_of(tid);

	if (!thread)
		return 0;
	if (thread->left && !(task->flags & PF_KTHREAD)) {
		add_wait(&wait_sites, &thread->site, now - thread->left);
		if (thread->site.lock)
			charge_holders(thread, task, now);
	}
	thread->left = 0;
	thread->queued = now;
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int sched_wakeup_new(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct thread *thread = thread_of(task->pid);

	if (thread)
		thread->queued = bpf_ktime_get_ns();
	return 0;
}

/* Whether the current task is the kernel's migration/N, which migrates running threads. */
INLINE u32 current_is_stopper(void)
{
	struct task_struct *mover = bpf_get_current_task_btf();
	char name[16] = {};

	bpf_get_current_comm(name, sizeof name);
	return mover->flags & PF_KTHREAD && name[0] == 'm' && name[1] == 'i' && name[2] == 'g' && name[9] == '/';
}

SEC("tp_btf/sched_migrate_task")
int sched_migrate_task(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct task_id id = process_of(task);

	if (task->flags & PF_KTHREAD)
		return 0;
	struct migrations *counts = FIND_OR_ADD(migrations, &id);

	if (!counts) {
		count_lost();
		return 0;
	}
	/* A thread that changes its own affinity sleeps until the stopper wakes it on another processor. */
	if (current_is_stopper())
		ADD(counts->running, 1);
	else if (task->__state == TASK_WAKING)
		ADD(counts->waking, 1);
	else
		ADD(counts->queued, 1);
	return 0;
}
