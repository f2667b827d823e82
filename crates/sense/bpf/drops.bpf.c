/* Dropped packets by reason and dropping function (include/trace/events/skb.h, include/net/dropreason-core.h). Packets that were
 * delivered are consumed, not dropped, and do not pass here. The reader is crates/sense/src/net/bpf.rs. */
#include "net.h"
#include "event_sampling.h"

static long (*bpf_snprintf)(char *to, u32 size, const char *format, const u64 *data, u32 data_size) = (void *)165;

enum { FUNCTION_NAME = 48, MAX_DROPS = 1024, MAX_FLOWS = 1024 };
enum { IPV4 = 0x0800, IPV6 = 0x86dd };      /* include/uapi/linux/if_ether.h */
/* include/uapi/linux/if_packet.h, include/linux/skbuff.h */
enum { PACKET_HOST = 0, PACKET_OTHERHOST = 3, PACKET_TYPE = 7 };
/* A sender that learns from a drop, such as one that discovers the path MTU, does so within a round trip. */
#define REPEATED_AFTER 1000000000ull

struct drop_key {
	u64 location;
	u32 reason;
	u32 protocol;
	struct netns_interface interface;
	u32 pad;
};

struct drop_count {
	u64 packets, bytes, unicast, repeated;
	/* The sender of the latest unicast packet: the type of its protocol, and its address. */
	u32 family;
	u8 source[16];
	u32 pad;
	char function[FUNCTION_NAME];
};

/* What one address sends to another, and when a packet of that was first dropped for this reason. */
struct flow {
	u8 source[16], destination[16];
	u32 reason, namespace;
};

MAP(drops, MAP_PERCPU_HASH, MAX_DROPS, struct drop_key, struct drop_count);
MAP(flows, MAP_LRU_HASH, MAX_FLOWS, struct flow, u64);

static const char symbol[] = "%ps";

INLINE u16 family(struct sk_buff *skb)
{
	return __builtin_bswap16(skb->protocol);
}

/* The protocol of an IP packet; 0 for others. */
INLINE u32 protocol(struct sk_buff *skb)
{
	u8 *header = skb->head + skb->network_header, number = 0;
	u16 kind = family(skb);

	if (kind == IPV4)
		bpf_probe_read_kernel(&number, sizeof number, header + 9);
	else if (kind == IPV6)
		bpf_probe_read_kernel(&number, sizeof number, header + 6);
	return number;
}

INLINE u64 is_unicast(struct sk_buff *skb)
{
	u8 type = ~0;

	bpf_probe_read_kernel(&type, sizeof type, skb->__pkt_type_offset);
	type &= PACKET_TYPE;
	return type == PACKET_HOST || type == PACKET_OTHERHOST;
}

/* Sets the addresses of an IP packet. */
INLINE int put_addresses(struct flow *flow, struct sk_buff *skb)
{
	u8 *header = skb->head + skb->network_header;
	u16 kind = family(skb);

	if (kind == IPV4) {
		bpf_probe_read_kernel(flow->source, 4, header + 12);
		bpf_probe_read_kernel(flow->destination, 4, header + 16);
	} else if (kind == IPV6) {
		bpf_probe_read_kernel(flow->source, 16, header + 8);
		bpf_probe_read_kernel(flow->destination, 16, header + 24);
	} else {
		return 0;
	}
	return 1;
}

INLINE int is_repeated(struct flow *flow)
{
	u64 now = bpf_ktime_get_ns(), *first = bpf_map_lookup_elem(&flows, flow);

	if (first)
		return now - *first >= REPEATED_AFTER;
	bpf_map_update_elem(&flows, flow, &now, NOEXIST);
	return 0;
}

INLINE struct drop_count *add_drop(struct drop_key *key)
{
	struct drop_count none = {};
	u64 location = key->location;

	bpf_snprintf(none.function, sizeof none.function, symbol, &location, sizeof location);
	bpf_map_update_elem(&drops, key, &none, NOEXIST);
	return bpf_map_lookup_elem(&drops, key);
}

SEC("tp_btf/kfree_skb")
int kfree_skb(u64 *ctx)
{
	u64 packets = sample_weight();

	if (!packets)
		return 0;
	struct sk_buff *skb = (void *)ctx[0];
	struct net_device *device = skb->dev;
	struct sock *socket = skb->sk;
	struct drop_key key = { .location = ctx[1], .reason = ctx[2], .protocol = protocol(skb) };

	if (device)
		put_interface(&key.interface, device);
	else if (socket)
		key.interface.namespace = socket->__sk_common.skc_net.net->ns.inum;
	struct drop_count *count = bpf_map_lookup_elem(&drops, &key);

	if (!count)
		count = add_drop(&key);
	if (!count)
		return 0;
	count->packets += packets;
	count->bytes += packets * skb->len;
	if (!is_unicast(skb))
		return 0;
	struct flow flow = { .reason = key.reason, .namespace = key.interface.namespace };

	count->unicast += packets;
	if (!put_addresses(&flow, skb))
		return 0;
	if (is_repeated(&flow))
		count->repeated += packets;
	count->family = family(skb);
	__builtin_memcpy(count->source, flow.source, sizeof flow.source);
	return 0;
}
