//! TCP connections, as TCP itself accounts for them (struct tcp_info, net/ipv4/tcp.c), listening sockets, and UDP sockets.

use super::loss::{self, LocalDrops, ThrownAway};
use crate::signal::{Entity, netns, over, ratio, share_of_true, signals};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{Connection, Datagram, EndedConnections, Link, Listener, Protocol, Setting};
use whyslow_model::key::{NetKey, SocketKey};
use whyslow_model::window::{Change, Window};

/// Converts a rate to bits per second.
fn bits(rate: Option<f64>) -> Option<f64> {
    rate.map(|b| b * 8.0)
}

fn share(ns_per_second: Option<f64>) -> Option<f64> {
    ratio(ns_per_second).map(|s| s.min(1.0))
}

/// Returns the receiver's own estimate of the round-trip time, in seconds.
fn receive_rtt(c: &Change<'_, Connection>) -> Option<f64> {
    c.mean(|c| c.receive_rtt).filter(|ns| *ns > 0.0).map(|ns| ns / 1e9)
}

/// Returns the bytes in flight implied by rate and delay (Little's law), as a share of the window that allows them.
fn fill(rate: Option<f64>, rtt: Option<f64>, window: Option<f64>) -> Option<f64> {
    over(rate.zip(rtt).map(|(r, t)| r * t), window)
}

fn loopback(c: &Change<'_, Connection>) -> bool {
    let key = c.key();
    key.remote.ip().to_canonical().is_loopback() || key.remote.ip() == key.local.ip()
}

/// Returns retransmitted segments as a share of those sent.
fn retransmit_share(c: &Change<'_, Connection>) -> Option<f64> {
    over(c.rate(|c| c.retransmits), c.rate(|c| c.segments_out))
}

/// Inputs of a connection's signals.
pub struct ConnectionUse<'w> {
    change: &'w Change<'w, Connection>,
    local_drops: Option<f64>,
    emulated_at: Option<&'w str>,
    thrown: &'w ThrownAway,
    /// Whether the peer answered on other connections.
    peer_answers: bool,
    /// The peer's socket, if that is on this machine.
    other_end: Option<&'w Change<'w, Connection>>,
    limits: &'w BufferLimits<'w>,
    links: &'w BTreeMap<NetKey, &'w Link>,
}

impl ConnectionUse<'_> {
    /// Returns the mode of the bond through which the connection leaves, directly or by a VLAN on it.
    fn bond_mode(&self) -> Option<&str> {
        let mut key = NetKey { ns: self.change.key().ns.clone(), name: self.last().interface.get()?.into() };
        // A tunnel leads to an interface below it; links do not nest deeper.
        for _ in 0..4 {
            let link = self.links.get(&key)?;
            if let Some(mode) = link.bond_mode.get() {
                return Some(mode);
            }
            key.name = link.lower.get()?.into();
        }
        None
    }

    /// Describes the network namespace of this machine that the peer is in; empty if it is in the same one.
    fn peer_place(&self) -> Option<String> {
        let other = &self.other_end?.key().ns;
        Some(match &**other {
            _ if *other == self.change.key().ns => String::new(),
            "" => "the host's network namespace".into(),
            name => format!("network namespace {name}"),
        })
    }
}

impl<'w> Deref for ConnectionUse<'w> {
    type Target = Change<'w, Connection>;

    fn deref(&self) -> &Self::Target {
        self.change
    }
}

