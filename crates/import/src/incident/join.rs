//! Copies of /proc beside the output of other tools.

use crate::merge::{Capture, differ};
use std::collections::BTreeMap;
use whyslow_model::catalogue::{EachFamily, Family, MachineInfo};
use whyslow_model::origin::{Origins, SourceLocation};
use whyslow_model::since_boot::SinceBoot;
use whyslow_model::snapshot::{ReadOutcome, Snapshot};
use whyslow_model::window::Window;

/// A copy of /proc, as the readers of the live kernel read it.
pub struct ProcCopy {
    /// Its name.
    pub name: String,
    /// Its contents; without a time ([`Snapshot::boot_ns`] is 0) if it does not hold the machine's uptime.
    pub snapshot: Snapshot,
    /// Where its files stand, if they are from texts.
    pub(crate) locations: Vec<(String, SourceLocation)>,
}

/// Merges captures and copies of /proc. Copies from one machine are the readings of one Window if their times are known, and
/// side by side otherwise; a single copy completes a single capture.
pub fn join(mut captures: Vec<Capture>, copies: Vec<ProcCopy>) -> Vec<Capture> {
    let single = captures.len() == 1 && copies.len() == 1;
    let mut machines: BTreeMap<String, Vec<ProcCopy>> = BTreeMap::new();
    for mut copy in copies {
        copy.snapshot
            .sources
            .retain(|report| !matches!(report.outcome, ReadOutcome::Absent(_) | ReadOutcome::NotPermitted { .. }));
        let name = copy.snapshot.the::<MachineInfo>().and_then(|machine| machine.name.get()).unwrap_or_default();
        machines.entry(name.to_owned()).or_default().push(copy);
    }
    for (host, mut readings) in machines.into_iter().flat_map(|(host, copies)| by_time(host, copies)) {
        let host = Some(host).filter(|host| !host.is_empty());
        match (&mut captures[..], &mut readings[..]) {
            ([capture], [copy]) if single && !differ(capture.host.as_deref(), host.as_deref()) => {
                complete(capture, std::mem::take(&mut copy.snapshot), &copy.locations);
            }
            _ => captures.push(window(host, readings)),
        }
    }
    captures
}

/// Separates copies whose times are not known, in their order.
fn by_time(host: String, copies: Vec<ProcCopy>) -> Vec<(String, Vec<ProcCopy>)> {
    let (timed, untimed): (Vec<_>, Vec<_>) = copies.into_iter().partition(|copy| copy.snapshot.boot_ns > 0);
    let timed = Some((host.clone(), timed)).filter(|(_, readings)| !readings.is_empty());
    timed.into_iter().chain(untimed.into_iter().map(|copy| (host.clone(), vec![copy]))).collect()
}

fn window(host: Option<String>, mut readings: Vec<ProcCopy>) -> Capture {
    readings.sort_by_key(|copy| copy.snapshot.boot_ns);
    let files = readings.iter().map(|copy| copy.name.clone()).collect();
    // A Window's clock does not begin at zero.
    readings.iter_mut().for_each(|copy| copy.snapshot.boot_ns = copy.snapshot.boot_ns.max(1_000_000_000));
    let mut origins = Origins::default();
    readings.iter_mut().for_each(|copy| locate(&mut copy.snapshot, &copy.locations, &mut origins));
    let readings: Vec<Snapshot> = readings.into_iter().map(|copy| copy.snapshot).collect();
    let mut totals = SinceBoot::default();
    if let [once] = &readings[..] {
        totals.add_counts(once.clone());
    }
    Capture { files, host, window: Window::new(readings).with_origins(origins).with_totals(totals) }
}

/// Adds the families that a capture lacks to its newest reading.
fn complete(capture: &mut Capture, mut copy: Snapshot, locations: &[(String, SourceLocation)]) {
    let mut totals = capture.window.totals().clone();
    totals.add_counts(copy.clone());
    let mut readings = capture.window.snapshots().to_vec();
    readings.iter().for_each(|known| copy.forget(known));
    let mut origins = capture.window.origins().clone();
    locate(&mut copy, locations, &mut origins);
    let Some(newest) = readings.last_mut() else { return };
    newest.absorb(copy);
    newest.sort();
    capture.window = Window::new(readings).with_origins(origins).with_totals(totals);
    let texts = locations.iter().map(|(_, location)| location.file.to_string());
    capture.files.extend(texts);
    capture.files.sort();
    capture.files.dedup();
}

/// Records where the files of each row stand: those that its family is read from and that name it, or else all of the former.
fn locate(snapshot: &mut Snapshot, locations: &[(String, SourceLocation)], origins: &mut Origins) {
    if !locations.is_empty() {
        snapshot.each_family(&mut Locate { locations, origins });
    }
}

struct Locate<'l> {
    locations: &'l [(String, SourceLocation)],
    origins: &'l mut Origins,
}

