//! free(1): the old layout with a line of its own for what buffers and cache leave, and the new one with `available`.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::Meminfo;
use whyslow_model::key::Machine;

/// The format.
pub const FORMAT: Format = Format {
    name: "free",
    versions: "procps 2 to 4, -b, -k, -m, -g, -h, -w",
    tells: "how much memory can still be had; page cache is no use of it",
    starts,
    read,
};

const COLUMNS: &[&str] = &["total", "used", "free", "shared", "buffers", "cached", "buff/cache", "cache", "available"];

fn starts(lines: &mut Lines<'_>) -> bool {
    lines
        .peek(0)
        .is_some_and(|line| crate::table::is_header(line, COLUMNS, 4) && line.trim_start().starts_with("total"))
}

fn read(lines: &mut Lines<'_>, asked: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let names: Vec<String> = crate::table::words(&lines.take().map(|l| l.text).unwrap_or_default());
    let unit = unit(asked);
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.to_owned();
        let Some((kind, rest)) = text.split_once(':') else { break };
        let kind = kind.trim();
        if !["Mem", "Swap", "-/+ buffers/cache", "Low", "High", "Total"].contains(&kind) {
            break;
        }
        lines.skip(blanks);
        let values: Option<Vec<f64>> = rest.split_whitespace().map(|field| amount(field, unit)).collect();
        let want = if kind == "Mem" { names.len() } else { 2 };
        let Some(values) = values.filter(|v| v.len() >= want) else {
            return Err(lines.refuse(format!("{want} amounts of memory under {}", names.join(" "))));
        };
        tell(run, lines.number(), kind, &names, &values);
        lines.skip(1);
    }
    Ok(())
}

fn tell(run: &mut Run, line: u32, kind: &str, names: &[String], values: &[f64]) {
    let row = run.row::<Meminfo>(0.0, line, Machine);
    let of = |name: &str| names.iter().position(|n| n == name).and_then(|at| values.get(at).copied());
    match kind {
        "Mem" => {
            row.mem_total = of("total").into();
            row.mem_free = of("free").into();
            row.shmem = of("shared").into();
            row.buffers = of("buffers").into();
            row.cached = of("cached").or(of("buff/cache")).or(of("cache")).into();
            row.mem_available = of("available").into();
        }
        // What is left when all cache is given back: the old layout's estimate of what can be had.
        "-/+ buffers/cache" => row.mem_available = values.get(1).copied().into(),
        "Swap" => {
            row.swap_total = values.first().copied().into();
            row.swap_free = values.get(2).copied().or(values.first().zip(values.get(1)).map(|(t, u)| t - u)).into();
        }
        _ => {}
    }
}

fn unit(asked: &Asked) -> f64 {
    let units = [('b', 1.0), ('m', 1_048_576.0), ('g', 1_073_741_824.0)];
    units.iter().find(|(option, _)| asked.has("free", *option)).map_or(1024.0, |(_, unit)| *unit)
}

/// `226`, or `1.5Gi` with `-h`.
fn amount(field: &str, unit: f64) -> Option<f64> {
    let digits = field.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(field.len());
    let (digits, suffix) = field.split_at(digits);
    let unit = match suffix.trim_end_matches(['i', 'B']) {
        "" if suffix.is_empty() => unit,
        "" => 1.0,
        "K" => 1024.0,
        "M" => 1_048_576.0,
        "G" => 1_073_741_824.0,
        "T" => 1_099_511_627_776.0,
        _ => return None,
    };
    Some(number(digits)? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    const MIB: f64 = 1_048_576.0;

    #[test]
    fn both_layouts() {
        let old = window_of(&fixture("net-free-m-after-pin.txt"));
        let memory = old.the::<Meminfo>().unwrap();
        assert_eq!(memory.mem_available.get(), Some(226.0 * MIB));
        assert_eq!((memory.cached.get(), memory.swap_free.get()), (Some(200.0 * MIB), Some(505.0 * MIB)));
        let new = "               total        used        free      shared  buff/cache   available
Mem:           7.6Gi       1.2Gi       4.5Gi       100Mi       2.0Gi       6.1Gi
Swap:          100Mi          0B       100Mi
";
        let new = window_of(new);
        assert_eq!(new.the::<Meminfo>().unwrap().mem_available.get(), Some(6.1 * 1024.0 * MIB));
        assert_eq!(refusal_of("total used free shared buffers cached\nMem: 249 30 218\n").line, 2);
    }
}
