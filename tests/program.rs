//! Tests of the program from the outside: exit statuses, streams, signals.

mod signals;
mod skip;

use signals::wait_until_caught;
use skip::is_root;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use whyslow_documents::diagnosis::{Diagnosis, SCHEMA, Verdict};

const SHORT: [&str; 4] = ["--for", "300ms", "--interval", "100ms"];

/// Returns the program with only the configuration that a test provides.
fn whyslow(config: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    command.args(args).env("XDG_CONFIG_HOME", config).env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    let config = whyslow_testing::folder();
    whyslow(config.path(), args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn with_short<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SHORT.iter().chain(more).copied().collect()
}

#[test]
fn whatever_is_found_the_status_is_0() {
    let out = run(&SHORT);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("watched"));
    assert_eq!(text(&out.stderr), "");
}

#[test]
fn json_is_the_diagnosis_document_and_check_tells_the_verdict() {
    let out = run(&with_short(&["--json", "--check"]));
    let d: Diagnosis = serde_json::from_slice(&out.stdout).expect("a diagnosis document");
    assert_eq!(d.schema, SCHEMA);
    assert!((2..=4).contains(&d.window.samples), "{}", d.window.samples);
    assert!((0.29..2.0).contains(&d.window.seconds), "{}", d.window.seconds);
    let expected = match d.verdict {
        Verdict::Healthy => 0,
        Verdict::Bottleneck => 1,
        Verdict::Undetermined => 3,
    };
    assert_eq!(out.status.code(), Some(expected));
}

#[test]
fn wrong_usage_is_status_2_and_one_line() {
    let cases: [&[&str]; 11] = [
        &["--nonsense"],
        &["--for"],
        &["--for", "soon"],
        &["--for", "1s", "--interval", "10ms"],
        &["--for", "1s", "--interval", "2s"],
        &["--for", "10h"],
        &["--color", "blue"],
        &["--width", "7"],
        &["completions"],
        &["rules", "no.such_rule"],
        &["\x1b[31mx\n"],
    ];
    for case in cases {
        let out = run(case);
        let complaint = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{case:?}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{case:?}: {complaint}");
        assert!(complaint.starts_with("whyslow: ") && !complaint.contains('\x1b'), "{complaint:?}");
        assert!(out.stdout.is_empty(), "{case:?}");
    }
}

#[test]
fn colour_is_asked_for_or_left_out() {
    for (args, no_color, coloured) in [
        (&["--color", "always"][..], None, true),
        (&["--color", "always"], Some("1"), true),
        (&["--color", "never"], None, false),
        (&[], None, false),
    ] {
        let config = whyslow_testing::folder();
        let mut command = whyslow(config.path(), &[&["metrics"][..], args].concat());
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        let out = command.output().unwrap();
        assert_eq!(text(&out.stdout).contains('\x1b'), coloured, "{args:?} {no_color:?}");
    }
}

#[test]
fn no_color_holds_on_a_terminal() {
    for (no_color, coloured) in [("", true), ("1", false)] {
        // script(1) runs the program on its own terminal.
        let program = env!("CARGO_BIN_EXE_whyslow");
        let out = Command::new("script")
            .args(["-qec", &format!("'{program}' metrics"), "/dev/null"])
            .env("NO_COLOR", no_color)
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .output()
            .expect("script(1) of util-linux");
        assert_eq!(text(&out.stdout).contains('\x1b'), coloured, "NO_COLOR={no_color}");
    }
}

