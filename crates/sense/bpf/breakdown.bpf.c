/* Where the time of the threads of watched processes goes: on a CPU, waiting for one, and blocked, by stack, system call, device and
 * who ended the wait. A thread is always in one of these states, so the times add up to the life of the thread.
 *
 * Children of watched processes may be watched from their birth. A clock samples what runs. The reader is
 * crates/sense/src/profile/breakdown/. */
#include "wanted.h"
#include "questions.h"

#define WATCHED 32768
#define THREADS 32768
#define SLICES 32768
#define SINGLED 64
#define TASK_DEAD 0x80      /* __state, include/linux/sched.h */

struct task_struct___flags { u32 flags; } CORE;
struct block_device { u32 bd_dev; } CORE;
struct bio { struct block_device *bi_bdev; } CORE;

/* What is done with a process, and its children. */
enum { ACCOUNT = 1, FOLLOW = 2 };
struct watch {
	u64 began;                  /* since when, CLOCK_MONOTONIC */
	u64 ended;                  /* its first thread, or 0 */
	u64 lived;                  /* ns that threads lived that have ended */
	u32 what;
	u32 born;                   /* threads since then */
	u32 root, pad;              /* itself, or the ancestor that the reader watches */
	char comm[16];              /* when its first thread ended */
};
MAP(watched, MAP_HASH, WATCHED, u32, struct watch);

enum { ON_CPU, QUEUED, BLOCKED, UNSEEN, SAMPLE_USER, SAMPLE_KERNEL };

struct thread {
	u64 born;                   /* or since when it is watched */
	u64 since;                  /* of this state */
	u64 stack;
	u64 on_cpu, queued, blocked;        /* ns so far */
	u32 tgid, state;
	u32 device;                 /* of the last bio it sent */
	s32 first;                  /* what struct wanted says of what it waits for: the file descriptor */
	u32 lock, polled, shared;
	u32 serves;                 /* It got a datagram before it sent one. */
	u64 wanted;
	/* What it got last after a wait: when, and who had kept it waiting most, with the stack in which that one let go. */
	u64 got, acquired, kept_stack;
	u32 kept_by, kept_by_thread;
	u32 peer, asked;            /* where it sent its last datagram, and whether it has had none since */
};
MAP(threads, MAP_HASH, THREADS, u32, struct thread);

/* Threads whose times are counted by themselves as well, and whether there are any. */
MAP(singled, MAP_HASH, SINGLED, u32, u32);
MAP(singles, MAP_ARRAY, 1, u32, u32);

/* Time of one kind. `other` is the process that ended a wait, or that had the CPU last; `other_thread` its thread, if it is one of the
 * same process that ended a wait for something that threads hand on. */
struct slice {
	u64 stack;
	u64 released;               /* the stack in which a lock was released that was waited for */
	u32 tgid, state;
	u32 other, other_thread;
	u32 device;
	s32 first;
	u32 flags;
	u32 thread;                 /* if it is singled out, else 0 */
	u32 peer;                   /* the destination that has not answered */
	u32 pad;
};
enum {
	INTERRUPT = 1,              /* the wait was ended in an interrupt of `other`, which may be none of its doing */
	LOCK = 2,                   /* it waited for a lock in user space */
	MAIN = 4,                   /* it is the first thread of its process */
	POLLS_IN = 8,               /* it waited in poll(2) for one file alone, to read from it */
	POLLS_OUT = 16,             /* the same, to write */
	SERVES = 32,                /* of `peer`, if it got a datagram first */
};
struct spent { u64 ns, times; };
MAP(slices, MAP_HASH, SLICES, struct slice, struct spent);

/* 1: nothing is counted any more, so that the reader sees all maps at one moment. */
MAP(stopped, MAP_ARRAY, 1, u32, u32);

/* How much time a tick of the clock stands for, ns. */
MAP(period, MAP_ARRAY, 1, u32, u64);

/* How deep each CPU is in interrupts. */
MAP(interrupts, MAP_PERCPU_ARRAY, 1, u32, u64);

/* Who ran on each CPU lately, and until when. */
#define RAN 16
struct history { u64 next; struct { u64 until; u32 tgid, pad; } ran[RAN]; };
MAP(histories, MAP_PERCPU_ARRAY, 1, u32, struct history);

