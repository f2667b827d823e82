//! `bench disk --job` against fio: the same job file writes the same bytes, requests the same amount from the device,
//! and yields JSON of the same form.

use crate::fixture::{Fixture, MIB, whyslow as bench};
use crate::skip::has_program;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Returns `None` without root or fio.
fn fixture() -> Option<Fixture> {
    let fixture = Fixture::new()?;
    has_program("fio").then_some(fixture)
}

/// Writes a job file.
fn job(fixture: &Fixture, text: &str) -> String {
    fs::write(fixture.path("job.fio"), text).unwrap();
    fixture.name("job.fio")
}

/// A loop device on a file of zeros.
struct Device {
    node: String,
    file: PathBuf,
}

impl Device {
    fn new(fixture: &mut Fixture, name: &str, bytes: u64) -> Self {
        Self { node: fixture.device_of(name, &vec![0; bytes as usize]), file: fixture.path(name) }
    }
}

fn whyslow(job: &str, more: &[&str]) -> (i32, Vec<u8>, String) {
    let out = bench(&[&["disk", "--job", job], more].concat()).output().unwrap();
    (out.status.code().unwrap_or(-1), out.stdout, String::from_utf8_lossy(&out.stderr).into_owned())
}

fn fio(job: &str) -> Value {
    // With verify, fio leaves a state file in the current directory.
    let folder = whyslow_testing::folder();
    let out = Command::new("fio").args([job, "--output-format=json"]).current_dir(&folder).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    // fio writes notes before the JSON.
    let text = String::from_utf8(out.stdout).unwrap();
    serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap()
}

/// Returns a job that writes blocks containing their offset.
fn writing(device: &str, what: &str) -> String {
    format!("[global]\nfilename={device}\ndirect=1\nverify=pattern\nverify_pattern=%o\ndo_verify=0\n[job]\n{what}\n")
}

#[test]
fn the_same_job_leaves_the_same_bytes() {
    let Some(mut fixture) = fixture() else { return };
    for what in [
        "rw=write\nbs=64k\nioengine=io_uring\niodepth=4\nsize=3m",
        "rw=randwrite\nbs=4k\nioengine=libaio\niodepth=16",
        "rw=write:12k\nbs=4k\nioengine=psync\nsize=1m\nio_size=256k",
        "rw=write\nbs=16k\noffset=1m\nsize=25%\nioengine=psync",
        "rw=randwrite\nbs=8kib\nkb_base=1000\nsize=2mib\nioengine=psync\nfdatasync=32",
    ] {
        let (ours, theirs) = (Device::new(&mut fixture, "ours", 4 * MIB), Device::new(&mut fixture, "theirs", 4 * MIB));
        let job_file = job(&fixture, &writing(&ours.node, what));
        let (status, _, said) = whyslow(&job_file, &["--destroy", &ours.file.to_string_lossy()]);
        assert_eq!(status, 0, "{what}: {said}");
        fio(&job(&fixture, &writing(&theirs.node, what)));
        let (a, b) = (fs::read(&ours.file).unwrap(), fs::read(&theirs.file).unwrap());
        let differ = a.iter().zip(&b).position(|(a, b)| a != b);
        assert_eq!(
            differ,
            None,
            "{what}: at {differ:?}: {:?} {:?}",
            differ.map(|at| &a[at..at + 8]),
            differ.map(|at| &b[at..at + 8])
        );
        assert!(a.iter().any(|&byte| byte != 0), "{what}");
    }
}

