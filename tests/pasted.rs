//! Tests of captures as people paste them: quoted, indented, in web pages and logs, between sentences, several in one
//! text. Each must yield the diagnosis of the clean file.

mod captured;
mod mail;

use captured::{FIXTURES, WIDTHS, captures_of};
use mail::wrapped;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;
use whyslow_diagnose::{RuleBook, VirtualMachines, diagnose, merge_diagnoses};
use whyslow_documents::diagnosis::{Diagnosis, Origin, Reading, Verdict};
use whyslow_import::{Capture, Input};

static RULES: LazyLock<RuleBook> = LazyLock::new(RuleBook::built_in);

fn judged(texts: &[(&str, &str)]) -> Result<Diagnosis, String> {
    let captures = captures_of(texts.iter().copied(), false).map_err(|e| e.to_string())?;
    let of = |c: &Capture| (c.label(), diagnose(&c.window, Origin::Import, &RULES));
    merge_diagnoses(captures.iter().map(of).collect(), VirtualMachines::default(), &RULES)
        .ok_or_else(|| "nothing".into())
}

/// Returns a subject's name without its line number, which changes with the text around it.
fn unplaced(name: &str) -> String {
    let (before, line) = name.rsplit_once(", line ").unwrap_or((name, ""));
    if line.bytes().all(|b| b.is_ascii_digit()) { before.to_owned() } else { name.to_owned() }
}

/// Returns the content of a diagnosis without the names of captures: findings with their confidence, and every figure.
fn said(texts: &[(&str, &str)]) -> Result<BTreeSet<String>, String> {
    let d = judged(texts)?;
    let findings = d.findings.iter().map(|f| {
        let subject = whyslow_documents::diagnosis::Subject {
            capture: None,
            name: unplaced(&f.subject.name),
            ..f.subject.clone()
        };
        format!("{} {:?}", subject.key_of(&f.id), f.confidence)
    });
    let figures = d.figures.iter().flat_map(|f| {
        f.values.iter().map(|value| match &value.value {
            Reading::Number(n) => format!("{} {} {n:.6e}", unplaced(&f.subject.name), value.metric),
            Reading::Text(text) => format!("{} {} {text}", unplaced(&f.subject.name), value.metric),
        })
    });
    Ok(findings.chain(figures).collect())
}

