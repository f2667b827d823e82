//! `whyslow-fleet compact`: merges the files of all hosts.

use crate::compact::{Compactor, Report};
use crate::fleet::runtime;
use crate::options::{StoreOptions, note_left_out, show};
use crate::period::duration;
use crate::{DisplayOptions, Failure};
use clap::Args;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use whyslow_show::plain;
use whyslow_show::text::Sheet;

/// How often, and what to keep.
#[derive(Debug, Args)]
pub struct CompactArgs {
    #[command(flatten)]
    store: StoreOptions,
    /// Delete hours that ended longer ago: 90d [default: keep all]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    keep: Option<Duration>,
    /// Do it once and end [default]
    #[arg(long, conflicts_with = "every")]
    once: bool,
    /// Do it again and again, with this much time between beginnings: 1h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    every: Option<Duration>,
    /// How long files that are replaced stay for queries that are reading them
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration)]
    grace: Duration,
}

/// Interval for checking whether a signal arrived.
const NOTICE: Duration = Duration::from_millis(200);

/// Schema name of the answer.
pub(super) const SCHEMA: &str = "whyslow.fleet.compact/1";

#[derive(JsonSchema, Serialize)]
pub(super) struct CompactAnswer<'r> {
    schema: &'static str,
    at: String,
    #[serde(flatten)]
    report: &'r Report,
}

/// Compacts once, or repeatedly until SIGTERM or Ctrl-C.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn run(args: &CompactArgs, options: &DisplayOptions) -> Result<ExitCode, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::usage(format!("cannot handle signals: {e}")))?;
    }
    let compactor = Compactor::new(args.store.open()?, args.keep, args.grace);
    let runtime = runtime()?;
    loop {
        let begun = Instant::now();
        let now = Timestamp::now();
        let report = match runtime.block_on(compactor.pass(now.as_millisecond(), &stop)) {
            Ok(report) => report,
            // A store that is unreachable for a while is no reason to exit.
            Err(failure) if args.every.is_some() => Report { failed: vec![failure.to_string()], ..Report::default() },
            Err(failure) => return Err(failure),
        };
        let answer = CompactAnswer { schema: SCHEMA, at: now.to_string(), report: &report };
        show(options, &answer, |sheet| draw(sheet, &report))?;
        let Some(every) = args.every.filter(|_| !args.once) else {
            return Ok(ExitCode::from(u8::from(!report.failed.is_empty())));
        };
        while begun.elapsed() < every && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(NOTICE.min(every));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn draw(sheet: &mut Sheet, report: &Report) {
    sheet.paragraph(&[plain(format!(
        "Compacted {} files of hosts into {}; deleted {} files that were replaced and {} hours that are too old.",
        report.files, report.compacted, report.deleted, report.expired
    ))]);
    if report.requests > 0 {
        sheet
            .paragraph(&[plain(format!("Deleted {} requests for parts of recordings, and answers.", report.requests))]);
    }
    for failed in &report.failed {
        sheet.paragraph(&[plain(format!("Not compacted: {failed}"))]);
    }
    note_left_out(sheet, &report.left_out);
}
