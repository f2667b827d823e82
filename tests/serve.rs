//! Tests of `whyslow serve` from the outside: a browser's requests, and requests that must be refused.

mod recorded;

use std::collections::BTreeSet;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use whyslow_documents::chart::PageData;
use whyslow_documents::diagnosis::Verdict;
use whyslow_documents::io_stack::IoStack;
use whyslow_documents::overview::{HostKind, HostOverview, Overview};
use whyslow_model::catalogue::{Disk, MachineInfo, Queue};
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_testing::{HttpAnswer, HttpServer, UrlOn, ends_with_test, wait_for};

const SECOND: u64 = 1_000_000_000;
/// 2026-11-21 16:43:20 UTC: a segment ends at 400 s.
const START: u64 = 1_795_279_400;
const LENGTH: u64 = 480;
/// Seconds in which the busy host has more work than CPUs.
const BUSY: std::ops::Range<u64> = 200..260;
/// A name that contains markup, and a right-to-left override.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{202e}";

fn whyslow(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    command.args(args).env("TZ", "UTC").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // No recording, rule or baseline of this machine.
    command.env("HOME", "/nonexistent").env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
    ends_with_test(&mut command);
    command
}

fn run(args: &[&str]) -> Output {
    whyslow(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A server that is ended with the test.
struct Server {
    http: HttpServer,
    token: String,
}

impl Server {
    /// Starts a live server without BPF, which takes most of the start time.
    fn live(args: &[&str]) -> Self {
        Self::start(&[&["--no-bpf", "--interval", "200ms"], args].concat())
    }

    fn of_recordings(folders: &[&Path]) -> Self {
        let folders: Vec<&str> = folders.iter().map(|folder| folder.to_str().unwrap()).collect();
        Self::start(&[&["--no-live"], &folders[..]].concat())
    }

    fn start(args: &[&str]) -> Self {
        let http =
            HttpServer::start(&mut whyslow(&[&["serve", "--listen", "127.0.0.1:0"], args].concat()), UrlOn::Stdout);
        let token = http.path.strip_prefix("?token=").unwrap_or_else(|| panic!("{}", http.path)).to_owned();
        Self { http, token }
    }

    /// Returns the status and body of an answer to a request with the token.
    fn get(&self, path: &str) -> (u16, String) {
        let answer = self.http.get(path, &format!("Authorization: Bearer {}\r\n", self.token));
        (answer.status, answer.body)
    }

    fn document<T: serde::de::DeserializeOwned>(&self, path: &str) -> T {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Returns the message of an error.
    fn error(&self, path: &str, expected: u16) -> String {
        let (status, body) = self.get(path);
        assert_eq!(status, expected, "{path}: {body}");
        let document: serde_json::Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path}: {e}: {body}"));
        document["error"].as_str().unwrap().to_owned()
    }

    /// Returns the live page, once it has rates.
    fn live_page(&self) -> PageData {
        wait_for("two samples", || {
            let (status, body) = self.get("/api/page?host=live");
            let page: PageData = (status == 200).then(|| serde_json::from_str(&body).unwrap())?;
            page.charts.iter().any(|chart| chart.id == "cpu.modes").then_some(page)
        })
    }

    /// Returns all hosts, once the survey has covered them.
    fn surveyed(&self) -> Vec<HostOverview> {
        wait_for("a survey", || {
            let overview: Overview = self.document("/api/overview");
            let is_done = |host: &HostOverview| host.verdict.is_some() || host.error.is_some();
            overview.hosts.iter().all(is_done).then_some(overview.hosts)
        })
    }
}

/// Returns a sample of a machine with two CPUs and a disk, which is idle; the busy one has work for a minute.
fn sample(t: u64, host: &str, is_busy: bool) -> Snapshot {
    let busy = if is_busy { t.clamp(BUSY.start, BUSY.end) - BUSY.start } else { 0 };
    let mut s = recorded::two_cpus(t, ((START + t) * SECOND) as i64, busy);
    s.block.disk.push(Disk {
        reads: (100 * t).into(),
        read_bytes: (409_600 * t).into(),
        read_time: (SECOND / 10 * t).into(),
        busy_time: (SECOND / 10 * t).into(),
        weighted_time: (SECOND / 10 * t).into(),
        ..Disk::new("vda".into())
    });
    s.task.process.push(recorded::one_of_six(1, "init", 1, 0));
    if is_busy && (BUSY.contains(&t) || BUSY.end == t) {
        let start = (1000 + BUSY.start) * 100;
        let own = |pid| recorded::one_of_six(pid, HOSTILE, start, t - BUSY.start);
        s.task.process.extend((100..106).map(own));
    }
    if t.is_multiple_of(60) {
        s.block.queue.push(Queue { size: 1e9.into(), ..Queue::new("vda".into()) });
        let machine = MachineInfo { name: host.into(), boot: "b00t".into(), ..MachineInfo::new(MachineKey) };
        s.kernel.machine.push(machine);
    }
    s.sort();
    s
}

/// Creates a folder with the recordings of two hosts.
fn two_hosts() -> tempfile::TempDir {
    let folder = recorded::folder();
    for (host, is_busy) in [("db1", true), ("db2", false)] {
        let counts = recorded::record(&folder.path().join(host), LENGTH, |t| sample(t, host, is_busy));
        assert_eq!(counts.samples, LENGTH);
    }
    folder
}

#[test]
fn the_live_page_grows() {
    let server = Server::live(&[]);
    let page = server.live_page();
    assert!(page.explanation.is_none() && page.title.ends_with(", live"), "{}", page.title);
    let (since, ids) = (page.to, page.charts.iter().map(|chart| chart.id.clone()).collect::<BTreeSet<_>>());
    let newer: PageData = wait_for("a newer sample", || {
        let (status, body) = server.get(&format!("/api/page?host=live&since={since}"));
        assert!(matches!(status, 200 | 204), "{body}");
        (status == 200).then(|| serde_json::from_str(&body).unwrap())
    });
    assert!(newer.to > since && newer.from <= since, "{} {since}", newer.to);
    assert!(newer.charts.iter().any(|chart| ids.contains(&chart.id)), "it goes on with what was there");
    for chart in &newer.charts {
        assert!(
            !chart.times.is_empty() && chart.times.iter().all(|time| *time > since),
            "{}: {:?}",
            chart.id,
            chart.times
        );
        assert!(chart.series.iter().all(|series| series.mean.len() == chart.times.len()), "{}", chart.id);
    }
    assert_eq!(server.get(&format!("/api/page?host=live&since={}", newer.to + 1000.0)), (204, String::new()));
    let diagnosed = wait_for("a diagnosis", || server.live_page().diagnosis);
    let overview: Overview = server.document("/api/overview");
    // There may also be a recording of this machine.
    let live = overview.hosts.first().unwrap();
    assert_eq!((&*live.id, live.kind, live.interval), ("live", HostKind::Live, Some(0.2)));
    assert!(live.verdict.is_some() && live.from.is_some() && live.to >= Some(newer.to), "{live:?}");
    assert!(diagnosed.window.samples > 1);
    assert!(server.error("/api/page?host=live&only=outline", 400).contains("recordings"));
    let answer: PageData = server.document("/api/page?host=live&only=answer");
    assert!(answer.diagnosis.is_some() && answer.charts.is_empty());
    let part: PageData = server.document("/api/page?host=live&charts=cpu.modes,cpu.tasks&only=charts");
    let ids: Vec<&str> = part.charts.iter().map(|chart| &*chart.id).collect();
    assert_eq!((ids, part.diagnosis), (vec!["cpu.modes", "cpu.tasks"], None));
}

#[test]
fn the_stacks_are_those_of_the_command() {
    let server = Server::live(&[]);
    server.live_page();
    let ids = |stack: &IoStack| stack.nodes.iter().map(|node| node.id.clone()).collect::<BTreeSet<_>>();
    let served: IoStack = server.document("/api/stack?host=live");
    let printed: IoStack = serde_json::from_slice(&run(&["stack", "--json"]).stdout).unwrap();
    // Other programs may create and remove devices at the same time; the loopback interface stays.
    assert!(ids(&served).intersection(&ids(&printed)).any(|id| id == "interface:lo"), "{:?}", ids(&served));
    let lo = served.node("interface:lo").unwrap().load.clone().expect("a load");
    assert!(lo.read.is_some() && lo.write.is_some(), "{lo:?}");
    assert!(server.error("/api/stack?host=live&at=1", 400).contains("recordings"));
}

#[test]
fn the_page_is_there_with_its_policy() {
    let server = Server::live(&[]);
    let HttpAnswer { status, head, body } = server.http.get(&format!("/?token={}", server.token), "");
    assert_eq!(status, 200, "{head}");
    for header in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "x-frame-options: DENY",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    assert!(body.starts_with("<!doctype html>") && !body.contains("id=\"document\""));
    assert_eq!(server.get("/index.html").0, 404);
    assert!(server.error("/api/nothing", 404).contains("overview"));
}

#[test]
fn without_the_token_nothing_is_answered() {
    let server = Server::live(&[]);
    let token = &server.token;
    for path in ["/", "/api/overview", "/api/page?host=live", "/api/stack?host=live", "/nothing"] {
        for (query, headers) in [
            ("", String::new()),
            ("token=wrong", String::new()),
            ("Token=", String::new()),
            ("token=", format!("Cookie: token={token}\r\n")),
            ("", format!("Authorization: Basic {token}\r\n")),
            ("", format!("Authorization: Bearer {}\r\n", &token[1..])),
            ("", format!("X-Token: {token}\r\n")),
        ] {
            let separator = if path.contains('?') { '&' } else { '?' };
            let HttpAnswer { status, body, .. } = server.http.get(&format!("{path}{separator}{query}"), &headers);
            assert_eq!(status, 401, "{path} {query} {headers}: {body}");
            assert!(body.contains("the address that") && !body.contains(token), "{body}");
        }
    }
    assert_eq!(server.http.get(&format!("/{token}"), "").status, 401, "a path is no parameter");
}

#[test]
fn foreign_hosts_origins_and_methods_are_refused() {
    let server = Server::live(&["--allow-host", "web.example"]);
    let address = server.http.address;
    let asked = |method: &str, host: &str, headers: &str| {
        let token = &server.token;
        let request = format!(
            "{method} /api/overview HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{headers}Content-Length: 0\r\n\r\n"
        );
        server.http.ask(&request).status
    };
    let own = address.to_string();
    assert_eq!(asked("GET", &own, &format!("Origin: http://{own}\r\n")), 200);
    assert_eq!(asked("GET", "web.example:80", ""), 200);
    assert_eq!(asked("GET", "evil.example", ""), 403, "DNS rebinding");
    for origin in ["http://evil.example", "null", &format!("https://{own}"), "http://web.example"] {
        assert_eq!(asked("GET", &own, &format!("Origin: {origin}\r\n")), 403, "{origin}");
    }
    assert_eq!(asked("HEAD", &own, ""), 200);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        assert_eq!(asked(method, &own, ""), 405, "{method}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    let folder = two_hosts();
    let server = Server::of_recordings(&[folder.path()]);
    for (path, expected) in [
        ("/api/page", 400),
        ("/api/page?host=", 404),
        ("/api/page?host=live", 404),
        ("/api/page?host=99", 404),
        ("/api/page?host=../etc", 404),
        ("/api/page?host=0&host=1", 400),
        ("/api/page?host=0&nonsense=1", 400),
        ("/api/page?host=0&from=yesterday", 400),
        ("/api/page?host=0&from=NaN", 400),
        ("/api/page?host=0&to=1e300", 400),
        ("/api/page?host=0&from=1795279500&to=1795279400", 400),
        ("/api/page?host=0&from=0&to=1", 404),
        ("/api/page?host=0&from=9000000000", 404),
        ("/api/page?host=0&from=-9000000000&to=-8999999999", 404),
        ("/api/page?host=0&since=1795279400", 400),
        ("/api/page?host=0&intervals=0", 400),
        ("/api/page?host=0&intervals=1501", 400),
        ("/api/page?host=0&intervals=-1", 400),
        ("/api/page?host=0&charts=", 400),
        ("/api/page?host=0&charts=cpu.nonsense", 400),
        ("/api/page?host=0&only=findings", 400),
        ("/api/stack", 400),
        ("/api/stack?host=0&at=0", 404),
        ("/api/stack?host=0&at=soon", 400),
        ("/api/profile?host=0", 400),
        ("/api/profile?host=0&seconds=31", 400),
        ("/api/profile?host=0&kind=gpu", 400),
        ("/api/overview?host=0", 400),
        ("/api/", 404),
        ("/api/%2e%2e/%00", 404),
        (&format!("/api/page?host={}", "%3Cscript%3E%E2%80%AE"), 404),
    ] {
        let error = server.error(path, expected);
        assert!(error.len() > 10 && !error.contains("panicked"), "{path}: {error}");
    }
    assert_eq!(server.get("/api/page?host=0&only=charts").0, 200, "it goes on");
}

#[test]
fn recordings_of_two_hosts_are_shown_as_the_report_shows_them() {
    let folder = two_hosts();
    let server = Server::of_recordings(&[folder.path()]);
    let hosts = server.surveyed();
    let [db1, db2] = &hosts[..] else { panic!("{hosts:?}") };
    assert_eq!((&*db1.id, &*db1.name, &*db2.id, &*db2.name), ("0", "db1", "1", "db2"));
    assert_eq!((db1.kind, db1.interval), (HostKind::Recording, Some(1.0)));
    assert_eq!((db1.from, db1.to), (Some(START as f64), Some((START + LENGTH - 1) as f64)));
    assert_eq!(db1.folder.as_deref(), folder.path().join("db1").to_str());
    assert_eq!((db1.verdict, db2.verdict), (Some(Verdict::Bottleneck), Some(Verdict::Healthy)));
    assert!(db1.finding.as_ref().is_some_and(|finding| finding.contains("CPU")), "{db1:?}");
    assert!(db1.severity.is_some_and(|severity| severity > 0.9 && severity <= 1.0), "{db1:?}");
    assert_eq!((&db2.finding, db2.severity), (&None, None));
    let pressure: Vec<f64> = db1.pressure.iter().flatten().copied().collect();
    assert!((40..=60).contains(&db1.pressure.len()), "{:?}", db1.pressure);
    let worst = pressure.iter().copied().fold(0.0, f64::max);
    assert!((worst - 0.98).abs() < 1e-9, "{pressure:?}");
    // One minute of eight.
    let high = pressure.iter().filter(|share| **share > 0.5).count() as f64 / pressure.len() as f64;
    assert!((high - 0.125).abs() < 0.03, "{pressure:?}");
    assert!(db2.pressure.iter().flatten().all(|share| *share == 0.0), "{:?}", db2.pressure);

    let page: PageData = server.document("/api/page?host=0");
    let path = folder.path().join("db1");
    let reported = run(&["report", "--dir", path.to_str().unwrap(), "--format", "json"]);
    let reported: PageData = serde_json::from_slice(&reported.stdout).unwrap();
    assert_eq!(page.charts, reported.charts);
    assert_eq!(page.explanation, reported.explanation);
    assert_eq!((page.host.as_str(), page.from, page.to), ("db1", START as f64, (START + LENGTH - 1) as f64));
    assert_eq!(page.explanation.as_ref().map(|explanation| explanation.episodes.len()), Some(1));

    let (from, to) = (START + 210, START + 240);
    let part: PageData = server.document(&format!("/api/page?host=0&from={from}&to={to}&charts=cpu.modes&only=charts"));
    let [modes] = &part.charts[..] else { panic!("{:?}", part.charts) };
    assert_eq!((part.from, part.to, part.explanation), (from as f64, to as f64, None));
    assert_eq!(modes.times.len(), 31);
    let user = modes.series.iter().find(|series| series.name == "user").unwrap();
    assert!(user.mean[1..].iter().all(|share| *share == Some(1.0)), "{:?}", user.mean);
    // The page first asks for the available charts and the events.
    let outline: PageData = server.document("/api/page?host=0&only=outline");
    let known: BTreeSet<&str> = outline.charts.iter().map(|chart| &*chart.id).collect();
    for chart in &reported.charts {
        let (id, _) = chart.id.split_once('@').unwrap_or((&chart.id, ""));
        assert!(known.contains(id), "{id}: {known:?}");
    }
    assert!(!known.contains("network.throughput"), "there is no interface: {known:?}");
    assert!(outline.charts.iter().all(|chart| chart.times.is_empty() && chart.series.is_empty()));
    assert_eq!((outline.from, outline.to, outline.explanation), (page.from, page.to, None));
    let answer: PageData = server.document("/api/page?host=0&only=answer");
    assert_eq!((answer.charts.len(), answer.explanation), (0, reported.explanation));
    assert_eq!(answer.title, page.title);
    let coarse: PageData = server.document("/api/page?host=0&charts=cpu.modes&only=charts&intervals=10");
    assert!((5..=12).contains(&coarse.charts[0].times.len()), "{:?}", coarse.charts[0].times);
}

#[test]
fn the_stacks_of_a_recording_have_the_load_of_that_time() {
    let folder = two_hosts();
    let server = Server::of_recordings(&[&folder.path().join("db2")]);
    let stack: IoStack = server.document(&format!("/api/stack?host=0&at={}", START + 300));
    let load = stack.node("block:vda").and_then(|vda| vda.load.clone()).unwrap();
    assert_eq!((load.busy, load.read, load.requests), (Some(0.1), Some(409_600.0), Some(100.0)));
    assert_eq!((load.latency, load.queue), (Some(0.001), Some(0.1)));
}

#[test]
fn hostile_names_are_escaped() {
    let folder = two_hosts();
    let server = Server::of_recordings(&[folder.path()]);
    let (status, body) = server.get("/api/page?host=0");
    assert_eq!(status, 200);
    assert!(!body.contains('\u{202e}') && body.contains("\\u202e"), "written from right to left");
    let page: PageData = serde_json::from_str(&body).unwrap();
    let named = |chart: &whyslow_documents::chart::Chart| chart.series.iter().any(|series| series.entity == HOSTILE);
    assert!(page.charts.iter().any(named));
    let HttpAnswer { head, .. } = server.http.get(&format!("/api/page?host=0&token={}", server.token), "");
    assert!(head.contains("content-type: application/json\r\n") && head.contains("x-content-type-options: nosniff"));
    assert!(head.contains("content-security-policy: default-src 'none'\r\n"), "{head}");
}

#[test]
fn a_recording_that_appears_is_found_and_one_that_goes_is_no_longer_listed() {
    let folder = recorded::folder();
    recorded::record(&folder.path().join("db1"), 60, |t| sample(t, "db1", false));
    let server = Server::of_recordings(&[folder.path()]);
    let names = |server: &Server| server.surveyed().into_iter().map(|host| (host.id, host.name)).collect::<Vec<_>>();
    assert_eq!(names(&server), [("0".to_owned(), "db1".to_owned())]);
    recorded::record(&folder.path().join("db0"), 60, |t| sample(t, "db0", false));
    wait_for("the new recording", || names(&server).contains(&("1".to_owned(), "db0".to_owned())).then_some(()));
    std::fs::remove_dir_all(folder.path().join("db1")).unwrap();
    wait_for("the end of the old one", || (names(&server) == [("1".to_owned(), "db0".to_owned())]).then_some(()));
    server.error("/api/page?host=0", 404);
}

#[test]
fn the_machine_is_profiled_or_it_is_said_why_not() {
    let server = Server::live(&[]);
    let (status, body) = server.get("/api/profile?host=live&seconds=1");
    let document: serde_json::Value = serde_json::from_str(&body).unwrap();
    match status {
        200 => assert_eq!(document["schema"], "whyslow.profile/1"),
        400 => assert!(document["error"].as_str().unwrap().starts_with("cannot profile: "), "{body}"),
        other => panic!("{other}: {body}"),
    }
}

#[test]
fn it_has_only_the_capabilities_that_it_needs() {
    const DAC_READ_SEARCH: u64 = 1 << 2;
    const SETUID: u64 = 1 << 7;
    let dirs = two_hosts();
    for (server, may) in [(Server::of_recordings(&[dirs.path()]), DAC_READ_SEARCH), (Server::live(&[]), !SETUID)] {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.http.child.id())).unwrap();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        let mask = |name: &str| u64::from_str_radix(&field(name), 16).unwrap();
        assert_eq!(field("NoNewPrivs:"), "1");
        for set in ["CapEff:", "CapPrm:", "CapBnd:", "CapInh:", "CapAmb:"] {
            // Without privileges there is nothing to drop, and the bounding set cannot be changed.
            let is_privileged = std::path::Path::new("/proc/self").metadata().unwrap().uid() == 0;
            assert!(mask(set) & !may == 0 || set == "CapBnd:" && !is_privileged, "{set} {:x}", mask(set));
        }
    }
}

#[test]
fn it_ends_cleanly_on_a_signal() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let mut server = Server::live(&[]);
        server.live_page();
        let pid = libc::pid_t::try_from(server.http.child.id()).unwrap();
        // SAFETY: the signal goes to a child of this test, which has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        assert_eq!(server.http.child.wait().unwrap().code(), Some(0));
        let mut complaints = String::new();
        server.http.child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
        assert!(complaints.contains("serving this machine, live"), "{complaints}");
        assert_eq!(complaints.lines().count(), 1, "{complaints}");
    }
}

