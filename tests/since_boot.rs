//! Tests of single reports and single readings of counters, which cover the time since boot: they yield ratios, and
//! rates if the uptime is known, with less confidence than an interval. A machine with ordinary counts must get no
//! finding.
//!
//! Healthy captures are real. Faulty ones are these with other numbers, or written after the tool's output format.

mod captured;

use captured::{FIXTURES, figures, finding, keys};
use std::path::Path;
use std::sync::LazyLock;
use whyslow_diagnose::{RuleBook, VirtualMachines, diagnose, merge_diagnoses};
use whyslow_documents::diagnosis::{Confidence, Diagnosis, Finding, Origin, Reading, Verdict};
use whyslow_import::{Capture, Input};

static RULES: LazyLock<RuleBook> = LazyLock::new(RuleBook::built_in);

/// Returns the program's diagnosis of a paste, which may contain files of /proc and /sys.
fn read(paste: &str) -> Diagnosis {
    let folder = whyslow_testing::folder();
    let file = folder.path().join("paste.txt");
    std::fs::write(&file, paste).unwrap();
    captured::diagnosis(&[file.to_str().unwrap()])
}

/// Returns the diagnosis of a paste, computed as the program does.
fn judged(paste: &str) -> Diagnosis {
    let input = Input { name: "paste.txt".into(), reader: Box::new(paste.as_bytes()) };
    let captures = whyslow_import::read(vec![input], true).unwrap_or_else(|refusal| panic!("{refusal}"));
    let of = |c: &Capture| (c.label(), diagnose(&c.window, Origin::Import, &RULES));
    merge_diagnoses(captures.iter().map(of).collect(), VirtualMachines::default(), &RULES).expect("a diagnosis")
}

fn fixture(name: &str) -> String {
    let path = Path::new(FIXTURES).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns the first of several readings in a fixture, which begins at its first line or at `title`.
fn first_reading(name: &str, title: &str) -> String {
    let text = fixture(name);
    let begin = text.find(title).unwrap_or_else(|| panic!("{name}: no {title}"));
    let end = text[begin + title.len()..].find(title).map_or(text.len(), |at| begin + title.len() + at);
    let reading = text[begin..end].lines().filter(|line| !line.contains(" UTC 20"));
    reading.map(|line| format!("{line}\n")).collect()
}

/// Returns the text with one part replaced.
fn with(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "no {from}");
    text.replacen(from, to, 1)
}

/// Returns a finding after checking its confidence and its statement about the time since boot.
fn suspicion<'d>(d: &'d Diagnosis, key: &str, confidence: Confidence, words: &str) -> &'d Finding {
    let finding = finding(d, key);
    assert_eq!(finding.confidence, confidence, "{}", finding.summary);
    assert!(finding.summary.contains(words), "{}", finding.summary);
    assert!(finding.evidence.iter().any(|e| e.how.contains(", since ")), "{:?}", finding.evidence);
    assert!(d.blind_spots.iter().any(|spot| spot.what.contains("since boot")), "{:?}", d.blind_spots);
    finding
}

const IOSTAT: &str = "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm \
    w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n";

/// Returns a row of a disk that is always busy, with twelve requests queued, or of a nearly idle one.
fn disk_row(is_busy: bool) -> &'static str {
    if is_busy {
        "sda 300.00 4800.00 0.00 0.00 40.00 16.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 12.00 97.00\n\n"
    } else {
        "sda 2.00 32.00 0.00 0.00 0.50 16.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.10\n\n"
    }
}

