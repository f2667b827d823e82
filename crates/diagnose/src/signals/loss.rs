//! Cost of lost segments for a TCP connection.

use crate::signal::{over, ratio, sum};
use whyslow_model::catalogue::{Connection, Interface, PacketDrop, Qdisc};
use whyslow_model::window::{Change, Window};

/// Returns the retransmitted segments that the peer had not received, as a share of those sent with data. Segments that the peer
/// reports to have twice (DSACK, RFC 2883) were retransmitted needlessly.
pub(super) fn share(c: &Change<'_, Connection>) -> Option<f64> {
    let again = c.grown(|c| c.retransmits)?;
    let needless = c.grown(|c| c.spurious).unwrap_or(0.0);
    // SYN segments are retransmitted too, but are not data. Older tools show only all segments, including ACKs: the share is no
    // smaller than this.
    let sent = c.grown(|c| c.data_segments_out).or_else(|| c.grown(|c| c.segments_out));
    over(Some((again - needless).max(0.0)), sent).map(|s| s.min(1.0))
}

/// Returns the retransmitted segments that the peer already had, as a share of those retransmitted.
pub(super) fn spurious_share(c: &Change<'_, Connection>) -> Option<f64> {
    over(c.grown(|c| c.spurious), c.grown(|c| c.retransmits)).map(|s| s.min(1.0))
}

/// Returns the share of the time spent waiting for a retransmission timer: each expiry ends a wait as long as the timer.
pub(super) fn timeout_stall(c: &Change<'_, Connection>) -> Option<f64> {
    let each = c.mean(|c| c.retransmission_timeout)? / 1e9;
    c.rate(|c| c.timeouts).map(|expiries| (expiries * each).min(1.0))
}

/// Returns the share of the time in which data was in flight and limited neither by the peer's window nor by the local buffer,
/// but by the congestion window, or only by the delay.
pub(super) fn network_limited(c: &Change<'_, Connection>) -> Option<f64> {
    let held = sum([c.rate(|c| c.rwnd_limited), c.rate(|c| c.sndbuf_limited)])?;
    ratio(c.rate(|c| c.busy_time).map(|busy| busy - held)).map(|s| s.clamp(0.0, 1.0))
}

/// Returns the bytes in flight that this much loss allows a sender that halves its window at a loss: mss x sqrt(3 / 2p) (Mathis,
/// Semke, Mahdavi and Ott 1997; CUBIC is at least as fast, RFC 9438 section 4.3). Returns `None` for BBR, which paces itself by
/// what arrives and not by what is lost.
pub(super) fn window(c: &Change<'_, Connection>) -> Option<f64> {
    if c.last().congestion_control.get()?.starts_with("bbr") {
        return None;
    }
    let lost = share(c).filter(|p| *p > 0.0)?;
    Some(c.last().mss.get()? * (1.5 / lost).sqrt())
}

/// Returns the mean round-trip time, in seconds.
pub(super) fn rtt(c: &Change<'_, Connection>) -> Option<f64> {
    c.mean(|c| c.rtt).map(|ns| ns / 1e9)
}

/// Returns the bytes in flight as a share of those that the loss allows: near 1 the loss is the limit.
pub(super) fn fill(c: &Change<'_, Connection>) -> Option<f64> {
    let flight = c.rate(|c| c.bytes_acked)? * rtt(c)?;
    over(Some(flight), window(c))
}

/// Returns the share of the samples in which the connection was recovering from loss.
pub(super) fn recovering(c: &Change<'_, Connection>) -> Option<f64> {
    c.mean(|c| c.recovering).filter(|_| !c.is_since_boot())
}

/// Returns the share of the time in which loss held the sender back, the largest of the known values: it was in recovery, waited
/// for the timer, or filled the window that the loss allows.
pub(super) fn stall(c: &Change<'_, Connection>) -> Option<f64> {
    let limited = network_limited(c).zip(fill(c)).map(|(limited, fill)| limited * fill.min(1.0));
    [recovering(c), timeout_stall(c), limited].into_iter().flatten().reduce(f64::max)
}

/// Reasons for which TCP discards data that it already has or cannot use: this causes no retransmission.
const NO_LOSS: [&str; 5] = ["not_specified", "tcp_old_data", "tcp_ofomerge", "tcp_old_ack", "tcp_zerowindow"];

/// Where the local kernel discards TCP packets, and how many retransmissions that explains.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ThrownAway {
    /// Discarded bytes as a share of the bytes that all connections retransmitted.
    pub share: Option<f64>,
    /// The function that discards most, why, and in which namespace.
    pub place: Option<String>,
}

