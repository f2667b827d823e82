//! `bench net HOST`: measures against a server.

mod far;
mod iperf3;
mod link;
mod plan;
mod run;
mod sizes;
mod sweeps;

use super::token::Token;
use crate::error::Result;
use crate::round::Progress;
use crate::session::Session;
use crate::stop::Stop;
use far::Far;
use iperf3::Iperf3;
use link::Link;
use plan::Plan;
use std::net::SocketAddr;
use whyslow_model::bench::{Direction, Kind, NetLoad, NetRun, Network, Report, Transport, Work};

/// Settings of the machine that bear on what the network does.
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

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// The largest packet that passes.
    Mtu,
    /// How long an answer takes, and how many there are a second.
    Latency,
    /// TCP, one stream and many.
    Streams,
    /// How long an answer takes while streams run.
    Loaded,
    /// Which socket buffer is needed.
    Buffers,
    /// Which segment size is needed.
    Segments,
    /// Datagrams: how many pass, and at which rate none is lost.
    Udp,
}

/// What answers.
#[derive(Clone, Debug)]
pub enum Server {
    /// `whyslow bench net serve`, which knows this token too.
    Whyslow(Token),
    /// `iperf3 -s`.
    Iperf3,
}

/// What is to be measured against whom.
#[derive(Clone, Debug)]
pub struct Ask {
    /// `HOST` or `HOST:PORT`.
    pub host: String,
    /// What answers there.
    pub server: Server,
    /// What to measure; of iperf3, streams only.
    pub themes: Vec<Theme>,
    /// Which ways.
    pub directions: Vec<Direction>,
    /// How many streams many are.
    pub streams: u32,
    /// What streams are like: block, buffer, segment, congestion control, how bytes are sent and received; a rate is that of
    /// datagrams. The time measured of each run.
    pub like: NetLoad,
}

/// Measures. Ended before its time by `stop`, it reports what it has; where the connection ends, too.
///
/// # Errors
/// Where there is no server, it knows another token, or nothing could be measured.
pub fn measure(asked: &Ask, stop: &Stop, watch: &mut dyn FnMut(Progress)) -> Result<Report> {
    let far = match &asked.server {
        Server::Whyslow(token) => Far::Whyslow(Link::open(&asked.host, token)?),
        Server::Iperf3 => Far::Iperf3(Iperf3::at(&asked.host)),
    };
    let mut session = Session::begin(stop, watch);
    let mut plan = Plan::new(asked, far, &mut session);
    let worked = plan.work();
    let network = plan.finish();
    if let Err(e) = worked {
        if network.rounds.is_empty() {
            return Err(e);
        }
        session.caveats.push(format!("it ended early: {e}"));
    }
    Ok(report(session, network))
}

/// Ends a server.
///
/// # Errors
/// Where there is none, or it knows another token.
pub fn end_server(host: &str, token: &Token) -> Result<()> {
    Link::open(host, token)?.quit()
}

fn report(mut session: Session, network: Network) -> Report {
    session.caveats.extend(caveats(&network));
    let mut report = session.finish(Kind::Net, Vec::new());
    let setting = |name: &str| {
        let path = format!("/proc/sys/net/{name}");
        let value = std::fs::read_to_string(&path).ok()?;
        Some((path, value.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    report.environment.settings.extend(SETTINGS.into_iter().filter_map(setting));
    report.network = Some(network);
    report
}

/// What is to be borne in mind.
fn caveats(network: &Network) -> Vec<String> {
    let mut caveats = Vec::new();
    let address = |text: &str| text.parse::<SocketAddr>().ok().map(|address| address.ip());
    if address(&network.peer.address).is_some_and(|peer| Some(peer) == address(&network.peer.local)) {
        caveats.push("both ends are this machine: they share its processors, and no wire is measured".into());
    }
    let mut runs = network.rounds.iter().flat_map(|round| &round.runs);
    if runs.any(|run| discards(run, &network.peer.program)) {
        caveats.push(
            "the receivers of TCP had the kernel throw the bytes away (MSG_TRUNC), and were woken for many at a time: what \
             a program takes that reads them comes on top (--copy measures it)"
                .into(),
        );
    }
    if let Some(mtu) = network.mtu.as_ref()
        && let Some(kernel) = mtu.kernel.filter(|&kernel| mtu.bytes < kernel)
    {
        caveats.push(format!(
            "packets of more than {} bytes vanish on the way, and the sender, which sends {kernel}, is not notified: set the MTU \
             of the interface, or net.ipv4.tcp_mtu_probing",
            mtu.bytes
        ));
    }
    let others = network.rounds.iter().filter_map(|round| round.other_clients).max().unwrap_or(0);
    if others > 0 {
        caveats.push(format!("the server worked for up to {others} other clients at the same time"));
    }
    caveats.extend(small_buffers(network));
    caveats
}

/// Whether a run's receivers had the kernel throw bytes away. An iperf3 server reads them, whatever is asked for.
fn discards(run: &NetRun, server: &str) -> bool {
    let here = run.asked.work == Work::Stream(Direction::Down);
    let there = run.asked.work == Work::Stream(Direction::Up) && server != iperf3::PROGRAM;
    run.asked.discard && run.asked.transport == Transport::Tcp && (here || there)
}

/// Where what a socket's buffer grows to by itself is less than the path needs.
fn small_buffers(network: &Network) -> Vec<String> {
    let Some(product) = network.buffers.as_ref().and_then(|sizes| sizes.product) else { return Vec::new() };
    let ends = [
        ("here", "tcp_wmem", super::most_buffer("tcp_wmem")),
        ("here", "tcp_rmem", super::most_buffer("tcp_rmem")),
        ("at the other end", "tcp_wmem", network.peer.send_most),
        ("at the other end", "tcp_rmem", network.peer.receive_most),
    ];
    // About half of a buffer is the kernel's own bookkeeping (net.ipv4.tcp_rmem of ip-sysctl.rst, tcp_adv_win_scale).
    let small = |most: u64| (most as f64) < 2.0 * product;
    let told = |(place, name, most): (&str, &str, Option<u64>)| {
        let most = most.filter(|&most| small(most))?;
        Some(format!(
            "{place} net.ipv4.{name} lets a buffer grow to {most} bytes, which is less than twice the bandwidth-delay product, \
             {product:.0} bytes"
        ))
    };
    ends.into_iter().filter_map(told).collect()
}
