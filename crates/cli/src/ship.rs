//! `whyslow ship`: delivers a recording to the store of a fleet.

use crate::http::host_name;
use crate::interrupt::Interrupt;
use crate::options::{OutputOptions, duration};
use crate::output::{Failure, ProgressLine, complain, tell};
use crate::pseudonymise::{PseudonymOptions, PseudonymSession};
use crate::recordings::{self, for_people};
use clap::Args;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use whyslow_documents::explanation::Shipped;
use whyslow_rollup::PublicKey;
use whyslow_ship::{Backoff, Destination, Pass, RawAnswer, ShipError, Shipper};
use whyslow_show::text;
use whyslow_store::{LogFn, Recording, lower_priority};

/// Interval for checking whether there is a recording.
const LOOK: Duration = Duration::from_secs(5);
/// Maximum length of the key or value of a label, in bytes.
const LONGEST_LABEL: usize = 256;
/// Maximum size of a file with public keys, in bytes.
const MOST_OF_KEYS: u64 = 1 << 20;
/// Interval for checking for requests.
const ASKED: Duration = Duration::from_secs(60);

/// How a recording is delivered: by `ship`, or by `record` meanwhile.
#[derive(Clone, Debug, Default, Args)]
pub struct DeliveryOptions {
    /// The name of this host in the store [default: its host name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// A property to group hosts by, such as role=db or rack=a7; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// How often to deliver, at least 1m [default: 15m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    every: Option<Duration>,
    /// Answer requests for spans of the recording itself that a key in this file has signed: 'whyslow-fleet host --raw --key' makes them
    #[arg(long, value_name = "PEM")]
    raw_key: Option<PathBuf>,
}

impl DeliveryOptions {
    const SHORTEST: Duration = Duration::from_secs(60);
    const USUAL: Duration = Duration::from_secs(900);

    /// Returns whether any of these options was given.
    pub fn is_given(&self) -> bool {
        self.host.is_some() || !self.labels.is_empty() || self.every.is_some() || self.raw_key.is_some()
    }

    /// Checks the options.
    ///
    /// # Errors
    /// Fails if they are not valid, or not with these pseudonyms.
    pub fn check(&self, pseudonyms: &PseudonymOptions) -> Result<(), Failure> {
        if self.every.is_some_and(|every| every < Self::SHORTEST) {
            return Err(Failure::usage("--every must be at least 1m: what is shipped are minutes"));
        }
        if pseudonyms.is_given() && !pseudonyms.has_key() {
            return Err(Failure::usage(
                "--pseudonymise needs --pseudonym-key FILE here: a new key at each start would give a host a new pseudonym each time",
            ));
        }
        Ok(())
    }

    /// Returns the keys whose requests are answered.
    fn raw_keys(&self) -> Result<Vec<PublicKey>, Failure> {
        let Some(path) = &self.raw_key else { return Ok(Vec::new()) };
        let failed = |what: &dyn Display| Failure::usage(format!("{}: {what}", path.display()));
        let mut pem = Vec::new();
        let read = File::open(path).and_then(|file| file.take(MOST_OF_KEYS).read_to_end(&mut pem));
        read.map_err(|e| failed(&e))?;
        PublicKey::parse_all(&pem).map_err(|e| failed(&e))
    }

    /// Returns the name of this host in the store.
    pub fn host(&self, names: &PseudonymSession) -> String {
        names.host(&self.host.clone().unwrap_or_else(host_name))
    }
}

/// What to deliver, and where to.
#[derive(Debug, Args)]
pub struct ShipArgs {
    /// A folder that exists, or s3://BUCKET/PREFIX: credentials, region and endpoint come from AWS_* variables or the machine's role
    #[arg(value_name = "STORE")]
    store: String,
    /// Folder of the recording [default: /var/lib/whyslow for root, else ~/.local/state/whyslow]
    #[arg(long)]
    dir: Option<PathBuf>,
    #[command(flatten)]
    delivery: DeliveryOptions,
    /// Deliver what was recorded until now, and exit: status 1 if not all of it could be
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    pseudonyms: PseudonymOptions,
}

