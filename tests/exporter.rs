//! Tests of `whyslow exporter` from the outside: a real Prometheus and an OTLP receiver read its data.

mod skip;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message;
use skip::has_program;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use whyslow_exporters::names;
use whyslow_model::catalogue::families;
use whyslow_testing::{HttpServer, PATIENCE, UrlOn, ends_with_test, http_get, wait_for};

/// Metric to query in Prometheus: it exists on every machine and is not zero.
const METRIC: &str = "whyslow_cpu_user_seconds_total";

fn whyslow(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in ["WHYSLOW_REMOTE_WRITE_AUTH", "WHYSLOW_OTLP_AUTH"] {
        command.env_remove(variable);
    }
    ends_with_test(&mut command);
    command
}

fn run(args: &[&str]) -> Output {
    whyslow(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Starts an exporter that ends with the test, without BPF, which takes most of the start time.
fn start(args: &[&str]) -> HttpServer {
    let listening = ["exporter", "--listen", "127.0.0.1:0", "--no-bpf"];
    HttpServer::start(&mut whyslow(&[&listening[..], args].concat()), UrlOn::Stderr)
}

/// Returns the page once a sample has been taken.
fn metrics(exporter: &HttpServer) -> String {
    wait_for("metrics", || Some(exporter.get("/metrics", "").body).filter(|page| page.contains(METRIC)))
}

/// Returns the names of metrics on the page, without whyslow's own and its verdict.
fn exported(page: &str) -> BTreeSet<String> {
    let names = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    names.map(str::to_owned).collect()
}

fn series(page: &str) -> usize {
    page.lines().filter(|line| !line.starts_with('#')).count()
}

/// Returns promtool's complaint about a page, if any.
fn promtool(page: &str) -> Option<String> {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = ends_with_test(&mut promtool).spawn().unwrap();
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    (!out.status.success()).then(|| format!("{}{}", text(&out.stdout), text(&out.stderr)))
}

#[test]
fn once_prints_at_most_two_hundred_series_that_promtool_accepts() {
    let out = run(&["exporter", "--once", "--for", "1s", "--no-bpf"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let page = text(&out.stdout);
    for name in [METRIC, "whyslow_verdict", "whyslow_meminfo_mem_available_bytes", "whyslow_exporter_series_omitted"] {
        assert!(exported(page).contains(name), "{name}: {page}");
    }
    // Counts between samples would restart with each run.
    assert!(!page.contains("whyslow_process_") && !page.contains("=\"other\""), "{page}");
    assert!(series(page) <= 200, "{}", series(page));
    if has_program("promtool") {
        assert_eq!(promtool(page), None);
    }
}

#[test]
fn every_family_can_be_exported_within_the_bound() {
    let all = families();
    let wanted: Vec<&str> = all.iter().map(|family| family.name).filter(|name| can_be_exported(name)).collect();
    assert!(wanted.len() > 30, "{wanted:?}");
    let list = wanted.join(",");
    let args = ["exporter", "--once", "--for", "1s", "--no-bpf", "--top", "1000", "--metrics", &list];
    let page = |most: &str| {
        let out = run(&[&args[..], &["--max-series", most]].concat());
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        text(&out.stdout).to_owned()
    };
    let everything = page("100000");
    assert!(series(&everything) > 300, "{everything}");
    assert!(!everything.contains("pid=\""), "{everything}");
    assert!(series(&page("300")) <= 300);
    // promtool dislikes the names of some metrics; it reports what it cannot parse as an error.
    if has_program("promtool") {
        let complaint = promtool(&everything).unwrap_or_default();
        assert!(!complaint.contains("error while linting"), "{complaint}");
    }
}

fn can_be_exported(family: &str) -> bool {
    whyslow_exporters::Selection::parse(&[family.to_owned()], None, 1).is_ok()
}

#[test]
fn only_who_may_sees_the_page() {
    let folder = whyslow_testing::folder();
    let token = folder.path().join("token");
    std::fs::write(&token, "secret\n").unwrap();
    let exporter = start(&["--token-file", token.to_str().unwrap()]);
    let status = |headers: &str| exporter.get("/metrics", headers).status;
    assert_eq!(status(""), 401);
    assert_eq!(status("Authorization: Bearer secret\r\n"), 200);
    // The first Host header is the address; a second one is not trusted.
    assert_eq!(status("Authorization: Bearer secret\r\nHost: evil.example\r\n"), 403);
}

#[test]
fn it_ends_with_success_when_it_is_told_to() {
    let mut exporter = start(&[]);
    metrics(&exporter);
    let pid = libc::pid_t::try_from(exporter.child.id()).unwrap();
    // SAFETY: kill takes two numbers and touches no memory; the child has not been waited for, so the PID is still its
    // own.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    assert_eq!(exporter.child.wait().unwrap().code(), Some(0));
}

/// Starts a Prometheus with its data in a folder, which accepts remote write and scrapes an address.
fn prometheus(folder: &Path, scraped: SocketAddr, token: &Path) -> (Child, SocketAddr) {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = folder.join("prometheus.yml");
    let token = token.display();
    std::fs::write(
        &config,
        format!(
            "scrape_configs:\n  - job_name: scraped\n    scrape_interval: 1s\n    authorization: {{ credentials_file: {token} }}\n    \
             static_configs: [{{ targets: ['{scraped}'] }}]\n"
        ),
    )
    .unwrap();
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .arg("--web.enable-remote-write-receiver")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    (ends_with_test(&mut command).spawn().unwrap(), address)
}

/// Returns the results of a query, each with its labels and its value.
fn query(prometheus: SocketAddr, query: &str) -> Vec<(serde_json::Value, f64)> {
    let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let answer = http_get(prometheus, &format!("/api/v1/query?query={query}"), "");
    let Some(answer) = answer else { return Vec::new() };
    let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let results = body["data"]["result"].as_array().cloned().unwrap_or_default();
    let value = |result: &serde_json::Value| result["value"][1].as_str().and_then(|value| value.parse().ok());
    results.iter().map(|result| (result["metric"].clone(), value(result).unwrap())).collect()
}

#[test]
fn a_real_prometheus_scrapes_it_and_takes_its_remote_write() {
    if !has_program("prometheus") {
        return;
    }
    let folder = whyslow_testing::folder();
    let token = folder.path().join("token");
    std::fs::write(&token, "secret\n").unwrap();
    let scraped = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (mut prometheus, address) = prometheus(folder.path(), scraped, &token);
    let url = format!("http://{address}/api/v1/write");
    let (listen, token) = (scraped.to_string(), token.to_str().unwrap());
    let args = [
        "exporter",
        "--listen",
        &listen,
        "--token-file",
        token,
        "--no-bpf",
        "--remote-write",
        &url,
        "--interval",
        "1s",
    ];
    let mut exporter = whyslow(&args).stderr(Stdio::null()).spawn().unwrap();

    for job in ["scraped", "whyslow"] {
        let found = wait_for(job, || query(address, &format!("{METRIC}{{job=\"{job}\"}}")).pop());
        assert!(found.1 > 0.0, "{found:?}");
    }
    assert_eq!(query(address, "up{job=\"scraped\"}").pop().map(|(_, up)| up), Some(1.0));
    // Both ways yield the same series.
    let names = |job: &str| -> BTreeSet<String> {
        let found = query(address, &format!("count by (__name__) ({{job=\"{job}\", __name__=~\"whyslow_.*\"}})"));
        found.iter().filter_map(|(labels, _)| Some(labels["__name__"].as_str()?.to_owned())).collect()
    };
    wait_for("verdict", || {
        (names("whyslow").contains("whyslow_verdict") && names("scraped").contains("whyslow_verdict")).then_some(())
    });
    wait_for("same names", || (names("whyslow") == names("scraped")).then_some(()));
    let rate = wait_for("rate", || query(address, "sum(rate(whyslow_pressure_cpu_some_seconds_total[30s]))").pop());
    assert!((0.0..=3.0).contains(&rate.1), "{rate:?}");
    let _ = (exporter.kill(), exporter.wait(), prometheus.kill(), prometheus.wait());
}

#[test]
fn prometheus_understands_the_alerts() {
    if has_program("promtool") {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dashboards/whyslow.rules.yml");
        let out = Command::new("promtool").args(["check", "rules", file]).output().unwrap();
        assert!(out.status.success(), "{}{}", text(&out.stdout), text(&out.stderr));
    }
}

/// Accepts requests and returns their paths and bodies.
fn receiver() -> (SocketAddr, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (to_test, pushed) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            if to_test.send((path, body)).is_err() {
                return;
            }
        }
    });
    (address, pushed)
}

#[test]
fn a_receiver_of_otlp_gets_every_family_by_its_conventional_name() {
    let (address, pushed) = receiver();
    let exporter = start(&["--otlp", &format!("http://{address}"), "--interval", "1s"]);
    let page = metrics(&exporter);
    let request = wait_for("metrics", || {
        let (path, body) = pushed.recv_timeout(PATIENCE).ok()?;
        (path == "/v1/metrics").then(|| ExportMetricsServiceRequest::decode(&*body).unwrap())
    });
    let resource = &request.resource_metrics[0];
    let attributes = &resource.resource.as_ref().unwrap().attributes;
    assert!(attributes.iter().any(|attribute| attribute.key == "host.name"), "{attributes:?}");
    let received: BTreeSet<&str> =
        resource.scope_metrics[0].metrics.iter().map(|metric| metric.name.as_str()).collect();
    let all = families();
    let mut compared = 0;
    for (family, metric) in all.iter().flat_map(|family| family.metrics.iter().map(move |metric| (family, metric))) {
        if names::kind(metric).is_some() && exported(&page).contains(&names::prometheus(family, metric)) {
            let name = names::otel(family, metric).name;
            assert!(received.contains(&*name), "{name}: {received:?}");
            compared += 1;
        }
    }
    assert!(compared > 30, "{compared}");
    for name in ["system.cpu.time", "system.memory.limit", "whyslow.exporter.series"] {
        assert!(received.contains(name), "{name}: {received:?}");
    }
}

#[test]
fn a_receiver_that_is_away_is_complained_about_once() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let out = run(&[
        "exporter",
        "--remote-write",
        &format!("http://{nobody}/w"),
        "--interval",
        "1s",
        "--for",
        "4s",
        "--no-bpf",
    ]);
    assert_eq!(out.status.code(), Some(0));
    let complaints = text(&out.stderr);
    let begin = format!("whyslow: remote write to http://{nobody}/w fails: ");
    assert!(complaints.starts_with(&begin) && complaints.lines().count() == 1, "{complaints}");
}

