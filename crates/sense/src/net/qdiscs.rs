//! Qdiscs and classes (rtnetlink(7), tc(8), include/uapi/linux/pkt_sched.h, gen_stats.h).

use super::namespaces::Namespaces;
use super::netlink::{HomeSocket, Netlink, attributes, attributes_after, text, u32_at, u64_at};
use super::rtnetlink::interface_name;
use crate::Root;
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::collections::HashMap;
use std::sync::Arc;
use whyslow_model::catalogue::Qdisc;
use whyslow_model::key::NetKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// Size of struct tcmsg.
const HEAD: usize = 20;
/// Qdiscs whose classes have queues and rates set by an administrator. Others create a class per transmit queue (mq) or per flow
/// (fq_codel), which adds nothing to the qdisc itself.
const CLASSFUL: [&str; 2] = ["htb", "hfsc"];
/// TC_H_ROOT of include/uapi/linux/pkt_sched.h.
const ROOT: u32 = u32::MAX;
/// The default qdisc of virtual interfaces, which has no queue.
const NO_QUEUE: &str = "noqueue";

// TCA_* of include/uapi/linux/rtnetlink.h.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STATISTICS: u16 = 7;

pub(crate) struct Qdiscs {
    namespaces: Arc<Namespaces>,
    netlink: HomeSocket<Netlink>,
}

impl Qdiscs {
    pub(super) fn new(namespaces: Arc<Namespaces>) -> Self {
        Self { namespaces, netlink: HomeSocket::default() }
    }
}

impl Source for Qdiscs {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("rtnetlink qdiscs", "traffic shaping and queues")
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        root.require_live()?;
        self.namespaces.each(root, |namespace| {
            let all = self.netlink.with(namespace, || Netlink::open(libc::NETLINK_ROUTE), dump)?;
            for (interface, found) in &all {
                out.net.qdisc.extend(found.iter().map(|d| d.row(namespace, interface)));
            }
            Ok(())
        })
    }
}

/// Reads all qdiscs and classes of the thread's namespace, by interface.
fn dump(netlink: &mut Netlink) -> Result<Vec<(Name, Vec<TrafficQueue>)>, SourceError> {
    let mut found: HashMap<u32, Vec<TrafficQueue>> = HashMap::new();
    netlink.dump(libc::RTM_GETQDISC, &[0; HEAD], |payload| {
        if let Some((interface, queue)) = decode(payload)
            && queue.kind != NO_QUEUE
        {
            found.entry(interface).or_default().push(queue);
        }
    })?;
    for (interface, queues) in &mut found {
        if queues.iter().any(|d| CLASSFUL.contains(&&*d.kind)) {
            let mut request = [0; HEAD];
            request[4..8].copy_from_slice(&interface.to_ne_bytes());
            netlink.dump(libc::RTM_GETTCLASS, &request, |payload| {
                let class = decode(payload).map(|(_, class)| class);
                queues.extend(class.filter(|c| CLASSFUL.contains(&&*c.kind)));
            })?;
        }
    }
    // An interface that was just removed has no name.
    Ok(found.into_iter().filter_map(|(number, all)| Some((interface_name(netlink, number)?, all))).collect())
}

/// A qdisc, or a class of one.
#[derive(Clone, Debug, Default, PartialEq)]
struct TrafficQueue {
    kind: String,
    handle: u32,
    parent: u32,
    /// Bytes per second.
    rate: Option<u64>,
    bytes: Option<u64>,
    packets: Option<u64>,
    stats: Option<QueueStats>,
}

/// struct gnet_stats_queue.
#[derive(Clone, Copy, Debug, PartialEq)]
struct QueueStats {
    packets: u32,
    bytes: u32,
    drops: u32,
    requeues: u32,
    overlimits: u32,
}

