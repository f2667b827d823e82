//! Tests of real incidents: the confirmed cause must come first, and the wrong guess must not appear. The same must
//! hold on other machines, with other devices and numbers.

mod captured;

use captured::{FIXTURES, first, keys};
use std::path::Path;
use std::sync::LazyLock;
use whyslow_diagnose::{RuleBook, VirtualMachines, diagnose, merge_diagnoses};
use whyslow_documents::diagnosis::{Diagnosis, Finding, Origin, Verdict};
use whyslow_import::{Capture, Input};

static RULES: LazyLock<RuleBook> = LazyLock::new(RuleBook::built_in);

/// Returns the captures of an incident: names and texts.
fn captures(number: &str) -> Vec<(String, String)> {
    let mut folders = std::fs::read_dir(Path::new(FIXTURES).join("cases")).unwrap().map(|e| e.unwrap().path());
    let folder = folders.find(|f| f.file_name().unwrap().to_str().unwrap().starts_with(number)).unwrap();
    let files = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let mut texts: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|e| e == "txt"))
        .map(|file| (file.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(file).unwrap()))
        .collect();
    texts.sort();
    texts
}

fn judged(captures: &[(String, String)]) -> Diagnosis {
    let input = |(name, text): &'_ (String, String)| Input {
        name: name.clone(),
        reader: Box::new(std::io::Cursor::new(text.clone().into_bytes())),
    };
    let captures = whyslow_import::read(captures.iter().map(input).collect(), true).unwrap_or_else(|e| panic!("{e}"));
    let of = |c: &Capture| (c.label(), diagnose(&c.window, Origin::Import, &RULES));
    merge_diagnoses(captures.iter().map(of).collect(), VirtualMachines::default(), &RULES).expect("a diagnosis")
}

fn case(number: &str) -> Diagnosis {
    judged(&captures(number))
}

/// Returns the diagnosis of the incident with some words replaced.
fn variant(number: &str, words: &[(&str, &str)]) -> Diagnosis {
    let mut captures = captures(number);
    for (_, text) in &mut captures {
        for (from, to) in words {
            *text = text.replace(from, to);
        }
    }
    judged(&captures)
}

fn roots(d: &Diagnosis) -> impl Iterator<Item = &Finding> {
    d.findings.iter().filter(|f| f.explained_by.is_none())
}

/// Asserts that no finding, cause or effect, has an id with one of these prefixes.
fn finds_none(d: &Diagnosis, ids: &[&str]) {
    let wrong = |key: &&String| ids.iter().any(|id| key.starts_with(id));
    assert_eq!(keys(d).iter().find(wrong), None, "among {:?}", keys(d));
}

/// Asserts that no cause has an id with one of these prefixes; an effect may.
fn blames_none(d: &Diagnosis, ids: &[&str]) {
    let wrong = |key: &String| ids.iter().any(|id| key.starts_with(id));
    assert_eq!(roots(d).map(Finding::key).find(wrong), None, "among {:?}", keys(d));
}

/// Asserts that every cause concerns this subject.
fn blames_only(d: &Diagnosis, subject: &str) {
    assert!(roots(d).all(|f| f.subject.name == subject), "{:?}", keys(d));
}

fn proposes_none(d: &Diagnosis, words: &[&str]) {
    for action in d.findings.iter().flat_map(|f| &f.actions) {
        let told = format!("{} {:?}", action.text, action.try_command).to_lowercase();
        assert!(!words.iter().any(|word| told.contains(word)), "{told}");
    }
}

#[test]
fn one_slow_member_is_blamed_and_not_the_check() {
    let d = case("001");
    assert_eq!(first(&d), "disk.slow_device@sdg");
    blames_only(&d, "sdg");
    finds_none(&d, &["disk.raid_degraded"]);
    let peers = d.findings[0].evidence.iter().find(|e| e.metric == "disk.peers_wait").expect("the others are compared");
    assert!(
        captured::number(std::slice::from_ref(peers), "disk.peers_wait").is_some_and(|wait| wait < 0.12),
        "{peers:?}"
    );
    let d = variant("001", &[("dev8-96", "dev65-32"), ("249.40     99.86", "124.70     97.80")]);
    assert_eq!(first(&d), "disk.slow_device@sds");
    blames_only(&d, "sds");
}

#[test]
fn small_requests_of_a_check_are_blamed_and_no_disk() {
    for d in [
        case("004"),
        variant("004", &[("md0", "md127"), ("check =", "resync =")]),
        variant("004", &[("large1", "small2"), ("(48 CPU)", "(8 CPU)")]),
    ] {
        assert!(first(&d).starts_with("disk.small_io@md"), "{:?}", keys(&d));
        let array = d.findings[0].subject.name.clone();
        blames_only(&d, &array);
        finds_none(&d, &["disk.slow_device", "disk.errors"]);
    }
}

#[test]
fn a_disk_that_stops_is_blamed_and_not_its_cable() {
    let others = [("ata2", "ata5"), ("SAct 0x2020", "SAct 0x1")];
    for (d, port) in [(case("008"), "ata2.00"), (variant("008", &others), "ata5.00")] {
        assert_eq!(first(&d), format!("disk.errors@{port}"));
        assert!(d.findings[0].summary.contains("the disk itself"), "{}", d.findings[0].summary);
        proposes_none(&d, &["cable", "controller", "adapter", "slot"]);
    }
}

