//! Tests of `--pseudonymise` from the outside: no output contains a name, and the diagnosis stays the same.

mod captured;
mod recorded;

use captured::captures;
use std::collections::BTreeMap;
use std::fs;
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use whyslow_diagnose::{RuleBook, VirtualMachines, diagnose, merge_diagnoses};
use whyslow_documents::diagnosis::{Action, Diagnosis, Evidence, Finding, Origin, Reading};
use whyslow_documents::explanation::Explanation;
use whyslow_import::{Capture, Input};
use whyslow_model::catalogue::{
    Cpu, Interface, InventoryChange, InventoryItem, Irq, LogLine, MachineInfo, Mount, NameKind, Pressure, Process,
    ProcessRow, Setting, System,
};
use whyslow_model::key::{InventoryKey, MachineKey, NetKey, PerCpu, TaskKey};
use whyslow_model::rename::Renamer;
use whyslow_model::snapshot::Snapshot;
use whyslow_pseudonyms::{PseudonymKey, Pseudonyms};
use whyslow_testing::{HttpServer, UrlOn};

const SECOND: u64 = 1_000_000_000;

fn whyslow(args: &[&str]) -> Command {
    let config = whyslow_testing::folder();
    let mut whyslow = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    whyslow.args(args).env("TZ", "UTC").env("XDG_CONFIG_HOME", config.path()).stdin(Stdio::null());
    whyslow
}

fn run(args: &[&str]) -> Output {
    whyslow(args).output().unwrap()
}

fn output(args: &[&str]) -> String {
    let out = run(args);
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn assert_without(text: &str, names: &[&str], what: &str) {
    for name in names {
        let at = text.find(name);
        let around = |at: usize| {
            &text[text.floor_char_boundary(at.saturating_sub(60))..text.ceil_char_boundary((at + 60).min(text.len()))]
        };
        assert!(at.is_none(), "{what} has {name}: …{}…", around(at.unwrap_or(0)));
    }
}

/// Returns everything of a finding that must stay the same: all but the names.
fn essence(finding: &Finding) -> (String, String, u64, String, Vec<String>, Vec<String>, usize, usize) {
    let evidence = |e: &Evidence| match e.value {
        Reading::Number(number) => format!("{}={number:e}", e.metric),
        Reading::Text(_) => e.metric.clone(),
    };
    let action = |a: &Action| format!("{:?} {} {:?}", a.kind, a.set.len(), a.gain);
    (
        finding.id.clone(),
        finding.subject.kind.clone(),
        finding.impact.to_bits(),
        format!(
            "{:?} {:?} {:?}",
            finding.confidence,
            finding.impact_is,
            finding.culprits.iter().map(|c| c.share.to_bits()).collect::<Vec<_>>()
        ),
        finding.evidence.iter().map(evidence).collect(),
        finding.actions.iter().map(action).collect(),
        finding.explains.len(),
        finding.more,
    )
}

fn read(files: &[PathBuf]) -> Vec<Capture> {
    let input = |path: &PathBuf| Input {
        name: path.file_name().unwrap().to_string_lossy().into_owned(),
        reader: Box::new(BufReader::new(fs::File::open(path).unwrap())),
    };
    whyslow_import::read(files.iter().map(input).collect(), false).unwrap_or_default()
}

fn judged(captures: &[Capture], rules: &RuleBook) -> Option<Diagnosis> {
    let of = |c: &Capture| (c.label(), diagnose(&c.window, Origin::Import, rules));
    merge_diagnoses(captures.iter().map(of).collect(), VirtualMachines::default(), rules)
}

/// Returns the hosts, files, processes, mounts and peers of captures that are not common names.
fn names_in(captures: &[Capture], names: &Pseudonyms) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |kind: NameKind, name: &str| {
        let is_replaced = *names.name(kind, &name.into()) != *name;
        // Shorter ones occur within other words.
        if is_replaced && name.len() > 5 {
            all.push(name.to_owned());
        }
    };
    for capture in captures {
        capture.host.iter().for_each(|host| add(NameKind::Host, host));
        for sample in capture.window.snapshots() {
            sample.task.process.iter().filter_map(|p| p.command.get()).for_each(|name| add(NameKind::Process, name));
            sample.block.mount.iter().for_each(|mount| add(NameKind::Path, &mount.point));
            sample.block.nfs.iter().filter_map(|nfs| nfs.server.get()).for_each(|server| add(NameKind::Source, server));
            sample.cgroup.group.iter().for_each(|group| add(NameKind::Cgroup, &group.path));
            for connection in &sample.net.connection {
                add(NameKind::Endpoint, &connection.socket.remote.ip().to_string());
            }
        }
    }
    all.sort();
    all.dedup();
    all
}

