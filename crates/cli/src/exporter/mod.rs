//! `whyslow exporter`: exports metrics and findings to Prometheus and OpenTelemetry.

mod judging;
mod receivers;
mod state;

use crate::complete;
use crate::http;
use crate::interrupt::Interrupt;
use crate::observe::observed;
use crate::options::{Observe, duration};
use crate::output::{Failure, complain, print};
use crate::privileges;
use crate::sampling::SamplingLoop;
use clap::Args;
use clap_complete::ArgValueCandidates;
use judging::Judging;
use receivers::Receivers;
use state::ExporterState;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_exporters::{Collector, Selection, text};
use whyslow_model::snapshot::Snapshot;
use whyslow_sense::{Root, Sampler};
use whyslow_serve::{AccessRules, ListenOptions, Page, PageFn, PageServer};

/// Intervals of sampling, as in the recorder, and of judging, as in a live diagnosis.
const SAMPLED_EVERY: Duration = Duration::from_secs(1);
const JUDGED_EVERY: Duration = Duration::from_secs(10);

/// Where to export to, and what.
#[derive(Debug, Args)]
#[command(
    mut_arg("listen", |arg| arg.help("Serve /metrics for Prometheus on this address: 127.0.0.1:9787; beyond this machine a --token-file is needed")),
    mut_arg("token_file", |arg| arg.requires("listen").help("File with the token that a client of --listen must send: Authorization: Bearer TOKEN")),
    mut_arg("allow_host", |arg| arg.requires("listen").help("Another name by which clients of --listen may call this machine, besides its host name and addresses"))
)]
pub struct ExporterArgs {
    #[command(flatten)]
    listening: ListenOptions,
    /// Push to this Prometheus remote-write receiver: https://HOST/api/v1/write
    #[arg(long, value_name = "URL")]
    remote_write: Option<String>,
    /// Push to this OpenTelemetry receiver (OTLP/HTTP, protobuf): http://127.0.0.1:4318
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Watch once, print the metrics and exit: for the textfile collector of node_exporter
    #[arg(long, conflicts_with_all = ["listen", "remote_write", "otlp"])]
    once: bool,
    /// How often to push, at least 1s
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    interval: Duration,
    /// How long to export [default: until Ctrl-C or SIGTERM; with --once 10s]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Metric families or metrics to export, such as default,vmstat,disk.flushes; 'whyslow metrics' lists them
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = Selection::DEFAULT,
          add = ArgValueCandidates::new(complete::families))]
    metrics: Vec<String>,
    /// How many entities of each family (disks, interfaces, control groups ...) get series, the most active [default: 3 or 4]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// The most series to export
    #[arg(long, value_name = "N", default_value_t = Selection::MOST_SERIES)]
    max_series: usize,
    /// File with the value of the Authorization header for --remote-write: 'Bearer TOKEN' or 'Basic ...'
    #[arg(long, value_name = "FILE", requires = "remote_write")]
    remote_write_auth_file: Option<PathBuf>,
    /// The same for --otlp
    #[arg(long, value_name = "FILE", requires = "otlp")]
    otlp_auth_file: Option<PathBuf>,
    /// Load no BPF programs: sees less, and reads only /proc and /sys
    #[arg(long)]
    no_bpf: bool,
}

impl ExporterArgs {
    const SHORTEST: Duration = Duration::from_secs(1);

    fn check(&self) -> Result<Selection, Failure> {
        if !self.once && self.listening.listen.is_none() && self.remote_write.is_none() && self.otlp.is_none() {
            return Err(Failure::usage(
                "nowhere to export to: use --listen 127.0.0.1:9787, --remote-write URL, --otlp URL or --once",
            ));
        }
        if self.interval < Self::SHORTEST {
            return Err(Failure::usage("--interval must be at least 1s"));
        }
        let ListenOptions { listen, token_file, .. } = &self.listening;
        if listen.is_some_and(|listen| !listen.ip().is_loopback()) && token_file.is_none() {
            return Err(Failure::usage(
                "--listen beyond this machine needs --token-file: process and control group names are not for everyone",
            ));
        }
        Selection::parse(&self.metrics, self.top, self.max_series).map_err(|e| Failure::usage(e.to_string()))
    }
}

/// Exports until it is stopped, or once.
///
/// # Errors
/// Fails on wrong usage, if it cannot listen on the address, or if credentials cannot be read.
pub fn run(args: &ExporterArgs) -> Result<ExitCode, Failure> {
    let selection = args.check()?;
    if args.once { once(args, selection) } else { export(args, selection) }
}

fn once(args: &ExporterArgs, selection: Selection) -> Result<ExitCode, Failure> {
    let time = args.time.unwrap_or(JUDGED_EVERY);
    let asked = Observe { time, interval: SAMPLED_EVERY.min(time), no_bpf: args.no_bpf, check: false, nagios: false };
    asked.check().map_err(Failure::usage)?;
    let (diagnosis, window) = observed(&asked)?;
    let mut collector = Collector::new(selection.for_one_sample());
    for sample in window.snapshots() {
        collector.add(sample.clone());
    }
    let state = ExporterState::new(collector, Receivers::default(), args.interval);
    state.judged(&diagnosis, window.last().map_or(0, |sample| sample.wall_ns));
    print(text::exposition(&state.families()))?;
    Ok(ExitCode::SUCCESS)
}

fn export(args: &ExporterArgs, selection: Selection) -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::listen_as_service()?;
    privileges::keep_only(privileges::OF_LIVE_MACHINE)
        .map_err(|e| Failure::usage(format!("cannot give up privileges: {e}")))?;
    let receivers = Receivers::start(args)?;
    let state = Arc::new(ExporterState::new(Collector::new(selection), receivers, args.interval));
    let server = args.listening.listen.map(|listen| serve(listen, args, &state)).transpose()?;
    if let Some(server) = &server {
        // With port 0 the kernel chooses one.
        complain(&format!("serving http://{}/metrics", server.address()));
    }
    let sampler = Sampler::new(if args.no_bpf { Root::live().without_bpf() } else { Root::live() });
    crate::keep_freed_memory();
    let judging = Judging::start(JUDGED_EVERY, state.clone())?;
    let taking = state.clone();
    let each = move |sample: Snapshot, _: Instant| {
        judging.add(&sample);
        taking.add(sample);
        true
    };
    SamplingLoop::new(sampler, SAMPLED_EVERY, args.time, each).run_until(&interrupt)?;
    drop(server);
    state.end();
    Ok(ExitCode::SUCCESS)
}

fn serve(listen: SocketAddr, args: &ExporterArgs, state: &Arc<ExporterState>) -> Result<PageServer, Failure> {
    let (names, token) = (args.listening.host_names(), args.listening.token().map_err(Failure::usage)?);
    let access = AccessRules { names, token, takes_token_from_address: false };
    let state = state.clone();
    let pages: PageFn = Box::new(move |asked| match asked.path.as_str() {
        "/metrics" => Some(Page::new(text::CONTENT_TYPE, text::exposition(&state.families()).into_bytes())),
        "/" => Some(Page::new("text/plain; charset=utf-8", b"whyslow exporter: /metrics\n".to_vec())),
        _ => None,
    });
    http::start(listen, access, pages)
}
