//! Tests of what each published capture must yield: figures within two per cent of the printed values, and the
//! conclusions.

mod captured;

use captured::{FIXTURES, MIB, captures_of, figures, finding, first, keys, number};
use std::path::Path;
use std::sync::LazyLock;
use whyslow_diagnose::{RuleBook, VirtualMachines, diagnose, merge_diagnoses};
use whyslow_documents::diagnosis::{Confidence, Diagnosis, Origin, Verdict};
use whyslow_import::{Capture, Input, Refusal};
use whyslow_model::catalogue::Queue;

const SECTOR: f64 = 512.0;
static RULES: LazyLock<RuleBook> = LazyLock::new(RuleBook::built_in);

/// Returns the program's diagnosis of files.
fn judged(files: &[&str]) -> Result<Diagnosis, Refusal> {
    let text =
        |name: &&str| std::fs::read_to_string(Path::new(FIXTURES).join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let texts: Vec<String> = files.iter().map(text).collect();
    let captures = captures_of(files.iter().copied().zip(texts.iter().map(String::as_str)), true)?;
    let of = |c: &Capture| (c.label(), diagnose(&c.window, Origin::Import, &RULES));
    Ok(merge_diagnoses(captures.iter().map(of).collect(), VirtualMachines::default(), &RULES).expect("a diagnosis"))
}

fn diagnosis(files: &[&str]) -> Diagnosis {
    judged(files).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// Asserts the figures of one device in one capture.
fn device(file: &str, name: &str, expected: &[(&str, f64)]) {
    figures(&diagnosis(&[file]), name, expected);
}

/// Returns one number of a subject.
fn figure(d: &Diagnosis, name: &str, metric: &str) -> f64 {
    let of = d.figures.iter().filter(|f| f.subject.name == name);
    of.filter_map(|f| number(&f.values, metric)).next().unwrap_or_else(|| panic!("{name}: no {metric}"))
}

fn cleared(d: &Diagnosis, id: &str) {
    assert!(d.ruled_out.iter().any(|r| r.id == id), "{id} among {:?}", d.ruled_out);
}

#[test]
fn every_capture_is_read_alone_or_refused_as_collapsed() {
    let files = std::fs::read_dir(FIXTURES).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    for file in files.filter(|f| f.ends_with(".txt")) {
        let refused = judged(&[&file]).err().map(|refusal| refusal.to_string());
        let ran_together = refused.as_ref().is_some_and(|refusal| refusal.contains("ran together"));
        assert_eq!(ran_together, file.ends_with("-collapsed.txt"), "{file}: {refused:?}");
        assert_eq!(refused.is_some(), ran_together, "{file}: {refused:?}");
    }
}

#[test]
fn stacks_of_blocked_tasks_show_what_they_wait_for() {
    let d = diagnosis(&["proc-stacks-frozen.txt"]);
    assert_eq!(first(&d), "task.blocked@host");
    let blocked = finding(&d, "task.blocked@host");
    assert_eq!(
        blocked.summary,
        "By their kernel stacks, 2 tasks wait for a frozen file system (mnt_want_write); 9 others wait for each other or for I/O."
    );
    assert_eq!(number(&blocked.evidence, "notice.waiting"), Some(11.0));
}

#[test]
fn the_largest_object_cache_is_named() {
    for (file, bytes) in [("layouts/slabtop-o.txt", 58_880.0), ("layouts/proc-slabinfo.txt", 58_880.0)] {
        let d = diagnosis(&[file]);
        // The kernel reclaims page cache when it needs memory.
        figures(&d, "host", &[("mem.largest_cache_bytes", bytes * 1024.0)]);
        assert_eq!(keys(&d), [""; 0]);
    }
}

#[test]
fn memory_that_huge_pages_or_page_tables_take() {
    let d = diagnosis(&["layouts/meminfo-hugepages.txt"]);
    assert_eq!(keys(&d), ["mem.hugepages_unused@host"]);
    let unused = finding(&d, "mem.hugepages_unused@host");
    // 23,200 pages of 2 MiB, because 300 of the 23,500 free ones are reserved; 800 are needed.
    assert_eq!(number(&unused.evidence, "mem.hugepages_unused"), Some(23_200.0 * 2.0 * MIB));
    assert_eq!(unused.confidence, Confidence::High);
    assert_eq!(unused.actions[0].set["hugepages.nr@hugepages-2048kB"], "800");
    let d = diagnosis(&["layouts/meminfo-page-tables.txt"]);
    assert_eq!(keys(&d), ["mem.page_tables@host"]);
    // 25 GiB of 62.8 GiB, while 3.8 GiB are available.
    let tables = finding(&d, "mem.page_tables@host");
    assert_eq!(number(&tables.evidence, "mem.page_tables"), Some(25_600.0 * MIB));
    assert_eq!(tables.confidence, Confidence::High);
}

#[test]
fn a_numa_node_that_is_full() {
    let d = diagnosis(&["layouts/numastat-two-nodes.txt"]);
    assert_eq!(keys(&d), ["mem.numa_remote@node0"]);
    let remote = finding(&d, "mem.numa_remote@node0");
    // 702,914,338 of 4,921,757,345 pages.
    assert!((number(&remote.evidence, "node.foreign_share").unwrap() - 0.142_818).abs() < 1e-6);
    assert!((number(&remote.evidence, "node.free_share").unwrap() - 0.009_506).abs() < 1e-6);
    assert!((number(&remote.evidence, "node.free_elsewhere").unwrap() - 0.589_360).abs() < 1e-6);
}

#[test]
fn page_sharing_beside_huge_pages() {
    let d = diagnosis(&["layouts/ksm-thp.txt"]);
    assert_eq!(keys(&d), ["virt.ksm_splits_thp@host"]);
    let split = finding(&d, "virt.ksm_splits_thp@host");
    // 455,012 of 600,324.
    assert!((number(&split.evidence, "mem.huge_split_share").unwrap() - 0.757_944).abs() < 1e-6);
    assert_eq!(split.confidence, Confidence::Low);
}

#[test]
fn queues_rings_and_pauses_of_network_cards() {
    let d = diagnosis(&["layouts/ethtool-S-queues.txt"]);
    assert_eq!(keys(&d), ["net.nic_drops@eth2"]);
    let drops = finding(&d, "net.nic_drops@eth2");
    // 512,042 of 515,745 drops, and 214,802,113 packets received.
    assert_eq!(
        drops.summary,
        "Receive queue 2 of eth2 has dropped 99.3 % of the 515745 packets that all 4 queues have dropped since boot."
    );
    assert_eq!(number(&drops.evidence, "iface.queue_dropped"), Some(515_745.0));
    assert!((number(&drops.evidence, "iface.queue_share").unwrap() - 0.7058).abs() < 0.0001);
    let d = diagnosis(&["layouts/ethtool-S-g-missed.txt"]);
    assert_eq!(keys(&d), ["net.nic_drops@eth3"]);
    assert!(finding(&d, "net.nic_drops@eth3").summary.ends_with("it holds 256 packets, and could hold 4096."));
    let d = diagnosis(&["layouts/ethtool-S-pause.txt"]);
    assert_eq!(keys(&d), ["net.paused@eth4"]);
    // 82,114,020 packets sent.
    assert!(finding(&d, "net.paused@eth4").summary.contains("one for every 37 packets"), "{d:?}");
    assert_eq!(finding(&d, "net.paused@eth4").confidence, Confidence::Low);
}

#[test]
fn frames_that_are_too_long_are_told_from_damaged_ones() {
    let d = diagnosis(&["layouts/ethtool-S-oversize.txt"]);
    assert_eq!(keys(&d), ["net.mtu_mismatch@eth5"]);
    let long = finding(&d, "net.mtu_mismatch@eth5");
    // 214,003 of 48,425,907.
    assert!((number(&long.evidence, "iface.oversize_share").unwrap() - 0.004_419_1).abs() < 1e-6);
    assert_eq!(long.confidence, Confidence::Low);
}

#[test]
fn messages_that_a_netlink_socket_has_lost() {
    let d = diagnosis(&["proc-net-netlink.txt"]);
    assert_eq!(keys(&d), ["limit.netlink_buffer@route:8909"]);
    let lost = finding(&d, "limit.netlink_buffer@route:8909");
    assert_eq!((number(&lost.evidence, "netlink.dropped"), lost.confidence), (Some(994.0), Confidence::Low));
}

#[test]
fn what_interfaces_drop_and_damage_within_a_minute() {
    let d = diagnosis(&["layouts/proc-net-dev-twice.txt"]);
    // 600 damaged frames and 59,400 packets; 1,000 collisions and 19,000 packets sent; 3,000 dropped and 299,000 received.
    for (key, metric, value) in [
        ("net.errors@eth0", "iface.damaged_share", 600.0 / 60_000.0),
        ("net.errors@eth1", "iface.collision_share", 1_000.0 / 20_000.0),
        ("net.nic_drops@eth2", "iface.ring_drop_share", 3_000.0 / 302_000.0),
    ] {
        let found = finding(&d, key);
        assert!((number(&found.evidence, metric).unwrap() - value).abs() < 1e-9, "{found:?}");
        assert!(found.confidence >= Confidence::Medium, "{found:?}");
    }
    assert_eq!(d.findings.len(), 3, "{:?}", keys(&d));
}

#[test]
fn waits_that_were_traced() {
    // Everything is fast enough in these captures.
    assert_eq!(keys(&diagnosis(&["runqlat.txt"])), [""; 0]);
    assert_eq!(keys(&diagnosis(&["layouts/biolatency-bt.txt"])), [""; 0]);
    let d = diagnosis(&["runqslower.txt"]);
    assert_eq!(keys(&d), ["cpu.saturated@dd"]);
    assert_eq!(finding(&d, "cpu.saturated@dd").confidence, Confidence::Low);
    let d = diagnosis(&["layouts/ext4dist.txt"]);
    assert_eq!(keys(&d), ["disk.flush_bound@host"]);
    let d = diagnosis(&["layouts/ext4slower.txt"]);
    assert_eq!(keys(&d), ["disk.flush_bound@mysqld: fsync"]);
    // 53.35 ms, within 1.6 %.
    let median = number(&finding(&d, "disk.flush_bound@mysqld: fsync").evidence, "latency.median").unwrap();
    assert!((median - 0.05335).abs() < 0.0009, "{median}");
    let d = diagnosis(&["offcputime.txt"]);
    let found = finding(&d, "disk.flush_bound@python3");
    // (648,173 + 17,515 + 860,723) µs of 2 s.
    assert!((found.impact - 0.7632).abs() < 0.0001, "{found:?}");
    assert!(found.summary.contains("a block request"), "{found:?}");
}

#[test]
fn logs_of_nmon_and_atop() {
    // Both were taken while one program wrote with fsync, some hundred times a second, on an otherwise idle machine.
    for file in ["nmon.txt", "atop-P-ALL.txt", "atop.txt"] {
        assert_eq!(keys(&diagnosis(&[file])), [""; 0], "{file}");
    }
    // Both CPUs: 3, 1 and 2 ticks of waiting, out of 372, 368 and 369.
    figures(&diagnosis(&["atop-P-ALL.txt"]), "host", &[("cpu.iowait", 6.0 / 1109.0)]);
}

#[test]
fn an_archive_of_pcp() {
    // Taken while six dd processes wrote with oflag=direct,dsync.
    let d = diagnosis(&["pmlogdump.txt"]);
    assert_eq!(keys(&d), ["disk.flush_bound@vda"]);
    let found = finding(&d, "disk.flush_bound@vda");
    assert_eq!((found.confidence, found.culprits[0].name.as_str()), (Confidence::High, "dd"));
    let writes = (79_239_619.0 - 78_499_751.0) / 10.000_043;
    figures(&d, "vda", &[("disk.writes", writes)]);
    figures(&d, "host", &[("stall.io", (2_523_321_234.0 - 2_515_760_276.0) / 10_000_043.0)]);
}

#[test]
fn a_disk_on_a_slow_usb_port() {
    let d = diagnosis(&["layouts/lsusb-t.txt"]);
    assert_eq!(keys(&d), ["usb.link_degraded@1-1.4"]);
    assert_eq!(finding(&d, "usb.link_degraded@1-1.4").confidence, Confidence::Low);
}

#[test]
fn a_kernel_thread_that_fills_a_cpu() {
    let d = diagnosis(&["layouts/top-kernel-thread.txt"]);
    assert_eq!(keys(&d), ["cpu.system_time@kworker/u8:3+flush-253:0[4711]"]);
    assert_eq!((d.findings[0].confidence, d.verdict), (Confidence::Medium, Verdict::Bottleneck));
}

#[test]
fn busy_cpus_below_their_base_frequency() {
    let d = diagnosis(&["layouts/turbostat.txt"]);
    assert_eq!(first(&d), "cpu.frequency@host");
    assert!(d.findings[0].summary.contains("throttled to 1.20 GHz, 46.3 %"), "{}", d.findings[0].summary);
    let d = diagnosis(&["layouts/cpupower-frequency-info.txt"]);
    assert!(finding(&d, "cpu.frequency@host").summary.contains("1.20 GHz"), "{:?}", keys(&d));
}

#[test]
fn limits_of_the_clock_in_pasted_files_of_sysfs() {
    let d = diagnosis(&["layouts/sys-cpufreq-policy.txt"]);
    let summaries: Vec<&str> = d.findings.iter().map(|f| f.summary.as_str()).collect();
    assert_eq!(keys(&d), ["cpu.frequency@host"], "{summaries:?}");
    assert_eq!(summaries, ["The frequency policy limits CPUs to 1.20 GHz; the hardware can run at 3.60 GHz."]);
}

#[test]
fn settings_of_a_disk_are_pasted_beside_its_figures() {
    let d = diagnosis(&["iostat-x-t.json.txt", "proc-sys-grep.txt"]);
    assert!(d.figures.iter().any(|f| number(&f.values, "disk.read_ahead") == Some(8.0 * MIB)), "{:?}", d.figures);
}

#[test]
fn files_before_and_after_a_change_are_two_captures() {
    let text = "/sys/block/sda/queue/nr_requests:128\n/sys/block/sda/queue/scheduler:[none] bfq\nThen I changed it:\n/sys/block/sda/queue/nr_requests:256\n";
    let captures = captures_of([("x", text)], true).unwrap();
    let of = |c: &Capture| {
        let rows = c.window.newest::<Queue>();
        let sda = rows.values().next().map(|q| (q.nr_requests.get(), q.scheduler.get().map(str::to_owned)));
        (c.label(), rows.len(), sda)
    };
    let found: Vec<_> = captures.iter().map(of).collect();
    assert_eq!(found[0], ("x:1".into(), 1, Some((Some(128.0), Some("none".into())))));
    assert_eq!(found[1], ("x:4".into(), 1, Some((Some(256.0), None))));
    assert_eq!(found.len(), 2);
}

#[test]
fn rates_of_hdparm_are_figures_of_its_disk() {
    let d = diagnosis(&["hdparm-tT.txt"]);
    figures(&d, "buffered disk reads of /dev/loop0", &[("timed.rate", 356.69 * MIB), ("timed.seconds", 0.56)]);
    assert_eq!(keys(&d), Vec::<String>::new());
}

#[test]
fn echoes_that_are_lost_are_a_finding_and_a_host_that_never_answers_is_none() {
    let d = diagnosis(&["ping-loss.txt"]);
    assert_eq!(keys(&d), ["net.loss@192.0.2.2"]);
    let silent = "--- x ping statistics ---\n30 packets transmitted, 0 received, 100% packet loss, time 2026ms\n";
    let captures = captures_of([("x", silent)], true).unwrap();
    assert_eq!(diagnose(&captures[0].window, Origin::Import, &RULES).findings.len(), 0);
}

#[test]
fn a_link_is_degraded_only_if_its_port_supports_more() {
    let d = diagnosis(&["layouts/lspci-vv.txt"]);
    assert_eq!(keys(&d), ["pcie.link_degraded@02:00.0"]);
    assert!(d.findings[0].summary.contains("runs at 8 GT/s x2"), "{}", d.findings[0].summary);
}

#[test]
fn a_profile_names_the_lock_and_the_function() {
    for file in ["perf-report-children.txt", "layouts/perf-report-screen.txt"] {
        let d = diagnosis(&[file]);
        figures(&d, "queue-worker", &[("profile.spinning_share", 0.1754), ("profile.kernel_share", 0.9798)]);
        let lock = finding(&d, "lock.contention@queue-worker");
        assert!(lock.summary.contains("taken in futex_wake"), "{}", lock.summary);
        finding(&d, "cpu.system_time@queue-worker");
        assert_eq!(d.verdict, Verdict::Bottleneck);
    }
    let d = diagnosis(&["perf-report-no-children.txt"]);
    assert_eq!(first(&d), "mem.reclaim@report-scan");
    assert!(d.findings[0].summary.contains("its control group, which is at its memory limit"), "{:?}", d.findings[0]);
}

#[test]
fn a_block_size_alone_costs_fourteen_times() {
    device("san-sar-d-1024k.txt", "sdj", &[("disk.request_size", 1024.0 * SECTOR)]);
    device("san-iostat-1024k.txt", "sdj", &[("disk.request_size", 513.0 * 1024.0), ("disk.usual_rate", 150.0 * MIB)]);
    device(
        "san-sar-d-2k.txt",
        "sdj",
        &[("disk.request_size", 2048.0), ("disk.requests", 5460.0), ("disk.rate", 10.7 * MIB)],
    );
    let d = diagnosis(&["san-dd-1024k.txt", "san-dd-2k.txt"]);
    let rate = |block: &str| {
        let name = format!("dd of /dev/raw/raw8 bs={block}, line ");
        let of = d.figures.iter().find(|f| f.subject.name.starts_with(&name)).unwrap_or_else(|| panic!("{name}"));
        number(&of.values, "timed.rate").unwrap() / MIB
    };
    assert!((rate("1024k") / 151.25 - 1.0).abs() < 0.01 && (rate("2k") / 10.67 - 1.0).abs() < 0.01);
    assert!(first(&d).starts_with("disk.small_io@") && first(&d).contains("bs=2k,"), "{:?}", keys(&d));
}

#[test]
fn what_is_asked_for_is_cut() {
    let both = diagnosis(&["san-sar-d-1024k.txt", "san-dd-1024k.txt"]);
    finding(&both, "disk.request_split@sdj");
    assert_eq!(keys(&both).iter().filter(|key| *key == "disk.request_split@sdj").count(), 1, "{:?}", keys(&both));
    let [large, small] = ["san-iostat-x-4096k.txt", "san-iostat-x-1024k.txt"].map(|file| diagnosis(&[file]));
    for (d, queue, wait) in [(&large, 4.5, 0.0146), (&small, 1.5, 0.004_95)] {
        figures(
            d,
            "sdj",
            &[("disk.busy", 1.0), ("disk.request_size", 512.0 * 1024.0), ("disk.queue", queue), ("disk.wait", wait)],
        );
        let service = figure(d, "sdj", "disk.service");
        assert!((0.0031..0.0034).contains(&service), "{service}");
    }
    assert_eq!(first(&large), "disk.saturated@sdj");
    let pair = diagnosis(&["san-iostat-x-4096k.txt", "san-iostat-x-1024k.txt"]);
    assert!(keys(&pair).iter().any(|key| key.starts_with("disk.request_split@sdj")), "{:?}", keys(&pair));
    // The multipath driver splits the requests into 32 KiB; spreading them over its paths gains at most 5.8 %.
    let [on, off] = ["on", "off"].map(|mode| diagnosis(&[&format!("san-iostat-x-multipath-rr-{mode}.txt")]));
    finding(&on, "disk.request_split@sdd");
    finding(&off, "disk.request_split@sdd");
    figures(&on, "sdd", &[("disk.request_size", 64.0 * SECTOR)]);
    let gain = figure(&on, "sdd", "disk.rate") / figure(&off, "sdd", "disk.rate") - 1.0;
    assert!((0.05..0.06).contains(&gain), "{gain}");
}

#[test]
fn one_reader_and_six() {
    let one = diagnosis(&["san-iostat-x-2k-1reader.txt"]);
    figures(
        &one,
        "sdj",
        &[("disk.queue", 0.97), ("disk.wait", 0.18e-3), ("disk.interval", 0.18e-3), ("disk.busy", 0.97)],
    );
    finding(&one, "disk.depth_one@sdj");
    finding(&one, "disk.small_io@sdj");
    assert!(keys(&one).iter().all(|key| !key.starts_with("disk.saturated")), "{:?}", keys(&one));
    let six = diagnosis(&["san-iostat-x-2k-6readers.txt"]);
    figures(&six, "sdj", &[("disk.queue", 4.96), ("disk.wait", 0.98e-3), ("disk.service", 0.20e-3)]);
    finding(&six, "disk.saturated@sdj");
    let requests = |d: &Diagnosis, name: &str| figure(d, name, "disk.requests");
    assert!((requests(&six, "sdj") / requests(&one, "sdj") - 1.0).abs() < 0.1, "the same throughput");
}

#[test]
fn striping_moves_the_wait_and_gains_nothing() {
    let single = diagnosis(&["san-iostat-x-2k-6readers.txt"]);
    let striped = diagnosis(&["san-iostat-x-2k-6readers-striped.txt"]);
    let members: Vec<&str> = striped
        .figures
        .iter()
        .filter(|f| number(&f.values, "disk.requests").is_some_and(|n| n > 100.0))
        .map(|f| f.subject.name.as_str())
        .collect();
    let requests: Vec<f64> = members.iter().map(|name| figure(&striped, name, "disk.requests")).collect();
    assert_eq!(requests.len(), 2, "{members:?}");
    assert!((requests[0] / requests[1] - 1.0).abs() < 0.05, "{requests:?}");
    let total: f64 = requests.iter().sum();
    assert!((total / 4700.0 - 1.0).abs() < 0.02 && total <= figure(&single, "sdj", "disk.requests"), "{total}");
    for name in members {
        assert!((figure(&striped, name, "disk.queue") - 3.0).abs() < 0.6);
    }
    device(
        "san-iostat-x-512k-6readers-single.txt",
        "sdj",
        &[("disk.queue", 6.0), ("disk.reads", 311.0), ("disk.wait", 0.0194)],
    );
    let striped = diagnosis(&["san-iostat-x-512k-6readers-striped.txt"]);
    figures(&striped, "sdi", &[("disk.wait", 0.0194), ("disk.queue", 3.0), ("disk.reads", 153.0)]);
}

#[test]
fn paths_of_a_multipath_device() {
    let d = diagnosis(&["san-spmgr-display.txt"]);
    let expected = [("paths.count", 4.0), ("paths.active", 1.0), ("paths.available", 1.0), ("paths.standby", 2.0)];
    figures(&d, "spd", &expected);
    assert_eq!(figure(&d, "spd", "paths.balanced"), 0.0);
    finding(&d, "disk.path_degraded@spd");
    assert_ne!(d.verdict, Verdict::Bottleneck, "a remark");
    let failed = diagnosis(&["layouts/multipath-ll.txt"]);
    figures(&failed, "mpatha", &[("paths.count", 4.0), ("paths.active", 1.0), ("paths.failed", 2.0)]);
    finding(&failed, "disk.path_degraded@mpatha");
}

#[test]
fn a_log_on_a_disk_of_its_own() {
    let large = diagnosis(&["san-mkfs-xfs-extlog.txt", "san-iostat-x-xfs-bigwrite-extlog.txt"]);
    assert_eq!(first(&large), "disk.saturated@sdj");
    figures(&large, "sdj", &[("disk.queue", 142.0)]);
    let wait = figure(&large, "sdj", "disk.wait");
    assert!((0.2..0.51).contains(&wait), "{wait}");
    assert!(figure(&large, "sdk", "disk.busy") < 0.04, "a large stream does not use the log");
    assert!(keys(&large).iter().all(|key| !key.ends_with("@sdk")), "{:?}", keys(&large));
    let small = diagnosis(&["san-iostat-x-xfs-smallfiles-extlog.txt"]);
    let busy = figure(&small, "sdk", "disk.busy");
    assert!((0.50..=0.55).contains(&busy), "{busy}");
}

#[test]
fn a_stream_read_and_bursts_written() {
    let stream = diagnosis(&["san-iostat-x-ext3-read.txt"]);
    figures(&stream, "sdj", &[("disk.request_size", 256.0 * SECTOR), ("disk.queue", 0.98)]);
    assert!(
        keys(&stream).iter().any(|k| k == "disk.depth_one@sdj" || k == "disk.readahead@sdj"),
        "{:?}",
        keys(&stream)
    );
    let bursts = diagnosis(&["san-iostat-x-ext3-write-bursts.txt"]);
    let burst = finding(&bursts, "disk.write_burst@sdj");
    let height = number(&burst.evidence, "disk.peak_write_rate").unwrap();
    assert!((height / (208.0 * 1e6) - 1.0).abs() < 0.05, "{height}");
    // The mean of all requests: requests in the first second of a burst wait 340 ms, those in the next two 500 ms.
    let wait = figure(&bursts, "sdj", "disk.wait");
    assert!((0.34..0.52).contains(&wait), "{wait}");
}

#[test]
fn bonnie_compares_file_systems() {
    let ext3 = diagnosis(&["san-bonnie-ext3.txt"]);
    let xfs = diagnosis(&["san-bonnie-xfs.txt"]);
    let rate = |d: &Diagnosis, kind: &str| {
        let of = d.figures.iter().find(|f| f.subject.name.ends_with(kind)).unwrap_or_else(|| panic!("{kind}"));
        let [bytes, operations] = ["timed.rate", "timed.operations"].map(|metric| number(&of.values, metric));
        bytes.or(operations).unwrap()
    };
    for (kind, gain) in [("write by block", 0.11), ("create in order", 0.60), ("delete in order", 1.12)] {
        let told = rate(&xfs, kind) / rate(&ext3, kind) - 1.0;
        assert!((told - gain).abs() < 0.02, "{kind}: {told}");
    }
    let log = diagnosis(&["san-bonnie-xfs-extlog.txt"]);
    for kind in ["write by block", "rewrite", "read by block"] {
        let told = rate(&log, kind) / rate(&xfs, kind) - 1.0;
        assert!(told.abs() < 0.10, "{kind}: {told}");
    }
    for d in [&ext3, &xfs, &log] {
        assert!(d.findings.is_empty(), "a comparison, no fault: {:?}", keys(d));
    }
}

#[test]
fn threads_hide_load_from_top() {
    let top = diagnosis(&["cpu-top-threads-hidden.txt"]);
    assert!(figure(&top, "host", "cpu.attributed") < 0.05, "top's list explains next to nothing");
    let both = diagnosis(&["cpu-top-threads-hidden.txt", "cpu-ps-elfm.txt"]);
    let threads = both.findings.iter().filter(|f| f.key() == "cpu.single_thread@CPU_load_count[5970]").count();
    assert_eq!(threads, 2);
}

#[test]
fn a_database_waits_for_its_log_and_latches() {
    let d = diagnosis(&["oracle-statspack.txt"]);
    for id in ["db.log_sync@DB_NAME", "db.latch_contention@DB_NAME", "db.buffer_cache@DB_NAME"] {
        finding(&d, id);
    }
    assert!(keys(&d).iter().all(|key| !key.starts_with("db.read_latency")), "reads of 10 ms are fine");
    // Ordered by share of the database's time: 51.9 % for reads, 24.4 % for log syncs.
    let order: Vec<&str> = d.findings.iter().map(|finding| finding.id.as_str()).take(2).collect();
    assert_eq!(order, ["db.buffer_cache", "db.log_sync"]);
    let summary = &d.findings[0].summary;
    assert!(
        summary.starts_with("DB_NAME spends 51.9 % of its time on single-block reads (db file sequential read)"),
        "{summary}"
    );
    let expected = [
        ("db.latch_hit", 0.9837),
        ("db.log_sync_share", 0.24),
        ("db.log_sync_wait", 0.0125),
        ("db.read_wait", 0.010),
        ("db.buffer_hit", 0.9057),
        ("db.physical_reads", 2879.0),
    ];
    figures(&d, "DB_NAME", &expected);
}

#[test]
fn shared_memory_is_short_and_memory_is_not() {
    let d = diagnosis(&["shm-ipcs-sysctl-ulimit.txt"]);
    assert_eq!(keys(&d), ["limit.shm@kernel.shmall"]);
    figures(&d, "kernel.shmall", &[("limit.fill", 0.996), ("limit.max", 2_097_152.0 * 4096.0)]);
    let summary = &d.findings[0].summary;
    assert!(summary.contains("2089568 of 2097152 pages (8 GiB) in use"), "{summary}");
    assert!(d.findings[0].actions.iter().any(|a| a.text.contains("shmall") || a.set.contains_key("kernel.shmall")));
}

#[test]
fn a_disk_behind_iowait() {
    let vmstat = diagnosis(&["x232-vmstat-2.txt"]);
    assert_eq!(first(&vmstat), "disk.bound@host");
    cleared(&vmstat, "memory");
    // Rows from 81 to 100 %: the mean of all rows.
    let iowait = figure(&vmstat, "host", "cpu.iowait");
    assert!((0.85..=1.0).contains(&iowait), "{iowait}");
    assert!(figure(&vmstat, "host", "cpu.busy") < 0.15 && figure(&vmstat, "host", "mem.swap_in_rate") == 0.0);
    let iostat = diagnosis(&["x232-iostat-x-sdb1.txt"]);
    figures(&iostat, "sdb1", &[("disk.wait", 2.7), ("disk.queue", 101.7)]);
    let service = figure(&iostat, "sdb1", "disk.service");
    let size = figure(&iostat, "sdb1", "disk.request_size") / SECTOR;
    let writes = figure(&iostat, "sdb1", "disk.writes") / figure(&iostat, "sdb1", "disk.requests");
    assert!((0.266..0.271).contains(&service) && (748.0..781.5).contains(&size), "{service} {size}");
    assert!((writes - 0.81).abs() < 0.01, "{writes}");
    let found = ["disk.saturated@sdb1", "disk.slow_device@sdb1"];
    assert!(found.contains(&first(&iostat).as_str()), "{:?}", keys(&iostat));
}

#[test]
fn memory_pinned_on_purpose_and_windows_too_small() {
    for file in ["net-free-m-before.txt", "net-free-m-after-pin.txt"] {
        let d = diagnosis(&[file]);
        assert!(d.findings.is_empty() && d.ruled_out.iter().any(|entry| entry.id == "memory"), "{file}");
    }
    let before = diagnosis(&["net-iperf-before-client.txt", "net-iperf-before-server.txt"]);
    assert!(first(&before).starts_with("net.window_limited@"), "{:?}", keys(&before));
    let after = diagnosis(&["net-iperf-after-client.txt", "net-iperf-after-server.txt"]);
    assert!(after.findings.is_empty(), "{:?}", keys(&after));
    let told = |d: &Diagnosis, metric: &str| -> Vec<f64> {
        d.figures.iter().filter_map(|f| number(&f.values, metric)).collect()
    };
    for (d, bits, windows) in [(&before, 390e6, [27.5, 48.0]), (&after, 955e6, [192.0, 960.0])] {
        assert!(told(d, "timed.bits").iter().any(|b| (b / bits - 1.0).abs() < 0.02), "{:?}", told(d, "timed.bits"));
        for window in windows {
            assert!(told(d, "timed.window").iter().any(|w| (w / 1024.0 / window - 1.0).abs() < 0.02), "{window}");
        }
    }
    assert!(told(&before, "timed.segment").contains(&8948.0), "jumbo frames");
}

/// CPU time in a list of threads is attributed, even if the list of processes hides it.
#[test]
fn cpu_time_of_threads_is_attributed_to_their_process() {
    let d = diagnosis(&["cpu-top-threads-hidden.txt", "cpu-ps-elfm.txt"]);
    let spots: Vec<&str> = d.blind_spots.iter().map(|spot| &*spot.what).collect();
    assert!(spots.iter().all(|what| !what.contains("of the CPU time")), "{spots:?}");
    let attributed = d.cpu_explained.expect("it is known");
    assert!(attributed > 0.9, "{attributed}");
}

#[test]
fn interrupts_of_one_card() {
    let group =
        ["irq-vmstat-2.txt", "irq-mpstat-2.txt", "irq-sar-I-xall.txt", "irq-proc-interrupts.txt", "irq-ethtool-c.txt"];
    let d = diagnosis(&group);
    assert_eq!(first(&d), "cpu.interrupts@host");
    assert!(d.findings[0].summary.contains("acpi, eth2"), "{}", d.findings[0].summary);
    figures(&d, "host", &[("cpu.most_interrupt", 0.65), ("irq.busiest_rate", 350.0)]);
    // ethtool's output is for eth1.
    assert_eq!(number(&d.findings[0].evidence, "net.coalesce_rx"), None);
    // The handlers of the line name the card.
    let action = &d.findings[0].actions[0];
    assert!(action.text.starts_with("Increase interrupt coalescing (rx-usecs) of eth2;"), "{action:?}");
    assert_eq!(action.set["nic.coalesce.rx_usecs@eth2"], "100");
    for file in group {
        diagnosis(&[file]);
    }
}

#[test]
fn scsi_errors_name_the_part() {
    let suspect = |files: &[&str]| first(&diagnosis(files));
    assert_eq!(suspect(&["scsi-messages-1.txt"]), "disk.errors@0:0:1:0");
    assert_eq!(suspect(&["scsi-messages-2.txt"]), "disk.errors@0:0:1:0");
    assert_eq!(suspect(&["scsi-messages-3-medium-error.txt"]), "disk.errors@0:0:0:0");
    let reset = diagnosis(&["scsi-messages-2.txt"]);
    finding(&reset, "disk.raid_degraded@md3");
    assert!(keys(&reset).iter().all(|key| key != "disk.errors@0:0:0:0"), "a bystander of the reset");
    let named = diagnosis(&["scsi-messages-3-medium-error.txt", "scsi-proc-scsi.txt"]);
    let told = format!("{:?}", finding(&named, "disk.errors@0:0:0:0"));
    assert!(told.contains("ST373307LC") && told.contains("0007") && told.contains("sda2"), "{told}");
    let offline = diagnosis(&["scsi-dmesg-offline-md.txt"]);
    assert_eq!(first(&offline), "disk.errors@0:0:1:0");
    assert!(keys(&offline).iter().any(|key| key.starts_with("disk.raid_degraded@")));
}

#[test]
fn a_drive_that_reports_its_own_failure() {
    let d = diagnosis(&["layouts/nvme-smart-log.txt"]);
    assert_eq!(first(&d), "disk.failing@nvme0n1");
    finding(&diagnosis(&["layouts/smartctl-a.txt"]), "disk.failing@sdb");
}

#[test]
fn ports_of_a_bond_that_are_down_or_not_in_its_aggregate() {
    assert_eq!(first(&diagnosis(&["layouts/proc-net-bonding-8023ad.txt"])), "net.bond_degraded@eth2");
    assert_eq!(first(&diagnosis(&["layouts/proc-net-bonding-backup.txt"])), "net.bond_degraded@eno1");
}

#[test]
fn a_weak_radio_link_and_a_weak_power_supply() {
    for (file, interface) in [("iw-link", "wlan0"), ("iw-station-dump", "wlp2s0"), ("iwconfig", "wlan0")] {
        assert_eq!(first(&diagnosis(&[&format!("layouts/{file}.txt")])), format!("net.wireless@{interface}"));
    }
    let d = diagnosis(&["layouts/vcgencmd.txt"]);
    let told = &finding(&d, "cpu.frequency@host").summary;
    assert!(told.contains("supply voltage"), "{told}");
}

#[test]
fn an_array_that_mdadm_lists_as_degraded() {
    finding(&diagnosis(&["layouts/mdadm-detail.txt"]), "disk.raid_degraded@md0");
}

#[test]
fn guests_disks_are_volumes_on_one_of_the_servers() {
    device("power5-iostat-x-seqread.txt", "sdb", &[("disk.rate", 40.4 * MIB), ("disk.request_size", 477.0 * SECTOR)]);
    device("power5-iostat-x-randread.txt", "sdc", &[("disk.requests", 99.0), ("disk.request_size", 8.0 * SECTOR)]);
    device("power5-iostat-x-seqwrite.txt", "sdd", &[("disk.writes", 456.0), ("disk.request_size", 8.5 * SECTOR)]);
    let (client, server) = ("power5-iostat-x-concurrent.txt", "power5-iostat-x-server.txt");
    let d = diagnosis(&[client, server]);
    assert_eq!(first(&d), format!("disk.shared@sdc in {server}"), "{:?}", keys(&d));
    let shared = &d.findings[0];
    let names: Vec<&str> = shared.culprits.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["sdd", "sdc", "sdb"].map(|disk| format!("{disk} in {client}")));
    let effects: Vec<String> = d.findings.iter().filter(|f| f.explained_by.is_some()).map(|f| f.key()).collect();
    assert!(effects.iter().any(|key| key.contains(client)), "{effects:?}");
    figures(&diagnosis(&[client]), "sdb", &[("disk.rate", (3542.43 + 3.80) * 1024.0), ("disk.busy", 1.0)]);
    figures(&diagnosis(&[server]), "sdc", &[("disk.rate", (3410.89 + 1352.32) * 1024.0), ("disk.busy", 1.0)]);
}

#[test]
fn an_entitlement_below_demand_is_suspected() {
    let d = diagnosis(&["power5-iperf-before.txt", "power5-vmstat-1.txt"]);
    let steal = finding(&d, "cpu.steal@host");
    assert_ne!(d.verdict, Verdict::Bottleneck, "from vmstat alone it is a suspicion");
    assert!(!steal.summary.is_empty());
    let bits = |d: &Diagnosis| d.figures.iter().find_map(|f| number(&f.values, "timed.bits")).unwrap();
    assert!((bits(&d) / 530e6 - 1.0).abs() < 0.02);
    // 35 % while there was work, 100 % before; idle time while tasks are runnable hardly varies.
    assert!((0.35..0.6).contains(&figure(&d, "host", "cpu.idle")));
    assert!(number(&steal.evidence, "cpu.idle_spread").is_some_and(|spread| spread < 0.25), "{:?}", steal.evidence);
    assert!((bits(&diagnosis(&["power5-iperf-after.txt"])) / 1.05e9 - 1.0).abs() < 0.02);
}

#[test]
fn fsync_is_what_a_measured_transfer_waits_for() {
    let d = diagnosis(&["fio-fsync-status.txt"]);
    let finding = d.findings.iter().find(|f| f.id == "disk.flush_bound").expect("a finding");
    assert!(finding.subject.name.starts_with("small: write"), "{:?}", finding.subject);
    assert!((number(&finding.evidence, "timed.sync_share").unwrap() - 0.97).abs() < 0.01, "{:?}", finding.evidence);
}

#[test]
fn a_limit_holds_the_throughput_at_a_round_figure() {
    let d = diagnosis(&["iostat-h-limited.txt"]);
    assert_eq!(first(&d), "disk.throttled@loop0", "{:?}", keys(&d));
}

#[test]
fn traced_requests_show_that_they_were_split() {
    let d = diagnosis(&["layouts/blkparse-split.txt"]);
    let split = finding(&d, "disk.request_split@loop0");
    let share = number(&split.evidence, "disk.split_share");
    assert!(share.is_some_and(|share| (share - 15.0 / 16.0).abs() < 0.02), "{share:?}");
}

#[test]
fn redis_at_its_memory_limit_evicts_and_refuses_clients() {
    let d = diagnosis(&["redis-info-evictions.txt"]);
    assert_eq!(keys(&d), ["limit.connections@Redis:7001", "db.memory_limit@Redis:7001"]);
    figures(&d, "Redis:7001", &[("db.memory_fill", 0.974), ("db.evicted_rate", 463.4), ("db.fork_time", 0.001_261)]);
    assert!(finding(&d, "limit.connections@Redis:7001").summary.contains("refused 24 connections"), "{:?}", keys(&d));
    assert_eq!(keys(&diagnosis(&["redis-info.txt"])), [""; 0]);
}

#[test]
fn redis_that_is_swapped_out_or_cannot_sync_is_named() {
    let text = std::fs::read_to_string(Path::new(FIXTURES).join("redis-info.txt")).unwrap();
    let with = |changes: &[(&str, &str)]| {
        let changed = text.lines().map(|line| {
            let change = changes.iter().find(|(name, _)| line.split_once(':').is_some_and(|(field, _)| field == *name));
            change.map_or(line.to_owned(), |(name, value)| format!("{name}:{value}")) + "\n"
        });
        let text: String = changed.collect();
        let input = Input { name: "x".into(), reader: Box::new(std::io::Cursor::new(text.into_bytes())) };
        let captures = whyslow_import::read(vec![input], true).unwrap();
        keys(&diagnose(&captures[0].window, Origin::Import, &RULES))
    };
    let swapped = with(&[("used_memory", "8589934592"), ("used_memory_rss", "4294967296")]);
    assert_eq!(swapped, ["mem.thrashing@Redis:7002"]);
    assert_eq!(with(&[("latest_fork_usec", "1400000")]), ["db.fork@Redis:7002"]);
    // An append-only file is reported only if there is one.
    assert_eq!(with(&[("aof_last_write_status", "ok\naof_delayed_fsync:120")]), ["db.log_sync@Redis:7002"]);
    assert_eq!(
        with(&[("used_memory", "8589934592"), ("maxmemory", "8589934592")]).first().unwrap(),
        "db.memory_limit@Redis:7002"
    );
}

#[test]
fn row_locks_of_innodb_are_waited_for() {
    let d = diagnosis(&["innodb-status-locks.txt"]);
    assert_eq!(first(&d), "db.lock_waits@InnoDB");
    figures(
        &d,
        "InnoDB",
        &[("db.lock_waiters", 5.0), ("db.sessions", 7.0), ("db.lock_longest", 25.03), ("db.buffer_hit", 0.892)],
    );
    finding(&d, "db.buffer_cache@InnoDB");
    assert_eq!(keys(&diagnosis(&["innodb-status-idle.txt"])), [""; 0]);
}

#[test]
fn an_idle_transaction_explains_who_waits_for_its_locks() {
    for file in ["psql-activity.txt", "psql-activity-x.txt", "psql-activity-age.txt"] {
        let d = diagnosis(&[file]);
        assert_eq!(keys(&d), ["db.old_transaction@PostgreSQL", "db.lock_waits@PostgreSQL"], "{file}");
        assert_eq!(d.findings[0].explains, ["db.lock_waits@PostgreSQL"]);
        assert_eq!(d.verdict, Verdict::Bottleneck);
    }
}

#[test]
fn counts_of_postgresql_name_forced_checkpoints_and_temporary_files() {
    let d = diagnosis(&["psql-bgwriter.txt"]);
    assert_eq!(keys(&d), ["db.checkpoint@PostgreSQL"]);
    assert_eq!(keys(&diagnosis(&["psql-bgwriter-idle.txt"])), [""; 0]);
    let d = diagnosis(&["psql-database.txt"]);
    assert_eq!(keys(&d), ["db.temp_files@app"]);
    figures(&d, "app", &[("db.buffer_hit", 0.962), ("db.read_share", 0.0232)]);
}

#[test]
fn thin_pools_snapshots_and_suspended_volumes() {
    let d = diagnosis(&["layouts/lvs-a.txt"]);
    let found = keys(&d);
    let expected = [
        "disk.suspended@vg0/data",
        "disk.raid_degraded@vg0/r1",
        "fs.full@vg0/old",
        "fs.filling@vg0/pool0",
        "fs.filling@vg0/before",
    ];
    assert_eq!(found, expected);
    assert!(finding(&d, "fs.filling@vg0/pool0").summary.contains("97.8 % full"), "{:?}", d.findings[2]);
    assert_eq!(keys(&diagnosis(&["layouts/lvs.txt"])), [""; 0]);
    let d = diagnosis(&["layouts/dmsetup-status.txt"]);
    assert_eq!(first(&d), "fs.full@vg0-pool0-tpool");
    finding(&d, "disk.raid_degraded@vg0-r1");
    finding(&d, "disk.path_degraded@mpatha");
    assert_eq!(keys(&diagnosis(&["layouts/dmsetup-info.txt"])), ["disk.suspended@vg0-data"]);
}

#[test]
fn containers_near_their_limit_or_killed_for_memory() {
    let d = diagnosis(&["layouts/docker-stats.txt"]);
    assert_eq!(keys(&d), ["mem.cgroup_limit@web"]);
    assert!(d.blind_spots.iter().any(|spot| spot.what.contains("throttling")), "{:?}", d.blind_spots);
    let d = diagnosis(&["layouts/kubectl-describe-pod.txt"]);
    assert_eq!(keys(&d), ["mem.oom_kill@shop/web-5d8f7c9b6d-x2x7k/app"]);
    assert!(d.findings[0].summary.contains("limit is 512 MiB; it has been restarted 7×"), "{}", d.findings[0].summary);
    assert_eq!(keys(&diagnosis(&["layouts/kubectl-describe-node.txt"])), ["mem.eviction@worker1"]);
    for healthy in ["layouts/kubectl-top-pod-A.txt", "layouts/systemd-cgtop-b-n-2.txt"] {
        assert_eq!(keys(&diagnosis(&[healthy])), [""; 0], "{healthy}");
    }
}

#[test]
fn zones_of_a_healthy_machine_are_no_finding() {
    for file in ["proc-buddyinfo.txt", "proc-zoneinfo.txt"] {
        assert_eq!(keys(&diagnosis(&[file])), [""; 0], "{file}");
    }
    figures(
        &diagnosis(&["proc-zoneinfo.txt"]),
        "DMA32 of node 0",
        &[("zone.min", 2116.0), ("zone.managed", 772_915.0)],
    );
}

#[test]
fn awr_names_locks_checkpoints_and_temporary_segments() {
    let d = diagnosis(&["layouts/oracle-awr.txt"]);
    assert_eq!(keys(&d), ["db.lock_waits@SHOP", "db.checkpoint@SHOP"]);
    figures(
        &d,
        "SHOP",
        &[
            ("db.lock_share", 0.412),
            ("db.checkpoint_share", 0.118),
            ("db.temp_share", 0.085),
            ("db.latch_share", 0.073),
        ],
    );
    assert!(finding(&d, "db.lock_waits@SHOP").summary.contains("41.2 %"), "{:?}", d.findings[0]);
}
