//! `why`: shows what the hosts with a finding share and the others lack.

use super::Answer;
use crate::cell::{boolean, double, text, timestamp};
use crate::options::{note_left_out, show};
use crate::period::duration;
use crate::span::{DAY_MS, HOUR_MS};
use crate::{DisplayOptions, Failure, Fleet, Period, QueryOptions, Span, sql};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;
use whyslow_compare::fleet::{Candidate, Cohort, Feature, Why};
use whyslow_show::text::Sheet;
use whyslow_show::{bold, plain};

/// Schema name of the answer.
pub(super) const SCHEMA: &str = "whyslow.fleet.why/1";
/// A host that loses this many seconds of an hour to a finding is sick: one percent, as for all shares of time.
const SICK_S: f64 = 36.0;
/// A change may be noticed this long after it was made.
const SEEN_LATE_MS: i64 = 10 * 60_000;
/// Number of hosts whose inventories are in memory at a time.
const HOSTS_AT_ONCE: usize = 500;
/// Maximum number of correlated features that the screen names.
const MOST_NAMED: usize = 4;

/// Options of `why`.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The finding, as 'sick' names it
    #[arg(value_name = "FINDING")]
    pub finding: String,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub store: QueryOptions,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub period: Period,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub options: WhyOptions,
}

/// How the hosts are compared.
#[derive(Debug, Args)]
pub struct WhyOptions {
    /// How long before a host became sick a change counts
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    pub before: Duration,
    /// Compare hosts only with those that have the same value of this label
    #[arg(long, value_name = "LABEL", default_value = "role")]
    pub within: String,
}

/// What the hosts with a finding share.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct WhyFinding {
    finding: String,
    #[serde(flatten)]
    why: Why,
    /// Hosts that lost some time to the finding, but less than a hundredth of any hour: neither sick nor healthy.
    barely: usize,
    /// Sick hosts that were so when the span began: what changed before is not known.
    sick_from_the_start: usize,
    /// Sick and healthy hosts without an inventory.
    without_inventory: usize,
}

/// Runs `whyslow-fleet why`.
///
/// # Errors
/// Fails if the store cannot be read or nothing was shipped in that time.
pub fn run(args: &WhyArgs, options: &DisplayOptions) -> Result<ExitCode, Failure> {
    let fleet = args.store.open(&args.period)?;
    let content = ask(&fleet, &args.finding, &args.options)?;
    let answer = Answer::new(&fleet, SCHEMA, content);
    show(options, &answer, |sheet| draw(&answer, sheet))?;
    Ok(ExitCode::SUCCESS)
}

/// A host, and since when it is sick.
struct Observed {
    name: String,
    is_sick: bool,
    /// Onset in milliseconds since 1970; `None` if the host is healthy or was already sick before the span.
    onset: Option<i64>,
}

/// Returns what the hosts with a finding share.
///
/// # Errors
/// Fails if the store cannot be read or nothing was shipped in that time.
pub(super) fn ask(fleet: &Fleet, finding: &str, options: &WhyOptions) -> Result<WhyFinding, Failure> {
    let span = fleet.span();
    let affected = affected(fleet, finding)?;
    let mut hosts = Vec::new();
    let mut barely = 0;
    for row in &fleet.query(&sql::hosts(span))?.rows {
        let Some(name) = row.first().and_then(text) else { continue };
        let of_host = affected.get(name).map_or(&[][..], Vec::as_slice);
        let is_sick = of_host.iter().any(|hour| hour.lost_s >= SICK_S);
        if !is_sick && !of_host.is_empty() {
            barely += 1;
            continue;
        }
        hosts.push(Observed { name: name.to_owned(), is_sick, onset: onset(of_host, span) });
    }
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    if hosts.is_empty() {
        return Err(Failure::nothing("no host has shipped anything in that time"));
    }
    let is_sick: Vec<bool> = hosts.iter().map(|host| host.is_sick).collect();
    let mut cohort = Cohort::new(&is_sick, &options.within);
    let without_inventory = add_inventory(fleet, &hosts, &mut cohort)?;
    add_changes(fleet, &hosts, &mut cohort, i64::try_from(options.before.as_millis()).unwrap_or(i64::MAX))?;
    Ok(WhyFinding {
        finding: finding.to_owned(),
        why: cohort.why(),
        barely,
        sick_from_the_start: hosts.iter().filter(|host| host.is_sick && host.onset.is_none()).count(),
        without_inventory,
    })
}

