//! `whyslow-fleet sick`: shows which hosts lose time, to what, since when, and whether it is getting worse.

mod groups;
mod history;

pub(super) use groups::properties;
pub use groups::{Group, GroupKey};
pub use history::{SickSince, Trend};

use super::{Answer, minute, span_in_words};
use crate::cell::{double, text, timestamp};
use crate::options::{note_left_out, show};
use crate::span::{DAY_MS, HOUR_MS, rfc3339};
use crate::{DisplayOptions, Failure, Fleet, Period, QueryOptions, sql};
use clap::Args;
use history::{History, SinceDocument};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;
use whyslow_model::human;
use whyslow_show::text::Sheet;
use whyslow_show::{Ink, Piece, plain};

/// Schema name of the answer.
pub(super) const SCHEMA: &str = "whyslow.fleet.sick/1";
/// Minimum share of lost time, relative to the judged time, for a host to count as sick.
pub const SICK_SHARE: f64 = 0.01;
/// Hosts that shipped in this time before the span, but not in the span, are reported as missing.
const KNOWN_MS: i64 = 2 * DAY_MS;
/// A host is silent if nothing from this long before the end of the span has arrived: hosts ship every ten minutes.
const SILENT_MS: i64 = HOUR_MS;

/// Which hosts, and how many.
#[derive(Debug, Args)]
pub struct SickArgs {
    #[command(flatten)]
    store: QueryOptions,
    #[command(flatten)]
    period: Period,
    /// Only time lost to this finding, such as disk.saturated
    #[arg(long, value_name = "ID")]
    finding: Option<String>,
    /// Group the hosts: finding, kernel, model, a label such as role or rack, or KIND/NAME of the inventory, such as
    /// sysctl/vm.swappiness
    #[arg(long, value_name = "KEY", value_parser = GroupKey::parse)]
    by: Option<GroupKey>,
    /// The most hosts to show; 0: all
    #[arg(long, value_name = "HOSTS", default_value_t = 8)]
    limit: usize,
}

/// What hosts lost.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Sick {
    /// Hosts of which there are minutes.
    pub observed: usize,
    /// Those of them that lost at least [`SICK_SHARE`] of their time.
    pub sick: usize,
    /// Hosts that shipped in the two days before and not in this time: how they are is not known.
    pub not_reporting: Vec<NotReporting>,
    /// Observed hosts of whose last hour there is nothing.
    pub silent: Vec<NotReporting>,
    /// Those that lost the most, sick or not.
    pub hosts: Vec<SickHost>,
    /// How many more lost time.
    pub more: usize,
    /// What was lost to each finding, by all hosts.
    pub findings: Vec<FindingOfFleet>,
    /// The groups that were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<Group>>,
}

/// A host of which there is nothing.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct NotReporting {
    /// Its name.
    pub host: String,
    /// The last of what there is.
    pub last: String,
}

/// What a host lost.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SickHost {
    /// Its name.
    pub host: String,
    /// Seconds in which it was judged.
    pub judged_s: f64,
    /// Seconds that it lost.
    pub lost_s: f64,
    /// Their share; none if it was not judged.
    pub share: Option<f64>,
    /// The minute that was last observed.
    #[serde(skip)]
    pub last_ms: i64,
    /// Whether it loses more in the second half of the time than in the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trend: Option<Trend>,
    /// To what, the most first.
    pub findings: Vec<LostTo>,
}

/// What a host lost to a finding.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LostTo {
    /// The finding's id.
    pub finding: String,
    /// Seconds lost to it. Causes at the same time each count, so that their sum can be more than the host lost.
    pub lost_s: f64,
    /// The greatest share of a window that it cost.
    pub worst: f64,
    /// Since when the host has it, after an hour without.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SinceDocument>")]
    pub since: Option<SickSince>,
}

/// What all hosts lost to a finding.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FindingOfFleet {
    /// The finding's id.
    pub finding: String,
    /// Hosts that have it.
    pub hosts: usize,
    /// Seconds lost to it.
    pub lost_s: f64,
}

impl SickHost {
    /// Returns whether the host lost enough time to count as sick.
    pub fn is_sick(&self) -> bool {
        self.share.is_some_and(|share| share >= SICK_SHARE)
    }

    /// Returns whether nothing arrived from the last hour of a span that ends at `to_ms`.
    pub(super) fn is_silent(&self, to_ms: i64) -> bool {
        self.last_ms < to_ms - SILENT_MS
    }
}

