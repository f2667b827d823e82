//! Details of a TCP connection: rates, round trips, losses, windows and queues.

use super::heading;
use crate::panel::{Context, commands, held_back, ratio, retransmitted};
use crate::table::{Value, pairs};
use crate::text::{Line, bold, dim};
use whyslow_model::catalogue::Connection;
use whyslow_model::human;
use whyslow_model::key::SocketKey;
use whyslow_quantities::connection;

pub(super) fn page(key: &SocketKey, context: &Context<'_>) -> Option<Vec<Line>> {
    let changes = context.rates.changes::<Connection>();
    let change = changes.iter().find(|change| change.key() == key)?;
    let last = change.last();
    let commands = commands(context.window);
    let process = last.pid.get().map(|pid| {
        let command = commands.get(&(pid as u32)).map_or("", String::as_str);
        format!("{pid:.0} {command}")
    });
    let mut lines = vec![vec![bold(format!("Connection {key} ")), dim(last.state.get().unwrap_or_default())]];
    heading(&mut lines, "Data");
    let held_back = held_back(change).map(|(what, share)| format!("{what}, {} of the time", human::share(share)));
    lines.extend(pairs(&[
        ("process", Value::words(process)),
        ("held back by", Value::words(held_back)),
        ("confirmed by the peer", Value::from_quantity(&connection::CONFIRMED, change)),
        ("received", Value::from_quantity(&connection::RECEIVED, change)),
        ("bytes waiting to be sent", Value::number(last.not_sent.get(), "bytes")),
        ("bytes the peer has not confirmed", Value::number(last.send_queue.get(), "bytes")),
        ("bytes the application has not read", Value::number(last.receive_queue.get(), "bytes")),
        ("leaves by", Value::words(last.interface.get())),
    ]));
    heading(&mut lines, "Path");
    let time = |ns: Option<f64>| Value::number(ratio(ns), "s");
    lines.extend(pairs(&[
        ("round-trip time", time(change.mean(|c| c.rtt))),
        ("smallest round-trip time", time(last.min_rtt.get())),
        ("segments retransmitted", Value::share(retransmitted(change))),
        ("retransmission timers that expired", Value::from_quantity(&connection::TIMEOUTS, change)),
        ("timer without an acknowledgement", time(last.retransmission_timeout.get())),
    ]));
    heading(&mut lines, "Windows and buffers");
    lines.extend(pairs(&[
        ("time with data in flight", Value::from_quantity(&connection::BUSY, change)),
        ("held back by the peer's receive window", Value::from_quantity(&connection::WINDOW_LIMITED, change)),
        ("held back by the own send buffer", Value::from_quantity(&connection::BUFFER_LIMITED, change)),
        ("congestion window, segments", Value::number(last.congestion_window.get(), "count")),
        ("segment size", Value::number(last.mss.get(), "bytes")),
        ("the peer's receive window", Value::number(last.peer_window.get(), "bytes")),
        ("the receive window offered", Value::number(last.own_window.get(), "bytes")),
        ("send buffer", Value::number(last.send_buffer.get(), "bytes")),
        ("receive buffer", Value::number(last.receive_buffer.get(), "bytes")),
        ("congestion control", Value::words(last.congestion_control.get())),
    ]));
    Some(lines)
}
