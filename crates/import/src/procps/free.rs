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
    let mut amounts: Vec<Amounts> = Vec::new();
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.to_owned();
        let Some((kind, rest)) = text.split_once(':') else { break };
        let kind = kind.trim();
        // A second line of a kind begins another report, whose header was cut off.
        let again = amounts.iter().any(|line| line.kind == kind);
        if !["Mem", "Swap", "-/+ buffers/cache", "Low", "High", "Total"].contains(&kind) || again {
            break;
        }
        lines.skip(blanks);
        let values: Option<Vec<Amount>> = rest.split_whitespace().map(amount).collect();
        let want = if kind == "Mem" { names.len() } else { 2 };
        let Some(values) = values.filter(|v| v.len() >= want) else {
            return Err(lines.refuse(format!("{want} amounts of memory under {}", names.join(" "))));
        };
        amounts.push(Amounts { line: lines.number(), kind: kind.to_owned(), values });
        lines.skip(1);
    }
    let Some(unit) = unit(asked, &lines.file().clone(), &amounts) else {
        run.note(
            "free",
            "the unit of its numbers is not printed, and the numbers fit more than one",
            "paste the command line too (free -m), or give the output of free -h",
        );
        return Ok(());
    };
    for Amounts { line, kind, values } in amounts {
        let bytes: Vec<f64> = values.iter().map(|a| a.number * a.unit.unwrap_or(unit)).collect();
        tell(run, line, &kind, &names, &bytes);
    }
    Ok(())
}

