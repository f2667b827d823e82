use crate::window::{of_window, samples_of};
use crate::{ChartAxes, ChartBuilder, ChartTimes, SeriesNames, charts, charts_of_window};
use whyslow_documents::chart::{Chart, ChartSeries};
use whyslow_model::catalogue::{Cpu, Disk, Family, Group, Interface, Meminfo, Mount, Process, Request};
use whyslow_model::histogram::Histogram;
use whyslow_model::key::{Key, KeyPart, MachineKey, NetKey, OperationKey, TaskKey};
use whyslow_model::row::ColumnReading;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Name, Value};
use whyslow_model::window::Window;
use whyslow_quantities::Quantity;
use whyslow_testing::{Random, window_of as random_window};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// Creates a sample at 1000 + `second` seconds since 1970, and `second` + 1 seconds since boot.
fn sample(second: u64) -> Snapshot {
    Snapshot { wall_ns: ((1000 + second) * SECOND) as i64, boot_ns: (second + 1) * SECOND, ..Snapshot::default() }
}

fn disk(name: &str, reads: u64, read_ms: u64) -> Disk {
    Disk {
        reads: reads.into(),
        read_time: (read_ms * MS).into(),
        identity: Name::from("7").into(),
        ..Disk::new(name.into())
    }
}

fn with_disks(second: u64, disks: Vec<Disk>) -> Snapshot {
    let mut sample = sample(second);
    sample.block.disk = disks;
    sample
}

fn made(samples: Vec<Snapshot>, id: &str, most: usize) -> Option<Chart> {
    let specs = charts().filter(|chart| chart.id == id).collect::<Vec<_>>();
    assert_eq!(specs.len(), 1, "{id}");
    let mut made = charts_of_window(&Window::new(samples), specs, most, ChartTimes::Live);
    assert!(made.len() < 2);
    made.pop()
}

fn one(chart: &Chart) -> &ChartSeries {
    assert_eq!(chart.series.len(), 1, "{:?}", chart.series);
    &chart.series[0]
}

#[test]
fn a_ratio_is_of_what_grew_between_two_samples() {
    let samples = vec![
        with_disks(0, vec![disk("sda", 50, 1000)]),
        with_disks(1, vec![disk("sda", 150, 1200)]),
        with_disks(2, vec![disk("sda", 150, 1200)]),
        with_disks(3, vec![disk("sda", 350, 1800)]),
    ];
    let chart = made(samples, "disk.latency", 1500).unwrap();
    assert_eq!(chart.times, [1000.0, 1001.0, 1002.0, 1003.0]);
    let reads = one(&chart);
    assert_eq!((reads.name.as_str(), reads.entity.as_str()), ("sda reads", "sda"));
    // 200 ms for 100 requests, none, and 600 ms for 200.
    assert_eq!(reads.mean, [None, Some(0.002), None, Some(0.003)]);
    assert_eq!((&reads.min, &reads.max), (&None, &None), "each interval has one value");
}

#[test]
fn where_only_the_sum_of_times_is_known_it_is_per_read_and_write() {
    let all = |second: u64| Disk {
        reads: (3 * second).into(),
        writes: second.into(),
        transfer_time: (8 * second * MS).into(),
        ..Disk::new("sda".into())
    };
    let chart = made(vec![with_disks(0, vec![all(0)]), with_disks(1, vec![all(1)])], "disk.latency", 1500).unwrap();
    assert_eq!((one(&chart).name.as_str(), one(&chart).mean[1]), ("sda requests", Some(0.002)));
}

#[test]
fn intervals_have_the_mean_of_all_requests_and_the_range_of_the_samples() {
    // One request of 1 ms each second, and ten of 3 ms in the fifth: 9 ms + 30 ms for 19 requests in the first ten seconds.
    let count = |second: u64| second + if second >= 5 { 9 } else { 0 };
    let time = |second: u64| second + if second >= 5 { 29 } else { 0 };
    let samples = (0..=20).map(|second| with_disks(second, vec![disk("sda", count(second), time(second))])).collect();
    let chart = made(samples, "disk.latency", 3).unwrap();
    assert_eq!(chart.times, [1000.0, 1010.0, 1020.0]);
    let reads = one(&chart);
    assert_eq!(reads.mean, [None, Some(0.002_052_6), Some(0.001)]);
    assert_eq!(reads.min, Some(vec![None, Some(0.001), Some(0.001)]));
    assert_eq!(reads.max, Some(vec![None, Some(0.003), Some(0.001)]));
}

