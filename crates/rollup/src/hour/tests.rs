use super::*;
use jiff::civil::date;
use whyslow_model::catalogue::{
    Disk, EachFamily, Group, Interface, Judgement, Meminfo, Mount, Process, RecordedFinding, Request, System,
};
use whyslow_model::histogram::Histogram;
use whyslow_model::key::{Key, MachineKey, NetKey, OperationKey, TaskKey};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, Gauge, State};

const HOUR: Hour = Hour { day: date(2026, 11, 26), hour: 16 };
const SECOND: i64 = 1_000_000_000;
/// Time since boot at the beginning of the hour, seconds.
const UP: i64 = 5000;

/// Creates a sample this many seconds after the beginning of the hour.
fn sample(second: i64) -> Snapshot {
    Snapshot {
        wall_ns: HOUR.start() * MS + second * SECOND,
        boot_ns: ((UP + second) * SECOND).unsigned_abs(),
        ..Snapshot::default()
    }
}

fn count(count: i64) -> Value {
    Value::Counter(Counter::from(count.unsigned_abs()))
}

fn level(level: f64) -> Value {
    Value::Gauge(Gauge::from(level))
}

fn words(words: &str) -> Value {
    Value::State(State::from(words))
}

fn row<F: Family>(key: F::Key, values: &[(&str, Value)]) -> F {
    let mut row = F::keyed(key);
    for (name, value) in values {
        let column = F::INFO.metrics.iter().position(|metric| metric.name == *name).unwrap();
        assert!(row.put(column, value.clone()), "{name}");
    }
    row
}

fn task(pid: u32, start: u64) -> TaskKey {
    TaskKey { pid, tid: pid, start }
}

struct Feed<'a> {
    rollup: &'a mut HourRollup,
    selections: &'a [ColumnSelection],
    sample: usize,
}

impl EachFamily for Feed<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        for (number, selection) in self.selections.iter().enumerate() {
            if selection.family != F::INFO.name || !selection.wants(self.sample) {
                continue;
            }
            for row in &*rows {
                let mut key = Vec::new();
                row.key().take_apart(&mut key);
                let values: Vec<Value> = selection.metrics.iter().filter_map(|column| row.value(*column)).collect();
                self.rollup
                    .add(number, ColumnReading { sample: self.sample, until: self.sample, key: &key, values: &values });
            }
        }
    }
}

/// Returns the rows of samples of one boot.
fn rolled_up(samples: Vec<Snapshot>) -> BTreeMap<&'static str, Vec<Row>> {
    rolled_up_of_boots(samples.into_iter().map(|sample| (0, sample)).collect())
}

/// Returns the rows of samples, each with the number of its boot.
fn rolled_up_of_boots(samples: Vec<(usize, Snapshot)>) -> BTreeMap<&'static str, Vec<Row>> {
    let time =
        |(boot, sample): &(usize, Snapshot)| SampleTime { at: sample.wall_ns, clock: sample.boot_ns, boot: *boot };
    let mut rollup = HourRollup::new(HOUR, samples.iter().map(time).collect(), vec![0]);
    let selections = rollup.selections();
    for (number, (_, mut sample)) in samples.into_iter().enumerate() {
        sample.each_family(&mut Feed { rollup: &mut rollup, selections: &selections, sample: number });
    }
    let rows = rollup.finish("h", "1.0").into_iter().map(|rows| (rows.table.name.as_str(), rows.rows));
    rows.collect()
}

/// Returns the cells of some columns in each row of a table, with the number of the minute.
fn cells(rows: &BTreeMap<&'static str, Vec<Row>>, name: &str, columns: &[&str]) -> Vec<(i64, Vec<Cell>)> {
    let table = table(name).unwrap();
    let of = |row: &Row| {
        assert_eq!((row.len(), &row[0]), (table.columns.len(), &Cell::text("h")));
        let Cell::Timestamp(at) = row[1] else { panic!("{row:?}") };
        let minute = (at - HOUR.start()) / MINUTE_MS;
        (minute, columns.iter().map(|name| row[table.position(name).unwrap()].clone()).collect())
    };
    rows.get(name).into_iter().flatten().map(of).collect()
}

fn integer(number: i64) -> Cell {
    Cell::Integer(number)
}

fn double(number: f64) -> Cell {
    Cell::Double(number)
}

/// Returns the seconds from ten before the hour, in steps of ten.
fn ticks(until: i64) -> impl Iterator<Item = i64> {
    (-1..=until / 10).map(|tick| tick * 10)
}