#[test]
fn ordinary_counts_are_no_finding() {
    let since_boot = [
        ("netstat -s", fixture("since-boot/netstat-s.txt"), "net.retransmit_share"),
        ("netstat -s of two", first_reading("netstat-s.txt", "Ip:\n"), "net.retransmit_share"),
        ("nstat", first_reading("nstat-az.txt", "#kernel\n"), "net.retransmit_share"),
        ("ip -s link", fixture("since-boot/ip-s-link.txt"), "iface.error_share"),
        ("ip -s -s link", fixture("ip-s-s-link.txt"), "iface.error_share"),
        ("ifconfig", fixture("since-boot/ifconfig.txt"), "iface.error_share"),
        ("/proc/net/dev", fixture("proc-net-dev.txt"), "iface.error_share"),
        ("/proc/diskstats", fixture("proc-diskstats.txt"), "disk.wait"),
        ("vmstat -d", fixture("vmstat-d.txt"), "disk.wait"),
        ("/proc/vmstat", fixture("proc-vmstat.txt"), "mem.refault_share"),
        ("ss", first_reading("ss-tinmp.txt", "State "), "tcp.retransmitted"),
        ("mountstats", fixture("layouts/mountstats.txt"), "nfs.wait"),
        ("/proc/self/mountstats", fixture("layouts/proc-self-mountstats.txt"), "nfs.wait"),
        ("iostat -x", format!("$ iostat -x\n{IOSTAT}{}", disk_row(false)), "disk.wait"),
    ];
    for (tool, text, metric) in since_boot {
        let d = judged(&text);
        assert_eq!((keys(&d), d.verdict), (vec![], Verdict::Undetermined), "{tool}");
        // Connections are judged, but not listed.
        let known = d.figures.iter().flat_map(|f| &f.values).any(|v| v.metric == metric && v.how.contains(", since "));
        assert!(known || tool == "ss", "{tool}: no {metric} among {:?}", d.figures);
    }
}

#[test]
fn drops_that_the_kernel_counts_by_reason() {
    let nstat = |strayed: u32, too_big: u32| {
        format!(
            "$ nstat -az\n#kernel\nIpInReceives 1000000 0.0\nIpFragFails {too_big} 0.0\nTcpExtIPReversePathFilter {strayed} 0.0\n"
        )
    };
    let d = judged(&nstat(20_000, 5_000));
    suspicion(&d, "net.reverse_path@host", Confidence::Low, "20000 packets since boot, 2 % of those that arrived");
    suspicion(&d, "net.mtu_mismatch@host", Confidence::Low, "5000 packets have been dropped since boot");
    assert_eq!(keys(&judged(&nstat(900, 900))), Vec::<String>::new());
    let settings = "$ sysctl -a -r rp_filter\nnet.ipv4.conf.all.rp_filter = 0\nnet.ipv4.conf.eth1.rp_filter = 1\n";
    let d = judged(&(nstat(20_000, 0) + settings));
    let finding = finding(&d, "net.reverse_path@host");
    let strict = finding.evidence.iter().find(|e| e.metric == "drop.strict_on").map(|e| e.value.clone());
    assert_eq!(strict, Some(Reading::Text("eth1".into())));
}

#[test]
fn messages_that_netlink_sockets_have_lost() {
    let file = |drops: u32| {
        format!(
            "$ cat /proc/net/netlink\n\
             sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n\
             0000000031581c41 0   0          00000000 0        0        0     2        0        4\n\
             00000000bdc78173 0   700        00000111 213504   0        0     2        {drops}     5087020\n"
        )
    };
    suspicion(&judged(&file(4242)), "limit.netlink_buffer@route:700", Confidence::Low, "lost 4242 kernel messages");
    assert_eq!(keys(&judged(&file(42))), Vec::<String>::new());
}

#[test]
fn the_first_row_of_vmstat_alone_clears_nothing_and_accuses_nobody() {
    let pairs = ["idle", "eight-busy", "one-writer"].map(|load| format!("pairs/{load}-vmstat.txt"));
    for file in pairs.iter().map(String::as_str).chain(["x232-vmstat-2.txt", "power5-vmstat-1.txt"]) {
        let text = fixture(file);
        let header = text.lines().position(|line| line.contains("swpd")).unwrap();
        let is_row = |line: &str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        let row = header + text.lines().skip(header).position(is_row).unwrap();
        let first: String = text.lines().take(row + 1).map(|line| format!("{line}\n")).collect();
        let d = judged(&first);
        let certain = d.findings.iter().filter(|f| f.confidence > Confidence::Low).count();
        assert_eq!((certain, d.verdict), (0, Verdict::Undetermined), "{file}: {:?}", keys(&d));
        // The capture's single sample of column b does not clear a disk either.
        assert!(d.ruled_out.iter().all(|e| !["cpu", "disk"].contains(&e.id.as_str())), "{file}: {:?}", d.ruled_out);
    }
}

