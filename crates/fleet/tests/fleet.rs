//! The program over a store in a folder, which it shares with hosts that ship and a compactor that is killed.

mod shipped;

use shipped::{FIRST, episode, fleet, hour, label, minute, minutes, printed, run, ship};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use whyslow_rollup::{Cell, Hour, Row, table};
use whyslow_testing::memory_folder;

/// Three hours from then on.
const PERIOD: [&str; 4] = ["--from", "2024-11-26T10:00:00Z", "--to", "2024-11-26T13:00:00Z"];
const MINUTE_MS: i64 = 60_000;

fn asked(store: &Path, command: &[&str]) -> String {
    printed(store, &[command, &PERIOD[..]].concat())
}

/// A fleet of three hours: `web` is well, `db-1` has been slow since 11:30, `db-2` was slow for a moment and ended at 11:00.
fn ship_fleet(store: &Path) {
    for number in 0..3 {
        ship(store, "minute", hour(number), "web", &minutes("web", hour(number), 0.0), true);
        let slow = |minute: i64| if i64::from(number) * 60 + minute < 90 { 0.0 } else { 30.0 };
        let minutes: Vec<Row> = (0..60).map(|at| minute("db-1", hour(number), at, slow(at))).collect();
        ship(store, "minute", hour(number), "db-1", &minutes, true);
    }
    ship(store, "minute", FIRST, "db-2", &minutes("db-2", FIRST, 0.1), true);
    ship(store, "episode", FIRST, "db-2", &[episode("db-2", FIRST, (5, 6), "cpu.saturated", 6.0, false)], true);
    let first = episode("db-1", hour(1), (30, 60), "disk.saturated", 900.0, false);
    ship(store, "episode", hour(1), "db-1", &[first], true);
    let second = episode("db-1", hour(2), (0, 60), "disk.saturated", 1800.0, true);
    ship(store, "episode", hour(2), "db-1", &[second], true);
    for (host, role) in [("web", "front"), ("db-1", "db"), ("db-2", "db")] {
        ship(store, "inventory", FIRST, host, &[label(host, role)], true);
    }
    let before = Hour { day: jiff::civil::date(2024, 11, 25), hour: 3 };
    ship(store, "minute", before, "gone", &minutes("gone", before, 0.0), true);
}

