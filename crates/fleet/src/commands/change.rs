//! `change`: shows whether a change helped, before and after it, compared with hosts that did not make it.

use super::{Answer, minute};
use crate::cell::{double, integer, text, timestamp};
use crate::options::{note_left_out, show};
use crate::period::duration;
use crate::span::{DAY_MS, rfc3339};
use crate::{DisplayOptions, Failure, Fleet, Period, QueryOptions, Span, sql};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use whyslow_compare::fleet::{GroupResult, Lost, Rollout, RolloutHost, RolloutWindows, judge_rollout};
use whyslow_show::bold;
use whyslow_show::text::Sheet;

/// Schema name of the answer.
pub(super) const SCHEMA: &str = "whyslow.fleet.change/1";
/// Maximum number of hosts compared on each side: with more, the interval hardly gets narrower.
const MOST_HOSTS: usize = 2000;
/// Maximum number of changes listed on the screen.
const MOST_LISTED: usize = 10;

/// Options of `change`.
#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// The change, as listed without one: KIND:NAME, or KIND:NAME=VALUE for what it was changed to
    #[arg(value_name = "ID")]
    pub id: Option<ChangeId>,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub store: QueryOptions,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub period: Period,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub options: ChangeOptions,
}

/// How hosts are compared before and after the change.
#[derive(Debug, Args)]
pub struct ChangeOptions {
    /// How much time before and after the change to compare
    #[arg(long, value_name = "TIME", default_value = "6h", value_parser = duration)]
    pub window: Duration,
    /// How much time after the change to leave out: restarts and cold caches
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration)]
    pub settle: Duration,
    /// Compare hosts with others that have the same value of this label
    #[arg(long, value_name = "LABEL", default_value = "role")]
    pub within: String,
}

/// What a change did, or which there were.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct ChangeAnswer {
    /// The change that was judged; `None` if only a list was asked for.
    id: Option<String>,
    /// `None` without an id.
    rollout: Option<Rollout>,
    /// What was changed in that time, without an id.
    changes: Vec<ListedChange>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct ListedChange {
    id: String,
    hosts: i64,
    first: String,
    last: String,
    #[serde(skip)]
    first_ms: i64,
    #[serde(skip)]
    last_ms: i64,
}

/// Runs `whyslow-fleet change`.
///
/// # Errors
/// Fails if the store cannot be read or no host made the change.
pub fn run(args: &ChangeArgs, options: &DisplayOptions) -> Result<ExitCode, Failure> {
    let fleet = args.store.open(&args.period)?;
    let answer = Answer::new(&fleet, SCHEMA, ask(&fleet, args.id.as_ref(), &args.options)?);
    show(options, &answer, |sheet| draw(&answer, sheet))?;
    Ok(ExitCode::SUCCESS)
}

/// Judges the change with this id. Without an id, lists the changes that were made.
///
/// # Errors
/// Fails if the store cannot be read or no host made the change.
pub(super) fn ask(fleet: &Fleet, id: Option<&ChangeId>, options: &ChangeOptions) -> Result<ChangeAnswer, Failure> {
    let rollout = id.map(|id| judge(fleet, id, options)).transpose()?;
    let changes = if rollout.is_none() { list(fleet)? } else { Vec::new() };
    Ok(ChangeAnswer { id: id.map(ToString::to_string), rollout, changes })
}

/// A change: the kind and name of what changed, and optionally its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeId {
    kind: String,
    name: String,
    new: Option<String>,
}

impl FromStr for ChangeId {
    type Err = String;

    /// Parses `KIND:NAME` or `KIND:NAME=VALUE`.
    fn from_str(id: &str) -> Result<Self, String> {
        let parts = id.split_once(':').filter(|(kind, rest)| !kind.is_empty() && !rest.is_empty());
        let (kind, rest) = parts.ok_or_else(|| {
            format!("'{id}' is not a change such as kernel:release=6.8.0-45; without one, 'change' lists them")
        })?;
        let (name, new) = match rest.split_once('=') {
            Some((name, new)) => (name, Some(new.to_owned())),
            None => (rest, None),
        };
        Ok(Self { kind: kind.to_owned(), name: name.to_owned(), new })
    }
}