INLINE u32 is_stopped(void)
{
	u32 *flag = ONLY(stopped);

	return !flag || *flag;
}

INLINE struct watch *watch_of(u32 tgid)
{
	return bpf_map_lookup_elem(&watched, &tgid);
}

/* `what` is zero once the process is not watched any more. */
INLINE struct watch *accounted(u32 tgid)
{
	struct watch *watch = watch_of(tgid);

	return watch && watch->what & ACCOUNT ? watch : 0;
}

INLINE u32 singled_out(u32 tid)
{
	u32 *any = ONLY(singles);

	return any && *any && bpf_map_lookup_elem(&singled, &tid) ? tid : 0;
}

INLINE void charge(struct slice *slice, u64 ns)
{
	struct spent *spent = FIND_OR_ADD(slices, slice);

	if (!spent) {
		count_lost();
		return;
	}
	ADD(spent->ns, ns);
	ADD(spent->times, 1);
}

/* A thread whose first event this is has been in this state since its process is watched. */
static APART struct thread *thread_of(struct task_struct *task, u32 state)
{
	u32 tid = task->pid;
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);
	struct watch *watch = thread ? 0 : accounted(task->tgid);
	struct thread first = { .tgid = task->tgid, .state = state };

	if (!watch)
		return thread;
	first.since = first.born = watch->began;
	bpf_map_update_elem(&threads, &tid, &first, NOEXIST);
	thread = bpf_map_lookup_elem(&threads, &tid);
	if (!thread)
		count_lost();
	return thread;
}

INLINE u64 elapsed(struct thread *thread, u64 now)
{
	return now > thread->since ? now - thread->since : 0;
}

/* The wait of a thread so far. */
INLINE struct slice wait_of(struct thread *thread, u32 tid)
{
	struct slice slice = { .tgid = thread->tgid, .state = thread->state, .stack = thread->stack, .device = thread->device,
		.first = thread->first, .thread = singled_out(tid), .peer = thread->asked ? thread->peer : 0,
		.flags = (thread->lock ? LOCK : 0) | (tid == thread->tgid ? MAIN : 0) };

	if (thread->polled)
		slice.flags |= thread->polled & POLLIN ? POLLS_IN : POLLS_OUT;
	if (slice.peer && thread->serves)
		slice.flags |= SERVES;
	/* What such a thread waited for is known to the reader by its number only. */
	if (thread->state == UNSEEN)
		slice.first = tid;
	return slice;
}

/* The thread stops running: it blocks, is preempted, or ends. */
INLINE void switch_out(u64 *ctx, struct task_struct *task, u64 now)
{
	struct recording_filter whole = { .parts = KERNEL | USER };
	u32 tid = task->pid, preempted = ctx[0] & 1;
	struct thread *thread = thread_of(task, ON_CPU);

	if (!thread)
		return;
	u64 ran = elapsed(thread, now);
	struct slice slice = { .tgid = thread->tgid, .state = ON_CPU, .thread = singled_out(tid) };

	charge(&slice, ran);
	thread->on_cpu += ran;
	thread->since = now;
	if (task->__state & TASK_DEAD) {
		struct watch *watch = watch_of(thread->tgid);

		if (watch)
			ADD(watch->lived, now - thread->born);
		if (watch && task->pid == task->tgid) {
			watch->ended = now;
			bpf_probe_read_kernel(watch->comm, sizeof watch->comm, &task->comm);
		}
		bpf_map_delete_elem(&threads, &tid);
		return;
	}
	if (preempted || !task->__state) {
		thread->state = QUEUED;
		return;
	}
	struct syscall call = current_syscall(task, ((struct task_struct___flags *)task)->flags);
	struct wanted wanted = wanted_by(task, &call);

	thread->state = BLOCKED;
	thread->first = wanted.file;
	thread->lock = wanted.lock;
	thread->polled = wanted.polled;
	thread->shared = wanted.shared;
	thread->wanted = wanted.what;
	thread->stack = stack_of(ctx, task, &whole);
}

INLINE void note_run(struct task_struct *task, u64 now)
{
	struct history *history = ONLY(histories);

	if (!history)
		return;
	u64 at = history->next++ & (RAN - 1);

	history->ran[at].until = now;
	history->ran[at].tgid = task->tgid;
}

