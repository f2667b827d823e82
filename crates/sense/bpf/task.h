/* The fields of tasks that are read (include/linux/sched.h, include/linux/sched/signal.h). */
#pragma once
#include "kernel.h"

struct upid { int nr; } CORE;
struct pid { u32 level; struct upid numbers[1]; } CORE;
struct sched_entity { u64 sum_exec_runtime; u64 nr_migrations; } CORE;
struct sched_info { u64 run_delay; } CORE;
struct task_io_accounting { u64 rchar, wchar, syscr, syscw, read_bytes, write_bytes, cancelled_write_bytes; } CORE;
struct task_delay_info { u64 blkio_delay, swapin_delay, freepages_delay; } CORE;
struct rlimit { u64 rlim_cur, rlim_max; } CORE;
struct prev_cputime { u64 utime, stime; } CORE;
struct list_head { struct list_head *next; } CORE;
struct signal_struct {
	struct list_head thread_head;
	struct { int counter; } live;
	int nr_threads;
	struct pid *pids[4];
	u64 utime, stime, cutime, cstime, sum_sched_runtime;
	u64 nvcsw, nivcsw, min_flt, maj_flt;
	struct task_io_accounting ioac;
	struct rlimit rlim[16];
	struct prev_cputime prev_cputime;
} CORE;
struct percpu_counter { s64 count; } CORE;
struct mm_struct {
	u64 total_vm;
	int map_count;
	struct { s64 counter; } pgtables_bytes;
	struct percpu_counter rss_stat[4];
} CORE;
/* Until Linux 6.2 the counters were atomic_long. */
struct atomic_long { s64 counter; } CORE;
struct mm_rss_stat { struct atomic_long count[4]; } CORE;
struct mm_struct___until_6_2 { struct mm_rss_stat rss_stat; } CORE;
struct fdtable { u32 max_fds; u64 *open_fds; } CORE;
struct files_struct { struct fdtable *fdt; } CORE;
struct kuid { u32 val; } CORE;
struct cred { struct kuid euid; } CORE;
struct kernfs_node { u64 id; } CORE;
struct cgroup { struct kernfs_node *kn; } CORE;
struct css_set { struct cgroup *dfl_cgrp; } CORE;
struct thread_info { u32 cpu; } CORE;
struct task_struct {
	struct list_head tasks, thread_node;
	u32 __state;
	int exit_state, prio, static_prio, pid, tgid;
	u32 flags, policy;
	struct thread_info thread_info;
	struct task_struct *real_parent, *group_leader;
	struct pid *thread_pid;
	struct sched_entity se;
	struct sched_info sched_info;
	u64 utime, stime, nvcsw, nivcsw, start_boottime, min_flt, maj_flt;
	struct prev_cputime prev_cputime;
	struct task_delay_info *delays;
	struct task_io_accounting ioac;
	struct mm_struct *mm;
	struct files_struct *files;
	struct signal_struct *signal;
	const struct cred *cred;
	struct css_set *cgroups;
	char comm[16];
} CORE;

enum { PIDTYPE_TGID = 1, RLIMIT_NPROC = 6, RLIMIT_NOFILE = 7 };
enum { MM_FILEPAGES, MM_ANONPAGES, MM_SWAPENTS, MM_SHMEMPAGES };

/* The number of a pid in the namespace at this depth; 0 if it has none. */
INLINE u64 number(struct pid *pid, u32 level)
{
	struct upid upid = {};

	if (!pid)
		return 0;
	bpf_probe_read_kernel(&upid, sizeof upid, (void *)__builtin_preserve_access_index(&pid->numbers[0]) +
		(u64)level * __builtin_preserve_type_info(*(struct upid *)0, 1));
	return (u32)upid.nr;
}