/// Time that a host lost to the finding in an hour.
struct HourLost {
    at: i64,
    lost_s: f64,
    began_before: bool,
}

fn affected(fleet: &Fleet, finding: &str) -> Result<BTreeMap<String, Vec<HourLost>>, Failure> {
    let mut affected: BTreeMap<String, Vec<HourLost>> = BTreeMap::new();
    for row in &fleet.query(&sql::episodes_of(fleet.span(), finding))?.rows {
        let [host, at, lost_s, began_before] = &row[..] else { continue };
        if let (Some(host), Some(at), Some(lost_s)) = (text(host), timestamp(at), double(lost_s)) {
            let began_before = boolean(began_before).unwrap_or(false);
            let hours = affected.entry(host.to_owned()).or_default();
            match hours.last_mut() {
                Some(last) if last.at.div_euclid(HOUR_MS) == at.div_euclid(HOUR_MS) => last.lost_s += lost_s,
                _ => hours.push(HourLost { at, lost_s, began_before }),
            }
        }
    }
    Ok(affected)
}

/// Returns when a host became sick: the start of the consecutive hours that lead to the first sick one.
fn onset(hours: &[HourLost], span: Span) -> Option<i64> {
    let mut first = hours.iter().position(|hour| hour.lost_s >= SICK_S)?;
    while first > 0 && hours[first].at.div_euclid(HOUR_MS) - hours[first - 1].at.div_euclid(HOUR_MS) == 1 {
        first -= 1;
    }
    let hour = &hours[first];
    (!hour.began_before && hour.at > span.from_ms).then_some(hour.at)
}

/// Adds each host's latest inventory, and returns the number of hosts without one.
fn add_inventory(fleet: &Fleet, hosts: &[Observed], cohort: &mut Cohort) -> Result<usize, Failure> {
    let numbers: BTreeMap<&str, usize> = hosts.iter().enumerate().map(|(at, host)| (host.name.as_str(), at)).collect();
    // Inventories are read once a day.
    let span = fleet.span().extended_back(2 * DAY_MS);
    let fleet = fleet.with_span(span);
    let mut known = vec![false; hosts.len()];
    for some in hosts.chunks(HOSTS_AT_ONCE) {
        let (Some(first), Some(last)) = (some.first(), some.last()) else { continue };
        let rows = fleet.query(&sql::inventory(span, (&first.name, &last.name)))?.rows;
        // Time of the latest inventory of this host and kind: rows of earlier ones follow.
        let mut latest: Option<(&str, &str, i64)> = None;
        for row in &rows {
            let [host, kind, at, name, value] = &row[..] else { continue };
            let (Some(host), Some(kind), Some(at)) = (text(host), text(kind), timestamp(at)) else { continue };
            if latest.is_none_or(|(of, of_kind, _)| (of, of_kind) != (host, kind)) {
                latest = Some((host, kind, at));
            }
            let is_latest = latest.is_some_and(|(_, _, latest)| latest == at);
            if let (true, Some(&number), Some(name), Some(value)) =
                (is_latest, numbers.get(host), text(name), text(value))
            {
                known[number] = true;
                cohort.add(number, Feature::new(kind, name, value));
            }
        }
    }
    Ok(known.iter().filter(|known| !**known).count())
}

/// Adds changes: for a sick host those shortly before the onset, for a healthy host those at any time of the span.
fn add_changes(fleet: &Fleet, hosts: &[Observed], cohort: &mut Cohort, before_ms: i64) -> Result<(), Failure> {
    let numbers: BTreeMap<&str, usize> = hosts.iter().enumerate().map(|(at, host)| (host.name.as_str(), at)).collect();
    let span = fleet.span().extended_back(before_ms);
    for row in &fleet.with_span(span).query(&sql::all_changes(span))?.rows {
        let [host, at, kind, name, old, new] = &row[..] else { continue };
        let Some(&number) = text(host).and_then(|host| numbers.get(host)) else { continue };
        let host = &hosts[number];
        let (Some(at), Some(kind), Some(name)) = (timestamp(at), text(kind), text(name)) else { continue };
        let counts = match host.onset {
            Some(onset) => (onset.saturating_sub(before_ms)..=onset.saturating_add(SEEN_LATE_MS)).contains(&at),
            None => !host.is_sick,
        };
        if counts {
            cohort.add(number, Feature::change(kind, name, text(old), text(new)));
        }
    }
    Ok(())
}

