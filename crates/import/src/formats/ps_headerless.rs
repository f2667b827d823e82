//! Rows of `ps aux`, `ps -ef`, and of virtual machines in `ps -o pid,args` and `pgrep -a`, without their header.

use super::task_table::{TaskColumns, TaskKind, read_tasks};
use crate::prelude::*;

pub const FORMAT: Format = Format {
    name: "ps rows",
    versions: "rows of ps aux and ps -ef of procps 2 to 4 that grep left; of ps -o pid,state,wchan,cmd those of blocked tasks; of ps -o pid,args and pgrep -a, those of QEMU; their fields leave no doubt",
    shows: "processes, of ps aux their memory and state; of virtual machines of QEMU, the name and the disks",
    lacks: "the other processes; current CPU use: %CPU is an average over each process's lifetime",
    starts: |lines| lines.next_is(|text| columns_of(text).is_some()),
    read,
    ..Format::NEW
};

/// Columns of `ps aux` (ps(1), EXAMPLES).
const COLUMNS: &str = "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND";
/// Columns of `ps -ef`.
const COLUMNS_OF_EF: &str = "UID PID PPID C STIME TTY TIME CMD";
/// Columns of `ps -o pid,args` and `pgrep -a`.
const COLUMNS_OF_COMMANDS: &str = "PID COMMAND";
/// Columns of `ps -o pid,state,wchan,cmd`.
const COLUMNS_OF_STATES: &str = "PID S WCHAN COMMAND";
/// Assumed length of a lifetime; no rate depends on it.
const LIFETIME: ReportInterval = ReportInterval { from: 0.0, to: 1.0 };

/// Returns the columns of a row.
fn columns_of(text: &str) -> Option<&'static str> {
    if is_row(text) {
        return Some(COLUMNS);
    }
    if is_row_of_ef(text) {
        return Some(COLUMNS_OF_EF);
    }
    if is_row_of_states(text) {
        return Some(COLUMNS_OF_STATES);
    }
    is_virtual_machine(text).then_some(COLUMNS_OF_COMMANDS)
}

/// Returns true for `2770 D txg_rele_to_sync   [z_wr_int_h/0]`: a task that is blocked in a function of the kernel.
fn is_row_of_states(text: &str) -> bool {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [pid, state, function, command, ..] = fields[..] else { return false };
    let is_function =
        function.contains('_') && function.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b));
    pid.parse::<u32>().is_ok_and(|pid| pid > 0)
        && state.starts_with('D')
        && state[1..].bytes().all(|b| b"<NLsl+".contains(&b))
        && is_function
        && command.starts_with(|c: char| c == '[' || c == '/' || c.is_ascii_alphabetic())
}

/// Returns true for `   8123 /usr/libexec/qemu-kvm -name guest=ldap1,debug-threads=on -S`.
fn is_virtual_machine(text: &str) -> bool {
    let mut fields = text.split_whitespace();
    let is_pid = fields.next().and_then(|pid| pid.parse::<u32>().ok()).is_some_and(|pid| pid > 0);
    let program = fields.next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    let is_qemu = program == "kvm" || program.starts_with("qemu-kvm") || program.starts_with("qemu-system-");
    is_pid && is_qemu && fields.any(|word| word == "-name")
}

fn begins_with_user(text: &str, user: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && number(user).is_none()
}

fn is_terminal(text: &str) -> bool {
    text == "?" || ["pts/", "tty", "hvc"].iter().any(|kind| text.starts_with(kind))
}

/// Returns true for `qemu       4711       1 45 Feb01 ?        22:10:11 /usr/libexec/qemu-kvm -name guest=web1`.
fn is_row_of_ef(text: &str) -> bool {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [user, pid, parent, share, start, terminal, time, command, ..] = fields[..] else { return false };
    let is_whole = |text: &str, most: u32| text.parse::<u32>().is_ok_and(|number| number <= most);
    begins_with_user(text, user)
        && pid.parse::<u32>().is_ok_and(|pid| pid > 0)
        && is_whole(parent, u32::MAX)
        && is_whole(share, 9999)
        && is_start(start)
        && is_terminal(terminal)
        && is_long_time(time)
        && number(command).is_none()
}

/// Returns true for the start time of a process: `10:21`, `Nov02`, `2024` (ps(1), bsdstart and stime).
fn is_start(text: &str) -> bool {
    let is_day = |month: &str, day: &str| {
        clock::month(month).is_some() && day.parse::<u8>().is_ok_and(|day| (1..=31).contains(&day))
    };
    let is_year = text.len() == 4 && text.parse::<u16>().is_ok_and(|year| (1970..2200).contains(&year));
    let is_time = text.len() == 5 && clock::time_of_day(&[text]).is_some();
    is_year || is_time || text.split_at_checked(3).is_some_and(|(month, day)| is_day(month, day))
}

