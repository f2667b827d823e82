//! Serves read-only pages over HTTP.
//!
//! Any client that can connect may be hostile, and so may a page in a browser on this machine: its author can point a name at
//! 127.0.0.1 and read what listens there (DNS rebinding). So the `Host` header must be an address or a known name, an `Origin`
//! header the server's own, beyond this machine a token is needed, and connections, headers and times are limited.
//!
//! Connections are served in one thread. Answers are computed in others, so that a slow one delays no other. Every connection is
//! accepted at once; if there are too many, the oldest ones that have not sent a request yet are closed.

mod access;
mod api;
mod deadline;
mod gate;
mod listen;
mod page;
mod request;
mod strangers;

pub use access::{AccessRules, HostNames};
pub use api::{ApiError, PageContent, Parameters};
pub use gate::{Gate, Visit};
pub use listen::{ListenOptions, PageToken, host_name, unencrypted};
pub use page::{Page, PageStatus};
pub use request::PageRequest;

use bytes::Bytes;
use deadline::Deadline;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use page::{only_get, refused, words};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use strangers::{Connections, Place};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, oneshot};

/// Maximum number of connections. Each needs a file descriptor, and a program usually has a limit of about a thousand.
const MOST_CONNECTIONS: usize = 256;
/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// Maximum number of answers computed at the same time; further ones wait.
const MOST_ANSWERS: usize = 8;
/// Time limit for a client to send its request's headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for a connection, apart from computing an answer: to receive the request, and to send a small answer.
const TRANSFER_WITHIN: Duration = Duration::from_secs(15);
/// Minimum rate at which a client must receive a large answer, bytes per second.
const SLOWEST: usize = 64 << 10;
/// Time limit for computing an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// Maximum bytes of a request in memory, which limits its headers.
const MOST_BYTES: usize = 16 << 10;
/// Pause after an error of accept(2), such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Builds the requested page; returns `None` if there is none.
pub type PageFn = Box<dyn Fn(&PageRequest) -> Option<Page> + Send + Sync>;

/// Answers requests in its own threads until it is dropped.
pub struct PageServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl PageServer {
    /// Listens on an address and serves pages to clients that the rules allow.
    ///
    /// # Errors
    /// Fails if the server cannot listen on the address, or cannot start the thread.
    pub fn start(listen: SocketAddr, access: AccessRules, pages: PageFn) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let listener = {
            // Registered with the runtime of the thread that will run it.
            let _entered = runtime.enter();
            let socket = if listen.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            socket.set_reuseaddr(true)?;
            socket.bind(listen)?;
            socket.listen(BACKLOG)?
        };
        let address = listener.local_addr()?;
        let site = Arc::new(Site { access, pages, answers: Arc::new(Semaphore::new(MOST_ANSWERS)) });
        let serve = move || {
            runtime.spawn(accept(listener, site));
            // An error means that the sender was dropped, which also ends the server.
            let _ = runtime.block_on(stopped);
            // Abandons answers that are still being computed.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("http".into()).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address it listens on; if the given port was 0, with the port that the kernel chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for PageServer {
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
    answers: Arc<Semaphore>,
}

async fn accept(listener: TcpListener, site: Arc<Site>) {
    let connections = Connections::new(MOST_CONNECTIONS);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Closes the connection if there is no slot.
                let Some(place) = connections.enter() else { continue };
                let site = site.clone();
                let number = place.number();
                let task = tokio::spawn(async move { serve(stream, &site, &place).await });
                connections.may_end(number, task.abort_handle());
            }
            Err(_) => {
                connections.send_oldest_away();
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, site: &Arc<Site>, place: &Place) {
    let deadline = &Deadline::within(TRANSFER_WITHIN);
    let answer = service_fn(|request: Request<Incoming>| async move {
        place.has_asked();
        let asked = site.check(&request);
        Ok::<_, Infallible>(match asked {
            Ok(asked) => site.answer(asked, deadline).await,
            Err(refusal) => *refusal,
        })
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(MOST_BYTES)
        // The client may use the connection for one request only.
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    // Errors of a connection concern only its client.
    deadline.limit(connection).await;
}

impl Site {
    /// Returns the request, or the response that refuses it.
    fn check(&self, request: &Request<Incoming>) -> Result<PageRequest, Box<Response<Full<Bytes>>>> {
        let asked = PageRequest::from_uri(request.uri());
        self.access.check(request.headers(), &asked).map_err(|refusal| Box::new(refused(refusal)))?;
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        if is_read { Ok(asked) } else { Err(Box::new(only_get())) }
    }

    async fn answer(self: &Arc<Self>, asked: PageRequest, deadline: &Deadline) -> Response<Full<Bytes>> {
        deadline.set(ANSWER_WITHIN + TRANSFER_WITHIN);
        let page = tokio::time::timeout(ANSWER_WITHIN, self.page(asked)).await;
        let response =
            page.unwrap_or_else(|_| words(StatusCode::SERVICE_UNAVAILABLE, "the answer took too long to compute\n"));
        let bytes = response.body().size_hint().exact().unwrap_or(0);
        deadline.set(TRANSFER_WITHIN + Duration::from_secs(bytes / SLOWEST as u64));
        response
    }

    /// Computes a page once a thread is available.
    async fn page(self: &Arc<Self>, asked: PageRequest) -> Response<Full<Bytes>> {
        // The semaphore is never closed.
        let permit = self.answers.clone().acquire_owned().await;
        let site = self.clone();
        let (answer, answered) = oneshot::channel();
        let compute = move || {
            let page = (site.pages)(&asked);
            drop(permit);
            // Fails if the answer took too long; the receiver is gone then.
            drop(answer.send(page));
        };
        // tokio's blocking threads are not used, because the runtime panics if none can be started.
        if std::thread::Builder::new().name("answer".into()).spawn(compute).is_err() {
            let why =
                "cannot start a thread for the answer: raise the limit on tasks (pids.max, TasksMax=, ulimit -u)\n";
            return words(StatusCode::SERVICE_UNAVAILABLE, why);
        }
        match answered.await {
            Ok(Some(page)) => page.into(),
            Ok(None) => words(StatusCode::NOT_FOUND, "no such page\n"),
            Err(_) => words(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be computed\n"),
        }
    }
}

#[cfg(test)]
mod tests;
