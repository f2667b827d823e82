//! dd(1), alone or under time(1): one transfer, its bytes, its time, and the block it asked for at a time.

use crate::command::Command;
use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::{Run, SECOND};
use whyslow_model::catalogue::Transfer;

/// The format.
pub const FORMAT: Format = Format {
    name: "dd",
    versions: "coreutils 5 on, with or without time(1); the command line tells the block",
    tells: "the rate of one transfer; of two with different blocks, what the block costs",
    starts,
    read,
};

/// How many lines of blank, dd and time(1) make up one transfer.
const FAR: usize = 12;

fn starts(lines: &mut Lines<'_>) -> bool {
    lines.peek(0).is_some_and(|line| records(line, "in").is_some() || summary(line).is_some())
}

/// `1024+0 records in`
fn records(line: &str, which: &str) -> Option<f64> {
    let count = line.trim().strip_suffix(which)?.trim().strip_suffix("records")?;
    let (full, _partial) = count.trim().split_once('+')?;
    number(full)
}

fn read(lines: &mut Lines<'_>, asked: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let line = lines.number();
    let mut out = None;
    let mut told = None;
    let mut seconds = None;
    let mut taken = 0;
    for at in 0..FAR {
        let Some(text) = lines.peek(at) else { break };
        if at == 0 && records(text, "in").is_some() {
            continue;
        }
        if told.is_some() && summary(text).is_some()
            || records(text, "in").is_some()
            || Command::at_prompt(text).is_some()
        {
            break;
        }
        let known = if let Some(count) = records(text, "out") {
            out = Some(count);
            true
        } else if let Some(summary) = summary(text) {
            told = Some(summary);
            true
        } else if let Some(real) = real(text) {
            seconds = Some(real);
            true
        } else {
            text.trim().is_empty() || text.trim_start().starts_with("user") || text.trim_start().starts_with("sys")
        };
        if !known {
            break;
        }
        taken = at;
    }
    let command =
        asked.command.as_ref().filter(|c| c.arguments().any(|a| a.starts_with("if=") || a.starts_with("of=")));
    let argument = |name: &str| command.and_then(|c| c.arguments().find_map(|a| a.strip_prefix(name)));
    let block = argument("bs=").or(argument("ibs=")).and_then(size);
    let bytes = told.map(|(bytes, _)| bytes).or(out.zip(block).map(|(records, block)| records * block));
    let seconds = told.and_then(|(_, seconds)| seconds).or(seconds);
    lines.skip(taken + 1);
    let Some((bytes, seconds)) = bytes.zip(seconds).filter(|(_, s)| *s > 0.0) else {
        run.note(
            &format!("dd on line {line}"),
            "it does not say how many bytes it moved in what time",
            "paste its command line and the output of time too",
        );
        return Ok(());
    };
    let from = argument("if=").unwrap_or("a file").to_owned();
    let name = match block {
        Some(block) => format!("dd of {from} with bs={block:.0}"),
        None => format!("dd of {from}, line {line}"),
    };
    let row = run.row::<Transfer>(0.0, line, name.into());
    row.tool = "dd".into();
    row.what = from.into();
    row.bytes = bytes.into();
    row.time = (seconds * SECOND).into();
    row.rate = (bytes / seconds).into();
    row.block = block.into();
    Ok(())
}

/// `1073741824 bytes (1.1 GB, 1.0 GiB) copied, 6.77 s, 159 MB/s`
fn summary(text: &str) -> Option<(f64, Option<f64>)> {
    let (bytes, rest) = text.trim().split_once(" bytes ")?;
    if !rest.contains("copied, ") {
        return None;
    }
    let seconds = rest.split_once("copied, ").and_then(|(_, r)| number(r.split([' ', ',']).next()?));
    Some((number(bytes)?, seconds))
}

/// `real    0m6.770s` of a shell's time, or `6.77 real`.
fn real(text: &str) -> Option<f64> {
    let rest = text.trim().strip_prefix("real")?.trim();
    match rest.split_once('m') {
        Some((minutes, seconds)) => Some(number(minutes)? * 60.0 + number(seconds.strip_suffix('s')?)?),
        None => number(rest),
    }
}

/// `2k`, `1024k`, `1M`, `4096`: multiplicative suffixes of dd(1).
pub fn size(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (count, suffix) = text.split_at(digits);
    let unit = match suffix {
        "" | "c" => 1.0,
        "w" => 2.0,
        "b" => 512.0,
        "k" | "K" | "KiB" => 1024.0,
        "kB" | "KB" => 1e3,
        "M" | "m" | "MiB" => 1_048_576.0,
        "MB" => 1e6,
        "G" | "g" | "GiB" => 1_073_741_824.0,
        "GB" => 1e9,
        _ => return None,
    };
    Some(number(count)? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn the_block_and_the_time_of_the_shell() {
        let rate = |file: &str| {
            let window = window_of(&fixture(file));
            let row = window.the::<Transfer>().unwrap().clone();
            (row.rate.get().unwrap() / 1_048_576.0, row.block.get().unwrap())
        };
        let close = |(rate, block): (f64, f64), want: f64, size: f64| {
            assert!((rate / want - 1.0).abs() < 0.02 && block == size, "{rate} {block}");
        };
        close(rate("san-dd-1024k.txt"), 151.25, 1_048_576.0);
        close(rate("san-dd-2k.txt"), 10.67, 2048.0);
    }

    #[test]
    fn dd_tells_by_itself_since_coreutils_5() {
        let text = "8192+0 records in\n8192+0 records out\n8192 bytes (8.2 kB, 8.0 KiB) copied, 3.25 s, 2.5 kB/s\n";
        assert_eq!(window_of(text).the::<Transfer>().unwrap().rate.get(), Some(8192.0 / 3.25));
    }
}