#[test]
fn verify_accepts_what_fio_wrote_and_finds_a_wrong_byte() {
    let Some(mut fixture) = fixture() else { return };
    let device = Device::new(&mut fixture, "disk", 4 * MIB);
    fio(&job(&fixture, &writing(&device.node, "rw=write\nbs=4k")));
    let reading = writing(&device.node, "rw=randread\nbs=4k\nioengine=io_uring\niodepth=8");
    let job_file = job(&fixture, &reading);
    let run = |more: &[&str]| -> Value { serde_json::from_slice(&whyslow(&job_file, more).1).unwrap() };
    let well = run(&["--json"]);
    assert_eq!(well["rounds"][0]["runs"][0]["failed"], Value::Null);
    assert_eq!(well["rounds"][0]["runs"][0]["read"]["operations"], 1024, "every block once");
    let file = fs::OpenOptions::new().write(true).open(&device.node).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[7; 8], 40_960).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let wrong = run(&["--json"]);
    let said = wrong["rounds"][0]["runs"][0]["failed"].as_str().unwrap();
    assert!(said.contains("read of 4096 bytes at 40960"), "{said}");
    assert_eq!(run(&["--json-fio"])["jobs"][0]["error"], 5);
}

/// Asserts that everything in `ours` is also in `theirs`, in the same form.
fn assert_within(ours: &Value, theirs: &Value, at: &str) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) if !at.ends_with("job options") && !at.ends_with("global options") => {
            for (key, value) in a {
                let other = b.get(key).unwrap_or_else(|| panic!("{at}.{key} is not in fio's"));
                assert_within(value, other, &format!("{at}.{key}"));
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            assert!(a.is_empty() == b.is_empty(), "{at}");
            a.iter().zip(b).for_each(|(a, b)| assert_within(a, b, at));
        }
        (Value::Number(a), Value::Number(b)) => assert!(a.is_f64() <= b.is_f64(), "{at}: {a} for {b}"),
        _ => assert_eq!(std::mem::discriminant(ours), std::mem::discriminant(theirs), "{at}: {ours} for {theirs}"),
    }
}

#[test]
fn json_fio_has_the_form_of_fio() {
    let Some(fixture) = fixture() else { return };
    let text = format!(
        "[global]\ndirectory={}\nsize=1m\nruntime=200ms\ntime_based\nioengine=io_uring\niodepth=4\ndirect=1\n\
         [a]\nrw=randread\n[b]\nrw=randrw\nfsync=8\nbs=4k,8k\n",
        fixture.folder.path().display()
    );
    let job_file = job(&fixture, &text);
    let (status, ours, said) = whyslow(&job_file, &["--json-fio"]);
    assert_eq!(status, 0, "{said}");
    let ours: Value = serde_json::from_slice(&ours).unwrap();
    let theirs = fio(&job_file);
    assert_within(&ours, &theirs, "");
    let of = |name: &str| ours["jobs"].as_array().unwrap().iter().find(|job| job["jobname"] == name).unwrap();
    let (a, b) = (of("a"), of("b"));
    assert!(a["read"]["iops"].as_f64().unwrap() > 0.0 && a["write"]["total_ios"] == 0);
    assert!(b["sync"]["total_ios"].as_u64().unwrap() > 0);
    let (read, write) = (&b["read"], &b["write"]);
    assert_eq!(read["io_bytes"].as_u64().unwrap(), read["total_ios"].as_u64().unwrap() * 4096);
    assert_eq!(write["io_bytes"].as_u64().unwrap(), write["total_ios"].as_u64().unwrap() * 8192);
    let left: Vec<_> = fs::read_dir(fixture.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "job.fio" || name.to_string_lossy().starts_with(['a', 'b'])), "{left:?}");
}

/// Returns the requests, including merged ones, and the sectors of reads and writes (Documentation/block/stat.rst).
fn counters(device: &Device) -> [[u64; 2]; 2] {
    let name = device.node.trim_start_matches("/dev/");
    let text = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    let all: Vec<u64> = text.split_ascii_whitespace().map(|word| word.parse().unwrap()).collect();
    [[all[0] + all[1], all[2]], [all[4] + all[5], all[6]]]
}

