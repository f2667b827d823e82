//! SHOW ENGINE INNODB STATUS of MySQL, MariaDB and Percona Server (storage/innobase/srv/srv0srv.cc: srv_printf_innodb_monitor).

use crate::prelude::*;
use whyslow_model::catalogue::Database;

pub const FORMAT: Format = Format {
    name: "SHOW ENGINE INNODB STATUS",
    versions: "MySQL 5.0 to 9, MariaDB 5 to 11, Percona Server: with \\G, as a table, or in one line, as mysql -e prints it",
    shows: "waits for row locks and semaphores, the oldest transaction, the history list, the hit rate of the buffer pool, the age of the checkpoint",
    lacks: "which device; what commits wait for before MySQL 8; how much log there may be, except in versions that print it",
    programs: &[partly_read("mysql"), partly_read("mariadb")],
    starts: |lines| lines.next_is(|line| is_title(line) || is_escaped(line) || is_of_semaphores(line)),
    read,
    ..Format::NEW
};

pub const VARIABLES: Format = Format {
    name: "SHOW VARIABLES",
    versions: "MySQL, MariaDB: SHOW [GLOBAL] VARIABLES, whole or in part, as a table",
    shows: "how much redo log InnoDB may have",
    lacks: "whether that is too little: SHOW ENGINE INNODB STATUS shows how much there is",
    programs: &[partly_read("mysql"), partly_read("mariadb")],
    starts: |lines| lines.next_is(is_variables_header),
    read: read_variables,
    ..Format::NEW
};

/// Returns true for `| Variable_name | Value |`, whose frame was already removed.
fn is_variables_header(line: &str) -> bool {
    line.split_whitespace().eq(["Variable_name", "Value"])
}

/// Splits `innodb_log_file_size 50331648` into name and value; some variables have no value.
fn variable(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.".contains(&b));
    is_name.then(|| (name, value.trim()))
}

fn read_variables(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let (mut size, mut files, mut capacity) = (None, None, None);
    let mut at = lines.number();
    lines.skip(1);
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.to_owned();
        lines.skip(blanks);
        if another_output_starts(lines, VARIABLES.name) {
            break;
        }
        let Some((name, value)) = variable(&text) else { break };
        match name {
            "innodb_log_file_size" => size = number(value),
            "innodb_log_files_in_group" => files = number(value),
            "innodb_redo_log_capacity" => capacity = number(value),
            _ => {}
        }
        at = lines.number();
        lines.skip(1);
    }
    // The default number of files depends on the version.
    let all = capacity.or_else(|| Some(size? * files?));
    if let Some(all) = all.filter(|all| *all > 0.0) {
        let row = run.row::<Database>(0.0, at, "InnoDB".into());
        row.product = "InnoDB".into();
        row.log_capacity = (all * USABLE).into();
    }
    Ok(())
}

/// Part of the log files that may be filled before a checkpoint must end (storage/innobase/log/log0log.cc: log_calc_max_ages).
const USABLE: f64 = 0.9;

const TITLE: &str = "INNODB MONITOR OUTPUT";

/// Returns true for `2026-11-25 17:58:55 0x7f4f1acdc6c0 INNODB MONITOR OUTPUT`.
fn is_title(line: &str) -> bool {
    line.trim_end().ends_with(TITLE) && line.trim_start().starts_with(|c: char| c.is_ascii_digit())
}

/// Line end as mysql prints it within a field if its output is not a terminal.
const ESCAPED_END: &str = "\\n";

