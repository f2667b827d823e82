//! Tables of processes and threads, as top(1) and ps(1) print them.

use crate::lines::TextLine;
use crate::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Guest, GuestDisk, Process, Thread};
use whyslow_model::value::{Gauge, State};
use whyslow_proc::qemu::{self, GuestConfig};

pub struct TaskColumns {
    names: Vec<String>,
    /// Position of the command.
    command: usize,
}

/// Rows of a table that does not show which kind they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    Processes,
    /// Threads whose process is not shown: top -H.
    Threads,
    /// Either kind: the line that shows which is missing.
    Unknown,
}

/// Names of the command's column, whose text contains spaces.
const COMMANDS: [&str; 3] = ["COMMAND", "CMD", "Command"];
/// Columns of which a table has at least one, besides process and command.
const KNOWN: [&str; 6] = ["%CPU", "C", "TIME", "STAT", "S", "WCHAN"];
/// Other columns of ps -o. Other tools list processes with some of them too, so a table without any of [`KNOWN`] must have only
/// these.
const OTHERS_OF_PS: [&str; 30] = [
    "PID", "PPID", "PGID", "PGRP", "SID", "SESS", "TGID", "USER", "UID", "RUSER", "EUSER", "GROUP", "GID", "TTY", "TT",
    "NI", "PRI", "CLS", "RTPRIO", "PSR", "NLWP", "THCNT", "%MEM", "VSZ", "RSS", "PSS", "STARTED", "START", "ELAPSED",
    "CGROUP",
];
/// Maximum number of rows of a table; those of threads are held until it ends.
const MOST_ROWS: usize = 50_000;
/// Names of the column with the TID.
const THREADS: [&str; 3] = ["LWP", "TID", "SPID"];

impl TaskColumns {
    pub fn parse(line: &str) -> Option<Self> {
        let names = crate::table::words(line);
        let has = |name: &str| names.iter().any(|n| n == name);
        // A header that is a comment belongs to sysstat.
        if has("#") {
            return None;
        }
        // In other languages, top's own columns are identified by their positions.
        let is_top = names.len() == 12 && names[0] == "PID" && names[8] == "%CPU" && !has("TIME+");
        let command = match names.iter().position(|name| COMMANDS.contains(&name.as_str())) {
            Some(command) => command,
            None if is_top => names.len() - 1,
            None => return None,
        };
        let is_of_ps = |(at, name): (usize, &String)| at == command || OTHERS_OF_PS.contains(&name.as_str());
        let is_table = KNOWN.iter().any(|name| has(name)) || names.iter().enumerate().all(is_of_ps);
        (has("PID") && is_table).then_some(Self { names, command })
    }

    /// Returns the TID, if each row is a thread and shows it.
    fn tid(&self, fields: &[String]) -> Option<u32> {
        self.field(fields, &THREADS)?.parse().ok()
    }

    /// Joins the words of a date, and those of a command that is not the last column.
    fn joined(&self, mut fields: Vec<String>) -> Vec<String> {
        const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
        const WORDS: usize = 5;
        // `Wed Nov 25 14:42:22 2026`, of ps -o lstart. After the command, its position is known from the end.
        if let Some(at) = self.names.iter().position(|name| name == "STARTED") {
            let behind = self.names.len() - 1 - at;
            let start = if at < self.command { Some(at) } else { fields.len().checked_sub(behind + WORDS) };
            if let Some(at) = start.filter(|at| fields.get(*at).is_some_and(|day| DAYS.contains(&day.as_str())))
                && fields.len() >= at + WORDS
            {
                let date: Vec<String> = fields.splice(at..at + WORDS, [String::new()]).collect();
                fields[at] = date.join(" ");
            }
        }
        let surplus = fields.len().saturating_sub(self.names.len());
        if surplus > 0 && self.command + 1 < self.names.len() {
            let words = fields.splice(self.command..=self.command + surplus, [String::new()]).collect::<Vec<_>>();
            fields[self.command] = words.join(" ");
        }
        fields
    }

