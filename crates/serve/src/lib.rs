//! Serves read-only pages over HTTP.
//!
//! Whoever can open a connection can be hostile, and so can a page in a browser on this machine: its author can point a name at
//! 127.0.0.1 and read what listens there (DNS rebinding). So the `Host` header must be an address or a known name, beyond this
//! machine a token is needed, and connections, headers and times are limited.

mod access;

pub use access::{AccessRules, HostNames};

use access::Refusal;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

/// The most connections at once; further ones wait to be accepted.
const MOST_CONNECTIONS: usize = 32;
/// How long a client may take to send its request's headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
/// How long a connection may last: one request, and its answer.
const LONGEST_CONNECTION: Duration = Duration::from_secs(15);
/// The most bytes of a request that are kept in memory, which bounds its headers.
const MOST_BYTES: usize = 16 << 10;
/// After an error of accept(2), such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// What a path leads to.
pub struct Page {
    /// Its type, such as `text/plain; charset=utf-8`.
    pub content_type: &'static str,
    /// Its text.
    pub body: Vec<u8>,
}

/// Makes the page of a path; `None` if there is none.
pub type PageFn = Box<dyn Fn(&str) -> Option<Page> + Send + Sync>;

/// Answers requests in a thread of its own until it is dropped.
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on an address and serves pages to those whom the rules allow.
    ///
    /// # Errors
    /// The address cannot be listened on, or the thread cannot be started.
    pub fn start(listen: SocketAddr, access: AccessRules, pages: PageFn) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let listener = {
            // Registered with the runtime of the thread that will run it.
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let site = Arc::new(Site { access, pages });
        let serve = move || {
            runtime.spawn(accept(listener, site));
            // An error says that the sender was dropped, which ends it as well.
            let _ = runtime.block_on(stopped);
        };
        let thread = std::thread::Builder::new().name("http".into()).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address it listens on: with the port that the kernel chose, if that was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Site {
    access: AccessRules,
    pages: PageFn,
}

async fn accept(listener: tokio::net::TcpListener, site: Arc<Site>) {
    let connections = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = connections.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let site = site.clone();
                tokio::spawn(async move {
                    serve(stream, &site).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn serve(stream: TcpStream, site: &Site) {
    let answer = service_fn(|request: Request<Incoming>| async move { Ok::<_, Infallible>(site.answer(&request)) });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(MOST_BYTES)
        // The client may keep the connection no longer than it needs it.
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    // What goes wrong with a connection is the client's affair.
    let _ = tokio::time::timeout(LONGEST_CONNECTION, connection).await;
}

impl Site {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if let Err(refusal) = self.access.check(request.headers()) {
            return refused(refusal);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = words(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match (self.pages)(request.uri().path()) {
            Some(page) => response(StatusCode::OK, page.content_type, page.body),
            None => words(StatusCode::NOT_FOUND, "no such page\n"),
        }
    }
}

fn refused(refusal: Refusal) -> Response<Full<Bytes>> {
    match refusal {
        Refusal::Host => words(
            StatusCode::FORBIDDEN,
            "this server does not go by that name: use its address, or start it with --allow-host NAME\n",
        ),
        Refusal::Token => {
            let mut response = words(StatusCode::UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN\n");
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            response
        }
    }
}

fn words(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", text.into())
}

fn response(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
    response
}

#[cfg(test)]
mod tests;
