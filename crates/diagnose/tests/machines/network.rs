//! Networks of known physics: which cause comes first, and which must not appear.

use crate::{SECOND, key, pressure};
use whyslow_documents::diagnosis::{Action, Confidence, Diagnosis, Finding};
use whyslow_model::catalogue::*;
use whyslow_model::key::{NetKey, SocketKey};
use whyslow_model::snapshot::Snapshot;

/// Diagnoses a machine without any waiting; `fill` writes the values of its counters after this many seconds.
fn machine(fill: impl Fn(u64, &mut Snapshot)) -> Diagnosis {
    crate::machine(|t, s| {
        pressure(t, s, 0, 0, 0);
        fill(t, s);
    })
}

/// Adds a CPU that spends these percentages of the time in system calls and softirqs, and is otherwise idle.
fn processor(t: u64, s: &mut Snapshot, cpu: u32, system: u64, softirq: u64) {
    let part = |percent: u64| t * SECOND * percent / 100;
    s.processor.cpu.push(Cpu {
        user: 0.into(),
        system: part(system).into(),
        softirq: part(softirq).into(),
        idle: part(100 - system - softirq).into(),
        ..Cpu::new(cpu)
    });
    let softnet = Softnet { processed: (t * softirq * 1_000).into(), dropped: 0.into(), ..Softnet::new(cpu) };
    s.processor.softnet.push(softnet);
}

/// Adds a process whose one thread spends this percentage of the time in the kernel.
fn sender(t: u64, s: &mut Snapshot, system: u64) {
    s.task.process.push(Process::from(ProcessRow {
        command: "sender".into(),
        state: "R".into(),
        user: 0.into(),
        system: (t * SECOND * system / 100).into(),
        run_delay: 0.into(),
        nice: 0.0.into(),
        threads: 1.0.into(),
        kernel_thread: 0.0.into(),
        ..ProcessRow::new(key(7))
    }));
}

/// A stream of 1,000 segments of 1,448 bytes per second over 20 ms, and what happened to them.
struct Stream {
    lost: u64,
    late: u64,
    own_drops: u64,
    thrown_here: u64,
}

impl Stream {
    const FINE: Self = Self { lost: 0, late: 0, own_drops: 0, thrown_here: 0 };

    fn machine(&self) -> Diagnosis {
        machine(|t, s| {
            processor(t, s, 0, 2, 1);
            sender(t, s, 2);
            s.net.connection.push(self.connection(t));
            let eth0 = |name: &str| NetKey { ns: "".into(), name: name.into() };
            s.net.interface.push(Interface { tx_dropped: (t * self.own_drops).into(), ..Interface::new(eth0("eth0")) });
            s.net.packet_drop.push(PacketDrop {
                place: "nft_do_chain".into(),
                reason: "netfilter_drop".into(),
                protocol: "tcp".into(),
                bytes: (t * self.thrown_here * 1448).into(),
                ..PacketDrop::new(eth0("nft_do_chain netfilter_drop eth0 tcp"))
            });
        })
    }

    fn connection(&self, t: u64) -> Connection {
        let key = SocketKey {
            ns: "".into(),
            local: "192.0.2.1:40000".parse().unwrap(),
            remote: "192.0.2.2:443".parse().unwrap(),
            inode: 99,
        };
        let again = self.lost + self.late;
        Connection {
            pid: 7.0.into(),
            interface: "eth0".into(),
            congestion_control: "cubic".into(),
            bytes_acked: (t * 1_448_000).into(),
            data_segments_out: (t * (1000 + again)).into(),
            segments_out: (t * (1000 + again)).into(),
            retransmits: (t * again).into(),
            bytes_retransmitted: (t * again * 1448).into(),
            spurious: (t * self.late).into(),
            reordered: (t * self.late).into(),
            timeouts: 0.into(),
            retransmission_timeout: (SECOND / 5).into(),
            recovering: (if again > 0 { 0.5 } else { 0.0 }).into(),
            busy_time: (t * SECOND).into(),
            rwnd_limited: 0.into(),
            sndbuf_limited: 0.into(),
            rtt: (SECOND / 50).into(),
            min_rtt: (SECOND / 50).into(),
            mss: 1448.0.into(),
            ..Connection::new(key)
        }
    }
}

