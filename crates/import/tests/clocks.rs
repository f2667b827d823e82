//! What files say whose clock was set, or whose times are of several zones.

use whyslow_import::{Input, read};
use whyslow_model::catalogue::{CpuMean, LogLine, Meminfo, Process};
use whyslow_model::window::Window;

fn window_of(text: &str) -> Window {
    let input = Input { name: "x".into(), reader: Box::new(text.as_bytes()) };
    let mut captures = read(vec![input], true).expect("the text can be read");
    assert_eq!(captures.len(), 1, "{:?}", captures.iter().map(whyslow_import::Capture::label).collect::<Vec<_>>());
    captures.remove(0).window
}

fn notes(window: &Window) -> String {
    let sources = window.snapshots().iter().flat_map(|snapshot| &snapshot.sources);
    sources.map(|source| format!("{source:?}\n")).collect()
}

/// The share of idle time in each step, in percent, and its seconds.
fn idle(window: &Window) -> Vec<(f64, f64)> {
    let change = window.change::<CpuMean>().unwrap();
    let steps = change.steps(|cpu| cpu.idle);
    steps.map(|(seconds, grown)| (seconds, (grown.unwrap() / seconds / 1e7).round())).collect()
}

const VMSTAT: &str = "\
root@ntp1:~# vmstat -t 1 6
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC
 1  0      0 900000  10000 800000    0    0     5    10  100  200  1  0 99  0  0 2026-11-01 01:59:58
 0  0      0 900000  10000 800000    0    0     0     0  100  200  1  0 99  0  0 2026-11-01 01:59:59
 9  0      0 900000  10000 800000    0    0     0     0  100  200 90 10  0  0  0 2026-11-01 01:00:00
 9  0      0 900000  10000 800000    0    0     0     0  100  200 90 10  0  0  0 2026-11-01 01:00:01
 9  0      0 900000  10000 800000    0    0     0     0  100  200 90 10  0  0  0 2026-11-01 01:00:02
 9  0      0 900000  10000 800000    0    0     0     0  100  200 90 10  0  0  0 2026-11-01 01:00:03
";

/// The printed time of each reading, in seconds since 1970.
fn printed(window: &Window) -> Vec<i64> {
    window.snapshots().iter().map(|snapshot| snapshot.wall_ns / 1_000_000_000).collect()
}

#[test]
fn times_are_said_as_they_are_printed_however_the_clock_was_set() {
    let window = window_of(VMSTAT);
    let before = 1_793_498_398;
    let after = before - 3598;
    assert_eq!(printed(&window), [before, before + 1, after, after + 1, after + 2, after + 3]);
    assert_eq!(window.seconds(), 5.0);
}

#[test]
fn vmstat_goes_on_when_the_clock_is_set_back() {
    let window = window_of(VMSTAT);
    assert_eq!(idle(&window), [(1.0, 99.0), (1.0, 0.0), (1.0, 0.0), (1.0, 0.0), (1.0, 0.0)]);
    assert!(notes(&window).contains("the clock was set back by 1 h at line 6"), "{}", notes(&window));
}

const SAR: &str = "Linux 6.1.0 (db1) 	03/29/2026 	_x86_64_	(2 CPU)

HEAD0        CPU     %user     %nice   %system   %iowait    %steal     %idle
TIME1        all     10.00      0.00      0.00      0.00      0.00     90.00
TIME2        all     20.00      0.00      0.00      0.00      0.00     80.00
TIME3        all     30.00      0.00      0.00      0.00      0.00     70.00
TIME4        all     40.00      0.00      0.00      0.00      0.00     60.00
Average:     all     25.00      0.00      0.00      0.00      0.00     75.00

HEAD0    kbmemfree   kbavail kbmemused  %memused kbbuffers  kbcached  kbcommit   %commit  kbactive   kbinact   kbdirty
TIME1       100000    100000    900000     90.00         0         0         0      0.00         0         0         0
TIME2       200000    100000    900000     90.00         0         0         0      0.00         0         0         0
TIME3       300000    100000    900000     90.00         0         0         0      0.00         0         0         0
TIME4       400000    100000    900000     90.00         0         0         0      0.00         0         0         0
";

fn sar(times: [&str; 5]) -> Window {
    let mut text = SAR.to_owned();
    for (name, time) in ["HEAD0", "TIME1", "TIME2", "TIME3", "TIME4"].into_iter().zip(times) {
        text = text.replace(name, time);
    }
    window_of(&text)
}

