/* Thins out events that can come in floods: so many a tick of the clock are looked at one by one, on each processor; of those
 * beyond, one in so many, by chance, stands for the rest. Counts are exact while events are few, and right on average. */
#pragma once
#include "kernel.h"

static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
static u64 (*bpf_jiffies64)(void) = (void *)118;

enum { ONE_BY_ONE = 4, ONE_IN = 16 };

struct flood { u64 tick, events; };

struct {
	__uint(type, MAP_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct flood);
} floods SEC(".maps");

/* For how many events this one counts; 0 where another counts for it. */
INLINE u64 weight(void)
{
	u32 zero = 0;
	u64 tick = bpf_jiffies64();
	struct flood *flood = bpf_map_lookup_elem(&floods, &zero);

	if (!flood)
		return 0;
	if (flood->tick != tick) {
		flood->tick = tick;
		flood->events = 0;
	}
	if (++flood->events <= ONE_BY_ONE)
		return 1;
	return bpf_get_prandom_u32() % ONE_IN ? 0 : ONE_IN;
}