fn first(d: &Diagnosis) -> (&str, Confidence) {
    d.findings.first().map_or(("none", Confidence::Low), |f| (f.id.as_str(), f.confidence))
}

#[test]
fn loss_is_told_from_what_only_looks_like_it() {
    let of = |stream: Stream| stream.machine();
    let lost = of(Stream { lost: 20, ..Stream::FINE });
    assert_eq!(first(&lost), ("net.loss", Confidence::High));
    assert_eq!(lost.findings[0].culprits[0].pid, Some(7));
    assert_eq!(first(&of(Stream::FINE)).0, "none");
    let late = of(Stream { late: 20, ..Stream::FINE });
    assert_eq!(first(&late), ("net.reordering", Confidence::High));
    let dropped = of(Stream { lost: 20, own_drops: 20, ..Stream::FINE });
    assert_eq!(first(&dropped).0, "none");
    for (d, because) in [(late, "late or reordered"), (dropped, "this machine's interface eth0 drops")] {
        assert!(d.ruled_out.iter().any(|r| r.because.contains(because)), "{:?}", d.ruled_out);
    }
}

/// Diagnoses a stream whose packets overtake one another, over a bond of this mode, with this share of time in recovery and this
/// congestion window in segments.
fn reordered(mode: &str, recovering: f64, congestion_window: f64) -> Diagnosis {
    machine(|t, s| {
        processor(t, s, 0, 2, 1);
        sender(t, s, 2);
        let interface = |name: &str| NetKey { ns: "".into(), name: name.into() };
        s.net.link.extend([
            Link { lower: "bond0".into(), ..Link::new(interface("bond0.7")) },
            Link { bond_mode: mode.into(), ..Link::new(interface("bond0")) },
        ]);
        let stream = Stream { late: 20, ..Stream::FINE }.connection(t);
        s.net.connection.push(Connection {
            interface: "bond0.7".into(),
            recovering: recovering.into(),
            congestion_window: congestion_window.into(),
            ..stream
        });
    })
}

#[test]
fn packets_that_overtake_one_another_are_not_lost() {
    let advice = |d: &Diagnosis| d.findings[0].actions[0].text.contains("balance-rr)");
    let d = reordered("balance-rr", 0.5, 14.0);
    assert_eq!((first(&d), d.findings[0].culprits[0].pid), (("net.reordering", Confidence::High), Some(7)));
    assert!(advice(&d), "{:?}", d.findings[0].actions);
    let d = reordered("802.3ad", 0.5, 14.0);
    assert_eq!(first(&d).0, "net.reordering");
    assert!(!advice(&d), "{:?}", d.findings[0].actions);
    assert_eq!(first(&reordered("balance-rr", 0.01, 2.0)).0, "net.reordering", "its window has shrunk");
    assert_eq!(first(&reordered("balance-rr", 0.01, 14.0)).0, "none", "TCP waits for them");
}

#[test]
fn loss_of_one_packet_in_a_thousand_is_not_worth_a_word() {
    assert_eq!(first(&Stream { lost: 1, ..Stream::FINE }.machine()).0, "none");
}

#[test]
fn where_this_machine_throws_them_away_itself_it_says_so() {
    let d = Stream { lost: 20, thrown_here: 19, ..Stream::FINE }.machine();
    assert_eq!(first(&d), ("net.loss", Confidence::High));
    assert!(d.findings[0].actions[0].text.contains("nft_do_chain (netfilter_drop)"), "{:?}", d.findings[0].actions);
}

#[test]
fn one_processor_drowns_in_softirqs() {
    let drowning = |softirq: u64, other: u64| {
        machine(move |t, s| {
            processor(t, s, 0, 5, other);
            processor(t, s, 1, 2, softirq);
        })
    };
    let d = drowning(96, 0);
    assert_eq!((first(&d), d.findings[0].subject.name.as_str()), (("cpu.irq_imbalance", Confidence::High), "cpu1"));
    assert!(d.findings[0].explains.contains(&"cpu.interrupts@cpu1".to_owned()));
    assert_eq!(first(&drowning(60, 0)).0, "none", "it has time left");
    assert_eq!(first(&drowning(96, 90)).0, "cpu.interrupts", "it cannot be spread");
}

