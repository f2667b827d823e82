//! Details of a process (where its time goes, its threads, connections and files) or of a thread.

use super::{Files, heading, list};
use crate::panel::{AllWaits, Context, NamedMetric, TaskWaits, group_name, ratio, sum, wait_words};
use crate::table::{Value, pairs};
use crate::text::{Line, bold, dim, plain};
use whyslow_model::catalogue::{Connection, Process, Sleep};
use whyslow_model::human;
use whyslow_model::key::TaskKey;
use whyslow_model::value::Counter;
use whyslow_model::window::Change;
use whyslow_quantities::process::thread;
use whyslow_quantities::{connection, process};

/// Reasons for sleep of traced threads.
const SLEEPS: [NamedMetric<Sleep, Counter>; 11] = [
    ("asleep for locks of other threads", |s| s.lock),
    ("asleep in futex(2) for anything else", |s| s.futex),
    ("asleep in page faults and for memory", |s| s.memory),
    ("asleep for block I/O", |s| s.block_io),
    ("asleep for the peer of a socket", |s| s.network),
    ("asleep for the other end of a pipe", |s| s.pipe),
    ("asleep in poll, select or epoll", |s| s.poll),
    ("asleep for a time to pass", |s| s.timer),
    ("asleep for a lock within the kernel", |s| s.kernel_lock),
    ("asleep for anything else", |s| s.other),
    ("on a run queue", |s| s.run_queue),
];

pub(super) fn page(task: &TaskKey, context: &Context<'_>, files: &Files) -> Option<Vec<Line>> {
    let all = AllWaits::from_window(context.rates);
    let (change, waits) = all.processes.iter().find(|(change, _)| change.key() == task)?;
    let last = change.last();
    let mut lines = vec![vec![bold(format!("Process {} ", task.pid)), bold(last.command.get().unwrap_or_default())]];
    times(&mut lines, waits, last.state.get());
    lines.extend(pairs(&[
        ("of that in user mode", Value::from_quantity(&process::USER, change)),
        ("in kernel mode", Value::from_quantity(&process::SYSTEM, change)),
        ("waiting for block I/O (delay accounting)", Value::share(process::BLOCK_DELAY.over(change))),
        ("voluntary context switches", Value::from_quantity(&process::VOLUNTARY_SWITCHES, change)),
        ("involuntary context switches", Value::from_quantity(&process::INVOLUNTARY_SWITCHES, change)),
    ]));
    traced(&mut lines, task, context);
    heading(&mut lines, "Memory and files");
    lines.extend(pairs(&[
        ("resident memory", Value::number(last.rss.get(), "bytes")),
        ("of that anonymous", Value::number(last.rss_anon.get(), "bytes")),
        ("swapped out", Value::number(last.swap.get(), "bytes")),
        ("page faults that needed I/O", Value::from_quantity(&process::MAJOR_FAULTS, change)),
        ("read from storage", Value::from_quantity(&process::READ_RATE, change)),
        ("written or made dirty", Value::from_quantity(&process::WRITE_RATE, change)),
        ("bytes asked of read calls", Value::from_quantity(&process::READ_CALLS_RATE, change)),
        ("bytes given to write calls", Value::from_quantity(&process::WRITE_CALLS_RATE, change)),
        ("open file descriptors", Value::number(last.open_files.get(), "count")),
        ("how many it may open", Value::number(last.open_files_limit.get(), "count")),
        ("nice value", Value::number(last.nice.get(), "count")),
    ]));
    if let Some(group) = last.cgroup.get().and_then(|all| all.lines().next()) {
        let name = group_name(group);
        let path = if name == group { String::new() } else { format!("  {group}") };
        lines.push(vec![dim("  control group  "), plain(name), dim(path)]);
    }
    threads(&mut lines, task, &all);
    connections(&mut lines, task, context);
    open_files(&mut lines, task, files);
    Some(lines)
}

pub(super) fn thread_page(task: &TaskKey, context: &Context<'_>) -> Option<Vec<Line>> {
    let all = AllWaits::from_window(context.rates);
    let (change, waits) = all.threads.iter().find(|(change, _)| change.key() == task)?;
    let last = change.last();
    let name = last.command.get().unwrap_or_default();
    let mut lines = vec![vec![bold(format!("Thread {} of process {} ", task.tid, task.pid)), bold(name)]];
    times(&mut lines, waits, last.state.get());
    lines.extend(pairs(&[
        ("voluntary context switches", Value::from_quantity(&thread::VOLUNTARY_SWITCHES, change)),
        ("involuntary context switches", Value::from_quantity(&thread::INVOLUNTARY_SWITCHES, change)),
        ("moves to another CPU", Value::from_quantity(&thread::MIGRATIONS, change)),
        ("the CPU it ran on last", Value::number(last.processor.get(), "count")),
        ("nice value", Value::number(last.nice.get(), "count")),
    ]));
    Some(lines)
}

