//! Tests of `whyslow explain` and `whyslow export` on a recording of known physics.

mod kept_screen;
mod recorded;
mod skip;

use recorded::{folder, one_of_six, record, record_judged, two_cpus};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use whyslow_diagnose::{RuleBook, recorded_findings};
use whyslow_documents::chart::PageData;
use whyslow_documents::diagnosis::Finding;
use whyslow_documents::explanation::{Episode, Explanation};
use whyslow_model::catalogue::{
    Cpu, ExitedChildren, Guest, InventoryChange, InventoryItem, MachineInfo, Pressure, Process, ProcessRow,
    RecordedFinding, Setting, System,
};
use whyslow_model::key::{InventoryKey, MachineKey, Offspring, TaskKey};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;
use whyslow_show::text::{self, TextStyle};
use whyslow_store::Judge;

const SECOND: u64 = 1_000_000_000;
/// 2026-11-21 16:43:20 UTC: a segment ends at 400 s.
const START: i64 = 1_795_279_400 * SECOND as i64;
const LENGTH: u64 = 480;
/// Times with more work than processors, and the process that causes it. The second one crosses the end of a segment.
const BUSY: [(std::ops::Range<u64>, &str); 2] = [(127..183, "spin"), (371..434, "batch")];

/// Returns the number of busy seconds before `t`.
fn busy_seconds(t: u64) -> u64 {
    BUSY.iter().map(|(span, _)| t.clamp(span.start, span.end) - span.start).sum()
}

/// Returns a sample of a machine with two processors that is idle except in the busy times.
fn sample(t: u64) -> Snapshot {
    let mut s = two_cpus(t, START + (t * SECOND) as i64, busy_seconds(t));
    s.task.process.push(one_of_six(1, "init", 1, 0));
    for (span, name) in BUSY.iter().filter(|(span, _)| span.contains(&t) || span.end == t) {
        for pid in 0..6 {
            let start = (1000 + span.start) * 100;
            s.task.process.push(one_of_six(span.start as u32 * 10 + pid, name, start, t - span.start));
        }
    }
    if t == 10 {
        s.kernel.inventory =
            vec![InventoryItem { value: "5.1".into(), ..InventoryItem::new(thing("package", "bash")) }];
    }
    if t == 100 {
        let upgraded =
            InventoryChange { old: "5.1".into(), new: "5.2".into(), ..InventoryChange::new(thing("package", "bash")) };
        let restarted =
            InventoryChange { new: "restarted".into(), ..InventoryChange::new(thing("unit", "db.service")) };
        s.kernel.change = vec![upgraded, restarted];
    }
    if t.is_multiple_of(60) {
        let swappiness = if t < 360 { "60" } else { "10" };
        let setting = Setting { value: swappiness.into(), ..Setting::new("vm.swappiness".into()) };
        s.kernel.setting.push(setting);
        let machine = MachineInfo { name: "known".into(), boot: "b00t".into(), ..MachineInfo::new(MachineKey) };
        s.kernel.machine.push(machine);
    }
    s.sort();
    s
}

fn thing(kind: &str, name: &str) -> InventoryKey {
    InventoryKey { kind: kind.into(), name: name.into() }
}

fn recorded(dir: &Path) {
    assert_eq!(record(dir, LENGTH, sample).samples, LENGTH);
}

fn whyslow(dir: &Path, command: &str, args: &[&str]) -> Command {
    let mut whyslow = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    whyslow.arg(command).arg("--dir").arg(dir).args(args).env("TZ", "UTC").stdin(Stdio::null());
    whyslow
}

fn run(dir: &Path, command: &str, args: &[&str]) -> Output {
    let config = whyslow_testing::folder();
    whyslow(dir, command, args).env("XDG_CONFIG_HOME", config.path()).output().unwrap()
}

