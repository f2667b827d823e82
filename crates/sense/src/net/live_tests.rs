//! Tests on this machine's kernel, in network namespaces created for the purpose.

use super::namespaces::{Namespaces, Visibility};
use super::{conntrack, driver_counters, links, qdiscs, snmp, sockets};
use crate::Root;
use crate::source::Source;
use crate::source_error::SourceError;
use crate::testing::{NetnsPair, read, run, skip, wait_for, wait_until, within};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use whyslow_model::catalogue::{Connection, Datagram, Listener};
use whyslow_model::snapshot::Snapshot;

/// Samples until a condition holds: finding the owner of a socket may take more than one sample.
fn read_until(what: &str, source: &mut dyn Source, condition: impl Fn(&Snapshot) -> bool) -> Snapshot {
    wait_for(what, || Some(read(source)).filter(&condition))
}

fn connection_to(snapshot: &Snapshot, namespace: &str, remote: SocketAddr) -> Connection {
    let found = snapshot.net.connection.iter().find(|c| &*c.socket.ns == namespace && c.socket.remote == remote);
    found.unwrap_or_else(|| panic!("{remote} in {:?}", snapshot.net.connection)).clone()
}

#[test]
fn a_transfer_between_namespaces_is_counted_at_both_ends() {
    let Some(pair) = NetnsPair::new() else { return };
    let listener = within(&pair.b, || TcpListener::bind("10.203.0.2:0").unwrap());
    let server = listener.local_addr().unwrap();
    let mut client = within(&pair.a, || TcpStream::connect(server).unwrap());
    let (mut accepted, _) = listener.accept().unwrap();
    let mut source = sockets::Sockets::new(Arc::default());
    let before = connection_to(&read(&mut source), &pair.a, server);
    client.write_all(&[7; 50_000]).unwrap();
    accepted.read_exact(&mut [0; 50_000]).unwrap();
    let snapshot = read(&mut source);
    let after = connection_to(&snapshot, &pair.a, server);
    assert_eq!(after.bytes_acked.get().unwrap() - before.bytes_acked.get().unwrap(), 50_000);
    assert!(after.rtt.get().unwrap() > 0.0 && after.peer_window.get().unwrap() > 0.0);
    assert_eq!(after.state.get(), Some("established"));
    assert_eq!(after.interface.get(), Some("veth0"));
    let other_end = connection_to(&snapshot, &pair.b, client.local_addr().unwrap());
    assert_eq!(other_end.bytes_received.get(), Some(50_000));
}

#[test]
fn the_process_of_an_active_connection_is_found_within_a_few_samples() {
    let Some(pair) = NetnsPair::new() else { return };
    let listener = within(&pair.b, || TcpListener::bind("10.203.0.2:0").unwrap());
    let server = listener.local_addr().unwrap();
    let mut client = within(&pair.a, || TcpStream::connect(server).unwrap());
    let (mut accepted, _) = listener.accept().unwrap();
    let mut source = sockets::Sockets::new(Arc::default());
    let found = wait_for("the process is found", || {
        client.write_all(&[7; 1000]).unwrap();
        accepted.read_exact(&mut [0; 1000]).unwrap();
        connection_to(&read(&mut source), &pair.a, server).pid.get()
    });
    assert_eq!(found, f64::from(std::process::id()));
}

