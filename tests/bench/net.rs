//! Tests of `bench net` between two network namespaces: what it finds on known paths, and how a server handles hostile
//! clients.

use crate::fixture::{must, signal, until};
use crate::skip::{has_program, is_root};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Child, Command, Output, Stdio};
use whyslow_documents::bench::{BenchKind, BenchReport, NetRun, Network, Transport, Work};
use whyslow_testing::ends_with_test;

const TOKEN: &str = "a token of the tests, nothing else";
const FAR: &str = "10.219.7.2";

/// Two network namespaces and a veth pair between them; removed when dropped.
struct NetnsPair {
    near: String,
    far: String,
}

impl NetnsPair {
    /// Returns `None` without root.
    fn new() -> Option<Self> {
        if !is_root() {
            return None;
        }
        let pair = Self { near: whyslow_testing::name("near"), far: whyslow_testing::name("far") };
        ip(&["netns", "add", &pair.near]);
        ip(&["netns", "add", &pair.far]);
        ip(&["-n", &pair.near, "link", "add", "wire0", "type", "veth", "peer", "name", "wire0", "netns", &pair.far]);
        for (namespace, address) in [(&pair.near, "10.219.7.1/24"), (&pair.far, "10.219.7.2/24")] {
            ip(&["-n", namespace, "address", "add", address, "dev", "wire0"]);
            ip(&["-n", namespace, "link", "set", "lo", "up"]);
            ip(&["-n", namespace, "link", "set", "wire0", "up"]);
        }
        Some(pair)
    }

    fn inside(namespace: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, program]).env("WHYSLOW_TOKEN", TOKEN).stdin(Stdio::null());
        ends_with_test(&mut command);
        command
    }

    /// Starts a server at the far end and waits until it listens.
    fn serve(&self, args: &[&str]) -> Server {
        let mut command = Self::inside(&self.far, env!("CARGO_BIN_EXE_whyslow"));
        command.args(["bench", "net", "serve", "--listen", FAR, "--for", "2m"]).args(args).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("Listening on 10.219.7.2:5219"), "{line}");
        Server(child)
    }

    /// Waits until a server listens on a port of the far end.
    fn await_listener(&self, port: u16) {
        let listens = || {
            let out = NetnsPair::inside(&self.far, "ss").args(["-Hltn", &format!("sport = :{port}")]).output().unwrap();
            !out.stdout.is_empty()
        };
        until(&format!("a listener at {port}"), listens);
    }

    fn bench(&self, args: &[&str]) -> Command {
        let mut command = Self::inside(&self.near, env!("CARGO_BIN_EXE_whyslow"));
        command.args(["bench", "net"]).args(args);
        command
    }

    fn report(&self, args: &[&str]) -> BenchReport {
        let args = [&[FAR, "--for", "200ms", "--json"], args].concat();
        told(&self.bench(&args).output().unwrap())
    }

    fn network(&self, args: &[&str]) -> Network {
        self.report(args).network.expect("what was measured")
    }
}

impl Drop for NetnsPair {
    fn drop(&mut self) {
        for namespace in [&self.near, &self.far] {
            drop(Command::new("ip").args(["netns", "del", namespace]).status());
        }
    }
}

/// A server that is ended when dropped.
struct Server(Child);