#[test]
fn bad_sectors_are_found_though_the_array_is_whole() {
    let other = [("0:0:2:0", "3:0:0:0"), ("sdc", "sdf")];
    for (d, part, disk) in [(case("010"), "0:0:2:0", "sdc"), (variant("010", &other), "3:0:0:0", "sdf")] {
        assert_eq!((first(&d), d.verdict), (format!("disk.errors@{part}"), Verdict::Bottleneck));
        assert!(d.findings[0].summary.contains(disk) && d.findings[0].summary.contains("the disk itself"));
        assert!(d.findings[0].actions[0].text.contains("no fsck"), "{:?}", d.findings[0].actions);
    }
}

#[test]
fn memory_that_nothing_accounts_for_is_the_kernels() {
    let d = case("016");
    assert_eq!(first(&d), "mem.leak@host");
    blames_only(&d, "host");
    finds_none(&d, &["mem.cache_thrash", "cpu.", "disk."]);
    assert!(d.findings[0].summary.contains("The kernel or a driver leaks memory"), "{}", d.findings[0].summary);
}

#[test]
fn a_machine_in_order_is_healthy() {
    for d in [case("020"), variant("020", &[("vda ", "xvdf"), ("  1.41  72.10", "  1.80  92.10")])] {
        assert_eq!((d.verdict, keys(&d)), (Verdict::Healthy, vec![]));
    }
    // Only memory was captured: it is not short, and more is not known.
    for d in [case("028"), variant("028", &[("23948 ", "11948 "), ("483332", "495332"), ("181132", "193132")])] {
        assert_eq!((d.verdict, keys(&d)), (Verdict::Undetermined, vec![]));
        assert!(d.ruled_out.iter().any(|entry| entry.id == "memory"), "{:?}", d.ruled_out);
    }
}

#[test]
fn a_groups_limit_is_not_the_machines() {
    let other = [("rsync", "backup"), ("run-u640.service", "backup.service"), ("128825", "4711")];
    for (d, process, group) in
        [(case("021"), "rsync[128825]", "unit run-u640 "), (variant("021", &other), "backup[4711]", "unit backup ")]
    {
        assert_eq!(keys(&d), [format!("mem.oom_kill@{process}")], "one limit, reached twice");
        let summary = &d.findings[0].summary;
        assert!(summary.contains(group) && summary.contains("reached its own memory limit of 32 MiB"), "{summary}");
        assert!(d.findings[0].actions[0].text.contains("this is not a leak"), "{:?}", d.findings[0].actions);
    }
}

#[test]
fn a_card_that_takes_seconds_is_blamed_and_neither_processor_nor_memory() {
    let point: Vec<(String, String)> = (0..10).map(|d| (format!("{d},"), format!("{d}."))).collect();
    let mut points: Vec<(&str, &str)> = point.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    points.push(("mmcblk1", "mmcblk0"));
    let numbers: Vec<(String, String)> =
        captures("024").into_iter().filter(|(name, _)| name.starts_with("iostat")).collect();
    let mut dotted = numbers;
    for (_, text) in &mut dotted {
        for (from, to) in &points {
            *text = text.replace(from, to);
        }
    }
    for (d, card) in [(case("024"), "mmcblk1"), (judged(&dotted), "mmcblk0")] {
        assert_eq!(first(&d), format!("disk.slow_device@{card}"), "{:?}", keys(&d));
        blames_only(&d, card);
        finds_none(&d, &["cpu.", "mem."]);
    }
}

#[test]
fn a_bad_member_is_blamed_and_not_the_build() {
    for (d, disk) in [(case("026"), "sdg"), (variant("026", &[("sdg", "sdk"), ("md0", "md3")]), "sdk")] {
        assert_eq!(first(&d), format!("disk.slow_device@{disk}"));
        blames_only(&d, disk);
        finds_none(&d, &["disk.raid_degraded", "cpu."]);
        proposes_none(&d, &["sync_speed", "stripe_cache"]);
    }
}

#[test]
fn a_full_table_is_no_fault_of_the_card() {
    for d in [case("030"), variant("030", &[("nf_conntrack", "ip_conntrack"), ("vn197", "lb2"), ("[3545", "[45")])] {
        assert_eq!(keys(&d), ["net.conntrack_full@host"]);
    }
}

#[test]
fn who_holds_the_memory_is_blamed_and_not_who_was_killed() {
    let other = [("evolution", "thunderbird"), ("firefox", "chromium"), ("1792", "812")];
    for (d, process) in [(case("033"), "evolution[1792]"), (variant("033", &other), "thunderbird[812]")] {
        assert_eq!(first(&d), format!("mem.leak@{process}"));
        finds_none(&d, &["mem.cache_thrash"]);
        blames_none(&d, &["mem.oom_kill", "mem.leak@firefox", "mem.leak@chromium"]);
    }
}

#[test]
fn damaged_frames_are_the_links() {
    for (d, card) in [(case("035"), "em1"), (variant("035", &[("em1", "enp3s0f1")]), "enp3s0f1")] {
        assert_eq!(first(&d), format!("net.errors@{card}"));
        blames_none(&d, &["net.window_limited", "net.loss", "disk.", "cpu.", "mem."]);
    }
}

#[test]
fn a_processor_that_others_take_is_not_used_up_by_us() {
    let now = [("%us", " us"), ("%sy", " sy"), ("%ni", " ni"), ("%id", " id"), ("%wa", " wa"), ("%hi", " hi")];
    let now = [&now[..], &[("%si", " si"), ("%st", " st"), (" Cpu", "%Cpu")]].concat();
    for d in [case("037"), variant("037", &now)] {
        assert_eq!(first(&d), "cpu.steal@host");
        blames_none(&d, &["cpu.saturated", "mem."]);
    }
}
