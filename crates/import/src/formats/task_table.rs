//! Tables of processes and threads, as top(1) and ps(1) print them.

use crate::prelude::*;
use whyslow_model::catalogue::{Process, Thread};
use whyslow_model::value::State;

pub struct TaskColumns {
    names: Vec<String>,
}

/// Names of the last column, which contains spaces.
const COMMANDS: [&str; 3] = ["COMMAND", "CMD", "Command"];

impl TaskColumns {
    pub fn of(line: &str) -> Option<Self> {
        let names = crate::table::words(line);
        let has = |name: &str| names.iter().any(|n| n == name);
        // In another language top's own columns are known by their places.
        let is_top = names.len() == 12 && names[0] == "PID" && names[8] == "%CPU";
        let command = is_top || names.last().is_some_and(|last| COMMANDS.contains(&last.as_str()));
        (has("PID") && command && (has("%CPU") || has("C") || has("TIME"))).then_some(Self { names })
    }

    /// The field in the first of these columns that the table has.
    fn field<'f>(&self, fields: &'f [String], names: &[&str]) -> Option<&'f str> {
        let column = names.iter().find_map(|name| self.names.iter().position(|n| n == name))?;
        fields.get(column).map(String::as_str)
    }

    fn pid(&self, fields: &[String]) -> Option<u32> {
        self.field(fields, &["PID"])?.parse().ok()
    }

    fn is_task(&self, fields: &[String]) -> bool {
        self.pid(fields).is_some() || self.field(fields, &["PID"]) == Some("-")
    }
}

/// Takes the rows of a table: a process each, or a thread of the process above it if its number is `-`.
///
/// # Errors
/// A row with fewer fields than the header has columns.
pub fn read_tasks(
    lines: &mut Lines<'_>,
    run: &mut ToolRun,
    interval: ReportInterval,
    columns: &TaskColumns,
) -> ReadResult {
    let mut process: Option<(u32, String)> = None;
    let mut started = false;
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        // ps -m prints a blank line after the header; top ends its table with one.
        if text.trim().is_empty() {
            if started && !continues_after_blank(lines, columns) {
                break;
            }
            lines.skip(1);
            continue;
        }
        let Some(fields) = row(lines, columns, &text)? else { break };
        let line = lines.number();
        if let Some(pid) = columns.pid(&fields) {
            let command = command(&fields[columns.names.len() - 1]);
            record_process(run, interval, line, pid, &command, columns, &fields);
            process = Some((pid, command));
        } else if let Some((pid, command)) = &process {
            record_thread(run, interval, line, *pid, command, columns, &fields);
        }
        started = true;
        lines.skip(1);
    }
    Ok(())
}

fn continues_after_blank(lines: &mut Lines<'_>, columns: &TaskColumns) -> bool {
    let Some((_, next)) = lines.peek_past_blanks(0) else { return false };
    let fields = crate::table::words(next);
    fields.len() >= columns.names.len() && columns.is_task(&fields)
}

/// The fields of a row, with a command that was wrapped to the next line; `None` at the end of the table.
fn row(lines: &mut Lines<'_>, columns: &TaskColumns, text: &str) -> Result<Option<Vec<String>>, Refusal> {
    let mut fields = crate::table::words(text);
    if !columns.is_task(&fields) {
        return Ok(None);
    }
    let want = columns.names.len();
    if fields.len() + 1 == want
        && let Some(rest) = lines.peek(1).filter(|l| l.split_whitespace().count() == 1).map(str::to_owned)
    {
        lines.skip(1);
        fields.push(rest.trim().to_owned());
    }
    if fields.len() < want {
        return Err(lines.refuse(format!("{want} columns as in the header ({})", columns.names.join(" "))));
    }
    Ok(Some(fields))
}

/// A program's name without directory, as the kernel keeps it.
fn command(path: &str) -> String {
    path.rsplit('/').next().filter(|n| !n.is_empty()).unwrap_or(path).to_owned()
}

/// The share of one CPU.
fn cpu_time(columns: &TaskColumns, fields: &[String]) -> (&'static str, Option<f64>) {
    ("cpu_time", columns.field(fields, &["%CPU", "C"]).and_then(number).map(|percent| percent / 100.0 * SECOND))
}

fn record_process(
    run: &mut ToolRun,
    interval: ReportInterval,
    line: u32,
    pid: u32,
    name: &str,
    columns: &TaskColumns,
    fields: &[String],
) {
    let row = run.grow::<Process>(interval, line, process(pid), &[cpu_time(columns, fields)]);
    row.command = name.into();
    row.state = state(columns, fields);
    row.rss = columns.field(fields, &["RES", "RSS"]).and_then(|size| scaled(size, KIB, KIB)).into();
    row.virtual_size = columns.field(fields, &["VIRT", "VSZ"]).and_then(|size| scaled(size, KIB, KIB)).into();
    row.nice = columns.field(fields, &["NI"]).and_then(signed).into();
    row.parent = columns.field(fields, &["PPID"]).and_then(number).into();
    if let Some(channel) = columns.field(fields, &["WCHAN"]).filter(|w| *w != "-") {
        row.wait_channel = channel.into();
    }
    // Kernel threads have no memory of their own.
    row.kernel_thread = row.virtual_size.get().map(|v| f64::from(u8::from(v == 0.0))).into();
}

/// The thread's number is not printed: its line identifies it.
fn record_thread(
    run: &mut ToolRun,
    interval: ReportInterval,
    line: u32,
    pid: u32,
    name: &str,
    columns: &TaskColumns,
    fields: &[String],
) {
    run.row::<Process>(interval.to, 0, process(pid)).threads = 2.0.into();
    let task = TaskKey { pid, tid: 0, start: u64::from(line) };
    let row = run.grow::<Thread>(interval, line, task, &[cpu_time(columns, fields)]);
    row.command = name.into();
    row.state = state(columns, fields);
    row.nice = columns.field(fields, &["NI"]).and_then(signed).into();
}

/// The first letter: `Ss+` is sleeping.
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