/// Adds how the time was spent, as mean numbers of threads.
fn times(lines: &mut Vec<Line>, waits: &TaskWaits, state: Option<&str>) {
    heading(lines, "Time (of one thread; 200 % is two all the time)");
    lines.extend(pairs(&[
        ("waits for", Value::Words(wait_words(waits, state, None))),
        ("ready, waiting for a CPU", Value::share(waits.ready)),
        ("blocked", Value::share(waits.blocked)),
        ("blocked in the kernel function", Value::words(waits.place.as_deref())),
        ("on a CPU", Value::share(waits.cpu)),
    ]));
}

/// Adds what the threads slept for, if a finding had them traced.
fn traced(lines: &mut Vec<Line>, task: &TaskKey, context: &Context<'_>) {
    let changes = context.rates.changes::<Sleep>();
    let Some(change) = changes.iter().find(|change| change.key() == task) else { return };
    let mut parts: Vec<(&str, f64)> =
        SLEEPS.iter().filter_map(|(what, f)| Some((*what, ratio(change.rate(f))?))).filter(|(_, s)| *s > 0.0).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    heading(lines, "What its threads slept for (traced)");
    lines.extend(pairs(&parts.into_iter().map(|(what, share)| (what, Value::Share(share))).collect::<Vec<_>>()));
}

fn threads(lines: &mut Vec<Line>, task: &TaskKey, all: &AllWaits<'_>) {
    let mut own: Vec<_> = all.threads.iter().filter(|(change, _)| change.key().pid == task.pid).collect();
    if own.is_empty() {
        return;
    }
    let at_work = |waits: &TaskWaits| sum([waits.wait(), waits.cpu]).unwrap_or(0.0);
    own.sort_by(|a, b| at_work(&b.1).total_cmp(&at_work(&a.1)));
    let entries = own.iter().map(|(change, waits)| {
        let last = change.last();
        format!(
            "{:>7} {:15} wait {:>6}  CPU {:>6}  {}",
            change.key().tid,
            plain(last.command.get().unwrap_or_default()).text(),
            Value::share(waits.wait()).text(0),
            Value::share(waits.cpu).text(0),
            wait_words(waits, last.state.get(), None)
        )
    });
    let title = format!("Threads ({})", own.len());
    list(lines, &title, entries.collect(), "");
}

fn connections(lines: &mut Vec<Line>, task: &TaskKey, context: &Context<'_>) {
    let changes = context.rates.changes::<Connection>();
    let own = changes.iter().filter(|change| change.last().pid.get() == Some(task.pid.into()));
    let entries: Vec<String> = own.map(one_line).collect();
    list(lines, "TCP connections that carry data", entries, "none");
}

/// Describes a connection in one line.
pub(super) fn one_line(change: &Change<'_, Connection>) -> String {
    format!(
        "{}  sends {}, receives {}, round trip {}",
        change.key(),
        Value::from_quantity(&connection::CONFIRMED, change).text(0),
        Value::from_quantity(&connection::RECEIVED, change).text(0),
        Value::number(ratio(change.mean(|c| c.rtt)), "s").text(0)
    )
}

fn open_files(lines: &mut Vec<Line>, task: &TaskKey, files: &Files) {
    match files {
        Some((of, Ok(files))) if of == task => {
            let entries = files.iter().map(|file| {
                let count = if file.count > 1 { format!("  ×{}", file.count) } else { String::new() };
                format!("{}{count}", file.name)
            });
            let all: usize = files.iter().map(|file| file.count).sum();
            list(lines, &format!("Open files ({all})"), entries.collect(), "none");
        }
        Some((of, Err(why))) if of == task => list(lines, "Open files", Vec::new(), why),
        _ => {}
    }
}

/// Describes processes in one line each, sorted by time spent waiting and on a CPU, longest first.
pub(super) fn busiest<'a, 'w: 'a>(some: impl Iterator<Item = &'a (Change<'w, Process>, TaskWaits)>) -> Vec<String> {
    let mut some: Vec<_> = some.collect();
    let at_work = |waits: &TaskWaits| sum([waits.wait(), waits.cpu]).unwrap_or(0.0);
    some.sort_by(|a, b| at_work(&b.1).total_cmp(&at_work(&a.1)));
    let entry = |(change, waits): &&(Change<'w, Process>, TaskWaits)| {
        let last = change.last();
        format!(
            "{:>7} {:15} wait {:>6}  CPU {:>6}  {:>8}  {}",
            change.key().pid,
            plain(last.command.get().unwrap_or_default()).text(),
            Value::share(waits.wait()).text(0),
            Value::share(waits.cpu).text(0),
            last.rss.get().map_or_else(String::new, |rss| human::quantity(rss, "bytes")),
            wait_words(waits, last.state.get(), None)
        )
    };
    some.iter().map(entry).collect()
}
