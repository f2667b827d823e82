//! Network benchmarks as text, and hostile names in them.

use proptest::prelude::*;
use whyslow_documents::bench::{
    BenchKind, BenchReport, Datagrams, Direction, Environment, Generator, Loaded, NetEnd, NetLoad, NetRound, NetRun,
    NetSeries, NetStream, Network, PathMtu, Peer, SCHEMA, SampleStats, Size, Sizes, StreamTime, Transport,
};
use whyslow_show::escape::is_deceptive;
use whyslow_show::json;
use whyslow_show::text::{self, TextStyle};

const PLAIN: TextStyle = TextStyle { width: 120, colour: false, all: false, utc: true };

/// Returns two seconds with this many bytes in total, none of them in the third tenth.
fn end(bytes: u64) -> NetEnd {
    let time = StreamTime { receive_window: 1.0, send_buffer: 0.1, congestion: 0.7, application: 0.2 };
    let rtt = Some(SampleStats { min: 1e-3, mean: 2e-3, max: 4e-3 });
    let stream = NetStream {
        bytes,
        mss: Some(1448),
        mtu: Some(1500),
        time: Some(time),
        segments: Some(1000),
        retransmits: Some(10),
        rtt,
        ..NetStream::default()
    };
    NetEnd {
        seconds: 2.0,
        bytes,
        all_bytes: bytes,
        series: NetSeries { interval: 0.1, bytes: vec![bytes / 4, bytes / 4, 0, bytes / 2], answers: Vec::new() },
        streams: vec![stream],
        machine_seconds: Some(1.0),
        ..NetEnd::default()
    }
}

fn run(name: &str, load: NetLoad, datagrams: Option<Datagrams>) -> NetRun {
    let there = NetEnd { generator: Generator { was_limit: true, ..Generator::default() }, ..end(250_000_000) };
    let (bandwidth, here) = (Some(125e6), end(250_000_000));
    NetRun { name: name.into(), asked: load, bandwidth, rate: None, datagrams, here, there: Some(there), failed: None }
}

fn round(group: &str, run: NetRun) -> NetRound {
    NetRound { name: run.name.clone(), group: group.into(), runs: vec![run], other_clients: Some(0) }
}

fn network() -> Network {
    let stream = NetLoad::stream(Direction::Up, 2.0);
    let udp = NetLoad { transport: Transport::Udp, ..stream.clone() };
    let lost = Datagrams { sent: 1000, received: 900, lost: 100, lost_for_buffer: Some(25), ..Datagrams::default() };
    let size = |bytes: u32| Size { bytes, bandwidth: 125e6, ..Size::default() };
    let buffers = Sizes {
        points: vec![size(1 << 17), size(1 << 18)],
        automatic: Some(125e6),
        needed: Some(1 << 18),
        product: Some(250_000.0),
        open: true,
    };
    let (alone, median) = (1e-3, 21e-3);
    let loaded =
        Loaded { direction: Direction::Up, streams: 8, bandwidth: 125e6, alone, median, p99: None, queued: 2.5e6 };
    Network {
        peer: Peer { name: "db1".into(), address: "10.0.0.2:5219".into(), host: Some("far".into()), ..Peer::default() },
        mtu: Some(PathMtu { bytes: 1400, kernel: Some(1500) }),
        rounds: vec![
            round("TCP streams", run("up, 1 stream", stream, None)),
            round("UDP", run("up, flood", udp, Some(lost))),
        ],
        loaded: vec![loaded],
        buffers: Some(buffers),
        segments: None,
        udp_lossless: Some(100e6),
    }
}

fn report(network: Network) -> BenchReport {
    BenchReport {
        schema: SCHEMA.into(),
        kind: BenchKind::Net,
        started: None,
        started_ms: None,
        seconds: 12.3,
        interrupted: false,
        environment: Environment::default(),
        targets: Vec::new(),
        rounds: Vec::new(),
        ceilings: Vec::new(),
        splits: Vec::new(),
        layers: Vec::new(),
        files: Vec::new(),
        pairs: Vec::new(),
        studies: Vec::new(),
        network: Some(network),
        caveats: Vec::new(),
    }
}

#[test]
fn the_summary_and_the_limits_of_streams_are_drawn() {
    let drawn = text::bench(&report(network()), &PLAIN);
    for said in [
        "db1 (far) · 10.0.0.2:5219",
        "path MTU: 1400 bytes, but the kernel sends packets of 1500 bytes: those are lost",
        "response time: 1 ms idle, 21 ms during 8 streams up at 1 Gbit/s: 2.38 MiB queued on the path",
        "socket buffer needed: at least 256 KiB; the bandwidth-delay product is 244 KiB; with the kernel's default, 1 Gbit/s",
        "UDP without loss: 800 Mbit/s received",
        "stalled: up, 1 stream: nothing was received for 100 ms, from 200 ms on",
        "what limited the streams: up, 1 stream",
    ] {
        assert!(drawn.contains(said), "{said}\n{drawn}");
    }
    let row = |start: &str| drawn.lines().find(|line| line.trim_start().starts_with(start)).unwrap().to_owned();
    assert!(row("up, flood").contains("10 %") && row("up, flood").contains("25 %"), "{}", row("up, flood"));
    assert!(row("up, 1 stream").contains("other end"), "{}", row("up, 1 stream"));
    let times = row("1 ");
    assert!(["50 %", "5 %", "35 %", "10 %", "2 ms", "1448", "1500"].iter().all(|cell| times.contains(cell)), "{times}");
}

#[test]
fn a_report_comes_back_from_json_as_it_was() {
    let report = report(network());
    assert_eq!(serde_json::from_str::<BenchReport>(&json::pretty(&report)).unwrap(), report);
}

proptest! {
    #[test]
    fn hostile_names_are_escaped(name: String, host: String, why: String) {
        let mut network = network();
        network.peer.name = name;
        network.peer.host = Some(host.clone());
        network.peer.program = host;
        network.rounds[0].name = why.clone();
        network.rounds[0].runs[0].failed = Some(why);
        let report = report(network);
        for drawn in [text::bench(&report, &PLAIN), json::pretty(&report)] {
            prop_assert!(!drawn.contains(|c| c != '\n' && is_deceptive(c)));
        }
    }
}