#[test]
fn resets_other_disks_of_the_name_and_gaps_have_no_value() {
    let other = |reads| Disk { identity: Name::from("8").into(), ..disk("sda", reads, 0) };
    let samples = vec![
        with_disks(0, vec![disk("sda", 100, 0)]),
        with_disks(1, vec![disk("sda", 110, 0)]),
        with_disks(2, vec![disk("sda", 5, 0)]),
        with_disks(3, vec![disk("sda", 6, 0)]),
        with_disks(4, vec![other(1000)]),
        with_disks(5, vec![other(1007)]),
        with_disks(15, vec![other(2007)]),
        with_disks(16, vec![other(2010)]),
    ];
    let chart = made(samples, "disk.requests", 1500).unwrap();
    assert_eq!(chart.times, [1000.0, 1001.0, 1002.0, 1003.0, 1004.0, 1005.0, 1010.0, 1015.0, 1016.0]);
    assert_eq!(one(&chart).mean, [None, Some(10.0), None, Some(1.0), None, Some(7.0), None, None, Some(3.0)]);
}

#[test]
fn partitions_count_with_their_disk_and_the_idle_ones_are_left_out() {
    let partition = |reads| Disk { identity: Default::default(), ..disk("sda1", reads, 0) };
    let disks = |n: u64| {
        let idle = (0..3).map(|n| disk(&format!("loop{n}"), 0, 0));
        let busy = (0..7).map(move |disk_number| disk(&format!("sd{disk_number}"), n * disk_number + n, 0));
        idle.chain([partition(50 * n)]).chain(busy).collect::<Vec<_>>()
    };
    let chart = made(vec![with_disks(0, disks(0)), with_disks(1, disks(1))], "disk.requests", 1500).unwrap();
    let names: Vec<&str> = chart.series.iter().map(|series| &*series.entity).collect();
    assert_eq!(names, ["sd6", "sd5", "sd4", "sd3", "sd2", "sd1"]);
    assert_eq!((chart.left_out, chart.series[0].mean[1]), (4, Some(7.0)), "sd0, and three that are idle");
}

#[test]
fn what_was_drawn_before_is_drawn_on_however_idle() {
    let disks = |n: u64| (0..8).map(|number| disk(&format!("sd{number}"), n * number, 0)).collect::<Vec<_>>();
    let window = Window::new(vec![with_disks(0, disks(0)), with_disks(1, disks(1))]);
    let specs: Vec<_> = charts().filter(|chart| chart.id == "disk.requests").collect();
    let drawn = |kept: &[&str]| {
        let kept = kept.iter().map(|&name| name.to_owned()).collect();
        let kept = SeriesNames::from([("disk.requests".to_owned(), kept)]);
        let axes = ChartAxes::new(samples_of(&window, ChartTimes::Live), 1500, false);
        let builder = ChartBuilder::new(specs.clone(), axes.into());
        let chart = of_window(builder.also_drawing(kept), &window).pop().unwrap();
        let names = chart.series.iter().map(|series| (series.entity.clone(), series.mean[1])).collect::<Vec<_>>();
        (names, chart.left_out)
    };
    let (most, left_out) = drawn(&[]);
    let names: Vec<&str> = most.iter().map(|(name, _)| &**name).collect();
    assert_eq!((names, left_out), (vec!["sd7", "sd6", "sd5", "sd4", "sd3", "sd2"], 2));
    let (most, left_out) = drawn(&["sd0 reads", "sd7 reads", "gone reads"]);
    assert_eq!((most.len(), left_out), (7, 1), "{most:?}");
    assert_eq!(most.last(), Some(&("sd0".to_owned(), Some(0.0))));
}

