//! /proc/meminfo: memory by use (Documentation/filesystems/proc.rst, section 1.2).

use crate::text::{number, word};
use whyslow_model::catalogue::{Family, Meminfo};

/// Parses a line. Skips names that the catalogue lacks; `metric` is a buffer for names. `None` if the line is
/// malformed.
pub fn take(line: &str, row: &mut Meminfo, metric: &mut String) -> Option<()> {
    let (name, value) = entry(line)?;
    snake_case(name, metric);
    row.set(metric, value);
    Some(())
}

/// Parses `Name:  value kB` into bytes; a value without a unit is a count.
pub fn entry(line: &str) -> Option<(&str, u64)> {
    let (name, mut rest) = line.split_once(':')?;
    let value = number(&mut rest)?;
    let scale = match word(&mut rest) {
        Some("kB") => 1024,
        None => 1,
        Some(_) => return None,
    };
    rest.trim_ascii().is_empty().then(|| (name, value.saturating_mul(scale)))
}

/// Converts a kernel name to the catalogue's form: `Active(anon)` is `active_anon`, `SReclaimable` is `s_reclaimable`.
fn snake_case(name: &str, out: &mut String) {
    out.clear();
    let bytes = name.as_bytes();
    for (i, &b) in bytes.iter().enumerate() {
        let next_is_lower = bytes.get(i + 1).is_some_and(u8::is_ascii_lowercase);
        let starts_word = match i.checked_sub(1).map(|before| bytes[before]) {
            Some(before) => before.is_ascii_lowercase() || before.is_ascii_uppercase() && next_is_lower,
            None => false,
        };
        match b {
            b'(' => out.push('_'),
            b')' => {}
            b'A'..=b'Z' => {
                if starts_word {
                    out.push('_');
                }
                out.push(b.to_ascii_lowercase().into());
            }
            _ => out.push(b.into()),
        }
    }
}