impl fmt::Display for ChangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, new } = self;
        let value = new.as_ref().map_or_else(String::new, |new| format!("={new}"));
        write!(f, "{kind}:{name}{value}")
    }
}

fn list(fleet: &Fleet) -> Result<Vec<ListedChange>, Failure> {
    let mut listed = Vec::new();
    for row in &fleet.query(&sql::common_changes(fleet.span()))?.rows {
        let [kind, name, new, hosts, first, last] = &row[..] else { continue };
        let (Some(kind), Some(name), Some(hosts)) = (text(kind), text(name), integer(hosts)) else { continue };
        let (Some(first), Some(last)) = (timestamp(first), timestamp(last)) else { continue };
        let value = text(new).map_or_else(String::new, |new| format!("={new}"));
        listed.push(ListedChange {
            id: format!("{kind}:{name}{value}"),
            hosts,
            first: rfc3339(first),
            last: rfc3339(last),
            first_ms: first,
            last_ms: last,
        });
    }
    Ok(listed)
}

fn judge(fleet: &Fleet, id: &ChangeId, options: &ChangeOptions) -> Result<Rollout, Failure> {
    let milliseconds = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 4);
    let windows = RolloutWindows {
        before_ms: milliseconds(options.window),
        settle_ms: milliseconds(options.settle),
        after_ms: milliseconds(options.window),
    };
    let span = fleet.span();
    let mut changed: BTreeMap<String, i64> = BTreeMap::new();
    for row in &fleet.query(&sql::when_changed(span, &id.kind, &id.name, id.new.as_deref()))?.rows {
        let [host, at] = &row[..] else { continue };
        if let (Some(host), Some(at)) = (text(host), timestamp(at)) {
            changed.insert(host.to_owned(), at);
        }
    }
    let (Some(first), Some(last)) = (changed.values().min(), changed.values().max()) else {
        return Err(Failure::nothing(
            "no host made that change in that time; without an id, 'change' lists those that were made",
        ));
    };
    let whole = Span {
        from_ms: first.saturating_sub(windows.before_ms),
        to_ms: last.saturating_add(windows.settle_ms).saturating_add(windows.after_ms),
    };
    let fleet = fleet.with_span(whole);
    let mut others = BTreeSet::new();
    for row in &fleet.query(&sql::hosts(whole))?.rows {
        if let Some(host) = row.first().and_then(text).filter(|host| !changed.contains_key(*host)) {
            others.insert(host.to_owned());
        }
    }
    let roles = roles(&fleet, whole, &options.within)?;
    let hosts: Vec<&str> = thinned(changed.keys()).into_iter().chain(thinned(others.iter())).collect();
    let mut lost: BTreeMap<&str, Vec<Lost>> = hosts.iter().map(|host| (*host, Vec::new())).collect();
    for row in &fleet.query(&sql::lost(whole, hosts.iter().copied()))?.rows {
        let [host, at, lost_s, judged_s] = &row[..] else { continue };
        let (Some(of), Some(at_ms)) = (text(host).and_then(|host| lost.get_mut(host)), timestamp(at)) else { continue };
        if let (Some(lost_s), Some(judged_s)) = (double(lost_s), double(judged_s)) {
            of.push(Lost { at_ms, lost_s, judged_s });
        }
    }
    let hosts: Vec<RolloutHost> = lost
        .into_iter()
        .map(|(host, lost)| RolloutHost {
            role: roles.get(host).cloned(),
            changed_ms: changed.get(host).copied(),
            lost,
        })
        .collect();
    Ok(judge_rollout(&hosts, &windows))
}

/// Returns the value of a label for each host that has it.
fn roles(fleet: &Fleet, span: Span, label: &str) -> Result<BTreeMap<String, Arc<str>>, Failure> {
    // Inventories are read once a day.
    let span = span.extended_back(2 * DAY_MS);
    let mut roles = BTreeMap::new();
    for row in &fleet.with_span(span).query(&sql::property(span, "label", label))?.rows {
        if let [host, value] = &row[..]
            && let (Some(host), Some(value)) = (text(host), text(value))
        {
            roles.insert(host.to_owned(), Arc::from(value));
        }
    }
    Ok(roles)
}

