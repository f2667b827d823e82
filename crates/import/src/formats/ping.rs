//! ping(8): echo replies and their round-trip times.

use crate::prelude::*;
use whyslow_model::catalogue::Ping;

pub const FORMAT: Format = Format {
    name: "ping",
    versions: "iputils, BSD and busybox, with the statistics at the end, or their counts alone",
    shows: "lost packets and round trips between two hosts; many lost ones are a finding",
    lacks: "where they were lost; whether the other end answers all of them: some limit or drop echoes; a Wi-Fi card that saves power",
    programs: &[word("ping"), word("ping6")],
    starts: |lines| {
        lines
            .next_is(|line| is_title(line) || statistics_of(line).is_some() || is_reply(line) || counts(line).is_some())
    },
    read,
    ..Format::NEW
};

/// Returns true for `PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.`, `PING x (192.0.2.1): 56 data bytes`.
fn is_title(line: &str) -> bool {
    line.starts_with("PING ") && line.contains(" data") && line.contains("bytes")
}

/// Messages about packets that are too large for a link.
const TOO_LARGE: [&str; 3] = ["Frag needed", "too long", "too big"];
/// Default size of a packet with its headers (ping(8): -s).
const USUAL_SIZE: u32 = 84;

/// Returns the size with headers: 1500 for `PING 192.0.2.1 (192.0.2.1) 1472(1500) bytes of data.`
fn packet_size(title: &str) -> Option<u32> {
    let (sizes, _) = title.rsplit_once(") bytes of data")?;
    sizes.rsplit_once('(')?.1.parse().ok()
}

/// Parses `--- 192.0.2.1 ping statistics ---`.
fn statistics_of(line: &str) -> Option<&str> {
    line.strip_prefix("--- ")?.strip_suffix(" ping statistics ---").filter(|host| is_plain_host(host))
}

/// Returns true for a name or address that is safe to use in a recommended command.
pub(super) fn is_plain_host(host: &str) -> bool {
    host.starts_with(|c: char| c.is_ascii_alphanumeric())
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".:%_-".contains(&b))
}

/// Returns true for `64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=0.146 ms`.
fn is_reply(line: &str) -> bool {
    line.split_once(" bytes from ").is_some_and(|(size, rest)| number(size).is_some() && rest.contains("seq="))
}

/// Parses `60 packets transmitted, 47 received, +1 duplicates, 21.6667% packet loss, time 3065ms`.
fn counts(line: &str) -> Option<(f64, f64)> {
    let mut parts = line.split(',').map(str::trim);
    let sent = number(parts.next()?.strip_suffix(" packets transmitted")?)?;
    let received = parts.next()?;
    let received = received.strip_suffix(" packets received").or_else(|| received.strip_suffix(" received"))?;
    let received = number(received)?;
    (sent > 0.0 && (0.0..=sent).contains(&received)).then_some((sent, received))
}

/// Returns the nanoseconds in `rtt min/avg/max/mdev = 0.039/0.066/0.146/0.045 ms` or `round-trip min/avg/max/stddev = ...`.
fn round_trips(line: &str) -> Option<Vec<f64>> {
    let (title, times) = line.split_once(" = ")?;
    if !title.contains("min/avg/max") {
        return None;
    }
    let times = times.split(" ms").next()?.split('/').map(|time| number(time).map(|ms| ms * NS_PER_MS));
    times.collect::<Option<Vec<f64>>>().filter(|times| times.len() >= 3)
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    if let Some((sent, received)) = lines.peek(0).and_then(counts) {
        lines.skip(1);
        record(lines, run, begin, UNNAMED, sent, received);
        return Ok(());
    }
    // Messages such as 'Destination Host Unreachable' may come between the replies.
    let is_between = |text: &str| {
        is_reply(text) || text.starts_with("From ") || text.starts_with("ping: ") || text.contains("icmp_seq")
    };
    let title = lines.take_if(is_title);
    let size = title.as_ref().and_then(|title| packet_size(&title.text));
    let mut is_too_large = false;
    while let Some(line) = lines.take_if(is_between) {
        is_too_large |= TOO_LARGE.iter().any(|words| line.text.contains(words));
    }
    let Some(title) = lines.take_past_blanks_if(|text| statistics_of(text).is_some()) else {
        run.note(&format!("ping on line {begin}"), "its statistics are missing", "let it end, or press Ctrl-C");
        return Ok(());
    };
    let Some(line) = lines.take() else { return Err(lines.refuse("how many packets were sent")) };
    let expected = "how many packets were sent, and how many came back: 4 packets transmitted, 4 received";
    let (sent, received) = counts(&line.text).ok_or_else(|| lines.refuse_at(&line, expected))?;
    let host = statistics_of(&title.text).unwrap_or_default();
    let key = match size {
        Some(size) if size != USUAL_SIZE => format!("{host} ({size} bytes)"),
        _ => host.to_owned(),
    };
    record(lines, run, title.number, &key, sent, received);
    let row = run.row::<Ping>(0.0, title.number, key.as_str().into());
    (row.host, row.size) = (host.into(), size.map(f64::from).into());
    row.too_large = f64::from(u8::from(is_too_large)).into();
    Ok(())
}