#[test]
fn wrong_usage_is_one_line_that_says_what_is_wrong() {
    let folder = whyslow_testing::folder();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let empty = empty.to_str().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let cases: &[(&[&str], &str)] = &[
        (&[], "--listen 127.0.0.1:9787"),
        (&["--once", "--metrics", "dsk"], "did you mean 'disk'?"),
        (&["--once", "--metrics", "disk.raeds"], "did you mean 'reads'?"),
        (&["--once", "--metrics", "thread"], "cannot be exported"),
        (&["--once", "--listen", "127.0.0.1:0"], "cannot be used with"),
        (&["--listen", "0.0.0.0:0"], "--token-file"),
        (&["--listen", "127.0.0.1:0", "--token-file", empty], "not a token"),
        (&["--listen", &taken], "cannot listen on 127.0.0.1"),
        (&["--listen", "localhost"], "invalid socket address"),
        (&["--otlp", "collector:4318"], "--otlp: "),
        (&["--otlp", "http://collector:4318", "--otlp-auth-file", empty], "in the clear"),
        (&["--remote-write", "https://me:hunter2@metrics.example/w"], "no password in an address"),
        (&["--remote-write", "https://metrics.example/w", "--interval", "10ms"], "at least 1s"),
    ];
    for (args, words) in cases {
        let out = run(&[&["exporter", "--no-bpf", "--for", "1s"][..], args].concat());
        let complaint = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {complaint}{}", text(&out.stdout));
        assert_eq!(complaint.lines().count(), 1, "{args:?}: {complaint}");
        assert!(complaint.contains(words) && !complaint.contains("hunter2"), "{args:?}: {complaint}");
    }
}

