//! Tests of `whyslow read` from the outside, on captures as people posted them.

mod captured;
mod skip;

use captured::{FIXTURES, diagnosis, figures, finding, first, keys, read, text};
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use whyslow_documents::diagnosis::{Confidence, Diagnosis, Reading, Verdict};

#[test]
fn evidence_points_at_file_and_line() {
    let d = diagnosis(&["san-iostat-x-2k-1reader.txt"]);
    for e in &finding(&d, "disk.depth_one@sdj").evidence {
        assert_eq!(e.source, "san-iostat-x-2k-1reader.txt:4-7", "{}", e.metric);
    }
    let out = read(&["-v", "san-iostat-x-2k-1reader.txt"]);
    assert!(text(&out.stdout).contains("san-iostat-x-2k-1reader.txt:4-7"));
}

#[test]
fn devices_that_are_short() {
    for (file, want) in [
        ("san-iostat-x-2k-1reader.txt", "disk.depth_one@sdj"),
        ("san-iostat-x-2k-1reader.txt", "disk.small_io@sdj"),
        ("san-iostat-x-2k-6readers.txt", "disk.saturated@sdj"),
        ("san-iostat-x-ext3-read.txt", "disk.depth_one@sdj"),
        ("san-iostat-x-ext3-write-bursts.txt", "disk.write_burst@sdj"),
        ("san-iostat-x-multipath-rr-on.txt", "disk.request_split@sdd"),
        ("san-iostat-x-xfs-bigwrite-extlog.txt", "disk.saturated@sdj"),
        ("san-sar-d-2k.txt", "disk.small_io@sdj"),
        ("san-fdisk.txt", "disk.misaligned@sdj1"),
        ("x232-iostat-x-sdb1.txt", "disk.saturated@sdb1"),
        ("x232-vmstat-2.txt", "disk.bound@host"),
    ] {
        finding(&diagnosis(&[file]), want);
    }
    let one = diagnosis(&["san-iostat-x-2k-1reader.txt"]);
    assert!(keys(&one).iter().all(|key| !key.starts_with("disk.saturated")), "{:?}", keys(&one));
    // One row of the log disk shows a wait of 105 ms, but for a single write.
    let log = diagnosis(&["san-iostat-x-xfs-bigwrite-extlog.txt"]);
    assert!(keys(&log).iter().all(|key| !key.ends_with("@sdk")), "{:?}", keys(&log));
    let misaligned = diagnosis(&["san-fdisk.txt"]);
    assert_ne!(misaligned.verdict, Verdict::Bottleneck);
}

#[test]
fn a_full_accept_queue_that_no_capture_names() {
    // sar covers TCP too, every second and with its own start; netstat's counts between its two readings remain.
    for files in
        [&["vm-netstat-s-listen-overflow.txt"][..], &["vm-netstat-s-listen-overflow.txt", "vm-sar-listen-overflow.txt"]]
    {
        let d = diagnosis(files);
        let overflow = finding(&d, "net.listen_overflow@host");
        let rate = &overflow.evidence[0].value;
        assert_eq!((overflow.confidence, rate), (Confidence::High, &Reading::Number((25_034.0 - 24_045.0) / 10.0)));
    }
}

#[test]
fn captures_side_by_side_say_which_they_are() {
    let d = diagnosis(&["san-iostat-x-4096k.txt", "san-iostat-x-1024k.txt"]);
    assert_eq!(d.findings[0].subject.capture.as_deref(), Some("san-iostat-x-4096k.txt"));
}

/// A proposal never lowers a setting that it is meant to raise: of settings that the captures show, only smaller ones
/// are proposed.
#[test]
fn a_setting_is_only_raised() {
    let folder = whyslow_testing::folder();
    let sysctl = folder.path().join("sysctl.txt");
    let settings = |files: &[&str]| {
        let d = diagnosis(files);
        assert!(first(&d).starts_with("net.window_limited@"), "{:?}", keys(&d));
        let set = d.findings[0].actions.iter().find(|action| !action.set.is_empty()).map(|action| action.set.clone());
        assert!(d.findings[0].actions.iter().any(|action| action.set.is_empty()), "something else to do");
        set.unwrap_or_default()
    };
    let with = |rmem: &str, wmem: &str| {
        std::fs::write(&sysctl, format!("net.ipv4.tcp_rmem = {rmem}\nnet.ipv4.tcp_wmem = {wmem}\n")).unwrap();
        settings(&["net-iperf-before-client.txt", sysctl.to_str().unwrap()])
    };
    let set =
        |all: &[(&str, &str)]| all.iter().map(|(name, value)| (format!("net.ipv4.{name}"), (*value).into())).collect();
    assert_eq!(with("4096\t131072\t67108864", "8192\t16384\t4194304"), set(&[("tcp_wmem", "8192 131072 16777216")]));
    assert_eq!(with("4096\t262144\t67108864", "4096\t262144\t67108864"), set(&[]));
    // If the captures do not show the setting, the proposal exceeds the default of any kernel.
    let unknown = settings(&["net-iperf-before-client.txt"]);
    assert_eq!(unknown, set(&[("tcp_rmem", "4096 131072 33554432"), ("tcp_wmem", "4096 131072 16777216")]));
}

