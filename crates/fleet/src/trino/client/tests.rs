use super::stand_in::{StandIn, StandInAnswer, page};
use super::*;
use serde_json::json;
use std::sync::Mutex;
use whyslow_rollup::Cell;

/// Queries a mock coordinator for at most this many rows.
fn ask(stand_in: &StandIn, most: usize) -> Result<QueryRows, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limits = Limits { answer: Duration::from_secs(2), idle: Duration::from_millis(500) };
    let client = Client::with_limits(&stand_in.address, limits).unwrap();
    runtime.block_on(client.query("SELECT 1", most))
}

fn error(stand_in: &StandIn) -> String {
    ask(stand_in, 10).unwrap_err().to_string()
}

const N: &[(&str, &str)] = &[("n", "bigint")];

#[test]
fn an_answer_is_all_of_its_pages() {
    let stand_in = StandIn::start(|number, _| match number {
        // The first page does not have columns yet.
        0 => StandInAnswer::Page(
            json!({"nextUri": "http://other:1/v1/statement/queued/q?slug=1", "stats": {"state": "QUEUED"}}),
        ),
        1 => page(Some("/v1/statement/executing/q/1"), N, json!([[1], [2]])),
        2 => StandInAnswer::Status(503, "one moment"),
        3 => page(Some("/v1/statement/executing/q/2"), N, json!([])),
        _ => page(None, N, json!([[3]])),
    });
    let rows = ask(&stand_in, 10).unwrap();
    assert_eq!((rows.columns, rows.is_cut), (vec!["n".to_owned()], false));
    assert_eq!(rows.rows, [1, 2, 3].map(|n| vec![Cell::Integer(n)]));
    assert_eq!(
        stand_in.requests(),
        [
            "POST SELECT 1",
            "GET /v1/statement/queued/q?slug=1",
            "GET /v1/statement/executing/q/1",
            "GET /v1/statement/executing/q/1",
            "GET /v1/statement/executing/q/2",
        ],
        "at the address that we know, and once more where it was not there for a moment"
    );
}

#[test]
fn what_is_not_needed_is_cancelled() {
    let stand_in = StandIn::start(|_, _| page(Some("/next"), N, json!([[1], [2], [3]])));
    let rows = ask(&stand_in, 2).unwrap();
    assert_eq!((rows.rows.len(), rows.is_cut), (2, true));
    assert_eq!(stand_in.requests(), ["POST SELECT 1", "DELETE /next"]);
}

#[test]
fn an_error_of_the_query_is_reported() {
    let failed = |name: &str| json!({"stats": {"state": "FAILED"}, "error": {"message": "line 1:1:\nno table x", "errorName": name}});
    let of = |name: &'static str| StandIn::start(move |_, _| StandInAnswer::Page(failed(name)));
    assert_eq!(error(&of("COLUMN_NOT_FOUND")), "Trino: line 1:1: no table x");
    assert!(error(&of("TABLE_NOT_FOUND")).ends_with("'whyslow-fleet tables --ddl trino' prints what makes the tables"));
}

#[test]
fn answers_that_are_none_are_refused() {
    for (answer, expected) in [
        (
            StandInAnswer::Status(401, "Unauthorized"),
            "answers 401 Unauthorized (user in --engine, password in TRINO_PASSWORD): Unauthorized",
        ),
        (StandInAnswer::Status(302, "elsewhere"), "answers 302 Found: elsewhere"),
        (StandInAnswer::Status(200, "<html>"), "an answer that is not Trino's"),
        (StandInAnswer::Status(200, "{\"stats\":{\"state\":7}}"), "an answer that is not Trino's"),
        (page(None, N, json!([[1, 2]])), "2 values for 1 columns"),
        (page(None, &[], json!([[1]])), "1 values for 0 columns"),
        (page(None, N, json!([["\u{1b}[2J"]])), "Trino sent \"\\u001b[2J\" in n, which is bigint"),
    ] {
        let answer = Mutex::new(Some(answer));
        let stand_in = StandIn::start(move |_, _| answer.lock().unwrap().take().expect("one request"));
        let said = error(&stand_in);
        assert!(said.contains(expected), "{said}");
    }
    let nobody = StandIn::start(|_, _| StandInAnswer::Status(503, "maintenance"));
    assert!(error(&nobody).contains("answers 503 Service Unavailable: maintenance"));
    assert!(nobody.requests().len() > 2, "it is asked again for a while");
}

#[test]
fn a_query_that_hangs_ends() {
    let begun = Instant::now();
    let silent =
        StandIn::start(
            |_, line| if line.starts_with("POST") { page(Some("/next"), N, json!([])) } else { StandInAnswer::Hang },
        );
    assert!(error(&silent).ends_with("no answer"));
    assert_eq!(silent.requests(), ["POST SELECT 1", "GET /next", "DELETE /next"]);
    let stuck = StandIn::start(|_, _| page(Some("/next"), N, json!([])));
    assert_eq!(error(&stuck), "the query was running on Trino for 0 s without progress, and was cancelled");
    assert_eq!(stuck.requests().last().map(String::as_str), Some("DELETE /next"));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn nobody_there_is_said_at_once() {
    let begun = Instant::now();
    let address = Address::parse("trino://test@127.0.0.1:1/hive/v1").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let said = runtime.block_on(Client::new(&address).unwrap().query("SELECT 1", 1)).unwrap_err().to_string();
    assert!(said.starts_with("cannot reach Trino at http://127.0.0.1:1/: ") && said.contains("refused"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}
