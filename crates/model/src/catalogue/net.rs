//! The network: interfaces, protocols, connections, sockets, queueing disciplines.

use super::*;
use crate::key::{LinkKey, MachineKey, NetKey, SocketKey};

family_group! {
    /// Network counters and state, in every visible network namespace.
    net: NetTables

    /// Packets by interface.
    interface: Interface by interface: NetKey of namespace interface, from "/proc/net/dev" since boot {
        rx_bytes: counter bytes "system.network.io{network.io.direction=receive}" "bytes received";
        rx_packets: counter count "system.network.packets{network.io.direction=receive}" "packets received";
        rx_errors: counter count "system.network.errors{network.io.direction=receive}" "bad packets received";
        rx_dropped: counter count "system.network.dropped{network.io.direction=receive}" "packets dropped on receipt";
        rx_fifo: counter count "system.network.fifo{network.io.direction=receive}" "packets lost because the ring overflowed";
        rx_frame: counter count "system.network.frame" "framing (alignment, crc) errors";
        rx_multicast: counter count "system.network.multicast" "multicast packets received";
        tx_bytes: counter bytes "system.network.io{network.io.direction=transmit}" "bytes sent";
        tx_packets: counter count "system.network.packets{network.io.direction=transmit}" "packets sent";
        tx_errors: counter count "system.network.errors{network.io.direction=transmit}" "packets that could not be sent";
        tx_dropped: counter count "system.network.dropped{network.io.direction=transmit}" "packets dropped on sending";
        tx_fifo: counter count "system.network.fifo{network.io.direction=transmit}" "underruns on sending";
        tx_collisions: counter count "system.network.collisions" "collisions";
        tx_carrier: counter count "system.network.carrier" "carrier lost on sending";
        identity: identity word "system.network.interface.index" "the interface's index, which distinguishes it from later interfaces of the same name";
    }

    /// Configuration of interfaces (rtnetlink(7), ethtool netlink).
    link: Link by interface: NetKey of namespace interface, from "rtnetlink, ethtool" {
        speed: gauge bps "system.network.speed" "negotiated speed; absent if unknown to the driver";
        duplex: state word "system.network.duplex" "full or half";
        auto_negotiation: state word "system.network.auto_negotiation" "on or off" only captures;
        supported_speed: gauge bps "system.network.speed.supported" "the highest speed that the card supports" only captures;
        advertised_speed: gauge bps "system.network.speed.advertised" "the highest speed that it offers to the other end" only captures;
        partner_speed: gauge bps "system.network.speed.partner" "the highest speed that the other end offers" only captures;
        mtu: gauge bytes "system.network.mtu" "largest packet";
        operstate: state word "system.network.operstate" "up, down, unknown";
        kind: state word "system.network.kind" "veth, bridge, vlan, tun, ...; absent for a physical device";
        driver: state word "system.network.driver" "the driver";
        tx_queue_length: gauge count "system.network.txqueuelen" "packets the queueing discipline holds by default";
        peer_ns: state namespace "system.network.peer_namespace" "the namespace of a veth's peer, or of the interface below, if different";
        lower: state interface "system.network.lower" "the interface that it sends through: below a VLAN or tunnel; of a veth the other end";
        master: state interface "system.network.master" "the bridge, bond or team that it is a port of";
        vlan: gauge count "system.network.vlan" "VLAN id";
        bond_mode: state word "system.network.bond.mode" "mode of a bond";
        bus: state word "system.network.bus" "address of the card on its bus";
        numa_node: gauge count "system.network.numa_node" "NUMA node of the card";
        gso_max: gauge bytes "system.network.gso_max" "largest packet that is segmented below the protocol, by the card or just above it";
        ring_rx: gauge count "system.network.ring_rx" "receive ring size";
        ring_rx_max: gauge count "system.network.ring_rx_max" "maximum receive ring size";
        ring_tx: gauge count "system.network.ring_tx" "transmit ring size";
        ring_tx_max: gauge count "system.network.ring_tx_max" "maximum transmit ring size";
        coalesce_rx: gauge ns "system.network.coalesce_rx" "delay before a receive interrupt (rx-usecs)";
        coalesce_rx_frames: gauge count "system.network.coalesce_rx_frames" "packets before a receive interrupt";
        coalesce_tx: gauge ns "system.network.coalesce_tx" "delay before a transmit interrupt";
        offloads: state word "system.network.offloads" "work the card or driver takes from the kernel, by ethtool's names of it";
        coalesce_adaptive_rx: gauge count "system.network.coalesce_adaptive" "1 if the driver adapts the delay";
        flow_control: state word "system.network.flow_control" "pause frames: both ways, only obeyed, only requested, or off" only captures;
        channels: gauge count "system.network.channels" "receive queues in use";
        tx_channels: gauge count "system.network.tx_channels" "transmit queues in use";
        channels_max: gauge count "system.network.channels_max" "receive queues that the card has";
        module_alarms: state word "system.network.module.alarms" "alarms that the transceiver raises, or none" only captures;
        carrier_changes: counter count "system.network.carrier_changes" "times the link went up or down";
        addresses: state endpoint "system.network.addresses" "addresses, separated by spaces";
        arp_filter: gauge count "system.network.arp_filter" "1 if it answers ARP requests only from where it would send to (arp_filter), its own or for all interfaces";
        arp_ignore: gauge count "system.network.arp_ignore" "which ARP requests it answers (arp_ignore); the larger of its own and that of all interfaces";
        rp_filter: gauge count "system.network.rp_filter" "whether it drops packets whose source is reached otherwise (rp_filter); the larger of its own and that of all interfaces";
        routing_rules: gauge count "system.network.routing_rules" "rules for IPv4 in its namespace that choose a routing table, those of the kernel not included";
    }

    /// Ports of a bond (Documentation/networking/bonding.rst).
    bond_port: BondPort by port: LinkKey of interface interface, from "/proc/net/bonding" {
        mode: state word "system.network.bond.mode" "mode of the bond";
        link: state word "system.network.bond.link" "up or down, by link monitoring";
        failures: gauge count "system.network.bond.failures" "times the link went down";
        speed: gauge bps "system.network.bond.speed" "its speed";
        duplex: state word "system.network.bond.duplex" "full or half";
        aggregator: gauge count "system.network.bond.aggregator" "the aggregate it belongs to (802.3ad)";
        active_aggregator: gauge count "system.network.bond.active_aggregator" "the aggregate in use (802.3ad)";
        active: gauge count "system.network.bond.active" "1 if it carries the traffic (active-backup)";
    }

    /// Wireless interfaces.
    wireless: Wireless by interface: NetKey of namespace interface, from "iw, iwconfig" only captures {
        signal: gauge count "system.network.wireless.signal" "strength of the received signal, in dBm";
        send_rate: gauge bps "system.network.wireless.send_rate" "rate of the modulation for sending";
        receive_rate: gauge bps "system.network.wireless.receive_rate" "rate of the modulation for receiving";
        sent: gauge count "system.network.wireless.sent" "frames sent";
        retries: gauge count "system.network.wireless.retries" "frames retransmitted";
        failed: gauge count "system.network.wireless.failed" "frames that were not acknowledged at all";
    }

    /// A driver's own counters (ethtool -S).
    driver_counter: DriverCounter by counter: NetKey of namespace interface_detail, from "ethtool" since boot {
        count: counter count "system.network.driver" "the counter";
    }

    /// Protocol counters by network namespace (RFC 1213, 2012, 2013, 4022 and Linux' own); the key's name is `ip`.
    protocol: Protocol by scope: NetKey of namespace word, from "/proc/net/snmp, /proc/net/netstat, /proc/net/sockstat, /proc/sys/net/ipv4" since boot {
        ip_in_receives: counter count "system.network.ip.in" "IPv4 packets received";
        ip_in_discards: counter count "system.network.ip.in_discards" "received IPv4 packets discarded for lack of resources";
        ip_out_discards: counter count "system.network.ip.out_discards" "IPv4 packets discarded on sending";
        ip_frag_fails: counter count "system.network.ip.fragmentation_fails" "IPv4 packets dropped because they exceeded the next link's MTU and must not be fragmented";
        ip_reasm_fails: counter count "system.network.ip.reassembly_fails" "failures to reassemble fragments";
        tcp_active_opens: counter count "system.network.tcp.active_opens" "connections opened from here";
        tcp_passive_opens: counter count "system.network.tcp.passive_opens" "connections opened by the peer";
        tcp_attempt_fails: counter count "system.network.tcp.attempt_fails" "attempts to connect that failed";
        tcp_estab_resets: counter count "system.network.tcp.resets" "connections reset";
        tcp_curr_estab: gauge count "system.network.connection.count" "established connections";
        tcp_in_segs: counter count "system.network.tcp.in" "segments received";
        tcp_out_segs: counter count "system.network.tcp.out" "segments sent, retransmissions not included";
        tcp_retrans_segs: counter count "system.network.tcp.retransmits" "segments retransmitted";
        tcp_in_errs: counter count "system.network.tcp.in_errors" "bad segments received";
        tcp_out_rsts: counter count "system.network.tcp.out_resets" "resets sent";
        tcp_ext_ip_reverse_path_filter: counter count "system.network.ip.reverse_path_drops" "packets dropped because their source is not reached through the interface they arrived on (rp_filter)";
        tcp_ext_listen_overflows: counter count "system.network.tcp.listen_overflows" "connections dropped because an accept queue was full";
        tcp_ext_listen_drops: counter count "system.network.tcp.listen_drops" "connections dropped at a listening socket for any reason";
        tcp_ext_tcp_req_q_full_drop: counter count "system.network.tcp.syn_drops" "SYNs dropped because the SYN queue was full";
        tcp_ext_tcp_req_q_full_do_cookies: counter count "system.network.tcp.syn_cookies" "SYNs answered with a cookie because the SYN queue was full";
        tcp_ext_tcp_backlog_drop: counter count "system.network.tcp.backlog_drops" "segments dropped because a socket's backlog was full";
        tcp_ext_tcp_rcv_q_drop: counter count "system.network.tcp.receive_queue_drops" "segments dropped because a receive queue was full";
        tcp_ext_prune_called: counter count "system.network.tcp.pruned" "times a receive queue was pruned for lack of buffer space";
        tcp_ext_tcp_rcv_collapsed: counter count "system.network.tcp.collapsed" "segments collapsed for lack of buffer space";
        tcp_ext_tcp_timeouts: counter count "system.network.tcp.timeouts" "retransmission timers that expired";
        tcp_ext_tcp_lost_retransmit: counter count "system.network.tcp.lost_retransmits" "retransmissions that were lost too";
        tcp_ext_tcp_fast_retrans: counter count "system.network.tcp.fast_retransmits" "segments retransmitted because later ones were acknowledged";
        tcp_ext_tcp_dsack_recv: counter count "system.network.tcp.duplicate_reports" "reports of a peer that it has received something twice (DSACK), each of one or more segments";
        tcp_ext_tcp_dsack_recv_segs: counter count "system.network.tcp.duplicates_reported" "segments that peers reported to have received twice; since Linux 5.13";
        tcp_ext_tcp_sack_reorder: counter count "system.network.tcp.reorderings.sack" "times segments were found to be reordered, by SACK";
        tcp_ext_tcp_ts_reorder: counter count "system.network.tcp.reorderings.timestamp" "the same, by time stamps";
        tcp_ext_tcp_syn_retrans: counter count "system.network.tcp.syn_retransmits" "SYNs and SYN-ACKs retransmitted";
        tcp_ext_tcp_spurious_rtos: counter count "system.network.tcp.spurious_timeouts" "timeouts found to be needless";
        tcp_ext_tcp_memory_pressures: counter count "system.network.tcp.memory_pressures" "times TCP came under memory pressure";
        tcp_ext_tcp_abort_on_memory: counter count "system.network.tcp.memory_aborts" "connections aborted for lack of memory";
        tcp_ext_tcp_to_zero_window_adv: counter count "system.network.tcp.zero_windows" "times a receive window was shut";
        tcp_ext_tw: counter count "system.network.tcp.time_wait" "connections that passed through TIME_WAIT";
        udp_in_datagrams: counter count "system.network.udp.in" "datagrams delivered";
        udp_no_ports: counter count "system.network.udp.no_ports" "datagrams to ports without a listener";
        udp_in_errors: counter count "system.network.udp.in_errors" "datagrams that could not be delivered";
        udp_out_datagrams: counter count "system.network.udp.out" "datagrams sent";
        udp_rcvbuf_errors: counter count "system.network.udp.receive_buffer_errors" "datagrams dropped because a receive buffer was full";
        udp_sndbuf_errors: counter count "system.network.udp.send_buffer_errors" "datagrams dropped because a send buffer was full";
        tcp_in_use: gauge count "system.network.tcp.sockets" "TCP sockets in use";
        tcp_orphans: gauge count "system.network.tcp.orphans" "TCP sockets no process holds";
        tcp_time_wait: gauge count "system.network.tcp.time_wait_sockets" "TCP sockets in TIME_WAIT";
        tcp_memory: gauge bytes "system.network.tcp.memory" "memory of TCP buffers";
        tcp_receive_buffer_max: gauge bytes "system.network.tcp.receive_buffer.limit" "how far TCP tunes a receive buffer by itself (tcp_rmem); only where TCP is in use";
        tcp_send_buffer_max: gauge bytes "system.network.tcp.send_buffer.limit" "how far TCP tunes a send buffer by itself (tcp_wmem); only where TCP is in use";
        udp_in_use: gauge count "system.network.udp.sockets" "UDP sockets in use";
        udp_memory: gauge bytes "system.network.udp.memory" "memory of UDP buffers";
    }

    /// TCP connections that carry data (sock_diag(7), struct tcp_info of include/uapi/linux/tcp.h).
    connection: Connection by socket: SocketKey of namespace endpoint endpoint, from "sock_diag" since creation {
        state: state word "network.connection.state" "TCP state";
        pid: gauge count "process.pid" "a process that holds the socket";
        interface: state interface "network.interface.name" "the interface the route to the peer leaves by";
        bytes_acked: counter bytes "network.tcp.bytes_acked" "bytes the peer confirmed";
        bytes_received: counter bytes "network.tcp.bytes_received" "bytes received in order";
        segments_out: counter32 count "network.tcp.segments_out" "segments sent";
        segments_in: counter32 count "network.tcp.segments_in" "segments received";
        data_segments_out: counter32 count "network.tcp.data_segments_out" "segments with data sent, including retransmissions";
        retransmits: counter32 count "network.tcp.retransmits" "segments retransmitted (tcpi_total_retrans)";
        bytes_retransmitted: counter bytes "network.tcp.bytes_retransmitted" "bytes retransmitted";
        spurious: counter32 count "network.tcp.spurious_retransmits" "segments the peer received twice (tcpi_dsack_dups): retransmitted needlessly";
        reordered: counter32 count "network.tcp.reordered" "reordering events detected (tcpi_reord_seen)";
        timeouts: counter count "network.tcp.timeouts" "retransmission timers that expired (tcpi_total_rto, since 6.7)";
        recovering: gauge count "network.tcp.recovering" "1 while it is retransmitting lost segments (states Recovery and Loss)";
        busy_time: counter ns "network.tcp.busy_time" "time with unconfirmed or unsent data (tcpi_busy_time)";
        rwnd_limited: counter ns "network.tcp.rwnd_limited" "time held back by the peer's receive window";
        sndbuf_limited: counter ns "network.tcp.sndbuf_limited" "time held back by its own send buffer";
        retransmission_timeout: gauge ns "network.tcp.rto" "time without an acknowledgement after which data is retransmitted";
        rtt: gauge ns "network.tcp.rtt" "smoothed round-trip time";
        rtt_var: gauge ns "network.tcp.rtt_variance" "its mean deviation";
        min_rtt: gauge ns "network.tcp.min_rtt" "smallest round-trip time seen";
        receive_rtt: gauge ns "network.tcp.receive_rtt" "round-trip time as the receiver estimates it";
        congestion_window: gauge count "network.tcp.cwnd" "congestion window, in segments";
        slow_start_threshold: gauge count "network.tcp.ssthresh" "slow start threshold, in segments";
        mss: gauge bytes "network.tcp.mss" "segment size sent";
        peer_window: gauge bytes "network.tcp.peer_window" "the peer's receive window (tcpi_snd_wnd)";
        own_window: gauge bytes "network.tcp.own_window" "the receive window offered (tcpi_rcv_wnd)";
        receive_space: gauge bytes "network.tcp.receive_space" "receive buffer autotuning's estimate";
        delivery_rate: gauge bps "network.tcp.delivery_rate" "most recent delivery rate";
        pacing_rate: gauge bps "network.tcp.pacing_rate" "rate the sender paces at";
        app_limited: gauge count "network.tcp.app_limited" "1 where the delivery rate was limited by the application";
        not_sent: gauge bytes "network.tcp.not_sent" "bytes waiting to be sent";
        unacked: gauge count "network.tcp.unacked" "segments in flight";
        lost: gauge count "network.tcp.lost" "segments considered lost";
        receive_queue: gauge bytes "network.tcp.receive_queue" "bytes the application has not read";
        send_queue: gauge bytes "network.tcp.send_queue" "bytes the peer has not confirmed";
        receive_buffer: gauge bytes "network.tcp.receive_buffer" "receive buffer (sk_rcvbuf)";
        send_buffer: gauge bytes "network.tcp.send_buffer" "send buffer (sk_sndbuf)";
        congestion_control: state word "network.tcp.congestion_control" "algorithm";
    }

    /// TCP connections that were opened and closed during the observation, and attempts that failed, by peer address.
    ended_connections: EndedConnections by peer: NetKey of namespace endpoint, from "BPF: tcp_destroy_sock, inet_sock_set_state" {
        pid: gauge count "process.pid" "a process that held the most recent one";
        command: state process "process.executable.name" "its name";
        connections: counter count "network.tcp.ended" "connections that ended";
        data_segments_out: counter count "network.tcp.data_segments_out" "data segments sent by those connections, including retransmissions";
        retransmits: counter count "network.tcp.retransmits" "segments retransmitted, including SYNs";
        spurious: counter count "network.tcp.spurious_retransmits" "segments the peer reported to have twice";
        timeouts: counter count "network.tcp.timeouts" "retransmission timers that expired (since Linux 6.7)";
        waited: counter ns "network.tcp.waited" "time waited for those timers";
        lived: counter ns "network.tcp.lived" "duration of those connections, summed";
        no_port: counter count "network.tcp.no_port" "attempts to connect that failed because no local port was left";
    }

    /// Peers to which connections take up at least half of the local ports (ip_local_port_range of Documentation/networking/ip-sysctl.rst).
    ports_used: PortsUsed by peer: NetKey of namespace endpoint, from "sock_diag, /proc/sys/net/ipv4" {
        used: gauge count "network.ports.used" "local ports of connections from one address to this peer, those in TIME_WAIT included";
        time_wait: gauge count "network.ports.time_wait" "those in TIME_WAIT";
        available: gauge count "network.ports.available" "local ports that a connection can be given, used or not";
    }

    /// Listening TCP sockets.
    listener: Listener by socket: SocketKey of namespace endpoint endpoint, from "sock_diag" {
        pid: gauge count "process.pid" "a process that holds the socket";
        backlog: gauge count "network.listen.backlog" "connections waiting to be accepted";
        backlog_limit: gauge count "network.listen.limit" "connections that may wait";
        drops: counter count "network.listen.drops" "connections dropped at this socket";
    }

    /// Bound UDP sockets.
    datagram: Datagram by socket: SocketKey of namespace endpoint endpoint, from "sock_diag" {
        pid: gauge count "process.pid" "a process that holds the socket";
        receive_queue: gauge bytes "network.udp.receive_queue" "buffer memory that waits to be read";
        receive_buffer: gauge bytes "network.udp.receive_buffer" "receive buffer (sk_rcvbuf)";
        drops: counter count "network.udp.drops" "datagrams dropped at this socket";
    }

    /// Netlink sockets of programs, by the kernel's protocol and the address: `route:480` (netlink(7)).
    netlink_socket: NetlinkSocket by socket: NetKey of namespace word, from "/proc/net/netlink" since creation {
        pid: gauge count "process.pid" "a process that holds the socket";
        receive_queue: gauge bytes "network.netlink.receive_queue" "buffer memory of messages that wait to be read";
        drops: counter32 count "network.netlink.drops" "messages lost because the receive buffer was full";
        identity: identity word "network.netlink.inode" "the socket's inode, which distinguishes it from later sockets of the same address";
    }

    /// Queueing disciplines and classes, one row per handle.
    qdisc: Qdisc by qdisc: NetKey of namespace interface_detail, from "rtnetlink" since creation {
        interface: state interface "network.interface.name" "the interface it serves";
        kind: state word "network.qdisc.kind" "tbf, htb, fq_codel, ...";
        bytes: counter bytes "network.qdisc.bytes" "bytes sent";
        packets: counter count "network.qdisc.packets" "packets sent";
        drops: counter count "network.qdisc.drops" "packets dropped";
        overlimits: counter count "network.qdisc.overlimits" "packets held back by the rate";
        requeues: counter count "network.qdisc.requeues" "packets requeued because the device was busy";
        backlog: gauge bytes "network.qdisc.backlog" "bytes waiting";
        queue_length: gauge count "network.qdisc.length" "packets waiting";
        rate: gauge bps "network.qdisc.rate" "rate set, for shapers";
        sending: gauge bps "network.qdisc.sending" "rate at which it sends, where the kernel estimates it" only captures;
        parent: state word "network.qdisc.parent" "the class it belongs to, or root";
    }

    /// Packets dropped by the kernel, by function, reason, interface and protocol.
    packet_drop: PacketDrop by drop: NetKey of namespace text, from "BPF: kfree_skb" {
        place: state word "system.network.drop.place" "the function that dropped them";
        reason: state word "system.network.drop.reason" "the kernel's drop reason (enum skb_drop_reason)";
        interface: state interface "network.interface.name" "the interface they arrived at or were to leave by; absent if they had none";
        protocol: state word "network.transport" "tcp, udp, icmp or the protocol's number";
        packets: counter count "system.network.drop.packets" "packets; segments handled together (GSO, GRO) count as one";
        bytes: counter bytes "system.network.drop.bytes" "bytes";
        unicast: counter count "system.network.drop.unicast" "packets to a single receiver: no broadcasts, no multicasts";
        repeated: counter count "system.network.drop.repeated" "of those, packets of a sender from whom another to the same address had been dropped for the same reason a second or more before";
        source: state endpoint "network.peer.address" "the sender of the latest one of those";
    }

    /// Packet sizes as the kernel handles them at an interface; segments that the NIC splits or joins are one packet.
    packet_size: PacketSize by interface: NetKey of namespace interface, from "BPF: net_dev_start_xmit, netif_receive_skb" {
        sent: histogram bytes "system.network.packet.size{network.io.direction=transmit}" "packets sent, by size";
        received: histogram bytes "system.network.packet.size{network.io.direction=receive}" "packets received, by size";
    }

    /// What cannot be seen of other network namespaces.
    network_namespaces: NetworkNamespaces by host: MachineKey, from "/run/netns, rtnetlink IFLA_LINK_NETNSID" {
        refused: gauge count "system.network.namespaces.refused" "other network namespaces in use, with a name or an interface that leads there, that may not be entered";
    }

    /// Connection tracking.
    conntrack: Conntrack by host: MachineKey, from "/proc/sys/net/netfilter, /proc/net/stat/nf_conntrack" {
        count: gauge count "system.conntrack.count" "connections tracked";
        max: gauge count "system.conntrack.limit" "maximum number of connections";
        drops: counter32 count "system.conntrack.drops" "packets dropped because no entry was available";
        early_drops: counter32 count "system.conntrack.early_drops" "entries evicted to make room";
        insert_failed: counter32 count "system.conntrack.insert_failed" "entries that could not be inserted";
    }

    /// Connection tracking in the other network namespaces, where each has a table of its own.
    namespace_conntrack: NamespaceConntrack by namespace: NetKey of namespace word, from "/proc/sys/net/netfilter, /proc/net/stat/nf_conntrack" {
        count: gauge count "system.conntrack.count" "connections tracked";
        max: gauge count "system.conntrack.limit" "maximum number of connections";
        drops: counter32 count "system.conntrack.drops" "packets dropped because no entry was available";
    }
}
