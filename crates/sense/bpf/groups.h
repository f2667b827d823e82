/* Control groups, numbered as they are met, and who kept whom waiting. The reader is crates/sense/src/cgroup/interference.rs. */
#pragma once
#include "kernel.h"

/* Groups that are told apart, the two below included. */
#define GROUPS 256
/* What is no group: idle CPUs and what could not be told; and threads of the kernel itself. */
enum { NOBODY = 0, KERNEL_THREADS = 1, FIRST_GROUP = 2 };

/* The names are those of the kernel's enum, whose values depend on its configuration. */
enum cgroup_subsys_id { cpu_cgrp_id = 1, io_cgrp_id = 3, memory_cgrp_id = 4 };
#define CONTROLLER(id) __builtin_preserve_enum_value(*(enum cgroup_subsys_id *)id, 1)
#define HAS_CONTROLLER(id) __builtin_preserve_enum_value(*(enum cgroup_subsys_id *)id, 0)

struct kernfs_node { u64 id; } CORE;
struct cgroup { struct kernfs_node *kn; } CORE;
struct cgroup_subsys_state { struct cgroup *cgroup; } CORE;
struct css_set { struct cgroup_subsys_state *subsys[16]; struct cgroup *dfl_cgrp; } CORE;
struct task_struct___groups { struct css_set *cgroups; } CORE;

/* The numbers of a task's control groups: in version 2, and those of three controllers, which version 1 may have elsewhere. */
struct group { u64 unified, cpu, io, memory; };

struct times { u64 ns[GROUPS]; };

MAP(numbers, MAP_HASH, GROUPS, struct group, u32);
MAP(next_number, MAP_ARRAY, 1, u32, u32);
/* How long the members of each group waited, by who kept them waiting. */
MAP(waits, MAP_ARRAY, GROUPS, u32, struct times);
/* What each group used of the resource: nanoseconds of CPU time, or bytes. */
MAP(used, MAP_ARRAY, GROUPS, u32, u64);

INLINE u64 group_in(struct css_set *sets, u32 controller)
{
	struct cgroup_subsys_state *state = 0;

	bpf_probe_read_kernel(&state, sizeof state, (char *)sets + OFFSET(sets->subsys) + controller * sizeof(void *));
	struct cgroup *group = state ? READ(state, cgroup) : 0;
	struct kernfs_node *node = group ? READ(group, kn) : 0;

	return node ? READ(node, id) : 0;
}

INLINE struct group group_of(void *task)
{
	struct css_set *sets = ((struct task_struct___groups *)task)->cgroups;
	struct group group = { .unified = sets->dfl_cgrp->kn->id };

	if (HAS_CONTROLLER(cpu_cgrp_id))
		group.cpu = group_in(sets, CONTROLLER(cpu_cgrp_id));
	if (HAS_CONTROLLER(io_cgrp_id))
		group.io = group_in(sets, CONTROLLER(io_cgrp_id));
	if (HAS_CONTROLLER(memory_cgrp_id))
		group.memory = group_in(sets, CONTROLLER(memory_cgrp_id));
	return group;
}

/* The number of a group, which gets one if it has none; NOBODY if there is none left. */
INLINE u32 number_of(struct group *group)
{
	u32 *known = bpf_map_lookup_elem(&numbers, group), *next = ONLY(next_number);

	if (known)
		return *known;
	if (!next)
		return NOBODY;
	u32 number = __sync_fetch_and_add(next, 1) + FIRST_GROUP;

	if (number >= GROUPS || bpf_map_update_elem(&numbers, group, &number, NOEXIST))
		number = NOBODY;
	known = bpf_map_lookup_elem(&numbers, group);
	return known ? *known : number;
}

INLINE void charge(u32 victim, u32 culprit, u64 ns)
{
	struct times *times = bpf_map_lookup_elem(&waits, &victim);

	if (times)
		ADD(times->ns[culprit & (GROUPS - 1)], ns);
}

INLINE void use(u32 group, u64 amount)
{
	u64 *all = bpf_map_lookup_elem(&used, &group);

	if (all)
		ADD(*all, amount);
}