#[test]
fn counters_grow_and_levels_have_a_mean_and_extremes() {
    let samples = ticks(120).map(|t| {
        let mut sample = sample(t);
        let values =
            [("reads", count(1000 + 2 * t)), ("in_flight", level((t / 10 + 1) as f64)), ("identity", words("1"))];
        sample.block.disk.push(row::<Disk>("sda".into(), &values));
        // A partition, whose requests are included in those of the disk.
        sample.block.disk.push(row::<Disk>("sda1".into(), &[("reads", count(1000 + t))]));
        sample
    });
    let rows = rolled_up(samples.collect());
    let columns = ["seconds", "device", "reads", "writes", "in_flight", "in_flight_min", "in_flight_max"];
    let expected = |seconds: f64, reads: i64, mean: f64, least: f64, greatest: f64| {
        let levels = [double(mean), double(least), double(greatest)];
        [double(seconds), Cell::text("sda"), integer(reads), Cell::Null].into_iter().chain(levels).collect::<Vec<_>>()
    };
    // Readings at 0, 10 ... 50 are 1 ... 6; each step of ten seconds has 20 reads. The first begins before the hour.
    assert_eq!(
        cells(&rows, "disk", &columns),
        [
            (0, expected(60.0, 120, 3.5, 1.0, 6.0)),
            (1, expected(60.0, 120, 9.5, 7.0, 12.0)),
            (2, expected(10.0, 20, 13.0, 13.0, 13.0)),
        ]
    );
    let of_minutes = cells(&rows, "minute", &["seconds", "samples", "judged_s", "version"]);
    assert_eq!(of_minutes[0].1, [double(60.0), integer(6), double(0.0), Cell::text("1.0")]);
    assert_eq!(of_minutes[2].1, [double(10.0), integer(1), double(0.0), Cell::text("1.0")]);
}

#[test]
fn what_wraps_is_reset_or_replaced_is_counted_as_in_a_window() {
    let ms = |ms: i64| count(ms * 1_000_000);
    // The time of reads wraps at 2^32 ms, reads are reset, and sdb becomes another disk.
    let times = [(1_i64 << 32) - 300, (1 << 32) - 100, 200, 300];
    let (reads, identities) = ([50, 70, 5, 9], ["1", "1", "2", "2"]);
    let samples = (0..4_usize).map(|at| {
        let mut sample = sample(at as i64 * 10);
        let of =
            |identity: &str| [("identity", words(identity)), ("reads", count(reads[at])), ("read_time", ms(times[at]))];
        sample.block.disk.push(row::<Disk>("sda".into(), &of("1")));
        sample.block.disk.push(row::<Disk>("sdb".into(), &of(identities[at])));
        sample
    });
    let rows = rolled_up(samples.collect());
    let expected = [
        // 200 + (100 + 200) + 100 ms; 20 + 4 reads, as the third reading was after a reset.
        (0, vec![Cell::text("sda"), integer(24), integer(600_000_000), double(30.0)]),
        // Nothing is known about the step in which it became another disk.
        (0, vec![Cell::text("sdb"), integer(24), integer(300_000_000), double(20.0)]),
    ];
    assert_eq!(cells(&rows, "disk", &["device", "reads", "read_time", "seconds"]), expected);
}

#[test]
fn gaps_and_reboots_are_not_observed() {
    let with_switches = |t: i64, boot: usize, switches: i64| {
        let mut sample = sample(t);
        if boot == 1 {
            sample.boot_ns = (t * SECOND).unsigned_abs();
        }
        sample.processor.system.push(row::<System>(MachineKey, &[("context_switches", count(switches))]));
        (boot, sample)
    };
    let before = (0..6).map(|tick| with_switches(tick * 10, 0, tick * 100));
    // Ten minutes without samples, and then a boot.
    let after = (0..6).map(|tick| with_switches(660 + tick * 10, 0, 7000 + tick * 100));
    let rebooted = (0..6).map(|tick| with_switches(780 + tick * 10, 1, tick * 10));
    let rows = rolled_up_of_boots(before.chain(after).chain(rebooted).collect());
    let expected = [(0, 500), (11, 500), (13, 50)];
    let expected = expected.map(|(minute, switches)| (minute, vec![double(50.0), integer(switches)]));
    assert_eq!(cells(&rows, "system", &["seconds", "context_switches"]), expected);
    let observed = cells(&rows, "minute", &["seconds", "samples"]);
    assert_eq!(observed, [0, 11, 13].map(|minute| (minute, vec![double(50.0), integer(6)])));
}