/// iostat, mpstat and a log, each of which names its machine.
#[test]
fn captures_of_several_hosts_are_not_mixed_and_a_warning_names_them() {
    let folder = whyslow_testing::folder();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let banner = |host: &str| format!("Linux 6.1.0-18-amd64 ({host}) \t06/01/24 \t_x86_64_\t(4 CPU)\n\n");
    let device = "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await \
                  wareq-sz  aqu-sz  %util\nsda 150.00 19200.00 0.00 0.00 213.00 128.00 0.00 0.00 0.00 0.00 0.00 0.00 31.95 \
                  100.00\n\n";
    let header = "12:00:00     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n";
    let busy = |second: u32| {
        format!(
            "{header}12:00:{second:02}     all   97.00    0.00    3.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00\n\n"
        )
    };
    write("iostat.txt", &(banner("db1") + &device.repeat(4)));
    write("mpstat.txt", &(banner("web2.example.com") + &(1..5).map(busy).collect::<String>()));
    write(
        "messages",
        "Jun  1 12:00:03 web2 kernel: [  100.5] EXT4-fs error (device sdb1): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0\n",
    );
    let out = read(&["--json", folder.path().to_str().unwrap()]);
    let said = text(&out.stderr);
    assert!(said.contains("several hosts (db1, web2") && said.lines().count() == 1, "{said}");
    let d: Diagnosis = serde_json::from_slice(&out.stdout).unwrap();
    let captures: Vec<(&str, &str)> =
        d.findings.iter().map(|f| (f.id.as_str(), f.subject.capture.as_deref().unwrap_or_default())).collect();
    let of = |id: &str| captures.iter().find(|(found, _)| found.starts_with(id)).map(|(_, capture)| *capture);
    assert!(of("disk.").is_some_and(|capture| capture.ends_with("iostat.txt of db1")), "{captures:?}");
    assert!(
        of("fs.errors").is_some_and(|capture| capture.contains("messages") && capture.contains(" of web2")),
        "{captures:?}"
    );
    // A short and a full name of one machine count as one machine.
    std::fs::remove_file(folder.path().join("iostat.txt")).unwrap();
    let out = read(&["--json", folder.path().to_str().unwrap()]);
    assert_eq!(text(&out.stderr), "");
}

/// Hand-made, in the formats of Debian 12: only all three together show which guest uses the disks.
#[test]
fn guests_and_their_host_are_put_together_by_the_serial_numbers_of_disks() {
    let d = diagnosis(&["virtual-disks/db.txt", "virtual-disks/batch.txt", "virtual-disks/host.txt"]);
    let disks: Vec<_> = d
        .virtual_disks
        .iter()
        .map(|disk| (disk.guest.as_str(), disk.known_by.as_str(), disk.device.name.as_str(), disk.requests))
        .collect();
    assert_eq!(
        disks,
        [("db", "serial number DB-DATA-1", "sdb", Some(30.0)), ("batch", "serial number BATCH-1", "sdb", Some(158.0))]
    );
    let first = &d.findings[0];
    let capture = first.subject.capture.as_deref();
    assert_eq!((first.id.as_str(), capture), ("disk.saturated", Some("virtual-disks/host.txt of node1")));
    let culprits: Vec<(&str, &str)> = first.culprits.iter().map(|c| (c.kind.as_str(), c.name.as_str())).collect();
    assert_eq!(culprits, [("guest", "batch"), ("guest", "db")]);
    let of_db = d.findings.iter().find(|f| f.id == "disk.slow_device").unwrap();
    assert_eq!(of_db.explained_by.as_ref(), Some(&first.key()));
    let out = read(&["virtual-disks/host.txt", "virtual-disks/db.txt", "virtual-disks/batch.txt"]);
    let said = text(&out.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("the guests make 99 % of them, batch alone 83 %: db waits behind it."), "{said}");
    // Pseudonyms work as well as names.
    let of =
        diagnosis(&["--pseudonymise", "virtual-disks/db.txt", "virtual-disks/batch.txt", "virtual-disks/host.txt"]);
    assert_eq!(of.virtual_disks.len(), 2);
    let written = serde_json::to_string(&of).unwrap();
    assert!(!["DB-DATA", "BATCH", "node1", "\"batch"].iter().any(|name| written.contains(name)), "{written}");
}

