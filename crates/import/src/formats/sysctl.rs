//! sysctl(8): kernel settings, some of which are limits.

use crate::prelude::*;
use whyslow_model::catalogue::{Conntrack, Ipc, Limits, Setting};

pub const FORMAT: Format = Format {
    name: "sysctl",
    versions: "sysctl -a and single settings: name = value",
    shows: "limits; with ipcs, whether they are reached",
    lacks: "what uses them",
    programs: &[program("sysctl")],
    files: &["sysctl"],
    columns: &[&IPC, &LIMITS, &CONNTRACK],
    starts: |lines| lines.next_is(|line| setting(line).is_some()),
    read,
    ..Format::NEW
};

/// kernel.shmall counts pages (sysvipc(7)), nearly always of 4 KiB.
const IPC: MetricColumns<Ipc> = columns![
    "kernel.shmall" => shm_bytes_max * 4096.0, "kernel.shmmax" => shm_segment_max,
    "kernel.shmmni" => shm_segments_max, "kernel.msgmni" => msg_queues_max, "kernel.sem 2" => semaphores_max,
    "kernel.sem 4" => sem_arrays_max,
];
const LIMITS: MetricColumns<Limits> = columns![
    "fs.file-max" => files_max, "fs.file-nr" => files, "fs.file-nr 3" => files_max, "kernel.pid_max" => pid_max,
    "kernel.threads-max" => threads_max, "vm.max_map_count" => map_count_max,
];
const CONNTRACK: MetricColumns<Conntrack> = columns![
    "net.netfilter.nf_conntrack_max" => max, "net.netfilter.nf_conntrack_count" => count,
];
const TREES: [&str; 10] = ["kernel.", "vm.", "net.", "fs.", "dev.", "user.", "abi.", "debug.", "crypto.", "sunrpc."];

/// Parses `kernel.shmall = 2097152`.
fn setting(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(" = ")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/*".contains(c);
    let name = name.trim();
    (TREES.iter().any(|tree| name.starts_with(tree)) && name.chars().all(plain)).then_some((name, value.trim()))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    while let Some(line) = lines.take_if(|text| setting(text).is_some()) {
        let Some((name, value)) = setting(&line.text) else { break };
        // Some settings have several values: `kernel.sem = 250 32000 32 128`.
        let values = value.split_whitespace().zip(1..).filter_map(|(value, nth)| {
            let name = if nth == 1 { name.to_owned() } else { format!("{name} {nth}") };
            Some((name, number(value)?))
        });
        let row = TableRow::new(line.number, "", values);
        // The setting has four values, unless it was cut.
        if name != "kernel.sem" || value.split_whitespace().count() == 4 {
            record(run, &row, &IPC);
        }
        record(run, &row, &LIMITS);
        record(run, &row, &CONNTRACK);
        run.row::<Setting>(0.0, line.number, name.into()).value = value.into();
    }
    Ok(())
}

fn record<F: Family<Key = MachineKey>>(run: &mut ToolRun, row: &TableRow, columns: &MetricColumns<F>) {
    if !columns.values(row).is_empty() {
        run.counts(0.0, MachineKey, row, columns);
    }
}
