/* Requests to block devices: size, time in the queue and in the device, and the process.
 *
 * /proc/diskstats counts every request at no cost. Here a sample of the requests is traced, those allocated in some of the
 * milliseconds of a span of time, and each counts for several. User space chooses the sample by the request rate; at high rates it
 * also detaches the programs between spans (crates/sense/src/block/requests/sampler.rs). Requests are counted as diskstats counts
 * them (block/blk-mq.c: blk_account_io_done), so that both agree while all are sampled. */
#include "buckets.h"

struct gendisk { int major; int first_minor; } CORE;
struct request_queue { struct gendisk *disk; } CORE;
struct blk_mq_hw_ctx { u32 queue_num; } CORE;
struct kernfs_node { u64 id; } CORE;
struct cgroup { struct kernfs_node *kn; } CORE;
struct cgroup_subsys_state { struct cgroup *cgroup; } CORE;
struct blkcg { struct cgroup_subsys_state css; } CORE;
struct blkcg_gq { struct blkcg *blkcg; } CORE;
struct block_device { struct gendisk *bd_disk; } CORE;
struct bio { struct blkcg_gq *bi_blkg; struct block_device *bi_bdev; u32 bi_opf; } CORE;
struct task_struct { s32 tgid; struct task_struct *group_leader; u64 start_boottime; char comm[16]; } CORE;
enum mq_rq_state { MQ_RQ_IDLE };
typedef struct { s32 counter; } atomic_t;
struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	struct bio *bio;
	u32 cmd_flags;
	u32 rq_flags;
	s32 tag, internal_tag;
	u32 __data_len;
	u64 __sector;
	u64 start_time_ns;
	enum mq_rq_state state;
	atomic_t ref;
} CORE;

/* Bits whose position depends on the kernel. */
enum req_flag_bits { __REQ_FUA = 17, __REQ_RAHEAD = 19 };
enum rqf_flags { __RQF_FLUSH_SEQ = 1, __RQF_IO_STAT = 8 };
#define FLAG(type, bit) (1U << __builtin_preserve_enum_value(*(enum type *)bit, 1))
#define HAS_FLAG(type, bit) __builtin_preserve_enum_value(*(enum type *)bit, 0)

/* Operations as /proc/diskstats groups them (include/linux/blk_types.h: op_stat_group), and the device as a whole. */
enum { READ, WRITE, FLUSH, DISCARD, WHOLE };
#define OPERATION 0xff              /* of cmd_flags */

/* A slot is a device and an operation, or a device as a whole. */
#define SLOTS 256
#define PROBES 8                    /* slots tried before a request is not counted */
#define IN_USE (1ULL << 63)
#define HASH_FACTOR 0x9e3779b97f4a7c15ULL
#define STREAM_ENDS 256             /* ends of recent requests that are remembered */
#define MAX_INTERLEAVED 64          /* requests after which an end is forgotten: so many interleaved streams are recognized */
#define ALWAYS (~0ULL)              /* the length of a filter while the programs stay attached */
#define DEPTH_WARM_UP 1000000000ULL /* after which the requests in flight that began unseen no longer matter */
#define SPAN_WARM_UP(length) ((length) / 4) /* the same where the programs are attached for a span only */
#define OUTSTANDING 1024            /* requests that a device can have in flight for their number to be known: somewhat fewer */
#define QUEUE_DISTANCE 613          /* between the entries for one tag of two hardware queues */
#define SLICE_SHIFT 20              /* requests of 2^20 ns, about a millisecond, are sampled together */
#define TIME_BUCKETS BUCKETS(37)    /* up to 137 s, in nanoseconds */
#define SIZE_BUCKETS BUCKETS(26)    /* up to 64 MiB, in bytes */
#define LEVELS 9                    /* of requests in flight: 1, 2, 4, ... 256; each up to its geometric mean with the next */
#define SIZES 5                     /* up to 4 KiB, 16 KiB, 64 KiB, 256 KiB, and larger */
#define CELLS (SIZES * 2 * LEVELS)
#define SLICE_REQUESTS 16           /* the least number of requests in a slice that does not end with an idle device */
#define SLICE_TURNOVERS 8           /* how many times as many requests complete in it as are in flight */