#[test]
fn of_events_that_were_drawn_before_the_others_are_still_left_out() {
    let with = |second: u64| {
        let key = NetKey { name: "eth0".into(), ..NetKey::default() };
        let mut sample = sample(second);
        sample.net.interface = vec![Interface { rx_errors: 3.into(), tx_errors: 0.into(), ..Interface::new(key) }];
        sample
    };
    let window = Window::new(vec![with(0), with(1)]);
    let drawn = |kept: &[String]| {
        let specs = charts().filter(|chart| chart.id == "network.errors").collect();
        let kept = SeriesNames::from([("network.errors".to_owned(), kept.iter().cloned().collect())]);
        let axes = ChartAxes::new(samples_of(&window, ChartTimes::Live), 1500, false);
        let builder = ChartBuilder::new(specs, axes.into());
        let chart = of_window(builder.also_drawing(kept), &window).pop();
        chart.map(|chart| chart.series.iter().map(|series| (series.name.clone(), series.mean[1])).collect::<Vec<_>>())
    };
    assert_eq!(drawn(&[]), None);
    let name = "eth0 receive errors".to_owned();
    assert_eq!(drawn(std::slice::from_ref(&name)), Some(vec![(name, Some(0.0))]));
}

#[test]
fn the_modes_of_all_cpus_are_shares_of_their_time() {
    let cpus = |second: u64, busy: &[u64]| {
        let cpu = |(number, busy): (usize, &u64)| Cpu {
            user: (second * busy * 10 * MS).into(),
            system: 0.into(),
            idle: (second * (100 - busy) * 10 * MS).into(),
            ..Cpu::new(number as u32)
        };
        let mut sample = sample(second);
        sample.processor.cpu = busy.iter().enumerate().map(cpu).collect();
        sample
    };
    let samples = || (0..4).map(|second| cpus(second, &[100, 50])).collect::<Vec<_>>();
    let chart = made(samples(), "cpu.modes", 1500).unwrap();
    let names: Vec<&str> = chart.series.iter().map(|series| &*series.name).collect();
    assert_eq!(names, ["user", "system"]);
    assert_eq!(chart.series[0].mean, [None, Some(0.75), Some(0.75), Some(0.75)]);
    let chart = made(samples(), "cpu.busy", 1500).unwrap();
    let busy: Vec<_> = chart.series.iter().map(|series| (&*series.name, series.mean[1])).collect();
    assert_eq!(busy, [("cpu0", Some(1.0)), ("cpu1", Some(0.5))]);
}

#[test]
fn the_range_of_a_sum_is_that_of_the_sum_at_each_sample() {
    // Two CPUs take turns: the sum is always half busy, but neither CPU is.
    let samples = (0..=20).map(|second: u64| {
        let busy = |is_even: bool| (second + u64::from(is_even)) / 2 * SECOND;
        let cpu = |number: u32, user: u64| Cpu {
            user: user.into(),
            idle: (second * SECOND - user.min(second * SECOND)).into(),
            ..Cpu::new(number)
        };
        let mut sample = sample(second);
        sample.processor.cpu = vec![cpu(0, busy(true)), cpu(1, busy(false))];
        sample
    });
    let chart = made(samples.collect(), "cpu.modes", 3).unwrap();
    let user = one(&chart);
    assert_eq!(user.mean, [None, Some(0.5), Some(0.5)]);
    assert_eq!((&user.min, &user.max), (&None, &None), "the sum is the same at each sample");
}

fn process(pid: u32, command: &str, cpu_ms: u64) -> Process {
    let key = TaskKey { pid, tid: pid, start: pid.into() };
    let mut row = Process::new(key);
    row.command = Name::from(command).into();
    row.user = (cpu_ms * MS).into();
    row.system = 0.into();
    row
}

fn with_processes(second: u64, processes: Vec<Process>) -> Snapshot {
    let mut sample = sample(second);
    sample.task.process = processes;
    sample
}

#[test]
fn processes_of_one_name_are_added_up_over_the_time_observed() {
    let samples = vec![
        with_processes(0, vec![process(1, "init", 0), process(7, "cc", 0)]),
        with_processes(1, vec![process(1, "init", 0), process(7, "cc", 500), process(8, "cc", 10)]),
        with_processes(2, vec![process(1, "init", 0), process(8, "cc", 1010)]),
        with_processes(3, vec![process(1, "init", 100)]),
    ];
    let chart = made(samples, "process.cpu", 1500).unwrap();
    let series: Vec<_> = chart.series.iter().map(|series| (&*series.name, series.mean.clone())).collect();
    assert_eq!(
        series,
        [("cc", vec![None, Some(0.5), Some(1.0), Some(0.0)]), ("init", vec![None, Some(0.0), Some(0.0), Some(0.1)])]
    );
    assert_eq!(chart.left_out, 0);
}