signals! { c: ConnectionUse<'_>;
    "tcp.sending" "bit/s" "rate at which the peer confirmed data", "Δbytes_acked x 8 / Δt", "tcp_info.tcpi_bytes_acked", normal "what the application has to send" => bits(c.rate(|c| c.bytes_acked));
    "tcp.receiving" "bit/s" "rate at which data came in", "Δbytes_received x 8 / Δt", "tcp_info.tcpi_bytes_received" => bits(c.rate(|c| c.bytes_received));
    "tcp.rtt" "s" "round-trip time, smoothed, mean of the samples", "mean(tcpi_rtt)", "tcp_info.tcpi_rtt", normal "near the minimum: otherwise a queue builds up on the path" => loss::rtt(c);
    "tcp.receive_rtt" "s" "round-trip time as the receiver estimates it", "mean(tcpi_rcv_rtt)", "tcp_info.tcpi_rcv_rtt" => receive_rtt(c);
    "tcp.rwnd_limited" "ratio" "share of the time in which the peer's receive window held the sender back", "Δtcpi_rwnd_limited / Δt", "tcp_info.tcpi_rwnd_limited (net/ipv4/tcp_output.c)", normal (below 0.05) => share(c.rate(|c| c.rwnd_limited));
    "tcp.sndbuf_limited" "ratio" "share of the time in which its own send buffer held it back", "Δtcpi_sndbuf_limited / Δt", "tcp_info.tcpi_sndbuf_limited", normal (below 0.05) => share(c.rate(|c| c.sndbuf_limited));
    "tcp.busy" "ratio" "share of the time in which data was in flight", "Δtcpi_busy_time / Δt", "tcp_info.tcpi_busy_time" => share(c.rate(|c| c.busy_time));
    "tcp.busy_time" "s" "time in which data was in flight", "Δtcpi_busy_time", "tcp_info.tcpi_busy_time", normal "as long as the application sends" => ratio(c.grown(|c| c.busy_time));
    "tcp.rwnd_limited_busy" "ratio" "of that, the share in which the peer's receive window held the sender back", "Δtcpi_rwnd_limited / Δtcpi_busy_time", "tcp_info.tcpi_rwnd_limited", normal (below 0.1) => over(c.grown(|c| c.rwnd_limited), c.grown(|c| c.busy_time));
    "tcp.sndbuf_limited_busy" "ratio" "of that, the share in which its own send buffer held it back", "Δtcpi_sndbuf_limited / Δtcpi_busy_time", "tcp_info.tcpi_sndbuf_limited", normal (below 0.1) => over(c.grown(|c| c.sndbuf_limited), c.grown(|c| c.busy_time));
    "tcp.peer_window" "bytes" "the peer's receive window, mean", "mean(tcpi_snd_wnd)", "tcp_info.tcpi_snd_wnd" => c.mean(|c| c.peer_window).filter(|w| *w > 0.0);
    "tcp.window_fill" "ratio" "bytes in flight against the peer's window: near 1 the window is what limits", "rate x rtt / window", "tcp_info", normal "well below 100 %: near it, the window is what limits" => fill(c.rate(|c| c.bytes_acked), loss::rtt(c), c.mean(|c| c.peer_window));
    "tcp.own_window" "bytes" "the receive window offered, mean", "mean(tcpi_rcv_wnd)", "tcp_info.tcpi_rcv_wnd" => c.mean(|c| c.own_window).filter(|w| *w > 0.0);
    "tcp.own_window_fill" "ratio" "bytes on their way here against the own window", "rate x receiver's rtt / own window", "tcp_info" => fill(c.rate(|c| c.bytes_received), receive_rtt(c), c.mean(|c| c.own_window));
    "tcp.unread" "bytes" "bytes the application had not read, mean", "mean(idiag_rqueue)", "sock_diag(7)" => c.mean(|c| c.receive_queue);
    "tcp.receive_buffer" "bytes" "receive buffer", "sk_rcvbuf", "sock_diag(7)" => c.last().receive_buffer.get();
    "tcp.send_buffer" "bytes" "send buffer", "sk_sndbuf", "sock_diag(7)" => c.last().send_buffer.get();
    "tcp.send_buffer_max" "bytes" "how far TCP tunes the send buffer by itself", "third number of tcp_wmem in its network namespace", "/proc/sys/net/ipv4/tcp_wmem (tcp(7))", normal "twice bandwidth x delay: some of a buffer is overhead" => c.limits.send(&c.key().ns);
    "tcp.peer_here" "flag" "1 where the peer is a socket of this machine, in any network namespace that was read", "a connection with the same addresses the other way round", "sock_diag(7)" => c.other_end.is_some();
    "tcp.peer_place" "text" "the network namespace of the peer, where that is on this machine; empty where it is the same one", "a connection with the same addresses the other way round", "sock_diag(7)" => c.peer_place().as_deref();
    "tcp.peer_receive_buffer" "bytes" "receive buffer of the peer, where that is on this machine", "sk_rcvbuf", "sock_diag(7)", normal "as much as TCP may tune it to" => c.other_end.and_then(|other| other.last().receive_buffer.get());
    "tcp.peer_receive_buffer_max" "bytes" "how far TCP tunes that buffer by itself", "third number of tcp_rmem in its network namespace", "/proc/sys/net/ipv4/tcp_rmem (tcp(7))", normal "twice bandwidth x delay: some of a buffer is overhead" => c.other_end.and_then(|other| c.limits.receive(&other.key().ns));
    "tcp.retransmit_share" "ratio" "segments retransmitted", "Δtotal_retrans / Δsegs_out", "tcp_info.tcpi_total_retrans" => retransmit_share(c);
    "tcp.retransmits" "1/s" "segments retransmitted", "Δtotal_retrans / Δt", "tcp_info.tcpi_total_retrans", normal (near 1.0) => c.rate(|c| c.retransmits);
    "tcp.retransmitted" "count" "segments retransmitted in the window", "Δtotal_retrans", "tcp_info.tcpi_total_retrans", normal "few against the segments sent" => c.grown(|c| c.retransmits);
    "tcp.loss_share" "ratio" "segments retransmitted that the peer had not received", "(Δtotal_retrans - Δdsack_dups) / Δdata_segs_out", "tcp_info (RFC 2883 for what the peer had)", normal (below 0.001) => loss::share(c);
    "tcp.spurious_share" "ratio" "of those retransmitted, segments the peer already had: late or overtaken, not lost", "Δdsack_dups / Δtotal_retrans", "tcp_info.tcpi_dsack_dups (RFC 2883)", normal "near 100 % if packets were only late, not lost" => loss::spurious_share(c);
    "tcp.reordered" "1/s" "times segments were found to be reordered", "Δreord_seen / Δt", "tcp_info.tcpi_reord_seen", normal (near 0.0, "packets of one connection take one path") => c.rate(|c| c.reordered);
    "tcp.bond_mode" "text" "mode of the bond through which it is sent", "IFLA_BOND_MODE of its interface, or of that below it", "rtnetlink", normal "not balance-rr, which sends packets of one connection by several ports" => c.bond_mode();
    "tcp.reorderings" "count" "times in the window that segments were found to be reordered", "Δreord_seen", "tcp_info.tcpi_reord_seen", normal (near 0.0, "packets of one connection take one path") => c.grown(|c| c.reordered);
    "tcp.recovering" "ratio" "share of the samples in which it was retransmitting lost segments", "samples in state Recovery or Loss / samples", "tcp_info.tcpi_ca_state", normal (near 0.02) => loss::recovering(c);
    "tcp.timeout_stall" "ratio" "share of the time in which it waited for a retransmission timer", "Δtotal_rto x mean(rto) / Δt", "tcp_info.tcpi_total_rto, tcpi_rto (RFC 6298)", normal (near 0.0, "no timer expired") => loss::timeout_stall(c);
    "tcp.network_limited" "ratio" "share of the time in which data was in flight that no window or buffer at either end held back", "(Δbusy - Δrwnd_limited - Δsndbuf_limited) / Δt", "tcp_info (net/ipv4/tcp_output.c: tcp_chrono_start)", normal "low where the application or a window is the limit" => loss::network_limited(c);
    "tcp.loss_window" "bytes" "bytes in flight that this much loss leaves a sender", "mss x sqrt(3 / (2 x loss_share)); absent for BBR", "Mathis and others 1997; RFC 9438", normal "more than rate x round trip" => loss::window(c);
    "tcp.loss_fill" "ratio" "bytes in flight against those: near 1 the loss is what limits", "rate x rtt / loss_window", "tcp_info", normal "well below 100 %: near it, loss sets the pace" => loss::fill(c);
    "tcp.loss_stall" "ratio" "share of the time in which loss held the sender back", "max(recovering, timeout_stall, network_limited x min(1, loss_fill))", "tcp_info", normal (below 0.1) => loss::stall(c);
    "tcp.seen" "ratio" "share of the window over which it was seen", "(last sample - first sample) / window", "sock_diag(7)" => over(Some(c.seconds()), Some(c.window_seconds()));
    "tcp.local_drops" "1/s" "packets its interface dropped on sending, of whatever connection", "Δ(drops of the queueing discipline + tx_dropped) / Δt", "rtnetlink, /proc/net/dev", normal (near 0.0, "this machine's interface does not drop packets") => c.local_drops;
    "tcp.emulated_at" "text" "its interface, if the queueing discipline netem drops packets there on purpose", "netem without a rate, Δdrops > 0", "rtnetlink", normal "absent: nothing emulates loss" => c.emulated_at;
    "tcp.thrown_share" "ratio" "of the bytes all connections retransmitted, what this machine's kernel dropped itself", "ΣΔbytes of TCP packets dropped / ΣΔbytes_retrans", "BPF: kfree_skb; tcp_info.tcpi_bytes_retrans", normal "0 if packets are lost elsewhere on the path" => c.thrown.share;
    "tcp.thrown_by" "text" "where this machine's kernel drops most TCP packets", "function, reason, interface, namespace", "BPF: kfree_skb (include/net/dropreason-core.h)", normal "absent if this machine drops none" => c.thrown.place.as_deref();
    "tcp.min_rtt" "s" "smallest round-trip time: what is above it is queueing", "tcpi_min_rtt", "tcp_info.tcpi_min_rtt", normal "the delay of the path itself" => c.last().min_rtt.get().map(|ns| ns / 1e9);
    "tcp.congestion_control" "text" "the algorithm that sets its pace", "icsk_ca_ops->name", "sock_diag(7) INET_DIAG_CONG" => c.last().congestion_control.get();
    "tcp.mss" "bytes" "segment size", "tcpi_snd_mss", "tcp_info", normal "what the smallest link of the path takes" => c.last().mss.get();
    "tcp.congestion_window" "count" "congestion window, in segments, mean", "mean(tcpi_snd_cwnd)", "tcp_info", normal "rate x round trip / segment size" => c.mean(|c| c.congestion_window);
    "tcp.loopback" "flag" "1 where both ends are this machine", "remote address", "sock_diag(7)" => loopback(c);
    "tcp.confirmed" "bytes" "data that the peer has confirmed since the connection was opened", "tcpi_bytes_acked", "tcp_info.tcpi_bytes_acked", normal "grows" => c.last().bytes_acked.get().map(|bytes| bytes as f64);
    "tcp.unconfirmed" "bytes" "data that the peer has not confirmed, sent or not", "idiag_wqueue", "sock_diag(7)", normal "less than a round trip's worth" => c.last().send_queue.get();
    "tcp.peer_answers" "flag" "1 if the peer answered on other connections in the window", "Δsegs_in > 0, or more data segments of ended connections than retransmissions", "tcp_info.tcpi_segs_in; BPF: tcp_destroy_sock", normal "0: if it does not answer at all, it is the peer or the whole path" => c.peer_answers;
    "tcp.interface" "text" "the interface it leaves by", "route to the peer", "sock_diag(7), rtnetlink" => c.last().interface.get();
}

