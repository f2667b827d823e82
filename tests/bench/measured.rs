//! Tests of what is measured, and of the accounting.

use crate::fixture::{
    Fixture, MIB, assert_refused, complete_report_of, content, has_completions, must, report, report_when, whyslow,
};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use whyslow_documents::bench::{BenchReport, Limit, Measurement};

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
        // The second round finds what the first one left in the cache, unless the cache is dropped.
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
    // No file system syncs a million writes per second. On a busy machine, the thread needs a while to get a turn.
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

/// Returns the names and conditions of the figures of a study.
fn figures(report: &BenchReport, study: &str) -> Vec<(String, String)> {
    let study = report.studies.iter().find(|found| found.name == study).expect("the study");
    study.figures.iter().map(|figure| (figure.name.clone(), figure.under.clone())).collect()
}

#[test]
fn sequential_reads_are_measured_by_block_size_and_by_readers_and_change_nothing() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 16 * MIB);
    // On a busy machine, a short run may not issue a request.
    let has_all = |figure: &Measurement| figure.samples.len() == 10;
    let report = report_when(&["disk", &device, "--only", "blocks,readers"], |report| {
        report.studies.iter().flat_map(|study| &study.figures).all(has_all)
    });
    assert_eq!((report.ceilings.len(), report.rounds.len(), report.studies.len()), (0, 0, 2));
    let curve = |name: &str, unders: &[&str]| -> Vec<(String, String)> {
        unders.iter().map(|&under| (name.to_owned(), under.to_owned())).collect()
    };
    let small = ["2 KiB", "4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB", "128 KiB", "256 KiB", "512 KiB"];
    let blocks = [&small[..], &["1 MiB", "2 MiB", "4 MiB"]].concat();
    let readers = ["1 reader", "2 readers", "4 readers", "8 readers", "16 readers"];
    for (study, unders) in
        [("sequential read by block size", &blocks[..]), ("sequential read by readers", &readers[..])]
    {
        assert_eq!(figures(&report, study), [curve("direct", unders), curve("buffered", unders)].concat());
    }
    for study in &report.studies {
        assert_eq!(study.target.map(|at| &*report.targets[at].path), Some(&*device));
        assert!(study.figures.iter().flat_map(|figure| &figure.samples).all(|&rate| rate > 0.0), "{study:?}");
        let says = |what: &str| study.findings.iter().filter(|finding| finding.starts_with(what)).count();
        assert_eq!(
            (says("Direct sequential reads"), says("Buffered sequential reads")),
            (1, 1),
            "{:?}",
            study.findings
        );
    }
    assert!(content(&device).iter().all(|&byte| byte == 0x5a));
}

#[test]
fn a_device_that_splits_requests_is_named_with_its_limit() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 16 * MIB);
    let name = device.trim_start_matches("/dev/");
    let whole = report(&[&device, "--only", "blocks"]);
    assert!(whole.splits.iter().all(|split| split.from > 64 << 10), "{:?}", whole.splits);
    let limit = format!("/sys/block/{name}/queue/max_sectors_kb");
    // The kernel keeps the limit when the device is detached.
    let (before, file) = (fs::read_to_string(&limit).unwrap(), limit.clone());
    fixture.undo(move || drop(fs::write(file, before)));
    fs::write(&limit, "64").unwrap();
    let split = report(&[&device, "--only", "blocks"]);
    let [found] = &split.splits[..] else { panic!("{:?}", split.splits) };
    assert_eq!((&*found.device, found.from, found.block, found.request), (name, 128 << 10, 4 << 20, 65536.0));
    assert_eq!((found.limit.as_deref(), found.limit_bytes), (Some("queue/max_sectors_kb"), Some(64 << 10)));
    let said =
        format!("{name} splits reads of more than 64 KiB (queue/max_sectors_kb): 4 MiB become requests of 64 KiB.");
    assert!(split.studies[0].findings.contains(&said), "{:?}", split.studies[0].findings);
}

#[test]
fn direct_reads_are_no_smaller_than_a_sector() {
    let Some(mut fixture) = Fixture::new() else { return };
    fs::write(fixture.path("a.img"), vec![0x5a; 4 * MIB as usize]).unwrap();
    let file = fixture.name("a.img");
    let device = fixture.attach(&["--sector-size", "4096", &file]);
    let report = report(&[&device, "--only", "blocks"]);
    let figures = figures(&report, "sequential read by block size");
    let has = |name: &str, under: &str| figures.contains(&(name.to_owned(), under.to_owned()));
    assert!(!has("direct", "2 KiB") && has("direct", "4 KiB") && has("buffered", "2 KiB"), "{figures:?}");
}

#[test]
fn what_a_benchmark_takes_at_most_is_said_before_it_begins() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 4 * MIB);
    let said = |args: &[&str]| {
        let out = whyslow(&[&["disk", &*device, "--for", "10ms"], args].concat()).output().unwrap();
        String::from_utf8(out.stderr).unwrap()
    };
    // Five sizes, direct and buffered, each with 0.3 s to start ten runs of 1 ms.
    assert_eq!(said(&["--only", "readers"]), "This takes at most 4 s.\n");
    assert!(!said(&["--cache", "warm", "--poll"]).contains("at most"), "a benchmark that is refused takes no time");
}