#[test]
fn a_sum_over_long_intervals_is_per_second_observed() {
    // Ten seconds: one process for all of them, and one for the first five.
    let processes = |second: u64| {
        let one = process(1, "cc", second * 1000);
        let other = process(2, "cc", second * 1000);
        if second <= 5 { vec![one, other] } else { vec![one] }
    };
    let samples = (0..=20).map(|second| with_processes(second, processes(second))).collect();
    let chart = made(samples, "process.cpu", 3).unwrap();
    assert_eq!(one(&chart).mean, [None, Some(1.5), Some(1.0)]);
    assert_eq!(one(&chart).min, None, "of a sum of several it is not known");
}

#[test]
fn levels_that_are_read_rarely_last_until_the_next_reading() {
    let mount = |second: u64, available: Option<u64>| {
        let mut sample = sample(second);
        let row =
            |available: u64| Mount { size: 100_u64.into(), available: available.into(), ..Mount::new("/".into()) };
        sample.block.mount = available.map(row).into_iter().collect();
        sample
    };
    let samples = (0..=20).map(|second| {
        let available = match second {
            0 => Some(80),
            10 => Some(60),
            20 => Some(10),
            _ => None,
        };
        mount(second, available)
    });
    let chart = made(samples.collect(), "filesystem.used", 1500).unwrap();
    let used = &one(&chart).mean;
    assert_eq!(
        (used[0], used[1], used[10], used[11], used[20]),
        (Some(0.2), Some(0.4), Some(0.4), Some(0.9), Some(0.9))
    );
}

#[test]
fn a_file_system_is_drawn_once_by_its_shortest_mount_point() {
    let mount = |point: &str, number: Option<&'static str>, available: u64| Mount {
        number: number.map_or_else(Default::default, Into::into),
        size: 100_u64.into(),
        available: available.into(),
        ..Mount::new(point.into())
    };
    let with = |second: u64, mounts: Vec<Mount>| {
        let mut sample = sample(second);
        sample.block.mount = mounts;
        sample
    };
    let mounts = |available: u64| {
        vec![
            mount("/", Some("8:1"), available),
            mount("/run/netns", Some("0:24"), 90),
            mount("/run", Some("0:24"), 90),
            mount("/srv/bind", Some("8:1"), available),
            // Captures do not have the number.
            mount("/mnt", None, 30),
            mount("/opt", None, 30),
        ]
    };
    let later = [mounts(70), vec![mount("/x", Some("0:24"), 5)]].concat();
    let samples = vec![with(0, mounts(80)), with(1, mounts(70)), with(2, later)];
    let drawn = |samples| {
        let chart = made(samples, "filesystem.used", 1500).unwrap();
        chart.series.iter().map(|series| (series.name.clone(), series.mean[1])).collect::<Vec<_>>()
    };
    let named = |all: &[(&str, Option<f64>)]| all.iter().map(|(name, v)| ((*name).to_owned(), *v)).collect::<Vec<_>>();
    let always = [("/mnt", Some(0.7)), ("/opt", Some(0.7)), ("/", Some(0.3)), ("/run", Some(0.1))];
    // "/x" is shorter, but was not there before.
    assert_eq!(drawn(samples), named(&[&[("/x", None)][..], &always].concat()));
    // Another file system is mounted in place of an unmounted one: the two mounts are not always the same.
    let other = |second: u64| with(second, vec![mount("/a", Some("8:1"), 50), mount("/ab", Some("8:1"), 50)]);
    let exchanged = with(2, vec![mount("/a", Some("8:1"), 50), mount("/ab", Some("8:2"), 10)]);
    assert_eq!(drawn(vec![other(0), other(1), exchanged]), named(&[("/ab", Some(0.5)), ("/a", Some(0.5))]));
}

