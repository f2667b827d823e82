//! Tests that a problem in a part of a capture is found in that part, with its numbers and its time, and that nothing
//! is reported that only the mean suggests.

mod captured;

use captured::{first, keys};
use std::fmt::Write;
use std::sync::LazyLock;
use whyslow_diagnose::{RuleBook, VirtualMachines, diagnose, merge_diagnoses};
use whyslow_documents::diagnosis::{Confidence, Diagnosis, During, Origin, Verdict};
use whyslow_import::{Capture, Input};

static RULES: LazyLock<RuleBook> = LazyLock::new(RuleBook::built_in);

fn judged(text: &str) -> Diagnosis {
    let input = Input { name: "capture.txt".into(), reader: Box::new(std::io::Cursor::new(text.as_bytes().to_vec())) };
    let captures = whyslow_import::read(vec![input], true).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    let of = |c: &Capture| (c.label(), diagnose(&c.window, Origin::Import, &RULES));
    merge_diagnoses(captures.iter().map(of).collect(), VirtualMachines::default(), &RULES).expect("a diagnosis")
}

/// The first interval, the last one, and the number of intervals.
type Intervals = (usize, usize, usize);

/// Returns the intervals in which the first finding holds.
fn intervals(d: &Diagnosis) -> Option<Intervals> {
    let During { first_interval, last_interval, of_intervals, .. } = d.findings.first()?.during.clone()?;
    Some((first_interval, last_interval, of_intervals))
}

/// Returns the output of `vmstat 1` on four CPUs: tasks that run or wait, and the busy share of the CPUs.
fn vmstat(rows: &[(u32, u32)]) -> String {
    let mut text = "$ nproc\n4\n$ vmstat 1\n\
        procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n\
        \u{20}r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
        .to_owned();
    let row = |(runnable, busy): &(u32, u32)| {
        format!(
            "{runnable:2}  0      0 900000  10000 800000    0    0     0     0 1000 2000 {busy:2}  0 {:2}  0  0\n",
            100 - busy
        )
    };
    // The first row is the mean since boot.
    text.push_str(&row(&(1, 3)));
    rows.iter().for_each(|one| text.push_str(&row(one)));
    text
}

/// Returns reports of `iostat -x` on one disk: requests in flight, and the milliseconds that each waits.
fn iostat(reports: &[(f64, f64)]) -> String {
    let mut text = "Linux 6.1.0 (db1) \t11/24/2026 \t_x86_64_\t(8 CPU)\n".to_owned();
    for (queue, wait) in [(0.0, 1.0)].iter().chain(reports) {
        let rate = queue / (wait / 1e3);
        let busy = if *queue > 1.0 { 100.0 } else { queue * 100.0 };
        let _ = write!(
            text,
            "\nDevice            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await \
             wareq-sz  aqu-sz  %util\nsda {rate:.2} {:.2} 0.00 0.00 {wait:.2} 4.00 0.00 0.00 0.00 0.00 0.00 0.00 {queue:.2} {busy:.2}\n",
            rate * 4.0
        );
    }
    text
}

/// Returns the output of `sar -u` every ten minutes from midnight: the busy share of two CPUs.
fn sar(busy: &[f64]) -> String {
    let mut text = "Linux 5.14.0 (db1) \t11/24/2026 \t_x86_64_\t(2 CPU)\n\n\
        00:00:01        CPU     %user     %nice   %system   %iowait    %steal     %idle\n"
        .to_owned();
    for (at, busy) in (1..).zip(busy) {
        let (hour, minute) = (at * 10 / 60, at * 10 % 60);
        let idle = 100.0 - busy;
        let _ = writeln!(
            text,
            "{hour:02}:{minute:02}:01        all     {busy:.2}      0.00      0.00      0.00      0.00     {idle:.2}"
        );
    }
    text
}

#[test]
fn cpus_that_are_full_for_a_part_of_the_time_are_found_then_and_only_then() {
    for (rows, expected) in [
        (&[(1, 5), (1, 5), (1, 5), (1, 5), (22, 100), (22, 100), (22, 100)][..], (5, 7, 7)),
        (&[(12, 100), (12, 100), (12, 100), (12, 100), (0, 1), (0, 1), (0, 1), (0, 1)], (1, 4, 8)),
        (&[(0, 1), (0, 2), (9, 100), (11, 100), (0, 1), (1, 3), (0, 2), (0, 1), (0, 1)], (3, 4, 9)),
    ] {
        let d = judged(&vmstat(rows));
        assert_eq!((d.verdict, &*first(&d)), (Verdict::Bottleneck, "cpu.saturated@host"), "{rows:?}: {:?}", keys(&d));
        assert_eq!(intervals(&d), Some(expected), "{rows:?}");
        let (from, to, all) = expected;
        let when = match () {
            () if to == all => format!("in the last {} of {all} intervals", to + 1 - from),
            () if from == 1 => format!("in the first {to} of {all} intervals"),
            () => format!("in intervals {from} to {to} of {all}"),
        };
        assert!(d.findings[0].summary.contains(&when), "{}", d.findings[0].summary);
    }
}

