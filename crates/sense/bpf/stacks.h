/* Counts each distinct stack of an address space, for profile.bpf.c and offcpu.bpf.c. The reader is
 * crates/sense/src/profile/recorder.rs. */
#pragma once
#include "kernel.h"

static long (*bpf_get_stack)(void *ctx, void *to, u32 size, u64 flags) = (void *)67;

/* The default of kernel.perf_event_max_stack (Documentation/admin-guide/sysctl/kernel.rst); kernel stacks hardly get that deep. */
#define USER_DEPTH 127
#define KERNEL_DEPTH 64
#define STACKS 16384
#define ADDRESS_SPACES 8192

enum { KERNEL = 1, USER = 2 };      /* which parts of a stack to record */

struct mm_struct;
struct task_struct {
	u32 __state;
	int pid, tgid;
	struct mm_struct *mm;
	struct task_struct *group_leader;
	char comm[16];
} CORE;

/* Set by the reader. All zero: nothing is recorded. */
struct recording_filter { u32 parts, tgid; };
MAP(filter, MAP_ARRAY, 1, u32, struct recording_filter);

struct stack {
	u64 weight;
	u64 mm;                     /* identifies the address space; 0 for kernel threads */
	u32 tgid, kernel, user;     /* the last two: number of addresses */
	char comm[16];              /* the main thread's */
	u32 pad;
	/* Innermost first. */
	u64 kernel_at[KERNEL_DEPTH];
	u64 user_at[USER_DEPTH];
};
MAP(stacks, MAP_HASH, STACKS, u64, struct stack);

/* Too large for the BPF stack. */
MAP(scratch, MAP_PERCPU_ARRAY, 1, u32, struct stack);

/* Address spaces seen, and when first, so that their mappings can be read before they end. */
struct address_space { u64 mm; u64 tgid; };
MAP(address_spaces, MAP_HASH, ADDRESS_SPACES, struct address_space, u64);

struct totals { u64 idle, lost; };
MAP(totals, MAP_ARRAY, 1, u32, struct totals);

INLINE struct recording_filter *filter_for(u32 tgid)
{
	struct recording_filter *w = ONLY(filter);

	return w && w->parts && (!w->tgid || w->tgid == tgid) ? w : 0;
}

INLINE void count_idle(void)
{
	struct totals *t = ONLY(totals);

	if (t)
		ADD(t->idle, 1);
}

INLINE void count_lost(void)
{
	struct totals *t = ONLY(totals);

	if (t)
		ADD(t->lost, 1);
}

INLINE void note_address_space(struct stack *s)
{
	struct address_space space = { .mm = s->mm, .tgid = s->tgid };
	u64 now = bpf_ktime_get_ns();

	if (s->mm && !bpf_map_lookup_elem(&address_spaces, &space))
		bpf_map_update_elem(&address_spaces, &space, &now, NOEXIST);
}

/* Multiplication and shifts, as in MurmurHash3's 64-bit finalizer. */
INLINE u64 mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
	return hash ^ (hash >> 32);
}

INLINE u64 hash_of(struct stack *s)
{
	u64 hash = mix(s->mm, s->tgid);

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < KERNEL_DEPTH; i++) {
		if (i >= s->kernel)
			break;
		hash = mix(hash, s->kernel_at[i]);
	}
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < USER_DEPTH; i++) {
		if (i >= s->user)
			break;
		hash = mix(hash, s->user_at[i]);
	}
	return hash ? hash : 1;
}

/* The number of addresses that bpf_get_stack returned. */
INLINE u32 addresses(long bytes)
{
	return bytes > 0 ? (u32)bytes / 8 : 0;
}

/* The key of the current stack in the map; 0 if the map is full. `task` is the current task. */
INLINE u64 stack_of(void *ctx, struct task_struct *task, struct recording_filter *w)
{
	struct stack *s = ONLY(scratch);
	struct task_struct *leader = 0;

	if (!s)
		return 0;
	s->weight = 0;
	bpf_probe_read_kernel(&s->mm, sizeof s->mm, &task->mm);
	s->tgid = bpf_get_current_pid_tgid() >> 32;
	s->kernel = w->parts & KERNEL ? addresses(bpf_get_stack(ctx, s->kernel_at, sizeof s->kernel_at, 0)) : 0;
	/* A kernel thread may borrow an address space, in which it has no stack. */
	s->user = w->parts & USER && s->mm ?
		addresses(bpf_get_stack(ctx, s->user_at, sizeof s->user_at, USER_STACK)) : 0;
	u64 key = hash_of(s);

	if (bpf_map_lookup_elem(&stacks, &key))
		return key;
	bpf_probe_read_kernel(&leader, sizeof leader, &task->group_leader);
	bpf_probe_read_kernel(s->comm, sizeof s->comm, &leader->comm);
	note_address_space(s);
	bpf_map_update_elem(&stacks, &key, s, NOEXIST);
	return bpf_map_lookup_elem(&stacks, &key) ? key : 0;
}

INLINE void add(u64 key, u64 weight)
{
	struct stack *s = bpf_map_lookup_elem(&stacks, &key);

	if (s)
		ADD(s->weight, weight);
	else
		count_lost();
}
