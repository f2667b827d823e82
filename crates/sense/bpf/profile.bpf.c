/* What runs: at each tick of a clock on each processor, the stack of the task it interrupts. */
#include "stacks.h"

SEC("perf_event")
int tick(void *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	struct wanted *w = wanted_of(id >> 32);

	if (!w)
		return 0;
	/* The idle task of each processor has the number 0. */
	if (!(u32)id)
		count_idle();
	else
		add(stack_of(ctx, (void *)bpf_get_current_task(), w), 1);
	return 0;
}
