//! free(1): the old layout with the line `-/+ buffers/cache`, and the new one with the column `available`.

use crate::prelude::*;
use crate::table::is_header;
use whyslow_model::catalogue::Meminfo;

pub const FORMAT: Format = Format {
    name: "free",
    versions: "procps 2 to 4, -b, -k, -m, -g, -h, -w; the unit from the command line, from -h, or from the numbers if they fit only one; without the header, if the sums fit one version",
    shows: "how much memory is still available; page cache does not count as used",
    lacks: "whether tasks wait for memory",
    programs: &[program("free")],
    files: &["free"],
    columns: &[&MEMORY, &WITHOUT_CACHE, &SWAP],
    starts: |lines| lines.next_is(|line| is_headline(line) || columns_of_row(line).is_some()),
    read,
    ..Format::NEW
};

const COLUMNS: &[&str] = &["total", "used", "free", "shared", "buffers", "cached", "buff/cache", "cache", "available"];
/// Columns of procps up to 3.3.9, and columns since then.
const OLD: [&str; 6] = ["total", "used", "free", "shared", "buffers", "cached"];
const NEW: [&str; 6] = ["total", "used", "free", "shared", "buff/cache", "available"];

fn is_headline(line: &str) -> bool {
    is_header(line, COLUMNS, 4) && line.trim_start().starts_with("total")
}

/// Returns the columns of `Mem:  15884  15001  200  10  683  600` without its header, from the numbers that add up to the
/// total.
fn columns_of_row(line: &str) -> Option<[&'static str; 6]> {
    // Each number is rounded.
    const SLACK: f64 = 3.0;
    // Sums of small numbers fit by chance.
    const LEAST: f64 = 100.0;
    let numbers: Option<Vec<f64>> = line.trim_start().strip_prefix("Mem:")?.split_whitespace().map(number).collect();
    let [total, used, free, _, cache, available] = numbers?[..] else { return None };
    let is_total = |sum: f64| (sum - total).abs() <= SLACK;
    let is_old = is_total(used + free);
    // Since 4.0, used memory is the memory that is not available.
    let is_new = is_total(used + free + cache) || is_total(used + available);
    match (is_old, is_new) {
        _ if total < LEAST => None,
        (true, false) => Some(OLD),
        (false, true) => Some(NEW),
        _ => None,
    }
}

const MEMORY: MetricColumns<Meminfo> = columns![
    "total" => mem_total, "free" => mem_free, "shared" => shmem, "buffers" => buffers, "cached" => cached,
    "buff/cache" => cached, "cache" => cached, "available" => mem_available,
];
/// The old layout's estimate of available memory: free memory if all cache is dropped. Its line begins at `used`.
const WITHOUT_CACHE: MetricColumns<Meminfo> = columns!["used" => mem_available];
const SWAP: MetricColumns<Meminfo> = columns![
    "total" => swap_total, "free" => swap_free,
];

/// Amounts on one line, each with its unit if that is printed.
struct AmountLine {
    line: u32,
    kind: String,
    amounts: Vec<(f64, Option<f64>)>,
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let is_decimal = context.command_of("free").is_some_and(|command| command.arguments().any(|word| word == "--si"));
    let step = if is_decimal { 1e3 } else { KIB };
    let header = lines.take_if(is_headline).map(|line| line.text).unwrap_or_default();
    let by_sums = lines.peek(0).and_then(columns_of_row).filter(|_| header.is_empty());
    let names = by_sums.map_or_else(|| header.split_whitespace().collect(), |names| names.to_vec());
    let mut all: Vec<AmountLine> = Vec::new();
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let Some((kind, rest)) = text.split_once(':').map(|(kind, rest)| (kind.trim().to_owned(), rest)) else { break };
        // A second line of a kind belongs to another report, whose header was cut off.
        let again = all.iter().any(|line| line.kind == kind);
        if !["Mem", "Swap", "-/+ buffers/cache", "Low", "High", "Total"].contains(&kind.as_str()) || again {
            break;
        }
        let want = if kind == "Mem" { names.len() } else { 2 };
        let amounts: Option<Vec<_>> = rest.split_whitespace().map(|field| amount(field, step)).collect();
        lines.skip(blanks);
        let Some(amounts) = amounts.filter(|amounts| fits(&kind, amounts.len(), want)) else {
            return Err(lines.refuse(format!("{want} amounts of memory under {}", names.join(" "))));
        };
        all.push(AmountLine { line: lines.number(), kind, amounts });
        lines.skip(1);
    }
    let Some(unit) = unit(context, is_decimal, &lines.file().clone(), &all) else {
        run.note(
            "free",
            "its unit is not printed, and the numbers fit more than one",
            "include the command line (free -m), or give the output of free -h",
        );
        return Ok(());
    };
    for line in all {
        let columns = match line.kind.as_str() {
            "Mem" => &MEMORY,
            "-/+ buffers/cache" => &WITHOUT_CACHE,
            "Swap" => &SWAP,
            _ => continue,
        };
        let used = (line.kind != "-/+ buffers/cache").then(|| line.amounts.get(1)).flatten();
        let [whole, used] = [line.amounts.first(), used].map(|a| a.map_or(0.0, |(n, own)| n * own.unwrap_or(unit)));
        if !run.is_within(&format!("{}:{}, {}", lines.file(), line.line, line.kind), used, whole, "bytes") {
            continue;
        }
        let bytes = line.amounts.iter().map(|(number, own)| number * own.unwrap_or(unit));
        let row = TableRow::new(line.line, "", names.iter().map(|name| (*name).to_owned()).zip(bytes));
        run.counts(0.0, MachineKey, &row, columns);
    }
    Ok(())
}

