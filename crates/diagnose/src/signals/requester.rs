//! Who made the requests, as BPF sees them.

use super::task::TaskUse;
use crate::signal::ratio;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Request, Requester};
use whyslow_model::key::TaskKey;
use whyslow_model::value::Name;
use whyslow_model::window::Window;

/// The requests a process made of a device, per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Made {
    /// The name of the process.
    pub command: String,
    /// Requests.
    pub requests: f64,
    /// Seconds they waited in the queue.
    pub queue_time: f64,
    /// Seconds the device took for them.
    pub device_time: f64,
    /// Seconds that requests of the kernel's write-back took for what this process wrote.
    pub written_back: f64,
}

impl Made {
    /// How many of them were in flight, in the mean (Little's law).
    pub fn in_flight(&self) -> f64 {
        self.queue_time + self.device_time + self.written_back
    }
}

/// The devices of which requests were seen.
pub fn devices(window: &Window) -> BTreeSet<Name> {
    window.newest::<Request>().into_keys().map(|key| key.device).collect()
}

/// Who made requests of which device. What the kernel wrote back of the page cache in its own name is charged to those who
/// wrote to it meanwhile, each by the bytes.
pub fn made(window: &Window, tasks: &[TaskUse]) -> BTreeMap<(TaskKey, Name), Made> {
    let mut all: BTreeMap<(TaskKey, Name), Made> = BTreeMap::new();
    let mut written_back: BTreeMap<Name, f64> = BTreeMap::new();
    let kernel: BTreeSet<TaskKey> = tasks.iter().filter(|t| t.kernel).map(|t| t.key).collect();
    for change in window.changes::<Requester>() {
        let key = change.key();
        let seconds = |of: Option<f64>| ratio(of).unwrap_or(0.0);
        let queue_time = seconds(change.rate(|r| r.queue_time));
        let device_time = seconds(change.rate(|r| r.device_time));
        if kernel.contains(&key.task) && &*key.on.operation == "write" {
            *written_back.entry(key.on.device.clone()).or_default() += queue_time + device_time;
        }
        let made = all.entry((key.task, key.on.device.clone())).or_default();
        made.command = change.last().command.get().unwrap_or_default().to_owned();
        made.requests += change.rate(|r| r.requests).unwrap_or(0.0);
        made.queue_time += queue_time;
        made.device_time += device_time;
    }
    let writers: Vec<(&TaskUse, f64)> =
        tasks.iter().filter(|t| !t.kernel).filter_map(|t| Some((t, t.written.filter(|w| *w > 0.0)?))).collect();
    let written: f64 = writers.iter().map(|(_, bytes)| bytes).sum();
    for (device, time) in written_back {
        for (task, bytes) in &writers {
            let made = all.entry((task.key, device.clone())).or_default();
            made.command.clone_from(&task.command);
            made.written_back += time * bytes / written;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::key::{OperationKey, RequesterKey};
    use whyslow_model::snapshot::Snapshot;

    const SECOND: u64 = 1_000_000_000;

    fn key(pid: u32) -> TaskKey {
        TaskKey { pid, tid: pid, start: 1 }
    }

    fn row(t: u64, pid: u32, operation: &str, busy: u64) -> Requester {
        let on = OperationKey { device: "sda".into(), operation: operation.into() };
        Requester {
            requests: (t * 10).into(),
            queue_time: (t * SECOND * busy / 100).into(),
            device_time: (t * SECOND * busy / 100).into(),
            ..Requester::new(RequesterKey { on, task: key(pid), cgroup: Name::default() })
        }
    }

    #[test]
    fn write_back_is_charged_to_those_who_wrote() {
        let snapshots = (1..3).map(|t| {
            let mut s = Snapshot { boot_ns: t * SECOND, ..Snapshot::default() };
            s.block.requester.extend([row(t, 20, "read", 25), row(t, 9, "write", 40)]);
            s.sort();
            s
        });
        let window = Window::new(snapshots.collect());
        let task = |pid, kernel, written| TaskUse { key: key(pid), kernel, written, ..TaskUse::default() };
        let tasks = [task(9, true, Some(5.0)), task(30, false, Some(300.0)), task(31, false, Some(100.0))];
        let made = made(&window, &tasks);
        let in_flight = |pid| made[&(key(pid), Name::from("sda"))].in_flight();
        assert_eq!(
            [in_flight(20), in_flight(9), in_flight(30), in_flight(31)].map(|n| (n * 100.0).round()),
            [50.0, 80.0, 60.0, 20.0]
        );
    }
}