impl Server {
    fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Waits until a stream of the client is well under way.
fn await_bytes(client: u32, times: u64) {
    let sent = || -> Option<u64> {
        let devices = std::fs::read_to_string(format!("/proc/{client}/net/dev")).unwrap();
        let pair = devices.lines().find_map(|line| line.trim().strip_prefix("wire0:"))?;
        pair.split_whitespace().nth(8)?.parse().ok()
    };
    until("bytes of a stream", || sent().is_some_and(|bytes| bytes > times * 400_000_000));
}

/// Waits until a client has a connection to the server.
fn await_connection(client: u32) {
    let connections = || std::fs::read_to_string(format!("/proc/{client}/net/tcp")).unwrap_or_default();
    // 01 means established, 1463 is port 5219 (Documentation/networking/proc_net_tcp.rst).
    until("a connection", || connections().lines().any(|line| line.contains(":1463 01 ")));
}

fn ip(args: &[&str]) {
    must(Command::new("ip").args(args));
}

fn told(out: &Output) -> BenchReport {
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let report: BenchReport = serde_json::from_slice(&out.stdout).expect("a report");
    assert_eq!(report.kind, BenchKind::Net);
    report
}

fn runs(network: &Network) -> impl Iterator<Item = &NetRun> {
    network.rounds.iter().flat_map(|round| &round.runs)
}

#[test]
fn both_ends_count_the_bytes_of_streams_consistently() {
    let Some(pair) = NetnsPair::new() else { return };
    let _server = pair.serve(&[]);
    let report = pair.report(&["--only", "streams", "--streams", "3"]);
    let network = report.network.unwrap();
    assert_eq!(network.rounds.len(), 4, "up and down, one stream and three");
    assert!(report.caveats.iter().any(|caveat| caveat.contains("MSG_TRUNC")), "{:?}", report.caveats);
    for run in runs(&network) {
        assert_eq!(run.failed, None, "{}", run.name);
        let (sender, receiver) = (run.sender().unwrap(), run.receiver().unwrap());
        assert!(run.bandwidth.unwrap() > 0.0);
        assert!(sender.all_bytes >= receiver.all_bytes, "more arrived than was sent: {}", run.name);
        assert_eq!(receiver.streams.len(), run.asked.streams as usize);
        assert_eq!(receiver.streams.iter().map(|stream| stream.bytes).sum::<u64>(), receiver.bytes);
        assert_eq!(receiver.series.bytes.iter().sum::<u64>(), receiver.bytes);
        for stream in &sender.streams {
            assert_eq!((stream.mss, stream.mtu), (Some(1448), Some(1500)));
            let time = stream.time.expect("where the time went");
            let sum = time.receive_window + time.send_buffer + time.congestion + time.application;
            assert!((sum - sender.seconds).abs() < 1e-9, "{time:?}");
            assert!(stream.rtt.unwrap().mean > 0.0);
        }
        assert!(sender.cost.system_seconds > 0.0 && sender.machine_seconds.unwrap() > 0.0);
    }
}

#[test]
fn buffers_segments_and_congestion_control_are_what_was_asked_for() {
    let Some(pair) = NetnsPair::new() else { return };
    let _server = pair.serve(&[]);
    let asked =
        ["--only", "streams", "--streams", "1", "--buffer", "64K", "--mss", "600", "--congestion", "reno", "--copy"];
    let network = pair.network(&asked);
    for run in runs(&network) {
        let (sender, receiver) = (run.sender().unwrap(), run.receiver().unwrap());
        assert_eq!((sender.streams[0].buffer, receiver.streams[0].buffer), (Some(64 << 10), Some(64 << 10)));
        // Payload of a segment without TCP's time stamps, which take 12 bytes.
        assert_eq!(sender.streams[0].mss, Some(588));
        assert!(!run.asked.discard);
    }
}

#[test]
fn zero_copy_streams_arrive() {
    let Some(pair) = NetnsPair::new() else { return };
    let _server = pair.serve(&[]);
    let network = pair.network(&["--only", "streams", "--streams", "1", "--zerocopy", "--copy"]);
    assert_eq!(network.rounds.len(), 2);
    for run in runs(&network) {
        assert!(run.asked.send_file && run.failed.is_none() && run.bandwidth.unwrap() > 0.0, "{:?}", run.failed);
    }
}

#[test]
fn answers_are_timed_over_tcp_and_udp() {
    let Some(pair) = NetnsPair::new() else { return };
    let _server = pair.serve(&[]);
    let network = pair.network(&["--only", "latency,loaded", "--streams", "2", "--direction", "up"]);
    let exchanges: Vec<&NetRun> = runs(&network).filter(|run| run.asked.work == Work::Exchange).collect();
    assert_eq!(exchanges.len(), 4, "TCP, UDP, two at a time, and beside streams");
    for run in exchanges {
        assert_eq!(run.failed, None, "{}", run.name);
        let latency = run.here.latency.as_ref().unwrap();
        assert!(latency.count > 0 && latency.min > 0.0 && latency.max < 10.0);
        assert_eq!(run.here.series.answers.iter().sum::<u64>(), run.here.answers);
        assert_eq!(run.datagrams.is_some(), run.asked.transport == Transport::Udp);
    }
    let loaded = network.loaded[0];
    assert!(loaded.bandwidth > 0.0 && loaded.median > 0.0 && loaded.queued >= 0.0);
}

#[test]
fn every_lost_datagram_is_counted() {
    let Some(pair) = NetnsPair::new() else { return };
    let _server = pair.serve(&[]);
    // Drops one of ten UDP packets, except the first datagrams of each line, which are sent again.
    let rules = "add table ip wsl_net; add chain ip wsl_net in { type filter hook input priority 0; }; \
                 add rule ip wsl_net in udp length > 500 numgen inc mod 10 0 drop";
    must(NetnsPair::inside(&pair.far, "nft").arg(rules));
    let network = pair.network(&["--only", "udp", "--rate", "20M", "--direction", "up"]);
    let counts = runs(&network).next().unwrap().datagrams.unwrap();
    assert!(counts.sent > 100, "{counts:?}");
    assert_eq!(counts.sent, counts.received + counts.lost);
    let lost_on_the_way = counts.lost - counts.lost_for_buffer.unwrap();
    assert!(lost_on_the_way.abs_diff(counts.sent / 10) <= 1, "{counts:?}");
    assert_eq!(counts.out_of_order, 0);
}

#[test]
fn without_udp_the_rest_is_measured() {
    let Some(pair) = NetnsPair::new() else { return };
    let _server = pair.serve(&[]);
    let rules = "add table ip wsl_net; add chain ip wsl_net in { type filter hook input priority 0; }; \
                 add rule ip wsl_net in meta l4proto udp drop";
    must(NetnsPair::inside(&pair.far, "nft").arg(rules));
    let report = pair.report(&["--only", "mtu,latency,udp", "--streams", "1"]);
    assert!(
        report.caveats.iter().any(|caveat| caveat.contains("UDP does not reach the server")),
        "{:?}",
        report.caveats
    );
    let network = report.network.unwrap();
    assert_eq!(network.rounds.len(), 1, "TCP");
    assert!(network.mtu.is_none() && network.rounds[0].runs[0].rate.unwrap() > 0.0);
}

#[test]
fn a_path_mtu_black_hole_is_found() {
    let Some(pair) = NetnsPair::new() else { return };
    // veth(4) silently drops packets larger than the other end's MTU.
    ip(&["-n", &pair.far, "link", "set", "wire0", "mtu", "1400"]);
    let _server = pair.serve(&[]);
    let report = pair.report(&["--only", "mtu"]);
    let mtu = report.network.unwrap().mtu.unwrap();
    // Ethernet has room for a VLAN tag of 4 bytes, which the kernel lets pass.
    assert!((1400..=1404).contains(&mtu.bytes), "{mtu:?}");
    assert_eq!(mtu.kernel, Some(1500));
    assert!(report.caveats.iter().any(|caveat| caveat.contains("are lost silently")), "{:?}", report.caveats);
}

#[test]
fn clients_without_the_token_are_refused() {
    let Some(pair) = NetnsPair::new() else { return };
    let mut server = pair.serve(&[]);
    for args in [vec![FAR, "--only", "latency"], vec!["stop", FAR]] {
        let out = pair.bench(&args).env("WHYSLOW_TOKEN", "another token altogether").output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains("refused: wrong token"), "{said}");
    }
    let out = pair.bench(&[FAR]).env_remove("WHYSLOW_TOKEN").output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8(out.stderr).unwrap().contains("WHYSLOW_TOKEN"));
    assert!(server.is_running());
    assert!(pair.network(&["--only", "streams", "--streams", "1"]).rounds.len() == 2);
}

