//! Response of memcached to `stats` (doc/protocol.txt: general-purpose statistics).

use crate::prelude::*;
use std::collections::BTreeMap;
use whyslow_model::catalogue::Database;

pub const FORMAT: Format = Format {
    name: "memcached stats",
    versions: "memcached 1.4 to 1.6: stats by nc or telnet, whole or in part",
    shows: "whether it has as many connections as it may have, and stopped accepting others",
    lacks: "which client; the time of a request",
    files: &["memcached_stats"],
    starts: |lines| {
        lines.next_is(|line| statistic(line).is_some()) && lines.peek(1).is_some_and(|line| statistic(line).is_some())
    },
    read,
    ..Format::NEW
};

const SERVER: &str = "memcached";

/// Parses `STAT curr_connections 1021`.
fn statistic(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim().strip_prefix("STAT ")?.split_once(' ')?;
    let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    is_name.then_some((name, value))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    let mut values: BTreeMap<String, f64> = BTreeMap::new();
    // A repeated name belongs to the next response.
    while let Some(line) = lines.take_if(|text| statistic(text).is_some_and(|(name, _)| !values.contains_key(name))) {
        if let Some((name, value)) = statistic(&line.text) {
            values.extend(number(value).map(|value| (name.to_owned(), value)));
        }
    }
    let value = |name: &str| values.get(name).copied();
    let row = run.row::<Database>(0.0, begin, SERVER.into());
    row.product = SERVER.into();
    row.uptime = value("uptime").map(|seconds| seconds * SECOND).into();
    row.connections = value("curr_connections").into();
    row.connections_max = value("max_connections").into();
    row.refused = value("rejected_connections").into();
    row.accept_pauses = value("listen_disabled_num").into();
    row.evicted = value("evictions").into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn connections_and_how_often_it_accepted_no_more() {
        let window = window_of(&fixture("layouts/memcached-stats.txt"));
        let row = window.the::<Database>().unwrap();
        assert_eq!((row.connections.get(), row.connections_max.get()), (Some(1023.0), Some(1024.0)));
        assert_eq!((row.accept_pauses.get(), row.evicted.get()), (Some(87.0), Some(0.0)));
    }
}