#[test]
fn of_few_connections_none_is_missed() {
    let Some(pair) = NetnsPair::new() else { return };
    let listener = within(&pair.b, || TcpListener::bind("10.203.0.2:0").unwrap());
    let server = listener.local_addr().unwrap();
    let connect = || (within(&pair.a, || TcpStream::connect(server).unwrap()), listener.accept().unwrap().0);
    let mut source = sockets::Sockets::new(Arc::default());
    let ends_of = |held: &[(TcpStream, TcpStream)]| {
        let mut ends: Vec<_> = held.iter().map(|(client, _)| client.local_addr().unwrap()).collect();
        ends.sort();
        ends
    };
    let mut seen = || {
        let found = read(&mut source).net.connection.clone();
        let mut ends: Vec<_> = found.iter().filter(|c| *c.socket.ns == *pair.a).map(|c| c.socket.local).collect();
        ends.sort();
        ends
    };
    let mut held = vec![connect(), connect()];
    for _ in 0..3 {
        assert_eq!(seen(), ends_of(&held));
    }
    held.push(connect());
    assert_eq!(seen(), ends_of(&held), "one more");
    assert_eq!(seen(), ends_of(&held));
    // The kernel's count stays the same. The server's end is closed first, so that the socket in TIME_WAIT is on that side.
    let (client, accepted) = held.remove(0);
    drop(accepted);
    drop(client);
    held.push(connect());
    assert_eq!(seen(), ends_of(&held), "another instead");
}

