//! dd(1), alone or under time(1): the bytes, duration and block size of one transfer.

use crate::command::CommandLine;
use crate::prelude::*;
use whyslow_model::catalogue::Transfer;
use whyslow_model::settings::Settings;

pub const FORMAT: Format = Format {
    name: "dd",
    versions: "coreutils 5 on, with time(1) or its own summary; the block size from the command line",
    shows: "the rate of one transfer; of two with different block sizes, what small blocks cost",
    lacks: "the limit, from one transfer alone",
    programs: &[partly_read("dd")],
    starts: |lines| lines.next_is(|line| records(line, "in").is_some() || summary(line).is_some()),
    read,
    ..Format::NEW
};

/// Maximum number of lines, including blank ones, that dd and time(1) print for one transfer.
const MOST_LINES: usize = 12;

/// Parses `1024+0 records in`.
fn records(line: &str, which: &str) -> Option<f64> {
    let count = line.trim().strip_suffix(which)?.trim().strip_suffix("records")?;
    let (full, _partial) = count.trim().split_once('+')?;
    number(full)
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let line = lines.number();
    let mut records_out = None;
    let mut summarized = None;
    let mut elapsed = None;
    let mut last = 0;
    for at in 0..MOST_LINES {
        let Some(text) = lines.peek(at) else { break };
        if at == 0 && records(text, "in").is_some() {
            continue;
        }
        let next = records(text, "in").is_some() || (summarized.is_some() && summary(text).is_some());
        if next || is_command(text) {
            break;
        }
        if let Some(count) = records(text, "out") {
            records_out = Some(count);
        } else if let Some(summary) = summary(text) {
            summarized = Some(summary);
        } else if let Some(seconds) = real(text) {
            elapsed = Some(seconds);
        } else if !["user", "sys"].iter().any(|word| text.trim_start().starts_with(word)) && !text.trim().is_empty() {
            break;
        }
        last = at;
    }
    lines.skip(last + 1);
    let is_dd = |c: &&CommandLine| c.arguments().any(|a| a.starts_with("if=") || a.starts_with("of="));
    // A plain command makes one transfer: if that was read already, the command line of this one was lost.
    let is_of_command = |c: &&CommandLine| !context.is_past_command() || !c.is_plain();
    let command = context.command().filter(is_dd).filter(is_of_command);
    let argument = |name: &str| command.and_then(|c| c.arguments().find_map(|a| a.strip_prefix(name)));
    let block_as_given = argument("bs=").or(argument("ibs=")).filter(|block| block_size(block).is_some());
    let block = block_as_given.and_then(block_size);
    let bytes = summarized.map(|(bytes, _)| bytes).or(records_out.zip(block).map(|(records, block)| records * block));
    let seconds = summarized.and_then(|(_, seconds)| seconds).or(elapsed);
    let Some((bytes, seconds)) = bytes.zip(seconds).filter(|(_, s)| *s > 0.0) else {
        run.note(
            &format!("dd on line {line}"),
            "its bytes and duration are not printed",
            "include its command line and the output of time",
        );
        return Ok(());
    };
    let from = argument("if=").unwrap_or("a file");
    // A repetition is another transfer.
    let name = match block_as_given {
        Some(block) => format!("dd of {from} bs={block}, line {line}"),
        None => format!("dd of {from}, line {line}"),
    };
    let row = run.row::<Transfer>(0.0, line, name.into());
    row.tool = "dd".into();
    row.what = from.into();
    row.bytes = bytes.into();
    row.time = (seconds * SECOND).into();
    row.rate = (bytes / seconds).into();
    row.block = block.into();
    let options = command.map(options).unwrap_or_default();
    if let Some(block) = block.filter(|_| options.by_name().get("flush").is_some_and(|when| when == EACH_WRITE)) {
        let writes = (bytes / block).max(1.0);
        row.syncs = writes.into();
        row.sync_wait = (seconds / writes * SECOND).into();
    }
    row.options = options.to_state();
    Ok(())
}

/// When a write is durable, as the option `flush` says it.
const EACH_WRITE: &str = "after each write";

