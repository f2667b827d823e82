/* The record of a thread; that of a main thread is followed by the record of its process. An unchanged process has only its number.
 * The reader is crates/sense/src/task/record.rs. */
#pragma once
#include "used.h"

#define UNKNOWN (~0ULL)

/* In place of a record: tid is 0. */
struct unchanged_record { u64 pid, tid; };

struct thread_record {
	u64 pid, tid, start, state, exit_state, flags, static_prio, policy, cpu;
	struct used used;
	u64 run_delay, block_delay, swap_delay, reclaim_delay, migrations;
	/* Depth of the reader's pid namespace, the same in all records. */
	u64 level;
	char comm[16];
};

struct process_record {
	u64 parent, threads, euid, css_set, cgroup;
	/* Used by threads that have ended. */
	struct used ended;
	u64 cutime, cstime;
	u64 pages, page_table_bytes, mappings, rss_file, rss_anon, swap, rss_shmem;
	u64 files, files_limit, files_hard_limit, processes_limit;
};

struct record { struct thread_record thread; struct process_record process; };

/* The number of bits set in `words` words. */
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

/* Open files: the bits set in the table. The reader counts tables of more than 64 words. */
INLINE u64 open_files(struct task_struct *task)
{
	struct files_struct *files = task->files;
	struct fdtable *table = files ? files->fdt : 0;

	if (!table || table->max_fds > 64 * 64)
		return UNKNOWN;
	/* Read as a number instead of a pointer, which the verifier accepts. */
	return bits_set((u64)READ(table, open_fds), table->max_fds / 64);
}

INLINE void put_memory(struct process_record *to, struct mm_struct *mm)
{
	to->pages = to->page_table_bytes = to->mappings = UNKNOWN;
	to->rss_file = to->rss_anon = to->swap = to->rss_shmem = UNKNOWN;
	if (!mm)
		return;
	to->pages = mm->total_vm;
	to->page_table_bytes = mm->pgtables_bytes.counter;
	to->mappings = (u32)mm->map_count;
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
	put_used(&to->used, task);
	to->run_delay = HAS(task->sched_info.run_delay) ? task->sched_info.run_delay : UNKNOWN;
	to->block_delay = delays ? delays->blkio_delay : UNKNOWN;
	to->swap_delay = delays ? delays->swapin_delay : UNKNOWN;
	to->reclaim_delay = delays ? delays->freepages_delay : UNKNOWN;
	to->migrations = task->se.nr_migrations;
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
	put_used_by_ended(&to->ended, signal);
	to->cutime = signal->cutime;
	to->cstime = signal->cstime;
	put_memory(to, task->mm);
	to->files = open_files(task);
	to->files_limit = signal->rlim[RLIMIT_NOFILE].rlim_cur;
	to->files_hard_limit = signal->rlim[RLIMIT_NOFILE].rlim_max;
	to->processes_limit = signal->rlim[RLIMIT_NPROC].rlim_cur;
}
