//! Tests of kernel logs with every kind of fault: the first finding, what it explains, and what must not be reported.

mod captured;
mod mail;

use captured::WIDTHS;
use mail::wrapped;
use whyslow_diagnose::{RuleBook, diagnose};
use whyslow_documents::diagnosis::{Basis, Confidence, Diagnosis, Finding, Origin, Reading, Verdict};
use whyslow_import::{Input, read};

thread_local! {
    static BOOK: RuleBook = RuleBook::built_in();
}

/// Returns the diagnosis of a log, which must be the same after a mail program wrapped the log.
fn diagnosis(log: &str) -> Diagnosis {
    let clean = diagnosis_of(log);
    for width in WIDTHS {
        let mail = wrapped(log, width);
        let found = diagnosis_of(&mail);
        assert_eq!(figures(&found), figures(&clean), "wrapped at {width}:\n{mail}");
    }
    clean
}

/// Returns the findings with all their numbers.
fn figures(d: &Diagnosis) -> Vec<String> {
    let of = |f: &Finding| {
        let numbers = f.evidence.iter().map(|e| format!("{} {:?}", e.metric, e.value));
        std::iter::once(format!("{} {:?} {}", f.key(), f.confidence, f.summary)).chain(numbers).collect::<Vec<_>>()
    };
    d.findings.iter().flat_map(of).collect()
}

fn diagnosis_of(log: &str) -> Diagnosis {
    let input = Input { name: "log".into(), reader: Box::new(log.as_bytes()) };
    let captures = read(vec![input], true).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(captures.len(), 1);
    BOOK.with(|book| diagnose(&captures[0].window, Origin::Import, book))
}

fn keys(d: &Diagnosis) -> Vec<String> {
    d.findings.iter().map(Finding::key).collect()
}

/// Returns the finding that must come first.
fn first(log: &str, key: &str) -> Finding {
    let d = diagnosis(log);
    assert_eq!(keys(&d).first().map(String::as_str), Some(key), "{log}\n{:#?}", keys(&d));
    assert_eq!(d.verdict, Verdict::Bottleneck, "{log}");
    d.findings.into_iter().next().expect("there is one")
}

fn told(finding: &Finding, metric: &str) -> String {
    match finding.evidence.iter().find(|e| e.metric == metric).map(|e| &e.value) {
        Some(Reading::Text(text)) => text.clone(),
        Some(Reading::Number(n)) => n.to_string(),
        None => String::new(),
    }
}

