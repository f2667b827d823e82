//! How far the verdict over captures goes: as far as their data, and no further; and the same whichever tool tells it.

mod captured;

use captured::{FIXTURES, first, keys};
use std::path::Path;
use std::sync::LazyLock;
use whyslow_diagnose::{RuleBook, diagnose, merge_diagnoses};
use whyslow_import::{Capture, Input};
use whyslow_model::diagnosis::{Diagnosis, Origin, Verdict};

static RULES: LazyLock<RuleBook> = LazyLock::new(RuleBook::built_in);

/// The diagnosis of captures, as the program makes it.
fn judged(captures: &[String]) -> Diagnosis {
    let input = |(at, text): (usize, &String)| Input {
        name: format!("capture-{at}.txt"),
        reader: Box::new(std::io::Cursor::new(text.clone().into_bytes())),
    };
    let captures = whyslow_import::read(captures.iter().enumerate().map(input).collect(), true);
    let captures = captures.unwrap_or_else(|refusal| panic!("{refusal}"));
    let of = |c: &Capture| (c.label(), diagnose(&c.window, Origin::Import, &RULES));
    merge_diagnoses(captures.iter().map(of).collect(), &RULES).expect("a diagnosis")
}

/// What a tool printed under a load; vmstat and sar of one load are of the same ten seconds of a machine with two CPUs.
fn captured(load: &str, tool: &str) -> String {
    let file = Path::new(FIXTURES).join("pairs").join(format!("{load}-{tool}.txt"));
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The reports of sar whose header has one of these columns, under its banner.
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

/// Six reports of `iostat -x`: what precedes the devices, and a device with so many requests a second of so many milliseconds.
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
        // Exactly as many busy threads as CPUs: nobody waits for one. All the while a task was blocked on I/O.
        ("two-busy", Verdict::Undetermined, ""),
        ("three-busy", Verdict::Bottleneck, "cpu.saturated@host"),
        ("eight-busy", Verdict::Bottleneck, "cpu.saturated@host"),
    ] {
        // What both tools cover: vmstat knows no devices.
        let sar = reports(&captured(load, "sar"), &[CPUS, RUN_QUEUE, MEMORY, SWAPPING]);
        let vmstat = captured(load, "vmstat");
        let told = |d: &Diagnosis| (d.verdict, first(d));
        let expected = (verdict, cause.to_owned());
        assert_eq!(told(&judged(std::slice::from_ref(&sar))), expected, "{load}: sar");
        // vmstat's run queue, once it is known for how many CPUs it is.
        let counted = judged(&[vmstat.clone(), reports(&sar, &[CPUS])]);
        assert_eq!(told(&counted), expected, "{load}: vmstat, with the number of CPUs");
        // Alone it may be unable to tell; it never contradicts.
        let alone = judged(&[vmstat]);
        let unable = (Verdict::Undetermined, String::new());
        assert!([expected, unable.clone()].contains(&told(&alone)), "{load}: vmstat: {:?}", told(&alone));
        let uncounted = alone.blind_spots.iter().any(|spot| spot.what == "the number of CPUs");
        assert!(uncounted || told(&alone) != unable, "{load}: {:?}", alone.blind_spots);
        assert_eq!(told(&judged(&[reports(&sar, &[RUN_QUEUE])])), unable, "{load}: a run queue alone");
    }
}

/// One dd with O_DIRECT, a request at a time: a quarter of the CPU time is I/O wait. vmstat knows no devices, and says so.
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
    // Four busy threads, one of which is seen between two turns once.
    let steady = [5, 5, 5, 5, 5, 5, 2, 5, 5, 5, 5, 5, 5, 5, 5, 5];
    assert_eq!(keys(&judged(&[capture(&steady)])), Vec::<String>::new());
    let crowded = [5, 9, 12, 5, 9, 14, 5, 11, 9, 12, 5, 9, 14, 11, 9, 12];
    assert_eq!(first(&judged(&[capture(&crowded)])), "cpu.saturated@host");
}