/// Diagnoses a program that sends this many packets of this size per second and spends this percentage of the time in the
/// kernel.
fn packets(rate: u64, size: u64, system: u64) -> Diagnosis {
    machine(|t, s| {
        processor(t, s, 0, system, 0);
        processor(t, s, 1, 1, 0);
        sender(t, s, system);
        let eth0 = NetKey { ns: "".into(), name: "eth0".into() };
        s.net.link.push(Link { mtu: 1500.0.into(), ..Link::new(eth0.clone()) });
        s.net.interface.push(Interface {
            tx_packets: (t * rate).into(),
            tx_bytes: (t * rate * size).into(),
            rx_packets: 0.into(),
            rx_bytes: 0.into(),
            ..Interface::new(eth0)
        });
    })
}

#[test]
fn small_packets_limit_where_they_fill_a_processor() {
    let d = packets(300_000, 100, 97);
    assert_eq!((first(&d), d.findings[0].subject.name.as_str()), (("net.small_packets", Confidence::High), "eth0"));
    assert!(d.findings[1..].iter().all(|f| f.explained_by.is_some()), "{:?}", d.findings);
    assert_eq!(first(&packets(100_000, 100, 30)).0, "none", "nobody is full");
    assert_ne!(first(&packets(300_000, 1400, 97)).0, "net.small_packets", "they are large");
    assert_ne!(first(&packets(11_000, 100, 97)).0, "net.small_packets", "it is in the kernel for something else");
}

/// Diagnoses one stream that loses packets, on a machine on which this many timers of all connections expire per second.
fn one_of_many(timers: u64) -> Diagnosis {
    let stream = Stream { lost: 20, ..Stream::FINE };
    machine(|t, s| {
        processor(t, s, 0, 2, 1);
        sender(t, s, 2);
        let connection = stream.connection(t);
        s.net.connection.push(Connection { recovering: 0.3.into(), bytes_acked: (t * 10_000).into(), ..connection });
        s.net.protocol.push(Protocol {
            tcp_out_segs: (t * 2_000).into(),
            tcp_retrans_segs: (t * 60).into(),
            tcp_ext_tcp_syn_retrans: 0.into(),
            tcp_ext_tcp_timeouts: (t * timers).into(),
            tcp_ext_tcp_spurious_rtos: 0.into(),
            ..Protocol::new(NetKey { ns: "".into(), name: "ip".into() })
        });
    })
}

#[test]
fn a_connection_explains_the_loss_of_the_machine_only_where_it_is_most_of_it() {
    let explained = |d: &Diagnosis| d.findings.iter().filter(|f| f.explained_by.is_some()).count();
    let most = one_of_many(2);
    assert_eq!((most.findings.len(), explained(&most)), (2, 1), "{:?}", most.findings);
    let lesser = one_of_many(10);
    assert_eq!((lesser.findings.len(), explained(&lesser)), (2, 0), "{:?}", lesser.findings);
    assert_eq!(lesser.findings[0].subject.kind, "host");
}

const MIB: u64 = 1 << 20;

/// A stream that a buffer limits nine tenths of the time.
#[derive(Clone, Copy)]
struct Held {
    /// Network namespace of the sender.
    ns: &'static str,
    /// Whether its own buffer limits it, or the peer's window.
    by_sender: bool,
    /// Its buffer, and how far TCP would tune it.
    send_buffer: [u64; 2],
    /// Network namespace of the receiver, if that is on this machine, and the same two values of its buffer.
    receiver: Option<(&'static str, [u64; 2])>,
}

impl Held {
    const BY_PEER: Self = Self { ns: "", by_sender: false, send_buffer: [MIB, 4 * MIB], receiver: None };
    const BY_SENDER: Self = Self { by_sender: true, send_buffer: [4 * MIB, 4 * MIB], ..Self::BY_PEER };

