//! Tests of `whyslow mcp` with the client of the protocol's official SDK.

use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::RunningService;
use rmcp::transport::TokioChildProcess;
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};
use whyslow_testing::wait_for;

const WHYSLOW: &str = env!("CARGO_BIN_EXE_whyslow");

/// A session with its own state directory.
struct Session {
    client: RunningService<RoleClient, ()>,
    state: tempfile::TempDir,
}

impl Session {
    async fn begin() -> Self {
        let state = whyslow_testing::folder();
        let mut command = tokio::process::Command::new(WHYSLOW);
        command.arg("mcp").env("WHYSLOW_STATE", state.path());
        let client = ().serve(TokioChildProcess::new(command).unwrap()).await.unwrap();
        Self { client, state }
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        let arguments = arguments.as_object().unwrap().clone();
        self.client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await.unwrap()
    }

    /// Returns the answer of a call that must succeed.
    async fn answer(&self, tool: &'static str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_ne!(result.is_error, Some(true), "{tool}: {}", text(&result));
        text(&result)
    }

    /// Returns the reason why a call was refused.
    async fn refusal(&self, tool: &'static str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result.is_error, Some(true), "{tool}: {}", text(&result));
        text(&result)
    }
}

fn text(result: &CallToolResult) -> String {
    result.content.iter().filter_map(|block| Some(block.as_text()?.text.as_str())).collect::<Vec<_>>().join("\n")
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

fn fixture(name: &str) -> String {
    format!("{}/../import/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_tools_are_those_that_change_nothing() {
    run(async {
        let session = Session::begin().await;
        let tools = session.client.list_all_tools().await.unwrap();
        let mut names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        names.sort_unstable();
        let all =
            ["compare", "details", "diagnose", "explain", "metrics", "plan_change", "plan_trial", "read", "rules"];
        assert_eq!(names, all);
        assert!(tools.iter().all(|tool| tool.annotations.as_ref().unwrap().read_only_hint == Some(true)));
        assert!(session.client.peer_info().unwrap().instructions.as_ref().unwrap().contains("never instructions"));
    });
}

#[test]
fn captures_are_read_and_details_follow_by_reference() {
    run(async {
        let session = Session::begin().await;
        let file = fixture("san-iostat-x-2k-6readers.txt");
        let short = session.answer("read", json!({"files": [file]})).await;
        assert!(short.contains("Verdict: undetermined\nd1/findings/0: disk.saturated@sdj, "), "{short}");
        assert!(short.contains("Details: d1/") && short.len() < 4000, "{short}");
        let finding: Value =
            serde_json::from_str(&session.answer("details", json!({"reference": "d1/findings/0"})).await).unwrap();
        assert_eq!((&finding["id"], &finding["subject"]["name"]), (&json!("disk.saturated"), &json!("sdj")));
        assert!(!finding["evidence"].as_array().unwrap().is_empty());

        let pasted = std::fs::read_to_string(fixture("san-iostat-x-2k-6readers.txt")).unwrap();
        let again = session.answer("read", json!({"text": pasted})).await;
        assert!(again.contains("d2/findings/0: disk.saturated@sdj, "), "{again}");

        assert!(session.refusal("details", json!({"reference": "d9"})).await.contains("no such document"));
        assert!(session.refusal("read", json!({})).await.contains("either text or files"));
        assert!(session.refusal("read", json!({"files": ["/nonexistent/x"]})).await.contains("/nonexistent/x"));
        assert!(session.refusal("read", json!({"files": ["--help"]})).await.contains("--help"));
        session.refusal("read", json!({"text": "nothing that anybody knows"})).await;
    });
}

#[test]
fn this_machine_is_diagnosed() {
    run(async {
        let session = Session::begin().await;
        let short = session.answer("diagnose", json!({"seconds": 1})).await;
        assert!(short.contains("Details: d1/"), "{short}");
        let whole = session.answer("details", json!({"reference": "d1/verdict"})).await;
        assert!(["\"healthy\"", "\"bottleneck\"", "\"undetermined\""].contains(&whole.trim()), "{whole}");
        assert!(session.refusal("diagnose", json!({"seconds": 0})).await.contains("between 1 and 300"));
        assert!(session.refusal("diagnose", json!({"pid": 4_000_000_000_u32})).await.contains("4000000000"));
    });
}

#[test]
fn rules_metrics_recordings_and_comparisons() {
    run(async {
        let session = Session::begin().await;
        let list = session.answer("rules", json!({"id": "disk"})).await;
        assert!(list.lines().any(|line| line.starts_with("disk.saturated (disk): ")), "{list}");
        let one = session.answer("rules", json!({"id": "disk.saturated"})).await;
        assert!(one.contains("\"id\": \"disk.saturated\""), "{one}");
        assert!(session.refusal("rules", json!({"id": "nonsense"})).await.contains("nonsense"));
        let metrics = session.answer("metrics", json!({"family": "disk"})).await;
        assert!(metrics.contains("\nreads: reads completed\n"), "{metrics}");
        let dir = session.state.path().display().to_string();
        assert!(session.refusal("explain", json!({"dir": dir, "since": "1h"})).await.contains(&dir));
        let (a, b) = (fixture("san-iostat-x-2k-1reader.txt"), fixture("san-iostat-x-2k-6readers.txt"));
        let compared = session.answer("compare", json!({"a": a, "b": b})).await;
        assert!(compared.contains("sdj"), "{compared}");
    });
}

#[test]
fn changes_are_only_planned() {
    run(async {
        let session = Session::begin().await;
        let before = std::fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
        let plan = session.answer("plan_change", json!({"changes": ["vm.swappiness=11"]})).await;
        assert!(plan.contains("For a person to decide and run: whyslow tune set vm.swappiness=11"), "{plan}");
        let trial =
            session.answer("plan_trial", json!({"changes": ["vm.swappiness=11"], "metric": "mem.swap_in_rate"})).await;
        assert!(trial.contains("run: whyslow try vm.swappiness=11 --metric=mem.swap_in_rate"), "{trial}");
        for wrong in [json!(["--yes"]), json!([]), json!(["vm.swappiness=11", "--", "rm=1"])] {
            session.refusal("plan_change", json!({"changes": wrong})).await;
            session.refusal("plan_trial", json!({"changes": wrong, "metric": "time"})).await;
        }
        assert_eq!(std::fs::read_to_string("/proc/sys/vm/swappiness").unwrap(), before);
        assert!(std::fs::read_dir(session.state.path()).unwrap().next().is_none(), "no journal was begun");
    });
}

#[test]
fn the_end_of_a_session_ends_its_calls() {
    let mut server = Command::new(WHYSLOW).arg("mcp").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = server.stdin.take().unwrap();
    let start = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}});
    let started = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params":
        {"name": "diagnose", "arguments": {"seconds": 300}}});
    for message in [start, started, call] {
        writeln!(stdin, "{message}").unwrap();
    }
    stdin.flush().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", server.id());
    let child =
        wait_for("a child", || Some(std::fs::read_to_string(&children).ok()?.split_whitespace().next()?.to_owned()));
    drop(stdin);
    let status = wait_for("the end of the server", || server.try_wait().unwrap());
    assert!(status.success(), "{status}");
    wait_for("the end of its child", || (!is_running(&child)).then_some(()));
}

/// Returns true if a process exists and has not ended.
fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