    /// Returns the program's name as the kernel keeps it, without the tree that ps draws and the brackets of a name without
    /// arguments.
    fn command(&self, fields: &[String]) -> String {
        let Some(own) = fields.get(self.command) else { return String::new() };
        let is_last = self.command + 1 == self.names.len();
        let name = if is_last { self.words(fields).next().unwrap_or_default() } else { own };
        let name = name.strip_prefix('[').map_or(name, |inner| inner.trim_end_matches(']'));
        let is_path = name.starts_with(['/', '.']);
        name.rsplit('/').next().filter(|n| is_path && !n.is_empty()).unwrap_or(name).to_owned()
    }

    /// Returns the name of a thread, which may have several words: `CPU 0/KVM`. Returns `None` for a command line (top -c),
    /// which is longer.
    fn thread_name(&self, fields: &[String]) -> Option<String> {
        /// Maximum length: TASK_COMM_LEN without the terminator.
        const LONGEST: usize = 15;
        let is_last = self.command + 1 == self.names.len();
        let name = self.words(fields).collect::<Vec<_>>().join(" ");
        let is_name = is_last && name.contains(' ') && name.chars().count() <= LONGEST;
        (is_name && !name.starts_with(['/', '.', '['])).then_some(name)
    }

    /// Returns the command and its arguments, if they are in the last column, without the tree that ps draws.
    fn words<'f>(&self, fields: &'f [String]) -> impl Iterator<Item = &'f str> {
        let words = fields.get(self.command..).unwrap_or_default().iter().map(String::as_str);
        words.skip_while(|word| ["\\_", "|", "`-"].contains(word))
    }

    /// Returns the field in the first of these columns that the table has.
    fn field<'f>(&self, fields: &'f [String], names: &[&str]) -> Option<&'f str> {
        let column = names.iter().find_map(|name| self.names.iter().position(|n| n == name))?;
        fields.get(column).map(String::as_str)
    }

    fn pid(&self, fields: &[String]) -> Option<u32> {
        self.field(fields, &["PID"])?.parse().ok()
    }

    /// Returns true if its name is in brackets, as without arguments, and its parent is kthreadd.
    fn is_child_of_kthreadd(&self, pid: u32, fields: &[String]) -> bool {
        const KTHREADD: u32 = 2;
        let parent = self.field(fields, &["PPID"]).and_then(|parent| parent.parse().ok());
        let in_brackets = fields.get(self.command).is_some_and(|name| name.starts_with('['));
        in_brackets && (pid == KTHREADD || parent == Some(KTHREADD))
    }

    /// Returns the first column whose field is not of its kind: a field is missing, or there is one too many.
    fn misfit(&self, fields: &[String]) -> Option<&str> {
        // A command in the last column is followed by its own words. Only the last column has words that are numbers and times.
        let is_other = |word: &str| number(word).is_some() || is_cpu_time(word);
        if self.command + 1 < self.names.len()
            && fields.get(self.command).is_some_and(|command| command.split_whitespace().skip(1).any(is_other))
        {
            return self.names.get(self.command).map(String::as_str);
        }
        let names = self.names.iter().zip(fields).enumerate().filter(|(at, _)| *at != self.command);
        // A command that is a time is below a header that lost a name.
        if fields.get(self.command).is_some_and(|command| is_cpu_time(command)) {
            return self.names.get(self.command).map(String::as_str);
        }
        names.map(|(_, pair)| pair).find(|(name, field)| !is_of_column(name, field)).map(|(name, _)| name.as_str())
    }

    fn is_task(&self, fields: &[String]) -> bool {
        self.pid(fields).is_some() || self.field(fields, &["PID"]) == Some("-")
    }
}

/// Returns true for `0:01.90`, `00:00:04`.
fn is_cpu_time(field: &str) -> bool {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    field.contains(':') && field.split([':', '.', '-']).all(is_digits)
}