/// Returns true for a status on one line: `InnoDB  \n=====...=====\n2026-11-25 17:58:55 0x7f4f1acdc6c0 INNODB MONITOR
/// OUTPUT\n...`
fn is_escaped(line: &str) -> bool {
    line.starts_with("InnoDB") && line.contains(TITLE) && line.split(ESCAPED_END).any(is_title)
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Section {
    #[default]
    Other,
    Semaphores,
    /// Past statements and locked rows.
    Latest,
    Transactions,
    Log,
    BufferPool,
}

const SECTIONS: [(&str, Section); 11] = [
    ("BACKGROUND THREAD", Section::Other),
    ("SEMAPHORES", Section::Semaphores),
    ("LATEST FOREIGN KEY ERROR", Section::Latest),
    ("LATEST DETECTED DEADLOCK", Section::Latest),
    ("TRANSACTIONS", Section::Transactions),
    ("FILE I/O", Section::Other),
    ("INSERT BUFFER AND ADAPTIVE HASH INDEX", Section::Other),
    ("LOG", Section::Log),
    ("BUFFER POOL AND MEMORY", Section::BufferPool),
    ("INDIVIDUAL BUFFER POOL INFO", Section::Other),
    ("ROW OPERATIONS", Section::Other),
];

/// Minimum time in seconds over which rates are averaged: each status begins a new interval, and the manual advises 20 to 30.
const LEAST_SECONDS: f64 = 5.0;

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    let mut status = StatusReader::default();
    let mut end = begin;
    if let Some(line) = lines.take_if(is_escaped) {
        for text in line.text.split(ESCAPED_END).skip_while(|text| !is_title(text)) {
            status.line(text);
        }
        return status.record(begin, end, run);
    }
    if lines.next_is(is_of_semaphores) {
        // The server's log has that section alone.
        status.section = Section::Semaphores;
        while let Some(line) = lines.take_if(is_of_semaphores) {
            status.line(&line.text);
        }
        return status.record(begin, end, run);
    }
    lines.skip(1);
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        let is_statement = matches!(status.section, Section::Latest | Section::Transactions);
        // A status that was cut off. Statements may contain any text.
        let is_cut =
            is_title(&text) || !is_statement && !is_section(&text) && another_output_starts(lines, FORMAT.name);
        if is_cut {
            break;
        }
        end = lines.number();
        lines.skip(1);
        if is_end(&text) {
            break;
        }
        status.line(&text);
    }
    status.record(begin, end, run)
}

/// Returns true for a line about a long semaphore wait, as the server's log has them: `InnoDB: Warning: a long semaphore wait:`,
/// `--Thread 140682043827968 has waited at buf0flu.cc line 1869 for 241.00 seconds the semaphore:`.
fn is_of_semaphores(line: &str) -> bool {
    const WORDS: [&str; 6] = [
        "semaphore wait",
        "has waited at",
        "Mutex at 0x",
        "Last time reserved by thread",
        "RW-latch at 0x",
        "waiters flag",
    ];
    let is_begun = line.contains("InnoDB:") || WORDS[1..].iter().any(|words| line.starts_with(words));
    (is_begun || line.starts_with("--Thread ")) && WORDS.iter().any(|words| line.contains(words))
}

fn is_end(line: &str) -> bool {
    line.strip_prefix("END OF ").is_some_and(|rest| rest.starts_with(TITLE))
}

fn is_section(line: &str) -> bool {
    SECTIONS.iter().any(|(name, _)| *name == line.trim_end())
}

#[derive(Default)]
struct StatusReader {
    section: Section,
    status: Status,
}

impl StatusReader {
    fn line(&mut self, text: &str) {
        if let Some((_, next)) = SECTIONS.iter().find(|(name, _)| *name == text.trim_end()) {
            self.section = *next;
        }
        self.status.take(self.section, text);
    }

    /// Records the status on these lines.
    fn record(self, begin: u32, end: u32, run: &mut ToolRun) -> ReadResult {
        if self.status.seconds.is_some_and(|seconds| seconds < LEAST_SECONDS) {
            run.note(
                "rates of InnoDB",
                "the status averages over less than 5 s, because another one was shown just before",
                "show the status twice, 20 s apart, and keep the second",
            );
        }
        run.row::<Database>(0.0, begin, "InnoDB".into());
        self.status.record(run.row(0.0, end, "InnoDB".into()));
        Ok(())
    }
}

#[derive(Default)]
struct Status {
    /// Seconds over which rates are averaged.
    seconds: Option<f64>,
    latch_waiters: f64,
    latch_longest: f64,
    has_transactions: bool,
    sessions: f64,
    oldest: f64,
    lock_waiters: f64,
    lock_longest: f64,
    log_waiters: f64,
    history: Option<f64>,
    sequence: Option<f64>,
    checkpoint: Option<f64>,
    capacity: Option<f64>,
    log_pending: Option<f64>,
    io_pending: Option<f64>,
    hit: Option<f64>,
    reads: Option<f64>,
    writes: Option<f64>,
    has_semaphores: bool,
    /// Whether a line of a transaction is unreadable, so that their number is unknown.
    is_damaged: bool,
}