/// Returns true if a line has the number of amounts that its kind requires: as many as the header for memory, three for swap,
/// two for memory without the page cache.
fn fits(kind: &str, amounts: usize, headed: usize) -> bool {
    match kind {
        "Mem" => amounts == headed,
        "-/+ buffers/cache" => amounts == 2,
        _ => amounts == 3,
    }
}

/// Returns the unit from the command line, else from a file name that contains it, else from the numbers. Returns `None` if
/// uncertain.
fn unit(context: OutputContext<'_>, is_decimal: bool, file: &str, lines: &[AmountLine]) -> Option<f64> {
    if let Some(command) = context.command_of("free") {
        let unit = command.arguments().filter_map(unit_of_option).last().unwrap_or(KIB);
        return Some(if is_decimal { decimal(unit) } else { unit });
    }
    let plain = lines.iter().flat_map(|line| &line.amounts).filter(|(_, unit)| unit.is_none());
    let numbers: Vec<f64> = plain.map(|(number, _)| *number).filter(|n| *n > 0.0).collect();
    if numbers.is_empty() {
        // Every amount has its own unit (-h).
        return Some(KIB);
    }
    let total = |kind: &str| lines.iter().find(|line| line.kind == kind).and_then(|line| Some(line.amounts.first()?.0));
    let fitting = by_numbers(&numbers, total("Mem").unwrap_or(0.0), total("Swap").unwrap_or(0.0));
    match in_file_name(file) {
        Some(named) => fitting.contains(&named).then_some(named),
        None => <[f64; 1]>::try_from(fitting).ok().map(|[unit]| unit),
    }
}

/// Replaces a power of 1024 by that of 1000, as with `--si`.
fn decimal(unit: f64) -> f64 {
    [KIB, MIB, GIB, GIB * KIB].iter().position(|binary| *binary == unit).map_or(unit, |at| 1e3_f64.powi(at as i32 + 1))
}

/// Parses `-m`, `-hm`, `--mebi`, `--mega`.
fn unit_of_option(word: &str) -> Option<f64> {
    const LONG: [(&str, f64); 9] = [
        ("bytes", 1.0),
        ("kilo", 1e3),
        ("mega", 1e6),
        ("giga", 1e9),
        ("tera", 1e12),
        ("kibi", KIB),
        ("mebi", MIB),
        ("gibi", GIB),
        ("tebi", GIB * KIB),
    ];
    const SHORT: [(char, f64); 4] = [('b', 1.0), ('k', KIB), ('m', MIB), ('g', GIB)];
    if let Some(name) = word.strip_prefix("--") {
        return LONG.into_iter().find(|(option, _)| *option == name).map(|(_, unit)| unit);
    }
    let letters = word.strip_prefix('-')?;
    letters.chars().find_map(|c| SHORT.iter().find(|(option, _)| *option == c)).map(|(_, unit)| *unit)
}

/// Returns the unit in a file name such as `net-free-m-before.txt` or `free_g`: files are often named after the command.
fn in_file_name(file: &str) -> Option<f64> {
    let name = file.rsplit('/').next()?;
    let mut rest = name.split_once("free")?.1.trim_start_matches(['_', '-', ' ']).chars();
    let option = rest.next()?;
    let ends = rest.next().is_none_or(|c| !c.is_alphanumeric());
    unit_of_option(&format!("-{option}")).filter(|_| ends)
}

/// Amounts of memory and swap, in GiB, that hardly any machine has: 4 TiB and 256 GiB.
const TOO_MUCH_MEMORY: f64 = 4096.0;
const TOO_MUCH_SWAP: f64 = 256.0;
/// Minimum and maximum memory of a machine.
const LEAST: f64 = 16.0 * MIB;
const MOST: f64 = 64.0 * 1024.0 * GIB;
/// At this count, the numbers are whole pages in a finer unit by chance on at most one of 256 machines.
const ENOUGH: usize = 4;

