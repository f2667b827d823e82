//! `whyslow serve`: serves the page of a report, for the live machine and recordings.

mod api;
mod hosts;
mod live_host;
mod part;
mod recorded_host;

use crate::http;
use crate::interrupt::Interrupt;
use crate::live::{self, LiveOptions};
use crate::options::duration;
use crate::output::{Failure, complain, print};
use crate::privileges;
use crate::pseudonymise::{PseudonymOptions, PseudonymSession};
use crate::recordings;
use crate::user_rules;
use clap::Args;
use hosts::Hosts;
use live_host::LiveHost;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use whyslow_diagnose::RuleBook;
use whyslow_serve::{ListenOptions, PageToken, unencrypted};
use whyslow_store::Recording;

/// Default listen address.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9790);
/// Length of one sleep while other threads answer requests.
const LONG: Duration = Duration::from_secs(3600);
/// Maximum number of recordings listed at the start; the page shows all of them.
const NAMED: usize = 5;

/// What to serve, and where.
#[derive(Debug, Args)]
#[command(
    mut_arg("listen", |arg| arg.help("Address to listen on; only this machine can reach the default [default: 127.0.0.1:9790]")),
    mut_arg("allow_host", |arg| arg.help("Another name by which browsers may call this machine, besides its host name and addresses")),
    mut_arg("token_file", |arg| arg.help("File with the token that the address of the page ends in [default: a new one each time]"))
)]
pub struct ServeArgs {
    /// Folders of recordings, or folders with one in each subfolder [default: that of 'whyslow record', if there is one]
    #[arg(value_name = "DIR")]
    folders: Vec<PathBuf>,
    #[command(flatten)]
    listening: ListenOptions,
    /// Sampling interval of the live machine, at least 100ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration, conflicts_with = "no_live")]
    interval: Duration,
    /// Load no BPF programs: sees less, and reads only /proc and /sys
    #[arg(long, conflicts_with = "no_live")]
    no_bpf: bool,
    /// Only recordings
    #[arg(long)]
    no_live: bool,
    #[command(flatten)]
    pseudonyms: PseudonymOptions,
}

impl ServeArgs {
    const SHORTEST: Duration = Duration::from_millis(100);

    fn check(&self) -> Result<(), Failure> {
        if self.interval < Self::SHORTEST {
            return Err(Failure::usage("--interval must be at least 100ms"));
        }
        Ok(())
    }

    /// Returns the folders with recordings: the requested ones, or the default one if it has a recording.
    fn roots(&self) -> Result<Vec<PathBuf>, Failure> {
        if !self.folders.is_empty() {
            if let Some(empty) = self.folders.iter().find(|folder| hosts::recordings_in(folder).is_empty()) {
                let empty = empty.display();
                return Err(Failure::usage(format!("{empty}: neither a recording nor a folder with recordings in it")));
            }
            return Ok(self.folders.clone());
        }
        let usual = recordings::folder(None).ok().filter(|folder| Recording::is_in(folder));
        if usual.is_none() && self.no_live {
            return Err(Failure::usage(
                "nothing to serve: there is no recording of this machine; name the folder of another, or omit --no-live",
            ));
        }
        Ok(usual.into_iter().collect())
    }
}

/// Serves until it is stopped.
///
/// # Errors
/// Fails on wrong usage, if there is nothing to serve, or if it cannot listen on the address.
pub fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    args.check()?;
    let roots = args.roots()?;
    let token = args.listening.page_token().map_err(Failure::usage)?;
    let mut interrupt = Interrupt::listen_as_service()?;
    let needed = if args.no_live { privileges::OF_RECORDINGS } else { privileges::OF_LIVE_MACHINE };
    privileges::keep_only(needed).map_err(|e| Failure::usage(format!("cannot give up privileges: {e}")))?;
    crate::keep_freed_memory();
    let book = Arc::new(user_rules::load().book);
    let names = Arc::new(args.pseudonyms.begin()?);
    let live = (!args.no_live).then(|| Arc::new(LiveHost::new(args.interval, names.clone())));
    let (hosts, looks) = Hosts::new(live.clone(), roots, book.clone(), names.clone());
    let access = token.access(args.listening.host_names());
    let server = http::start(args.listening.listen.unwrap_or(LISTEN), access, api::pages(hosts.clone()))?;
    let sampling = live.as_ref().map(|live| sample(live, args, book, &names)).transpose()?;
    hosts.start_survey(looks)?;
    announce(args, &hosts, server.address(), &token)?;
    while !interrupt.ends_sleep_until(Instant::now() + LONG) {}
    drop((sampling, server));
    names.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Samples until the result is dropped.
fn sample(
    live: &Arc<LiveHost>,
    args: &ServeArgs,
    book: Arc<RuleBook>,
    names: &PseudonymSession,
) -> Result<Sender<Infallible>, Failure> {
    let options = LiveOptions { interval: args.interval, no_bpf: args.no_bpf, book };
    let host = live.clone();
    let take = move |event| {
        host.take(event);
        true
    };
    live::begin(options, names, Arc::new(take), |_, request: Infallible| match request {})
}

/// Prints where the page is, and what it shows.
fn announce(args: &ServeArgs, hosts: &Hosts, address: SocketAddr, token: &PageToken) -> Result<(), Failure> {
    if let Some(warning) = unencrypted(address) {
        complain(warning);
    }
    let recordings = hosts.recordings();
    let named = recordings.iter().take(NAMED).map(|host| host.folder().display().to_string());
    let further = recordings.len().checked_sub(NAMED).filter(|more| *more > 0).map(|more| format!("{more} more"));
    let live = (!args.no_live).then(|| "this machine, live".to_owned());
    let all: Vec<String> = live.into_iter().chain(named).chain(further).collect();
    complain(&format!("serving {} (Ctrl-C: end)", all.join("; ")));
    print(format!("{}\n", token.address(address)))
}
