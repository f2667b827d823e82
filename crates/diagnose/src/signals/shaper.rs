//! Shapers: queueing disciplines and classes with a rate, which delay packets or drop them.

use crate::signal::{Entity, mean, netns, over, share_of_true, signals};
use std::collections::BTreeMap;
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::Qdisc;
use whyslow_model::key::NetKey;
use whyslow_model::window::{Change, Window};

/// Share of its rate from which a shaper counts as full in a sample, as for interfaces.
const FULL: f64 = 0.85;
/// Maximum number of classes above a class (TC_HTB_MAXDEPTH of include/uapi/linux/pkt_sched.h).
const MAX_DEPTH: usize = 8;

/// Returns the handle, which is the last word of the name.
fn handle<'a>(queue: &'a Change<'_, Qdisc>) -> &'a str {
    queue.key().name.rsplit(' ').next().unwrap_or_default()
}

fn rate(queue: &Change<'_, Qdisc>) -> Option<f64> {
    queue.last().rate.get().filter(|rate| *rate > 0.0)
}

/// Returns true for a class: `1:` is a discipline, `1:10` a class of it.
fn is_class(queue: &Change<'_, Qdisc>) -> bool {
    !handle(queue).ends_with(':')
}

/// Returns true if the queue is at the root. A discipline whose parent is unknown counts as such.
fn is_at_root(queue: &Change<'_, Qdisc>) -> bool {
    queue.last().parent.get().map_or(!is_class(queue), |parent| parent == "root")
}

/// Returns the shaper that all sent packets pass through, among the disciplines and classes of an interface; `None` if there is
/// none.
pub(super) fn of_all<'q, 'w>(on_it: &[&'q Change<'w, Qdisc>]) -> Option<&'q Change<'w, Qdisc>> {
    let at_root = |is_wanted: fn(&Change<'_, Qdisc>) -> bool| {
        let found = on_it.iter().copied().filter(move |q| is_at_root(q) && is_wanted(q));
        found.collect::<Vec<_>>()
    };
    let disciplines = at_root(|q| !is_class(q) && rate(q).is_some());
    let classes = at_root(is_class);
    let [only] = (if disciplines.is_empty() { classes } else { disciplines })[..] else { return None };
    rate(only).map(|_| only)
}

/// Inputs of a shaper's signals.
pub struct ShaperUse<'w> {
    /// The queue in which packets wait.
    queue: &'w Change<'w, Qdisc>,
    /// The shaper whose rate they wait for: the same, or a class above it.
    limit: &'w Change<'w, Qdisc>,
    /// Whether all packets that the interface sends pass through `limit`.
    limits_all: bool,
}

impl<'w> ShaperUse<'w> {
    fn from_queue(queue: &'w Change<'w, Qdisc>, on_it: &[&'w Change<'w, Qdisc>]) -> Option<Self> {
        let (mut limit, mut above) = (Some(queue).filter(|q| rate(q).is_some()), queue);
        for _ in 0..MAX_DEPTH {
            let parent = above.last().parent.get();
            let Some(next) = on_it.iter().copied().find(|q| Some(handle(q)) == parent && is_class(q)) else { break };
            let is_fuller = limit.is_none_or(|limit| used(next) > used(limit));
            limit = if rate(next).is_some() && is_fuller { Some(next) } else { limit };
            above = next;
        }
        let limit = limit?;
        let limits_all = of_all(on_it).is_some_and(|all| all.key() == limit.key());
        Some(Self { queue, limit, limits_all })
    }

    fn full_share(&self) -> Option<f64> {
        let rate = rate(self.limit)?;
        let sampled = self.limit.steps(|q| q.bytes).filter_map(|(dt, bytes)| Some(bytes? * 8.0 / dt > FULL * rate));
        let estimated = || share_of_true(self.limit.readings(|q| q.sending).map(|bits| bits > FULL * rate));
        share_of_true(sampled).or_else(estimated)
    }

    fn waiting_share(&self) -> Option<f64> {
        let waiting = self.queue.readings(|q| q.backlog).map(|bytes| bytes > 0.0);
        // Waiting packets are evidence only beside a rate of the same moment.
        share_of_true(waiting).filter(|_| !self.queue.is_since_boot() || self.limit.last().sending.get().is_some())
    }

