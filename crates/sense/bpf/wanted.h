/* What a blocked thread waits for, where one holder hands it on to the next: a futex, a semaphore of System V, a locked file. */
#pragma once
#include "stacks.h"
#include "syscall.h"

#define FUTEX_PRIVATE 128           /* FUTEX_PRIVATE_FLAG, include/uapi/linux/futex.h */
#define SEM_UNDO 0x1000             /* include/uapi/linux/sem.h */
#define SEMAPHORE (1ULL << 63)      /* This and the number of a set and of a semaphore: no address has it. */
#define FILES 65536                 /* What is larger is no file descriptor, but an address or the like. */
#define MOST_TASKS 4194304          /* PID_MAX_LIMIT, include/linux/threads.h */
#define POLLIN 1

struct sembuf { u16 number; s16 operation, flags; };
struct pollfd { s32 file; u16 events, answer; };
struct upid { s32 nr; } CORE;
struct pid { u32 level; struct upid numbers[1]; } CORE;
struct task_struct___pid { struct pid *thread_pid; } CORE;
struct inode;
struct file { struct inode *f_inode; } CORE;
struct fdtable { u32 max_fds; struct file **fd; } CORE;
struct files_struct { struct fdtable *fdt; } CORE;
struct task_struct___files { struct files_struct *files; } CORE;

/* The kinds of lock, for the reader, which looks up the holder. */
enum { NO_LOCK, MUTEX, WRITER, LOCKED_SEMAPHORE, LOCKED_FILE };

struct wanted {
	u64 what;                   /* 0 if it is nothing of the kind */
	u32 lock;                   /* whether that is a lock; what is not may be a queue or an event */
	u32 shared;                 /* whether other processes may hold it */
	s32 file;                   /* the file descriptor that it waits for; else -1 */
	u32 polled;                 /* the events, if it waits in poll(2) for one file only */
};

/* Whether this is the number of a thread of the current process, as it sees itself: threads come after the first one. */
INLINE u32 may_be_own_thread(struct task_struct *task, u32 number)
{
	struct task_struct *leader = READ(task, group_leader);
	struct pid *pid = READ((struct task_struct___pid *)leader, thread_pid);
	u64 numbers = (u64)pid + OFFSET(pid->numbers) + READ(pid, level) * 16ULL;   /* struct upid has a pointer behind its number. */
	s32 first = 0;

	bpf_probe_read_kernel(&first, sizeof first, (void *)numbers);
	return first > 0 && number >= (u32)first && number <= MOST_TASKS;
}

/* Whether it waits for a writer of a pthread_rwlock_t of glibc (nptl/pthread_rwlock_common.c), which notes the thread that writes 16
 * bytes behind the one futex word and 12 behind the other. Others that expect a 3 may be counting. */
INLINE u32 waits_for_writer(struct task_struct *task, struct syscall *call)
{
	enum { WAIT = 0, WAIT_BITSET = 9 };
	u32 command = call->second & 0x7f, writer = 0;

	if ((command != WAIT && command != WAIT_BITSET) || (u32)call->third != 3)
		return 0;
	if (!bpf_probe_read_user(&writer, sizeof writer, (void *)(call->first + 16)) && may_be_own_thread(task, writer))
		return 1;
	return !bpf_probe_read_user(&writer, sizeof writer, (void *)(call->first + 12)) && may_be_own_thread(task, writer);
}

INLINE u64 open_file(struct task_struct *task, u64 descriptor)
{
	struct files_struct *files = READ((struct task_struct___files *)task, files);
	struct fdtable *table = files ? READ(files, fdt) : 0;
	struct file **all = table && descriptor < READ(table, max_fds) ? READ(table, fd) : 0;
	struct file *file = 0;

	if (!all || bpf_probe_read_kernel(&file, sizeof file, all + descriptor) || !file)
		return 0;
	return (u64)READ(file, f_inode);
}

/* `task` is the current one, which is about to block in this system call. */
INLINE struct wanted wanted_by(struct task_struct *task, struct syscall *call)
{
	struct wanted wanted = { .shared = 1, .file = -1 };
	struct sembuf operation = {};
	struct pollfd polled = {};

	if (call->number == NO_SYSCALL)
		return wanted;
	if (is_futex(call)) {
		wanted.what = call->first;
		wanted.shared = !(call->second & FUTEX_PRIVATE);
		wanted.lock = wants_lock(call) ? MUTEX : waits_for_writer(task, call) ? WRITER : NO_LOCK;
		return wanted;
	}
	if (is_call(call, 7, NO_SYSCALL) || is_call(call, 271, 73)) {           /* poll, ppoll */
		if (call->second == 1 && !bpf_probe_read_user(&polled, sizeof polled, (void *)call->first)) {
			wanted.file = polled.file;
			wanted.polled = polled.events;
		}
		return wanted;
	}
	/* select(2) begins with a count. */
	if (is_call(call, 23, NO_SYSCALL) || is_call(call, 270, 72))
		return wanted;
	if (is_call(call, 65, 193) || is_call(call, 220, 192)) {                /* semop, semtimedop */
		/* What the kernel undoes when the process ends is held by it: a lock, and not a count of things to do. */
		bpf_probe_read_user(&operation, sizeof operation, (void *)call->second);
		wanted.what = SEMAPHORE | (u64)(u32)call->first << 16 | operation.number;
		wanted.lock = operation.operation < 0 && operation.flags & SEM_UNDO ? LOCKED_SEMAPHORE : NO_LOCK;
		return wanted;
	}
	wanted.file = call->first < FILES ? (s32)call->first : -1;
	if (is_call(call, 73, 32) || is_call(call, 72, 25)) {                   /* flock, fcntl */
		wanted.what = open_file(task, call->first);
		wanted.lock = wanted.what ? LOCKED_FILE : NO_LOCK;
	}
	return wanted;
}
