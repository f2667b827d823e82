//! What is measured, and whether the accounting is right.

use crate::fixture::{
    Fixture, MIB, assert_refused, complete_report_of, has_completions, must, report, report_when, whyslow,
};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use whyslow_model::bench::{BenchReport, Limit};

#[test]
fn a_folder_is_left_as_it_was() {
    let Some(fixture) = Fixture::new() else { return };
    let name = fixture.name("");
    let report = report_when(&["disk", &name, "--size", "8M"], |report| report.ceilings.len() == 4);
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
    let found: Vec<_> = report.ceilings.iter().map(|ceiling| (ceiling.of, &*ceiling.requests)).collect();
    let expected = [
        (Limit::Requests, "random read"),
        (Limit::Bandwidth, "sequential read"),
        (Limit::Requests, "random write"),
        (Limit::Bandwidth, "sequential write"),
    ];
    assert_eq!(found, expected);
    assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.failed.is_none() && run.hung == 0));
}

#[test]
fn the_accounting_of_a_device_is_exact_to_the_request() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 16 * MIB);
    let report = report(&[&device]);
    let kernel_name = device.trim_start_matches("/dev/");
    for round in report.rounds.iter().filter(|round| round.group == "random read") {
        let accounting = &round.ledgers[0];
        let device = accounting.layers.iter().find(|layer| layer.device == kernel_name).unwrap();
        assert_eq!(accounting.asked.read_bytes, device.traffic.read_bytes, "{}", round.name);
        assert_eq!(accounting.asked.reads, device.traffic.reads + device.reads_merged, "{}", round.name);
        assert_eq!((accounting.foreign_read_bytes, device.traffic.writes), (Some(0), 0), "{}", round.name);
        let run = &round.runs[0];
        let flow = run.read.as_ref().unwrap();
        assert_eq!(run.series.reads.iter().sum::<u64>(), flow.operations);
        assert!(flow.operations <= accounting.asked.reads);
    }
}

#[test]
fn each_cache_mode_treats_the_page_cache_as_it_says() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 8 * MIB);
    for more in
        [["--cache", "warm"], ["--cache", "cold"], ["--cache", "64M"], ["--engine", "psync"], ["--engine", "mmap"]]
    {
        let args = [&["disk", &*device], &more[..]].concat();
        let report = report_when(&args, |report| has_completions(&report.rounds[0]));
        assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.failed.is_none()), "{more:?}");
        // The second round finds what the first left, unless the cache is dropped.
        let cache = |round: usize| report.rounds[round].ledgers[0].cache;
        match more[1] {
            "warm" | "mmap" => {
                let left = cache(0).unwrap().after;
                assert!(left > 0 && cache(1).unwrap().before == left, "{more:?}");
            }
            "cold" | "64M" => assert_eq!(cache(1).unwrap().before, 0, "{more:?}"),
            _ => assert_eq!(cache(1), None),
        }
    }
    let file = fixture.name("a.img");
    assert_refused(&[&file, "--engine", "mmap"], &["mmap"]);
}

#[test]
fn targets_are_measured_in_all_pairs() {
    let Some(mut fixture) = Fixture::new() else { return };
    let [a, b, c] = ["a.img", "b.img", "c.img"].map(|name| fixture.device(name, 4 * MIB));
    let report = complete_report_of(&["contend", &a, &b, &c]);
    let pairs: Vec<[&str; 2]> = report.pairs.iter().map(|pair| [&*pair.names[0], &*pair.names[1]]).collect();
    assert_eq!(pairs, [[&*a, &*b], [&*a, &*c], [&*b, &*c]], "{:#?}", report.caveats);
    assert!(report.pairs.iter().all(|pair| pair.alone.iter().chain(&pair.together).all(|&rate| rate > 0.0)));
}

