//! ipcs(1): System V shared memory, semaphores and message queues in use.

use crate::prelude::*;
use whyslow_model::catalogue::Ipc;

pub const FORMAT: Format = Format {
    name: "ipcs",
    versions: "util-linux, all tables; sums with -u",
    shows: "shared memory segments and semaphores; with sysctl, whether the limits are reached",
    lacks: "whose segments they are",
    programs: &[program("ipcs")],
    files: &["ipcs"],
    starts: |lines| lines.next_is(|line| table(line).is_some() || is_status(line)),
    read,
    ..Format::NEW
};

/// Segments are rounded up to pages (ipc/shm.c).
const PAGE: f64 = 4096.0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum IpcsTable {
    Memory,
    Semaphores,
    Queues,
}

/// Parses `------ Shared Memory Segments --------`.
fn table(line: &str) -> Option<IpcsTable> {
    let title = line.trim();
    match title.starts_with("---").then(|| title.trim_matches(['-', ' ']))? {
        "Shared Memory Segments" => Some(IpcsTable::Memory),
        "Semaphore Arrays" => Some(IpcsTable::Semaphores),
        "Message Queues" => Some(IpcsTable::Queues),
        _ => None,
    }
}

/// Returns true for a title of `ipcs -u` or `ipcs -l`: `------ Shared Memory Status --------`.
fn is_status(line: &str) -> bool {
    let title = line.trim();
    let title = if title.starts_with("---") { title.trim_matches(['-', ' ']) } else { "" };
    [
        "Shared Memory Status",
        "Semaphore Status",
        "Messages Status",
        "Messages: Status",
        "Shared Memory Limits",
        "Semaphore Limits",
        "Messages Limits",
        "Messages: Limits",
    ]
    .contains(&title)
}

/// Returns the number after a name: `segments allocated 3`, `used arrays = 1`.
fn named_number(text: &str, name: &str) -> Option<f64> {
    number(text.trim().strip_prefix(name)?.trim_start_matches([' ', '=']).trim_end())
}

fn status(lines: &mut Lines<'_>, run: &mut ToolRun, line: u32) {
    while let Some(line_of) = lines.take_if(|text| !text.trim().is_empty() && !text.trim().starts_with("---")) {
        let text = &line_of.text;
        let row = run.row::<Ipc>(0.0, line, MachineKey);
        if let Some(count) = named_number(text, "segments allocated") {
            row.shm_segments = count.into();
        } else if let Some(pages) = named_number(text, "pages allocated") {
            row.shm_bytes = (pages * PAGE).into();
        } else if let Some(count) = named_number(text, "used arrays") {
            row.sem_arrays = count.into();
        } else if let Some(count) = named_number(text, "allocated semaphores") {
            row.semaphores = count.into();
        } else if let Some(count) = named_number(text, "allocated queues") {
            row.msg_queues = count.into();
        } else if let Some(count) = named_number(text, "max number of segments") {
            row.shm_segments_max = count.into();
        } else if let Some(kib) = named_number(text, "max total shared memory (kbytes)") {
            row.shm_bytes_max = (kib * KIB).into();
        } else if let Some(kib) = named_number(text, "max seg size (kbytes)") {
            row.shm_segment_max = (kib * KIB).into();
        } else if let Some(count) = named_number(text, "max number of arrays") {
            row.sem_arrays_max = count.into();
        } else if let Some(count) = named_number(text, "max semaphores system wide") {
            row.semaphores_max = count.into();
        } else if let Some(count) = named_number(text, "max queues system wide") {
            row.msg_queues_max = count.into();
        }
    }
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    while let Some(title) = lines.take_past_blanks_if(|text| table(text).is_some() || is_status(text)) {
        let Some(kind) = table(&title.text) else {
            status(lines, run, title.number);
            continue;
        };
        let amounts = amounts(lines, kind)?;
        let row = run.row::<Ipc>(0.0, title.number, MachineKey);
        let count = Some(amounts.len() as f64);
        match kind {
            IpcsTable::Memory => {
                row.shm_bytes = amounts.iter().map(|bytes| (bytes / PAGE).ceil() * PAGE).sum::<f64>().into();
                row.shm_largest = amounts.iter().copied().reduce(f64::max).into();
                row.shm_segments = count.into();
            }
            IpcsTable::Semaphores => {
                row.sem_arrays = count.into();
                row.semaphores = amounts.iter().sum::<f64>().into();
            }
            IpcsTable::Queues => row.msg_queues = count.into(),
        }
    }
    Ok(())
}

/// Returns the bytes of each segment, or the semaphores of each array.
fn amounts(lines: &mut Lines<'_>, kind: IpcsTable) -> Result<Vec<f64>, Refusal> {
    // Column of the amount, and number of columns of a row; segments may have a state.
    let (column, columns) = match kind {
        IpcsTable::Memory => (4, 6..=7),
        IpcsTable::Semaphores => (4, 5..=5),
        IpcsTable::Queues => (5, 6..=6),
    };
    let mut amounts = Vec::new();
    while let Some(line) = lines
        .take_past_blanks_if(|text| text.split_whitespace().next().is_some_and(|f| f == "key" || f.starts_with("0x")))
    {
        if line.text.trim_start().starts_with("0x") {
            let words: Vec<&str> = line.text.split_whitespace().collect();
            let is_id = words.get(1).is_some_and(|id| number(id).is_some());
            let is_mode =
                words.get(3).is_some_and(|mode| mode.len() <= 4 && mode.bytes().all(|b| (b'0'..b'8').contains(&b)));
            match words.get(column).and_then(|word| number(word)) {
                Some(amount) if is_id && is_mode && columns.contains(&words.len()) => amounts.push(amount),
                _ => return Err(lines.refuse_at(&line, "key, id, owner, permissions and a number")),
            }
        }
    }
    Ok(amounts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn sums_are_read() {
        let text = "\n------ Messages Status --------\nallocated queues = 4\nused headers = 0\nused space = 0 bytes\n\n\
            ------ Shared Memory Status --------\nsegments allocated 3\npages allocated 20\npages resident  1\n\
            pages swapped   0\nSwap performance: 0 attempts\t 0 successes\n\n\
            ------ Semaphore Status --------\nused arrays = 1\nallocated semaphores = 2\n\n";
        let window = window_of(text);
        let row = window.the::<Ipc>().unwrap();
        let found = [row.msg_queues, row.shm_segments, row.shm_bytes, row.sem_arrays, row.semaphores];
        assert_eq!(found.map(|number| number.get().unwrap()), [4.0, 3.0, 20.0 * PAGE, 1.0, 2.0]);
    }

    #[test]
    fn shared_memory_against_its_limit() {
        let window = window_of(&fixture("shm-ipcs-sysctl-ulimit.txt"));
        let row = window.the::<Ipc>().unwrap();
        assert_eq!(row.shm_bytes_max.get(), Some(8.0 * 1_073_741_824.0));
        let bytes = window.change::<Ipc>().unwrap().readings(|i| i.shm_bytes).last().unwrap();
        assert!((bytes / (8_558_477_312.0 + 393_216.0) - 1.0).abs() < 1e-6);
    }
}
