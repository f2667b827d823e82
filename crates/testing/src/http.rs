//! HTTP server started by a test, and its answers.

use crate::ends_with_test;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for an answer or a condition, generous for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A server that is killed with the test.
pub struct HttpServer {
    /// Its process.
    pub child: Child,
    /// Its listening address.
    pub address: SocketAddr,
    /// The part after the address in the URL that it printed.
    pub path: String,
    /// Time limit for an answer.
    pub patience: Duration,
}

/// The piped output whose first line has the server's URL.
#[derive(Clone, Copy, Debug)]
pub enum UrlOn {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// An HTTP answer.
pub struct HttpAnswer {
    /// Status code.
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    /// Body of the answer.
    pub body: String,
}

impl HttpServer {
    /// Starts a server and waits until it listens.
    ///
    /// # Panics
    /// Panics if the server cannot be started or prints no URL.
    pub fn start(command: &mut Command, url: UrlOn) -> Self {
        let mut child = ends_with_test(command).spawn().expect("the server");
        let mut line = String::new();
        let read = match url {
            UrlOn::Stdout => BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line),
            UrlOn::Stderr => BufReader::new(child.stderr.as_mut().expect("a pipe")).read_line(&mut line),
        };
        read.expect("its first line");
        let parts = line.trim_end().split_once("http://").and_then(|(_, url)| url.split_once('/'));
        let (address, path) = parts.unwrap_or_else(|| panic!("no URL: {line:?}"));
        let address = address.parse().expect("an address");
        Self { address, path: path.to_owned(), patience: PATIENCE, child }
    }

    /// Sends a request unchanged. Returns the answer.
    ///
    /// # Panics
    /// Panics if there is no answer.
    pub fn ask(&self, request: &str) -> HttpAnswer {
        ask(self.address, request, self.patience).expect("an answer")
    }

    /// Sends a GET with these additional headers, each of which ends with a line break. Returns the answer.
    ///
    /// # Panics
    /// Panics if there is no answer.
    pub fn get(&self, path: &str, headers: &str) -> HttpAnswer {
        self.ask(&get(self.address, path, headers))
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a GET. Returns the answer; `None` if there is none.
pub fn http_get(address: SocketAddr, path: &str, headers: &str) -> Option<HttpAnswer> {
    ask(address, &get(address, path, headers), PATIENCE)
}

fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    // In HTTP/1.0, an answer ends with the connection.
    format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n{headers}\r\n")
}

fn ask(address: SocketAddr, request: &str, patience: Duration) -> Option<HttpAnswer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    // A refusal can reset the connection after its answer.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(HttpAnswer { status, head: head.to_owned(), body: body.to_owned() })
}

/// Polls until there is a result.
///
/// # Panics
/// Panics if that takes too long.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "no {what} within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(100));
    }
}