impl Status {
    fn take(&mut self, section: Section, text: &str) {
        match section {
            Section::Semaphores => {
                self.has_semaphores = true;
                // `--Thread 140 has waited at btr0cur.cc line 545 for 12.00 seconds the semaphore:`
                if let Some(waited) =
                    between(text, " for ", " seconds the semaphore").filter(|_| text.contains("has waited at"))
                {
                    self.latch_waiters += 1.0;
                    self.latch_longest = self.latch_longest.max(waited);
                }
            }
            Section::Transactions => self.transaction(text),
            Section::Log => self.log(text),
            Section::BufferPool => self.buffer_pool(text),
            Section::Other => {
                if self.seconds.is_none() {
                    self.seconds = between(text, "averages calculated from the last ", " seconds");
                }
            }
            Section::Latest => {}
        }
    }

    fn transaction(&mut self, text: &str) {
        if let Some(rest) = text.strip_prefix("History list length ") {
            self.history = number(rest.trim());
            self.has_transactions = true;
        } else if text.starts_with("---TRANSACTI") {
            // `---TRANSACTION 274, ACTIVE 33 sec fetching rows`, `ACTIVE (PREPARED) 3 sec committing`; or `not started`.
            self.is_damaged |= !text.contains(", ACTIVE ") && !text.contains(", not started");
            if let Some((_, state)) = text.split_once(", ACTIVE ") {
                self.sessions += 1.0;
                let state = state.strip_prefix("(PREPARED) ").unwrap_or(state);
                let seconds = state.split_once(" sec").and_then(|(seconds, _)| number(seconds));
                self.oldest = self.oldest.max(seconds.unwrap_or(0.0));
            }
        } else if text.starts_with("LOCK WAIT ") {
            self.lock_waiters += 1.0;
        } else if text.contains("---TRANSACTION ") || text.contains(" LOCK WAIT ") && text.contains(" lock struct(s)") {
            // Two lines were joined.
            self.is_damaged = true;
        } else if text.contains("TRX HAS BEEN WAITING ") {
            // MariaDB prints microseconds.
            let seconds = between(text, "WAITING ", " SEC FOR")
                .or_else(|| between(text, "WAITING ", " us FOR").map(|microseconds| microseconds / 1e6));
            self.lock_longest = self.lock_longest.max(seconds.unwrap_or(0.0));
        } else if text.contains(" thread id ") && text.trim_end().ends_with("waiting for handler commit") {
            self.log_waiters += 1.0;
        }
    }

    fn log(&mut self, text: &str) {
        let value = |words: &str| number(text.strip_prefix(words)?.trim());
        if let Some(sequence) = value("Log sequence number") {
            self.sequence = Some(sequence);
        } else if let Some(checkpoint) = value("Last checkpoint at") {
            self.checkpoint = Some(checkpoint);
        } else if let Some(capacity) = value("Max checkpoint age") {
            self.capacity = Some(capacity).filter(|most| *most > 0.0);
        } else if text.contains(" pending log ") {
            self.log_pending = text.split_whitespace().next().and_then(number);
        }
    }

    fn buffer_pool(&mut self, text: &str) {
        if let Some(pending) = text.strip_prefix("Pending reads ") {
            self.io_pending = number(pending.trim());
        } else if text.contains(" creates/s, ") {
            // `153000.00 reads/s, 1000.00 creates/s, 41000.00 writes/s`
            self.reads = text.split_once(" reads/s").and_then(|(reads, _)| number(reads.trim()));
            self.writes = between(text, "creates/s, ", " writes/s");
        } else if let Some(rest) = text.strip_prefix("Buffer pool hit rate ") {
            self.hit = rest.split_once(" / 1000").and_then(|(hits, _)| number(hits)).map(|hits| hits / 1000.0);
        }
    }