#[test]
fn a_client_that_is_killed_leaves_the_server_usable() {
    let Some(pair) = NetnsPair::new() else { return };
    let mut server = pair.serve(&[]);
    for _ in 0..3 {
        let mut client = pair.bench(&[FAR, "--for", "1m", "--only", "streams", "--streams", "100"]);
        let mut client = client.stdout(Stdio::null()).spawn().unwrap();
        await_connection(client.id());
        client.kill().unwrap();
        client.wait().unwrap();
    }
    // A hundred streams each, of 256 allowed: earlier runs have released theirs.
    let network = pair.network(&["--only", "streams", "--streams", "100", "--direction", "down"]);
    for run in runs(&network) {
        assert!(run.failed.is_none() && run.bandwidth.unwrap() > 0.0, "{:?} {:?}", run.failed, run.bandwidth);
    }
    assert!(server.is_running());
}

#[test]
fn a_killed_server_leaves_its_port_free_and_its_client_reports_that() {
    let Some(pair) = NetnsPair::new() else { return };
    let mut server = pair.serve(&[]);
    let mut client = pair.bench(&[FAR, "--for", "1m", "--only", "streams", "--streams", "1", "--json"]);
    let mut client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_bytes(client.id(), 1);
    assert_eq!(client.try_wait().unwrap(), None, "it has ended already");
    server.0.kill().unwrap();
    server.0.wait().unwrap();
    // The client does not wait for the rest of its minute.
    let out = client.wait_with_output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.code() == Some(2) && said.contains("closed the connection"), "{:?} {said}", out.status);
    let mut next = pair.serve(&[]);
    assert!(pair.network(&["--only", "streams", "--streams", "1"]).rounds.len() == 2);
    assert!(next.is_running());
}

