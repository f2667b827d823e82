/* The system call that the current thread is in. */
#pragma once
#include "kernel.h"

static void *(*bpf_task_pt_regs)(void *task) = (void *)175;

/* Registers with which user space entered the kernel: x86-64, and arm64. */
struct pt_regs { u64 di, si, dx, r8, ip, orig_ax; } CORE;
struct pt_regs___arm { u64 regs[31]; u64 pc; s32 syscallno; } CORE;

#define PF_KTHREAD 0x00200000       /* flags, include/linux/sched.h */
#define NO_SYSCALL (~0ULL)

/* Its number (-1 in a page fault and the like), instruction pointer and some arguments. */
struct syscall { u64 number, ip, first, second, third, fifth; };

/* `task` is the current one, and `flags` are its own. */
INLINE struct syscall current_syscall(void *task, u32 flags)
{
	struct syscall call = { .number = NO_SYSCALL };
	struct pt_regs *regs;

	if (flags & PF_KTHREAD)
		return call;
	regs = bpf_task_pt_regs(task);
	struct pt_regs___arm *arm = (void *)regs;

	if (HAS(regs->orig_ax)) {
		call.number = regs->orig_ax;
		call.ip = regs->ip;
		call.first = regs->di;
		call.second = regs->si;
		call.third = regs->dx;
		call.fifth = regs->r8;
	} else if (HAS(arm->syscallno)) {
		call.number = (u64)(s64)arm->syscallno;
		call.ip = arm->pc;
		call.first = arm->regs[0];
		call.second = arm->regs[1];
		call.third = arm->regs[2];
		call.fifth = arm->regs[4];
	}
	return call;
}

/* Whether these arguments of futex(2) are those of a contended lock, as in crates/sense/src/task/system_call.rs. */
INLINE u32 is_lock(u32 operation, u32 expected)
{
	enum { WAIT = 0, LOCK_PI = 6, WAIT_BITSET = 9, LOCK_PI2 = 13 };
	u32 command = operation & 0x7f;

	if (command == WAIT || command == WAIT_BITSET)
		return expected == 2 || expected == 0x80000010 || expected == 0x7fffffff;
	return command == LOCK_PI || command == LOCK_PI2;
}

/* By its numbers on x86-64 and on arm64, which lacks some; nothing has the number NO_SYSCALL. */
INLINE u32 is_call(struct syscall *call, u64 x86, u64 arm)
{
	struct pt_regs *regs = 0;

	return call->number != NO_SYSCALL && call->number == (HAS(regs->orig_ax) ? x86 : arm);
}

INLINE u32 is_futex(struct syscall *call)
{
	return is_call(call, 202, 98);
}

INLINE u32 wants_lock(struct syscall *call)
{
	return is_futex(call) && is_lock(call->second, call->third);
}
