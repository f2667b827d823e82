//! `whyslow-fleet serve` from the outside, over a real store in a folder.

mod shipped;
#[path = "../../../tests/skip/mod.rs"]
mod skip;

use serde_json::Value;
use shipped::{FIRST, episode, fleet, hour, label, minute, minutes, ship};
use std::path::Path;
use std::process::{Command, Stdio};
use whyslow_rollup::{Cell, Row, table};
use whyslow_testing::documents::assert_valid;
use whyslow_testing::{HttpServer, UrlOn, ends_with_test, memory_folder};

/// Three hours from ten o'clock on, in seconds since 1970.
const FROM: i64 = 1_732_615_200;
const TIME: &str = "from=1732615200&to=1732626000";
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{202e}";

struct Server {
    http: HttpServer,
    token: String,
}

impl Server {
    fn start(store: &Path) -> Self {
        let mut command = fleet(store, &["serve", "--listen", "127.0.0.1:0"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let http = HttpServer::start(&mut command, UrlOn::Stdout);
        let token = http.path.strip_prefix("?token=").unwrap_or_else(|| panic!("{}", http.path)).to_owned();
        Self { http, token }
    }

    fn get(&self, path: &str) -> (u16, String) {
        let answer = self.http.get(path, &format!("Authorization: Bearer {}\r\n", self.token));
        (answer.status, answer.body)
    }

    fn document(&self, what: &str) -> Value {
        let path = format!("/api/{what}");
        let (status, body) = self.get(&path);
        assert_eq!(status, 200, "{path}: {body}");
        assert_valid(&path, body.as_bytes());
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }

    fn error(&self, what: &str, expected: u16) -> String {
        let (status, body) = self.get(&format!("/api/{what}"));
        assert_eq!(status, expected, "{what}: {body}");
        serde_json::from_str::<Value>(&body).unwrap()["error"].as_str().unwrap().to_owned()
    }
}

/// Rows of disk minutes, in which so many bytes were read.
fn disk(host: &str, read: i64) -> Vec<Row> {
    let table = table("disk").unwrap();
    let row = |minute: i64| {
        let cell = |name: &str| match name {
            "host" => Cell::text(host),
            "at" => Cell::Timestamp(FIRST.start() + minute * 60_000),
            "seconds" => Cell::Double(60.0),
            "device" => Cell::text("sda"),
            "reads" => Cell::Integer(60),
            "read_bytes" => Cell::Integer(read),
            _ => Cell::Null,
        };
        table.columns.iter().map(|column| cell(&column.name)).collect()
    };
    (0..60).map(row).collect()
}

fn change(host: &str, minute: i64, value: &str) -> Row {
    let at = Cell::Timestamp(FIRST.start() + minute * 60_000);
    [Cell::text(host), at].into_iter().chain(["kernel", "release", "6.8", value].map(Cell::text)).collect()
}

/// `db` has been slow since the middle of the second hour, `web` is well, and `gone` did not report.
fn ship_fleet(store: &Path) {
    for number in 0..3 {
        ship(store, "minute", hour(number), "web", &minutes("web", hour(number), 0.0), true);
        let slow = |minute: i64| if i64::from(number) * 60 + minute < 90 { 0.0 } else { 30.0 };
        let rows: Vec<Row> = (0..60).map(|at| minute("db", hour(number), at, slow(at))).collect();
        ship(store, "minute", hour(number), "db", &rows, true);
    }
    let first = episode("db", hour(1), (30, 60), "disk.saturated", 900.0, false);
    ship(store, "episode", hour(1), "db", &[first], true);
    ship(store, "episode", hour(2), "db", &[episode("db", hour(2), (0, 60), "disk.saturated", 1800.0, true)], true);
    ship(store, "inventory", FIRST, "db", &[label("db", "db")], true);
    ship(store, "inventory", FIRST, "web", &[label("web", "front")], true);
    ship(store, "change", FIRST, "db", &[change("db", 30, "6.9")], true);
    ship(store, "disk", FIRST, "db", &disk("db", 6_000_000), true);
    let before = whyslow_rollup::Hour { day: jiff::civil::date(2024, 11, 25), hour: 3 };
    ship(store, "minute", before, "gone", &minutes("gone", before, 0.0), true);
}

#[test]
fn the_heat_map_has_the_share_of_time_that_each_host_lost() {
    let store = memory_folder();
    ship_fleet(store.path());
    let server = Server::start(store.path());
    let map = server.document(&format!("heat?{TIME}"));
    assert_eq!(map["schema"], "whyslow.fleet.heat/1");
    assert_eq!((map["start"].as_str(), map["step_s"].as_i64()), (Some("2024-11-26T10:00:00Z"), Some(300)));
    let hosts: Vec<&str> = map["hosts"].as_array().unwrap().iter().map(|host| host["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, ["db", "web", "gone"], "those that lost the most first, and then those of which nothing came");
    let shares: Vec<f64> =
        map["hosts"][0]["shares"].as_array().unwrap().iter().map(|share| share.as_f64().unwrap()).collect();
    assert_eq!(shares, [vec![0.0; 18], vec![0.5; 18]].concat());
    assert_eq!(map["findings"], serde_json::json!(["disk.saturated"]));
    let causes: Vec<i64> =
        map["hosts"][0]["causes"].as_array().unwrap().iter().map(|of| of[0].as_i64().unwrap()).collect();
    assert_eq!(causes, (18..36).collect::<Vec<i64>>());
    assert_eq!(map["hosts"][2]["missing"], "not_reporting");
    assert!(map["hosts"][2]["shares"].as_array().unwrap().iter().all(Value::is_null));
    // The compactor changes nothing of it.
    shipped::printed(store.path(), &["compact", "--grace", "0s"]);
    assert_eq!(Server::start(store.path()).document(&format!("heat?{TIME}")), map);
}

#[test]
fn the_commands_answers_are_there() {
    let store = memory_folder();
    ship_fleet(store.path());
    let server = Server::start(store.path());
    let period = ["--from", "2024-11-26T10:00:00Z", "--to", "2024-11-26T13:00:00Z", "--json"];
    let printed = |words: &[&str]| -> Value {
        serde_json::from_str(&shipped::printed(store.path(), &[words, &period].concat())).unwrap()
    };
    assert_eq!(server.document(&format!("sick?by=role&{TIME}")), printed(&["sick", "--by", "role", "--limit", "0"]));
    let why = server.document(&format!("why?finding=disk.saturated&{TIME}"));
    assert_eq!(why, printed(&["why", "disk.saturated"]));
    assert_eq!(server.document(&format!("change?{TIME}")), printed(&["change"]));
    let id = "kernel:release=6.9";
    assert_eq!(server.document(&format!("change?id={id}&{TIME}")), printed(&["change", id]));
    assert_eq!(server.document(&format!("host?host=db&{TIME}")), printed(&["host", "db", "--limit", "0"]));
    let keys = server.document(&format!("keys?{TIME}"));
    assert_eq!(keys["keys"], serde_json::json!(["role", "kernel", "model"]));
    let property = server.document(&format!("property?by=role&{TIME}"));
    assert_eq!(property["values"], serde_json::json!({ "db": "db", "web": "front" }));
    let raw = server.document("raw?host=db-1&from=1732615200&to=1732616400");
    assert_eq!(raw["command"], "ssh -- db-1 'whyslow explain --from 2024-11-26T10:00:00Z --to 2024-11-26T10:20:00Z'");
}

#[test]
fn each_answer_names_what_was_left_out_of_it() {
    let store = memory_folder();
    ship_fleet(store.path());
    ship(store.path(), "minute", FIRST, "evil", &[minute("evil", FIRST, 0, 1e300)], true);
    let server = Server::start(store.path());
    let left_out = |time: &str| server.document(&format!("sick?{time}"))["left_out"].as_array().unwrap().len();
    assert_eq!(
        (left_out(TIME), left_out("from=1732618800&to=1732626000")),
        (1, 0),
        "the second is about two hours later"
    );
}

#[test]
fn a_host_has_the_page_of_a_recording() {
    let store = memory_folder();
    ship_fleet(store.path());
    let server = Server::start(store.path());
    let outline = server.document(&format!("page?host=db&only=outline&{TIME}"));
    let ids: Vec<&str> =
        outline["charts"].as_array().unwrap().iter().map(|chart| chart["id"].as_str().unwrap()).collect();
    assert!(
        ["pressure.lost", "cpu.modes", "disk.throughput", "memory.use", "network.throughput"]
            .iter()
            .all(|id| ids.contains(id)),
        "{ids:?}"
    );
    let page = server.document(&format!("page?host=db&charts=pressure.lost,disk.throughput&{TIME}"));
    assert_eq!(page["schema"], "whyslow.report/1");
    assert_eq!(page["charts"][0]["id"], "pressure.lost");
    let lost = page["charts"][0]["series"][0]["mean"].as_array().unwrap();
    assert_eq!((lost.len(), lost[0].as_f64(), lost[179].as_f64()), (180, Some(0.0), Some(0.5)));
    let reads = page["charts"][1]["series"].as_array().unwrap().iter().find(|series| series["name"] == "sda reads");
    let first: Vec<f64> = reads.unwrap()["mean"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert_eq!((first.len(), first[5]), (60, 100_000.0));
    let explanation = &page["explanation"];
    assert_eq!(explanation["episodes"].as_array().unwrap().len(), 1, "one, though it is cut at the hour");
    assert_eq!(explanation["episodes"][0]["start"], "2024-11-26T11:30:00Z");
    assert_eq!(explanation["episodes"][0]["mean_impact"], 0.5);
    assert_eq!(explanation["changes"][0]["what"], "kernel release: was 6.8, is 6.9");
    assert_eq!(explanation["samples"], 3 * 3600);
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    let store = memory_folder();
    ship_fleet(store.path());
    let server = Server::start(store.path());
    assert!(server.error("nothing", 404).starts_with("there is no /api/nothing; there are heat,"));
    assert_eq!(server.error("why", 400), "finding is missing");
    assert!(server.error("sick?by=&since=1h", 400).contains("not a key"));
    assert!(server.error("heat?since=tomorrow", 400).contains("not a time"));
    assert!(server.error("heat?from=2&to=1", 400).contains("from must come before to"));
    assert!(server.error("heat?form=2", 400).contains("there is no parameter 'form'"));
    assert!(server.error("change?id=kernel", 400).contains("not a change"));
    assert!(server.error(&format!("page?host=db&charts=no.such&{TIME}"), 400).contains("no chart 'no.such'"));
    assert!(server.error(&format!("host?host=nobody&{TIME}"), 404).contains("nobody has shipped nothing"));
    assert!(server.error(&format!("page?host=nobody&{TIME}"), 404).contains("nobody has shipped nothing"));
    assert_ne!(server.error(&format!("change?id=kernel:x&{TIME}"), 404), "");
    assert!(server.error(&format!("raw?host=-oProxyCommand&{TIME}"), 400).contains("given to ssh"));
}

#[test]
fn who_has_no_token_and_pages_of_others_get_nothing() {
    let store = memory_folder();
    ship_fleet(store.path());
    let Server { http, token } = Server::start(store.path());
    let own = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(http.get("/api/heat", "").status, 401);
    assert_eq!(http.get("/", "Authorization: Bearer wrong\r\n").status, 401);
    assert_eq!(http.get("/api/heat", &format!("{own}Origin: http://evil.example\r\n")).status, 403);
    let page = http.get(&format!("/?token={token}"), "");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("<title>whyslow fleet</title>"));
}

#[test]
fn hostile_names_are_data() {
    let store = memory_folder();
    ship(store.path(), "minute", FIRST, HOSTILE, &minutes(HOSTILE, FIRST, 30.0), true);
    ship(store.path(), "episode", FIRST, HOSTILE, &[episode(HOSTILE, FIRST, (0, 60), HOSTILE, 1800.0, false)], true);
    let server = Server::start(store.path());
    let (_, body) = server.get(&format!("/api/heat?{TIME}"));
    assert!(!body.contains('\u{202e}'), "it is escaped");
    let map: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((map["hosts"][0]["host"].as_str(), map["findings"][0].as_str()), (Some(HOSTILE), Some(HOSTILE)));
    // A quote ends no literal of the question.
    assert!(server.error(&format!("host?host=x%27%20OR%20%271%27=%271&{TIME}"), 404).contains("has shipped nothing"));
    assert_eq!(FROM, FIRST.start() / 1000);
}

#[test]
fn the_page_shows_the_fleet_in_a_browser() {
    if !skip::has_program("node") || !skip::has_program("chromium") {
        return;
    }
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    if !web.join("node_modules/playwright-core").exists() {
        return skip::skip_unless_ci("needs the packages of web/package.json (scripts/install-missing.sh test)");
    }
    let store = memory_folder();
    ship_fleet(store.path());
    let server = Server::start(store.path());
    let url = format!("http://{}/{}", server.http.address, server.http.path);
    let mut node = Command::new("node");
    node.arg(web.join("tests/fleetserve.mjs")).arg(url).stdin(Stdio::null());
    let out = ends_with_test(&mut node).output().expect("node");
    let [said, wrong] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(out.status.success(), "{said}{wrong}");
}