    fn record(&self, row: &mut Database) {
        row.product = "InnoDB".into();
        if self.has_semaphores {
            row.latch_waiters = self.latch_waiters.into();
        }
        if self.latch_waiters > 0.0 {
            row.latch_longest = (self.latch_longest * SECOND).into();
        }
        if self.has_transactions && !self.is_damaged {
            row.sessions = self.sessions.into();
            row.lock_waiters = self.lock_waiters.into();
            row.log_waiters = self.log_waiters.into();
        }
        if self.sessions > 0.0 && !self.is_damaged {
            row.oldest_transaction = (self.oldest * SECOND).into();
        }
        if self.lock_waiters > 0.0 && !self.is_damaged {
            row.lock_longest = (self.lock_longest * SECOND).into();
        }
        row.undo_entries = self.history.into();
        row.log_age = self.sequence.zip(self.checkpoint).map(|(now, then)| now - then).filter(|age| *age >= 0.0).into();
        row.log_capacity = self.capacity.into();
        row.log_pending = self.log_pending.into();
        row.io_pending = self.io_pending.into();
        if self.seconds.is_some_and(|seconds| seconds >= LEAST_SECONDS) {
            row.buffer_hit = self.hit.into();
            row.physical_reads = self.reads.into();
            row.physical_writes = self.writes.into();
        }
    }
}

