/* Types, helpers and map declarations for all programs. Instead of vmlinux.h, each program declares the few fields that it reads,
 * which are found in the running kernel by name (CO-RE).
 *
 * The programs are licensed GPL-2.0 OR MIT OR Apache-2.0: the kernel allows the helpers below to GPL programs only. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed short s16;
typedef signed int s32;
typedef signed long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
/* Verified separately from its callers, as the verifier gives up on nested loops. */
#define APART __attribute__((noinline))
/* Fields of such a struct are looked up by name in the BTF of the running kernel. */
#define CORE __attribute__((preserve_access_index))
/* The offset of the field in the running kernel. */
#define OFFSET(field) __builtin_preserve_field_info(field, 0)
/* A field behind a pointer that the verifier does not trust, such as one computed from a list entry. */
#define READ(pointer, field) ({ typeof((pointer)->field) value; \
	bpf_probe_read_kernel(&value, sizeof value, __builtin_preserve_access_index(&(pointer)->field)); value; })
/* Whether the running kernel has this field. */
#define HAS(field) __builtin_preserve_field_info(field, 2)

#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name
#define MAP(name, kind, entries, key_type, value_type) struct { \
	__uint(type, kind); __uint(max_entries, entries); __type(key, key_type); __type(value, value_type); } name SEC(".maps")

/* enum bpf_map_type, include/uapi/linux/bpf.h */
enum {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_PERCPU_HASH = 5,
	MAP_PERCPU_ARRAY = 6,
	MAP_STACK_TRACE = 7,
	MAP_LRU_HASH = 9,
	MAP_RINGBUF = 27,
};

enum { ANY = 0, NOEXIST = 1 };      /* flags of bpf_map_update_elem */
enum { NO_PREALLOC = 1 };           /* map_flags */
enum { RB_NO_WAKEUP = 1 };          /* flags of bpf_ringbuf_output */

/* Helpers, by their numbers in include/uapi/linux/bpf.h. */
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*bpf_get_current_comm)(void *to, u32 size) = (void *)16;
static long (*bpf_get_stackid)(void *ctx, void *map, u64 flags) = (void *)27;
static u64 (*bpf_get_current_task)(void) = (void *)35;
static u64 (*bpf_get_current_cgroup_id)(void) = (void *)80;
static long (*bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*bpf_seq_write)(void *seq, const void *data, u32 size) = (void *)127;
static long (*bpf_ringbuf_output)(void *ringbuf, const void *data, u64 size, u64 flags) = (void *)130;
static void *(*bpf_ringbuf_reserve)(void *ringbuf, u64 size, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static void *(*bpf_skc_to_tcp_sock)(void *sk) = (void *)137;
static void *(*bpf_get_current_task_btf)(void) = (void *)158;

#define USER_STACK (1ULL << 8)      /* flags of bpf_get_stackid */

/* kfuncs have no fixed numbers: crates/sense/src/bpf/functions.rs replaces these by those of the running kernel, if it has them. */
#define KERNEL_FUNCTION(number) ((void *)(0x4b460000L + (number)))

/* An open-coded iterator for loops (kernel/bpf/bpf_iter.c, from Linux 6.4 on). */
struct bpf_iter_num { u64 opaque[1]; } __attribute__((aligned(8)));
static int (*bpf_iter_num_new)(struct bpf_iter_num *it, int from, int to) = KERNEL_FUNCTION(0);
static int *(*bpf_iter_num_next)(struct bpf_iter_num *it) = KERNEL_FUNCTION(1);
static void (*bpf_iter_num_destroy)(struct bpf_iter_num *it) = KERNEL_FUNCTION(2);
/* By its number in the first pid namespace (kernel/bpf/helpers.c, from Linux 6.2 on). */
struct task_struct;
static struct task_struct *(*bpf_task_from_pid)(int pid) = KERNEL_FUNCTION(3);
static void (*bpf_task_release)(struct task_struct *task) = KERNEL_FUNCTION(4);
static void *(*bpf_rdonly_cast)(const void *object, u32 type) = KERNEL_FUNCTION(5);
/* An untrusted pointer to the same object: for each pointer read from a trusted one, the verifier searches all types of the kernel to
 * see whether that is trusted too, which took most of the start-up time. Kernels without bpf_rdonly_cast (before Linux 6.2) do not
 * search, and get the pointer as it is (crates/sense/src/bpf/functions.rs). */
#define PLAIN(pointer) ((typeof(pointer))bpf_rdonly_cast(pointer, __builtin_btf_type_id(*(typeof(pointer))0, 1)))

/* The only element of an array. */
#define ONLY(map) ({ u32 zero = 0; (typeof((map).value))bpf_map_lookup_elem(&(map), &zero); })
/* The entry of a key, which starts with zeros; 0 if the map is full. */
#define FIND_OR_ADD(map, key) ({ \
	typeof((map).value) entry = bpf_map_lookup_elem(&(map), key); \
	if (!entry) { \
		typeof(*(map).value) zeros = {}; \
		bpf_map_update_elem(&(map), key, &zeros, NOEXIST); \
		entry = bpf_map_lookup_elem(&(map), key); \
	} \
	entry; })

#define ADD(slot, amount) __sync_fetch_and_add(&(slot), amount)

char LICENSE[] SEC("license") = "Dual MIT/GPL";
