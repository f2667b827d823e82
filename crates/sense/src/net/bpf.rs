//! BPF sources of the network: dropped packets (bpf/drops.bpf.c), packet sizes (bpf/packets.bpf.c), and ended TCP connections
//! (bpf/tcp.bpf.c).

use super::namespaces::Namespaces;
use crate::Root;
use crate::bpf::{Object, c_string, c_struct, enums, include_object};
use crate::source::{Source, SourceInfo, loaded};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use whyslow_model::catalogue::{EndedConnections, PacketDrop, PacketSize};
use whyslow_model::histogram::Histogram;
use whyslow_model::key::NetKey;
use whyslow_model::value::{Counter, Name};

/// The lowest inode of a network namespace (include/uapi/linux/nsfs.h: NET_NS_INIT_INO). While a packet waits in a socket, its
/// interface pointer holds other data, which reads as no namespace.
const FIRST_NAMESPACE: u32 = 0xefff_ff00;
/// Flag in a packet size's bucket number: the packets were sent.
const SENT: u32 = 1 << 31;

c_struct! {
    /// `struct netns_interface`: an interface in a network namespace, zeros if the packet has none.
    #[derive(Debug, PartialEq, Eq, Hash)]
    struct NetLocation {
        /// The namespace's inode.
        namespace: u32,
        interface: [u8; 16],
    }

    /// `struct drop_key`.
    struct DropKey {
        /// The instruction, of which a function can have several.
        _address: u64,
        reason: u32,
        protocol: u32,
        location: NetLocation,
        _pad: u32,
    }

    /// `struct drop_count`, of one CPU. Only that of the first drop has the function's name.
    struct DropCount {
        packets: u64,
        bytes: u64,
        unicast: u64,
        repeated: u64,
        family: u32,
        source: [u8; 16],
        _pad: u32,
        function: [u8; 48],
    }

    /// `struct size_key`.
    struct SizeKey {
        location: NetLocation,
        bucket: u32,
    }

    /// `struct peer`.
    struct TcpPeer {
        namespace: u32,
        family: u32,
        address: [u8; 16],
    }

    /// `struct ended_totals`, of one CPU.
    struct EndedTotals {
        connections: u64,
        segments: u64,
        retransmits: u64,
        spurious: u64,
        timeouts: u64,
        waited: u64,
        lived: u64,
        timed: u64,
        no_port: u64,
        process: u64,
        command: [u8; 16],
    }
}

/// Names of namespaces, looked up once per sample.
struct NamespaceNames<'a> {
    namespaces: &'a Namespaces,
    root: &'a Root,
    names: HashMap<u32, Name>,
}

impl<'a> NamespaceNames<'a> {
    fn new(namespaces: &'a Namespaces, root: &'a Root) -> Self {
        Self { namespaces, root, names: HashMap::new() }
    }

    fn key(&mut self, inode: u32, name: String) -> NetKey {
        let look_up = || self.namespaces.name_of(self.root, inode.into());
        NetKey { ns: self.names.entry(inode).or_insert_with(look_up).clone(), name: name.into() }
    }
}

pub(super) fn packet_drops(namespaces: Arc<Namespaces>) -> Box<dyn Source> {
    const INFO: SourceInfo = SourceInfo::new("bpf/drops", "where and why the kernel drops packets");
    let load = |root: &Root| {
        let object = Object::load("drops", include_object!("drops"), root)?;
        Ok((object, enums::names(root, "skb_drop_reason")?))
    };
    loaded(INFO, load, move |(object, reasons), root, out| {
        let mut names = NamespaceNames::new(&namespaces, root);
        let mut rows: BTreeMap<NetKey, PacketDrop> = BTreeMap::new();
        for (key, counts) in object.per_cpu_entries::<DropKey, DropCount>("drops")? {
            if key.location.namespace >= FIRST_NAMESPACE {
                // Several instructions of one function share a row.
                let row = packet_drop(&key, &counts, reasons, &mut names);
                let row = rows.entry(row.drop.clone()).or_insert(row);
                let add = |so_far: Counter, of: fn(&DropCount) -> u64| {
                    Counter::from(so_far.get().unwrap_or(0) + counts.iter().map(of).sum::<u64>())
                };
                row.packets = add(row.packets, |c| c.packets);
                row.bytes = add(row.bytes, |c| c.bytes);
                row.unicast = add(row.unicast, |c| c.unicast);
                row.repeated = add(row.repeated, |c| c.repeated);
            }
        }
        out.net.packet_drop.extend(rows.into_values());
        Ok(())
    })
}

