//! struct tcp_info of include/uapi/linux/tcp.h, by offset. Older kernels return a shorter structure; fields beyond its end are
//! absent.

use super::netlink::{u32_at, u64_at};
use whyslow_model::catalogue::Connection;
use whyslow_model::value::{Counter, Gauge};

/// TCP_INFINITE_SSTHRESH: the threshold is not set.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// The congestion states with retransmissions (enum tcp_ca_state of include/uapi/linux/tcp.h).
const RECOVERY_AND_LOSS: [u8; 2] = [3, 4];

/// Reads the metrics of a structure that getsockopt(2) returns for TCP_INFO. Times are in nanoseconds.
pub fn connection(info: &[u8]) -> Connection {
    let mut row = Connection::default();
    fill(info, &mut row);
    row
}

pub(super) fn fill(info: &[u8], row: &mut Connection) {
    let info = TcpInfo(info);
    row.recovering = info.0.get(1).map(|state| u64::from(RECOVERY_AND_LOSS.contains(state))).into();
    row.app_limited = info.0.get(7).map(|flags| u64::from(flags & 1)).into();
    row.retransmission_timeout = info.microseconds(8, 0);
    row.mss = info.gauge(16);
    row.unacked = info.gauge(24);
    row.lost = info.gauge(32);
    // A round-trip time of zero means that it was never measured.
    row.rtt = info.microseconds(68, 0);
    row.rtt_var = info.microseconds(72, 0);
    row.slow_start_threshold = info.word(76).filter(|v| *v != NO_THRESHOLD).map(u64::from).into();
    row.congestion_window = info.gauge(80);
    row.receive_rtt = info.microseconds(92, 0);
    row.receive_space = info.gauge(96);
    row.retransmits = info.counter(100);
    row.pacing_rate = info.bits(104);
    row.bytes_acked = info.long_counter(120, 1);
    row.bytes_received = info.long_counter(128, 1);
    row.segments_out = info.counter(136);
    row.segments_in = info.counter(140);
    row.not_sent = info.gauge(144);
    row.min_rtt = info.microseconds(148, u32::MAX);
    row.data_segments_out = info.counter(156);
    row.delivery_rate = info.bits(160);
    row.busy_time = info.long_counter(168, 1_000);
    row.rwnd_limited = info.long_counter(176, 1_000);
    row.sndbuf_limited = info.long_counter(184, 1_000);
    row.bytes_retransmitted = info.long_counter(208, 1);
    row.spurious = info.counter(216);
    row.reordered = info.counter(220);
    row.peer_window = info.gauge(228);
    row.own_window = info.gauge(232);
    row.timeouts = info.short_counter(240);
}

struct TcpInfo<'a>(&'a [u8]);

impl TcpInfo<'_> {
    fn word(&self, offset: usize) -> Option<u32> {
        u32_at(self.0, offset)
    }

    fn gauge(&self, offset: usize) -> Gauge {
        self.word(offset).map(u64::from).into()
    }

    fn counter(&self, offset: usize) -> Counter {
        self.word(offset).map(u64::from).into()
    }

    fn long_counter(&self, offset: usize, factor: u64) -> Counter {
        u64_at(self.0, offset).map(|v| v.saturating_mul(factor)).into()
    }

    fn short_counter(&self, offset: usize) -> Counter {
        let bytes = self.0.get(offset..).and_then(<[u8]>::first_chunk);
        bytes.map(|bytes| u64::from(u16::from_ne_bytes(*bytes))).into()
    }

    /// Converts a time in microseconds to nanoseconds; `unknown` means not measured.
    fn microseconds(&self, offset: usize, unknown: u32) -> Gauge {
        self.word(offset).filter(|v| *v != unknown).map(|v| u64::from(v) * 1_000).into()
    }

    /// Converts a rate in bytes per second to bits per second; all ones means no limit.
    fn bits(&self, offset: usize) -> Gauge {
        u64_at(self.0, offset).filter(|v| *v != u64::MAX).map(|v| v.saturating_mul(8)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = connection(&bytes);
        }
    }

    #[test]
    fn times_are_nanoseconds_and_rates_are_bits() {
        let mut info = [0; 248];
        info[68..72].copy_from_slice(&250u32.to_ne_bytes());
        info[160..168].copy_from_slice(&1_000_000u64.to_ne_bytes());
        info[168..176].copy_from_slice(&7u64.to_ne_bytes());
        info[240..242].copy_from_slice(&3u16.to_ne_bytes());
        let row = connection(&info);
        assert_eq!(row.timeouts.get(), Some(3));
        assert_eq!(row.rtt.get(), Some(250_000.0));
        assert_eq!(row.delivery_rate.get(), Some(8_000_000.0));
        assert_eq!(row.busy_time.get(), Some(7_000));
    }

    #[test]
    fn only_two_congestion_states_are_recovering() {
        // Open, Disorder, CWR, Recovery, Loss.
        let recovering = [0, 1, 2, 3, 4].map(|state| connection(&[1, state]).recovering.get());
        assert_eq!(recovering, [0.0, 0.0, 0.0, 1.0, 1.0].map(Some));
    }

    #[test]
    fn unknown_values_are_absent() {
        let mut info = [0; 248];
        info[76..80].copy_from_slice(&NO_THRESHOLD.to_ne_bytes());
        info[104..112].copy_from_slice(&u64::MAX.to_ne_bytes());
        info[148..152].copy_from_slice(&u32::MAX.to_ne_bytes());
        let row = connection(&info);
        assert_eq!([row.slow_start_threshold, row.pacing_rate, row.min_rtt, row.rtt].map(Gauge::get), [None; 4]);
        assert_eq!(row.lost.get(), Some(0.0));
    }

    #[test]
    fn fields_missing_on_an_old_kernel_are_absent() {
        // The structure of Linux 2.6.32 ends with tcpi_total_retrans.
        let row = connection(&[0; 104]);
        assert_eq!(row.retransmits.get(), Some(0));
        assert_eq!((row.bytes_acked.get(), row.peer_window.get()), (None, None));
        let nothing = connection(&[]);
        assert_eq!((nothing.retransmits.get(), nothing.rtt.get(), nothing.app_limited.get()), (None, None, None));
    }
}
