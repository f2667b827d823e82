/* Which control group kept which other one's packets waiting in the queue of an interface: the wait of each is charged to those whose
 * packets left the queue meanwhile, by their bytes. The reader is crates/sense/src/cgroup/interference.rs.
 *
 * A socket belongs to the group that sends through it, as seen at sends; a packet that is forwarded, out of a container's network
 * namespace, to the group it had when it was sent. */
#include "groups.h"
#include "net.h"

#define SENDERS 32                  /* the groups whose bytes in a queue are told apart; a power of two */
#define OWNERS 65536
#define PACKETS 16384
#define QUEUES 512
#define FORWARDING 1000000000ULL    /* ns within which a packet is forwarded: later it is another in the same memory */

/* Bytes of each group that have left it. */
struct queue { u64 bytes[SENDERS]; };
struct packet {
	u64 queued;                 /* when, or when it left the last queue */
	u64 device;                 /* in whose queue it is, or 0 */
	u32 group, pad;
	u32 before[SENDERS];        /* the queue's bytes when it came, their lower half */
};

MAP(owners, MAP_LRU_HASH, OWNERS, u64, u32);
MAP(packets, MAP_LRU_HASH, PACKETS, u64, struct packet);
MAP(queues, MAP_HASH, QUEUES, u64, struct queue);
/* Too large for the stack. */
MAP(new_packets, MAP_PERCPU_ARRAY, 1, u32, struct packet);

/* In the context of the sender. */
SEC("tp_btf/sock_send_length")
int sock_send_length(u64 *ctx)
{
	u64 socket = ctx[0];
	struct group group = group_of(bpf_get_current_task_btf());
	u32 number = number_of(&group);

	bpf_map_update_elem(&owners, &socket, &number, ANY);
	return 0;
}

SEC("tp_btf/net_dev_queue")
int net_dev_queue(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	u64 key = (u64)skb, device = (u64)skb->dev, socket = (u64)skb->sk, now = bpf_ktime_get_ns();
	struct packet *last = bpf_map_lookup_elem(&packets, &key), *packet = ONLY(new_packets);
	u32 *owner = socket ? bpf_map_lookup_elem(&owners, &socket) : 0;
	struct queue *queue = FIND_OR_ADD(queues, &device);

	if (!packet || !queue)
		return 0;
	packet->group = NOBODY;
	if (owner)
		packet->group = *owner;
	else if (!socket && last && now - last->queued < FORWARDING)
		packet->group = last->group;
	packet->queued = now;
	packet->device = device;
	for (u32 i = 0; i < SENDERS; i++)
		packet->before[i] = queue->bytes[i];
	bpf_map_update_elem(&packets, &key, packet, ANY);
	return 0;
}

/* The group of a packet that leaves a queue; that of the segments of a packet, which are packets of their own, by their socket. */
INLINE u32 sender_of(struct packet *packet, u64 socket)
{
	u32 *owner = socket ? bpf_map_lookup_elem(&owners, &socket) : 0;

	if (packet)
		return packet->group;
	return owner ? *owner : NOBODY;
}

INLINE void charge_queue(struct queue *queue, struct packet *packet, u64 waited)
{
	u64 all = 0;

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < SENDERS; i++)
		all += (u32)((u32)queue->bytes[i] - packet->before[i]);
	if (!all) {
		charge(packet->group, packet->group, waited);
		return;
	}
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < SENDERS; i++) {
		u64 sent = (u32)((u32)queue->bytes[i] - packet->before[i]);

		if (sent)
			charge(packet->group, i, waited * sent / all);
	}
}

SEC("tp_btf/net_dev_start_xmit")
int net_dev_start_xmit(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	u64 key = (u64)skb, device = ctx[1], now = bpf_ktime_get_ns();
	struct packet *packet = bpf_map_lookup_elem(&packets, &key);
	struct queue *queue = bpf_map_lookup_elem(&queues, &device);

	if (packet && packet->device != device)
		packet = 0;
	u32 group = sender_of(packet, (u64)skb->sk);

	if (!queue)
		return 0;
	if (packet) {
		charge_queue(queue, packet, now - packet->queued);
		packet->queued = now;
		packet->device = 0;
	}
	use(group, skb->len);
	ADD(queue->bytes[group & (SENDERS - 1)], skb->len);
	return 0;
}
