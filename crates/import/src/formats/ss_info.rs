//! Output of `ss -i` and `-m` about a socket: struct tcp_info of include/uapi/linux/tcp.h, and SK_MEMINFO of
//! include/uapi/linux/sock_diag.h.

use crate::prelude::*;
use whyslow_model::catalogue::Connection;
use whyslow_model::key::SocketKey;

/// Returns the value of `name:value` among these words.
pub fn value<'t>(words: &'t str, name: &str) -> Option<&'t str> {
    words.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix(':'))
}

/// `skmem:(r0,rb131072,t0,tb87040,f0,w0,o0,bl0,d0)`
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SocketMemory {
    /// sk_rcvbuf, in bytes.
    pub receive_buffer: Option<f64>,
    /// sk_sndbuf, in bytes.
    pub send_buffer: Option<f64>,
    /// Packets dropped at the socket; since Linux 4.7.
    pub drops: Option<u64>,
}

impl SocketMemory {
    pub fn parse(words: &str) -> Self {
        let list = value(words, "skmem").map(|list| list.trim_matches(['(', ')'])).unwrap_or_default();
        let find = |name: &str| list.split(',').find_map(|part| part.strip_prefix(name)).and_then(number);
        Self { receive_buffer: find("rb"), send_buffer: find("tb"), drops: find("d").map(|n| n as u64) }
    }
}

/// `rtt:20.25/0.5` and `retrans:1/7` are split into two values each.
pub const INFO: MetricColumns<Connection> = columns![
    "rto" => retransmission_timeout * NS_PER_MS, "rtt" => rtt * NS_PER_MS, "rtt/2" => rtt_var * NS_PER_MS,
    "minrtt" => min_rtt * NS_PER_MS, "rcv_rtt" => receive_rtt * NS_PER_MS, "cwnd" => congestion_window,
    "ssthresh" => slow_start_threshold, "mss" => mss, "rcv_space" => receive_space, "snd_wnd" => peer_window,
    "rcv_wnd" => own_window, "notsent" => not_sent, "unacked" => unacked, "lost" => lost,
    "retrans/2" => retransmits, "segs_out" => segments_out, "bytes_acked" => bytes_acked,
    "bytes_received" => bytes_received, "data_segs_out" => data_segments_out,
    "bytes_retrans" => bytes_retransmitted, "dsack_dups" => spurious, "reord_seen" => reordered,
    "segs_in" => segments_in, "busy" => busy_time * NS_PER_MS, "rwnd_limited" => rwnd_limited * NS_PER_MS,
    "sndbuf_limited" => sndbuf_limited * NS_PER_MS, "delivery_rate" => delivery_rate,
    "pacing_rate" => pacing_rate,
];
/// Values that are omitted if zero, each with a value that is present wherever kernel and ss support it.
const OMITTED_IF_ZERO: [(&str, &str); 12] = [
    ("unacked", "rto"),
    ("lost", "rto"),
    ("retrans/2", "rto"),
    ("bytes_acked", "segs_out"),
    ("bytes_received", "segs_out"),
    ("data_segs_out", "segs_out"),
    ("bytes_retrans", "bytes_sent"),
    ("dsack_dups", "bytes_sent"),
    ("reord_seen", "bytes_sent"),
    ("segs_in", "segs_out"),
    ("rwnd_limited", "busy"),
    ("sndbuf_limited", "busy"),
];

/// Records what `-i` prints about a connection.
pub fn record_tcp_info(run: &mut ToolRun, line: u32, key: SocketKey, words: &str) {
    // Every connection has a timeout: without it, -i was not used.
    if value(words, "rto").and_then(number).is_none() {
        return;
    }
    let mut row = TableRow::new(line, "", values(without_cut_end(words)));
    // The words must not have been joined either.
    let is_one = |word: &str| word.contains('(') || word.matches(':').count() < 2;
    let is_whole = LAST.iter().any(|name| value(words, name).is_some()) && words.split_whitespace().all(is_one);
    let zeros =
        OMITTED_IF_ZERO.iter().filter(|(name, with)| row.get(name).is_none() && row.get(with).is_some() && is_whole);
    // Acknowledged data was sent, although ss before 4.6 does not count its segments.
    let is_too_old = row.get("bytes_acked").is_some_and(|bytes| bytes > 0.0);
    let zeros = zeros.filter(|(name, _)| *name != "data_segs_out" || !is_too_old);
    let zeros: Vec<_> = zeros.map(|(name, _)| ((*name).to_owned(), 0.0)).collect();
    row.extend(TableRow::new(line, "", zeros));
    let connection = run.counts(0.0, key, &row, &INFO);
    let is_limited = words.contains("app_limited");
    if connection.delivery_rate.get().is_some() && (is_whole || is_limited) {
        connection.app_limited = f64::from(u8::from(is_limited)).into();
    }
    connection.congestion_control = congestion_control(words).map(Into::into).unwrap_or_default();
}