fn text_of(name: &str) -> String {
    std::fs::read_to_string(Path::new(FIXTURES).join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Returns the names of all captures that can be read unchanged.
fn names() -> Vec<String> {
    let all = std::fs::read_dir(FIXTURES).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = all.filter(|name| name.ends_with(".txt") && !name.contains("collapsed")).collect();
    names.sort();
    names
}

fn each_line(text: &str, change: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| change(line) + "\n").collect()
}

type Change = (&'static str, fn(&str) -> String);

/// Changes to a text on its way into a mail or a forum.
const CHANGES: &[Change] = &[
    ("quoted", |t| each_line(t, |l| format!("> {l}"))),
    ("quoted twice", |t| each_line(t, |l| format!(">> {l}"))),
    ("indented", |t| each_line(t, |l| format!("    {l}"))),
    ("tabbed", |t| each_line(t, |l| format!("\t{l}"))),
    ("carriage returns", |t| each_line(t, |l| format!("{l}\r"))),
    ("coloured", |t| each_line(t, |l| format!("\u{1b}[0;32m{l}\u{1b}[0m\u{1b}[K"))),
    ("fenced", |t| format!("It is slow:\n\n```console\n{t}```\n\nWhat can I do?\n")),
    ("web page", |t| {
        let text = t.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        format!("<p>It is slow, see:</p>\n<pre><code>{text}</code></pre>\n<p>Thanks</p>\n")
    }),
    ("no-break spaces", |t| t.replace("  ", " \u{a0}")),
    ("trailing spaces", |t| each_line(t, |l| format!("{l:<100}"))),
    ("framed", |t| each_line(t, |l| format!("│ {l:<100} │"))),
    ("double-spaced", |t| t.replace('\n', "\n\n")),
    ("between sentences", |t| {
        format!(
            "Hi all,\n\nour server has been slow since Monday, and I have no idea why. Here is what I found:\n\n{t}\n\
                 Does anybody see what is wrong? I tried 2 other disks, too.\n\nKind regards\n-- \nJo\n"
        )
    }),
];

/// Returns true for captures whose content a change alters.
fn is_excepted(name: &str, change: &str) -> bool {
    match change {
        // JSON strings and logs keep their own markup.
        "framed" | "double-spaced" | "no-break spaces" => name.contains("json"),
        _ => false,
    }
}

#[test]
fn markup_changes_nothing() {
    let mut wrong = Vec::new();
    for name in names() {
        let clean = text_of(&name);
        let expected = said(&[(&name, &clean)]).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (change, apply) in CHANGES {
            if is_excepted(&name, change) {
                continue;
            }
            match said(&[(&name, &apply(&clean))]) {
                Ok(found) if found == expected => {}
                Ok(found) => {
                    let lost: Vec<_> = expected.difference(&found).take(3).collect();
                    let new: Vec<_> = found.difference(&expected).take(3).collect();
                    wrong.push(format!("{name} {change}: lost {lost:?}, new {new:?}"));
                }
                Err(refusal) => wrong.push(format!("{name} {change}: {refusal}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A line of this log without times holds two messages.
const TWO_IN_ONE_LINE: &str = "scsi-messages-3-medium-error.txt";

/// Returns the names of the kernel logs.
fn kernel_logs() -> Vec<String> {
    let cases = std::fs::read_dir(Path::new(FIXTURES).join("cases")).unwrap();
    let of_cases = cases.flat_map(|case| std::fs::read_dir(case.unwrap().path()).unwrap());
    let in_cases = of_cases.map(|file| {
        let path = file.unwrap().path();
        path.strip_prefix(FIXTURES).unwrap().to_str().unwrap().to_owned()
    });
    let is_log = |name: &String| {
        let text = text_of(name);
        let input = Input { name: name.clone(), reader: Box::new(std::io::Cursor::new(text.into_bytes())) };
        whyslow_import::read(vec![input], false).is_ok_and(|captures| {
            captures.iter().any(|c| !c.window.newest::<whyslow_model::catalogue::LogLine>().is_empty())
        })
    };
    names()
        .into_iter()
        .chain(in_cases.filter(|name| name.ends_with(".txt")))
        .filter(|name| name != TWO_IN_ONE_LINE && is_log(name))
        .collect()
}

#[test]
fn a_kernel_log_that_a_mail_program_wrapped_is_judged_as_it_was_printed() {
    let logs = kernel_logs();
    assert!(logs.len() >= 10, "{logs:?}");
    let mut wrong = Vec::new();
    for name in logs {
        let clean = text_of(&name);
        let expected = said(&[(&name, &clean)]).unwrap_or_else(|e| panic!("{name}: {e}"));
        for width in WIDTHS {
            let mail = wrapped(&clean, width);
            let quoted = each_line(&mail, |line| format!("> {line}"));
            let half_quoted = wrapped(&each_line(&clean, |line| format!("> {line}")), width);
            for (way, text) in [("wrapped", mail), ("quoted", quoted), ("wrapped after quoting", half_quoted)] {
                match said(&[(&name, &text)]) {
                    Ok(found) if found == expected => {}
                    Ok(found) => {
                        let lost: Vec<_> = expected.difference(&found).take(3).collect();
                        let new: Vec<_> = found.difference(&expected).take(3).collect();
                        wrong.push(format!("{name} {way} at {width}: lost {lost:?}, new {new:?}"));
                    }
                    Err(refusal) => wrong.push(format!("{name} {way} at {width}: {refusal}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Captures that were published together.
const GROUPS: &[&[&str]] = &[
    &["san-sar-d-1024k.txt", "san-dd-1024k.txt"],
    &["san-iostat-x-2k-1reader.txt", "san-iostat-x-2k-6readers.txt", "san-iostat-x-2k-6readers-striped.txt"],
    &["san-iostat-x-512k-6readers-single.txt", "san-iostat-x-512k-6readers-striped.txt"],
    &["san-iostat-x-multipath-rr-on.txt", "san-iostat-x-multipath-rr-off.txt"],
    &["san-mkfs-xfs-extlog.txt", "san-iostat-x-xfs-bigwrite-extlog.txt"],
    &["cpu-top-threads-hidden.txt", "cpu-ps-elfm.txt"],
    &["x232-vmstat-2.txt", "x232-iostat-x-sdb1.txt"],
    &["irq-vmstat-2.txt", "irq-mpstat-2.txt", "irq-sar-I-xall.txt", "irq-proc-interrupts.txt", "irq-ethtool-c.txt"],
    &["net-iperf-before-client.txt", "net-iperf-before-server.txt"],
    &["scsi-messages-2.txt", "scsi-proc-scsi.txt"],
    &["power5-iperf-before.txt", "power5-vmstat-1.txt"],
];

#[test]
fn a_page_with_several_captures_is_judged_as_the_files_are() {
    let mut wrong = Vec::new();
    for group in GROUPS {
        let texts: Vec<(&str, String)> = group.iter().map(|name| (*name, text_of(name))).collect();
        let files: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let expected = said(&files).unwrap_or_else(|e| panic!("{group:?}: {e}"));
        let page: String = texts.iter().fold("Hello,\n\nwe see this on our server:\n\n".into(), |page, (_, text)| {
            page + &each_line(text, |line| format!("> {line}")) + "\nAnd then we looked at this, which may help:\n\n"
        });
        match said(&[("page.txt", &page)]) {
            Ok(found) if found == expected => {}
            Ok(found) => {
                let lost: Vec<_> = expected.difference(&found).take(4).collect();
                let new: Vec<_> = found.difference(&expected).take(4).collect();
                wrong.push(format!("{group:?}: lost {lost:?}, new {new:?}"));
            }
            Err(refusal) => wrong.push(format!("{group:?}: {refusal}")),
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the findings of at least medium confidence in a text, and those of low confidence.
fn found(text: &str) -> (Vec<String>, Vec<String>) {
    let d = judged(&[("x", text)]).unwrap_or_else(|e| panic!("{text}: {e}"));
    let (low, certain): (Vec<_>, Vec<_>) =
        d.findings.iter().partition(|f| f.confidence == whyslow_documents::diagnosis::Confidence::Low);
    let keys = |findings: Vec<&whyslow_documents::diagnosis::Finding>| findings.iter().map(|f| f.key()).collect();
    (keys(certain), keys(low))
}

#[test]
fn a_line_that_was_quoted_alone_is_judged_as_far_as_it_goes() {
    for (text, certain) in [
        (
            "It is all here:\n+   91.50%    90.75%  kworker/2:1-xyz  [kernel.kallsyms]  [k]\nrebuild_list\n",
            "cpu.system_time@kworker",
        ),
        ("The log says `nf_conntrack: table full, dropping packet` many times.\n", "net.conntrack_full@host"),
        ("- 231 SSD_Life_Left 0x0013 001 001 010 Pre-fail Always FAILING_NOW 1\n", "disk.failing@drive"),
        ("root 9 98.7 0.0 0 0 ? R Jan01 999:59 [ksoftirqd/0]\n", "cpu.interrupts@ksoftirqd/0[9]"),
        ("        Speed: 100Mb/s\n        Duplex: Half\n        Link detected: yes\n", "net.speed_mismatch@ethX"),
    ] {
        assert_eq!(found(text).0.first().map(String::as_str), Some(certain), "{text}");
    }
}

#[test]
fn a_count_without_what_it_is_a_part_of_is_a_possibility() {
    for (text, possible) in [
        (
            "$ netstat -s | grep -i listen\n    4512 times the listen queue of a socket overflowed\n",
            "net.listen_overflow@host",
        ),
        ("TcpRetransSegs                  812345             0.0\n", "net.loss@host"),
        ("UdpRcvbufErrors                 52345              0.0\n", "net.udp_overflow@host"),
        ("rx_missed_errors: 102399\n", "net.nic_drops@ethX"),
        ("     rx_crc_errors: 5120\n", "net.errors@ethX"),
        ("[  3]  0.0-10.0 sec   112 MBytes  94.1 Mbits/sec\n", "net.speed_mismatch@to a server, line 1"),
        ("Device: /dev/sdb [SAT], Self-Test Log error count increased from 3 to 4\n", "disk.failing@sdb"),
        ("        Speed: 10Mb/s\n        Duplex: Half\n", "net.speed_mismatch@ethX"),
    ] {
        let (certain, possibly) = found(text);
        assert!(certain.is_empty() && possibly == [possible], "{text}: {certain:?} {possibly:?}");
    }
}

/// Denied, hypothetical, idle or normal states.
#[test]
fn what_is_in_order_is_no_finding() {
    for text in [
        "There is no `nf_conntrack: table full, dropping packet` in the log.\nload average: 0.10, 0.20, 0.30\n",
        "TcpExtListenOverflows           3                  0.0\n",
        "rx_missed_errors: 0\nrx_crc_errors: 0\n",
        "        Speed: 1000Mb/s\n        Duplex: Full\n        Link detected: yes\n",
        "\tSupported link modes:   1000baseT/Full\n\t                        10000baseT/Full\n\tSpeed: 1000Mb/s\n\tLink detected: yes\n",
        "root 9 0.1 0.0 0 0 ? S Jan01 9:59 [ksoftirqd/0]\n",
        "throttled=0x0\ntemp=47.2'C\n",
        "used_memory_human:11.57M\nmaxmemory_human:1.00G\nmem_fragmentation_ratio:0.66\n",
        "  9 Power_On_Hours          0x0032   091   091   000    Old_age   Always       -       41234\n",
        "\tsignal: -48 dBm\n",
    ] {
        assert_eq!(found(text), (Vec::new(), Vec::new()), "{text}");
    }
}

#[test]
fn tables_and_lists_of_a_forum_are_read() {
    let (certain, _) = found(
        "It shows\n\nname | load\n-- | --\nload average: | 1, 2, 3\n\nand\n\n  * rx_crc_errors: 5120\n  * rx_packets: 90000\n",
    );
    assert_eq!(certain, ["net.errors@ethX"]);
    let text = "`free -m`\n\n  | total | used | free | shared | buff/cache | available\n-- | -- | -- | -- | -- | -- | --\n\
        Mem: | 15884 | 15001 | 200 | 10 | 683 | 600\nSwap: | 2047 | 0 | 2047 |  |  |\n";
    let d = judged(&[("x", text)]).unwrap();
    let values = d.figures.iter().flat_map(|f| &f.values);
    let available = values.clone().find(|v| v.metric == "mem.available_share").map(|v| v.value.clone());
    assert_eq!(available, Some(Reading::Number(600.0 / 15884.0)));
}

#[test]
fn a_few_lines_that_were_cut_out_of_a_report() {
    for (text, certain) in [
        ("nr_periods 1000\nnr_throttled 900\nthrottled_time 123456789000\n", "cpu.throttled@/container"),
        (
            "$ cat /sys/fs/cgroup/cpu.stat\nusage_usec 100\nnr_periods 1000\nnr_throttled 900\nthrottled_usec 12345\n",
            "cpu.throttled@/container",
        ),
        (
            "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n",
            "mem.oom_kill@container",
        ),
        ("web-5d8f7c9b6d-x2x7k   0/1     OOMKilled          7          12m\n", "mem.oom_kill@web-5d8f7c9b6d-x2x7k"),
        ("percentage_used : 12%\ncritical_warning : 0x4\n", "disk.failing@nvme"),
        ("             State : clean, degraded\n", "disk.raid_degraded@md"),
        ("LISTEN     129    128    0.0.0.0:80    0.0.0.0:*\n", "net.listen_overflow@0.0.0.0:80"),
        ("50 packets transmitted, 35 received, 30% packet loss, time 49011ms\n", "net.loss@peer"),
    ] {
        assert_eq!(found(text).0.first().map(String::as_str), Some(certain), "{text}");
    }
    for text in [
        "web-5d8f7c9b6d-x2x7k   1/1     Running          0          12m\n",
        "[  3]  0.0-10.0 sec  1.10 GBytes   941 Mbits/sec\n",
        "MemAvailable:   12345678 kB\nSUnreclaim:       123456 kB\n",
        "nr_periods 1000\nnr_throttled 0\nthrottled_time 0\n",
        "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
        "percentage_used : 12%\ncritical_warning : 0\n",
        "             State : active\n",
        "LISTEN     0    128    0.0.0.0:80    0.0.0.0:*\n",
        "50 packets transmitted, 50 received, 0% packet loss, time 49011ms\n",
        "KiB Mem :  8010000 total,   100000 free,  7800000 used,   110000 buff/cache\n",
        "0123456789ab   web   0.28%   5.629MiB / 1.952GiB   0.28%   916B / 0B   147kB / 0B   9\n",
    ] {
        assert_eq!(found(text), (Vec::new(), Vec::new()), "{text}");
    }
}

/// Returns rows of `mpstat -P ALL`: these CPUs are full, the others of `count` idle.
fn mpstat(count: u32, full: &[u32]) -> String {
    let mut text =
        "12:00:01     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n".to_owned();
    for cpu in 0..count {
        let (guest, idle) = if full.contains(&cpu) { ("97.50", "0.00") } else { ("0.00", "97.50") };
        text += &format!(
            "12:00:06     {cpu:3}    0.50    0.00    2.00    0.00    0.00    0.00    0.00   {guest}    0.00   {idle}\n"
        );
    }
    format!("Linux 6.8.0-45-generic (kvm7) \t02/03/2025 \t_x86_64_\t({count} CPU)\n\n{text}")
}

/// Returns `pidstat -t` of a guest with three virtual CPUs, which wait for this share of the time.
fn pidstat_of_guest(wait: &str) -> String {
    let row = |ids: &str, rest: &str| format!("12:00:16     64055  {ids}    {rest}\n");
    let cpu = |tid: u32, number: u32| {
        row(
            &format!("     -      {tid}"),
            &format!("0.00    0.40   32.20   {wait}   32.60     {}  |__CPU {number}/KVM", 6 + number % 2),
        )
    };
    let head = "12:00:11       UID      TGID       TID    %usr %system  %guest   %wait    %CPU   CPU  Command\n";
    let process = row("  4711         -", "0.20    1.20   96.60    0.00   98.00     6  qemu-system-x86");
    let main = row("     -      4711", "0.20    0.00    0.00    0.00    0.20     6  |__qemu-system-x86");
    format!(
        "$ pidstat -t -p 4711 5 1\nLinux 6.8.0-45-generic (kvm7) \t02/03/2025 \t_x86_64_\t(12 CPU)\n\n{head}{process}{main}{}{}{}",
        cpu(4720, 0),
        cpu(4721, 1),
        cpu(4722, 2)
    )
}

#[test]
fn a_process_whose_threads_are_listed_is_their_sum_and_no_thread() {
    // Three virtual CPUs share two CPUs while ten others are idle.
    let text = format!("{}\n{}", mpstat(12, &[6, 7]), pidstat_of_guest("60.00"));
    assert_eq!(found(&text).0, ["virt.cpu_pinning@4711[4711]"], "{text}");
    // They get what they need: a third of a CPU each.
    let text = format!("{}\n{}", mpstat(12, &[]), pidstat_of_guest(" 0.00"));
    assert_eq!(found(&text), (Vec::new(), Vec::new()), "{text}");
    // One of them is a thread that fills a CPU.
    let busy =
        pidstat_of_guest(" 0.00").replace("0.40   32.20    0.00   32.60     7", "1.40   97.20    0.00   98.60     7");
    let text = format!("{}\n{}", mpstat(12, &[7]), busy);
    let d = judged(&[("x", &text)]).unwrap();
    let single: Vec<_> = d.findings.iter().filter(|f| f.id == "cpu.single_thread").collect();
    assert_eq!(single.len(), 1, "{:?}", d.findings.iter().map(|f| f.key()).collect::<Vec<_>>());
    assert_eq!((single[0].subject.name.as_str(), single[0].subject.tid), ("CPU 1/KVM", Some(4721)));
}

/// Returns a screen of `top -H -p 4711` at this time, with the CPU use of QEMU's first thread and of a virtual CPU.
fn threads_of_guest(time: &str, first: &str, virtual_cpu: &str) -> String {
    format!(
        "top - {time} up 3 days,  2:11,  1 user,  load average: 1.30, 1.28, 1.17
Threads:   3 total,   1 running,   2 sleeping,   0 stopped,   0 zombie
%Cpu(s):  7.1 us,  3.2 sy,  0.0 ni, 89.5 id,  0.0 wa,  0.0 hi,  0.2 si,  0.0 st
MiB Mem :  64250.1 total,  11200.4 free,  48120.2 used,   5200.1 buff/cache
MiB Swap:      0.0 total,      0.0 free,      0.0 used.  15929.9 avail Mem

    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
   4711 libvirt+  20   0   18.6g  16.1g  14212 R  {first}  25.6 912:11.10 qemu-system-x86
   4720 libvirt+  20   0   18.6g  16.1g  14212 S  {virtual_cpu}  25.6 103:44.07 CPU 0/KVM
   4731 libvirt+  20   0   18.6g  16.1g  14212 S   0.0  25.6   0:00.12 vnc_worker

"
    )
}

#[test]
fn the_main_loop_of_a_guest_is_its_first_thread() {
    let both =
        |first: &str, cpu: &str| threads_of_guest("16:20:11", first, cpu) + &threads_of_guest("16:20:16", first, cpu);
    let ps = "$ ps -ef | grep qemu\nlibvirt+    4711       1 45 Feb01 ?        22:10:11 /usr/bin/qemu-system-x86_64 \
              -name guest=web1,debug-threads=on -smp 1 -device virtio-scsi-pci,id=scsi0 \
              -drive file=/dev/vg0/web1,if=none,id=drive0 -device scsi-hd,bus=scsi0.0,drive=drive0,id=disk0\n";
    let of = |text: String| found(&text).0.first().cloned();
    assert_eq!(of(both("98.9", " 9.0") + ps).as_deref(), Some("virt.main_loop@web1[4711]"));
    assert_eq!(of(both("98.9", " 9.0")).as_deref(), Some("cpu.single_thread@qemu-system-x86[4711/4711]"));
    // A virtual CPU is busy, and an old top shows its CPU time for the first thread too.
    let found_in = of(both("98.9", "97.8") + ps);
    assert!(found_in.is_some_and(|key| key.starts_with("cpu.single_thread@CPU 0/KVM")));
    // An iothread serves the disk.
    let threaded = ps
        .replace("virtio-scsi-pci,", "virtio-scsi-pci,iothread=io1,")
        .replace("-smp 1", "-smp 1 -object iothread,id=io1");
    assert_eq!(of(both("98.9", " 9.0") + &threaded).as_deref(), Some("cpu.single_thread@guest web1[4711/4711]"));
    // The process as a whole is not a main loop.
    let plain = both("98.9", " 9.0").replace("Threads:", "Tasks:  ");
    let plain: String =
        plain.lines().filter(|l| !l.contains("KVM") && !l.contains("vnc")).map(|l| format!("{l}\n")).collect();
    assert!(found(&(plain + ps)).0.iter().all(|key| !key.starts_with("virt.main_loop")));
}

#[test]
fn a_snapshot_that_is_full_explains_the_errors_of_its_device() {
    let lvs = "# lvs\n  LV       VG  Attr       LSize   Pool Origin Data%  Meta%  Move Log Cpy%Sync Convert\n\
                 \x20 home     vg1 owi-aos--- 400.00g\n\
                 \x20 home-old vg1 swi-I-s---  20.00g      home   100.00\n";
    let log = "[812345.100000] device-mapper: snapshots: Invalidating snapshot: Unable to allocate exception.\n\
               [812346.200000] Buffer I/O error on dev dm-7, logical block 9001, async page read\n\
               [812346.300000] EXT4-fs error (device dm-7): ext4_wait_block_bitmap:531: comm tar: Cannot read block bitmap\n";
    assert_eq!(found(lvs).0, ["fs.full@vg1/home-old"]);
    for (text, cause) in [(log.to_owned(), "fs.full@snapshot"), (format!("{lvs}{log}"), "fs.full@vg1/home-old")] {
        let d = judged(&[("x", &text)]).unwrap();
        let (roots, effects): (Vec<_>, Vec<_>) = d.findings.iter().partition(|f| f.explained_by.is_none());
        assert_eq!(roots.iter().map(|f| f.key()).collect::<Vec<_>>(), [cause], "{text}");
        assert!(effects.iter().any(|f| f.key() == "fs.errors@dm-7"), "{text}");
    }
    // A failing disk below is the cause of both.
    let failed = log.replace("Unable to allocate exception", "Error reading/writing");
    assert!(found(&failed).0.iter().all(|key| !key.starts_with("fs.full")), "{failed}");
    // A snapshot with free space.
    assert_eq!(found(&lvs.replace("-I-", "-a-").replace("100.00\n", "31.00\n")).0, [""; 0]);
}

/// Returns `ss -tan` with this many connections from 172.16.3.9 to a database, and as many clients of a server on that
/// host.
fn connections(count: u16) -> String {
    let mut text = "$ ss -tan\nState     Recv-Q Send-Q Local Address:Port  Peer Address:Port Process\n".to_owned();
    for port in (40_000..=41_999).take(usize::from(count)) {
        text += &format!("TIME-WAIT 0      0        172.16.3.9:{port}   172.16.3.40:5432\n");
        text += &format!("TIME-WAIT 0      0        172.16.3.9:80      172.16.9.1:{port}\n");
    }
    text
}

#[test]
fn ports_that_connections_to_one_peer_take_up_are_counted() {
    let range = "$ sysctl net.ipv4.ip_local_port_range\nnet.ipv4.ip_local_port_range = 40000\t41999\n";
    let log = "2025/05/14 10:21:14 [crit] 1822#1822: *91823441 connect() to 172.16.3.40:5432 failed (99: Cannot assign requested address) while connecting to upstream, client: 10.1.1.20\n";
    let exhausted = "net.ports_exhausted@172.16.3.9:*->172.16.3.40:5432";
    assert_eq!(found(&(connections(1990) + range)).0.first().map(String::as_str), Some(exhausted));
    let d = judged(&[("x", &(connections(1990) + range + log))]).unwrap();
    let roots: Vec<_> = d.findings.iter().filter(|f| f.explained_by.is_none()).map(|f| f.key()).collect();
    assert_eq!(roots, [exhausted]);
    assert_eq!(found(&(connections(1000) + range)), (Vec::new(), Vec::new()));
    // The message alone only suggests a cause; together with the sockets in TIME_WAIT it is certain enough.
    assert_eq!(found(log), (Vec::new(), vec!["net.ports_exhausted@host".to_owned()]));
    let sockets = "Total: 2300\nTCP:   4100 (estab 12, closed 2001, orphaned 0, timewait 1990)\n\n";
    assert_eq!(found(&format!("{sockets}{range}{log}")).0, ["net.ports_exhausted@host"]);
}

/// Returns the output for a mirror that is being checked: its disks, and the latency of its own requests.
fn checked_mirror(wait: &str, iowait: &str, idle: &str) -> String {
    format!(
        "$ cat /proc/mdstat
Personalities : [raid1]
md127 : active raid1 sdd1[1] sdc1[0]
      976630464 blocks super 1.2 [2/2] [UU]
      [===>.................]  check = 17.9% (175001344/976630464) finish=98.1min speed=136128K/sec
      bitmap: 0/8 pages [0KB], 65536KB chunk

unused devices: <none>
$ iostat -xy 5 1
Linux 6.1.0 (nas2) \t06/01/2025 \t_x86_64_\t(4 CPU)

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           2.10    0.00    1.70    {iowait}    0.00   {idle}

Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util
md127            14.00    224.00     0.00   0.00    {wait}    16.00    4.00     32.00     0.00   0.00    {wait}     8.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00    0.06   6.10
sdc             270.00 136352.00  1860.00  87.32    3.90   505.01    4.00     32.00     0.00   0.00    1.10     8.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00    1.06  91.00
sdd             270.00 136352.00  1860.00  87.32    4.10   505.01    4.00     32.00     0.00   0.00    1.10     8.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00    1.11  92.00
"
    )
}

#[test]
fn a_check_of_an_array_is_no_problem_unless_requests_are_slow() {
    let text = checked_mirror(" 3.40", "0.60", "95.60");
    assert_eq!(found(&text), (Vec::new(), Vec::new()));
    assert_eq!(judged(&[("x", &text)]).unwrap().verdict, Verdict::Healthy);
    let slow = checked_mirror("190.40", "21.60", "74.60");
    assert_eq!(found(&slow).0, ["disk.raid_degraded@md127"]);
    // A rebuild is not routine.
    assert_eq!(found(&text.replace("check =", "recovery =")).0, ["disk.raid_degraded@md127"]);
}

#[test]
fn retransmissions_and_lost_echoes_are_loss() {
    let reading = |time: &str, out: u32, again: u32, fast: u32, timeouts: u32| {
        format!(
            "{time}\nTcp:\n    912 active connection openings\n    {out} segments sent out\n    {again} segments retransmitted\n\
             TcpExt:\n    {fast} fast retransmits\n    TCPTimeouts: {timeouts}\n"
        )
    };
    let first = reading("Tue 03 Jun 2025 11:00:00 AM CEST", 500_000, 9_000, 7_000, 1_000);
    let second = reading("Tue 03 Jun 2025 11:00:20 AM CEST", 530_000, 9_900, 7_600, 1_090);
    let ping =
        "--- 192.0.2.9 ping statistics ---\n200 packets transmitted, 194 received, 3% packet loss, time 40112ms\n";
    let command = "$ date; netstat -st; sleep 20; date; netstat -st\n";
    let both = format!("{command}{first}{second}");
    assert_eq!(found(&both).0, ["net.loss@host"]);
    assert_eq!(found(&format!("{both}{ping}")).0, ["net.loss@host", "net.loss@192.0.2.9"]);
    // nstat does not show how many of the segments were SYNs, and shows no timeouts.
    let nstat = |time: &str, out: u32, again: u32| {
        format!(
            "{time}\n#kernel\nTcpOutSegs                      {out}             0.0\nTcpRetransSegs                  {again}              0.0\n"
        )
    };
    let (first, second) = (
        nstat("Tue Jun  3 11:00:00 CEST 2025", 500_000, 9_000),
        nstat("Tue Jun  3 11:00:20 CEST 2025", 530_000, 9_900),
    );
    assert_eq!(found(&format!("{first}{second}{ping}")).0, ["net.loss@192.0.2.9"]);
    // A host drops echo requests while TCP loses nothing.
    let second = nstat("Tue Jun  3 11:00:20 CEST 2025", 530_000, 9_002);
    assert_eq!(found(&format!("{first}{second}{ping}")).0, [""; 0]);
}

/// Returns the output for an array of six disks and its member sdc, with the latency of their requests.
fn array_of_six(sdc: [&str; 4]) -> String {
    let mdstat = "Personalities : [raid10]\nmd0 : active raid10 sdf[5] sde[4] sdd[3] sdc[2] sdb[1] sda[0]\n      \
                  11720658432 blocks super 1.2 512K chunks 2 near-copies [6/6] [UUUUUU]\n\nunused devices: <none>\n";
    let iostat = "$ iostat -xy 10 1\nLinux 6.1.0-33-amd64 (mail1) \t11/04/2025 \t_x86_64_\t(12 CPU)\n\n\
                  avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n            \
                  6.20    0.00    2.40   28.10    0.00   63.30\n\n\
                  Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await \
                  wareq-sz  aqu-sz  %util\n";
    let disk = |name: &str, [r_await, w_await, queue, busy]: [&str; 4]| {
        format!(
            "{name} 62.00 1004.40 0.00 0.00 {r_await} 16.20 48.00 681.60 0.00 0.00 {w_await} 14.20 {queue} {busy}\n"
        )
    };
    let others = ["sda", "sdb", "sdd", "sde", "sdf"].map(|name| disk(name, ["6.40", "5.10", "0.64", "38.00"]));
    let array = "md0 372.00 6026.40 0.00 0.00 35.20 16.20 142.00 2016.40 0.00 0.00 74.00 14.20 23.60 100.00\n";
    format!("{mdstat}{iostat}{}{}{array}", others.concat(), disk("sdc", sdc))
}

#[test]
fn a_slow_member_explains_the_queue_of_its_array() {
    let text = array_of_six(["182.10", "211.40", "21.13", "100.00"]);
    assert_eq!(found(&text).0[..2], ["disk.slow_device@sdc", "disk.saturated@md0"]);
    let even = array_of_six(["6.40", "5.10", "0.64", "38.00"]);
    assert_eq!(found(&even).0[0], "disk.saturated@md0");
}

#[test]
fn a_port_that_is_not_aggregated_explains_that_the_other_one_is_full() {
    let bond = |mode: &str| {
        let port = |name: &str, aggregator: u32| {
            format!(
                "\nSlave Interface: {name}\nMII Status: up\nSpeed: 10000 Mbps\nDuplex: full\nLink Failure Count: 0\n\
                 Aggregator ID: {aggregator}\n"
            )
        };
        format!(
            "$ cat /proc/net/bonding/bond0\nEthernet Channel Bonding Driver: v6.8.0\n\nBonding Mode: {mode}\nMII Status: up\n\n\
             802.3ad info\nActive Aggregator Info:\n\tAggregator ID: 1\n\tNumber of ports: 1\n{}{}",
            port("ens1f0", 1),
            port("ens1f1", 2)
        )
    };
    let sar = "$ sar -n DEV 5 1\nLinux 6.8.0 (ceph3) \t06/03/2025 \t_x86_64_\t(32 CPU)\n\n\
               11:00:00        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil\n\
               11:00:05       ens1f0 812000.00 801000.00 1196000.00 1181000.00 0.00 0.00 0.00 97.98\n\
               11:00:05       ens1f1 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00\n";
    let aggregated = found(&format!("{}{sar}", bond("IEEE 802.3ad Dynamic link aggregation")));
    assert_eq!(aggregated.0, ["net.bond_degraded@ens1f1", "net.link_saturated@ens1f0"]);
}

/// Returns ten seconds of `vmstat` at the prompt of a machine.
fn vmstat_on(prompt: &str, row: &str) -> String {
    let head = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n \
                r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
    format!("{prompt}vmstat 5 3\n{head}{}", row.repeat(3))
}

const BUSY: &str = "34  0      0 812345  10234 4123456    0    0     0     4 4100 9200 97  3  0  0  0\n";
const IDLE: &str = " 0  0      0 812345  10234 4123456    0    0     0     4  410  920  2  1 97  0  0\n";

#[test]
fn what_stands_out_on_one_of_several_hosts_leaves_them_undetermined() {
    let text = |second: &str| format!("{}{}", vmstat_on("[root@web1 ~]# ", IDLE), vmstat_on("[root@web2 ~]# ", second));
    let of = |text: &str| {
        let diagnosis = judged(&[("x", text)]).unwrap();
        (diagnosis.verdict, diagnosis.host.name, diagnosis.next_capture.and_then(|next| next.host))
    };
    let both = Some("web1, web2".to_owned());
    assert_eq!(of(&text(IDLE)), (Verdict::Healthy, both.clone(), None));
    assert_eq!(of(&text(BUSY)), (Verdict::Undetermined, both, Some("web2".to_owned())));
}

#[test]
fn ssh_shows_another_machine_and_the_next_prompt_is_back() {
    for (first, last) in [("[root@web1 ~]# ", "[root@web1 ~]# "), ("[root@web1 ~]# ", "# ")] {
        let all =
            [vmstat_on(first, IDLE), vmstat_on(&format!("{first}ssh web2 "), BUSY), vmstat_on(last, IDLE)].concat();
        let captures = captures_of([("x", &*all)], false).unwrap();
        let hosts: Vec<_> = captures.iter().map(|capture| capture.host.as_deref().unwrap_or_default()).collect();
        assert_eq!(hosts, ["web1", "web2", "web1"]);
    }
}

#[test]
fn with_several_hosts_each_finding_says_which_one_it_is_on() {
    let processors = "processor\t: 0\nmodel name\t: x\n\nprocessor\t: 1\nmodel name\t: x\n\n";
    let of = |host: &str, row: &str| {
        let prompt = format!("root@{host}:~# ");
        format!("{}{prompt}cat /proc/cpuinfo\n{processors}{prompt}nproc\n2\n", vmstat_on(&prompt, row))
    };
    let hosts = |text: &str| {
        let diagnosis = judged(&[("x", text)]).unwrap();
        diagnosis.findings.into_iter().map(|finding| (finding.id, finding.host)).collect::<Vec<_>>()
    };
    let both = format!("{}{}", of("web1", IDLE), of("web2", BUSY));
    assert_eq!(hosts(&both), [("cpu.saturated".to_owned(), Some("web2".to_owned()))]);
    assert_eq!(hosts(&of("web2", BUSY)), [("cpu.saturated".to_owned(), None)]);
}

#[test]
fn a_prompt_and_a_banner_with_other_names_are_of_one_machine() {
    let banner = "Linux 6.1.0-33-amd64 (db01.corp) \t11/04/2025 \t_x86_64_\t(2 CPU)\n\n\
                  12:00:01 AM     CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
                  12:00:11 AM     all     97.00      0.00      3.00      0.00      0.00      0.00\n";
    let text = |second: &str| {
        format!(
            "{}[root@server1 ~]# sar -u 10 1\n{banner}{}",
            vmstat_on("[root@server1 ~]# ", BUSY),
            vmstat_on(second, IDLE)
        )
    };
    let hosts = |text: &str| judged(&[("x", text)]).unwrap().host.name;
    assert_eq!(hosts(&text("[root@server1 ~]# ")).as_deref(), Some("db01.corp"));
    assert_eq!(hosts(&text("[root@web2 ~]# ")).as_deref(), Some("db01.corp, web2"));
}

#[test]
fn what_the_kernel_measured_counts_more_than_a_blocked_task_in_a_few_samples() {
    let busy = "58  1      0 61200412 912344 81264412    0    0     0 14233 62011 81022 80  8 12  0  0\n";
    let pressure = |percent: &str| {
        let both = |percent: &str| {
            let line = |kind: &str| format!("{kind} avg10={percent} avg60={percent} avg300={percent} total=81234412\n");
            line("some") + &line("full")
        };
        format!("# cat /proc/pressure/cpu /proc/pressure/io\n{}{}", both("0.10"), both(percent))
    };
    let stands_out = |text: &str| {
        let diagnosis = judged(&[("x", text)]).unwrap();
        diagnosis.not_cleared.into_iter().any(|entry| entry.id == "disk")
    };
    let vmstat = vmstat_on("# ", busy);
    assert!(stands_out(&vmstat));
    assert!(!stands_out(&format!("{vmstat}{}", pressure("0.10"))));
    assert_eq!(found(&format!("{vmstat}{}", pressure("61.00"))).0, ["disk.bound@host"]);
}

#[test]
fn cpus_that_are_busy_but_suffice_are_cleared() {
    let busy = "58  0      0 61200412 912344 81264412    0    0     0 1433 62011 81022 91  8  1  0  0\n";
    let vmstat = vmstat_on("# ", busy);
    let stands_out = |text: &str| {
        let diagnosis = judged(&[("x", text)]).unwrap();
        diagnosis.not_cleared.into_iter().any(|entry| entry.id == "cpu") || !diagnosis.findings.is_empty()
    };
    assert!(stands_out(&vmstat));
    assert!(!stands_out(&format!("# nproc\n64\n{vmstat}")));
    assert!(stands_out(&format!("# nproc\n16\n{vmstat}")));
    let pressure =
        "some avg10=1.10 avg60=1.08 avg300=1.01 total=1234412344\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
    assert!(!stands_out(&format!("{vmstat}# cat /proc/pressure/cpu\n{pressure}")));
}