/* Which requests are sampled: those allocated within `length` nanoseconds of `from`, when the programs were attached, in a moment
 * whose hash has none of the bits of `mask`. Each counts for `weight`. When `seen` reaches `most`, only every other one is sampled from then on. */
struct sampling_filter { u64 from, length, mask, weight, seen, most; };

/* The device and operation of each slot, and how often its counters changed. */
struct slots { u64 owner[SLOTS]; u64 changes[SLOTS]; };

/* What a device completed at a level of requests in flight: its busy time, requests in flight x that time, requests, bytes. */
struct level { u64 busy_ns, in_flight_ns, requests, bytes; };

/* The number of requests that a device has in flight; `since` is when the programs were attached, `last` when one was issued or
 * completed.
 *
 * Its busy time is cut into slices, and each counts for the level of its mean depth. A slice ends when the device is idle, and
 * else when many times as many requests have completed as are in flight: those that began before it or end after it then
 * hardly matter. Counting each completion for the depth of its moment would be wrong where requests complete together: all but the
 * first would seem to take no time. A slice in which the count is or may be off is `wrong` and counts for no level; so does one
 * whose mean is above the `deepest` count in it: time can be counted while another CPU ends the slice. */
struct depth {
	u64 count, since, last, wrong, deepest;
	struct level slice;
	struct level levels[LEVELS];
};

/* The requests of which `struct depth` has the number: the address of each, in any order; 0 where there is none. */
struct outstanding { u64 requests[OUTSTANDING]; };

/* Requests of a size and kind, by the larger one of the depths at their issue and their completion. */
struct cell { u64 requests, bytes, device_ns; };

/* Where a request ended, plus one, and which request of its slot it was. */
struct end { u64 sector, sequence; };

/* The counters of a slot. */
struct slot_counters {
	u64 requests;
	u64 bytes;
	u64 sequential;
	u64 ahead;
	u64 forced;
	u64 splits;
	/* Sums over the requests for which the depth at their issue is known: their number, depth, depth
	 * squared, device time in ns, and depth x device time in us. */
	u64 depth_requests, depth, depth_squared, depth_ns, depth_us;
	struct cell cells[CELLS];
	u64 sequence;
	struct end ends[STREAM_ENDS];
	u64 queue[TIME_BUCKETS];
	u64 device[TIME_BUCKETS];
	u64 size[SIZE_BUCKETS];
};

/* The process that issued a request. */
struct requester {
	u64 slot;
	u64 start;                  /* of the process, nanoseconds since boot */
	u64 cgroup;                 /* of the bio, if this kernel has CONFIG_BLK_CGROUP */
	u64 pid;
};

/* Its sampled requests. */
struct requester_totals {
	u64 requests;
	u64 bytes;
	u64 queue_ns;
	u64 device_ns;
	char comm[16];
};

/* A request in flight. */
struct inflight {
	u64 weight;
	u64 allocated;
	u64 issued;
	u64 depth;                  /* in flight at its issue, itself included; 0 where that is not known */
	u64 follows;                /* whether it begins where a recent one ended */
	struct requester requester;
	char comm[16];
};

