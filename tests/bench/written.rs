//! Tests of what is written to and what is not.

use crate::fixture::{Fixture, MIB, assert_refused, content, must, report, whyslow};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

#[test]
fn a_device_is_written_to_only_where_its_serial_was_typed() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 4 * MIB);
    let whole = vec![0x5a; 4 * MIB as usize];
    let read = report(&[&device]);
    assert!(read.rounds.iter().flat_map(|round| &round.runs).all(|run| run.write.is_none()));
    assert!(content(&device) == whole, "reading changed it");
    for wrong in ["", "yes", "/dev/loop0", &device] {
        assert_refused(&[&device, "--destroy", wrong], &["--destroy", "the path of the file behind it"]);
    }
    assert!(content(&device) == whole, "a wrong serial changed it");
    let serial = fixture.name("a.img");
    let written = report(&[&device, "--destroy", &serial]);
    assert!(written.rounds.iter().flat_map(|round| &round.runs).any(|run| run.write.is_some()));
    assert!(content(&device) != whole);
}

#[test]
fn a_read_only_device_is_read_and_not_written() {
    let Some(mut fixture) = Fixture::new() else { return };
    fs::write(fixture.path("a.img"), vec![0x5a; 4 * MIB as usize]).unwrap();
    let file = fixture.name("a.img");
    let device = fixture.attach(&["--read-only", &file]);
    assert!(!report(&[&device]).rounds.is_empty());
    assert_refused(&[&device, "--destroy", &file], &["is read-only"]);
}

#[test]
fn a_file_that_is_there_is_read_and_stays_as_it_is() {
    let Some(fixture) = Fixture::new() else { return };
    let path = fixture.path("data");
    fs::write(&path, vec![0x5a; 4 * MIB as usize]).unwrap();
    let name = path.to_string_lossy().into_owned();
    let report = report(&[&name]);
    assert_eq!((&*report.targets[0].kind, report.targets[0].bytes), ("file", 4 * MIB));
    assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.write.is_none() && run.read.is_some()));
    assert_refused(&[&name, "--destroy", "x"], &["is not a block device"]);
    assert!(content(&path) == vec![0x5a; 4 * MIB as usize]);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let name = |name: &str| fixture.name(name);
    fs::write(fixture.path("empty"), "").unwrap();
    fs::write(fixture.path("little"), "less than a block").unwrap();
    must(Command::new("mkfifo").arg(fixture.path("pipe")));
    assert_refused(&[&name("missing")], &["cannot be opened"]);
    assert_refused(&[&name("empty")], &["is empty"]);
    assert_refused(&[&name("little")], &["has 17 B, less than a block of 4 KiB"]);
    assert_refused(&[&name(""), "--size", "1K"], &["less than a block"]);
    assert_refused(&[&name("pipe")], &["neither"]);
    assert_refused(&["/dev/null"], &["neither"]);
    assert_refused(&[&name(""), "--size", "1000T"], &["not enough free space"]);
    assert_refused(&[&name(""), "--size", "12Q"], &["not a size"]);
    assert_eq!(fs::read_dir(fixture.folder.path()).unwrap().count(), 3);
}

#[test]
fn a_device_on_a_sparse_file_is_not_written_where_the_file_could_not_grow() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.sparse("huge.img", 4 << 40);
    let serial = fixture.name("huge.img");
    assert_refused(&[&device, "--destroy", &serial], &["not enough free space", "needs 4 TiB"]);
}