#[test]
fn a_backlog_is_seen_with_the_process_that_does_not_accept() {
    let Some(pair) = NetnsPair::new() else { return };
    let (listener, clients) = within(&pair.a, || {
        let listener = TcpListener::bind("10.203.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        (listener, [0; 3].map(|_| TcpStream::connect(to).unwrap()))
    });
    let address = listener.local_addr().unwrap();
    let is_it = |row: &&Listener| &*row.socket.ns == pair.a.as_str() && row.socket.local == address;
    let has_pid = |s: &Snapshot| s.net.listener.iter().find(is_it).is_some_and(|row| row.pid.get().is_some());
    let snapshot = read_until("the listener has an owner", &mut sockets::Sockets::new(Arc::default()), has_pid);
    let row = snapshot.net.listener.iter().find(is_it).unwrap();
    assert_eq!(row.backlog.get(), Some(clients.len() as f64));
    assert!(row.backlog_limit.get().unwrap() >= 1.0);
    assert_eq!(row.drops.get(), Some(0));
    assert_eq!(row.pid.get(), Some(f64::from(std::process::id())));
    // Both ends are local, whatever interface the address belongs to.
    assert_eq!(connection_to(&snapshot, &pair.a, address).interface.get(), Some("lo"));
}

#[test]
fn a_receiver_that_does_not_read_drops_datagrams() {
    let Some(pair) = NetnsPair::new() else { return };
    let receiver = within(&pair.b, || UdpSocket::bind("10.203.0.2:0").unwrap());
    let address = receiver.local_addr().unwrap();
    let sender = within(&pair.a, || UdpSocket::bind("10.203.0.1:0").unwrap());
    let is_it = |row: &&Datagram| &*row.socket.ns == pair.b.as_str() && row.socket.local == address;
    let dropped = |row: &Datagram| row.drops.get().is_some_and(|drops| drops > 0);
    let complete =
        |s: &Snapshot| s.net.datagram.iter().find(is_it).is_some_and(|row| row.pid.get().is_some() && dropped(row));
    let mut sockets = sockets::Sockets::new(Arc::default());
    // Until the neighbour's address is known, the sender drops packets beyond its queue limit, so one burst may be too little.
    let snapshot = wait_for("datagrams are dropped", || {
        for _ in 0..2000 {
            sender.send_to(&[0; 1200], address).unwrap();
        }
        Some(read(&mut sockets)).filter(&complete)
    });
    let row = snapshot.net.datagram.iter().find(is_it).unwrap();
    assert!(row.drops.get().unwrap() > 0, "{row:?}");
    assert!(row.receive_queue.get().unwrap() > row.receive_buffer.get().unwrap() / 2.0, "{row:?}");
    assert_eq!(row.pid.get(), Some(f64::from(std::process::id())));
    // Datagrams in flight are dropped after one of the two counts was read.
    let counted = wait_for("both counts agree", || {
        let of_socket = read(&mut sockets).net.datagram.iter().find(is_it).unwrap().drops.get();
        let protocols = read(&mut snmp::Protocols::new(Arc::default())).net.protocol.clone();
        let counted = protocols.into_iter().find(|p| &*p.scope.ns == pair.b.as_str()).unwrap();
        (counted.udp_rcvbuf_errors.get() == of_socket).then_some(counted)
    });
    assert_eq!(counted.tcp_memory.get(), None);
}

#[test]
fn the_rate_of_a_shaper_is_read() {
    let Some(pair) = NetnsPair::new() else { return };
    let a = &pair.a;
    assert!(run(&format!("tc -n {a} qdisc add dev veth0 root handle 1: tbf rate 50mbit burst 32k latency 100ms")));
    let snapshot = read(&mut qdiscs::Qdiscs::new(Arc::default()));
    let row = snapshot.net.qdisc.iter().find(|q| &*q.qdisc.ns == a.as_str() && q.kind.get() == Some("tbf")).unwrap();
    assert_eq!(&*row.qdisc.name, "veth0 tbf 1:");
    assert_eq!((row.interface.get(), row.rate.get()), (Some("veth0"), Some(50e6)));
    assert!(row.drops.get().is_some() && row.packets.get().is_some() && row.backlog.get().is_some());
}

#[test]
fn the_ceiling_of_a_class_is_read() {
    let Some(pair) = NetnsPair::new() else { return };
    let a = &pair.a;
    if !run(&format!("tc -n {a} qdisc add dev veth0 root handle 1: htb default 10")) {
        return skip("this kernel has no htb");
    }
    assert!(run(&format!("tc -n {a} class add dev veth0 parent 1: classid 1:10 htb rate 10mbit ceil 80gbit")));
    let snapshot = read(&mut qdiscs::Qdiscs::new(Arc::default()));
    let row = snapshot.net.qdisc.iter().find(|q| &*q.qdisc.name == "veth0 htb 1:10").unwrap();
    assert_eq!(row.rate.get(), Some(80e9));
}

#[test]
fn a_veth_has_a_peer_and_no_speed() {
    let Some(pair) = NetnsPair::new() else { return };
    let snapshot = read(&mut links::LinkSettings(Arc::default()));
    let row = |ns: &str, name: &str| {
        snapshot.net.link.iter().find(|l| &*l.interface.ns == ns && &*l.interface.name == name).unwrap()
    };
    let veth = row(&pair.a, "veth0");
    assert_eq!((veth.kind.get(), veth.driver.get(), veth.speed.get()), (Some("veth"), Some("veth"), None));
    assert_eq!((veth.mtu.get(), veth.peer_ns.get()), (Some(1500.0), Some(pair.b.as_str())));
    assert!(veth.addresses.get().unwrap().starts_with("10.203.0.1/24"));
    assert_eq!(row("", "lo").kind.get(), Some("loopback"));
}

#[test]
fn a_namespace_is_not_kept_alive_by_being_read() {
    let Some(pair) = NetnsPair::new() else { return };
    let namespaces: Arc<Namespaces> = Arc::default();
    let mut all = super::sources();
    let mut shared: Vec<Box<dyn Source>> = vec![
        Box::new(sockets::Sockets::new(namespaces.clone())),
        Box::new(driver_counters::DriverCounters::new(namespaces.clone())),
    ];
    for source in all.iter_mut().chain(&mut shared) {
        let outcome = source.read(&Root::live(), &mut Snapshot::default());
        assert!(matches!(outcome, Ok(()) | Err(SourceError::Absent(_))), "{}: {outcome:?}", source.info().name);
    }
    let a = pair.a.clone();
    assert!(namespaces.others(&Root::live()).iter().any(|n| *n.name == a));
    // The namespace disappears with its name, since no process is in it, and so does the other end of the pair.
    assert!(run(&format!("ip netns del {a}")));
    wait_until("the namespace is gone", || {
        within(&pair.b, || !std::path::Path::new("/proc/thread-self/net/dev_snmp6/veth0").exists())
    });
    // A namespace that no longer exists is skipped.
    assert_eq!(shared[0].read(&Root::live(), &mut Snapshot::default()), Ok(()));
}

#[test]
fn a_thread_returns_home_even_from_a_read_that_panics() {
    let Some(_pair) = NetnsPair::new() else { return };
    let own = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let home = own();
    let namespaces = Namespaces::default();
    let mut seen = 0;
    let visit = || {
        let _ = namespaces.each(&Root::live(), |namespace| {
            seen += 1;
            assert!(namespace.is_empty(), "not our own");
            Ok(())
        });
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(visit)).is_err());
    assert_eq!((seen, own()), (2, home));
}