#[test]
fn ctrl_c_diagnoses_what_there_is() {
    let config = whyslow_testing::folder();
    let args = ["--for", "60s", "--interval", "100ms", "--json"];
    let interrupted_after = |time| {
        let child = whyslow(config.path(), &args).stdout(Stdio::piped()).spawn().unwrap();
        wait_until_caught(child.id(), libc::SIGINT);
        std::thread::sleep(time);
        interrupt(child.id());
        child.wait_with_output().unwrap()
    };
    // The load of the machine determines how soon there are two samples.
    let times = [1, 2, 4, 8, 16].map(Duration::from_secs).into_iter();
    let out = times.map(interrupted_after).find(|out| out.status.code() != Some(130)).expect("two samples in time");
    assert_eq!(out.status.code(), Some(0));
    let d: Diagnosis = serde_json::from_slice(&out.stdout).expect("a diagnosis document");
    assert!(d.window.samples >= 2 && d.window.seconds < 60.0, "{:?}", d.window);
}

#[test]
fn ctrl_c_before_the_second_sample_is_status_130() {
    let config = whyslow_testing::folder();
    let mut command = whyslow(config.path(), &["--for", "60s", "--interval", "60s"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until_caught(child.id(), libc::SIGINT);
    interrupt(child.id());
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130));
    assert!(out.stdout.is_empty());
    assert_eq!(text(&out.stderr).lines().count(), 1);
}

