//! A network driver's own counters (ethtool -S): pause frames, oversize frames, and the packets and drops of each receive queue.

use std::collections::BTreeMap;
use whyslow_model::catalogue::DriverCounter;
use whyslow_model::key::NetKey;
use whyslow_model::window::Window;

/// Names of the counters of received pause frames: igb, ixgbe, i40e, ice, tg3, mlx4, mlx5, bnxt. Several names count the same
/// frames.
const PAUSES_RECEIVED: [&str; 8] = [
    "rx_flow_control_xoff",
    "rx_xoff_pause_rcvd",
    "port.link_xoff_rx",
    "link_xoff_rx.nic",
    "rx_pause",
    "rx_pause_frames",
    "rx_pause_ctrl",
    "rx_pause_ctrl_phy",
];
/// Names of the counters of sent pause frames.
const PAUSES_SENT: [&str; 8] = [
    "tx_flow_control_xoff",
    "tx_xoff_sent",
    "port.link_xoff_tx",
    "link_xoff_tx.nic",
    "tx_pause",
    "tx_pause_frames",
    "tx_pause_ctrl",
    "tx_pause_ctrl_phy",
];
/// Names of the counters of frames dropped because they are longer than the interface accepts: e1000e and igb, ixgbe, bnx2 and
/// qede, i40e, ice, mlx5, tg3, be2net, bnxt, hns3.
const OVERSIZE: [&str; 11] = [
    "rx_long_length_errors",
    "rx_oversize",
    "rx_oversize_packets",
    "port.rx_oversize",
    "rx_oversize.nic",
    "rx_oversize_pkts_phy",
    "rx_oversize_pkts_buffer",
    "rx_frame_too_long_errors",
    "rx_frame_too_long",
    "rx_ovrsz_frames",
    "mac_rx_oversize_pkt_num",
];
/// Text directly before the number of a queue: `rx_queue_0_packets`, `rx0_packets`, `rx-0.packets`, `rxq0: rx_pkts`,
/// `queue_0_rx_cnt`, `[0]: rx_ucast_packets`, `rx_packets[0]`.
const BEFORE_QUEUE: [&str; 6] = ["queue_", "rx", "rx-", "rx_", "rxq", "["];
const PACKETS: [&str; 3] = ["packets", "pkts", "rx_cnt"];
const DROPS: [&str; 5] = ["drop", "discard", "miss", "no_buf", "oob"];
/// Parts of the names of other counters: by priority, of sizes, and of programs that drop packets on purpose.
const NO_QUEUES: [&str; 8] = ["prio", "xdp", "xsk", "byte", "octet", "size", "tx", "_to_"];

/// Counts of a driver for one interface in the window; `None` where it has no such counter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NicCounts {
    pub pauses_received: Option<f64>,
    pub pauses_sent: Option<f64>,
    pub oversize: Option<f64>,
    pub packets: Option<QueueCounts>,
    pub drops: Option<QueueCounts>,
}

/// One counter across several receive queues.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueCounts {
    pub queues: f64,
    pub total: f64,
    /// Share of the queue with the most, and its number; `None` if all are zero.
    pub most: Option<(f64, u32)>,
}

impl QueueCounts {
    fn from_counts(counts: &BTreeMap<u32, f64>) -> Option<Self> {
        // Queues are numbered from 0 without a gap.
        let is_complete = counts.len() >= 2 && counts.keys().copied().eq(0..counts.len() as u32);
        let (queue, most) = counts.iter().max_by(|a, b| a.1.total_cmp(b.1)).filter(|_| is_complete)?;
        let total: f64 = counts.values().sum();
        let most = (total > 0.0).then(|| (most / total, *queue));
        Some(Self { queues: counts.len() as f64, total, most })
    }
}

/// Returns the counts of each interface whose driver has any.
pub fn by_interface(window: &Window) -> BTreeMap<NetKey, NicCounts> {
    let mut counters: BTreeMap<NetKey, Vec<(String, f64)>> = BTreeMap::new();
    for change in window.changes::<DriverCounter>() {
        let NetKey { ns, name } = change.key();
        let Some(((interface, counter), count)) = name.split_once('/').zip(change.grown(|c| c.count)) else { continue };
        let key = NetKey { ns: ns.clone(), name: interface.into() };
        counters.entry(key).or_default().push((counter.to_ascii_lowercase(), count));
    }
    counters.into_iter().map(|(key, counters)| (key, counts(&counters))).collect()
}