#[test]
fn failing_parts() {
    let d = diagnosis(&["scsi-messages-1.txt", "scsi-proc-scsi.txt"]);
    let part = finding(&d, "disk.errors@0:0:1:0");
    let words = |metric: &str| match &part.evidence.iter().find(|e| e.metric == metric).unwrap().value {
        Reading::Text(text) => text.clone(),
        Reading::Number(n) => n.to_string(),
    };
    assert!(words("part.device").contains("sda3"));
    assert_eq!(words("part.model"), "SEAGATE ST373307LC, firmware 0007");
    assert_eq!((words("part.first"), words("part.last")), ("Dec 20 10:33:23".into(), "Dec 20 10:33:24".into()));

    let d = diagnosis(&["scsi-messages-2.txt"]);
    assert_eq!(first(&d), "disk.errors@0:0:1:0");
    finding(&d, "disk.raid_degraded@md3");
    assert!(keys(&d).iter().all(|key| key != "disk.errors@0:0:0:0"), "a bystander of the reset");
    let targets: Vec<_> = keys(&d).into_iter().filter(|key| key.starts_with("disk.errors@")).collect();
    assert_eq!(targets, ["disk.errors@0:0:1:0"], "the id is not in `pid 43891492`");
    assert!(!d.findings[0].summary.contains("the bus"), "{}", d.findings[0].summary);

    let d = diagnosis(&["scsi-messages-3-medium-error.txt"]);
    let part = finding(&d, "disk.errors@0:0:0:0");
    assert!(
        part.summary.contains("the disk itself") && part.summary.starts_with("sda (0:0:0:0) had 3 medium errors."),
        "{}",
        part.summary
    );
    let sense = part.evidence.iter().find(|e| e.metric == "part.sense").unwrap();
    assert!(
        format!("{:?}", sense.value).contains("ASC/ASCQ 0Ch/02h write error, auto reallocation failed"),
        "{sense:?}"
    );

    let d = diagnosis(&["scsi-dmesg-offline-md.txt"]);
    assert_eq!(first(&d), "disk.errors@0:0:1:0");
    assert!(keys(&d).iter().any(|key| key.starts_with("disk.raid_degraded@")));

    assert_eq!(first(&diagnosis(&["vm-a_scsi.txt"])), "disk.errors@0:0:0:0");
    assert_eq!(first(&diagnosis(&["vm-a2_scsi.txt"])), "disk.errors@0:0:0:0");
    let d = diagnosis(&["vm-b_md.txt"]);
    assert_eq!(first(&d), "disk.errors@1:0:0:0");
    finding(&d, "disk.raid_degraded@md0");
}

#[test]
fn free_alone_clears_memory_and_nothing_else() {
    for file in ["net-free-m-before.txt", "net-free-m-after-pin.txt"] {
        let d = diagnosis(&[file]);
        assert_eq!((d.verdict, keys(&d)), (Verdict::Undetermined, vec![]), "{file}");
        assert!(d.ruled_out.iter().any(|entry| entry.id == "memory"), "{file}: {:?}", d.ruled_out);
        assert!(d.blind_spots.iter().any(|spot| spot.what == "the CPUs"), "{file}: {:?}", d.blind_spots);
    }
}

