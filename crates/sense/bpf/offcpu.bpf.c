/* Off-CPU time: the stack when a task blocks, and how long until it runs again. A preempted task waits only for a CPU and is not
 * counted. A kernel thread waits for work most of the time: unless it is the profiled process, only waits that count in the load
 * average are recorded. */
#include "stacks.h"

#define TASKS 65536
/* include/linux/sched.h */
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_DEAD 0x80      /* it never runs again */
#define TASK_NOLOAD 0x400

struct open_wait { u64 since, stack; };
MAP(waits, MAP_HASH, TASKS, u32, struct open_wait);

INLINE int waits_for_work(struct task_struct *task)
{
	return !task->mm && (task->__state & (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)) != TASK_UNINTERRUPTIBLE;
}

INLINE void switch_out(u64 *ctx, struct task_struct *task, u64 now)
{
	struct recording_filter *w = filter_for(task->tgid);
	u32 tid = task->pid;
	struct open_wait wait = { .since = now };

	if (!tid || !w || !task->__state || task->__state & TASK_DEAD)
		return;
	if (!w->tgid && waits_for_work(task))
		return;
	wait.stack = stack_of(ctx, task, w);
	if (!wait.stack || bpf_map_update_elem(&waits, &tid, &wait, ANY))
		count_lost();
}

INLINE void switch_in(struct task_struct *task, u64 now)
{
	u32 tid = task->pid;
	struct open_wait *wait = bpf_map_lookup_elem(&waits, &tid);

	if (!wait)
		return;
	add(wait->stack, now - wait->since);
	bpf_map_delete_elem(&waits, &tid);
}

SEC("tp_btf/sched_switch")
int sched_switch(u64 *ctx)
{
	struct task_struct *before = (void *)ctx[1], *after = (void *)ctx[2];
	u64 now = bpf_ktime_get_ns();

	switch_out(ctx, before, now);
	switch_in(after, now);
	return 0;
}
