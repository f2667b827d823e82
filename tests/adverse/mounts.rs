//! Tests that whyslow asks a mount that never answers only once, through a process that it can abandon, and that no run
//! hangs.

use crate::silent_mount::SilentMount;
use crate::{skip, whyslow};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use whyslow_testing::wait_for;

/// FUSE_STATFS of include/uapi/linux/fuse.h.
const STATFS: u32 = 17;

/// Runs a test in its own mount namespace; skips it without root.
fn in_own_mounts(test: impl FnOnce(&Path) + Send + 'static) {
    if !skip::is_root() {
        return;
    }
    let folder = whyslow_testing::folder();
    let path = folder.path().to_owned();
    let thread = std::thread::spawn(move || {
        // SAFETY: unshare has no preconditions; it only affects this thread.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0, "unshare");
        must(Command::new("mount").args(["--make-rprivate", "/"]));
        test(&path);
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn must(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

/// Returns the processes that a run started to ask mounts and that the kernel cannot end.
fn stuck_helpers() -> Vec<u32> {
    let own = fs::read_link("/proc/thread-self/ns/mnt").unwrap();
    let pids =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_helper = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.ends_with(b"\0mount-helper\0") && fs::read_link(format!("/proc/{pid}/ns/mnt")).is_ok_and(|ns| ns == own)
    };
    pids.filter(is_helper).collect()
}

/// Returns the JSON of a short observation; asserts that the observation ends.
fn observed(args: &[&str]) -> serde_json::Value {
    let start = Instant::now();
    let out = whyslow(&[&["--for", "1s", "--no-bpf", "--json"], args].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    println!("ended after {:?}", start.elapsed());
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"))
}

#[test]
fn a_mount_that_never_answers_is_asked_once_and_every_run_ends() {
    in_own_mounts(|folder| {
        // Hide the kernel's own list of waiting requests, which would make the question unnecessary.
        if Path::new("/sys/fs/fuse/connections").is_dir() {
            must(Command::new("mount").args(["-t", "tmpfs", "wsl-no-list", "/sys/fs/fuse/connections"]));
        }
        let point = folder.join("silent");
        fs::create_dir(&point).unwrap();
        let Some(mount) = SilentMount::new(&point) else { return skip::skip("no FUSE") };
        for run in 0..3 {
            let document = observed(&[]);
            let blind = document["blind_spots"].to_string();
            assert!(blind.contains("does not answer") && blind.contains("silent"), "{run}: {blind}");
        }
        let out = whyslow(&["--nagios", "--for", "1s", "--no-bpf"]).output().unwrap();
        assert!(out.status.code().is_some_and(|code| code < 4), "{out:?}");
        let requests = mount.requests();
        assert_eq!(requests.iter().filter(|request| request.operation == STATFS).count(), 1, "{requests:?}");
        assert_eq!(requests.len(), 1, "nothing else touches it: {requests:?}");
        // The helpers of whyslows that have ended end, too, but for the one that waits.
        wait_for("end of every other helper", || (stuck_helpers().len() <= 1).then_some(()));
        // The helper ends once the mount that it waits for is gone.
        drop(mount);
        wait_for("the helper ends", || stuck_helpers().is_empty().then_some(()));
        assert!(!observed(&[])["blind_spots"].to_string().contains("does not answer"));
    });
}

#[test]
fn a_mount_of_which_the_kernel_knows_that_it_does_not_answer_is_not_asked() {
    in_own_mounts(|folder| {
        let list = Path::new("/sys/fs/fuse/connections");
        if !list.is_dir() {
            return skip::skip("no list of FUSE connections");
        }
        must(Command::new("mount").args(["-t", "fusectl", "wsl-list", "/sys/fs/fuse/connections"]));
        let point = folder.join("silent");
        fs::create_dir(&point).unwrap();
        let Some(mount) = SilentMount::new(&point) else { return skip::skip("no FUSE") };
        // A program that hangs in the mount.
        let mut user = Command::new("stat");
        let mut user = whyslow_testing::ends_with_test(user.arg("-f").arg(&point)).spawn().unwrap();
        wait_for("a request that waits", || (!mount.requests().is_empty()).then_some(()));
        let before = mount.requests();
        let blind = observed(&[])["blind_spots"].to_string();
        assert!(blind.contains("does not answer"), "{blind}");
        assert_eq!(mount.requests(), before, "it was not asked");
        assert!(stuck_helpers().is_empty());
        drop(mount);
        user.wait().unwrap();
    });
}

#[test]
fn a_home_folder_that_never_answers_is_left_out() {
    in_own_mounts(|folder| {
        let home = folder.join("home");
        fs::create_dir(&home).unwrap();
        let Some(mount) = SilentMount::new(&home) else { return skip::skip("no FUSE") };
        let mut command = whyslow(&["rules"]);
        command.env("HOME", &home).env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
        let out = command.output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(0), "{said}");
        assert!(said.contains("is on a mount that does not answer"), "{said}");
        assert!(mount.requests().iter().all(|request| request.operation == STATFS), "{:?}", mount.requests());
    });
}

/// A helper ends with the run that started it if nothing hangs.
#[test]
fn a_helper_ends_when_nobody_asks_any_more() {
    let mut helper = whyslow(&["mount-helper"]);
    let mut helper = helper.stdin(std::process::Stdio::piped()).spawn().unwrap();
    drop(helper.stdin.take());
    let ended = || helper.try_wait().unwrap();
    let status = wait_for("it ends", ended);
    assert!(status.success());
}
