//! Files of /proc that somebody copied.

pub(crate) mod diskstats;
pub(crate) mod interrupts;
pub(crate) mod mdstat;
pub(crate) mod meminfo;
pub(crate) mod net_dev;
pub(crate) mod scsi;
pub(crate) mod softnet;

use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use std::collections::BTreeSet;
use whyslow_model::catalogue::Family;

/// Takes the lines of one copy, a row each, which `row` reads from a line and its number in the file, from 0. An entity
/// that comes again begins another copy.
///
/// # Errors
/// A line that is not what the kernel writes.
fn copy<F: Family>(
    lines: &mut Lines<'_>,
    run: &mut Run,
    is_line: fn(&str) -> bool,
    row: impl Fn(&str, u32) -> Option<F>,
    expected: &str,
) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for index in 0.. {
        let Some(text) = lines.peek(0).filter(|text| is_line(text)).map(str::to_owned) else { break };
        let read = row(&text, index).ok_or_else(|| lines.refuse(expected));
        if read.as_ref().is_ok_and(|row| !seen.insert(row.key().clone())) {
            break;
        }
        let line = lines.number();
        lines.skip(1);
        if let Some(row) = lines.keep(read)? {
            run.put(0.0, line, row);
        }
    }
    Ok(())
}