impl TrafficQueue {
    fn row(&self, namespace: &Name, interface: &Name) -> Qdisc {
        let name = format!("{interface} {} {}", self.kind, self.handle_name());
        let mut row = Qdisc::new(NetKey { ns: namespace.clone(), name: name.into() });
        row.interface = interface.clone().into();
        row.kind = self.kind.as_str().into();
        row.bytes = self.bytes.into();
        row.packets = self.packets.into();
        if let Some(stats) = self.stats {
            row.drops = u64::from(stats.drops).into();
            row.overlimits = u64::from(stats.overlimits).into();
            row.requeues = u64::from(stats.requeues).into();
            row.backlog = u64::from(stats.bytes).into();
            row.queue_length = u64::from(stats.packets).into();
        }
        row.rate = self.rate.map(|bytes| bytes as f64 * 8.0).into();
        row.parent = match self.parent {
            ROOT => "root".into(),
            parent => format!("{:x}:{:x}", parent >> 16, parent & 0xffff).into(),
        };
        row
    }

    /// Formats the handle as tc(8) does. Qdiscs created by the kernel have none and are identified by their parent.
    fn handle_name(&self) -> String {
        match (self.handle >> 16, self.handle & 0xffff) {
            (0, _) => format!("0: parent {:x}:{:x}", self.parent >> 16, self.parent & 0xffff),
            (major, 0) => format!("{major:x}:"),
            (major, minor) => format!("{major:x}:{minor:x}"),
        }
    }
}

/// Decodes the interface index and the qdisc or class.
fn decode(payload: &[u8]) -> Option<(u32, TrafficQueue)> {
    let mut found =
        TrafficQueue { handle: u32_at(payload, 8)?, parent: u32_at(payload, 12)?, ..TrafficQueue::default() };
    let mut options = None;
    for (kind, value) in attributes_after(payload, HEAD) {
        match kind {
            KIND => found.kind = text(value),
            OPTIONS => options = Some(value),
            STATISTICS => parse_statistics(value, &mut found),
            _ => {}
        }
    }
    found.rate = options.and_then(|options| rate(&found.kind, options)).filter(|rate| *rate > 0);
    Some((u32_at(payload, 4)?, found))
}

/// Parses TCA_STATS_* of include/uapi/linux/gen_stats.h.
fn parse_statistics(value: &[u8], found: &mut TrafficQueue) {
    const BASIC: u16 = 1;
    const QUEUE: u16 = 3;
    const PACKETS_64: u16 = 8;
    for (kind, value) in attributes(value) {
        match kind {
            BASIC => {
                found.bytes = u64_at(value, 0);
                found.packets = u32_at(value, 8).map(u64::from);
            }
            QUEUE => found.stats = queue_stats(value),
            // The kernel adds it after BASIC once the count exceeds 32 bits.
            PACKETS_64 => found.packets = u64_at(value, 0),
            _ => {}
        }
    }
}

fn queue_stats(value: &[u8]) -> Option<QueueStats> {
    let word = |at: usize| u32_at(value, 4 * at);
    Some(QueueStats { packets: word(0)?, bytes: word(1)?, drops: word(2)?, requeues: word(3)?, overlimits: word(4)? })
}

