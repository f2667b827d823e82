//! Receivers of pushed batches.

use super::ExporterArgs;
use crate::http::{first_line, host_name};
use crate::output::{Failure, complain};
use std::path::Path;
use std::sync::Arc;
use whyslow_documents::diagnosis::Diagnosis;
use whyslow_exporters::otlp::{self, FindingEvents, HostResource};
use whyslow_exporters::{MetricFamily, PushFigures, RemoteWrite};
use whyslow_ship::{Credentials, Endpoint, Pusher};
use whyslow_store::LogFn;

/// Environment variables with the value of the `Authorization` header, as an alternative to a file.
const REMOTE_WRITE_AUTH: &str = "WHYSLOW_REMOTE_WRITE_AUTH";
const OTLP_AUTH: &str = "WHYSLOW_OTLP_AUTH";
/// File with the release of this machine's kernel.
const KERNEL: &str = "/proc/sys/kernel/osrelease";

/// Receivers, with the state of what they were sent.
#[derive(Default)]
pub struct Receivers {
    remote_write: Option<(Pusher, RemoteWrite)>,
    otlp: Option<(Pusher, FindingEvents)>,
    host: HostResource,
}

impl Receivers {
    /// Starts the requested receivers.
    ///
    /// # Errors
    /// Fails if an address is not valid or credentials cannot be read.
    pub fn start(args: &ExporterArgs) -> Result<Self, Failure> {
        let host =
            HostResource { name: host_name(), kernel: first_line(KERNEL), version: env!("CARGO_PKG_VERSION").into() };
        let mut receivers = Self { host, ..Self::default() };
        if let Some(url) = &args.remote_write {
            let credentials = credentials(args.remote_write_auth_file.as_deref(), REMOTE_WRITE_AUTH);
            let endpoint =
                endpoint(Endpoint::new(url, &RemoteWrite::HEADERS, credentials, |_| None), "--remote-write")?;
            receivers.remote_write = Some((pusher("remote write", endpoint)?, RemoteWrite::new(&receivers.host.name)));
        }
        if let Some(url) = &args.otlp {
            let credentials = credentials(args.otlp_auth_file.as_deref(), OTLP_AUTH);
            let endpoint = endpoint(Endpoint::new(url, &otlp::HEADERS, credentials, complaint), "--otlp")?;
            receivers.otlp = Some((pusher("OTLP", endpoint)?, FindingEvents::default()));
        }
        Ok(receivers)
    }

    pub fn count(&self) -> usize {
        usize::from(self.remote_write.is_some()) + usize::from(self.otlp.is_some())
    }

    /// Sends series of a sample taken at `wall_ns` by a machine that booted at `boot_ns`, in nanoseconds since 1970.
    pub fn push(&mut self, families: &[MetricFamily], wall_ns: i64, boot_ns: u64) {
        if let Some((pusher, writer)) = &mut self.remote_write {
            pusher.push("", writer.batch(families, wall_ns / 1_000_000));
        }
        if let Some((pusher, _)) = &self.otlp {
            pusher.push(otlp::METRICS_PATH, otlp::metrics(families, &self.host, wall_ns.unsigned_abs(), boot_ns));
        }
    }

    /// Sends events for findings that began or ended.
    pub fn judged(&mut self, diagnosis: &Diagnosis, end_ns: i64) {
        if let Some((pusher, events)) = &mut self.otlp
            && let Some(batch) = events.batch(&diagnosis.findings, &self.host, end_ns.unsigned_abs())
        {
            pusher.push(otlp::LOGS_PATH, batch);
        }
    }

    pub fn figures(&self) -> Vec<PushFigures> {
        let remote_write = self.remote_write.iter().map(|(pusher, _)| ("remote_write", pusher));
        let otlp = self.otlp.iter().map(|(pusher, _)| ("otlp", pusher));
        let figures = |(receiver, pusher): (&'static str, &Pusher)| {
            let counts = pusher.counts();
            PushFigures {
                receiver,
                sent: counts.sent,
                failures: counts.failures,
                dropped: counts.dropped,
                waiting: counts.waiting,
            }
        };
        remote_write.chain(otlp).map(figures).collect()
    }
}

fn pusher(what: &'static str, endpoint: Endpoint) -> Result<Pusher, Failure> {
    let log: LogFn = Arc::new(complain);
    Pusher::start(what, endpoint, log).map_err(|e| Failure::usage(format!("cannot start to push: {e}")))
}

fn endpoint(endpoint: Result<Endpoint, whyslow_ship::EndpointError>, option: &str) -> Result<Endpoint, Failure> {
    endpoint.map_err(|e| Failure::usage(format!("{option}: {e}")))
}

/// Returns the credentials of the file, or else of the variable.
fn credentials(file: Option<&Path>, variable: &str) -> Option<Credentials> {
    let of_variable = || std::env::var(variable).ok().filter(|value| !value.is_empty()).map(Credentials::Value);
    file.map(|file| Credentials::File(file.to_owned())).or_else(of_variable)
}

fn complaint(answer: &[u8]) -> Option<String> {
    otlp::refused(answer).map(|(points, why)| format!("{points} points refused: {why}"))
}