/// Captures as people paste them, each with the answer that a colleague would give.
#[test]
fn one_capture_is_enough_where_it_shows_the_cause() {
    let folder = whyslow_testing::folder();
    let paging = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 2  7 1980420 102300   1204  80412  210  320   910   420  900 1800  6  4 70 20  0
 1 12 1991204  98120   1100  79800 9120 11204 10210 11300 4120 8010  7 12  0 81  0
 0 14 2002100  97800   1092  78812 8804 10980  9804 11010 4012 7810  6 11  0 83  0
 2 11 2010040  98010   1090  78800 9301  9980 10010 10020 4100 7990  7 12  1 80  0
";
    let link = "Linux 4.18.0-305.el8.x86_64 (nfs1) \t05/18/2023 \t_x86_64_\t(24 CPU)

03:11:10 PM     IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil
03:11:11 PM      eno1  40120.00  81210.00   2610.20 119820.40      0.00      0.00      1.00     98.16

03:11:11 PM     IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil
03:11:12 PM      eno1  40220.00  81300.00   2614.00 119900.10      0.00      0.00      0.00     98.22
";
    let listener = "State    Recv-Q   Send-Q     Local Address:Port      Peer Address:Port  Process
LISTEN   129      128              0.0.0.0:8080           0.0.0.0:*
LISTEN   0        128              0.0.0.0:22             0.0.0.0:*
";
    let softirq = "11:02:41 PM  CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
11:02:46 PM  all    3.10    0.00    4.21    0.00    0.00   24.12    0.00    0.00    0.00   68.57
11:02:46 PM    0    0.20    0.00    1.10    0.00    0.00   95.90    0.00    0.00    0.00    2.80
11:02:46 PM    1    4.10    0.00    5.20    0.00    0.00    0.30    0.00    0.00    0.00   90.40
";
    for (name, capture, key, sentence) in [
        ("vmstat.txt", paging, "mem.thrashing@host", "Memory is too small for what runs: "),
        ("sar.txt", link, "net.link_saturated@eno1", "eno1 is full: it sends "),
        (
            "ss.txt",
            listener,
            "net.listen_overflow@0.0.0.0:8080",
            "The accept queue of 0.0.0.0:8080 is full: 129 connections wait to be accepted, and its limit is 128.",
        ),
        (
            "mpstat.txt",
            softirq,
            "cpu.irq_imbalance@cpu0",
            "cpu0 spends 95.9 % of its time on interrupts and softirqs, ",
        ),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, capture).unwrap();
        let d = diagnosis(&[file.to_str().unwrap()]);
        assert_eq!(first(&d), key, "{:?}", keys(&d));
        assert!(d.findings[0].summary.starts_with(sentence), "{}", d.findings[0].summary);
    }
}

/// A process that uses several CPUs is not a single thread.
#[test]
fn a_process_on_eight_cpus_is_no_single_thread() {
    let folder = whyslow_testing::folder();
    let file = folder.path().join("top.txt");
    let top = "top - 09:41:07 up 112 days, 22:40,  3 users,  load average: 9.20, 8.71, 8.02
Tasks: 822 total,   3 running, 789 sleeping,   0 stopped,   0 zombie
%Cpu(s): 38.1 us,  2.4 sy,  0.0 ni, 58.9 id,  0.1 wa,  0.0 hi,  0.5 si,  0.0 st

  PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND
 8811 tomcat    20   0   30.1g  18.2g  21044 S 780.4 29.0  10021:33 java
";
    std::fs::write(&file, top).unwrap();
    let d = diagnosis(&[file.to_str().unwrap()]);
    assert!(keys(&d).iter().all(|key| !key.starts_with("cpu.single_thread")), "{:?}", keys(&d));
}

/// Evidence from a capture names the capture, each file once, and no file or number of this machine.
#[test]
fn evidence_names_captures_and_only_them() {
    for files in
        [&["shm-ipcs-sysctl-ulimit.txt"][..], &["proc-diskstats.txt"], &["irq-mpstat-2.txt", "irq-proc-interrupts.txt"]]
    {
        let d = diagnosis(files);
        let of_findings = d.findings.iter().flat_map(|f| &f.evidence);
        for e in of_findings.chain(d.figures.iter().flat_map(|f| &f.values)) {
            assert!(!e.source.contains('/') && !e.source.contains("BPF"), "{}: {}", e.metric, e.source);
            assert!(files.iter().all(|file| e.source.matches(file).count() <= 1), "{}: {}", e.metric, e.source);
            assert_ne!(e.value, Reading::Text(String::new()), "{}", e.metric);
        }
        for command in d.findings.iter().flat_map(|f| &f.actions).filter_map(|action| action.try_command.as_ref()) {
            assert!(!command.starts_with("cat /proc/interrupts"), "it was given: {command}");
        }
    }
}

#[test]
fn a_binary_file_beside_good_ones_is_named_and_skipped() {
    let folder = whyslow_testing::folder();
    let binary = folder.path().join("core");
    std::fs::write(&binary, b"\x7fELF\x02\x01\x01\0\0\0\n\xff\xfe\0\0".repeat(100)).unwrap();
    let out = read(&["--json", binary.to_str().unwrap(), "x232-vmstat-2.txt"]);
    assert_eq!(out.status.code(), Some(0));
    let complaint = text(&out.stderr);
    assert!(complaint.contains(&format!("skipped {}: ", binary.display())), "{complaint}");
    let d: Diagnosis = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(first(&d), "disk.bound@host");
    assert_eq!(read(&[binary.to_str().unwrap()]).status.code(), Some(2));
}