/* Charges a wait for this CPU to those who ran on it meanwhile; the beginning of a long one to the first of them that is known. */
INLINE void charge_runs(u32 tgid, u32 tid, u64 from, u64 now)
{
	struct history *history = ONLY(histories);
	struct slice slice = { .tgid = tgid, .state = QUEUED, .thread = singled_out(tid) };
	u64 until = now;

	if (!history)
		return;
#pragma clang loop unroll(disable)
	for (u64 i = 1; i <= RAN; i++) {
		u64 at = (history->next - i) & (RAN - 1), before = (history->next - i - 1) & (RAN - 1);
		u64 since = history->ran[before].until;

		if (i == RAN || since < from || since > until)
			since = from;
		slice.other = history->ran[at].tgid;
		charge(&slice, until - since);
		until = since;
		if (until <= from)
			break;
	}
}

/* The thread runs: until now it waited for this CPU. One that is still blocked was woken unseen. */
INLINE void switch_in(struct task_struct *task, u64 now)
{
	struct thread *thread = thread_of(task, QUEUED);

	if (!thread)
		return;
	u64 waited = elapsed(thread, now);

	if (thread->state == QUEUED) {
		charge_runs(thread->tgid, task->pid, now - waited, now);
		thread->queued += waited;
	} else if (thread->state != ON_CPU) {
		struct slice slice = wait_of(thread, task->pid);

		charge(&slice, waited);
		thread->blocked += waited;
	}
	thread->since = now;
	thread->state = ON_CPU;
}

SEC("tp_btf/sched_switch")
int sched_switch(u64 *ctx)
{
	struct task_struct *before = (void *)ctx[1], *after = (void *)ctx[2];
	u64 now = bpf_ktime_get_ns(), *depth = ONLY(interrupts);

	if (is_stopped())
		return 0;
	/* No interrupt switches tasks: one whose end was missed, as it was entered while this was being attached, ends here. */
	if (depth)
		*depth = 0;
	note_run(before, now);
	if (before->pid)
		switch_out(ctx, before, now);
	if (after->pid)
		switch_in(after, now);
	return 0;
}

/* Charges a wait for a lock to its holder, which is who ended it. A holder that had waited for the same lock itself is charged only
 * from when it got it; what was before, to whoever kept that one waiting: a lock that is handed on from one to the next was held up by
 * the first. */
INLINE void charge_holders(struct thread *thread, struct slice *slice, u64 waited, u64 now)
{
	u32 tid = slice->other_thread ? slice->other_thread : slice->other;
	struct thread *holder = bpf_map_lookup_elem(&threads, &tid);
	u64 before = 0;

	thread->got = thread->wanted;
	thread->acquired = now;
	thread->kept_by = slice->other;
	thread->kept_by_thread = slice->other_thread;
	thread->kept_stack = slice->released;
	if (holder && holder->got == thread->wanted && holder->acquired > thread->since && holder->kept_by) {
		struct slice first = *slice;

		before = holder->acquired - thread->since;
		first.other = holder->kept_by;
		first.other_thread = holder->kept_by_thread;
		first.released = holder->kept_stack;
		charge(&first, before);
		if (before > waited / 2) {
			thread->kept_by = first.other;
			thread->kept_by_thread = first.other_thread;
			thread->kept_stack = first.released;
		}
	}
	charge(slice, waited - before);
}

/* In the context of the waking thread, or of an interrupt. */
SEC("tp_btf/sched_waking")
int sched_waking(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0], *waker = bpf_get_current_task_btf();
	struct thread *thread = is_stopped() ? 0 : thread_of(task, UNSEEN);
	u64 now = bpf_ktime_get_ns(), *depth = ONLY(interrupts);

	if (!thread || thread->state == QUEUED || thread->state == ON_CPU)
		return 0;
	struct recording_filter user = { .parts = USER };
	u32 in_interrupt = depth && *depth;
	u64 waited = elapsed(thread, now);
	struct slice slice = wait_of(thread, task->pid);

	slice.other = waker->tgid;
	if (in_interrupt)
		slice.flags |= INTERRUPT;
	if (thread->wanted && waker->tgid == task->tgid)
		slice.other_thread = waker->pid;
	/* A signal, not a holder, ends a wait for a lock from outside of the process. */
	if (thread->lock && waker->tgid != task->tgid && !thread->shared)
		slice.other = 0;
	if (thread->lock && slice.other && !in_interrupt)
		slice.released = stack_of(ctx, waker, &user);
	if (thread->wanted && (thread->lock || thread->shared) && slice.other && !in_interrupt)
		charge_holders(thread, &slice, waited, now);
	else
		charge(&slice, waited);
	thread->blocked += waited;
	thread->since = now;
	thread->state = QUEUED;
	return 0;
}