#[test]
fn what_is_used_needs_both_numbers() {
    let with = |second: u64, total: Option<u64>, free: Option<u64>| {
        let mut sample = sample(second);
        sample.memory.meminfo =
            vec![Meminfo { swap_total: total.into(), swap_free: free.into(), ..Meminfo::new(MachineKey) }];
        sample
    };
    let samples = vec![with(0, Some(100), Some(40)), with(1, Some(100), None), with(2, None, Some(7))];
    assert_eq!(one(&made(samples, "memory.swap", 1500).unwrap()).mean, [Some(60.0), None, None]);
}

#[test]
fn groups_within_groups_count_once() {
    let groups = |second: u64| {
        let mut sample = sample(second);
        let group =
            |path: &str, cpu: u64| Group { cpu_usage: (cpu * second * SECOND).into(), ..Group::new(path.into()) };
        sample.cgroup.group = vec![group("/", 9), group("/a", 5), group("/a/b", 2), group("/a/c", 3), group("/ab", 1)];
        sample
    };
    let chart = made(vec![groups(0), groups(1)], "cgroup.cpu", 1500).unwrap();
    let series: Vec<_> = chart.series.iter().map(|series| (&*series.name, series.mean[1])).collect();
    assert_eq!(series, [("/a/c", Some(3.0)), ("/a/b", Some(2.0)), ("/ab", Some(1.0))]);
}

#[test]
fn charts_of_events_that_did_not_happen_are_left_out() {
    let with = |second: u64, errors: u64| {
        let mut sample = sample(second);
        let row = Interface { rx_errors: errors.into(), tx_errors: 0.into(), ..Interface::new(Default::default()) };
        sample.net.interface = vec![row];
        sample
    };
    assert!(made(vec![with(0, 0), with(1, 0)], "network.errors", 1500).is_none());
    let chart = made(vec![with(0, 0), with(1, 3)], "network.errors", 1500).unwrap();
    assert_eq!(one(&chart).mean, [None, Some(3.0)], "and so are lines of those that did not");
    assert!(one(&chart).name.ends_with("receive errors"), "{}", one(&chart).name);
}

#[test]
fn network_throughput_is_in_bits() {
    let with = |second: u64| {
        let mut sample = sample(second);
        sample.net.interface =
            vec![Interface { rx_bytes: (second * 125).into(), ..Interface::new(Default::default()) }];
        sample
    };
    let chart = made(vec![with(0), with(1)], "network.throughput", 1500).unwrap();
    assert_eq!((chart.unit.as_str(), one(&chart).mean[1]), ("bit/s", Some(1000.0)));
}

#[test]
fn a_heat_map_counts_the_requests_of_each_interval() {
    let request = |second: u64, times: &[u64]| {
        let mut sample = sample(second);
        let key = OperationKey { device: "sda".into(), operation: "read".into() };
        let device_time = Histogram::from_values(times.iter().copied());
        sample.block.request = vec![Request { device_time, ..Request::new(key) }];
        sample
    };
    let samples =
        vec![request(0, &[5000]), request(1, &[5000, 1030, 1040, 1600]), request(2, &[5000, 1030, 1040, 1600])];
    let chart = made(samples, "disk.device_time", 1500).unwrap();
    assert_eq!(
        (chart.id.as_str(), chart.title.as_str()),
        ("disk.device_time@read on sda", "Time in the device: read on sda")
    );
    assert_eq!(chart.counts, [vec![], vec![2, 1], vec![0, 0]]);
    // 1024, 1536 and 2048 ns.
    assert_eq!(chart.buckets, [1.024e-6, 1.536e-6, 2.048e-6]);
}