/// Test of whether a peer of a connection answers on others.
struct Answers<'w> {
    connections: &'w [Change<'w, Connection>],
    ended: Vec<Change<'w, EndedConnections>>,
}

impl Answers<'_> {
    fn on_others(&self, of: &Change<'_, Connection>) -> bool {
        let (ns, peer) = (&of.key().ns, of.key().remote.ip().to_canonical());
        let grew = |growth: Option<f64>| growth.is_some_and(|growth| growth > 0.0);
        let is_other = |c: &&Change<'_, Connection>| {
            c.key() != of.key() && c.key().ns == *ns && c.key().remote.ip().to_canonical() == peer
        };
        let ended = |e: &&Change<'_, EndedConnections>| e.key().ns == *ns && *e.key().name == *peer.to_string();
        let arrived =
            |e: &Change<'_, EndedConnections>| Some(e.grown(|e| e.data_segments_out)? - e.grown(|e| e.retransmits)?);
        self.connections.iter().filter(is_other).any(|c| grew(c.grown(|c| c.segments_in)))
            || self.ended.iter().filter(ended).any(|e| grew(arrived(e)))
    }
}

/// Limits of TCP's automatic buffer tuning, by network namespace.
struct BufferLimits<'w> {
    protocols: Vec<Change<'w, Protocol>>,
    /// Limits of the observer's own namespace, where only its settings were read.
    own_receive: Option<f64>,
    own_send: Option<f64>,
}

