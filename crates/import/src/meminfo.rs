//! /proc/meminfo (Documentation/filesystems/proc.rst), whole or in part.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::{Family, Meminfo};
use whyslow_model::key::Machine;

/// The format.
pub const FORMAT: Format = Format {
    name: "/proc/meminfo",
    versions: "all, whole or in part",
    tells: "what holds memory, and what nothing accounts for",
    starts,
    read,
};

/// The names of lines that the catalogue spells otherwise than by lower case and underscores.
const NAMES: &[(&str, &str)] = &[
    ("SReclaimable", "s_reclaimable"),
    ("SUnreclaim", "s_unreclaim"),
    ("KReclaimable", "k_reclaimable"),
    ("NFS_Unstable", "nfs_unstable"),
    ("Committed_AS", "committed_as"),
    ("CommitLimit", "commit_limit"),
];

fn starts(lines: &mut Lines<'_>) -> bool {
    lines.peek(0).is_some_and(|line| entry(line).is_some_and(|(name, _)| name == "MemTotal"))
}

/// `MemTotal:       394292660 kB`
fn entry(line: &str) -> Option<(&str, u64)> {
    let (name, rest) = line.split_once(':')?;
    let value: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((name.trim(), value.saturating_mul(1024)))
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    while let Some(text) = lines.peek(0) {
        let cut = text.trim().is_empty() || text.trim().trim_matches('.').is_empty();
        if let Some((name, bytes)) = entry(text).map(|(name, bytes)| (metric(name), bytes)) {
            let number = lines.number();
            run.row::<Meminfo>(0.0, number, Machine).set(&name, bytes);
        } else if !cut && !text.starts_with("HugePages_") && !text.starts_with("DirectMap") {
            break;
        }
        lines.skip(1);
    }
    Ok(())
}

/// `Active(anon)` is `active_anon`, `MemTotal` is `mem_total`.
fn metric(name: &str) -> String {
    if let Some((_, metric)) = NAMES.iter().find(|(kernel, _)| *kernel == name) {
        return (*metric).to_owned();
    }
    let mut metric = String::new();
    for c in name.chars() {
        match c {
            '(' => metric.push('_'),
            ')' => {}
            _ if c.is_ascii_uppercase() => {
                if !metric.is_empty() && !metric.ends_with('_') {
                    metric.push('_');
                }
                metric.push(c.to_ascii_lowercase());
            }
            _ => metric.push(c),
        }
    }
    metric
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
        assert_eq!(metric("Active(file)"), "active_file");
    }
}