/// Adds the readings of a family: one for each run of consecutive samples with the same values of an entity.
fn add_runs<F: Family>(builder: &mut ChartBuilder, window: &Window) {
    let selections = builder.selections();
    for (number, selection) in selections.iter().enumerate().filter(|(_, of)| of.family == F::INFO.name) {
        let mut runs: Vec<(Vec<KeyPart>, usize, usize, Vec<Value>)> = Vec::new();
        for (sample, snapshot) in window.snapshots().iter().enumerate().filter(|(sample, _)| selection.wants(*sample)) {
            for row in F::rows(snapshot) {
                let mut key = Vec::new();
                row.key().take_apart(&mut key);
                let values: Vec<Value> = selection.metrics.iter().filter_map(|column| row.value(*column)).collect();
                let same = |run: &&mut (_, _, usize, _)| run.0 == key && run.2 + 1 == sample && run.3 == values;
                match runs.iter_mut().find(same) {
                    Some(run) => run.2 = sample,
                    None => runs.push((key, sample, sample, values)),
                }
            }
        }
        assert!(runs.iter().any(|(_, sample, until, _)| sample < until), "{}", F::INFO.name);
        for (key, sample, until, values) in &runs {
            builder.add(number, ColumnReading { sample: *sample, until: *until, key, values });
        }
    }
}

#[test]
fn readings_that_stay_the_same_count_as_often_as_they_were_read() {
    // Eleven seconds, and eleven more a minute later. A disk reads in two of them, a file system fills in one, and one of two
    // CPUs is busy.
    let with = |second: u64| {
        let reads = [4, 9, 12][usize::from(second >= 3) + usize::from(second >= 75)];
        let mut sample = with_disks(second, vec![disk("sda", reads, 2 * reads), disk("sdb", second, second)]);
        sample.block.mount = vec![Mount {
            size: 100.0.into(),
            available: if second < 5 { 60.0 } else { 20.0 }.into(),
            ..Mount::new("/srv".into())
        }];
        let busy = second.min(6) * SECOND;
        sample.processor.cpu = vec![
            Cpu { user: busy.into(), idle: (second * SECOND - busy).into(), ..Cpu::new(0) },
            Cpu { user: 7.into(), idle: 0.into(), ..Cpu::new(1) },
        ];
        sample
    };
    let window = Window::new((0..=10).chain(70..=80).map(with).collect());
    for most in [1500, 4] {
        let specs: Vec<_> = charts().collect();
        let one_by_one = charts_of_window(&window, specs.clone(), most, ChartTimes::Live);
        let axes = ChartAxes::new(samples_of(&window, ChartTimes::Live), most, false);
        let mut builder = ChartBuilder::new(specs, axes.into());
        add_runs::<Disk>(&mut builder, &window);
        add_runs::<Mount>(&mut builder, &window);
        add_runs::<Cpu>(&mut builder, &window);
        let in_runs = builder.finish();
        assert!(one_by_one.len() >= 5, "{}", one_by_one.len());
        for (a, b) in one_by_one.iter().zip(&in_runs) {
            assert_eq!(a, b, "{} {most}", a.id);
        }
        assert_eq!(one_by_one.len(), in_runs.len());
    }
}

#[test]
fn a_quantity_is_the_same_in_a_chart_as_over_a_step_of_a_window() {
    use crate::table::Amount;
    let mut compared = 0;
    for seed in 0..300 {
        let window = random_window::<Disk>(&"sda".into(), &mut Random::new(seed));
        let change = window.change::<Disk>().unwrap();
        for spec in charts() {
            for line in
                spec.sources.iter().filter(|source| source.family.name == "disk").flat_map(|source| source.lines)
            {
                let Amount::Of(quantity) = line.amount else { continue };
                let drawn = charts_of_window(&window, vec![spec], 1500, ChartTimes::Captured).pop();
                let name =
                    ["sda", line.label].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
                let series = drawn.and_then(|chart| chart.series.into_iter().find(|series| series.name == name));
                let mut known: Vec<f64> = Quantity::<Disk>::from_declaration(*quantity)
                    .steps(&change)
                    .into_iter()
                    .filter_map(|(_, value)| value)
                    .collect();
                let mut shown: Vec<f64> =
                    series.iter().flat_map(|series| series.mean.iter().flatten().copied()).collect();
                // Charts leave out idle intervals.
                known.retain(|value| *value != 0.0);
                shown.retain(|value| *value != 0.0);
                let is_same = |(a, b): (&f64, &f64)| (a / b - 1.0).abs() < 1e-4;
                assert!(
                    known.len() == shown.len() && known.iter().zip(&shown).all(is_same),
                    "seed {seed}, {} {}: {known:?} and {shown:?}",
                    spec.id,
                    line.label
                );
                compared += known.len();
            }
        }
    }
    assert!(compared > 1000, "{compared}");
}
