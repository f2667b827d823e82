/* Page cache use by process: lookups, misses, and pages written back. Every read call passes here, so this is on demand.
 *
 * No tracepoint reports the first use of a page that was read ahead (it only sets a flag), so useless read-ahead cannot be counted
 * while the pages are still cached. */
#include "kernel.h"

struct super_block { u32 s_dev; } CORE;
struct inode { struct super_block *i_sb; u64 i_ino; } CORE;
struct address_space { struct inode *host; } CORE;
struct writeback_control { s64 nr_to_write; } CORE;
struct task_struct { s32 tgid; struct task_struct *group_leader; u64 start_boottime; char comm[16]; } CORE;

struct cache_user {
	u64 start;                  /* of the process, nanoseconds since boot */
	u64 pid;
};

struct cache_counts {
	u64 lookups;
	u64 misses;
	u64 read_ahead_hits;
	u64 faults;
	u64 faults_cached;
	u64 pages_written_back;
	char comm[16];
};

struct file { u64 device; u64 inode; };

MAP(users, MAP_LRU_HASH, 8192, struct cache_user, struct cache_counts);
/* The process that last dirtied pages of a file. */
MAP(writers, MAP_LRU_HASH, 8192, struct file, struct cache_user);

INLINE struct task_struct *current_process(struct cache_user *user)
{
	struct task_struct *leader = ((struct task_struct *)bpf_get_current_task_btf())->group_leader;

	user->pid = leader->tgid;
	user->start = leader->start_boottime;
	return leader;
}

INLINE struct cache_counts *counts_of_current(void)
{
	struct cache_user user = {};
	struct task_struct *leader = current_process(&user);
	struct cache_counts *counts = FIND_OR_ADD(users, &user);

	/* Each time, as execve changes the name. */
	if (counts)
		bpf_probe_read_kernel(counts->comm, sizeof(counts->comm), &leader->comm);
	return counts;
}

INLINE struct file file_of(struct inode *inode)
{
	struct file file = { .device = inode->i_sb->s_dev, .inode = inode->i_ino };

	return file;
}

/* A read call found pages. */
SEC("tp_btf/mm_filemap_get_pages") int mm_filemap_get_pages(u64 *ctx)
{
	struct cache_counts *counts = counts_of_current();

	if (counts)
		ADD(counts->lookups, 1);
	return 0;
}

/* A read call or a page fault missed. */
SEC("tp_btf/page_cache_sync_ra") int page_cache_sync_ra(u64 *ctx)
{
	struct cache_counts *counts = counts_of_current();

	if (counts)
		ADD(counts->misses, 1);
	return 0;
}

/* A reader reached the page marked by read-ahead, which triggers the next one. */
SEC("tp_btf/page_cache_async_ra") int page_cache_async_ra(u64 *ctx)
{
	struct cache_counts *counts = counts_of_current();

	if (counts)
		ADD(counts->read_ahead_hits, 1);
	return 0;
}

/* A page fault that the cache could not satisfy at once. */
SEC("tp_btf/mm_filemap_fault") int mm_filemap_fault(u64 *ctx)
{
	struct cache_counts *counts = counts_of_current();

	if (counts)
		ADD(counts->faults, 1);
	return 0;
}

/* A page fault that mapped cached pages. */
SEC("tp_btf/mm_filemap_map_pages") int mm_filemap_map_pages(u64 *ctx)
{
	struct cache_counts *counts = counts_of_current();

	if (counts)
		ADD(counts->faults_cached, 1);
	return 0;
}

SEC("tp_btf/writeback_dirty_folio") int writeback_dirty_folio(u64 *ctx)
{
	struct address_space *mapping = (struct address_space *)ctx[1];
	struct inode *inode = mapping ? mapping->host : 0;
	struct cache_user user = {};

	if (!inode)
		return 0;
	struct file file = file_of(inode);

	current_process(&user);
	bpf_map_update_elem(&writers, &file, &user, ANY);
	return 0;
}

/* Background writeback of a file. A process that calls fsync writes its own pages and does not pass here. */
SEC("tp_btf/writeback_single_inode") int writeback_single_inode(u64 *ctx)
{
	struct writeback_control *control = (struct writeback_control *)ctx[1];
	struct file file = file_of((struct inode *)ctx[0]);
	s64 pages = (s64)ctx[2] - control->nr_to_write;
	struct cache_user *writer = bpf_map_lookup_elem(&writers, &file);

	if (!writer || pages <= 0)
		return 0;
	struct cache_user user = *writer;
	struct cache_counts *counts = FIND_OR_ADD(users, &user);

	if (counts)
		ADD(counts->pages_written_back, pages);
	return 0;
}