#[test]
fn one_report_of_iostat_is_an_average_since_boot() {
    let d = judged(&format!("$ iostat -x\n{IOSTAT}{}", disk_row(true)));
    let words = "On average since boot, sda cannot keep up: 12 requests are queued, each waiting 40 ms.";
    let saturated = suspicion(&d, "disk.saturated@sda", Confidence::Low, words);
    assert!((saturated.impact - 0.97).abs() < 1e-6 && saturated.since.is_none());
    assert_eq!(d.verdict, Verdict::Undetermined);
    // The tool prints rates; the number of requests is not known.
    figures(&d, "sda", &[("disk.requests", 300.0), ("disk.busy", 0.97)]);
    assert!(!d.figures.iter().flat_map(|f| &f.values).any(|v| v.metric == "disk.transferred"));
}

#[test]
fn reports_of_an_interval_win() {
    let report = |is_busy| format!("{IOSTAT}{}", disk_row(is_busy));
    let now = judged(&format!("$ iostat -x 5 3\n{}", report(true).repeat(3)));
    assert_eq!(finding(&now, "disk.saturated@sda").confidence, Confidence::Medium);
    assert!(!finding(&now, "disk.saturated@sda").summary.contains("since boot"));
    // The first of several reports is no evidence; a single report of a command with an interval is not certain to be
    // the first.
    let recovered = judged(&format!("$ iostat -x 5 3\n{}{}", report(true), report(false).repeat(2)));
    assert_eq!(keys(&recovered), [""; 0]);
    let cut = judged(&format!("$ iostat -x 5\n{}", report(true)));
    assert_eq!(finding(&cut, "disk.saturated@sda").confidence, Confidence::Medium);
    // Other counts of the same disk are no evidence either.
    let counts = "   8  0 sda 1000000 0 16000000 40000000 0 0 0 0 12 1000000 40000000\n";
    let both = judged(&format!(
        "$ uptime\n 16:54:42 up 17 min,  0 users,  load average: 1.24, 1.47, 2.55\n$ cat /proc/diskstats\n{counts}$ iostat -x 5 3\n{}",
        report(false).repeat(3)
    ));
    assert_eq!(keys(&both), [""; 0]);
}

#[test]
fn the_uptime_turns_counts_into_rates() {
    let counts = "$ cat /proc/diskstats\n   8  0 sda 300000 0 4800000 12000000 0 0 0 0 12 970000 12000000\n";
    let alone = judged(counts);
    assert_eq!(keys(&alone), [""; 0]);
    figures(&alone, "sda", &[("disk.wait", 0.04), ("disk.queue_busy", 12.0 / 0.97)]);
    assert!(!alone.figures.iter().flat_map(|f| &f.values).any(|v| v.metric == "disk.busy"));
    // 1000 s are 16 minutes and 40 seconds; uptime prints 20 minutes in whole minutes.
    let up = |text: &str| format!("$ uptime\n 16:54:42 up {text},  0 users,  load average: 1.24, 1.47, 2.55\n{counts}");
    let d = judged(&up("20 min"));
    figures(&d, "sda", &[("disk.busy", 970.0 / 1200.0), ("disk.requests", 250.0)]);
    suspicion(&d, "disk.saturated@sda", Confidence::Low, "On average since boot, sda cannot keep up");
    assert_eq!(keys(&judged(&up("12 days,  3:04"))), [""; 0]);
    // /proc/stat shows the uptime too: as the time that its CPUs accounted for.
    let stat = "$ cat /proc/stat\ncpu  10000 0 10000 96000 4000\ncpu0 10000 0 10000 96000 4000\nprocs_running 1\nprocs_blocked 0\n";
    figures(&judged(&format!("{stat}{counts}")), "sda", &[("disk.busy", 970.0 / 1200.0)]);
}

