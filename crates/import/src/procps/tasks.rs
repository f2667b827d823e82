//! Tables of processes and threads, as top(1) and ps(1) draw them: by the names of their columns.

use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::{Run, SECOND, Step};
use whyslow_model::catalogue::{Process, Thread};
use whyslow_model::key::TaskKey;
use whyslow_model::value::State;

/// The columns of a table of tasks.
pub struct Columns {
    names: Vec<String>,
}

/// What a header must have, and names the last column may have: it holds spaces.
const COMMANDS: [&str; 3] = ["COMMAND", "CMD", "Command"];
const KIB: f64 = 1024.0;

impl Columns {
    /// The columns of this header.
    pub fn of(line: &str) -> Option<Self> {
        let names: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let has = |name: &str| names.iter().any(|n| n == name);
        let command = names.last().is_some_and(|last| COMMANDS.contains(&last.as_str()));
        (has("PID") && command && (has("%CPU") || has("C") || has("TIME"))).then_some(Self { names })
    }

    fn field<'f>(&self, fields: &[&'f str], name: &str) -> Option<&'f str> {
        fields.get(self.names.iter().position(|n| n == name)?).copied()
    }
}

/// Takes the rows of a table: a process each, or a thread of the process above it where its number is `-`.
///
/// # Errors
/// A row with fewer fields than the header has columns.
pub fn read(lines: &mut Lines<'_>, run: &mut Run, step: Step, columns: &Columns) -> Result<(), Refusal> {
    let mut process: Option<(u32, String)> = None;
    let mut started = false;
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        // ps -m leaves a blank line after the header; top ends its table with one.
        if text.trim().is_empty() && !(started && follows_blank(lines, columns)) {
            if started {
                break;
            }
            lines.skip(1);
            continue;
        }
        if text.trim().is_empty() {
            lines.skip(1);
            continue;
        }
        let Some(row) = row(lines, columns, &text)? else { break };
        let fields: Vec<&str> = row.iter().map(String::as_str).collect();
        let line = lines.number();
        match columns.field(&fields, "PID").and_then(|p| p.parse::<u32>().ok()) {
            Some(pid) => {
                let command = command(&fields[columns.names.len() - 1..]);
                tell(run, step, line, pid, &command, columns, &fields);
                process = Some((pid, command));
            }
            None => {
                if let Some((pid, command)) = &process {
                    thread(run, step, line, *pid, command, columns, &fields);
                }
            }
        }
        started = true;
        lines.skip(1);
    }
    Ok(())
}

/// Whether the table goes on after a blank line.
fn follows_blank(lines: &mut Lines<'_>, columns: &Columns) -> bool {
    let Some((_, next)) = lines.peek_past_blanks(0) else { return false };
    let next = next.to_owned();
    let fields: Vec<&str> = next.split_whitespace().collect();
    fields.len() >= columns.names.len() && is_task(columns, &fields)
}

fn is_task(columns: &Columns, fields: &[&str]) -> bool {
    columns.field(fields, "PID").is_some_and(|pid| pid == "-" || pid.parse::<u32>().is_ok())
}

/// The fields of a row, with a command that was wrapped to the next line; `None` where the table ends.
fn row(lines: &mut Lines<'_>, columns: &Columns, text: &str) -> Result<Option<Vec<String>>, Refusal> {
    let mut fields: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if !is_task(columns, &fields.iter().map(String::as_str).collect::<Vec<_>>()) {
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

/// A program's name without its folder and arguments, as the kernel would keep it.
fn command(fields: &[&str]) -> String {
    let first = fields.first().copied().unwrap_or_default();
    first.rsplit('/').next().filter(|n| !n.is_empty()).unwrap_or(first).to_owned()
}

/// Share of one processor: `%CPU`, or `C`, both whole numbers of a hundred.
fn cpu(columns: &Columns, fields: &[&str]) -> Option<f64> {
    let share = columns.field(fields, "%CPU").or_else(|| columns.field(fields, "C"))?;
    number(share).map(|percent| percent / 100.0 * SECOND)
}

fn key(pid: u32, tid: u32, start: u64) -> TaskKey {
    TaskKey { pid, tid, start }
}

fn tell(run: &mut Run, step: Step, line: u32, pid: u32, name: &str, columns: &Columns, fields: &[&str]) {
    let row = run.grow::<Process>(step, line, key(pid, pid, 0), &[("cpu_time", cpu(columns, fields))]);
    row.command = name.into();
    row.state = state(columns, fields);
    row.rss = columns.field(fields, "RES").or_else(|| columns.field(fields, "RSS")).and_then(memory).into();
    row.virtual_size = columns.field(fields, "VIRT").or_else(|| columns.field(fields, "VSZ")).and_then(memory).into();
    row.nice = columns.field(fields, "NI").and_then(signed).into();
    row.parent = columns.field(fields, "PPID").and_then(number).into();
    if let Some(channel) = columns.field(fields, "WCHAN").filter(|w| *w != "-") {
        row.wait_channel = channel.into();
    }
    // Kernel threads have no memory of their own.
    row.kernel_thread = row.virtual_size.get().map(|v| f64::from(u8::from(v == 0.0))).into();
}

/// A thread whose number is not told: the line tells it from the others.
fn thread(run: &mut Run, step: Step, line: u32, pid: u32, name: &str, columns: &Columns, fields: &[&str]) {
    run.row::<Process>(step.to, 0, key(pid, pid, 0)).threads = 2.0.into();
    let row = run.grow::<Thread>(step, line, key(pid, 0, u64::from(line)), &[("cpu_time", cpu(columns, fields))]);
    row.command = name.into();
    row.state = state(columns, fields);
    row.nice = columns.field(fields, "NI").and_then(signed).into();
}

/// The first letter: `Ss+` is asleep.
fn state(columns: &Columns, fields: &[&str]) -> State {
    let state = columns.field(fields, "S").or_else(|| columns.field(fields, "STAT"));
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

/// KiB, or with a unit: `13m`, `1.2g`.
fn memory(field: &str) -> Option<f64> {
    let (digits, unit) = match field.chars().last()? {
        'm' => (&field[..field.len() - 1], KIB * KIB),
        'g' => (&field[..field.len() - 1], KIB * KIB * KIB),
        't' => (&field[..field.len() - 1], KIB * KIB * KIB * KIB),
        _ => (field, KIB),
    };
    Some(number(digits)? * unit)
}
