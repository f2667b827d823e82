use super::thinned_log::MOST_KEPT;
use crate::testing::{fixture, window_of, wrapped};
use proptest::prelude::*;
use whyslow_model::catalogue::{LogLine, LogRead};

/// Printed time, time since boot, text and repetitions of each line kept.
type Row = (Option<String>, Option<u64>, String, Option<f64>);

fn rows(text: &str) -> Vec<Row> {
    let window = window_of(text);
    let owned = |s: &whyslow_model::value::State| s.get().map(str::to_owned);
    let row = |l: &&LogLine| (owned(&l.printed), l.time.get(), owned(&l.text).unwrap_or_default(), l.repeated.get());
    window.newest::<LogLine>().values().map(row).collect()
}

fn texts(text: &str) -> Vec<String> {
    rows(text).into_iter().map(|(.., text, _)| text).collect()
}

fn lines_read(text: &str) -> Option<f64> {
    window_of(text).newest::<LogRead>().values().filter_map(|read| read.lines.get()).reduce(|a, b| a + b)
}

#[test]
fn a_line_keeps_its_times_and_place() {
    let text = "Dec  2 10:33:23 web kernel: [   12.500000] Out of memory: Killed process 7 (x)";
    let want = (Some("Dec  2 10:33:23".to_owned()), Some(12_500_000_000), "Out of memory: Killed process 7 (x)".into());
    let (printed, boot, words, _) = rows(text).remove(0);
    assert_eq!((printed, boot, words), want);
    let window = window_of("[    1.000000] nothing\n[    2.000000] I/O error, dev sda, sector 1\n");
    let key = window.newest::<LogLine>().keys().next().unwrap().to_string();
    assert_eq!(window.origins().locations("log", &key).first().unwrap().to_string(), "x:2");
}

#[test]
fn a_wrapped_line_is_put_together() {
    let texts = texts(&fixture("scsi-messages-2.txt"));
    let holds = |words: &str| texts.iter().any(|t| t.contains(words));
    assert!(
        texts.iter().any(|t| t == "SCSI disk error : host 0 channel 0 id 1 lun 0 return code = 27010000"),
        "{texts:?}"
    );
    assert!(holds("pid 43891493, scsi0, channel 0, id 1, lun 0"), "{texts:?}");
}

/// Time and text of each line kept, without the number of spaces between words.
fn words_kept(text: &str) -> Vec<(Option<String>, Option<u64>, String)> {
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    rows(text).into_iter().map(|(printed, boot, text, _)| (printed, boot, words(text))).collect()
}