#[test]
fn the_diagnosis_of_every_capture_is_the_same() {
    let rules = RuleBook::built_in();
    let mut compared = 0;
    let mut searched = 0;
    for (name, files) in captures() {
        let plain = read(&files);
        let Some(expected) = judged(&plain, &rules) else { continue };
        let pseudonyms = || Pseudonyms::new(PseudonymKey::new([3; PseudonymKey::LENGTH]));
        let (names, known) = (pseudonyms(), names_in(&plain, &pseudonyms()));
        let renamed: Vec<Capture> = plain
            .into_iter()
            .map(|capture| Capture {
                files: capture.files.iter().map(|file| names.file(file)).collect(),
                host: capture.host.map(|host| names.host_name(&host)),
                settings: capture
                    .settings
                    .iter()
                    .map(|(name, value)| (names.label(name), names.label(value)))
                    .collect(),
                window: capture.window.renamed(&names),
            })
            .collect();
        let found = judged(&renamed, &rules).expect("a diagnosis");
        assert_eq!(found.verdict, expected.verdict, "{name}");
        let [a, b] = [&found, &expected].map(|d| d.findings.iter().map(essence).collect::<Vec<_>>());
        assert_eq!(a, b, "{name}");
        let id = |key: &str| key.split('@').next().unwrap_or_default().to_owned();
        let [a, b] = [&found, &expected].map(|d| d.ruled_out.iter().map(|out| id(&out.id)).collect::<Vec<_>>());
        assert_eq!(a, b, "{name}");
        let [a, b] = [&found, &expected].map(|d| d.not_cleared.iter().map(|out| id(&out.id)).collect::<Vec<_>>());
        assert_eq!(a, b, "{name}");
        assert_eq!(found.blind_spots.len(), expected.blind_spots.len(), "{name}");
        let json = serde_json::to_string(&found).unwrap();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        assert_without(&json, &known, &name);
        (compared, searched) = (compared + found.findings.len(), searched + known.len());
    }
    assert!(compared > 100 && searched > 50, "{compared} findings, {searched} names");
}

const LOG: &str = "\
Nov 21 16:00:01 plantedhost kernel: [  100.000000] plantedproc invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
Nov 21 16:00:01 plantedhost kernel: [  100.000001] memory: usage 524288kB, limit 524288kB, failcnt 12
Nov 21 16:00:01 plantedhost kernel: [  100.000002] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/plantedgroup,task_memcg=/plantedgroup,task=plantedproc,pid=4711,uid=1000
Nov 21 16:00:01 plantedhost kernel: [  100.000003] Memory cgroup out of memory: Killed process 4711 (plantedproc) total-vm:9216000kB, anon-rss:4194304kB, file-rss:0kB, shmem-rss:0kB, UID:1000
Nov 21 16:00:05 plantedhost kernel: [  104.000000] nfs: server plantedfiler not responding, still trying
";