#[test]
fn means_that_never_held_together_are_not_one_statement() {
    // On average, nine tasks run on four CPUs that are a quarter idle.
    let d = judged(&vmstat(&[(12, 100), (12, 100), (12, 100), (12, 100), (12, 100), (12, 100), (0, 1), (0, 1)]));
    assert!(d.not_cleared.iter().all(|entry| !entry.because.contains("quota")), "{:?}", d.not_cleared);
    assert!(keys(&d).iter().all(|key| !key.contains("throttled")), "{:?}", keys(&d));
}

#[test]
fn a_steady_capture_is_judged_as_a_whole() {
    let d = judged(&vmstat(&[(22, 100); 8]));
    assert_eq!((first(&d), intervals(&d)), ("cpu.saturated@host".to_owned(), None));
    let calm = judged(&vmstat(&[(1, 9), (0, 4), (2, 12), (1, 7), (1, 9), (0, 3)]));
    assert!(calm.findings.is_empty() && calm.not_cleared.is_empty(), "{:?}", keys(&calm));
}

#[test]
fn a_disk_that_is_saturated_in_a_part_of_the_reports_is_found_with_the_numbers_of_then() {
    let d = judged(&iostat(&[(0.01, 1.0), (0.01, 1.0), (0.02, 1.0), (30.0, 200.0), (30.0, 200.0)]));
    assert_eq!((d.verdict, &*first(&d)), (Verdict::Bottleneck, "disk.saturated@sda"));
    assert_eq!(intervals(&d), Some((4, 5, 5)));
    assert!(d.findings[0].summary.contains("200 ms"), "{}", d.findings[0].summary);
}

#[test]
fn a_single_short_interval_is_a_suspicion() {
    let d = judged(&vmstat(&[(1, 5), (1, 5), (1, 5), (22, 100), (1, 5), (1, 5), (1, 5), (1, 5)]));
    assert_eq!((&*first(&d), intervals(&d)), ("cpu.saturated@host", Some((4, 4, 8))));
    assert_eq!((d.findings[0].confidence, d.verdict), (Confidence::Low, Verdict::Undetermined));
}

#[test]
fn what_is_cleared_overall_and_not_in_a_part_is_said_with_its_time() {
    let mut busy = [4.0; 12];
    busy[7..9].fill(100.0);
    let d = judged(&sar(&busy));
    assert_eq!(d.verdict, Verdict::Undetermined);
    assert!(d.ruled_out.iter().all(|entry| entry.id != "cpu"), "{:?}", d.ruled_out);
    let entry = d.not_cleared.iter().find(|entry| entry.id == "cpu").expect("the CPUs stand out");
    assert!(entry.because.contains("from 01:10:01 to 01:30:01"), "{}", entry.because);
    assert!(judged(&sar(&[4.0; 12])).not_cleared.is_empty());
}

#[test]
fn a_capture_is_judged_as_its_parts_are() {
    // What is cleared in a capture is cleared in each half of it, or the answer says otherwise.
    let (calm, full) = ([(1, 5); 6], [(20, 100); 6]);
    let both = judged(&vmstat(&[calm, full].concat()));
    let [first_half, second_half] = [judged(&vmstat(&calm)), judged(&vmstat(&full))];
    assert_eq!(keys(&both), keys(&second_half));
    assert!(first_half.findings.is_empty());
    let numbers =
        |d: &Diagnosis| d.findings[0].evidence.iter().map(|e| (e.metric.clone(), e.value.clone())).collect::<Vec<_>>();
    assert_eq!(numbers(&both), numbers(&second_half));
}

#[test]
fn a_suspicion_in_a_part_is_said_with_its_time() {
    let mut text = String::from("$ mpstat -P ALL 2 12\nLinux 6.1.0 (web4) \t06/12/2024 \t_x86_64_\t(4 CPU)\n");
    for report in 0..12 {
        text.push_str(
            "\n11:00:00     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n",
        );
        let (busy, idle) = if (4..9).contains(&report) { (100, 0) } else { (4, 96) };
        let mean = (12 + busy) / 4;
        let time = format!("11:00:{:02}", 2 * report + 2);
        let mut row = |cpu: &str, busy: u32, idle: u32| {
            writeln!(
                text,
                "{time}     {cpu:>3}  {busy:3}.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00  {idle:3}.00"
            )
        };
        row("all", mean, 100 - mean).unwrap();
        (0..4).for_each(|cpu| if cpu == 2 { row("2", busy, idle) } else { row(&cpu.to_string(), 4, 96) }.unwrap());
    }
    let d = judged(&text);
    assert_eq!((&*first(&d), d.findings[0].confidence), ("cpu.single_thread@cpu2", Confidence::Low));
    assert!(d.findings[0].summary.contains("from 11:00:08 to 11:00:18"), "{}", d.findings[0].summary);
    assert!(d.ruled_out.iter().all(|entry| entry.id != "cpu"), "{:?}", d.ruled_out);
}

