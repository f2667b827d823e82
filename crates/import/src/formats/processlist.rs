//! SHOW [FULL] PROCESSLIST of MySQL and MariaDB: activity of each session, and since when (sql/sql_show.cc:
//! mysqld_list_processes).

use crate::lines::TextLine;
use crate::prelude::*;
use whyslow_model::catalogue::Database;

pub const FORMAT: Format = Format {
    name: "SHOW PROCESSLIST",
    versions: "MySQL 4.1 to 9, MariaDB, Percona Server, mysqladmin processlist: also select * from information_schema.processlist: as a table, with \\G, or with tabs, as mysql -e prints it",
    shows: "sessions that wait for locks of tables, metadata and the whole server, and which of the others has run longest",
    lacks: "waits for locks of rows (SHOW ENGINE INNODB STATUS), and transactions of sessions that sleep",
    programs: &[partly_read("mysql"), partly_read("mariadb"), partly_read("mysqladmin")],
    files: &["processlist"],
    starts: |lines| {
        lines.next_is(|line| Layout::parse(line).is_some())
            || lines.next_is(is_record)
                && lines.peek(1).and_then(field).is_some_and(|(name, _)| name.eq_ignore_ascii_case(COLUMNS[0]))
                && lines.peek(2).and_then(field).is_some_and(|(name, _)| name.eq_ignore_ascii_case(COLUMNS[1]))
    },
    read,
    ..Format::NEW
};

/// Columns; information_schema.processlist has them in capitals.
const COLUMNS: [&str; 8] = ["id", "user", "host", "db", "command", "time", "state", "info"];
/// Name of the server, which the output does not contain.
const SERVER: &str = "MySQL";
/// Maximum number of lines of a statement.
const MOST_LINES: usize = 100;

/// Separation of the cells of a row.
enum Layout {
    Separated(char),
    /// By the start of each column name, because the lines of the frame were removed.
    Columns(Vec<usize>),
}

impl Layout {
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim_end().to_ascii_lowercase();
        line.split(['|', '\t', ' ']).filter(|word| !word.is_empty()).take(COLUMNS.len()).eq(COLUMNS).then_some(())?;
        if let Some(separator) = ['|', '\t'].into_iter().find(|separator| line.contains(*separator)) {
            return Some(Self::Separated(separator));
        }
        let begins: Vec<usize> = COLUMNS.iter().filter_map(|name| line.find(&format!("{name} "))).collect();
        // Nothing follows the last column.
        let last = line.rfind(COLUMNS[7])?;
        let begins: Vec<usize> = begins.into_iter().filter(|at| *at < last).chain([last]).collect();
        (begins.len() == COLUMNS.len() && begins.is_sorted()).then_some(Self::Columns(begins))
    }

    /// Returns the session of a row, which begins with its number. The inner `None` marks an incomplete row.
    fn row(&self, line: &str) -> Option<Option<Session>> {
        let mut cells: Vec<&str> = match self {
            // A row whose statement continues on the next line has kept its frame.
            _ if line.starts_with('|') => line.trim_start_matches('|').split('|').collect(),
            Self::Separated(separator) => line.split(*separator).collect(),
            Self::Columns(begins) => {
                let ends = begins.iter().skip(1).copied().chain([line.len()]);
                begins
                    .iter()
                    .zip(ends)
                    .map(|(from, to)| line.get(*from..to.min(line.len())).unwrap_or_default())
                    .collect()
            }
        };
        cells.iter_mut().for_each(|cell| *cell = cell.trim());
        cells.first().filter(|id| is_number(id))?;
        let is_whole = cells.len() >= COLUMNS.len() && number(cells[5]).is_some() && self.reaches_last(line);
        Some(is_whole.then(|| Session::from_cell(|at| cells[at])))
    }

    /// Returns true if a row is as long as its header: a row that a mail program broke is shorter.
    fn reaches_last(&self, line: &str) -> bool {
        match self {
            Self::Columns(begins) if !line.starts_with('|') => line.len() > begins[COLUMNS.len() - 1],
            _ => true,
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Returns true for `*************************** 1. row ***************************`, whose pairs of asterisks were already
/// removed as marks of bold text.
fn is_record(line: &str) -> bool {
    let title = line.trim().strip_prefix('*').and_then(|line| line.strip_suffix('*'));
    title.is_some_and(|title| title.trim_matches('*').trim().strip_suffix(". row").is_some_and(is_number))
}

/// Parses `  State: Sending data`.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    Some((name.trim(), value.trim()))
}

struct Session {
    id: String,
    user: String,
    seconds: f64,
    state: String,
    /// Whether it executes a statement, other than the one that lists the sessions.
    is_active: bool,
}

impl Session {
    fn from_cell<'t>(cell: impl Fn(usize) -> &'t str) -> Self {
        let is_list = cell(7).to_ascii_lowercase().contains("processlist");
        Self {
            id: cell(0).to_owned(),
            user: cell(1).to_owned(),
            seconds: number(cell(5)).unwrap_or(0.0).max(0.0),
            state: cell(6).to_owned(),
            is_active: ["Query", "Execute", "Fetch"].contains(&cell(4)) && !is_list,
        }
    }

    /// Returns true if it waits for a lock of a table or the server (sql/mdl.cc; 'Locked' before MySQL 5.5), or for the end of
    /// statements that use a table. Locks of GET_LOCK() are the application's own.
    fn is_locked(&self) -> bool {
        let waits = self.state.starts_with("Waiting for ") && self.state.contains(" lock");
        self.state == "Locked" || waits || self.state == "Waiting for table flush"
    }
}

