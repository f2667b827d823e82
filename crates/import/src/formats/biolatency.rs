//! biolatency of bcc, libbpf-tools and bpftrace: latency of block device requests as a histogram (print_log2_hist).

use crate::prelude::*;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Disk, Request};
use whyslow_model::histogram::{Histogram, bucket_of};
use whyslow_model::key::OperationKey;
use whyslow_model::value::Name;

pub const FORMAT: Format = Format {
    name: "biolatency",
    versions: "bcc, libbpf-tools: -D, or one device with -d; -m, -Q, -T",
    shows: "how the time of a device's requests is spread",
    lacks: "rates, sizes, processes; times more exact than within a factor of two; without -D the device",
    programs: &[program("biolatency"), program("biolatency-bpfcc"), program("biolatency.py")],
    starts: |lines| lines.next_is(|line| disk(line).is_some()),
    read,
    ..Format::NEW
};

/// Returns the device in `disk = vda`, `disk = 'sda'` or `disk = b'sda'`.
fn disk(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix("disk = ")?.trim();
    let name = name.strip_prefix('b').filter(|rest| rest.starts_with(['\'', '"'])).unwrap_or(name);
    let name = name.trim_matches(['\'', '"']);
    (!name.is_empty() && !name.contains(' ')).then_some(name)
}

/// Returns the unit in nanoseconds in `     usecs               : count    distribution`.
pub(super) fn unit(line: &str) -> Option<f64> {
    let mut words = line.split_whitespace();
    let unit = match words.next()? {
        "nsecs" => 1.0,
        "usecs" => 1e3,
        "msecs" => NS_PER_MS,
        _ => return None,
    };
    words.eq([":", "count", "distribution"]).then_some(unit)
}

/// Returns a bucket's limits and its count: `        16 -> 31         : 2868     |****    |`.
pub(super) fn bucket(line: &str) -> Option<(f64, f64, u64)> {
    // The bar is framed; two joined lines have two frames.
    (line.matches('|').count() == 2).then_some(())?;
    let (range, rest) = line.split_once(':')?;
    let (from, to) = range.split_once("->")?;
    let count = rest.split(['|', ' ']).find(|field| !field.is_empty())?.parse().ok()?;
    Some((number(from.trim())?, number(to.trim())?, count))
}

/// Returns the only device that was requested: `biolatency -d sda`.
pub(super) fn device_of(context: OutputContext<'_>) -> Option<String> {
    let command = context.command_of("biolatency").or(context.command_of("biolatency-bpfcc"))?;
    let mut arguments = command.arguments().skip_while(|argument| *argument != "-d" && *argument != "--disk");
    arguments.nth(1).map(str::to_owned)
}

pub(super) fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let one = device_of(context);
    let queued = context.command().is_some_and(|command| command.has('Q'));
    let line = lines.number();
    let mut device: Option<Name> = one.as_deref().map(Into::into);
    // Several reports of one device are added up.
    let mut counts: BTreeMap<Name, Vec<(u32, u64)>> = BTreeMap::new();
    let mut open = None;
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        if let Some(name) = disk(text) {
            device = Some(name.into());
        } else if let Some(unit) = unit(text) {
            open = Some(unit);
        } else if let Some(((from, to, count), unit)) = bucket(text).zip(open) {
            if let Some(device) = &device {
                let value = ((from + to + 1.0) / 2.0 * unit) as u64;
                counts.entry(device.clone()).or_default().push((bucket_of(value), count));
            }
        } else if clock::time_of_day(&[text.trim()]).is_none() {
            break;
        }
        lines.skip(blanks + 1);
    }
    for (name, buckets) in counts {
        // The split into reads and writes is unknown, as is the rate.
        let key = || OperationKey { device: name.clone(), operation: "transfer".into() };
        let total = buckets.iter().map(|(_, count)| *count).fold(0, u64::saturating_add);
        let row = |requests: u64, times: Histogram| {
            let mut row = Request { requests: requests.into(), ..Request::new(key()) };
            // With -Q, the time in the queue is included.
            if !queued {
                row.device_time = times;
            }
            row
        };
        let seconds = context.interval().unwrap_or(1.0);
        for at in [0.0, seconds] {
            run.row::<Disk>(at, line, name.clone());
        }
        run.put(0.0, line, row(0, Histogram::from_values([])));
        run.put(seconds, line, row(total, Histogram::from_counts(buckets)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn the_spread_of_each_device() {
        let window = window_of(&fixture("layouts/biolatency-D.txt"));
        let rows = window.newest::<Request>();
        let row = |name: &str| rows.values().find(|row| *row.operation.device == *name).unwrap();
        assert_eq!(row("loop0").requests.get(), Some(4205));
        // Half of 4205 are below 128 µs.
        let median = row("loop0").device_time.quantile(0.5).unwrap();
        assert!((64e3..128e3).contains(&median), "{median}");
        let most = row("vda").device_time.quantile(1.0).unwrap();
        assert!((65.536e6..131.072e6).contains(&most), "{most}");
    }

    #[test]
    fn a_histogram_of_no_known_device_is_noted() {
        let text = fixture("layouts/biolatency-D.txt").replace("disk = ", "disk: ");
        let captures = crate::testing::read_text(&text);
        assert!(captures.is_ok_and(|captures| captures.iter().all(|c| c.window.newest::<Request>().is_empty())));
    }
}
