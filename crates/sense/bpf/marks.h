/* Who has not run since the last reading: most do not, and what they are need not be put together again.
 *
 * Processes come in the same order as at the last reading: the two are walked side by side. That order is of their numbers, or
 * of their age; then those that are new come last. */
#pragma once
#include "task.h"

/* What a process of one thread had run when it was read; one of several threads is marked as running. Another one with its
 * number has not run just as long. */
struct mark { u64 runtime; u32 tid, state; };

/* As many are marked; who comes after them is always read whole. */
#define MARKS 32768

/* Half of it is of this reading, half of the last. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 2 * MARKS);
	__type(key, u32);
	__type(value, struct mark);
} marks SEC(".maps");

/* Readings begun; marks written in this one and in the last; where the last one's stand that are still to come. */
u32 reading, written, kept, next;

INLINE struct mark *mark_at(u32 of_reading, u32 at)
{
	u32 key = (of_reading % 2) * MARKS + at % MARKS;

	return bpf_map_lookup_elem(&marks, &key);
}

/* Whether the last reading has this mark. A gap longer than the loop is made up for at the next tasks. */
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

/* In one reading of so many even who stands still is read: others can take its memory, or move it to another group. A power of
 * two; more where there are many, so that no reading has far more than this number of them. */
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

/* Whether a process of one thread has neither run nor been woken since the last reading, and so has made no second one:
 * its signal_struct, far from what was read so far, is left alone. */
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