/// Returns the number between two pieces of text.
fn between(text: &str, before: &str, after: &str) -> Option<f64> {
    number(text.split_once(before)?.1.split_once(after)?.0.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of, window_of};

    #[test]
    fn the_log_of_the_server_has_the_semaphores_alone() {
        let text = "InnoDB: Warning: a long semaphore wait:\n\
            --Thread 140682043827968 has waited at buf0flu.cc line 1869 for 241.00 seconds the semaphore:\n\
            Mutex at 0x7ff341085d30 '&buf_pool->flush_state_mutex', lock var 1\n\
            InnoDB: Warning: semaphore wait:\n";
        let row = row_of::<Database>(text);
        assert_eq!((row.latch_waiters.get(), row.latch_longest.get()), (Some(1.0), Some(241.0 * SECOND)));
        assert_eq!(row.sessions.get(), None);
    }

    #[test]
    fn a_status_in_one_line_or_in_a_table_is_the_same() {
        for file in ["innodb-status-locks.txt", "innodb-status-idle.txt"] {
            let text = fixture(file);
            let status = &text[text.find("=====").unwrap()..];
            let expected: Database = row_of(&text);
            let line = format!("Type\tName\tStatus\nInnoDB\t\t\\n{}\n", status.replace('\n', "\\n"));
            assert_eq!(row_of::<Database>(&line), expected, "{file}");
            let table = format!(
                "+--------+------+--------+\n| Type   | Name | Status |\n+--------+------+--------+\n| InnoDB |      | \n{status} |\n+--------+------+--------+\n1 row in set (0.00 sec)\n"
            );
            assert_eq!(row_of::<Database>(&table), expected, "{file}");
        }
    }

    #[test]
    fn variables_say_how_much_log_there_may_be() {
        let table =
            |rows: &str| format!("+---+---+\n| Variable_name | Value |\n+---+---+\n{rows}+---+---+\n2 rows in set\n");
        let capacity = |rows: &str| row_of::<Database>(&table(rows)).log_capacity.get();
        let two = "| innodb_log_file_size | 50331648 |\n| innodb_log_files_in_group | 2 |\n";
        assert_eq!(capacity(two), Some(100_663_296.0 * USABLE));
        assert_eq!(capacity("| innodb_redo_log_capacity | 1000 |\n| innodb_log_file_size | 5 |\n"), Some(900.0));
    }

    #[test]
    fn row_locks_are_waited_for() {
        let row = row_of::<Database>(&fixture("innodb-status-locks.txt"));
        assert_eq!((row.sessions.get(), row.lock_waiters.get()), (Some(7.0), Some(5.0)));
        assert!((row.lock_longest.get().unwrap() / SECOND - 25.0).abs() < 2.0, "{:?}", row.lock_longest);
        assert_eq!((row.oldest_transaction.get().unwrap() / SECOND).round(), 27.0);
        assert_eq!((row.latch_waiters.get(), row.latch_longest.get()), (Some(0.0), None));
    }

    #[test]
    fn an_idle_server_has_no_hit_rate() {
        let row = row_of::<Database>(&fixture("innodb-status-idle.txt"));
        assert_eq!(
            (row.sessions.get(), row.lock_waiters.get(), row.undo_entries.get()),
            (Some(0.0), Some(0.0), Some(0.0))
        );
        assert_eq!((row.buffer_hit.get(), row.lock_longest.get()), (None, None));
    }

    /// Written after lock0lock.cc, sync0arr.cc and log0log.cc of MySQL 5.7.
    const MYSQL: &str = "2024-06-01 12:00:00 0x7f10 INNODB MONITOR OUTPUT\n=====================================\n\
        Per second averages calculated from the last 20 seconds\n----------\nSEMAPHORES\n----------\n\
        --Thread 140046 has waited at btr0cur.cc line 545 for 12.00 seconds the semaphore:\n\
        X-lock on RW-latch at 0x7f10 created in file dict0dict.cc line 2737\n\
        --Thread 140047 has waited at row0ins.cc line 99 for 3.00 seconds the semaphore:\n\
        ------------\nTRANSACTIONS\n------------\nHistory list length 2500000\n\
        ---TRANSACTION 421, not started\n0 lock struct(s), heap size 1136, 0 row lock(s)\n\
        ---TRANSACTION 99, ACTIVE (PREPARED) 2 sec\n\
        MySQL thread id 8, OS thread handle 140, query id 245 localhost app waiting for handler commit\n\
        ---TRANSACTION 98, ACTIVE 7200 sec\n\
        ---TRANSACTION 97, ACTIVE 5 sec updating\nLOCK WAIT 2 lock struct(s), heap size 1136, 1 row lock(s)\n\
        ------- TRX HAS BEEN WAITING 5 SEC FOR THIS LOCK TO BE GRANTED:\n\
        ---\nLOG\n---\nLog sequence number 9000000\nLog flushed up to   8999000\nLast checkpoint at  1500000\n\
        Max checkpoint age    7782360\n2 pending log flushes, 0 pending chkp writes\n\
        ----------------------\nBUFFER POOL AND MEMORY\n----------------------\nFree buffers       1024\n\
        Pending reads      3\n1200.50 reads/s, 1.00 creates/s, 30.25 writes/s\n\
        Buffer pool hit rate 910 / 1000, young-making rate 3 / 1000 not 0 / 1000\n\
        --------------\nROW OPERATIONS\n--------------\n----------------------------\nEND OF INNODB MONITOR OUTPUT\n";

    #[test]
    fn mysql_prints_seconds_and_the_capacity_of_the_log() {
        let row = row_of::<Database>(MYSQL);
        assert_eq!((row.latch_waiters.get(), row.latch_longest.get()), (Some(2.0), Some(12.0 * SECOND)));
        assert_eq!(
            (row.sessions.get(), row.lock_waiters.get(), row.log_waiters.get()),
            (Some(3.0), Some(1.0), Some(1.0))
        );
        assert_eq!((row.oldest_transaction.get(), row.lock_longest.get()), (Some(7200.0 * SECOND), Some(5.0 * SECOND)));
        assert_eq!((row.undo_entries.get(), row.log_pending.get()), (Some(2_500_000.0), Some(2.0)));
        assert_eq!((row.log_age.get(), row.log_capacity.get()), (Some(7_500_000.0), Some(7_782_360.0)));
        assert_eq!(
            (row.buffer_hit.get(), row.physical_reads.get(), row.io_pending.get()),
            (Some(0.91), Some(1200.5), Some(3.0))
        );
    }

    #[test]
    fn rates_over_no_time_are_left_out_and_noted() {
        let window = window_of(&MYSQL.replace("last 20 seconds", "last 0 seconds"));
        let row = window.the::<Database>().unwrap();
        assert_eq!(
            (row.buffer_hit.get(), row.physical_reads.get(), row.undo_entries.get()),
            (None, None, Some(2_500_000.0))
        );
    }
}
