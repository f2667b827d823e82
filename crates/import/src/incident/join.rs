//! Merges copies of /proc with the output of other tools.

use crate::clock::{DAY, PrintedTime, SECOND, nanoseconds};
use crate::merge::{BEGIN, Capture};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_documents::diagnosis::Host;
use whyslow_model::catalogue::{EachFamily, Family, MachineInfo};
use whyslow_model::origin::{Origins, SourceLocation};
use whyslow_model::plausible::ImpossibleValue;
use whyslow_model::since_boot::SinceBoot;
use whyslow_model::snapshot::{ReadOutcome, Snapshot, SourceReport};
use whyslow_model::value::Name;
use whyslow_model::window::Window;

/// A copy of /proc as parsed by the readers of the live kernel.
pub struct ProcCopy {
    /// Name of the copy.
    pub name: String,
    /// Contents of the copy; without a time ([`Snapshot::boot_ns`] is 0) if it lacks the machine's uptime.
    pub snapshot: Snapshot,
    /// Locations of its files, if they are from texts.
    pub(crate) locations: Vec<(String, SourceLocation)>,
    /// Time at which they were printed there.
    pub(crate) at: PrintedTime,
}

/// Merges captures and copies of /proc. Copies from one machine become the readings of one Window if their times are known, and
/// stay side by side otherwise; a single copy, or the readings of one text, complete a single capture.
pub fn join(mut captures: Vec<Capture>, mut copies: Vec<ProcCopy>) -> Vec<Capture> {
    place(&mut copies);
    let mut machines: BTreeMap<String, Vec<ProcCopy>> = BTreeMap::new();
    for mut copy in copies {
        copy.snapshot
            .sources
            .retain(|report| !matches!(report.outcome, ReadOutcome::Absent(_) | ReadOutcome::NotPermitted { .. }));
        let name = copy.snapshot.the::<MachineInfo>().and_then(|machine| machine.name.get()).unwrap_or_default();
        machines.entry(name.to_owned()).or_default().push(copy);
    }
    let all: Vec<_> = machines.into_iter().flat_map(|(host, copies)| by_time(host, copies)).collect();
    let is_single = captures.len() == 1 && all.len() == 1;
    let hosts: Vec<String> = all.iter().map(|(host, _)| host.clone()).collect();
    let mut added = Vec::new();
    for (host, readings) in all {
        let is_one = hosts.iter().filter(|other| **other == host).count() == 1;
        let host = Some(host).filter(|host| !host.is_empty());
        let completes = readings.len() == 1 || readings.iter().all(|copy| !copy.locations.is_empty());
        // With several machines, a capture and the files must both name the same one.
        let is_own = |capture: &&mut Capture| {
            let is_known = is_single || capture.host.is_some() && host.is_some();
            is_known && !Host::names_differ(capture.host.as_deref(), host.as_deref())
        };
        let mut own = captures.iter_mut().filter(is_own);
        match (own.next(), own.next()) {
            (Some(capture), None) if is_one && completes => complete(capture, readings),
            _ => added.push(window(host, readings)),
        }
    }
    captures.extend(added);
    captures.into_iter().map(without_impossible_values).collect()
}

/// Marks impossible values as unknown, and notes them.
fn without_impossible_values(capture: Capture) -> Capture {
    let (window, found) = capture.window.without_impossible_values();
    let report = |ImpossibleValue { of, why }: ImpossibleValue| {
        let of: Name = of.into();
        let remedy = "compare it with the original: it was damaged, or misread".to_owned();
        SourceReport {
            source: of.clone(),
            tells: of,
            outcome: ReadOutcome::Partly { why, remedy },
            ..SourceReport::default()
        }
    };
    let window = if found.is_empty() { window } else { window.with_reports(found.into_iter().map(report)) };
    Capture { window, ..capture }
}

/// Maximum number of seconds between copies that were printed on one occasion.
const LONGEST: f64 = 7.0 * DAY;

/// Puts the copies of one text on one clock, if they were printed one after the other at known times. Copies of several texts may
/// come from different machines.
fn place(copies: &mut [ProcCopy]) {
    let times: Vec<f64> = copies.iter().filter_map(|copy| copy.at.since(copies.first()?.at)).collect();
    let texts: BTreeSet<&str> =
        copies.iter().flat_map(|copy| &copy.locations).map(|(_, location)| &*location.file).collect();
    let is_in_order =
        times.windows(2).all(|pair| pair[1] > pair[0]) && times.last().is_some_and(|last| *last <= LONGEST);
    if times.len() < 2 || times.len() != copies.len() || texts.len() != 1 || !is_in_order {
        return;
    }
    for (copy, time) in copies.iter_mut().zip(times) {
        copy.snapshot.boot_ns = BEGIN + nanoseconds(time);
        copy.snapshot.wall_ns = copy.at.since_1970().map_or(0, |seconds| (seconds * SECOND) as i64);
    }
}

