//! Mock coordinator with scripted answers.

use super::super::address::Address;
use serde_json::{Value as Json, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Answer to a request.
pub(in super::super) enum StandInAnswer {
    /// Status 200 with a document.
    Page(Json),
    /// Another status with a text.
    Status(u16, &'static str),
    /// No answer for a long time.
    Hang,
}

/// A mock coordinator for tests. It ends with the test's process.
pub(in super::super) struct StandIn {
    pub(in super::super) address: Address,
    /// `METHOD PATH` of each request, in order; for a statement its text instead of the path.
    requests: Arc<Mutex<Vec<String>>>,
}

impl StandIn {
    /// Starts a coordinator. `answer` gets the request's number and its line in [`requests`](Self::requests).
    pub(in super::super) fn start(answer: impl Fn(usize, &str) -> StandInAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                thread::spawn(move || serve(stream, &seen, &*answer));
            }
        });
        let address = Address::parse(&format!("trino://test@127.0.0.1:{port}/hive/v1")).unwrap();
        Self { address, requests }
    }

    pub(in super::super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Returns a page with the path of the next page, columns as `name type`, and rows.
pub(in super::super) fn page(next: Option<&str>, columns: &[(&str, &str)], rows: Json) -> StandInAnswer {
    let columns: Vec<Json> = columns.iter().map(|(name, kind)| json!({"name": name, "type": kind})).collect();
    // The coordinator uses another name for itself.
    let next = next.map(|path| format!("https://coordinator.internal:8443{path}"));
    StandInAnswer::Page(json!({
        "id": "q", "infoUri": "x", "nextUri": next, "columns": columns, "data": rows, "stats": {"state": "RUNNING"}
    }))
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<String>>, answer: &dyn Fn(usize, &str) -> StandInAnswer) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length, mut user) = (String::new(), 0, false);
    reader.read_line(&mut line).unwrap();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let header = header.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        user |= header == "x-trino-user: test";
        length = header.strip_prefix("content-length: ").map_or(length, |length| length.parse().unwrap());
    }
    assert!(user, "every request says who asks");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    let body = String::from_utf8(body).unwrap();
    let line = format!("{} {}", words[0], if words[1] == "/v1/statement" { &body } else { words[1] });
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(line.clone());
        seen.len() - 1
    };
    let (status, text) = match answer(number, &line) {
        StandInAnswer::Page(json) => (200, json.to_string()),
        StandInAnswer::Status(status, text) => (status, text.to_owned()),
        StandInAnswer::Hang => return thread::sleep(Duration::from_secs(600)),
    };
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
    // A client that has read enough closes the connection.
    let _ = reader.get_mut().write_all(format!("{head}{text}").as_bytes());
}
