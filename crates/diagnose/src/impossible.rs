//! Removes shares above 100 %, or below zero, which result from inputs that do not belong together or were misread: in captures
//! they are unknown, and reported.

use crate::signal::Entity;
use whyslow_documents::diagnosis::{BlindSpot, Reading, Subject};
use whyslow_model::human;

/// How far a share of time may exceed 1: the kernel samples by its tick, and counters are not read at one instant.
const SLACK: f64 = 0.1;
/// How far a printed percentage may exceed 100 %.
const ROUNDING: f64 = 0.005;

/// Ratios that may be above 1, each with the reason. All others are shares.
const ABOVE_ONE: &[(&str, &str)] = &[
    ("tcp.window_fill", "a product of means"),
    ("tcp.own_window_fill", "a product of means"),
    ("tcp.loss_fill", "a product of means"),
    ("tcp.timeout_stall", "a count times a mean"),
    ("tcp.spurious_share", "what the peer reports belongs to segments that were retransmitted earlier"),
    ("tcp.retransmit_share", "the kernel counts retransmitted segments separately from those sent"),
    ("tcp.loss_share", "the kernel counts retransmitted segments separately from those sent"),
    ("tcp.thrown_share", "what is dropped need not be retransmitted at once"),
    ("net.loss_share", "the kernel counts retransmitted segments separately from those sent"),
    ("net.spurious_share", "what peers report belongs to segments that were retransmitted earlier"),
    ("net.retransmitted_opening", "counted by two counters at different moments of a segment"),
    ("peer.loss_share", "connections are counted when they end"),
    ("udp.fill", "the kernel accepts one datagram that no longer fits into the buffer"),
    ("disk.wait_scaling", "a slope of measured latencies"),
    ("disk.wait_scaling_sampled", "a slope of measured latencies"),
    ("disk.throughput_growth", "an exponent of measured rates"),
    ("disk.flush_share", "several flushes in flight at once"),
    ("disk.size_spread", "a spread against the mean"),
    ("disk.rate_spread", "a spread against the mean"),
    ("disk.bytes_spread", "a spread against the mean"),
    ("drop.share", "packets that are dropped before IP counts them"),
    ("nfs.sent_again_share", "an operation is retransmitted several times"),
    ("limit.fill", "the limit was lowered, or is one that the kernel only works towards"),
    ("group.memory_fill", "the limit was lowered below what is charged"),
    ("group.high_fill", "usage may stay above memory.high"),
    ("group.page_tables_share", "the limit was lowered below what is charged"),
    ("guest.limit_used", "a burst above the limit"),
    ("cpu.clock_share", "turbo frequencies above the base"),
    ("cpu.fastest_share", "turbo frequencies above the nominal maximum"),
    ("cpu.slowest_share", "a frequency against the lowest one"),
    ("mem.refault_share", "pages that are read from swap files and networks as well"),
    ("mem.reclaim_estimate", "an estimate from what was scanned"),
    ("mem.background_reclaim", "several threads of the kernel at once"),
    ("mem.dirty_fill", "writers are held back only above the level"),
    ("mem.guests_share", "guests may be promised more memory than there is"),
    ("mem.huge_split_share", "pages that were made before the window"),
    ("iface.use", "a capacity that is measured, or reported wrongly by the driver"),
    ("iface.paused_share", "pause frames are counted separately from packets"),
    ("iface.pausing_share", "pause frames are counted separately from packets"),
    ("iface.error_share", "bad packets are counted separately from good ones"),
    ("iface.kernel_limit", "the time of a thread and its waiting together"),
    ("proc.open_files_share", "the limit was lowered below what is open"),
    ("proc.mappings_share", "the limit was lowered below what is mapped"),
    ("thread.busy", "a capture shows a process where its threads are not listed"),
    ("quota.fill", "a burst above the limit"),
    ("shaper.use", "a burst above the rate"),
    ("timed.cpu_share", "several threads"),
    ("db.memory_fill", "memory may stay above the most that data may take"),
    ("db.resident_share", "fragmented memory takes more than the data"),
    ("db.log_fill", "a checkpoint that is late"),
    ("drive.wear", "the rated endurance may be exceeded"),
];

/// Ratios that may be below zero.
const BELOW_ZERO: &[&str] = &[
    "disk.wait_scaling",
    "disk.wait_scaling_sampled",
    "disk.throughput_growth",
    "disk.unfinished",
    "mem.unaccounted_share",
    "tcp.loss_share",
    "net.loss_share",
    "peer.loss_share",
    "core.uncharged",
];

/// Returns true if a ratio is a share of a whole, so that it is at most 1.
pub fn is_share(signal: &str) -> bool {
    ABOVE_ONE.iter().all(|(known, _)| *known != signal)
}

/// Removes the impossible shares of an entity, and returns a blind spot for each.
pub(crate) fn take_out(entity: &mut Entity) -> Vec<BlindSpot> {
    let signals = entity.signals.iter();
    let shares = signals.zip(&mut entity.values).filter(|(signal, _)| signal.unit == "ratio");
    let is_impossible = |name: &str, value: f64| {
        // The kernel computes these averages itself (kernel/sched/psi.c), and never above 100 %.
        let slack = if name.ends_with("_minute") { ROUNDING } else { SLACK };
        let is_above = value > 1.0 + slack && is_share(name);
        is_above || value < -SLACK && !BELOW_ZERO.contains(&name)
    };
    let subject = &entity.subject;
    let taken = shares.filter_map(|(signal, value)| match value {
        Some(Reading::Number(number)) if is_impossible(signal.name, *number) => {
            let why = format!("impossible value: {} ({})", human::percent(*number), signal.how);
            *value = None;
            Some(BlindSpot { what: format!("{}{}", signal.name, of_subject(subject)), why, remedy: String::new() })
        }
        _ => None,
    });
    taken.collect()
}

fn of_subject(subject: &Subject) -> String {
    if subject.kind == "host" { String::new() } else { format!(" of {}", subject.name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Scope;
    use std::collections::BTreeSet;

    #[test]
    fn every_exception_is_a_ratio_with_a_reason() {
        let ratios: BTreeSet<&str> = Scope::ALL
            .iter()
            .flat_map(|scope| scope.signals())
            .filter(|signal| signal.unit == "ratio")
            .map(|signal| signal.name)
            .collect();
        let wrong = ABOVE_ONE.iter().map(|(name, _)| *name).chain(BELOW_ZERO.iter().copied());
        assert_eq!(wrong.filter(|name| !ratios.contains(name)).collect::<Vec<_>>(), [""; 0]);
        assert!(ABOVE_ONE.iter().all(|(_, why)| !why.is_empty()));
    }

    #[test]
    fn a_share_above_the_whole_is_unknown() {
        let signals = Scope::Disk.signals();
        let value = |name: &str, number: f64| {
            let mut disk = Entity::unknown(Subject::new("device", "sda"));
            disk.signals = signals;
            disk.values = signals.iter().map(|s| (s.name == name).then_some(Reading::Number(number))).collect();
            let said = take_out(&mut disk);
            (disk.number(name), said.len())
        };
        assert_eq!(value("disk.read_share", 1.4), (None, 1));
        assert_eq!(value("disk.read_share", -0.5), (None, 1));
        assert_eq!(value("disk.busy", 1.04), (Some(1.04), 0));
        assert_eq!(value("disk.flush_share", 3.0), (Some(3.0), 0));
        assert_eq!(value("disk.throughput_growth", -0.4), (Some(-0.4), 0));
    }
}
