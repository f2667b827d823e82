//! /proc/self/mountstats: the NFS client's counters for each mount (`rpc_clnt_show_stats` in net/sunrpc/stats.c, struct
//! rpc_iostats of include/linux/sunrpc/metrics.h).

/// The first line of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountLine<'l> {
    /// Server and path, or the device.
    pub device: &'l str,
    /// The mount point.
    pub point: &'l str,
    /// The type of file system.
    pub kind: &'l str,
}

/// Parses `device server:/export mounted on /mnt with fstype nfs4 statvers=1.1`; `None` for any other line.
pub fn mount(line: &str) -> Option<MountLine<'_>> {
    let (device, rest) = line.strip_prefix("device ")?.split_once(" mounted on ")?;
    let (point, kind) = rest.rsplit_once(" with fstype ")?;
    Some(MountLine { device, point, kind: kind.split_whitespace().next()? })
}

/// Counters of one kind of operation, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Completed operations.
    pub done: u64,
    /// Retransmissions.
    pub sent_again: u64,
    /// Total time in the client's queue before transmission, milliseconds.
    pub queue_ms: u64,
    /// Total time from transmission to reply, milliseconds.
    pub round_trip_ms: u64,
    /// Total time from request to completion, milliseconds.
    pub execute_ms: u64,
}

impl Operations {
    /// Adds the counters of another kind of operation.
    pub fn add(&mut self, other: Self) {
        self.done = self.done.saturating_add(other.done);
        self.sent_again = self.sent_again.saturating_add(other.sent_again);
        self.queue_ms = self.queue_ms.saturating_add(other.queue_ms);
        self.round_trip_ms = self.round_trip_ms.saturating_add(other.round_trip_ms);
        self.execute_ms = self.execute_ms.saturating_add(other.execute_ms);
    }
}

/// Returns the counters of a line such as `READ: 1000 1002 0 140000 4000000 10 500 600 0`, which may be truncated;
/// `None` for any other line.
pub fn counts(line: &str) -> Option<&str> {
    let (name, counts) = line.trim_start().split_once(": ")?;
    let operation = !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_' || b.is_ascii_digit());
    (operation && counts.split_whitespace().count() >= 5).then_some(counts)
}

/// Parses operations, transmissions, major timeouts, bytes sent and received, then the times. `None` if one is missing.
pub fn operations(counts: &str) -> Option<Operations> {
    let all: Vec<u64> = counts.split_whitespace().map(|count| count.parse().ok()).collect::<Option<_>>()?;
    let [done, sent, _, _, _, queue_ms, round_trip_ms, execute_ms, ..] = all[..] else { return None };
    Some(Operations { done, sent_again: sent.saturating_sub(done), queue_ms, round_trip_ms, execute_ms })
}

/// Parses the seconds since the mount in a line such as `age: 86400`; `None` for any other line.
pub fn age(line: &str) -> Option<u64> {
    line.trim_start().strip_prefix("age:")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_and_its_operations() {
        let line = "device filer:/export/data mounted on /mnt/data with fstype nfs4 statvers=1.1";
        let expected = MountLine { device: "filer:/export/data", point: "/mnt/data", kind: "nfs4" };
        assert_eq!(mount(line), Some(expected));
        assert_eq!(mount("device proc mounted on /proc with fstype proc").map(|m| m.kind), Some("proc"));
        let read = operations(counts("\t        READ: 1000 1002 0 140000 4000000 100 500 600 0").unwrap()).unwrap();
        let expected = Operations { done: 1000, sent_again: 2, queue_ms: 100, round_trip_ms: 500, execute_ms: 600 };
        assert_eq!(read, expected);
        assert_eq!(operations(counts("READ: 1 2 3 4 5").unwrap()), None);
        assert_eq!((age("\tage:\t86400"), age("\tcaps:\t86400")), (Some(86_400), None));
        assert_eq!(counts("\txprt:\ttcp 0 0 2 0 10"), None);
    }
}
