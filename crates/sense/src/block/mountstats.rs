//! /proc/self/mountstats: operations of NFS mounts, how long they waited here and how long the server took.

use crate::text::{octal, unescape};
use crate::ttl_cache::Seldom;
use crate::{Miss, Root, Source};
use whyslow_model::catalogue::NfsMount;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::mountstats::{Operations, counts, mount, operations};

const PATH: &str = "proc/self/mountstats";
/// What the NFS client shows of itself while there is one: without it the list of all mounts is not read at each sample.
const CLIENT: &str = "proc/fs/nfsfs";
const NS_PER_MS: u64 = 1_000_000;

/// The source of family `nfs`.
#[derive(Default)]
pub(super) struct NfsMounts {
    client: Seldom<bool>,
}

impl Source for NfsMounts {
    fn name(&self) -> &'static str {
        PATH
    }

    fn tells(&self) -> &'static str {
        "how long operations of NFS mounts take"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        if root.is_live() && !self.client.get(|| root.at(CLIENT).exists()) {
            return Err(Miss::Absent(format!("/{CLIENT} does not exist")));
        }
        parse(&root.kept_text(PATH)?, &mut out.block.nfs)
    }
}

/// Reads the NFS mounts out of the list of all.
fn parse(text: &str, rows: &mut Vec<NfsMount>) -> Result<(), Miss> {
    let mut open: Option<(NfsMount, Operations)> = None;
    for line in text.lines() {
        if let Some(mount) = mount(line) {
            rows.extend(open.take().map(done));
            let row = NfsMount { server: mount.device.into(), ..NfsMount::new(unescape(mount.point, octal).into()) };
            open = mount.kind.starts_with("nfs").then_some((row, Operations::default()));
        } else if let Some(((_, sum), counts)) = open.as_mut().zip(counts(line)) {
            sum.add(operations(counts).ok_or_else(|| Miss::malformed(PATH, line))?);
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
    use proptest::prelude::*;

    const TEXT: &str = "device proc mounted on /proc with fstype proc
device filer:/data mounted on /mnt/my\\040data with fstype nfs4 statvers=1.1
\tage:\t86400
\txprt:\ttcp 0 0 2 0 10 1503 1500 0 1503 0 2 100 100
\tper-op statistics
\t        READ: 1000 1002 0 140000 4000000 100 500 600 0
\t       WRITE: 500 501 0 5000000 70000 10000 20000 30000 0
device /dev/sda1 mounted on / with fstype ext4
";

    #[test]
    fn operations_of_all_kinds_are_summed_up() {
        let mut rows = Vec::new();
        parse(TEXT, &mut rows).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!((&*rows[0].point, rows[0].server.get()), ("/mnt/my data", Some("filer:/data")));
        assert_eq!((rows[0].operations.get(), rows[0].sent_again.get()), (Some(1500), Some(3)));
        assert_eq!(rows[0].execute_time.get(), Some(30_600_000_000));
        assert!(parse(&TEXT.replace("100 500 600 0", "x"), &mut rows).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "((device|READ:|[a-z0-9: ]{0,20}| mounted on | with fstype nfs)\n?){0,20}") {
            let _ = parse(&text, &mut Vec::new());
        }
    }
}
