//! whyslow's benchmark against fio's: the same job file leaves the same bytes, asks the device for as much, and
//! gives the same form of JSON.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MIB: usize = 1 << 20;

/// A folder in which jobs are run.
struct Stage(tempfile::TempDir);

impl Stage {
    /// None, with the reason printed, without root or fio. In continuous integration both must be there.
    fn new() -> Option<Self> {
        // SAFETY: geteuid takes nothing and cannot fail.
        let root = unsafe { libc::geteuid() } == 0;
        let fio =
            Command::new("fio").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success());
        if !(root && fio) {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "the comparison needs root and fio");
            eprintln!("skipped: root: {root}, fio: {fio}");
            return None;
        }
        Some(Self(tempfile::Builder::new().prefix("wsl-bench-").tempdir_in("/var/tmp").unwrap()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn job(&self, text: &str) -> String {
        let path = self.path("job.fio");
        fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    }
}

/// A loop device on a file of zeros, detached when dropped.
struct Device {
    node: String,
    file: PathBuf,
}

impl Device {
    fn new(stage: &Stage, name: &str, bytes: usize) -> Self {
        let file = stage.path(name);
        fs::write(&file, vec![0; bytes]).unwrap();
        let attach = || Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
        // Another test may take the device that was found free; then there is another.
        let out = (0..20).map(|_| attach()).find(|out| out.status.success()).expect("losetup(8)");
        Self { node: String::from_utf8(out.stdout).unwrap().trim().to_owned(), file }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        drop(Command::new("losetup").args(["--detach", &self.node]).status());
    }
}

fn whyslow(job: &str, more: &[&str]) -> (i32, Vec<u8>, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_whyslow"))
        .args(["bench", "disk", "--job", job])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (out.status.code().unwrap_or(-1), out.stdout, String::from_utf8_lossy(&out.stderr).into_owned())
}

fn fio(job: &str) -> Value {
    // Where it verifies, it leaves a file of its own in the folder it runs in.
    let folder = tempfile::tempdir().unwrap();
    let out = Command::new("fio").args([job, "--output-format=json"]).current_dir(&folder).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    // What fio has to remark, it writes before the JSON.
    let text = String::from_utf8(out.stdout).unwrap();
    serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap()
}

/// A job that writes a device of 4 MiB with blocks that hold their offset.
fn writing(device: &Path, what: &str) -> String {
    format!(
        "[global]\nfilename={}\ndirect=1\nverify=pattern\nverify_pattern=%o\ndo_verify=0\n[job]\n{what}\n",
        device.display()
    )
}

#[test]
fn the_same_job_leaves_the_same_bytes() {
    let Some(stage) = Stage::new() else { return };
    for what in [
        "rw=write\nbs=64k\nioengine=io_uring\niodepth=4\nsize=3m",
        "rw=randwrite\nbs=4k\nioengine=libaio\niodepth=16",
        "rw=write:12k\nbs=4k\nioengine=psync\nsize=1m\nio_size=256k",
        "rw=write\nbs=16k\noffset=1m\nsize=25%\nioengine=psync",
        "rw=randwrite\nbs=8kib\nkb_base=1000\nsize=2mib\nioengine=psync\nfdatasync=32",
    ] {
        let (ours, theirs) = (Device::new(&stage, "ours", 4 * MIB), Device::new(&stage, "theirs", 4 * MIB));
        let job = stage.job(&writing(Path::new(&ours.node), what));
        let (status, _, said) = whyslow(&job, &["--destroy", &ours.file.to_string_lossy()]);
        assert_eq!(status, 0, "{what}: {said}");
        fio(&stage.job(&writing(Path::new(&theirs.node), what)));
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
fn each_reads_back_what_the_other_wrote_and_finds_what_is_wrong() {
    let Some(stage) = Stage::new() else { return };
    let device = Device::new(&stage, "disk", 4 * MIB);
    fio(&stage.job(&writing(Path::new(&device.node), "rw=write\nbs=4k")));
    let reading = writing(Path::new(&device.node), "rw=randread\nbs=4k\nioengine=io_uring\niodepth=8");
    let job = stage.job(&reading);
    let run = |more: &[&str]| -> Value { serde_json::from_slice(&whyslow(&job, more).1).unwrap() };
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

/// That everything in one document is in the other too, in the same form.
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
fn the_json_has_the_form_of_fios() {
    let Some(stage) = Stage::new() else { return };
    let text = format!(
        "[global]\ndirectory={}\nsize=1m\nruntime=200ms\ntime_based\nioengine=io_uring\niodepth=4\ndirect=1\n\
         [a]\nrw=randread\n[b]\nrw=randrw\nfsync=8\nbs=4k,8k\n",
        stage.0.path().display()
    );
    let job = stage.job(&text);
    let (status, ours, said) = whyslow(&job, &["--json-fio"]);
    assert_eq!(status, 0, "{said}");
    let ours: Value = serde_json::from_slice(&ours).unwrap();
    let theirs = fio(&job);
    assert_within(&ours, &theirs, "");
    let job = |name: &str| ours["jobs"].as_array().unwrap().iter().find(|job| job["jobname"] == name).unwrap();
    let (a, b) = (job("a"), job("b"));
    assert!(a["read"]["iops"].as_f64().unwrap() > 0.0 && a["write"]["total_ios"] == 0);
    assert!(b["sync"]["total_ios"].as_u64().unwrap() > 0);
    let (read, write) = (&b["read"], &b["write"]);
    assert_eq!(read["io_bytes"].as_u64().unwrap(), read["total_ios"].as_u64().unwrap() * 4096);
    assert_eq!(write["io_bytes"].as_u64().unwrap(), write["total_ios"].as_u64().unwrap() * 8192);
    let left: Vec<_> = fs::read_dir(stage.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "job.fio" || name.to_string_lossy().starts_with(['a', 'b'])), "{left:?}");
}

/// What a block device did: requests it was given, those that were merged into others among them, and sectors; of reads and of
/// writes (Documentation/block/stat.rst).
fn counters(device: &Device) -> [[u64; 2]; 2] {
    let name = device.node.trim_start_matches("/dev/");
    let text = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    let all: Vec<u64> = text.split_ascii_whitespace().map(|word| word.parse().unwrap()).collect();
    [[all[0] + all[1], all[2]], [all[4] + all[5], all[6]]]
}

#[test]
fn the_devices_counters_agree_with_both() {
    let Some(stage) = Stage::new() else { return };
    let device = Device::new(&stage, "disk", 4 * MIB);
    for what in [
        "rw=randread\nbs=4k\nioengine=io_uring\niodepth=16",
        "rw=write\nbs=64k\nioengine=io_uring\niodepth=4\nsize=3m",
        "rw=randrw\nrwmixread=70\nbs=8k\nioengine=psync\nnumjobs=2",
    ] {
        let job = stage.job(&format!("[global]\nfilename={}\ndirect=1\n[job]\n{what}\n", device.node));
        let ours = || {
            let destroy = device.file.to_string_lossy();
            let destroy: &[&str] = if what.contains("randread") { &[] } else { &["--destroy", &destroy] };
            let (status, out, said) = whyslow(&job, &[&["--json-fio"], destroy].concat());
            assert_eq!(status, 0, "{what}: {said}");
            serde_json::from_slice(&out).unwrap()
        };
        let programs: [(&str, &dyn Fn() -> Value); 2] = [("whyslow", &ours), ("fio", &|| fio(&job))];
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
fn a_job_that_would_overwrite_is_refused_and_so_is_what_is_not_known() {
    let Some(stage) = Stage::new() else { return };
    fs::write(stage.path("precious"), vec![0x5a; 4096]).unwrap();
    let precious = stage.path("precious").to_string_lossy().into_owned();
    let device = Device::new(&stage, "disk", MIB);
    for (text, words) in [
        (format!("[a]\nfilename={precious}\nrw=write\nsize=4k\n"), "not overwritten"),
        (format!("[a]\nfilename={}\nrw=randwrite\n", device.node), "--destroy"),
        ("[a]\nsize=1m\n\nioscheduler=none\n".into(), "job.fio:4: option 'ioscheduler' is not known"),
        ("[a]\nrw=read\n".into(), "job.fio:1: [a]: there is no size"),
        (format!("[a]\nfilename={precious}\nbs=1000\ndirect=1\n"), "multiple of 512"),
        ("[a]\nsize=1m\ntime_based\n".into(), "wants a runtime"),
    ] {
        let job = stage.job(&text);
        let (status, out, said) = whyslow(&job, &[]);
        assert_eq!((status, said.lines().count(), out.len()), (2, 1, 0), "{text}: {said}");
        assert!(said.contains(words), "{text}: {said}");
    }
    assert_eq!(fs::read(stage.path("precious")).unwrap(), vec![0x5a; 4096]);
    assert_eq!(fs::read(&device.file).unwrap(), vec![0; MIB]);
}
