//! Tests that ship recordings to folders, and to a bucket whose server fails in every way.

mod server;

use crate::destination::{Destination, ShipError};
use crate::shipper::{Pass, Shipper};
use bytes::Bytes;
use jiff::civil::date;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use server::{Reply, Server};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use whyslow_model::catalogue::{InventoryChange, InventoryItem, MachineInfo, System};
use whyslow_model::key::{InventoryKey, MachineKey};
use whyslow_model::snapshot::Snapshot;
use whyslow_rollup::{Hour, Place};
use whyslow_store::{Recorder, Recording, Retention};

const SECOND: i64 = 1_000_000_000;
const HOUR: Hour = Hour { day: date(2026, 11, 26), hour: 16 };
const RETENTION: Retention = Retention { time: Duration::MAX, bytes: 1 << 30, thin_when_full: true };
const STEP: i64 = 10;
static NEVER: AtomicBool = AtomicBool::new(false);

/// Returns the start of the hour, nanoseconds since 1970.
fn start() -> i64 {
    HOUR.start() * 1_000_000
}

/// Returns a sample this many seconds after the start of the hour, by the clock and since boot, with seven times as many context
/// switches.
fn sample(wall: i64, up: i64) -> Snapshot {
    let up = up + 1_000_000;
    let mut sample =
        Snapshot { wall_ns: start() + wall * SECOND, boot_ns: (up * SECOND).unsigned_abs(), ..Snapshot::default() };
    sample.kernel.machine.push(MachineInfo { boot: "b00t".into(), ..MachineInfo::new(MachineKey) });
    let switches = (up * 7).unsigned_abs().into();
    sample.processor.system.push(System { context_switches: switches, ..System::new(MachineKey) });
    sample
}

fn recorder(dir: &Path) -> Recorder {
    Recorder::begin(dir, Duration::from_secs(10), RETENTION, Arc::new(|_: &str| {})).unwrap()
}

