//! `whyslow-fleet host`: shows what happened on one host.

mod over_store;
mod raw;
mod timeline;

pub use timeline::{Entry, EntryKind};

use super::sick::{count, hosts};
use super::{Answer, minute, span_in_words};
use crate::cell::{double, text, timestamp};
use crate::options::{note_left_out, show};
use crate::period::{between, duration};
use crate::span::rfc3339;
use crate::table::INVENTORY_REACH_MS;
use crate::{DisplayOptions, Failure, Fleet, Period, QueryOptions, Span, sql};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use whyslow_model::human;
use whyslow_show::text::Sheet;
use whyslow_show::{Ink, Piece, bold, dim, plain};

/// Schema name of the answer.
pub(super) const SCHEMA: &str = "whyslow.fleet.host/1";

/// Which host.
#[derive(Debug, Args)]
pub struct HostArgs {
    /// The host, by the name that it ships as
    host: String,
    #[command(flatten)]
    store: QueryOptions,
    #[command(flatten)]
    period: Period,
    /// Print the command that explains this span of the host's own recording, over your ssh; it only reads
    #[arg(long, value_name = "FROM..TO", value_parser = between, conflicts_with_all = ["since", "from", "to"])]
    raw: Option<Span>,
    /// With --raw: the metrics of this family as CSV instead of an explanation
    #[arg(long, value_name = "FAMILY", requires = "raw")]
    export: Option<String>,
    /// With --raw: run the command
    #[arg(long, requires = "raw")]
    run: bool,
    /// With --raw: ask over the store instead, with a request that this private key signs, and explain what the host answers
    #[arg(long, value_name = "PEM", requires = "raw", conflicts_with = "run")]
    key: Option<PathBuf>,
    /// With --key: how long to wait for the answer; hosts look once a minute
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration, requires = "key")]
    wait: Duration,
    /// With --key: keep that part of the recording in this folder instead of explaining it
    #[arg(long, value_name = "DIR", requires = "key")]
    save: Option<PathBuf>,
    /// The most entries of the timeline to show; 0: all
    #[arg(long, value_name = "ENTRIES", default_value_t = 20)]
    limit: usize,
}

/// What happened on a host.
#[derive(Debug, JsonSchema, Serialize)]
pub struct HostReport {
    /// Its name.
    pub host: String,
    /// What is known of it: kernel, machine, labels.
    pub properties: Vec<Property>,
    /// Seconds that were observed.
    pub seconds: f64,
    /// Seconds that were judged.
    pub judged_s: f64,
    /// Seconds that it lost.
    pub lost_s: f64,
    /// What happened, in order of time.
    pub timeline: Vec<Entry>,
    /// Entries that are left out.
    pub more: usize,
    /// The minutes in which it lost the most.
    pub worst_minutes: Vec<WorstMinute>,
}

/// A property of the inventory.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Property {
    /// `kernel`, `machine` or `label`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its latest value.
    pub value: String,
}

/// A minute.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct WorstMinute {
    /// When it began.
    pub at: String,
    /// Seconds lost in it.
    pub lost_s: f64,
    #[serde(skip)]
    ms: i64,
}

/// Shows what happened on a host.
///
/// # Errors
/// Fails if the store cannot be read or has no data from the host.
pub fn run(args: &HostArgs, options: &DisplayOptions) -> Result<ExitCode, Failure> {
    if let Some(span) = args.raw {
        return match &args.key {
            None => raw::run(&args.host, span, args.export.as_deref(), args.run),
            Some(key) => over_store::run(args, span, key, options),
        };
    }
    let fleet = args.store.open(&args.period)?;
    let report = report(&fleet, &args.host, args.limit)?;
    let answer = Answer::new(&fleet, SCHEMA, report);
    show(options, &answer, |sheet| draw(sheet, &fleet, &answer))?;
    Ok(ExitCode::SUCCESS)
}

fn nothing(fleet: &Fleet, host: &str) -> Failure {
    let names: Vec<String> = hosts(fleet, None).unwrap_or_default().into_iter().map(|host| host.host).collect();
    let closest = whyslow_model::suggest::closest(host, &names);
    let question = closest.map_or_else(String::new, |name| whyslow_model::suggest::question(&name));
    Failure::nothing(format!("{host} has shipped nothing of {}{question}", span_in_words(fleet.span())))
}

