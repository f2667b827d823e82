//! What a benchmark of the network measured.

mod findings;

pub use findings::{Loaded, PathMtu, Size, Sizes};

use super::{Cost, Generator, Latency};
use serde::{Deserialize, Serialize};

/// What was measured between this machine and another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// The other end.
    pub peer: Peer,
    /// The largest packet that passes; none where it was not looked for.
    pub mtu: Option<PathMtu>,
    /// What ran, in order.
    pub rounds: Vec<NetRound>,
    /// How much longer an answer takes while streams run; empty where that was not measured.
    pub loaded: Vec<Loaded>,
    /// Socket buffers, and the one that is needed.
    pub buffers: Option<Sizes>,
    /// Segment sizes, and the one that is needed.
    pub segments: Option<Sizes>,
    /// UDP: the highest rate at which nothing, or next to nothing, was lost, bytes a second; none where that was not found.
    pub udp_lossless: Option<f64>,
}

/// The other end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// As it was named.
    pub name: String,
    /// Its address and port.
    pub address: String,
    /// The address and port it is reached from.
    pub local: String,
    /// What answers there: `whyslow 0.1.0`, `iperf3`.
    pub program: String,
    /// Its host's name; none where it did not say.
    pub host: Option<String>,
    /// Its kernel.
    pub kernel: Option<String>,
    /// Its processors.
    pub cpus: Option<u32>,
    /// The most a TCP socket's receive buffer grows to by itself there (net.ipv4.tcp_rmem), bytes.
    pub receive_most: Option<u64>,
    /// The same of the send buffer (net.ipv4.tcp_wmem).
    pub send_most: Option<u64>,
}

/// What ran at the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetRound {
    /// What it is for, in a few words.
    pub name: String,
    /// What it is a part of: rounds of one group are compared.
    pub group: String,
    /// The loads of this round.
    pub runs: Vec<NetRun>,
    /// Other clients the server worked for meanwhile, which take part of what there is; none where it did not say.
    pub other_clients: Option<u32>,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From here to the other end.
    Up,
    /// From the other end to here.
    Down,
}

/// How bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A stream.
    Tcp,
    /// Datagrams.
    Udp,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// As many bytes as there is room for, one way.
    Stream(Direction),
    /// A request from here, an answer of the other end, and so on: one at a time over each connection.
    Exchange,
}

/// A load on the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetLoad {
    /// What is done.
    pub work: Work,
    /// Over what.
    pub transport: Transport,
    /// How many connections, or pairs of UDP sockets, each with a thread at either end.
    pub streams: u32,
    /// Bytes handed over in one call; of a datagram; of a request.
    pub block: u32,
    /// Bytes of an answer.
    pub answer: u32,
    /// Bytes a second over all streams of datagrams; none is as many as there is room for.
    pub rate: Option<f64>,
    /// How long to pause between an answer and the next request, seconds.
    pub pause: f64,
    /// The socket buffer asked for at both ends (SO_SNDBUF, SO_RCVBUF), bytes; none leaves it to the kernel.
    pub buffer: Option<u32>,
    /// The largest TCP segment (TCP_MAXSEG), bytes; none leaves it to the kernel.
    pub segment: Option<u32>,
    /// The congestion control; none leaves it to the kernel.
    pub congestion: Option<String>,
    /// Whether bytes are sent from the page cache without being copied (sendfile(2)).
    pub send_file: bool,
    /// Whether the receiver has the kernel throw bytes away (MSG_TRUNC, tcp(7)) instead of copying them out.
    pub discard: bool,
    /// Time at the start that is not measured, seconds.
    pub ramp_seconds: f64,
    /// The time measured, seconds.
    pub seconds: f64,
}

impl NetLoad {
    /// One TCP stream from here, as the kernel would have it: where other loads begin.
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

    /// 64 bytes there and 64 back, over and over.
    pub fn exchange(transport: Transport, seconds: f64) -> Self {
        let stream = Self::stream(Direction::Up, seconds);
        Self { work: Work::Exchange, transport, block: 64, answer: 64, ..stream }
    }
}

/// One load and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetRun {
    /// Its name.
    pub name: String,
    /// What was asked for.
    pub asked: NetLoad,
    /// Bytes a second that arrived, as the receiving end counted them; none of an exchange.
    pub bandwidth: Option<f64>,
    /// Answers a second; none of a stream.
    pub rate: Option<f64>,
    /// What became of datagrams; none of TCP.
    pub datagrams: Option<Datagrams>,
    /// This end.
    pub here: NetEnd,
    /// The other end; none where it told nothing.
    pub there: Option<NetEnd>,
    /// What ended it before its time; none where nothing did.
    pub failed: Option<String>,
}