#[test]
fn a_log_that_a_mail_program_wrapped_has_the_same_messages() {
    let mut wrong = Vec::new();
    for name in [
        "vm-a2_scsi.txt",
        "vm-b_md.txt",
        "vm-a_scsi.txt",
        "scsi-messages-1.txt",
        "scsi-messages-2.txt",
        "cases/010-old-raid1-medium-error/dmesg.txt",
        "cases/016-nfsd-kernel-memory-leak-oom/dmesg.txt",
        "cases/030-conntrack-table-full-haproxy/kern.log.txt",
    ] {
        let clean = fixture(name);
        let kept = words_kept(&clean);
        for width in [66, 72, 76, 78, 80] {
            let mail = words_kept(&wrapped(&clean, width));
            for at in 0..kept.len().max(mail.len()) {
                if kept.get(at) != mail.get(at) {
                    wrong.push(format!("{name} at {width}: {:?} became {:?}", kept.get(at), mail.get(at)));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn json_of_every_tool_is_read() {
    let dmesg = r#"{
   "dmesg": [
      {
         "pri": 6,
         "time":     0.000000,
         "msg": "Linux version 6.1"
      },{
         "pri": 3,
         "time":    12.500000,
         "msg": "I/O error, dev sda, sector 1"
      }
   ]
}
"#;
    assert_eq!(rows(dmesg), [(None, Some(12_500_000_000), "I/O error, dev sda, sector 1".into(), None)]);
    assert_eq!(lines_read(dmesg), Some(2.0));
    let journal = r#"{"__REALTIME_TIMESTAMP":"1717236000000000","_TRANSPORT":"kernel","MESSAGE":"I/O error, dev sda, sector 1","_SOURCE_MONOTONIC_TIMESTAMP":"12500000"}
{"__REALTIME_TIMESTAMP":"1717236000000000","_TRANSPORT":"syslog","SYSLOG_IDENTIFIER":"app","MESSAGE":"I/O error, dev sda, sector 1"}
{"__REALTIME_TIMESTAMP":"1717236001000000","_TRANSPORT":"kernel","SYSLOG_IDENTIFIER":"kernel","MESSAGE":[73,47,79,32,101,114,114,111,114,255]}
"#;
    let kept = rows(journal);
    let time = Some("2024-06-01T10:00:00.000Z".to_owned());
    assert_eq!(kept[0], (time, Some(12_500_000_000), "I/O error, dev sda, sector 1".into(), None));
    assert_eq!((kept.len(), kept[1].2.as_str()), (2, "I/O error\u{fffd}"));
    assert_eq!(lines_read(journal), Some(2.0));
    let pretty = "{\n\t\"MESSAGE\" : \"Out of memory: Killed process 7 (x)\",\n\t\"__CURSOR\" : \"s=1\"\n}\n";
    assert_eq!(texts(pretty), ["Out of memory: Killed process 7 (x)"]);
}

#[test]
fn a_flood_is_counted_and_held_in_bounds() {
    let flood: String = (0..5000).map(|i| format!("[{i}.000000] I/O error, dev sda, sector {}\n", i + 1000)).collect();
    let kept = rows(&flood);
    assert_eq!(kept.len(), 21);
    assert_eq!(kept[20], (None, Some(4_999_000_000_000), "I/O error, dev sda, sector 5999".into(), Some(4979.0)));
    let kinds: String = (0..30_000)
        .map(|i| {
            let word: String = format!("{i:05}").bytes().map(|b| char::from(b - b'0' + b'a')).collect();
            format!("[{i}.000000] I/O error, dev {word}, sector 1\n")
        })
        .collect();
    let window = window_of(&kinds);
    assert!(window.newest::<LogLine>().len() <= MOST_KEPT);
    assert!(window.snapshots()[0].sources[0].tells.contains("more kinds of lines"));
}

#[test]
fn what_a_syslog_daemon_folded_is_counted() {
    let log = "Dec 20 10:33:23 web kernel: nf_conntrack: table full, dropping packet.
Dec 20 10:33:53 web last message repeated 41 times
Dec 20 10:33:54 web kernel: nothing
Dec 20 10:33:55 web last message repeated 9 times
";
    assert_eq!(rows(log)[0].3, Some(41.0));
}

#[test]
fn a_report_on_memory_is_kept_with_its_list() {
    let log = "[    1.000000] rsync invoked oom-killer: gfp_mask=0x1, order=0
[    1.000001] memory: usage 32768kB, limit 32768kB, failcnt 1
[    1.000002] file_dirty 4096
[    1.000003] pgscan 77
[    1.000004] [  pid  ]   uid  tgid total_vm      rss name
[    1.000005] [    812]     0   812     9498      640 hog
[    1.000006] Memory cgroup out of memory: Killed process 812 (hog)
[    1.000007] [    813]     0   813     9498      640 other
";
    let kept = texts(log);
    assert_eq!(kept.len(), 6);
    assert_eq!(kept[3], "[  pid  ]   uid  tgid total_vm      rss name");
}

#[test]
fn daemons_are_heard_where_they_speak_of_storage() {
    let log = "Dec 20 10:33:23 web multipathd[12]: mpatha: sdc - tur checker reports path is down
Dec 20 10:33:23 web postfix[12]: timed out
Dec 20 10:33:23 web kernel: nothing
";
    assert_eq!(texts(log), ["mpatha: sdc - tur checker reports path is down"]);
    assert_eq!(lines_read(log), Some(1.0));
}

proptest! {
    #[test]
    fn no_json_makes_it_panic(
        fields in prop::collection::vec(
            ("(MESSAGE|msg|time|__REALTIME_TIMESTAMP|_SOURCE_MONOTONIC_TIMESTAMP|SYSLOG_IDENTIFIER)", "(\"\\PC{0,12}\"|-?[0-9.eE]{1,20}|\\[[0-9,]{0,9}\\]|I/O error, dev sda|null|\\{)"),
            0..6,
        ),
        lines: bool,
    ) {
        let join = if lines { ",\n" } else { "," };
        let text: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\" : {value}")).collect();
        let log = format!("{{ \"__CURSOR\" : \"s\"{join}{}{}}}\n", text.join(join), if lines { "\n" } else { "" });
        let _ = crate::testing::read_text(&log);
    }
}

#[test]
fn the_stacks_of_blocked_tasks_are_kept_without_the_rest_of_the_report() {
    let kept = texts(&fixture("hung-tasks-frozen-dmesg.txt"));
    let expected = [
        "INFO: task kworker/u8:5:22740 blocked for more than 4 seconds.",
        "\"echo 0 > /proc/sys/kernel/hung_task_timeout_secs\" disables this message.",
        "task:kworker/u8:5    state:D stack:0     pid:22740 tgid:22740 ppid:2      task_flags:0x4388060 flags:0x00080000",
        "Call Trace:",
        "__schedule+0x3cc/0xf50",
        "schedule+0x23/0xa0",
        "percpu_rwsem_wait+0x15f/0x1d0",
        "__percpu_down_read+0x88/0x150",
        "lo_rw_aio.isra.0+0x33c/0x350",
    ];
    assert_eq!(kept[..expected.len()], expected);
    let words = ["blocked for", "disables", "task:", "Call Trace", "+0x", "are suppressed"];
    assert!(kept.iter().all(|text| words.iter().any(|word| text.contains(word))), "{kept:?}");
}

#[test]
fn stacks_in_a_log_without_times_are_kept() {
    let log = fixture("hung-tasks-frozen-dmesg.txt").replace("than 4 s", "than 120 s");
    let message = |line: &str| line.split_once("] ").map_or(line, |(_, message)| message).to_owned() + "\n";
    let bare: String = log.lines().map(message).collect();
    let (bare, log) = (texts(&bare), texts(&log));
    assert_eq!(bare.len(), log.len());
    for (bare, whole) in bare.iter().zip(&log) {
        assert!(bare.starts_with(whole), "{bare} instead of {whole}");
    }
}

// After show_trace_log_lvl() of kernels without frame pointers and ORC, which mark every function they find.
#[test]
fn functions_that_are_only_found_on_a_stack_are_kept_if_there_are_no_others() {
    let log = "[    1.000000] INFO: task a:1 blocked for more than 120 seconds.
[    1.000001] a               D    0     1      2 0x00000000
[    1.000002] Call Trace:
[    1.000003]  [<ffffffff8de17609>] schedule+0x32/0x80
[    1.000004]  [<ffffffff8de17609>] ? left_before+0x1/0x2

INFO: task b:2 blocked for more than 120 seconds.
Call Trace:
 [<ffffffff8de17609>] ? __schedule+0x239/0x6f0
 [<ffffffffc041afe9>] ? jbd2_journal_commit_transaction+0xf59/0x17c0 [jbd2]
";
    let functions: Vec<String> = texts(log).into_iter().filter(|text| text.contains("+0x")).collect();
    let expected =
        ["schedule+0x32/0x80", "? __schedule+0x239/0x6f0", "? jbd2_journal_commit_transaction+0xf59/0x17c0 [jbd2]"];
    let ends = functions.iter().zip(expected).all(|(text, expected)| text.ends_with(expected));
    assert!(functions.len() == expected.len() && ends, "{functions:?}");
}
