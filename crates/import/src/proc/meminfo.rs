//! /proc/meminfo (Documentation/filesystems/proc.rst), whole or in part.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::Meminfo;
use whyslow_model::key::Machine;
use whyslow_proc::meminfo;

/// The format.
pub const FORMAT: Format = Format {
    name: "/proc/meminfo",
    versions: "all, whole or in part",
    tells: "what holds memory, and what nothing accounts for",
    starts,
    read,
};

fn starts(lines: &mut Lines<'_>) -> bool {
    lines.peek(0).is_some_and(|line| line.starts_with("MemTotal:") && is_line(line))
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let mut metric = String::new();
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        let cut = text.trim().is_empty() || text.trim().trim_matches('.').is_empty();
        if is_line(&text) {
            let row = run.row::<Meminfo>(0.0, lines.number(), Machine);
            if meminfo::take(&text, row, &mut metric).is_none() {
                return Err(lines.refuse("a name, an amount and its unit: MemTotal:  394292660 kB"));
            }
        } else if !cut {
            break;
        }
        lines.skip(1);
    }
    Ok(())
}

/// A name that ends in a colon, then a number or what is left of one.
fn is_line(text: &str) -> bool {
    let Some((name, value)) = text.split_once(':') else { return false };
    let unit = value.trim_end().ends_with("kB") || name.starts_with("HugePages_");
    unit && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_()".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn lines_cut_out_are_absent() {
        let window = window_of(&fixture("cases/016-nfsd-kernel-memory-leak-oom/meminfo.txt"));
        let memory = window.the::<Meminfo>().unwrap();
        assert_eq!(memory.mem_total.get(), Some(394_292_660.0 * 1024.0));
        assert_eq!(memory.s_unreclaim.get(), Some(201_780.0 * 1024.0));
        assert_eq!(memory.active.get(), Some(325_936.0 * 1024.0));
        assert_eq!(memory.page_tables.get(), None);
    }
}