/// Reports what happened on a host, with at most `limit` timeline entries (0: all).
///
/// # Errors
/// Fails if the store cannot be read or has no data from the host.
pub(super) fn report(fleet: &Fleet, host: &str, limit: usize) -> Result<HostReport, Failure> {
    let span = fleet.span();
    let mut minutes = Vec::new();
    let (mut seconds, mut judged_s, mut lost_s) = (0.0, 0.0, 0.0);
    for row in fleet.query(&sql::minutes(span, [host]))?.rows {
        let Some(ms) = timestamp(&row[1]) else { continue };
        let number = |at: usize| double(&row[at]).unwrap_or(0.0);
        (seconds, judged_s, lost_s) = (seconds + number(2), judged_s + number(3), lost_s + number(4));
        minutes.push(WorstMinute { at: rfc3339(ms), lost_s: number(4), ms });
    }
    let mut timeline = timeline::episodes(&fleet.query(&sql::episodes(span, [host]))?);
    timeline.extend(timeline::changes(&fleet.query(&sql::changes(span, host))?));
    let times: Vec<i64> = minutes.iter().map(|minute| minute.ms).collect();
    timeline.extend(timeline::gaps(&times, span));
    if seconds == 0.0 && timeline.is_empty() && fleet.left_out().is_empty() {
        return Err(nothing(fleet, host));
    }
    let limit = if limit == 0 { timeline.len() } else { limit };
    let (timeline, more) = timeline::most_important(timeline, limit);
    let properties = properties(fleet, host)?;
    Ok(HostReport {
        host: host.to_owned(),
        properties,
        seconds,
        judged_s,
        lost_s,
        timeline,
        more,
        worst_minutes: worst(minutes),
    })
}

/// Returns a shell command that explains a span of the host's own recording, or exports a metric family from it.
///
/// # Errors
/// Fails if the host name cannot be passed to ssh or the metric family does not exist.
pub(super) fn raw_command(host: &str, span: Span, export: Option<&str>) -> Result<String, Failure> {
    Ok(raw::shown(&raw::command(host, span, export)?))
}

fn worst(mut minutes: Vec<WorstMinute>) -> Vec<WorstMinute> {
    const MOST: usize = 5;
    minutes.retain(|minute| minute.lost_s > 0.0);
    minutes.sort_by(|a, b| b.lost_s.total_cmp(&a.lost_s).then(a.ms.cmp(&b.ms)));
    minutes.truncate(MOST);
    minutes
}

fn properties(fleet: &Fleet, host: &str) -> Result<Vec<Property>, Failure> {
    let span = fleet.span().extended_back(INVENTORY_REACH_MS);
    let mut properties: Vec<Property> = Vec::new();
    for row in fleet.query(&sql::properties(span, host))?.rows {
        let [Some(kind), Some(name), Some(value)] = [&row[0], &row[1], &row[2]].map(text) else { continue };
        // The rows are in chronological order: a later value replaces an earlier one.
        let is_same = |last: &Property| last.kind == kind && last.name == name;
        if properties.last().is_some_and(is_same) {
            properties.pop();
        }
        properties.push(Property { kind: kind.into(), name: name.into(), value: value.into() });
    }
    Ok(properties)
}

fn draw(sheet: &mut Sheet, fleet: &Fleet, answer: &Answer<HostReport>) {
    let report = &answer.content;
    let share = if report.judged_s > 0.0 {
        format!(" ({} of the time in which it was judged)", human::percent(report.lost_s / report.judged_s))
    } else {
        String::new()
    };
    sheet.paragraph(&[
        bold(&report.host),
        plain(format!(" lost {}{share} in ", human::quantity(report.lost_s, "s"))),
        plain(span_in_words(fleet.span())),
        plain("."),
    ]);
    const TOLD: [(&str, &str); 3] = [("kernel", "release"), ("machine", "model"), ("machine", "cpu")];
    let is_told = |property: &&Property| {
        property.kind == "label" || TOLD.contains(&(property.kind.as_str(), property.name.as_str()))
    };
    let told: Vec<String> = report
        .properties
        .iter()
        .filter(is_told)
        .map(|property| format!("{} {}", property.name, property.value))
        .collect();
    if !told.is_empty() {
        sheet.remark(&told.join(", "));
    }
    sheet.blank();
    if report.timeline.is_empty() {
        sheet.paragraph(&[Piece::new(Ink::Green, "No episode, no change, no gap.")]);
    }
    for entry in &report.timeline {
        sheet.paragraph(&[dim(minute(entry.at_ms())), plain("  "), Piece::new(entry.ink(), entry.in_words())]);
    }
    if report.more > 0 {
        sheet.remark(&format!("{} of less weight left out: --limit 0 shows all.", count(report.more, "episode")));
    }
    if let [first, ..] = report.worst_minutes.as_slice() {
        let minutes: Vec<String> = report
            .worst_minutes
            .iter()
            .map(|worst| format!("{} ({})", minute(worst.ms), human::quantity(worst.lost_s, "s")))
            .collect();
        sheet.blank();
        sheet.paragraph(&[plain(format!("Worst minutes: {}.", minutes.join(", ")))]);
        let span = Span { from_ms: first.ms - 300_000, to_ms: first.ms + 360_000 };
        if let Ok(command) = raw_command(&report.host, span, None) {
            sheet.remark("What the host itself recorded of the first:");
            sheet.command(&command);
        }
    }
    note_left_out(sheet, &answer.left_out);
}
