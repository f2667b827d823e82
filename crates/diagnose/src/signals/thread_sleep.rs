//! Uninterruptible sleep of a process' threads: /proc/PID/stat has only that of its main thread, which in a database or a
//! Java program waits for nothing but the others.

use super::task::TaskUse;
use std::collections::BTreeMap;
use whyslow_model::catalogue::Thread;
use whyslow_model::window::Window;

/// What the threads of a process did in the samples that saw them.
#[derive(Default)]
pub struct ThreadSleep {
    /// Samples in which the process was seen.
    samples: u32,
    /// Of these, how many found one of its threads asleep.
    asleep: u32,
    /// By place, how often a thread was found asleep there.
    places: BTreeMap<String, u32>,
}

impl ThreadSleep {
    /// Replaces what is known of the main thread alone where any thread slept more.
    pub fn add_to(&self, task: &mut TaskUse) {
        let share = f64::from(self.asleep) / f64::from(self.samples.max(1));
        if share <= task.uninterruptible {
            return;
        }
        task.uninterruptible = share;
        if let Some((place, _)) = self.places.iter().max_by_key(|(_, times)| **times) {
            task.wait_channel = Some(place.clone());
        }
    }
}

/// The threads of processes that have several, by the number of their process.
pub fn by_process(window: &Window) -> BTreeMap<u32, ThreadSleep> {
    let mut all: BTreeMap<u32, ThreadSleep> = BTreeMap::new();
    for snapshot in window.snapshots() {
        let mut asleep: BTreeMap<u32, Vec<&Thread>> = BTreeMap::new();
        for thread in snapshot.task.thread.iter().filter(|thread| is_asleep(thread)) {
            asleep.entry(thread.task.pid).or_default().push(thread);
        }
        for (pid, threads) in asleep {
            let of = all.entry(pid).or_default();
            of.asleep += 1;
            for place in threads.iter().filter_map(|thread| thread.wait_channel.get()) {
                *of.places.entry(place.to_owned()).or_default() += 1;
            }
        }
    }
    for snapshot in window.snapshots() {
        for process in &snapshot.task.process {
            if let Some(of) = all.get_mut(&process.task.pid) {
                of.samples += 1;
            }
        }
    }
    all
}

fn is_asleep(thread: &Thread) -> bool {
    thread.state.get() == Some("D")
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::{Process, ProcessRow};
    use whyslow_model::key::TaskKey;
    use whyslow_model::snapshot::Snapshot;

    #[test]
    fn a_process_is_blocked_while_any_of_its_threads_is() {
        let key = |tid| TaskKey { pid: 7, tid, start: 1 };
        let snapshot = |second: u64, waits: &[u32]| {
            let mut s = Snapshot { boot_ns: second * 1_000_000_000, ..Snapshot::default() };
            s.task.process.push(ProcessRow { state: "S".into(), threads: 3.into(), ..ProcessRow::new(key(7)) }.into());
            for tid in [8, 9] {
                let (state, place) = if waits.contains(&tid) { ("D", "jbd2_log_wait_commit") } else { ("S", "futex") };
                s.task.thread.push(Thread { state: state.into(), wait_channel: place.into(), ..Thread::new(key(tid)) });
            }
            s
        };
        let window = Window::new(vec![snapshot(0, &[8]), snapshot(1, &[9]), snapshot(2, &[8, 9]), snapshot(3, &[])]);
        let processes = super::super::task::processes(&window, &window.changes::<Process>());
        assert_eq!(processes[0].uninterruptible, 0.75);
        assert_eq!(processes[0].wait_channel.as_deref(), Some("jbd2_log_wait_commit"));
    }
}
