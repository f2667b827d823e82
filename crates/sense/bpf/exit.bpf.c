/* Processes that end, with what they used: no sample sees those that live shorter than an interval.
 *
 * Every thread passes tracepoint sched_process_exit (kernel/exit.c); the last one reports the process. Since Linux 6.16 that is
 * before its memory is freed, which can take a tenth of a second, so it reports again when it signals its parent, and the later
 * record wins, unless the parent ignores the signal. The scheduler updates the run time of a thread only at the next tick or
 * switch, which for a thread that lives a millisecond is most of it: sched_process_free, after the last switch, reports the total.
 * The records stay in a ring buffer until the next sample, without waking the reader, crates/sense/src/task/exits.rs. */
#include "used.h"

struct exit_record {
	/* The number in the first pid namespace identifies it in the final record. */
	u64 tgid, pid, start, parent, parent_start;
	struct used used;
	u64 run_delay, cutime, cstime;
	char comm[16];
};

struct final_record { u64 tgid, start, runtime; };

struct {
	__uint(type, MAP_RINGBUF);
	__uint(max_entries, 2 * 1024 * 1024);
} exits SEC(".maps");

/* Records lost because the ring buffer was full. */
MAP(lost, MAP_ARRAY, 1, u32, u64);

/* The depth of the observer's pid namespace, set by the observer. */
MAP(level, MAP_ARRAY, 1, u32, u32);

/* The record being made, here so that `add` finds it. */
MAP(scratch, MAP_PERCPU_ARRAY, 1, u32, struct exit_record);

/* Threads that end together, at most; the rest is left out. */
#define MOST_THREADS 256

#define SIGCHLD 17

/* Adds what a thread used to the record. */
APART int add(u64 address)
{
	struct task_struct *thread = (void *)address;
	struct exit_record *to = ONLY(scratch);

	if (!to)
		return 0;

	struct used *used = &to->used;
	struct io *io = &used->io;

	used->utime += READ(thread, utime);
	used->stime += READ(thread, stime);
	used->runtime += READ(thread, se.sum_exec_runtime);
	used->min_flt += READ(thread, min_flt);
	used->maj_flt += READ(thread, maj_flt);
	used->nvcsw += READ(thread, nvcsw);
	used->nivcsw += READ(thread, nivcsw);
	io->rchar += READ(thread, ioac.rchar);
	io->wchar += READ(thread, ioac.wchar);
	io->syscr += READ(thread, ioac.syscr);
	io->syscw += READ(thread, ioac.syscw);
	io->read_bytes += READ(thread, ioac.read_bytes);
	io->write_bytes += READ(thread, ioac.write_bytes);
	io->cancelled_write_bytes += READ(thread, ioac.cancelled_write_bytes);
	if (HAS(thread->sched_info.run_delay))
		to->run_delay += READ(thread, sched_info.run_delay);
	return 0;
}

/* Threads that end together all still exist: each is added to the sums of the process only when it is released. */
INLINE void add_threads(struct signal_struct *signal)
{
	struct task_struct *task = 0;
	struct list_head *head = (void *)signal + OFFSET(signal->thread_head);
	struct list_head *link = READ(head, next);

	for (int i = 0; i < MOST_THREADS && link && link != head; i++) {
		add((u64)link - OFFSET(task->thread_node));
		link = READ(link, next);
	}
}

INLINE void count_lost(void)
{
	u64 *count = ONLY(lost);

	if (count)
		ADD(*count, 1);
}

/* Reports a process if this is its last thread. For each pointer that is read from a trusted task directly, the verifier searches all
 * types of the kernel, which takes milliseconds at the start. */
INLINE int put_record(struct task_struct *task)
{
	struct signal_struct *signal = task->signal;
	struct task_struct *main = READ(task, group_leader), *parent = READ(task, real_parent);
	struct task_struct *parents_main = READ(parent, group_leader);
	struct signal_struct *parents_signal = READ(parent, signal);

	if (signal->live.counter > 0)
		return 0;
	struct exit_record *to = ONLY(scratch);
	if (!to)
		return 0;
	u32 *depth = ONLY(level);
	to->tgid = (u32)task->tgid;
	to->pid = number(signal->pids[PIDTYPE_TGID], depth ? *depth : 0);
	to->start = READ(main, start_boottime);
	to->parent = number(READ(parents_signal, pids[PIDTYPE_TGID]), depth ? *depth : 0);
	to->parent_start = READ(parents_main, start_boottime);
	put_used_by_ended(&to->used, signal);
	to->run_delay = 0;
	to->cutime = signal->cutime;
	to->cstime = signal->cstime;
	add_threads(signal);
	bpf_probe_read_kernel(to->comm, sizeof to->comm, main->comm);
	if (bpf_ringbuf_output(&exits, to, sizeof *to, RB_NO_WAKEUP))
		count_lost();
	return 0;
}

SEC("tp_btf/sched_process_exit")
int sched_process_exit(u64 *ctx)
{
	return put_record((void *)ctx[0]);
}

SEC("tp_btf/signal_generate")
int signal_generate(u64 *ctx)
{
	return (u32)ctx[0] == SIGCHLD ? put_record(bpf_get_current_task_btf()) : 0;
}

SEC("tp_btf/sched_process_free")
int sched_process_free(u64 *ctx)
{
	struct task_struct *main = (void *)ctx[0];
	u64 own = main->se.sum_exec_runtime, all = main->signal->sum_sched_runtime;

	if (main->pid != main->tgid)
		return 0;
	struct final_record *to = bpf_ringbuf_reserve(&exits, sizeof *to, 0);
	if (!to) {
		count_lost();
		return 0;
	}
	to->tgid = (u32)main->tgid;
	to->start = main->start_boottime;
	to->runtime = own > all ? own : all;
	bpf_ringbuf_submit(to, RB_NO_WAKEUP);
	return 0;
}