#[test]
fn a_file_system_is_left_as_it_was() {
    let Some(fixture) = Fixture::new() else { return };
    let name = fixture.name("");
    let report = report_when(&["fs", &name, "--size", "8M", "--files", "50"], |report| report.pairs.len() == 3);
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
    assert_eq!((report.files.len(), report.pairs.len()), (8, 3));
    assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.failed.is_none()));
    let asked = |round: &str| report.rounds.iter().find(|found| found.name == round).unwrap().ledgers[0].asked;
    assert_eq!((asked("write").write_bytes, asked("write").flushes), (8 * MIB, 1));
    assert_eq!(asked("read one of eight, cache cold").read_bytes, MIB);
    assert_eq!(asked("read backward, cache cold").read_bytes, 8 * MIB);
}

#[test]
fn only_the_requested_parts_of_a_file_system_are_measured() {
    let Some(fixture) = Fixture::new() else { return };
    let name = fixture.name("");
    let only = |parts| complete_report_of(&["fs", &name, "--size", "1M", "--files", "5", "--only", parts]);
    let files = only("files");
    assert_eq!((files.files.len(), files.rounds.len(), files.pairs.len()), (8, 0, 0));
    let both = only("streams,together");
    assert_eq!((both.files.len(), both.pairs.len()), (0, 3));
    assert!(both.rounds.iter().any(|round| round.name == "write"));
}

#[test]
fn time_waiting_to_be_issued_is_part_of_a_requests_latency() {
    let Some(fixture) = Fixture::new() else { return };
    let job = fixture.name("job.fio");
    let folder = fixture.folder.path().display();
    // No file system syncs a million writes in a second. On a busy machine, the thread needs a while to get a turn.
    let is_late = |runtime: &str| {
        let rate = format!("rate_iops=1000000\nfdatasync=1\nruntime={runtime}\ntime_based");
        fs::write(&job, format!("[a]\ndirectory={folder}\nsize=1m\nrw=randwrite\n{rate}\n")).unwrap();
        let out = whyslow(&["disk", "--json", "--job", &job]).output().unwrap();
        let report: BenchReport = serde_json::from_slice(&out.stdout).expect("a report");
        let run = &report.rounds[0].runs[0];
        assert!(run.behind > 100_000, "{}", run.behind);
        let write = run.write.as_ref().unwrap();
        write.latency.max > 0.1 && write.latency.max > 2.0 * write.service.as_ref().unwrap().mean
    };
    assert!(["300ms", "3s", "30s"].into_iter().any(is_late));
}

#[test]
fn foreign_reads_are_not_counted_and_make_a_round_unreliable() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 64 * MIB);
    let point = fixture.mount(&device);
    let [data, other] = ["data", "other"].map(|name| Path::new(&point).join(name));
    for file in [&data, &other] {
        fs::write(file, vec![0x5a; 8 * MIB as usize]).unwrap();
    }
    must(&mut Command::new("sync"));
    let quiet = report(&[&data.to_string_lossy()]);
    assert!(quiet.rounds.iter().all(|round| round.spoiled.is_none()), "{:?}", quiet.rounds);
    let done = AtomicBool::new(false);
    let disturbed = thread::scope(|scope| {
        scope.spawn(|| {
            let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&other).unwrap();
            let mut memory = vec![0; 2 * MIB as usize];
            let block = memory.as_ptr().align_offset(4096);
            while !done.load(Ordering::Relaxed) {
                file.read_exact_at(&mut memory[block..block + MIB as usize], 0).unwrap();
            }
        });
        let report = report(&[&data.to_string_lossy(), "--for", "100ms"]);
        done.store(true, Ordering::Relaxed);
        report
    });
    let name = device.trim_start_matches("/dev/");
    let round = disturbed.rounds.iter().find(|round| round.group == "random read").unwrap();
    let accounting = &round.ledgers[0];
    let (foreign, asked) = (accounting.foreign_read_bytes.unwrap(), accounting.asked.read_bytes);
    // The program's own pages are read from another device.
    assert!((asked + foreign).abs_diff(accounting.layers[0].traffic.read_bytes) < MIB, "{accounting:?}");
    assert!(foreign > MIB && round.spoiled.as_ref().is_some_and(|why| why.contains(name)), "{:?}", round.spoiled);
    let pid = std::process::id();
    assert!(disturbed.environment.others.iter().any(|other| other.pid == pid), "{:?}", disturbed.environment.others);
}
