//! A server that implements the part of S3 that an upload needs, and gives scripted answers.

use crate::destination::Destination;
use object_store::ClientConfigKey;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The server's reaction to a request.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    /// Stores the file.
    Stored,
    /// Refuses with this status.
    Status(u16),
    /// Closes the connection in the middle of the request.
    Cut,
    /// Stores the file, and closes the connection without an answer.
    StoredAndCut,
    /// Never answers.
    Hang,
}

#[derive(Default)]
struct Shared {
    answers: VecDeque<Reply>,
    files: BTreeMap<String, Vec<u8>>,
    requests: usize,
    is_killed: bool,
}

pub struct Server {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

impl Server {
    /// Starts a server that gives these answers to the first requests, and stores the files of all others.
    pub fn start(answers: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared { answers: answers.into_iter().collect(), ..Shared::default() }));
        let state = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = state.clone();
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { address, shared }
    }

    /// Returns a bucket on the server, with a prefix.
    pub fn destination(&self) -> Destination {
        let settings = AmazonS3Builder::new()
            .with_endpoint(format!("http://{}", self.address))
            .with_allow_http(true)
            .with_access_key_id("key")
            .with_secret_access_key("secret")
            .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), "1 second");
        Destination::open_with("s3://bucket/of/a/fleet", settings).unwrap()
    }

    /// Ends all requests in progress, stored or not, and refuses others, until it is restarted with the same files.
    pub fn kill(&self) {
        self.shared.lock().unwrap().is_killed = true;
    }

    pub fn restart(&self) {
        self.shared.lock().unwrap().is_killed = false;
    }

    /// Returns its files, by path below the prefix.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.shared.lock().unwrap().files.clone()
    }

    pub fn wait_for_requests(&self, requests: usize) {
        let begun = Instant::now();
        while self.shared.lock().unwrap().requests < requests {
            assert!(begun.elapsed() < Duration::from_secs(60), "no request");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Answers requests on a connection until it is closed.
fn serve(mut stream: TcpStream, shared: &Mutex<Shared>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some((path, length)) = head(&mut reader) {
        let answer = {
            let mut shared = shared.lock().unwrap();
            shared.requests += 1;
            match shared.answers.pop_front() {
                Some(answer) => answer,
                None if !shared.is_killed => Reply::Stored,
                None if shared.requests.is_multiple_of(2) => Reply::Cut,
                None => Reply::StoredAndCut,
            }
        };
        let mut body = vec![0; if matches!(answer, Reply::Cut) { length / 2 } else { length }];
        if reader.read_exact(&mut body).is_err() || matches!(answer, Reply::Cut) {
            return;
        }
        if matches!(answer, Reply::Stored | Reply::StoredAndCut) {
            shared.lock().unwrap().files.insert(path, body);
        }
        let answered = match answer {
            Reply::Stored => write!(stream, "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n"),
            Reply::Status(status) => write!(stream, "HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n"),
            Reply::Hang => {
                let _ = reader.read(&mut [0]);
                return;
            }
            Reply::Cut | Reply::StoredAndCut => return,
        };
        if answered.is_err() {
            return;
        }
    }
}

/// Reads the path of an upload, and the length of its content.
fn head(reader: &mut impl BufRead) -> Option<(String, usize)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let path = line.strip_prefix("PUT /bucket/of/a/fleet/")?.split(' ').next()?.to_owned();
    let mut length = None;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok();
        }
    }
    Some((decoded(&path), length?))
}

/// Decodes the percent signs of a path once, as a server does.
fn decoded(path: &str) -> String {
    let mut parts = path.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (hex, rest) = part.split_at(2);
        text.push(char::from(u8::from_str_radix(hex, 16).unwrap()));
        text.push_str(rest);
    }
    text
}
