//! Client for Trino's HTTP protocol: posts a query and fetches its pages until there are no more.

use super::address::Address;
use super::page::{Page, QueryError, Stats};
use crate::{Failure, QueryRows};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Timeout of a request: the coordinator answers within a second or so, whether there are rows or not.
const PATIENCE: Duration = Duration::from_secs(20);
/// A query without progress for this long has lost what it waits for.
const MOST_IDLE: Duration = Duration::from_secs(30);
/// Maximum time in the queue: the cluster may be busy with other queries.
const MOST_QUEUED: Duration = Duration::from_secs(600);
/// Timeout of a cancellation: the coordinator itself may be what hangs.
const PATIENCE_CANCELLING: Duration = Duration::from_secs(2);
/// Interval for checking whether a signal arrived, and the first pause between attempts.
const NOTICE: Duration = Duration::from_millis(100);
/// Maximum response size; a page is normally a few MB.
const MOST_BYTES: usize = 256 << 20;

/// The views join many rows with a few: send the few to all workers, so that the many stay where they were read.
const SESSION: &str = "join_distribution_type=BROADCAST";

/// Timeouts of a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// For the answer to one request, including retries.
    pub(super) answer: Duration,
    /// Without progress of the query.
    pub(super) idle: Duration,
}

#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    address: Address,
    limits: Limits,
    signals: Signals,
}

impl Client {
    pub(super) fn new(address: &Address) -> Result<Self, Failure> {
        Self::with_limits(address, Limits { answer: PATIENCE, idle: MOST_IDLE })
    }

    fn with_limits(address: &Address, limits: Limits) -> Result<Self, Failure> {
        let unusable = |error: &dyn std::fmt::Display| Failure::usage(format!("cannot ask Trino: {error}"));
        let http = reqwest::Client::builder()
            .default_headers(headers(address).map_err(|e| unusable(&e))?)
            // Only the coordinator may get the password.
            .redirect(Policy::none())
            .timeout(limits.answer)
            .build();
        let signals = Signals::catch().map_err(|e| unusable(&e))?;
        Ok(Self { http: http.map_err(|e| unusable(&e))?, address: address.clone(), limits, signals })
    }

    /// Returns the first rows of the answer to a query. The query no longer runs in the cluster afterwards, even after
    /// an error.
    ///
    /// # Errors
    /// Fails if Trino cannot be reached, refuses the query or makes no progress, and on Ctrl-C.
    pub(super) async fn query(&self, sql: &str, most: usize) -> Result<QueryRows, Failure> {
        let _caught = self.signals.while_asked();
        let mut next = None;
        let answer = tokio::select! {
            answer = self.pages(sql, most, &mut next) => answer,
            () = self.signals.came() => Err(Failure::interrupted("interrupted; the query was cancelled")),
        };
        if let Some(next) = next {
            let cancel = self.request(Method::DELETE, next).timeout(PATIENCE_CANCELLING);
            // If the coordinator is unreachable, it cancels the query itself once it misses its client.
            let _ = cancel.send().await;
        }
        answer
    }

    /// Reads pages; `next` is the address of the page after the last one read.
    async fn pages(&self, sql: &str, most: usize, next: &mut Option<Url>) -> Result<QueryRows, Failure> {
        let statement = self.address.origin.join("v1/statement").map_err(|_| unclear("no address"))?;
        let mut page = self.page(|| self.request(Method::POST, statement.clone()).body(sql.to_owned())).await?;
        let mut progress = Progress::new(self.limits.idle);
        let (mut rows, mut columns) = (QueryRows::default(), Vec::new());
        loop {
            *next = page.next_uri.as_deref().map(|uri| self.on_coordinator(uri)).transpose()?;
            if let Some(error) = page.error {
                return Err(failed(error));
            }
            if let Some(named) = page.columns.take().filter(|_| columns.is_empty()) {
                rows.columns = named.iter().map(|column| column.name.clone()).collect();
                columns = named;
            }
            for row in &page.data {
                if row.len() != columns.len() {
                    return Err(unclear(&format!("{} values for {} columns", row.len(), columns.len())));
                }
                if rows.rows.len() >= most {
                    rows.is_cut = true;
                    return Ok(rows);
                }
                rows.rows
                    .push(columns.iter().zip(row).map(|(column, value)| column.cell(value)).collect::<Result<_, _>>()?);
            }
            let Some(uri) = next.clone() else { return Ok(rows) };
            progress.check(&page.stats, !page.data.is_empty())?;
            page = self.page(|| self.request(Method::GET, uri.clone())).await?;
        }
    }

    /// Rewrites an address in the answer to the coordinator's address as we know it: the coordinator may use another
    /// name for itself, and no other host may get the password.
    fn on_coordinator(&self, uri: &str) -> Result<Url, Failure> {
        let uri = Url::parse(uri).map_err(|_| unclear("no address of the next rows"))?;
        let mut own = self.address.origin.clone();
        own.set_path(uri.path());
        own.set_query(uri.query());
        Ok(own)
    }

    fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.http.request(method, url);
        match &self.address.password {
            Some(password) => request.basic_auth(&self.address.user, Some(password)),
            None => request,
        }
    }

    /// Sends a request and returns the page; retries while the coordinator or a proxy in front of it is briefly
    /// unavailable.
    async fn page(&self, request: impl Fn() -> RequestBuilder) -> Result<Page, Failure> {
        let until = Instant::now() + self.limits.answer;
        let mut pause = NOTICE;
        loop {
            let failure = match self.attempt(request()).await {
                Ok(page) => return Ok(page),
                Err(Attempt::Final(failure)) => return Err(failure),
                Err(Attempt::Again(failure)) => failure,
            };
            if Instant::now() + pause >= until {
                return Err(failure);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    async fn attempt(&self, request: RequestBuilder) -> Result<Page, Attempt> {
        let lost = |error: reqwest::Error| self.unreachable(&error);
        let mut response = request.send().await.map_err(lost)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(lost)? {
            body.extend_from_slice(&chunk);
            if body.len() > MOST_BYTES {
                return Err(Attempt::Final(unclear(&format!("more than {} MiB at once", MOST_BYTES >> 20))));
            }
        }
        match status {
            StatusCode::OK => serde_json::from_slice(&body).map_err(|e| Attempt::Final(unclear(&e.to_string()))),
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Err(Attempt::Again(self.refused(status, &body))),
            _ => Err(Attempt::Final(self.refused(status, &body))),
        }
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> Failure {
        let text = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
        let said = text.lines().next().unwrap_or_default();
        let remedy =
            if status == StatusCode::UNAUTHORIZED { " (user in --engine, password in TRINO_PASSWORD)" } else { "" };
        Failure::usage(
            format!("Trino at {} answers {status}{remedy}: {said}", self.address.origin).trim_end_matches([':', ' ']),
        )
    }

    fn unreachable(&self, error: &reqwest::Error) -> Attempt {
        let mut root: &dyn Error = error;
        while let Some(cause) = root.source() {
            root = cause;
        }
        let why = if error.is_timeout() { "no answer".to_owned() } else { root.to_string() };
        let failure = Failure::usage(format!("cannot reach Trino at {}: {why}", self.address.origin));
        // A coordinator that timed out had enough time, and a refused connection will not succeed later.
        if error.is_timeout() || error.is_connect() { Attempt::Final(failure) } else { Attempt::Again(failure) }
    }
}

/// Reason why an attempt returned no page.
enum Attempt {
    Again(Failure),
    Final(Failure),
}

fn headers(address: &Address) -> Result<HeaderMap, reqwest::header::InvalidHeaderValue> {
    let schema = &address.schema;
    let pairs = [
        ("x-trino-user", address.user.as_str()),
        ("x-trino-source", "whyslow-fleet"),
        ("x-trino-catalog", &schema.catalog),
        ("x-trino-schema", &schema.schema),
        ("x-trino-time-zone", "UTC"),
        ("x-trino-session", SESSION),
        // Timestamps are sent with their full precision.
        ("x-trino-client-capabilities", "PARAMETRIC_DATETIME"),
    ];
    pairs.into_iter().map(|(name, value)| Ok((HeaderName::from_static(name), HeaderValue::from_str(value)?))).collect()
}

fn failed(error: QueryError) -> Failure {
    let said = error.message.unwrap_or_default();
    let said = said.lines().collect::<Vec<_>>().join(" ");
    let remedy = match error.error_name.as_str() {
        "TABLE_NOT_FOUND" | "SCHEMA_NOT_FOUND" | "CATALOG_NOT_FOUND" => {
            "; 'whyslow-fleet tables --ddl trino' prints what makes the tables"
        }
        _ => "",
    };
    Failure::usage(format!("Trino: {said}{remedy}"))
}

fn unclear(what: &str) -> Failure {
    Failure::usage(format!("an answer that is not Trino's: {what}"))
}

/// Detects queries that make no progress.
struct Progress {
    idle: Duration,
    last: Stats,
    since: Instant,
}

impl Progress {
    fn new(idle: Duration) -> Self {
        Self { idle, last: Stats::default(), since: Instant::now() }
    }

    fn check(&mut self, stats: &Stats, has_rows: bool) -> Result<(), Failure> {
        if has_rows || *stats != self.last {
            (self.last, self.since) = (stats.clone(), Instant::now());
        }
        let idle = if stats.state == "QUEUED" { MOST_QUEUED } else { self.idle };
        if self.since.elapsed() <= idle {
            return Ok(());
        }
        let (state, seconds) = (stats.state.to_lowercase(), idle.as_secs());
        Err(Failure::usage(format!(
            "the query was {state} on Trino for {seconds} s without progress, and was cancelled"
        )))
    }
}

/// Handler for Ctrl-C and SIGTERM: while a query runs they cancel it; at other times they end the program as usual.
#[derive(Debug)]
struct Signals {
    came: Arc<AtomicBool>,
    ends_program: Arc<AtomicBool>,
}

impl Signals {
    fn catch() -> std::io::Result<Self> {
        let signals = Self { came: Arc::default(), ends_program: Arc::new(AtomicBool::new(true)) };
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&signals.ends_program))?;
            signal_hook::flag::register(signal, Arc::clone(&signals.came))?;
        }
        Ok(signals)
    }

    fn while_asked(&self) -> Asked<'_> {
        self.ends_program.store(false, Ordering::Relaxed);
        Asked(&self.ends_program)
    }

    async fn came(&self) {
        while !self.came.load(Ordering::Relaxed) {
            tokio::time::sleep(NOTICE).await;
        }
    }
}

/// Guard that exists while a query runs.
struct Asked<'s>(&'s AtomicBool);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
pub(super) mod stand_in;
#[cfg(test)]
mod tests;