#[test]
fn wrong_usage_says_what_is_wrong() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = whyslow_testing::folder();
    let empty = folder.path().to_str().unwrap();
    let spaces = folder.path().join("token");
    std::fs::write(&spaces, "two words\n").unwrap();
    for (args, complaint) in [
        (&["--listen", &address, "--no-bpf"][..], format!("cannot listen on {address}: ")),
        (&["--listen", "localhost"], "invalid value 'localhost'".into()),
        (&["--interval", "10ms"], "--interval must be at least 100ms".into()),
        (&[empty], format!("{empty}: neither a recording nor a folder with recordings in it")),
        (&["/nonexistent/folder"], "/nonexistent/folder: neither a recording".into()),
        (&["--no-live", "--no-bpf"], "cannot be used with".into()),
        (&["--token-file", "/nonexistent/token"], "cannot read /nonexistent/token: ".into()),
        (&["--token-file", spaces.to_str().unwrap()], "not a token of one word".into()),
    ] {
        let out = run(&[&["serve"], args].concat());
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(&complaint), "{args:?}: {said}");
        assert_eq!((said.lines().count(), out.stdout.len()), (1, 0), "{args:?}: {said}");
    }
}

#[test]
fn the_token_of_a_file_is_not_printed() {
    let folder = whyslow_testing::folder();
    let file = folder.path().join("token");
    std::fs::write(&file, "s3cr3t-of-mine\n").unwrap();
    let mut server = Server::live(&["--token-file", file.to_str().unwrap()]);
    assert_eq!(server.token, "TOKEN_OF_THE_FILE");
    server.token = "s3cr3t-of-mine".into();
    assert_eq!(server.get("/api/overview").0, 200);
}
