//! Tests that the verdict on captures goes as far as their data and no further, and is the same for every tool.

mod captured;

use captured::{FIXTURES, first, keys};
use std::path::Path;
use std::sync::LazyLock;
use whyslow_diagnose::{RuleBook, VirtualMachines, diagnose, merge_diagnoses};
use whyslow_documents::diagnosis::{Confidence, Diagnosis, Origin, Verdict};
use whyslow_import::{Capture, Input};

static RULES: LazyLock<RuleBook> = LazyLock::new(RuleBook::built_in);

/// Returns the program's diagnosis of captures.
fn judged(captures: &[String]) -> Diagnosis {
    let input = |(at, text): (usize, &String)| Input {
        name: format!("capture-{at}.txt"),
        reader: Box::new(std::io::Cursor::new(text.clone().into_bytes())),
    };
    let captures = whyslow_import::read(captures.iter().enumerate().map(input).collect(), true);
    let captures = captures.unwrap_or_else(|refusal| panic!("{refusal}"));
    let of = |c: &Capture| (c.label(), diagnose(&c.window, Origin::Import, &RULES));
    merge_diagnoses(captures.iter().map(of).collect(), VirtualMachines::default(), &RULES).expect("a diagnosis")
}

/// Returns the output of a tool under a load; vmstat and sar of one load cover the same ten seconds of a machine with
/// two CPUs.
fn captured(load: &str, tool: &str) -> String {
    let file = Path::new(FIXTURES).join("pairs").join(format!("{load}-{tool}.txt"));
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// Returns the reports of sar whose header has one of these columns, with the banner.
fn reports(sar: &str, columns: &[&str]) -> String {
    let has = |block: &&str| {
        let header = block.lines().next().unwrap_or_default();
        header.starts_with("Linux ") || header.split_whitespace().any(|word| columns.contains(&word))
    };
    sar.split("\n\n").filter(has).collect::<Vec<_>>().join("\n\n")
}

const CPUS: &str = "%idle";
const RUN_QUEUE: &str = "runq-sz";
const MEMORY: &str = "kbmemfree";
const SWAPPING: &str = "pswpin/s";
const DISKS: &str = "areq-sz";

#[test]
fn ruling_out_one_resource_does_not_make_a_machine_healthy() {
    let sar = captured("idle", "sar");
    for (columns, cleared, missing) in [
        (&[CPUS][..], "cpu", "the block devices"),
        (&[CPUS, MEMORY, SWAPPING], "cpu", "the block devices"),
        (&[MEMORY, SWAPPING], "memory", "the CPUs"),
    ] {
        let d = judged(&[reports(&sar, columns)]);
        assert_eq!((d.verdict, keys(&d)), (Verdict::Undetermined, vec![]), "{columns:?}");
        assert!(d.ruled_out.iter().any(|entry| entry.id == cleared), "{columns:?}: {:?}", d.ruled_out);
        assert!(d.blind_spots.iter().any(|spot| spot.what == missing), "{columns:?}: {:?}", d.blind_spots);
    }
}

/// Returns six reports of `iostat -x`: a CPU part before the devices, and a device with this rate of requests and this
/// wait in milliseconds.
fn iostat(cpus: &str, requests: f64, wait: f64) -> String {
    let (queue, util) = (requests * wait / 1000.0, (requests * wait / 10.0).min(100.0));
    let header = "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm \
                  w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n";
    let row = format!(
        "sda {requests:.2} {:.2} 0.00 0.00 {wait:.2} 4.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 \
         0.00 {queue:.2} {util:.2}\n",
        requests * 4.0
    );
    format!("{cpus}{header}{row}\n").repeat(6)
}

/// A request that waits two seconds for 4 KiB would not wait less if it were larger.
#[test]
fn small_requests_that_wait_for_seconds_show_a_slow_device() {
    for (requests, wait) in [(15.5, 2000.0), (22.5, 1378.0)] {
        let slow = judged(&[iostat("", requests, wait)]);
        assert_eq!((slow.verdict, first(&slow).as_str()), (Verdict::Bottleneck, "disk.slow_device@sda"), "{requests}");
    }
    let small = judged(&[iostat("", 150.0, 206.0)]);
    assert!(keys(&small).iter().any(|key| key == "disk.small_io@sda"), "{:?}", keys(&small));
}

#[test]
fn a_disk_alone_answers_whether_it_keeps_up_only_while_it_is_at_work() {
    let idle = judged(&[iostat("", 3.0, 0.3)]);
    assert_eq!((idle.verdict, keys(&idle)), (Verdict::Undetermined, vec![]));
    assert!(idle.ruled_out.iter().any(|entry| entry.id == "disk"), "{:?}", idle.ruled_out);
    let busy = judged(&[iostat("", 500.0, 0.4)]);
    assert_eq!((busy.verdict, keys(&busy)), (Verdict::Healthy, vec![]));
}

#[test]
fn captures_that_clear_cpus_and_disks_are_healthy() {
    let sar = captured("idle", "sar");
    let cpus = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           5.00    0.00    2.00    0.00    0.00   93.00\n\n";
    for (what, capture) in [
        ("vmstat", captured("idle", "vmstat")),
        ("sar", sar.clone()),
        ("sar -u -d", reports(&sar, &[CPUS, DISKS])),
        ("iostat -x", iostat(cpus, 3.0, 0.3)),
    ] {
        let d = judged(&[capture]);
        assert_eq!((d.verdict, keys(&d)), (Verdict::Healthy, vec![]), "{what}");
    }
}

#[test]
fn vmstat_and_sar_reach_the_same_verdict_on_the_same_seconds() {
    for (load, verdict, cause) in [
        ("idle", Verdict::Healthy, ""),
        // Exactly as many busy threads as CPUs, so none waits. A task was blocked on I/O the whole time.
        ("two-busy", Verdict::Undetermined, ""),
        ("three-busy", Verdict::Bottleneck, "cpu.saturated@host"),
        ("eight-busy", Verdict::Bottleneck, "cpu.saturated@host"),
    ] {
        // Only what both tools cover: vmstat shows no devices.
        let sar = reports(&captured(load, "sar"), &[CPUS, RUN_QUEUE, MEMORY, SWAPPING]);
        let vmstat = captured(load, "vmstat");
        let told = |d: &Diagnosis| (d.verdict, first(d));
        let expected = (verdict, cause.to_owned());
        assert_eq!(told(&judged(std::slice::from_ref(&sar))), expected, "{load}: sar");
        // vmstat's run queue, with the number of CPUs known.
        let counted = judged(&[vmstat.clone(), reports(&sar, &[CPUS])]);
        assert_eq!(told(&counted), expected, "{load}: vmstat, with the number of CPUs");
        // vmstat alone may be inconclusive, but never contradicts.
        let alone = judged(&[vmstat]);
        let unable = (Verdict::Undetermined, String::new());
        assert!([expected.clone(), unable.clone()].contains(&told(&alone)), "{load}: vmstat: {:?}", told(&alone));
        let uncounted = alone.blind_spots.iter().any(|spot| spot.what == "the number of CPUs");
        assert!(uncounted || told(&alone) != unable, "{load}: {:?}", alone.blind_spots);
        let queue = told(&judged(&[reports(&sar, &[RUN_QUEUE])]));
        if cause.is_empty() {
            assert_eq!(queue, unable, "{load}: a run queue alone");
        } else {
            let suspected = (Verdict::Undetermined, cause.to_owned());
            assert!([suspected, expected].contains(&queue), "{load}: a run queue alone: {queue:?}");
        }
    }
}

/// One dd with O_DIRECT and one request at a time: a quarter of the CPU time is I/O wait. vmstat shows no devices, and
/// the answer says so.
#[test]
fn vmstat_and_sar_do_not_contradict_each_other_on_io_wait() {
    let (vmstat, sar) = (captured("one-writer", "vmstat"), captured("one-writer", "sar"));
    let told = |d: &Diagnosis| (d.verdict, first(d));
    let writer = (Verdict::Bottleneck, "disk.depth_one@loop0".to_owned());
    assert_eq!(told(&judged(std::slice::from_ref(&sar))), writer, "sar");
    assert_eq!(told(&judged(&[vmstat.clone(), sar.clone()])), writer, "both");
    let common = reports(&sar, &[CPUS, RUN_QUEUE, MEMORY, SWAPPING]);
    for (tool, capture) in [("vmstat", vmstat), ("sar without devices", common)] {
        let d = judged(&[capture]);
        assert_eq!(told(&d), (Verdict::Undetermined, String::new()), "{tool}");
        assert!(d.blind_spots.iter().any(|spot| spot.what == "the block devices"), "{tool}: {:?}", d.blind_spots);
        assert!(d.ruled_out.iter().all(|entry| entry.id != "disk"), "{tool}: {:?}", d.ruled_out);
    }
}

#[test]
fn a_moment_with_fewer_runnable_tasks_than_cpus_does_not_lower_the_number_of_cpus() {
    let row = |runnable: u32| {
        format!(" {runnable}  0      0 5405000 105952 17276632    0    0     0     0  600 1200 97  3  0  0  0\n")
    };
    let head = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n \
                r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
    let capture = |queue: &[u32]| format!("{head}{}", queue.iter().map(|r| row(*r)).collect::<String>());
    // Four busy threads, one of which is seen once between two turns.
    let steady = [5, 5, 5, 5, 5, 5, 2, 5, 5, 5, 5, 5, 5, 5, 5, 5];
    assert_eq!(keys(&judged(&[capture(&steady)])), Vec::<String>::new());
    let crowded = [5, 9, 12, 5, 9, 14, 5, 11, 9, 12, 5, 9, 14, 11, 9, 12];
    assert_eq!(first(&judged(&[capture(&crowded)])), "cpu.saturated@host");
}

/// Returns ten rows of vmstat with this many runnable tasks and these shares of CPU time: us, sy, id, wa.
fn vmstat(runnable: u32, blocked: u32, shares: [u32; 4]) -> String {
    let header = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n \
                  r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
    let [us, sy, id, wa] = shares;
    let row = |n: u32| {
        let runnable = if n == 0 { 0 } else { runnable };
        format!("{runnable} {blocked} 0 812340 91234 2231234 0 0 0 12 1200 2400 {us} {sy} {id} {wa} 0\n")
    };
    header.to_owned() + &(0..10).map(row).collect::<String>()
}

const FIO: &str = "\
# fio --name=w --filename=/dev/sdb --rw=randwrite --bs=4k --iodepth=1 --ioengine=libaio --direct=1
w: (g=0): rw=randwrite, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=1
w: (groupid=0, jobs=1): err= 0: pid=1290: Mon Jan  8 10:00:00 2024
  write: IOPS=512, BW=2049KiB/s (2098kB/s)(20.0MiB/10002msec); 0 zone resets
";

#[test]
fn an_open_answer_ends_with_the_capture_that_decides() {
    let full = judged(&[vmstat(12, 0, [90, 10, 0, 0])]);
    assert_eq!((full.verdict, keys(&full)), (Verdict::Undetermined, vec![]));
    assert!(full.not_cleared.iter().any(|entry| entry.id == "cpu"), "{:?}", full.not_cleared);
    let next = full.next_capture.as_ref().expect("a next capture");
    assert_eq!(next.command, "mpstat -P ALL 1 10");
    assert_eq!(next.outcomes[0].decides, ["cpu.saturated"]);
    assert_eq!(next.outcomes[0].condition, "it lists fewer CPUs than the 12 tasks that wanted to run");
    for (what, capture, command) in [
        ("waiting for an unknown disk", vmstat(0, 1, [2, 1, 60, 37]), "iostat -x 1 10"),
        ("a benchmark of a disk alone", FIO.to_owned(), "iostat -x 1"),
        ("an idle disk", iostat("", 3.0, 0.3), "vmstat 1 10"),
    ] {
        let next = judged(&[capture]).next_capture.unwrap_or_else(|| panic!("{what}: no next capture"));
        assert_eq!(next.command, command, "{what}");
        assert!(!next.outcomes.is_empty() && !next.otherwise.is_empty(), "{what}: {next:?}");
    }
}

#[test]
fn a_certain_answer_asks_for_nothing() {
    let full = judged(&[captured("eight-busy", "sar")]);
    assert_eq!((full.verdict, full.findings[0].confidence), (Verdict::Bottleneck, Confidence::High));
    assert_eq!(full.next_capture, None);
    let healthy = judged(&[captured("idle", "vmstat")]);
    assert_eq!((healthy.verdict, healthy.next_capture), (Verdict::Healthy, None));
}

/// The interval between rows is assumed if no command line shows it: the speed at which memory shrinks is unknown, and
/// no rate is affected.
#[test]
fn without_an_interval_no_time_is_computed() {
    let rows = |command: &str| {
        let row = |n: u64| format!("0 0 0 {} 91234 2231234 0 0 0 12 1200 2400 5 2 93 0 0\n", 900_000 - n * 10_000);
        let header = vmstat(0, 0, [0; 4]).lines().take(2).collect::<Vec<_>>().join("\n");
        format!("{command}{header}\n{}", (0..12).map(row).collect::<String>())
    };
    let shrinks = |d: &Diagnosis| {
        d.figures.iter().find(|f| f.subject.kind == "host").and_then(|host| host.number("mem.shrink_rate"))
    };
    let assumed = judged(&[rows("")]);
    assert_eq!(shrinks(&assumed), None);
    assert!(assumed.blind_spots.iter().all(|spot| !spot.why.contains("assumed")), "{:?}", assumed.blind_spots);
    assert_eq!(shrinks(&judged(&[rows("# vmstat 10\n")])), Some(1_024_000.0));
}

const BANNER: &str = "Linux 5.10.0 (web) 	01/08/24 	_x86_64_	(4 CPU)\n\n";

/// Returns two reports of sar -P ALL: user time of each of four CPUs, and the niced share of it.
fn sar_of_each(busy: [f64; 4], niced: f64) -> String {
    let header = "CPU     %user     %nice   %system   %iowait    %steal     %idle";
    let row = |name: &str, busy: f64| {
        let nice = busy * niced;
        format!("{name} {:.2} {nice:.2} 0.00 0.00 0.00 {:.2}", busy - nice, 100.0 - busy)
    };
    let rows: Vec<String> = std::iter::once(row("all", busy.iter().sum::<f64>() / 4.0))
        .chain(busy.iter().enumerate().map(|(cpu, busy)| row(&cpu.to_string(), *busy)))
        .collect();
    let report = |from: u32| {
        let rows: String = rows.iter().map(|row| format!("10:00:0{} {row}\n", from + 1)).collect();
        format!("10:00:0{from} {header}\n{rows}\n")
    };
    format!("{BANNER}{}{}", report(1), report(2))
}

#[test]
fn cpus_without_idle_time_are_never_passed_over() {
    let full = judged(&[sar_of_each([99.0, 100.0, 99.0, 100.0], 0.0)]);
    assert_eq!((full.verdict, keys(&full)), (Verdict::Undetermined, vec![]));
    assert_eq!(full.not_cleared[0].because, "the CPUs were 99.5 % busy");
    let next = full.next_capture.expect("a next capture");
    assert_eq!(next.outcomes[0].condition, "r exceeds the 4 CPUs");
    // Only one of them is busy.
    let one = judged(&[sar_of_each([100.0, 10.0, 5.0, 5.0], 0.0)]);
    assert_eq!((one.verdict, first(&one).as_str()), (Verdict::Undetermined, "cpu.single_thread@cpu0"));
    assert!(one.ruled_out.iter().all(|entry| entry.id != "cpu"), "{:?}", one.ruled_out);
    assert_eq!(one.next_capture.expect("a next capture").command, "pidstat -u -t 1 10");
    // Niced work yields to other work.
    let niced = judged(&[sar_of_each([100.0; 4], 0.95)]);
    assert_eq!((keys(&niced), niced.not_cleared), (vec![], vec![]));
    assert!(niced.ruled_out.iter().any(|entry| entry.id == "cpu" && entry.because.contains("niced work")));
}

/// pidstat alone shows which processes wait for the CPUs, but not how busy they are.
#[test]
fn a_process_that_waits_for_a_cpu_is_named() {
    let header = "UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command";
    let rows = |time: &str, wait: f64| {
        format!(
            "{time} 1000 4711 45.00 5.00 0.00 {wait:.2} 50.00 0 worker\n{time} 0 9 1.00 0.00 0.00 0.50 1.00 1 sshd\n\n"
        )
    };
    let pidstat = |wait: f64| {
        let reports = [("10:00:01", "10:00:02"), ("10:00:02", "10:00:03")];
        let reports = reports.map(|(from, to)| format!("{from} {header}\n{}", rows(to, wait)));
        format!("{BANNER}{}", reports.concat())
    };
    let waits = judged(&[pidstat(48.0)]);
    assert_eq!((waits.verdict, keys(&waits)), (Verdict::Bottleneck, vec!["cpu.saturated@worker[4711]".to_owned()]));
    assert_eq!(waits.findings[0].confidence, Confidence::Medium);
    assert_eq!(waits.findings[0].summary, "worker waits for a CPU 48 % of the time, and runs 50 %.");
    let decides = waits.next_capture.expect("a next capture").outcomes;
    assert!(decides.iter().all(|outcome| outcome.decides == ["cpu.saturated"]), "{decides:?}");
    assert_eq!(keys(&judged(&[pidstat(10.0)])), Vec::<String>::new());
}

/// A thread that does not wait for its CPU would not run faster on another, no matter how busy the others are.
#[test]
fn a_thread_that_fills_its_cpu_is_named_without_the_others() {
    let header = "10:00:01      UID      TGID       TID    %usr %system  %guest   %wait    %CPU   CPU  Command\n";
    let text = |wait: f64| {
        let rows = |time: &str| {
            format!(
                "{time}     1001      4411         -   99.80    0.20    0.00    0.00  100.00     3  java\n\
                 {time}     1001         -      4432   99.60    0.20    0.00    {wait:.2}   99.80     3  |__GC task\n\n"
            )
        };
        let [first, second] = [rows("10:00:06"), rows("10:00:11")];
        format!(
            "Linux 5.15.0 (app1) \t11/20/2026 \t_x86_64_\t(8 CPU)\n\n{header}{first}{}{second}",
            header.replace("00:01", "00:06")
        )
    };
    let d = judged(&[text(0.0)]);
    assert_eq!((d.verdict, first(&d)), (Verdict::Bottleneck, "cpu.single_thread@GC task[4411/4432]".to_owned()));
    assert!(d.ruled_out.is_empty(), "{:?}", d.ruled_out);
    assert_eq!(judged(&[text(30.0)]).verdict, Verdict::Undetermined, "it waits for others");
}

#[test]
fn damaged_frames_are_told_without_their_share() {
    let report = |damaged: f64| {
        format!(
            "Linux 5.15.0 (web3) \t11/20/2026 \t_x86_64_\t(8 CPU)\n\n\
             10:00:01        IFACE   rxerr/s   txerr/s    coll/s  rxdrop/s  txdrop/s  txcarr/s  rxfram/s  rxfifo/s  txfifo/s\n\
             10:10:01         eth0    {damaged:.2}      0.00      0.00      0.00      0.00      0.00    {damaged:.2}      0.00      0.00\n\
             10:20:01         eth0    {damaged:.2}      0.00      0.00      0.00      0.00      0.00    {damaged:.2}      0.00      0.00\n"
        )
    };
    let d = judged(&[report(120.0)]);
    assert_eq!((d.verdict, first(&d)), (Verdict::Bottleneck, "net.errors@eth0".to_owned()));
    assert!(d.blind_spots.iter().any(|spot| spot.what == "the traffic of the network"), "{:?}", d.blind_spots);
    assert_eq!(keys(&judged(&[report(0.0)])), [""; 0]);
}

/// A resource that was captured is not reported as missing.
#[test]
fn only_what_was_not_captured_is_called_so() {
    let missing = |text: &str| {
        let spots = judged(&[text.to_owned()]).blind_spots;
        spots.into_iter().map(|spot| spot.what).collect::<Vec<_>>()
    };
    let head = "Linux 5.15.0 (web3) \t11/20/2026 \t_x86_64_\t(8 CPU)\n\n";
    let queue = format!(
        "{head}10:00:01   runq-sz  plist-sz   ldavg-1   ldavg-5  ldavg-15   blocked\n\
         10:10:01         1       812      0.10      0.20      0.20         0\n\
         10:20:01         0       812      0.10      0.20      0.20         0\n"
    );
    let missing_of = missing(&queue);
    assert!(missing_of.contains(&"the use of the CPUs".to_owned()), "{missing_of:?}");
    let paging = format!(
        "{head}10:00:01     pgpgin/s pgpgout/s   fault/s  majflt/s  pgfree/s pgscank/s pgscand/s pgsteal/s    %vmeff\n\
         10:10:01     98321.10   1203.20  21033.20    912.30  54321.20  81200.10  23000.20  31000.90     29.75\n\
         10:20:01     98321.10   1203.20  21033.20    912.30  54321.20  81200.10  23000.20  31000.90     29.75\n"
    );
    let missing_of = missing(&paging);
    assert!(missing_of.contains(&"how much memory is free".to_owned()), "{missing_of:?}");
    let stands_out = judged(&[paging]).not_cleared;
    assert!(stands_out.iter().any(|entry| entry.id == "memory"), "{stands_out:?}");
}
