/* Every task of the reader's pid namespace, one record each, in one read (BPF iterator `task`), or in one run of a program
 * that goes through them itself, which takes half the time.
 *
 * A record begins with what every thread has; the main thread's has its process' part behind it. Of a process that stands
 * still there is its number alone. The reader is crates/sense/src/task/record.rs. */
#include "marks.h"

struct seq_file;
struct bpf_iter_meta { struct seq_file *seq; u64 seq_num; } CORE;
struct bpf_iter__task { struct bpf_iter_meta *meta; struct task_struct *task; } CORE;

#define UNKNOWN (~0ULL)

/* In place of a record: tid is 0. */
struct still_record { u64 pid, tid; };

struct io {
	u64 rchar, wchar, syscr, syscw, read_bytes, write_bytes, cancelled_write_bytes;
};

struct thread_record {
	u64 pid, tid, start, state, exit_state, flags, static_prio, policy, cpu;
	u64 utime, stime, runtime, prev_utime, prev_stime;
	u64 run_delay, block_delay, swap_delay, reclaim_delay, migrations;
	u64 min_flt, maj_flt, nvcsw, nivcsw;
	struct io io;
	/* Depth of the reader's pid namespace, the same in all records. */
	u64 level;
	char comm[16];
};

struct process_record {
	u64 parent, threads, euid, css_set, cgroup;
	/* What the threads that have ended left behind. */
	u64 utime, stime, runtime, prev_utime, prev_stime, min_flt, maj_flt, nvcsw, nivcsw;
	struct io io;
	u64 cutime, cstime;
	u64 pages, rss_file, rss_anon, swap, rss_shmem;
	u64 files, files_limit, processes_limit;
};

INLINE u32 readers_level(void)
{
	struct task_struct *reader = bpf_get_current_task_btf();
	struct pid *pid = reader->thread_pid;

	return pid ? pid->level : 0;
}

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

/* Bits set in so many words at this address. */
APART u64 bits_set(u64 address, u32 words)
{
	u64 count = 0;

	for (u32 i = 0; i < 64 && i < words; i++) {
		u64 word = 0;

		bpf_probe_read_kernel(&word, sizeof word, (u64 *)address + i);
		word -= (word >> 1) & 0x5555555555555555ULL;
		word = (word & 0x3333333333333333ULL) + ((word >> 2) & 0x3333333333333333ULL);
		count += (((word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fULL) * 0x0101010101010101ULL) >> 56;
	}
	return count;
}

/* Open files: bits set in the table. A table of more than 64 words is left to the reader. */
INLINE u64 open_files(struct task_struct *task)
{
	struct files_struct *files = task->files;
	struct fdtable *table = files ? files->fdt : 0;

	if (!table || table->max_fds > 64 * 64)
		return UNKNOWN;
	/* Read so, it is a number and no pointer, which is what the verifier lets pass. */
	return bits_set((u64)READ(table, open_fds), table->max_fds / 64);
}

INLINE void put_memory(struct process_record *to, struct mm_struct *mm)
{
	to->pages = to->rss_file = to->rss_anon = to->swap = to->rss_shmem = UNKNOWN;
	if (!mm)
		return;
	to->pages = mm->total_vm;
	if (HAS(mm->rss_stat[0].count)) {
		to->rss_file = mm->rss_stat[MM_FILEPAGES].count;
		to->rss_anon = mm->rss_stat[MM_ANONPAGES].count;
		to->swap = mm->rss_stat[MM_SWAPENTS].count;
		to->rss_shmem = mm->rss_stat[MM_SHMEMPAGES].count;
	} else {
		struct mm_struct___until_6_2 *old = (void *)mm;

		to->rss_file = old->rss_stat.count[MM_FILEPAGES].counter;
		to->rss_anon = old->rss_stat.count[MM_ANONPAGES].counter;
		to->swap = old->rss_stat.count[MM_SWAPENTS].counter;
		to->rss_shmem = old->rss_stat.count[MM_SHMEMPAGES].counter;
	}
}

INLINE void put_thread(struct thread_record *to, struct task_struct *task, u32 level)
{
	struct task_delay_info *delays = task->delays;

	to->start = task->start_boottime;
	to->state = task->__state;
	to->exit_state = (u32)task->exit_state;
	to->flags = task->flags;
	to->static_prio = (u32)task->static_prio;
	to->policy = task->policy;
	to->cpu = task->thread_info.cpu;
	to->utime = task->utime;
	to->stime = task->stime;
	to->runtime = task->se.sum_exec_runtime;
	to->prev_utime = task->prev_cputime.utime;
	to->prev_stime = task->prev_cputime.stime;
	to->run_delay = HAS(task->sched_info.run_delay) ? task->sched_info.run_delay : UNKNOWN;
	to->block_delay = delays ? delays->blkio_delay : UNKNOWN;
	to->swap_delay = delays ? delays->swapin_delay : UNKNOWN;
	to->reclaim_delay = delays ? delays->freepages_delay : UNKNOWN;
	to->migrations = task->se.nr_migrations;
	to->min_flt = task->min_flt;
	to->maj_flt = task->maj_flt;
	to->nvcsw = task->nvcsw;
	to->nivcsw = task->nivcsw;
	put_io(&to->io, &task->ioac);
	to->level = level;
	bpf_probe_read_kernel(to->comm, sizeof to->comm, task->comm);
}

INLINE void put_process(struct process_record *to, struct task_struct *task, u32 level)
{
	struct signal_struct *signal = task->signal;
	struct css_set *groups = task->cgroups;

	to->parent = number(task->real_parent->signal->pids[PIDTYPE_TGID], level);
	to->threads = (u32)signal->nr_threads;
	to->euid = task->cred->euid.val;
	to->css_set = (u64)groups;
	to->cgroup = groups ? groups->dfl_cgrp->kn->id : 0;
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
	to->cutime = signal->cutime;
	to->cstime = signal->cstime;
	put_memory(to, task->mm);
	to->files = open_files(task);
	to->files_limit = signal->rlim[RLIMIT_NOFILE].rlim_cur;
	to->processes_limit = signal->rlim[RLIMIT_NPROC].rlim_cur;
}

/* A record is too large for the stack. */
struct record { struct thread_record thread; struct process_record process; };
struct {
	__uint(type, MAP_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct record);
} scratch SEC(".maps");

SEC("iter/task")
int task(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	u32 zero = 0, level = readers_level();
	struct record *record = bpf_map_lookup_elem(&scratch, &zero);

	if (!ctx->meta->seq_num)
		begin_reading();
	if (!task || !record)
		return 0;
	/* In the first namespace the task itself knows its numbers: two cache lines less. */
	u64 pid = level ? number(task->signal->pids[PIDTYPE_TGID], level) : (u32)task->tgid;
	u64 tid = level ? number(task->thread_pid, level) : (u32)task->pid;

	/* One that has just lost its numbers has gone. */
	if (!pid || !tid)
		return 0;
	if (pid == tid && stands_still(task, tid, 1)) {
		struct still_record still = { pid };

		bpf_seq_write(seq, &still, sizeof still);
		return 0;
	}
	record->thread.pid = pid;
	record->thread.tid = tid;
	put_thread(&record->thread, task, level);
	if (pid == tid) {
		put_process(&record->process, task, level);
		bpf_seq_write(seq, record, sizeof *record);
	} else {
		bpf_seq_write(seq, &record->thread, sizeof record->thread);
	}
	return 0;
}

/* What a walk writes; so many bytes of each are written. */
struct chunk { u64 length; u8 bytes[16 * 1024 - 8]; };
#define CHUNKS 128
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, CHUNKS);
	__type(key, u32);
	__type(value, struct chunk);
} chunks SEC(".maps");
/* As many processes are walked through: nothing else runs on this processor meanwhile. */
#define LONGEST_WALK 4096

