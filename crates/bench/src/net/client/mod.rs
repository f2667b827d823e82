//! `bench net HOST`: measures against a server.

mod benchmark;
mod iperf3;
mod merged_run;
mod server_connection;
mod size_sweep;

use super::max_auto_buffer;
use super::token::Token;
use crate::bench_session::BenchSession;
use crate::{Error, Progress, Result, Stop};
use benchmark::NetBenchmark;
use iperf3::Iperf3;
use server_connection::{ServerConnection, Tick};
use std::net::SocketAddr;
use whyslow_documents::bench::{
    BenchKind, BenchReport, Direction, NetLoad, NetRound, NetRun, Network, Peer, Transport, Work,
};

const SETTINGS: [&str; 8] = [
    "core/rmem_max",
    "core/wmem_max",
    "core/default_qdisc",
    "ipv4/tcp_rmem",
    "ipv4/tcp_wmem",
    "ipv4/tcp_congestion_control",
    "ipv4/tcp_slow_start_after_idle",
    "ipv4/tcp_mtu_probing",
];

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetPart {
    /// The path MTU.
    Mtu,
    /// Response time and request rate.
    Latency,
    /// TCP bandwidth of one stream and of many.
    Streams,
    /// Response time while streams run.
    Loaded,
    /// The socket buffer needed.
    Buffers,
    /// The segment size needed.
    Segments,
    /// UDP: the highest rate without loss.
    Udp,
}

/// Program at the other end.
#[derive(Clone, Debug)]
pub enum ServerKind {
    /// `whyslow bench net serve` with this token.
    Whyslow(Token),
    /// `iperf3 -s`.
    Iperf3,
}

/// Options of `bench net`.
#[derive(Clone, Debug)]
pub struct NetOptions {
    /// `HOST` or `HOST:PORT`.
    pub host: String,
    /// Program at the host.
    pub server: ServerKind,
    /// Parts to measure; iperf3 supports only streams.
    pub parts: Vec<NetPart>,
    /// Directions to measure.
    pub directions: Vec<Direction>,
    /// Number of parallel streams.
    pub streams: u32,
    /// Stream options (block, buffer, segment, congestion control, zero-copy, discard), UDP rate, and duration of each
    /// run.
    pub like: NetLoad,
}

/// Runs the benchmark. If stopped early, or if the connection breaks, reports the results so far.
///
/// # Errors
/// Fails if there is no server, the server has another token, or nothing could be measured.
pub fn measure(options: &NetOptions, stop: &Stop, progress: &mut dyn FnMut(Progress)) -> Result<BenchReport> {
    let remote = match &options.server {
        ServerKind::Whyslow(token) => RemoteEnd::Whyslow(ServerConnection::open(&options.host, token)?),
        ServerKind::Iperf3 => RemoteEnd::Iperf3(Iperf3::at(&options.host)),
    };
    let mut session = BenchSession::begin(stop, progress);
    let mut benchmark = NetBenchmark::new(options, remote, &mut session);
    let outcome = benchmark.run();
    let network = benchmark.finish();
    if let Err(e) = outcome {
        if network.rounds.is_empty() {
            return Err(e);
        }
        session.add_caveat(&format!("ended early: {e}"));
    }
    Ok(report(session, network))
}

/// Stops a server.
///
/// # Errors
/// Fails if there is no server or it has another token.
pub fn stop_server(host: &str, token: &Token) -> Result<()> {
    ServerConnection::open(host, token)?.stop_server()
}

/// Connection to the other end.
enum RemoteEnd {
    Whyslow(ServerConnection),
    /// TCP streams only.
    Iperf3(Iperf3),
}

impl RemoteEnd {
    fn peer(&self) -> &Peer {
        match self {
            Self::Whyslow(connection) => &connection.peer,
            Self::Iperf3(server) => &server.peer,
        }
    }

    /// Returns whether the last round did not run because its streams did not reach the server.
    fn is_incomplete(&self) -> bool {
        matches!(self, Self::Whyslow(connection) if connection.incomplete)
    }

    /// Returns the round-trip time in seconds.
    fn rtt(&self) -> Option<f64> {
        match self {
            Self::Whyslow(connection) => connection.rtt(),
            Self::Iperf3(_) => None,
        }
    }

