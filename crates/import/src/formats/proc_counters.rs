//! Copies of /proc/diskstats, and of dev, netlink and softnet_stat of /proc/net: one row per line, counted since boot, or for a
//! socket since it was opened.

use crate::lines::TextLine;
use crate::prelude::*;
use std::collections::BTreeSet;
use whyslow_proc::{diskstats, net};

pub const DISKSTATS: Format = Format {
    name: "/proc/diskstats",
    versions: "2.6 on",
    shows: "requests in flight, and the mean wait since boot; of two copies with times, requests, queue, wait and utilization of each device",
    lacks: "what happens now, if read once",
    starts: |lines| lines.next_is(is_disk),
    read: |lines, _, run| {
        let counts = |text: &str| text.split_whitespace().count();
        let rows = next_rows(lines).into_iter().filter(|text| is_disk(text)).map(|text| counts(&text));
        // Partitions had fewer before 2.6.25. A row that was cut may have as many as that of an older kernel.
        let most = rows.filter(|count| DISK_COLUMNS.contains(count)).max().unwrap_or(0);
        let fits = |count: usize| count == most || (most, count) == (DISK_COLUMNS[1], DISK_COLUMNS[0]);
        let row = |text: &str, _| Some(diskstats::row(text).filter(|_| fits(counts(text)))?.disk);
        copy(lines, run, is_disk, row, DISK_LINE)
    },
    ..Format::NEW
};

pub const NET_DEV: Format = Format {
    name: "/proc/net/dev",
    shows: "packets and errors since boot, by interface; of two copies with times, rates",
    lacks: "what happens now, if read once",
    starts: |lines| lines.next_is(|line| line.starts_with("Inter-|") && line.contains("Receive")),
    read: |lines, _, run| {
        lines.skip(1);
        lines.take_if(|line| line.trim_start().starts_with("face |"));
        copy(lines, run, is_interface, |text, _| interface_row(text), INTERFACE_LINE)
    },
    ..Format::NEW
};

pub const SOFTNET: Format = Format {
    name: "/proc/net/softnet_stat",
    shows: "packets dropped from the backlog since boot; of two copies with times, rates",
    lacks: "what happens now, if read once",
    starts: |lines| lines.next_is(is_softnet),
    read: |lines, _, run| {
        // A row that was broken or cut has fewer columns.
        let count = |text: &str| text.split_whitespace().count();
        let mut wrap = lines.wrap();
        let first = lines.peek_whole(&mut wrap, run.tool, is_softnet).map_or(0, |(_, line)| count(&line.text));
        let rows = next_rows(lines).into_iter().filter(|text| is_softnet(text)).map(|text| count(&text));
        let columns = rows.chain([first]).filter(|count| SOFTNET_COLUMNS.contains(count)).max().unwrap_or(0);
        let row = |text: &str, cpu| net::softnet(text, cpu).filter(|_| text.split_whitespace().count() == columns);
        copy(lines, run, is_softnet, row, "as many columns of eight hexadecimal digits as in the first row")
    },
    ..Format::NEW
};

pub const NETLINK: Format = Format {
    name: "/proc/net/netlink",
    shows: "messages that the netlink sockets of programs have lost; of two copies with times, rates",
    lacks: "which process holds a socket: ss -f netlink -ap",
    starts: |lines| {
        lines.next_is(|line| line.starts_with("sk ") && line.contains(" Rmem ") && line.contains(" Drops "))
    },
    read: |lines, _, run| {
        lines.skip(1);
        while let Some(line) = lines.take_own(is_netlink, is_netlink_damaged, NETLINK_LINE)? {
            if let Some(row) = net::netlink_socket(&"".into(), &line.text) {
                run.put(0.0, line.number, row);
            }
        }
        Ok(())
    },
    ..Format::NEW
};

/// Possible counts of fields of a device (numbers, name and counters), from Linux 2.6 to 6.
const DISK_COLUMNS: [usize; 4] = [7, 14, 18, 20];
const DISK_LINE: &str = "a device's two numbers and its name, then 4, 11, 15 or 17 counts";
const INTERFACE_LINE: &str = "an interface, a colon, then eight counts received and eight sent";
const NETLINK_LINE: &str = "a socket, its protocol and address, eight hexadecimal digits of groups, then six numbers";
/// Possible counts of columns of /proc/net/softnet_stat, from Linux 2.6 to 6.
const SOFTNET_COLUMNS: [usize; 5] = [9, 10, 11, 13, 15];
/// Maximum number of rows to compare with each other.
const MOST_COMPARED: usize = 64;

/// Returns the next lines up to a blank one.
fn next_rows(lines: &mut Lines<'_>) -> Vec<String> {
    let text = |at| lines.peek(at).filter(|text| !text.trim().is_empty()).map(str::to_owned);
    (0..MOST_COMPARED).map_while(text).collect()
}

