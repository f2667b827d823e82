//! Netlink sockets of programs, and the kernel messages that they lose (netlink(7)).

use crate::signal::{Entity, netns, share_of_true, signals};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{NetlinkSocket, Process};
use whyslow_model::window::{Change, Window};

/// Inputs of the signals of a netlink socket.
pub struct NetlinkUse<'w> {
    socket: &'w Change<'w, NetlinkSocket>,
    owner: Option<&'w Change<'w, Process>>,
}

impl NetlinkUse<'_> {
    fn dropping_share(&self) -> Option<f64> {
        share_of_true(self.socket.steps(|s| s.drops).filter_map(|(_, drops)| Some(drops? > 0.0)))
    }

    /// Returns true if the queue became shorter, which only reading can cause.
    fn is_read(&self) -> Option<bool> {
        let queue: Vec<f64> = self.socket.readings(|s| s.receive_queue).collect();
        let is_known = queue.len() > 1 && !self.socket.is_since_boot();
        is_known.then(|| queue.windows(2).any(|pair| pair[1] < pair[0]))
    }

    /// Returns the bytes waiting to be read, where drops are not counted.
    fn unread(&self) -> Option<f64> {
        if self.socket.last().drops.get().is_some() { Some(0.0) } else { self.socket.max(|s| s.receive_queue) }
    }

    /// Returns true if the owner is in state T or t of proc_pid_stat(5).
    fn is_owner_stopped(&self) -> Option<bool> {
        Some(matches!(self.owner?.last().state.get()?, "T" | "t"))
    }
}

signals! { n: NetlinkUse<'_>;
    "netlink.drops" "1/s" "kernel messages that this socket lost", "Δdrops / Δt", "/proc/net/netlink", normal (near 0.0) => n.socket.rate(|s| s.drops);
    "netlink.dropped" "count" "the same, in the window", "Δdrops", "/proc/net/netlink" => n.socket.grown(|s| s.drops);
    "netlink.dropping_share" "ratio" "share of the samples in which it lost any", "steps with Δdrops > 0 / steps", "/proc/net/netlink", normal (near 0.0) => n.dropping_share();
    "netlink.queued" "bytes" "buffer memory of messages that waited to be read, most seen", "max(Rmem)", "/proc/net/netlink" => n.socket.max(|s| s.receive_queue);
    "netlink.unread" "bytes" "the same where it is not known how many messages were lost, as in the output of ss; otherwise 0", "max(Rmem) without Drops", "/proc/net/netlink", normal (near 65536.0) => n.unread();
    "netlink.read" "flag" "1 if the program read messages: what waited became less from one sample to the next", "Rmem decreased", "/proc/net/netlink", normal "1" => n.is_read();
    "netlink.owner_stopped" "flag" "1 if the process that holds the socket is stopped, by a signal or a debugger", "state T or t", "/proc/PID/stat" => n.is_owner_stopped();
    "netlink.protocol" "text" "what its messages are about: route (interfaces, addresses, routes), uevent (devices), netfilter, audit ...", "protocol", "/proc/net/netlink", normal "what the program acts on" => n.socket.key().name.split(':').next();
}

/// Returns every netlink socket of a program.
pub fn entities(window: &Window) -> Vec<Entity> {
    let sockets = window.changes::<NetlinkSocket>();
    let processes = if sockets.is_empty() { Vec::new() } else { window.changes::<Process>() };
    sockets
        .iter()
        .map(|socket| {
            let key = socket.key();
            let pid = socket.last().pid.get().map(|pid| pid as u32);
            let owner = processes.iter().find(|process| Some(process.key().pid) == pid);
            let subject = Subject { pid, netns: netns(&key.ns), ..Subject::new("socket", key.name.to_string()) };
            Entity::from_subject(subject, &NetlinkUse { socket, owner })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;
    use whyslow_model::catalogue::ProcessRow;
    use whyslow_model::key::{NetKey, TaskKey};

    /// Returns a socket that lost ten messages per second in the first of two steps, with this queue.
    fn socket(state: &'static str, queue: [u64; 3]) -> Entity {
        let window = window([0, 5, 10], |t, s| {
            s.net.netlink_socket.push(NetlinkSocket {
                pid: 7.into(),
                receive_queue: queue[t as usize / 5].into(),
                drops: (t.min(5) * 10).into(),
                identity: "4711".into(),
                ..NetlinkSocket::new(NetKey { ns: "".into(), name: "route:700".into() })
            });
            let key = TaskKey { pid: 7, tid: 7, start: 1 };
            s.task.process.push(Process::from(ProcessRow { state: state.into(), ..ProcessRow::new(key) }));
        });
        entities(&window).remove(0)
    }

    #[test]
    fn lost_messages_are_a_rate_and_a_share_of_the_samples() {
        let found = socket("S", [200, 900, 300]);
        assert_eq!((found.subject.name.as_str(), found.subject.pid), ("route:700", Some(7)));
        assert_eq!((found.number("netlink.drops"), found.number("netlink.dropped")), (Some(5.0), Some(50.0)));
        assert_eq!((found.number("netlink.dropping_share"), found.number("netlink.queued")), (Some(0.5), Some(900.0)));
        assert_eq!(found.number("netlink.owner_stopped"), Some(0.0));
    }

    #[test]
    fn what_is_unread_counts_where_losses_are_unknown() {
        assert_eq!(socket("S", [200, 900, 300]).number("netlink.unread"), Some(0.0));
        let window = window([0], |_, s| {
            s.net.netlink_socket.push(NetlinkSocket {
                receive_queue: 213_760.into(),
                ..NetlinkSocket::new(NetKey { ns: "".into(), name: "route:700".into() })
            });
        });
        assert_eq!(entities(&window)[0].number("netlink.unread"), Some(213_760.0));
    }

    #[test]
    fn a_program_that_reads_is_told_from_one_that_does_not() {
        assert_eq!(socket("S", [200, 900, 300]).number("netlink.read"), Some(1.0));
        assert_eq!(socket("S", [200, 900, 900]).number("netlink.read"), Some(0.0));
        assert_eq!(socket("T", [900, 900, 900]).number("netlink.owner_stopped"), Some(1.0));
    }
}
