/* Dropped packets by reason and dropping function (include/trace/events/skb.h, include/net/dropreason-core.h). Packets that were
 * delivered are consumed, not dropped, and do not pass here. The reader is crates/sense/src/net/bpf.rs. */
#include "net.h"
#include "event_sampling.h"

static long (*bpf_snprintf)(char *to, u32 size, const char *format, const u64 *data, u32 data_size) = (void *)165;

enum { FUNCTION_NAME = 48, MAX_DROPS = 1024 };
enum { IPV4 = 0x0800, IPV6 = 0x86dd };      /* include/uapi/linux/if_ether.h */

struct drop_key {
	u64 location;
	u32 reason;
	u32 protocol;
	struct netns_interface interface;
	u32 pad;
};

struct drop_count {
	u64 packets, bytes;
	char function[FUNCTION_NAME];
};

MAP(drops, MAP_PERCPU_HASH, MAX_DROPS, struct drop_key, struct drop_count);

static const char symbol[] = "%ps";

/* The protocol of an IP packet; 0 for others. */
INLINE u32 protocol(struct sk_buff *skb)
{
	u8 *header = skb->head + skb->network_header, number = 0;
	u16 kind = __builtin_bswap16(skb->protocol);

	if (kind == IPV4)
		bpf_probe_read_kernel(&number, sizeof number, header + 9);
	else if (kind == IPV6)
		bpf_probe_read_kernel(&number, sizeof number, header + 6);
	return number;
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
	return 0;
}