/// The amounts on one line.
struct Amounts {
    line: u32,
    kind: String,
    values: Vec<Amount>,
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

const KIB: f64 = 1024.0;
const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1_073_741_824.0;

/// The unit by the command line, else by a file name that holds it, else by the numbers. `None` where it is not certain.
fn unit(asked: &Asked, file: &str, amounts: &[Amounts]) -> Option<f64> {
    if let Some(command) = asked.command.as_ref().filter(|c| c.tool() == "free") {
        let units = command.arguments().filter_map(|word| unit_of_option(word.trim_start_matches('-'), word));
        return Some(units.last().unwrap_or(KIB));
    }
    let plain = |line: &Amounts| line.values.iter().filter(|a| a.unit.is_none()).map(|a| a.number).collect::<Vec<_>>();
    let numbers: Vec<f64> = amounts.iter().flat_map(plain).filter(|n| *n > 0.0).collect();
    if numbers.is_empty() {
        // Every amount says its unit (-h), or there is none.
        return Some(KIB);
    }
    let total =
        |kind: &str| amounts.iter().find(|line| line.kind == kind).and_then(|line| Some(line.values.first()?.number));
    let fitting = by_numbers(&numbers, total("Mem").unwrap_or(0.0), total("Swap").unwrap_or(0.0));
    match in_name(file) {
        Some(named) => fitting.contains(&named).then_some(named),
        None => <[f64; 1]>::try_from(fitting).ok().map(|[unit]| unit),
    }
}

/// `-m`, `-hm`, `--mebi`: the options of free(1), also those that count in powers of ten.
fn unit_of_option(name: &str, word: &str) -> Option<f64> {
    if word.starts_with("--") {
        let units = [("bytes", 1.0), ("kilo", 1e3), ("mega", 1e6), ("giga", 1e9), ("tera", 1e12), ("kibi", KIB)];
        let more = [("mebi", MIB), ("gibi", GIB), ("tebi", GIB * KIB)];
        return units.into_iter().chain(more).find(|(option, _)| *option == name).map(|(_, unit)| unit);
    }
    let units = [('b', 1.0), ('k', KIB), ('m', MIB), ('g', GIB)];
    let option = word.starts_with('-').then(|| name.chars().find_map(|c| units.iter().find(|(o, _)| *o == c)))?;
    option.map(|(_, unit)| *unit)
}

/// `net-free-m-before.txt`, `free_g`: what people call files after the command.
fn in_name(file: &str) -> Option<f64> {
    let name = file.rsplit('/').next()?;
    let rest = name.split_once("free")?.1.trim_start_matches(['_', '-', ' ']);
    let mut rest = rest.chars();
    let option = rest.next()?;
    let ends = rest.next().is_none_or(|c| !c.is_alphanumeric());
    unit_of_option(&option.to_string(), &format!("-{option}")).filter(|_| ends)
}

/// From so much in MiB on it is no machine's memory in GiB; from so much swap on neither. These are 4 TiB and 256 GiB.
const NO_MEMORY_IN_GIB: f64 = 4096.0;
const NO_SWAP_IN_GIB: f64 = 256.0;
/// The least and the most memory a machine has.
const LEAST: f64 = 16.0 * MIB;
const MOST: f64 = 64.0 * 1024.0 * GIB;
/// So many numbers are whole pages in a finer unit by chance once in 256 machines or less.
const ENOUGH: usize = 4;

/// The units that the numbers fit: the kernel counts in pages of 4 KiB, so that in bytes and in KiB every number is a
/// multiple of a page, and in larger units nearly never is.
fn by_numbers(numbers: &[f64], total: f64, swap: f64) -> Vec<f64> {
    let is = |unit: f64| (LEAST..=MOST).contains(&(total * unit));
    let multiples = |of: f64| numbers.iter().all(|n| n % of == 0.0);
    let finer = if multiples(4096.0) && is(1.0) {
        Some(1.0)
    } else if multiples(4.0) && is(KIB) {
        Some(KIB)
    } else {
        None
    };
    if let Some(unit) = finer.filter(|_| numbers.len() >= ENOUGH) {
        return vec![unit];
    }
    let mut fitting: Vec<f64> = finer.into_iter().collect();
    if is(MIB) {
        fitting.push(MIB);
    }
    if is(GIB) && total < NO_MEMORY_IN_GIB && swap < NO_SWAP_IN_GIB {
        fitting.push(GIB);
    }
    fitting
}

/// A number, with its unit where it is printed.
struct Amount {
    number: f64,
    unit: Option<f64>,
}

/// `226`, or `1.5Gi` with `-h`.
fn amount(field: &str) -> Option<Amount> {
    let digits = field.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(field.len());
    let (digits, suffix) = field.split_at(digits);
    let unit = match suffix.trim_end_matches(['i', 'B']) {
        "" if suffix.is_empty() => None,
        "" => Some(1.0),
        "K" => Some(KIB),
        "M" => Some(MIB),
        "G" => Some(GIB),
        "T" => Some(GIB * KIB),
        _ => return None,
    };
    Some(Amount { number: number(digits)?, unit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, read_text, refusal_of, window_of};

    /// What a machine prints in each unit, without the command line.
    fn printed(unit: f64) -> String {
        let kib = |n: f64| (n * KIB / unit).floor();
        let mem = [8_009_876.0, 1_238_044.0, 4_820_912.0, 102_404.0, 1_950_920.0, 6_410_332.0].map(kib);
        let words = |all: &[f64]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let swap = [524_284.0, 4.0, 524_280.0].map(kib);
        format!("total used free shared buff/cache available\nMem: {}\nSwap: {}\n", words(&mem), words(&swap))
    }

    fn total(text: &str) -> Option<f64> {
        read_text(text).ok()?.first()?.window.the::<Meminfo>()?.mem_total.get()
    }

    #[test]
    fn the_unit_is_known_by_the_numbers_where_nothing_else_tells_it() {
        for unit in [1.0, KIB, MIB] {
            let read = total(&printed(unit)).unwrap_or_else(|| panic!("{}", printed(unit)));
            assert!((read / (8_009_876.0 * KIB) - 1.0).abs() < 0.01, "{unit} {read}");
        }
        // 249 may be MiB or GiB, but 509 GiB of swap nobody has.
        let old = fixture("net-free-m-before.txt");
        assert_eq!(total(old.split_once('\n').unwrap().1), Some(249.0 * MIB));
    }

    #[test]
    fn a_unit_that_is_not_certain_is_not_assumed() {
        let text = "total used free shared buff/cache available\nMem: 991 405 111 3 475 437\nSwap: 0 0 0\n";
        assert_eq!(total(text), None);
        let captures = read_text(text).unwrap();
        let why = format!("{:?}", captures[0].window.snapshots()[0].sources);
        assert!(why.contains("unit") && why.contains("free -h"), "{why}");
        for (name, want) in
            [("web-free-m.txt", Some(991.0 * MIB)), ("free_-g", Some(991.0 * GIB)), ("freeman.txt", None)]
        {
            let input = crate::Input { name: name.into(), reader: Box::new(text.as_bytes()) };
            let captures = crate::read(vec![input], false).unwrap();
            assert_eq!(captures[0].window.the::<Meminfo>().and_then(|m| m.mem_total.get()), want, "{name}");
        }
        for (command, want) in [("free", 991.0 * KIB), ("free -hm", 991.0 * MIB), ("free --giga", 991.0 * 1e9)] {
            assert_eq!(total(&format!("$ {command}\n{text}")), Some(want), "{command}");
        }
    }

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
