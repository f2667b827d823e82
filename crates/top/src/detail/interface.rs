//! Details of a network interface: the link, drops by place, and the connections that leave by it.

use super::{heading, list, process};
use crate::panel::Context;
use crate::table::{Value, pairs};
use crate::text::{Line, bold, dim};
use whyslow_model::catalogue::{Connection, Interface, Link, PacketDrop, Qdisc};
use whyslow_model::human;
use whyslow_model::key::NetKey;
use whyslow_quantities::interface;

pub(super) fn page(key: &NetKey, context: &Context<'_>) -> Option<Vec<Line>> {
    let changes = context.rates.changes::<Interface>();
    let change = changes.iter().find(|change| change.key() == key)?;
    let links = context.window.newest::<Link>();
    let link = links.get(key);
    let kind = link.and_then(|link| link.kind.get().or(link.driver.get())).unwrap_or_default();
    let mut lines = vec![vec![bold(format!("Interface {key} ")), dim(kind)]];
    heading(&mut lines, "Packets");
    lines.extend(pairs(&[
        ("received", Value::from_quantity(&interface::RECEIVING, change)),
        ("sent", Value::from_quantity(&interface::SENDING, change)),
        ("packets received", Value::from_quantity(&interface::RECEIVED_PACKETS, change)),
        ("packets sent", Value::from_quantity(&interface::SENT_PACKETS, change)),
        ("dropped on receipt", Value::from_quantity(&interface::DISCARDS, change)),
        ("lost because the ring overflowed", Value::from_quantity(&interface::RING_DROPS, change)),
        ("dropped on sending", Value::from_quantity(&interface::SEND_DROPS, change)),
        ("bad packets received", Value::from_quantity(&interface::RECEIVE_ERRORS, change)),
        ("packets that could not be sent", Value::from_quantity(&interface::SEND_ERRORS, change)),
    ]));
    if let Some(link) = link {
        heading(&mut lines, "Link");
        lines.extend(pairs(&[
            ("state", Value::words(link.operstate.get())),
            ("negotiated speed", Value::number(link.speed.get(), "bit/s")),
            ("duplex", Value::words(link.duplex.get())),
            ("largest packet (MTU)", Value::number(link.mtu.get(), "bytes")),
            ("driver", Value::words(link.driver.get())),
            ("receive ring", Value::number(link.ring_rx.get(), "count")),
            ("receive ring, at most", Value::number(link.ring_rx_max.get(), "count")),
            ("receive queues", Value::number(link.channels.get(), "count")),
            ("addresses", Value::words(link.addresses.get())),
        ]));
    }
    list(&mut lines, "Queueing disciplines", qdiscs(key, context), "none");
    let drops = context.rates.changes::<PacketDrop>();
    let dropped = drops.iter().filter(|drop| drop.key().ns == key.ns && drop.last().interface.get() == Some(&key.name));
    let dropped = dropped.filter_map(|drop| {
        let packets = drop.rate(|d| d.packets).filter(|rate| *rate > 0.0)?;
        let (reason, place) = (drop.last().reason.get()?, drop.last().place.get().unwrap_or_default());
        Some(format!("{:>9}  {reason} in {place}", human::quantity(packets, "1/s")))
    });
    list(&mut lines, "Packets dropped by the kernel (traced)", dropped.collect(), "none");
    let connections = context.rates.changes::<Connection>();
    let own = connections.iter().filter(|c| c.key().ns == key.ns && c.last().interface.get() == Some(&key.name));
    list(&mut lines, "TCP connections that leave by it", own.map(process::one_line).collect(), "none carries data");
    Some(lines)
}

fn qdiscs(key: &NetKey, context: &Context<'_>) -> Vec<String> {
    let changes = context.rates.changes::<Qdisc>();
    let own = changes.iter().filter(|q| q.key().ns == key.ns && q.last().interface.get() == Some(&key.name));
    own.map(|qdisc| {
        let last = qdisc.last();
        let rate =
            last.rate.get().map_or_else(String::new, |rate| format!(", limited to {}", human::quantity(rate, "bit/s")));
        format!(
            "{}{rate}: {} waiting, {} dropped",
            last.kind.get().unwrap_or("?"),
            Value::number(qdisc.mean(|q| q.backlog), "bytes").text(0),
            Value::number(qdisc.rate(|q| q.drops), "1/s").text(0)
        )
    })
    .collect()
}
