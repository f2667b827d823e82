//! What sysstat's tools tell of the processors, as shares of their time.

use crate::refusal::Refusal;
use crate::run::{Run, SECOND, Step};
use crate::table::Row;
use whyslow_model::catalogue::{Cpu, CpuMean};
use whyslow_model::key::Machine;
use whyslow_model::value::Name;

/// The columns of a mode, of which a tool has one, and the counter of it.
const MODES: &[(&[&str], &str)] = &[
    (&["%user", "%usr"], "user"),
    (&["%nice"], "nice"),
    (&["%system", "%sys"], "system"),
    (&["%iowait"], "iowait"),
    (&["%irq"], "irq"),
    (&["%soft"], "softirq"),
    (&["%steal"], "steal"),
    (&["%idle"], "idle"),
];
/// Counted apart from user and nice by these tools, within them by the kernel.
const GUESTS: [(&str, &str); 2] = [("%guest", "user"), ("%gnice", "nice")];
/// Rounded shares do not add up to 100 exactly.
const SLACK: f64 = 1.5;

/// Refuses shares that do not add up to the whole: the header does not fit them.
///
/// # Errors
/// Where they do not.
pub fn check(file: &Name, header: u32, row: &Row) -> Result<(), Refusal> {
    let sum: f64 = rates(row).iter().filter_map(|(_, rate)| *rate).sum::<f64>() / SECOND * 100.0;
    if sum == 0.0 || (sum - 100.0).abs() <= SLACK {
        return Ok(());
    }
    let expected = format!("processor shares that add up to 100, under the header of line {header}");
    Err(Refusal::new(file, row.line, expected, &format!("a sum of {sum:.2}")))
}

fn rates(row: &Row) -> Vec<(&'static str, Option<f64>)> {
    let guests =
        |mode| GUESTS.iter().filter(|(_, of)| *of == mode).filter_map(|(column, _)| row.get(column)).sum::<f64>();
    MODES
        .iter()
        .map(|(columns, mode)| {
            let share = columns.iter().find_map(|column| row.get(column));
            (*mode, share.map(|share| (share + guests(*mode)) * SECOND / 100.0))
        })
        .collect()
}

/// All processors together.
pub fn mean(run: &mut Run, step: Step, row: &Row) {
    run.grow::<CpuMean>(step, row.line, Machine, &rates(row));
}

/// One processor.
pub fn one(run: &mut Run, step: Step, row: &Row, cpu: u32) {
    run.grow::<Cpu>(step, row.line, cpu, &rates(row));
}
