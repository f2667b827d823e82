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
#define STREAMS 256                 /* ends of recent requests that are remembered */
#define RECENT 64                   /* requests after which an end is no longer looked for: interleaved streams told apart */
#define ALWAYS (~0ULL)              /* the length of a choice while the programs stay attached */
#define SETTLED 1000000000ULL       /* after which the requests in flight that began unseen no longer matter */
#define EPOCH 5000000000ULL         /* after which counting starts again, see depth_of() */
#define QUIET 5000000000ULL         /* without any request, after which none can be in flight */
#define MOMENT 20                   /* requests of 2^20 ns, about a millisecond, are looked at together */
#define TIMES BUCKETS(37)           /* up to 137 s, in nanoseconds */
#define SIZES BUCKETS(26)           /* up to 64 MiB, in bytes */

/* Which requests are sampled: those allocated within `length` nanoseconds of `from`, in a moment whose hash has none of the bits
 * of `mask`. Each counts for `weight`. When `seen` reaches `most`, only every other one is sampled from then on. */
struct choice { u64 from, length, mask, weight, seen, most; };

/* The device and operation of each slot, and how often its counters changed. */
struct slots { u64 of[SLOTS]; u64 changes[SLOTS]; };

/* The requests that a device has in flight, of those made at `since` or later; `last` is when one was issued or completed. */
struct depth { u64 count, since, last; };

/* Where a request ended, plus one, and which request of its slot it was. */
struct end { u64 sector, turn; };

/* What is known of a slot's requests. */
struct known {
	u64 requests;
	u64 bytes;
	u64 sequential;
	u64 ahead;
	u64 forced;
	u64 splits;
	/* Sums over the requests of which it is known how many the device had when it got them, they themselves included: their
	 * number, depth, depth squared, device time in ns, and depth x device time in us. */
	u64 depth_requests, depth, depth_squared, depth_ns, depth_us;
	u64 turn;
	struct end ends[STREAMS];
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
	u64 depth;                  /* in flight at its issue, itself included; 0 where that is not known */
	struct user user;
	char comm[16];
};

struct { __uint(type, MAP_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct slots); } slots SEC(".maps");
struct { __uint(type, MAP_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct choice); } choice SEC(".maps");
struct { __uint(type, MAP_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } uncounted SEC(".maps");
struct { __uint(type, MAP_ARRAY); __uint(max_entries, SLOTS); __type(key, u32); __type(value, struct known); } known SEC(".maps");
struct { __uint(type, MAP_ARRAY); __uint(max_entries, SLOTS); __type(key, u32); __type(value, struct depth); } depths SEC(".maps");
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

/* How many requests this one stands for if it is to be looked at; 0 where it is not. The same at each of its events, so
 * that the others need no map. Those of one moment stay together, so that a stream is known for one. */
INLINE u64 stands_for(struct request *rq, struct choice *of)
{
	u64 made = rq->start_time_ns;

	if (!made || made - of->from >= of->length || (((made >> MOMENT) * GOLDEN) >> 40 & of->mask))
		return 0;
	return of->weight;
}

INLINE struct choice *chosen(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&choice, &zero);
}

/* One more was looked at: user space, which comes by once a second, may have been told of no flood yet. */
INLINE void spare(struct choice *of)
{
	if (__sync_fetch_and_add(&of->seen, 1) != of->most)
		return;
	of->mask = of->mask << 1 | 1;
	of->weight <<= 1;
	of->seen = 0;
}

/* A request that the current process asked for takes off. */
INLINE void take_off(struct request *rq, u32 slot, u64 weight, u64 issued, u64 depth)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct task_struct *leader = task->group_leader;
	struct flight flight = { .weight = weight, .allocated = rq->start_time_ns, .issued = issued, .depth = depth };
	u64 key = (u64)rq;

	flight.user.slot = slot;
	flight.user.pid = leader->tgid;
	flight.user.start = leader->start_boottime;
	if (HAS(rq->bio->bi_blkg))
		flight.user.cgroup = rq->bio->bi_blkg->blkcg->css.cgroup->kn->id;
	bpf_probe_read_kernel(flight.comm, sizeof(flight.comm), &leader->comm);
	bpf_map_update_elem(&flights, &key, &flight, ANY);
}

INLINE struct end *end_at(struct known *of, u64 sector)
{
	return &of->ends[(sector * GOLDEN >> 56) & (STREAMS - 1)];
}

/* Whether the request begins where a recent one ended. */
INLINE int follows(struct known *of, u64 sector, u64 sectors)
{
	struct end *before = end_at(of, sector), *own = end_at(of, sector + sectors);
	u64 turn = of->turn++;
	int follows = before->sector == sector + 1 && turn - before->turn <= RECENT;

	own->sector = sector + sectors + 1;
	own->turn = turn;
	return follows;
}

