//! The words `ss -i` and `-m` add to a socket: struct tcp_info of include/uapi/linux/tcp.h, and SK_MEMINFO of
//! include/uapi/linux/sock_diag.h.

use crate::number::number;
use whyslow_model::catalogue::{Connection, Family};

/// A millisecond in nanoseconds.
const MS: f64 = 1e6;

/// The value of `name:value` among these words.
pub fn value<'t>(words: &'t str, name: &str) -> Option<&'t str> {
    words.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix(':'))
}

/// The value of `name value`.
fn after<'t>(words: &'t str, name: &str) -> Option<&'t str> {
    let mut words = words.split_whitespace();
    words.find(|word| *word == name)?;
    words.next()
}

/// `skmem:(r0,rb131072,t0,tb87040,f0,w0,o0,bl0,d0)`
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// sk_rcvbuf, in bytes.
    pub receive_buffer: Option<f64>,
    /// sk_sndbuf, in bytes.
    pub send_buffer: Option<f64>,
    /// Packets dropped at the socket; told since Linux 4.7.
    pub drops: Option<u64>,
}

impl Memory {
    /// What the words tell.
    pub fn of(words: &str) -> Self {
        let list = value(words, "skmem").map(|list| list.trim_matches(['(', ')'])).unwrap_or_default();
        let find = |name: &str| list.split(',').find_map(|part| part.strip_prefix(name)).and_then(number);
        let whole = |n: f64| n as u64;
        Self { receive_buffer: find("rb"), send_buffer: find("tb"), drops: find("d").map(whole) }
    }
}

/// Counters that are left out where they are nought, each with a word that stands wherever this kernel and ss know it.
const LEFT_OUT_AT_ZERO: [(&str, &str, &str); 7] = [
    ("bytes_acked", "bytes_acked", "segs_out"),
    ("bytes_received", "bytes_received", "segs_out"),
    ("data_segs_out", "data_segments_out", "segs_out"),
    ("bytes_retrans", "bytes_retransmitted", "bytes_sent"),
    ("dsack_dups", "spurious", "bytes_sent"),
    ("reord_seen", "reordered", "bytes_sent"),
    ("segs_in", "segments_in", "segs_out"),
];

/// Takes over what the words of `-i` tell.
pub fn take(words: &str, row: &mut Connection) {
    // Every connection has a timeout: without one nothing of struct tcp_info was asked for.
    let Some(timeout) = value(words, "rto").and_then(number) else { return };
    row.retransmission_timeout = (timeout * MS).into();
    let count = |name: &str| value(words, name).and_then(number);
    let pair = |name: &str| value(words, name).and_then(|v| v.split_once('/'));
    let ms = |name: &str| count(name).map(|ms| ms * MS).into();
    if let Some((mean, deviation)) = pair("rtt") {
        row.rtt = number(mean).map(|v| v * MS).into();
        row.rtt_var = number(deviation).map(|v| v * MS).into();
    }
    row.min_rtt = ms("minrtt");
    row.receive_rtt = ms("rcv_rtt");
    row.congestion_window = count("cwnd").into();
    row.slow_start_threshold = count("ssthresh").into();
    row.mss = count("mss").into();
    row.receive_space = count("rcv_space").into();
    row.peer_window = count("snd_wnd").into();
    row.own_window = count("rcv_wnd").into();
    row.not_sent = count("notsent").into();
    row.unacked = count("unacked").unwrap_or(0.0).into();
    row.lost = count("lost").unwrap_or(0.0).into();
    row.delivery_rate = after(words, "delivery_rate").and_then(bits).into();
    row.pacing_rate = after(words, "pacing_rate").and_then(bits).into();
    if row.delivery_rate.get().is_some() {
        row.app_limited = f64::from(u8::from(words.split_whitespace().any(|w| w == "app_limited"))).into();
    }
    let again = pair("retrans").and_then(|(_, total)| number(total)).unwrap_or(0.0);
    row.retransmits = (again as u64).into();
    if let Some(segments) = count("segs_out") {
        row.segments_out = (segments as u64).into();
    }
    for (word, metric, beside) in LEFT_OUT_AT_ZERO {
        if let Some(told) = count(word).or(count(beside).map(|_| 0.0)) {
            row.set(metric, told as u64);
        }
    }
    times(words, row);
    row.congestion_control = congestion_control(words).map(Into::into).unwrap_or_default();
}

/// `busy:2345ms rwnd_limited:12ms(0.5%)`: both limits are left out where they are nought.
fn times(words: &str, row: &mut Connection) {
    let ms = |name: &str| value(words, name).and_then(|v| number(v.split("ms").next()?)).map(|ms| (ms * MS) as u64);
    let Some(busy) = ms("busy") else { return };
    row.busy_time = busy.into();
    row.rwnd_limited = ms("rwnd_limited").unwrap_or(0).into();
    row.sndbuf_limited = ms("sndbuf_limited").unwrap_or(0).into();
}

/// `1.2Gbps`, `96352bps`: thousands, as `sprint_bw` of misc/ss.c divides.
fn bits(text: &str) -> Option<f64> {
    let text = text.strip_suffix("bps")?;
    let (digits, unit) = match text.as_bytes().last()? {
        b'G' => (&text[..text.len() - 1], 1e9),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'K' | b'k' => (&text[..text.len() - 1], 1e3),
        _ => (text, 1.0),
    };
    Some(number(digits)? * unit)
}

/// The word before the window scale, or before the timeout where scaling is off.
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

    #[test]
    fn levels_times_and_rates() {
        let mut row = Connection::default();
        take(WORDS, &mut row);
        assert_eq!((row.rtt.get(), row.min_rtt.get()), (Some(20.25e6), Some(42_000.0)));
        assert_eq!(
            (row.retransmits.get(), row.bytes_acked.get(), row.bytes_received.get()),
            (Some(7), Some(4000), Some(0))
        );
        assert_eq!((row.delivery_rate.get(), row.pacing_rate.get()), (Some(950_000.0), Some(11.4e6)));
        assert_eq!((row.busy_time.get(), row.rwnd_limited.get()), (Some(2_345_000_000), Some(12_000_000)));
        assert_eq!((row.sndbuf_limited.get(), row.app_limited.get()), (Some(0), Some(0.0)));
        assert_eq!(row.congestion_control.get(), Some("cubic"));
        assert_eq!(Memory::of(WORDS).drops, Some(3));
    }

    #[test]
    fn without_the_words_all_is_absent() {
        let mut row = Connection::default();
        take("users:((\"x\",pid=1,fd=2))", &mut row);
        assert_eq!((row.retransmits.get(), row.lost.get(), row.busy_time.get()), (None, None, None));
    }
}
