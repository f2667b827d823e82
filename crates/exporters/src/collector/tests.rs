use super::*;
use crate::text;
use proptest::prelude::*;
use whyslow_model::catalogue::{Cpu, Disk, Group, Interface, Mount, Process, Request, System};
use whyslow_model::key::{MachineKey, NetKey, OperationKey, TaskKey};

const SECOND: u64 = 1_000_000_000;

fn selection(words: &[&str], most_series: usize) -> Selection {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    Selection::parse(&words, None, most_series).unwrap()
}

fn collector(words: &[&str]) -> Collector {
    Collector::new(selection(words, 200))
}

/// Creates a sample at this many seconds since boot.
fn at(second: u64) -> Snapshot {
    Snapshot {
        boot_ns: second * SECOND,
        wall_ns: 1_795_279_400_000_000_000 + (second * SECOND) as i64,
        ..Snapshot::default()
    }
}

/// Returns the lines of the exposition, without comments.
fn lines(collector: &mut Collector) -> Vec<String> {
    let text = text::exposition(&collector.collect(0).0);
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn disk(name: &str, busy_s: u64) -> Disk {
    Disk {
        reads: (busy_s * 100).into(),
        busy_time: (busy_s * SECOND).into(),
        weighted_time: (busy_s * SECOND).into(),
        identity: "1".into(),
        ..Disk::new(name.into())
    }
}

fn with_disks(second: u64, disks: &[(&str, u64)]) -> Snapshot {
    let mut sample = at(second);
    sample.block.disk = disks.iter().map(|(name, busy_s)| disk(name, *busy_s)).collect();
    sample.sort();
    sample
}

#[test]
fn counters_have_the_kernels_value_in_base_units() {
    let mut collector = collector(&["disk.reads", "disk.busy_time"]);
    collector.add(with_disks(100, &[("sda", 7)]));
    let expected =
        [r#"whyslow_disk_reads_total{device="sda"} 700"#, r#"whyslow_disk_busy_time_seconds_total{device="sda"} 7"#];
    assert_eq!(lines(&mut collector), expected);
}

#[test]
fn control_groups_whose_cpu_time_cannot_be_read_are_ranked_by_what_can() {
    let group = |path: &str, faults: Option<u64>, memory: u64| Group {
        faults: faults.into(),
        memory: memory.into(),
        ..Group::new(path.into())
    };
    let sample = |second: u64, groups: Vec<Group>| {
        let mut sample = at(second);
        sample.cgroup.group = groups;
        sample
    };
    let words: Vec<String> = vec!["group.memory".into()];
    let chosen = |samples: Vec<Snapshot>| {
        let mut collector = Collector::new(Selection::parse(&words, Some(1), 200).unwrap());
        let lines = samples.into_iter().map(|sample| {
            collector.add(sample);
            lines(&mut collector)
        });
        lines.last().unwrap().into_iter().find(|line| !line.contains("other")).unwrap()
    };
    let groups = |faults: [Option<u64>; 3]| {
        let [a, b, c] = faults;
        vec![group("/a", a, 5), group("/b", b, 9), group("/c", c, 7)]
    };
    assert!(chosen(vec![sample(10, groups([None; 3]))]).contains("\"/b\""), "by memory");
    let faults = groups([Some(10), Some(20), Some(30)]);
    assert!(chosen(vec![sample(10, faults.clone())]).contains("\"/c\""), "by faults");
    // Faults are known from the second sample on: the ranking by memory is discarded.
    assert!(chosen(vec![sample(10, groups([None; 3])), sample(20, faults)]).contains("\"/a\""), "none has grown yet");
}

#[test]
fn a_counter_of_32_bits_goes_on_where_it_wraps() {
    // Milliseconds in 32 bits: the largest value is 4294967.296 s.
    let mut collector = collector(&["disk.busy_time"]);
    collector.add(with_disks(100, &[("sda", 4_294_960)]));
    lines(&mut collector);
    // 7.296 s up to the limit and 3 s beyond it.
    collector.add(with_disks(110, &[("sda", 3)]));
    assert_eq!(lines(&mut collector), [r#"whyslow_disk_busy_time_seconds_total{device="sda"} 4294970.296"#]);
}

#[test]
fn a_counter_that_was_reset_begins_anew() {
    let mut collector = collector(&["disk.reads"]);
    collector.add(with_disks(100, &[("sda", 7)]));
    lines(&mut collector);
    let mut other = with_disks(110, &[("sda", 9)]);
    other.block.disk[0].identity = "2".into();
    collector.add(other);
    assert_eq!(lines(&mut collector), [r#"whyslow_disk_reads_total{device="sda"} 900"#]);
    collector.add(with_disks(120, &[("sda", 2)]));
    assert_eq!(lines(&mut collector), [r#"whyslow_disk_reads_total{device="sda"} 200"#]);
}

#[test]
fn the_busiest_disks_have_series_and_a_number_says_how_many_have_none() {
    let mut collector = collector(&["disk.reads", "disk.busy_time"]);
    let disks = [("sda", 1), ("sdb", 9), ("sdc", 2), ("sdd", 8), ("sde", 3), ("sdf", 0)];
    collector.add(with_disks(100, &disks));
    let (families, omitted) = collector.collect(0);
    let devices: Vec<&str> = families[0].series.iter().map(|series| series.labels[0].value.as_str()).collect();
    // sda is the least of five; sdf was never used.
    assert_eq!((devices, omitted), (vec!["sdb", "sdd", "sde", "sdc"], 2));
}

#[test]
fn partitions_repeat_their_disk_and_have_no_series() {
    let mut collector = collector(&["disk.reads"]);
    let mut sample = with_disks(100, &[("sda", 7)]);
    sample.block.disk.push(Disk { identity: None::<&str>.into(), ..disk("sda1", 7) });
    collector.add(sample);
    assert_eq!(lines(&mut collector), [r#"whyslow_disk_reads_total{device="sda"} 700"#]);
}

#[test]
fn the_number_of_series_has_a_limit() {
    let mut collector = Collector::new(selection(&["system", "disk.reads", "disk.busy_time"], 5));
    let mut sample = with_disks(100, &[("sda", 7), ("sdb", 6)]);
    sample.processor.system = vec![System { forks: 1.into(), running: 2.0.into(), ..System::new(MachineKey) }];
    collector.add(sample);
    let (families, omitted) = collector.collect(0);
    let count: usize = families.iter().map(MetricFamily::series_count).sum();
    assert_eq!((count, omitted), (4, 2));
    let (families, omitted) = collector.collect(2);
    let count: usize = families.iter().map(MetricFamily::series_count).sum();
    assert_eq!((count, omitted), (2, 4));
}

fn with_cpus(second: u64, user_s: &[u64]) -> Snapshot {
    let mut sample = at(second);
    let cpu = |(number, user_s): (usize, &u64)| Cpu { user: (user_s * SECOND).into(), ..Cpu::new(number as u32) };
    sample.processor.cpu = user_s.iter().enumerate().map(cpu).collect();
    sample
}

#[test]
fn cpus_are_added_up_and_one_that_goes_offline_takes_nothing_back() {
    let mut collector = collector(&["cpu.user"]);
    collector.add(with_cpus(100, &[30, 50]));
    assert_eq!(lines(&mut collector), ["whyslow_cpu_user_seconds_total 80"]);
    collector.add(with_cpus(110, &[34, 55]));
    assert_eq!(lines(&mut collector), ["whyslow_cpu_user_seconds_total 89"]);
    collector.add(with_cpus(120, &[36]));
    assert_eq!(lines(&mut collector), ["whyslow_cpu_user_seconds_total 91"]);
    // The time that it counted in between is unknown.
    collector.add(with_cpus(130, &[37, 60]));
    assert_eq!(lines(&mut collector), ["whyslow_cpu_user_seconds_total 92"]);
}

fn process(pid: u32, start_s: u64, name: &str, user_s: u64) -> Process {
    let key = TaskKey { pid, tid: pid, start: start_s * 100 };
    let mut process = Process::new(key);
    process.put(column("command"), Value::State(name.into()));
    process.put(column("user"), Value::Counter((user_s * SECOND).into()));
    process.put(column("rss_anon"), Value::Gauge(1000.0.into()));
    process.put(column("kernel_thread"), Value::Gauge(if name.starts_with('k') { 1.0 } else { 0.0 }.into()));
    process
}

fn column(name: &str) -> usize {
    Process::INFO.metrics.iter().position(|metric| metric.name == name).unwrap()
}

fn with_processes(second: u64, processes: Vec<Process>) -> Snapshot {
    let mut sample = at(second);
    sample.task.process = processes;
    sample.sort();
    sample
}

#[test]
fn processes_are_added_up_by_name_and_the_rest_together() {
    let mut collector = collector(&["process.user", "process.rss_anon"]);
    let names = ["a", "b", "c", "d", "e"];
    let all = |second: u64, user_s: u64| {
        let processes = names.iter().zip(1..).map(|(name, pid)| process(pid, 1, name, user_s * u64::from(pid)));
        with_processes(second, processes.collect())
    };
    collector.add(all(100, 10));
    lines(&mut collector);
    let mut second = all(110, 11);
    // Another process of that name, started since: all of its time is new. A process that ended subtracts nothing.
    second.task.process.push(process(99, 105, "e", 4));
    second.sort();
    collector.add(second);
    assert_eq!(
        lines(&mut collector),
        [
            r#"whyslow_process_user_seconds_total{command="e"} 9"#,
            r#"whyslow_process_user_seconds_total{command="d"} 4"#,
            r#"whyslow_process_user_seconds_total{command="c"} 3"#,
            r#"whyslow_process_user_seconds_total{command="other"} 3"#,
            r#"whyslow_process_rss_anon_bytes{command="e"} 2000"#,
            r#"whyslow_process_rss_anon_bytes{command="d"} 1000"#,
            r#"whyslow_process_rss_anon_bytes{command="c"} 1000"#,
            r#"whyslow_process_rss_anon_bytes{command="other"} 2000"#,
        ]
    );
    collector.add(all(120, 12));
    let after = lines(&mut collector);
    assert_eq!(after[0], r#"whyslow_process_user_seconds_total{command="e"} 14"#);
    assert_eq!(after[3], r#"whyslow_process_user_seconds_total{command="other"} 6"#);
}

#[test]
fn threads_of_the_kernel_have_one_name() {
    let mut collector = collector(&["process.user"]);
    collector.add(with_processes(100, vec![process(2, 1, "kworker/0:1", 1), process(3, 1, "kswapd0", 2)]));
    lines(&mut collector);
    collector.add(with_processes(110, vec![process(2, 1, "kworker/0:1", 2), process(3, 1, "kswapd0", 4)]));
    assert_eq!(lines(&mut collector)[0], r#"whyslow_process_user_seconds_total{command="kernel threads"} 3"#);
}

#[test]
fn what_could_not_be_read_of_any_entity_has_no_sum() {
    let mut collector = collector(&["group.cpu_usage", "group.memory"]);
    let mut sample = at(100);
    let group = |n: u32| Group { memory: 5.0.into(), ..Group::new(format!("/{n}.scope").into()) };
    sample.cgroup.group = (0..6).map(group).collect();
    collector.add(sample);
    let lines = lines(&mut collector);
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert_eq!(lines[4], r#"whyslow_group_memory_bytes{path="other"} 10"#);
}

#[test]
fn control_groups_with_groups_below_them_have_no_series() {
    let mut collector = collector(&["group.cpu_usage"]);
    let mut sample = at(100);
    let group = |path: &str| Group { cpu_usage: SECOND.into(), ..Group::new(path.into()) };
    sample.cgroup.group = ["/", "/a.slice", "/a.slice/x.service", "/a.slice-b", "/init.scope"].map(group).to_vec();
    sample.sort();
    collector.add(sample);
    let series = lines(&mut collector);
    let paths: Vec<&str> = series.iter().filter_map(|line| line.split('"').nth(1)).collect();
    assert_eq!(paths, ["/a.slice-b", "/a.slice/x.service", "/init.scope", "other"]);
}

#[test]
fn a_file_system_that_is_mounted_twice_has_one_series_and_an_overlay_none() {
    let mut collector = collector(&["mount.size"]);
    let mut sample = at(100);
    let mount = |(point, number, kind): (&str, &str, &str)| Mount {
        number: number.into(),
        kind: kind.into(),
        size: 1e9.into(),
        ..Mount::new(point.into())
    };
    let mounts =
        [("/", "8:1", "ext4"), ("/srv/bind", "8:2", "xfs"), ("/srv", "8:2", "xfs"), ("/merged", "0:50", "overlay")];
    sample.block.mount = mounts.map(mount).to_vec();
    sample.sort();
    collector.add(sample);
    let expected =
        [r#"whyslow_mount_size_bytes{point="/"} 1000000000"#, r#"whyslow_mount_size_bytes{point="/srv"} 1000000000"#];
    assert_eq!(lines(&mut collector), expected);
}

#[test]
fn interfaces_of_the_own_namespace_come_first() {
    let mut collector = collector(&["interface.rx_bytes"]);
    let mut sample = at(100);
    let interface = |(ns, name, bytes): (&str, &str, u64)| {
        let key = NetKey { ns: ns.into(), name: name.into() };
        Interface { rx_bytes: bytes.into(), ..Interface::new(key) }
    };
    let interfaces = [("", "eth0", 10), ("", "lo", 5), ("web", "eth0", 1000), ("db", "eth0", 900)];
    sample.net.interface = interfaces.map(interface).to_vec();
    sample.sort();
    collector.add(sample);
    assert_eq!(
        lines(&mut collector),
        [
            r#"whyslow_interface_rx_bytes_total{interface="eth0"} 10"#,
            r#"whyslow_interface_rx_bytes_total{interface="lo"} 5"#,
            r#"whyslow_interface_rx_bytes_total{ns="web",interface="eth0"} 1000"#,
        ]
    );
}

#[test]
fn what_is_read_once_a_minute_stays_until_it_should_have_been_read_again() {
    let mut collector = collector(&["mount.size"]);
    let mut sample = at(100);
    sample.block.mount = vec![Mount { size: 1e9.into(), ..Mount::new("/".into()) }];
    collector.add(sample);
    collector.add(at(170));
    assert_eq!(lines(&mut collector).len(), 1);
    collector.add(at(176));
    assert_eq!(lines(&mut collector), <[&str; 0]>::default());
}

#[test]
fn a_histogram_is_cut_where_its_own_buckets_end() {
    let mut collector = collector(&["request.size"]);
    let mut sample = at(100);
    let key = OperationKey { device: "sda".into(), operation: "read".into() };
    sample.block.request =
        vec![Request { size: Histogram::from_values([511, 512, 4096, 4096, 1 << 30]), ..Request::new(key) }];
    collector.add(sample);
    let lines = lines(&mut collector);
    let value = |bound: &str| {
        let start = format!(r#"whyslow_request_size_bytes_bucket{{device="sda",operation="read",le="{bound}"}} "#);
        lines.iter().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
    };
    assert_eq!(value("511").as_deref(), Some("1"));
    assert_eq!(value("2047").as_deref(), Some("2"));
    assert_eq!(value("8191").as_deref(), Some("4"));
    assert_eq!(value("8388607").as_deref(), Some("4"));
    assert_eq!(value("+Inf").as_deref(), Some("5"));
    assert_eq!(lines.last().unwrap(), r#"whyslow_request_size_bytes_count{device="sda",operation="read"} 5"#);
}

#[test]
fn the_boot_time_does_not_jitter() {
    let mut collector = collector(&["system"]);
    let mut sample = at(100);
    collector.add(sample.clone());
    let boot = collector.boot_wall_ns();
    assert_eq!(boot, 1_795_279_400_000_000_000);
    (sample.boot_ns, sample.wall_ns) = (sample.boot_ns + SECOND, sample.wall_ns + SECOND as i64 + 1234);
    collector.add(sample.clone());
    assert_eq!(collector.boot_wall_ns(), boot);
    (sample.boot_ns, sample.wall_ns) = (sample.boot_ns + SECOND, sample.wall_ns + 3601 * SECOND as i64);
    collector.add(sample);
    assert_eq!(collector.boot_wall_ns(), boot + 3600 * SECOND + 1234);
}

proptest! {
    /// Whatever a machine has, and whatever its things are called: the bound holds, and no two series are the same.
    #[test]
    fn no_machine_has_more_series_than_asked_for(
        names in proptest::collection::btree_set("[\\PC\n\"\\\\/]{0,12}", 0..40),
        most in 0_usize..60,
        top in 0_usize..50,
        steps in 1_u64..4,
    ) {
        let words = ["default".to_owned()];
        let mut collector = Collector::new(Selection::parse(&words, Some(top), most).unwrap());
        for step in 1..=steps {
            let mut sample = at(step * 10);
            for (n, name) in names.iter().enumerate() {
                let count = step * n as u64 % 17;
                sample.block.disk.push(disk(name, count));
                sample.block.mount.push(Mount { size: (count as f64).into(), ..Mount::new(name.as_str().into()) });
                let ns = if n % 2 == 0 { "" } else { "ns" };
                let key = NetKey { ns: ns.into(), name: name.as_str().into() };
                sample.net.interface.push(Interface { rx_bytes: count.into(), ..Interface::new(key) });
                sample.cgroup.group.push(Group { cpu_usage: count.into(), memory: 1.0.into(), ..Group::new(name.as_str().into()) });
                sample.task.process.push(process(n as u32 + 1, step * 10 - 5, name, count));
            }
            sample.sort();
            collector.add(sample);
            let (families, _) = collector.collect(0);
            let count: usize = families.iter().map(MetricFamily::series_count).sum();
            prop_assert!(count <= most, "{count} of {most}");
            let mut seen = BTreeSet::new();
            for family in &families {
                for series in &family.series {
                    prop_assert!(series.labels.iter().all(|label| !label.value.is_empty() && label.name != "pid"));
                    prop_assert!(seen.insert((family.name.clone(), series.labels.clone())), "{} twice", family.name);
                }
            }
        }
    }
}