#[test]
fn a_machine_that_waited_for_its_disk_since_boot() {
    let head = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n \
                r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
    let row = " 0  2      0 5405000 105952 17276632    0    0  9000   300  600 1200  4  3 38 55  0\n";
    let d = judged(&format!("{head}{row}"));
    suspicion(&d, "disk.bound@host", Confidence::Low, "On average since boot, the machine waits for storage");
    // The impact is the I/O wait; the two tasks in column b add no share of the time.
    assert!((finding(&d, "disk.bound@host").impact - 0.55).abs() < 0.01);
    let stolen = row.replace(" 4  3 38 55  0", " 30  5 25  0 40");
    let stolen = judged(&format!("{head}{stolen}"));
    suspicion(&stolen, "cpu.steal@host", Confidence::Medium, "On average since boot, the hypervisor takes 40 %");
    assert_eq!(stolen.verdict, Verdict::Bottleneck);
}

#[test]
fn cpus_that_were_full_since_boot() {
    let d = judged(&fixture("proc-stat.txt"));
    figures(&d, "host", &[("cpu.busy", 0.8692), ("cpu.steal", 0.001659)]);
    assert_eq!(keys(&d), [""; 0], "three tasks for two CPUs");
    let crowded = judged(&with(&fixture("proc-stat.txt"), "procs_running 3", "procs_running 14"));
    suspicion(
        &crowded,
        "cpu.saturated@host",
        Confidence::Low,
        "busy since boot, and at the time of the capture 14 tasks were runnable for 2 CPUs",
    );
}

#[test]
fn retransmissions_and_drops_against_what_was_sent() {
    let netstat = fixture("since-boot/netstat-s.txt");
    let lossy = judged(&with(&netstat, " 35 segments retransmitted", " 25890 segments retransmitted"));
    suspicion(
        &lossy,
        "net.loss@host",
        Confidence::Medium,
        "TCP has retransmitted 7.41 % of its segments since boot (25890 segments)",
    );
    assert_eq!(lossy.verdict, Verdict::Bottleneck);
    let some = judged(&with(&netstat, " 35 segments retransmitted", " 8000 segments retransmitted"));
    suspicion(&some, "net.loss@host", Confidence::Low, "since boot");
    let opening = with(&netstat, " 35 segments retransmitted", " 25890 segments retransmitted")
        .replace("TcpExt:\n", "TcpExt:\n    TCPSynRetrans: 25000\n");
    assert_eq!(keys(&judged(&opening)), [""; 0], "peers that do not respond");
    let overflowing = with(&netstat, "    308 passive", "    90000 passive")
        .replace("TcpExt:\n", "TcpExt:\n    2000 times the listen queue of a socket overflowed\n");
    suspicion(&judged(&overflowing), "net.listen_overflow@host", Confidence::Medium, "2000 connections since boot");
    let dropped = with(
        &with(&netstat, "    132 packets received", "    90000 packets received"),
        "    488 receive buffer errors",
        "    2000 receive buffer errors",
    );
    suspicion(
        &judged(&dropped),
        "net.udp_overflow@host",
        Confidence::Medium,
        "2000 UDP datagrams were dropped since boot",
    );
    let nstat = "$ nstat -az\n#kernel\nTcpPassiveOpens 90000 0.0\nTcpOutSegs 323631 0.0\nTcpRetransSegs 25890 0.0\nTcpExtListenOverflows 2000 0.0\n";
    let d = judged(nstat);
    assert_eq!(keys(&d).iter().filter(|key| key.starts_with("net.")).count(), 2, "{:?}", keys(&d));
    suspicion(&d, "net.loss@host", Confidence::Medium, "7.41 %");
    // An interval of sar, in which nothing was retransmitted, decides.
    let sar = "Linux 6.1.0 (vm) \t11/25/26 \t_x86_64_\t(2 CPU)\n\n17:00:00     active/s passive/s    iseg/s    oseg/s\n\
        17:00:10         0.00      0.00   1000.00   1000.00\n17:00:20         0.00      0.00   1000.00   1000.00\n\n\
        17:00:00     atmptf/s  estres/s retrans/s isegerr/s   orsts/s\n\
        17:00:10         0.00      0.00      0.00      0.00      0.00\n17:00:20         0.00      0.00      0.00      0.00      0.00\n\n";
    let recovered = judged(&format!("{sar}{nstat}"));
    assert!(!keys(&recovered).contains(&"net.loss@host".to_owned()), "{:?}", keys(&recovered));
}