impl ThrownAway {
    /// Computes the discards over this window.
    pub fn from_window(window: &Window) -> Self {
        let again = window.changes::<Connection>().iter().filter_map(|c| c.rate(|c| c.bytes_retransmitted)).sum();
        let drops = window.changes::<PacketDrop>();
        let lost = |d: &&Change<'_, PacketDrop>| {
            d.last().protocol.get() == Some("tcp") && !d.last().reason.get().is_some_and(|r| NO_LOSS.contains(&r))
        };
        let lost: Vec<_> = drops.iter().filter(lost).filter_map(|d| Some((d, d.rate(|d| d.bytes)?))).collect();
        let thrown = lost.iter().map(|(_, rate)| rate).sum();
        let most = lost.iter().filter(|(_, rate)| *rate > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
        Self {
            share: over(Some(thrown), Some(again)).filter(|_| !drops.is_empty()).map(|s: f64| s.min(1.0)),
            place: most.map(|(d, _)| described(d)),
        }
    }
}

fn described(drop: &Change<'_, PacketDrop>) -> String {
    let (row, ns) = (drop.last(), &drop.key().ns);
    let mut text = row.place.get().unwrap_or("the kernel").to_owned();
    if let Some(reason) = row.reason.get() {
        text += &format!(" ({reason})");
    }
    if let Some(interface) = row.interface.get() {
        text += &format!(" at {interface}");
    }
    if !ns.is_empty() {
        text += &format!(" in {ns}");
    }
    text
}

/// Packets that the interface of a connection drops itself when sending.
pub(super) struct LocalDrops<'w> {
    interfaces: Vec<Change<'w, Interface>>,
    qdiscs: Vec<Change<'w, Qdisc>>,
}

impl<'w> LocalDrops<'w> {
    /// Collects the counters of this window.
    pub fn from_window(window: &'w Window) -> Self {
        Self { interfaces: window.changes(), qdiscs: window.changes() }
    }

    /// Returns the drop rate at the connection's outgoing interface. A queueing discipline passes its drops on to the one above,
    /// so the largest count covers all. Leaves out netem(8) without a rate: it drops packets to emulate a lossy path, not
    /// because a queue is full.
    pub fn rate(&self, c: &Change<'_, Connection>) -> Option<f64> {
        let (ns, name) = (&c.key().ns, c.last().interface.get()?);
        let interface = self.interfaces.iter().find(|i| i.key().ns == *ns && &*i.key().name == name)?;
        let queues = self.queues(c).filter(|q| !emulates_loss(q));
        let queue = queues.filter_map(|q| q.rate(|q| q.drops)).reduce(f64::max);
        sum([queue, interface.rate(|i| i.tx_dropped)])
    }

    /// Returns the connection's outgoing interface, if netem(8) drops packets there.
    pub fn emulated_at(&self, c: &Change<'_, Connection>) -> Option<&'w str> {
        let drops = |q: &&Change<'w, Qdisc>| q.rate(|q| q.drops).is_some_and(|drops| drops > 0.0);
        self.queues(c).filter(|q| emulates_loss(q)).find(drops).and_then(|q| q.last().interface.get())
    }

    /// Iterates over the queueing disciplines of the connection's outgoing interface.
    fn queues(&self, c: &Change<'_, Connection>) -> impl Iterator<Item = &Change<'w, Qdisc>> {
        let (ns, name) = (c.key().ns.clone(), c.last().interface.get().map(str::to_owned));
        self.qdiscs
            .iter()
            .filter(move |q| name.is_some() && q.key().ns == ns && q.last().interface.get() == name.as_deref())
    }
}

fn emulates_loss(queue: &Change<'_, Qdisc>) -> bool {
    let last = queue.last();
    last.kind.get() == Some("netem") && last.rate.get().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SECOND, window as samples};

    fn near(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-9 * b.abs().max(1.0))
    }

    /// Returns two samples ten seconds apart; the first is all zeroes.
    fn window_of(algorithm: &str, last: Connection) -> Window {
        let begin = Connection {
            retransmits: 0.into(),
            spurious: 0.into(),
            data_segments_out: 0.into(),
            timeouts: 0.into(),
            busy_time: 0.into(),
            rwnd_limited: 0.into(),
            sndbuf_limited: 0.into(),
            bytes_acked: 0.into(),
            ..last.clone()
        };
        samples([0, 10], |t, s| {
            let row = if t == 0 { &begin } else { &last };
            s.net.connection.push(Connection { congestion_control: algorithm.into(), ..row.clone() });
        })
    }

    /// Returns a connection that sent 10,000 segments of 1,000 bytes in 10 s; 150 of them retransmitted, 50 needlessly; 20 ms
    /// round trip.
    fn lossy() -> Connection {
        Connection {
            retransmits: 150.into(),
            spurious: 50.into(),
            data_segments_out: 10_000.into(),
            bytes_acked: 9_850_000.into(),
            busy_time: (9 * SECOND).into(),
            rwnd_limited: SECOND.into(),
            sndbuf_limited: 0.into(),
            timeouts: 4.into(),
            retransmission_timeout: (SECOND / 4).into(),
            recovering: 0.5.into(),
            rtt: (SECOND / 50).into(),
            mss: 1000.0.into(),
            ..Connection::default()
        }
    }