MAP(slots, MAP_ARRAY, 1, u32, struct slots);
MAP(sampling_filter, MAP_ARRAY, 1, u32, struct sampling_filter);
MAP(uncounted, MAP_ARRAY, 1, u32, u64);
MAP(slot_counters, MAP_ARRAY, SLOTS, u32, struct slot_counters);
MAP(depths, MAP_ARRAY, SLOTS, u32, struct depth);
MAP(outstanding, MAP_ARRAY, SLOTS, u32, struct outstanding);
MAP(requests_in_flight, MAP_LRU_HASH, 8192, u64, struct inflight);
MAP(requesters, MAP_LRU_HASH, 4096, struct requester, struct requester_totals);

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
INLINE u32 slot_of_disk(struct gendisk *disk, u64 operation)
{
	struct slots *all = ONLY(slots);

	if (!disk || !all)
		return SLOTS;
	u64 own = IN_USE | (u64)(u32)disk->major << 40 | (u64)(u32)disk->first_minor << 8 | operation;
	u32 first = (own * HASH_FACTOR) >> 56;

#pragma unroll
	for (u32 i = 0; i < PROBES; i++) {
		u32 at = (first + i) & (SLOTS - 1);
		u64 owner = all->owner[at];

		if (!owner)
			owner = __sync_val_compare_and_swap(&all->owner[at], 0, own);
		if (!owner || owner == own)
			return at;
	}
	u64 *missed = ONLY(uncounted);

	if (missed)
		ADD(*missed, 1);
	return SLOTS;
}

/* Called after a change: the reader copies only slots that changed. */
INLINE void note_change(u32 slot)
{
	struct slots *all = ONLY(slots);

	if (all && slot < SLOTS)
		ADD(all->changes[slot], 1);
}

INLINE u32 slot_of(struct request *rq)
{
	return slot_of_disk(rq->q->disk, operation(rq->cmd_flags));
}

/* The slot of its device as a whole; SLOTS if the request is none of those whose number in flight is known. */
INLINE u32 device_slot_of(struct request *rq)
{
	return operation(rq->cmd_flags) > WRITE ? SLOTS : slot_of_disk(rq->q->disk, WHOLE);
}

/* How many requests this one stands for; 0 if it is not sampled. The result is the same at each of its events, so no map has to
 * remember it. Requests of one moment are sampled together, so that streams are recognized. */
INLINE u64 sample_weight(struct request *rq, struct sampling_filter *filter)
{
	u64 made = rq->start_time_ns;

	if (!made || made - filter->from >= filter->length || (((made >> SLICE_SHIFT) * HASH_FACTOR) >> 40 & filter->mask))
		return 0;
	return filter->weight;
}

/* Counts a sampled request. User space adapts the filter only once a second, too late for a sudden burst. */
INLINE void note_sampled(struct sampling_filter *filter)
{
	if (__sync_fetch_and_add(&filter->seen, 1) != filter->most)
		return;
	filter->mask = filter->mask << 1 | 1;
	filter->weight <<= 1;
	filter->seen = 0;
}

/* Records a request as in flight, issued by the current process. */
INLINE void begin_inflight(struct request *rq, u32 slot, u64 weight, u64 issued, u64 depth, u64 follows)
{
	struct task_struct *task = PLAIN((struct task_struct *)bpf_get_current_task_btf());
	struct task_struct *leader = task->group_leader;
	struct inflight inflight = {
		.weight = weight, .allocated = rq->start_time_ns, .issued = issued, .depth = depth, .follows = follows
	};
	u64 key = (u64)rq;

	inflight.requester.slot = slot;
	inflight.requester.pid = leader->tgid;
	inflight.requester.start = leader->start_boottime;
	if (HAS(rq->bio->bi_blkg))
		inflight.requester.cgroup = rq->bio->bi_blkg->blkcg->css.cgroup->kn->id;
	bpf_probe_read_kernel(inflight.comm, sizeof(inflight.comm), &leader->comm);
	bpf_map_update_elem(&requests_in_flight, &key, &inflight, ANY);
}

INLINE struct end *end_at(struct slot_counters *counters, u64 sector)
{
	return &counters->ends[(sector * HASH_FACTOR >> 56) & (STREAM_ENDS - 1)];
}

/* Whether the request begins where a recent one ended. */
INLINE int follows(struct slot_counters *counters, u64 sector, u64 sectors)
{
	struct end *before = end_at(counters, sector), *own = end_at(counters, sector + sectors);
	u64 sequence = counters->sequence++;
	int follows = before->sector == sector + 1 && sequence - before->sequence <= MAX_INTERLEAVED;

	own->sector = sector + sectors + 1;
	own->sequence = sequence;
	return follows;
}

