//! The result of a network benchmark.

use super::{CpuCost, Generator, Latency};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Results between this machine and another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// The other end.
    pub peer: Peer,
    /// The path MTU.
    pub mtu: Option<PathMtu>,
    /// What ran, in order.
    pub rounds: Vec<NetRound>,
    /// Response time under load.
    pub loaded: Vec<Loaded>,
    /// Socket buffer sizes, and the one needed.
    pub buffers: Option<Sizes>,
    /// Segment sizes, and the one needed.
    pub segments: Option<Sizes>,
    /// The highest UDP rate without loss, bytes per second.
    pub udp_lossless: Option<f64>,
}

/// The other end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Peer {
    /// As given on the command line.
    pub name: String,
    /// Its address and port.
    pub address: String,
    /// The local address and port.
    pub local: String,
    /// The program there: `whyslow 0.1.0`, `iperf3`.
    pub program: String,
    /// Its host name.
    pub host: Option<String>,
    /// Its kernel.
    pub kernel: Option<String>,
    /// Its number of CPUs.
    pub cpus: Option<u32>,
    /// Maximum of TCP receive buffer autotuning there (net.ipv4.tcp_rmem), bytes.
    pub receive_most: Option<u64>,
    /// Maximum of TCP send buffer autotuning there (net.ipv4.tcp_wmem), bytes.
    pub send_most: Option<u64>,
}

/// Runs at the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetRound {
    /// What it is for, in a few words.
    pub name: String,
    /// Rounds of a group are compared.
    pub group: String,
    /// The loads of this round.
    pub runs: Vec<NetRun>,
    /// Other clients of the server meanwhile, which share its capacity.
    pub other_clients: Option<u32>,
}

/// The direction of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From here to the other end.
    Up,
    /// From the other end to here.
    Down,
}

/// The transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A stream.
    Tcp,
    /// Datagrams.
    Udp,
}

/// What a load does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// One way, as fast as possible.
    Stream(Direction),
    /// A request from here and an answer of the other end, one at a time per connection.
    Exchange,
}

/// A load on the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetLoad {
    /// What is done.
    pub work: Work,
    /// The transport protocol.
    pub transport: Transport,
    /// Number of connections, each with a thread at both ends.
    pub streams: u32,
    /// Bytes per send or receive call, datagram, or request.
    pub block: u32,
    /// Bytes of an answer.
    pub answer: u32,
    /// Rate of all UDP streams, bytes per second; `None` is unpaced.
    pub rate: Option<f64>,
    /// Pause before each request, seconds.
    pub pause: f64,
    /// Socket buffers at both ends (SO_SNDBUF, SO_RCVBUF), bytes; `None` for the kernel's default.
    pub buffer: Option<u32>,
    /// Maximum segment size (TCP_MAXSEG), bytes; `None` for the kernel's default.
    pub segment: Option<u32>,
    /// Congestion control; `None` for the kernel's default.
    pub congestion: Option<String>,
    /// Whether to send from the page cache without copying (sendfile(2)).
    pub send_file: bool,
    /// Whether the receiver discards data in the kernel (MSG_TRUNC, tcp(7)) instead of copying it.
    pub discard: bool,
    /// Unmeasured time at the start, seconds.
    pub ramp_seconds: f64,
    /// Measured time, seconds.
    pub seconds: f64,
}

impl NetLoad {
    /// Creates a load of one TCP stream with the kernel's defaults: a base for other loads.
    pub fn stream(direction: Direction, seconds: f64) -> Self {
        Self {
            work: Work::Stream(direction),
            transport: Transport::Tcp,
            streams: 1,
            block: 1 << 17,
            answer: 0,
            rate: None,
            pause: 0.0,
            buffer: None,
            segment: None,
            congestion: None,
            send_file: false,
            discard: false,
            ramp_seconds: 0.0,
            seconds,
        }
    }

    /// Creates a request-response load with 64 bytes each way.
    pub fn exchange(transport: Transport, seconds: f64) -> Self {
        let stream = Self::stream(Direction::Up, seconds);
        Self { work: Work::Exchange, transport, block: 64, answer: 64, ..stream }
    }
}

/// One load and its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetRun {
    /// Its name.
    pub name: String,
    /// What was asked for.
    pub asked: NetLoad,
    /// Bytes per second received; of streams.
    pub bandwidth: Option<f64>,
    /// Answers per second; of exchanges.
    pub rate: Option<f64>,
    /// UDP datagrams.
    pub datagrams: Option<Datagrams>,
    /// This end.
    pub here: NetEnd,
    /// The other end, if it reported.
    pub there: Option<NetEnd>,
    /// What ended it early.
    pub failed: Option<String>,
}

impl NetRun {
    /// Returns the end that receives the stream, or the answers.
    pub fn receiver(&self) -> Option<&NetEnd> {
        if self.asked.work == Work::Stream(Direction::Up) { self.there.as_ref() } else { Some(&self.here) }
    }

    /// Returns the end that sends the stream, or the requests.
    pub fn sender(&self) -> Option<&NetEnd> {
        if self.asked.work == Work::Stream(Direction::Down) { self.there.as_ref() } else { Some(&self.here) }
    }
}

/// Datagrams, including those of the ramp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Datagrams {
    /// Sent.
    pub sent: u64,
    /// Arrived.
    pub received: u64,
    /// Sent but not received.
    pub lost: u64,
    /// Lost at a full receive buffer.
    pub lost_for_buffer: Option<u64>,
    /// Received after a later one.
    pub out_of_order: u64,
    /// Jitter (RFC 3550, 6.4.1), seconds.
    pub jitter: f64,
}