impl<'w> BufferLimits<'w> {
    fn from_window(window: &'w Window) -> Self {
        let settings = window.newest::<Setting>();
        let most =
            |name: &str| -> Option<f64> { settings.get(name)?.value.get()?.split_whitespace().nth(2)?.parse().ok() };
        let (own_receive, own_send) = (most("net.ipv4.tcp_rmem"), most("net.ipv4.tcp_wmem"));
        Self { protocols: window.changes(), own_receive, own_send }
    }

    fn receive(&self, ns: &str) -> Option<f64> {
        self.in_namespace(ns, |p| p.tcp_receive_buffer_max.get(), self.own_receive)
    }

    fn send(&self, ns: &str) -> Option<f64> {
        self.in_namespace(ns, |p| p.tcp_send_buffer_max.get(), self.own_send)
    }

    fn in_namespace(&self, ns: &str, of: fn(&Protocol) -> Option<f64>, own: Option<f64>) -> Option<f64> {
        let read = self.protocols.iter().find(|protocol| &*protocol.key().ns == ns).and_then(|p| of(p.last()));
        read.or(own.filter(|_| ns.is_empty()))
    }
}

/// Connections of this machine by their addresses, local first, to find the other end of one.
struct Ends<'w>(BTreeMap<(SocketAddr, SocketAddr), Vec<&'w Change<'w, Connection>>>);

