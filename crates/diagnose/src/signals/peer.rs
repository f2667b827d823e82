//! TCP connections that ended in the window, by peer: many end before a sample sees them.

use crate::signal::{Entity, netns, over, ratio, signals, sum};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::EndedConnections;
use whyslow_model::window::{Change, Window};

/// Returns the retransmitted segments that the peer had not received, as a share of those sent. The SYN of a connection carries
/// no data, and can be lost too.
fn loss_share(e: &Change<'_, EndedConnections>) -> Option<f64> {
    let again = e.grown(|e| e.retransmits)?;
    let needless = e.grown(|e| e.spurious).unwrap_or(0.0);
    let sent = sum([e.grown(|e| e.data_segments_out), e.grown(|e| e.connections)]);
    over(Some((again - needless).max(0.0)), sent).map(|s| s.min(1.0))
}

signals! { e: Change<'_, EndedConnections>;
    "peer.connections" "1/s" "connections that ended", "Δconnections / Δt", "BPF: tcp_destroy_sock" => e.rate(|e| e.connections);
    "peer.lifetime" "s" "how long a connection lasted, mean", "Δlived / Δconnections", "BPF: inet_sock_set_state, tcp_destroy_sock", normal "some round trips" => over(ratio(e.grown(|e| e.lived)), e.grown(|e| e.connections));
    "peer.retransmits" "1/s" "segments they retransmitted", "Δretransmits / Δt", "BPF: tcp_destroy_sock, total_retrans of struct tcp_sock", normal (near 1.0) => e.rate(|e| e.retransmits);
    "peer.loss_share" "ratio" "segments retransmitted that the peer had not received", "(Δretransmits - Δspurious) / (Δdata segments + Δconnections)", "BPF: tcp_destroy_sock (RFC 2883 for what the peer had)", normal (below 0.001) => loss_share(e);
    "peer.waiting" "count" "connections that waited for a retransmission timer, mean", "Δwaited / Δt", "BPF: tcp_destroy_sock, total_rto of struct tcp_sock x its timer (RFC 6298)", normal "near 0 connections at a time" => ratio(e.rate(|e| e.waited));
    "peer.waiting_share" "ratio" "share of their lives in which they waited that way", "Δwaited / Δlived", "BPF: tcp_destroy_sock", normal (near 0.02) => over(e.grown(|e| e.waited), e.grown(|e| e.lived)).map(|s| s.min(1.0));
    "peer.process" "text" "a process that held the last of them", "comm", "BPF: inet_sock_set_state" => e.last().command.get();
}

/// Returns the peers with which connections ended.
pub fn entities(window: &Window) -> Vec<Entity> {
    let changes = window.changes::<EndedConnections>();
    let ended = changes.iter().filter(|e| e.grown(|e| e.connections).is_some_and(|n| n > 0.0));
    ended
        .map(|e| {
            let key = e.key();
            let subject = Subject {
                pid: e.last().pid.get().map(|p| p as u32),
                netns: netns(&key.ns),
                ..Subject::new("connection", format!("*->{}", key.name))
            };
            Entity::from_subject(subject, e)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SECOND, window};
    use whyslow_model::key::NetKey;

    /// Returns ten seconds of ten connections per second, half a second long each, of nine segments of data; two of a hundred
    /// segments are lost, and half of these cost a timer of a fifth of a second.
    fn ten_seconds() -> Window {
        window([0, 10], |t, s| {
            s.net.ended_connections.push(EndedConnections {
                connections: (t * 10).into(),
                data_segments_out: (t * 90).into(),
                retransmits: (t * 3).into(),
                spurious: t.into(),
                timeouts: t.into(),
                waited: (t * SECOND / 5).into(),
                lived: (t * 5 * SECOND).into(),
                ..EndedConnections::new(NetKey { ns: "shop".into(), name: "192.0.2.7".into() })
            });
        })
    }

    #[test]
    fn what_connections_lost_and_waited_is_known_by_peer() {
        let found = entities(&ten_seconds());
        assert_eq!((found.len(), found[0].subject.name.as_str()), (1, "*->192.0.2.7"));
        let number = |name: &str| (found[0].number(name).unwrap() * 1e6).round() / 1e6;
        assert_eq!((number("peer.connections"), number("peer.lifetime")), (10.0, 0.5));
        assert_eq!((number("peer.loss_share"), number("peer.retransmits")), (0.02, 3.0));
        assert_eq!((number("peer.waiting"), number("peer.waiting_share")), (0.2, 0.04));
    }
}