#[test]
fn a_file_that_was_never_written_is_not_taken_for_the_device() {
    let Some(mut fixture) = Fixture::new() else { return };
    let name = |name: &str| fixture.name(name);
    File::create(name("holes")).unwrap().set_len(8 * MIB).unwrap();
    must(Command::new("fallocate").args(["--length", "8M", &name("set-aside")]));
    for file in ["holes", "set-aside"] {
        assert_refused(&[&name(file)], &["8 MiB of 8 MiB were never written", "choose a file with data in it"]);
    }
    // A small unwritten part is reported, but does not matter.
    let file = File::create(name("nearly")).unwrap();
    file.set_len(16 * MIB).unwrap();
    file.write_all_at(&vec![0x5a; 15 * MIB as usize], 0).unwrap();
    let read = report(&[&name("nearly")]);
    assert!(
        read.caveats.iter().any(|caveat| caveat.contains("1 MiB of 16 MiB were never written")),
        "{:?}",
        read.caveats
    );
    let device = fixture.sparse("thin.img", 8 * MIB);
    let read = report(&[&device]);
    let said = |caveat: &String| caveat.contains("the file behind") && caveat.contains("were never written");
    assert!(read.caveats.iter().any(said), "{:?}", read.caveats);
}

#[test]
fn without_a_target_it_says_what_there_is() {
    let out = whyslow(&[]).output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(0), "{said}");
    for command in ["whyslow bench disk /var/tmp", "whyslow bench memory", "whyslow bench net serve"] {
        assert!(said.contains(command), "{said}");
    }
    let out = whyslow(&["--json"]).output().unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap().is_array());
}

#[test]
fn what_is_written_to_the_device_is_not_what_was_there() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 4 * MIB);
    let serial = fixture.name("a.img");
    report(&[&device, "--destroy", &serial]);
    let file = File::open(&device).unwrap();
    let mut block = [0; 4096];
    file.read_exact_at(&mut block, 0).unwrap();
    let zeros = block.iter().filter(|&&byte| byte == 0).count();
    assert!(zeros < 100, "{zeros} zeros: a device could compress that");
}

#[test]
fn what_cannot_be_polled_is_refused_and_why_is_told() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 4 * MIB);
    // Loop devices do not support polling.
    assert_refused(&[&device, "--poll"], &["cannot be polled", "queue/io_poll is 0"]);
    assert_refused(&[&device, "--poll", "--cache", "warm"], &["direct I/O"]);
}

#[test]
fn what_all_jobs_write_is_added_up_before_any_is_written() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.sparse("a.img", 64 * MIB);
    let point = fixture.mount(&device);
    let job = fixture.path("jobs.fio");
    let refused = |text: &str, words: &[&str]| {
        fs::write(&job, text).unwrap();
        let out = whyslow(&["disk", "--job", &job.to_string_lossy()]).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{text}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{text}: {words:?} in {said}");
    };
    let used = || Command::new("stat").args(["--file-system", "--format=%f", &point]).output().unwrap().stdout;
    let before = used();
    let room = &["not enough free space", "smaller size"];
    refused(&format!("[global]\ndirectory={point}\nsize=30m\nrw=read\n[a]\n[b]\n"), room);
    refused(&format!("[a]\ndirectory={point}\nsize=30m\nrw=write\nnumjobs=2\n"), room);
    refused(
        &format!(
            "[a]\ndirectory={point}\nsize=30m\nrw=read\n[b]\nstonewall\ndirectory={point}/lost+found\nsize=30m\nrw=write\n"
        ),
        room,
    );
    let deep = "bs=4m\niodepth=1024\nioengine=io_uring\nnumjobs=64\ndirect=1\n";
    refused(
        &format!("[a]\ndirectory={point}\nsize=8m\nrw=read\n[b]\nstonewall\nfilename={device}\nrw=read\n{deep}"),
        &["in use"],
    );
    let other = fixture.sparse("b.img", 64 * MIB);
    let text = format!("[a]\ndirectory={point}\nsize=8m\nrw=read\n[b]\nstonewall\nfilename={other}\nrw=read\n{deep}");
    refused(&text, &["not enough memory", "256 GiB", "fewer jobs"]);
    assert_eq!(used(), before, "something was written");
    let fs = |args: &[&str]| {
        let out = whyslow(&[&["fs", &*point], args].concat()).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        String::from_utf8(out.stderr).unwrap()
    };
    assert!(fs(&["--size", "1M", "--files", "20000", "--only", "files"]).contains("inodes"));
    assert!(fs(&["--size", "40M", "--files", "10"]).contains("not enough free space"));
    assert_eq!(used(), before, "something was written");
}
