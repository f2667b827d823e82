//! hdparm(8) -t, -T: timed reads of a disk, and of the page cache.

use crate::prelude::*;
use whyslow_model::catalogue::Transfer;

pub const FORMAT: Format = Format {
    name: "hdparm",
    versions: "-t, -T, -tT, with --direct and --offset or without",
    shows: "the rate of reading a disk in sequence; of several runs, whether it changed",
    lacks: "the limit, from one transfer alone; who else used the disk; the rate of the page cache (-T) is that of memory",
    programs: &[word("hdparm")],
    starts: |lines| lines.next_is(|line| timed(line).is_some()) || is_disk_of_timing(lines),
    read,
    ..Format::NEW
};

/// Tolerance: seconds are printed with two digits.
const ROUNDING: f64 = 0.006;

/// Returns the description, bytes and seconds of ` Timing buffered disk reads: 398 MB in  3.01 seconds = 132.23 MB/sec`.
fn timed(line: &str) -> Option<(&str, f64, f64)> {
    let (what, rest) = line.trim().strip_prefix("Timing ")?.split_once(':')?;
    let what = what.strip_suffix(" reads").or_else(|| Some(what.split_once(" reads (")?.0))?;
    let (amount, rest) = rest.split_once(" in ")?;
    let (seconds, rate) = rest.split_once("seconds")?;
    let (amount, unit) = amount.trim().split_once(' ')?;
    // hdparm counts in 2^20 bytes (hdparm.c, time_device).
    let unit = match unit.trim() {
        "MB" => MIB,
        "kB" => KIB,
        _ => return None,
    };
    let seconds = number(seconds.trim()).filter(|seconds| *seconds > 0.0)?;
    // The rate that follows matches these numbers, as far as the rounded seconds allow.
    let rate = rate.trim().strip_prefix('=')?.split_whitespace().collect::<Vec<_>>();
    let [rate, rate_unit] = rate[..] else { return None };
    let rate = number(rate)? * if rate_unit.starts_with("kB") { KIB } else { MIB };
    let bytes = number(amount)? * unit;
    let is_same = (bytes / seconds / rate - 1.0).abs() <= ROUNDING + ROUNDING / seconds;
    is_same.then_some((what.trim(), bytes, seconds))
}

/// Parses `/dev/sda:`.
fn disk(line: &str) -> Option<&str> {
    let path = line.trim().strip_suffix(':')?;
    (path.starts_with("/dev/") && !path.contains(char::is_whitespace)).then_some(path)
}

fn is_disk_of_timing(lines: &mut Lines<'_>) -> bool {
    lines.next_is(|line| disk(line).is_some()) && lines.peek(1).is_some_and(|next| next.trim().starts_with("Timing "))
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let named = lines.take_if(|line| disk(line).is_some()).and_then(|line| disk(&line.text).map(str::to_owned));
    let of_command = || {
        let mut disks = context.command_of("hdparm")?.operands().filter(|word| word.starts_with("/dev/"));
        disks.next().filter(|_| disks.next().is_none()).map(str::to_owned)
    };
    let device = named.or_else(of_command).unwrap_or_else(|| "a disk".to_owned());
    let mut done: Vec<String> = Vec::new();
    // A repetition is another experiment, which becomes the next reading.
    let is_own = |text: &str| text.trim().starts_with("Timing ");
    let mut wrap = lines.wrap();
    while let Some((count, line)) = lines
        .peek_whole(&mut wrap, FORMAT.name, |text| is_own(text) || disk(text).is_some())
        .filter(|(_, line)| is_own(&line.text))
        .filter(|(_, line)| timed(&line.text).is_none_or(|(what, ..)| !done.iter().any(|earlier| earlier == what)))
    {
        lines.skip(count);
        let read = timed(&line.text).ok_or_else(|| {
            lines.refuse_at(&line, "what was read and in what time: 398 MB in  3.01 seconds = 132.23 MB/sec")
        });
        let Some((what, bytes, seconds)) = lines.keep(read)? else { continue };
        done.push(what.to_owned());
        let row = run.row::<Transfer>(0.0, line.number, format!("{what} reads of {device}").as_str().into());
        row.tool = "hdparm".into();
        row.what = format!("{what} reads of {device}").as_str().into();
        row.bytes = bytes.into();
        row.time = (seconds * SECOND).into();
        row.rate = (bytes / seconds).into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, read_text, refusal_of, window_of};

    fn rates(text: &str) -> Vec<(String, f64)> {
        let of = |t: &Transfer| (t.transfer.to_string(), (t.rate.get().unwrap() / MIB * 100.0).round() / 100.0);
        window_of(text).newest::<Transfer>().values().map(|t| of(t)).collect()
    }

    #[test]
    fn reads_of_the_disk_and_of_the_cache() {
        let found = rates(&fixture("hdparm-tT.txt"));
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["buffered disk reads of /dev/loop0", "cached reads of /dev/loop0"]);
        assert_eq!(found.iter().map(|(_, rate)| *rate).collect::<Vec<_>>(), [357.14, 12275.38]);
    }

    #[test]
    fn other_options_and_repetitions() {
        let direct = " Timing O_DIRECT disk reads: 398 MB in  2.00 seconds = 199.00 MB/sec\n";
        assert_eq!(rates(direct), [("O_DIRECT disk reads of a disk".to_owned(), 199.0)]);
        assert_eq!(rates(&format!("# hdparm -t --direct /dev/sdb\n{direct}"))[0].0, "O_DIRECT disk reads of /dev/sdb");
        let offset =
            "/dev/sda:\n Timing buffered disk reads (offset 100 GB): 300 MB in  3.00 seconds = 100.00 MB/sec\n";
        assert_eq!(rates(offset), [("buffered disk reads of /dev/sda".to_owned(), 100.0)]);
        let again = "/dev/sda:\n Timing buffered disk reads: 300 MB in  3.00 seconds = 100.00 MB/sec\n".repeat(2);
        assert_eq!(read_text(&again).unwrap().len(), 2, "two experiments");
        let rows = " Timing buffered disk reads: 300 MB in  3.00 seconds = 100.00 MB/sec\n".repeat(3);
        assert_eq!(read_text(&rows).unwrap().len(), 3);
        assert_eq!(refusal_of("/dev/sda:\n Timing buffered disk reads: read() failed: Input/output error\n").line, 2);
    }
}