/// Returns all advice of a finding.
fn advice(finding: &Finding) -> String {
    finding.actions.iter().map(|a| a.text.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_disk_behind_ata_is_one_part_under_both_its_names() {
    let log = "[    1.100000] scsi host0: ahci
[    1.100001] scsi host1: ahci
[    1.100002] ata1: SATA max UDMA/133 abar m2048@0xf7d36000 port 0xf7d36100 irq 27
[    1.100003] ata2: SATA max UDMA/133 abar m2048@0xf7d36000 port 0xf7d36180 irq 27
[    1.600000] ata2.00: ATA-8: WDC WD10EZEX-08WN4A0, 01.01A01, max UDMA/133
[    1.700000] scsi 1:0:0:0: Direct-Access     ATA      WDC WD10EZEX-08W 1A01 PQ: 0 ANSI: 5
[    1.800000] sd 1:0:0:0: [sdb] 1953525168 512-byte logical blocks: (1.00 TB/932 GiB)
[ 5000.000001] ata2.00: exception Emask 0x0 SAct 0x10 SErr 0x0 action 0x0
[ 5000.000002] ata2.00: irq_stat 0x40000008
[ 5000.000003] ata2.00: failed command: READ FPDMA QUEUED
[ 5000.000004] ata2.00: cmd 60/08:20:70:55:56/00:00:10:00:00/40 tag 4 ncq dma 4096 in
[ 5000.000004]          res 41/40:00:70:55:56/00:00:10:00:00/40 Emask 0x409 (media error) <F>
[ 5000.000005] ata2.00: status: { DRDY ERR }
[ 5000.000006] ata2.00: error: { UNC }
[ 5000.100000] ata2.00: configured for UDMA/133
[ 5000.100001] sd 1:0:0:0: [sdb] tag#4 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_SENSE cmd_age=3s
[ 5000.100002] sd 1:0:0:0: [sdb] tag#4 Sense Key : Medium Error [current]
[ 5000.100003] sd 1:0:0:0: [sdb] tag#4 Add. Sense: Unrecovered read error - auto reallocate failed
[ 5000.100004] sd 1:0:0:0: [sdb] tag#4 CDB: Read(10) 28 00 10 56 55 70 00 00 08 00
[ 5000.100005] blk_update_request: I/O error, dev sdb, sector 274093424 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0
[ 5000.100006] ata2: EH complete
[ 5000.200000] EXT4-fs error (device sdb1): __ext4_get_inode_loc:4388: inode #131: block 1057: comm ls: unable to read itable block
[ 5000.300000] Aborting journal on device sdb1-8.
[ 5000.300001] EXT4-fs (sdb1): Remounting filesystem read-only
";
    let part = first(log, "disk.errors@1:0:0:0");
    assert_eq!(told(&part, "part.kinds"), "1 medium error");
    assert_eq!(
        told(&part, "part.sense"),
        "Medium Error, ASC/ASCQ 11h/04h unrecovered read error, auto reallocate failed"
    );
    assert_eq!(told(&part, "part.model"), "WDC WD10EZEX-08W, firmware 1A01");
    assert_eq!(told(&part, "part.sectors"), "one spot: 1 different, 274093424 to 274093424");
    assert_eq!(part.explains, ["fs.readonly@sdb1", "fs.errors@sdb1"]);
    assert!(advice(&part).contains("no fsck"), "{}", advice(&part));
    assert_eq!(part.actions[0].try_command.as_deref(), Some("smartctl -x /dev/sdb"));
}

#[test]
fn a_cable_is_told_from_a_disk() {
    let log = "Mar  1 10:00:00 nas kernel: ata3.00: exception Emask 0x10 SAct 0x7 SErr 0x400100 action 0x6 frozen
Mar  1 10:00:00 nas kernel: ata3: SError: { UnrecovData Handshk }
Mar  1 10:00:00 nas kernel: ata3.00: failed command: WRITE FPDMA QUEUED
Mar  1 10:00:00 nas kernel: ata3.00: cmd 61/08:00:70:55:56/00:00:10:00:00/40 tag 0 ncq 4096 out
Mar  1 10:00:00 nas kernel:          res 40/00:14:70:55:56/00:00:10:00:00/40 Emask 0x10 (ATA bus error)
Mar  1 10:00:00 nas kernel: ata3.00: status: { DRDY }
Mar  1 10:00:00 nas kernel: ata3: hard resetting link
Mar  1 10:00:05 nas kernel: ata3.00: error: { ICRC ABRT }
Mar  1 10:00:06 nas kernel: ata3: limiting SATA link speed to 1.5 Gbps
";
    let part = first(log, "disk.errors@ata3.00");
    assert!(advice(&part).contains("cable") && part.summary.contains("the path to it"), "{}", part.summary);
    assert_eq!(
        (told(&part, "part.first"), told(&part, "part.last")),
        ("Mar  1 10:00:00".into(), "Mar  1 10:00:06".into())
    );
}

#[test]
fn a_bus_is_told_from_its_disks_and_bystanders_are_named() {
    let sense = |id: u32| format!("sd 2:0:{id}:0: [sd{}] tag#1 ", char::from(b'a' + id as u8));
    let mut log = String::new();
    for id in [1, 2] {
        log += &format!(
            "[  100.00000{id}] {}FAILED Result: hostbyte=DID_TIME_OUT driverbyte=DRIVER_OK cmd_age=30s\n",
            sense(id)
        );
        log += &format!(
            "[  100.00000{id}] blk_update_request: I/O error, dev sd{}, sector {}\n",
            char::from(b'a' + id as u8),
            id * 1000
        );
    }
    log += &format!("[  101.000000] {}Sense Key : Unit Attention [current]\n", sense(0));
    log += &format!("[  101.000001] {}Add. Sense: Scsi bus reset occurred\n", sense(0));
    let part = first(&log, "disk.errors@2:0:1:0");
    assert!(part.summary.contains("the bus"), "{}", part.summary);
    assert_eq!(told(&part, "part.bystanders"), "2:0:0:0");
    assert!(!keys(&diagnosis(&log)).contains(&"disk.errors@2:0:0:0".to_owned()));

    let log = format!(
        "[   99.000000] mpt3sas_cm0: fault_state(0x2622)!\n[   99.500000] mpt3sas_cm0: sending diag reset !!\n{log}"
    );
    let d = diagnosis(&log);
    let adapter = d.findings.iter().find(|f| f.key() == "disk.errors@mpt3sas_cm0").expect("the adapter");
    assert_eq!(told(adapter, "part.kinds"), "2 adapter faults");
    assert!(d.findings.iter().all(|f| f.summary.contains("the host adapter")), "{:?}", keys(&d));
}

/// Resets and taking a device offline are not errors: the counts add up.
#[test]
fn errors_resets_and_the_end_are_separate_figures() {
    let line = |minute: u32, text: &str| format!("Dec 20 10:{minute}:00 nas kernel: sd 0:0:0:0: [sda] {text}\n");
    let timeout = line(30, "tag#1 FAILED Result: hostbyte=DID_TIME_OUT driverbyte=DRIVER_OK");
    let medium = line(31, "tag#1 Sense Key : Medium Error [current]");
    let reset = line(32, "device reset occurred");
    let offline = line(33, "Device offlined - not ready after error recovery");
    let rejected = line(34, "rejecting I/O to offline device");
    let summary = |log: &[&str]| {
        let part = first(&log.concat(), "disk.errors@0:0:0:0");
        let [errors, resets, offline] = ["part.errors", "part.resets", "part.offline"].map(|name| told(&part, name));
        let sentence = part.summary.split(". ").next().unwrap_or_default().to_owned();
        (sentence, format!("{errors} {resets} {offline}"))
    };
    for (log, sentence, figures) in [
        (vec![&*timeout], "sda (0:0:0:0) had 1 timeout, at Dec 20 10:30:00", "1 0 0"),
        (
            vec![&timeout, &timeout, &reset],
            "sda (0:0:0:0) had 2 timeouts, and was reset once, from Dec 20 10:30:00 to 10:32:00",
            "2 1 0",
        ),
        (
            vec![&timeout, &medium, &reset, &reset, &reset, &offline, &rejected],
            "sda (0:0:0:0) had 1 medium error and 1 timeout, and was reset 3 times and taken offline, \
             from Dec 20 10:30:00 to 10:34:00",
            "2 3 2",
        ),
        (vec![&rejected, &rejected], "sda (0:0:0:0) was taken offline, at Dec 20 10:34:00", "0 0 2"),
    ] {
        assert_eq!(summary(&log), (sentence.to_owned(), figures.to_owned()));
    }
}

#[test]
fn a_session_that_ends_is_the_way_and_not_the_disk() {
    let log = "Jun  1 12:00:00 db kernel: connection1:0: detected conn error (1022)
Jun  1 12:02:01 db kernel: session1: session recovery timed out after 120 secs
Jun  1 12:02:01 db kernel: sd 3:0:0:0: rejecting I/O to offline device
Jun  1 12:02:01 db kernel: blk_update_request: I/O error, dev sdc, sector 2048
";
    let d = diagnosis(log);
    let part = d.findings.iter().find(|f| f.key() == "disk.errors@3:0:0:0").expect("the disk that went");
    assert!(part.summary.contains("the path to it"), "{}", part.summary);
}

/// A log shows part of the lost time.
#[test]
fn the_time_a_log_tells_of() {
    let timeout = |at: &str| {
        format!(
            "Jun  1 12:{at} nas kernel: sd 0:0:0:0: [sda] tag#1 FAILED Result: hostbyte=DID_TIME_OUT driverbyte=DRIVER_OK cmd_age=30s\n"
        )
    };
    let line = |at: &str| format!("Jun  1 12:{at} nas kernel: eth0: nothing\n");
    // Two timeouts, the second 10 s after the first: at least 40 s of 800 s were lost.
    let log = [line("00:00"), timeout("05:00"), timeout("05:10"), line("13:20")].concat();
    let part = first(&log, "disk.errors@0:0:0:0");
    assert_eq!((told(&part, "part.lost"), told(&part, "part.log_span")), ("40".into(), "800".into()));
    assert!((part.impact - 0.05).abs() < 1e-9, "{}", part.impact);
    assert_eq!(part.impact_is, Basis::AtLeast);
    // An excerpt around the error covers less time than was lost, and one without timestamps shows no time at all.
    for log in [timeout("05:00"), timeout("05:00").replace("Jun  1 12:05:00 nas kernel: ", "")] {
        let part = first(&log, "disk.errors@0:0:0:0");
        assert_eq!(part.impact_is, Basis::NotMeasured);
    }
}

#[test]
fn a_disk_on_usb_is_known_by_its_serial_number() {
    let log = "[    2.000000] usb 2-1: SerialNumber: 57583431
[    2.100000] scsi host6: usb-storage 2-1:1.0
[    3.000000] scsi 6:0:0:0: Direct-Access     WD       Elements 25A3    1021 PQ: 0 ANSI: 6
[    3.100000] sd 6:0:0:0: [sdd] 7813969920 512-byte logical blocks
[   99.000000] sd 6:0:0:0: [sdd] tag#0 Sense Key : Medium Error [current]
[   99.000001] sd 6:0:0:0: [sdd] tag#0 Add. Sense: Unrecovered read error
[   99.000002] blk_update_request: critical medium error, dev sdd, sector 4656
";
    let part = first(log, "disk.errors@6:0:0:0");
    assert_eq!(
        (told(&part, "part.serial"), told(&part, "part.model")),
        ("57583431".into(), "WD Elements 25A3, firmware 1021".into())
    );
}

#[test]
fn nvme_says_what_it_is_and_where() {
    let log = "[  900.000000] nvme nvme0: I/O 12 QID 3 timeout, aborting
[  930.000000] nvme nvme0: I/O 12 QID 3 timeout, reset controller
[  990.000000] nvme nvme0: Device not ready; aborting reset, CSTS=0x1
[  990.000001] nvme nvme0: Removing after probe failure status: -19
[  990.000002] blk_update_request: I/O error, dev nvme0n1, sector 4656 op 0x1:(WRITE) flags 0x8800 phys_seg 1 prio class 0
";
    let part = first(log, "disk.errors@nvme0");
    assert_eq!(told(&part, "part.kinds"), "2 timeouts");
    assert_eq!(told(&part, "part.device"), "nvme0n1");
    assert!(
        part.summary.starts_with("nvme0 had 2 timeouts, and was taken offline, from 900.000 to 990.000 s after boot."),
        "{}",
        part.summary
    );
    let log = "[    9.000000] nvme0n1: Read(0x2) @ LBA 4656, 8 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81) DNR
[    9.000001] blk_update_request: critical medium error, dev nvme0n1, sector 4656 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0
";
    let part = first(log, "disk.errors@nvme0");
    assert_eq!(told(&part, "part.kinds"), "1 medium error");
    assert!(part.summary.contains("the disk itself"), "{}", part.summary);
}

#[test]
fn other_disks_of_every_age() {
    for (log, key, kinds) in [
        (
            "hda: dma_intr: status=0x51 { DriveReady SeekComplete Error }\nhda: dma_intr: error=0x40 { UncorrectableError }, LBAsect=1234, sector=1234\nend_request: I/O error, dev hda, sector 1234\n",
            "disk.errors@hda",
            "1 medium error",
        ),
        (
            "[   10.000000] mmcblk0: error -110 transferring data, sector 4656, nr 8, cmd response 0x900, card status 0x0\n[   10.000001] blk_update_request: I/O error, dev mmcblk0, sector 4656\n",
            "disk.errors@mmcblk0",
            "1 timeout",
        ),
        (
            "SCSI error : <0 0 1 0> return code = 0x8000002\nsdb: Current: sense key: Medium Error\n    Additional sense: Unrecovered read error\nend_request: I/O error, dev sdb, sector 1234\n",
            "disk.errors@0:0:1:0",
            "1 medium error",
        ),
        (
            "[   10.000000] sd 0:0:0:0: [sda] Sense Key : 0x4 [current]\n[   10.000001] sd 0:0:0:0: [sda] ASC=0x44 ASCQ=0x0\n[   10.000002] print_req_error: I/O error, dev sda, sector 99\n",
            "disk.errors@0:0:0:0",
            "1 hardware error",
        ),
        (
            "[   10.000000] megaraid_sas 0000:03:00.0: 1234 (5s/0x0002/WARN) - Unexpected sense: PD 04(e0x08/s4) Path 4433, CDB: 28 00, Sense: 3/11/00\n",
            "disk.errors@PD 04(e0x08/s4)",
            "1 medium error",
        ),
        (
            "[   10.000000] xvda: nothing\n[   11.000000] blk_update_request: I/O error, dev xvda, sector 99\n[   11.000001] blk_update_request: I/O error, dev xvda, sector 199\n[   12.000000] blk_update_request: 18 callbacks suppressed\n[   12.000001] blk_update_request: I/O error, dev xvda, sector 299\n",
            "disk.errors@xvda",
            "21 failed requests",
        ),
    ] {
        let part = first(log, key);
        assert_eq!(told(&part, "part.kinds"), kinds, "{log}");
    }
}

#[test]
fn an_array_that_was_rebuilt_is_complete_again() {
    let failed = "[  100.000000] md/raid1:md0: Disk failure on sdb1, disabling device.
[  100.000001] md/raid1:md0: Operation continuing on 1 devices.
[  200.000000] md: recovery of RAID array md0
";
    let degraded = first(failed, "disk.raid_degraded@md0");
    assert!(!degraded.summary.contains("complete again"), "{}", degraded.summary);
    let rebuilt = diagnosis(&format!("{failed}[  900.000000] md: md0: recovery done.\n"));
    assert_eq!(keys(&rebuilt), ["disk.raid_degraded@md0"]);
    let finding = &rebuilt.findings[0];
    assert_eq!(finding.summary, "The array md0 lost a disk and has been rebuilt since: it is complete again.");
    assert_eq!(told(finding, "array.rebuilt"), "1");
}

#[test]
fn a_memory_card_is_not_asked_for_smart_data() {
    let log = "[   10.000000] mmcblk0: error -110 transferring data, sector 4656, nr 8, cmd response 0x900, card status 0x0\n";
    let part = first(log, "disk.errors@mmcblk0");
    assert!(part.actions.iter().all(|action| action.try_command.is_none()), "{:?}", part.actions);
}

/// Two disks that fail months apart, or one with a bad medium, say nothing about a component that they share.
#[test]
fn a_bus_is_blamed_only_for_what_fails_together_and_on_the_way() {
    let timed_out = |day: &str, id: u32, disk: &str| {
        format!(
            "{day} nas kernel: sd 2:0:{id}:0: [{disk}] tag#1 FAILED Result: hostbyte=DID_TIME_OUT driverbyte=DRIVER_OK cmd_age=30s\n\
             {day} nas kernel: blk_update_request: I/O error, dev {disk}, sector {id}\n"
        )
    };
    let medium = |day: &str, id: u32, disk: &str| {
        format!(
            "{day} nas kernel: sd 2:0:{id}:0: [{disk}] tag#1 Sense Key : Medium Error [current]\n\
             {day} nas kernel: sd 2:0:{id}:0: [{disk}] tag#1 Add. Sense: Unrecovered read error\n"
        )
    };
    let points_at = |log: String, key: &str| {
        let d = diagnosis(&log);
        let found = d.findings.iter().find(|finding| finding.key() == key).unwrap_or_else(|| panic!("{key}"));
        let words = told(found, "part.points_at");
        words.split([':', ',']).next().unwrap_or_default().to_owned()
    };
    let together = timed_out("Mar  1 10:00:00", 1, "sdb") + &timed_out("Mar  1 10:20:00", 2, "sdc");
    assert_eq!(points_at(together, "disk.errors@2:0:1:0"), "the bus");
    let apart = timed_out("Mar  1 10:00:00", 1, "sdb") + &timed_out("May  3 10:00:00", 2, "sdc");
    assert_eq!(points_at(apart.clone(), "disk.errors@2:0:1:0"), "this one target");
    assert_eq!(points_at(apart, "disk.errors@2:0:2:0"), "this one target");
    let bad_medium = timed_out("Mar  1 10:00:00", 1, "sdb")
        + &medium("Mar  1 10:00:10", 2, "sdc")
        + &timed_out("Mar  1 10:00:20", 2, "sdc");
    assert_eq!(points_at(bad_medium.clone(), "disk.errors@2:0:1:0"), "this one target");
    assert_eq!(points_at(bad_medium, "disk.errors@2:0:2:0"), "the disk itself");
}

/// Advice addresses the program that logs the message.
#[test]
fn advice_is_for_the_program_that_the_log_shows() {
    let only = |log: &str| diagnosis_of(log).findings.into_iter().next().unwrap_or_else(|| panic!("{log}"));
    let etcd = "2026-11-29 10:00:00.000000 W | wal: sync duration of 2.1s, expected less than 1s\n";
    let finding = only(etcd);
    assert!(finding.summary.starts_with("etcd reports") && !advice(&finding).contains("no-appendfsync"), "{finding:?}");
    let redis = "[812] 03 May 11:20:36 * Asynchronous AOF fsync is taking too long (disk is busy?). Writing the AOF buffer without waiting for fsync to complete, this may slow down Redis.\n";
    let finding = only(redis);
    assert!(finding.summary.starts_with("Redis reports") && advice(&finding).contains("no-appendfsync"), "{finding:?}");
    let postgres = "FATAL:  sorry, too many clients already\n";
    let finding = only(postgres);
    let commands: Vec<&str> = finding.actions.iter().filter_map(|action| action.try_command.as_deref()).collect();
    assert!(finding.summary.starts_with("PostgreSQL refused"), "{}", finding.summary);
    assert!(commands.iter().all(|command| command.starts_with("psql")) && !commands.is_empty(), "{commands:?}");
}

/// The time that tasks and CPUs were stuck is the time that the kernel logged.
#[test]
fn how_long_a_task_hung_is_what_the_log_says() {
    let hung =
        |seconds: u32| format!("[70614.000000] INFO: task backup:812 blocked for more than {seconds} seconds.\n");
    let summary = |log: &str, key: &str| first(log, key).summary.clone();
    assert!(
        summary(&hung(70614), "task.blocked@host").starts_with("Tasks hung, the longest for more than 19.6 h (1×)")
    );
    assert!(
        summary(&(hung(10) + &hung(20)), "task.blocked@host")
            .starts_with("Tasks hung, the longest for more than 20 s (2×)")
    );
    let lockup = "[  812.000000] watchdog: BUG: soft lockup - CPU#1 stuck for 522s! [kworker/1:2:1234]\n";
    assert!(summary(lockup, "cpu.lockup@host").starts_with("A CPU was stuck in the kernel for 8.70 min (1×"));
}

/// The share of a killed process relates to the limit that was reached.
#[test]
fn whose_memory_it_was_is_a_share_of_the_limit() {
    let log = |limit: u64, resident: u64| {
        format!(
            "[  247.000000] cron invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), nodemask=(null), order=0\n\
             [  247.000000] memory: usage {limit}kB, limit {limit}kB, failcnt 12\n\
             [  247.000000] Memory cgroup out of memory: Killed process 900 (web) total-vm:9kB, anon-rss:{resident}kB, file-rss:0kB, shmem-rss:0kB\n"
        )
    };
    let who = |limit, resident| -> Vec<(String, f64)> {
        let finding = first(&log(limit, resident), "mem.oom_kill@web[900]");
        finding.culprits.iter().map(|culprit| (culprit.name.clone(), (culprit.share * 100.0).round())).collect()
    };
    let rest = "memory that the log does not show";
    assert_eq!(who(409_600, 242_688), [("web".to_owned(), 59.0), (rest.to_owned(), 41.0)]);
    assert_eq!(who(1_048_576, 1_536), [(rest.to_owned(), 100.0)]);
    // The log does not show how much memory there was.
    let bare = "[  247.000000] Out of memory: Killed process 900 (web) total-vm:9kB, anon-rss:1536kB, file-rss:0kB\n";
    assert!(first(bare, "mem.oom_kill@web[900]").culprits.is_empty());
}

/// The summary names the killed process, the largest user of memory, and the limit, as far as the log of each kernel
/// generation shows them.
#[test]
fn the_headline_of_an_oom_kill() {
    let table = "[ pid ]   uid  tgid total_vm      rss nr_ptes nr_pmds swapents oom_score_adj name\n\
                 [  900]     0   900   104448     1280     200       3        0             0 sshd\n\
                 [ 4711]     0  4711  9104448  1310720     200       3        0             0 java\n";
    let killed = "Killed process 900 (sshd) total-vm:417792kB, anon-rss:4096kB, file-rss:1024kB, shmem-rss:0kB\n";
    let invoked = "cron invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), nodemask=(null), order=0\n";
    let id = "0123456789abcdef".repeat(4);
    for (log, sentence) in [
        (
            format!("{invoked}{table}Out of memory: Kill process 900 (sshd) score 5 or sacrifice child\n{killed}"),
            "The machine ran out of memory, and the OOM killer killed sshd (pid 900), which held 5 MiB; \
             java (pid 4711) held the most, 5 GiB.",
        ),
        (
            format!("Out of memory: {killed}"),
            "The machine ran out of memory, and the OOM killer killed sshd (pid 900), which held 5 MiB.",
        ),
        (
            "Out of Memory: Killed process 900 (sshd).\n".to_owned(),
            "The machine ran out of memory, and the OOM killer killed sshd (pid 900).",
        ),
        (
            format!(
                "{invoked}Task in /docker/{id} killed as a result of limit of /docker/{id}\n\
                 memory: usage 524288kB, limit 524288kB, failcnt 12\n\
                 Memory cgroup stats for /docker/{id}: cache:0KB rss:4096KB shmem:0KB dirty:0KB writeback:0KB\n\
                 Memory cgroup out of memory: Kill process 900 (sshd) score 998 or sacrifice child\n{killed}"
            ),
            "The OOM killer killed sshd (pid 900) because container 0123456789ab reached its own memory limit of \
             512 MiB.",
        ),
        (
            format!("Memory cgroup out of memory: {killed}"),
            "The OOM killer killed sshd (pid 900) because its cgroup reached its own memory limit.",
        ),
        (
            format!(
                "{invoked}memory: usage 524288kB, limit 524288kB, failcnt 12\nshmem 471859200\n{table}\
                 oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
                 oom_memcg=/system.slice/web.service,task_memcg=/system.slice/web.service,task=sshd,pid=900,uid=0\n\
                 Memory cgroup out of memory: {killed}"
            )
            .replace("1310720", "  13107"),
            "The OOM killer killed sshd (pid 900) because unit web reached its own memory limit of 512 MiB; \
             tmpfs and shared memory held the most, 450 MiB.",
        ),
        (
            format!("{invoked}oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=0,cpuset=db\nOut of memory: {killed}"),
            "The NUMA nodes that its processes may use ran out of memory, and the OOM killer killed sshd (pid 900), \
             which held 5 MiB.",
        ),
        (
            format!("Out of memory: {killed}").repeat(3),
            "The machine ran out of memory, and the OOM killer killed sshd 3 times (last pid 900), which held 5 MiB.",
        ),
    ] {
        let stamped: String = log.lines().map(|line| format!("[  247.000000] {line}\n")).collect();
        assert_eq!(first(&stamped, "mem.oom_kill@sshd[900]").summary, sentence, "{log}");
    }
}

#[test]
fn each_message_leads_to_its_finding() {
    for (log, key) in [
        (
            "[ 1.000000] x\n[  247.000000] INFO: task mysqld:900 blocked for more than 120 seconds.\n",
            "task.blocked@host",
        ),
        ("[  247.000000] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [kworker/1:2:1234]\n", "cpu.lockup@host"),
        ("[  247.000000] rcu: INFO: rcu_sched self-detected stall on CPU\n", "cpu.lockup@host"),
        ("[  247.000000] mce: [Hardware Error]: Machine check events logged\n", "cpu.machine_check@host"),
        (
            "[  247.000000] EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1 offset:0x0)\n",
            "mem.hardware_errors@CPU_SrcID#0_Ha#0_Chan#1_DIMM#0",
        ),
        (
            "[  247.000000] CPU3: Core temperature above threshold, cpu clock throttled (total events = 77)\n",
            "cpu.frequency@host",
        ),
        ("Mar 21 16:57:39 lb kernel: nf_conntrack: table full, dropping packet.\n", "net.conntrack_full@host"),
        ("Mar 21 16:57:39 lb kernel: Neighbour table overflow.\n", "limit.neighbors@net.ipv4.neigh.default.gc_thresh3"),
        (
            "[  247.000000] TCP: request_sock_TCP: Possible SYN flooding on port 443. Sending cookies.  Check SNMP counters.\n",
            "net.listen_overflow@*:443",
        ),
        ("[  247.000000] TCP: out of memory -- consider tuning tcp_mem\n", "limit.tcp_memory@net.ipv4.tcp_mem"),
        (
            "[  247.000000] NETDEV WATCHDOG: eth0 (e1000e): transmit queue 0 timed out\n[  247.000001] e1000e 0000:00:19.0 eth0: Reset adapter unexpectedly\n",
            "net.errors@eth0",
        ),
        ("[  247.000000] VFS: file-max limit 65536 reached\n", "limit.file_table@fs.file-max"),
        (
            "[  247.000000] cgroup: fork rejected by pids controller in /system.slice/web.service\n",
            "limit.processes@/system.slice/web.service",
        ),
        ("[  247.000000] nfs: server filer1 not responding, still trying\n", "nfs.slow@filer1"),
        (
            "[  247.000000] general protection fault: 0000 [#1] SMP PTI\n[  247.000001] RIP: 0010:kfree+0x5/0x90\n",
            "kernel.oops@host",
        ),
        ("[  247.000000] XFS (dm-0): Log I/O Error Detected.  Shutting down filesystem\n", "fs.readonly@dm-0"),
        (
            "[  247.000000] BTRFS warning (device sda2): csum failed root 5 ino 257 off 0 csum 0x1 expected csum 0x2\n",
            "fs.errors@sda2",
        ),
        ("[  247.000000] device-mapper: multipath: 253:3: Failing path 8:32.\n", "disk.path_degraded@dm-3"),
        (
            "[  247.000000] device-mapper: thin: 253:4: switching pool to out-of-data-space (queue IO) mode\n",
            "fs.full@dm-4",
        ),
        ("[  247.000000] md/raid1:md0: Disk failure on sdb1, disabling device.\n", "disk.raid_degraded@md0"),
        ("[  247.000000] Disabling IRQ #16\n", "cpu.interrupts@16"),
        (
            "[  247.000000] workqueue: drm_fb_helper_damage_work hogged CPU for >10000us 16 times, consider switching to WQ_UNBOUND\n",
            "cpu.system_time@host",
        ),
        (
            "[  247.000000] e1000e: eth0 NIC Link is Up 100 Mbps Half Duplex, Flow Control: None\n",
            "net.speed_mismatch@eth0",
        ),
        (
            "[  247.000000] Out of memory: Killed process 4711 (hog) total-vm:1kB, anon-rss:2kB\n",
            "mem.oom_kill@hog[4711]",
        ),
    ] {
        first(log, key);
    }
}

/// The handlers are in lines that matter nowhere else.
#[test]
fn a_disabled_interrupt_names_its_handlers() {
    let log = "[  247.000000] irq 16: nobody cared (try booting with the \"irqpoll\" option)\n\
               [  247.000001] handlers:\n\
               [  247.000002] [<00000000fb4d4f4b>] usb_hcd_irq [usbcore]\n\
               [  247.000003] Disabling IRQ #16\n";
    let found = first(log, "cpu.interrupts@16");
    assert!(found.summary.starts_with("The kernel disabled interrupt line 16 (usb_hcd_irq) because"), "{found:?}");
}

#[test]
fn a_link_that_flaps_is_found_and_one_that_comes_up_is_not() {
    let flap = "[  247.000000] e1000e: eth0 NIC Link is Down\n[  250.000000] e1000e: eth0 NIC Link is Up 1000 Mbps Full Duplex\n";
    assert_eq!(keys(&diagnosis(flap)), Vec::<String>::new());
    let part = first(&flap.repeat(4), "net.errors@eth0");
    assert_eq!(told(&part, "notice.count"), "4");
}

#[test]
fn an_ejected_medium_is_no_error_and_one_that_fails_later_is() {
    let read = |key: &str, sense: &str| {
        format!(
            "[  100.000000] sd 6:0:0:0: [sdc] tag#0 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK cmd_age=0s\n\
             [  100.000001] sd 6:0:0:0: [sdc] tag#0 Sense Key : {key} [current]\n\
             [  100.000002] sd 6:0:0:0: [sdc] tag#0 Add. Sense: {sense}\n\
             [  100.000003] sd 6:0:0:0: [sdc] tag#0 CDB: Read(10) 28 00 00 00 08 00 00 00 08 00\n\
             [  100.000004] I/O error, dev sdc, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0\n\
             [  100.000005] Buffer I/O error on dev sdc1, logical block 0, async page read\n"
        )
    };
    let ejected = read("Not Ready", "Medium not present").repeat(5);
    assert_eq!(keys(&diagnosis(&ejected)), Vec::<String>::new());
    let failing = ejected + &read("Medium Error", "Unrecovered read error");
    first(&failing, "disk.errors@6:0:0:0");
}

#[test]
fn a_boot_without_errors_is_cleared_and_does_not_make_the_machine_healthy() {
    let mut log = String::from(
        "[    0.000000] Linux version 6.1.0\n[    1.000000] ata1: SATA link down (SStatus 0 SControl 300)
[    1.100000] sd 0:0:0:0: Power-on or device reset occurred\n[    1.200000] blk_update_request: I/O error, dev fd0, sector 0
[    1.300000] sr 1:0:0:0: [sr0] Sense Key : Not Ready [current]\n[    1.300001] sr 1:0:0:0: [sr0] Add. Sense: Medium not present
[    1.400000] md/raid1:md0: active with 2 out of 2 mirrors\n[    1.500000] e1000e: eth0 NIC Link is Up 1000 Mbps Full Duplex
[    1.600000] EXT4-fs (sda1): mounted filesystem with ordered data mode\n",
    );
    for at in 0..300 {
        log += &format!("[   {}.000000] pci 0000:00:{at:02x}.0: BAR 1: assigned\n", at + 10);
    }
    let d = diagnosis(&log);
    assert_eq!(keys(&d), Vec::<String>::new());
    assert_eq!(d.verdict, Verdict::Undetermined);
    let cleared = d.ruled_out.iter().find(|r| r.id == "kernel log").expect("the log is cleared");
    assert!(cleared.because.starts_with("309 lines"), "{}", cleared.because);
    let piece: String = log.lines().take(20).map(|line| format!("{line}\n")).collect();
    // Somebody picked out a short excerpt for a reason: the log is not cleared, but the report says what was checked.
    let d = diagnosis(&piece);
    let known: Vec<(&str, &str)> = d.ruled_out.iter().map(|r| (r.id.as_str(), r.because.as_str())).collect();
    assert_eq!((d.verdict, known), (Verdict::Undetermined, vec![("kernel log excerpt", "no known error in 20 lines")]));
}

/// Stacks that this machine printed: writers on a loop device whose file is on a file system frozen with fsfreeze.
const FROZEN: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/fixtures/hung-tasks-frozen-dmesg.txt"));

#[test]
fn hung_tasks_name_what_holds_them_up() {
    let finding = first(FROZEN, "task.blocked@host");
    assert_eq!(
        finding.summary,
        "Tasks hung, the longest for more than 4 s (10×): 2 tasks wait for a frozen file system (lo_rw_aio); 8 others wait for each other or for I/O."
    );
    assert_eq!(told(&finding, "notice.count"), "10");
    assert!(
        told(&finding, "notice.waits").starts_with("4 for a page to be written (folio_wait_writeback): dd[9264], ")
    );
    assert!(advice(&finding).contains("fsfreeze -u"), "{}", advice(&finding));
    // Without a stack, the finding names the tasks themselves.
    let messages: String = FROZEN.lines().filter(|line| line.contains("blocked for")).take(1).collect();
    let finding = first(&messages, "task.blocked@host");
    assert!(finding.summary.contains("kworker/u8:5[22740]; storage, a file system or a lock"), "{}", finding.summary);
}

#[test]
fn a_list_of_blocked_tasks_without_messages_is_judged_by_the_stacks() {
    let list = FROZEN.lines().filter(|line| !line.contains("blocked for") && !line.contains("echo 0"));
    let list: String =
        "[ 2980.000000] sysrq: Show Blocked State".lines().chain(list).map(|line| line.to_owned() + "\n").collect();
    let finding = first(&list, "task.blocked@host");
    assert_eq!(
        finding.summary,
        "By their kernel stacks, 2 tasks wait for a frozen file system (lo_rw_aio); 8 others wait for each other or for I/O."
    );
    assert_eq!((finding.confidence, told(&finding, "notice.waiting")), (Confidence::Medium, "10".to_owned()));
}

// Modelled on watchdog_timer_fn in kernel/watchdog.c, dump_stack_print_info in lib/dump_stack.c and show_regs of x86.
#[test]
fn a_stuck_cpu_is_found_where_it_spins() {
    let log = "[  247.000000] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [kworker/1:2:1234]
[  247.000001] Modules linked in: ahci libahci
[  247.000002] CPU: 1 UID: 0 PID: 1234 Comm: kworker/1:2 Not tainted 6.12.0 #1
[  247.000003] RIP: 0010:native_queued_spin_lock_slowpath+0x6e/0x2e0
[  247.000004] Call Trace:
[  247.000005]  <TASK>
[  247.000006]  _raw_spin_lock_irqsave+0x3d/0x50
[  247.000007]  ahci_port_thread_fn+0x2e/0xb0 [libahci]
";
    let finding = first(log, "cpu.lockup@host");
    assert_eq!(told(&finding, "notice.waits"), "kworker/1:2[1234] spins for a spinlock in ahci_port_thread_fn");
    assert!(
        finding.summary.ends_with(": kworker/1:2[1234] spins for a spinlock in ahci_port_thread_fn."),
        "{}",
        finding.summary
    );
}

/// Locks of the task that crashed stay locked.
#[test]
fn a_crash_explains_what_hangs_after_it_and_not_what_hung_before() {
    let crash = "[  300.000000] BUG: unable to handle page fault for address: ffffc90000000018\n\
                 [  300.000001] Oops: 0000 [#1] SMP PTI\n\
                 [  300.000002] RIP: 0010:bio_endio+0x17/0x70\n";
    let hang = |second: u32| format!("[  {second}.000000] INFO: task mysqld:900 blocked for more than 120 seconds.\n");
    let found = first(&format!("[    1.000000] x\n{crash}{}", hang(500)), "kernel.oops@host");
    assert_eq!(
        (found.confidence, found.explains.as_slice()),
        (Confidence::High, &["task.blocked@host".to_owned()][..])
    );
    assert!(found.summary.starts_with("The kernel crashed (1×) in bio_endio:"), "{}", found.summary);
    let before = first(&format!("[    1.000000] x\n{}{crash}", hang(247)), "task.blocked@host");
    assert_eq!(before.explained_by, None);
}

/// Soft mounts give up: that is an event, not a state.
#[test]
fn a_server_that_did_not_answer_a_soft_mount_once_is_only_a_suspicion() {
    let once = "[  247.000000] nfs: server filer1 not responding, timed out\n";
    assert_eq!(diagnosis(once).findings[0].confidence, Confidence::Low);
    let often: String = (0..5).map(|n| once.replace("247", &format!("{}", 247 + n * 60))).collect();
    assert_eq!(diagnosis(&often).findings[0].confidence, Confidence::High);
    let waits = once.replace("timed out", "still trying");
    assert_eq!(diagnosis(&waits).findings[0].confidence, Confidence::High);
}

#[test]
fn programs_report_limits_that_the_kernel_does_not_log() {
    let shell = "$ podman exec -it web /bin/bash\nbash: fork: retry: Resource temporarily unavailable\n\
                 bash: fork: retry: Resource temporarily unavailable\n";
    let found = diagnosis_of(shell).findings.remove(0);
    assert_eq!((found.key().as_str(), found.confidence), ("limit.processes@host", Confidence::Medium));
    assert!(found.summary.contains("(2×)"), "{}", found.summary);
    for client in [
        "PHP Warning:  mysqli_connect(): (08004/1040): Too many connections in /srv/db.php on line 7",
        "ERROR 1040 (08004): Too many connections",
        "FATAL:  sorry, too many clients already",
        "2024-06-01 10:00:00 UTC [81] FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
    ] {
        assert_eq!(keys(&diagnosis_of(&format!("{client}\n"))), ["limit.connections@host"], "{client}");
    }
    let redis = "[812] 03 May 11:20:36 * Asynchronous AOF fsync is taking too long (disk is busy?). Writing the AOF buffer \
                 without waiting for fsync to complete, this may slow down Redis.\n";
    assert_eq!(keys(&diagnosis_of(redis)), ["disk.flush_bound@host"]);
}

#[test]
fn times_in_other_languages_are_read() {
    let log = "mär 12 10:00:00 web kernel: INFO: task mysqld:900 blocked for more than 120 seconds.\n\
               mär 12 10:02:00 web kernel: INFO: task mysqld:900 blocked for more than 241 seconds.\n";
    let d = diagnosis(log);
    assert_eq!(keys(&d), ["task.blocked@host"]);
}

#[test]
fn osds_of_a_ceph_cluster_that_are_down_are_a_suspicion() {
    let down = "[  100.000000] libceph: osd12 down\n[  101.000000] libceph: osd13 down\n";
    let found = diagnosis(down).findings.remove(0);
    assert_eq!((found.key().as_str(), found.confidence), ("disk.raid_degraded@ceph", Confidence::Low));
    assert!(found.summary.contains("osd.12") && found.summary.contains("osd.13"), "{}", found.summary);
    let idle = "[  100.000000] libceph: osd12 (1)10.0.0.3:6801 socket closed (con state OPEN)\n";
    assert_eq!(keys(&diagnosis(idle)), [""; 0]);
}

/// A kill days ago is reported with its time, after current problems.
#[test]
fn an_old_kill_comes_after_what_is_the_matter_now() {
    let head = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n\
                \u{20}r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
    let row = |runnable: u32| {
        format!("{runnable:2}  0      0 8123400  12345 4123456    0    0     0    20 5000 9000 96  4  0  0  0\n")
    };
    let text = |day: &str| {
        let rows: String = [2, 14, 15, 13, 14].into_iter().map(row).collect();
        format!(
            "$ date\nFri Nov 20 10:00:00 UTC 2026\n$ dmesg -T | tail -1\n[{day} 09:58:44 2026] Out of memory: Killed process 8123 (java) \
             total-vm:9123456kB, anon-rss:6123456kB, file-rss:0kB, shmem-rss:0kB, UID:1001 pgtables:12500kB oom_score_adj:0\n\
             $ nproc\n4\n$ vmstat 1 5\n{head}{rows}"
        )
    };
    let old = diagnosis_of(&text("Mon Nov 16"));
    assert_eq!(keys(&old), ["cpu.saturated@host", "mem.oom_kill@java[8123]"]);
    assert!(old.findings[1].summary.contains("logged at Mon Nov 16 09:58:44 2026"), "{}", old.findings[1].summary);
    let now = diagnosis_of(&text("Fri Nov 20"));
    assert_eq!(keys(&now)[0], "mem.oom_kill@java[8123]");
}
