//! Tests of findings that only a comparison shows: of subjects in one capture, and of captures from one machine.

mod captured;

use captured::{captures_of, finding, keys, number};
use std::sync::LazyLock;
use whyslow_diagnose::{RuleBook, VirtualMachines, diagnose, merge_diagnoses};
use whyslow_documents::diagnosis::{Confidence, Diagnosis, Origin, Verdict};
use whyslow_import::Capture;

static RULES: LazyLock<RuleBook> = LazyLock::new(RuleBook::built_in);

fn judged(text: &str) -> Diagnosis {
    judged_together(&[("x", text)])
}

fn judged_together(texts: &[(&str, &str)]) -> Diagnosis {
    let captures = captures_of(texts.iter().copied(), false).unwrap_or_else(|refusal| panic!("{refusal}"));
    let of = |c: &Capture| (c.label(), diagnose(&c.window, Origin::Import, &RULES));
    merge_diagnoses(captures.iter().map(of).collect(), VirtualMachines::default(), &RULES).expect("a diagnosis")
}

/// Returns the ids of the findings with their confidence.
fn found(d: &Diagnosis) -> Vec<(&str, Confidence)> {
    d.findings.iter().map(|f| (f.id.as_str(), f.confidence)).collect()
}

const IOSTAT: &str =
    "Device r/s w/s rkB/s wkB/s rrqm/s wrqm/s %rrqm %wrqm r_await w_await aqu-sz rareq-sz wareq-sz svctm %util\n";

/// Returns three reports of `iostat -x 5` with these rows, after one since boot.
fn iostat(rows: &str) -> String {
    let report = format!("{IOSTAT}{rows}\n");
    format!("$ iostat -x 5\n{}", report.repeat(4))
}

#[test]
fn one_member_of_a_mirror_that_takes_many_times_as_long_is_slow() {
    // On some kernels, utilization counts only ticks in which requests began or ended, and is far too low here.
    let rows = |wait: f64| {
        let queue = wait / 1e3 * 12.0;
        format!(
            "sdc 12.00 0.00 768.00 0.00 0.00 0.00 0.00 0.00 {wait:.2} 0.00 {queue:.2} 64.00 0.00 0.00 1.50\n\
             sdd 12.00 0.00 768.00 0.00 0.00 0.00 0.00 0.00 0.40 0.00 0.00 64.00 0.00 0.00 1.20\n"
        )
    };
    let d = judged(&iostat(&rows(1500.0)));
    let slow = finding(&d, "disk.slow_device@sdc");
    assert_eq!((slow.confidence, d.findings[0].key().as_str()), (Confidence::High, "disk.slow_device@sdc"));
    assert!(slow.summary.contains("1 other disk with the same load"), "{}", slow.summary);
    // A spinning disk next to flash.
    assert_eq!(keys(&judged(&iostat(&rows(9.0)))), [""; 0]);
}

/// Two unrelated hosts: sums that happen to be equal are not evidence.
#[test]
fn devices_of_two_hosts_do_not_contend_for_one() {
    let row = |disk: &str, reads: u32, wait: f64| {
        let rate = f64::from(reads) * 25.0;
        let queue = f64::from(reads) * wait / 1e3;
        format!(
            "{disk} {reads}.00 0.00 {rate:.2} 0.00 0.00 0.00 0.00 0.00 {wait:.2} 0.00 {queue:.2} 25.00 0.00 3.00 97.00\n"
        )
    };
    let volumes = |wait: f64| iostat(&(row("sda", 120, wait) + &row("sdb", 180, wait)));
    // A disk that both list makes them two captures.
    let carrier = iostat(&(row("sda", 0, 0.0) + &row("sdc", 300, 70.0)));
    let shares = |above: &str, below: &str| {
        let d = judged_together(&[("a", above), ("b", below)]);
        d.findings.iter().any(|finding| finding.id == "disk.shared")
    };
    let of = |host: &str, text: &str| text.replace("$ ", &format!("[root@{host} ~]# "));
    assert!(shares(&volumes(75.0), &carrier), "the same requests, which wait for those of the device below");
    assert!(!shares(&volumes(12.0), &carrier), "they are done before the device has done them");
    assert!(!shares(&of("web1", &volumes(75.0)), &of("mail7", &carrier)), "two hosts");
    let writes = carrier
        .replace("300.00 0.00 7500.00 0.00", "0.00 300.00 0.00 7500.00")
        .replace("70.00 0.00 21.00 25.00 0.00", "0.00 70.00 21.00 0.00 25.00");
    assert!(!shares(&volumes(75.0), &writes), "one reads, the other writes");
}