impl<'w> Ends<'w> {
    fn from_connections(connections: &'w [Change<'w, Connection>]) -> Self {
        let mut ends: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for connection in connections {
            let key = connection.key();
            ends.entry((key.local, key.remote)).or_default().push(connection);
        }
        Self(ends)
    }

    /// Returns the other end. Namespaces that are not connected with each other can have the same addresses: if several
    /// connections match, none of them is certain.
    fn other(&self, key: &SocketKey) -> Option<&'w Change<'w, Connection>> {
        match self.0.get(&(key.remote, key.local))?[..] {
            [one] => Some(one),
            _ => None,
        }
    }
}

/// Returns the connections that moved data.
pub fn connections(window: &Window) -> Vec<Entity> {
    let (drops, thrown, limits) =
        (LocalDrops::from_window(window), ThrownAway::from_window(window), BufferLimits::from_window(window));
    let all = window.changes::<Connection>();
    let answers = Answers { connections: &all, ended: window.changes() };
    let (ends, links) = (Ends::from_connections(&all), window.newest());
    all.iter()
        .filter(|c| {
            [c.rate(|c| c.bytes_acked), c.rate(|c| c.bytes_received)].into_iter().flatten().any(|r| r > 0.0)
                || c.last().send_queue.get().is_some_and(|q| q > 0.0)
        })
        .map(|c| {
            let key = c.key();
            let subject = Subject {
                pid: c.last().pid.get().map(|p| p as u32),
                netns: netns(&key.ns),
                ..Subject::new("connection", format!("{}->{}", key.local, key.remote))
            };
            let connection = ConnectionUse {
                change: c,
                local_drops: drops.rate(c),
                emulated_at: drops.emulated_at(c),
                thrown: &thrown,
                peer_answers: answers.on_others(c),
                other_end: ends.other(key),
                limits: &limits,
                links: &links,
            };
            Entity::from_subject(subject, &connection)
        })
        .collect()
}

