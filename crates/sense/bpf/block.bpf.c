/* Requests to block devices: size, time in the queue and in the device, and the process.
 *
 * /proc/diskstats counts every request at no cost. Here a sample of the requests is traced, those allocated in some of the
 * milliseconds of a span of time, and each counts for several. User space chooses the sample by the request rate; in a flood it
 * also detaches the programs between spans (crates/sense/src/block/requests/flood.rs). Requests are counted as diskstats counts
 * them (block/blk-mq.c: blk_account_io_done), so that both agree while all are sampled. */
#include "kernel.h"

struct gendisk { int major; int first_minor; } CORE;
struct request_queue { struct gendisk *disk; } CORE;
struct kernfs_node { u64 id; } CORE;
struct cgroup { struct kernfs_node *kn; } CORE;
struct cgroup_subsys_state { struct cgroup *cgroup; } CORE;
struct blkcg { struct cgroup_subsys_state css; } CORE;
struct blkcg_gq { struct blkcg *blkcg; } CORE;
struct block_device { struct gendisk *bd_disk; } CORE;
struct bio { struct blkcg_gq *bi_blkg; struct block_device *bi_bdev; u32 bi_opf; } CORE;
struct task_struct { s32 tgid; struct task_struct *group_leader; u64 start_boottime; char comm[16]; } CORE;
struct request {
	struct request_queue *q;
	struct bio *bio;
	u32 cmd_flags;
	u32 rq_flags;
	u32 __data_len;
	u64 __sector;
	u64 start_time_ns;
} CORE;

/* Bits whose position depends on the kernel. */
enum req_flag_bits { __REQ_FUA = 17, __REQ_RAHEAD = 19 };
enum rqf_flags { __RQF_FLUSH_SEQ = 1, __RQF_IO_STAT = 8 };
#define FLAG(type, bit) (1U << __builtin_preserve_enum_value(*(enum type *)bit, 1))
#define HAS_FLAG(type, bit) __builtin_preserve_enum_value(*(enum type *)bit, 0)

/* Operations as /proc/diskstats groups them (include/linux/blk_types.h: op_stat_group). */
enum { READ, WRITE, FLUSH, DISCARD };
#define OPERATION 0xff              /* of cmd_flags */

/* A slot is a device and an operation. */
#define SLOTS 256
#define PROBES 8                    /* slots tried before a request is not counted */
#define TAKEN (1ULL << 63)
#define GOLDEN 0x9e3779b97f4a7c15ULL
#define STREAMS 4                   /* interleaved sequential streams recognized */
#define MOMENT 20                   /* requests within 2^20 ns, about a millisecond, are sampled together */
#define TIMES BUCKETS(37)           /* up to 137 s, in nanoseconds */
#define SIZES BUCKETS(26)           /* up to 64 MiB, in bytes */

/* Which requests are sampled: those allocated within `length` nanoseconds of `from`, in a moment whose hash has none of the bits
 * of `mask`. Each counts for `weight`. When `seen` reaches `most`, only every other one is sampled from then on. */
struct choice { u64 from, length, mask, weight, seen, most; };

/* The device and operation of each slot, and how often its counters changed. */
struct slots { u64 of[SLOTS]; u64 changes[SLOTS]; };

/* The counters of a slot. */
struct known {
	u64 requests;
	u64 bytes;
	u64 sequential;
	u64 ahead;
	u64 forced;
	u64 splits;
	u64 next[STREAMS];          /* the next sector of each stream */
	u64 turn;
	u64 queue[TIMES];
	u64 device[TIMES];
	u64 size[SIZES];
};

/* The process that issued a request. */
struct user {
	u64 slot;
	u64 start;                  /* of the process, nanoseconds since boot */
	u64 cgroup;                 /* of the bio, if this kernel has CONFIG_BLK_CGROUP */
	u64 pid;
};

/* Its sampled requests. */
struct use {
	u64 requests;
	u64 bytes;
	u64 queue_ns;
	u64 device_ns;
	char comm[16];
};

/* A request in flight. */
struct flight {
	u64 weight;
	u64 allocated;
	u64 issued;
	struct user user;
	char comm[16];
};