fn counts(counters: &[(String, f64)]) -> NicCounts {
    let most_of = |names: &[&str]| {
        let counted = counters.iter().filter(|(name, _)| names.contains(&name.as_str()));
        counted.map(|(_, count)| *count).reduce(f64::max)
    };
    let mut by_kind: BTreeMap<String, BTreeMap<u32, f64>> = BTreeMap::new();
    for (name, count) in counters {
        if let Some((kind, queue)) = queue_of(name) {
            by_kind.entry(kind).or_default().insert(queue, *count);
        }
    }
    // Drivers count several kinds of packets; the most frequent kind shows their distribution.
    let queues = |words: &[&str]| {
        let of_kind = by_kind.iter().filter(|(kind, _)| words.iter().any(|word| kind.contains(word)));
        of_kind.filter_map(|(_, counts)| QueueCounts::from_counts(counts)).max_by(|a, b| a.total.total_cmp(&b.total))
    };
    NicCounts {
        pauses_received: most_of(&PAUSES_RECEIVED),
        pauses_sent: most_of(&PAUSES_SENT),
        oversize: most_of(&OVERSIZE),
        packets: queues(&PACKETS),
        drops: queues(&DROPS),
    }
}

/// Splits the name of a queue's counter into the name without the queue's number, and that number.
fn queue_of(name: &str) -> Option<(String, u32)> {
    if !name.contains("rx") || NO_QUEUES.iter().any(|word| name.contains(word)) {
        return None;
    }
    let begin = name.find(|c: char| c.is_ascii_digit())?;
    let (before, rest) = name.split_at(begin);
    let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    let is_queue = BEFORE_QUEUE.iter().any(|words| before.ends_with(words));
    is_queue.then_some(())?;
    Some((format!("{before}#{after}"), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;

    fn counted(counters: &[(&str, u64)]) -> NicCounts {
        let window = window([0, 1], |t, s| {
            s.net.driver_counter.extend(counters.iter().map(|(name, count)| DriverCounter {
                count: (t * count).into(),
                ..DriverCounter::new(NetKey { ns: "".into(), name: format!("eth0/{name}").into() })
            }));
        });
        by_interface(&window).into_values().next().unwrap()
    }

    #[test]
    fn queues_are_recognized_as_drivers_spell_them() {
        for name in ["rx_queue_0_packets", "rx0_packets", "rx-0.packets", "rxq0: rx_pkts", "queue_0_rx_cnt"] {
            assert_eq!(queue_of(name).map(|(_, queue)| queue), Some(0), "{name}");
        }
        for name in ["[3]: rx_ucast_packets", "rx_packets[3]"] {
            assert_eq!(queue_of(name).map(|(_, queue)| queue), Some(3), "{name}");
        }
        for name in
            ["rx_prio0_packets", "rx_65_to_127_byte_packets", "tx_queue_0_packets", "rx_packets", "rx0_xdp_drops"]
        {
            assert_eq!(queue_of(name), None, "{name}");
        }
    }

    #[test]
    fn the_queue_with_most_is_found() {
        let found = counted(&[
            ("rx_queue_0_packets", 10),
            ("rx_queue_1_packets", 70),
            ("rx_queue_2_packets", 20),
            ("rx_queue_0_drops", 0),
            ("rx_queue_1_drops", 0),
            ("rx_queue_2_drops", 0),
        ]);
        assert_eq!(found.packets, Some(QueueCounts { queues: 3.0, total: 100.0, most: Some((0.7, 1)) }));
        assert_eq!(found.drops, Some(QueueCounts { queues: 3.0, total: 0.0, most: None }));
        // A missing queue could be the one that differs.
        assert_eq!(counted(&[("rx0_packets", 10), ("rx2_packets", 70)]).packets, None);
    }

    #[test]
    fn pause_frames_that_are_counted_twice_are_not_added() {
        let found = counted(&[("rx_pause_ctrl_phy", 80), ("rx_pause", 80), ("tx_pause", 3), ("rx_prio3_pause", 9)]);
        assert_eq!((found.pauses_received, found.pauses_sent), (Some(80.0), Some(3.0)));
        assert_eq!(counted(&[("rx_bytes", 1)]).pauses_received, None);
    }
}