/// Returns the units that fit the numbers. The kernel counts in pages of 4 KiB, so in bytes and in KiB every number is a
/// multiple of a page, and in larger units almost never.
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
    // Digits changed by hand are likelier than so much memory; free prints KiB unless another unit is requested.
    if finer.is_none() && is(KIB) && total * MIB >= TOO_MUCH_MEMORY * GIB {
        return vec![KIB];
    }
    let mut fitting: Vec<f64> = finer.into_iter().collect();
    if is(MIB) {
        fitting.push(MIB);
    }
    if is(GIB) && total < TOO_MUCH_MEMORY && swap < TOO_MUCH_SWAP {
        fitting.push(GIB);
    }
    fitting
}

/// Parses `226`, or `1.5Gi` and `512B` with `-h`; prefixes stand for powers of this step.
fn amount(field: &str, step: f64) -> Option<(f64, Option<f64>)> {
    let prefixed = field.trim_end_matches(['i', 'B']);
    if field.ends_with(|c: char| c.is_ascii_digit()) {
        return Some((number(field)?, None));
    }
    Some((scaled(prefixed, step, 1.0)?, Some(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, read_text, refusal_of, window_of};

    #[test]
    fn units_of_si_are_decimal() {
        const HEADER: &str = "               total        used        free      shared  buff/cache   available\n";
        let total = |command: &str, row: &str| {
            let window = window_of(&format!("$ {command}\n{HEADER}Mem:  {row}\n"));
            window.the::<Meminfo>().unwrap().mem_total.get()
        };
        assert_eq!(total("free -m --si", "33430 5000 20000 100 8430 28000"), Some(33_430e6));
        assert_eq!(total("free -h --si", "33G 5.0G 20G 100M 8.4G 28G"), Some(33e9));
        assert_eq!(total("free -h", "31Gi 5.0Gi 20Gi 100Mi 8.4Gi 28Gi"), Some(31.0 * GIB));
    }

    #[test]
    fn columns_without_a_header_are_those_that_add_up() {
        let of = |row: &str| columns_of_row(row).map(|names| names[4]);
        assert_eq!(
            of("Mem:         15884       15001         200          10         683         600"),
            Some("buff/cache")
        );
        assert_eq!(
            of("Mem:         15884        9884         200          10        5800        6000"),
            Some("buff/cache")
        );
        assert_eq!(of("Mem:      16265060   16000000     265060       1000     100000    9000000"), Some("buffers"));
        assert_eq!(of("Mem:         15884       15001         200          10          83         600"), None);
        assert_eq!(of("Mem:            15           1          14           0           0          14"), None);
        let window = window_of(
            "# free -m | grep Mem\nMem:         15884       15001         200          10         683         600\n",
        );
        let row = window.the::<Meminfo>().unwrap();
        assert_eq!((row.mem_total.get(), row.mem_available.get()), (Some(15_884.0 * MIB), Some(600.0 * MIB)));
    }

    /// Returns the output of a machine in a unit, without the command line.
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
        // 249 may be MiB or GiB, but no machine has 509 GiB of swap.
        let old = fixture("net-free-m-before.txt");
        assert_eq!(total(old.split_once('\n').unwrap().1), Some(249.0 * MIB));
    }

    #[test]
    fn digits_that_were_changed_do_not_make_terabytes() {
        let text =
            "total used free shared buff/cache available\nMem: 16303612 9930361 2303613 102401 4234567 5234567\n";
        assert_eq!(total(text), Some(16_303_612.0 * KIB));
    }

    #[test]
    fn more_in_use_than_there_is_is_noted_and_left_out() {
        let text = "$ free\ntotal used free shared buff/cache available\nMem: 16303612 99303612 2303612 4 4234568 5234568\n\
                    Swap: 2097148 1000 2096148\n";
        let captures = read_text(text).unwrap();
        let memory = captures[0].window.the::<Meminfo>().unwrap();
        assert_eq!((memory.mem_total.get(), memory.swap_total.get()), (None, Some(2_097_148.0 * KIB)));
        let notes = format!("{:?}", captures[0].window.snapshots()[0].sources);
        assert!(notes.contains("94.7 GiB in use of 15.5 GiB"), "{notes}");
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
            let captures = crate::read(vec![input], true).unwrap();
            assert_eq!(captures[0].window.the::<Meminfo>().and_then(|m| m.mem_total.get()), want, "{name}");
        }
        for (command, want) in [("free", 991.0 * KIB), ("free -hm", 991.0 * MIB), ("free --giga", 991.0 * 1e9)] {
            assert_eq!(total(&format!("$ {command}\n{text}")), Some(want), "{command}");
        }
    }

    #[test]
    fn both_layouts_are_read() {
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