struct { __uint(type, MAP_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct slots); } slots SEC(".maps");
struct { __uint(type, MAP_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct choice); } choice SEC(".maps");
struct { __uint(type, MAP_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } uncounted SEC(".maps");
struct { __uint(type, MAP_ARRAY); __uint(max_entries, SLOTS); __type(key, u32); __type(value, struct known); } known SEC(".maps");
struct { __uint(type, MAP_LRU_HASH); __uint(max_entries, 8192); __type(key, u64); __type(value, struct flight); } flights SEC(".maps");
struct { __uint(type, MAP_LRU_HASH); __uint(max_entries, 4096); __type(key, struct user); __type(value, struct use); } users SEC(".maps");

INLINE u64 operation(u32 flags)
{
	u32 op = flags & OPERATION;

	if (op == 2)
		return FLUSH;
	if (op == 3)
		return DISCARD;
	return op & 1 ? WRITE : READ;
}

/* The slot of a device and an operation; SLOTS if there is none left for it. */
INLINE u32 slot_of_disk(struct gendisk *disk, u32 flags)
{
	u32 zero = 0;
	struct slots *all = bpf_map_lookup_elem(&slots, &zero);

	if (!disk || !all)
		return SLOTS;
	u64 own = TAKEN | (u64)(u32)disk->major << 40 | (u64)(u32)disk->first_minor << 8 | operation(flags);
	u32 first = (own * GOLDEN) >> 56;

#pragma unroll
	for (u32 i = 0; i < PROBES; i++) {
		u32 at = (first + i) & (SLOTS - 1);
		u64 owner = all->of[at];

		if (!owner)
			owner = __sync_val_compare_and_swap(&all->of[at], 0, own);
		if (!owner || owner == own)
			return at;
	}
	u64 *missed = bpf_map_lookup_elem(&uncounted, &zero);

	if (missed)
		ADD(*missed, 1);
	return SLOTS;
}

/* Called after a change: the reader copies only slots that changed. */
INLINE void note_change(u32 slot)
{
	u32 zero = 0;
	struct slots *all = bpf_map_lookup_elem(&slots, &zero);

	if (all && slot < SLOTS)
		ADD(all->changes[slot], 1);
}

INLINE u32 slot_of(struct request *rq)
{
	return slot_of_disk(rq->q->disk, rq->cmd_flags);
}

/* For how many requests this one counts; 0 if it is not sampled. The same at each of its events, so that no map is needed. All
 * requests of a moment are sampled, so that sequential streams are recognized. */
INLINE u64 stands_for(struct request *rq)
{
	u32 zero = 0;
	u64 made = rq->start_time_ns;
	struct choice *of = bpf_map_lookup_elem(&choice, &zero);

	if (!of || !made || made - of->from >= of->length || (((made >> MOMENT) * GOLDEN) >> 40 & of->mask))
		return 0;
	return of->weight;
}

/* Counts a sampled request: user space, which adapts once a second, may not know of a flood yet. */
INLINE void spare(void)
{
	u32 zero = 0;
	struct choice *of = bpf_map_lookup_elem(&choice, &zero);

	if (!of || __sync_fetch_and_add(&of->seen, 1) != of->most)
		return;
	of->mask = of->mask << 1 | 1;
	of->weight <<= 1;
	of->seen = 0;
}

/* Starts tracking a request of the current process. */
INLINE void take_off(struct request *rq, u32 slot, u64 weight, u64 issued)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct task_struct *leader = task->group_leader;
	struct flight flight = { .weight = weight, .allocated = rq->start_time_ns, .issued = issued };
	u64 key = (u64)rq;

	flight.user.slot = slot;
	flight.user.pid = leader->tgid;
	flight.user.start = leader->start_boottime;
	if (HAS(rq->bio->bi_blkg))
		flight.user.cgroup = rq->bio->bi_blkg->blkcg->css.cgroup->kn->id;
	bpf_probe_read_kernel(flight.comm, sizeof(flight.comm), &leader->comm);
	bpf_map_update_elem(&flights, &key, &flight, ANY);
}

/* Whether the request continues one of the last streams. */
INLINE int follows(struct known *of, u64 sector, u64 sectors)
{
#pragma unroll
	for (u32 i = 0; i < STREAMS; i++) {
		if (of->next[i] == sector) {
			of->next[i] = sector + sectors;
			return 1;
		}
	}
	of->next[of->turn++ & (STREAMS - 1)] = sector + sectors;
	return 0;
}

INLINE void count(u64 *histogram, u32 buckets, u64 value)
{
	u32 bucket = bucket_of(value);

	if (bucket >= buckets)
		bucket = buckets - 1;
	ADD(histogram[bucket], 1);
}

