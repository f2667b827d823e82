//! Quantities of network interfaces, from the kernel's counters (Documentation/networking/statistics.rst).

use crate::declare::quantities;
use whyslow_model::catalogue::Interface;

quantities! { Interface;
    SENDING = "iface.sending" "bit/s" "rate sent", "/proc/net/dev", baseline true = rate(tx_bytes);
    RECEIVING = "iface.receiving" "bit/s" "rate received", "/proc/net/dev", baseline true = rate(rx_bytes);
    RATE = "iface.rate" "bit/s" "rate sent and received together", "/proc/net/dev" = rate(rx_bytes + tx_bytes);
    PACKETS = "iface.packets" "1/s" "packets in both directions", "/proc/net/dev", baseline true = rate(rx_packets + tx_packets);
    RECEIVED_PACKETS = "iface.received_packets" "1/s" "packets received", "/proc/net/dev" = rate(rx_packets);
    SENT_PACKETS = "iface.sent_packets" "1/s" "packets sent", "/proc/net/dev" = rate(tx_packets);
    PACKET_SIZE = "iface.packet_size" "bytes" "mean packet", "/proc/net/dev", baseline true = each(rx_bytes / rx_packets, tx_bytes / tx_packets);
    RECEIVED_SIZE = "iface.received_size" "bytes" "mean packet received", "/proc/net/dev" = each(rx_bytes / rx_packets);
    SENT_SIZE = "iface.sent_size" "bytes" "mean packet sent", "/proc/net/dev" = each(tx_bytes / tx_packets);
    DROPS = "iface.drops" "1/s" "packets the interface dropped on receipt", "/proc/net/dev", better lower, baseline true = rate([rx_dropped] + [rx_fifo]);
    DISCARDS = "iface.receive_discards" "1/s" "packets dropped on receipt, ring overflows excluded", "/proc/net/dev" = rate(rx_dropped);
    SEND_DROPS = "iface.send_drops" "1/s" "packets dropped on sending", "/proc/net/dev" = rate(tx_dropped);
    ALL_DROPS = "iface.all_drops" "1/s" "packets dropped in either direction", "/proc/net/dev" = rate([rx_dropped] + [rx_fifo] + [tx_dropped]);
    /// Tables of a fleet have no overflows of the ring.
    KERNEL_DROPS = "iface.kernel_drops" "1/s" "packets dropped in either direction, ring overflows excluded", "/proc/net/dev"
        = rate([rx_dropped] + [tx_dropped]);
    RING_DROPS = "iface.ring_drops" "1/s" "packets lost because the receive ring overflowed", "/proc/net/dev", normal (near 0.0) = rate(rx_fifo);
    RING_DROP_SHARE = "iface.ring_drop_share" "ratio" "the same as a share of the packets that arrived", "/proc/net/dev", normal (near 0.02)
        = each(rx_fifo / rx_packets + rx_fifo);
    /// Where frames are not counted by what is wrong with them, all that could not be received.
    DAMAGED_SHARE = "iface.damaged_share" "ratio" "frames that arrived damaged, as a share of those that arrived", "/proc/net/dev, ethtool", normal "below one in a million"
        = each(rx_frame | rx_errors / rx_packets + rx_frame | rx_packets + rx_errors);
    SEND_ERROR_SHARE = "iface.send_error_share" "ratio" "packets that could not be sent, as a share of those to send", "/proc/net/dev", normal "below one in a million"
        = each(tx_errors / tx_packets + tx_errors);
    COLLISIONS = "iface.collision_rate" "1/s" "collisions on sending", "/proc/net/dev" = rate(tx_collisions);
    COLLISION_SHARE = "iface.collision_share" "ratio" "collisions on sending, and packets that lost their carrier, as a share of the packets sent", "/proc/net/dev", normal (near 0.0)
        = each([tx_collisions] + [tx_carrier] / tx_packets + [tx_collisions] + [tx_carrier]);
    ERRORS = "iface.errors" "1/s" "bad packets", "/proc/net/dev", normal (near 0.0), better lower, baseline true = rate([rx_errors] + [tx_errors]);
    RECEIVE_ERRORS = "iface.receive_errors" "1/s" "bad packets received", "/proc/net/dev" = rate(rx_errors);
    SEND_ERRORS = "iface.send_error_rate" "1/s" "packets that could not be sent", "/proc/net/dev" = rate(tx_errors);
    ERROR_SHARE = "iface.error_share" "ratio" "bad packets, as a share of all", "/proc/net/dev" = each([rx_errors] + [tx_errors] / rx_packets + tx_packets);
}
