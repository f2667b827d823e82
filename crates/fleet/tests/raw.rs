//! A span of a host's own recording, over the store.

mod shipped;
#[path = "../../../tests/skip/mod.rs"]
mod skip;

use shipped::{fleet, printed, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_model::catalogue::{MachineInfo, System};
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_rollup::PublicKey;
use whyslow_ship::{Destination, RawAnswer, ShipError, Shipper};
use whyslow_store::{Recorder, Recording, Retention};
use whyslow_testing::memory_folder;

const SECOND: i64 = 1_000_000_000;
const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIBaxh+/2vCZYJ1Afsu2y1nkwJVLlazOV91lksLRthQXk
-----END PRIVATE KEY-----
";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAvCf21zzpaqLPrC9wxSmfHuL3Zxwxr93Ghk6DRi706ZE=
-----END PUBLIC KEY-----
";
/// When the recording begins, and a span of it.
const START: &str = "2024-11-26T10:00:00Z";
const SPAN: &str = "2024-11-26T10:03:00Z..2024-11-26T10:05:00Z";

fn start() -> i64 {
    i64::try_from(START.parse::<jiff::Timestamp>().unwrap().as_nanosecond()).unwrap()
}

/// Records ten minutes, a sample each ten seconds.
fn record(folder: &Path) {
    let retention = Retention { time: Duration::MAX, ..Retention::default() };
    let recorder = Recorder::begin(folder, Duration::from_secs(10), retention, Arc::new(|_: &str| {})).unwrap();
    for second in (0..600_i64).step_by(10) {
        let boot_ns = (1_000_000 + second).unsigned_abs() * 1_000_000_000;
        let mut sample = Snapshot { wall_ns: start() + second * SECOND, boot_ns, ..Snapshot::default() };
        sample.kernel.machine.push(MachineInfo { boot: "b00t".into(), ..MachineInfo::new(MachineKey) });
        let switches = second.unsigned_abs().into();
        sample.processor.system.push(System { context_switches: switches, ..System::new(MachineKey) });
        while recorder.waiting() > 30 {
            thread::sleep(Duration::from_millis(1));
        }
        recorder.add(sample, Instant::now());
    }
    recorder.finish().unwrap();
}

/// A host that answers until it is stopped.
struct AnsweringHost<'h> {
    shipper: Shipper,
    recording: &'h Path,
}

impl<'h> AnsweringHost<'h> {
    fn new(store: &Path, recording: &'h Path) -> Self {
        let destination = Destination::open(store.to_str().unwrap()).unwrap();
        let shipper = Shipper::new(destination, "db-1", "1.0", Vec::new(), recording).unwrap();
        Self { shipper: shipper.answering(PublicKey::parse_all(PUBLIC.as_bytes()).unwrap()), recording }
    }

    fn answer(&mut self) -> Vec<Result<RawAnswer, String>> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let open = || Recording::open(self.recording).map_err(|error| ShipError::from(error.to_string()));
        let now = i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap();
        let answers = self.shipper.answer(&open, now, &NEVER);
        answers.into_iter().map(|answer| answer.map_err(|error| error.to_string())).collect()
    }

    /// Answers while something else is done.
    fn answers_while<T>(&mut self, other: impl FnOnce() -> T) -> (T, Vec<Result<RawAnswer, String>>) {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let answering = scope.spawn(|| {
                let mut all = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    all.extend(self.answer());
                    thread::sleep(Duration::from_millis(20));
                }
                all
            });
            let done = other();
            stop.store(true, Ordering::Relaxed);
            (done, answering.join().unwrap())
        })
    }
}

fn write_key(path: &Path) {
    fs::write(path, PRIVATE).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_part_of_a_recording_is_fetched_over_the_store_once() {
    let (store, own, recording) = (memory_folder(), memory_folder(), memory_folder());
    record(recording.path());
    let (key, saved) = (own.path().join("key.pem"), own.path().join("part"));
    write_key(&key);
    let mut host = AnsweringHost::new(store.path(), recording.path());
    let words = ["host", "db-1", "--raw", SPAN, "--key", key.to_str().unwrap(), "--save", saved.to_str().unwrap()];
    let (said, answers) = host.answers_while(|| printed(store.path(), &words));
    assert!(said.starts_with("whyslow explain --from 2024-11-26T10:03:00Z --to 2024-11-26T10:05:00Z --dir "), "{said}");
    let [Ok(answer)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((answer.request.host.as_str(), &answer.refused), ("db-1", &None));
    let part = Recording::open(&saved).unwrap();
    let second = |second: i64| start() + second * SECOND;
    let samples = part.snapshots(&(second(180)..=second(300) - 1), &|_: &str| true).unwrap();
    let switches = samples.iter().map(|sample| sample.processor.system[0].context_switches.get());
    assert!(switches.eq((180..300).step_by(10).map(Some)));
    assert!(*part.span().start() >= second(180 - 75) && *part.span().end() < second(300), "and not much more");
    assert!(run(store.path(), &words).status.code() == Some(2), "the folder is not empty now");
    // The request is still there, and the answer is not; another process of the host knows that it has answered.
    assert_eq!(host.answer(), []);
    drop(host);
    assert_eq!(AnsweringHost::new(store.path(), recording.path()).answer(), []);
    let left = fs::read_dir(store.path().join("v1/raw/db-1")).into_iter().flatten().count();
    assert_eq!(left, 0, "the answer is deleted");
}

#[test]
fn what_was_fetched_is_explained() {
    let (store, own, recording) = (memory_folder(), memory_folder(), memory_folder());
    record(recording.path());
    let key = own.path().join("key.pem");
    write_key(&key);
    let program = fleet(store.path(), &[]).get_program().to_owned();
    if !Path::new(&program).with_file_name("whyslow").exists() {
        return skip::skip_unless_ci("needs the program whyslow beside whyslow-fleet (cargo build)");
    }
    let mut host = AnsweringHost::new(store.path(), recording.path());
    let words = ["host", "db-1", "--raw", SPAN, "--key", key.to_str().unwrap()];
    let (said, _) = host.answers_while(|| printed(store.path(), &[&words[..], &["--export", "system"]].concat()));
    assert_eq!(said.lines().count(), 1 + 12, "{said}");
    let (said, _) = host.answers_while(|| printed(store.path(), &[&words[..], &["--json"]].concat()));
    let document: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (document["samples"].as_u64(), document["start"].as_str()),
        (Some(12), Some("2024-11-26T10:03:00.000Z"))
    );
    let of_another_day = "2024-11-25T10:03:00Z..2024-11-25T10:05:00Z";
    let words = ["host", "db-1", "--raw", of_another_day, "--key", key.to_str().unwrap()];
    let (output, _) = host.answers_while(|| run(store.path(), &words));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("db-1 answers: nothing was recorded then"), "{said}");
}

