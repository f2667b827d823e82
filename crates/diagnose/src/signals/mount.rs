//! Mounted file systems.

use crate::signal::{Entity, over, signals};
use whyslow_model::catalogue::Mount;
use whyslow_model::diagnosis::Subject;
use whyslow_model::window::{Change, Window};

signals! { m: &Change<'_, Mount>;
    "mount.size" "bytes" "space in all", "f_blocks x f_frsize", "statvfs(3)" => m.last().size.get();
    "mount.available" "bytes" "space an ordinary user can have", "f_bavail x f_frsize", "statvfs(3)" => m.last().available.get();
    "mount.free" "bytes" "space free, the reserve for root included", "f_bfree x f_frsize", "statvfs(3)" => m.last().free.get();
    "mount.available_share" "ratio" "the same as a share", "f_bavail / (f_blocks - f_bfree + f_bavail), as df computes it", "statvfs(3)" => available_share(m.last());
    "mount.inodes" "count" "inodes in all", "f_files", "statvfs(3)" => m.last().inodes.get();
    "mount.inodes_free" "count" "inodes free", "f_ffree", "statvfs(3)" => m.last().inodes_free.get();
    "mount.inodes_free_share" "ratio" "inodes free as a share", "f_ffree / f_files", "statvfs(3)" => over(m.last().inodes_free.get(), m.last().inodes.get());
    "mount.read_only" "flag" "1 where mounted read-only", "mount options", "/proc/self/mountinfo" => m.last().read_only.get();
    "mount.turned_read_only" "flag" "1 where it became read-only in the window", "first sample writable, last not", "/proc/self/mountinfo" => m.first().read_only.get().zip(m.last().read_only.get()).map(|(a, b)| a < b);
    "mount.kind" "text" "file system type", "as the kernel gives it", "/proc/self/mountinfo" => m.last().kind.get();
    "mount.device" "text" "what is mounted", "as the kernel gives it", "/proc/self/mountinfo" => m.last().device.get();
}

fn available_share(m: &Mount) -> Option<f64> {
    let used = m.size.get()? - m.free.get()?;
    let available = m.available.get()?;
    over(Some(available), Some(used + available))
}

/// Every mount.
pub fn entities(window: &Window) -> Vec<Entity> {
    window.changes::<Mount>().iter().map(|m| Entity::new(Subject::new("mount", m.key().to_string()), read(m))).collect()
}
