//! Cage in which a test may change settings: a thread in its own network and mount namespaces, which end with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Settings that each network namespace has, with values other than the defaults.
pub const CHANGES: [(&str, &str); 3] = [
    ("net.core.somaxconn", "1111"),
    ("net.ipv4.tcp_keepalive_time", "99"),
    ("net.ipv4.tcp_rmem", "4096 65536 1048576"),
];

/// An isolated environment for one test.
pub struct Cage {
    folder: PathBuf,
}

/// Runs a test in a cage; skips it without root.
pub fn in_cage(test: impl FnOnce(&Cage) + Send + 'static) {
    if !crate::skip::is_root() {
        return;
    }
    // Remove the folder after the namespace: a mount point cannot be removed.
    let folder = whyslow_testing::folder();
    let cage = Cage { folder: folder.path().to_owned() };
    let thread = std::thread::spawn(move || {
        // SAFETY: unshare has no preconditions; it only affects this thread.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS) }, 0, "unshare");
        tool("mount", &["--make-rprivate", "/"]);
        tool("mount", &["-t", "sysfs", "wsl-tune-sys", "/sys"]);
        // Thousands of fsyncs: the tests check the order of writes, not the disk.
        tool("mount", &["-t", "tmpfs", "wsl-tune-cage", cage.folder.to_str().unwrap()]);
        for folder in ["sysctl.d", "udev", "tuned", "whyslow"] {
            let own = cage.path(folder);
            fs::create_dir(&own).unwrap();
            let place = format!("/etc/{folder}");
            if Path::new(&place).is_dir() {
                tool("mount", &["--bind", own.to_str().unwrap(), &place]);
            }
        }
        test(&cage);
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

impl Cage {
    /// Returns a path in the cage's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Mounts an overlay on a folder of the machine: it shows the folder's content, takes all writes, and disappears
    /// with the cage.
    pub fn own(&self, place: &str) {
        let name = place.trim_start_matches('/').replace('/', "-");
        let [up, work] = ["up", "work"].map(|part| self.path(&format!("own-{name}-{part}")));
        for folder in [&up, &work] {
            fs::create_dir_all(folder).unwrap();
        }
        let layers = format!("lowerdir={place},upperdir={},workdir={}", up.display(), work.display());
        tool("mount", &["-t", "overlay", "-o", &layers, "wsl-tune-own", place]);
    }

    /// Returns the program with this cage's journal.
    pub fn whyslow(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
        command.arg("tune").args(args).env("WHYSLOW_STATE", &self.folder).stdin(Stdio::null());
        whyslow_testing::ends_with_test(&mut command);
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        self.whyslow(args).output().unwrap()
    }

    /// Runs the program and returns its output; panics with the output if the status differs.
    #[track_caller]
    pub fn expect(&self, status: i32, args: &[&str]) -> String {
        let out = self.run(args);
        let (stdout, stderr) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
        assert_eq!(out.status.code(), Some(status), "{args:?}\n{stdout}{stderr}");
        stdout + &stderr
    }

    /// Returns the JSON that the program prints.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        let args = [args, &["--json"]].concat();
        serde_json::from_slice(&self.run(&args).stdout).expect("a JSON document")
    }
}

/// Returns the value of a sysctl in this thread's network namespace.
pub fn sysctl(name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the current values of [`CHANGES`].
pub fn values() -> Vec<String> {
    CHANGES.iter().map(|(name, _)| sysctl(name)).collect()
}

/// Returns the intended values of [`CHANGES`].
pub fn wanted() -> Vec<String> {
    CHANGES.iter().map(|(_, value)| (*value).to_owned()).collect()
}

/// Returns [`CHANGES`] as arguments for `tune set`.
pub fn changes() -> Vec<String> {
    CHANGES.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// Runs a tool that the test needs.
#[track_caller]
pub fn tool(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

/// Waits for the effect of a background process.
#[track_caller]
pub fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < give_up, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
