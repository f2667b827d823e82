//! Tasks in uninterruptible sleep at one instant, as a list of tasks shows them.

use std::collections::BTreeMap;
use whyslow_model::catalogue::{Process, Thread};
use whyslow_model::window::Window;

/// Maximum number of names in a text.
const MOST_NAMED: usize = 3;

/// Tasks in uninterruptible sleep in the newest reading.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Uninterruptible {
    /// Number of tasks.
    pub count: usize,
    /// Their names, the most frequent first: `nfsd (4), txg_sync`.
    pub names: String,
    /// The functions of the kernel in which they wait, likewise; empty if none is known.
    pub functions: String,
}

impl Uninterruptible {
    /// Counts the threads, or the processes where no threads are listed. `None` if the state of no task is known.
    pub fn from_window(window: &Window) -> Option<Self> {
        let threads = window.newest::<Thread>();
        let processes = window.newest::<Process>();
        let of_threads = threads.values().map(|row| (row.state.get(), row.command.get(), row.wait_channel.get()));
        let of_processes = processes.values().map(|row| (row.state.get(), row.command.get(), row.wait_channel.get()));
        let mut known: Vec<_> = of_threads.filter(|(state, ..)| state.is_some()).collect();
        if known.is_empty() {
            known = of_processes.filter(|(state, ..)| state.is_some()).collect();
        }
        let is_known = !known.is_empty();
        known.retain(|(state, ..)| state.is_some_and(|state| state.starts_with('D')));
        // Threads that the kernel numbers do the same work: `z_wr_int_h/4`.
        let name = |name: &str| name.split(['/', ':']).next().unwrap_or(name).to_owned();
        is_known.then(|| Self {
            count: known.len(),
            names: most_frequent(known.iter().filter_map(|(_, command, _)| command.map(name))),
            functions: most_frequent(known.iter().filter_map(|(.., function)| function.map(str::to_owned))),
        })
    }
}

/// Returns the most frequent of these, with how often they occur.
fn most_frequent(all: impl Iterator<Item = String>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by(|(a, of_a), (b, of_b)| (of_b, a).cmp(&(of_a, b)));
    let named = counts.iter().take(MOST_NAMED);
    let words = named.map(|(name, count)| if *count > 1 { format!("{name} ({count})") } else { name.clone() });
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;
    use whyslow_model::catalogue::ProcessRow;
    use whyslow_model::key::TaskKey;

    #[test]
    fn tasks_that_sleep_uninterruptibly_are_counted_by_name_and_function() {
        let tasks =
            [("D", "nfsd", "cv_wait"), ("D", "nfsd", "cv_wait"), ("D", "z_wr/1", "txg_rele"), ("S", "bash", "")];
        let window = window([0], |_, s| {
            for (pid, (state, command, function)) in (1..).zip(tasks) {
                let row = ProcessRow::new(TaskKey { pid, tid: pid, start: 1 });
                let row = ProcessRow { state: state.into(), command: command.into(), ..row };
                s.task.process.push(ProcessRow { wait_channel: function.into(), ..row }.into());
            }
        });
        let all = Uninterruptible::from_window(&window).unwrap();
        assert_eq!((all.count, &*all.names, &*all.functions), (3, "nfsd (2), z_wr", "cv_wait (2), txg_rele"));
        assert_eq!(Uninterruptible::from_window(&Window::new(vec![])), None);
    }
}