/// Separates the copies without a known time, in their order.
fn by_time(host: String, copies: Vec<ProcCopy>) -> Vec<(String, Vec<ProcCopy>)> {
    let (timed, untimed): (Vec<_>, Vec<_>) = copies.into_iter().partition(|copy| copy.snapshot.boot_ns > 0);
    let timed = Some((host.clone(), timed)).filter(|(_, readings)| !readings.is_empty());
    timed.into_iter().chain(untimed.into_iter().map(|copy| (host.clone(), vec![copy]))).collect()
}

fn window(host: Option<String>, mut readings: Vec<ProcCopy>) -> Capture {
    readings.sort_by_key(|copy| copy.snapshot.boot_ns);
    let files = readings.iter().map(|copy| copy.name.clone()).collect();
    readings.iter_mut().for_each(|copy| copy.snapshot.boot_ns = copy.snapshot.boot_ns.max(BEGIN));
    let mut origins = Origins::default();
    readings.iter_mut().for_each(|copy| locate(&mut copy.snapshot, &copy.locations, &mut origins));
    let readings: Vec<Snapshot> = readings.into_iter().map(|copy| copy.snapshot).collect();
    let mut totals = SinceBoot::default();
    if let [once] = &readings[..] {
        totals.add_counts(once.clone());
    }
    let settings = BTreeMap::new();
    Capture { files, host, settings, window: Window::new(readings).with_origins(origins).with_totals(totals) }
}

/// Adds the families that a capture lacks: those of the last copy to its newest reading, those of earlier copies as separate
/// readings.
fn complete(capture: &mut Capture, mut copies: Vec<ProcCopy>) {
    let mut totals = capture.window.totals().clone();
    let mut origins = capture.window.origins().clone();
    let mut readings = capture.window.snapshots().to_vec();
    if let [once] = &copies[..] {
        totals.add_counts(once.snapshot.clone());
    }
    join_groups(&mut readings, &mut copies);
    let (Some(mut newest), Some(last)) = (readings.pop(), copies.last().map(|copy| copy.snapshot.boot_ns)) else {
        return;
    };
    let known: Vec<Snapshot> = readings.iter().chain([&newest]).cloned().collect();
    // The capture's clock begins later by the time that the copies cover before it.
    let first = copies.first().map_or(last, |copy| copy.snapshot.boot_ns);
    let shift = (BEGIN + (last - first)).saturating_sub(newest.boot_ns);
    newest.boot_ns += shift;
    readings.iter_mut().for_each(|reading| reading.boot_ns += shift);
    for ProcCopy { mut snapshot, locations, .. } in copies {
        let groups = std::mem::take(&mut snapshot.cgroup);
        known.iter().for_each(|reading| snapshot.forget(reading));
        snapshot.cgroup = groups;
        locate(&mut snapshot, &locations, &mut origins);
        capture.files.extend(locations.iter().map(|(_, location)| location.file.to_string()));
        if snapshot.boot_ns == last {
            newest.absorb(snapshot);
        } else {
            let before = last - snapshot.boot_ns;
            snapshot.boot_ns = newest.boot_ns - before;
            snapshot.wall_ns = if newest.wall_ns > 0 { newest.wall_ns - before as i64 } else { 0 };
            snapshot.sort();
            // A window has one reading at a time.
            match readings.iter_mut().find(|reading| reading.boot_ns == snapshot.boot_ns) {
                Some(reading) => {
                    reading.absorb(snapshot);
                    reading.sort();
                }
                None => readings.push(snapshot),
            }
        }
    }
    newest.sort();
    readings.push(newest);
    readings.sort_by_key(|reading| reading.boot_ns);
    let has_assumed_times = capture.window.has_assumed_times();
    let window = Window::new(readings).with_origins(origins).with_totals(totals);
    capture.window = window.with_assumed_times(has_assumed_times);
    capture.files.sort();
    capture.files.dedup();
}

