//! A server that a test starts, and what it answers.

use crate::ends_with_test;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

/// How long an answer, or what is waited for, may take where the machine is busy.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A server, ended with the test.
pub struct HttpServer {
    /// Its process.
    pub child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// What follows the address in the URL that it printed.
    pub path: String,
    /// How long an answer may take.
    pub patience: Duration,
}

/// Which of its piped outputs a server prints its URL to, in the first line.
#[derive(Clone, Copy, Debug)]
pub enum UrlOn {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// An answer.
pub struct HttpAnswer {
    /// Its status.
    pub status: u16,
    /// The status and the headers.
    pub head: String,
    /// What follows them.
    pub body: String,
}

impl HttpServer {
    /// Starts a server, and waits until it listens.
    ///
    /// # Panics
    /// It cannot be started, or prints no URL.
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

    /// Its answer to a request, which is sent as it is.
    ///
    /// # Panics
    /// There is none.
    pub fn ask(&self, request: &str) -> HttpAnswer {
        ask(self.address, request, self.patience).expect("an answer")
    }

    /// Its answer to a GET with these further headers, each of which ends with a line break.
    ///
    /// # Panics
    /// There is none.
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

/// The answer to a GET; `None` if nobody answers.
pub fn http_get(address: SocketAddr, path: &str, headers: &str) -> Option<HttpAnswer> {
    ask(address, &get(address, path, headers), PATIENCE)
}

fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    // In HTTP/1.0 an answer ends with the connection.
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

/// Looks again and again until there is something.
///
/// # Panics
/// It takes too long.
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
