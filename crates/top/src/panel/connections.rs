//! Table of TCP connections: rates, round trips, and what holds them back.

use super::{Context, commands, over, ratio};
use crate::entity::EntityId;
use crate::table::{Column, Row, Value};
use std::collections::BTreeSet;
use whyslow_model::catalogue::Connection;
use whyslow_model::key::SocketKey;
use whyslow_model::window::Change;
use whyslow_quantities::connection;

pub(super) const COLUMNS: [Column; 8] = [
    Column::words("PEER", 22, 0),
    Column::words("PROCESS", 16, 3),
    Column::number("SEND", 11, 1),
    Column::number("RECEIVE", 11, 2),
    Column::number("RTT", 8, 4),
    Column::number("RETRANS", 8, 5),
    Column::words("HELD BACK BY", 22, 6),
    Column::words("LOCAL", 22, 7).growing(),
];
pub(super) const SORTED_BY: usize = 2;

/// Shares of time below this are not reported.
const NOTABLE: f64 = 0.05;

/// Returns the share of sent segments that were retransmissions.
pub(crate) fn retransmitted(change: &Change<'_, Connection>) -> Option<f64> {
    over(change.grown(|c| c.retransmits), change.grown(|c| c.segments_out))
}

/// Returns what held the connection back longest, and for what share of the time.
pub(crate) fn held_back(change: &Change<'_, Connection>) -> Option<(&'static str, f64)> {
    let parts = [
        ("peer's receive window", ratio(change.rate(|c| c.rwnd_limited))),
        ("own send buffer", ratio(change.rate(|c| c.sndbuf_limited))),
        ("losses", Some(recovering(change))),
    ];
    let known = parts.into_iter().filter_map(|(what, share)| Some((what, share?.min(1.0))));
    known.filter(|(_, share)| *share >= NOTABLE).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Returns the share of samples in which the connection was recovering from a loss.
fn recovering(change: &Change<'_, Connection>) -> f64 {
    change.mean(|c| c.recovering).unwrap_or(0.0)
}

pub(super) fn rows(context: &Context<'_>) -> Vec<Row> {
    let commands = commands(context.window);
    let there: BTreeSet<&SocketKey> =
        context.rates.last().into_iter().flat_map(|s| &s.net.connection).map(|c| &c.socket).collect();
    let changes = context.rates.changes::<Connection>();
    changes
        .iter()
        .filter(|change| there.contains(change.key()))
        .map(|change| {
            let (key, last) = (change.key(), change.last());
            let process = last.pid.get().map(|pid| {
                let command = commands.get(&(pid as u32)).map_or("", String::as_str);
                format!("{pid:.0} {command}")
            });
            let held_back = held_back(change);
            let local = if key.ns.is_empty() { key.local.to_string() } else { format!("{}@{}", key.local, key.ns) };
            let cells = vec![
                Value::Words(key.remote.to_string()),
                Value::words(process),
                Value::from_quantity(&connection::CONFIRMED, change),
                Value::from_quantity(&connection::RECEIVED, change),
                Value::number(ratio(change.mean(|c| c.rtt)), "s"),
                Value::share(retransmitted(change)),
                Value::Words(held_back.map_or_else(String::new, |(what, _)| what.to_owned())),
                Value::Words(local),
            ];
            Row::new(EntityId::Connection(key.clone()), cells)
        })
        .collect()
}
