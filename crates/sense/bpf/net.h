/* The kernel structures of the network programs (include/linux/skbuff.h, netdevice.h, net/net_namespace.h, net/sock.h). */
#pragma once
#include "kernel.h"

struct ns_common { u32 inum; } CORE;
struct net { struct ns_common ns; } CORE;
struct possible_net { struct net *net; } CORE;
typedef struct possible_net possible_net_t;
struct net_device { int ifindex; possible_net_t nd_net; char name[16]; } CORE;
struct in6_addr_bytes { u8 bytes[16]; };
struct sock_common {
	u16 skc_family;
	u8 skc_state;
	u32 skc_daddr, skc_rcv_saddr;
	u16 skc_dport, skc_num;
	struct in6_addr_bytes skc_v6_daddr;
	possible_net_t skc_net;
} CORE;
struct sock { struct sock_common __sk_common; } CORE;
struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	u32 len;
	u16 protocol, network_header;
	u8 *head;
	u8 __pkt_type_offset[0];
} CORE;

enum { INTERFACE_NAME = 16 };

/* An interface in a network namespace; zeros if the packet has none. */
struct netns_interface {
	u32 namespace;
	char interface[INTERFACE_NAME];
};

INLINE void put_interface(struct netns_interface *to, struct net_device *device)
{
	to->namespace = device->nd_net.net->ns.inum;
	bpf_probe_read_kernel(to->interface, sizeof to->interface, device->name);
}
