//! Network interfaces and the shapers on them.

use crate::signal::{Entity, over, signals, sum};
use whyslow_model::catalogue::{Interface, Link, Qdisc};
use whyslow_model::diagnosis::Subject;
use whyslow_model::window::{Change, Window};

/// Share of its capacity from which an interface counts as full in a sample; framing and acknowledgements take the rest.
const FULL: f64 = 0.85;

/// What an interface's signals are computed from.
pub struct InterfaceUse<'w> {
    change: &'w Change<'w, Interface>,
    link: Option<&'w Link>,
    qdiscs: Vec<&'w Change<'w, Qdisc>>,
}

impl InterfaceUse<'_> {
    fn speed(&self) -> Option<f64> {
        self.link?.speed.get().filter(|s| *s > 0.0)
    }

    /// The rate of the tightest shaper.
    fn shaper(&self) -> Option<f64> {
        self.qdiscs.iter().filter_map(|q| q.last().rate.get()).filter(|r| *r > 0.0).reduce(f64::min)
    }

    fn sending(&self) -> Option<f64> {
        self.change.rate(|i| i.tx_bytes).map(|b| b * 8.0)
    }

    fn receiving(&self) -> Option<f64> {
        self.change.rate(|i| i.rx_bytes).map(|b| b * 8.0)
    }

    /// What can be sent: the line's speed or the shaper's rate, the lower. Unknown is said to be unknown.
    fn send_capacity(&self) -> Option<f64> {
        match (self.speed(), self.shaper()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The part of the samples in which one direction was full.
    fn full_share(&self) -> Option<f64> {
        let send = self.full_steps(self.change.steps(|i| i.tx_bytes), self.send_capacity());
        let receive = self.full_steps(self.change.steps(|i| i.rx_bytes), self.speed());
        [send, receive].into_iter().flatten().reduce(f64::max)
    }

    fn full_steps(&self, steps: impl Iterator<Item = (f64, Option<f64>)>, capacity: Option<f64>) -> Option<f64> {
        let capacity = capacity?;
        let full: Vec<bool> = steps.filter_map(|(dt, b)| Some(b? * 8.0 / dt > FULL * capacity)).collect();
        over(Some(full.iter().filter(|f| **f).count() as f64), Some(full.len() as f64))
    }

    fn qdisc(&self, f: impl Fn(&Change<'_, Qdisc>) -> Option<f64>) -> Option<f64> {
        self.qdiscs.iter().filter_map(|q| f(q)).reduce(f64::max)
    }

    fn packets(&self) -> Option<f64> {
        sum([self.change.rate(|i| i.rx_packets), self.change.rate(|i| i.tx_packets)])
    }
}

signals! { i: &InterfaceUse<'_>;
    "iface.sending" "bit/s" "rate sent", "Δtx_bytes x 8 / Δt", "/proc/net/dev" => i.sending();
    "iface.receiving" "bit/s" "rate received", "Δrx_bytes x 8 / Δt", "/proc/net/dev" => i.receiving();
    "iface.speed" "bit/s" "negotiated speed of the line", "as the driver gives it", "ethtool" => i.speed();
    "iface.shaper_rate" "bit/s" "rate of the tightest shaper on it", "rate of tbf, ceil of htb", "rtnetlink (tc(8))" => i.shaper();
    "iface.use" "ratio" "the fuller direction against its capacity", "max(sent / min(speed, shaper), received / speed)", "/proc/net/dev, ethtool, rtnetlink" => [over(i.sending(), i.send_capacity()), over(i.receiving(), i.speed())].into_iter().flatten().reduce(f64::max);
    "iface.full_share" "ratio" "share of the samples in which a direction ran above 85 % of its capacity", "steps with rate > 0.85 x capacity / steps", "/proc/net/dev, ethtool, rtnetlink" => i.full_share();
    "iface.backlog" "bytes" "bytes that waited in the queueing discipline, mean", "mean(backlog)", "rtnetlink" => i.qdisc(|q| q.mean(|q| q.backlog));
    "iface.overlimits" "1/s" "packets the shaper held back", "Δoverlimits / Δt", "rtnetlink" => i.qdisc(|q| q.rate(|q| q.overlimits));
    "iface.qdisc_drops" "1/s" "packets the queueing discipline dropped", "Δdrops / Δt", "rtnetlink" => i.qdisc(|q| q.rate(|q| q.drops));
    "iface.drops" "1/s" "packets the interface dropped on receipt", "Δ(rx_dropped + rx_fifo) / Δt", "/proc/net/dev" => sum([i.change.rate(|i| i.rx_dropped), i.change.rate(|i| i.rx_fifo)]);
    "iface.ring_drops" "1/s" "packets lost because the receive ring overflowed", "Δrx_fifo / Δt", "/proc/net/dev" => i.change.rate(|i| i.rx_fifo);
    "iface.errors" "1/s" "bad packets", "Δ(rx_errors + tx_errors) / Δt", "/proc/net/dev" => sum([i.change.rate(|i| i.rx_errors), i.change.rate(|i| i.tx_errors)]);
    "iface.error_share" "ratio" "share of the packets that were bad", "Δerrors / Δpackets", "/proc/net/dev" => over(sum([i.change.rate(|i| i.rx_errors), i.change.rate(|i| i.tx_errors)]), i.packets());
    "iface.packets" "1/s" "packets in both directions", "Δ(rx_packets + tx_packets) / Δt", "/proc/net/dev" => i.packets();
    "iface.packet_size" "bytes" "mean packet", "Δbytes / Δpackets", "/proc/net/dev" => over(sum([i.change.rate(|i| i.rx_bytes), i.change.rate(|i| i.tx_bytes)]), i.packets());
    "iface.mtu" "bytes" "largest packet", "as the kernel gives it", "rtnetlink" => i.link.and_then(|l| l.mtu.get());
    "iface.duplex" "text" "full or half", "as the driver gives it", "ethtool" => i.link.and_then(|l| l.duplex.get());
}

/// Every interface of every namespace that can be seen.
pub fn entities(window: &Window) -> Vec<Entity> {
    let links = window.newest::<Link>();
    let qdiscs = window.changes::<Qdisc>();
    window
        .changes::<Interface>()
        .iter()
        .map(|change| {
            let key = change.key();
            let on_it = |q: &&Change<'_, Qdisc>| q.key().ns == key.ns && q.last().interface.get() == Some(&*key.name);
            let interface =
                InterfaceUse { change, link: links.get(key).copied(), qdiscs: qdiscs.iter().filter(on_it).collect() };
            let subject = Subject { netns: super::netns(&key.ns), ..Subject::new("interface", key.name.to_string()) };
            Entity::new(subject, read(&interface))
        })
        .collect()
}
