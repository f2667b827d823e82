//! /proc/self/mountstats: operations of NFS mounts, their time in the client's queue and on the server.

use crate::text::{octal, unescape};
use crate::{Root, SourceError, SourceInfo};
use whyslow_model::catalogue::NfsMount;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::mountstats::{Operations, counts, mount, operations};

const PATH: &str = "proc/self/mountstats";
/// Exists while the NFS client is loaded; if it is missing, the list of all mounts is not read at each sample.
const CLIENT: &str = "proc/fs/nfsfs";
const NS_PER_MS: u64 = 1_000_000;

pub(super) const INFO: SourceInfo = SourceInfo::new(PATH, "how long operations of NFS mounts take");

pub(super) fn client(root: &Root) -> Vec<&'static str> {
    [CLIENT].into_iter().filter(|client| !root.is_live() || root.at(client).exists()).collect()
}

pub(super) fn read(client: &[&str], root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    if client.is_empty() {
        return Err(SourceError::Absent(format!("/{CLIENT} does not exist")));
    }
    parse(&root.text_of_long_records(PATH)?, &mut out.block.nfs)
}

/// Picks the NFS mounts from the list of all mounts.
fn parse(text: &str, rows: &mut Vec<NfsMount>) -> Result<(), SourceError> {
    let mut open: Option<(NfsMount, Operations)> = None;
    for line in text.lines() {
        if let Some(mount) = mount(line) {
            rows.extend(open.take().map(done));
            let row = NfsMount { server: mount.device.into(), ..NfsMount::new(unescape(mount.point, octal).into()) };
            // Not nfsd, which is a server's interface.
            open = matches!(mount.kind, "nfs" | "nfs4").then_some((row, Operations::default()));
        } else if let Some(((_, sum), counts)) = open.as_mut().zip(counts(line)) {
            sum.add(operations(counts).ok_or_else(|| SourceError::malformed(PATH, line))?);
        }
    }
    rows.extend(open.map(done));
    Ok(())
}

fn done((row, sum): (NfsMount, Operations)) -> NfsMount {
    let time = |ms: u64| ms.saturating_mul(NS_PER_MS).into();
    NfsMount {
        operations: sum.done.into(),
        sent_again: sum.sent_again.into(),
        queue_time: time(sum.queue_ms),
        round_trip_time: time(sum.round_trip_ms),
        execute_time: time(sum.execute_ms),
        ..row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "device proc mounted on /proc with fstype proc
device nfsd mounted on /proc/fs/nfsd with fstype nfsd
device filer:/data mounted on /mnt/my\\040data with fstype nfs4 statvers=1.1
\tage:\t86400
\txprt:\ttcp 0 0 2 0 10 1503 1500 0 1503 0 2 100 100
\tper-op statistics
\t        READ: 1000 1002 0 140000 4000000 100 500 600 0
\t       WRITE: 500 501 0 5000000 70000 10000 20000 30000 0
device /dev/sda1 mounted on / with fstype ext4
";

    #[test]
    fn operations_of_all_kinds_are_added_up() {
        let mut rows = Vec::new();
        assert_eq!(parse(TEXT, &mut rows), Ok(()));
        assert_eq!(rows.len(), 1);
        assert_eq!((&*rows[0].point, rows[0].server.get()), ("/mnt/my data", Some("filer:/data")));
        assert_eq!((rows[0].operations.get(), rows[0].sent_again.get()), (Some(1500), Some(3)));
        assert_eq!(rows[0].execute_time.get(), Some(30_600_000_000));
        let outcome = parse(&TEXT.replace("100 500 600 0", "x"), &mut rows);
        assert!(matches!(outcome, Err(SourceError::Failed(_))), "{outcome:?}");
    }
}