/* With an I/O scheduler, the last event in the context of the process. */
SEC("tp_btf/block_rq_insert") int block_rq_insert(u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	u64 weight = stands_for(rq);

	if (weight)
		take_off(rq, slot_of(rq), weight, 0);
	return 0;
}

SEC("tp_btf/block_rq_issue") int block_rq_issue(u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	u64 weight = stands_for(rq), key = (u64)rq;

	if (!weight)
		return 0;
	u32 slot = slot_of(rq);
	struct known *of = bpf_map_lookup_elem(&known, &slot);

	if (!of)
		return 0;
	spare();
	if (follows(of, rq->__sector, rq->__data_len >> 9))
		ADD(of->sequential, weight);
	if (rq->cmd_flags & FLAG(req_flag_bits, __REQ_RAHEAD))
		ADD(of->ahead, weight);
	if (rq->cmd_flags & FLAG(req_flag_bits, __REQ_FUA))
		ADD(of->forced, weight);
	struct flight *inserted = bpf_map_lookup_elem(&flights, &key);

	if (inserted && inserted->allocated == rq->start_time_ns)
		inserted->issued = bpf_ktime_get_ns();
	else
		take_off(rq, slot, weight, bpf_ktime_get_ns());
	return 0;
}

/* A request larger than the device allows, or across the end of a stripe, is split. */
SEC("tp_btf/block_split") int block_split(u64 *ctx)
{
	struct bio *bio = (struct bio *)ctx[0];
	u32 slot = slot_of_disk(bio->bi_bdev->bd_disk, bio->bi_opf);
	struct known *of = bpf_map_lookup_elem(&known, &slot);

	if (!of)
		return 0;
	ADD(of->splits, 1);
	note_change(slot);
	return 0;
}

INLINE void land(struct flight *flight, struct known *of, u64 bytes)
{
	u64 queue = flight->issued - flight->allocated;
	u64 device = bpf_ktime_get_ns() - flight->issued;
	u64 weight = flight->weight;

	count(of->queue, TIMES, queue);
	count(of->device, TIMES, device);
	count(of->size, SIZES, bytes);
	struct use *use = bpf_map_lookup_elem(&users, &flight->user);

	if (!use) {
		struct use none = {};

		bpf_map_update_elem(&users, &flight->user, &none, NOEXIST);
		use = bpf_map_lookup_elem(&users, &flight->user);
	}
	if (use) {
		/* Each time, as execve changes the name. */
		__builtin_memcpy(use->comm, flight->comm, sizeof(use->comm));
		ADD(use->requests, weight);
		ADD(use->bytes, weight * bytes);
		ADD(use->queue_ns, weight * queue);
		ADD(use->device_ns, weight * device);
	}
}

/* Whether /proc/diskstats counts this completion: bytes with each part of a request, the request once, after its flushes, which
 * are requests of their own. */
INLINE int accounted(u32 flags, u32 *in_flush)
{
	u32 io_stat = 1 << 13, flush_seq = 1 << 4;

	if (HAS_FLAG(rqf_flags, __RQF_IO_STAT)) {
		io_stat = FLAG(rqf_flags, __RQF_IO_STAT);
		flush_seq = FLAG(rqf_flags, __RQF_FLUSH_SEQ);
	}
	*in_flush = flags & flush_seq;
	return flags & io_stat;
}

INLINE void complete(struct request *rq, struct known *of, u64 weight, u32 bytes)
{
	u64 key = (u64)rq;
	u32 in_flush;
	int flush = operation(rq->cmd_flags) == FLUSH;

	if (!accounted(rq->rq_flags, &in_flush) && !flush)
		return;
	ADD(of->bytes, weight * bytes);
	if (bytes < rq->__data_len)
		return;
	if (!in_flush || flush)
		ADD(of->requests, weight);
	struct flight *flight = bpf_map_lookup_elem(&flights, &key);

	if (!flight)
		return;
	if (flight->allocated == rq->start_time_ns && flight->issued)
		land(flight, of, bytes);
	bpf_map_delete_elem(&flights, &key);
}

SEC("tp_btf/block_rq_complete") int block_rq_complete(u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	u64 weight = stands_for(rq);

	if (!weight)
		return 0;
	u32 slot = slot_of(rq);
	struct known *of = bpf_map_lookup_elem(&known, &slot);

	if (!of)
		return 0;
	complete(rq, of, weight, ctx[2]);
	note_change(slot);
	return 0;
}