/// Values that follow all those that may be omitted: without one of them, the line may have been cut.
const LAST: [&str; 5] = ["rcv_space", "rcv_ssthresh", "minrtt", "snd_wnd", "rcv_wnd"];

/// Returns the words without the last one if that is a number after which more should follow: it may have been cut too.
fn without_cut_end(words: &str) -> &str {
    let last = words.rsplit(' ').next().unwrap_or_default();
    let is_end = LAST.iter().any(|name| last.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')));
    if is_end || last.ends_with(')') { words } else { words.trim_end().rsplit_once(' ').map_or("", |(rest, _)| rest) }
}

/// Returns the values among these words: `cwnd:10`, `rtt:20.25/0.5`, `rwnd_limited:12ms(0.5%)`, `pacing_rate 11.4Mbps`.
fn values(words: &str) -> Vec<(String, f64)> {
    let all: Vec<&str> = words.split_whitespace().collect();
    let mut values: Vec<(String, f64)> = Vec::new();
    for word in &all {
        let Some((name, value)) = word.split_once(':') else { continue };
        let (first, second) = value.split_once('/').unwrap_or((value, ""));
        let first = first.split("ms").next().unwrap_or(first);
        values.extend(number(first).map(|n| (name.to_owned(), n)));
        values.extend(number(second).map(|n| (format!("{name}/2"), n)));
    }
    for pair in all.windows(2) {
        values.extend(pair[1].strip_suffix("bps").and_then(|rate| scaled(rate, 1e3, 1.0)).map(|n| (pair[0].into(), n)));
    }
    values
}

/// Returns the word before the window scale or, if scaling is off, before the timeout.
fn congestion_control(words: &str) -> Option<&str> {
    let all: Vec<&str> = words.split_whitespace().collect();
    let at = all.iter().position(|w| w.starts_with("wscale:")).or(all.iter().position(|w| w.starts_with("rto:")))?;
    let word = all.get(at.checked_sub(1)?)?;
    word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_').then_some(*word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str = "skmem:(r0,rb131072,t0,tb87040,f0,w0,o0,bl0,d3) ts sack cubic wscale:7,7 rto:204.5 \
        rtt:20.25/0.5 mss:1448 cwnd:10 ssthresh:7 bytes_sent:5000 bytes_acked:4000 segs_out:9 send 5.7Mbps \
        pacing_rate 11.4Mbps delivery_rate 950000bps busy:2345ms rwnd_limited:12ms(0.5%) unacked:2 retrans:1/7 \
        rcv_space:14480 minrtt:0.042";

    fn connection(words: &str) -> Connection {
        let local = "127.0.0.1:1".parse().unwrap();
        let key = SocketKey { ns: "".into(), local, remote: local, inode: 0 };
        let mut run = ToolRun::new("test", &"x".into());
        record_tcp_info(&mut run, 1, key.clone(), words);
        run.row::<Connection>(0.0, 1, key).clone()
    }

    #[test]
    fn levels_times_and_rates_are_read() {
        let row = connection(WORDS);
        assert_eq!((row.rtt.get(), row.min_rtt.get()), (Some(20.25e6), Some(42_000.0)));
        assert_eq!(
            (row.retransmits.get(), row.bytes_acked.get(), row.bytes_received.get()),
            (Some(7), Some(4000), Some(0))
        );
        assert_eq!((row.delivery_rate.get(), row.pacing_rate.get()), (Some(950_000.0), Some(11.4e6)));
        assert_eq!((row.busy_time.get(), row.rwnd_limited.get()), (Some(2_345_000_000), Some(12_000_000)));
        assert_eq!((row.sndbuf_limited.get(), row.app_limited.get()), (Some(0), Some(0.0)));
        assert_eq!(row.congestion_control.get(), Some("cubic"));
        assert_eq!(SocketMemory::parse(WORDS).drops, Some(3));
    }

    #[test]
    fn without_the_words_all_is_absent() {
        let row = connection("users:((\"x\",pid=1,fd=2))");
        assert_eq!((row.retransmits.get(), row.lost.get(), row.busy_time.get()), (None, None, None));
    }
}