#[test]
fn a_clock_that_is_set_back_doubles_a_minute_and_nothing_else() {
    let samples = (0..12).map(|tick| {
        let mut sample = sample(tick * 10);
        // After a minute the clock is set back by one minute.
        if tick >= 6 {
            sample.wall_ns -= 60 * SECOND;
        }
        sample.processor.system.push(row::<System>(MachineKey, &[("context_switches", count(tick * 100))]));
        sample
    });
    let rows = rolled_up(samples.collect());
    // Eleven steps of ten seconds, regardless of the wall clock.
    assert_eq!(cells(&rows, "system", &["seconds", "context_switches"]), [(0, vec![double(110.0), integer(1100)])]);
    assert_eq!(cells(&rows, "minute", &["seconds", "samples"]), [(0, vec![double(110.0), integer(12)])]);
}

#[test]
fn processes_are_added_up_by_name() {
    let hz = 100;
    let samples = ticks(50).map(|t| {
        let mut sample = sample(t);
        let mut add = |pid: u32, start: i64, command: &str, user: i64, rss: f64, is_kernels: bool| {
            let kernel = level(f64::from(u8::from(is_kernels)));
            let values = [
                ("command", words(command)),
                ("user", count(user)),
                ("rss_anon", level(rss)),
                ("kernel_thread", kernel),
            ];
            let start = (start * hz).unsigned_abs();
            sample.task.process.push(row::<Process>(task(pid, start), &values));
        };
        add(10, 1, "postgres", 1000 + t, 100.0, false);
        // Started within the hour: all of its CPU time was used in it.
        if t >= 30 {
            add(11, UP + 25, "postgres", 3 + (t - 30), 50.0, false);
        }
        add(20, 1, "kworker/0:1", 10 * t + 500, 0.0, true);
        add(21, 1, "kworker/1:0", 10 * t + 500, 0.0, true);
        add(30, 1, "bash", 100, 7.0, false);
        add(31, 1, "idle", 0, 0.0, false);
        for (pid, command) in [(40, "a"), (41, "b")] {
            add(pid, 1, command, 5 + t / 10, 20.0, false);
        }
        sample
    });
    let rows = rolled_up(samples.collect());
    let expected = [
        // As active as b, which is among the others: the first by name is chosen.
        (0, vec![Cell::text("a"), integer(6), double(20.0), double(20.0), double(20.0)]),
        (0, vec![Cell::text("kernel threads"), integer(1200), double(0.0), Cell::Null, Cell::Null]),
        // 60 + 3 + 20; 150 bytes for one half of the time and 100 for the other.
        (0, vec![Cell::text("postgres"), integer(83), double(125.0), Cell::Null, Cell::Null]),
        (0, vec![Cell::text("other"), integer(6), double(27.0), Cell::Null, Cell::Null]),
    ];
    assert_eq!(cells(&rows, "process", &["command", "user", "rss_anon", "rss_anon_min", "rss_anon_max"]), expected);
    assert_eq!(cells(&rows, "process", &["seconds"])[0].1, [double(60.0)]);
}

#[test]
fn groups_within_groups_and_mounts_of_the_same_file_system_count_once() {
    let samples = ticks(50).map(|t| {
        let mut sample = sample(t);
        for (path, usage) in [("/", 9), ("/a.slice", 9), ("/a.slice/one", 6), ("/a.slice/two", 3)] {
            sample.cgroup.group.push(row::<Group>(path.into(), &[("cpu_usage", count(usage * (t + 10)))]));
        }
        for (point, number, kind) in [("/", "8:1", "ext4"), ("/srv/x", "8:1", "ext4"), ("/var/o", "0:40", "overlay")] {
            let values =
                [("number", words(number)), ("kind", words(kind)), ("size", level(500.0)), ("available", level(200.0))];
            sample.block.mount.push(row::<Mount>(point.into(), &values));
        }
        sample
    });
    let rows = rolled_up(samples.collect());
    let expected = [("/a.slice/one", 360), ("/a.slice/two", 180)];
    let expected = expected.map(|(path, usage)| (0, vec![Cell::text(path), integer(usage)]));
    assert_eq!(cells(&rows, "group", &["path", "cpu_usage"]), expected);
    assert_eq!(cells(&rows, "mount", &["point", "available"]), [(0, vec![Cell::text("/"), double(200.0)])]);
}

#[test]
fn the_most_active_have_rows() {
    let samples = ticks(50).map(|t| {
        let mut sample = sample(t);
        for (name, rate) in [("eth0", 1), ("eth1", 5), ("eth2", 3), ("eth3", 2), ("unused", 0)] {
            let key = NetKey { ns: "".into(), name: name.into() };
            sample.net.interface.push(row::<Interface>(key, &[("rx_bytes", count(rate * (t + 10)))]));
        }
        sample.memory.meminfo.push(row::<Meminfo>(MachineKey, &[("mem_total", level(8.0))]));
        sample
    });
    let rows = rolled_up(samples.collect());
    let expected = [("eth1", 300), ("eth2", 180), ("eth3", 120)];
    let expected = expected.map(|(name, bytes)| (0, vec![Cell::text(""), Cell::text(name), integer(bytes)]));
    assert_eq!(cells(&rows, "interface", &["ns", "name", "rx_bytes"]), expected);
    assert_eq!(cells(&rows, "meminfo", &["mem_total", "cached"]), [(0, vec![double(8.0), Cell::Null])]);
}