/// Returns the maximum rate of a shaper in bytes per second; for an HTB class, its ceiling. Rates above 32 bits have an attribute
/// of their own, in addition to a truncated struct tc_ratespec.
fn rate(kind: &str, options: &[u8]) -> Option<u64> {
    /// Offset of the rate in struct tc_ratespec.
    const RATE: usize = 8;
    /// Length of struct tc_ratespec.
    const SPEC: usize = 12;
    /// Length of struct tc_netem_qopt, which the attributes of netem follow.
    const NETEM: usize = 24;
    let options = if kind == "netem" { options.get(NETEM..)? } else { options };
    let find = |wanted| attributes(options).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let long = |wanted| u64_at(find(wanted)?, 0);
    let short = |offset| u32_at(find(1)?, offset).map(u64::from);
    match kind {
        // TCA_TBF_RATE64, TCA_TBF_PARMS (struct tc_tbf_qopt).
        "tbf" => long(4).or_else(|| short(RATE)),
        // TCA_HTB_CEIL64, TCA_HTB_PARMS (struct tc_htb_opt).
        "htb" => long(7).or_else(|| short(SPEC + RATE)),
        // TCA_CAKE_BASE_RATE64; 0 is unlimited.
        "cake" => long(2),
        // TCA_NETEM_RATE64, TCA_NETEM_RATE (struct tc_netem_rate); 0 is unlimited.
        "netem" => long(8).or_else(|| u32_at(find(6)?, 0).map(u64::from)).filter(|rate| *rate > 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::netlink::attribute;
    use proptest::prelude::*;

    fn message(kind: &[u8], handle: u32, parent: u32, rest: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[4] = 3;
        bytes[8..12].copy_from_slice(&handle.to_ne_bytes());
        bytes[12..16].copy_from_slice(&parent.to_ne_bytes());
        bytes.extend(attribute(KIND, kind));
        bytes.extend(rest.concat());
        bytes
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = decode(&bytes);
            for kind in ["tbf", "htb", "cake", "netem"] {
                let _ = rate(kind, &bytes);
            }
        }
    }

    #[test]
    fn statistics_and_rate_of_a_tbf_are_parsed() {
        let basic = [1000u64.to_ne_bytes().to_vec(), words(&[10])].concat();
        let statistics = [attribute(1, &basic), attribute(3, &words(&[1, 2, 3, 4, 5]))].concat();
        let options = attribute(1, &words(&[0, 0, 6_250_000]));
        let bytes = message(
            b"tbf\0",
            0x8001_0000,
            u32::MAX,
            &[attribute(OPTIONS, &options), attribute(STATISTICS, &statistics)],
        );
        let (_, found) = decode(&bytes).unwrap();
        let row = found.row(&Name::default(), &"eth0".into());
        assert_eq!(&*row.qdisc.name, "eth0 tbf 8001:");
        assert_eq!((row.bytes.get(), row.packets.get()), (Some(1000), Some(10)));
        assert_eq!((row.queue_length.get(), row.backlog.get(), row.drops.get()), (Some(1.0), Some(2.0), Some(3)));
        assert_eq!((row.requeues.get(), row.overlimits.get()), (Some(4), Some(5)));
        assert_eq!((row.rate.get(), row.parent.get()), (Some(50e6), Some("root")));
    }

    #[test]
    fn a_rate_above_32_bits_has_its_own_attribute() {
        let options = [attribute(1, &words(&[0, 0, u32::MAX])), attribute(4, &5_000_000_000u64.to_ne_bytes())].concat();
        assert_eq!(rate("tbf", &options), Some(5_000_000_000));
    }

    #[test]
    fn the_parent_of_a_class_is_named_as_tc_does() {
        let (_, class) = decode(&message(b"htb\0", 0x1_0010, 0x1_0001, &[])).unwrap();
        let row = class.row(&Name::default(), &"eth0".into());
        assert_eq!((&*row.qdisc.name, row.parent.get()), ("eth0 htb 1:10", Some("1:1")));
    }

    #[test]
    fn the_rate_of_a_class_is_its_ceiling() {
        assert_eq!(rate("htb", &attribute(1, &words(&[0, 0, 100, 0, 0, 900]))), Some(900));
    }

    #[test]
    fn the_rate_of_netem_follows_its_parameters() {
        let options = |rate: u32| [words(&[0; 6]), attribute(6, &words(&[rate, 0, 0, 0]))].concat();
        assert_eq!(rate("netem", &options(5_000_000)), Some(5_000_000));
        assert_eq!(rate("netem", &options(0)), None);
        let above = [options(u32::MAX), attribute(8, &5_000_000_000u64.to_ne_bytes())].concat();
        assert_eq!(rate("netem", &above), Some(5_000_000_000));
    }

    #[test]
    fn qdiscs_the_kernel_created_are_identified_by_their_parent() {
        let handles: Vec<String> =
            [1, 2].map(|queue| decode(&message(b"pfifo_fast\0", 0, queue, &[])).unwrap().1.handle_name()).into();
        assert_eq!(handles, ["0: parent 0:1", "0: parent 0:2"]);
    }
}
