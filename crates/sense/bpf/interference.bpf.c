/* Which control group kept which other one waiting for a CPU: each wait on a run queue is charged to those who ran on that CPU
 * meanwhile. The reader is crates/sense/src/cgroup/interference.rs.
 *
 * Tasks of low priority, which mean to yield, wait for nobody; nor do those that their own CPU quota stopped meanwhile. The observer
 * keeps nobody waiting. */
#include "groups.h"

struct cfs_bandwidth { u64 throttled_time; } CORE;
struct task_group { struct cfs_bandwidth cfs_bandwidth; struct task_group *parent; } CORE;
struct task_struct {
	u32 __state;
	u32 flags;
	int pid, tgid;
	int static_prio;
	u32 policy;
	struct task_group *sched_task_group;
} CORE;

#define PF_KTHREAD 0x00200000       /* flags, include/linux/sched.h */
#define TASK_DEAD 0x80              /* __state, include/linux/sched.h */
#define SCHED_BATCH 3               /* policy, include/uapi/linux/sched.h */
#define SCHED_IDLE 5
#define BACKGROUND 130              /* static_prio of nice 10: from there on a task is taken for background work */
#define QUOTAS 6                    /* levels of the hierarchy whose quotas are looked at */
#define THREADS 32768
#define SPELLS 64                   /* a power of two */

/* A thread on a run queue. */
struct waiting {
	u64 since;
	u64 throttled;              /* by the quotas above it, until then */
};

/* What ran on a CPU lately: successive runs of one group are one spell. */
struct history {
	u64 since;                  /* of what runs now; 0 if that is not known */
	u64 next;
	u32 running, pad;
	struct { u64 until; u32 group, pad; } ran[SPELLS];
};

MAP(waiting_threads, MAP_HASH, THREADS, u32, struct waiting);
MAP(histories, MAP_PERCPU_ARRAY, 1, u32, struct history);
/* The process that reads this. */
MAP(observer, MAP_ARRAY, 1, u32, u32);

/* How long quotas have stopped the task's group and those above it, in all. */
INLINE u64 throttled(struct task_struct *task)
{
	struct task_group *group = task->sched_task_group;
	u64 ns = 0;

	if (!HAS(group->cfs_bandwidth.throttled_time))
		return 0;
#pragma clang loop unroll(disable)
	for (u32 level = 0; level < QUOTAS && group; level++) {
		ns += READ(group, cfs_bandwidth.throttled_time);
		group = READ(group, parent);
	}
	return ns;
}

INLINE u32 is_background(struct task_struct *task)
{
	return task->static_prio >= BACKGROUND || task->policy == SCHED_BATCH || task->policy == SCHED_IDLE;
}

INLINE void begin_waiting(struct task_struct *task, u64 now)
{
	struct waiting waiting = { .since = now };
	u32 tid = task->pid;

	u32 *own = ONLY(observer);

	if (!tid || task->flags & PF_KTHREAD || is_background(task) || !own || task->tgid == *own)
		return;
	waiting.throttled = throttled(task);
	bpf_map_update_elem(&waiting_threads, &tid, &waiting, ANY);
}

INLINE void end_spell(struct history *history, u64 now)
{
	u64 last = (history->next - 1) & (SPELLS - 1), at = history->next & (SPELLS - 1);

	if (history->next && history->ran[last].group == history->running) {
		history->ran[last].until = now;
		return;
	}
	history->ran[at].until = now;
	history->ran[at].group = history->running;
	history->next++;
}

/* Charges a wait to those who ran meanwhile; what is older than the spells that are remembered, to nobody. */
INLINE void charge_spells(struct history *history, u32 victim, u64 from, u64 now)
{
	u64 until = now;

#pragma clang loop unroll(disable)
	for (u64 i = 1; i < SPELLS && until > from; i++) {
		u64 at = (history->next - i) & (SPELLS - 1), before = (history->next - i - 1) & (SPELLS - 1);
		u64 since = history->ran[before].until;

		if (since < from || since > until)
			since = from;
		charge(victim, history->ran[at].group, until - since);
		until = since;
	}
	if (until > from)
		charge(victim, NOBODY, until - from);
}

/* The thread runs: until now it waited for this CPU. */
INLINE void end_waiting(struct history *history, struct task_struct *task, u64 now)
{
	u32 tid = task->pid;
	struct waiting *waiting = bpf_map_lookup_elem(&waiting_threads, &tid);

	if (!waiting)
		return;
	u64 from = waiting->since;

	if (throttled(task) != waiting->throttled)
		charge(history->running, history->running, now - from);
	else
		charge_spells(history, history->running, from, now);
	bpf_map_delete_elem(&waiting_threads, &tid);
}

SEC("tp_btf/sched_switch")
int sched_switch(u64 *ctx)
{
	struct task_struct *before = (void *)ctx[1], *after = (void *)ctx[2];
	struct history *history = ONLY(histories);
	u64 now = bpf_ktime_get_ns();
	u32 preempted = ctx[0] & 1, *own = ONLY(observer);

	if (!history || !own)
		return 0;
	if (history->since) {
		end_spell(history, now);
		use(history->running, now - history->since);
	}
	history->since = now;
	if (before->__state & TASK_DEAD) {
		u32 tid = before->pid;

		bpf_map_delete_elem(&waiting_threads, &tid);
	} else if (preempted || !before->__state) {
		begin_waiting(before, now);
	}
	if (!after->pid || after->tgid == *own) {
		history->running = NOBODY;
	} else if (after->flags & PF_KTHREAD) {
		history->running = KERNEL_THREADS;
	} else {
		struct group group = group_of(after);

		history->running = number_of(&group);
		end_waiting(history, after, now);
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int sched_waking(u64 *ctx)
{
	begin_waiting((void *)ctx[0], bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int sched_wakeup_new(u64 *ctx)
{
	begin_waiting((void *)ctx[0], bpf_ktime_get_ns());
	return 0;
}
