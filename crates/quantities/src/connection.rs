//! Quantities of TCP connections (include/uapi/linux/tcp.h: struct tcp_info).

use crate::declare::quantities;
use whyslow_model::catalogue::Connection;

quantities! { Connection;
    CONFIRMED = "tcp.confirmed" "bit/s" "rate that the peer confirmed", "sock_diag: tcpi_bytes_acked" = rate(bytes_acked);
    RECEIVED = "tcp.received" "bit/s" "rate received", "sock_diag: tcpi_bytes_received" = rate(bytes_received);
    TIMEOUTS = "tcp.timer_expiries" "1/s" "retransmission timers that expired", "sock_diag: idiag_retrans" = rate(timeouts);
    BUSY = "tcp.busy_time" "ratio" "share of the time with data in flight", "sock_diag: tcpi_busy_time" = rate(busy_time) at most 1.0;
    WINDOW_LIMITED = "tcp.window_time" "ratio" "share of the time held back by the peer's receive window", "sock_diag: tcpi_rwnd_limited"
        = rate(rwnd_limited) at most 1.0;
    BUFFER_LIMITED = "tcp.buffer_time" "ratio" "share of the time held back by the own send buffer", "sock_diag: tcpi_sndbuf_limited"
        = rate(sndbuf_limited) at most 1.0;
}
