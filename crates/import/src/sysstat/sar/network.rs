//! The network's reports of sar -n.

use crate::number::KIB;
use crate::run::{Run, Step};
use crate::table::Row;
use whyslow_model::catalogue::{Interface, Protocol, Softnet};
use whyslow_model::key::NetKey;

fn key(name: &str) -> NetKey {
    NetKey { ns: "".into(), name: name.into() }
}

/// Bytes until sysstat 8, KiB since.
pub fn interface(run: &mut Run, step: Step, row: &Row) {
    let bytes = |kib, plain| row.first(&[(kib, KIB), (plain, 1.0)]);
    let rates = [
        ("rx_packets", row.get("rxpck/s")),
        ("tx_packets", row.get("txpck/s")),
        ("rx_bytes", bytes("rxkB/s", "rxbyt/s")),
        ("tx_bytes", bytes("txkB/s", "txbyt/s")),
        ("rx_multicast", row.get("rxmcst/s")),
    ];
    run.grow::<Interface>(step, row.line, key(row.label()), &rates);
}

pub fn interface_errors(run: &mut Run, step: Step, row: &Row) {
    let rates = [
        ("rx_errors", row.get("rxerr/s")),
        ("tx_errors", row.get("txerr/s")),
        ("tx_collisions", row.get("coll/s")),
        ("rx_dropped", row.get("rxdrop/s")),
        ("tx_dropped", row.get("txdrop/s")),
        ("tx_carrier", row.get("txcarr/s")),
        ("rx_frame", row.get("rxfram/s")),
        ("rx_fifo", row.get("rxfifo/s")),
        ("tx_fifo", row.get("txfifo/s")),
    ];
    run.grow::<Interface>(step, row.line, key(row.label()), &rates);
}

/// Of each processor; the row of all is their sum.
pub fn backlog(run: &mut Run, step: Step, row: &Row) {
    let Ok(cpu) = row.label().parse::<u32>() else { return };
    let rates = [
        ("processed", row.get("total/s")),
        ("dropped", row.get("dropd/s")),
        ("squeezed", row.get("squeezd/s")),
        ("received_rps", row.get("rx_rps/s")),
        ("flow_limited", row.get("flw_lim/s")),
    ];
    run.grow::<Softnet>(step, row.line, cpu, &rates);
}

fn protocol(run: &mut Run, step: Step, row: &Row, columns: &[(&str, &'static str)]) {
    let rates: Vec<_> = columns.iter().map(|(column, metric)| (*metric, row.get(column))).collect();
    run.grow::<Protocol>(step, row.line, key("ip"), &rates);
}

pub fn tcp(run: &mut Run, step: Step, row: &Row) {
    let columns = [
        ("active/s", "tcp_active_opens"),
        ("passive/s", "tcp_passive_opens"),
        ("iseg/s", "tcp_in_segs"),
        ("oseg/s", "tcp_out_segs"),
    ];
    protocol(run, step, row, &columns);
}

pub fn tcp_errors(run: &mut Run, step: Step, row: &Row) {
    let columns = [
        ("atmptf/s", "tcp_attempt_fails"),
        ("estres/s", "tcp_estab_resets"),
        ("retrans/s", "tcp_retrans_segs"),
        ("isegerr/s", "tcp_in_errs"),
        ("orsts/s", "tcp_out_rsts"),
    ];
    protocol(run, step, row, &columns);
}

pub fn udp(run: &mut Run, step: Step, row: &Row) {
    let columns = [
        ("idgm/s", "udp_in_datagrams"),
        ("odgm/s", "udp_out_datagrams"),
        ("noport/s", "udp_no_ports"),
        ("idgmerr/s", "udp_in_errors"),
    ];
    protocol(run, step, row, &columns);
}

pub fn ip(run: &mut Run, step: Step, row: &Row) {
    protocol(run, step, row, &[("irec/s", "ip_in_receives")]);
}

pub fn ip_errors(run: &mut Run, step: Step, row: &Row) {
    let columns = [("idisc/s", "ip_in_discards"), ("odisc/s", "ip_out_discards"), ("asmf/s", "ip_reasm_fails")];
    protocol(run, step, row, &columns);
}

/// Sockets in use now.
pub fn sockets(run: &mut Run, step: Step, row: &Row) {
    let protocols = run.row::<Protocol>(step.to, row.line, key("ip"));
    protocols.tcp_in_use = row.get("tcpsck").into();
    protocols.tcp_time_wait = row.get("tcp-tw").into();
    protocols.udp_in_use = row.get("udpsck").into();
}