/// Parses `KEY=VALUE`.
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
/// Fails on wrong usage and, with `--once`, if nothing was recorded.
pub fn run(args: &ShipArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    args.delivery.check(&args.pseudonyms)?;
    let mut interrupt = Interrupt::listen_as_service()?;
    let names = args.pseudonyms.begin()?;
    let folder = recordings::folder(args.dir.as_deref())?;
    let destination = destination(&args.store)?;
    let host = args.delivery.host(&names);
    // Other programs need the CPU time more than this brief activity every few minutes.
    lower_priority();
    if args.once {
        Recording::open(&folder).map_err(|e| Failure::usage(e.to_string()))?;
    } else if !Recording::is_in(&folder) {
        complain(&format!("waiting for a recording in {}: 'whyslow record' starts one", folder.display()));
        if !wait_for_recording(&folder, |due| interrupt.ends_sleep_until(due)) {
            return ended(&Shipped { store: args.store.clone(), host, ..Shipped::default() }, look, &names);
        }
    }
    let mut delivery = Delivery::new(destination, host, &args.delivery, folder, names)?;
    let stop = interrupt.flag();
    if args.once {
        let is_complete = delivery.last(&stop);
        ended(&delivery.totals, look, &delivery.names)?;
        return Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let progress = ProgressLine::empty();
    delivery.run(&stop, |said| progress.say(&format!("{said} (Ctrl-C: end)")), |due| interrupt.ends_sleep_until(due));
    drop(progress);
    ended(&delivery.totals, look, &delivery.names)
}

fn ended(totals: &Shipped, look: &OutputOptions, names: &PseudonymSession) -> Result<ExitCode, Failure> {
    tell(totals, look, text::shipped)?;
    names.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Opens a store.
///
/// # Errors
/// Fails if it cannot be opened.
pub fn destination(store: &str) -> Result<Destination, Failure> {
    Destination::open(store).map_err(|e| Failure::usage(e.to_string()))
}

/// Delivers a recording to a store.
pub struct Delivery {
    folder: PathBuf,
    shipper: Shipper,
    answers_requests: bool,
    every: Duration,
    names: PseudonymSession,
    log: LogFn,
    totals: Shipped,
}

impl Delivery {
    /// Creates a delivery of the recording in a folder; replaces names if the session does.
    ///
    /// # Errors
    /// Fails if the host name cannot be part of a path, or if the folder cannot be written or is delivered by another
    /// process.
    pub fn new(
        destination: Destination,
        host: String,
        options: &DeliveryOptions,
        folder: PathBuf,
        names: PseudonymSession,
    ) -> Result<Self, Failure> {
        let store = destination.address().to_owned();
        let shipper = Shipper::new(destination, &host, env!("CARGO_PKG_VERSION"), options.labels.clone(), &folder);
        let raw_keys = options.raw_keys()?;
        let answers_requests = !raw_keys.is_empty();
        let shipper = shipper.map_err(|e| Failure::usage(e.to_string()))?.answering(raw_keys);
        let every = options.every.unwrap_or(DeliveryOptions::USUAL);
        let totals = Shipped { store, host, ..Shipped::default() };
        Ok(Self { folder, shipper, answers_requests, every, names, log: reporting_once(), totals })
    }

    /// Delivers what is due. Setting `stop` ends it.
    fn pass(&mut self, stop: &AtomicBool) -> Pass {
        let (folder, log, names) = (&self.folder, &self.log, &self.names);
        let pass = self.shipper.pass(&|| open(folder, log, names), now(), stop);
        self.totals.hours += pass.hours;
        self.totals.files += pass.files;
        self.totals.bytes += pass.bytes;
        self.totals.left = pass.left;
        self.totals.lost.extend(pass.lost.iter().map(ToString::to_string));
        for hour in &pass.lost {
            complain(&format!("the recording of {hour} expired before it was delivered"));
        }
        pass
    }

    /// Answers requests for spans of the recording itself, and reports each.
    fn answer(&mut self, stop: &AtomicBool) {
        let (folder, log, names) = (&self.folder, &self.log, &self.names);
        for answer in self.shipper.answer(&|| open(folder, log, names), now(), stop) {
            match answer {
                Ok(RawAnswer { request, bytes, refused }) => {
                    let span = [request.from_ms, request.to_ms].map(|ms| for_people(ms.saturating_mul(1_000_000)));
                    let done = refused.map_or_else(|| format!("sent, {bytes} bytes"), |why| format!("not sent: {why}"));
                    complain(&format!(
                        "a signed request asked for {} to {} of the recording: {done}",
                        span[0], span[1]
                    ));
                }
                Err(_) if stop.load(Ordering::Relaxed) => {}
                Err(error) => (self.log)(&format!("a request for a part of the recording is not answered: {error}")),
            }
        }
    }

    /// Delivers what there is, and returns whether that was everything.
    fn last(&mut self, stop: &AtomicBool) -> bool {
        let pass = self.pass(stop);
        self.answer(stop);
        if let Some(failure) = &pass.failure {
            complain(&format!("not delivered: {failure}"));
        }
        pass.failure.is_none() && pass.left == 0
    }

    /// Delivers repeatedly, until a sleep is interrupted.
    fn run(&mut self, stop: &AtomicBool, say: impl Fn(&str), mut ends_sleep_until: impl FnMut(Instant) -> bool) {
        let mut trouble = Trouble::default();
        loop {
            let begun = Instant::now();
            let pass = self.pass(stop);
            let wait = trouble.after(&pass, self.every.saturating_sub(begun.elapsed()));
            let Shipped { files, store, host, left, .. } = &self.totals;
            say(&format!("{files} files delivered to {store} as {host}, {left} hours left"));
            let due = Instant::now() + wait;
            loop {
                self.answer(stop);
                let asked = if self.answers_requests { Instant::now() + ASKED } else { due };
                if ends_sleep_until(due.min(asked)) {
                    return;
                }
                if Instant::now() >= due {
                    break;
                }
            }
        }
    }
}

/// A delivery in a thread of its own, next to a recorder in the same process.
pub struct BackgroundDelivery {
    has_ended: Arc<AtomicBool>,
    thread: JoinHandle<Shipped>,
}

impl BackgroundDelivery {
    /// Starts the delivery. Setting `stop` ends an upload.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub fn begin(mut delivery: Delivery, stop: Arc<AtomicBool>) -> Result<Self, Failure> {
        let has_ended: Arc<AtomicBool> = Arc::default();
        let ended = Arc::clone(&has_ended);
        let deliver = move || {
            lower_priority();
            let ends_sleep_until = |due: Instant| {
                while !ended.load(Ordering::Acquire) && Instant::now() < due {
                    std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
                }
                ended.load(Ordering::Acquire)
            };
            if wait_for_recording(&delivery.folder, ends_sleep_until) {
                delivery.run(&stop, |_| {}, ends_sleep_until);
            }
            delivery.last(&stop);
            delivery.totals
        };
        let thread = std::thread::Builder::new().name("ship".into()).spawn(deliver);
        let thread = thread.map_err(|e| Failure::usage(format!("cannot start to deliver: {e}")))?;
        Ok(Self { has_ended, thread })
    }

    /// Delivers what was recorded since, unless `stop` is set, and ends.
    pub fn end(self) -> Option<Shipped> {
        self.has_ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().ok()
    }
}

/// Waits until something is recorded. Returns false if the sleep was interrupted before.
fn wait_for_recording(folder: &Path, mut ends_sleep_until: impl FnMut(Instant) -> bool) -> bool {
    while !Recording::is_in(folder) {
        if ends_sleep_until(Instant::now() + LOOK) {
            return false;
        }
    }
    true
}

fn open(folder: &Path, log: &LogFn, names: &PseudonymSession) -> Result<Recording, ShipError> {
    let recording = Recording::open_with_log(folder, log.clone()).map_err(|e| ShipError::from(e.to_string()))?;
    names.recording(recording).map_err(|failure| ShipError::from(failure.to_string()))
}

/// Returns a log that reports each message once, however often the recording is opened.
fn reporting_once() -> LogFn {
    let reported = Mutex::new(BTreeSet::new());
    Arc::new(move |what: &str| {
        if reported.lock().unwrap_or_else(PoisonError::into_inner).insert(what.to_owned()) {
            complain(what);
        }
    })
}

/// Returns the time in nanoseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Tracks failures of deliveries.
#[derive(Default)]
struct Trouble {
    backoff: Backoff,
    /// Last reported failure.
    reported: Option<String>,
}

impl Trouble {
    /// Reports what has changed. Returns how long to wait: until the next delivery is due, or after a failure the
    /// backoff time.
    fn after(&mut self, pass: &Pass, due: Duration) -> Duration {
        match &pass.failure {
            Some(failure) => {
                let failure = failure.to_string();
                // Times and hours in the message differ each time.
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