#[test]
fn a_device_with_requests_in_flight_that_completes_hardly_any_hangs() {
    let d =
        judged(&iostat("bcache0 1.00 0.00 4.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 39.50 4.00 0.00 1000.00 100.00\n"));
    assert_eq!(found(&d), [("disk.hung", Confidence::Medium)]);
    // By Little's law, 40 requests of 10 s each are in flight if four complete per second.
    let d =
        judged(&iostat("sda 4.00 0.00 16.00 0.00 0.00 0.00 0.00 0.00 10000.00 0.00 40.00 4.00 0.00 250.00 100.00\n"));
    assert_eq!(d.findings[0].id, "disk.slow_device");
    assert!(!keys(&d).iter().any(|key| key.starts_with("disk.hung")), "{:?}", keys(&d));
}

fn policy(max: u32, now: u32) -> String {
    let file = |name: &str, value: u32| format!("/sys/devices/system/cpu/cpufreq/policy0/{name}:{value}\n");
    file("cpuinfo_max_freq", 3_500_000)
        + &file("cpuinfo_min_freq", 800_000)
        + &file("scaling_cur_freq", now)
        + &file("scaling_max_freq", max)
}

#[test]
fn a_limit_of_the_clock_that_fell_between_two_captures() {
    let text = format!("{}\nAfter suspend and resume:\n\n{}", policy(3_500_000, 900_000), policy(2_100_000, 900_000));
    let d = judged(&text);
    assert_eq!((found(&d), d.verdict), (vec![("cpu.frequency", Confidence::Medium)], Verdict::Bottleneck));
    let summary = &d.findings[0].summary;
    assert!(
        summary.contains("limited to 2.10 GHz, where another reading of the same machine shows 3.50 GHz"),
        "{summary}"
    );
    // A single capture may show a deliberate setting.
    assert_eq!(found(&judged(&policy(2_100_000, 900_000))), [("cpu.frequency", Confidence::Low)]);
    let same = format!("{0}\nAnd again:\n\n{0}", policy(3_500_000, 900_000));
    assert_eq!(found(&judged(&same)), []);
}

#[test]
fn a_cpu_below_its_lowest_frequency_is_throttled() {
    let d = judged(&policy(3_500_000, 550_000));
    assert_eq!(found(&d), [("cpu.frequency", Confidence::Medium)]);
    assert!(d.findings[0].summary.contains("68.8 %"), "{}", d.findings[0].summary);
}

#[test]
fn the_highest_frequency_of_one_model_under_two_kernels() {
    let lscpu = |model: &str, mhz: &str| {
        format!(
            "$ lscpu\nArchitecture:          x86_64\nCPU(s):                8\nModel name:            {model}\nCPU max MHz:           {mhz}\n\n"
        )
    };
    let d = judged(&(lscpu("Example 9", "5100.0000") + "With the new kernel:\n\n" + &lscpu("Example 9", "4350.0000")));
    assert_eq!(found(&d), [("cpu.frequency", Confidence::Medium)]);
    let others = lscpu("Example 9", "5100.0000") + "The other machine:\n\n" + &lscpu("Example 7", "4350.0000");
    assert_eq!(found(&judged(&others)), []);
}

#[test]
fn a_stack_printed_again_and_again_is_of_one_task() {
    let stack = "[<0>] __wait_rcu_gp+0x10d/0x110\n[<0>] synchronize_rcu+0x47/0x50\n[<0>] mddev_suspend+0x4a/0x140\n\n";
    let looped = format!("# for i in 1 2 3 4; do cat /proc/812/stack; sleep 1; echo; done\n{}", stack.repeat(4));
    let d = judged(&looped);
    assert_eq!(number(&d.findings[0].evidence, "notice.waiting"), Some(1.0));
    assert_eq!(found(&d), [("task.blocked", Confidence::Low)]);
}