/// Returns the options that decide what is measured: a write without a flush measures the page cache.
fn options(command: &CommandLine) -> Settings {
    let argument = |name: &str| command.arguments().find_map(|a| a.strip_prefix(name)).unwrap_or_default();
    let (from, to) = (argument("if="), argument("of="));
    let is_writing = !to.is_empty() && to != "/dev/null";
    let flags = if is_writing { argument("oflag=") } else { argument("iflag=") };
    let has = |list: &str, flag: &str| list.split(',').any(|own| own == flag);
    let mut options = Settings::default();
    options.set("from", Some(from));
    options.set("to", Some(to));
    options.set("direct", Some(if has(flags, "direct") { "1" } else { "0" }));
    if is_writing {
        let at_end = ["fsync", "fdatasync"].iter().any(|flag| has(argument("conv="), flag));
        let flush = match () {
            () if has(flags, "sync") || has(flags, "dsync") => EACH_WRITE,
            () if at_end => "at the end",
            () => "never",
        };
        options.set("flush", Some(flush));
    }
    options
}

/// Parses `1073741824 bytes (1.1 GB, 1.0 GiB) copied, 6.77 s, 159 MB/s`.
fn summary(text: &str) -> Option<(f64, Option<f64>)> {
    let (bytes, rest) = text.trim().split_once(" bytes ")?;
    let (_, rest) = rest.split_once("copied, ")?;
    Some((number(bytes)?, number(rest.split([' ', ',']).next()?)))
}

/// Returns the seconds in `real    0m6.770s` of a shell's time, or in `real 6.77`.
fn real(text: &str) -> Option<f64> {
    let rest = text.trim().strip_prefix("real")?.trim();
    match rest.split_once('m') {
        Some((minutes, seconds)) => Some(number(minutes)? * 60.0 + number(seconds.strip_suffix('s')?)?),
        None => number(rest),
    }
}

/// Parses `2k`, `1024k`, `1M`, `4096`, with the multiplicative suffixes of dd(1).
fn block_size(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (count, suffix) = text.split_at(digits);
    let unit = match suffix {
        "" | "c" => 1.0,
        "w" => 2.0,
        "b" => 512.0,
        "k" | "K" | "KiB" => KIB,
        "kB" | "KB" => 1e3,
        "M" | "m" | "MiB" => MIB,
        "MB" => 1e6,
        "G" | "g" | "GiB" => GIB,
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
    fn the_same_again_is_another_transfer() {
        let command = "# dd if=/dev/zero of=f bs=4k count=1000";
        let text = format!("{command}\n4096000 bytes (4.1 MB) copied, 1.0 s, 4.1 MB/s\n");
        let again = format!("{command} oflag=dsync\n4096000 bytes (4.1 MB) copied, 8.0 s, 512 kB/s\n");
        let window = window_of(&(text + &again));
        let mut rates: Vec<_> = window.newest::<Transfer>().values().map(|row| row.rate.get().unwrap()).collect();
        rates.sort_by(f64::total_cmp);
        assert_eq!(rates, [512_000.0, 4_096_000.0]);
    }

    #[test]
    fn a_write_that_waits_until_it_is_durable_takes_its_share_of_the_time() {
        let text =
            "$ dd if=/dev/zero of=f bs=512 count=1000 oflag=dsync\n512000 bytes (512 kB) copied, 58.7 s, 8.7 kB/s\n";
        let row = window_of(text).the::<Transfer>().unwrap().clone();
        assert_eq!(row.syncs.get(), Some(1000.0));
        assert!(row.sync_wait.get().is_some_and(|ns| (ns - 58.7e6).abs() < 1.0));
        let once = window_of(&text.replace("oflag=dsync", "conv=fsync"));
        assert_eq!(once.the::<Transfer>().unwrap().sync_wait.get(), None);
    }

    #[test]
    fn dd_tells_by_itself_since_coreutils_5() {
        let text = "8192+0 records in\n8192+0 records out\n8192 bytes (8.2 kB, 8.0 KiB) copied, 3.25 s, 2.5 kB/s\n";
        assert_eq!(window_of(text).the::<Transfer>().unwrap().rate.get(), Some(8192.0 / 3.25));
    }
}
