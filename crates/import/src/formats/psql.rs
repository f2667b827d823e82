//! Tables of psql(1), aligned or expanded (\x): pg_stat_activity, pg_stat_database, pg_stat_bgwriter and pg_stat_checkpointer
//! of PostgreSQL (monitoring-stats.html).

use crate::clock::date;
use crate::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::Database;

pub const FORMAT: Format = Format {
    name: "psql",
    versions: "PostgreSQL 9.2 to 18: pg_stat_activity, pg_locks, pg_stat_database, pg_stat_bgwriter, pg_stat_checkpointer; aligned and \\x",
    shows: "what sessions wait for, transactions that are left open, the hit ratio of the buffers, temporary files, forced checkpoints",
    lacks: "rates: counts are those since the last reset; how long a session has waited, only how long its statement runs",
    programs: &[partly_read("psql")],
    starts: |lines| table_that_starts(lines).is_some(),
    read,
    ..Format::NEW
};

/// Name of the server in findings; its databases have their own names.
const SERVER: &str = "PostgreSQL";
/// Bytes of a block, unless the server was built with another size (BLCKSZ).
const BLOCK: f64 = 8.0 * KIB;
/// Maximum number of columns of a view.
const MOST_COLUMNS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Activity,
    Locks,
    Database,
    Writer,
    Checkpointer,
}

impl View {
    /// Columns that identify a view.
    const COLUMNS: [(Self, &'static [&'static str]); 8] = [
        (Self::Activity, &["pid", "state"]),
        // `select count(*), state, wait_event_type, wait_event ... group by 2, 3, 4`
        (Self::Activity, &["count", "state", "wait_event_type"]),
        (Self::Activity, &["pid", "wait_event_type"]),
        (Self::Activity, &["waiting", "state"]),
        (Self::Locks, &["locktype", "mode", "granted"]),
        (Self::Database, &["datname", "blks_read", "blks_hit"]),
        (Self::Writer, &["checkpoints_timed", "checkpoints_req"]),
        (Self::Checkpointer, &["num_timed", "num_requested"]),
    ];

    fn from_columns(columns: &[String]) -> Option<Self> {
        let has_all = |wanted: &[&str]| wanted.iter().all(|name| columns.iter().any(|column| column == name));
        Self::COLUMNS.iter().find(|(_, wanted)| has_all(wanted)).map(|(view, _)| *view)
    }
}

/// Header of a table.
struct Table {
    view: View,
    /// Column names; empty if the table is expanded, since there each row has the names.
    columns: Vec<String>,
}

/// Tool name of a run whose list of sessions may be incomplete.
const FEW_SESSIONS: &str = "psql, some sessions";