/// Returns seconds from the start of the recording.
fn second(time: &str) -> f64 {
    let time = time.strip_prefix("2026-11-21T").and_then(|time| time.strip_suffix('Z')).expect(time);
    let parts: Vec<f64> = time.split(':').map(|part| part.parse().unwrap()).collect();
    (parts[0] * 60.0 + parts[1]) * 60.0 + parts[2] - ((16.0 * 60.0 + 43.0) * 60.0 + 20.0)
}

fn explained(dir: &Path, args: &[&str]) -> Explanation {
    let out = run(dir, "explain", &[&["--json"], args].concat());
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("an explanation")
}

fn assert_is(episode: &Episode, span: &std::ops::Range<u64>, culprit: &str) {
    assert_eq!(episode.key, "cpu.saturated@host");
    assert!((second(&episode.start) - span.start as f64).abs() <= 3.0, "{} is not {}", episode.start, span.start);
    assert!((second(&episode.end) - span.end as f64).abs() <= 3.0, "{} is not {}", episode.end, span.end);
    assert_eq!(episode.diagnosis.findings[0].culprits[0].name, culprit);
    assert!(episode.before.iter().any(|event| event.what.starts_with(&format!("process {culprit} ["))), "{episode:?}");
}

#[test]
fn causes_are_found_with_their_times_and_what_came_before() {
    let dir = folder();
    recorded(dir.path());
    let all = explained(dir.path(), &[]);
    assert_eq!((all.samples, all.missed), (LENGTH, 0));
    let [first, second] = &all.episodes[..] else { panic!("{:#?}", all.episodes) };
    assert_is(first, &BUSY[0].0, BUSY[0].1);
    assert_is(second, &BUSY[1].0, BUSY[1].1);
    let set = |episode: &Episode| episode.before.iter().any(|event| event.what.contains("was 60, is 10"));
    assert_eq!((set(first), set(second)), (false, true));
    assert_eq!(second.diagnosis.host.name.as_deref(), Some("known"), "what is read once a minute stands until then");
    assert_eq!(all.events[0].what, "recording began");
    let upgraded = "package bash: was 5.1, is 5.2";
    let words: Vec<&str> = all.changes.iter().map(|change| change.what.as_str()).collect();
    assert_eq!((words, self::second(&all.changes[0].at)), (vec![upgraded, "unit db.service restarted"], 100.0));
    assert!(first.before.iter().any(|event| event.what == upgraded), "within the hour: {first:?}");

    let part = explained(dir.path(), &["--from", "2026-11-21 16:44", "--to", "2026-11-21T16:47:00Z"]);
    assert_eq!(part.episodes.len(), 1);
    assert_is(&part.episodes[0], &BUSY[0].0, BUSY[0].1);

    let quiet = explained(dir.path(), &["--to", "2026-11-21 16:45"]);
    assert_eq!((quiet.episodes.len(), quiet.samples, quiet.changes.len()), (0, 101, 2));
    let early = explained(dir.path(), &["--to", "2026-11-21 16:44"]);
    assert_eq!(early.changes, [], "of another span");

    let drawn = |args: &[&str]| String::from_utf8(run(dir.path(), "explain", args).stdout).unwrap();
    let short = drawn(&[]);
    assert!(short.contains("16:45:2") && short.contains("16:49:3"), "both episodes, in the clock's time: {short}");
    assert!(short.contains("Recommended action") && short.contains("batch"), "the worst is explained: {short}");
    assert!(short.lines().count() <= 14, "{short}");
    let plain = TextStyle { width: 80, colour: false, all: false, utc: true };
    assert_eq!(short, text::explanation(&all, &plain));
    // Line breaks depend on the length of the folder's name, which differs in every run.
    let usual = Explanation { recording: "/var/lib/whyslow".to_owned(), ..all };
    kept_screen::assert_screen("explain", "whyslow explain", &text::explanation(&usual, &plain));
    assert!(["vm.swappiness", "unit db.service restarted"].iter().all(|what| drawn(&["-v"]).contains(what)));
    assert!(drawn(&["--to", "2026-11-21 16:45"]).contains("Healthy"));
}