    /// Returns the recommended actions.
    fn actions(self) -> Vec<Action> {
        let d = machine(|t, s| {
            processor(t, s, 0, 2, 1);
            sender(t, s, 2);
            let stream = Stream::FINE.connection(t);
            let held = |is_so: bool| if is_so { t * SECOND * 9 / 10 } else { 0 };
            let socket = SocketKey { ns: self.ns.into(), ..stream.socket.clone() };
            let protocol = |ns: &str| Protocol::new(NetKey { ns: ns.into(), name: "ip".into() });
            let [buffer, most] = self.send_buffer;
            let own = Protocol { tcp_send_buffer_max: most.into(), ..protocol(self.ns) };
            if let Some((ns, [buffer, most])) = self.receiver {
                let end = SocketKey { ns: ns.into(), local: socket.remote, remote: socket.local, inode: 100 };
                s.net.connection.push(Connection { receive_buffer: buffer.into(), ..Connection::new(end) });
                s.net.protocol.push(Protocol { tcp_receive_buffer_max: most.into(), ..protocol(ns) });
            }
            if s.net.protocol.iter().all(|row| *row.scope.ns != *self.ns) {
                s.net.protocol.push(own);
            }
            s.net.connection.push(Connection {
                socket,
                peer_window: 30_000.into(),
                send_buffer: buffer.into(),
                rwnd_limited: held(!self.by_sender).into(),
                sndbuf_limited: held(self.by_sender).into(),
                ..stream
            });
        });
        let limited = d.findings.iter().find(|f| f.id == "net.window_limited");
        limited.unwrap_or_else(|| panic!("{:?}", d.findings)).actions.clone()
    }
}

#[test]
fn a_setting_of_another_network_namespace_is_tried_there() {
    let tried_for = |ns| Held { ns, ..Held::BY_SENDER }.actions()[0].try_command.clone().expect("a trial");
    // 10 Gbit/s over 20 ms.
    let line = "whyslow try net.ipv4.tcp_wmem='4096 16384 25000000' --before --metric";
    assert!(tried_for("").starts_with(line), "{}", tried_for(""));
    assert!(tried_for("blue").starts_with(&format!("ip netns exec blue {line}")));
    assert!(tried_for("net:[4026532200]").starts_with(&format!("nsenter --target 7 --net {line}")));
}

#[test]
fn a_setting_is_recommended_only_where_it_changes_the_buffer_that_limits() {
    let advises = |held: Held, words: &[&str]| {
        let actions = held.actions();
        assert!(actions.iter().all(|action| action.set.is_empty()), "{actions:?}");
        assert!(words.iter().all(|words| actions[0].text.contains(words)), "{words:?} in {actions:?}");
    };
    advises(Held::BY_PEER, &["at the other end", "No setting here"]);
    let received_in = |ns, buffer| Held { receiver: Some((ns, [buffer, 6 * MIB])), ..Held::BY_PEER };
    advises(received_in("shop", MIB), &["SO_RCVBUF", "its buffer is 1 MiB", "up to 6 MiB"]);
    advises(received_in("shop", 6 * MIB), &["tcp_rmem", "in network namespace shop"]);
    advises(Held { ns: "shop", ..received_in("", 6 * MIB) }, &["in the host's network namespace"]);
    advises(received_in("", MIB), &["SO_RCVBUF"]);
    assert!(received_in("", 6 * MIB).actions()[0].set.contains_key("net.ipv4.tcp_rmem"));
    let set_by_sender = Held { send_buffer: [MIB, 4 * MIB], ..Held::BY_SENDER };
    advises(set_by_sender, &["sender (7)", "SO_SNDBUF", "up to 4 MiB"]);
}

/// Two containers and the host, with the same addresses.
#[test]
fn findings_of_two_network_namespaces_have_keys_of_their_own() {
    let d = machine(|t, s| {
        processor(t, s, 0, 2, 1);
        sender(t, s, 2);
        let stream = Stream { lost: 20, ..Stream::FINE }.connection(t);
        for ns in ["", "shop", "web"] {
            let socket = SocketKey { ns: ns.into(), ..stream.socket.clone() };
            s.net.connection.push(Connection { socket, ..stream.clone() });
        }
    });
    let mut keys: Vec<String> = d.findings.iter().filter(|f| f.id == "net.loss").map(Finding::key).collect();
    keys.sort();
    let key = "net.loss@192.0.2.1:40000->192.0.2.2:443[7]";
    assert_eq!(keys, [key.to_owned(), format!("{key}@shop"), format!("{key}@web")]);
}