#[test]
fn drops_and_errors_of_a_card() {
    let link = fixture("since-boot/ip-s-link.txt");
    let missed = with(
        &link,
        "     135734038    4022      0       0       0       0",
        "     135734038    402200      0       0       5000       0",
    );
    suspicion(&judged(&missed), "net.nic_drops@eth0", Confidence::Medium, "5000 packets since boot, 1.23 %");
    let ifconfig = fixture("since-boot/ifconfig.txt")
        .replace("RX packets 4022", "RX packets 4022000")
        .replace("TX packets 2261", "TX packets 90000");
    let overrun = with(&ifconfig, "RX errors 0  dropped 0  overruns 0", "RX errors 0  dropped 0  overruns 5000");
    suspicion(&judged(&overrun), "net.nic_drops@eth0", Confidence::Low, "5000 packets since boot, 0.12 %");
    let unsent = with(
        &ifconfig,
        "TX errors 0  dropped 0 overruns 0  carrier 0",
        "TX errors 3000  dropped 0 overruns 0  carrier 3000",
    );
    suspicion(&judged(&unsent), "net.errors@eth0", Confidence::Medium, "failed to send 3000 packets since boot");
    let netstat = "Kernel Interface table\nIface      MTU    RX-OK RX-ERR RX-DRP RX-OVR    TX-OK TX-ERR TX-DRP TX-OVR Flg\n\
        eth0      1500  4022000      0      0   5000    90000      0      0      0 BMRU\n";
    suspicion(&judged(netstat), "net.nic_drops@eth0", Confidence::Low, "5000 packets since boot");
    let ethtool = "$ ethtool -S eth0\nNIC statistics:\n     rx_packets: 4022000\n     tx_packets: 90000\n     rx_missed_errors: 50000\n     rx_fifo_errors: 50000\n";
    suspicion(&judged(ethtool), "net.nic_drops@eth0", Confidence::Medium, "50000 packets since boot, 1.23 %");
}

#[test]
fn connections_since_they_were_opened() {
    let socket = |info: &str| {
        format!(
            "$ ss -tin\nState Recv-Q Send-Q Local Address:Port  Peer Address:Port\nESTAB 0      90000        10.99.1.1:55438    10.99.1.2:5201\n\t {info}\n"
        )
    };
    let healthy = "cubic wscale:7,7 rto:240 rtt:38/2 mss:1448 cwnd:10 bytes_sent:14480000 bytes_acked:14400000 segs_out:10000 \
        data_segs_out:10000 busy:100000ms retrans:0/7 minrtt:37 snd_wnd:65536";
    assert_eq!(keys(&judged(&socket(healthy))), [""; 0]);
    let lossy = judged(&socket(&with(healthy, "retrans:0/7", "retrans:0/700")));
    let key = "net.loss@10.99.1.1:55438->10.99.1.2:5201";
    suspicion(
        &lossy,
        key,
        Confidence::Medium,
        "has lost 7.00 % of its segments since it was opened (700 were retransmitted)",
    );
    let late = judged(&socket(&with(healthy, "retrans:0/7", "retrans:0/700 dsack_dups:650")));
    assert_eq!(keys(&late), [""; 0], "what arrives late is not lost");
    let held = judged(&socket(&with(healthy, "busy:100000ms", "busy:100000ms rwnd_limited:90000ms(90.0%)")));
    let key = "net.window_limited@10.99.1.1:55438->10.99.1.2:5201";
    suspicion(&held, key, Confidence::Medium, "90 % by the peer's receive window");
}