/// Returns the subject for a bound socket.
fn socket_subject(key: &SocketKey, pid: Option<f64>) -> Subject {
    Subject { pid: pid.map(|p| p as u32), netns: netns(&key.ns), ..Subject::new("socket", key.local.to_string()) }
}

/// Returns the share of the samples in which the accept queue was full. The kernel compares with `>`, so a queue holds one more
/// than its limit (include/net/sock.h, sk_acceptq_is_full).
fn full_share(l: &Change<'_, Listener>) -> Option<f64> {
    share_of_true(l.rows().filter_map(|r| Some(r.backlog.get()? >= r.backlog_limit.get()?.max(1.0))))
}

signals! { l: Change<'_, Listener>;
    "listen.drops" "1/s" "connection requests dropped at this socket", "Δsk_drops / Δt", "sock_diag(7) SK_MEMINFO_DROPS" => l.rate(|l| l.drops);
    "listen.dropped" "count" "connection requests dropped in the window", "Δsk_drops", "sock_diag(7)", normal (near 0.0) => l.grown(|l| l.drops);
    "listen.backlog" "count" "connections that waited to be accepted, most seen", "max(idiag_rqueue)", "sock_diag(7)", normal "below the limit" => l.max(|l| l.backlog);
    "listen.backlog_limit" "count" "connections that may wait: the lower of listen()'s backlog and somaxconn", "idiag_wqueue", "sock_diag(7)" => l.last().backlog_limit.get();
    "listen.full_share" "ratio" "share of the samples in which the accept queue was full", "samples with backlog >= limit / samples", "sock_diag(7)", normal (near 0.0) => full_share(l);
}

/// Returns every listening socket.
pub fn listeners(window: &Window) -> Vec<Entity> {
    window
        .changes::<Listener>()
        .iter()
        .map(|l| Entity::from_subject(socket_subject(l.key(), l.last().pid.get()), l))
        .collect()
}

/// Returns the share of the steps in which datagrams were dropped.
fn dropping_share(d: &Change<'_, Datagram>) -> Option<f64> {
    share_of_true(d.steps(|d| d.drops).filter_map(|(_, n)| Some(n? > 0.0)))
}

signals! { d: Change<'_, Datagram>;
    "udp.drops" "1/s" "datagrams dropped at this socket", "Δdrops / Δt", "sock_diag(7) SK_MEMINFO_DROPS", normal (near 0.0) => d.rate(|d| d.drops);
    "udp.dropping_share" "ratio" "share of the samples in which it dropped any", "steps with Δdrops > 0 / steps", "sock_diag(7)", normal (near 0.0) => dropping_share(d);
    "udp.queued" "bytes" "buffer memory that waited to be read, most seen", "max(idiag_rqueue)", "sock_diag(7)" => d.max(|d| d.receive_queue);
    "udp.receive_buffer" "bytes" "receive buffer", "sk_rcvbuf", "sock_diag(7)", normal "a burst's worth of datagrams" => d.last().receive_buffer.get();
    "udp.fill" "ratio" "the fullest the buffer was seen", "max(queued / buffer)", "sock_diag(7)", normal "well below 100 %" => over(d.max(|d| d.receive_queue), d.last().receive_buffer.get());
}

/// Returns every bound UDP socket.
pub fn datagram_sockets(window: &Window) -> Vec<Entity> {
    window
        .changes::<Datagram>()
        .iter()
        .map(|d| Entity::from_subject(socket_subject(d.key(), d.last().pid.get()), d))
        .collect()
}
