/* Ended TCP connections by peer address: many end before a sample sees them (include/trace/events/tcp.h, sock.h; struct tcp_sock of
 * include/linux/tcp.h). Counts connections whose start was seen, and segments as TCP counts them: one retransmission event can be
 * of several. The reader is crates/sense/src/net/ended_connections.rs. */
#include "net.h"
#include "flood.h"

enum { MAP_LRU_PERCPU_HASH = 10, MOST_PEERS = 1024, MOST_CONNECTIONS = 16384 };
enum { AF_INET = 2, AF_INET6 = 10, COMMAND = 16 };
/* include/net/tcp_states.h */
enum { ESTABLISHED = 1, SYN_SENT = 2, FIN_WAIT1 = 4, LAST_ACK = 9 };
/* The timer until a round trip has been measured (include/net/tcp.h: TCP_TIMEOUT_INIT). */
enum { FIRST_TIMEOUT_US = 1000000 };

struct tcp_sock {
	u32 srtt_us, rttvar_us, data_segs_out, total_retrans, dsack_dups;
	u16 total_rto;
} CORE;

struct peer { u32 namespace, family; u8 address[16]; };

/* Times in nanoseconds, counts in segments. */
struct came_to {
	u64 connections, segments, retransmits, spurious, timeouts, waited, lived;
	/* Connections whose timeouts the kernel counts (since Linux 6.7). */
	u64 timed;
	u64 process;
	char command[COMMAND];
};

/* An open connection: when it began, for how many it counts, whether the peer answered, and its process, if known. */
struct begun { u64 at, weight, answered, process; char command[COMMAND]; };

struct {
	__uint(type, MAP_LRU_PERCPU_HASH);
	__uint(max_entries, MOST_PEERS);
	__type(key, struct peer);
	__type(value, struct came_to);
} peers SEC(".maps");

struct {
	__uint(type, MAP_LRU_HASH);
	__uint(max_entries, MOST_CONNECTIONS);
	__type(key, u64);
	__type(value, struct begun);
} connections SEC(".maps");

/* Called within a system call of the process that opens or closes the connection: elsewhere the current task is arbitrary. */
INLINE void put_owner(struct begun *begun)
{
	begun->process = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(begun->command, sizeof begun->command);
}

INLINE void begin(u64 socket, u64 answered)
{
	struct begun begun = { .weight = weight(), .answered = answered };

	if (!begun.weight)
		return;
	begun.at = bpf_ktime_get_ns();
	if (!answered)
		put_owner(&begun);
	bpf_map_update_elem(&connections, &socket, &begun, ANY);
}

INLINE void go_on(u64 socket, int state)
{
	struct begun *begun = bpf_map_lookup_elem(&connections, &socket);

	if (!begun)
		return;
	if (state == ESTABLISHED)
		begun->answered = 1;
	else if (!begun->process)
		put_owner(begun);
}

SEC("tp_btf/inet_sock_set_state")
int inet_sock_set_state(u64 *ctx)
{
	u64 socket = ctx[0];
	int before = ctx[1], after = ctx[2];

	if (after == SYN_SENT)
		begin(socket, 0);
	else if (after == ESTABLISHED && before != SYN_SENT)
		begin(socket, 1);
	else if (after == ESTABLISHED || after == FIN_WAIT1 || after == LAST_ACK)
		go_on(socket, after);
	return 0;
}

INLINE void put_peer(struct peer *to, struct sock *socket)
{
	struct sock_common *common = &socket->__sk_common;

	to->namespace = common->skc_net.net->ns.inum;
	to->family = common->skc_family;
	if (to->family == AF_INET6)
		bpf_probe_read_kernel(to->address, sizeof to->address, &common->skc_v6_daddr);
	else
		*(u32 *)to->address = common->skc_daddr;
}

INLINE void add(struct came_to *to, struct tcp_sock *tcp, struct begun *begun)
{
	u64 timed = HAS(tcp->total_rto), timeouts = timed ? tcp->total_rto : 0;
	u64 timer_us = tcp->srtt_us ? (tcp->srtt_us >> 3) + tcp->rttvar_us : FIRST_TIMEOUT_US;
	u64 many = begun->weight;

	to->connections += many;
	to->segments += many * tcp->data_segs_out;
	to->retransmits += many * tcp->total_retrans;
	to->spurious += many * tcp->dsack_dups;
	to->timed += many * timed;
	to->timeouts += many * timeouts;
	to->waited += many * timeouts * timer_us * 1000;
	to->lived += many * (bpf_ktime_get_ns() - begun->at);
	if (begun->process) {
		to->process = begun->process;
		__builtin_memcpy(to->command, begun->command, sizeof to->command);
	}
}

SEC("tp_btf/tcp_destroy_sock")
int tcp_destroy_sock(u64 *ctx)
{
	struct sock *socket = (void *)ctx[0];
	u64 address = ctx[0];
	struct begun *begun = bpf_map_lookup_elem(&connections, &address);
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(socket);
	struct peer peer = {};

	if (!begun || !tcp)
		return 0;
	/* A peer that never answered loses nothing. */
	if (!begun->answered)
		goto forget;
	put_peer(&peer, socket);
	struct came_to *came_to = bpf_map_lookup_elem(&peers, &peer);

	if (!came_to) {
		struct came_to none = {};

		bpf_map_update_elem(&peers, &peer, &none, NOEXIST);
		came_to = bpf_map_lookup_elem(&peers, &peer);
	}
	if (came_to)
		add(came_to, tcp, begun);
forget:
	bpf_map_delete_elem(&connections, &address);
	return 0;
}