/// Returns true if a field may be in a column. If ps prints a line for each thread, the field is `-` in some columns of the
/// process.
fn is_of_column(name: &str, field: &str) -> bool {
    let is_number = |field: &str| field.starts_with(|c: char| c.is_ascii_digit() || c == '.') && !field.contains(':');
    field == "-"
        || match name {
            "PID" | "PPID" | "LWP" | "TID" | "SPID" => field.bytes().all(|b| b.is_ascii_digit()),
            "%CPU" | "%MEM" | "C" | "NLWP" | "THCNT" | "VSZ" | "RSS" | "VIRT" | "RES" | "SHR" => is_number(field),
            // Number of a CPU, unless it is a share: pidstat prints both.
            "CPU" => field.parse::<f64>().is_err() || !field.contains('.'),
            "NI" => is_number(field.trim_start_matches('-')),
            // An address has more digits.
            "WCHAN" => field.len() > 3 || field.bytes().any(|b| !b.is_ascii_digit()),
            "STARTED" => field.contains(':') || !field.contains(' '),
            // top prints hours, days and weeks if minutes do not fit (procps, scale_tics).
            "TIME" | "TIME+" => {
                field.starts_with(|c: char| c.is_ascii_digit())
                    && (field.contains([':', ',', '-']) || field.ends_with(['h', 'd', 'w']))
            }
            // ps(1), PROCESS STATE CODES
            "S" | "STAT" => field.starts_with(|c| "DIRSTtWXZxKPN?".contains(c)) && !field.contains(['.', ':']),
            _ => true,
        }
}

/// Takes the rows of a table. Each is a process, or a thread of the process above it if its PID is `-`.
///
/// # Errors
/// Fails at a row with fewer fields than the header has columns.
pub fn read_tasks(
    lines: &mut Lines<'_>,
    run: &mut ToolRun,
    interval: ReportInterval,
    columns: &TaskColumns,
    kind: TaskKind,
) -> ReadResult {
    let mut listed = ListedThreads::new();
    let kind = match kind {
        TaskKind::Unknown if share_memory(lines, columns) => TaskKind::Threads,
        kind => kind,
    };
    let result = read_rows(lines, run, interval, columns, kind, &mut listed);
    for (group, threads) in listed {
        record_group(run, interval, columns, &group, threads);
    }
    result
}

/// Returns true if two of top's rows have the same memory, as threads of one process do.
fn share_memory(lines: &mut Lines<'_>, columns: &TaskColumns) -> bool {
    /// Number of rows to look at.
    const MOST: usize = 300;
    let mut seen = BTreeSet::new();
    for at in 0..MOST {
        let Some(text) = lines.peek(at).filter(|text| !text.trim().is_empty()) else { break };
        let fields = columns.joined(crate::table::words(text));
        let sizes: Option<Vec<String>> =
            ["VIRT", "RES", "SHR"].iter().map(|name| columns.field(&fields, &[name]).map(str::to_owned)).collect();
        let Some(sizes) = sizes.filter(|_| columns.is_task(&fields)) else { break };
        if sizes.iter().all(|size| size != "0") && !seen.insert(sizes) {
            return true;
        }
    }
    false
}

