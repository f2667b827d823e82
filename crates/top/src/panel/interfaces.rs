//! Table of network interfaces: rates and drops.

use super::Context;
use crate::entity::EntityId;
use crate::history::CourseOf;
use crate::table::{Column, Row, Value};
use std::collections::BTreeSet;
use whyslow_model::catalogue::{Interface, Link};
use whyslow_model::key::NetKey;
use whyslow_quantities::interface;

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
                Value::from_quantity(&interface::RECEIVING, change),
                Value::from_quantity(&interface::SENDING, change),
                Value::number(links.get(key).and_then(|link| link.speed.get()), "bit/s"),
                Value::from_quantity(&interface::RECEIVED_PACKETS, change),
                Value::from_quantity(&interface::SENT_PACKETS, change),
                Value::from_quantity(&interface::ALL_DROPS, change),
                Value::from_quantity(&interface::ERRORS, change),
                context.course(&CourseOf::Interface(key.to_string()), 1e6),
            ];
            Row::new(EntityId::Interface(key.clone()), cells)
        })
        .collect()
}
