//! `whyslow ship`: delivers a recording to the store of a fleet.

use crate::http::host_name;
use crate::interrupt::Interrupt;
use crate::options::{OutputOptions, duration};
use crate::output::{Failure, ProgressLine, complain, tell};
use crate::pseudonymise::{PseudonymOptions, PseudonymSession};
use crate::recordings;
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use whyslow_model::explanation::Shipped;
use whyslow_ship::{Backoff, Destination, Pass, ShipError, Shipper};
use whyslow_show::text;
use whyslow_store::{LogFn, Recording, lower_priority};

/// How often it is looked whether there is a recording by now.
const LOOK: Duration = Duration::from_secs(5);
/// The longest key or value of a label.
const LONGEST_LABEL: usize = 256;

/// What to deliver, and where to.
#[derive(Debug, Args)]
pub struct ShipArgs {
    /// A folder that exists, or s3://BUCKET/PREFIX: credentials, region and endpoint come from AWS_* variables or the machine's role
    #[arg(value_name = "STORE")]
    store: String,
    /// Folder of the recording [default: /var/lib/whyslow for root, else ~/.local/state/whyslow]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The name of this host in the store [default: its host name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// A property to group hosts by, such as role=db or rack=a7; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// How often to deliver, at least 1m
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration)]
    every: Duration,
    /// Deliver what was recorded until now, and exit: status 1 if not all of it could be
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    pseudonyms: PseudonymOptions,
}

impl ShipArgs {
    const SHORTEST: Duration = Duration::from_secs(60);

    fn check(&self) -> Result<(), Failure> {
        if self.every < Self::SHORTEST {
            return Err(Failure::usage("--every must be at least 1m: what is shipped are minutes"));
        }
        if self.pseudonyms.is_given() && !self.pseudonyms.has_key() {
            return Err(Failure::usage(
                "--pseudonymise needs --pseudonym-key FILE here: with a new key at each start a host would be another one each time",
            ));
        }
        Ok(())
    }
}

/// `KEY=VALUE`.
fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("not KEY=VALUE, such as role=db")?;
    if key.is_empty() || value.is_empty() {
        return Err("not KEY=VALUE, such as role=db".into());
    }
    if key.len().max(value.len()) > LONGEST_LABEL {
        return Err(format!("longer than {LONGEST_LABEL} bytes"));
    }
    Ok((key.into(), value.into()))
}

/// Delivers until it is stopped, or once.
///
/// # Errors
/// Wrong usage; with `--once`, nothing was recorded.
pub fn run(args: &ShipArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    args.check()?;
    let mut interrupt = Interrupt::listen_for(&[SIGINT, SIGTERM])?;
    let names = args.pseudonyms.begin()?;
    let folder = recordings::folder(args.dir.as_deref())?;
    let destination = Destination::open(&args.store).map_err(|e| Failure::usage(e.to_string()))?;
    let host = args.host.clone().unwrap_or_else(host_name);
    let host = names.host(&host);
    let mut totals = Shipped {
        store: args.store.clone(),
        host: host.clone(),
        hours: 0,
        files: 0,
        bytes: 0,
        left: 0,
        lost: Vec::new(),
    };
    // What it takes for a moment every few minutes others need more.
    lower_priority();
    if !args.once && !wait_for_recording(&folder, &mut interrupt) {
        return ended(&totals, look, names);
    }
    let log = reporting_once();
    let open = || open(&folder, &log, &names);
    if args.once {
        open().map_err(|e| Failure::usage(e.to_string()))?;
    }
    let labels = args.labels.clone();
    let shipper = Shipper::new(destination, &host, env!("CARGO_PKG_VERSION"), labels, &folder);
    let mut shipper = shipper.map_err(|e| Failure::usage(e.to_string()))?;
    let stop = interrupt.flag();
    let progress = ProgressLine::empty();
    let mut trouble = Trouble::default();
    loop {
        let begun = Instant::now();
        let pass = shipper.pass(&open, now(), &stop);
        add(&mut totals, &pass);
        for hour in &pass.lost {
            complain(&format!("the recording of {hour} expired before it was delivered"));
        }
        if args.once {
            let is_complete = pass.failure.is_none() && pass.left == 0;
            if let Some(failure) = &pass.failure {
                complain(&format!("not delivered: {failure}"));
            }
            tell(&totals, look, text::shipped)?;
            names.finish()?;
            return Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        let wait = trouble.after(&pass, args.every.saturating_sub(begun.elapsed()));
        progress.say(&format!(
            "{} files delivered to {} as {host}, {} hours left (Ctrl-C: end)",
            totals.files, args.store, pass.left
        ));
        if interrupt.ends_sleep_until(Instant::now() + wait) {
            drop(progress);
            return ended(&totals, look, names);
        }
    }
}

fn ended(totals: &Shipped, look: &OutputOptions, names: PseudonymSession) -> Result<ExitCode, Failure> {
    tell(totals, look, text::shipped)?;
    names.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn add(totals: &mut Shipped, pass: &Pass) {
    totals.hours += pass.hours;
    totals.files += pass.files;
    totals.bytes += pass.bytes;
    totals.left = pass.left;
    totals.lost.extend(pass.lost.iter().map(ToString::to_string));
}

/// Waits until something was recorded. False if a signal came before.
fn wait_for_recording(folder: &Path, interrupt: &mut Interrupt) -> bool {
    let mut is_told = false;
    while !Recording::is_in(folder) {
        if !is_told {
            complain(&format!("waiting for a recording in {}: 'whyslow record' starts one", folder.display()));
            is_told = true;
        }
        if interrupt.ends_sleep_until(Instant::now() + LOOK) {
            return false;
        }
    }
    true
}

fn open(folder: &Path, log: &LogFn, names: &PseudonymSession) -> Result<Recording, ShipError> {
    let recording = Recording::open_with_log(folder, log.clone()).map_err(|e| ShipError::from(e.to_string()))?;
    names.recording(recording).map_err(|failure| ShipError::from(failure.to_string()))
}

/// Reports each thing once, however often the recording is opened.
fn reporting_once() -> LogFn {
    let reported = Mutex::new(BTreeSet::new());
    Arc::new(move |what: &str| {
        if reported.lock().unwrap_or_else(PoisonError::into_inner).insert(what.to_owned()) {
            complain(what);
        }
    })
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// What is wrong with the deliveries, if anything is.
#[derive(Default)]
struct Trouble {
    backoff: Backoff,
    /// What was reported last.
    reported: Option<String>,
}

impl Trouble {
    /// Reports what has changed, and returns how long to wait: until the next delivery is due, or after a failure less or more.
    fn after(&mut self, pass: &Pass, due: Duration) -> Duration {
        match &pass.failure {
            Some(failure) => {
                let failure = failure.to_string();
                // Times and hours in it are others each time.
                let reported: String = failure.chars().filter(|c| !c.is_ascii_digit()).collect();
                if self.reported.as_ref() != Some(&reported) {
                    complain(&format!("not delivered, and tried again later: {failure}"));
                    self.reported = Some(reported);
                }
                self.backoff.failed()
            }
            None => {
                if self.reported.take().is_some() {
                    complain("delivered again, and nothing is left to be");
                }
                self.backoff.succeeded();
                due
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_key_and_a_value() {
        assert_eq!(label("role=db"), Ok(("role".into(), "db".into())));
        assert_eq!(label("a=b=c"), Ok(("a".into(), "b=c".into())));
        for wrong in ["role", "=db", "role=", "", &format!("role={}", "x".repeat(257))] {
            assert!(label(wrong).is_err(), "{wrong}");
        }
    }
}