fn read_rows(
    lines: &mut Lines<'_>,
    run: &mut ToolRun,
    interval: ReportInterval,
    columns: &TaskColumns,
    kind: TaskKind,
    listed: &mut ListedThreads,
) -> ReadResult {
    let mut process: Option<(u32, String)> = None;
    let mut started = false;
    let mut rows = 0;
    let mut was_refused = false;
    let mut wrap = lines.wrap();
    let begins = |line: &str| columns.is_task(&columns.joined(crate::table::words(line)));
    while let Some((count, TextLine { text, .. })) = lines.peek_whole(&mut wrap, run.tool, begins) {
        // ps -m prints a blank line after the header; top ends its table with one.
        if text.trim().is_empty() {
            if started && !continues_after_blank(lines, columns) {
                break;
            }
            lines.skip(1);
            continue;
        }
        let read = row(lines, columns, &text, count);
        let Some(read) = lines.keep(read)? else {
            (started, was_refused) = (true, true);
            lines.skip(count);
            continue;
        };
        let Some((count, fields)) = read else {
            // A piece that was broken off a row does not end the table.
            let is_piece = was_refused && lines.peek(count).is_some_and(begins);
            if !is_piece {
                break;
            }
            was_refused = false;
            let refusal = lines.refuse("a row of the table");
            lines.keep(Err::<(), _>(refusal))?;
            lines.skip(count);
            continue;
        };
        was_refused = false;
        let task = ListedTask::new(lines.number(), columns, fields);
        rows += 1;
        if rows > MOST_ROWS {
            lines.skip(count);
            continue;
        }
        if let (Some(pid), Some(_)) = (task.pid, task.tid) {
            listed.entry(ThreadGroup::Process(pid)).or_default().push(task);
        } else if let Some(pid) = task.pid {
            // Kernel threads have no memory and do not form a group.
            if kind == TaskKind::Threads && columns.field(&task.fields, &["VIRT"]) != Some("0") {
                let memory =
                    ["USER", "VIRT", "RES", "SHR"].map(|name| columns.field(&task.fields, &[name]).map(str::to_owned));
                let command = columns.thread_name(&task.fields).unwrap_or(task.command);
                let task = ListedTask { tid: Some(pid), command, ..task };
                listed.entry(ThreadGroup::SameMemory(memory)).or_default().push(task);
            } else {
                record_process(run, interval, columns, pid, &task);
                process = Some((pid, task.command));
            }
        } else if let Some((pid, command)) = &process {
            // The TID is not printed: the line identifies the thread.
            let key = TaskKey { pid: *pid, tid: 0, start: u64::from(task.line) };
            run.row::<Process>(interval.to, 0, self::process(*pid)).threads = 2.0.into();
            record_thread(run, interval, columns, key, &ListedTask { command: command.clone(), ..task });
        }
        started = true;
        lines.skip(count);
    }
    Ok(())
}

/// Threads that belong together.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum ThreadGroup {
    Process(u32),
    /// User and sizes: top -H does not show the process.
    SameMemory([Option<String>; 4]),
}

type ListedThreads = BTreeMap<ThreadGroup, Vec<ListedTask>>;

/// A row of the table.
struct ListedTask {
    line: u32,
    pid: Option<u32>,
    tid: Option<u32>,
    command: String,
    /// Share of one CPU.
    cpu: Option<f64>,
    fields: Vec<String>,
}

impl ListedTask {
    fn new(line: u32, columns: &TaskColumns, fields: Vec<String>) -> Self {
        Self {
            line,
            pid: columns.pid(&fields),
            tid: columns.tid(&fields),
            command: columns.command(&fields),
            cpu: columns.field(&fields, &["%CPU", "C"]).and_then(number).map(|percent| percent / 100.0),
            fields,
        }
    }
}

/// CPU use of the first thread. procps 4.0 prints for it the use of all threads. If its use is as high as that of all others
/// together, it may be that sum, and then its own use is unknown.
#[derive(Clone, Copy, PartialEq)]
enum FirstThread {
    AsPrinted,
    /// The printed value cannot be that of one thread, and all threads that used anything are listed.
    Remainder(f64),
    Unknown,
}

impl FirstThread {
    fn new(first: u32, threads: &[ListedTask]) -> Self {
        /// Tolerance: shares are rounded, and the files of threads are read one after another.
        const NEARLY: f64 = 0.9;
        /// Range around one full CPU, the maximum for a thread.
        const FULL: std::ops::RangeInclusive<f64> = 0.95..=1.05;
        /// Use below which threads do not matter: a list that reaches down to such threads is complete.
        const IDLE: f64 = 0.01;
        let others = || threads.iter().filter(|t| t.tid != Some(first)).filter_map(|t| t.cpu);
        let sum: f64 = others().sum();
        let Some(own) = threads.iter().find(|t| t.tid == Some(first)).and_then(|t| t.cpu) else {
            return Self::AsPrinted;
        };
        if sum <= 0.0 || own < NEARLY * sum {
            Self::AsPrinted
        } else if own > *FULL.end() {
            let is_whole = others().any(|cpu| cpu <= IDLE);
            if is_whole { Self::Remainder((own - sum).max(0.0)) } else { Self::Unknown }
        } else if FULL.contains(&own) && own >= 2.0 * sum {
            // It would be a coincidence if the sum of several threads were exactly one CPU.
            Self::AsPrinted
        } else {
            Self::Unknown
        }
    }
}