/// Merges the rows of a control group that is both in the capture and in the copies, so that it has one row at a time. Several
/// copies provide rates, so their rows stay and take the capture's gauges; a single copy only completes the capture's row.
fn join_groups(readings: &mut [Snapshot], copies: &mut [ProcCopy]) {
    let (is_several, Some(last)) = (copies.len() > 1, copies.last_mut()) else { return };
    let groups = &mut last.snapshot.cgroup.group;
    for reading in readings.iter_mut().rev() {
        let own = &mut reading.cgroup.group;
        if is_several {
            for group in groups.iter_mut() {
                let path = group.path.clone();
                own.extract_if(.., |row| row.path == path).for_each(|row| group.fill(&row));
            }
        } else {
            groups.retain(|group| match own.iter_mut().find(|row| row.path == group.path) {
                Some(row) => {
                    row.fill(group);
                    false
                }
                None => true,
            });
        }
    }
}

/// Records the locations of the files behind each row: those files of its family whose path names it, or else all files of the
/// family.
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

/// Returns true if a path begins like a pattern: `sys/block/*/queue`.
fn is_below(path: &str, pattern: &str) -> bool {
    let mut parts = path.split('/');
    pattern.split('/').all(|part| {
        let own = parts.next().unwrap_or_default();
        match part.split_once('*') {
            // The clock of a CPU is also listed under its policy.
            Some((begin, _)) => !own.is_empty() && (own.starts_with(begin) || begin == "cpu"),
            None => own == part || own.starts_with("policy"),
        }
    })
}

/// Merges locations in one file that follow one another.
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
    use whyslow_model::catalogue::{Disk, Group, LogLine, Meminfo, Queue};
    use whyslow_model::key::MachineKey;

    fn copy(boot_ns: u64, host: &str) -> ProcCopy {
        let mut snapshot = Snapshot { boot_ns, ..Snapshot::default() };
        snapshot.kernel.machine.push(MachineInfo { name: host.into(), ..MachineInfo::new(MachineKey) });
        snapshot.memory.meminfo.push(Meminfo { mem_total: 7.0.into(), ..Meminfo::new(MachineKey) });
        snapshot.block.disk.push(Disk { reads: boot_ns.into(), ..Disk::new("sda".into()) });
        ProcCopy { name: format!("copy {boot_ns}"), snapshot, locations: Vec::new(), at: PrintedTime::default() }
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

    /// Creates a copy, printed at this time of day, of the control group `/app.slice` with this many events.
    fn printed(at: f64, events: u64) -> ProcCopy {
        let mut snapshot = Snapshot::default();
        snapshot.cgroup.group.push(Group { high_events: events.into(), ..Group::new("/app.slice".into()) });
        let location = SourceLocation { file: "x".into(), first: 1, last: 1 };
        let locations = vec![("sys/fs/cgroup/app.slice/memory.events".to_owned(), location)];
        ProcCopy { name: "x".into(), snapshot, locations, at: PrintedTime::of_day(at) }
    }

    #[test]
    fn copies_that_were_printed_one_after_the_other_make_rates_beside_a_capture() {
        let cgtop = "Control Group        Tasks   %CPU   Memory  Input/s Output/s\n\
            /                      512   12.4     9.8G        -        -\n\
            app.slice               96    9.8     5.9G        -        -\n";
        let joined = join(read_text(cgtop).unwrap_or_default(), vec![printed(50.0, 100), printed(60.0, 400)]);
        assert_eq!(joined.len(), 1);
        let window = &joined[0].window;
        let app = window.changes::<Group>().into_iter().find(|group| &**group.key() == "/app.slice").unwrap();
        assert_eq!(app.rate(|group| group.high_events), Some(30.0));
        assert_eq!(app.last().memory.get(), Some(5.9 * 1024.0 * 1024.0 * 1024.0), "as the capture has it");
    }

    #[test]
    fn copies_of_one_time_of_other_texts_or_of_far_apart_are_side_by_side() {
        let mut of_another = printed(60.0, 400);
        of_another.locations[0].1.file = "y".into();
        for later in [printed(50.0, 400), printed(1e12, 400), of_another] {
            assert_eq!(join(Vec::new(), vec![printed(50.0, 100), later]).len(), 2);
        }
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
        let joined =
            join(Vec::new(), vec![ProcCopy { name: "x".into(), snapshot, locations, at: PrintedTime::default() }]);
        let lines =
            |key| joined[0].window.origins().locations("queue", key).iter().map(|l| l.lines()).collect::<Vec<_>>();
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
