/* Recognizes processes that have not run since the last sample, which most have not, so that they need no new record.
 *
 * Processes come in the same order as in the last sample, so both are walked in parallel. The order is by number, or by age, and
 * then new processes come last. */
#pragma once
#include "task.h"

/* The run time of a process with one thread at the last sample; one with several threads is marked as running. Another process with
 * the same number has another run time. */
struct mark { u64 runtime; u32 tid, state; };

/* Processes beyond these always get a full record. */
#define MARKS 32768

/* One half is for this sample, one for the last. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 2 * MARKS);
	__type(key, u32);
	__type(value, struct mark);
} marks SEC(".maps");

/* Samples begun; marks written in this one and in the last; the next mark of the last one. */
u32 reading, written, kept, next;

INLINE struct mark *mark_at(u32 of_reading, u32 at)
{
	u32 key = (of_reading % 2) * MARKS + at % MARKS;

	return bpf_map_lookup_elem(&marks, &key);
}

/* Whether the last sample has this mark. A gap longer than the loop is caught up with at the next tasks. */
APART int is_marked(u64 runtime, u32 tid, u32 state, u32 by_number)
{
	for (u32 i = 0; i < 64 && next < kept; i++) {
		struct mark *mark = mark_at(reading - 1, next);

		if (!mark || (by_number && mark->tid > tid))
			return 0;
		if (mark->tid == tid)
			return mark->runtime == runtime && mark->state == state;
		next++;
	}
	return 0;
}

/* Even an unchanged process gets a full record once in this many samples: others can reclaim its memory or move it to another cgroup.
 * A power of two; larger if there are many processes, so that no sample has far more than WHOLE such records. */
u32 whole_every;
#define WHOLE 512

INLINE u32 whole_every_for(u32 processes)
{
	u32 every = 8;

	for (u32 i = 0; i < 3 && every * WHOLE < processes; i++)
		every *= 2;
	return every;
}

INLINE void begin_reading(void)
{
	reading++;
	kept = written;
	written = next = 0;
	whole_every = whole_every_for(kept);
}

/* Whether a process with one thread has neither run nor been woken since the last sample, so that it cannot have created a second
 * thread: its signal_struct, in another cache line, is not read. */
INLINE int stands_still(struct task_struct *task, u32 tid, int by_number)
{
	struct mark now = { task->se.sum_exec_runtime, tid, task->__state };
	int still = now.state && is_marked(now.runtime, tid, now.state, by_number);

	if (!still && task->signal->nr_threads != 1)
		now.state = 0;

	struct mark *slot = written < MARKS ? mark_at(reading, written) : 0;

	if (slot) {
		*slot = now;
		written++;
	}
	return still && (tid + reading) & (whole_every - 1);
}
