//! Sockets that wait: for connections, or for datagrams to be read.

use crate::signal::{Entity, netns, over, share_of_true, signals};
use whyslow_model::catalogue::{Datagram, Listener};
use whyslow_model::diagnosis::Subject;
use whyslow_model::key::SocketKey;
use whyslow_model::window::{Change, Window};

/// A bound socket as a subject.
fn subject(key: &SocketKey, pid: Option<f64>) -> Subject {
    Subject { pid: pid.map(|p| p as u32), netns: netns(&key.ns), ..Subject::new("socket", key.local.to_string()) }
}

/// The part of the samples in which the accept queue was full. The kernel compares with `>`, so a queue holds one
/// more than its limit (include/net/sock.h, sk_acceptq_is_full).
fn full_share(l: &Change<'_, Listener>) -> Option<f64> {
    share_of_true(l.rows().filter_map(|r| Some(r.backlog.get()? >= r.backlog_limit.get()?.max(1.0))))
}

signals! { l: Change<'_, Listener>;
    "listen.drops" "1/s" "connection requests dropped at this socket", "Δsk_drops / Δt", "sock_diag(7) SK_MEMINFO_DROPS" => l.rate(|l| l.drops);
    "listen.dropped" "count" "connection requests dropped in the window", "Δsk_drops", "sock_diag(7)" => l.grown(|l| l.drops);
    "listen.backlog" "count" "connections that waited to be accepted, most seen", "max(idiag_rqueue)", "sock_diag(7)" => l.max(|l| l.backlog);
    "listen.backlog_limit" "count" "connections that may wait: the lower of listen()'s backlog and somaxconn", "idiag_wqueue", "sock_diag(7)" => l.last().backlog_limit.get();
    "listen.full_share" "ratio" "share of the samples in which the accept queue was full", "samples with backlog >= limit / samples", "sock_diag(7)" => full_share(l);
}

/// Every listening socket.
pub fn listeners(window: &Window) -> Vec<Entity> {
    window.changes::<Listener>().iter().map(|l| Entity::of(subject(l.key(), l.last().pid.get()), l)).collect()
}

/// The part of the steps in which datagrams were dropped.
fn dropping_share(d: &Change<'_, Datagram>) -> Option<f64> {
    share_of_true(d.steps(|d| d.drops).filter_map(|(_, n)| Some(n? > 0.0)))
}

signals! { d: Change<'_, Datagram>;
    "udp.drops" "1/s" "datagrams dropped at this socket", "Δdrops / Δt", "sock_diag(7) SK_MEMINFO_DROPS" => d.rate(|d| d.drops);
    "udp.dropping_share" "ratio" "share of the samples in which it dropped any", "steps with Δdrops > 0 / steps", "sock_diag(7)" => dropping_share(d);
    "udp.queued" "bytes" "buffer memory that waited to be read, most seen", "max(idiag_rqueue)", "sock_diag(7)" => d.max(|d| d.receive_queue);
    "udp.receive_buffer" "bytes" "receive buffer", "sk_rcvbuf", "sock_diag(7)" => d.last().receive_buffer.get();
    "udp.fill" "ratio" "the fullest the buffer was seen", "max(queued / buffer)", "sock_diag(7)" => over(d.max(|d| d.receive_queue), d.last().receive_buffer.get());
}

/// Every bound UDP socket.
pub fn datagram_sockets(window: &Window) -> Vec<Entity> {
    window.changes::<Datagram>().iter().map(|d| Entity::of(subject(d.key(), d.last().pid.get()), d)).collect()
}