#[test]
fn nfs_since_the_mount() {
    let text = fixture("layouts/mountstats.txt");
    let slow = with(
        &text,
        "RTT: 40.000000 \ttotal execute time: 60.000000",
        "RTT: 900.000000 \ttotal execute time: 920.000000",
    );
    let slow = with(&slow, "500 ops (33%)", "50000 ops (33%)");
    // 50,000 writes of 0.92 s in a day.
    let d = judged(&slow);
    let found = suspicion(&d, "nfs.slow@/mnt/data", Confidence::Medium, "On average since the mount, NFS operations");
    assert!((found.impact - 46_000.6 / 86_400.0).abs() < 1e-6, "{}", found.impact);
    let ageless = slow.lines().filter(|line| !line.contains("age")).map(|line| format!("{line}\n")).collect::<String>();
    suspicion(
        &judged(&ageless),
        "nfs.slow@/mnt/data",
        Confidence::Medium,
        "have taken 902 ms on average since the mount",
    );
    let again = with(&text, "1000 ops (66%) \t2 retrans (0%)", "1000 ops (66%) \t90 retrans (9%)");
    suspicion(&judged(&again), "nfs.slow@/mnt/data", Confidence::Medium, "since the mount");
    let first = |text: &str| {
        let report: String = text.lines().skip(1).take(10).map(|line| format!("{line}\n")).collect();
        judged(&format!("$ nfsiostat\n{report}"))
    };
    let nfsiostat = fixture("layouts/nfsiostat-5.txt");
    assert_eq!(keys(&first(&nfsiostat)), [""; 0]);
    // Retransmissions are counted since the mount; their rate follows only from their share.
    let slow = nfsiostat.replacen(
        "0.050           0.800          16.000        0 (0.0%)           0.500           0.600",
        "5.000           80.00          16.000        900 (9.0%)       300.500         310.600",
        2,
    );
    let d = first(&slow);
    figures(
        &d,
        "/mnt/data",
        &[("nfs.operations", 10.0), ("nfs.sent_again", 0.9), ("nfs.sent_again_share", 0.09), ("nfs.wait", 0.3106)],
    );
    assert!(!d.figures.iter().flat_map(|f| &f.values).any(|v| v.metric == "nfs.done"));
    let slow = finding(&d, "nfs.slow@/mnt/data");
    assert!(slow.confidence <= Confidence::Medium && slow.summary.contains("since the mount"), "{}", slow.summary);
}

#[test]
fn a_disk_that_was_slow_since_boot() {
    let disk = |busy_ms: u32| {
        format!("   8       0 sda 20385 47283 534088 1725363 4252 287544 163082 748796 0 {busy_ms} 2505814\n")
    };
    let d = judged(&disk(3_500_000));
    suspicion(&d, "disk.slow_device@sda", Confidence::Medium, "sda has been busy 142 ms with each request");
    assert_eq!(keys(&judged(&disk(140_000))), [""; 0]);
}

#[test]
fn pages_that_were_read_again_since_boot() {
    let meminfo = |available: u64| {
        format!("MemTotal:        1000000 kB\nMemFree:           90000 kB\nMemAvailable:    {available} kB\n")
    };
    let vmstat = "pgpgin 90000000\npgpgout 1000\npswpin 0\npswpout 0\nworkingset_refault_file 20000000\noom_kill 0\n";
    let d = judged(&format!("{}{vmstat}", meminfo(150_000)));
    suspicion(
        &d,
        "mem.cache_thrash@host",
        Confidence::Low,
        "88.9 % of what was read since boot had been evicted before",
    );
    assert_eq!(keys(&judged(&format!("{}{vmstat}", meminfo(800_000)))), [""; 0]);
    let killed = judged(&format!("{}{}", meminfo(800_000), vmstat.replace("oom_kill 0", "oom_kill 3")));
    suspicion(
        &killed,
        "mem.oom_kill@host",
        Confidence::Low,
        "At some time since boot, the OOM killer killed a process (3×)",
    );
    assert_eq!(killed.verdict, Verdict::Undetermined);
}