/// Takes the sessions of a table.
fn rows(lines: &mut Lines<'_>, layout: &Layout) -> Result<Vec<Session>, Refusal> {
    let mut sessions = Vec::new();
    loop {
        // The lines of the frame are already blank, and a statement may have several lines.
        let is_end = |text: &str| text.contains(" in set (") || Layout::parse(text).is_some() || is_command(text);
        let is_rest = |text: &str| layout.row(text).is_none() && !is_end(text);
        let rest = (0..MOST_LINES).take_while(|at| lines.peek(*at).is_some_and(is_rest)).count();
        let Some(row) = lines.peek(rest).and_then(|text| layout.row(text)) else { return Ok(sessions) };
        lines.skip(rest);
        // Without this session, the list of the others is incomplete.
        let Some(session) = row else { return Err(lines.refuse("a session in eight columns")) };
        sessions.push(session);
        lines.skip(1);
    }
}

/// Takes the sessions of a list with a line for each field.
fn records(lines: &mut Lines<'_>) -> Vec<Session> {
    let mut sessions = Vec::new();
    while lines.take_if(is_record).is_some() {
        let mut values: [String; 8] = Default::default();
        let mut rest = 0;
        while let Some(TextLine { text, .. }) = lines.take_if(|text| {
            rest += 1;
            rest < MOST_LINES && !is_record(text) && !is_command(text) && !text.contains(" in set")
        }) {
            let known = field(&text).and_then(|(name, value)| {
                Some((COLUMNS.iter().position(|own| own.eq_ignore_ascii_case(name))?, value))
            });
            if let Some((at, value)) = known.filter(|(at, _)| values[*at].is_empty()) {
                values[at] = value.to_owned();
            }
        }
        sessions.push(Session::from_cell(|at| &values[at]));
    }
    sessions
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    let sessions = match lines.peek(0).and_then(Layout::parse) {
        Some(layout) => {
            lines.skip(1);
            rows(lines, &layout)?
        }
        None => records(lines),
    };
    let active: Vec<&Session> = sessions.iter().filter(|session| session.is_active).collect();
    let locked: Vec<&Session> = active.iter().copied().filter(|session| session.is_locked()).collect();
    let longest = locked.iter().map(|session| session.seconds).reduce(f64::max);
    let row = run.row::<Database>(0.0, begin, SERVER.into());
    row.product = SERVER.into();
    row.sessions = (active.len() as f64).into();
    row.lock_waiters = (locked.len() as f64).into();
    row.lock_longest = longest.map(|seconds| seconds * SECOND).into();
    let at_commit = active.iter().filter(|session| session.state.eq_ignore_ascii_case("waiting for handler commit"));
    row.log_waiters = (at_commit.count() as f64).into();
    // A session that has run at least as long as another has waited may hold its lock.
    let others = active.iter().filter(|session| !session.is_locked());
    let holder = others.max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    if let Some(holder) = holder.filter(|own| locked.iter().any(|waiter| waiter.seconds <= own.seconds)) {
        row.lock_holder = format!("{} ({})", holder.id, holder.user).as_str().into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of};

    fn seen(row: &Database) -> (Option<f64>, Option<f64>, Option<f64>, Option<&str>) {
        let seconds = row.lock_longest.get().map(|ns| ns / SECOND);
        (row.sessions.get(), row.lock_waiters.get(), seconds, row.lock_holder.get())
    }

    #[test]
    fn sessions_that_wait_for_a_table_and_who_may_hold_it() {
        let row = row_of::<Database>(&fixture("layouts/mysql-processlist.txt"));
        assert_eq!(seen(&row), (Some(4.0), Some(3.0), Some(38.0), Some("71 (report)")));
    }

    #[test]
    fn all_layouts_are_the_same() {
        let sessions = [
            [
                "5",
                "app",
                "10.0.0.1:3",
                "shop",
                "Query",
                "12",
                "Waiting for table metadata lock",
                "alter table t add c int",
            ],
            ["6", "app", "10.0.0.1:4", "NULL", "Sleep", "900", "", "NULL"],
            ["7", "report", "10.0.0.2:4", "shop", "Query", "340", "Sending data", "select a\nfrom t"],
            ["8", "root", "localhost", "NULL", "Query", "0", "starting", "show full processlist"],
        ];
        let line = |cells: &[&str], separator: &str| cells.join(separator) + "\n";
        let tabs: String =
            std::iter::once(line(&COLUMNS, "\t")).chain(sessions.iter().map(|s| line(s, "\t"))).collect();
        let record = |(at, session): (usize, &[&str; 8])| {
            let fields: String =
                COLUMNS.iter().zip(session).map(|(name, value)| format!("{name:>7}: {value}\n")).collect();
            let stars = "*".repeat(27);
            format!("{stars} {}. row {stars}\n{fields}", at + 1)
        };
        let records: String = sessions.iter().enumerate().map(record).collect();
        let capitals = COLUMNS.join("\t").to_uppercase() + "\n" + tabs.split_once('\n').unwrap().1;
        let cut = "| Id | User | Host | db | Command | Time | State | In\n".replace("| In\n", "| Info\n")
            + "| 5 | app | h | shop | Query | 12 | Waiting for table metadata lock | alter table t add\n"
            + "| 7 | report | h | shop | Query | 340 | Sending data | select a from\n";
        for text in [tabs, records, capitals, cut] {
            assert_eq!(
                seen(&row_of::<Database>(&text)),
                (Some(2.0), Some(1.0), Some(12.0), Some("7 (report)")),
                "{text}"
            );
        }
    }
}
