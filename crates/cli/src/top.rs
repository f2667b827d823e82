//! `whyslow top`: the live screen, and the same on a recording.

mod live;
mod recorded;

use crate::interrupt::Interrupt;
use crate::options::{OutputOptions, duration};
use crate::output::{self, Failure};
use crate::user_rules;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_top::{Event, Request, ScreenOptions, is_possible};

/// How long the thread that waits for a signal sleeps at once.
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
}

/// Shows the screen until it is quit.
///
/// # Errors
/// There is no terminal, wrong usage, or no recording.
pub fn run(args: &TopArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    if args.interval < Duration::from_millis(100) {
        return Err(Failure::usage("--interval must be at least 100ms"));
    }
    if !is_possible() {
        let instead = "use 'whyslow' for one diagnosis, or 'whyslow record' and 'whyslow explain' over a longer time";
        return Err(Failure::usage(format!("'whyslow top' needs a terminal for its screen and its keys; {instead}")));
    }
    crate::keep_freed_memory();
    // What is wrong with a rule is said before the screen is drawn.
    let rules = user_rules::load();
    let interrupt = Interrupt::listen()?;
    let (events, received) = channel();
    let source = match &args.at {
        Some(at) => recorded::begin(at, args.dir.as_deref(), rules.book, events.clone())?,
        None => live::begin(args.interval, args.no_bpf, rules.book, events.clone())?,
    };
    let options = ScreenOptions {
        interval: args.at.is_none().then_some(args.interval),
        colour: output::style(look).colour,
        utc: look.utc,
    };
    end_at_signal(interrupt, events.clone())?;
    whyslow_top::run(options, &received, events, |request| answer(&source, request))
        .map_err(|e| Failure::usage(format!("cannot draw on the terminal: {e}")))?;
    Ok(ExitCode::SUCCESS)
}

/// A source that is gone has said so.
fn answer(source: &Sender<Request>, request: Request) {
    let _ = source.send(request);
}

/// Ends the screen when a signal arrives, so that the terminal is restored first.
fn end_at_signal(mut interrupt: Interrupt, events: Sender<Event>) -> Result<(), Failure> {
    let wait = move || {
        while !interrupt.ends_sleep_until(Instant::now() + LONG) {}
        // The screen may have ended by itself.
        let _ = events.send(Event::End);
        // A second signal ends the program at once.
        thread::sleep(LONG);
        drop(interrupt);
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map(drop).map_err(cannot_start)
}

/// Ends the screen when the thread that has it panics: nothing would change on it any more.
struct EndIfPanics(Sender<Event>);

impl Drop for EndIfPanics {
    fn drop(&mut self) {
        if thread::panicking() {
            // The screen may have ended already.
            let _ = self.0.send(Event::End);
        }
    }
}

fn cannot_start(error: std::io::Error) -> Failure {
    Failure::usage(format!("cannot start a thread: {error}"))
}