    fn dropping_share(&self) -> Option<f64> {
        share_of_true(self.queue.steps(|q| q.drops).filter_map(|(_, drops)| Some(drops? > 0.0)))
    }

    fn drop_share(&self) -> Option<f64> {
        let (drops, sent) = (self.queue.grown(|q| q.drops)?, self.queue.grown(|q| q.packets)?);
        over(Some(drops), Some(drops + sent))
    }

    /// Returns how long a byte waits: the backlog over the rate at which it drains (Little's law).
    fn delay(&self) -> Option<f64> {
        over(mean(self.queue.readings(|q| q.backlog)), self.queue.rate(|q| q.bytes))
    }

    /// Returns a score of how much it delays or drops, to find the worst shaper.
    fn severity(&self) -> f64 {
        let share = |known: Option<f64>| known.unwrap_or(0.0);
        share(self.full_share())
            .min(share(self.waiting_share()))
            .max(share(self.dropping_share()) * share(self.drop_share()))
    }
}

/// Returns the rate through a shaper as a share of its limit.
fn used(queue: &Change<'_, Qdisc>) -> Option<f64> {
    let sampled = queue.rate(|q| q.bytes).map(|bytes| bytes * 8.0).filter(|_| !queue.is_since_boot());
    over(sampled.or_else(|| queue.last().sending.get()), rate(queue))
}

signals! { s: ShaperUse<'_>;
    "shaper.queue" "text" "the queueing discipline or class in which packets wait", "kind and handle", "rtnetlink (tc(8))" => s.queue.key().name.split_once(' ').map(|(_, queue)| queue);
    "shaper.limit" "text" "the one whose rate they wait for", "of it and the classes above it, the one nearest its rate", "rtnetlink (tc(8))", normal "absent where nothing shapes" => s.limit.key().name.split_once(' ').map(|(_, queue)| queue);
    "shaper.rate" "bit/s" "that rate", "rate of tbf, ceil of htb", "rtnetlink (tc(8))", normal "above what is to be sent" => rate(s.limit);
    "shaper.use" "ratio" "what passes through that, against the rate", "Δbytes x 8 / Δt / rate; of a single capture the kernel's estimate", "rtnetlink", normal (below 0.7) => used(s.limit);
    "shaper.full_share" "ratio" "share of the samples in which that ran above 85 % of the rate", "steps with Δbytes x 8 / Δt > 0.85 x rate / steps", "rtnetlink", normal (near 0.0, "no sample above 85 %") => s.full_share();
    "shaper.limits_all" "flag" "1 where everything that the interface sends passes through that", "a discipline at the root, or the only class there", "rtnetlink" => s.limits_all;
    "shaper.waiting_share" "ratio" "share of the samples in which packets waited", "samples with backlog > 0 / samples", "rtnetlink", normal (near 0.02) => s.waiting_share();
    "shaper.delay" "s" "how long they wait, mean", "mean(backlog) / (Δbytes / Δt)", "rtnetlink (Little's law)", normal "below a few milliseconds" => s.delay();
    "shaper.drops" "1/s" "packets that it dropped", "Δdrops / Δt", "rtnetlink" => s.queue.rate(|q| q.drops);
    "shaper.drop_share" "ratio" "the same as a share of the packets to send", "Δdrops / Δ(packets + drops)", "rtnetlink", normal (near 0.02) => s.drop_share();
    "shaper.dropping_share" "ratio" "share of the samples in which it dropped any", "steps with Δdrops > 0 / steps", "rtnetlink", normal (near 0.02) => s.dropping_share();
}

