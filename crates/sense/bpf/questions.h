/* To whom a thread has sent a datagram over UDP that it has had no answer to: then it is that one's turn. */
#pragma once
#include "net.h"
#include "syscall.h"

#define DESTINATIONS 4096

struct destination {
	u8 address[16];
	u16 port, local_port;       /* as numbers */
	u32 family;
} __attribute__((aligned(8)));
MAP(destinations, MAP_HASH, DESTINATIONS, u32, struct destination);

struct sock___protocol { u16 sk_protocol; } CORE;
struct sockaddr_any { u16 family, port; u8 address4[4]; u8 address6[16]; };        /* struct sockaddr_in, sockaddr_in6 */
enum { INET = 2, INET6 = 10 };

INLINE u32 is_udp(struct sock *socket)
{
	return READ((struct sock___protocol *)socket, sk_protocol) == 17;       /* IPPROTO_UDP */
}

INLINE u16 swapped(u16 port)
{
	return port >> 8 | port << 8;
}

INLINE u32 id_of(struct destination *destination)
{
	u64 words[sizeof *destination / 8], hash = 0;

	__builtin_memcpy(words, destination, sizeof words);
#pragma clang loop unroll(full)
	for (u32 i = 0; i < sizeof words / 8; i++)
		hash = mix(hash, words[i]);
	return (u32)hash ? (u32)hash : 1;
}

/* The address that a message was sent to by this system call; 0 if none was given. */
INLINE void *given_address(struct syscall *call)
{
	void *name = 0;

	if (is_call(call, 44, 206))                                             /* sendto */
		return (void *)call->fifth;
	/* sendmsg, sendmmsg: struct msghdr begins with the address. */
	if (is_call(call, 46, 211) || is_call(call, 307, 269))
		bpf_probe_read_user(&name, sizeof name, (void *)call->second);
	return name;
}

/* Where a message went: to the address that it came with, or to the peer that the socket is connected to; 0 if that is unknown. */
INLINE u32 destination_of(struct sock *socket, struct syscall *call)
{
	struct sock_common *common = &socket->__sk_common;
	struct sockaddr_any given = {};
	struct destination to = { .family = READ(common, skc_family), .local_port = READ(common, skc_num) };
	void *name = given_address(call);

	/* struct sockaddr_in has 16 bytes and may be the last thing on its page. */
	if (name && !bpf_probe_read_user(&given, 16, name)) {
		if (given.family == INET6)
			bpf_probe_read_user(&given, sizeof given, name);
		to.family = given.family;
		to.port = swapped(given.port);
		if (given.family == INET6)
			__builtin_memcpy(to.address, given.address6, sizeof to.address);
		else
			__builtin_memcpy(to.address, given.address4, sizeof given.address4);
	} else {
		to.port = swapped(READ(common, skc_dport));
		if (to.family == INET6)
			bpf_probe_read_kernel(to.address, sizeof to.address, &common->skc_v6_daddr);
		else
			*(u32 *)to.address = READ(common, skc_daddr);
	}
	if (!to.port || (to.family != INET && to.family != INET6))
		return 0;
	u32 id = id_of(&to);

	bpf_map_update_elem(&destinations, &id, &to, NOEXIST);
	return id;
}