/// Length and starts of the episodes in the next test: each starts at another second of the windows.
const SHORT: u64 = 25;
const STARTS: [u64; 7] = [40, 101, 162, 223, 284, 345, 406];

/// Returns a sample of a machine with two CPUs on which a shell starts one short-lived gzip after the other, which
/// takes a quarter of a CPU. Now and then, eight processes compute for 25 seconds.
fn beside_a_loop_of_gzip(t: u64) -> Snapshot {
    let busy: u64 = STARTS.iter().map(|start| t.clamp(*start, start + SHORT) - start).sum();
    let quarter = SECOND / 4;
    let mut s = Snapshot { boot_ns: (1000 + t) * SECOND, wall_ns: START + (t * SECOND) as i64, ..Snapshot::default() };
    for cpu in 0..2 {
        s.processor.cpu.push(Cpu {
            user: (busy * SECOND + (t - busy) * quarter / 2).into(),
            system: 0.into(),
            idle: ((t - busy) * (SECOND - quarter / 2)).into(),
            iowait: 0.into(),
            ..Cpu::new(cpu)
        });
    }
    s.processor.pressure.push(Pressure {
        cpu_some: (busy * SECOND * 98 / 100 + (t - busy) * SECOND / 100).into(),
        memory_some: 0.into(),
        io_some: 0.into(),
        ..Pressure::new(MachineKey)
    });
    let forks = t * 5;
    s.processor.system.push(System { blocked: 0.0.into(), forks: forks.into(), ..System::new(MachineKey) });
    let shell = TaskKey { pid: 2, tid: 2, start: 1 };
    s.task.process.push(one_of_six(2, "cron-job", 1, 0));
    s.task.exited_children.push(ExitedChildren {
        ended: 5.0.into(),
        user: (quarter as f64).into(),
        system: 0.0.into(),
        run_delay: 0.0.into(),
        ..ExitedChildren::new(Offspring { parent: shell, name: "gzip".into() })
    });
    for start in STARTS.iter().filter(|start| (**start..=*start + SHORT).contains(&t)) {
        // The eight share two CPUs minus gzip's part.
        for pid in 0..8 {
            let (ran, waited) = ((t - start) * 7 * quarter / 8, (t - start) * (SECOND - 7 * quarter / 8));
            s.task.process.push(Process::from(ProcessRow {
                user: ran.into(),
                run_delay: waited.into(),
                ..(*one_of_six(*start as u32 * 10 + pid, "stress-ng-cpu", (1000 + start) * 100, 0)).clone()
            }));
        }
    }
    s.sort();
    s
}

#[test]
fn twenty_five_seconds_of_more_work_than_cpus_are_found_wherever_they_begin() {
    let dir = folder();
    assert_eq!(record(dir.path(), LENGTH, beside_a_loop_of_gzip).samples, LENGTH);
    let all = explained(dir.path(), &[]);
    let saturated: Vec<&Episode> = all.episodes.iter().filter(|episode| episode.key == "cpu.saturated@host").collect();
    assert_eq!(
        saturated.len(),
        STARTS.len(),
        "{:#?}",
        all.episodes.iter().map(|e| (&e.key, &e.start)).collect::<Vec<_>>()
    );
    for (episode, start) in saturated.iter().zip(STARTS) {
        assert!((second(&episode.start) - start as f64).abs() <= 3.0, "{} is not {start}", episode.start);
        assert_eq!(episode.diagnosis.findings[0].id, "cpu.saturated");
        assert_eq!(episode.diagnosis.findings[0].culprits[0].name, "stress-ng-cpu");
    }
}

/// Returns a judge with the fingerprint of the built-in rules and with findings from this function.
fn judge(findings: impl Fn(&Window, &RuleBook) -> Vec<RecordedFinding> + Send + 'static) -> Judge {
    let book = RuleBook::built_in();
    Judge { rules: book.fingerprint(), findings: Box::new(move |window| findings(window, &book)) }
}