#[test]
fn credentials_of_the_environment_are_never_shown() {
    let mut command = whyslow(&["exporter", "--no-bpf", "--for", "1s", "--otlp", "http://collector.example:4318"]);
    let out = command.env("WHYSLOW_OTLP_AUTH", "Bearer hunter2").output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(
        text(&out.stderr).contains("in the clear") && !text(&out.stderr).contains("hunter2"),
        "{}",
        text(&out.stderr)
    );
}

#[test]
fn as_a_plugin_it_prints_one_line_with_performance_data() {
    let out = run(&["--nagios", "--for", "1s", "--no-bpf"]);
    let line = text(&out.stdout);
    let word = line.strip_prefix("WHYSLOW ").and_then(|rest| rest.split(' ').next());
    let status = ["OK", "WARNING", "CRITICAL", "UNKNOWN"].iter().position(|known| Some(*known) == word);
    assert_eq!(status.and_then(|status| i32::try_from(status).ok()), out.status.code(), "{line}");
    assert_eq!((line.lines().count(), line.matches('|').count()), (1, 1), "{line}");
    assert!(line.contains(" | impact="), "{line}");
}

#[test]
fn as_a_plugin_it_is_unknown_what_wrong_usage_means() {
    for args in [&["--nagios", "--for", "0"][..], &["--nagios", "--frobnicate"], &["--nagios", "--check"]] {
        let out = run(args);
        assert_eq!(out.status.code(), Some(3), "{args:?}: {}", text(&out.stderr));
        let line = text(&out.stdout);
        assert!(line.starts_with("WHYSLOW UNKNOWN - ") && line.lines().count() == 1, "{args:?}: {line}");
    }
}
