/* One record for each task of the reader's pid namespace, in one read (BPF iterator `task`), or in several runs of a program that
 * walks the tasks itself, which takes half the time. */
#include "unchanged.h"
#include "record.h"

struct seq_file;
struct bpf_iter_meta { struct seq_file *seq; u64 seq_num; } CORE;
struct bpf_iter__task { struct bpf_iter_meta *meta; struct task_struct *task; } CORE;

INLINE u32 readers_level(void)
{
	struct task_struct *reader = bpf_get_current_task_btf();
	struct pid *pid = READ(reader, thread_pid);

	return pid ? READ(pid, level) : 0;
}

/* Too large for the BPF stack. */
MAP(scratch, MAP_PERCPU_ARRAY, 1, u32, struct record);

SEC("iter/task")
int task(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	u32 level = readers_level();
	struct record *record = ONLY(scratch);

	if (!ctx->meta->seq_num)
		begin_sample();
	if (!task || !record)
		return 0;
	/* In the first namespace the numbers are in the task itself: two cache lines less. */
	u64 pid = level ? number(task->signal->pids[PIDTYPE_TGID], level) : (u32)task->tgid;
	u64 tid = level ? number(task->thread_pid, level) : (u32)task->pid;

	/* Without a number it has just been released. */
	if (!pid || !tid)
		return 0;
	if (pid == tid && is_unchanged(task, tid, 1)) {
		struct unchanged_record unchanged = { pid };

		bpf_seq_write(seq, &unchanged, sizeof unchanged);
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

/* Output of a walk; `length` bytes are used. */
struct chunk { u64 length; u8 bytes[16 * 1024 - 8]; };
#define CHUNKS 128
MAP(chunks, MAP_ARRAY, CHUNKS, u32, struct chunk);
/* Processes per run; the next run continues. */
MAP(batch_size, MAP_ARRAY, 1, u32, u32);

/* The chunk being filled. In memory, as the verifier repeats a loop until the registers no longer change. */
u32 filling;

/* Processes walked in this sample, and the last of them: the next run continues after the newest one that still exists. */
#define RESUME_POINTS 16
u32 walked_processes;
struct resume_point { u64 at; u32 pid; } resume_points[RESUME_POINTS];

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

/* Whether there is room for a process and all its threads: at the end of a chunk, less than the longest record is unused. */
INLINE int has_room(struct task_struct *process)
{
	u64 left = CHUNKS - 1 - filling, each = sizeof(struct chunk) - 2 * sizeof(struct record);

	return left * each >= sizeof(struct record) + (u64)(u32)process->signal->nr_threads * sizeof(struct thread_record);
}

/* The outcome for a process. */
enum { WALKED, NO_ROOM, LOST };

/* The threads of a process except the main one. */
INLINE int walk_threads(struct task_struct *process, u32 pid)
{
	u64 head = (u64)process->signal + OFFSET(process->signal->thread_head);
	u64 link = (u64)READ((struct list_head *)head, next);
	struct bpf_iter_num threads;
	int walked = WALKED;

	bpf_iter_num_new(&threads, 0, 1 << 22);
	while (bpf_iter_num_next(&threads) && link != head) {
		struct task_struct *task = PLAIN((struct task_struct *)(link - OFFSET(process->thread_node)));
		u32 tid = task->pid;

		link = (u64)task->thread_node.next;
		/* Without a number it has just been released. */
		if (tid == pid || !task->thread_pid)
			continue;

		struct thread_record *record = room_for(sizeof *record);

		/* More threads than a moment ago. */
		if (!record) {
			walked = LOST;
			break;
		}
		record->pid = pid;
		record->tid = tid;
		put_thread(record, task, 0);
	}
	bpf_iter_num_destroy(&threads);
	return walked;
}

INLINE int walk_process(struct task_struct *process, u32 pid)
{
	if (is_unchanged(process, pid, 0)) {
		struct unchanged_record *unchanged = room_for(sizeof *unchanged);

		if (!unchanged)
			return NO_ROOM;
		unchanged->pid = pid;
		unchanged->tid = 0;
		return WALKED;
	}
	if (!process->thread_pid)
		return WALKED;
	if (!has_room(process))
		return NO_ROOM;

	struct record *record = room_for(sizeof *record);

	if (!record)
		return LOST;
	record->thread.pid = record->thread.tid = pid;
	put_thread(&record->thread, process, 0);
	put_process(&record->process, process, 0);
	return process->signal->nr_threads == 1 ? WALKED : walk_threads(process, pid);
}

/* The next process in the kernel's list. */
INLINE u64 behind(struct task_struct *process)
{
	struct task_struct *plain = PLAIN(process);

	return (u64)plain->tasks.next - OFFSET(process->tasks);
}

/* The first process: the one after the idle task, which heads the list and is the ancestor of all; 0 if the reader has too many
 * ancestors. */
INLINE u64 beginning(void)
{
	struct task_struct *process = bpf_get_current_task_btf();

	for (u32 i = 0; i < 64 && READ(process, pid); i++)
		process = READ(process, real_parent);
	return READ(process, pid) ? 0 : behind(process);
}

/* Where a run continues; 0 if all of the last processes have ended. While a program runs (under RCU), the list after a process that
 * ends stays as it was. */
INLINE u64 continuation(void)
{
	u64 next = 0;

	for (u32 i = 1; i <= RESUME_POINTS && i <= walked_processes && !next; i++) {
		struct resume_point *point = &resume_points[(walked_processes - i) % RESUME_POINTS];
		struct task_struct *process = bpf_task_from_pid(point->pid);

		if (!process)
			continue;
		/* Another process may have its number now. */
		if ((u64)PLAIN(process) == point->at)
			next = behind(process);
		bpf_task_release(process);
	}
	return next;
}

/* The outcome of a run: chunks written, 0 if the walk failed, and whether another run follows. After a failed walk all processes get
 * full records. */
struct run { u32 chunks, more; };

INLINE struct run walk(void)
{
	struct run run = {};
	struct bpf_iter_num processes;
	u64 next = walked_processes ? continuation() : beginning();
	u32 met = walked_processes, *batch = ONLY(batch_size);
	struct chunk *first = ONLY(chunks);
	int walked = WALKED;

	if (!walked_processes)
		begin_sample();
	/* In other namespaces than the first, the numbers are not in the task. */
	if (!first || !batch || !next || readers_level())
		goto lost;
	filling = first->length = 0;
	run.more = 1;
	bpf_iter_num_new(&processes, 0, *batch);
	while (bpf_iter_num_next(&processes)) {
		struct task_struct *process = PLAIN((struct task_struct *)next);
		u32 pid = process->pid;

		/* Back at the idle task. */
		if (!pid) {
			run.more = 0;
			break;
		}
		walked = walk_process(process, pid);
		if (walked != WALKED)
			break;

		struct resume_point *point = &resume_points[walked_processes++ % RESUME_POINTS];

		point->pid = pid;
		point->at = next;
		next = behind(process);
	}
	bpf_iter_num_destroy(&processes);
	/* A single process can have more threads than there is room for. */
	if (walked == LOST || (walked == NO_ROOM && met == walked_processes))
		goto lost;
	if (!run.more)
		walked_processes = 0;
	run.chunks = filling + 1;
	return run;
lost:
	walked_processes = written = 0;
	run.chunks = run.more = 0;
	return run;
}

/* Called for one arbitrary task. */
SEC("iter/task")
int once_task(struct bpf_iter__task *ctx)
{
	if (ctx->task) {
		struct run run = walk();

		bpf_seq_write(ctx->meta->seq, &run, sizeof run);
	}
	return 0;
}
