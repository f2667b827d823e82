//! Network interfaces: rates, and what is dropped.

use super::{Context, sum};
use crate::entity::EntityId;
use crate::history::CourseOf;
use crate::table::{Column, Row, Value};
use std::collections::BTreeSet;
use whyslow_model::catalogue::{Interface, Link};
use whyslow_model::key::NetKey;
use whyslow_model::window::Change;

pub(super) const COLUMNS: [Column; 9] = [
    Column::words("INTERFACE", 12, 0).growing(),
    Column::number("RECEIVE", 11, 2),
    Column::number("SEND", 11, 1),
    Column::number("SPEED", 10, 5),
    Column::number("PACKETS IN", 10, 6),
    Column::number("OUT", 9, 7),
    Column::number("DROPPED", 8, 3),
    Column::number("ERRORS", 8, 4),
    Column::words("BITS OVER TIME", 20, 8),
];
pub(super) const SORTED_BY: usize = 2;

/// Packets a second that were dropped on the way in or out.
pub(crate) fn dropped(change: &Change<'_, Interface>) -> Option<f64> {
    sum([change.rate(|i| i.rx_dropped), change.rate(|i| i.rx_fifo), change.rate(|i| i.tx_dropped)])
}

/// Bits of so many bytes.
pub(crate) fn bits(bytes: Option<f64>) -> Option<f64> {
    bytes.map(|bytes| bytes * 8.0)
}

pub(super) fn rows(context: &Context<'_>) -> Vec<Row> {
    let links = context.window.newest::<Link>();
    let there: BTreeSet<&NetKey> =
        context.rates.last().into_iter().flat_map(|s| &s.net.interface).map(|i| &i.interface).collect();
    let changes = context.rates.changes::<Interface>();
    changes
        .iter()
        .filter(|change| there.contains(change.key()))
        .map(|change| {
            let key = change.key();
            let cells = vec![
                Value::Words(key.to_string()),
                Value::number(bits(change.rate(|i| i.rx_bytes)), "bit/s"),
                Value::number(bits(change.rate(|i| i.tx_bytes)), "bit/s"),
                Value::number(links.get(key).and_then(|link| link.speed.get()), "bit/s"),
                Value::number(change.rate(|i| i.rx_packets), "1/s"),
                Value::number(change.rate(|i| i.tx_packets), "1/s"),
                Value::number(dropped(change), "1/s"),
                Value::number(sum([change.rate(|i| i.rx_errors), change.rate(|i| i.tx_errors)]), "1/s"),
                context.course(&CourseOf::Interface(key.to_string()), 1e6),
            ];
            Row::new(EntityId::Interface(key.clone()), cells)
        })
        .collect()
}