    /// Returns the path MTU that the kernel has determined.
    fn kernel_mtu(&self) -> Option<u32> {
        match self {
            Self::Whyslow(connection) => connection.kernel_mtu(),
            Self::Iperf3(_) => None,
        }
    }

    /// Runs a round of named loads.
    fn run_round(&mut self, group: &str, name: &str, loads: &[(&str, NetLoad)], tick: Tick) -> Result<NetRound> {
        match (self, loads) {
            (Self::Whyslow(connection), _) => connection.run_round(group, name, loads, tick),
            (Self::Iperf3(server), [(name, load)]) => server.run_round(group, name, load, tick),
            (Self::Iperf3(_), _) => Err(Error::new("iperf3 runs one load at a time")),
        }
    }
}

fn report(mut session: BenchSession, network: Network) -> BenchReport {
    session.caveats.extend(caveats(&network));
    let mut report = BenchReport { network: Some(network), ..session.finish(BenchKind::Net) };
    let setting = |name: &str| {
        let path = format!("/proc/sys/net/{name}");
        let value = std::fs::read_to_string(&path).ok()?;
        Some((path, value.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    report.environment.settings.extend(SETTINGS.into_iter().filter_map(setting));
    report
}

fn caveats(network: &Network) -> Vec<String> {
    let mut caveats = Vec::new();
    let address = |text: &str| text.parse::<SocketAddr>().ok().map(|address| address.ip());
    if address(&network.peer.address).is_some_and(|peer| Some(peer) == address(&network.peer.local)) {
        caveats.push("both ends are this machine: they share its CPUs, and no network link is measured".into());
    }
    let mut runs = network.rounds.iter().flat_map(|round| &round.runs);
    if runs.any(|run| discards(run, &network.peer.program)) {
        caveats.push(
            "TCP receivers discarded the data in the kernel (MSG_TRUNC) and were woken in batches; a program that reads it \
             needs more CPU time (--copy measures that)"
                .into(),
        );
    }
    if let Some(mtu) = network.mtu.as_ref()
        && let Some(kernel) = mtu.kernel.filter(|&kernel| mtu.bytes < kernel)
    {
        caveats.push(format!(
            "packets larger than {} bytes are lost silently, and the kernel sends up to {kernel}: lower the MTU of the \
             interface, or set net.ipv4.tcp_mtu_probing=1",
            mtu.bytes
        ));
    }
    let others = network.rounds.iter().filter_map(|round| round.other_clients).max().unwrap_or(0);
    if others > 0 {
        caveats.push(format!("the server had up to {others} other clients at the same time"));
    }
    caveats.extend(small_buffers(network));
    caveats
}

/// Returns whether a run's receivers discarded data in the kernel. An iperf3 server always reads it.
fn discards(run: &NetRun, server: &str) -> bool {
    let here = run.asked.work == Work::Stream(Direction::Down);
    let there = run.asked.work == Work::Stream(Direction::Up) && server != iperf3::PROGRAM;
    run.asked.discard && run.asked.transport == Transport::Tcp && (here || there)
}

/// Describes autotuning limits that are too low for the path.
fn small_buffers(network: &Network) -> Vec<String> {
    let Some(product) = network.buffers.as_ref().and_then(|sizes| sizes.product) else { return Vec::new() };
    let limits = [
        ("here", "tcp_wmem", max_auto_buffer("tcp_wmem")),
        ("here", "tcp_rmem", max_auto_buffer("tcp_rmem")),
        ("at the other end", "tcp_wmem", network.peer.send_most),
        ("at the other end", "tcp_rmem", network.peer.receive_most),
    ];
    // About half of a buffer is the kernel's own overhead (net.ipv4.tcp_rmem of ip-sysctl.rst, tcp_adv_win_scale).
    let too_low = |(place, name, most): (&str, &str, Option<u64>)| {
        let most = most.filter(|&most| (most as f64) < 2.0 * product)?;
        Some(format!(
            "{place} net.ipv4.{name} limits a buffer to {most} bytes, less than twice the bandwidth-delay product of \
             {product:.0} bytes: raise its third value"
        ))
    };
    limits.into_iter().filter_map(too_low).collect()
}