#[test]
fn what_the_key_has_not_signed_is_not_answered() {
    let (store, own, recording) = (memory_folder(), memory_folder(), memory_folder());
    record(recording.path());
    let mut host = AnsweringHost::new(store.path(), recording.path());
    assert_eq!(host.answer(), []);
    let folder = store.path().join("v1/requests/db-1");
    fs::create_dir_all(&folder).unwrap();
    let place = folder.join(format!("{}.json", PublicKey::parse_all(PUBLIC.as_bytes()).unwrap()[0]));
    // Names that the host does not look at, however many.
    for name in ["x.json", "../db-2.json"].map(|name| folder.join(name)) {
        fs::write(name, "{}").unwrap();
    }
    let mut refused = |why: &str| {
        let answers = host.answer();
        let [Err(error)] = &answers[..] else { panic!("{answers:?}") };
        assert!(error.contains(why), "{error}");
    };
    fs::write(&place, "{}").unwrap();
    refused("the key has not signed it");
    fs::write(&place, vec![b'x'; 1 << 20]).unwrap();
    refused("longer than 4096 bytes");
    fs::remove_file(&place).unwrap();
    fs::create_dir(&place).unwrap();
    refused("not a regular file");
    fs::remove_dir(&place).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &place).unwrap();
    refused("link");
    fs::remove_file(&place).unwrap();
    assert!(Command::new("mkfifo").arg(&place).status().unwrap().success());
    refused("not a regular file");
    assert!(!store.path().join("v1/raw").exists());
    // A key that others can read, and none.
    let key = own.path().join("key.pem");
    write_key(&key);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    for (name, why) in [("key.pem", "chmod 600"), ("none.pem", "No such file")] {
        let key = own.path().join(name);
        let output = run(store.path(), &["host", "db-1", "--raw", SPAN, "--key", key.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
    }
}

#[test]
fn made_up_answers_are_refused() {
    let (store, own) = (memory_folder(), memory_folder());
    let key = own.path().join("key.pem");
    write_key(&key);
    let ask = |wait: &str| {
        let words = ["host", "db-1", "--raw", SPAN, "--key", key.to_str().unwrap(), "--wait", wait];
        let output = run(store.path(), &words);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = ask("1s");
    assert!(status == Some(1) && said.contains("db-1 has not answered"), "{said}");
    let request = fs::read_dir(store.path().join("v1/requests/db-1")).unwrap().next().unwrap().unwrap().path();
    let id = |text: &str| text.split("\"id\":\"").nth(1).unwrap()[..32].to_owned();
    for (answer, why) in [("", "not an answer"), ("{}\nPAR1", "not an answer"), ("earlier", "another request")] {
        let before = fs::read_to_string(&request).unwrap();
        let forged = || {
            let asked = loop {
                let now = fs::read_to_string(&request).unwrap();
                if now != before && !now.is_empty() {
                    break now;
                }
                thread::sleep(Duration::from_millis(5));
            };
            let json = |text: &str| text.lines().nth(1).unwrap().to_owned();
            let earlier = format!("{{\"schema\":\"whyslow.fleet.raw_answer/1\",\"request\":{}}}\nPAR1", json(&before));
            let place = store.path().join(format!("v1/raw/db-1/{}.extract", id(&asked)));
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, if answer == "earlier" { &earlier } else { answer }).unwrap();
        };
        let (status, said) = thread::scope(|scope| {
            scope.spawn(forged);
            ask("90s")
        });
        assert!(status == Some(2) && said.contains(why), "{said}");
    }
}

#[test]
fn the_compactor_deletes_requests_and_answers_after_a_day() {
    let store = memory_folder();
    let old = std::time::SystemTime::now() - Duration::from_secs(25 * 3600);
    for (name, is_old) in [("v1/requests/a/k.json", true), ("v1/raw/a/i.extract", true), ("v1/raw/b/j.extract", false)]
    {
        let path = store.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = fs::File::create(path).unwrap();
        if is_old {
            file.set_modified(old).unwrap();
        }
    }
    let said = printed(store.path(), &["compact"]);
    assert!(said.contains("Deleted 2 requests for parts of recordings, and answers."), "{said}");
    assert!(store.path().join("v1/raw/b/j.extract").exists() && !store.path().join("v1/raw/a/i.extract").exists());
}