INLINE void count(u64 *histogram, u32 buckets, u64 value, u64 weight)
{
	u64 bucket = bucket_of(value);

	if (bucket >= buckets)
		bucket = buckets - 1;
	ADD(histogram[bucket], weight);
}

/* Whether /proc/diskstats counts this completion: bytes with every part of a request, the request itself once, after
 * the flushes it needs, whose own requests are counted separately. */
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

/* Whether requests that began unseen no longer matter, and none begins unseen. */
INLINE int depth_is_known(struct depth *depth, struct sampling_filter *filter, u64 now)
{
	/* Negative for an event that began before the filter was set. */
	s64 age = now - depth->since;

	if (depth->since != filter->from || age < 0)
		return 0;
	if (filter->length == ALWAYS)
		return age > DEPTH_WARM_UP;
	return age > SPAN_WARM_UP(filter->length) && age < filter->length;
}

/* The entry of a request is near the one of its tag, which stays the same as long as it is a request (block/blk-mq.h:
 * blk_mq_put_driver_tag). */
INLINE u64 *outstanding_at(struct outstanding *of, struct request *rq, u32 probe)
{
	u32 tag = rq->internal_tag >= 0 ? rq->internal_tag : rq->tag;

	return &of->requests[(tag + rq->mq_hctx->queue_num * QUEUE_DISTANCE + probe) & (OUTSTANDING - 1)];
}

INLINE u64 *find_outstanding(u32 slot, struct request *rq)
{
	struct outstanding *of = bpf_map_lookup_elem(&outstanding, &slot);

	if (!of)
		return 0;
	for (u32 i = 0; i < PROBES; i++) {
		u64 *entry = outstanding_at(of, rq, i);

		if (*entry == (u64)rq)
			return entry;
	}
	return 0;
}

/* Returns whether it was added. Else there is no room, or it is there already: then its end was missed. */
INLINE int add_outstanding(u32 slot, struct request *rq)
{
	struct outstanding *of = bpf_map_lookup_elem(&outstanding, &slot);

	if (!of || find_outstanding(slot, rq))
		return 0;
	for (u32 i = 0; i < PROBES; i++) {
		u64 *entry = outstanding_at(of, rq, i);

		if (!*entry && !__sync_val_compare_and_swap(entry, 0, (u64)rq))
			return 1;
	}
	return 0;
}

/* Returns whether it was there. */
INLINE int remove_outstanding(u32 slot, struct request *rq)
{
	u64 *entry = find_outstanding(slot, rq);

	return entry && __sync_val_compare_and_swap(entry, (u64)rq, 0) == (u64)rq;
}

enum { ENDED, PREPARED, IN_FLIGHT };

/* What became of a request of this queue (block/blk-mq.c: blk_mq_start_request, __blk_mq_free_request). PREPARED, it is about to be
 * issued, perhaps for the second time. What is no longer a request of the queue has ended. */
INLINE u32 fate_of(u64 request, u64 queue)
{
	struct request *rq = (struct request *)request;

	if ((u64)READ(rq, q) != queue || !READ(rq, ref).counter)
		return ENDED;
	return READ(rq, state) == MQ_RQ_IDLE ? PREPARED : IN_FLIGHT;
}

/* The request that the device may no longer have, whose end was missed, is removed, and the slice is wrong. */
APART u32 verify_entry(u32 slot, u32 at, u64 queue)
{
	struct outstanding *of = bpf_map_lookup_elem(&outstanding, &slot);
	struct depth *depth = bpf_map_lookup_elem(&depths, &slot);

	if (!of || !depth)
		return 0;
	u64 *entry = &of->requests[at & (OUTSTANDING - 1)], request = *entry;
	u32 fate = request ? fate_of(request, queue) : IN_FLIGHT;

	if (fate == IN_FLIGHT)
		return 0;
	depth->wrong = 1;
	if (fate == ENDED && __sync_val_compare_and_swap(entry, request, 0) == request)
		ADD(depth->count, -1);
	return 0;
}