fn interrupt(pid: u32) {
    let pid = libc::pid_t::try_from(pid).unwrap();
    // SAFETY: kill takes two numbers and touches no memory; the child has not been waited for, so the PID is still its
    // own.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let config = whyslow_testing::folder();
    let mut child =
        whyslow(config.path(), &["metrics", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::with_capacity(1, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "[\n");
    let status = child.wait().unwrap();
    let mut complaints = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    assert_eq!((status.code(), &*complaints), (Some(0), ""));
}

#[test]
fn a_full_disk_is_an_error() {
    let config = whyslow_testing::folder();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let out = whyslow(config.path(), &["metrics"]).stdout(full).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(text(&out.stderr).lines().count(), 1);
}

#[test]
fn metrics_and_rules_are_listed_as_text_and_json() {
    for command in ["metrics", "rules"] {
        let listed = run(&[command]);
        assert_eq!(listed.status.code(), Some(0));
        assert!(!listed.stdout.is_empty());
        let json: serde_json::Value = serde_json::from_slice(&run(&[command, "--json"]).stdout).expect("JSON");
        assert!(json.as_array().is_some_and(|a| !a.is_empty()), "{command}");
    }
    assert!(text(&run(&["rules", "disk.saturated"]).stdout).starts_with("disk.saturated (variant 1 of 2): "));
}

#[test]
fn a_word_narrows_each_list() {
    for (command, word, there, elsewhere) in [
        ("rules", "disk", "disk.saturated", "cpu.saturated"),
        ("metrics", "disk", "disk: ", "swap: "),
        ("metrics", "swap", "swap: ", "disk: "),
        ("formats", "fio", "fio: ", "vmstat: "),
        ("formats", "VMstat", "vmstat: ", "fio: "),
    ] {
        let out = run(&[command, word]);
        assert_eq!(out.status.code(), Some(0), "{command} {word}");
        let listed = text(&out.stdout);
        let starts = |name: &str| listed.lines().any(|line| line.starts_with(name));
        assert!(starts(there) && !starts(elsewhere), "{command} {word}: {listed}");
        let json: serde_json::Value = serde_json::from_slice(&run(&[command, word, "--json"]).stdout).expect("JSON");
        assert!(json.as_array().is_some_and(|list| !list.is_empty()), "{command} {word}");
    }
}

#[test]
fn a_rule_is_listed_once_and_explained_in_words() {
    let listed = run(&["rules", "disk"]);
    let ids: Vec<&str> = text(&listed.stdout).lines().filter_map(|line| line.split("  ").next()).collect();
    let ids: Vec<&&str> = ids.iter().filter(|id| !id.is_empty()).collect();
    let unique: std::collections::BTreeSet<&&&str> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    let all = run(&["rules", "--json"]);
    let rules: Vec<serde_json::Value> = serde_json::from_slice(&all.stdout).expect("JSON");
    for rule in &rules {
        assert!(!rule["look_alikes"].to_string().contains('{'), "{rule}");
    }
    for id in ["disk.saturated", "disk.small_io", "cpu.steal"] {
        let explained = run(&["rules", id]);
        assert!(!text(&explained.stdout).contains('{'), "{id}: {}", text(&explained.stdout));
        let json: serde_json::Value = serde_json::from_slice(&run(&["rules", id, "--json"]).stdout).expect("JSON");
        let variants = json["variants"].as_array().map_or(0, Vec::len);
        assert_eq!(1 + variants, rules.iter().filter(|rule| rule["id"] == id).count(), "{id}");
    }
}

#[test]
fn every_command_has_help_by_the_word_too() {
    for (args, expected) in [
        (&["help"][..], "Usage: whyslow "),
        (&["help", "tune"], "Usage: whyslow tune "),
        (&["help", "tune", "set"], "Usage: whyslow tune set "),
        (&["tune", "help", "set"], "Usage: whyslow tune set "),
        (&["help", "bench", "net", "serve"], "Usage: whyslow bench net serve "),
    ] {
        let out = run(args);
        assert_eq!(out.status.code(), Some(0), "{args:?}: {}", text(&out.stderr));
        assert!(text(&out.stdout).contains(expected), "{args:?}: {}", text(&out.stdout));
    }
    assert!(text(&run(&["help", "tune", "sett"]).stderr).contains("'sett'"));
}

/// Returns this command and all its subcommands, as their help lists them.
fn commands(of: &[String]) -> Vec<Vec<String>> {
    let help: Vec<&str> = of.iter().map(String::as_str).chain(["--help"]).collect();
    let help = text(&run(&help).stdout).to_owned();
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = list.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let below = names.flat_map(|name| commands(&[of, &[name.to_owned()]].concat()));
    std::iter::once(of.to_vec()).chain(below).collect()
}

#[test]
fn every_command_that_writes_a_file_refuses_an_unknown_extension() {
    let folder = whyslow_testing::folder();
    let file = folder.path().join("x.pdf").display().to_string();
    let mut writing = Vec::new();
    for command in commands(&[]) {
        let help: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let help = run(&help).stdout;
        if !text(&help).contains("-o, --output") {
            continue;
        }
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        // Other arguments that a command needs; a command that is missing here fails below.
        let needs: &[&str] = if command == ["export"] { &["cpu"] } else { &[] };
        let out = run(&[&command, needs, &["-o", &file]].concat());
        let complaint = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{command:?}: {complaint}");
        assert!(complaint.contains("x.pdf: unknown file extension; known are ."), "{command:?}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{command:?}: {complaint}");
        assert!(!Path::new(&file).exists(), "{command:?}");
        writing.push(command.join(" "));
    }
    assert_eq!(writing, ["profile", "export", "report", "stack"]);
}

/// With BPF switched off, no number comes from it.
#[test]
fn without_bpf_no_number_is_said_to_be_from_it() {
    if !is_root() {
        return;
    }
    let mut file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.write_all(&vec![7; 16 << 20]).unwrap();
    file.sync_all().unwrap();
    let is_over = AtomicBool::new(false);
    let (json, all) = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| read_uncached(&file, &is_over))).collect();
        // With BPF, processes that no sample sees are read when they end.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert!(Command::new("true").status().unwrap().success());
            }
        });
        let args = ["--no-bpf", "--for", "2s", "--interval", "200ms"];
        // Next to other tests, it may take a while until the processes use enough.
        let mut documents = (0..10).map(|_| run(&[&args[..], &["--json"]].concat()).stdout);
        let shown = documents.find(|json| text(json).contains("proc.short_lived"));
        let outputs = (shown, run(&[&args[..], &["-v"]].concat()));
        is_over.store(true, Ordering::Relaxed);
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() > 0), "nothing was read");
        outputs
    });
    let d: Diagnosis = serde_json::from_slice(&json.expect("a number that BPF would measure")).unwrap();
    for shown in d.findings.iter().flat_map(|finding| &finding.evidence) {
        assert!(!shown.source.is_empty() && !shown.source.contains("BPF") && !shown.how.contains("BPF"), "{shown:?}");
        assert!(shown.metric != "proc.short_lived" || shown.source == "/proc/PID/stat", "{shown:?}");
    }
    assert!(d.closer_looks.iter().all(|look| !look.source.starts_with("bpf/")), "{:?}", d.closer_looks);
    // The only sentence that mentions BPF says that it is off.
    let all = text(&all.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let others = all.replace("BPF is switched off (--no-bpf)", "");
    assert!(others.len() < all.len() && !others.contains("BPF") && !all.contains("Traced"), "{all}");
}