#[test]
fn control_groups_since_they_were_created() {
    let group = |periods: u32, throttled: u32| {
        format!(
            "$ cat /sys/fs/cgroup/app.slice/cpu.stat\nusage_usec 9000000\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec 5\n\n\
            $ cat /sys/fs/cgroup/app.slice/cpu.max\n200000 100000\n"
        )
    };
    let d = read(&group(8000, 6000));
    let found = suspicion(&d, "cpu.throttled@/app.slice", Confidence::Medium, "75 %");
    assert!(found.summary.contains("2 CPUs"), "{}", found.summary);
    suspicion(&read(&group(8000, 1600)), "cpu.throttled@/app.slice", Confidence::Low, "20 %");
    assert_eq!(keys(&read(&group(8000, 100))), [""; 0]);
    assert_eq!(keys(&read(&group(8, 6))), [""; 0]);

    let limit = |reached: u32, killed: u32, anonymous: u32| {
        format!(
            "/sys/fs/cgroup/app.slice/memory.max:1000000\n/sys/fs/cgroup/app.slice/memory.current:990000\n\
            /sys/fs/cgroup/app.slice/memory.stat:anon {anonymous}\n/sys/fs/cgroup/app.slice/memory.events:max {reached}\n\
            /sys/fs/cgroup/app.slice/memory.events:oom_kill {killed}\n"
        )
    };
    suspicion(&read(&limit(5000, 0, 900_000)), "mem.cgroup_limit@/app.slice", Confidence::Medium, "5000");
    // Page cache may fill a limit.
    suspicion(&read(&limit(5000, 0, 90_000)), "mem.cgroup_limit@/app.slice", Confidence::Low, "5000");
    assert_eq!(keys(&read(&limit(50, 0, 900_000))), [""; 0]);
    suspicion(&read(&limit(5000, 3, 900_000)), "mem.oom_kill@/app.slice", Confidence::Low, "3");

    let old = "/sys/fs/cgroup/memory/docker/x/memory.failcnt:5000\n\
        /sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes:990000\n\
        /sys/fs/cgroup/memory/docker/x/memory.stat:total_rss 900000\n\
        /sys/fs/cgroup/memory/docker/x/memory.stat:hierarchical_memory_limit 1000000\n";
    suspicion(&read(old), "mem.cgroup_limit@/docker/x", Confidence::Medium, "5000");
}

#[test]
fn packets_dropped_by_the_backlog_of_a_cpu() {
    let of = |dropped: u32, other: u32| {
        let row = |processed: u32, dropped: u32| {
            format!("{processed:08x} {dropped:08x} {:08x}{}\n", 0, " 00000000".repeat(8))
        };
        format!(
            "$ cat /proc/net/softnet_stat\n{}{}{}{}",
            row(10_000_000, dropped),
            row(other, 0),
            row(other, 0),
            row(other, 0)
        )
    };
    suspicion(&judged(&of(5000, 1000)), "net.softnet@cpu0", Confidence::Medium, "5000 packets");
    suspicion(&judged(&of(5000, 9_000_000)), "net.softnet@cpu0", Confidence::Low, "5000 packets");
    suspicion(&judged(&of(90_000, 9_000_000)), "net.softnet@cpu0", Confidence::Medium, "90000 packets");
    assert_eq!(keys(&judged(&of(900, 1000))), [""; 0]);
}

#[test]
fn calls_of_the_nfs_client_that_were_sent_again() {
    let text = fixture("layouts/nfsstat-c.txt");
    let d = judged(&text);
    suspicion(&d, "nfs.slow@all NFS mounts", Confidence::Medium, "2.24 %");
    assert_eq!(keys(&judged(&with(&text, "41033", "12"))), [""; 0]);
}