#[test]
fn grepped_rows_of_pidstat_show_the_kernel_thread_that_fills_a_cpu() {
    let d = judged("05:06:50 PM     0     13702    0.00   97.00    0.00    3.00   97.00     6  kworker/6:3+pm\n");
    assert_eq!(d.findings[0].key(), "cpu.system_time@kworker/6:3+pm[13702]", "{:?}", keys(&d));
}

/// What a text shows by itself, however it was pasted: without times, prompts, or the rest of a report.
#[test]
fn part_of_an_output_is_enough() {
    let jstat = "$ jstat -gc -t 812 1000\n\
        Timestamp S0C S1C S0U S1U EC EU OC OU MC MU CCSC CCSU YGC YGCT FGC FGCT GCT\n\
        900.5 5632.0 7680.0 96.0 0.0 1382400.0 0.0 495616.0 183035.0 32768.0 31917.4 3584.0 3415.5 2971 6.594 282 320.384 326.978\n\
        904.5 7168.0 8704.0 71.5 0.0 1380352.0 0.0 495616.0 187112.6 32768.0 31917.4 3584.0 3415.5 2975 6.610 298 323.147 329.757\n";
    let iperf = "$ iperf3 -c 192.0.2.2 -t 8\n\
        Connecting to host 192.0.2.2, port 5201\n\
        [  4] local 192.0.2.1 port 60920 connected to 192.0.2.2 port 5201\n\
        [ ID] Interval           Transfer     Bandwidth       Retr  Cwnd\n\
        [  4]   0.00-1.00   sec  84.8 KBytes   694 Kbits/sec    2   1.41 KBytes       \n\
        [  4]   1.00-2.00   sec  0.00 Bytes  0.00 bits/sec    1   1.41 KBytes       \n\
        [  4]   2.00-3.00   sec  0.00 Bytes  0.00 bits/sec    0   1.41 KBytes       \n\
        [  4]   3.00-4.00   sec  0.00 Bytes  0.00 bits/sec    1   1.41 KBytes       \n";
    for (text, expected) in [
        (
            "Pressure of memory here (/proc/pressure/memory):\n\n\
             some avg10=71.24 avg60=66.52 avg300=70.91 total=3559632828\nfull avg10=57.59 avg60=58.06 avg300=60.38 total=3300487258\n",
            "mem.",
        ),
        (
            "ifup: page allocation failure. order:5, mode:0x8020\nPid: 51, comm: ifup Not tainted 2.6.31 #2\n\
             ifup: page allocation failure. order:5, mode:0x8020\nifup: page allocation failure. order:5, mode:0x8020\n\
             ifup: page allocation failure. order:5, mode:0x8020\n",
            "mem.compaction",
        ),
        (
            "EDAC MC0: CE row 0, channel 0, label \"CPU_SrcID#0_Ha#0_Channel#0_DIMM#0\": 1 Unknown error(s): memory read error\n",
            "mem.hardware_errors",
        ),
        (jstat, "task.garbage_collection"),
        (iperf, "net.loss"),
        (
            "PID    DATABASE    APP   USER     CLIENT   CPU% MEM%   READ/s  WRITE/s     TIME+    Waiting  IOW     state   Query\n\
             701 shop    web   alice   192.0.2.9/32   0.0  0.1   0B   0B  04:45.79   ClientRead    N   idle in trans   UPDATE t SET s = 1\n\
             702 shop    web   alice   192.0.2.9/32   0.0  0.1   0B   0B  04:45.69   transactionid N   active   UPDATE t SET s = 2\n\
             703 shop    web   alice   192.0.2.9/32   0.0  0.1   0B   0B  04:45.58   tuple         N   active   UPDATE t SET s = 3\n",
            "db.",
        ),
        (
            "  OBJS ACTIVE  USE OBJ SIZE  SLABS OBJ/SLAB CACHE SIZE NAME\n\
             734506368 734506368 100%    0.06K 11476662       64  45906648K ebitmap_node\n\
             328160  80830  24%    0.50K  10255       32    164080K kmalloc-512\n",
            "mem.slab_growth",
        ),
    ] {
        let d = judged(text);
        let first = d.findings.first().unwrap_or_else(|| panic!("nothing is found: {text}"));
        assert!(first.id.starts_with(expected) && first.confidence >= Confidence::Medium, "{}: {text}", first.id);
    }
}
