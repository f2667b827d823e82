//! ps(1): a snapshot of processes, whose CPU use is an average over their lifetimes.

use super::task_table::{TaskColumns, read_tasks};
use crate::prelude::*;

pub const FORMAT: Format = Format {
    name: "ps",
    versions: "procps 2 to 4: aux, -ef, -el, -elf, with threads by -m",
    shows: "processes and threads, their memory and state",
    lacks: "current CPU use: C and %CPU are averages over each process's lifetime",
    programs: &[partly_read("ps")],
    files: &["ps"],
    starts: |lines| lines.next_is(|line| TaskColumns::of(line).is_some()),
    read,
    ..Format::NEW
};

/// The assumed length of a lifetime: no rate depends on it.
const LIFETIME: ReportInterval = ReportInterval { from: 0.0, to: 1.0 };

fn read(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let Some(columns) = lines.peek(0).and_then(TaskColumns::of) else { return Ok(()) };
    lines.skip(1);
    read_tasks(lines, run, LIFETIME, &columns)?;
    run.note(
        "current CPU use",
        "ps shows an average over each process's lifetime",
        "add the output of: top -H -b -n 2",
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{fixture, window_of};
    use whyslow_model::catalogue::{Process, Thread};

    #[test]
    fn threads_of_the_process_above_them() {
        let window = window_of(&fixture("cpu-ps-elfm.txt"));
        let threads: Vec<f64> =
            window.changes::<Thread>().iter().map(|t| t.rate(|t| t.cpu_time).unwrap() / 1e9).collect();
        assert_eq!(threads, [0.0, 0.64, 0.64]);
        assert_eq!(window.the::<Process>().unwrap().command.get(), Some("CPU_load_count"));
    }

    #[test]
    fn memory_is_read_by_process() {
        let window = window_of(&fixture("cases/033-oom-mail-client-leak/ps.txt"));
        let largest =
            window.newest::<Process>().into_values().max_by(|a, b| a.rss.get().partial_cmp(&b.rss.get()).unwrap());
        assert_eq!(largest.unwrap().command.get(), Some("evolution"));
    }
}
