//! `whyslow top`: the live screen, and the same on a recording.

mod recorded;

use crate::interrupt::Interrupt;
use crate::live::{self, LiveEvent, LiveOptions, cannot_start};
use crate::options::{OutputOptions, duration};
use crate::output::{self, Failure};
use crate::pseudonymise::{PseudonymOptions, PseudonymSession};
use crate::user_rules;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_sense::{Root, descriptors};
use whyslow_top::{Event, OpenFile, Request, ScreenOptions, is_possible};

/// Length of one sleep of the thread that waits for a signal.
const LONG: Duration = Duration::from_secs(3600);

/// What to show.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Show a recording at this time instead of the live machine: 03:12, '2026-11-21 03:12'
    #[arg(long, value_name = "WHEN")]
    at: Option<String>,
    /// Folder of the recording [default: /var/lib/whyslow for root, else ~/.local/state/whyslow]
    #[arg(long, requires = "at")]
    dir: Option<PathBuf>,
    /// Sampling interval, at least 100ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration, conflicts_with = "at")]
    interval: Duration,
    /// Load no BPF programs: sees less, and reads only /proc and /sys
    #[arg(long, conflicts_with = "at")]
    no_bpf: bool,
    #[command(flatten)]
    pseudonyms: PseudonymOptions,
}

/// Reason why open files are not listed: they are identified by their names.
const FILES_ARE_NAMES: &str = "not listed with --pseudonymise";

/// Shows the screen until it is quit.
///
/// # Errors
/// Fails without a terminal, on wrong usage, or without a recording.
pub fn run(args: &TopArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    if args.interval < Duration::from_millis(100) {
        return Err(Failure::usage("--interval must be at least 100ms"));
    }
    if !is_possible() {
        let instead = "use 'whyslow' for one diagnosis, or 'whyslow record' and 'whyslow explain' over a longer time";
        return Err(Failure::usage(format!("'whyslow top' needs a terminal for its screen and its keys; {instead}")));
    }
    crate::keep_freed_memory();
    let names = Arc::new(args.pseudonyms.begin()?);
    // Errors in rules are printed before the screen is drawn.
    let rules = user_rules::load();
    let interrupt = Interrupt::listen()?;
    let (events, received) = channel();
    let source = match &args.at {
        Some(at) => recorded::begin(at, args.dir.as_deref(), rules.book, &names, events.clone())?,
        None => {
            let options = LiveOptions { interval: args.interval, no_bpf: args.no_bpf, book: Arc::new(rules.book) };
            live(options, &names, events.clone())?
        }
    };
    let options = ScreenOptions {
        interval: args.at.is_none().then_some(args.interval),
        colour: output::style(look).colour,
        utc: look.display.utc,
    };
    end_at_signal(interrupt, events.clone())?;
    whyslow_top::run(options, &received, events, |request| answer(&source, request))
        .map_err(|e| Failure::usage(format!("cannot draw on the terminal: {e}")))?;
    names.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Sends a request to the source. A source that is gone has already reported it.
fn answer(source: &Sender<Request>, request: Request) {
    let _ = source.send(request);
}

/// Ends the screen when a signal arrives, so that the terminal is restored first.
fn end_at_signal(mut interrupt: Interrupt, events: Sender<Event>) -> Result<(), Failure> {
    let wait = move || {
        while !interrupt.ends_sleep_until(Instant::now() + LONG) {}
        // The screen may already have ended.
        let _ = events.send(Event::End);
        // A second signal ends the program at once.
        thread::sleep(LONG);
        drop(interrupt);
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map(drop).map_err(cannot_start)
}

/// Shows the live machine. Requests sent to the result are answered by events.
fn live(options: LiveOptions, names: &PseudonymSession, events: Sender<Event>) -> Result<Sender<Request>, Failure> {
    let answers = events.clone();
    let show = move |event| {
        let event = match event {
            LiveEvent::Sample(sample) => Event::Sample(sample),
            LiveEvent::Diagnosed(diagnosis) => Event::Diagnosed(diagnosis),
            LiveEvent::Restarted => Event::Restarted,
            // The screen would no longer change.
            LiveEvent::Failed => Event::End,
        };
        events.send(event).is_ok()
    };
    let has_names = !names.is_on();
    live::begin(options, names, Arc::new(show), move |root, request| list_files(root, request, has_names, &answers))
}

fn list_files(root: &Root, request: Request, has_names: bool, answers: &Sender<Event>) {
    let Request::Files(task) = request else { return };
    let files = if has_names {
        descriptors(root, &task).map_err(|error| error.why().to_owned())
    } else {
        Err(FILES_ARE_NAMES.to_owned())
    };
    let files = files.map(|files| files.into_iter().map(|(name, count)| OpenFile { name, count }).collect());
    // The next sample notices that the screen is gone.
    let _ = answers.send(Event::Files(task, files));
}