SEC("tp_btf/sched_process_fork")
int sched_process_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	struct watch *watch = watch_of(parent->tgid);
	struct watch both = { .began = bpf_ktime_get_ns(), .what = ACCOUNT | FOLLOW };
	u32 tgid = child->tgid;

	/* Children of the reader itself, which is not accounted, are watched for their own sake. */
	if (watch)
		both.root = watch->what & ACCOUNT ? watch->root : tgid;
	if (watch && watch->what & FOLLOW && child->tgid != parent->tgid)
		if (bpf_map_update_elem(&watched, &tgid, &both, ANY))
			count_lost();
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int sched_wakeup_new(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct watch *watch = is_stopped() ? 0 : accounted(task->tgid);
	u32 tid = task->pid;
	u64 now = bpf_ktime_get_ns();
	struct thread thread = { .born = now, .since = now, .tgid = task->tgid, .state = QUEUED };

	if (!watch)
		return 0;
	ADD(watch->born, 1);
	if (bpf_map_update_elem(&threads, &tid, &thread, ANY))
		count_lost();
	return 0;
}

SEC("tp_btf/block_bio_queue")
int block_bio_queue(u64 *ctx)
{
	struct bio *bio = (void *)ctx[0];
	u32 tid = bpf_get_current_pid_tgid();
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);

	if (thread)
		thread->device = bio->bi_bdev->bd_dev;
	return 0;
}

INLINE void enter_interrupt(void)
{
	u64 *depth = ONLY(interrupts);

	if (depth)
		++*depth;
}

INLINE void leave_interrupt(void)
{
	u64 *depth = ONLY(interrupts);

	/* The first may have been entered before this was attached. */
	if (depth && *depth)
		--*depth;
}

#define COUNTS(entry, exit) \
	SEC("tp_btf/" #entry) int entry(u64 *ctx) { enter_interrupt(); return 0; } \
	SEC("tp_btf/" #exit) int exit(u64 *ctx) { leave_interrupt(); return 0; }

COUNTS(irq_handler_entry, irq_handler_exit)
COUNTS(softirq_entry, softirq_exit)
COUNTS(hrtimer_expire_entry, hrtimer_expire_exit)

/* From Linux 6.4 on: what a thread has sent and received over UDP. */
SEC("tp_btf/sock_send_length")
int optional_sock_send_length(u64 *ctx)
{
	struct sock *socket = (void *)ctx[0];
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = is_stopped() || !is_udp(socket) ? 0 : thread_of(task, ON_CPU);

	if (!thread || (s32)ctx[1] < 0)
		return 0;
	struct syscall call = current_syscall(task, ((struct task_struct___flags *)task)->flags);

	thread->peer = destination_of(socket, &call);
	thread->asked = thread->peer != 0;
	return 0;
}

SEC("tp_btf/sock_recv_length")
int optional_sock_recv_length(u64 *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct thread *thread = is_udp((void *)ctx[0]) ? bpf_map_lookup_elem(&threads, &tid) : 0;

	if (!thread || (s32)ctx[1] < 0)
		return 0;
	thread->serves |= !thread->peer;
	thread->asked = 0;
	return 0;
}

/* What runs, at each tick of the clock. */
SEC("perf_event")
int tick(void *ctx)
{
	struct recording_filter whole = { .parts = KERNEL | USER };
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct slice slice = { .tgid = tgid, .state = SAMPLE_USER, .thread = singled_out(bpf_get_current_pid_tgid()) };
	u64 *stands_for = ONLY(period);

	if (!tgid || is_stopped() || !accounted(tgid))
		return 0;
	slice.stack = stack_of(ctx, (void *)bpf_get_current_task(), &whole);
	struct stack *stack = bpf_map_lookup_elem(&stacks, &slice.stack);

	if (stack && stack->kernel)
		slice.state = SAMPLE_KERNEL;
	charge(&slice, stands_for ? *stands_for : 0);
	return 0;
}