#[test]
fn a_folder_or_archive_is_read_like_its_files() {
    let folder = whyslow_testing::folder();
    assert_eq!(first(&diagnosis(&["cases/008-smr-ata-write-timeouts"])), "disk.errors@ata2.00");
    for (name, flags) in [("a.tar", "-cf"), ("a.tgz", "-czf"), ("a.tar.xz", "-cJf")] {
        let archive = folder.path().join(name);
        let archive = archive.to_str().unwrap();
        let members = [flags, archive, "cases/008-smr-ata-write-timeouts"];
        assert!(Command::new("tar").args(members).current_dir(FIXTURES).status().unwrap().success());
        let d = diagnosis(&[archive]);
        assert_eq!(first(&d), "disk.errors@ata2.00", "{name}");
        let source = &d.findings[0].evidence[0].source;
        assert!(source.starts_with(&format!("{archive}/cases/008-smr-ata-write-timeouts/dmesg.txt:")), "{source}");
    }
}

#[test]
fn copies_of_proc_are_read_as_the_live_one_is() {
    let folder = whyslow_testing::folder();
    for (at, name) in ["1", "2"].iter().enumerate() {
        let copy = folder.path().join(name);
        std::fs::create_dir(&copy).unwrap();
        for file in ["stat", "meminfo", "diskstats", "vmstat", "loadavg"] {
            std::fs::copy(format!("/proc/{file}"), copy.join(file)).unwrap();
        }
        std::fs::write(copy.join("uptime"), format!("{}.00 50.00\n", 1000 + at * 10)).unwrap();
    }
    let d = diagnosis(&[folder.path().to_str().unwrap()]);
    assert_eq!((d.window.samples, d.window.seconds), (2, 10.0));
    assert!(d.host.memory_bytes.is_some_and(|bytes| bytes > 0));
}

#[test]
fn columns_that_ran_together_are_refused_with_the_line() {
    for file in [
        "rhel-iostat-dmxz-collapsed.txt",
        "rhel-numactl-hardware-collapsed.txt",
        "rhel-perf-stat-2m-collapsed.txt",
        "rhel-perf-stat-4k-collapsed.txt",
        "rhel-sar-n-dev-collapsed.txt",
    ] {
        for more in [&[][..], &["--strict"]] {
            let out = read(&[&[file], more].concat());
            let complaint = text(&out.stderr);
            assert_eq!(out.status.code(), Some(2), "{file}");
            assert_eq!(complaint.lines().count(), 1, "{complaint}");
            assert!(complaint.contains(&format!("{file}:")) && complaint.contains("ran together"), "{complaint}");
        }
    }
}

#[test]
fn what_is_not_certain_is_refused_or_left_out_and_said() {
    let folder = whyslow_testing::folder();
    let file = folder.path().join("vmstat.txt");
    let good = std::fs::read_to_string(PathBuf::from(FIXTURES).join("x232-vmstat-2.txt")).unwrap();
    std::fs::write(&file, good.replace("0 2 0 9272 47224", "0 2 0 9272")).unwrap();
    let file = file.to_str().unwrap();
    let out = read(&["--strict", file]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("vmstat.txt:13: expected 16 columns"), "{}", text(&out.stderr));
    for old in [&[][..], &["--partial"]] {
        let d = diagnosis(&[old, &[file]].concat());
        assert_eq!(first(&d), "disk.bound@host");
        assert!(d.blind_spots.iter().any(|b| b.what.contains("line 13")), "{:?}", d.blind_spots);
    }
}

#[test]
fn a_full_file_system_in_a_list_among_text_nobody_knows() {
    let folder = whyslow_testing::folder();
    let file = folder.path().join("df.txt");
    let text = "Hello, our server is slow, and writes fail:
$ some-tool --of-our-own
a 1 2 3 4 5 6
$ df -h
Filesystem      Size  Used Avail Use% Mounted on
/dev/sda1        20G   20G     0 100% /var
/dev/loop3       56M   56M     0 100% /snap/core/1
";
    std::fs::write(&file, text).unwrap();
    let d = diagnosis(&[file.to_str().unwrap()]);
    assert_eq!(keys(&d), ["fs.full@/var"]);
}