#[test]
fn a_recording_is_explained_alike_whether_the_recorder_judged_it_or_not() {
    let (plain, judged) = (folder(), folder());
    recorded(plain.path());
    record_judged(judged.path(), LENGTH, judge(recorded_findings), sample);
    let [plain, judged] = [&plain, &judged].map(|dir| explained(dir.path(), &[]).episodes);
    assert_eq!(plain.len(), BUSY.len());
    assert_eq!(plain, judged);
}

#[test]
fn what_the_recorder_judged_by_the_same_rules_is_not_judged_again() {
    let dir = folder();
    record_judged(dir.path(), LENGTH, judge(|_, _| Vec::new()), sample);
    assert_eq!(explained(dir.path(), &[]).episodes, []);
}

#[test]
fn a_users_new_rule_is_applied_to_what_was_recorded_before_and_needs_its_file_alone() {
    const RULE: &str = r#"
id = "site.idle"
scope = "host"
means = "The machine does nothing."
when = "cpu.idle > 0.95"
impact = "cpu.idle"
high = "cpu.idle > 0.95"
summary = "The machine does nothing."
evidence = []
"#;
    let (dir, config) = (folder(), folder());
    record_judged(dir.path(), LENGTH, judge(recorded_findings), sample);
    let rules = config.path().join("whyslow/rules.d");
    std::fs::create_dir_all(&rules).unwrap();
    std::fs::write(rules.join("idle.toml"), RULE).unwrap();
    let output = whyslow(dir.path(), "explain", &["--json"]).env("XDG_CONFIG_HOME", config.path()).output().unwrap();
    let explanation: Explanation = serde_json::from_slice(&output.stdout).unwrap();
    let count = |id: &str| explanation.episodes.iter().filter(|episode| episode.key == format!("{id}@host")).count();
    assert_eq!((count("site.idle"), count("cpu.saturated")), (3, BUSY.len()));
}