    #[test]
    fn what_the_peer_had_already_was_not_lost() {
        let w = window_of("cubic", lossy());
        let c = w.change::<Connection>().unwrap();
        assert!(near(share(&c), 0.01) && near(spurious_share(&c), 1.0 / 3.0));
    }

    #[test]
    fn four_timers_of_a_quarter_second_cost_a_tenth_of_ten_seconds() {
        let w = window_of("cubic", lossy());
        assert!(near(timeout_stall(&w.change::<Connection>().unwrap()), 0.1));
    }

    #[test]
    fn a_percent_lost_leaves_twelve_segments_in_flight() {
        let w = window_of("reno", lossy());
        let c = w.change::<Connection>().unwrap();
        // sqrt(1.5 / 0.01) = 12.247 segments; 985,000 bytes per second x 20 ms = 19,700 bytes were in flight.
        assert!(near(window(&c), 1000.0 * 150f64.sqrt()));
        assert!(near(fill(&c), 19.7 / 150f64.sqrt()));
        assert!(near(network_limited(&c), 0.8) && near(stall(&c), 0.8));
    }

    #[test]
    fn a_sender_that_does_not_halve_its_window_loses_only_the_time_of_sending_again() {
        let w = window_of("bbr", lossy());
        let c = w.change::<Connection>().unwrap();
        assert_eq!((window(&c), fill(&c)), (None, None));
        assert!(near(stall(&c), 0.5));
    }

    #[test]
    fn what_the_kernel_does_not_count_is_unknown() {
        let w = window_of("reno", Connection::default());
        assert_eq!(share(&w.change::<Connection>().unwrap()), None);
        let old = Connection { data_segments_out: Default::default(), timeouts: Default::default(), ..lossy() };
        let w = samples([0, 10], |_, s| s.net.connection.push(old.clone()));
        let c = w.change::<Connection>().unwrap();
        assert_eq!((share(&c), timeout_stall(&c)), (None, None));
    }

    #[test]
    fn what_this_kernel_throws_away_explains_its_part_of_what_is_sent_again() {
        let w = samples([1, 3], |t, s| {
            s.net.connection.push(Connection { bytes_retransmitted: (t * 1_000).into(), ..Connection::default() });
            for (reason, bytes) in [("netfilter_drop", 800), ("tcp_old_data", 5_000)] {
                s.net.packet_drop.push(PacketDrop {
                    place: "nft_do_chain".into(),
                    reason: reason.into(),
                    interface: "eth0".into(),
                    protocol: "tcp".into(),
                    bytes: (t * bytes).into(),
                    ..PacketDrop::new(whyslow_model::key::NetKey { ns: "shop".into(), name: reason.into() })
                });
            }
        });
        let found = ThrownAway::from_window(&w);
        assert_eq!(found.place.as_deref(), Some("nft_do_chain (netfilter_drop) at eth0 in shop"));
        assert_eq!(found.share, Some(0.8));
        assert_eq!(ThrownAway::from_window(&Window::default()), ThrownAway::default());
    }

    /// Returns the drops per second that this machine counts at eth0, with queueing disciplines of these handles, kinds, rates
    /// and drops.
    fn local_drops(queues: &[(&str, &str, Option<f64>, u64)]) -> (Option<f64>, Option<String>) {
        let key = |name: &str| whyslow_model::key::NetKey { ns: "".into(), name: name.into() };
        let w = samples([1, 2], |t, s| {
            s.net.connection.push(Connection { interface: "eth0".into(), ..Connection::default() });
            s.net.interface.push(Interface { tx_dropped: (t * 3).into(), ..Interface::new(key("eth0")) });
            for (handle, kind, rate, drops) in queues {
                s.net.qdisc.push(Qdisc {
                    interface: "eth0".into(),
                    kind: (*kind).into(),
                    rate: (*rate).into(),
                    drops: (t * drops).into(),
                    ..Qdisc::new(key(handle))
                });
            }
        });
        let drops = LocalDrops::from_window(&w);
        let connection = w.change::<Connection>().unwrap();
        (drops.rate(&connection), drops.emulated_at(&connection).map(str::to_owned))
    }

    #[test]
    fn what_the_own_interface_drops_differs_from_what_the_path_loses() {
        let queues = [("1:", "prio", None, 20), ("10:", "fq_codel", None, 15)];
        assert_eq!(local_drops(&queues), (Some(23.0), None));
    }

    #[test]
    fn loss_that_is_emulated_here_is_that_of_the_path_unless_a_rate_is() {
        assert_eq!(local_drops(&[("1:", "netem", None, 20)]), (Some(3.0), Some("eth0".into())));
        assert_eq!(local_drops(&[("1:", "netem", Some(1e6), 20)]), (Some(23.0), None));
    }
}