fn add(recorder: &Recorder, samples: impl IntoIterator<Item = Snapshot>) {
    for sample in samples {
        while recorder.waiting() > 30 {
            std::thread::sleep(Duration::from_millis(1));
        }
        recorder.add(sample, Instant::now());
    }
    while recorder.waiting() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns samples at the usual interval, from and to this many seconds after the start of the hour.
fn samples(from: i64, to: i64) -> impl Iterator<Item = Snapshot> {
    (from..=to).step_by(STEP as usize).map(|second| sample(second, second))
}

fn recorded(samples: impl IntoIterator<Item = Snapshot>) -> TempDir {
    let dir = whyslow_testing::memory_folder();
    let recorder = recorder(dir.path());
    add(&recorder, samples);
    recorder.finish().unwrap();
    dir
}

fn shipper(destination: Destination, recording: &Path) -> Shipper {
    Shipper::new(destination, "db-1", "1.0", Vec::new(), recording).unwrap()
}

fn to_folder(store: &Path, recording: &Path) -> Shipper {
    shipper(Destination::open(store.to_str().unwrap()).unwrap(), recording)
}

/// Runs a pass this many seconds after the start of the hour.
fn pass(shipper: &mut Shipper, recording: &Path, now: i64) -> Pass {
    let open = || Recording::open(recording).map_err(|error| ShipError::from(error.to_string()));
    shipper.pass(&open, start() + now * SECOND, &NEVER)
}

/// Reads all files below a folder, by path.
fn files(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![store.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(store).unwrap().to_str().unwrap().to_owned();
                all.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    all
}

fn rows(file: &[u8]) -> Vec<Row> {
    let reader = SerializedFileReader::new(Bytes::copy_from_slice(file)).unwrap();
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

fn column(row: &Row, name: &str) -> Field {
    let mut columns = row.get_column_iter();
    columns.find(|(column, _)| column.as_str() == name).map(|(_, field)| field.clone()).unwrap()
}

/// Sums the context switches in all files, and the samples.
fn sums(files: &BTreeMap<String, Vec<u8>>) -> (i64, i64) {
    let of = |table: &str, name: &str| -> i64 {
        let files = files.iter().filter(|(path, _)| Place::parse(path).unwrap().table == table);
        let rows = files.flat_map(|(_, file)| rows(file));
        rows.map(|row| if let Field::Long(number) = column(&row, name) { number } else { 0 }).sum()
    };
    (of("system", "context_switches"), of("minute", "samples"))
}

fn whole(file: &[u8]) -> String {
    let reader = SerializedFileReader::new(Bytes::copy_from_slice(file)).unwrap();
    let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
    pairs.iter().find(|pair| pair.key == "whyslow.complete").unwrap().value.clone().unwrap()
}

#[test]
fn each_hour_has_what_happened_in_it() {
    // From ten minutes before the hour to twenty minutes into it.
    let recording = recorded(samples(-600, 1200));
    let store = whyslow_testing::memory_folder();
    let pass = pass(&mut to_folder(store.path(), recording.path()), recording.path(), 1210);
    assert_eq!((pass.hours, pass.left, pass.failure.map(|e| e.to_string())), (2, 0, None));
    let files = files(store.path());
    assert_eq!((pass.files, pass.bytes), (files.len(), files.values().map(|file| file.len() as u64).sum()));
    let system = |hour: i8| rows(&files[&format!("v1/incoming/system/day=2026-11-26/hour={hour}/db-1.parquet")]);
    let (before, after) = (system(15), system(16));
    assert_eq!((before.len(), after.len()), (10, 21), "a row for each minute");
    let first = [column(&before[0], "host"), column(&before[0], "seconds"), column(&before[0], "context_switches")];
    assert_eq!(first, [Field::Str("db-1".into()), Field::Double(50.0), Field::Long(350)]);
    // The step from the last sample of the previous hour is counted in the first minute of this one.
    let first = [column(&after[0], "at"), column(&after[0], "seconds"), column(&after[0], "context_switches")];
    assert_eq!(first, [Field::TimestampMillis(HOUR.start()), Field::Double(60.0), Field::Long(420)]);
    assert_eq!(sums(&files), (1800 * 7, 181));
    let complete = |hour: i8| whole(&files[&format!("v1/incoming/minute/day=2026-11-26/hour={hour}/db-1.parquet")]);
    assert_eq!((complete(15), complete(16)), ("true".into(), "false".into()));
}

#[test]
fn delivering_again_changes_nothing() {
    let recording = recorded(samples(-600, 600));
    let store = whyslow_testing::memory_folder();
    let mut shipper = to_folder(store.path(), recording.path());
    assert_eq!(pass(&mut shipper, recording.path(), 610).hours, 2);
    let before = files(store.path());
    assert_eq!(pass(&mut shipper, recording.path(), 610).files, 0, "nothing is new");
    // Only now is the previous hour complete.
    assert_eq!(pass(&mut shipper, recording.path(), 700).hours, 1);
    drop(shipper);
    std::fs::remove_dir_all(recording.path().join("ship")).unwrap();
    let mut shipper = to_folder(store.path(), recording.path());
    assert_eq!(pass(&mut shipper, recording.path(), 610).hours, 2, "nothing is known of what was delivered");
    assert!(files(store.path()) == before, "the same bytes");
}

#[test]
fn an_hour_that_goes_on_is_replaced_by_more() {
    let recording = whyslow_testing::memory_folder();
    let recorder = recorder(recording.path());
    let store = whyslow_testing::memory_folder();
    add(&recorder, samples(0, 300));
    let mut shipper = to_folder(store.path(), recording.path());
    assert_eq!(pass(&mut shipper, recording.path(), 300).hours, 1);
    assert_eq!(sums(&files(store.path())), (300 * 7, 31), "of a tail");
    add(&recorder, samples(310, 900));
    assert_eq!(pass(&mut shipper, recording.path(), 900).hours, 1);
    assert_eq!(sums(&files(store.path())), (900 * 7, 91), "of a closed segment and a tail");
    recorder.finish().unwrap();
    assert_eq!(pass(&mut shipper, recording.path(), 910).hours, 0, "the same samples, closed");
    assert_eq!(pass(&mut shipper, recording.path(), 3600 + 660).hours, 1, "nothing more is expected");
    let files = files(store.path());
    assert_eq!(sums(&files), (900 * 7, 91));
    assert!(files.values().all(|file| whole(file) == "true"));
}

#[test]
fn days_without_a_store_are_caught_up_with() {
    // Two days at ten-minute intervals: 289 samples.
    let two_days = (-48 * 6..=0).map(|tick| sample(tick * 600, tick * 600));
    let recording = recorded(two_days);
    let store = whyslow_testing::memory_folder();
    let mut shipper = to_folder(store.path(), recording.path());
    let first = pass(&mut shipper, recording.path(), 10);
    assert_eq!((first.hours, first.left, first.lost.len()), (49, 0, 0));
    assert_eq!(sums(&files(store.path())), (48 * 3600 * 7, 289));
    let delivered: BTreeSet<Hour> = files(store.path()).keys().map(|path| Place::parse(path).unwrap().hour).collect();
    assert_eq!(delivered.len(), 49);
}

#[test]
fn a_clock_that_is_set_back_costs_one_step_and_doubles_nothing() {
    // At 16:05 the clock is set back to 15:55, and five minutes later forward again.
    let back = (310..=600).step_by(10).map(|up| sample(up - 605, up));
    let forward = (610..=900).step_by(10).map(|up| sample(up, up));
    let recording = recorded(samples(0, 300).chain(back).chain(forward));
    let store = whyslow_testing::memory_folder();
    let pass = pass(&mut to_folder(store.path(), recording.path()), recording.path(), 900);
    assert_eq!((pass.hours, pass.failure.map(|e| e.to_string())), (2, None));
    // The start of the step back is in an hour after its end.
    assert_eq!(sums(&files(store.path())), (890 * 7, 91));
}

#[test]
fn hours_that_expire_before_they_are_delivered_are_reported() {
    let recording = recorded(samples(-600, 600));
    let server = Server::start([Reply::Status(503)]);
    let mut shipper = shipper(server.destination(), recording.path());
    let failed = pass(&mut shipper, recording.path(), 600);
    assert_eq!((failed.hours, failed.left), (0, 2));
    // By the time the store is back, the previous hour has expired.
    drop(shipper);
    let left = recorded(samples(0, 600));
    std::fs::rename(recording.path().join("ship"), left.path().join("ship")).unwrap();
    let mut shipper = shipper_of(&server, left.path());
    let pass = pass(&mut shipper, left.path(), 600);
    assert_eq!(pass.lost, [Hour { hour: 15, ..HOUR }]);
    assert_eq!((pass.hours, pass.left), (1, 0));
}

fn shipper_of(server: &Server, recording: &Path) -> Shipper {
    shipper(server.destination(), recording)
}

#[test]
fn whatever_a_store_does_nothing_is_lost_and_nothing_twice() {
    let recording = recorded(samples(-600, 1200));
    let store = whyslow_testing::memory_folder();
    assert!(pass(&mut to_folder(store.path(), recording.path()), recording.path(), 1210).failure.is_none());
    std::fs::remove_dir_all(recording.path().join("ship")).unwrap();
    let troubles = [
        Reply::Status(500),
        Reply::Status(403),
        Reply::Stored,
        Reply::Cut,
        Reply::Stored,
        Reply::Stored,
        // Stored, but not acknowledged.
        Reply::StoredAndCut,
        Reply::Hang,
        Reply::Stored,
        Reply::Status(503),
    ];
    let server = Server::start(troubles);
    let mut failures = Vec::new();
    for _ in 0..20 {
        // Each pass starts as after a kill, with only the saved state.
        let pass = pass(&mut shipper_of(&server, recording.path()), recording.path(), 1210);
        match pass.failure {
            Some(failure) => failures.push(failure.to_string()),
            None => break,
        }
    }
    assert_eq!(failures.len(), 6, "{failures:#?}");
    assert!(failures[1].contains("403") || failures[1].to_lowercase().contains("denied"), "{}", failures[1]);
    assert!(server.files() == files(store.path()), "the same as if nothing had happened");
    let rest = pass(&mut shipper_of(&server, recording.path()), recording.path(), 1210);
    assert_eq!((rest.hours, rest.left), (0, 0));
}

#[test]
fn a_server_that_is_killed_while_many_hosts_ship_loses_and_doubles_nothing() {
    let recording = recorded(samples(-600, 1200));
    let store = whyslow_testing::memory_folder();
    let hosts: Vec<String> = (0..8).map(|number| format!("db-{number}")).collect();
    let shipper = |destination: Destination, host: &str| {
        Shipper::new(destination, host, "1.0", Vec::new(), recording.path()).unwrap()
    };
    for host in &hosts {
        let destination = Destination::open(store.path().to_str().unwrap()).unwrap();
        assert!(pass(&mut shipper(destination, host), recording.path(), 1210).failure.is_none());
    }
    let server = Server::start([]);
    let ship_all = |host: &str| {
        let mut failures = 0;
        while pass(&mut shipper(server.destination(), host), recording.path(), 1210).failure.is_some() {
            failures += 1;
            std::thread::sleep(Duration::from_millis(5));
        }
        failures
    };
    let ship_all = &ship_all;
    let failures: u32 = std::thread::scope(|scope| {
        let shipping: Vec<_> = hosts.iter().map(|host| scope.spawn(move || ship_all(host))).collect();
        for kill in 1..=6 {
            server.wait_for_requests(kill * 5);
            server.kill();
            std::thread::sleep(Duration::from_millis(20));
            server.restart();
        }
        shipping.into_iter().map(|host| host.join().unwrap()).sum()
    });
    assert!(failures > 0, "nothing was under way");
    assert!(server.files() == files(store.path()), "the same as if nothing had happened");
}

#[test]
fn an_upload_that_hangs_ends_when_asked_to() {
    let recording = recorded(samples(0, 60));
    let server = Server::start([Reply::Hang]);
    let mut shipper = shipper_of(&server, recording.path());
    let stop = AtomicBool::new(false);
    let open = || Recording::open(recording.path()).map_err(|error| ShipError::from(error.to_string()));
    let pass = std::thread::scope(|scope| {
        let shipping = scope.spawn(|| shipper.pass(&open, start(), &stop));
        server.wait_for_requests(1);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        shipping.join().unwrap()
    });
    assert_eq!((pass.hours, pass.left), (0, 1));
    assert!(pass.failure.is_none(), "{:?}", pass.failure);
}

#[test]
fn a_hostile_name_stays_within_its_folder() {
    let recording = recorded(samples(0, 60));
    let store = whyslow_testing::memory_folder();
    let server = Server::start([]);
    let name = "../../x\n%2e\u{202e} é";
    for destination in [Destination::open(store.path().to_str().unwrap()).unwrap(), server.destination()] {
        let mut shipper = Shipper::new(destination, name, "1.0", Vec::new(), recording.path()).unwrap();
        assert!(pass(&mut shipper, recording.path(), 60).failure.is_none());
    }
    assert!(files(store.path()) == server.files());
    let all = files(store.path());
    assert!(!all.is_empty());
    for (path, file) in all {
        let place = Place::parse(&path).unwrap_or_else(|| panic!("{path}"));
        assert_eq!((place.host(), column(&rows(&file)[0], "host")), (Some(name), Field::Str(name.into())));
    }
    for wrong in ["", &"x".repeat(300)] {
        let destination = server.destination();
        assert!(Shipper::new(destination, wrong, "1.0", Vec::new(), recording.path()).is_err());
    }
}

#[test]
fn the_inventory_is_in_the_first_hour_of_a_day_and_changes_where_they_happened() {
    let item = |name: &str, value: &str| InventoryItem {
        value: value.into(),
        ..InventoryItem::new(InventoryKey { kind: "package".into(), name: name.into() })
    };
    let with_inventory = samples(-600, 600).map(|mut sample| {
        let second = (sample.wall_ns - start()) / SECOND;
        let changed = if second < 300 { "1.0" } else { "2.0" };
        // At the start of the recording, and at the start of the hour.
        if second == -600 || second == 0 {
            sample.kernel.inventory = vec![item("bash", "5.2"), item("nginx", changed)];
        }
        if second == 300 {
            let key = InventoryKey { kind: "package".into(), name: "nginx".into() };
            let change = InventoryChange { old: "1.0".into(), new: "2.0".into(), ..InventoryChange::new(key) };
            sample.kernel.change = vec![change];
        }
        sample
    });
    let recording = recorded(with_inventory);
    let store = whyslow_testing::memory_folder();
    let destination = Destination::open(store.path().to_str().unwrap()).unwrap();
    let labels = vec![("role".to_owned(), "db".to_owned())];
    let mut shipper = Shipper::new(destination, "db-1", "1.0", labels, recording.path()).unwrap();
    assert!(pass(&mut shipper, recording.path(), 600).failure.is_none());
    let files = files(store.path());
    let words = |table: &str, names: &[&str]| -> Vec<(i8, Vec<Field>)> {
        let of_table = files.iter().filter_map(|(path, file)| {
            let place = Place::parse(path).unwrap();
            (place.table == table).then(|| rows(file).into_iter().map(move |row| (place.hour.hour, row)))
        });
        let cells = |(hour, row): (i8, Row)| (hour, names.iter().map(|name| column(&row, name)).collect());
        of_table.flatten().map(cells).collect()
    };
    let text = |words: &[&str]| words.iter().map(|word| Field::Str((*word).into())).collect::<Vec<_>>();
    let expected = [["package", "bash", "5.2"], ["package", "nginx", "1.0"], ["label", "role", "db"]];
    assert_eq!(words("inventory", &["kind", "name", "value"]), expected.map(|row| (15, text(&row))));
    let expected = [(16, text(&["package", "nginx", "1.0", "2.0"]))];
    assert_eq!(words("change", &["kind", "name", "old", "new"]), expected);
    assert_eq!(words("change", &["at"]), [(16, vec![Field::TimestampMillis(HOUR.start() + 300_000)])]);
}
