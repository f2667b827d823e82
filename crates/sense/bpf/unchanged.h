/* Recognizes processes that have not run since the last sample, which most have not, so that they need no new record.
 *
 * Processes come in the same order as in the last sample, so both are walked in parallel. The order is by number, or by age, and
 * then new processes come last. */
#pragma once
#include "task.h"

/* The run time of a process with one thread at the last sample; one with several threads counts as running. Another process with
 * the same number has another run time. */
struct last_run { u64 runtime; u32 tid, state; };

/* Processes beyond these always get a full record. */
#define LAST_RUNS 32768

/* One half is for this sample, one for the last. */
MAP(last_runs, MAP_ARRAY, 2 * LAST_RUNS, u32, struct last_run);

/* Samples begun; entries written in this one and in the last; the next entry to compare. */
u32 sample, written, written_before, cursor;

INLINE struct last_run *last_run_at(u32 of_sample, u32 at)
{
	u32 key = (of_sample % 2) * LAST_RUNS + at % LAST_RUNS;

	return bpf_map_lookup_elem(&last_runs, &key);
}

/* Whether the last sample has the same entry. A gap longer than the loop is caught up with at the next tasks. */
APART int is_in_last_sample(u64 runtime, u32 tid, u32 state, u32 by_number)
{
	for (u32 i = 0; i < 64 && cursor < written_before; i++) {
		struct last_run *run = last_run_at(sample - 1, cursor);

		if (!run || (by_number && run->tid > tid))
			return 0;
		if (run->tid == tid)
			return run->runtime == runtime && run->state == state;
		cursor++;
	}
	return 0;
}

/* Even an unchanged process gets a full record once in this many samples: others can reclaim its memory or move it to another cgroup.
 * A power of two; larger if there are many processes, so that no sample has far more than FULL_RECORDS such records. */
u32 full_every;
#define FULL_RECORDS 512

INLINE u32 full_every_for(u32 processes)
{
	u32 every = 8;

	for (u32 i = 0; i < 3 && every * FULL_RECORDS < processes; i++)
		every *= 2;
	return every;
}

INLINE void begin_sample(void)
{
	sample++;
	written_before = written;
	written = cursor = 0;
	full_every = full_every_for(written_before);
}

/* Whether a process with one thread has neither run nor been woken since the last sample, so that it cannot have created a second
 * thread: its signal_struct, in another cache line, is not read. */
INLINE int is_unchanged(struct task_struct *task, u32 tid, int by_number)
{
	struct last_run now = { task->se.sum_exec_runtime, tid, task->__state };
	int unchanged = now.state && is_in_last_sample(now.runtime, tid, now.state, by_number);

	if (!unchanged && task->signal->nr_threads != 1)
		now.state = 0;

	struct last_run *slot = written < LAST_RUNS ? last_run_at(sample, written) : 0;

	if (slot) {
		*slot = now;
		written++;
	}
	return unchanged && (tid + sample) & (full_every - 1);
}
