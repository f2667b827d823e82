//! Quantities of TCP and UDP in a network namespace (RFC 4022, RFC 4113; include/uapi/linux/snmp.h).

use crate::declare::quantities;
use whyslow_model::catalogue::Protocol;

quantities! { Protocol;
    SEGMENTS_RECEIVED = "net.segments_received" "1/s" "TCP segments received", "/proc/net/snmp" = rate(tcp_in_segs);
    /// The kernel does not count segments here that are sent again.
    SEGMENTS = "net.segments" "1/s" "TCP segments sent", "/proc/net/snmp" = rate(tcp_out_segs);
    SENT_AGAIN = "net.segments_sent_again" "1/s" "TCP segments retransmitted", "/proc/net/snmp" = rate(tcp_retrans_segs);
    RETRANSMIT_SHARE = "net.retransmit_share" "ratio" "retransmitted segments, as a share of all that were sent", "/proc/net/snmp", normal (below 0.001), better lower, baseline true
        = each(tcp_retrans_segs / tcp_out_segs + tcp_retrans_segs);
    FAST_RETRANSMITS = "net.fast_retransmits" "1/s" "segments retransmitted because later ones arrived: part of those with data, used where captures lack the others", "/proc/net/netstat", normal (near 1.0)
        = rate(tcp_ext_tcp_fast_retrans);
    TIMEOUTS = "net.timer_expiries" "1/s" "retransmission timers that expired", "/proc/net/netstat" = rate(tcp_ext_tcp_timeouts);
    OPENINGS_SENT_AGAIN = "net.openings_sent_again" "1/s" "retransmitted segments that open connections", "/proc/net/netstat" = rate(tcp_ext_tcp_syn_retrans);
    RECEIVED_TWICE = "net.received_twice" "1/s" "segments that the peer reports to have got twice", "/proc/net/netstat" = rate(tcp_ext_tcp_dsack_recv_segs);
    LISTEN_OVERFLOWS = "net.listen_overflow_rate" "1/s" "connections dropped because an accept queue was full", "/proc/net/netstat", normal (near 0.0), better lower, baseline true
        = rate(tcp_ext_listen_overflows);
    LISTEN_DROPS = "net.listen_drops" "1/s" "connections dropped at a listener, for whatever reason", "/proc/net/netstat" = rate(tcp_ext_listen_drops);
    SYN_DROPS = "net.syn_drops" "1/s" "openings dropped because the SYN queue was full", "/proc/net/netstat" = rate(tcp_ext_tcp_req_q_full_drop);
    CONNECTS = "net.connects" "1/s" "connections opened from here", "/proc/net/snmp" = rate(tcp_active_opens);
    ACCEPTED = "net.accepted" "1/s" "connections opened by peers", "/proc/net/snmp" = rate(tcp_passive_opens);
    FAILED_OPENINGS = "net.failed_openings" "1/s" "openings that failed", "/proc/net/snmp" = rate(tcp_attempt_fails);
    RESETS = "net.resets" "1/s" "connections that were reset", "/proc/net/snmp" = rate(tcp_estab_resets);
    REVERSE_PATH_DROPS = "net.reverse_path_drops" "1/s" "packets dropped because their source is reached through another interface", "/proc/net/netstat"
        = rate(tcp_ext_ip_reverse_path_filter);
    DATAGRAMS_RECEIVED = "net.datagrams_received" "1/s" "UDP datagrams delivered", "/proc/net/snmp" = rate(udp_in_datagrams);
    DATAGRAMS_SENT = "net.datagrams_sent" "1/s" "UDP datagrams sent", "/proc/net/snmp" = rate(udp_out_datagrams);
    UDP_DROPS = "net.udp_drop_rate" "1/s" "datagrams dropped because a receive buffer was full", "/proc/net/snmp", normal (near 0.0), better lower, baseline true
        = rate(udp_rcvbuf_errors);
    UDP_SEND_DROPS = "net.udp_send_drops" "1/s" "datagrams dropped because a send buffer was full", "/proc/net/snmp" = rate(udp_sndbuf_errors);
    UDP_NO_LISTENER = "net.udp_no_listener" "1/s" "datagrams to a port on which nothing listened", "/proc/net/snmp" = rate(udp_no_ports);
}