fn written(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn no_name_of_a_log_is_left_in_any_output() {
    let folder = whyslow_testing::folder();
    let file = written(folder.path(), "planted-messages.log", LOG);
    let names = ["planted", "16:00:01 p"];
    let plain = output(&["read", &file]);
    assert!(plain.contains("plantedproc") && plain.contains("plantedgroup"), "{plain}");
    for args in [
        &["read", "--pseudonymise", &file][..],
        &["read", "--pseudonymise", "-v", &file],
        &["read", "--pseudonymise", "--json", &file],
        &["report", "--pseudonymise", &file],
        &["report", "--pseudonymise", "--json", &file],
        &["report", "--pseudonymise", "--format", "md", &file],
    ] {
        let text = output(args);
        assert_without(&text, &names, &args.join(" "));
        assert!(text.contains("process-") || args.contains(&"report"), "{args:?}: {text}");
    }
    let ids = |args: &[&str]| -> Vec<String> {
        let d: Diagnosis = serde_json::from_str(&output(args)).unwrap();
        d.findings.into_iter().map(|finding| finding.id).collect()
    };
    assert_eq!(ids(&["read", "--json", &file]), ids(&["read", "--pseudonymise", "--json", &file]));
}

const SAR: &str = "\
Linux 6.1.0-13-amd64 (plantedhost) \t2026-11-21 \t_x86_64_\t(2 CPU)

16:00:01        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil
16:10:01 plantedlink     100.00     50.00    100.00     50.00      0.00      0.00      0.00      0.00
16:20:01 plantedlink     200.00     50.00    200.00     50.00      0.00      0.00      0.00      0.00
";

#[test]
fn charts_and_their_pages_have_no_names() {
    let folder = whyslow_testing::folder();
    let file = written(folder.path(), "planted-sar.txt", SAR);
    assert!(output(&["report", &file]).contains("plantedlink"));
    for format in ["html", "svg", "md", "json"] {
        let text = output(&["report", "--pseudonymise", "--format", format, &file]);
        assert_without(&text, &["planted"], format);
        assert!(text.contains("if-"), "{format}: {text}");
    }
}

/// Returns a sample of a machine whose two CPUs are shared by six processes from 60 s on.
fn sample(t: u64) -> Snapshot {
    let mut s = Snapshot {
        boot_ns: (1000 + t) * SECOND,
        wall_ns: ((1_795_279_400 + t) * SECOND) as i64,
        ..Snapshot::default()
    };
    let busy = t.saturating_sub(60);
    for cpu in 0..2 {
        let (user, idle) = ((busy * SECOND).into(), ((t - busy) * SECOND).into());
        s.processor.cpu.push(Cpu { user, idle, system: 0.into(), iowait: 0.into(), ..Cpu::new(cpu) });
    }
    let pressure = Pressure { cpu_some: (busy * SECOND * 98 / 100).into(), ..Pressure::new(MachineKey) };
    s.processor.pressure.push(Pressure { memory_some: 0.into(), io_some: 0.into(), ..pressure });
    s.processor.system.push(System { blocked: 0.0.into(), ..System::new(MachineKey) });
    for pid in 0..if t >= 60 { 6 } else { 0 } {
        s.task.process.push(Process::from(ProcessRow {
            command: "plantedproc".into(),
            cgroup: "/system.slice/plantedunit.service".into(),
            state: "R".into(),
            user: (busy * SECOND / 3).into(),
            system: 0.into(),
            run_delay: (busy * SECOND * 2 / 3).into(),
            nice: 0.0.into(),
            threads: 1.0.into(),
            kernel_thread: 0.0.into(),
            ..ProcessRow::new(TaskKey { pid: 600 + pid, tid: 600 + pid, start: 106_000 })
        }));
    }
    if t.is_multiple_of(60) {
        s.kernel.setting.push(Setting { value: "60".into(), ..Setting::new("vm.swappiness".into()) });
        let machine = MachineInfo { name: "plantedhost.planted.example".into(), ..MachineInfo::new(MachineKey) };
        s.kernel.machine.push(MachineInfo { boot: "planted-boot".into(), ..machine });
        s.block.mount.push(Mount { device: "planted:/export".into(), ..Mount::new("/srv/planted".into()) });
    }
    s.net.interface.push(Interface::new(NetKey { ns: "".into(), name: "plantedlink".into() }));
    let line = PerCpu { name: "24".into(), cpu: 0 };
    s.processor.irq.push(Irq { count: t.into(), device: "plantedlink-TxRx-0".into(), ..Irq::new(line) });
    s.kernel.log.push(LogLine { text: "usb 1-1: Product: planted".into(), ..LogLine::new(t) });
    let thing = |kind: &str, name: &str| InventoryKey { kind: kind.into(), name: name.into() };
    let item = |kind, name, value: &str| InventoryItem { value: value.into(), ..InventoryItem::new(thing(kind, name)) };
    if t == 20 {
        s.kernel.inventory = vec![
            item("package", "planted-shop", "1.0"),
            item("limit", "plantedunit.service memory.max", "1048576"),
            item("sysctl", "kernel.core_pattern", "|/srv/planted/handler %p"),
        ];
    }
    if t == 50 {
        let restarted =
            InventoryChange { new: "restarted".into(), ..InventoryChange::new(thing("unit", "plantedunit.service")) };
        let (old, new) = ("|/srv/planted/handler %p".into(), "/srv/planted/core".into());
        let set = InventoryChange { old, new, ..InventoryChange::new(thing("sysctl", "kernel.core_pattern")) };
        let removed = InventoryChange { old: "1.0".into(), ..InventoryChange::new(thing("package", "planted-shop")) };
        s.kernel.change = vec![restarted, set, removed];
    }
    s.sort();
    s
}

#[test]
fn a_recording_is_explained_exported_and_drawn_without_names() {
    let dir = recorded::folder();
    assert_eq!(recorded::record(dir.path(), 180, sample).samples, 180);
    let dir = dir.path().to_str().unwrap();
    let explained = |args: &[&str]| -> (String, Explanation) {
        let json = output(&[&["explain", "--json", "--dir", dir], args].concat());
        (json.clone(), serde_json::from_str(&json).unwrap())
    };
    let (json, plain) = explained(&[]);
    assert!(json.contains("plantedproc"), "{json}");
    let (json, renamed) = explained(&["--pseudonymise"]);
    assert_without(&json, &["planted", dir], "explain");
    let essence = |explanation: &Explanation| {
        let episodes = explanation.episodes.iter();
        episodes
            .map(|e| (e.start.clone(), e.end.clone(), e.impact.to_bits(), essence(&e.diagnosis.findings[0])))
            .collect::<Vec<_>>()
    };
    assert_eq!(essence(&plain), essence(&renamed));
    assert_eq!(renamed.episodes.len(), 1);
    let kinds = |explanation: &Explanation| explanation.changes.iter().map(|c| c.kind.clone()).collect::<Vec<_>>();
    assert_eq!(
        (kinds(&plain), kinds(&renamed)),
        (kinds(&renamed), ["package", "sysctl", "unit"].map(String::from).into())
    );
    for family in ["process", "machine", "mount", "interface", "irq", "log", "setting", "inventory", "change"] {
        for format in ["csv", "json"] {
            let text = output(&["export", family, "--raw", "--format", format, "--dir", dir, "--pseudonymise"]);
            assert_without(&text, &["planted"], family);
            assert!(text.lines().count() > 1, "{family}");
        }
    }
    for format in ["html", "json", "svg", "md"] {
        let text = output(&["report", "--format", format, "--dir", dir, "--pseudonymise"]);
        assert_without(&text, &["planted"], format);
    }
    let [before, after] = [("43:30", "44:10"), ("44:40", "46:00")]
        .map(|(from, to)| format!("{dir}@2026-11-21T16:{from}Z..2026-11-21T16:{to}Z"));
    let text = output(&["compare", &before, &after, "--pseudonymise"]);
    assert_without(&text, &["planted", dir], "compare");
    let args = ["serve", "--listen", "127.0.0.1:0", "--no-live", "--pseudonymise", dir];
    let server = HttpServer::start(whyslow(&args).stdout(Stdio::piped()).stderr(Stdio::null()), UrlOn::Stdout);
    for path in ["overview", "page?host=0", "page?host=0&only=outline", "stack?host=0"] {
        let separator = if path.contains('?') { '&' } else { '?' };
        let token = server.path.trim_start_matches('?');
        let answer = server.get(&format!("/api/{path}{separator}{token}"), "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert_without(&answer.body, &["planted", dir], path);
        assert!(!path.starts_with("page?host=0&") || answer.body.contains("host-"), "{}", answer.body);
    }
}

#[test]
fn one_key_gives_the_same_pseudonyms_and_the_map_tells_the_names() {
    let folder = whyslow_testing::folder();
    let file = written(folder.path(), "dmesg.txt", LOG);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (key, map) = (path("key"), path("map.json"));
    let read =
        || output(&["read", "--json", "--pseudonymise", "--pseudonym-key", &key, "--pseudonym-map", &map, &file]);
    let first = read();
    assert_eq!(first, read());
    assert_ne!(first, output(&["read", "--json", "--pseudonymise", &file]), "each time another key");
    for private in [&key, &map] {
        assert_eq!(fs::metadata(private).unwrap().permissions().mode() & 0o777, 0o600, "{private}");
    }
    let names: BTreeMap<String, String> = serde_json::from_str(&fs::read_to_string(&map).unwrap()).unwrap();
    let d: Diagnosis = serde_json::from_str(&first).unwrap();
    let killed = d.findings.iter().find(|finding| finding.id.starts_with("mem.oom")).expect("the kill");
    let named: Vec<&str> =
        names.iter().filter(|(new, _)| killed.summary.contains(*new)).map(|(_, name)| name.as_str()).collect();
    assert!(named.contains(&"plantedproc"), "{named:?}: {}", killed.summary);
}

#[test]
fn wrong_usage_is_refused() {
    let folder = whyslow_testing::folder();
    let file = written(folder.path(), "dmesg.txt", LOG);
    let bad = written(folder.path(), "bad", "not a key\n");
    let bench = format!("{}/../show/tests/fixtures/bench-memory.json", env!("CARGO_MANIFEST_DIR"));
    for (args, what) in [
        (&["read", "--pseudonymise", "--pseudonym-key", &bad, &file][..], "not a key of 64 hexadecimal digits"),
        (&["read", "--pseudonymise", "--pseudonym-key", "/no/such/folder/key", &file], "cannot write the key"),
        (
            &["read", "--pseudonymise", "--pseudonym-map", "/no/such/folder/map", &file],
            "cannot write /no/such/folder/map",
        ),
        (&["read", "--pseudonym-key", "x", &file], "--pseudonymise"),
        (&["--pseudonymise", "--pid", "1"], "does not cover"),
        (&["report", "--pseudonymise", &bench], "does not cover"),
        (&["--pseudonymise", "read", &file], "write it after 'read'"),
        (&["record", "--pseudonymise"], "--dir DIR"),
        (&["stack", "--pseudonymise", "/"], "shows the whole stack"),
        (&["bench", "--pseudonymise", "memory"], "unexpected argument"),
        (&["profile", "--pseudonymise"], "unexpected argument"),
    ] {
        let out = run(args);
        let complaint = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {complaint}");
        assert!(complaint.contains(what), "{args:?}: {complaint}");
    }
}

/// No part of a report, including the stack, contains mount points of this machine with unique names.
#[test]
fn a_live_report_has_no_names() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let names = Pseudonyms::new(PseudonymKey::new([3; PseudonymKey::LENGTH]));
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1)).filter(|point| point.len() > 8);
    let named: Vec<&str> = points.filter(|point| *names.name(NameKind::Path, &(*point).into()) != **point).collect();
    let text = output(&["report", "--pseudonymise", "--for", "1s", "--json"]);
    assert!(text.contains("\"stack\""), "{text}");
    assert_without(&text, &named, "the report");
    for format in ["text", "json", "svg"] {
        assert_without(&output(&["stack", "--pseudonymise", "--format", format]), &named, format);
    }
}