fn draw(answer: &Answer<WhyFinding>, sheet: &mut Sheet) {
    let content = &answer.content;
    let WhyFinding { finding, why, .. } = content;
    sheet.heading(&format!("{finding}: {} of {} hosts sick", why.sick, why.sick + why.healthy));
    sheet.paragraph(&[bold(&why.summary)]);
    for (at, candidate) in why.candidates.iter().enumerate() {
        let first = &candidate.features[0];
        if at > 0 {
            let Candidate { sick_with, sick_known, healthy_with, healthy_known, .. } = candidate;
            let counts = format!(
                "{sick_with} of {sick_known} sick hosts have it, {healthy_with} of {healthy_known} healthy ones"
            );
            sheet.paragraph(&[bold(format!("Beside it, {first}: {counts}."))]);
        }
        sheet.paragraph(&[plain(effect(candidate))]);
        let others = candidate.features[1..].iter().chain(&candidate.inseparable);
        list(sheet, &format!("Cannot be distinguished from {first}"), others);
        list(sheet, &format!("Explained by {first}"), candidate.explained.iter());
    }
    let within = why.within.as_ref().map(|label| format!("Hosts were compared with others of the same {label}. "));
    let mut remarks = format!(
        "{}{} different features tested. Sick: lost a hundredth of an hour to it.",
        within.unwrap_or_default(),
        why.tests
    );
    for caveat in &why.caveats {
        remarks.push_str(&format!(" Note: {caveat}."));
    }
    let mut note = |count: usize, what: &str| {
        if count > 0 {
            remarks.push_str(&format!(" {count} {what}."));
        }
    };
    note(content.barely, "hosts lost a little time to it, and count neither as sick nor as healthy");
    note(
        content.sick_from_the_start,
        "were sick from the start of that time: what was changed before is not known (--since)",
    );
    note(content.without_inventory, "hosts sent no inventory");
    sheet.blank();
    sheet.remark(&remarks);
    note_left_out(sheet, &answer.left_out);
}

/// Describes how much more often hosts with the feature are sick.
fn effect(of: &Candidate) -> String {
    let points = |share: f64| format!("{:.0}", 100.0 * share);
    let difference = of.risk_difference;
    let (low, high) = (points(difference.low), points(difference.high.unwrap_or(1.0)));
    let p = if of.p < 0.001 { "< 0.001".to_owned() } else { format!("= {:.3}", of.p) };
    let odds = of.odds_ratio.low;
    format!(
        "Hosts with it are sick {} points more often (95 % interval {low} to {high}), and their odds at least {odds:.*} times as \
         high; p {p}, corrected.",
        points(difference.estimate.unwrap_or(1.0)),
        usize::from(odds < 10.0),
    )
}

fn list<'f>(sheet: &mut Sheet, title: &str, features: impl Iterator<Item = &'f Feature>) {
    let features: Vec<String> = features.map(Feature::to_string).collect();
    if features.is_empty() {
        return;
    }
    let more = features.len().saturating_sub(MOST_NAMED);
    let more = if more == 0 { String::new() } else { format!(", {more} more with --json") };
    let named = features[..features.len().min(MOST_NAMED)].join(", ");
    sheet.paragraph(&[plain(format!("{title}: {named}{more}."))]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_sick_since_the_first_of_the_hours_that_led_to_it() {
        let span = Span { from_ms: 0, to_ms: 24 * HOUR_MS };
        let hour = |hour: i64, lost_s: f64| HourLost { at: hour * HOUR_MS + 60_000, lost_s, began_before: false };
        // A trace at 2:01, a little from 5:01, and sick from 6:01.
        let hours = [hour(2, 1.0), hour(5, 10.0), hour(6, 100.0), hour(7, 500.0)];
        assert_eq!(onset(&hours, span), Some(5 * HOUR_MS + 60_000));
        assert_eq!(onset(&hours[..2], span), None);
        let before = [HourLost { at: 0, lost_s: 50.0, began_before: true }];
        assert_eq!(onset(&before, span), None);
    }
}
