//! ps(1): one look at the processes; what it says of the processor is an average over their lives.

use super::tasks::{self, Columns};
use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::{Run, Step};

/// The format.
pub const FORMAT: Format = Format {
    name: "ps",
    versions: "procps 2 to 4: aux, -ef, -el, -elf, with threads by -m",
    tells: "which processes there are, their memory and state; use of the processor over their lives",
    starts: |lines| lines.peek(0).is_some_and(|line| Columns::of(line).is_some()),
    read,
};

/// The length of the step a life's average is put on: it bears on no rate.
const STEP: Step = Step { from: 0.0, to: 1.0 };

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let Some(columns) = lines.peek(0).and_then(Columns::of) else { return Ok(()) };
    lines.skip(1);
    tasks::read(lines, run, STEP, &columns)?;
    run.note(
        "use of the processor by process",
        "an average over each process' life, not of now",
        "add the output of: top -b -n 2",
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
    fn memory_by_process() {
        let window = window_of(&fixture("cases/033-oom-mail-client-leak/ps.txt"));
        let largest =
            window.newest::<Process>().into_values().max_by(|a, b| a.rss.get().partial_cmp(&b.rss.get()).unwrap());
        assert_eq!(largest.unwrap().command.get(), Some("evolution"));
    }
}
