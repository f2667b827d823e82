//! Copies of /proc beside the output of other tools.

use crate::merge::{Capture, differ};
use std::collections::BTreeMap;
use whyslow_model::catalogue::MachineInfo;
use whyslow_model::since_boot::SinceBoot;
use whyslow_model::snapshot::{ReadOutcome, Snapshot};
use whyslow_model::window::Window;

/// A copy of /proc, as the readers of the live kernel read it.
pub struct ProcCopy {
    /// Its name.
    pub name: String,
    /// Its contents.
    pub snapshot: Snapshot,
}

/// Merges captures and copies of /proc. Copies from one machine are the readings of one Window; a single copy completes
/// a single capture.
pub fn join(mut captures: Vec<Capture>, copies: Vec<ProcCopy>) -> Vec<Capture> {
    let mut machines: BTreeMap<String, Vec<ProcCopy>> = BTreeMap::new();
    for mut copy in copies {
        copy.snapshot
            .sources
            .retain(|report| !matches!(report.outcome, ReadOutcome::Absent(_) | ReadOutcome::NotPermitted { .. }));
        let name = copy.snapshot.the::<MachineInfo>().and_then(|machine| machine.name.get()).unwrap_or_default();
        machines.entry(name.to_owned()).or_default().push(copy);
    }
    let single = captures.len() == 1 && machines.len() == 1;
    for (host, mut readings) in machines {
        let host = Some(host).filter(|host| !host.is_empty());
        match (&mut captures[..], &mut readings[..]) {
            ([capture], [copy]) if single && !differ(capture.host.as_deref(), host.as_deref()) => {
                complete(capture, std::mem::take(&mut copy.snapshot));
            }
            _ => captures.push(window(host, readings)),
        }
    }
    captures
}

fn window(host: Option<String>, mut readings: Vec<ProcCopy>) -> Capture {
    readings.sort_by_key(|copy| copy.snapshot.boot_ns);
    let files = readings.iter().map(|copy| copy.name.clone()).collect();
    let readings: Vec<Snapshot> = readings.into_iter().map(|copy| copy.snapshot).collect();
    let mut totals = SinceBoot::default();
    if let [once] = &readings[..] {
        totals.add_counts(once.clone());
    }
    Capture { files, host, window: Window::new(readings).with_totals(totals) }
}

/// Adds the families that a capture lacks to its newest reading.
fn complete(capture: &mut Capture, mut copy: Snapshot) {
    let mut totals = capture.window.totals().clone();
    totals.add_counts(copy.clone());
    let mut readings = capture.window.snapshots().to_vec();
    readings.iter().for_each(|known| copy.forget(known));
    let Some(newest) = readings.last_mut() else { return };
    newest.absorb(copy);
    newest.sort();
    capture.window = Window::new(readings).with_origins(capture.window.origins().clone()).with_totals(totals);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read_text;
    use whyslow_model::catalogue::{Disk, LogLine, Meminfo};
    use whyslow_model::key::MachineKey;

    fn copy(boot_ns: u64, host: &str) -> ProcCopy {
        let mut snapshot = Snapshot { boot_ns, ..Snapshot::default() };
        snapshot.kernel.machine.push(MachineInfo { name: host.into(), ..MachineInfo::new(MachineKey) });
        snapshot.memory.meminfo.push(Meminfo { mem_total: 7.0.into(), ..Meminfo::new(MachineKey) });
        snapshot.block.disk.push(Disk { reads: boot_ns.into(), ..Disk::new("sda".into()) });
        ProcCopy { name: format!("copy {boot_ns}"), snapshot }
    }

    #[test]
    fn one_copy_completes_one_capture() {
        let log = read_text("[    2.000000] I/O error, dev sda, sector 1\n").unwrap_or_default();
        let joined = join(log, vec![copy(5, "web")]);
        assert_eq!(joined.len(), 1);
        assert_eq!(joined[0].window.newest::<LogLine>().len(), 1);
        assert_eq!(joined[0].window.the::<Meminfo>().unwrap().mem_total.get(), Some(7.0));
    }

    #[test]
    fn copies_of_one_machine_make_rates_and_those_of_others_do_not() {
        let joined = join(Vec::new(), vec![copy(3_000_000_000, "web"), copy(1_000_000_000, "web"), copy(9, "db")]);
        let seconds: Vec<f64> = joined.iter().map(|c| c.window.seconds()).collect();
        assert_eq!(seconds, [0.0, 2.0]);
        assert_eq!(joined[1].window.change::<Disk>().unwrap().grown(|d| d.reads), Some(2e9));
    }
}
