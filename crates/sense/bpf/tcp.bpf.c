/* Ended TCP connections by peer address: many end before a sample sees them (include/trace/events/tcp.h, sock.h; struct tcp_sock of
 * include/linux/tcp.h). Counts connections whose start was seen, and segments as TCP counts them: one retransmission event can be
 * of several. Counts attempts without a local port too (net/ipv4/tcp_ipv4.c: tcp_v4_connect). The reader is
 * crates/sense/src/net/bpf.rs. */
#include "net.h"
#include "event_sampling.h"

enum { MAP_LRU_PERCPU_HASH = 10, MAX_PEERS = 1024, MAX_CONNECTIONS = 16384 };
enum { AF_INET = 2, AF_INET6 = 10, COMMAND = 16 };
/* include/net/tcp_states.h */
enum { ESTABLISHED = 1, SYN_SENT = 2, FIN_WAIT1 = 4, CLOSED = 7, LAST_ACK = 9 };
/* The timer until a round trip has been measured (include/net/tcp.h: TCP_TIMEOUT_INIT). */
enum { FIRST_TIMEOUT_US = 1000000 };

struct inet_sock { u16 inet_sport; } CORE;

struct inet_connection_sock { struct inet_sock icsk_inet; } CORE;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 srtt_us, rttvar_us, data_segs_out, total_retrans, dsack_dups;
	u16 total_rto;
} CORE;

struct peer { u32 namespace, family; u8 address[16]; };

/* Times in nanoseconds, counts in segments. */
struct ended_totals {
	u64 connections, segments, retransmits, spurious, timeouts, waited, lived;
	/* Connections whose timeouts the kernel counts (since Linux 6.7). */
	u64 timed;
	u64 no_port;
	u64 process;
	char command[COMMAND];
};

/* An open connection: when it was opened, how many it stands for, whether the peer answered, and its process, if known. */
struct connection { u64 opened, weight, answered, process; char command[COMMAND]; };

MAP(peers, MAP_LRU_PERCPU_HASH, MAX_PEERS, struct peer, struct ended_totals);

MAP(connections, MAP_LRU_HASH, MAX_CONNECTIONS, u64, struct connection);

/* Called within a system call of the process that opens or closes the connection: elsewhere the current task is arbitrary. */
INLINE void set_owner(struct connection *connection)
{
	connection->process = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(connection->command, sizeof connection->command);
}

INLINE void track(u64 socket, u64 answered)
{
	struct connection connection = { .weight = sample_weight(), .answered = answered };

	if (!connection.weight)
		return;
	connection.opened = bpf_ktime_get_ns();
	if (!answered)
		set_owner(&connection);
	bpf_map_update_elem(&connections, &socket, &connection, ANY);
}

INLINE void note_state(u64 socket, int state)
{
	struct connection *connection = bpf_map_lookup_elem(&connections, &socket);

	if (!connection)
		return;
	if (state == ESTABLISHED)
		connection->answered = 1;
	else if (!connection->process)
		set_owner(connection);
}

INLINE void set_peer(struct peer *to, struct sock *socket)
{
	struct sock_common *common = &socket->__sk_common;

	to->namespace = common->skc_net.net->ns.inum;
	to->family = common->skc_family;
	if (to->family == AF_INET6)
		bpf_probe_read_kernel(to->address, sizeof to->address, &common->skc_v6_daddr);
	else
		*(u32 *)to->address = common->skc_daddr;
}

/* The kernel gives an attempt its port between SYN_SENT and the first segment. It runs in the process that connects. */
INLINE void note_failure(u64 address)
{
	struct sock *socket = (void *)address;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(socket);
	struct connection *connection = bpf_map_lookup_elem(&connections, &address);
	struct peer peer = {};

	if (!connection || !tcp || tcp->inet_conn.icsk_inet.inet_sport)
		return;
	set_peer(&peer, socket);
	struct ended_totals *totals = FIND_OR_ADD(peers, &peer);

	if (!totals)
		return;
	totals->no_port += connection->weight;
	totals->process = connection->process;
	__builtin_memcpy(totals->command, connection->command, sizeof totals->command);
}

SEC("tp_btf/inet_sock_set_state")
int inet_sock_set_state(u64 *ctx)
{
	u64 socket = ctx[0];
	int before = ctx[1], after = ctx[2];

	if (after == SYN_SENT)
		track(socket, 0);
	else if (after == ESTABLISHED && before != SYN_SENT)
		track(socket, 1);
	else if (after == ESTABLISHED || after == FIN_WAIT1 || after == LAST_ACK)
		note_state(socket, after);
	else if (after == CLOSED && before == SYN_SENT)
		note_failure(socket);
	return 0;
}

INLINE void add(struct ended_totals *to, struct tcp_sock *tcp, struct connection *connection)
{
	u64 timed = HAS(tcp->total_rto), timeouts = timed ? tcp->total_rto : 0;
	u64 timer_us = tcp->srtt_us ? (tcp->srtt_us >> 3) + tcp->rttvar_us : FIRST_TIMEOUT_US;
	u64 weight = connection->weight;

	to->connections += weight;
	to->segments += weight * tcp->data_segs_out;
	to->retransmits += weight * tcp->total_retrans;
	to->spurious += weight * tcp->dsack_dups;
	to->timed += weight * timed;
	to->timeouts += weight * timeouts;
	to->waited += weight * timeouts * timer_us * 1000;
	to->lived += weight * (bpf_ktime_get_ns() - connection->opened);
	if (connection->process) {
		to->process = connection->process;
		__builtin_memcpy(to->command, connection->command, sizeof to->command);
	}
}

SEC("tp_btf/tcp_destroy_sock")
int tcp_destroy_sock(u64 *ctx)
{
	struct sock *socket = (void *)ctx[0];
	u64 address = ctx[0];
	struct connection *connection = bpf_map_lookup_elem(&connections, &address);
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(socket);
	struct peer peer = {};

	if (!connection || !tcp)
		return 0;
	/* A peer that never answered loses nothing. */
	if (!connection->answered)
		goto forget;
	set_peer(&peer, socket);
	struct ended_totals *totals = FIND_OR_ADD(peers, &peer);

	if (totals)
		add(totals, tcp, connection);
forget:
	bpf_map_delete_elem(&connections, &address);
	return 0;
}