#[test]
fn distributions_are_buckets_that_can_be_added_up() {
    let samples = ticks(60).map(|t| {
        let mut sample = sample(t);
        let key = OperationKey { device: "sda".into(), operation: "flush".into() };
        // Two values before the hour; 1000, 1040 and 2000 are added in the first minute, 70 in the second.
        let values: &[u64] = match t {
            ..0 => &[1000, 5],
            0..60 => &[1000, 5, 1000, 1040, 2000],
            _ => &[1000, 5, 1000, 1040, 2000, 70],
        };
        let times = Value::Histogram(Histogram::from_values(values.iter().copied()));
        sample.block.request.push(row::<Request>(key, &[("device_time", times)]));
        sample
    });
    let rows = rolled_up(samples.collect());
    let bucket = |minute: i64, at_least: i64, count: i64| {
        (minute, vec![Cell::text("sda"), Cell::text("flush"), integer(at_least), integer(count)])
    };
    // Four to an octave: 896..1024, 1024..1280, 1792..2048; 64..80.
    let expected = [bucket(0, 896, 1), bucket(0, 1024, 1), bucket(0, 1792, 1), bucket(1, 64, 1)];
    assert_eq!(cells(&rows, "request_device_time", &["device", "operation", "at_least", "count"]), expected);
}

#[test]
fn judgements_are_lost_time_and_episodes() {
    let mut samples: Vec<Snapshot> = (0..14).map(|tick| sample(tick * 10)).collect();
    let hour = HOUR.start() * MS;
    let mut judged = |sample: usize, (start, end): (i64, i64), impacts: &[(&str, f64)]| {
        let time = |second: i64| count(hour + second * SECOND);
        let values = [("start", time(start)), ("end", time(end)), ("rules", words("r"))];
        samples[sample].kernel.judgement = vec![row::<Judgement>(MachineKey, &values)];
        samples[sample].kernel.finding = impacts
            .iter()
            .map(|(id, impact)| {
                let subject = [("id", words(id)), ("kind", words("disk")), ("subject", words("sda"))];
                let judged = [("impact", level(*impact)), ("confidence", words("high")), ("culprit", words("dd"))];
                let values: Vec<(&str, Value)> = subject.into_iter().chain(judged).collect();
                row::<RecordedFinding>(format!("{id}@sda").as_str().into(), &values)
            })
            .collect();
    };
    judged(5, (40, 50), &[("disk.saturated", 0.5), ("cpu.saturated", 0.25)]);
    judged(7, (55, 65), &[("disk.saturated", 0.9)]);
    judged(9, (70, 80), &[]);
    // The clock was set within this window.
    judged(10, (90, 120), &[("disk.saturated", 1.0)]);
    let rows = rolled_up(samples);
    // 10 x 0.5 and 5 x 0.9 s; then 5 x 0.9 s of the 15 s that were judged.
    let minutes = cells(&rows, "minute", &["judged_s", "lost_s"]);
    assert_eq!(minutes[0], (0, vec![double(15.0), double(9.5)]));
    assert_eq!(minutes[1], (1, vec![double(15.0), double(4.5)]));
    let columns =
        ["finding", "kind", "subject", "culprit", "confidence", "until", "lost_s", "worst", "began_before", "goes_on"];
    let episode = |id: &str, until: i64, lost: f64, worst: f64, goes_on: bool| {
        let until = Cell::Timestamp(HOUR.start() + until * 1000);
        let rest = [until, double(lost), double(worst), Cell::Boolean(false), Cell::Boolean(goes_on)];
        [id, "disk", "sda", "dd", "high"].into_iter().map(Cell::text).chain(rest).collect::<Vec<_>>()
    };
    let expected =
        [(0, episode("cpu.saturated", 50, 2.5, 0.25, false)), (0, episode("disk.saturated", 65, 14.0, 0.9, true))];
    assert_eq!(cells(&rows, "episode", &columns), expected);
    assert_eq!(rows["episode"][0][1], Cell::Timestamp(HOUR.start() + 40_000));
}

#[test]
fn an_hour_without_samples_has_no_rows() {
    assert_eq!(rolled_up(vec![sample(-20), sample(-10), sample(3600), sample(3610)]), BTreeMap::new());
}
