//! Tests of `whyslow profile` from the outside, on programs made for it.

mod skip;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;
use whyslow_documents::profile::{Frame, ProfileKind, SCHEMA, Space, Stack, StackProfile};
use whyslow_testing::ends_with_test;

/// Folder in which the C program is built and copied.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    /// Returns `None` without root, which profiling needs.
    fn new() -> Option<Self> {
        skip::is_root().then(|| Self { folder: whyslow_testing::folder() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles the program under its own name, so that the test can tell it from others on the machine.
    fn build(&self, name: &str, flags: &[&str]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/stacks.c");
        let output = self.path(name);
        let usual = ["-O2", "-g", "-fno-omit-frame-pointer", "-fno-shrink-wrap", "-fno-optimize-sibling-calls"];
        let status = Command::new("gcc").args(usual).args(flags).arg("-o").arg(&output).arg(source).status().unwrap();
        assert!(status.success());
        output
    }
}

/// A program that is ended when dropped.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(ends_with_test(command.stdin(Stdio::null())).spawn().unwrap())
    }

    /// Starts a program and waits until its process has this name (of 15 characters), which a shell only gets with
    /// exec.
    fn start_as(name: &str, command: &mut Command) -> Self {
        let running = Self::start(command);
        let comm = format!("/proc/{}/comm", running.0.id());
        wait_until(name, || fs::read_to_string(&comm).is_ok_and(|comm| comm.trim_end() == name));
        running
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn cpu_seconds(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let mut fields = stat.rsplit(')').next().unwrap().split_ascii_whitespace().skip(11);
        let mut ticks = || fields.next().unwrap().parse::<f64>().unwrap();
        (ticks() + ticks()) / 100.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..3000 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("timed out waiting until {what}");
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_whyslow")).arg("profile").args(args).stdin(Stdio::null()).output().unwrap()
}

fn profile(args: &[&str]) -> StackProfile {
    let out = run(&[args, &["--json"]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("a profile document")
}

/// Profiles for longer and longer until there are enough samples: on a busy machine, a program runs only part of the
/// time.
fn profile_of(samples: u64, args: &[&str]) -> StackProfile {
    let times = ["2s", "4s", "8s", "16s", "32s"];
    let mut profiles = times.iter().map(|time| profile(&[&["--for", time], args].concat()));
    profiles.find(|p| p.weight() >= samples).expect("so many samples in 32 s")
}

/// Returns the functions of a stack, outermost first; `?` for those without a name.
fn functions<'a>(profile: &'a StackProfile, stack: &'a Stack) -> Vec<&'a str> {
    profile.frames_of(stack).map(|frame| frame.function.as_deref().unwrap_or("?")).collect()
}

/// Returns the share of the weight whose stacks call these functions in this order, directly after each other. Leaves
/// out samples in which the program reads the clock: it does so in each round, and a few of them are a large share of
/// few samples.
fn share(profile: &StackProfile, way: &[&str]) -> f64 {
    let calls = |stack: &&Stack| functions(profile, stack).windows(way.len()).any(|window| window == way);
    let weight = |keep: &dyn Fn(&&Stack) -> bool| -> u64 {
        let working = profile.stacks.iter().filter(|stack| !reads_clock(profile, stack));
        working.filter(keep).map(|stack| stack.weight).sum()
    };
    weight(&calls) as f64 / weight(&|_| true).max(1) as f64
}

fn reads_clock(profile: &StackProfile, stack: &Stack) -> bool {
    profile.frames_of(stack).any(|frame| {
        let function = frame.function.as_deref().unwrap_or_default();
        function == "now" || function.contains("clock_gettime") || frame.module.as_deref() == Some("[vdso]")
    })
}

fn frame<'a>(profile: &'a StackProfile, function: &str) -> &'a Frame {
    profile.frames.iter().find(|f| f.function.as_deref() == Some(function)).unwrap_or_else(|| panic!("no {function}"))
}

#[test]
fn callers_are_found_and_so_is_what_was_inlined() {
    let Some(bench) = Bench::new() else { return };
    let toy = bench.build("wsl-prof-inline", &[]);
    let toy = Running::start(&mut Command::new(toy));
    let before = toy.cpu_seconds();
    let p = profile(&["--for", "2s", "--pid", &toy.pid()]);
    let used = toy.cpu_seconds() - before;
    assert_eq!((&*p.schema, p.kind, p.hz), (SCHEMA, ProfileKind::OnCpu, Some(99)));
    assert_eq!(p.process.as_ref().map(|process| &*process.name), Some("wsl-prof-inline"));
    // The program also runs before and after the profile, and on a busy machine only part of the time.
    let most = 99.0 * used.min(p.seconds + 0.1) * 1.1 + 5.0;
    assert!(p.weight() > 0 && p.weight() as f64 <= most, "{} samples in {used} s of CPU time", p.weight());
    assert!(share(&p, &["main", "burn", "outer", "middle", "inner"]) > 0.9, "{:?}", p.stacks);
    assert!(frame(&p, "inner").inlined && !frame(&p, "middle").inlined);
    assert!(p.totals.cut_short * 10 < p.weight(), "{:?}", p.totals);
}

#[test]
fn weights_are_as_the_work_is() {
    let Some(bench) = Bench::new() else { return };
    let toy = bench.build("wsl-prof-split", &[]);
    let toy = Running::start(Command::new(toy).arg("split"));
    // 0.07 is five standard deviations of a share of this many samples.
    let p = profile_of(950, &["--hz", "499", "--pid", &toy.pid()]);
    let (light, heavy) = (share(&p, &["split", "light"]), share(&p, &["split", "heavy"]));
    assert!((light - 0.25).abs() < 0.07 && (heavy - 0.75).abs() < 0.07, "{light} {heavy} of {} samples", p.weight());
}

#[test]
fn without_frame_pointers_the_missing_callers_are_told() {
    let Some(bench) = Bench::new() else { return };
    let toy = bench.build("wsl-prof-nofp", &["-fomit-frame-pointer"]);
    let toy = Running::start(&mut Command::new(toy));
    let p = profile(&["--for", "1s", "--hz", "499", "--pid", &toy.pid()]);
    assert!(share(&p, &["inner"]) > 0.9, "{:?}", p.stacks);
    assert!(p.totals.cut_short as f64 / p.weight() as f64 > 0.5, "{:?}", p.totals);
    assert!(p.blind_spots.iter().any(|spot| spot.remedy.contains("-fno-omit-frame-pointer")), "{:?}", p.blind_spots);
}

#[test]
fn a_program_is_named_by_its_own_root() {
    let Some(bench) = Bench::new() else { return };
    let real = bench.build("wsl-prof-real", &["-static"]);
    // Under our root, the same path holds another program, whose functions have other names.
    let cage = bench.path("cage");
    fs::create_dir(&cage).unwrap();
    bench.build("cage/toy", &["-static", "-Dinner=wrong", "-Dmiddle=wrong_too", "-Douter=wrong_as_well"]);
    let script = format!(
        "mount -t tmpfs wsl-prof {cage} && cp {real} {cage}/toy && exec chroot {cage} /toy",
        cage = cage.display(),
        real = real.display()
    );
    let caged = Running::start_as("toy", Command::new("unshare").args(["-m", "sh", "-c", &script]));
    let p = profile(&["--for", "1s", "--hz", "499", "--pid", &caged.pid()]);
    assert!(share(&p, &["burn", "outer", "middle", "inner"]) > 0.9, "{:?} {:?}", p.frames, p.stacks);
    assert!(frame(&p, "middle").module.as_deref().is_some_and(|path| path.ends_with("/toy")), "{:?}", p.frames);
}

#[test]
fn a_program_that_ended_is_named_though_its_file_is_gone() {
    let Some(bench) = Bench::new() else { return };
    let toy = bench.build("wsl-prof-brief", &[]);
    let (folder, toy) = (bench.folder.path().display(), toy.display());
    let script = format!("cd {folder}; while :; do cp {toy} brief; ./brief burn 700 & sleep 0.1; rm brief; wait; done");
    let _many = Running::start(Command::new("sh").args(["-c", &script]));
    let mut p = profile(&["--for", "4s", "--hz", "499"]);
    p.stacks.retain(|stack| stack.process.name == "brief");
    assert!(p.weight() > 10, "{} samples", p.weight());
    assert!(share(&p, &["burn", "outer", "middle", "inner"]) > 0.8, "{:?}", p.stacks);
}

#[test]
fn the_end_of_the_process_is_the_end_of_its_profile() {
    let Some(bench) = Bench::new() else { return };
    let toy = bench.build("wsl-prof-ending", &[]);
    let toy = Running::start(Command::new(toy).args(["burn", "6000"]));
    let pid = toy.pid();
    // A child that is not waited for is still there, as a zombie.
    let waited = std::thread::spawn(move || {
        let mut toy = toy;
        toy.0.wait().unwrap();
    });
    let p = profile(&["--for", "60s", "--pid", &pid]);
    waited.join().unwrap();
    assert!(p.seconds < 30.0, "{} s", p.seconds);
    assert!(share(&p, &["outer", "middle", "inner"]) > 0.8, "{:?}", p.stacks);
}

#[test]
fn waits_are_as_long_as_they_are() {
    let Some(bench) = Bench::new() else { return };
    let toy = bench.build("wsl-prof-doze", &["-static"]);
    let toy = Running::start(Command::new(toy).arg("doze"));
    let p = profile(&["--for", "2s", "--off-cpu", "--pid", &toy.pid()]);
    assert_eq!((p.kind, p.hz), (ProfileKind::OffCpu, None));
    let waited = p.weight() as f64 / 1e6;
    assert!((1.5..=p.seconds).contains(&waited), "{waited} s of {} s", p.seconds);
    assert!(share(&p, &["main", "doze", "nap"]) > 0.9, "{:?}", p.frames);
    let innermost = functions(&p, &p.stacks[0]).pop().unwrap().to_owned();
    assert!(innermost.contains("nanosleep"), "{innermost}");
    assert!(p.frames.iter().all(|f| !f.function.as_ref().is_some_and(|name| name.contains("bpf"))), "{:?}", p.frames);
}

#[test]
fn one_that_sleeps_throughout_is_seen_to() {
    if Bench::new().is_none() {
        return;
    }
    let asleep = Running::start(Command::new("sleep").arg("60"));
    let stat = format!("/proc/{}/stat", asleep.pid());
    wait_until("it sleeps", || fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S ")));
    let p = profile(&["--for", "1s", "--off-cpu", "--pid", &asleep.pid()]);
    let waited = p.weight() as f64 / 1e6;
    assert!((0.9..=p.seconds + 0.01).contains(&waited), "{waited} s of {} s", p.seconds);
    assert!(functions(&p, &p.stacks[0]).last().is_some_and(|name| name.contains("nanosleep")), "{:?}", p.frames);
    assert_eq!(p.totals.without_user_stack, p.weight());
}

#[test]
fn either_half_can_be_left_out() {
    let Some(bench) = Bench::new() else { return };
    let toy = bench.build("wsl-prof-halves", &["-static"]);
    let toy = Running::start(Command::new(toy).arg("doze"));
    let of = |half| profile(&["--for", "600ms", "--off-cpu", "--pid", &toy.pid(), half]);
    let (kernel, user) = (of("--kernel-only"), of("--user-only"));
    assert!(!kernel.frames.is_empty() && kernel.frames.iter().all(|f| f.space == Space::Kernel), "{:?}", kernel.frames);
    assert!(!user.frames.is_empty() && user.frames.iter().all(|f| f.space == Space::User), "{:?}", user.frames);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn code_made_at_run_time_has_the_name_its_maker_gives_it() {
    let Some(bench) = Bench::new() else { return };
    let toy = bench.build("wsl-prof-jit", &[]);
    let toy = Running::start(Command::new(toy).arg("jit"));
    let map = format!("/tmp/perf-{}.map", toy.pid());
    let p = profile(&["--for", "1s", "--hz", "499", "--pid", &toy.pid()]);
    fs::remove_file(map).unwrap();
    assert!(share(&p, &["made_at_run_time"]) > 0.9, "{:?}", p.frames);
}

#[test]
fn ctrl_c_gives_what_there_is() {
    let Some(bench) = Bench::new() else { return };
    let toy = bench.build("wsl-prof-ctrlc", &[]);
    let toy = Running::start(&mut Command::new(toy));
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    let args = ["profile", "--for", "60s", "--json", "--pid", &toy.pid()];
    let child = ends_with_test(command.args(args).stdout(Stdio::piped())).spawn().unwrap();
    let records = || {
        let files = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().flatten();
        let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
        links.any(|link| ["perf_event", "bpf_link"].iter().any(|kind| link.to_string_lossy().contains(kind)))
    };
    wait_until("it records", records);
    let started = toy.cpu_seconds();
    wait_until("the program has run for a while", || toy.cpu_seconds() > started + 0.2);
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: kill takes two numbers and touches no memory; the child has not been waited for, so the PID is still its
    // own.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0));
    let p: StackProfile = serde_json::from_slice(&out.stdout).expect("a profile document");
    assert!(p.seconds < 30.0 && p.weight() > 0, "{} s, {}", p.seconds, p.weight());
}

#[test]
fn the_form_follows_the_name_of_the_file_or_is_asked_for() {
    let Some(bench) = Bench::new() else { return };
    let toy = bench.build("wsl-prof-forms", &[]);
    let toy = Running::start(&mut Command::new(toy));
    let common = ["--for", "1s", "--hz", "499", "--pid", &toy.pid()];
    let stdout = |more: &[&str]| String::from_utf8(run(&[&common[..], more].concat()).stdout).unwrap();
    let file = |name: &str| {
        let path = bench.path(name);
        fs::write(&path, "something longer that was there before ".repeat(10_000)).unwrap();
        assert_eq!(stdout(&["-o", path.to_str().unwrap()]), "");
        fs::read_to_string(path).unwrap()
    };
    assert!(stdout(&[]).starts_with("on-CPU profile of wsl-prof-forms (pid "));
    let folded = stdout(&["--format", "folded"]);
    assert!(folded.lines().count() > 0 && folded.lines().all(|line| line.starts_with("wsl-prof-forms;")), "{folded}");
    let drawn = file("flame.svg");
    assert!(drawn.starts_with("<?xml") && drawn.ends_with("</svg>\n"));
    assert!(file("stacks.folded").contains(";middle;inner_[i] "));
    let document: StackProfile = serde_json::from_str(&file("profile.json")).unwrap();
    assert_eq!(document.process.map(|process| process.name.to_string()).as_deref(), Some("wsl-prof-forms"));
    assert!(file("profile.txt").starts_with("on-CPU profile"));
}

#[test]
fn a_culprit_is_profiled_or_there_is_none() {
    let Some(bench) = Bench::new() else { return };
    let toy = bench.build("wsl-prof-culprit", &[]);
    let _toys: Vec<Running> = (0..8).map(|_| Running::start(&mut Command::new(&toy))).collect();
    let out = run(&["--culprit", "--for", "2s", "--json"]);
    let complaint = String::from_utf8_lossy(&out.stderr);
    match out.status.code() {
        Some(0) => {
            let p: StackProfile = serde_json::from_slice(&out.stdout).expect("a profile document");
            assert!(p.process.is_some() && p.finding.is_some_and(|key| key.contains('@')));
        }
        Some(1) => assert_eq!(complaint.lines().count(), 1, "{complaint}"),
        // The process to blame may already have ended.
        other => assert!(other == Some(2) && complaint.contains("there is no process"), "{other:?}: {complaint}"),
    }
}

#[test]
fn wrong_usage_is_one_line_and_status_2() {
    let nowhere = ["-o", "/nonexistent/folder/flame.svg"];
    let cases: [&[&str]; 10] = [
        &["--pid", "0"],
        &["--pid", "4194305"],
        &["--pid", "1", "--culprit"],
        &["--hz", "0"],
        &["--for", "99ms"],
        &["--for", "199ms", "--culprit"],
        &["--off-cpu", "--hz", "9"],
        &["--kernel-only", "--user-only"],
        &["--json", "--format", "svg"],
        &nowhere,
    ];
    for case in cases {
        let out = run(case);
        let complaint = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{case:?}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{case:?}: {complaint}");
        assert!(out.stdout.is_empty(), "{case:?}");
    }
}

#[test]
fn without_privilege_it_says_what_it_takes() {
    let mut command = Command::new("setpriv");
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        command = Command::new("env");
    } else {
        command.args(["--bounding-set", "-all"]);
    }
    let out =
        command.arg(env!("CARGO_BIN_EXE_whyslow")).args(["profile", "--for", "1s"]).arg0("wsl-prof").output().unwrap();
    let complaint = String::from_utf8_lossy(&out.stderr);
    assert_eq!((out.status.code(), complaint.lines().count()), (Some(2), 1), "{complaint}");
    assert!(complaint.starts_with("whyslow: cannot profile: ") && complaint.contains("CAP_BPF"), "{complaint}");
}