fn record_group(
    run: &mut ToolRun,
    interval: ReportInterval,
    columns: &TaskColumns,
    group: &ThreadGroup,
    mut threads: Vec<ListedTask>,
) {
    let first = match group {
        ThreadGroup::Process(pid) => *pid,
        ThreadGroup::SameMemory(_) => threads.iter().filter_map(|t| t.tid).min().unwrap_or_default(),
    };
    let of_first = FirstThread::new(first, &threads);
    if let Some(row) = threads.iter_mut().find(|t| t.tid == Some(first)) {
        match of_first {
            FirstThread::AsPrinted => {}
            FirstThread::Remainder(cpu) => row.cpu = Some(cpu),
            FirstThread::Unknown => row.cpu = None,
        }
    }
    for task in &threads {
        let tid = task.tid.unwrap_or_default();
        if let ThreadGroup::Process(pid) = group {
            record_thread(run, interval, columns, TaskKey { pid: *pid, tid, start: 0 }, task);
        } else {
            // It stands for a process with one thread. The memory in its row is that of the whole process.
            let row = record_process(run, interval, columns, tid, task);
            row.threads = 1.0.into();
            (row.rss, row.virtual_size) = (Gauge::default(), Gauge::default());
        }
    }
    let own = threads.iter().find(|t| t.tid == Some(first)).or(threads.first());
    let (ThreadGroup::Process(pid), Some(own)) = (group, own) else { return };
    let listed = threads.len() as f64;
    let count = columns.field(&own.fields, &["NLWP", "THCNT"]).and_then(number);
    // A process with unlisted threads used more than their sum.
    let is_whole = count == Some(listed) && of_first != FirstThread::Unknown;
    let cpu = threads.iter().map(|t| t.cpu).sum::<Option<f64>>().filter(|_| is_whole);
    // Threads may have names of their own. The process has the name of its first thread, unless that row is missing.
    let are_alike = || threads.len() > 1 && threads.iter().all(|thread| thread.command == own.command);
    let is_known = own.tid == Some(first) || are_alike();
    let command = if is_known { own.command.clone() } else { String::new() };
    let of_process = ListedTask { cpu, line: own.line, command, fields: own.fields.clone(), ..*own };
    let row = record_process(run, interval, columns, *pid, &of_process);
    row.threads = count.unwrap_or(listed).max(listed).into();
    if own.tid != Some(first) {
        (row.state, row.wait_channel) = (State::default(), State::default());
    }
    if !is_known {
        row.command = State::default();
    }
}

fn continues_after_blank(lines: &mut Lines<'_>, columns: &TaskColumns) -> bool {
    let Some((_, next)) = lines.peek_past_blanks(0) else { return false };
    let fields = crate::table::words(next);
    fields.len() >= columns.names.len() && columns.is_task(&fields)
}

/// Returns the number of lines of a row and its fields, or `None` at the end of the table. Adds a command on the next line.
fn row(
    lines: &mut Lines<'_>,
    columns: &TaskColumns,
    text: &str,
    mut count: usize,
) -> Result<Option<(usize, Vec<String>)>, Refusal> {
    let mut fields = columns.joined(crate::table::words(text));
    if !columns.is_task(&fields) {
        return Ok(None);
    }
    let want = columns.names.len();
    if fields.len() + 1 == want
        && let Some(rest) = lines.peek(count).filter(|l| l.split_whitespace().count() == 1).map(str::to_owned)
    {
        count += 1;
        fields.push(rest.trim().to_owned());
    }
    if fields.len() < want {
        return Err(lines.refuse(format!("{want} columns as in the header ({})", columns.names.join(" "))));
    }
    if let Some(name) = columns.misfit(&fields) {
        return Err(
            lines.refuse(format!("fields of the columns {}: there is another in {name}", columns.names.join(" ")))
        );
    }
    if columns.field(&fields, &THREADS).is_some_and(|tid| tid != "-" && tid.parse::<u32>().is_err()) {
        return Err(lines.refuse("the number of a thread"));
    }
    Ok(Some((count, fields)))
}