/// Builds a row without the counts.
fn packet_drop(
    key: &DropKey,
    counts: &[DropCount],
    reasons: &HashMap<u32, String>,
    names: &mut NamespaceNames<'_>,
) -> PacketDrop {
    let function = counts.iter().find_map(|c| c_string(&c.function)).unwrap_or_else(|| "an unnamed function".into());
    let reason = reasons.get(&key.reason).map_or_else(
        // Reasons of other subsystems, such as mac80211, are not in this enum.
        || format!("{:#x}", key.reason),
        |name| name.trim_start_matches("SKB_DROP_REASON_").to_lowercase(),
    );
    let (interface, protocol) = (c_string(&key.location.interface), protocol(key.protocol));
    let most = counts.iter().max_by_key(|count| count.packets);
    let at = interface.as_deref().unwrap_or("no interface");
    let name = format!("{function} {reason} {at} {}", protocol.as_deref().unwrap_or("other"));
    PacketDrop {
        place: function.into(),
        reason: reason.into(),
        interface: interface.into(),
        protocol: protocol.into(),
        source: most.and_then(sender).map(|address| address.to_string()).into(),
        ..PacketDrop::new(names.key(key.location.namespace, name))
    }
}

/// Returns the sender of an IP packet (include/uapi/linux/if_ether.h); `None` for other packets.
fn sender(count: &DropCount) -> Option<IpAddr> {
    let [a, b, c, d, ..] = count.source;
    match count.family {
        0x0800 => Some(Ipv4Addr::new(a, b, c, d).into()),
        0x86dd => Some(Ipv6Addr::from(count.source).into()),
        _ => None,
    }
}

/// Returns a protocol's name or number (<https://www.iana.org/assignments/protocol-numbers>); `None` for packets other than IP.
fn protocol(number: u32) -> Option<String> {
    Some(match number {
        0 => return None,
        1 | 58 => "icmp".into(),
        6 => "tcp".into(),
        17 => "udp".into(),
        other => other.to_string(),
    })
}

pub(super) fn packet_sizes(namespaces: Arc<Namespaces>) -> Box<dyn Source> {
    const INFO: SourceInfo = SourceInfo::new("bpf/packets", "packet sizes by interface").on_demand();
    /// Packets by bucket: sent, then received.
    type Directions = [Vec<(u32, u64)>; 2];
    loaded(
        INFO,
        |root| Object::load("packets", include_object!("packets"), root),
        move |object, root, out| {
            let mut by_location: HashMap<NetLocation, Directions> = HashMap::new();
            for (key, counts) in object.per_cpu_entries::<SizeKey, u64>("sizes")? {
                let direction = usize::from(key.bucket & SENT == 0);
                let counted = (key.bucket & !SENT, counts.iter().sum());
                by_location.entry(key.location).or_default()[direction].push(counted);
            }
            let mut names = NamespaceNames::new(&namespaces, root);
            out.net.packet_size.extend(by_location.into_iter().filter_map(|(location, sizes)| {
                let interface = names.key(location.namespace, c_string(&location.interface)?);
                let [sent, received] = sizes.map(Histogram::from_counts);
                Some(PacketSize { interface, sent, received })
            }));
            Ok(())
        },
    )
}

pub(super) fn ended_connections(namespaces: Arc<Namespaces>) -> Box<dyn Source> {
    const INFO: SourceInfo = SourceInfo::new("bpf/tcp", "TCP connections that end between two samples");
    loaded(
        INFO,
        |root| Object::load("tcp", include_object!("tcp"), root),
        move |object, root, out| {
            let mut names = NamespaceNames::new(&namespaces, root);
            for (peer, totals) in object.per_cpu_entries::<TcpPeer, EndedTotals>("peers")? {
                let key = names.key(peer.namespace, address(&peer).to_string());
                out.net.ended_connections.push(ended(key, &totals));
            }
            Ok(())
        },
    )
}

fn address(peer: &TcpPeer) -> IpAddr {
    let [a, b, c, d, ..] = peer.address;
    if peer.family == libc::AF_INET6 as u32 {
        Ipv6Addr::from(peer.address).to_canonical()
    } else {
        Ipv4Addr::new(a, b, c, d).into()
    }
}

fn ended(peer: NetKey, totals: &[EndedTotals]) -> EndedConnections {
    let sum = |of: fn(&EndedTotals) -> u64| Counter::from(totals.iter().map(of).sum::<u64>());
    // If the kernel does not count timeouts, the value is absent rather than zero.
    let if_timed = |count: Counter| if totals.iter().any(|t| t.timed > 0) { count } else { Counter::ABSENT };
    // If there are several owners, the last one on the CPU with the most connections is reported.
    let owner = totals.iter().filter(|t| t.process != 0).max_by_key(|t| t.connections + t.no_port);
    EndedConnections {
        peer,
        pid: owner.map(|t| t.process).into(),
        command: owner.and_then(|t| c_string(&t.command)).into(),
        connections: sum(|t| t.connections),
        data_segments_out: sum(|t| t.segments),
        retransmits: sum(|t| t.retransmits),
        spurious: sum(|t| t.spurious),
        timeouts: if_timed(sum(|t| t.timeouts)),
        waited: if_timed(sum(|t| t.waited)),
        lived: sum(|t| t.lived),
        no_port: sum(|t| t.no_port),
    }
}