/// One end of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetEnd {
    /// Measured time by its own clock, seconds.
    pub seconds: f64,
    /// Bytes sent or received in the measured time; of streams.
    pub bytes: u64,
    /// Bytes including the ramp.
    pub all_bytes: u64,
    /// Answers in the measured time; at the end that asks.
    pub answers: u64,
    /// Response times; at the end that asks.
    pub latency: Option<Latency>,
    /// Datagrams sent or received by this end.
    pub datagrams: Option<Datagrams>,
    /// The time series.
    pub series: NetSeries,
    /// One for each connection.
    pub streams: Vec<NetStream>,
    /// CPU time of the load-generating threads.
    pub cost: CpuCost,
    /// CPU time of the whole machine, including interrupts and other processes, seconds.
    pub machine_seconds: Option<f64>,
    /// Whether the CPU of this end was the limit.
    pub generator: Generator,
    /// What ended it early.
    pub failed: Option<String>,
}

impl NetEnd {
    /// Returns the throughput in bytes per second.
    pub fn bandwidth(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.bytes as f64 / self.seconds)
    }

    /// Returns the CPU time of this end's threads per byte, in seconds.
    pub fn cost_per_byte(&self) -> Option<f64> {
        (self.all_bytes > 0).then(|| (self.cost.user_seconds + self.cost.system_seconds) / self.all_bytes as f64)
    }
}

/// A time series; intervals in which nothing moved are zeros.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetSeries {
    /// Length of an interval, seconds; the last may be shorter.
    pub interval: f64,
    /// Of streams.
    pub bytes: Vec<u64>,
    /// Of exchanges.
    pub answers: Vec<u64>,
}

impl NetSeries {
    /// Returns the runs of intervals in which nothing was transferred: first interval and number of intervals.
    pub fn stalls(&self) -> Vec<(usize, usize)> {
        let moved = if self.bytes.is_empty() { &self.answers } else { &self.bytes };
        super::stretches(moved.iter().map(|&moved| moved == 0))
    }
}

/// One connection during the measured time, as its sender sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetStream {
    /// Bytes in the time measured.
    pub bytes: u64,
    /// Its send or receive buffer as granted by the kernel, bytes.
    pub buffer: Option<u64>,
    /// Maximum segment size, bytes.
    pub mss: Option<u32>,
    /// Path MTU as known to the kernel, bytes.
    pub mtu: Option<u32>,
    /// What limited it; of TCP senders.
    pub time: Option<StreamTime>,
    /// Data segments sent, including retransmits.
    pub segments: Option<u64>,
    /// Retransmitted segments.
    pub retransmits: Option<u64>,
    /// Round-trip times, sampled once per interval.
    pub rtt: Option<SampleStats>,
    /// Congestion windows, bytes, sampled once per interval.
    pub window: Option<SampleStats>,
}

/// Statistics of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SampleStats {
    /// Minimum.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// Maximum.
    pub max: f64,
}

/// What limited a TCP sender, seconds (tcp_info of include/uapi/linux/tcp.h: tcpi_busy_time, tcpi_rwnd_limited,
/// tcpi_sndbuf_limited). The four add up to the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamTime {
    /// The receive window.
    pub receive_window: f64,
    /// The send buffer.
    pub send_buffer: f64,
    /// Congestion window and pacing.
    pub congestion: f64,
    /// The application had nothing to send.
    pub application: f64,
}

/// The path MTU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathMtu {
    /// The largest unfragmented IP packet that arrived, bytes.
    pub bytes: u32,
    /// The kernel's own value; if it is larger, packets are lost silently.
    pub kernel: Option<u32>,
}

/// Response time while streams run and idle, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loaded {
    /// Direction of the streams.
    pub direction: Direction,
    /// Number of streams.
    pub streams: u32,
    /// Their bandwidth, bytes per second.
    pub bandwidth: f64,
    /// Median while idle.
    pub alone: f64,
    /// The median while streams run.
    pub median: f64,
    /// 99th percentile while streams run.
    pub p99: Option<f64>,
    /// Bytes queued on the path: bandwidth times the increase of the median (Little's law).
    pub queued: f64,
}

/// Bandwidth by size of socket buffers or segments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// In order of size.
    pub points: Vec<Size>,
    /// Bandwidth with the kernel's default, bytes per second.
    pub automatic: Option<f64>,
    /// The smallest size that reaches 95 % of the best; `None` if bandwidth does not depend on it.
    pub needed: Option<u32>,
    /// The bandwidth-delay product, bytes: best bandwidth times shortest response time.
    pub product: Option<f64>,
    /// Whether a larger size than the largest measured might bring more.
    pub open: bool,
}

/// One size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Size {
    /// As it was asked for, bytes.
    pub bytes: u32,
    /// Bytes per second.
    pub bandwidth: f64,
    /// CPU time of the sending threads per byte, seconds.
    pub send_cost: Option<f64>,
    /// CPU time of the receiving threads per byte, seconds.
    pub receive_cost: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_in_which_nothing_moved_are_stalls() {
        let series = NetSeries { interval: 0.1, bytes: vec![7, 0, 0, 9, 0], answers: Vec::new() };
        assert_eq!(series.stalls(), [(1, 2), (4, 1)]);
        let series = NetSeries { interval: 0.1, bytes: Vec::new(), answers: vec![0, 3] };
        assert_eq!(series.stalls(), [(0, 1)]);
    }
}