#[test]
fn the_counters_of_the_device_agree_with_both_programs() {
    let Some(mut fixture) = fixture() else { return };
    let device = Device::new(&mut fixture, "disk", 4 * MIB);
    for what in [
        "rw=randread\nbs=4k\nioengine=io_uring\niodepth=16",
        "rw=write\nbs=64k\nioengine=io_uring\niodepth=4\nsize=3m",
        "rw=randrw\nrwmixread=70\nbs=8k\nioengine=psync\nnumjobs=2",
    ] {
        let job_file = job(&fixture, &format!("[global]\nfilename={}\ndirect=1\n[job]\n{what}\n", device.node));
        let ours = || {
            let destroy = device.file.to_string_lossy();
            let destroy: &[&str] = if what.contains("randread") { &[] } else { &["--destroy", &destroy] };
            let (status, out, said) = whyslow(&job_file, &[&["--json-fio"], destroy].concat());
            assert_eq!(status, 0, "{what}: {said}");
            serde_json::from_slice(&out).unwrap()
        };
        let programs: [(&str, &dyn Fn() -> Value); 2] = [("whyslow", &ours), ("fio", &|| fio(&job_file))];
        let told = programs.map(|(name, run)| {
            let before = counters(&device);
            let document = run();
            let after = counters(&device);
            for (at, flow) in ["read", "write"].into_iter().enumerate() {
                let sum = |field: &str| -> u64 {
                    document["jobs"].as_array().unwrap().iter().map(|job| job[flow][field].as_u64().unwrap()).sum()
                };
                let seen = [0, 1].map(|of| after[at][of] - before[at][of]);
                assert_eq!([sum("total_ios"), sum("io_bytes") / 512], seen, "{name}, {flow}: {what}");
            }
            [0, 1].map(|of| after[0][of] + after[1][of] - before[0][of] - before[1][of])
        });
        assert_eq!(told[0], told[1], "both ask for as much: {what}");
        assert!(told[0][0] > 0);
    }
}

#[test]
fn jobs_that_would_overwrite_or_are_invalid_are_refused_with_file_line_and_option() {
    let Some(mut fixture) = fixture() else { return };
    fs::write(fixture.path("precious"), vec![0x5a; 4096]).unwrap();
    let precious = fixture.name("precious");
    let device = Device::new(&mut fixture, "disk", MIB);
    for (text, words) in [
        (format!("[a]\nfilename={precious}\nrw=write\nsize=4k\n"), "not overwritten"),
        (format!("[a]\nfilename={}\nrw=randwrite\n", device.node), "--destroy"),
        (
            "[a]\nsize=1m\n\nioscheduler=none\n".into(),
            "job.fio:4: ioscheduler=none: unknown or unsupported option; remove it",
        ),
        ("[a]\nrw=read\n".into(), "job.fio:1: [a] size: is missing: set it, or name an existing file"),
        (
            format!("[a]\nfilename={precious}\nbs=1000\ndirect=1\n"),
            "job.fio:3: [a] bs: 1000: must be a multiple of 512 with direct=1",
        ),
        (
            format!("[a]\nfilename={precious}\nbs=512\ndirect=1\nrw=read:-1000\n"),
            "job.fio:5: [a] rw: a gap of -1000 bytes: must be a multiple of 512 with direct=1",
        ),
        ("[a]\nsize=1m\nrw=trim\n".into(), "job.fio:3: rw=trim: supported are read, write,"),
        ("[a]\niodepth=many\n".into(), "job.fio:2: iodepth=many: must be a number from 1 to 4096"),
        (
            "[a]\nsize=1m\ntime_based\n".into(),
            "job.fio:3: [a] time_based: needs a runtime: set it, or remove time_based",
        ),
    ] {
        let job_file = job(&fixture, &text);
        let (status, out, said) = whyslow(&job_file, &[]);
        assert_eq!((status, said.lines().count(), out.len()), (2, 1, 0), "{text}: {said}");
        assert!(said.contains(words), "{text}: {said}");
    }
    assert_eq!(fs::read(fixture.path("precious")).unwrap(), vec![0x5a; 4096]);
    assert_eq!(fs::read(&device.file).unwrap(), vec![0; MIB as usize]);
}