#[test]
fn our_own_namespace_is_read_with_or_without_privilege() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // A pending connection, because owners of idle sockets are not looked up.
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let is_it = |row: &&Listener| row.socket.ns.is_empty() && row.socket.local == address;
    let has_pid = |s: &Snapshot| s.net.listener.iter().find(is_it).is_some_and(|row| row.pid.get().is_some());
    let snapshot = read_until("the listener has an owner", &mut sockets::Sockets::new(Arc::default()), has_pid);
    assert_eq!(snapshot.net.listener.iter().find(is_it).unwrap().pid.get(), Some(f64::from(std::process::id())));
    let visibility = Visibility(Arc::default()).read(&Root::live(), &mut Snapshot::default());
    let refused = matches!(visibility, Err(SourceError::NotPermitted { .. }));
    assert_eq!(refused, !crate::os::is_root(), "{visibility:?}");
}

#[test]
fn an_interface_created_again_under_its_name_is_another() {
    let Some(pair) = NetnsPair::new() else { return };
    let namespaces = Arc::new(Namespaces::default());
    let identity = || {
        let mut out = Snapshot::default();
        super::net_dev::Interfaces(namespaces.clone()).read(&Root::live(), &mut out).unwrap();
        let made =
            |i: &&whyslow_model::catalogue::Interface| *i.interface.ns == *pair.a && *i.interface.name == *"veth0";
        out.net.interface.iter().find(made).unwrap().identity.get().unwrap().to_owned()
    };
    let before = identity();
    assert_eq!(identity(), before);
    assert!(run(&format!("ip -n {} link del veth0", pair.a)));
    assert!(run(&format!("ip -n {} link add veth0 type veth peer name veth1", pair.a)));
    assert_ne!(identity(), before);
}

#[test]
fn what_our_own_namespace_lacks_is_read_in_others() {
    let Some(pair) = NetnsPair::new() else { return };
    let mut seen = Vec::new();
    let outcome = Namespaces::default().each(&Root::live(), |namespace| {
        seen.push(namespace.to_string());
        if namespace.is_empty() { Err(SourceError::Absent("here".into())) } else { Ok(()) }
    });
    assert_eq!(outcome, Err(SourceError::Absent("here".into())));
    assert!(seen.contains(&pair.a) && seen.contains(&pair.b), "{seen:?}");
}

#[test]
fn a_namespace_that_tracks_connections_has_a_table_of_its_own() {
    let Some(pair) = NetnsPair::new() else { return };
    for command in
        ["table ip t", "chain ip t c { type filter hook output priority 0 ; }", "rule ip t c ct state new accept"]
    {
        if !run(&format!("ip netns exec {} nft add {command}", pair.a)) {
            skip("nft cannot make this kernel track connections");
            return;
        }
    }
    let listener = within(&pair.b, || TcpListener::bind("10.203.0.2:0").unwrap());
    let server = listener.local_addr().unwrap();
    let _client = within(&pair.a, || TcpStream::connect(server).unwrap());
    let rows = read(&mut conntrack::ConnectionTracking(Arc::default())).net.namespace_conntrack.clone();
    let of = |name: &str| rows.iter().find(|row| &*row.namespace.ns == name).and_then(|row| row.count.get());
    assert!(of(&pair.a) >= Some(1.0) && of(&pair.b).is_none(), "{rows:?}");
}
