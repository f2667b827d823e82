//! Processes with files of a full file system open.

use super::process;
use super::task::TaskUse;
use crate::signal::{Entity, signals};
use std::collections::BTreeMap;
use whyslow_model::catalogue::Writer;
use whyslow_model::diagnosis::Subject;
use whyslow_model::key::TaskKey;
use whyslow_model::window::{Change, Window};

signals! { w: &Change<'_, Writer>;
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

/// Every process that has any.
pub fn entities(window: &Window, tasks: &[TaskUse]) -> Vec<Entity> {
    let tasks: BTreeMap<TaskKey, &TaskUse> = tasks.iter().map(|task| (task.key, task)).collect();
    let entity = |change: &Change<'_, Writer>| {
        let key = change.key().task;
        let task = tasks.get(&key);
        let unnamed = || Subject { pid: Some(key.pid), ..Subject::new("process", key.pid.to_string()) };
        let subject = task.map_or_else(unnamed, |task| process::subject(task));
        Entity::new(subject, read(change)).within(task.and_then(|task| task.cgroup.clone()))
    };
    window.changes::<Writer>().iter().map(entity).collect()
}