#[test]
fn sar_goes_on_when_daylight_saving_time_ends_or_begins() {
    let expected = [(600.0, 90.0), (600.0, 80.0), (600.0, 70.0), (600.0, 60.0)];
    let even = ["01:30:01", "01:40:01", "01:50:01", "02:00:01", "02:10:01"];
    let ends = ["02:30:01", "02:40:01", "02:50:01", "02:00:01", "02:10:01"];
    let begins = ["01:30:01", "01:40:01", "01:50:01", "03:00:01", "03:10:01"];
    let midnight = ["23:30:01", "23:40:01", "23:50:01", "00:00:01", "00:10:01"];
    let of_half_days = ["11:40:01 AM", "11:50:01 AM", "12:00:01 PM", "12:10:01 PM", "12:20:01 PM"];
    for (times, note) in
        [(even, ""), (ends, "back by 1 h"), (begins, "forward by 1 h"), (midnight, ""), (of_half_days, "")]
    {
        let window = sar(times);
        assert_eq!(idle(&window), expected, "{times:?}");
        let free: Vec<f64> = window.change::<Meminfo>().unwrap().readings(|memory| memory.mem_free).collect();
        assert_eq!(free.len(), 4, "{times:?}");
        let said = notes(&window);
        assert!(if note.is_empty() { !said.contains("clock") } else { said.contains(note) }, "{times:?}: {said}");
        assert_eq!(said.matches("the clock was set").count(), usize::from(!note.is_empty()), "it is said once: {said}");
    }
}

#[test]
fn rows_after_a_restart_are_kept_without_a_header() {
    let text = SAR.replace("TIME3 ", "00:25:00  LINUX RESTART	(2 CPU)\nTIME3 ");
    let mut text = text.split("Average").next().unwrap().to_owned();
    for (name, time) in [
        ("HEAD0", "00:00:01"),
        ("TIME1", "00:10:01"),
        ("TIME2", "00:20:01"),
        ("TIME3", "00:40:01"),
        ("TIME4", "00:50:01"),
    ] {
        text = text.replace(name, time);
    }
    let window = window_of(&text);
    let change = window.change::<CpuMean>().unwrap();
    let steps: Vec<_> =
        change.steps(|cpu| cpu.idle).map(|(seconds, grown)| (seconds, grown.map(|g| (g / 1e9).round()))).collect();
    let shares: Vec<_> =
        steps.iter().filter_map(|(seconds, grown)| Some((grown.as_ref()? / seconds * 100.0).round())).collect();
    assert_eq!(shares, [90.0, 80.0, 70.0, 60.0], "{steps:?}");
    assert!(steps.iter().any(|(_, grown)| grown.is_none()), "nothing is known across it: {steps:?}");
    assert!(notes(&window).contains("restarted"));
}

fn free(used: u32) -> String {
    format!(
        "             total       used       free     shared    buffers     cached\nMem:        507280     {used}      23948          0       4312     181132\n"
    )
}

fn memory_times(dates: &[&str]) -> (Vec<f64>, String) {
    let text: String = dates.iter().zip(1..).map(|(date, at)| format!("{date}\n{}", free(400_000 + at))).collect();
    let window = window_of(&text);
    let first = window.snapshots()[0].boot_ns;
    (window.snapshots().iter().map(|snapshot| (snapshot.boot_ns - first) as f64 / 1e9).collect(), notes(&window))
}

#[test]
fn a_loop_that_prints_the_time_goes_on_when_the_clock_is_set_back() {
    let local = [
        "2026-11-01 01:59:50",
        "2026-11-01 01:59:55",
        "2026-11-01 02:00:00",
        "2026-11-01 01:00:05",
        "2026-11-01 01:00:10",
    ];
    let (times, said) = memory_times(&local);
    assert_eq!(times, [0.0, 5.0, 10.0, 15.0, 20.0]);
    assert!(said.contains("set back by 1 h"), "{said}");
    let zoned = ["Sun Nov  1 01:59:55 EDT 2026", "Sun Nov  1 01:00:00 EST 2026", "Sun Nov  1 01:00:05 EST 2026"];
    assert_eq!(memory_times(&zoned), (vec![0.0, 5.0, 10.0], String::new()));
    assert_eq!(memory_times(&["23:59:50", "23:59:55", "00:00:00", "00:00:05"]).0, [0.0, 5.0, 10.0, 15.0]);
    let leap = ["2028-02-28T23:59:55Z", "2028-02-29T00:00:05Z", "2028-03-01T00:00:05Z"];
    assert_eq!(memory_times(&leap).0, [0.0, 10.0, 86_410.0]);
    let since_1970: Vec<String> = (0..3).map(|at| (1_795_514_400 + 7 * at).to_string()).collect();
    assert_eq!(memory_times(&since_1970.iter().map(String::as_str).collect::<Vec<_>>()).0, [0.0, 7.0, 14.0]);
}