/* The chunk that is written now, and processes met. In memory, for the verifier goes round a loop until what stands in
 * registers is as it was. */
u32 filling, met;

INLINE void *room_for(u32 size)
{
	u32 key = filling;
	struct chunk *chunk = bpf_map_lookup_elem(&chunks, &key);

	if (chunk && chunk->length > sizeof chunk->bytes - size) {
		key = ++filling;
		chunk = bpf_map_lookup_elem(&chunks, &key);
		if (chunk)
			chunk->length = 0;
	}
	if (!chunk)
		return 0;

	u64 length = chunk->length;

	if (length > sizeof chunk->bytes - size)
		return 0;
	chunk->length = length + size;
	return chunk->bytes + length;
}

/* The threads of a process but the main one. Whether there was room. */
INLINE int walk_threads(struct task_struct *process)
{
	struct bpf_iter_task threads;
	struct task_struct *task;
	int room = 1;

	/* The kernel wants to be sure of one that it is to begin with. */
	process = bpf_task_acquire(process);
	if (!process)
		return 1;
	bpf_iter_task_new(&threads, process, THREADS_OF);
	while ((task = bpf_iter_task_next(&threads))) {
		task = PLAIN(task);

		u32 pid = task->tgid, tid = task->pid;

		/* One that has just lost its numbers has gone. */
		if (tid == pid || !task->thread_pid)
			continue;

		struct thread_record *record = room_for(sizeof *record);

		if (!record) {
			room = 0;
			break;
		}
		record->pid = pid;
		record->tid = tid;
		put_thread(record, task, 0);
	}
	bpf_iter_task_destroy(&threads);
	bpf_task_release(process);
	return room;
}

/* Whether there was room for a process and its threads. */
INLINE int walk_process(struct task_struct *process, u32 tid)
{
	struct task_struct *task = PLAIN(process);

	if (stands_still(task, tid, 0)) {
		struct still_record *still = room_for(sizeof *still);

		if (!still)
			return 0;
		still->pid = tid;
		still->tid = 0;
		return 1;
	}
	if (!task->thread_pid)
		return 1;

	struct record *record = room_for(sizeof *record);

	if (!record)
		return 0;
	record->thread.pid = record->thread.tid = tid;
	put_thread(&record->thread, task, 0);
	put_process(&record->process, task, 0);
	return task->signal->nr_threads == 1 || walk_threads(process);
}

/* How many chunks are written in all; none where there are more processes than it walks through, no room for them, or where
 * the reader's pid namespace is not the first: the numbers in another are not so near. All are read whole after that. */
INLINE u32 walk(void)
{
	struct bpf_iter_task processes;
	struct task_struct *task;
	struct chunk *first;
	u32 zero = 0;
	int room = 1;

	first = bpf_map_lookup_elem(&chunks, &zero);
	if (!first || readers_level())
		return 0;
	filling = met = first->length = 0;
	begin_reading();
	bpf_iter_task_new(&processes, 0, ALL_PROCESSES);
	while ((task = bpf_iter_task_next(&processes))) {
		u32 tid = task->pid;

		/* The idle task. */
		if (!tid)
			continue;
		room = met++ < LONGEST_WALK && walk_process(task, tid);
		if (!room)
			break;
	}
	bpf_iter_task_destroy(&processes);
	if (room)
		return filling + 1;
	written = 0;
	return 0;
}

/* Called for one task, whichever. */
SEC("iter/task")
int once_task(struct bpf_iter__task *ctx)
{
	if (ctx->task) {
		u32 filled = walk();

		bpf_seq_write(ctx->meta->seq, &filled, sizeof filled);
	}
	return 0;
}
