//! ss(8) -s: number of sockets by protocol and state.

use crate::prelude::*;
use whyslow_model::catalogue::Protocol;

pub const FORMAT: Format = Format {
    name: "ss -s",
    versions: "iproute2 3 to 6",
    shows: "established and orphaned connections, sockets in use; nothing by themselves",
    lacks: "which sockets, their queues and losses",
    files: &["ss_-s"],
    columns: &[&COUNTS],
    starts: |lines| lines.next_is(is_total) && lines.peek(1).is_some_and(|line| states(line).is_some()),
    read,
    ..Format::NEW
};

const COUNTS: MetricColumns<Protocol> = columns![
    "estab" => tcp_curr_estab, "orphaned" => tcp_orphans, "timewait" => tcp_time_wait, "TCP" => tcp_in_use, "UDP" => udp_in_use,
];

/// Returns true for `Total: 187`, `Total: 187 (kernel 295)`.
fn is_total(line: &str) -> bool {
    line.strip_prefix("Total: ").and_then(|rest| rest.split_whitespace().next()).is_some_and(|n| number(n).is_some())
}

/// Returns the states in `TCP:   14 (estab 4, closed 2, orphaned 0, timewait 1)`; before iproute2 5, also `synrecv 0, timewait
/// 1/0), ports 0`.
fn states(line: &str) -> Option<Vec<(String, f64)>> {
    let (_, states) = line.strip_prefix("TCP:")?.split_once('(')?;
    let (states, _) = states.split_once(')')?;
    let count = |state: &str| {
        let (name, count) = state.trim().split_once(' ')?;
        Some((name.to_owned(), number(count.split('/').next()?)?))
    };
    states.split(',').map(count).collect::<Option<Vec<_>>>().filter(|states| states.iter().any(|(s, _)| s == "estab"))
}

/// Parses `UDP  12        8         4`: total, IPv4, IPv6.
fn sockets(line: &str) -> Option<(String, f64)> {
    let mut words = line.split_whitespace();
    let protocol = words.next().filter(|word| ["*", "RAW", "UDP", "TCP", "INET", "FRAG"].contains(word))?;
    let count = number(words.next()?)?;
    (words.count() == 2).then(|| (protocol.to_owned(), count))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    lines.skip(1);
    let mut counts = lines.take().and_then(|line| states(&line.text)).unwrap_or_default();
    let mut end = begin + 1;
    while let Some(line) = lines.take_past_blanks_if(|text| text.starts_with("Transport") || sockets(text).is_some()) {
        end = line.number;
        counts.extend(sockets(&line.text));
    }
    let row = TableRow::new(begin, "ip", counts).until(end);
    run.counts(0.0, interface("ip"), &row, &COUNTS);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of};

    #[test]
    fn sockets_are_counted_by_state_and_protocol() {
        let row = row_of::<Protocol>(&fixture("ss-s.txt"));
        assert_eq!((row.tcp_curr_estab.get(), row.tcp_time_wait.get()), (Some(4.0), Some(3.0)));
        assert_eq!((row.tcp_in_use.get(), row.udp_in_use.get()), (Some(9.0), Some(1.0)));
    }

    #[test]
    fn the_form_before_iproute2_5() {
        let text = "Total: 187 (kernel 295)
TCP:   12 (estab 3, closed 1, orphaned 2, synrecv 0, timewait 5/0), ports 0

Transport Total     IP        IPv6
*         295       -         -
RAW       0         0         0
UDP       12        8         4
TCP       11        7         4
INET      23        15        8
FRAG      0         0         0
";
        let row = row_of::<Protocol>(text);
        assert_eq!((row.tcp_orphans.get(), row.tcp_time_wait.get()), (Some(2.0), Some(5.0)));
        assert_eq!((row.tcp_in_use.get(), row.udp_in_use.get()), (Some(11.0), Some(12.0)));
    }
}
