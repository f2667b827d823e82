//! Mounted file systems: their space, the processes that fill it, and NFS mounts as the client counts their operations.

use super::process;
use super::shortage;
use super::task::TaskUse;
use crate::signal::{Entity, over, signals};
use std::collections::BTreeMap;
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{Mount, NfsMount, Writer};
use whyslow_model::key::TaskKey;
use whyslow_model::window::{Change, Window};
use whyslow_quantities::nfs;

signals! { m: Change<'_, Mount>;
    "mount.size" "bytes" "space in all", "f_blocks x f_frsize", "statvfs(3)", normal "space in all" => m.last().size.get();
    "mount.available" "bytes" "space available to ordinary users", "f_bavail x f_frsize", "statvfs(3)", normal "above 5 % of its size" => m.last().available.get();
    "mount.free" "bytes" "space free, the reserve for root included", "f_bfree x f_frsize", "statvfs(3)", normal "the space left, including the reserve for root" => m.last().free.get();
    "mount.available_share" "ratio" "the same as a share", "f_bavail / (f_blocks - f_bfree + f_bavail), as df computes it", "statvfs(3)", normal "above 5 %" => available_share(m.last());
    "mount.shrunk" "bytes" "how much less space is available at the end of the window than at its start", "first - last", "statvfs(3)" => m.first().available.get().zip(m.last().available.get()).map(|(first, last)| first - last);
    "mount.shrink_rate" "bytes/s" "how fast the space available decreases; 0 unless it keeps decreasing", "-Δ(f_bavail x f_frsize) / Δt over the latter half of the window", "statvfs(3)", normal "0 bytes/s on average" => shrink_rate(m);
    "mount.full_in" "s" "time until none is left at this rate", "available / rate at which it decreases", "statvfs(3)", normal "days" => over(m.last().available.get(), shrink_rate(m).filter(|rate| *rate > 0.0));
    "mount.inodes" "count" "inodes in all", "f_files", "statvfs(3)", normal "inodes in all, set when it was made" => m.last().inodes.get();
    "mount.inodes_free" "count" "inodes free", "f_ffree", "statvfs(3)" => m.last().inodes_free.get();
    "mount.inodes_free_share" "ratio" "inodes free as a share", "f_ffree / f_files", "statvfs(3)" => over(m.last().inodes_free.get(), m.last().inodes.get());
    "mount.read_only" "flag" "1 where mounted read-only", "mount options", "/proc/self/mountinfo", normal "no" => m.last().read_only.get();
    "mount.turned_read_only" "flag" "1 where it became read-only in the window", "first sample writable, last not", "/proc/self/mountinfo" => m.first().read_only.get().zip(m.last().read_only.get()).map(|(a, b)| a < b);
    "mount.kind" "text" "file system type", "as the kernel gives it", "/proc/self/mountinfo" => m.last().kind.get();
    "mount.device" "text" "what is mounted", "as the kernel gives it", "/proc/self/mountinfo", normal "the device it is on" => m.last().device.get();
}

fn shrink_rate(m: &Change<'_, Mount>) -> Option<f64> {
    shortage::fall(m.course(|m| m.available.get())).filter(|_| !m.is_since_boot())
}

fn available_share(m: &Mount) -> Option<f64> {
    let used = m.size.get()? - m.free.get()?;
    let available = m.available.get()?;
    over(Some(available), Some(used + available))
}

/// Returns every mount.
pub fn mounts(window: &Window) -> Vec<Entity> {
    window
        .changes::<Mount>()
        .iter()
        .map(|m| Entity::from_subject(Subject::new("mount", m.key().to_string()), m))
        .collect()
}

signals! { w: Change<'_, Writer>;
    "writer.mount" "text" "the mount", "as the kernel gives it", "/proc/self/mountinfo" => w.key().mount.as_ref() as &str;
    "writer.files" "count" "files on it that the process has open for writing, or that are deleted", "regular files of that st_dev", "/proc/PID/fd, /proc/PID/fdinfo" => w.last().files.get();
    "writer.bytes" "bytes" "space these files take", "Σ blocks x 512", "/proc/PID/fd" => w.last().bytes.get();
    "writer.deleted_bytes" "bytes" "space of those of them that are deleted", "Σ blocks x 512 where nlink = 0", "/proc/PID/fd" => w.last().deleted_bytes.get();
    "writer.growth" "bytes" "how much they grew in the window", "last - first", "/proc/PID/fd" => growth(w);
    "writer.largest" "text" "the largest of them", "as the kernel gives it", "/proc/PID/fd" => w.last().largest.get();
}

fn growth(w: &Change<'_, Writer>) -> Option<f64> {
    Some((w.last().bytes.get()? - w.first().bytes.get()?).max(0.0))
}

/// Returns every process with files of a full file system open.
pub fn writers(window: &Window, tasks: &[TaskUse]) -> Vec<Entity> {
    let tasks: BTreeMap<TaskKey, &TaskUse> = tasks.iter().map(|task| (task.key, task)).collect();
    let entity = |change: &Change<'_, Writer>| {
        let key = change.key().task;
        let task = tasks.get(&key);
        let unnamed = || Subject { pid: Some(key.pid), ..Subject::new("process", key.pid.to_string()) };
        let subject = task.map_or_else(unnamed, |task| process::subject(task));
        Entity::from_subject(subject, change).within(task.and_then(|task| task.cgroup.clone()))
    };
    window.changes::<Writer>().iter().map(entity).collect()
}

signals! { n: Change<'_, NfsMount>;
    quantities of n => nfs::OPERATIONS, nfs::WAIT, nfs::ROUND_TRIP, nfs::QUEUE_WAIT, nfs::IN_FLIGHT, nfs::SENT_AGAIN_SHARE, nfs::SENT_AGAIN;
    "nfs.server" "text" "server and path", "as mounted", "/proc/self/mountstats" => n.last().server.get();
    "nfs.done" "count" "the same in the window", "Δoperations", "/proc/self/mountstats" => n.grown(|n| n.operations);
    "nfs.stall" "ratio" "share of the time in which operations were in flight, as far as their mean number tells", "min(Δexecute time / Δt, 1)", "/proc/self/mountstats", normal (below 0.1) => nfs::IN_FLIGHT.over(n).map(|n| n.min(1.0));
}

/// Returns every NFS mount.
pub fn nfs_mounts(window: &Window) -> Vec<Entity> {
    let changes = window.changes::<NfsMount>();
    changes.iter().map(|n| Entity::from_subject(Subject::new("mount", n.key().to_string()), n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;

    fn mount(available: impl Fn(u64) -> u64) -> Entity {
        let window = window(0..=10, |t, s| {
            s.block.mount.push(Mount { available: available(t).into(), ..Mount::new("/srv".into()) });
        });
        mounts(&window).remove(0)
    }

    #[test]
    fn space_that_keeps_decreasing_lasts_as_long_as_the_rest_at_that_rate() {
        let filling = mount(|t| 1000 - 50 * t);
        let number = |name: &str| filling.number(name);
        assert_eq!((number("mount.shrunk"), number("mount.shrink_rate")), (Some(500.0), Some(50.0)));
        assert_eq!(number("mount.full_in"), Some(10.0));
        // A copy that has ended.
        let full = mount(|t| 1000 - 100 * t.min(5));
        assert_eq!((full.number("mount.shrunk"), full.number("mount.full_in")), (Some(500.0), None));
    }
}
