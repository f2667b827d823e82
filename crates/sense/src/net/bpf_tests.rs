//! Tests of the network's BPF programs on this machine's kernel, in network namespaces created for the purpose.

use super::bpf::{ended_connections, packet_drops, packet_sizes};
use crate::source::Source;
use crate::testing::{NetnsPair, attached, has_program, read, run, wait_for, within};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use whyslow_model::catalogue::{PacketDrop, PacketSize};
use whyslow_model::histogram::bucket_of;
use whyslow_model::snapshot::Snapshot;

/// Creates two namespaces and attaches the programs of a source. Returns `None` if the test is skipped.
fn rig(source: Box<dyn Source>) -> Option<(NetnsPair, Box<dyn Source>)> {
    // The namespaces come first, so that the source knows their names.
    let pair = NetnsPair::new()?;
    Some((pair, attached(source)?))
}

/// Sends `count` datagrams of `size` bytes from `a` to a port of `b`.
fn send(pair: &NetnsPair, count: usize, size: usize, port: u16) {
    let sender = within(&pair.a, || UdpSocket::bind("10.203.0.1:0").unwrap());
    for _ in 0..count {
        sender.send_to(&vec![0; size], ("10.203.0.2", port)).unwrap();
    }
}

/// Returns the packets dropped in `b` for this reason.
fn dropped(snapshot: &Snapshot, pair: &NetnsPair, reason: &str) -> Option<PacketDrop> {
    let drops = snapshot.net.packet_drop.iter();
    drops.filter(|d| *d.drop.ns == *pair.b).find(|d| d.reason.get() == Some(reason)).cloned()
}

#[test]
fn packets_without_a_receiver_are_dropped_with_reason_function_and_interface() {
    let Some((pair, mut source)) = rig(packet_drops(Arc::default())) else { return };
    send(&pair, 3, 100, 9);
    let snapshot = read(&mut *source);
    let found = dropped(&snapshot, &pair, "no_socket");
    let row = found.unwrap_or_else(|| panic!("{:?}", snapshot.net.packet_drop));
    assert_eq!(row.packets.get(), Some(3));
    // After the IP header: 100 bytes and the UDP header of 8.
    assert_eq!(row.bytes.get(), Some(3 * 108));
    assert_eq!((row.interface.get(), row.protocol.get()), (Some("veth0"), Some("udp")));
    assert!(row.place.get().unwrap().contains("udp"), "{row:?}");
}

#[test]
fn senders_that_try_again_are_told_from_broadcasts() {
    let Some((pair, mut source)) = rig(packet_drops(Arc::default())) else { return };
    within(&pair.b, || fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "1").unwrap());
    // The filter would drop an ARP request for the address of `b` that names this sender.
    within(&pair.a, || fs::write("/proc/sys/net/ipv4/conf/all/arp_announce", "2").unwrap());
    for command in ["address add 198.18.0.1 dev lo", "route add 255.255.255.255 dev veth0 src 198.18.0.1"] {
        assert!(run(&format!("ip -n {} {command}", pair.a)), "{command}");
    }
    let unicast = within(&pair.a, || UdpSocket::bind("198.18.0.1:0").unwrap());
    let broadcast = within(&pair.a, || UdpSocket::bind("0.0.0.0:0").unwrap());
    broadcast.set_broadcast(true).unwrap();
    for pause in [0, 1100] {
        thread::sleep(Duration::from_millis(pause));
        unicast.send_to(&[0; 10], "10.203.0.2:9").unwrap();
        broadcast.send_to(&[0; 10], "255.255.255.255:9").unwrap();
    }
    let snapshot = read(&mut *source);
    let row = dropped(&snapshot, &pair, "ip_rpfilter").unwrap_or_else(|| panic!("{:?}", snapshot.net.packet_drop));
    assert_eq!((row.packets.get(), row.unicast.get(), row.repeated.get()), (Some(4), Some(2), Some(1)));
    assert_eq!((row.interface.get(), row.source.get()), (Some("veth0"), Some("198.18.0.1")));
}

#[test]
fn in_a_flood_a_sample_of_the_drops_is_counted() {
    let Some((pair, mut source)) = rig(packet_drops(Arc::default())) else { return };
    send(&pair, 40_000, 10, 9);
    let snapshot = read(&mut *source);
    let packets = dropped(&snapshot, &pair, "no_socket").unwrap().packets.get().unwrap();
    // Sampling one in sixteen of 40,000 has a standard deviation of 2 %.
    assert!((36_000..44_000).contains(&packets), "{packets}");
}