/// Live: checks for the name of this machine and of one of our processes, which works the whole time.
#[test]
fn a_live_recording_has_no_names() {
    let dir = recorded::folder();
    let program = dir.path().join("plantedproc");
    // Another process copies it: a test that starts a process at the same time would hold the file open for writing,
    // and it could not be executed.
    assert!(Command::new("cp").arg("/bin/sleep").arg(&program).status().unwrap().success());
    let mut command = Command::new(&program);
    let mut child = whyslow_testing::ends_with_test(&mut command).arg("60").spawn().unwrap();
    let folder = dir.path().join("recording").display().to_string();
    // The inventory is read beside the samples, at low priority.
    let out = run(&["record", "--pseudonymise", "--for", "12s", "--no-bpf", "--dir", &folder]);
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    // Short names occur within other words.
    let names: Vec<&str> = ["plantedproc", host.trim()].into_iter().filter(|name| name.len() > 6).collect();
    let mut searched = 0;
    for family in ["process", "thread", "machine", "mount", "group", "link", "log", "source", "swap", "inventory"] {
        let out = run(&["export", family, "--raw", "--json", "--dir", &folder]);
        let rows = String::from_utf8_lossy(&out.stdout).into_owned();
        assert_without(&rows, &names, family);
        searched += rows.lines().count();
        assert!(family != "inventory" || rows.contains("vm.swappiness"), "the recorder lists the settings: {rows}");
    }
    assert!(searched > 20, "{searched} rows");
    for entry in walk(Path::new(&folder)) {
        let bytes = fs::read(&entry).unwrap();
        let has = |name: &str| bytes.windows(name.len()).any(|window| window == name.as_bytes());
        assert!(!has("plantedproc"), "{}", entry.display());
    }
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