impl NetRun {
    /// The end at which bytes of a stream arrive, or answers of an exchange.
    pub fn receiver(&self) -> Option<&NetEnd> {
        if self.asked.work == Work::Stream(Direction::Up) { self.there.as_ref() } else { Some(&self.here) }
    }

    /// The end that sends the bytes of a stream, or the requests of an exchange.
    pub fn sender(&self) -> Option<&NetEnd> {
        if self.asked.work == Work::Stream(Direction::Down) { self.there.as_ref() } else { Some(&self.here) }
    }
}

/// What became of datagrams, from the first to the last, those included that are not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Datagrams {
    /// Sent.
    pub sent: u64,
    /// Arrived.
    pub received: u64,
    /// Sent, and did not arrive.
    pub lost: u64,
    /// Of those lost, how many reached the receiving socket and found its buffer full; none where the kernel did not say.
    pub lost_for_buffer: Option<u64>,
    /// Arrived after one that was sent later.
    pub out_of_order: u64,
    /// How much the time on the way varies from one to the next, smoothed (RFC 3550, 6.4.1), seconds.
    pub jitter: f64,
}

/// One end of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetEnd {
    /// The time measured, by this end's clock, seconds.
    pub seconds: f64,
    /// Bytes that this end sent or received in it: of a stream.
    pub bytes: u64,
    /// The same from the first to the last, what is not measured included.
    pub all_bytes: u64,
    /// Answers in the time measured: of the end that asks.
    pub answers: u64,
    /// How long they took; none but at the end that asks.
    pub latency: Option<Latency>,
    /// Datagrams sent or received by this end; none of TCP.
    pub datagrams: Option<Datagrams>,
    /// The course of it.
    pub series: NetSeries,
    /// One for each connection.
    pub streams: Vec<NetStream>,
    /// Processor time of the threads that made the load.
    pub cost: Cost,
    /// Processor time of the whole machine meanwhile, interrupts and all others included, seconds; none where not known.
    pub machine_seconds: Option<f64>,
    /// Whether this end was the limit.
    pub generator: Generator,
    /// What ended it before its time; none where nothing did.
    pub failed: Option<String>,
}

impl NetEnd {
    /// Bytes a second; none where no time was measured.
    pub fn bandwidth(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.bytes as f64 / self.seconds)
    }

    /// Processor time of this end's threads for each byte, seconds; none where there was none.
    pub fn cost_per_byte(&self) -> Option<f64> {
        (self.all_bytes > 0).then(|| (self.cost.user_seconds + self.cost.system_seconds) / self.all_bytes as f64)
    }
}

/// The course of a load, in intervals. One in which nothing moved is a zero like any other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetSeries {
    /// The length of an interval, seconds; the last may be cut short.
    pub interval: f64,
    /// Bytes in each; empty of an exchange.
    pub bytes: Vec<u64>,
    /// Answers in each; empty of a stream.
    pub answers: Vec<u64>,
}

impl NetSeries {
    /// Stretches in which nothing moved: first interval and how many.
    pub fn stalls(&self) -> Vec<(usize, usize)> {
        let moved = if self.bytes.is_empty() { &self.answers } else { &self.bytes };
        super::stretches(moved.iter().map(|&moved| moved == 0))
    }
}

/// One connection, as the end that sends has it; of its first to its last instant measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetStream {
    /// Bytes in the time measured.
    pub bytes: u64,
    /// The socket buffer of this end's part in it, as the kernel granted it, bytes: for what it sends or receives.
    pub buffer: Option<u64>,
    /// The largest segment, bytes.
    pub mss: Option<u32>,
    /// The path MTU that the kernel goes by, bytes.
    pub mtu: Option<u32>,
    /// Where the time went; none of UDP, and at the end that receives.
    pub time: Option<StreamTime>,
    /// Segments with data that were sent, those sent again included.
    pub segments: Option<u64>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// Round-trip times the kernel had, looked at once an interval; none where it had none.
    pub rtt: Option<Spread>,
    /// Congestion windows, bytes, looked at once an interval.
    pub window: Option<Spread>,
}

/// The least, the mean and the most of what was looked at now and then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The most.
    pub max: f64,
}

/// Where a TCP sender's time went, seconds (tcp_info of include/uapi/linux/tcp.h: tcpi_busy_time, tcpi_rwnd_limited,
/// tcpi_sndbuf_limited). The four add up to the time measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamTime {
    /// Held up by the receiver's window.
    pub receive_window: f64,
    /// Held up because all that the send buffer holds was on its way.
    pub send_buffer: f64,
    /// Held up by nothing but what the network was thought to bear: congestion window and pacing.
    pub congestion: f64,
    /// Nothing to send: the program that sends was slower.
    pub application: f64,
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
