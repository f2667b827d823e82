//! What is measured, and whether the books balance.

use crate::stage::{MIB, Stage, assert_refused, must, report, report_of};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use whyslow_model::bench::{Limit, Report};

#[test]
fn a_folder_is_left_as_it_was() {
    let Some(stage) = Stage::new() else { return };
    let name = stage.folder.path().to_string_lossy().into_owned();
    let report = report(&[&name, "--size", "8M", "--for", "60ms"]);
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
    // On a machine that is busy enough nothing comes back in so short a time, and then there is no ceiling to tell.
    let came_back = |requests: &str| {
        let first = report.rounds.iter().find(|round| round.group == requests).unwrap();
        first.runs[0].read.iter().chain(&first.runs[0].write).any(|flow| flow.operations > 0)
    };
    let mut expected = vec![
        (Limit::Requests, "random read"),
        (Limit::Bandwidth, "sequential read"),
        (Limit::Requests, "random write"),
        (Limit::Bandwidth, "sequential write"),
    ];
    expected.retain(|(_, requests)| came_back(requests));
    let found: Vec<_> = report.ceilings.iter().map(|ceiling| (ceiling.of, &*ceiling.requests)).collect();
    assert_eq!(found, expected);
    assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.failed.is_none() && run.hung == 0));
}

#[test]
fn the_books_of_a_device_balance_to_the_request() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 16 * MIB);
    let report = report(&[&device]);
    let kernel_name = device.trim_start_matches("/dev/");
    for round in report.rounds.iter().filter(|round| round.group == "random read") {
        let ledger = &round.ledgers[0];
        let device = ledger.layers.iter().find(|layer| layer.device == kernel_name).unwrap();
        assert_eq!(ledger.asked.read_bytes, device.traffic.read_bytes, "{}", round.name);
        assert_eq!(ledger.asked.reads, device.traffic.reads + device.reads_merged, "{}", round.name);
        assert_eq!((ledger.foreign_read_bytes, device.traffic.writes), (Some(0), 0), "{}", round.name);
        let run = &round.runs[0];
        let flow = run.read.as_ref().unwrap();
        assert_eq!(run.series.reads.iter().sum::<u64>(), flow.operations);
        assert!(flow.operations <= ledger.asked.reads);
    }
}

#[test]
fn every_way_through_the_cache_is_measured() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 8 * MIB);
    for more in
        [["--cache", "warm"], ["--cache", "cold"], ["--cache", "64M"], ["--engine", "psync"], ["--engine", "mmap"]]
    {
        let report = report(&[&[&*device], &more[..]].concat());
        assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.failed.is_none()), "{more:?}");
        // What the first round read is there in the second, unless the cache is emptied.
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
    let file = stage.path("a.img").to_string_lossy().into_owned();
    assert_refused(&[&file, "--engine", "mmap"], &["mmap"]);
}

#[test]
fn targets_contend_in_pairs() {
    let Some(mut stage) = Stage::new() else { return };
    let devices: Vec<String> = ["a.img", "b.img", "c.img"].map(|name| stage.device(name, 4 * MIB)).into();
    // Beside all the other tests a device may be left waiting for some hundred milliseconds.
    let args: Vec<&str> = ["contend", "--for", "1s"].into_iter().chain(devices.iter().map(String::as_str)).collect();
    let report = report_of(&args);
    let pairs: Vec<[&str; 2]> = report.pairs.iter().map(|pair| [&*pair.names[0], &*pair.names[1]]).collect();
    let [a, b, c] = [&*devices[0], &*devices[1], &*devices[2]];
    assert_eq!(pairs, [[a, b], [a, c], [b, c]], "{:#?}", report.caveats);
    assert!(report.pairs.iter().all(|pair| pair.alone.iter().chain(&pair.together).all(|&rate| rate > 0.0)));
}

#[test]
fn a_file_system_is_left_as_it_was() {
    let Some(stage) = Stage::new() else { return };
    let name = stage.folder.path().to_string_lossy().into_owned();
    let report = report_of(&["fs", &name, "--size", "8M", "--files", "50", "--for", "100ms"]);
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
    assert_eq!((report.files.len(), report.pairs.len()), (8, 3));
    assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.failed.is_none()));
    let moved = |round: &str| {
        let round = report.rounds.iter().find(|found| found.name == round).unwrap();
        round.ledgers[0].asked
    };
    assert_eq!((moved("write").write_bytes, moved("write").flushes), (8 * MIB, 1));
    assert_eq!(moved("read one of eight, cache cold").read_bytes, MIB);
    assert_eq!(moved("read backward, cache cold").read_bytes, 8 * MIB);
}

#[test]
fn only_the_parts_asked_for_of_a_file_system_are_measured() {
    let Some(stage) = Stage::new() else { return };
    let name = stage.folder.path().to_string_lossy().into_owned();
    let only =
        |parts: &[&str]| report_of(&[&["fs", &name, "--size", "1M", "--files", "5", "--for", "10ms"], parts].concat());
    let files = only(&["--only", "files"]);
    assert_eq!((files.files.len(), files.rounds.len(), files.pairs.len()), (8, 0, 0));
    let both = only(&["--only", "streams,together"]);
    assert_eq!((both.files.len(), both.pairs.len()), (0, 3));
    assert!(both.rounds.iter().any(|round| round.name == "write"));
}

#[test]
fn waiting_for_its_turn_is_part_of_a_requests_latency() {
    let Some(stage) = Stage::new() else { return };
    let job = stage.path("job.fio").to_string_lossy().into_owned();
    let folder = stage.folder.path().display();
    // No file system makes a million writes last in a second.
    let rate = "rate_iops=1000000\nfdatasync=1\nruntime=300ms\ntime_based";
    fs::write(&job, format!("[a]\ndirectory={folder}\nsize=1m\nrw=randwrite\n{rate}\n")).unwrap();
    let out =
        Command::new(env!("CARGO_BIN_EXE_whyslow")).args(["bench", "disk", "--json", "--job", &job]).output().unwrap();
    let report: Report = serde_json::from_slice(&out.stdout).expect("a report");
    let run = &report.rounds[0].runs[0];
    let write = run.write.as_ref().unwrap();
    let service = write.service.as_ref().unwrap();
    assert!(run.behind > 100_000, "{}", run.behind);
    assert!(write.latency.max > 0.1 && write.latency.max > 2.0 * service.mean, "{:?} {service:?}", write.latency);
}

#[test]
fn what_others_read_meanwhile_is_not_counted_and_spoils_a_round() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 64 * MIB);
    let point = stage.mount(&device);
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
    let ledger = &round.ledgers[0];
    let (foreign, asked) = (ledger.foreign_read_bytes.unwrap(), ledger.asked.read_bytes);
    // What the program had read of itself meanwhile, its own pages, is in no count of this device.
    assert!(
        (asked + foreign).abs_diff(ledger.layers[0].traffic.read_bytes) < MIB,
        "the books do not balance: {ledger:?}"
    );
    assert!(foreign > MIB && round.spoiled.as_ref().is_some_and(|why| why.contains(name)), "{:?}", round.spoiled);
    let pid = std::process::id();
    assert!(disturbed.environment.others.iter().any(|other| other.pid == pid), "{:?}", disturbed.environment.others);
}