/// Shows which hosts lose time.
///
/// # Errors
/// Fails if the store cannot be read or no host has shipped anything.
pub fn run(args: &SickArgs, options: &DisplayOptions) -> Result<ExitCode, Failure> {
    let fleet = args.store.open(&args.period)?;
    let sick = sick(&fleet, args.finding.as_deref(), args.by.as_ref(), args.limit)?;
    let answer = Answer::new(&fleet, SCHEMA, sick);
    let nobody = answer.content.observed == 0;
    if nobody && answer.content.not_reporting.is_empty() && answer.left_out.is_empty() {
        return Err(Failure::nothing(format!("no host has shipped anything of {}", span_in_words(fleet.span()))));
    }
    show(options, &answer, |sheet| draw(sheet, &fleet, &answer, args))?;
    Ok(ExitCode::from(u8::from(nobody)))
}

/// Summarizes what hosts lost, optionally to one finding only. Lists at most `limit` hosts (0: all).
///
/// # Errors
/// Fails if the store cannot be read.
pub(super) fn sick(fleet: &Fleet, finding: Option<&str>, by: Option<&GroupKey>, limit: usize) -> Result<Sick, Failure> {
    let mut hosts = hosts(fleet, finding)?;
    let not_reporting = not_reporting(fleet, &hosts)?;
    let silent = silent(&hosts, fleet.span().to_ms);
    let findings = findings_of_fleet(&hosts);
    let groups = by.map(|key| groups::groups(fleet, key, &hosts)).transpose()?;
    let (observed, sick) = (hosts.len(), hosts.iter().filter(|host| host.is_sick()).count());
    hosts.retain(|host| host.lost_s > 0.0);
    hosts.sort_by(|a, b| b.lost_s.total_cmp(&a.lost_s).then_with(|| a.host.cmp(&b.host)));
    let shown = if limit == 0 { hosts.len() } else { limit.min(hosts.len()) };
    let more = hosts.len() - shown;
    hosts.truncate(shown);
    with_history(fleet, &mut hosts)?;
    Ok(Sick { observed, sick, not_reporting, silent, hosts, more, findings, groups })
}

/// Returns all observed hosts in the order of their names, without history; optionally only what they lost to one
/// finding.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn hosts(fleet: &Fleet, finding: Option<&str>) -> Result<Vec<SickHost>, Failure> {
    let mut lost: HashMap<String, Vec<LostTo>> = HashMap::new();
    for row in fleet.query(&sql::findings(fleet.span()))?.rows {
        let [Some(host), Some(id)] = [text(&row[0]), text(&row[1])] else { continue };
        if finding.is_none_or(|finding| finding == id) {
            let (lost_s, worst) = (double(&row[2]).unwrap_or(0.0), double(&row[3]).unwrap_or(0.0));
            lost.entry(host.to_owned()).or_default().push(LostTo {
                finding: id.to_owned(),
                lost_s,
                worst,
                since: None,
            });
        }
    }
    let mut hosts = Vec::new();
    for row in fleet.query(&sql::hosts(fleet.span()))?.rows {
        let (Some(host), Some(last_ms)) = (text(&row[0]).map(str::to_owned), timestamp(&row[4])) else { continue };
        let findings = lost.remove(&host).unwrap_or_default();
        let judged_s = double(&row[2]).unwrap_or(0.0);
        let lost_s = match finding {
            None => double(&row[3]).unwrap_or(0.0),
            Some(_) => findings.iter().map(|finding| finding.lost_s).sum(),
        };
        let share = (judged_s > 0.0).then(|| lost_s / judged_s);
        hosts.push(SickHost { host, judged_s, lost_s, share, last_ms, trend: None, findings });
    }
    hosts.sort_by(|a, b| a.host.cmp(&b.host));
    Ok(hosts)
}

/// Returns hosts that shipped in the time before the span but were not observed in it.
///
/// # Errors
/// Fails if the store cannot be read.
pub(super) fn not_reporting(fleet: &Fleet, observed: &[SickHost]) -> Result<Vec<NotReporting>, Failure> {
    let mut known = fleet.hosts(fleet.span().preceding(KNOWN_MS))?;
    for host in observed {
        known.remove(&host.host);
    }
    Ok(known.into_iter().map(|(host, hour)| NotReporting { host, last: rfc3339(hour.start()) }).collect())
}

fn silent(hosts: &[SickHost], to_ms: i64) -> Vec<NotReporting> {
    let entry = |host: &SickHost| NotReporting { host: host.host.clone(), last: rfc3339(host.last_ms) };
    hosts.iter().filter(|host| host.is_silent(to_ms)).map(entry).collect()
}

