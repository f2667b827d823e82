/* Time in softirqs by vector, and in interrupt handlers by line, on each CPU (include/trace/events/irq.h).
 * The reader is crates/sense/src/processor/irq_time.rs. */
#include "kernel.h"

enum { VECTORS = 10, MAX_LINES = 1024 };

struct handler_time { u64 count, time; };

MAP(vectors, MAP_PERCPU_ARRAY, VECTORS, u32, struct handler_time);

MAP(lines, MAP_PERCPU_HASH, MAX_LINES, u32, struct handler_time);

/* What a CPU is doing. The time of a handler that interrupts a softirq does not count for the softirq. */
struct cpu_state { u64 softirq_began, handler_began, handlers; };

MAP(cpu_state, MAP_PERCPU_ARRAY, 1, u32, struct cpu_state);

SEC("tp_btf/softirq_entry")
int softirq_entry(u64 *ctx)
{
	struct cpu_state *cpu = ONLY(cpu_state);

	if (cpu) {
		cpu->softirq_began = bpf_ktime_get_ns();
		cpu->handlers = 0;
	}
	return 0;
}

SEC("tp_btf/softirq_exit")
int softirq_exit(u64 *ctx)
{
	u32 vector = ctx[0];
	struct cpu_state *cpu = ONLY(cpu_state);
	struct handler_time *spent = bpf_map_lookup_elem(&vectors, &vector);

	/* The first one that ends may have begun before this was attached. */
	if (cpu && spent && cpu->softirq_began) {
		spent->count++;
		spent->time += bpf_ktime_get_ns() - cpu->softirq_began - cpu->handlers;
		cpu->softirq_began = 0;
	}
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int irq_handler_entry(u64 *ctx)
{
	struct cpu_state *cpu = ONLY(cpu_state);

	if (cpu)
		cpu->handler_began = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int irq_handler_exit(u64 *ctx)
{
	u32 line = ctx[0];
	struct cpu_state *cpu = ONLY(cpu_state);

	if (!cpu || !cpu->handler_began)
		return 0;
	u64 time = bpf_ktime_get_ns() - cpu->handler_began;
	struct handler_time *spent = bpf_map_lookup_elem(&lines, &line);

	cpu->handlers += time;
	cpu->handler_began = 0;
	if (!spent) {
		struct handler_time first = { .count = 1, .time = time };

		bpf_map_update_elem(&lines, &line, &first, NOEXIST);
	} else {
		spent->count++;
		spent->time += time;
	}
	return 0;
}