/* Finds the requests that are no longer in flight, or may not be. Each entry is a function of its own: older verifiers (Linux 6.1)
 * follow each path through a loop, and give up. */
APART u32 verify(u32 slot, u64 queue)
{
	struct outstanding *of = bpf_map_lookup_elem(&outstanding, &slot);

	if (!of)
		return 0;
#pragma clang loop unroll(disable)
	for (u32 at = 0; at < OUTSTANDING; at++)
		if (of->requests[at])
			verify_entry(slot, at, queue);
	return 0;
}

/* The level of a mean depth of `in_flight_ns / busy_ns`. 181 / 256 is the square root of one half. */
APART u32 level_of(u64 in_flight_ns, u64 busy_ns)
{
	u32 level = 0;

	for (u32 i = 0; i < LEVELS - 1; i++)
		level += in_flight_ns * 181 > busy_ns * (256ULL << i);
	return level;
}

/* Counts the slice for its level unless it was wrong, and begins the next. */
APART u32 end_slice(u32 slot)
{
	struct depth *depth = bpf_map_lookup_elem(&depths, &slot);

	if (!depth)
		return 0;
	u64 busy_ns = __sync_lock_test_and_set(&depth->slice.busy_ns, 0);
	u64 in_flight_ns = __sync_lock_test_and_set(&depth->slice.in_flight_ns, 0);
	u64 requests = __sync_lock_test_and_set(&depth->slice.requests, 0);
	u64 bytes = __sync_lock_test_and_set(&depth->slice.bytes, 0);
	u32 level = level_of(in_flight_ns, busy_ns);

	u32 wrong = __sync_lock_test_and_set(&depth->wrong, 0) != 0;

	wrong |= in_flight_ns > busy_ns * __sync_lock_test_and_set(&depth->deepest, depth->count);
	if (wrong || !busy_ns || level >= LEVELS)
		return 0;
	ADD(depth->levels[level].busy_ns, busy_ns);
	ADD(depth->levels[level].in_flight_ns, in_flight_ns);
	ADD(depth->levels[level].requests, requests);
	ADD(depth->levels[level].bytes, bytes);
	note_change(slot);
	return 0;
}

/* Whether so much has completed that the requests that began before the slice or end after it hardly matter. */
INLINE int slice_is_long(struct depth *depth)
{
	struct level *slice = &depth->slice;
	u64 requests = slice->requests;

	return requests >= SLICE_REQUESTS && requests * slice->busy_ns >= SLICE_TURNOVERS * slice->in_flight_ns;
}

/* Counts the time up to now for the present depth. */
INLINE void advance(struct depth *depth, struct sampling_filter *filter, u64 now)
{
	u64 last = __sync_lock_test_and_set(&depth->last, now), count = depth->count;

	if (!depth_is_known(depth, filter, now))
		depth->wrong = 1;
	if (count && now > last) {
		ADD(depth->slice.busy_ns, now - last);
		ADD(depth->slice.in_flight_ns, count * (now - last));
	}
}

/* The device gets it. Returns how many it has now; 0 if unknown.
 *
 * Counting up and down would drift. While the programs are detached, requests end unseen; and of 100,000 completions the kernel does not
 * call the program for up to a few hundred, though perf(1) counts all at this tracepoint and `recursion_misses` stays 0 (Linux 6.18).
 * So the requests are known one by one, and a slice ends only after all that the device still has are found to be in flight. */