/// Placeholder for the other end, if it is not named.
const UNNAMED: &str = "peer";

fn record(lines: &mut Lines<'_>, run: &mut ToolRun, line: u32, host: &str, sent: f64, received: f64) {
    let row = run.row::<Ping>(0.0, line, host.into());
    (row.sent, row.received) = (sent.into(), received.into());
    if let Some(last) = lines.take_if(|text| round_trips(text).is_some()) {
        let times = round_trips(&last.text).unwrap_or_default();
        let time = |nth: usize| times.get(nth).copied();
        let row = run.row::<Ping>(0.0, last.number, host.into());
        (row.rtt_min, row.rtt_mean, row.rtt_max) = (time(0).into(), time(1).into(), time(2).into());
        row.rtt_spread = time(3).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, row_of, window_of};

    #[test]
    fn a_summary_that_was_quoted_alone() {
        let row = row_of::<Ping>("Then:\n40 packets transmitted, 30 received, 25% packet loss, time 39057ms\n");
        assert_eq!((&*row.peer, row.sent.get(), row.received.get()), ("peer", Some(40.0), Some(30.0)));
    }

    #[test]
    fn lost_packets_and_round_trips() {
        let text = fixture("ping-loss.txt");
        let row = row_of::<Ping>(&text);
        let summary = text.lines().find(|line| line.contains("transmitted")).unwrap();
        assert_eq!(row.sent.get(), Some(60.0));
        let received: f64 = summary.split(' ').nth(3).unwrap().parse().unwrap();
        assert_eq!((row.received.get(), row.host.get()), (Some(received), Some("192.0.2.2")));
        let times = text.lines().last().unwrap().split(", pipe").next().unwrap();
        let of = |ns: Option<f64>| format!("{:.3}", ns.unwrap() / 1e6);
        let found = [row.rtt_min, row.rtt_mean, row.rtt_max, row.rtt_spread].map(|time| of(time.get())).join("/");
        assert_eq!(times, format!("rtt min/avg/max/mdev = {found} ms"));
    }

    #[test]
    fn pings_of_several_sizes_are_told_apart() {
        let ping = |size: u32, received: u32| {
            format!(
                "PING x (192.0.2.1) {}({size}) bytes of data.\n\n--- x ping statistics ---\n4 packets transmitted, {received} received, 0% packet loss, time 3ms\n",
                size - 28
            )
        };
        let window = window_of(&format!("{}\n{}\n{}", ping(84, 4), ping(1500, 0), ping(1418, 4)));
        let rows = window.newest::<Ping>();
        let found: Vec<_> = rows.values().map(|row| (&*row.peer, row.host.get(), row.size.get())).collect();
        let of = |key, size| (key, Some("x"), Some(size));
        assert_eq!(found, [of("x", 84.0), of("x (1418 bytes)", 1418.0), of("x (1500 bytes)", 1500.0)]);
    }

    #[test]
    fn statistics_of_other_systems() {
        let bsd = "--- x ping statistics ---\n5 packets transmitted, 4 packets received, 20.0% packet loss\nround-trip min/avg/max/stddev = 1.5/2.5/4.0/0.9 ms\n";
        let row = row_of::<Ping>(bsd);
        assert_eq!((row.received.get(), row.rtt_max.get(), row.rtt_spread.get()), (Some(4.0), Some(4e6), Some(9e5)));
        let none =
            "--- x ping statistics ---\n3 packets transmitted, 0 received, +3 errors, 100% packet loss, time 2026ms\n";
        assert_eq!((row_of::<Ping>(none).received.get(), row_of::<Ping>(none).rtt_mean.get()), (Some(0.0), None));
        assert_eq!(statistics_of("--- x;reboot ping statistics ---"), None);
        assert_eq!(refusal_of("--- x ping statistics ---\n3 packets\n").line, 2);
    }
}