/// Returns true if a line has only numbers: it is the remnant of a row that was broken.
fn is_piece(text: &str) -> bool {
    let mut words = text.split_whitespace().peekable();
    words.peek().is_some() && words.all(|word| word.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Reads one copy. `row` receives a line and its position in the file, from 0. A repeated entity belongs to the next copy.
fn copy<F: Family>(
    lines: &mut Lines<'_>,
    run: &mut ToolRun,
    is_line: fn(&str) -> bool,
    row: impl Fn(&str, u32) -> Option<F>,
    expected: &str,
) -> ReadResult {
    let mut seen = BTreeSet::new();
    let mut wrap = lines.wrap();
    for index in 0.. {
        let whole = lines.peek_whole(&mut wrap, run.tool, is_line).filter(|(_, line)| is_line(&line.text));
        if whole.is_none() && lines.next_is(is_piece) {
            lines.leave_out(expected)?;
            continue;
        }
        let Some((count, TextLine { text, .. })) = whole else { break };
        let read = row(&text, index).ok_or_else(|| lines.refuse(expected));
        if read.as_ref().is_ok_and(|row| !seen.insert(row.key().clone())) {
            break;
        }
        let line = lines.number();
        lines.skip(count);
        if let Some(row) = lines.keep(read)? {
            run.put(0.0, line, row);
        }
    }
    Ok(())
}

fn is_whole(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_digit())
}

/// Returns true for `   8       0 sda 1 2 3 4 5 6 7 8 9 10 11`.
fn is_disk(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let mut number = || words.next().is_some_and(|w| w.len() <= 7 && is_whole(w));
    let device = number() && number();
    let named = words.next().is_some_and(|w| w.starts_with(|c: char| c.is_ascii_alphabetic()));
    device && named && words.next().is_some_and(is_whole)
}

/// Returns true for `  eth0: 396797541   16425 ...`, or `eth0:396797541`.
fn is_interface(text: &str) -> bool {
    let Some((name, rest)) = text.trim_start().rsplit_once(':') else { return false };
    !name.is_empty() && !name.contains(' ') && rest.trim_start().starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the row of a line with exactly sixteen counts.
fn interface_row(text: &str) -> Option<whyslow_model::catalogue::Interface> {
    let (_, counts) = text.rsplit_once(':')?;
    let whole = counts.split_whitespace().all(is_whole) && counts.split_whitespace().count() == 16;
    whole.then(|| net::interface(&"".into(), text))?
}

/// Returns true for `00000a70 00000000 ...`.
fn is_softnet(text: &str) -> bool {
    let column = |word: &str| word.len() == 8 && word.bytes().all(|b| b.is_ascii_hexdigit());
    text.split_whitespace().count() >= SOFTNET_COLUMNS[0] && text.split_whitespace().all(column)
}

/// Returns true for `0000000031581c41 0   23080      00000001 0        0        0     2        17       5087020`.
fn is_netlink(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [socket, protocol, address, groups, rest @ ..] = &words[..] else { return false };
    is_pointer(socket)
        && [protocol, address].iter().all(|word| is_whole(word))
        && groups.len() == 8
        && groups.bytes().all(|b| b.is_ascii_hexdigit())
        && rest.len() == 6
        && rest.iter().all(|word| is_whole(word))
}

fn is_netlink_damaged(text: &str) -> bool {
    text.split_whitespace().next().is_some_and(is_pointer)
}

/// Returns true for the address of a socket, or for the value that the kernel prints instead.
fn is_pointer(word: &str) -> bool {
    matches!(word.len(), 8 | 16) && word.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use crate::testing::{fixture, refusal_of, window_of};
    use whyslow_model::catalogue::{Disk, Interface, NetlinkSocket, Softnet};

    #[test]
    fn one_copy_is_no_rate_and_two_with_their_times_are() {
        let one = fixture("proc-diskstats.txt");
        assert_eq!(window_of(&one).changes::<Disk>().iter().filter_map(|c| c.rate(|d| d.reads)).count(), 0);
        let two = "Sat Nov 21 16:54:34 UTC 2026\n   8  0 sda 10 0 80 5 1 0 8 1 0 5 6\nSat Nov 21 16:54:44 UTC 2026\n   8  0 sda 110 0 880 105 1 0 8 1 2 1005 2006\n";
        let window = window_of(two);
        let changes = window.changes::<Disk>();
        assert_eq!(changes[0].rate(|d| d.reads), Some(10.0));
        assert_eq!(changes[0].rate(|d| d.busy_time), Some(0.1 * 1e9));
    }

    #[test]
    fn a_line_that_was_cut_is_refused() {
        assert_eq!(refusal_of("   8  0 sda 10 0 80 5 1 0 8 1 0 5 6\n   8 16 sdb 10 0 80 5 1\n").line, 2);
    }

    #[test]
    fn a_row_for_each_interface() {
        let text = fixture("proc-net-dev.txt");
        let window = window_of(&text);
        let rows = window.newest::<Interface>();
        let eth0 = rows.values().find(|row| &*row.interface.name == "eth0").unwrap();
        assert!(eth0.rx_bytes.get().is_some_and(|bytes| bytes > 1_000_000));
        let cut = text.lines().take(3).map(|line| line.rsplit_once(' ').unwrap().0).collect::<Vec<_>>().join("\n");
        assert_eq!(refusal_of(&cut).line, 3);
    }

    #[test]
    fn a_row_for_each_processor() {
        let window = window_of(&fixture("proc-softnet_stat.txt"));
        let rows = window.newest::<Softnet>();
        assert_eq!(rows.len(), 2);
        assert!(rows[&0].processed.get().is_some_and(|packets| packets > 0));
    }

    #[test]
    fn a_row_for_each_netlink_socket_that_can_lose_messages() {
        let window = window_of(&fixture("proc-net-netlink.txt"));
        let rows = window.newest::<NetlinkSocket>();
        let [row] = &rows.values().collect::<Vec<_>>()[..] else { panic!("{rows:?}") };
        assert_eq!((&*row.socket.name, row.drops.get()), ("route:8909", Some(994)));
        assert_eq!(row.receive_queue.get(), Some(13_824.0));
    }
}
