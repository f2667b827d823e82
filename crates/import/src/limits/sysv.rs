//! ipcs(1) and sysctl(8): System V shared memory and semaphores against their limits.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::{Conntrack, Ipc, Limits, Setting};
use whyslow_model::key::Machine;

/// The settings.
pub const SYSCTL: Format = Format {
    name: "sysctl",
    versions: "sysctl -a and single settings: name = value",
    tells: "limits; with ipcs, whether they are reached",
    starts: |lines| lines.peek(0).is_some_and(|line| setting(line).is_some()),
    read: sysctl,
};

/// What is taken.
pub const IPCS: Format = Format {
    name: "ipcs",
    versions: "util-linux, all tables",
    tells: "shared memory segments and semaphores; with sysctl, whether the limits are reached",
    starts: |lines| lines.peek(0).is_some_and(|line| table(line).is_some()),
    read: ipcs,
};

/// kernel.shmall counts pages (sysvipc(7)); nearly all machines have pages of this size.
const PAGE: f64 = 4096.0;

/// `kernel.shmall = 2097152`
fn setting(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(" = ")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/*".contains(c);
    let known = ["kernel.", "vm.", "net.", "fs.", "dev.", "user.", "abi.", "debug.", "crypto.", "sunrpc."];
    let name = name.trim();
    (known.iter().any(|k| name.starts_with(k)) && name.chars().all(plain)).then_some((name, value.trim()))
}

fn sysctl(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    while let Some((name, value)) = lines.peek(0).and_then(setting).map(|(n, v)| (n.to_owned(), v.to_owned())) {
        let line = lines.number();
        let first = value.split_whitespace().next().and_then(number);
        let ipc = |run: &mut Run, set: fn(&mut Ipc, f64)| {
            if let Some(value) = first {
                set(run.row::<Ipc>(0.0, line, Machine), value);
            }
        };
        match name.as_str() {
            "kernel.shmall" => ipc(run, |row, pages| row.shm_bytes_max = (pages * PAGE).into()),
            "kernel.shmmax" => ipc(run, |row, bytes| row.shm_segment_max = bytes.into()),
            "kernel.shmmni" => ipc(run, |row, count| row.shm_segments_max = count.into()),
            "kernel.msgmni" => ipc(run, |row, count| row.msg_queues_max = count.into()),
            "kernel.sem" => {
                let parts: Vec<Option<f64>> = value.split_whitespace().map(number).collect();
                let row = run.row::<Ipc>(0.0, line, Machine);
                row.semaphores_max = parts.get(1).copied().flatten().into();
                row.sem_arrays_max = parts.get(3).copied().flatten().into();
            }
            "fs.file-max" => run.row::<Limits>(0.0, line, Machine).files_max = first.into(),
            "fs.file-nr" => run.row::<Limits>(0.0, line, Machine).files = first.into(),
            "kernel.pid_max" => run.row::<Limits>(0.0, line, Machine).pid_max = first.into(),
            "kernel.threads-max" => run.row::<Limits>(0.0, line, Machine).threads_max = first.into(),
            "net.netfilter.nf_conntrack_max" => run.row::<Conntrack>(0.0, line, Machine).max = first.into(),
            "net.netfilter.nf_conntrack_count" => run.row::<Conntrack>(0.0, line, Machine).count = first.into(),
            _ => {}
        }
        run.row::<Setting>(0.0, line, name.into()).value = value.into();
        lines.skip(1);
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    Memory,
    Semaphores,
    Queues,
}

/// `------ Shared Memory Segments --------`
fn table(line: &str) -> Option<Table> {
    let title = line.trim();
    let title = title.starts_with("---").then(|| title.trim_matches(['-', ' ']))?;
    match title {
        "Shared Memory Segments" => Some(Table::Memory),
        "Semaphore Arrays" => Some(Table::Semaphores),
        "Message Queues" => Some(Table::Queues),
        _ => None,
    }
}

fn ipcs(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    while let Some((blanks, kind)) = lines.peek_past_blanks(0).and_then(|(blanks, line)| Some((blanks, table(line)?))) {
        lines.skip(blanks);
        let line = lines.number();
        lines.skip(1);
        let amounts = rows(lines, kind)?;
        let row = run.row::<Ipc>(0.0, line, Machine);
        let count = Some(amounts.len() as f64);
        match kind {
            Table::Memory => {
                // Each segment is rounded up to pages (ipc/shm.c).
                row.shm_bytes = amounts.iter().map(|bytes| (bytes / PAGE).ceil() * PAGE).sum::<f64>().into();
                row.shm_largest = amounts.iter().copied().reduce(f64::max).into();
                row.shm_segments = count.into();
            }
            Table::Semaphores => {
                row.sem_arrays = count.into();
                row.semaphores = amounts.iter().sum::<f64>().into();
            }
            Table::Queues => row.msg_queues = count.into(),
        }
    }
    Ok(())
}

/// The bytes of each segment, the semaphores of each array.
fn rows(lines: &mut Lines<'_>, kind: Table) -> Result<Vec<f64>, Refusal> {
    let mut amounts = Vec::new();
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let fields: Vec<&str> = text.split_whitespace().collect();
        if fields[0] == "key" {
            lines.skip(blanks + 1);
            continue;
        }
        if !fields[0].starts_with("0x") {
            break;
        }
        let column = if kind == Table::Queues { 5 } else { 4 };
        let amount = fields.get(column).and_then(|f| number(f));
        lines.skip(blanks);
        match amount {
            Some(amount) => amounts.push(amount),
            None => return Err(lines.refuse("key, id, owner, permissions and a number")),
        }
        lines.skip(1);
    }
    Ok(amounts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn shared_memory_against_its_limit() {
        let window = window_of(&fixture("shm-ipcs-sysctl-ulimit.txt"));
        let row = window.the::<Ipc>().unwrap();
        assert_eq!(row.shm_bytes_max.get(), Some(8.0 * 1_073_741_824.0));
        let bytes = window.change::<Ipc>().unwrap().readings(|i| i.shm_bytes).last().unwrap();
        assert!((bytes / (8_558_477_312.0 + 393_216.0) - 1.0).abs() < 1e-6);
    }
}