fn cells(line: &str) -> Vec<String> {
    line.split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// Returns true for `-------+-----+---`.
fn is_ruler(line: &str) -> bool {
    line.contains("-+-") && line.trim().bytes().all(|b| b == b'-' || b == b'+')
}

/// Returns true for `-[ RECORD 1 ]----+-----`.
fn is_record(line: &str) -> bool {
    line.trim_start().starts_with("-[ RECORD ")
}

fn table_that_starts(lines: &mut Lines<'_>) -> Option<Table> {
    let first = lines.peek(0)?;
    if is_record(first) {
        let mut names = Vec::new();
        for at in 1..MOST_COLUMNS {
            let Some((name, _)) = lines.peek(at).filter(|line| !is_record(line)).and_then(|line| line.split_once('|'))
            else {
                break;
            };
            names.push(name.trim().to_owned());
        }
        return View::from_columns(&names).map(|view| Table { view, columns: Vec::new() });
    }
    if !first.contains('|') {
        return None;
    }
    let columns = cells(first);
    let ruled = lines.peek(1).is_some_and(|line| is_ruler(line) && line.matches('+').count() + 1 == columns.len());
    let view = View::from_columns(&columns).filter(|_| ruled)?;
    Some(Table { view, columns })
}

/// A row of a view, by column name.
pub(super) struct ViewRow {
    pub line: u32,
    pub values: BTreeMap<String, String>,
}

impl ViewRow {
    fn text(&self, column: &str) -> Option<&str> {
        self.values.get(column).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn number(&self, column: &str) -> Option<f64> {
        number(self.text(column)?)
    }

    /// Returns the column as seconds since 1970.
    fn time(&self, column: &str) -> Option<f64> {
        timestamp(self.text(column)?)
    }
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let Some(table) = table_that_starts(lines) else { return Err(lines.refuse("a table of psql")) };
    let (mut rows, are_all) = if table.columns.is_empty() { expanded(lines) } else { aligned(lines, &table.columns)? };
    if table.view == View::Activity {
        name_wait_types(&mut rows);
        split_waits(&mut rows);
    }
    let are_all = are_all && (table.view != View::Activity || rows.iter().all(has_known_state));
    match table.view {
        View::Activity if !are_all => run.note(
            "what the sessions of PostgreSQL do",
            "some of their rows cannot be read, and the others are no whole",
            "give the view again, unchanged",
        ),
        View::Activity => activity(&rows, run),
        View::Locks => locks(&rows, run),
        View::Database => databases(&rows, run),
        View::Writer | View::Checkpointer => rows.iter().for_each(|row| writer(row, run)),
    }
    Ok(())
}

/// States of a session (monitoring-stats.html).
const STATES: [&str; 8] = [
    "active",
    "idle",
    "idle in transaction",
    "idle in transaction (aborted)",
    "fastpath function call",
    "disabled",
    "starting",
    "<insufficient privilege>",
];

/// Types of wait events (monitoring-stats.html).
const WAIT_TYPES: [&str; 10] =
    ["Activity", "BufferPin", "Client", "Extension", "IO", "IPC", "InjectionPoint", "Lock", "LWLock", "Timeout"];

/// Restores the name of a column of wait types that the statement renamed: `wait_event_type as wt`.
fn name_wait_types(rows: &mut [ViewRow]) {
    let Some(first) = rows.first().filter(|row| !row.values.contains_key("wait_event_type")) else { return };
    let is_of_types = |column: &&String| {
        let values = || rows.iter().filter_map(|row| row.text(column));
        values().next().is_some() && values().all(|value| WAIT_TYPES.contains(&value))
    };
    let Some(column) = first.values.keys().find(is_of_types).cloned() else { return };
    for row in rows {
        let kind = row.values.get(&column).cloned().unwrap_or_default();
        row.values.insert("wait_event_type".to_owned(), kind);
    }
}

/// Splits the type and event of a wait into separate columns if the statement joined them: `wait_event_type||'/'||wait_event as
/// wait`.
fn split_waits(rows: &mut [ViewRow]) {
    let parts = |value: &str| {
        let (kind, event) = value.split_once(['/', ':', '.', ' '])?;
        let event = event.trim();
        let is_event = !event.is_empty() && event.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        (WAIT_TYPES.contains(&kind) && is_event).then(|| (kind.to_owned(), event.to_owned()))
    };
    let is_known = |row: &ViewRow| row.values.contains_key("wait_event_type");
    let Some(first) = rows.first().filter(|row| !is_known(row)) else { return };
    let is_joined = |column: &&String| {
        let values = || rows.iter().filter_map(|row| row.text(column));
        values().next().is_some() && values().all(|value| parts(value).is_some())
    };
    let Some(column) = first.values.keys().find(is_joined).cloned() else { return };
    for row in rows {
        let (kind, event) = row.text(&column).and_then(parts).unwrap_or_default();
        row.values.insert("wait_event_type".to_owned(), kind);
        row.values.insert("wait_event".to_owned(), event);
    }
}

/// Returns true if the state of a session is a known one; it may be missing only for server processes, which have no database.
fn has_known_state(row: &ViewRow) -> bool {
    let has_both = row.text("wait_event").is_some() == row.text("wait_event_type").is_some();
    if row.values.contains_key("wait_event") && row.values.contains_key("wait_event_type") && !has_both {
        return false;
    }
    match row.text("state") {
        Some(state) => STATES.iter().any(|known| state.split_whitespace().eq(known.split_whitespace())),
        None => row.text("datname").is_none(),
    }
}

/// Reads the rows of an expanded table. Returns true with them if they are complete.
fn expanded(lines: &mut Lines<'_>) -> (Vec<ViewRow>, bool) {
    let mut rows: Vec<ViewRow> = Vec::new();
    let is_from_first = lines.next_is(|line| line.contains("RECORD 1 "));
    let mut is_mixed = false;
    while let Some(line) = lines.take_if(|text| is_record(text) || (text.contains('|') && !is_command(text))) {
        if is_record(&line.text) {
            rows.push(ViewRow { line: line.number, values: BTreeMap::new() });
        } else if let Some((name, value)) = line.text.split_once('|')
            && let Some(row) = rows.last_mut()
        {
            // Further lines of a value have no name. A repeated name belongs to a record whose title was lost or joined.
            is_mixed |= value.contains("-[ RECORD ") || row.values.contains_key(name.trim());
            if !name.trim().is_empty() {
                // If two columns have the same name, the first was requested by name.
                row.values.entry(name.trim().to_owned()).or_insert_with(|| value.trim().to_owned());
            }
        }
    }
    let is_complete = |row: &ViewRow| rows.iter().all(|other| other.values.len() <= row.values.len());
    let are_all = rows.iter().all(is_complete) && !lines.peek_past_blanks(0).is_some_and(|(_, next)| is_record(next));
    // A line that does not continue the record may be the rest of a broken line.
    let goes_on = |next: &str| {
        is_record(next) || next.contains('|') && !is_command(next) && View::from_columns(&cells(next)).is_none()
    };
    let is_cut = lines.next_is(|next| !next.trim().is_empty())
        && (1..3).any(|at| lines.peek(at).is_some_and(goes_on))
        && !lines.next_is(is_command);
    (rows, is_from_first && are_all && !is_mixed && !is_cut)
}

/// Reads the rows of an aligned table. Returns true with them if they are complete.
fn aligned(lines: &mut Lines<'_>, columns: &[String]) -> Result<(Vec<ViewRow>, bool), Refusal> {
    lines.skip(2);
    let mut rows = Vec::new();
    let mut are_all = true;
    // Numbers of rows that are not read, and of lines that continue the previous one.
    let (mut background, mut further) = (0, 0);
    let mut goes_on = false;
    while let Some(line) = lines.take_if(|text| (text.contains('|') && !is_command(text)) || is_unframed(text)) {
        // Background processes have no database and no statement.
        if is_unframed(&line.text) {
            background += 1;
            continue;
        }
        further += usize::from(goes_on);
        goes_on = line.text.trim_end().ends_with('+');
        let fields = cells(&line.text);
        let row = joined(fields, columns).ok_or_else(|| {
            lines.refuse_at(&line, format!("{} columns as in the header ({})", columns.len(), columns.join(" ")))
        });
        let Some(fields) = lines.keep(row)? else {
            are_all = false;
            continue;
        };
        let values = columns.iter().cloned().zip(fields).collect();
        rows.push(ViewRow { line: line.number, values });
    }
    // `(11 rows)`
    let count = lines.take_if(|text| text.trim_start().starts_with('(') && text.contains(" row"));
    let count = count.and_then(|line| number(line.text.trim_start().trim_start_matches('(').split(' ').next()?));
    are_all &= count.is_none_or(|count| count == (rows.len() + background - further) as f64);
    Ok((rows, are_all))
}

/// Returns true if a row lost its separators: with an empty first and last cell, it looks like the row of a framed table.
fn is_unframed(text: &str) -> bool {
    let is_row = text.contains("  ") && text.split_whitespace().next().and_then(number).is_some();
    is_row && !text.contains('|')
}

/// Returns the fields of a row, one for each column. A statement may contain the separator itself.
fn joined(mut fields: Vec<String>, columns: &[String]) -> Option<Vec<String>> {
    if let Some(surplus) = fields.len().checked_sub(columns.len()).filter(|surplus| *surplus > 0) {
        let query = columns.iter().position(|column| column == "query")?;
        let parts: Vec<String> = fields.splice(query..=query + surplus, [String::new()]).collect();
        fields[query] = parts.join("|");
    }
    (fields.len() == columns.len()).then_some(fields)
}

/// Converts `2026-11-25 17:58:35.42+00` or `2026-11-25 17:58:35+05:30` to seconds since 1970.
fn timestamp(text: &str) -> Option<f64> {
    let (day, rest) = text.split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let sign = rest.find(['+', '-']);
    let (time, zone) = rest.split_at(sign.unwrap_or(rest.len()));
    let printed = clock::PrintedTime {
        date: date(day),
        time: clock::time_of_day(&[time]).map(|(seconds, _)| seconds),
        ..clock::PrintedTime::default()
    };
    let mut parts = zone.trim_start_matches(['+', '-']).split(':').map(|part| number(part).unwrap_or(0.0));
    let ahead = parts.next().unwrap_or(0.0) * 3600.0 + parts.next().unwrap_or(0.0) * 60.0;
    printed.since_1970().map(|local| if zone.starts_with('-') { local + ahead } else { local - ahead })
}

/// Parses an interval into seconds: `00:00:22.47`, `1 day 02:03:04`, `3 days`.
fn interval(text: &str) -> Option<f64> {
    let (days, time) = match text.split_once(" day") {
        Some((days, rest)) => (number(days)?, rest.trim_start_matches('s').trim()),
        None => (0.0, text),
    };
    let seconds = if time.is_empty() {
        0.0
    } else {
        time.split(':').map(number).try_fold(0.0, |sum, part| Some(sum * 60.0 + part?))?
    };
    (time.is_empty() || time.matches(':').count() == 2).then_some(days * clock::DAY + seconds)
}

/// Records what the sessions do.
pub(super) fn activity(rows: &[ViewRow], run: &mut ToolRun) {
    // The statement that shows the view starts when the view is shown.
    let are_known = rows.iter().all(|row| row.text("query_start").is_none() || row.time("query_start").is_some());
    let began = rows.iter().filter_map(|row| row.time("query_start")).reduce(f64::max).filter(|_| are_known);
    let now = rows.iter().find_map(|row| row.time("now")).or(began);
    let since = |row: &ViewRow, column: &str| Some((now? - row.time(column)?).max(0.0));
    // Among the ages of transaction, statement and state, the age of the state is the shortest. The age of the connection and
    // times of day are irrelevant.
    const AGES: [&str; 7] = ["age", "idle", "state", "xact", "since", "duration", "for"];
    let is_age =
        |name: &str| !name.contains("backend") && !name.contains("start") && AGES.iter().any(|age| name.contains(age));
    let state_age = |row: &ViewRow| {
        let ages = row.values.iter().filter(|(name, value)| is_age(name) && value.contains(':'));
        ages.filter_map(|(_, value)| interval(value)).reduce(f64::min)
    };
    let age = |row: &ViewRow| interval(row.text("xact_age").or_else(|| row.text("transaction_age"))?);
    let mut seen = Activity::default();
    let mut lines = (u32::MAX, 0);
    for row in rows {
        // A row is one session, or as many as it counts.
        let sessions = match row.values.get("count") {
            Some(count) if !row.values.contains_key("pid") => number(count),
            _ => Some(1.0),
        };
        let Some(sessions) = sessions else { continue };
        lines = (lines.0.min(row.line), lines.1.max(row.line));
        let state = row.text("state").unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        if state.is_empty() || row.text("query").is_some_and(|query| query.contains("pg_stat_activity")) {
            continue;
        }
        seen.oldest = longer(longer(seen.oldest, since(row, "xact_start")), age(row));
        if state.starts_with("idle in transaction") {
            seen.idle += sessions;
            let idle = since(row, "state_change").or_else(|| state_age(row));
            if seen.idle_session.is_none() || idle > seen.oldest_idle {
                seen.idle_session = session(row);
            }
            seen.oldest_idle = longer(seen.oldest_idle, idle);
        }
        if state == "active" {
            seen.active += sessions;
            seen.wait(row, sessions, since(row, "query_start"));
        }
    }
    if lines.1 == 0 || rows.iter().all(|row| row.text("state").is_none()) {
        return;
    }
    if rows.iter().any(|row| row.values.contains_key("wait_event_type")) {
        seen.knows_waits = true;
    }
    run.row::<Database>(0.0, lines.0, SERVER.into());
    let row = run.row(0.0, lines.1, SERVER.into());
    seen.record(row);
    // A list without the waits may show only the first few: `order by xact_start limit 5`.
    let are_counted = rows.iter().any(|row| ["count", "waiting"].iter().any(|column| row.values.contains_key(*column)));
    if !seen.knows_waits && !are_counted {
        row.sessions = None::<f64>.into();
        // This run completes what is known about the same time.
        run.tool = FEW_SESSIONS;
    }
}

/// Returns the name of a session: `18233 (reporting-etl)`, from its process and its application, user or client.
fn session(row: &ViewRow) -> Option<String> {
    let pid = row.text("pid").or_else(|| row.text("procpid"))?;
    let names = ["application_name", "usename", "client_addr"];
    Some(match names.into_iter().find_map(|column| row.text(column)) {
        Some(name) => format!("{pid} ({name})"),
        None => pid.to_owned(),
    })
}

/// Records the sessions whose lock was not granted. A lock by `virtualxid` waits for another transaction.
fn locks(rows: &[ViewRow], run: &mut ToolRun) {
    let waiting = rows.iter().filter(|row| row.text("granted") == Some("f"));
    let sessions: BTreeSet<&str> = waiting.filter_map(|row| row.text("pid")).collect();
    if let Some(last) = rows.last() {
        let row = run.row::<Database>(0.0, last.line, SERVER.into());
        row.product = SERVER.into();
        row.lock_waiters = (sessions.len() as f64).into();
        let exclusive =
            |row: &&ViewRow| row.text("granted") == Some("f") && row.text("mode") == Some("AccessExclusiveLock");
        let tables: BTreeSet<&str> = rows.iter().filter(exclusive).filter_map(|row| row.text("relation")).collect();
        let waiting = rows.iter().any(|row| exclusive(&row));
        let row = run.row::<Database>(0.0, last.line, SERVER.into());
        row.exclusive_waiters = f64::from(u8::from(waiting)).into();
        if !tables.is_empty() {
            row.exclusive_of = tables.into_iter().collect::<Vec<_>>().join(", ").into();
        }
    }
}

/// Returns the longer of two times, as far as they are known.
fn longer(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    [a, b].into_iter().flatten().reduce(f64::max)
}

/// Sessions by activity.
#[derive(Default)]
struct Activity {
    active: f64,
    idle: f64,
    oldest: Option<f64>,
    oldest_idle: Option<f64>,
    /// Session that has been idle longest.
    idle_session: Option<String>,
    /// Whether the kind of each wait is known (since PostgreSQL 9.6).
    knows_waits: bool,
    locks: f64,
    longest: Option<f64>,
    io: f64,
    log: f64,
    latches: f64,
}

impl Activity {
    /// Counts the wait of an active session (monitoring-stats.html: wait events).
    fn wait(&mut self, row: &ViewRow, sessions: f64, running: Option<f64>) {
        let event = row.text("wait_event").unwrap_or_default();
        // Up to 9.5 there was only `waiting`, for locks.
        let kind = row
            .text("wait_event_type")
            .or_else(|| row.text("waiting").filter(|waiting| *waiting == "t").map(|_| "Lock"));
        let of_log = event.starts_with("WAL");
        match kind {
            Some("Lock") => {
                self.locks += sessions;
                self.longest = longer(self.longest, running);
            }
            Some("IO" | "LWLock" | "LWLockNamed" | "LWLockTranche") if of_log => self.log += sessions,
            Some("IO") => self.io += sessions,
            Some("LWLock" | "LWLockNamed" | "LWLockTranche") => self.latches += sessions,
            _ => {}
        }
    }

    fn record(&self, row: &mut Database) {
        row.product = SERVER.into();
        row.sessions = self.active.into();
        row.idle_transactions = self.idle.into();
        row.oldest_transaction = self.oldest.map(|seconds| seconds * SECOND).into();
        row.oldest_idle = self.oldest_idle.map(|seconds| seconds * SECOND).into();
        row.idle_session = self.idle_session.as_deref().into();
        row.lock_longest = self.longest.map(|seconds| seconds * SECOND).into();
        if self.knows_waits || self.locks > 0.0 {
            row.lock_waiters = self.locks.into();
        }
        if self.knows_waits {
            row.io_waiters = self.io.into();
            row.log_waiters = self.log.into();
            row.latch_waiters = self.latches.into();
        }
    }
}

fn databases(rows: &[ViewRow], run: &mut ToolRun) {
    for row in rows {
        // Shared objects have no database; templates are only copied.
        let Some(name) = row.text("datname").filter(|name| !name.starts_with("template")) else { continue };
        let database = run.row::<Database>(0.0, row.line, name.into());
        database.product = SERVER.into();
        let (read, hit) = (row.number("blks_read"), row.number("blks_hit"));
        database.blocks_read = read.into();
        let share =
            |part: Option<f64>, rest: Option<f64>| Some(part? / (part? + rest?)).filter(|share| share.is_finite());
        database.buffer_hit = share(hit, read).into();
        database.temp_bytes = row.number("temp_bytes").into();
        database.temp_share = share(row.number("temp_bytes"), read.map(|blocks| blocks * BLOCK)).into();
        // In milliseconds; 0 unless track_io_timing is on.
        if let Some(time) = row.number("blk_read_time").filter(|time| *time > 0.0) {
            database.read_wait = read.filter(|blocks| *blocks > 0.0).map(|blocks| time * NS_PER_MS / blocks).into();
            let active = row.number("active_time").filter(|active| *active > 0.0);
            database.read_share = active.map(|active| (time / active).min(1.0)).into();
        }
    }
}

fn writer(row: &ViewRow, run: &mut ToolRun) {
    let timed = row.number("checkpoints_timed").or_else(|| row.number("num_timed"));
    let requested = row.number("checkpoints_req").or_else(|| row.number("num_requested"));
    let server = run.row::<Database>(0.0, row.line, SERVER.into());
    server.product = SERVER.into();
    let all = timed.zip(requested).map(|(timed, requested)| timed + requested);
    server.checkpoints = all.into();
    server.checkpoints_requested = all.filter(|all| *all > 0.0).zip(requested).map(|(all, part)| part / all).into();
    let buffers = ["buffers_checkpoint", "buffers_clean", "buffers_backend"].map(|column| row.number(column));
    if let [Some(checkpoint), Some(clean), Some(backend)] = buffers {
        let all = checkpoint + clean + backend;
        server.backend_writes = Some(backend / all).filter(|share| share.is_finite()).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of, window_of};

    fn seconds(gauge: whyslow_model::value::Gauge) -> Option<f64> {
        gauge.get().map(|ns| (ns / SECOND * 10.0).round() / 10.0)
    }

    #[test]
    fn sessions_wait_for_a_lock_of_an_idle_transaction() {
        for file in ["psql-activity.txt", "psql-activity-x.txt"] {
            let row = row_of::<Database>(&fixture(file));
            assert_eq!(
                (&*row.instance, row.sessions.get(), row.lock_waiters.get()),
                ("PostgreSQL", Some(4.0), Some(4.0)),
                "{file}"
            );
            assert_eq!(
                (row.io_waiters.get(), row.log_waiters.get(), row.idle_transactions.get()),
                (Some(0.0), Some(0.0), Some(1.0))
            );
            assert!((20.0..21.0).contains(&seconds(row.lock_longest).unwrap()), "{:?}", row.lock_longest);
            assert!((22.0..23.0).contains(&seconds(row.oldest_idle).unwrap()), "{:?}", row.oldest_idle);
        }
    }

    #[test]
    fn an_age_is_taken_by_its_name() {
        let text = fixture("psql-activity-age.txt");
        assert_eq!(seconds(row_of::<Database>(&text).oldest_transaction), Some(22.5));
        let row = row_of::<Database>(&text.replace("xact_age", "age     "));
        assert_eq!((row.oldest_transaction.get(), row.lock_waiters.get()), (None, Some(4.0)));
    }

    #[test]
    fn type_and_event_of_a_wait_may_be_joined() {
        let text = " pid | state               | wait               | xact_age\n-----+---------------------+--------------------+----------\n\
            \x20  1 | idle in transaction | Client/ClientRead  | 01:52:40\n   2 | active              | Lock/transactionid | 00:04:59\n\
            \x20  3 | active              |                    | 00:00:01\n(3 rows)\n";
        let row = row_of::<Database>(text);
        assert_eq!(
            (row.sessions.get(), row.lock_waiters.get(), row.idle_transactions.get()),
            (Some(2.0), Some(1.0), Some(1.0))
        );
        let other = row_of::<Database>(&text.replace("Lock/transactionid", "not of a kind     "));
        assert_eq!(other.lock_waiters.get(), None);
    }

    #[test]
    fn waits_of_the_log_and_of_data_differ() {
        let text = " pid | state  | wait_event_type | wait_event | query\n-----+--------+-----------------+------------+-------\n\
            \x20  1 | active | IO              | WALSync    | COMMIT\n   2 | active | LWLock          | WALWrite   | select 'a|b' | 1\n\
            \x20  3 | active | IO              | DataFileRead | select +\n     |        |                 |            |  1\n\
            \x20  4 | active | LWLock          | BufferContent | x\n   5 | idle   | Client          | ClientRead | y\n(5 rows)\n";
        let row = row_of::<Database>(text);
        assert_eq!(
            (row.sessions.get(), row.log_waiters.get(), row.io_waiters.get()),
            (Some(4.0), Some(2.0), Some(1.0))
        );
        assert_eq!((row.latch_waiters.get(), row.lock_waiters.get()), (Some(1.0), Some(0.0)));
    }

    #[test]
    fn sessions_may_be_counted_by_what_they_wait_for() {
        let text = " count |        state        | wait_event_type |  wait_event\n-------+---------------------+-----------------+---------------\n\
            \x20   12 | active              | LWLock          | WALWrite\n     3 | active              |                 |\n     1 | idle in transaction | Client          | ClientRead\n\
            \x20  40 | idle                | Client          | ClientRead\n     5 |                     | Activity        | WalWriterMain\n(5 rows)\n";
        let row = row_of::<Database>(text);
        assert_eq!(
            (row.sessions.get(), row.log_waiters.get(), row.idle_transactions.get()),
            (Some(15.0), Some(12.0), Some(1.0))
        );
        assert_eq!((row.lock_waiters.get(), row.oldest_transaction.get()), (Some(0.0), None));
    }

    #[test]
    fn counts_of_a_database_become_shares() {
        for file in ["psql-database.txt", "psql-database-x.txt"] {
            let window = window_of(&fixture(file));
            let rows = window.newest::<Database>();
            let row = rows.values().find(|row| &*row.instance == "app").unwrap();
            assert!((row.buffer_hit.get().unwrap() - 0.962).abs() < 0.001, "{:?}", row.buffer_hit);
            assert_eq!(row.temp_bytes.get(), Some(211_433_024.0));
            assert!((row.temp_share.get().unwrap() - 0.213).abs() < 0.001, "{:?}", row.temp_share);
            assert!((row.read_share.get().unwrap() - 0.0232).abs() < 0.0001, "{:?}", row.read_share);
            assert!(rows.values().all(|row| !row.instance.starts_with("template")));
        }
    }

    #[test]
    fn checkpoints_are_requested_or_timed() {
        for file in ["psql-bgwriter.txt", "psql-bgwriter-x.txt"] {
            let row = row_of::<Database>(&fixture(file));
            assert_eq!((row.checkpoints.get(), row.checkpoints_requested.get()), (Some(25.0), Some(1.0)), "{file}");
            assert!((row.backend_writes.get().unwrap() - 0.638).abs() < 0.001, "{:?}", row.backend_writes);
        }
        let row = row_of::<Database>("-[ RECORD 1 ]-------+---\nnum_timed           | 30\nnum_requested       | 10\n");
        assert_eq!((row.checkpoints.get(), row.checkpoints_requested.get()), (Some(40.0), Some(0.25)));
    }

    #[test]
    fn times_and_intervals_are_read_with_zone_and_days() {
        assert_eq!(timestamp("2026-11-25 17:58:35.5+00"), timestamp("2026-11-25 23:28:35.5+05:30"));
        assert_eq!(timestamp("2026-11-25 12:58:35-05"), timestamp("2026-11-25 17:58:35+00"));
        assert_eq!(interval("1 day 00:00:30"), Some(86_430.0));
        assert_eq!((interval("3 days"), interval("00:01:30.5"), interval("90")), (Some(259_200.0), Some(90.5), None));
    }

    #[test]
    fn sessions_without_their_numbers_and_locks_that_are_not_granted() {
        let old = "          query_start          | waiting | state  | substr\n\
            -------------------------------+---------+--------+--------\n \
            2026-08-19 10:00:16.62+00 | f       | active | SELECT 1\n \
            2026-08-19 09:00:16.62+00 | t       | active | ALTER TABLE x\n";
        let row = row_of::<Database>(old);
        assert_eq!((row.sessions.get(), row.lock_waiters.get()), (Some(2.0), Some(1.0)));
        assert_eq!(row.lock_longest.get(), Some(3600e9));
        let locks = "-[ RECORD 1 ]------+--------------------\nrelation           | items\nlocktype           | relation\n\
            pid                | 106\nmode               | AccessExclusiveLock\ngranted            | f\n";
        let row = row_of::<Database>(locks);
        assert_eq!(
            (row.lock_waiters.get(), row.exclusive_waiters.get(), row.exclusive_of.get()),
            (Some(1.0), Some(1.0), Some("items"))
        );
        let shared = row_of::<Database>(&locks.replace("AccessExclusiveLock", "RowShareLock"));
        assert_eq!((shared.lock_waiters.get(), shared.exclusive_waiters.get()), (Some(1.0), Some(0.0)));
    }
}