#[test]
fn the_count_of_running_processes_clears_no_cpus_that_are_full() {
    let text = "\
top - 10:00:05 up 10 days,  2:11,  1 user,  load average: 4.70, 4.20, 3.90
Tasks: 210 total,   1 running, 209 sleeping,   0 stopped,   0 zombie
%Cpu(s): 96.0 us,  3.0 sy,  0.0 ni,  1.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st
MiB Mem :   7823.1 total,   1200.0 free,   2300.0 used,   4323.1 buff/cache
MiB Swap:      0.0 total,      0.0 free,      0.0 used.   5200.0 avail Mem

    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
   2112 app       20   0 9821340   1.8g  24012 S 395.0  23.6   1234:56 java
    812 root      20   0   12340   4012   3012 S   0.7   0.1   0:01.20 sshd
";
    let second = text.replace("10:00:05", "10:00:10");
    let d = judged(&format!("$ nproc\n4\n$ top -b -d 5 -n 2\n{text}\n{second}"));
    assert!(d.ruled_out.iter().all(|entry| entry.id != "cpu"), "{:?}", d.ruled_out);
}

/// Returns what stands out, and in which intervals.
fn doubts(d: &Diagnosis) -> Vec<(&str, Option<Intervals>)> {
    let when = |during: &During| (during.first_interval, during.last_interval, during.of_intervals);
    d.not_cleared.iter().map(|entry| (&*entry.id, entry.during.as_ref().map(when))).collect()
}

#[test]
fn what_stands_out_most_of_the_time_is_said_of_a_capture_of_seconds() {
    let rows = [(1, 1), (9, 100), (9, 100), (9, 100), (9, 100)];
    // Nothing shows how many CPUs there are.
    let d = judged(&vmstat(&rows).replace("$ nproc\n4\n", ""));
    let entry = d.not_cleared.iter().find(|entry| entry.id == "cpu").expect("the CPUs stand out");
    assert!(
        entry.because.ends_with("100 % busy, with 8 runnable tasks at a time, in the last 4 of 5 intervals"),
        "{:?}",
        d.not_cleared
    );
    let brief = judged(&vmstat(&[(1, 1), (1, 1), (1, 1), (9, 100), (1, 1)]).replace("$ nproc\n4\n", ""));
    assert_eq!(brief.not_cleared.iter().find(|entry| entry.id == "cpu"), None);
}

#[test]
fn what_stands_out_in_a_part_is_said_though_the_mean_neither_shows_nor_clears_it() {
    // Four of five intervals: 80 % on average is no problem, but is not cleared either.
    let d = judged(&sar(&[99.5, 99.5, 99.5, 99.5, 6.0]));
    assert_eq!((d.verdict, doubts(&d)), (Verdict::Undetermined, vec![("cpu", Some((1, 4, 5)))]));
    assert!(d.not_cleared[0].because.contains("99.5 % busy, from 00:00:01 to 00:40:01"), "{:?}", d.not_cleared);
    let d = judged(&sar(&[99.5; 5]));
    assert_eq!(doubts(&d), [("cpu", None)], "all of the time");
}

#[test]
fn a_restart_is_no_interval() {
    let title = "        CPU     %user     %nice   %system   %iowait    %steal     %idle";
    let row = |time: &str, busy: f64| {
        format!("{time}        all     {busy:.2}      0.00      0.00      0.00      0.00     {:.2}\n", 100.0 - busy)
    };
    let text = [
        format!("Linux 5.14.0 (db1) \t11/24/2026 \t_x86_64_\t(2 CPU)\n\n00:00:01{title}\n"),
        row("00:10:01", 99.5),
        row("00:20:01", 99.5),
        format!("\n03:25:44     LINUX RESTART\t(2 CPU)\n\n03:30:01{title}\n"),
        row("03:40:01", 99.5),
        row("03:50:01", 6.0),
    ];
    let d = judged(&text.concat());
    assert_eq!(doubts(&d), [("cpu", Some((1, 3, 4)))], "{:?}", d.not_cleared);
}

#[test]
fn a_load_average_of_another_hour_adds_no_interval() {
    const MPSTAT: &str = "\
# mpstat 2

02:03:50 AM  CPU   %user   %nice    %sys %iowait    %irq   %soft  %steal   %idle    intr/s
02:04:04 AM  all    1.33    0.00   41.78    0.00    0.44    3.56    0.00   52.89   1015.56
02:04:06 AM  all    0.00    0.00    8.04   38.69   29.65   23.62    0.00    0.00   1326.63
";
    const UPTIME: &str = "$ uptime\n 10:41:07 up 20 days,  4:11,  2 users,  load average: 0.02, 0.04, 0.11\n";
    let (alone, both) = (judged(MPSTAT), judged(&format!("{MPSTAT}{UPTIME}")));
    assert_eq!((first(&both), intervals(&both)), ("cpu.interrupts@host".into(), Some((2, 2, 2))));
    assert_eq!((first(&alone), alone.findings[0].confidence), (first(&both), both.findings[0].confidence));
}
