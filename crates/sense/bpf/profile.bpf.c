/* On-CPU profile: at each clock tick on each CPU, the stack of the interrupted task. */
#include "stacks.h"

SEC("perf_event")
int tick(void *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	struct recording_filter *w = filter_for(id >> 32);

	if (!w)
		return 0;
	/* The idle task of each CPU has the number 0. */
	if (!(u32)id)
		count_idle();
	else
		add(stack_of(ctx, (void *)bpf_get_current_task(), w), 1);
	return 0;
}
