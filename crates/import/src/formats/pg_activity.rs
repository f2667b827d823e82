//! pg_activity: the sessions of PostgreSQL as `top` lists processes.

use super::psql::{ViewRow, activity};
use crate::prelude::*;
use std::collections::BTreeMap;

pub const FORMAT: Format = Format {
    name: "pg_activity",
    versions: "pg_activity 1 to 3, its lists of running, waiting and blocking queries",
    shows: "what sessions wait for, and which of them keep a transaction open meanwhile",
    lacks: "the lock that a session waits for",
    programs: &[partly_read("pg_activity")],
    starts: |lines| lines.next_is(is_heading),
    read,
    ..Format::NEW
};

/// Returns true for `PID    DATABASE  APP  USER  CLIENT  CPU% MEM%  READ/s  WRITE/s  TIME+  Waiting  IOW  state  Query`.
fn is_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.starts_with(&["PID", "DATABASE"]) && words.ends_with(&["state", "Query"]) && words.contains(&"Waiting")
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let heading = lines.take().map(|line| line.text).unwrap_or_default();
    let has_disk_wait = heading.split_whitespace().any(|name| name == "IOW");
    let mut rows = Vec::new();
    let is_row = |text: &str| text.split_whitespace().next().is_some_and(|pid| pid.bytes().all(|b| b.is_ascii_digit()));
    while let Some(line) = lines.take_if(is_row) {
        let session = session(&line.text, has_disk_wait).ok_or_else(|| {
            lines.refuse_at(&line, "a session as in the heading: PID DATABASE ... TIME+ Waiting state Query")
        });
        if let Some(values) = lines.keep(session)? {
            rows.push(ViewRow { line: line.number, values });
        }
    }
    activity(&rows, run);
    Ok(())
}

/// Parses `265210 tests  postgres  127.0.0.1/32  0.0  0.1  0B  0B  01:45.69  transactionid  N  active  UPDATE t`, into columns of
/// pg_stat_activity. Columns left of the time may be empty.
fn session(text: &str, has_disk_wait: bool) -> Option<BTreeMap<String, String>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let time = words.iter().position(|word| is_duration(word))?;
    let mut rest = words[time + 1..].iter().copied().peekable();
    // Without a wait, the column is empty, and the flag of waits for disks comes next.
    let is_flag = |word: &&str| ["N", "Y"].contains(word);
    let wait = if has_disk_wait { rest.next_if(|word| !is_flag(word)) } else { rest.next() };
    if has_disk_wait {
        rest.next_if(is_flag)?;
    }
    let state = match rest.next()? {
        "active" => "active",
        "idle" if rest.next_if_eq(&"in").is_none() => "idle",
        "idle" => {
            rest.next()?;
            "idle in transaction"
        }
        _ => return None,
    };
    let wait = wait.filter(|wait| *wait != "N" && *wait != "None");
    let event = wait.map(|wait| (wait_type(wait), if wait == "Y" { "relation" } else { wait }));
    let query = rest.collect::<Vec<_>>().join(" ");
    let columns = [
        ("pid", words[0]),
        ("datname", words.get(1)?),
        ("state", state),
        ("wait_event_type", event.map_or("", |(kind, _)| kind)),
        ("wait_event", event.map_or("", |(_, event)| event)),
        ("duration", &clock_time(words[time])?),
        ("query", &query),
    ];
    Some(columns.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Returns true for `01:45.79` and `00:01:45`.
fn is_duration(word: &str) -> bool {
    clock_time(word).is_some()
}

/// Converts `01:45.79` (minutes) to hours, minutes and seconds.
fn clock_time(word: &str) -> Option<String> {
    let parts: Vec<&str> = word.split(':').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match parts.len() {
        2 if parts.iter().all(is_number) => Some(format!("00:{word}")),
        3 if parts.iter().all(is_number) => Some(word.to_owned()),
        _ => None,
    }
}

/// Returns the type of a wait event (monitoring-stats.html). Before 3.0, `Y` says that the session waits for a lock.
fn wait_type(event: &str) -> &'static str {
    const LOCKS: [&str; 14] = [
        "Y",
        "advisory",
        "applytransaction",
        "extend",
        "frozenid",
        "object",
        "page",
        "relation",
        "spectoken",
        "speculative",
        "transactionid",
        "tuple",
        "userlock",
        "virtualxid",
    ];
    match event {
        event if LOCKS.contains(&event) => "Lock",
        event if event.starts_with("Client") => "Client",
        event if event.starts_with("WAL") || event.ends_with("Read") || event.ends_with("Write") => "IO",
        event if event.ends_with("Lock") || event.ends_with("Mapping") => "LWLock",
        _ => "Activity",
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::row_of;
    use whyslow_model::catalogue::Database;

    const HEADING: &str = "PID    DATABASE      APP      USER        CLIENT   CPU% MEM%   READ/s  WRITE/s     TIME+       Waiting  IOW              state   Query\n";

    #[test]
    fn sessions_that_wait_for_a_row_and_the_one_that_is_idle_are_counted() {
        let text = format!(
            "{HEADING}265208 shop           alice   192.0.2.7/32    0.0  0.1       0B       0B  01:45.79    ClientRead    N      idle in trans   UPDATE t SET s = 1\n\
             265210 shop           alice   192.0.2.7/32    0.0  0.1       0B       0B  01:45.69    transactionid    N             active   UPDATE t SET s = 2\n\
             265213 shop   app     alice   192.0.2.7/32    9.0  0.1       0B       0B  00:02.58                     N             active   SELECT 1\n"
        );
        let row = row_of::<Database>(&text);
        let counts = [row.sessions, row.lock_waiters, row.idle_transactions].map(whyslow_model::value::Gauge::get);
        assert_eq!(counts, [Some(2.0), Some(1.0), Some(1.0)]);
        assert_eq!(row.oldest_idle.get().map(|ns| (ns / 1e9).round()), Some(106.0));
    }
}