/// Returns at most `MOST_HOSTS` of the hosts, spread evenly over the sorted names.
fn thinned<'n>(names: impl ExactSizeIterator<Item = &'n String>) -> Vec<&'n str> {
    let step = names.len().div_ceil(MOST_HOSTS).max(1);
    names.step_by(step).map(String::as_str).collect()
}

fn draw(answer: &Answer<ChangeAnswer>, sheet: &mut Sheet) {
    let content = &answer.content;
    match &content.rollout {
        Some(rollout) => draw_rollout(content.id.as_deref().unwrap_or_default(), rollout, sheet),
        None => draw_list(&content.changes, sheet),
    }
    note_left_out(sheet, &answer.left_out);
}

fn draw_rollout(id: &str, rollout: &Rollout, sheet: &mut Sheet) {
    sheet.heading(&format!("{id}: {} hosts changed, in {} waves", rollout.changed, rollout.waves));
    sheet.paragraph(&[bold(&rollout.summary)]);
    sheet.blank();
    let headings = ["before the change", "changed", "lost before", "after", "unchanged", "before", "after", "p"];
    let row = |name: &str, of: &GroupResult| {
        let share = |share: f64| format!("{:.1} %", 100.0 * share);
        [
            name.to_owned(),
            of.changed.to_string(),
            share(of.changed_lost[0]),
            share(of.changed_lost[1]),
            of.controls.to_string(),
            share(of.controls_lost[0]),
            share(of.controls_lost[1]),
            if of.difference.is_none() { "too few".to_owned() } else { format!("{:.3}", of.p) },
        ]
    };
    sheet.table(headings, 1, [row("sick", &rollout.sick), row("healthy", &rollout.healthy)]);
    let mut notes: Vec<String> = rollout.caveats.iter().map(|caveat| format!("Note: {caveat}.")).collect();
    if rollout.unobserved > 0 {
        notes.push(format!("{} changed hosts were not observed long enough before and after.", rollout.unobserved));
    }
    if !notes.is_empty() {
        sheet.blank();
        sheet.remark(&notes.join(" "));
    }
}

fn draw_list(changes: &[ListedChange], sheet: &mut Sheet) {
    if changes.is_empty() {
        sheet.heading("Nothing was changed in that time.");
        return;
    }
    sheet.heading(&format!("{} different changes", changes.len()));
    let row = |change: &ListedChange| {
        [change.id.clone(), minute(change.first_ms), minute(change.last_ms), change.hosts.to_string()]
    };
    sheet.table(["change", "first", "last", "hosts"], 3, changes.iter().take(MOST_LISTED).map(row));
    if changes.len() > MOST_LISTED {
        sheet.remark(&format!("{} more with --json.", changes.len() - MOST_LISTED));
    }
    sheet.blank();
    sheet.remark("Whether one of them helped:");
    sheet.command(&format!("whyslow-fleet change {}", shlex::try_quote(&changes[0].id).unwrap_or_default()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_ids() {
        let id = |kind: &str, name: &str, new: Option<&str>| ChangeId {
            kind: kind.into(),
            name: name.into(),
            new: new.map(str::to_owned),
        };
        for (text, parsed) in
            [("kernel:release", id("kernel", "release", None)), ("sysctl:vm.x=1=2", id("sysctl", "vm.x", Some("1=2")))]
        {
            assert_eq!((text.parse(), parsed.to_string()), (Ok(parsed), text.to_owned()));
        }
        for wrong in ["", "kernel", ":x", "kernel:"] {
            assert!(wrong.parse::<ChangeId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn of_many_hosts_some_from_all_over_are_compared() {
        let names: Vec<String> = (0..5000).map(|n| format!("h{n}")).collect();
        let some = thinned(names.iter());
        assert_eq!((some.len(), some[1]), (1667, "h3"));
        assert_eq!(thinned(names[..10].iter()).len(), 10);
    }
}
