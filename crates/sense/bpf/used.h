/* What tasks have used: part of the records of running and of ended tasks. */
#pragma once
#include "task.h"

struct io {
	u64 rchar, wchar, syscr, syscw, read_bytes, write_bytes, cancelled_write_bytes;
};

/* The reader is `Used` of crates/sense/src/task/record.rs. */
struct used {
	u64 utime, stime, runtime, prev_utime, prev_stime;
	u64 min_flt, maj_flt, nvcsw, nivcsw;
	struct io io;
};

INLINE void put_io(struct io *to, struct task_io_accounting *io)
{
	to->rchar = io->rchar;
	to->wchar = io->wchar;
	to->syscr = io->syscr;
	to->syscw = io->syscw;
	to->read_bytes = io->read_bytes;
	to->write_bytes = io->write_bytes;
	to->cancelled_write_bytes = io->cancelled_write_bytes;
}

/* By a thread. */
INLINE void put_used(struct used *to, struct task_struct *task)
{
	to->utime = task->utime;
	to->stime = task->stime;
	to->runtime = task->se.sum_exec_runtime;
	to->prev_utime = task->prev_cputime.utime;
	to->prev_stime = task->prev_cputime.stime;
	to->min_flt = task->min_flt;
	to->maj_flt = task->maj_flt;
	to->nvcsw = task->nvcsw;
	to->nivcsw = task->nivcsw;
	put_io(&to->io, &task->ioac);
}

/* By those threads of a process that have ended. */
INLINE void put_used_by_ended(struct used *to, struct signal_struct *signal)
{
	to->utime = signal->utime;
	to->stime = signal->stime;
	to->runtime = signal->sum_sched_runtime;
	to->prev_utime = signal->prev_cputime.utime;
	to->prev_stime = signal->prev_cputime.stime;
	to->min_flt = signal->min_flt;
	to->maj_flt = signal->maj_flt;
	to->nvcsw = signal->nvcsw;
	to->nivcsw = signal->nivcsw;
	put_io(&to->io, &signal->ioac);
}