fn record_process<'r>(
    run: &'r mut ToolRun,
    interval: ReportInterval,
    columns: &TaskColumns,
    pid: u32,
    task: &ListedTask,
) -> &'r mut Process {
    let ListedTask { line, command, cpu, fields, .. } = task;
    let cpu_time = ("cpu_time", cpu.map(|share| share * SECOND));
    let row = run.grow::<Process>(interval, *line, process(pid), &[cpu_time]);
    row.command = command.as_str().into();
    row.state = state(columns, fields);
    row.rss = columns.field(fields, &["RES", "RSS"]).and_then(|size| scaled(size, KIB, KIB)).into();
    row.virtual_size = columns.field(fields, &["VIRT", "VSZ"]).and_then(|size| scaled(size, KIB, KIB)).into();
    row.nice = columns.field(fields, &["NI"]).and_then(signed).into();
    row.parent = columns.field(fields, &["PPID"]).and_then(number).into();
    if let Some(channel) = wait_channel(columns, fields) {
        row.wait_channel = channel.into();
    }
    // Kernel threads have no memory of their own, and no arguments.
    let no_memory = row.virtual_size.get().map(|size| size == 0.0);
    let is_kernel_thread = no_memory.or_else(|| columns.is_child_of_kthreadd(pid, fields).then_some(true));
    row.kernel_thread = is_kernel_thread.map(|is_one| f64::from(u8::from(is_one))).into();
    record_guest(run, interval.to, *line, command, || columns.words(fields).map(str::to_owned).collect(), process(pid));
    run.row(interval.to, *line, process(pid))
}

/// Records the virtual machine that a process with the name `command` runs, and its disks. If the end of the line was cut off,
/// options may be missing, so nothing else is assumed to have its default.
pub fn record_guest(
    run: &mut ToolRun,
    at: f64,
    line: u32,
    command: &str,
    words: impl FnOnce() -> Vec<String>,
    task: TaskKey,
) {
    if !qemu::may_be_qemu(command) {
        return;
    }
    let words = words();
    let Some(GuestConfig { guest, disks, .. }) = qemu::guest(task, &words).filter(|_| words.len() > 1) else { return };
    run.put(at, line, Guest { name: guest.name, uuid: guest.uuid, ..Guest::new(task) });
    for disk in disks {
        let GuestDisk { model, controller, io_thread, file, serial, wwn, .. } = disk;
        run.put(at, line, GuestDisk { model, controller, io_thread, file, serial, wwn, ..GuestDisk::new(disk.disk) });
    }
}

fn record_thread(run: &mut ToolRun, interval: ReportInterval, columns: &TaskColumns, key: TaskKey, task: &ListedTask) {
    let ListedTask { line, command, cpu, fields, .. } = task;
    let row = run.grow::<Thread>(interval, *line, key, &[("cpu_time", cpu.map(|share| share * SECOND))]);
    row.command = command.as_str().into();
    row.state = state(columns, fields);
    row.nice = columns.field(fields, &["NI"]).and_then(signed).into();
    row.processor = columns.field(fields, &["PSR", "P"]).and_then(number).into();
    if let Some(channel) = wait_channel(columns, fields) {
        row.wait_channel = channel.into();
    }
}

fn wait_channel<'f>(columns: &TaskColumns, fields: &'f [String]) -> Option<&'f str> {
    columns.field(fields, &["WCHAN"]).filter(|channel| !["-", "0"].contains(channel))
}

/// Returns the first letter of the state: `Ss+` is sleeping.
fn state(columns: &TaskColumns, fields: &[String]) -> State {
    let state = columns.field(fields, &["S", "STAT"]);
    match state.and_then(|s| s.chars().next()).filter(char::is_ascii_alphabetic) {
        Some(letter) => letter.to_string().into(),
        None => State::default(),
    }
}

fn signed(field: &str) -> Option<f64> {
    match field.strip_prefix('-') {
        Some(rest) => number(rest).map(|n| -n),
        None => number(field),
    }
}