/// Returns, for each interface, the shaper that delays or drops most.
pub fn entities(window: &Window) -> Vec<Entity> {
    let queues = window.changes::<Qdisc>();
    let mut by_interface: BTreeMap<NetKey, Vec<&Change<'_, Qdisc>>> = BTreeMap::new();
    for queue in &queues {
        if let Some(interface) = queue.last().interface.get() {
            let key = NetKey { ns: queue.key().ns.clone(), name: interface.into() };
            by_interface.entry(key).or_default().push(queue);
        }
    }
    let tightest = |(interface, on_it): (NetKey, Vec<&Change<'_, Qdisc>>)| {
        let shapers = on_it.iter().filter_map(|queue| ShaperUse::from_queue(queue, &on_it));
        let shaper = shapers.max_by(|a, b| a.severity().total_cmp(&b.severity()))?;
        let subject = Subject { netns: netns(&interface.ns), ..Subject::new("interface", interface.name.to_string()) };
        Some(Entity::from_subject(subject, &shaper))
    };
    by_interface.into_iter().filter_map(tightest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;
    use whyslow_documents::diagnosis::Reading;

    /// Returns ten seconds of an HTB of 100 Mbit/s. Class 1:20 may send 10 Mbit/s, and does: 1.25 MB per second, with 25 kB
    /// waiting and one packet in ten dropped. The other class is idle.
    fn htb(parents: bool) -> Window {
        window([0, 5, 10], |t, s| {
            for (name, parent, rate, bytes) in [
                ("htb 1:", "root", 0, 0),
                ("htb 1:1", "root", 100, 1_250_000),
                ("htb 1:20", "1:1", 10, 1_250_000),
                ("htb 1:10", "1:1", 100, 0),
            ] {
                s.net.qdisc.push(Qdisc {
                    interface: "eth0".into(),
                    kind: "htb".into(),
                    parent: parents.then_some(parent).into(),
                    rate: Some(rate).filter(|rate| *rate > 0).map(|rate| rate * 1_000_000).into(),
                    bytes: (t * bytes).into(),
                    packets: (t * bytes / 1000).into(),
                    drops: (if name == "htb 1:20" { t * 125 } else { 0 }).into(),
                    backlog: (if name == "htb 1:20" { 25_000 } else { 0 }).into(),
                    ..Qdisc::new(NetKey { ns: "".into(), name: format!("eth0 {name}").into() })
                });
            }
        })
    }

    #[test]
    fn a_full_class_is_not_the_whole_interface() {
        let all = entities(&htb(true));
        let [found] = &all[..] else { panic!("{all:?}") };
        assert_eq!(found.reading("shaper.queue"), Some(&Reading::Text("htb 1:20".into())));
        let number = |name: &str| (found.number(name).unwrap() * 1e6).round() / 1e6;
        assert_eq!((number("shaper.rate"), number("shaper.use"), number("shaper.limits_all")), (10e6, 1.0, 0.0));
        assert_eq!((number("shaper.full_share"), number("shaper.waiting_share")), (1.0, 1.0));
        // 25 kB at 1.25 MB/s; 125 of 1375 packets.
        assert_eq!((number("shaper.delay"), number("shaper.drop_share")), (0.02, 0.090909));
    }

    #[test]
    fn a_class_can_wait_for_the_rate_of_the_one_above_it() {
        let window = window([0, 10], |t, s| {
            for (name, parent, rate, bytes) in
                [("htb 1:1", "root", 10, 12_500_000), ("htb 1:20", "1:1", 50, 12_500_000)]
            {
                s.net.qdisc.push(Qdisc {
                    interface: "eth0".into(),
                    parent: parent.into(),
                    rate: (rate * 1_000_000).into(),
                    bytes: (t / 10 * bytes).into(),
                    backlog: (if name == "htb 1:20" { 25_000 } else { 0 }).into(),
                    ..Qdisc::new(NetKey { ns: "".into(), name: format!("eth0 {name}").into() })
                });
            }
        });
        let found = &entities(&window)[0];
        assert_eq!(found.reading("shaper.queue"), Some(&Reading::Text("htb 1:20".into())));
        assert_eq!(found.reading("shaper.limit"), Some(&Reading::Text("htb 1:1".into())));
        assert_eq!((found.number("shaper.rate"), found.number("shaper.limits_all")), (Some(10e6), Some(1.0)));
    }

    #[test]
    fn all_passes_through_the_only_class_at_the_root_or_a_discipline_there() {
        let of_all_in = |window: &Window| {
            let queues = window.changes::<Qdisc>();
            of_all(&queues.iter().collect::<Vec<_>>()).map(|q| handle(q).to_owned())
        };
        assert_eq!(of_all_in(&htb(true)).as_deref(), Some("1:1"));
        assert_eq!(of_all_in(&htb(false)), None, "which class is above which is not known");
        let tbf = window([0], |_, s| {
            s.net
                .qdisc
                .push(Qdisc { rate: 10.into(), ..Qdisc::new(NetKey { ns: "".into(), name: "eth0 tbf 8001:".into() }) });
        });
        assert_eq!(of_all_in(&tbf).as_deref(), Some("8001:"));
    }
}