#[test]
fn times_of_known_zones_are_put_together() {
    let utc = "Tue Nov 24 10:00:00 UTC 2026\n";
    let text = format!("{utc}{}Tue Nov 24 11:00:10 CET 2026\n{}", free(1), free(2));
    let window = window_of(&text);
    assert_eq!((window.seconds(), window.last().unwrap().wall_ns), (10.0, 1_795_514_410_000_000_000));
    assert_eq!(notes(&window), "");
    let mixed = format!("{utc}{}Tue Nov 24 15:30:10 IST 2026\n{}", free(1), free(2));
    let said = notes(&window_of(&mixed));
    assert!(said.contains("IST"), "{said}");
    let alone = format!("Tue Nov 24 15:30:00 IST 2026\n{}Tue Nov 24 15:30:10 IST 2026\n{}", free(1), free(2));
    let window = window_of(&alone);
    assert_eq!((window.seconds(), notes(&window)), (10.0, String::new()));
}

#[test]
fn processes_of_a_container_are_not_those_of_the_host() {
    let row = |name: &str| {
        format!(
            "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n\
             root           7  0.5  0.1  10000  2000 ?        Ss   10:00   0:01 {name}\n"
        )
    };
    let text =
        format!("root@web1:~# ps aux\n{}root@web1:~# docker exec api ps aux\n{}", row("kthreadd"), row("gunicorn"));
    let input = Input { name: "x".into(), reader: Box::new(text.as_bytes()) };
    let captures = read(vec![input], true).unwrap();
    let names: Vec<Vec<String>> = captures
        .iter()
        .map(|capture| {
            let processes = capture.window.newest::<Process>();
            processes.values().filter_map(|process| process.command.get().map(str::to_owned)).collect()
        })
        .collect();
    assert_eq!(names, [["kthreadd"], ["gunicorn"]]);
}

#[test]
fn a_log_of_several_machines_is_one_log_for_each() {
    let text = "\
Nov 29 10:00:00 localhost kernel: [    1.000000] Linux version 6.1.0-18-amd64
Nov 29 10:00:01 web1 kernel: [12345.678901] blk_update_request: critical medium error, dev sda, sector 12345678
Nov 29 10:00:07 db2.example.org kernel: [99345.178901] Out of memory: Killed process 4242 (mysqld) total-vm:9000000kB, anon-rss:7000000kB, file-rss:0kB
Nov 29 10:00:08 db2.example.org last message repeated 2 times
Nov 29 10:00:09 web1.example.org kernel: [12353.678904] blk_update_request: critical medium error, dev sda, sector 12345679
Nov 29 10:01:07 db2 kernel: [99405.178901] blk_update_request: I/O error, dev sdb, sector 99
";
    let input = Input { name: "x".into(), reader: Box::new(text.as_bytes()) };
    let captures = read(vec![input], true).expect("the text can be read");
    let lines: Vec<(String, Vec<String>)> = captures
        .iter()
        .map(|capture| {
            let host = capture.host.clone().unwrap_or_default();
            let lines = capture.window.newest::<LogLine>().values().map(|l| l.text.get().unwrap().to_owned()).collect();
            (host, lines)
        })
        .collect();
    let of =
        |host: &str| lines.iter().find(|(own, _)| own == host).map(|(_, lines)| lines.as_slice()).unwrap_or_default();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        of("web1").len() >= 2 && of("web1").iter().all(|line| !line.contains("Out of memory") && !line.contains("sdb"))
    );
    assert!(of("db2.example.org").len() == 2 && of("db2.example.org").iter().all(|line| !line.contains("sda")));
}