#[test]
fn binary_files_of_sar_through_this_machines_sadf() {
    if !skip::has_program("sadf") {
        return;
    }
    let d = diagnosis(&["binary/sa21"]);
    assert_eq!((d.window.seconds, d.host.name.as_deref()), (6.0, Some("vm")));
    figures(&d, "host", &[("cpu.switches", (28_901.5 + 27_520.5 + 28_049.0) / 3.0)]);
    let folder = whyslow_testing::folder();
    let cut = folder.path().join("sa22");
    let whole = std::fs::read(PathBuf::from(FIXTURES).join("binary/sa21")).unwrap();
    std::fs::write(&cut, &whole[..100]).unwrap();
    let out = read(&[cut.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("sadf"), "{}", text(&out.stderr));
}

/// Ways to name an archive of Performance Co-Pilot: its folder, the common name of its files, any of its files.
const PCP_ARCHIVE: [&str; 4] =
    ["binary/pcp", "binary/pcp/20261126", "binary/pcp/20261126.0.xz", "binary/pcp/20261126.index"];

#[test]
fn archives_of_pcp_through_this_machines_pmlogdump() {
    let exists = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !exists("pmlogdump") && !exists("pmdumplog") {
        return skip::skip("needs pmlogdump (pcp)");
    }
    for name in PCP_ARCHIVE {
        let d = diagnosis(&[name]);
        assert_eq!((d.window.seconds.round(), d.host.name.as_deref()), (10.0, Some("db7")), "{name}");
        figures(&d, "vda", &[("disk.writes", (79_239_619.0 - 78_499_751.0) / 10.0)]);
    }
}

#[test]
fn all_files_of_a_pcp_archive_are_unpacked_for_its_tool() {
    let folder = whyslow_testing::folder();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    std::fs::copy(PathBuf::from(FIXTURES).join("pmlogdump.txt"), folder.path().join("dump")).unwrap();
    let script = folder.path().join("script");
    let checks = format!(
        "#!/bin/sh\nfor last; do :; done\n[ \"$(stat -c %s $last.0 $last.meta $last.index | tr '\\n' ' ')\" = '28368 27168 212 ' ] || exit 7\n\
         cat {}/dump\n",
        folder.path().display()
    );
    std::fs::write(&script, checks).unwrap();
    whyslow_testing::install(&script, &folder.path().join("pmdumplog"));
    let read = |name: &str, path: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
        command.args(["read", "--json", name]).current_dir(FIXTURES).env("PATH", path).output().unwrap()
    };
    for name in PCP_ARCHIVE {
        let out = read(name, &format!("{}:/usr/bin:/bin", folder.path().display()));
        assert_eq!(out.status.code(), Some(0), "{name}: {}", text(&out.stderr));
        assert!(text(&out.stdout).contains("\"name\": \"db7\""), "{name}: {}", text(&out.stdout));
        let missing = read(name, "/nonexistent");
        assert_eq!(missing.status.code(), Some(2), "{name}");
        assert!(text(&missing.stderr).contains("needs pmlogdump"), "{name}: {}", text(&missing.stderr));
        assert!(text(&missing.stderr).contains("install pcp"), "{name}: {}", text(&missing.stderr));
    }
}