/// Reads at random positions and drops the page cache each time, until `is_over` is set; returns the number of reads.
fn read_uncached(file: &File, is_over: &AtomicBool) -> u64 {
    let mut block = vec![0; 4096];
    let mut reads = 0;
    while !is_over.load(Ordering::Relaxed) {
        let at = (reads * 7919) % 4096 * 4096;
        // SAFETY: the descriptor is open; the advice only changes the page cache.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        file.read_exact_at(&mut block, at).unwrap();
        reads += 1;
    }
    reads
}

/// A typing error or a missing file yields one line that names the problem, without error numbers.
#[test]
fn an_error_says_what_failed_in_one_line_without_an_error_number() {
    // On a nearly full file system, a recorder also complains about that.
    let folder = whyslow_testing::memory_folder();
    let file = folder.path().join("file").display().to_string();
    std::fs::write(&file, "hello\n").unwrap();
    let missing = folder.path().join("missing").display().to_string();
    let below_a_file = format!("{file}/x");
    let spoiled = folder.path().join("spoiled.json").display().to_string();
    std::fs::write(&spoiled, "{").unwrap();
    let empty = folder.path().join("empty").display().to_string();
    std::fs::create_dir(&empty).unwrap();
    let folder = folder.path().display().to_string();
    let cases: &[(&[&str], &str)] = &[
        (&["read", &missing], "No such file or directory"),
        (&["read", &empty], "no file in it has a known name"),
        (&["read", &file], "'whyslow formats' lists"),
        (&["record", "--dir", &file, "--for", "1s"], "is not a folder"),
        (&["record", "--dir", &below_a_file, "--for", "1s"], "is a file"),
        (&["explain", "--dir", &missing], "'whyslow record'"),
        (&["ship", "/", "--once", "--dir", &missing], "'whyslow record'"),
        (&["explain", &file], "is not a folder"),
        (&["explain", "--dir", &folder, "--since", "yesterday"], "not a time"),
        (&["export", "disk", "--dir", &missing], "'whyslow record'"),
        (&["export"], "'whyslow export --help'"),
        (&["report", &missing, "-o", &below_a_file], "Not a directory"),
        (&["report", &missing, "--format", "md"], "No such file or directory"),
        (&["report", &file, "--since", "1h", "--format", "md"], "specify its folder"),
        (&["report", "--chart", "disk.latencies"], "did you mean 'disk.latency'?"),
        (&["report", "-o", "x.pdf"], ".html"),
        (&["baseline", "show", "nosuch", "--dir", &folder], "'whyslow baseline list'"),
        (&["baseline", "save", "--for", "1s", "--dir", &file], "is not a folder"),
        (&["compare", &file, &file], "'whyslow formats' lists"),
        (&["compare", &missing, &file], "no such file or folder"),
        (&["compare", "monday", "tuesday", "--dir", &folder], "no baseline 'monday'"),
        (&["compare", &spoiled, &spoiled], "it is not a baseline"),
        (&["profile", "--pid", "abc"], "not a process ID"),
        (&["profile", "--pid", "999999999", "--for", "1s"], "process 999999999"),
        (&["profile", "--for", "1s", "-o", &below_a_file], "Not a directory"),
        (&["profile", "-o", "x.pdf"], ".svg"),
        (&["tune", "show", "vm.swapiness"], "did you mean 'vm.swappiness'?"),
        (&["tune", "get", "kernel.pid_mxa"], "did you mean 'kernel.pid_max'?"),
        (&["tune", "get", "/proc/sys/vm/swapiness"], "did you mean 'vm.swappiness'?"),
        (&["tune", "set", "vm.swapiness=10"], "did you mean 'vm.swappiness'?"),
        (&["try", "vm.swapiness=10", "--", "true"], "did you mean 'vm.swappiness'?"),
        (&["tune", "apply", "vm-guets"], "did you mean 'vm-guest'?"),
        (&["tune", "undo", "99999"], "no change 99999"),
        (&["bench", "disk", &missing], "No such file or directory"),
        (&["bench", "fs", &missing], "is not a folder"),
        (&["rules", "dsk"], "did you mean 'disk'?"),
        (&["stack", "nosuchdevice"], "no device, mount point, interface or guest 'nosuchdevice'"),
        (&["stack", "/proc/stat"], "no device, mount point, interface or guest '/proc/stat'"),
        (&["--width", "7"], "at least 40 columns"),
    ];
    for (args, words) in cases {
        let out = run(args);
        let complaint = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {complaint}{}", text(&out.stdout));
        assert_eq!(complaint.lines().count(), 1, "{args:?}: {complaint}");
        assert!(complaint.contains(words) && !complaint.contains("os error"), "{args:?}: {complaint}");
    }
}