fn findings_of_fleet(hosts: &[SickHost]) -> Vec<FindingOfFleet> {
    let mut findings: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for lost in hosts.iter().flat_map(|host| &host.findings) {
        let (hosts, sum) = findings.entry(&lost.finding).or_default();
        *hosts += 1;
        *sum += lost.lost_s;
    }
    let entry = |(finding, (hosts, lost_s)): (&str, _)| FindingOfFleet { finding: finding.to_owned(), hosts, lost_s };
    let mut findings: Vec<FindingOfFleet> = findings.into_iter().map(entry).collect();
    findings.sort_by(|a, b| b.lost_s.total_cmp(&a.lost_s).then_with(|| a.finding.cmp(&b.finding)));
    findings
}

/// Adds since when each finding exists, and the trend of each host.
fn with_history(fleet: &Fleet, hosts: &mut [SickHost]) -> Result<(), Failure> {
    if hosts.is_empty() {
        return Ok(());
    }
    let history = History::read(fleet, hosts.iter().map(|host| host.host.as_str()))?;
    let trends = history.trends(hosts.iter().map(|host| host.host.as_str()));
    for (host, trend) in hosts.iter_mut().zip(trends) {
        host.trend = Some(trend);
        for lost in &mut host.findings {
            lost.since = history.since(&host.host, &lost.finding);
        }
    }
    Ok(())
}

fn draw(sheet: &mut Sheet, fleet: &Fleet, answer: &Answer<Sick>, args: &SickArgs) {
    let sick = &answer.content;
    let ink = if sick.sick > 0 { Ink::Red } else { Ink::Green };
    let lost = format!(": they lost at least {} of their time in ", human::percent(SICK_SHARE));
    sheet.paragraph(&[
        Piece::new(ink, format!("{} of {} sick", sick.sick, count(sick.observed, "host"))),
        plain(lost),
        plain(span_in_words(fleet.span())),
        plain("."),
    ]);
    if !sick.hosts.is_empty() {
        sheet.blank();
        hosts_table(sheet, &sick.hosts);
        if sick.more > 0 {
            sheet.remark(&format!("{} more lost time: --limit 0 shows all.", sick.more));
        }
    }
    match (&args.by, &sick.groups) {
        (Some(key), Some(groups)) => groups::draw(sheet, key, groups),
        _ => findings_table(sheet, &sick.findings),
    }
    missing(sheet, "Did not report, though they did in the two days before", &sick.not_reporting);
    missing(sheet, "Silent at the end", &sick.silent);
    note_left_out(sheet, &answer.left_out);
}

fn hosts_table(sheet: &mut Sheet, hosts: &[SickHost]) {
    let rows = hosts.iter().map(|host| {
        let main = host.findings.first();
        let others = host.findings.len().saturating_sub(1);
        let others = if others == 0 { String::new() } else { format!(" +{others}") };
        [
            host.host.clone(),
            main.map_or_else(|| "no finding".to_owned(), |main| format!("{}{others}", main.finding)),
            main.and_then(|main| main.since.as_ref()).map_or_else(String::new, SickSince::in_words),
            host.trend.map_or("", Trend::in_words).to_owned(),
            human::quantity(host.lost_s, "s"),
            host.share.map_or_else(String::new, human::percent),
        ]
    });
    sheet.table(["host", "most lost to", "since", "trend", "lost", "share"], 4, rows);
}

fn findings_table(sheet: &mut Sheet, findings: &[FindingOfFleet]) {
    const MOST: usize = 4;
    if findings.is_empty() {
        return;
    }
    sheet.blank();
    let rows = findings
        .iter()
        .take(MOST)
        .map(|finding| [finding.finding.clone(), finding.hosts.to_string(), human::quantity(finding.lost_s, "s")]);
    sheet.table(["finding", "hosts", "lost"], 1, rows);
    if findings.len() > MOST {
        sheet.remark(&format!("{} more: --by finding shows all.", findings.len() - MOST));
    }
}

fn missing(sheet: &mut Sheet, what: &str, hosts: &[NotReporting]) {
    const MOST: usize = 2;
    if hosts.is_empty() {
        return;
    }
    let last =
        |text: &str| text.parse::<jiff::Timestamp>().map_or_else(|_| text.to_owned(), |at| minute(at.as_millisecond()));
    let named: Vec<String> =
        hosts.iter().take(MOST).map(|host| format!("{} (last {})", host.host, last(&host.last))).collect();
    let others = hosts.len().saturating_sub(MOST);
    let others = if others == 0 { String::new() } else { format!(" and {others} more") };
    let text = format!("{what}: {}, {}{others}.", count(hosts.len(), "host"), named.join(", "));
    sheet.paragraph(&[Piece::new(Ink::Yellow, text)]);
}

/// Formats a count with its noun: `1 host`, `12 hosts`.
pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