#[test]
fn packets_rejected_by_netfilter_are_its_drops() {
    if !has_program("nft") {
        return;
    }
    let Some((pair, mut source)) = rig(packet_drops(Arc::default())) else { return };
    let b = &pair.b;
    for command in [
        "add table ip wall",
        "add chain ip wall in { type filter hook input priority 0 ; }",
        "add rule ip wall in udp dport 9 drop",
    ] {
        assert!(run(&format!("ip netns exec {b} nft {command}")), "{command}");
    }
    send(&pair, 3, 200, 9);
    let snapshot = read(&mut *source);
    let row = dropped(&snapshot, &pair, "netfilter_drop").unwrap_or_else(|| panic!("{:?}", snapshot.net.packet_drop));
    assert_eq!((row.packets.get(), row.protocol.get()), (Some(3), Some("udp")));
    assert!(dropped(&snapshot, &pair, "no_socket").is_none());
}

#[test]
fn packets_are_counted_by_size_and_direction_at_both_ends() {
    let Some((pair, mut source)) = rig(packet_sizes(Arc::default())) else { return };
    send(&pair, 30, 100, 9);
    send(&pair, 20, 1200, 9);
    let snapshot = read(&mut *source);
    let at = |ns: &str| -> PacketSize {
        let found = snapshot.net.packet_size.iter().find(|p| *p.interface.ns == *ns && &*p.interface.name == "veth0");
        found.unwrap_or_else(|| panic!("{:?}", snapshot.net.packet_size)).clone()
    };
    let count = |sizes: &whyslow_model::histogram::Histogram, size: u64| {
        let buckets = sizes.buckets().unwrap_or_default();
        buckets.iter().find(|(bucket, _)| *bucket == bucket_of(size)).map_or(0, |(_, count)| *count)
    };
    // Sent packets include the headers of UDP (8 bytes), IP (20) and Ethernet (14); received ones lack that of Ethernet.
    let (sent, received) = (at(&pair.a).sent, at(&pair.b).received);
    assert_eq!((count(&sent, 142), count(&sent, 1242)), (30, 20), "{sent:?}");
    assert_eq!((count(&received, 128), count(&received, 1228)), (30, 20), "{received:?}");
}

#[test]
fn connections_too_short_for_a_sample_are_counted_at_both_ends() {
    let Some((pair, mut source)) = rig(ended_connections(Arc::default())) else { return };
    let listener = within(&pair.b, || TcpListener::bind("10.203.0.2:0").unwrap());
    let server = listener.local_addr().unwrap();
    for _ in 0..2 {
        let mut client = within(&pair.a, || TcpStream::connect(server).unwrap());
        let (mut accepted, _) = listener.accept().unwrap();
        client.write_all(&[7; 1000]).unwrap();
        accepted.read_exact(&mut [0; 1000]).unwrap();
        drop(accepted);
        drop(client);
    }
    let mut ended = |ns: &str, peer: &str| {
        wait_for("both connections have ended", || {
            let rows = read(&mut *source).net.ended_connections.clone();
            let row = rows.into_iter().find(|e| *e.peer.ns == *ns && &*e.peer.name == peer);
            row.filter(|row| row.connections.get() == Some(2))
        })
    };
    let (client, server) = (ended(&pair.a, "10.203.0.2"), ended(&pair.b, "10.203.0.1"));
    assert_eq!((client.data_segments_out.get(), server.data_segments_out.get()), (Some(2), Some(0)));
    assert_eq!((client.retransmits.get(), client.timeouts.get()), (Some(0), Some(0)));
    let own = Some(f64::from(std::process::id()));
    assert_eq!((client.pid.get(), server.pid.get()), (own, own));
    assert!((20_000..10_000_000_000).contains(&client.lived.get().unwrap()), "{client:?}");
}

#[test]
fn attempts_without_a_local_port_are_counted_by_peer() {
    let Some((pair, mut source)) = rig(ended_connections(Arc::default())) else { return };
    let (a, listener) = (&pair.a, within(&pair.b, || TcpListener::bind("10.203.0.2:0").unwrap()));
    let server = listener.local_addr().unwrap();
    within(a, || fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40003").unwrap());
    let connect = |_| {
        // Of many attempts within a clock tick, only a sample would be counted.
        thread::sleep(Duration::from_millis(20));
        TcpStream::connect(server)
    };
    let attempts: Vec<_> = within(a, || (0..7).map(connect).collect());
    assert_eq!(attempts.iter().filter(|attempt| attempt.is_ok()).count(), 4);
    // The peer refuses this one, so it had a port.
    assert!(within(a, || TcpStream::connect("10.203.0.2:9")).is_err());
    let rows = read(&mut *source).net.ended_connections.clone();
    let row = rows.iter().find(|e| *e.peer.ns == **a && &*e.peer.name == "10.203.0.2").unwrap();
    let own = Some(f64::from(std::process::id()));
    assert_eq!((row.no_port.get(), row.connections.get(), row.pid.get()), (Some(3), Some(0), own));
}