#[test]
fn a_slip_of_the_finger_is_met_with_a_suggestion() {
    for (args, meant) in [
        (&["bnech"][..], "bench"),
        (&["raed"], "read"),
        (&["read", "--stirct"], "--strict"),
        (&["rules", "disk.satured"], "disk.saturated"),
        (&["metrics", "diks"], "disk"),
        (&["formats", "iosatt"], "iostat"),
        (&["export", "dsk"], "disk"),
        (&["tune", "show", "swapiness"], "vm.swappiness"),
        (&["tune", "diff", "throughput"], "server-throughput"),
    ] {
        let out = run(args);
        let complaint = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {complaint}");
        assert!(complaint.contains(&format!("did you mean '{meant}'?")), "{args:?}: {complaint}");
    }
}

/// `setpriv` and `su` may keep root's HOME.
#[test]
fn the_home_of_another_user_is_one_warning() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if !is_root() {
        return;
    }
    let home = whyslow_testing::folder();
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    // Only root may be able to read the folder of the program itself.
    let bin = whyslow_testing::folder();
    std::fs::set_permissions(bin.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = bin.path().join("whyslow");
    whyslow_testing::install(Path::new(env!("CARGO_BIN_EXE_whyslow")), &program);
    let mut command = Command::new(&program);
    command.args(SHORT).env("HOME", home.path()).env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
    let out = command.uid(65534).gid(65534).current_dir("/").stdin(Stdio::null()).output().unwrap();
    let complaints: Vec<&str> = text(&out.stderr).lines().collect();
    let expected = format!(
        "whyslow: {} (HOME) belongs to another user: your own rules and the default baseline are left out",
        home.path().display()
    );
    assert_eq!((out.status.code(), complaints), (Some(0), vec![expected.as_str()]));
}

/// Returns what the shell gets as completions of the last word, one per line.
fn completed(config: &Path, words: &[&str]) -> String {
    let mut command = whyslow(config, &[&["--", "whyslow"][..], words].concat());
    command.env("COMPLETE", "bash").env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    text(&command.env("HOME", config).output().unwrap().stdout).to_owned()
}