INLINE void count(u64 *histogram, u32 buckets, u64 value, u64 weight)
{
	u32 bucket = bucket_of(value);

	if (bucket >= buckets)
		bucket = buckets - 1;
	ADD(histogram[bucket], weight);
}

/* Whether /proc/diskstats counts what is done here: bytes with every part of a request, the request itself once, after
 * the flushes it asked for, whose own requests are counted apart. */
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

/* What the device has in flight, where this request is one of those counted. Every request counts, whether or not it is looked
 * at; parts of a flush do not: they are issued and completed more than once. */
INLINE struct depth *depth_of(struct request *rq, struct choice *of, u64 now)
{
	struct gendisk *disk = rq->q->disk;
	u32 at = ((u64)(u32)disk->major << 32 | (u32)disk->first_minor) * GOLDEN >> 56, in_flush;
	struct depth *depth = bpf_map_lookup_elem(&depths, &at);

	accounted(rq->rq_flags, &in_flush);
	if (!depth || in_flush || operation(rq->cmd_flags) > WRITE)
		return 0;
	/* While the programs are detached, requests begin and end unnoticed. So does one whose event interrupts the program that
	 * handles another on the same CPU: the kernel does not run it again (bpf_prog_inc_misses_counter), and the count is off until
	 * the next epoch. */
	if (!depth->since || of->length != ALWAYS || now - depth->last > QUIET || now - depth->since > EPOCH) {
		depth->since = now;
		depth->count = 0;
	}
	depth->last = now;
	return rq->start_time_ns >= depth->since ? depth : 0;
}

/* The device gets it: how many it has now, 0 where that is not known. */
INLINE u64 enter(struct request *rq, struct choice *of, u64 now)
{
	struct depth *depth = depth_of(rq, of, now);

	if (!depth)
		return 0;
	u64 before = __sync_fetch_and_add(&depth->count, 1);

	return now - depth->since > SETTLED ? before + 1 : 0;
}

INLINE void leave(struct request *rq, struct choice *of)
{
	struct depth *depth = depth_of(rq, of, bpf_ktime_get_ns());

	if (depth && depth->count)
		ADD(depth->count, -1);
}

/* With an I/O scheduler, the last event in the context of the process. */
SEC("tp_btf/block_rq_insert") int block_rq_insert(u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	struct choice *of = chosen();
	u64 weight = of ? stands_for(rq, of) : 0;

	if (weight)
		take_off(rq, slot_of(rq), weight, 0, 0);
	return 0;
}

SEC("tp_btf/block_rq_issue") int block_rq_issue(u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	struct choice *choice = chosen();
	u64 key = (u64)rq, now = bpf_ktime_get_ns();

	if (!choice)
		return 0;
	u64 depth = enter(rq, choice, now), weight = stands_for(rq, choice);

	if (!weight)
		return 0;
	u32 slot = slot_of(rq);
	struct known *of = bpf_map_lookup_elem(&known, &slot);

	if (!of)
		return 0;
	spare(choice);
	if (follows(of, rq->__sector, rq->__data_len >> 9))
		ADD(of->sequential, weight);
	if (rq->cmd_flags & FLAG(req_flag_bits, __REQ_RAHEAD))
		ADD(of->ahead, weight);
	if (rq->cmd_flags & FLAG(req_flag_bits, __REQ_FUA))
		ADD(of->forced, weight);
	struct flight *inserted = bpf_map_lookup_elem(&flights, &key);

	if (inserted && inserted->allocated == rq->start_time_ns) {
		inserted->issued = now;
		inserted->depth = depth;
	} else {
		take_off(rq, slot, weight, now, depth);
	}
	return 0;
}

/* The device cannot take it now, and gets it again later. */
SEC("tp_btf/block_rq_requeue") int block_rq_requeue(u64 *ctx)
{
	struct choice *of = chosen();

	if (of)
		leave((struct request *)ctx[0], of);
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

	count(of->queue, TIMES, queue, weight);
	count(of->device, TIMES, device, weight);
	count(of->size, SIZES, bytes, weight);
	if (flight->depth) {
		ADD(of->depth_requests, weight);
		ADD(of->depth, weight * flight->depth);
		ADD(of->depth_squared, weight * flight->depth * flight->depth);
		ADD(of->depth_ns, weight * device);
		ADD(of->depth_us, weight * flight->depth * (device / 1000));
	}
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
	struct choice *choice = chosen();

	if (!choice)
		return 0;
	if ((u32)ctx[2] >= rq->__data_len)
		leave(rq, choice);
	u64 weight = stands_for(rq, choice);

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