INLINE u64 depth_at_issue(struct request *rq, struct sampling_filter *filter, u64 now)
{
	u32 slot = device_slot_of(rq);
	struct depth *depth = bpf_map_lookup_elem(&depths, &slot);

	if (!depth)
		return 0;
	u32 attached_anew = depth->since != filter->from;

	depth->since = filter->from;
	advance(depth, filter, now);
	if (attached_anew) {
		verify(slot, (u64)READ(rq, q));
	} else if (slice_is_long(depth)) {
		verify(slot, (u64)READ(rq, q));
		end_slice(slot);
	}
	if (!add_outstanding(slot, rq)) {
		depth->wrong = 1;
		return 0;
	}
	u64 count = ADD(depth->count, 1) + 1;

	if (count > depth->deepest)
		depth->deepest = count;
	return depth->wrong ? 0 : count;
}

/* The device no longer has it, if it had it. Returns how many it had; 0 if unknown. */
INLINE u64 note_leaving(struct request *rq, struct sampling_filter *filter, u64 now, u64 completed, u64 bytes)
{
	u32 slot = device_slot_of(rq);
	struct depth *depth = bpf_map_lookup_elem(&depths, &slot);

	if (!depth)
		return 0;
	if (!remove_outstanding(slot, rq)) {
		/* It was issued unseen. One of no bytes ends a sequence of flushes, and it was the parts that the device had. */
		if (bytes)
			depth->wrong = 1;
		return 0;
	}
	advance(depth, filter, now);
	u64 before = ADD(depth->count, -1), wrong = depth->wrong;

	ADD(depth->slice.requests, completed);
	ADD(depth->slice.bytes, bytes);
	if (before == 1)
		end_slice(slot);
	return wrong ? 0 : before;
}

/* With an I/O scheduler, the last event in the context of the process. */
SEC("tp_btf/block_rq_insert") int block_rq_insert(u64 *ctx)
{
	struct request *rq = PLAIN((struct request *)ctx[0]);
	struct sampling_filter *filter = ONLY(sampling_filter);
	u64 weight = filter ? sample_weight(rq, filter) : 0;

	if (weight)
		begin_inflight(rq, slot_of(rq), weight, 0, 0, 0);
	return 0;
}

SEC("tp_btf/block_rq_issue") int block_rq_issue(u64 *ctx)
{
	struct request *rq = PLAIN((struct request *)ctx[0]);
	struct sampling_filter *filter = ONLY(sampling_filter);
	u64 key = (u64)rq, now = bpf_ktime_get_ns();

	if (!filter)
		return 0;
	u64 depth = depth_at_issue(rq, filter, now), weight = sample_weight(rq, filter);

	if (!weight)
		return 0;
	u32 slot = slot_of(rq);
	struct slot_counters *counters = bpf_map_lookup_elem(&slot_counters, &slot);

	if (!counters)
		return 0;
	note_sampled(filter);
	u64 follows_recent = follows(counters, rq->__sector, rq->__data_len >> 9);

	if (follows_recent)
		ADD(counters->sequential, weight);
	if (rq->cmd_flags & FLAG(req_flag_bits, __REQ_RAHEAD))
		ADD(counters->ahead, weight);
	if (rq->cmd_flags & FLAG(req_flag_bits, __REQ_FUA))
		ADD(counters->forced, weight);
	struct inflight *inserted = bpf_map_lookup_elem(&requests_in_flight, &key);

	if (inserted && inserted->allocated == rq->start_time_ns) {
		inserted->issued = now;
		inserted->depth = depth;
		inserted->follows = follows_recent;
	} else {
		begin_inflight(rq, slot, weight, now, depth, follows_recent);
	}
	return 0;
}

/* The device cannot take it now, and gets it again later. */
SEC("tp_btf/block_rq_requeue") int block_rq_requeue(u64 *ctx)
{
	struct sampling_filter *filter = ONLY(sampling_filter);

	if (filter)
		note_leaving(PLAIN((struct request *)ctx[0]), filter, bpf_ktime_get_ns(), 0, 0);
	return 0;
}

