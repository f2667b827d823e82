/* The page cache: who looks for pages and finds them, who waits for them to be read, and whose writing the kernel writes
 * back. Every read call of every process comes by here, so this is turned on only where it is asked for.
 *
 * Not to be had from the kernel's tracepoints: the first use of a page that was read ahead (it only sets a flag), so what
 * was read ahead for nothing cannot be counted while it is still in the cache. */
#include "kernel.h"

struct super_block { u32 s_dev; } CORE;
struct inode { struct super_block *i_sb; u64 i_ino; } CORE;
struct address_space { struct inode *host; } CORE;
struct writeback_control { s64 nr_to_write; } CORE;
struct task_struct { s32 tgid; struct task_struct *group_leader; u64 start_boottime; char comm[16]; } CORE;

struct user {
	u64 start;                  /* of the process, nanoseconds since boot */
	u64 pid;
};

struct use {
	u64 lookups;
	u64 misses;
	u64 read_ahead_hits;
	u64 faults;
	u64 faults_cached;
	u64 pages_written_back;
	char comm[16];
};

struct file { u64 device; u64 inode; };

struct { __uint(type, MAP_LRU_HASH); __uint(max_entries, 8192); __type(key, struct user); __type(value, struct use); } users SEC(".maps");
/* Who made pages of a file dirty last. */
struct { __uint(type, MAP_LRU_HASH); __uint(max_entries, 8192); __type(key, struct file); __type(value, struct user); } writers SEC(".maps");

INLINE struct task_struct *current_process(struct user *user)
{
	struct task_struct *leader = ((struct task_struct *)bpf_get_current_task_btf())->group_leader;

	user->pid = leader->tgid;
	user->start = leader->start_boottime;
	return leader;
}

INLINE struct use *use_of_current(void)
{
	struct user user = {};
	struct task_struct *leader = current_process(&user);
	struct use *use = bpf_map_lookup_elem(&users, &user);

	if (!use) {
		struct use none = {};

		bpf_map_update_elem(&users, &user, &none, NOEXIST);
		use = bpf_map_lookup_elem(&users, &user);
	}
	/* Anew each time: a process gets another name when it becomes another program. */
	if (use)
		bpf_probe_read_kernel(use->comm, sizeof(use->comm), &leader->comm);
	return use;
}

INLINE struct file file_of(struct inode *inode)
{
	struct file file = { .device = inode->i_sb->s_dev, .inode = inode->i_ino };

	return file;
}

/* A read call has its next pages in hand. */
SEC("tp_btf/mm_filemap_get_pages") int mm_filemap_get_pages(u64 *ctx)
{
	struct use *use = use_of_current();

	if (use)
		ADD(use->lookups, 1);
	return 0;
}

/* A read call or a page fault found nothing, and has it read. */
SEC("tp_btf/page_cache_sync_ra") int page_cache_sync_ra(u64 *ctx)
{
	struct use *use = use_of_current();

	if (use)
		ADD(use->misses, 1);
	return 0;
}

/* A reader came to the page that was marked when it was read ahead: it is time to read on. */
SEC("tp_btf/page_cache_async_ra") int page_cache_async_ra(u64 *ctx)
{
	struct use *use = use_of_current();

	if (use)
		ADD(use->read_ahead_hits, 1);
	return 0;
}

/* A page fault that the cache could not answer at once. */
SEC("tp_btf/mm_filemap_fault") int mm_filemap_fault(u64 *ctx)
{
	struct use *use = use_of_current();

	if (use)
		ADD(use->faults, 1);
	return 0;
}

/* A page fault for which pages in the cache were mapped. */
SEC("tp_btf/mm_filemap_map_pages") int mm_filemap_map_pages(u64 *ctx)
{
	struct use *use = use_of_current();

	if (use)
		ADD(use->faults_cached, 1);
	return 0;
}

SEC("tp_btf/writeback_dirty_folio") int writeback_dirty_folio(u64 *ctx)
{
	struct address_space *mapping = (struct address_space *)ctx[1];
	struct inode *inode = mapping ? mapping->host : 0;
	struct user user = {};

	if (!inode)
		return 0;
	struct file file = file_of(inode);

	current_process(&user);
	bpf_map_update_elem(&writers, &file, &user, ANY);
	return 0;
}

/* The kernel wrote back so many pages of a file; the process that calls fsync writes its own, and is not here. */
SEC("tp_btf/writeback_single_inode") int writeback_single_inode(u64 *ctx)
{
	struct writeback_control *control = (struct writeback_control *)ctx[1];
	struct file file = file_of((struct inode *)ctx[0]);
	s64 pages = (s64)ctx[2] - control->nr_to_write;
	struct user *writer = bpf_map_lookup_elem(&writers, &file);

	if (!writer || pages <= 0)
		return 0;
	struct user user = *writer;
	struct use *use = bpf_map_lookup_elem(&users, &user);

	if (!use) {
		struct use none = {};

		bpf_map_update_elem(&users, &user, &none, NOEXIST);
		use = bpf_map_lookup_elem(&users, &user);
	}
	if (use)
		ADD(use->pages_written_back, pages);
	return 0;
}