#[test]
fn baselines_are_completed_from_the_folder_given_on_the_line() {
    let home = whyslow_testing::folder();
    std::fs::create_dir_all(home.path().join("state/baselines")).unwrap();
    std::fs::write(home.path().join("state/baselines/monday.json"), "{}").unwrap();
    let dir = home.path().join("state").display().to_string();
    let attached = format!("--dir={dir}");
    for words in [
        &["baseline", "--dir", &dir, "show", "mon"][..],
        &["baseline", &attached, "delete", "mon"],
        &["baseline", "--dir", "~/state", "show", "mon"],
        &["compare", "--dir", &dir, "mon"],
        &["compare", "--dir", "/nowhere", "--dir", &dir, "mon"],
    ] {
        assert_eq!(completed(home.path(), words).trim(), "monday", "{words:?}");
    }
    assert_eq!(completed(home.path(), &["baseline", "--dir", "/nowhere", "show", "mon"]).trim(), "");
}

#[test]
fn the_shell_is_given_the_names_there_are() {
    for (words, expected) in [
        (&["rules", "disk.s"][..], "disk.saturated"),
        (&["tune", "show", "vm.sw"], "vm.swappiness"),
        (&["tune", "set", "vm.sw"], "vm.swappiness="),
        (&["tune", "apply", "vm-"], "vm-guest"),
        (&["export", "dis"], "disk"),
        (&["report", "--chart", "disk.lat"], "disk.latency"),
        (&["exporter", "--metrics", "dis"], "disk"),
        (&["formats", "io"], "iostat"),
        (&["stack", "l"], "lo"),
    ] {
        let config = whyslow_testing::folder();
        let candidates = completed(config.path(), words);
        assert!(candidates.lines().any(|line| line == expected), "{words:?}: {candidates}");
        let unique: std::collections::BTreeSet<&str> = candidates.lines().collect();
        assert_eq!(unique.len(), candidates.lines().count(), "{words:?}: {candidates}");
    }
}

#[test]
fn a_command_shows_only_its_own_options() {
    let bare = |args: &[&str]| text(&run(args).stdout).to_owned();
    for (command, foreign) in [
        ("completions", "--json"),
        ("record", "--all"),
        ("ship", "--all"),
        ("export", "--color"),
        ("report", "--width"),
        ("exporter", "--json"),
        ("serve", "--json"),
        ("rules", "--utc"),
        ("stack", "--utc"),
    ] {
        assert!(!bare(&[command, "--help"]).contains(foreign), "{command}: {foreign}");
    }
}

#[test]
fn a_broken_rule_is_named_and_hides_no_other() {
    let config = whyslow_testing::folder();
    let folder = config.path().join("whyslow/rules.d");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("broken.toml"), "this is not a rule\n").unwrap();
    std::fs::write(folder.join("ignored.txt"), "nor is this\n").unwrap();

    let listed = whyslow(config.path(), &["rules"]).output().unwrap();
    assert_eq!(listed.status.code(), Some(2));
    assert!(text(&listed.stdout).contains("disk.saturated"));
    let complaint = text(&listed.stderr);
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(complaint.contains("broken.toml:1"), "{complaint}");

    let diagnosed = whyslow(config.path(), &SHORT).output().unwrap();
    assert_eq!(diagnosed.status.code(), Some(0));
    assert!(text(&diagnosed.stderr).contains("broken.toml:1"));
}

#[test]
fn help_version_man_page_and_completions_are_there() {
    for (args, expected) in [
        (&["--help"][..], "Exit status:"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
        (&["man"], ".TH whyslow 1"),
        (&["man", "tune", "set"], "\\-\\-dry\\-run"),
        (&["completions", "bash"], "_whyslow"),
        (&["completions", "zsh"], "#compdef whyslow"),
        (&["completions", "fish"], "--command whyslow"),
    ] {
        let out = run(args);
        assert_eq!(out.status.code(), Some(0), "{args:?}");
        assert!(text(&out.stdout).contains(expected), "{args:?}");
    }
}