impl EachFamily for Locate<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        let patterns = || F::INFO.source.split([' ', ',']).filter_map(|word| word.strip_prefix('/'));
        let of_family: Vec<_> =
            self.locations.iter().filter(|(path, _)| patterns().any(|pattern| is_below(path, pattern))).collect();
        for row in rows {
            let key = row.key().to_string();
            let is_named = |path: &str| {
                path.split('/')
                    .any(|part| part.trim_start_matches(|c: char| c.is_ascii_lowercase()) == key || part == key)
            };
            let own: Vec<_> = of_family.iter().filter(|(path, _)| is_named(path)).collect();
            let found = if own.is_empty() { of_family.iter().collect() } else { own };
            for location in in_a_row(found.into_iter().map(|(_, location)| location)) {
                self.origins.note::<F>(row.key(), location);
            }
        }
    }
}

/// Whether a path begins as a pattern does: `sys/block/*/queue`.
fn is_below(path: &str, pattern: &str) -> bool {
    let mut parts = path.split('/');
    pattern.split('/').all(|part| {
        let own = parts.next().unwrap_or_default();
        match part.split_once('*') {
            // The clock of a CPU is also found under its policy.
            Some((begin, _)) => !own.is_empty() && (own.starts_with(begin) || begin == "cpu"),
            None => own == part || own.starts_with("policy"),
        }
    })
}

/// Locations in one file that follow one another are one.
fn in_a_row<'l>(all: impl Iterator<Item = &'l SourceLocation>) -> Vec<SourceLocation> {
    let mut sorted: Vec<&SourceLocation> = all.collect();
    sorted.sort();
    let mut joined: Vec<SourceLocation> = Vec::new();
    for location in sorted {
        match joined.last_mut() {
            Some(last) if last.file == location.file && location.first <= last.last + 1 => {
                last.last = last.last.max(location.last);
            }
            _ => joined.push(location.clone()),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read_text;
    use whyslow_model::catalogue::{Disk, LogLine, Meminfo, Queue};
    use whyslow_model::key::MachineKey;

    fn copy(boot_ns: u64, host: &str) -> ProcCopy {
        let mut snapshot = Snapshot { boot_ns, ..Snapshot::default() };
        snapshot.kernel.machine.push(MachineInfo { name: host.into(), ..MachineInfo::new(MachineKey) });
        snapshot.memory.meminfo.push(Meminfo { mem_total: 7.0.into(), ..Meminfo::new(MachineKey) });
        snapshot.block.disk.push(Disk { reads: boot_ns.into(), ..Disk::new("sda".into()) });
        ProcCopy { name: format!("copy {boot_ns}"), snapshot, locations: Vec::new() }
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
    fn copies_without_times_are_side_by_side() {
        let log = || read_text("[    2.000000] I/O error, dev sda, sector 1\n").unwrap_or_default();
        let names = |captures: &[Capture]| captures.iter().map(Capture::label).collect::<Vec<_>>();
        let joined = join(log(), vec![copy(0, "web"), copy(0, "web")]);
        assert_eq!(names(&joined), ["x", "copy 0", "copy 0"]);
        assert!(joined.iter().all(|c| c.window.snapshots().len() == 1));
        assert_eq!(names(&join(log(), vec![copy(0, "")])), ["x"]);
    }

    #[test]
    fn a_copy_from_a_text_is_found_on_its_lines() {
        let at = |line| SourceLocation { file: "x".into(), first: line, last: line };
        let files = [
            "sys/block/sda/queue/scheduler",
            "sys/block/sda/queue/nr_requests",
            "sys/block/sdb/queue/scheduler",
            "proc/stat",
        ];
        let locations = files.iter().zip([3, 4, 9, 12]).map(|(path, line)| ((*path).to_owned(), at(line))).collect();
        let mut snapshot = Snapshot::default();
        snapshot.block.queue = vec![Queue::new("sda".into()), Queue::new("sdb".into())];
        let joined = join(Vec::new(), vec![ProcCopy { name: "x".into(), snapshot, locations }]);
        let lines = |key| joined[0].window.origins().of("queue", key).iter().map(|l| l.lines()).collect::<Vec<_>>();
        assert_eq!((lines("sda"), lines("sdb")), (vec!["3-4".to_owned()], vec!["9".to_owned()]));
        assert!(is_below("sys/devices/system/cpu/cpufreq/policy0/x", "sys/devices/system/cpu/cpu*/cpufreq"));
        assert!(!is_below("sys/devices/system/node/node0", "sys/devices/system/cpu/cpu*/cpufreq"));
    }

    #[test]
    fn copies_of_one_machine_make_rates_and_those_of_others_do_not() {
        let joined = join(Vec::new(), vec![copy(3_000_000_000, "web"), copy(1_000_000_000, "web"), copy(9, "db")]);
        let seconds: Vec<f64> = joined.iter().map(|c| c.window.seconds()).collect();
        assert_eq!(seconds, [0.0, 2.0]);
        assert_eq!(joined[1].window.change::<Disk>().unwrap().grown(|d| d.reads), Some(2e9));
    }
}