#[test]
fn two_clients_are_served_at_once_and_the_reports_say_so() {
    let Some(pair) = NetnsPair::new() else { return };
    let _server = pair.serve(&[]);
    let start = || {
        let mut command = pair.bench(&[FAR, "--json", "--for", "1s", "--only", "streams", "--streams", "1"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let clients = [start(), start()];
    for client in clients {
        let report = told(&client.wait_with_output().unwrap());
        let network = report.network.unwrap();
        assert!(runs(&network).all(|run| run.failed.is_none() && run.bandwidth.unwrap() > 0.0));
        assert!(network.rounds.iter().any(|round| round.other_clients == Some(1)));
        assert!(report.caveats.iter().any(|caveat| caveat.contains("other clients")), "{:?}", report.caveats);
    }
}

#[test]
fn ctrl_c_reports_what_was_measured() {
    let Some(pair) = NetnsPair::new() else { return };
    let _server = pair.serve(&[]);
    // The first round ramps up for some round trips; wait until streams are well under way.
    let run = [1, 5, 25].into_iter().find_map(|times| {
        let mut command = pair.bench(&[FAR, "--json", "--for", "1m", "--only", "streams"]);
        let mut client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        await_bytes(client.id(), times);
        assert_eq!(client.try_wait().unwrap(), None, "it has ended already");
        signal(&client, libc::SIGINT);
        let report = told(&client.wait_with_output().unwrap());
        assert!(report.interrupted);
        report.network.unwrap().rounds.into_iter().next().map(|round| round.runs.into_iter().next().unwrap())
    });
    let run = run.expect("what was measured until then");
    assert_eq!(run.failed, None);
    assert!(run.here.seconds < 50.0 && run.bandwidth.unwrap() > 0.0);
}

#[test]
fn the_server_stops_when_asked_when_its_time_is_up_and_on_sigterm() {
    let Some(pair) = NetnsPair::new() else { return };
    let mut server = pair.serve(&[]);
    must(&mut pair.bench(&["stop", FAR]));
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
    let mut command = NetnsPair::inside(&pair.far, env!("CARGO_BIN_EXE_whyslow"));
    let out = command.args(["bench", "net", "serve", "--for", "300ms", "--json"]).env_remove("WHYSLOW_TOKEN").output();
    let listening: serde_json::Value = serde_json::from_slice(&out.unwrap().stdout).unwrap();
    assert_eq!(listening["address"], "127.0.0.1:5219");
    assert_eq!(listening["token"].as_str().unwrap().len(), 32, "one is made where none is given");
    let mut server = pair.serve(&[]);
    signal(&server.0, libc::SIGTERM);
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
}

/// Runs a closure in a thread inside a network namespace.
fn within<T: Send + 'static>(namespace: &str, what: impl FnOnce() -> T + Send + 'static) -> T {
    let file = std::fs::File::open(format!("/run/netns/{namespace}")).unwrap();
    let thread = std::thread::spawn(move || {
        // SAFETY: setns has no preconditions; it only moves this thread, which ends with the closure.
        let entered = unsafe { libc::setns(std::os::fd::AsRawFd::as_raw_fd(&file.as_fd()), libc::CLONE_NEWNET) };
        assert_eq!(entered, 0);
        what()
    });
    thread.join().unwrap()
}

#[test]
fn garbage_from_unauthenticated_clients_is_ignored() {
    let Some(pair) = NetnsPair::new() else { return };
    let mut server = pair.serve(&[]);
    let huge = [b"wslnet1 C".as_slice(), &u32::MAX.to_be_bytes(), b"{}"].concat();
    let nested = [b"wslnet1 C".as_slice(), &1000u32.to_be_bytes(), &[b'['; 1000]].concat();
    let line = [b"wslnet1 L".as_slice(), &[0xff; 56]].concat();
    let bytes = [b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0; 5000], vec![0xff; 9], huge, nested, line];
    within(&pair.near, move || {
        for bytes in &bytes {
            let mut stream = TcpStream::connect((FAR, 5219)).unwrap();
            // The server may close the connection before all is sent.
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            // Nothing but a challenge and a refusal.
            assert!(answer.len() < 1000, "{}", answer.len());
        }
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for bytes in bytes {
            socket.send_to(&bytes, (FAR, 5219)).unwrap();
        }
        // A peer gets no answer if its first datagram is invalid.
        socket.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
        assert!(socket.recv(&mut [0; 100]).is_err());
    });
    assert!(server.is_running());
    assert_eq!(pair.network(&["--only", "streams", "--streams", "1"]).rounds.len(), 2);
}

#[test]
fn an_iperf3_server_is_measured_against() {
    if !has_program("iperf3") {
        return;
    }
    let Some(pair) = NetnsPair::new() else { return };
    let iperf3 = NetnsPair::inside(&pair.far, "iperf3").args(["-s", "-p", "5301"]).stdout(Stdio::null()).spawn();
    let _server = Server(iperf3.unwrap());
    pair.await_listener(5301);
    let measure = |direction: &str, streams: &str| {
        let args =
            ["10.219.7.2:5301", "--iperf3", "--for", "300ms", "--direction", direction, "--streams", streams, "--json"];
        let report = told(&pair.bench(&args).env_remove("WHYSLOW_TOKEN").output().unwrap());
        assert!(!report.caveats.iter().any(|caveat| caveat.contains("ended early")), "{:?}", report.caveats);
        report.network.unwrap()
    };
    let networks = [measure("up", "3"), measure("down", "1")];
    assert_eq!(networks.each_ref().map(|network| network.rounds.len()), [2, 1]);
    for run in networks.iter().flat_map(runs) {
        assert_eq!(run.failed, None, "{}", run.name);
        let (sender, receiver) = (run.sender().unwrap(), run.receiver().unwrap());
        assert_eq!(sender.streams.len(), receiver.streams.len());
        // Each side uses its own clock, and iperf3 also counts until it receives the order to end. The wide range still
        // detects bits taken for bytes, or one stream taken for three.
        let ratio = sender.bandwidth().unwrap() / receiver.bandwidth().unwrap();
        assert!((0.4..2.5).contains(&ratio), "{}: {ratio}", run.name);
    }
}

#[test]
fn silent_connections_do_not_lock_clients_out() {
    let Some(pair) = NetnsPair::new() else { return };
    let _server = pair.serve(&[]);
    // From the client's own address and from others.
    for last in 3..10 {
        ip(&["-n", &pair.near, "address", "add", &format!("10.219.7.{last}/24"), "dev", "wire0"]);
    }
    let idle = within(&pair.near, || {
        let one = || TcpStream::connect((FAR, 5219)).unwrap();
        (0..300).map(|_| one()).collect::<Vec<TcpStream>>()
    });
    let network = pair.network(&["--only", "streams", "--streams", "4", "--direction", "up"]);
    assert!(!network.rounds.is_empty());
    drop(idle);
}