/// Returns true for `22:10:11`, `6-06:12:11`.
fn is_long_time(text: &str) -> bool {
    let (days, time) = text.split_once('-').unwrap_or(("0", text));
    let parts: Vec<&str> = time.split(':').collect();
    let is_part = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
    days.parse::<u32>().is_ok() && parts.len() == 3 && parts.iter().all(is_part)
}

/// Returns true for `mysql      812  3.5 12.1 1823456 245678 ?      Ssl  Jan01 812:45 /usr/sbin/mysqld`.
fn is_row(text: &str) -> bool {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [user, pid, cpu, memory, virt, resident, terminal, state, start, time, command, ..] = fields[..] else {
        return false;
    };
    let share = |text: &str| number(text).filter(|_| text.contains('.'));
    let size = |text: &str| text.parse::<u64>().ok();
    begins_with_user(text, user)
        && pid.parse::<u32>().is_ok_and(|pid| pid > 0)
        && (share(cpu).is_some() || size(cpu).is_some_and(|cpu| cpu >= 100))
        && share(memory).is_some_and(|share| share <= 100.0)
        && size(virt).zip(size(resident)).is_some_and(|(virt, resident)| resident <= virt)
        && is_terminal(terminal)
        && state.starts_with(|c| "DIRSTtWXZ".contains(c))
        && state[1..].bytes().all(|b| b"<NLsl+".contains(&b))
        && start.len() >= 4
        && is_time(time)
        && number(command).is_none()
}

/// Returns true for `812:45`, in minutes and seconds.
fn is_time(text: &str) -> bool {
    let of_two = |seconds: &str| seconds.len() == 2 && seconds.parse::<u8>().is_ok_and(|seconds| seconds < 60);
    text.split_once(':').is_some_and(|(minutes, seconds)| minutes.parse::<u64>().is_ok() && of_two(seconds))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let Some(columns) = lines.peek(0).and_then(columns_of).and_then(TaskColumns::parse) else { return Ok(()) };
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
    fn rows_of_blocked_tasks_have_their_function() {
        let text = " 2770 D txg_rele_to_sync                 [z_wr_int_h/0]\n19513 D vfs_fsync_range                  [nfsd]\n";
        let window = window_of(text);
        let rows = window.newest::<Process>();
        let found: Vec<_> = rows.values().map(|row| (row.command.get(), row.wait_channel.get())).collect();
        assert_eq!(found, [(Some("z_wr_int_h/0"), Some("txg_rele_to_sync")), (Some("nfsd"), Some("vfs_fsync_range"))]);
        assert_eq!(columns_of("2770 D 12.0 nfsd"), None);
    }

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
    fn rows_of_virtual_machines_need_no_more_than_pid_and_command() {
        let text = "   8123 /usr/libexec/qemu-kvm -name guest=ldap1,debug-threads=on -S -object sec\n   \
                    8890 /usr/bin/kvm -id 100 -name dwh -smp 4\n";
        let guests = window_of(text);
        let guests = guests.newest::<whyslow_model::catalogue::Guest>();
        let found: Vec<_> = guests.values().map(|guest| (guest.task.pid, guest.name.get())).collect();
        assert_eq!(found, [(8123, Some("ldap1")), (8890, Some("dwh"))]);
        for line in ["8123 /usr/libexec/qemu-kvm", "0 qemu-kvm -name x", "8123 grep qemu-kvm -name", "kvm -name x"] {
            assert_eq!(columns_of(line), None, "{line}");
        }
    }

    #[test]
    fn rows_of_ps_ef_are_processes_too() {
        let text = "libvirt+   4711       1 45 Feb01 ?        22:10:11 /usr/bin/qemu-system-x86_64 -name guest=web1,debug-threads=on -smp 4\n\
                    root       4712    4700 99 2024 pts/1  6-06:12:11 /usr/bin/python3 x.py\n";
        let window = window_of(text);
        let rows = window.newest::<Process>();
        let found: Vec<_> = rows.values().map(|p| (p.task.pid, p.parent.get(), p.command.get())).collect();
        assert_eq!(found, [(4711, Some(1.0), Some("qemu-system-x86_64")), (4712, Some(4700.0), Some("python3"))]);
        assert_eq!(window.the::<whyslow_model::catalogue::Guest>().and_then(|guest| guest.name.get()), Some("web1"));
        for line in [
            "root 4711 1 45 Feb41 ? 22:10:11 sleep",
            "root 4711 1 45 Feb01 ? 22:10 sleep",
            "root 4711 1 4.5 Feb01 ? 22:10:11 sleep",
            "root 4711 1 45 Feb01 x 22:10:11 sleep",
            "0 4711 1 45 Feb01 ? 22:10:11 sleep",
            "root 4711 1 45 Feb01 ? 22:10:11",
        ] {
            assert_eq!(columns_of(line), None, "{line}");
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
