//! Charts of the network.

use super::declare::chart_table;
use whyslow_model::catalogue::{Conntrack, Interface, Protocol, Qdisc};
use whyslow_quantities::{interface, protocol, qdisc};

chart_table! {
    "network.throughput" "Network throughput" in "bit/s" "Bits received and sent.";
    Lines; shows "iface.receiving" "iface.sending" "iface.use" "iface.speed" "net.bytes_rate" "shaper.use" "shaper.rate" "iface.kernel_limit";
    Interface, Top(6) { "received": of(interface::RECEIVING); "sent": of(interface::SENDING); }

    "network.packets" "Packets" in "1/s" "Packets received and sent.";
    Lines; shows "iface.packets" "iface.received_packets" "core.packets" "iface.packet_share" "iface.packet_cost";
    Interface, Top(6) { "received": of(interface::RECEIVED_PACKETS); "sent": of(interface::SENT_PACKETS); }

    "network.packet_size" "Packet size" in "By" "Mean size of packets.";
    Lines; shows "iface.packet_size" "iface.median_size";
    Interface, Top(6) { "received": of(interface::RECEIVED_SIZE); "sent": of(interface::SENT_SIZE); }

    "network.errors" "Errors and drops" in "1/s" "Packets lost at interfaces: damaged, dropped, or for lack of room in the ring.";
    Lines "only if any"; shows "iface.errors" "iface.drops" "iface.damaged" "iface.damaged_share" "iface.ring_drops" "iface.ring_dropped" "iface.ring_drop_share" "iface.send_errors" "iface.send_error_share" "iface.collisions" "iface.collision_share" "iface.error_share";
    Interface, Top(6) {
        "receive errors": of(interface::RECEIVE_ERRORS);
        "dropped on receipt": of(interface::DISCARDS);
        "ring overflows": of(interface::RING_DROPS);
        "send errors": of(interface::SEND_ERRORS);
        "dropped on sending": of(interface::SEND_DROPS);
        "collisions": of(interface::COLLISIONS);
    }

    "network.segments" "TCP segments" in "1/s" "Segments received and sent, without retransmissions.";
    Lines; shows "tcp.seen";
    Protocol, TopNamespaces(3) { "received": of(protocol::SEGMENTS_RECEIVED); "sent": of(protocol::SEGMENTS); }

    "network.retransmits" "TCP retransmissions" in "1/s" "Segments retransmitted, retransmission timers that expired, connection attempts repeated, and segments that the peers had already.";
    Lines "only if any"; shows "net.spurious_share" "net.retransmits" "net.retransmitted" "net.retransmitted_opening" "net.timeouts" "tcp.retransmits" "tcp.retransmitted" "tcp.retransmit_share" "tcp.loss_share" "peer.retransmits";
    Protocol, TopNamespaces(3) {
        "segments": of(protocol::SENT_AGAIN);
        "timeouts": of(protocol::TIMEOUTS);
        "opening": of(protocol::OPENINGS_SENT_AGAIN);
        "needless": of(protocol::RECEIVED_TWICE);
    }

    "network.retransmit_share" "Share of segments retransmitted" in "1" "Segments retransmitted, as a share of all that were sent.";
    Lines "only if any"; shows "net.retransmit_share";
    Protocol, TopNamespaces(3) { "": of(protocol::RETRANSMIT_SHARE); }

    "network.listen_drops" "Connections refused by full queues" in "1/s" "Connections dropped because an accept or SYN queue was full.";
    Lines "only if any"; shows "net.listen_overflows" "net.listen_overflow_rate" "net.listen_overflow_share" "listen.drops" "listen.dropped" "listen.full_share";
    Protocol, TopNamespaces(3) {
        "accept queue full": of(protocol::LISTEN_OVERFLOWS);
        "dropped at the listener": of(protocol::LISTEN_DROPS);
        "SYN queue full": of(protocol::SYN_DROPS);
    }

    "network.connections" "TCP connections opened" in "1/s" "Connections opened from here and by peers, attempts that failed, and connections reset.";
    Lines "only if any"; shows "net.connects" "peer.connections" "ports.refused";
    Protocol, TopNamespaces(2) {
        "from here": of(protocol::CONNECTS);
        "by peers": of(protocol::ACCEPTED);
        "failed": of(protocol::FAILED_OPENINGS);
        "reset": of(protocol::RESETS);
    }

    "network.sockets" "Sockets" in "count" "Sockets in use.";
    Lines; shows "ports.used" "ports.time_wait_share";
    Protocol, TopNamespaces(2) {
        "TCP established": level(tcp_curr_estab);
        "TCP in use": level(tcp_in_use);
        "TCP in TIME_WAIT": level(tcp_time_wait);
        "UDP in use": level(udp_in_use);
    }

    "network.memory" "Socket memory" in "By" "Memory of socket buffers.";
    Lines; shows "udp.queued";
    Protocol, TopNamespaces(2) { "TCP": level(tcp_memory); "UDP": level(udp_memory); }

    "network.udp" "UDP datagrams" in "1/s" "Datagrams delivered and sent.";
    Lines "only if any"; shows;
    Protocol, TopNamespaces(3) { "delivered": of(protocol::DATAGRAMS_RECEIVED); "sent": of(protocol::DATAGRAMS_SENT); }

    "network.udp_drops" "UDP datagrams lost" in "1/s" "Datagrams dropped because a buffer was full, and datagrams to ports without a listener.";
    Lines "only if any"; shows "net.udp_drop_rate" "net.udp_dropped" "net.udp_drop_share" "udp.drops" "udp.fill" "udp.dropping_share";
    Protocol, TopNamespaces(3) {
        "receive buffer full": of(protocol::UDP_DROPS);
        "send buffer full": of(protocol::UDP_SEND_DROPS);
        "no listener": of(protocol::UDP_NO_LISTENER);
    }

    "network.backlog" "Queueing discipline backlog" in "By" "Bytes that wait to be sent.";
    Lines "only if any"; shows "iface.backlog" "shaper.delay" "shaper.waiting_share" "shaper.full_share";
    Qdisc, Top(6) { "": level(backlog); }

    "network.qdisc_drops" "Queueing discipline drops" in "1/s" "Packets dropped before they were sent.";
    Lines "only if any"; shows "iface.qdisc_drops" "iface.queue_dropped" "iface.queue_drop_share" "shaper.drops" "shaper.drop_share" "tcp.local_drops";
    Qdisc, Top(6) { "": of(qdisc::DROPS); }

    "network.conntrack" "Tracked connections" in "count" "Connections in the table of connection tracking.";
    Lines "only if any"; shows;
    Conntrack, Machine { "": level(count); }
}