/* A request larger than the device allows, or across the end of a stripe, is split. */
SEC("tp_btf/block_split") int block_split(u64 *ctx)
{
	struct bio *bio = PLAIN((struct bio *)ctx[0]);
	u32 slot = slot_of_disk(bio->bi_bdev->bd_disk, operation(bio->bi_opf));
	struct slot_counters *counters = bpf_map_lookup_elem(&slot_counters, &slot);

	if (!counters)
		return 0;
	ADD(counters->splits, 1);
	note_change(slot);
	return 0;
}

INLINE u32 size_class(u64 bytes)
{
	return (bytes > 4 << 10) + (bytes > 16 << 10) + (bytes > 64 << 10) + (bytes > 256 << 10);
}

INLINE void finish_inflight(struct inflight *inflight, struct slot_counters *counters, u64 now, u64 bytes, u64 depth_at_end)
{
	u64 queue = inflight->issued - inflight->allocated;
	u64 device = now - inflight->issued;
	u64 weight = inflight->weight;

	count(counters->queue, TIME_BUCKETS, queue, weight);
	count(counters->device, TIME_BUCKETS, device, weight);
	count(counters->size, SIZE_BUCKETS, bytes, weight);
	if (inflight->depth) {
		ADD(counters->depth_requests, weight);
		ADD(counters->depth, weight * inflight->depth);
		ADD(counters->depth_squared, weight * inflight->depth * inflight->depth);
		ADD(counters->depth_ns, weight * device);
		ADD(counters->depth_us, weight * inflight->depth * (device / 1000));
	}
	if (inflight->depth && depth_at_end) {
		u64 depth = inflight->depth > depth_at_end ? inflight->depth : depth_at_end;
		u32 cell = (size_class(bytes) * 2 + (inflight->follows != 0)) * LEVELS + level_of(depth, 1);

		if (cell < CELLS) {
			ADD(counters->cells[cell].requests, weight);
			ADD(counters->cells[cell].bytes, weight * bytes);
			ADD(counters->cells[cell].device_ns, weight * device);
		}
	}
	struct requester_totals *totals = FIND_OR_ADD(requesters, &inflight->requester);

	if (totals) {
		/* Each time, as execve changes the name. */
		__builtin_memcpy(totals->comm, inflight->comm, sizeof(totals->comm));
		ADD(totals->requests, weight);
		ADD(totals->bytes, weight * bytes);
		ADD(totals->queue_ns, weight * queue);
		ADD(totals->device_ns, weight * device);
	}
}

INLINE void complete(struct request *rq, struct slot_counters *counters, u64 weight, u64 now, u32 bytes, u64 depth)
{
	u64 key = (u64)rq;
	u32 in_flush;
	int flush = operation(rq->cmd_flags) == FLUSH;

	if (!accounted(rq->rq_flags, &in_flush) && !flush)
		return;
	ADD(counters->bytes, weight * bytes);
	if (bytes < rq->__data_len)
		return;
	if (!in_flush || flush)
		ADD(counters->requests, weight);
	struct inflight *inflight = bpf_map_lookup_elem(&requests_in_flight, &key);

	if (!inflight)
		return;
	if (inflight->allocated == rq->start_time_ns && inflight->issued)
		finish_inflight(inflight, counters, now, bytes, depth);
	bpf_map_delete_elem(&requests_in_flight, &key);
}

SEC("tp_btf/block_rq_complete") int block_rq_complete(u64 *ctx)
{
	struct request *rq = PLAIN((struct request *)ctx[0]);
	struct sampling_filter *filter = ONLY(sampling_filter);
	u64 now = bpf_ktime_get_ns(), depth = 0;
	u32 bytes = ctx[2];

	if (!filter)
		return 0;
	if (bytes >= rq->__data_len)
		depth = note_leaving(rq, filter, now, 1, bytes);
	u64 weight = sample_weight(rq, filter);

	if (!weight)
		return 0;
	u32 slot = slot_of(rq);
	struct slot_counters *counters = bpf_map_lookup_elem(&slot_counters, &slot);

	if (!counters)
		return 0;
	complete(rq, counters, weight, now, bytes, depth);
	note_change(slot);
	return 0;
}