#[test]
fn raw_logs_of_atop_through_this_machines_atop() {
    if !skip::has_program("atop") {
        return;
    }
    let folder = whyslow_testing::folder();
    let log = folder.path().join("atop_20240601");
    let made = Command::new("atop").args(["-w", log.to_str().unwrap(), "1", "3"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    // Only root can read it.
    std::fs::set_permissions(&log, Permissions::from_mode(0o600)).unwrap();
    let d = diagnosis(&[log.to_str().unwrap()]);
    assert!((1.0..=3.0).contains(&d.window.seconds), "{:?}", d.window);
    assert!(d.figures.iter().any(|f| f.number("cpu.busy").is_some()), "{:?}", d.figures);
    let whole = std::fs::read(&log).unwrap();
    std::fs::write(&log, &whole[..100]).unwrap();
    let out = read(&[log.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("atop"), "{}", text(&out.stderr));
}

#[test]
fn files_that_are_none_and_the_list_of_formats() {
    let empty = whyslow_testing::folder();
    for args in [&["no-such-file"][..], &[empty.path().to_str().unwrap()], &["/dev/null"]] {
        let out = read(args);
        assert_eq!((out.status.code(), text(&out.stderr).lines().count()), (Some(2), 1), "{args:?}");
    }
    let listed = Command::new(env!("CARGO_BIN_EXE_whyslow")).args(["formats", "--json"]).output().unwrap();
    let formats: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert!(formats.as_array().unwrap().iter().any(|f| f["name"] == "iostat"));
}

/// Files that are not captures, in a folder.
fn no_captures() -> (tempfile::TempDir, Vec<(&'static str, Vec<u8>)>) {
    let folder = whyslow_testing::folder();
    let shadow = "root:$6$SECRET0/abc$def:19000:0:99999:7:::\n".repeat(9);
    let key = format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{}", "SECRETb64AAAAB3NzaC1yc2EAAAADAQABAAAB\n".repeat(9));
    let random: Vec<u8> = (0..5000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let files = vec![
        ("shadow", shadow.clone().into_bytes()),
        ("one-line", shadow.lines().next().unwrap().into()),
        ("key", key.into_bytes()),
        ("numbers", b"SECRET 1 2 3 4 5 6 7 8 9\n".to_vec()),
        ("sentence", b"the SECRET is mellon, and has 7 letters\n".to_vec()),
        ("script.sh", b"#!/bin/sh\n# SECRET\nfree -m\n".to_vec()),
        ("random", random),
        ("elf", [b"\x7fELF\x02\x01\x01\0".as_slice(), &[0; 500], b"SECRET"].concat()),
        ("cut.gz", [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x4b].to_vec()),
        ("cut.xz", b"\xfd7zXZ\0\0\x04\xe6".to_vec()),
        ("empty", Vec::new()),
    ];
    for (name, bytes) in &files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    (folder, files)
}

#[test]
fn what_is_not_recognised_is_refused_and_never_quoted() {
    let (folder, files) = no_captures();
    for (name, _) in files {
        let path = folder.path().join(name).display().to_string();
        for arguments in [&[path.as_str()][..], &["--strict", &path], &["--json", &path]] {
            let out = read(arguments);
            let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), text(&out.stderr));
            assert_eq!(out.status.code(), Some(2), "{name}: {said}");
            assert!(!said.contains("SECRET"), "{name}: {said}");
            let line = said.split_once(&format!("{path}:")).unwrap_or_else(|| panic!("{name}: {said}")).1;
            assert!(line.starts_with(|c: char| c.is_ascii_digit()), "{name}: no line: {said}");
            assert!(!said.contains('\u{fffd}') && said.lines().count() <= 3, "{name}: {said}");
        }
    }
}

#[test]
fn what_cannot_be_opened_is_an_error_with_its_name() {
    let folder = whyslow_testing::folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for name in ["missing", "missing/too"] {
        let out = read(&[&path(name)]);
        assert_eq!(out.status.code(), Some(2));
        assert!(text(&out.stderr).contains(&path(name)), "{}", text(&out.stderr));
    }
    let out = read(&[&path("")]);
    assert_eq!(out.status.code(), Some(2), "an empty folder: {}", text(&out.stderr));
    assert!(text(&out.stderr).contains(path("").trim_end_matches('/')), "{}", text(&out.stderr));
}

/// Returns the most memory that reading a file took, in bytes. ru_maxrss of getrusage(2) is no alternative: it starts
/// with the memory of this process when it started the program.
fn most_memory(file: &Path) -> u64 {
    let out = std::fs::File::create(file.with_extension("out")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_whyslow")).arg("read").arg(file).stdout(out).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let peak =
            text.lines().find_map(|line| line.strip_prefix("VmHWM:")).and_then(|rest| rest.split_whitespace().next());
        most = peak.and_then(|kib| kib.parse().ok()).unwrap_or(most);
        if let Some(ended) = child.try_wait().unwrap() {
            assert!(ended.success() && most > 0, "{ended}");
            return most * 1024;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn memory_does_not_grow_with_the_file() {
    let folder = whyslow_testing::folder();
    let path = |name: &str| folder.path().join(name);
    let head = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
";
    let row = " 1  0      0 191420   8688  35780    0    0     9     9 9006   31  1  4 95  0  0\n";
    let vmstat = |rows: usize| format!("{head}{}", row.repeat(rows));
    let iostat = |reports: usize| -> String {
        let report = |n: usize| {
            let (h, m, s) = (n / 3600, n / 60 % 60, n % 60);
            let rows: String = (0..8).map(|d| format!("sd{d} 1.00 2.00 3.00 4 5\n")).collect();
            format!("06/01/2024 {h:02}:{m:02}:{s:02}\nDevice tps kB_read/s kB_wrtn/s kB_read kB_wrtn\n{rows}\n")
        };
        (0..reports).map(report).collect()
    };
    for (name, short, long) in [("vmstat", vmstat(10), vmstat(60_000)), ("iostat", iostat(10), iostat(10_000))] {
        let most = [short, long].map(|text| {
            std::fs::write(path(name), text).unwrap();
            most_memory(&path(name)) >> 20
        });
        assert!(most[1] < most[0] + 35, "{name}: {most:?} MiB");
    }
}

/// Starts a read with its temporary files in this folder.
fn reading(folder: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_whyslow"))
        .arg("read")
        .args(arguments)
        .env("TMPDIR", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits for a condition that takes a moment.
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signalled(child: &mut Child, signal: i32) {
    // SAFETY: the signal goes to our child, which has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
    until("it ends", || child.try_wait().unwrap().is_some());
}

#[test]
fn what_was_unpacked_is_removed_whatever_ends_the_reading() {
    let sources = whyslow_testing::folder();
    std::fs::create_dir_all(sources.path().join("sos/proc")).unwrap();
    std::fs::write(sources.path().join("sos/proc/stat"), "cpu 1 2 3 4\n").unwrap();
    let tar = Command::new("tar").args(["-cf", "-", "sos"]).current_dir(&sources).output().unwrap().stdout;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let folder = whyslow_testing::folder();
        let left = || std::fs::read_dir(folder.path()).unwrap().count();
        let mut child = reading(folder.path(), &["-"]);
        // Headers of two folders, and header and contents of the file; the archive continues, so the program is still
        // reading it.
        child.stdin.as_mut().unwrap().write_all(&tar[..4 * 512]).unwrap();
        until("it is unpacked", || left() == 1);
        signalled(&mut child, signal);
        assert_eq!(left(), 0, "after signal {signal}");
    }
}

#[test]
fn ctrl_c_ends_the_waiting_for_a_pipe() {
    let folder = whyslow_testing::folder();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for arguments in [&[fifo.to_str().unwrap()][..], &["-"], &[]] {
        let mut child = reading(folder.path(), arguments);
        let listens = || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
            u64::from_str_radix(caught.trim(), 16).unwrap_or(0) & (1 << (libc::SIGINT - 1)) != 0
        };
        until("it listens", listens);
        signalled(&mut child, libc::SIGINT);
        assert_eq!(child.wait().unwrap().code(), Some(2), "{arguments:?}");
    }
    // The program does not wait for a pipe in a folder either.
    assert!(Command::new("mkfifo").arg(folder.path().join("vmstat")).status().unwrap().success());
    assert_eq!(read(&[folder.path().to_str().unwrap()]).status.code(), Some(2));
}

#[test]
fn a_device_that_never_ends_is_refused() {
    for device in ["/dev/zero", "/dev/urandom"] {
        let out = read(&[device]);
        assert_eq!(out.status.code(), Some(2), "{device}");
        assert!(text(&out.stderr).contains(device), "{}", text(&out.stderr));
    }
}

#[test]
fn the_live_proc_is_read_and_its_reading_ends() {
    let d = diagnosis(&["/proc"]);
    assert!(d.ruled_out.iter().any(|r| r.id == "memory") || !d.findings.is_empty(), "{d:?}");
}

#[test]
fn a_binary_file_of_sar_that_only_root_may_read_is_read() {
    if !skip::has_program("sadf") {
        return;
    }
    let folder = whyslow_testing::folder();
    let path = folder.path().join("sa21");
    std::fs::copy(PathBuf::from(FIXTURES).join("binary/sa21"), &path).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    assert!(!diagnosis(&[path.to_str().unwrap()]).findings.is_empty());
}

#[test]
fn sadf_runs_with_limits_and_without_privileges() {
    // SAFETY: geteuid has no arguments and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    let folder = whyslow_testing::folder();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let document = std::fs::read_to_string(PathBuf::from(FIXTURES).join("sadf-j.json.txt")).unwrap();
    std::fs::write(folder.path().join("document"), document).unwrap();
    let script = folder.path().join("script");
    let checks = format!(
        "#!/bin/sh\n[ \"$(ulimit -v)\" != unlimited ] && [ \"$(ulimit -t)\" != unlimited ] && [ \"$(ulimit -f)\" = 0 ] || exit 7\n\
         [ \"$(id -u)\" != 0 ] && [ \"$(id -G)\" = 65534 ] || [ {root} = false ] || exit 8\n\
         head -c 2 /proc/self/fd/0 >/dev/null || exit 9\ncat {}/document\n",
        folder.path().display()
    );
    std::fs::write(&script, checks).unwrap();
    whyslow_testing::install(&script, &folder.path().join("sadf"));
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let out = Command::new(env!("CARGO_BIN_EXE_whyslow"))
        .args(["read", "binary/sa21"])
        .current_dir(FIXTURES)
        .env("PATH", path)
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
}