/// The kernel's own means are not counts since boot, although both were read once.
#[test]
fn pressure_that_was_read_once() {
    let of = |memory: &str, io: &str| {
        let file = |name: &str, share: &str| {
            let line = |kind: &str| format!("{kind} avg10={share} avg60={share} avg300={share} total=81223311\n");
            format!("$ cat /proc/pressure/{name}\n{}{}\n", line("some"), line("full"))
        };
        file("memory", memory) + &file("cpu", "1.10") + &file("io", io)
    };
    let d = read(&of("58.20", "45.00"));
    assert_eq!(keys(&d), ["mem.thrashing@host", "disk.bound@host"]);
    assert_eq!(d.findings[0].confidence, Confidence::Medium);
    assert_eq!(keys(&read(&of("0.10", "45.00"))), ["disk.bound@host"]);
    assert_eq!(keys(&read(&of("0.10", "4.00"))), [""; 0]);
}

/// Pressure of a control group that was read once covers the last minute.
#[test]
fn pressure_of_a_control_group_at_its_limit() {
    let found = |d: &Diagnosis, key: &str, confidence: Confidence, words: &str| {
        let finding = finding(d, key);
        assert_eq!(finding.confidence, confidence, "{}", finding.summary);
        assert!(finding.summary.contains(words), "{}", finding.summary);
    };
    let of = |file: &str, share: &str, limits: &str| {
        let line = |kind: &str| format!("{kind} avg10=0.00 avg60={share} avg300={share} total=81223311\n");
        format!("# cd /sys/fs/cgroup/app.slice\n# cat {file}\n{}{}{limits}", line("some"), line("full"))
    };
    let limits = "# cat memory.current memory.high memory.max\n999000\n1000000\nmax\n";
    found(&read(&of("memory.pressure", "40.00", limits)), "mem.cgroup_limit@/app.slice", Confidence::Medium, "40 %");
    assert_eq!(keys(&read(&of("memory.pressure", "1.00", limits))), [""; 0], "at its limit, and nothing waits");
    let below = "# cat memory.current memory.high memory.max\n500000\n1000000\nmax\n";
    assert_eq!(keys(&read(&of("memory.pressure", "40.00", below))), [""; 0]);

    let limits = "# cat io.max\n8:0 rbps=10485760 wbps=max riops=max wiops=max\n";
    found(&read(&of("io.pressure", "90.00", limits)), "disk.throttled@/app.slice", Confidence::Low, "10 MiB/s");
    assert_eq!(keys(&read(&of("io.pressure", "90.00", ""))), [""; 0], "no limit");
}

/// Counts of a group between two readings show the present.
#[test]
fn files_of_a_control_group_that_were_read_twice() {
    let text = |pause: &str, throttled: u32| {
        format!(
            "$ cat /sys/fs/cgroup/app.slice/cpu.stat; {pause}; cat /sys/fs/cgroup/app.slice/cpu.stat\n\
            usage_usec 9000000\nnr_periods 8000\nnr_throttled 6000\nthrottled_usec 900000000\n\
            usage_usec 9900000\nnr_periods 8100\nnr_throttled {throttled}\nthrottled_usec {}\n",
            900_000_000 + (throttled - 6000) * 90_000
        )
    };
    let d = read(&text("sleep 10", 6080));
    assert_eq!(keys(&d), ["cpu.throttled@/app.slice"]);
    assert_eq!((d.findings[0].confidence, d.findings[0].impact), (Confidence::High, 0.72));
    assert_eq!(keys(&read(&text("sleep 10", 6000))), [""; 0], "it was throttled once, and is not any more");
}

#[test]
fn a_known_uptime_makes_what_was_counted_since_boot_no_less_certain() {
    const COUNTS: &str = "$ numastat
                           node0           node1
numa_hit             81203318844     90331204112
numa_miss            41203318220               0
numa_foreign                   0     41203318220
interleave_hit             41203           41188
local_node           81201204410     90329120331
other_node           41205432654         2083781
";
    const UPTIME: &str = "$ uptime\n 10:41:07 up 20 days,  4:11,  2 users,  load average: 0.02, 0.04, 0.11\n";
    let alone = judged(COUNTS);
    let both = judged(&format!("{COUNTS}{UPTIME}"));
    let [alone, both] = [&alone, &both].map(|d| finding(d, "mem.numa_remote@node1"));
    assert_eq!((alone.confidence, &alone.summary), (Confidence::Medium, &both.summary));
    assert_eq!(both.confidence, Confidence::Medium);
}
