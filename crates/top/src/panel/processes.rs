//! Table of processes and threads: usage, and what they wait for.

use super::{Context, NamedMetric, group_name, newest_processes, newest_threads, over, ratio, sum, waited_in};
use crate::entity::EntityId;
use crate::table::{Column, Row, Value};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Family, Process, Sleep as TracedSleep, Thread};
use whyslow_model::key::TaskKey;
use whyslow_model::sleep::Sleep;
use whyslow_model::value::{Counter, Name, State};
use whyslow_model::window::{Change, Window};

pub(super) const COLUMNS: [Column; 10] = [
    Column::number("PID", 7, 3),
    Column::words("NAME", 15, 0),
    Column::number("WAIT", 7, 1),
    Column::number("CPU", 7, 2),
    Column::words("WAITS FOR", 24, 4).growing(),
    Column::number("MEMORY", 8, 5),
    Column::number("READ", 10, 6),
    Column::number("WRITE", 10, 7),
    Column::number("THR", 4, 9),
    Column::words("GROUP", 18, 8),
];
pub(super) const SORTED_BY: usize = 2;

/// Shares of time below this are not reported.
const NOTABLE: f64 = 0.005;

/// How a process or thread spent its time, as mean numbers of its threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskWaits {
    /// On a CPU.
    pub(crate) cpu: Option<f64>,
    /// Ready to run, without a CPU.
    pub(crate) ready: Option<f64>,
    /// Blocked in uninterruptible sleep or waiting for asynchronous I/O, according to the sampled states.
    pub(crate) blocked: Option<f64>,
    /// The kernel function in which it was blocked most often.
    pub(crate) place: Option<String>,
}

impl TaskWaits {
    /// Returns the time in which the task was ready or blocked, but not running.
    pub(crate) fn wait(&self) -> Option<f64> {
        sum([self.ready, self.blocked])
    }
}

/// Common interface of processes and threads.
trait Task: Family<Key = TaskKey> {
    fn state(&self) -> &State;
    fn wait_channel(&self) -> &State;
    fn times(change: &Change<'_, Self>) -> (Option<f64>, Option<f64>);
}

macro_rules! task {
    ($($Row:ident)*) => { $( impl Task for $Row {
        fn state(&self) -> &State {
            &self.state
        }

        fn wait_channel(&self) -> &State {
            &self.wait_channel
        }

        /// Returns the time on a CPU and the time ready to run, as shares.
        fn times(change: &Change<'_, Self>) -> (Option<f64>, Option<f64>) {
            let cpu = sum([change.rate(|t| t.user), change.rate(|t| t.system)]).or_else(|| change.rate(|t| t.cpu_time));
            (ratio(cpu), ratio(change.rate(|t| t.run_delay)))
        }
    } )* };
}

task!(Process Thread);

/// Number of samples of a thread, and how often and where it was blocked in them.
#[derive(Default)]
struct Found {
    samples: usize,
    blocked: usize,
    places: BTreeMap<String, usize>,
}

impl Found {
    /// Adds the samples of a task. `waits_for_io` is true if a wait for asynchronous I/O is really one for I/O, not for sockets
    /// or for nothing.
    fn add<T: Task>(&mut self, change: &Change<'_, T>, waits_for_io: bool) {
        for row in change.rows() {
            self.samples += 1;
            let is_blocked = match Sleep::from_state(row.state(), row.wait_channel()) {
                Some(Sleep::AsyncIo) => waits_for_io,
                sleep => sleep.is_some_and(Sleep::is_blocked),
            };
            if is_blocked {
                self.blocked += 1;
                if let Some(place) = row.wait_channel().get() {
                    *self.places.entry(place.to_owned()).or_default() += 1;
                }
            }
        }
    }

