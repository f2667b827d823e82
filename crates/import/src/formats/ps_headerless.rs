//! Rows of `ps aux` without their header, as grep leaves them.

use super::task_table::{TaskColumns, TaskKind, read_tasks};
use crate::prelude::*;

pub const FORMAT: Format = Format {
    name: "ps rows",
    versions: "rows of ps aux of procps 2 to 4 that grep left; their fields leave no doubt",
    shows: "processes, their memory and state",
    lacks: "the other processes; current CPU use: %CPU is an average over each process's lifetime",
    starts: |lines| lines.next_is(is_row),
    read,
    ..Format::NEW
};

/// The columns of `ps aux` (ps(1), EXAMPLES).
const COLUMNS: &str = "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND";
/// The assumed length of a lifetime: no rate depends on it.
const LIFETIME: ReportInterval = ReportInterval { from: 0.0, to: 1.0 };

/// `mysql      812  3.5 12.1 1823456 245678 ?      Ssl  Jan01 812:45 /usr/sbin/mysqld`
fn is_row(text: &str) -> bool {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [user, pid, cpu, memory, virt, resident, terminal, state, start, time, command, ..] = fields[..] else {
        return false;
    };
    let share = |text: &str| number(text).filter(|_| text.contains('.'));
    let size = |text: &str| text.parse::<u64>().ok();
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && number(user).is_none()
        && pid.parse::<u32>().is_ok_and(|pid| pid > 0)
        && (share(cpu).is_some() || size(cpu).is_some_and(|cpu| cpu >= 100))
        && share(memory).is_some_and(|share| share <= 100.0)
        && size(virt).zip(size(resident)).is_some_and(|(virt, resident)| resident <= virt)
        && (terminal == "?" || ["pts/", "tty", "hvc"].iter().any(|kind| terminal.starts_with(kind)))
        && state.starts_with(|c| "DIRSTtWXZ".contains(c))
        && state[1..].bytes().all(|b| b"<NLsl+".contains(&b))
        && start.len() >= 4
        && is_time(time)
        && number(command).is_none()
}

/// `812:45`, in minutes and seconds.
fn is_time(text: &str) -> bool {
    let of_two = |seconds: &str| seconds.len() == 2 && seconds.parse::<u8>().is_ok_and(|seconds| seconds < 60);
    text.split_once(':').is_some_and(|(minutes, seconds)| minutes.parse::<u64>().is_ok() && of_two(seconds))
}

fn read(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let Some(columns) = TaskColumns::of(COLUMNS) else { return Ok(()) };
    read_tasks(lines, run, LIFETIME, &columns, TaskKind::Processes)?;
    run.note(
        "current CPU use",
        "ps shows an average over each process's lifetime, and these rows are some of them",
        "add the output of: top -H -b -n 2",
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};
    use whyslow_model::catalogue::Process;

    #[test]
    fn rows_that_fit_are_processes() {
        let text = fixture("ps-rows.txt");
        let window = window_of(&text);
        let rows = window.newest::<Process>();
        assert_eq!(rows.len(), text.lines().count());
        for line in text.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (_, row) = rows.iter().find(|(key, _)| key.pid.to_string() == fields[1]).unwrap();
            assert_eq!(row.rss.get(), number(fields[5]).map(|kib| kib * KIB), "{line}");
        }
    }

    #[test]
    fn other_rows_are_none() {
        let row = "root 9 98.7 0.0 0 0 ? R Jan01 999:59 [ksoftirqd/0]";
        assert!(is_row(row));
        for line in [
            "root 9 98.7 0.0 0 12 ? R Jan01 999:59 [ksoftirqd/0]",
            "root 9 98.7 0.0 0 0 ? Q Jan01 999:59 [ksoftirqd/0]",
            "root 9 98 0.0 0 0 ? R Jan01 999:59 [ksoftirqd/0]",
            "root 9 98.7 0.0 0 0 ? R Jan01 999:99 [ksoftirqd/0]",
            "812 9 98.7 0.0 0 0 ? R Jan01 999:59 [ksoftirqd/0]",
            "root 9 98.7 0.0 0 0 ? R Jan01 999:59",
        ] {
            assert!(!is_row(line), "{line}");
        }
    }
}