#[test]
fn what_was_not_recorded_is_said() {
    let dir = folder();
    recorded(dir.path());
    // `--since` counts back from now, and this recording ended long ago.
    let outside = [
        &["--at", "2020-01-01 03:12"][..],
        &["--from", "2026-11-21 17:00"],
        &["--to", "2020-01-01"],
        &["--since", "1ms"],
    ];
    for outside in outside {
        let out = run(dir.path(), "explain", outside);
        assert_eq!(out.status.code(), Some(1), "{outside:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("nothing was recorded then"), "{outside:?}");
    }
    // A time without a date means the last such time, so whether 17:00 comes after 16:00 would depend on when this test
    // runs.
    let backwards = ["--from", "2026-11-21 17:00", "--to", "2026-11-21 16:00"];
    for wrong in [&["--at", "soon"][..], &["--since", "2h", "--from", "03:00"], &backwards] {
        let out = run(dir.path(), "explain", wrong);
        assert_eq!(out.status.code(), Some(2), "{wrong:?}");
        assert_eq!(String::from_utf8_lossy(&out.stderr).lines().count(), 1, "{wrong:?}");
    }
}

#[test]
fn rows_are_exported_in_every_format() {
    let dir = folder();
    recorded(dir.path());
    let span = ["--from", "2026-11-21 16:45:00", "--to", "2026-11-21 16:45:01"];
    let csv = run(dir.path(), "export", &[&["cpu", "--raw"], &span[..]].concat());
    let csv = String::from_utf8(csv.stdout).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("at,cpu,user,nice,system,"), "{}", lines[0]);
    assert_eq!(lines.len(), 5, "two processors, two samples, a header");
    assert!(lines[1].starts_with("2026-11-21T16:45:00Z,0,0,,0,"), "{}", lines[1]);

    let json = run(dir.path(), "export", &[&["cpu", "--raw", "--json"], &span[..]].concat());
    let rows: Vec<serde_json::Value> =
        String::from_utf8(json.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 4);
    assert_eq!((rows[1]["cpu"].as_u64(), rows[1]["idle"].as_u64()), (Some(1), Some(100 * SECOND)));
    assert!(rows[1]["nice"].is_null(), "absent is not zero");

    let file = dir.path().join("cpu.parquet");
    let out = run(dir.path(), "export", &[&["cpu", "-o", file.to_str().unwrap()], &span[..]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(std::fs::read(file).unwrap().starts_with(b"PAR1"));

    for wrong in [&["no_such_family"][..], &["cpu", "--format", "parquet"]] {
        assert_eq!(run(dir.path(), "export", wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn counters_are_exported_as_rates_unless_asked_for_raw() {
    let dir = folder();
    recorded(dir.path());
    let span = ["--from", "2026-11-21 16:45:00", "--to", "2026-11-21 16:45:02"];
    let csv = run(dir.path(), "export", &[&["cpu"], &span[..]].concat());
    let csv = String::from_utf8(csv.stdout).unwrap();
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let idle = lines[0].iter().position(|name| *name == "idle_per_s").expect("a column of rates");
    assert_eq!(lines.len(), 7, "two processors, three samples, a header");
    assert_eq!((lines[2][1], lines[2][idle]), ("1", ""), "the first reading tells no rate");
    assert_eq!((lines[4][1], lines[4][idle]), ("1", "1"), "a second of idleness a second");

    let file = dir.path().join("cpu.parquet");
    let out = run(dir.path(), "export", &[&["cpu", "-o", file.to_str().unwrap()], &span[..]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let bytes = std::fs::read(file).unwrap();
    assert!(bytes.windows(10).any(|window| window == b"idle_per_s"));
}

#[test]
fn a_report_has_the_charts_and_the_episodes_of_the_recording() {
    let dir = folder();
    recorded(dir.path());
    let report = |args: &[&str]| -> PageData {
        let out = run(dir.path(), "report", &[&["--format", "json"], args].concat());
        assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap()
    };
    let page = report(&[]);
    assert_eq!((page.host.as_str(), page.from, page.to), ("known", 1_795_279_400.0, 1_795_279_879.0));
    assert_eq!(page.explanation.map(|explanation| explanation.episodes.len()), Some(BUSY.len()));
    let series = |id: &str, name: &str| {
        let chart = page.charts.iter().find(|chart| chart.id == id).expect(id);
        chart.series.iter().find(|series| series.name == name).expect(name).mean.clone()
    };
    let user = series("cpu.modes", "user");
    assert_eq!(
        (user.len(), user[0], user[127], user[128], user[183], user[184]),
        (480, None, Some(0.0), Some(1.0), Some(1.0), Some(0.0))
    );
    // Six processes on two CPUs; their first rate comes with their second reading.
    let spin = series("process.cpu", "spin");
    assert_eq!((spin[127], spin[128], spin[183], spin[184]), (Some(0.0), Some(2.0), Some(2.0), Some(0.0)));
    assert_eq!(series("process.run_delay", "spin")[150], Some(4.0));

    let part = report(&["--from", "2026-11-21 16:45:27", "--to", "2026-11-21 16:45:29", "--chart", "cpu.modes"]);
    assert_eq!(part.charts.len(), 1);
    assert_eq!(part.charts[0].series[0].mean, [None, Some(1.0), Some(1.0)]);
    let out = run(dir.path(), "report", &["--format", "json", "--since", "1ms"]);
    assert_eq!(out.status.code(), Some(1), "nothing was recorded then");
}

#[test]
fn a_file_whose_extension_is_unknown_is_not_guessed() {
    let dir = folder();
    recorded(dir.path());
    let file = dir.path().join("cpu.pdf");
    let name = file.to_str().unwrap();
    let out = run(dir.path(), "export", &["cpu", "-o", name]);
    assert_eq!(out.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&out.stderr);
    assert!(complaint.contains(".csv, .json, .jsonl, .ndjson, .parquet"), "{complaint}");
    assert!(!file.exists());
    assert_eq!(run(dir.path(), "export", &["cpu", "-o", name, "--format", "csv"]).status.code(), Some(0));
    assert!(file.exists());
    let out = Command::new(env!("CARGO_BIN_EXE_whyslow")).args(["profile", "--for", "1s", "-o", "/tmp/x.pdf"]).output();
    let out = out.unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains(".svg, .json, .folded, .txt"));
}

#[test]
fn a_full_disk_leaves_no_part_of_a_file() {
    if !skip::is_root() {
        return;
    }
    let dir = folder();
    recorded(dir.path());
    for (options, words) in [("size=64k", "No space left on device"), ("size=64k,ro", "Read-only file system")] {
        for name in ["cpu.csv", "cpu.parquet"] {
            // In its own mount namespace, which takes the mount away with it.
            let script = format!(
                "mount -t tmpfs -o {options} wsl-export /mnt && \"$@\"; status=$?; ls -A /mnt; \
                 case {options} in *ro) ;; *) head -c 60k /dev/zero > /mnt/filler; \"$@\"; status=$?; \
                 rm /mnt/filler; ls -A /mnt;; esac; exit $status"
            );
            let mut command = Command::new("unshare");
            command.args([
                "--mount",
                "sh",
                "-c",
                &script,
                "sh",
                env!("CARGO_BIN_EXE_whyslow"),
                "export",
                "--raw",
                "cpu",
            ]);
            command.args(["--dir", dir.path().to_str().unwrap(), "-o", &format!("/mnt/{name}")]);
            let out = command.output().unwrap();
            let complaint = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(2), "{options} {name}: {complaint}");
            assert!(complaint.contains(words) && complaint.contains(&format!("/mnt/{name}: ")), "{complaint}");
            let left = String::from_utf8_lossy(&out.stdout);
            // A file that fitted before the filler was written is complete.
            assert!(left.lines().all(|left| left == name), "{options} {name}: {left}");
        }
    }
}

/// The engines named in docs/recording.md read the same numbers from the files; python3 must have them.
#[test]
fn other_engines_read_the_same_numbers() {
    let dir = folder();
    recorded(dir.path());
    let growth = |t: u64| busy_seconds(t) * SECOND;
    let expected = (growth(LENGTH - 1) - growth(0)).to_string();
    let files = dir.path().display();
    for (module, script) in [
        (
            "duckdb",
            format!(
                "cpus = \"read_parquet('{files}/cpu/*/*.parquet', union_by_name = true)\"\n\
                 rows = duckdb.sql(f'SELECT cpu, max(user) - min(user), count(*) FROM {{cpus}} GROUP BY cpu ORDER BY cpu').fetchall()\n\
                 print(rows[1][1], rows[1][2])"
            ),
        ),
        (
            "pandas",
            format!(
                "cpu = pandas.read_parquet('{files}/cpu').sort_values('at')\n\
                 one = cpu[cpu.cpu == 1].user\n\
                 print(one.max() - one.min(), len(one))"
            ),
        ),
    ] {
        let out = Command::new("python3").args(["-c", &format!("import {module}\n{script}")]).output();
        let out = out.expect("python3");
        let complaint = String::from_utf8_lossy(&out.stderr);
        if complaint.contains("ModuleNotFoundError") || complaint.contains("ImportError") {
            skip::skip(&format!("python3 has no module {module}"));
            continue;
        }
        let told = String::from_utf8_lossy(&out.stdout);
        assert_eq!(told.trim(), format!("{expected} {LENGTH}"), "{module}: {complaint}");
    }
}

/// Returns a sample of the host `kvm1`, all of whose CPUs are busy from the second to the third minute, and one of its
/// guest `db`, from which the host takes a third of the time during that minute.
fn guest_and_host(t: u64) -> (Snapshot, Snapshot) {
    const ROBBED: std::ops::Range<u64> = 60..120;
    let robbed = t.clamp(ROBBED.start, ROBBED.end) - ROBBED.start;
    let named = |name: &str, mut s: Snapshot| {
        s.kernel.machine.push(MachineInfo { name: name.into(), ..MachineInfo::new(MachineKey) });
        s
    };
    let wall = START + (t * SECOND) as i64;
    let mut host = named("kvm1", two_cpus(t, wall, robbed));
    for pid in 0..6 {
        let mut process = one_of_six(pid + 10, "qemu-kvm", 1, robbed);
        host.task.process.push(std::mem::take(&mut process));
    }
    host.guest.guest.push(Guest { name: "db".into(), ..Guest::new(TaskKey { pid: 10, tid: 10, start: 1 }) });
    let mut guest = named("db", two_cpus(t, wall, 0));
    for cpu in &mut guest.processor.cpu {
        cpu.user = (robbed * SECOND * 6 / 10).into();
        cpu.steal = (robbed * SECOND * 4 / 10).into();
        cpu.idle = ((t - robbed) * SECOND).into();
    }
    guest.processor.pressure[0].cpu_some = (robbed * SECOND * 9 / 10).into();
    host.sort();
    guest.sort();
    (guest, host)
}

#[test]
fn a_guest_is_explained_by_what_its_host_recorded() {
    let (guest, host) = (folder(), folder());
    record(guest.path(), 180, |t| guest_and_host(t).0);
    record(host.path(), 180, |t| guest_and_host(t).1);
    let run = |args: &[&str]| {
        let mut whyslow = Command::new(env!("CARGO_BIN_EXE_whyslow"));
        whyslow.args(args).args([guest.path(), host.path()]).env("TZ", "UTC").stdin(Stdio::null());
        let out = whyslow.output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    };
    let together: Explanation = serde_json::from_slice(&run(&["explain", "--json"])).expect("an explanation");
    assert_eq!((together.samples, together.beside.len()), (360, 1));
    let of = |id: &str| {
        together.episodes.iter().find(|one| one.key.starts_with(id)).unwrap_or_else(|| panic!("{id}: {together:#?}"))
    };
    let (steal, full) = (of("cpu.steal@host in db"), of("cpu.saturated@host in kvm1"));
    let key = |finding: Option<&Finding>| finding.map(Finding::key);
    assert_eq!(key(steal.cause()).as_deref(), Some("cpu.saturated@host in kvm1"));
    assert_eq!(key(full.cause()), key(full.finding()), "nothing explains it");
    assert_eq!(key(together.worst().map(|(_, cause)| cause)).as_deref(), Some("cpu.saturated@host in kvm1"));
    assert!(together.events.iter().any(|event| event.what == "db: recording began"), "{:?}", together.events);
    let drawn = String::from_utf8(run(&["explain"])).unwrap();
    assert!(drawn.contains("db: ") && drawn.contains("kvm1: "), "{drawn}");
    let page: PageData = serde_json::from_slice(&run(&["report", "--format", "json"])).expect("a page");
    assert_eq!(page.host, "db, kvm1");
    let charts = page.charts.iter().filter(|chart| chart.id.starts_with("cpu.busy@")).count();
    assert_eq!(charts, 2, "one of each: {:?}", page.charts.iter().map(|chart| &chart.id).collect::<Vec<_>>());
    let explanation = page.explanation.expect("an explanation");
    let steal = explanation.episodes.iter().find(|one| one.key == "cpu.steal@host in db").expect("steal");
    assert_eq!(key(steal.cause()).as_deref(), Some("cpu.saturated@host in kvm1"));

    let alone = explained(guest.path(), &[]);
    assert_eq!(key(alone.worst().map(|(_, cause)| cause)).as_deref(), Some("cpu.steal@host"));
}