    fn waits(self, (cpu, ready): (Option<f64>, Option<f64>), threads_of: usize) -> TaskWaits {
        let blocked = over(Some(self.blocked as f64), Some(threads_of as f64)).filter(|_| self.samples > 0);
        let place = self.places.into_iter().max_by_key(|(_, times)| *times).map(|(place, _)| place);
        TaskWaits { cpu, ready, blocked, place }
    }
}

/// Waits of all processes and threads in a window.
pub(crate) struct AllWaits<'w> {
    pub(crate) processes: Vec<(Change<'w, Process>, TaskWaits)>,
    pub(crate) threads: Vec<(Change<'w, Thread>, TaskWaits)>,
}

impl<'w> AllWaits<'w> {
    pub(crate) fn from_window(window: &'w Window) -> Self {
        let processes = window.changes::<Process>();
        let threads = window.changes::<Thread>();
        let moves_bytes: BTreeSet<u32> = processes.iter().filter(|p| bytes(p) > 0.0).map(|p| p.key().pid).collect();
        let mut by_process: BTreeMap<u32, Found> = BTreeMap::new();
        let threads = threads
            .into_iter()
            .map(|thread| {
                let pid = thread.key().pid;
                let mut found = Found::default();
                found.add(&thread, moves_bytes.contains(&pid));
                let of_process = by_process.entry(pid).or_default();
                of_process.samples += found.samples;
                of_process.blocked += found.blocked;
                for (place, times) in &found.places {
                    *of_process.places.entry(place.clone()).or_default() += times;
                }
                let samples = found.samples;
                let waits = found.waits(Task::times(&thread), samples);
                (thread, waits)
            })
            .collect();
        let processes = processes
            .into_iter()
            .map(|process| {
                let pid = process.key().pid;
                // A process without thread rows has one thread: use its own row.
                let found = by_process.remove(&pid).unwrap_or_else(|| {
                    let mut found = Found::default();
                    found.add(&process, moves_bytes.contains(&pid));
                    found
                });
                let waits = found.waits(Task::times(&process), process.rows().count());
                (process, waits)
            })
            .collect();
        Self { processes, threads }
    }
}

fn bytes(process: &Change<'_, Process>) -> f64 {
    sum([process.grown(|p| p.read_bytes), process.grown(|p| p.write_bytes)]).unwrap_or(0.0)
}

/// Describes what a task mostly waits for, or what it does if it does not wait.
pub(crate) fn wait_words(waits: &TaskWaits, state: Option<&str>, traced: Option<&'static str>) -> String {
    let (ready, blocked) = (waits.ready.unwrap_or(0.0), waits.blocked.unwrap_or(0.0));
    if blocked >= ready.max(NOTABLE) {
        return waits.place.as_deref().map_or_else(|| "I/O".to_owned(), waited_in);
    }
    if ready >= NOTABLE {
        return "a CPU".to_owned();
    }
    match state {
        Some("T" | "t") => "(stopped)".to_owned(),
        Some("Z") => "its parent (ended)".to_owned(),
        _ if waits.cpu.is_some_and(|cpu| cpu >= NOTABLE) => "(runs)".to_owned(),
        _ => traced.unwrap_or("(idle)").to_owned(),
    }
}

/// Returns what a traced process mostly slept for.
fn traced_wait(change: &Change<'_, TracedSleep>) -> Option<&'static str> {
    let kinds: [NamedMetric<TracedSleep, Counter>; 9] = [
        ("a lock", |s| s.lock),
        ("another thread", |s| s.futex),
        ("memory", |s| s.memory),
        ("a disk", |s| s.block_io),
        ("the peer of a socket", |s| s.network),
        ("the other end of a pipe", |s| s.pipe),
        ("events", |s| s.poll),
        ("a time to pass", |s| s.timer),
        ("a lock within the kernel", |s| s.kernel_lock),
    ];
    let waited = kinds.into_iter().filter_map(|(words, f)| Some((words, change.grown(f)?)));
    waited.filter(|(_, ns)| *ns > 0.0).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(words, _)| words)
}

/// Returns the innermost control group of a process.
fn group(process: &Process) -> Option<&str> {
    process.cgroup.get()?.lines().next()
}

pub(super) fn rows(context: &Context<'_>) -> Vec<Row> {
    let all = AllWaits::from_window(context.rates);
    let there: BTreeSet<TaskKey> = newest_processes(context.rates).iter().map(|p| p.task).collect();
    let traced: BTreeMap<TaskKey, &'static str> =
        context.rates.changes::<TracedSleep>().iter().filter_map(|s| Some((*s.key(), traced_wait(s)?))).collect();
    let mut threads: BTreeMap<u32, Vec<Row>> = BTreeMap::new();
    if context.shows_threads {
        let there: BTreeSet<TaskKey> = newest_threads(context.rates).iter().map(|t| t.task).collect();
        for (change, waits) in all.threads.iter().filter(|(change, _)| there.contains(change.key())) {
            threads.entry(change.key().pid).or_default().push(thread_row(change, waits));
        }
    }
    let mut rows: Vec<(f64, Option<Name>, Row)> = all
        .processes
        .iter()
        .filter(|(change, _)| there.contains(change.key()))
        .map(|(change, waits)| {
            let mut row = process_row(change, waits, traced.get(change.key()).copied());
            row.below = threads.remove(&change.key().pid).unwrap_or_default();
            (waits.cpu.unwrap_or(0.0), group(change.last()).map(Name::from), row)
        })
        .collect();
    // Rows with equal waits keep this order.
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    if !context.is_tree {
        return rows.into_iter().map(|(_, _, row)| row).collect();
    }
    let mut groups: BTreeMap<Name, Vec<Row>> = BTreeMap::new();
    for (_, group, row) in rows {
        groups.entry(group.unwrap_or_else(|| "/".into())).or_default().push(row);
    }
    groups.into_iter().map(|(path, members)| group_row(path, members)).collect()
}

fn process_row(change: &Change<'_, Process>, waits: &TaskWaits, traced: Option<&'static str>) -> Row {
    let last = change.last();
    let cells = vec![
        Value::Number(change.key().pid.into(), "count"),
        Value::words(last.command.get()),
        Value::share(waits.wait()),
        Value::share(waits.cpu),
        Value::Words(wait_words(waits, last.state.get(), traced)),
        Value::number(last.rss.get(), "bytes"),
        Value::number(change.rate(|p| p.read_bytes), "bytes/s"),
        Value::number(change.rate(|p| p.write_bytes), "bytes/s"),
        Value::number(last.threads.get(), "count"),
        Value::words(group(last).map(group_name)),
    ];
    Row::new(EntityId::Process(*change.key()), cells)
}

fn thread_row(change: &Change<'_, Thread>, waits: &TaskWaits) -> Row {
    let last = change.last();
    let mut cells = vec![
        Value::Number(change.key().tid.into(), "count"),
        Value::words(last.command.get()),
        Value::share(waits.wait()),
        Value::share(waits.cpu),
        Value::Words(if last.lock_wait.get() == Some(1.0) && waits.wait().is_none_or(|wait| wait < NOTABLE) {
            "a lock of another thread".to_owned()
        } else {
            wait_words(waits, last.state.get(), None)
        }),
    ];
    cells.resize(COLUMNS.len(), Value::Words(String::new()));
    Row::new(EntityId::Thread(*change.key()), cells)
}

/// Builds the row of a control group above its processes, with their sums.
fn group_row(path: Name, members: Vec<Row>) -> Row {
    let total = |column: usize| {
        let known = members.iter().filter_map(|row| match row.cells.get(column)? {
            Value::Number(number, _) | Value::Share(number) => Some(*number),
            _ => None,
        });
        known.reduce(|a, b| a + b)
    };
    let cells = vec![
        Value::Words(String::new()),
        Value::Words(group_name(&path)),
        Value::share(total(2)),
        Value::share(total(3)),
        Value::Words(format!("{} processes", members.len())),
        Value::number(total(5), "bytes"),
        Value::number(total(6), "bytes/s"),
        Value::number(total(7), "bytes/s"),
        Value::number(total(8), "count"),
        Value::Words(path.to_string()),
    ];
    Row { below: members, ..Row::new(EntityId::Group(path), cells) }
}
