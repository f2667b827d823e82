/* Sizes of packets sent to and received from interfaces, as the kernel handles them: segments that the NIC splits or joins (TSO,
 * GRO) are one packet, as they are the work of one (include/trace/events/net.h). The reader is
 * crates/sense/src/net/bpf.rs. */
#include "buckets.h"
#include "net.h"

enum { MAX_SIZES = 8192, SENT = 1u << 31 };

struct size_key {
	struct netns_interface interface;
	/* The bucket of the size, and whether the packet was sent. */
	u32 bucket;
};

MAP(sizes, MAP_PERCPU_HASH, MAX_SIZES, struct size_key, u64);

INLINE int count(struct sk_buff *skb, u32 direction)
{
	struct net_device *device = skb->dev;
	struct size_key key = { .bucket = bucket_of(skb->len) | direction };

	if (!device)
		return 0;
	put_interface(&key.interface, device);
	u64 *packets = bpf_map_lookup_elem(&sizes, &key), one = 1;

	if (packets)
		(*packets)++;
	else
		bpf_map_update_elem(&sizes, &key, &one, NOEXIST);
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int net_dev_start_xmit(u64 *ctx)
{
	return count((void *)ctx[0], SENT);
}

SEC("tp_btf/netif_receive_skb")
int netif_receive_skb(u64 *ctx)
{
	return count((void *)ctx[0], 0);
}
