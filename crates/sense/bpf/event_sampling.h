/* Samples events that can come in bursts: on each CPU, the first ones of a clock tick are all counted; of the others one in 16, at
 * random, counts for 16. Counts are exact while events are few, otherwise right on average. */
#pragma once
#include "kernel.h"

static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
static u64 (*bpf_jiffies64)(void) = (void *)118;

enum { ALL_UNTIL = 4, ONE_IN = 16 };

struct tick_events { u64 tick, events; };

MAP(tick_events, MAP_PERCPU_ARRAY, 1, u32, struct tick_events);

/* For how many events this one counts; 0 if it is not sampled. */
INLINE u64 sample_weight(void)
{
	u64 tick = bpf_jiffies64();
	struct tick_events *this_tick = ONLY(tick_events);

	if (!this_tick)
		return 0;
	if (this_tick->tick != tick) {
		this_tick->tick = tick;
		this_tick->events = 0;
	}
	if (++this_tick->events <= ALL_UNTIL)
		return 1;
	return bpf_get_prandom_u32() % ONE_IN ? 0 : ONE_IN;
}