#[test]
fn the_sick_hosts_are_named_and_the_missing_ones_too() {
    let store = memory_folder();
    ship_fleet(store.path());
    let text = asked(store.path(), &["sick", "--by", "role"]);
    assert!(text.lines().count() <= 25, "{text}");
    // db-1 lost 90 x 30 s of 3 x 3600 s; db-2 6 s of 3600 s, which is less than 1 %.
    assert!(text.starts_with("1 of 3 hosts sick"), "{text}");
    let answer: serde_json::Value =
        serde_json::from_str(&asked(store.path(), &["sick", "--json", "--by", "role"])).unwrap();
    let db = &answer["hosts"][0];
    assert_eq!((db["host"].as_str(), db["lost_s"].as_f64()), (Some("db-1"), Some(2700.0)), "{answer}");
    assert_eq!(db["findings"][0]["since"]["at"], "2024-11-26T11:30:00Z");
    assert_eq!(db["findings"][0]["since"]["or_earlier"], false);
    assert_eq!(db["findings"][0]["lost_s"], 2700.0);
    assert_eq!(db["trend"], "worse");
    let missing = |key: &str| answer[key][0]["host"].as_str().map(str::to_owned);
    assert_eq!(missing("not_reporting").as_deref(), Some("gone"));
    assert_eq!(missing("silent").as_deref(), Some("db-2"));
    let groups: Vec<(&str, u64, u64)> = answer["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| {
            (group["value"].as_str().unwrap(), group["hosts"].as_u64().unwrap(), group["sick"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(groups, [("db", 2, 1), ("front", 1, 0)]);
    let host = asked(store.path(), &["host", "db-1"]);
    assert!(host.contains("2024-11-26 11:30  disk.saturated on sda, by backup: lost 45 min in 90 min"), "{host}");
    let nobody = run(store.path(), &["sick", "--from", "2024-01-01", "--to", "2024-01-02"]);
    assert_eq!(nobody.status.code(), Some(1));
}

#[test]
fn what_hosts_may_not_write_does_not_count_and_is_named() {
    let store = memory_folder();
    ship(store.path(), "minute", FIRST, "web", &[minute("web", FIRST, 0, 1.0), minute("db", FIRST, 0, 59.0)], true);
    ship(store.path(), "minute", FIRST, "evil\u{1b}[2J", &[minute("evil\u{1b}[2J", FIRST, 0, 1e300)], true);
    let broken = ship(store.path(), "minute", FIRST, "broken", &[], true);
    fs::write(broken, b"PAR1 is not enough").unwrap();
    // Names that are of no place.
    fs::write(store.path().join("v1/incoming/minute/day=2024-11-26/hour=10/note.txt"), b"x").unwrap();
    let question = ["sql", "SELECT host, SUM(lost_s) AS lost FROM minute GROUP BY host", "--json"];
    for _ in 0..3 {
        let answer: serde_json::Value = serde_json::from_str(&asked(store.path(), &question)).unwrap();
        assert_eq!(answer["rows"], serde_json::json!([{ "host": "web", "lost": 1.0 }]));
        printed(store.path(), &["compact", "--grace", "0s"]);
        let left_out =
            answer["left_out"].as_array().unwrap().iter().map(|out| out["host"].as_str().unwrap().to_owned());
        assert!(left_out.clone().any(|host| host == "broken"), "a file that cannot be read stays, and stays named");
    }
    let sick = run(store.path(), &["sick", "--from", "2024-11-26 12:00", "--to", "2024-11-26 13:00", "--json"]);
    let sick: serde_json::Value = serde_json::from_slice(&sick.stdout).unwrap();
    let missing = sick["not_reporting"].as_array().unwrap().iter().map(|host| host["host"].as_str().unwrap());
    let missing: Vec<&str> = missing.collect();
    assert!(
        missing.contains(&"web") && !missing.contains(&"broken"),
        "who never could be read did not stop reporting: {missing:?}"
    );
    let text = asked(store.path(), &["sql", "SELECT 'a\u{1b}[2J' AS x"]);
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn questions_only_read() {
    let store = memory_folder();
    ship_fleet(store.path());
    for sql in [
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
        "CREATE TABLE x AS SELECT 1",
        "COPY minute TO '/tmp/x.parquet'",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "INSERT INTO minute SELECT * FROM minute",
        "SET datafusion.execution.batch_size = 1",
        "DROP TABLE minute",
        "SELECT * FROM '/etc/passwd'",
        "SELECT FROM WHERE",
        "SELECT nothing FROM minute",
    ] {
        let output = run(store.path(), &["sql", sql]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{sql}: {said}");
        assert!(said.starts_with("whyslow-fleet: ") && said.lines().count() == 1, "{sql}: {said}");
    }
    let rows =
        asked(store.path(), &["sql", "SELECT at, day, hour FROM minute WHERE hour = '11' ORDER BY at", "--limit", "1"]);
    assert!(rows.contains("2024-11-26T11:00:00Z  2024-11-26  11"), "{rows}");
}

/// All rows, which no compactor changes.
const ALL: &str = "SELECT 'minute' AS t, host, at, lost_s FROM minute UNION ALL SELECT 'episode', host, at, lost_s FROM episode \
                   UNION ALL SELECT 'inventory', host, at, 0 FROM inventory ORDER BY t, host, at";

fn all_rows(store: &Path) -> String {
    asked(store, &["sql", ALL, "--format", "csv", "--limit", "0"])
}

fn files(folder: &Path) -> BTreeMap<String, u64> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => drop(files.insert(entry.path().display().to_string(), entry.metadata().unwrap().len())),
            }
        }
    }
    files
}

#[test]
fn compacting_changes_no_answer_and_ends() {
    let store = memory_folder();
    ship_fleet(store.path());
    let before = all_rows(store.path());
    assert_eq!(before.lines().count(), 1 + 7 * 60 + 3 + 3);
    printed(store.path(), &["compact", "--grace", "0s"]);
    assert_eq!(all_rows(store.path()), before);
    printed(store.path(), &["compact", "--grace", "0s"]);
    assert_eq!(all_rows(store.path()), before, "the hosts' files are deleted");
    assert!(files(&store.path().join("v1/incoming")).is_empty());
    let compacted = files(store.path());
    printed(store.path(), &["compact", "--grace", "0s"]);
    assert_eq!(files(store.path()), compacted, "there is nothing left to do");
    // A host that was away ships an hour, and another one more of an hour that was compacted.
    ship(store.path(), "minute", hour(1), "db-2", &minutes("db-2", hour(1), 2.0), true);
    ship(store.path(), "minute", FIRST, "web", &minutes("web", FIRST, 7.0), true);
    let late = all_rows(store.path());
    assert_eq!(late.lines().count(), before.lines().count() + 60);
    assert_eq!(late.matches(",7").count(), 60, "it replaces the rows that were compacted");
    printed(store.path(), &["compact", "--grace", "0s"]);
    assert_eq!(all_rows(store.path()), late);
    printed(store.path(), &["compact", "--keep", "1d"]);
    assert!(files(store.path()).is_empty(), "2024 is more than a day ago");
}

#[test]
fn a_compactor_may_be_killed_or_run_twice() {
    const KILLS: u32 = 10;
    let store = memory_folder();
    ship_fleet(store.path());
    let begun = Instant::now();
    let second = fleet(store.path(), &["compact", "--grace", "0s"]).stdout(Stdio::null()).spawn().unwrap();
    printed(store.path(), &["compact", "--grace", "0s"]);
    let whole = begun.elapsed();
    assert!(second.wait_with_output().unwrap().status.success());
    for kill in 0..KILLS {
        let host = format!("host-{kill}");
        for number in 0..3 {
            ship(store.path(), "minute", hour(number), &host, &minutes(&host, hour(number), 1.0), kill % 2 == 0);
        }
        ship(store.path(), "minute", hour(1), "web", &minutes("web", hour(1), f64::from(kill)), true);
        let expected = all_rows(store.path());
        let mut compactor = fleet(store.path(), &["compact", "--grace", "0s"]).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole * kill / KILLS);
        compactor.kill().unwrap();
        compactor.wait().unwrap();
        assert_eq!(all_rows(store.path()), expected, "killed after {:?}", whole * kill / KILLS);
    }
    let expected = all_rows(store.path());
    for _ in 0..2 {
        printed(store.path(), &["compact", "--grace", "0s"]);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(all_rows(store.path()), expected);
    assert_eq!(files(&store.path().join("v1/incoming")).len(), 0);
}

/// Thirty hosts, in turn databases and web servers. Ten got a new kernel at 11:20, and eight of those are sick from 11:30 on; of the
/// others one is.
fn ship_rollout(store: &Path) {
    for number in 0..30 {
        let host = format!("h{number:02}");
        let is_sick = number < 8 || number == 29;
        for at in 0..3 {
            let slow = |minute: i64| if is_sick && i64::from(at) * 60 + minute >= 90 { 30.0 } else { 0.0 };
            let rows: Vec<Row> = (0..60).map(|at_minute| minute(&host, hour(at), at_minute, slow(at_minute))).collect();
            ship(store, "minute", hour(at), &host, &rows, true);
        }
        if is_sick {
            let first = episode(&host, hour(1), (30, 60), "disk.saturated", 900.0, false);
            ship(store, "episode", hour(1), &host, &[first], true);
            let second = episode(&host, hour(2), (0, 60), "disk.saturated", 1800.0, true);
            ship(store, "episode", hour(2), &host, &[second], true);
        }
        let row = |at: i64, words: &[&str]| -> Row {
            [Cell::text(&host), Cell::Timestamp(at)]
                .into_iter()
                .chain(words.iter().map(|word| Cell::text(word)))
                .collect()
        };
        let kernel = if number < 10 { "6.9" } else { "6.8" };
        let role = if number % 2 == 0 { "db" } else { "web" };
        let read = hour(2).start();
        let inventory = [
            row(read, &["kernel", "release", kernel]),
            row(read, &["label", "role", role]),
            row(read, &["package", "bash", "5.2"]),
        ];
        ship(store, "inventory", hour(2), &host, &inventory, true);
        if number < 10 {
            let change = row(hour(1).start() + 20 * MINUTE_MS, &["kernel", "release", "6.8", "6.9"]);
            ship(store, "change", hour(1), &host, &[change], true);
        }
    }
}

#[test]
fn what_the_sick_hosts_share_is_named_and_a_change_that_hurt_is_judged() {
    let store = memory_folder();
    ship_rollout(store.path());
    let text = asked(store.path(), &["why", "disk.saturated"]);
    assert!(text.starts_with("disk.saturated: 9 of 30 hosts sick\n"), "{text}");
    assert!(text.contains("change of kernel release (6.8 → 6.9): 8 of 9 sick hosts have it, 2 of 21"), "{text}");
    assert!(text.lines().count() <= 25, "{text}");
    let answer: serde_json::Value =
        serde_json::from_str(&asked(store.path(), &["why", "disk.saturated", "--json"])).unwrap();
    assert_eq!((answer["verdict"].as_str(), answer["within"].as_str()), (Some("cause"), Some("role")), "{answer}");
    assert_eq!(answer["candidates"][0]["features"][1]["name"], "release");
    // 8/10 less 1/20.
    let difference = answer["candidates"][0]["risk_difference"]["estimate"].as_f64().unwrap();
    assert!((difference - 0.75).abs() < 1e-9, "{answer}");
    let nothing = asked(store.path(), &["why", "net.drops"]);
    assert!(nothing.contains("None of 30 hosts has it."), "{nothing}");

    let list = asked(store.path(), &["change"]);
    assert!(list.contains("kernel:release=6.9") && list.contains("whyslow-fleet change"), "{list}");
    let question = ["change", "kernel:release=6.9", "--window", "1h", "--settle", "10m", "--json"];
    let answer: serde_json::Value = serde_json::from_str(&asked(store.path(), &question)).unwrap();
    let healthy = &answer["rollout"]["healthy"];
    assert_eq!(
        (answer["rollout"]["effect"].as_str(), healthy["changed"].as_u64()),
        (Some("hurt"), Some(10)),
        "{answer}"
    );
    assert_eq!(healthy["controls"], 20);
    for (wrong, status) in [("kernel", 2), ("kernel:release=7.0", 1)] {
        let arguments = [&["change", wrong], &PERIOD[..]].concat();
        assert_eq!(run(store.path(), &arguments).status.code(), Some(status), "{wrong}");
    }
}

/// A host that reports the largest counters there can be for twenty disks, which are more than 64 bits in an hour.
#[test]
fn counters_whose_sum_is_no_integer_do_not_break_a_comparison() {
    let store = memory_folder();
    let disk = table("disk").unwrap();
    let rows = |host: &str, hour: Hour, disks: i64, [time, reads]: [i64; 2]| -> Vec<Row> {
        let cell = |name: &str, device: i64, minute: i64| match name {
            "host" => Cell::text(host),
            "at" => Cell::Timestamp(hour.start() + minute * MINUTE_MS),
            "device" => Cell::text(&format!("sd{device}")),
            "seconds" => Cell::Double(60.0),
            "read_time" => Cell::Integer(time),
            "reads" => Cell::Integer(reads),
            _ => Cell::Null,
        };
        let places = (0..disks).flat_map(|device| (0..60).map(move |minute| (device, minute)));
        places
            .map(|(device, minute)| disk.columns.iter().map(|column| cell(&column.name, device, minute)).collect())
            .collect()
    };
    for hour in std::iter::successors(Some(FIRST), |hour| Hour::next(*hour)).take(7) {
        for number in 0..10 {
            let host = format!("h{number}");
            let (disks, counters) = if number == 3 { (20, [1 << 53, 1 << 33]) } else { (1, [100_000, 1]) };
            ship(store.path(), "minute", hour, &host, &minutes(&host, hour, 1.0), true);
            ship(store.path(), "disk", hour, &host, &rows(&host, hour, disks, counters), true);
        }
    }
    let arguments = ["outliers", "--json", "--from", "2024-11-26T10:00:00Z", "--to", "2024-11-26T17:00:00Z"];
    let answer: serde_json::Value = serde_json::from_str(&printed(store.path(), &arguments)).unwrap();
    let [outlier] = &answer["outliers"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!((outlier["host"].as_str(), outlier["metric"].as_str()), (Some("h3"), Some("time of a read")));
    let value = outlier["value"].as_f64().unwrap();
    assert!((value - 0.001_048_576).abs() < 1e-9, "{value}");
}

#[test]
fn twins_that_differ_and_file_systems_that_fill_up_are_named() {
    let store = memory_folder();
    let to = Hour { hour: FIRST.hour + 7, ..FIRST };
    let mut hour = FIRST;
    while hour < to {
        for number in 0..10 {
            let host = format!("h{number}");
            ship(
                store.path(),
                "minute",
                hour,
                &host,
                &minutes(&host, hour, if number == 3 { 30.0 } else { 1.0 }),
                true,
            );
        }
        hour = hour.next().unwrap();
    }
    let arguments = ["outliers", "--json", "--from", "2024-11-26T10:00:00Z", "--to", "2024-11-26T17:00:00Z"];
    let answer: serde_json::Value = serde_json::from_str(&printed(store.path(), &arguments)).unwrap();
    let found = answer["outliers"].as_array().unwrap();
    assert_eq!(
        (found.len(), found[0]["host"].as_str(), found[0]["metric"].as_str()),
        (1, Some("h3"), Some("time lost"))
    );
    assert!(asked(store.path(), &["outliers"]).contains("None of them persistently differs"));

    // 10 GiB a day: 210 of 300 on the last of twelve days, so full in nine days.
    const GIB: f64 = 1_073_741_824.0;
    let mount = table("mount").unwrap();
    let now = jiff::Timestamp::now().as_millisecond();
    for day in 0..12 {
        let at = now - (11 - day) * 24 * 60 * MINUTE_MS;
        let mut row: Row = vec![Cell::Null; mount.columns.len()];
        let used = 100.0 + 10.0 * day as f64;
        let cells = [
            ("host", Cell::text("db")),
            ("at", Cell::Timestamp(at)),
            ("point", Cell::text("/srv")),
            ("size", Cell::Double(300.0 * GIB)),
            ("available", Cell::Double((300.0 - used) * GIB)),
        ];
        for (name, cell) in cells {
            row[mount.position(name).unwrap()] = cell;
        }
        ship(store.path(), "mount", Hour::from_ms(at).unwrap(), "db", &[row], true);
    }
    let answer: serde_json::Value = serde_json::from_str(&printed(store.path(), &["forecast", "--json"])).unwrap();
    let full = &answer["forecasts"][0];
    assert_eq!((full["name"].as_str(), full["outlook"].as_str()), (Some("/srv"), Some("runs_out")), "{answer}");
    let growth = full["per_day"]["estimate"].as_f64().unwrap();
    assert!((growth / GIB - 10.0).abs() < 1e-6, "{answer}");
    let days = (full["earliest_ms"].as_i64().unwrap() - now) as f64 / (24 * 60 * MINUTE_MS) as f64;
    assert!((8.0..=9.1).contains(&days), "{days}");
    let text = printed(store.path(), &["forecast"]);
    assert!(text.contains("1 is full or will be.") && text.contains("/srv"), "{text}");
}
