//! `outliers`: shows hosts that differ from their twins.

use super::Answer;
use crate::cell::{double, text};
use crate::options::{note_left_out, show};
use crate::span::DAY_MS;
use crate::{DisplayOptions, Failure, Fleet, Period, QueryOptions, sql};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use whyslow_compare::fleet::{Outlier, TwinSeries, Twins, outliers};
use whyslow_model::human;
use whyslow_quantities::{Declaration, cpu, disk, interface, pressure, protocol, vmstat};
use whyslow_show::bold;
use whyslow_show::text::Sheet;

/// Minimum number of twins for a comparison.
const FEWEST: usize = 8;
const MOST_LISTED: usize = 15;

/// A metric that is compared between twins.
struct ComparedMetric {
    name: &'static str,
    unit: &'static str,
    table: &'static str,
    /// Value per host and hour; NULL if there was no activity.
    value: FleetValue,
}

/// A value computed from a host's rows.
enum FleetValue {
    /// A quantity.
    Of(&'static Declaration),
    /// The share of the judged time that was lost.
    TimeLost,
}

impl FleetValue {
    fn sql(&self) -> Cow<'static, str> {
        match self {
            Self::Of(quantity) => quantity.sql().into(),
            Self::TimeLost => "SUM(lost_s) / NULLIF(SUM(judged_s), 0)".into(),
        }
    }
}

const fn quantity(name: &'static str, quantity: &'static Declaration) -> ComparedMetric {
    ComparedMetric { name, unit: quantity.unit, table: quantity.family.name, value: FleetValue::Of(quantity) }
}

static METRICS: [ComparedMetric; 11] = [
    ComparedMetric { name: "time lost", unit: "ratio", table: "minute", value: FleetValue::TimeLost },
    quantity("CPU used", &cpu::BUSY.declaration),
    quantity("steal time", &cpu::STEAL.declaration),
    quantity("CPU pressure", &pressure::CPU.declaration),
    quantity("memory pressure", &pressure::MEMORY.declaration),
    quantity("I/O pressure", &pressure::IO.declaration),
    quantity("time of a read", &disk::READ_WAIT.declaration),
    quantity("time of a write", &disk::WRITE_WAIT.declaration),
    quantity("TCP segments retransmitted", &protocol::RETRANSMIT_SHARE.declaration),
    quantity("packets dropped", &interface::KERNEL_DROPS.declaration),
    quantity("major faults", &vmstat::MAJOR_FAULTS.declaration),
];

/// Options of `outliers`.
#[derive(Debug, Args)]
pub struct OutliersArgs {
    #[allow(missing_docs)]
    #[command(flatten)]
    pub store: QueryOptions,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub period: Period,
    /// What twins have in common: labels of the hosts, 'model' and 'kernel'
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "role,model,kernel")]
    pub twins: Vec<String>,
}

/// Schema name of the answer.
pub(super) const SCHEMA: &str = "whyslow.fleet.outliers/1";

/// The hosts that differ.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Outliers {
    /// Hosts with enough twins to be compared.
    compared: usize,
    /// Hosts with fewer.
    without_twins: usize,
    /// Groups of twins.
    groups: usize,
    outliers: Vec<ListedOutlier>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct ListedOutlier {
    #[serde(flatten)]
    outlier: Outlier,
    unit: &'static str,
}

/// Runs `whyslow-fleet outliers`.
///
/// # Errors
/// Fails if the store cannot be read or nothing was shipped in that time.
pub fn run(args: &OutliersArgs, options: &DisplayOptions) -> Result<ExitCode, Failure> {
    let fleet = args.store.open(&args.period)?;
    let content = ask(&fleet, args)?;
    let answer = Answer::new(&fleet, SCHEMA, content);
    show(options, &answer, |sheet| draw(&answer, sheet))?;
    Ok(ExitCode::SUCCESS)
}

fn ask(fleet: &Fleet, args: &OutliersArgs) -> Result<Outliers, Failure> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let all = groups_of_hosts(fleet, &args.twins)?;
    let count = all.len();
    for (host, group) in all {
        groups.entry(group).or_default().push(host);
    }
    if count == 0 {
        return Err(Failure::nothing("no host has shipped anything in that time"));
    }
    groups.retain(|_, hosts| hosts.len() >= FEWEST);
    let mut twins = Vec::new();
    if !groups.is_empty() {
        for metric in &METRICS {
            let mut values = hourly(fleet, metric)?;
            twins.extend(groups.iter().map(|(group, hosts)| Twins {
                group: group.clone(),
                metric: metric.name.to_owned(),
                hosts: hosts.iter().filter_map(|host| values.remove_entry(host)).map(series).collect(),
            }));
        }
    }
    let compared = groups.values().map(Vec::len).sum();
    let unit = |name: &str| METRICS.iter().find(|metric| metric.name == name).map_or("", |metric| metric.unit);
    let found = outliers(&twins);
    let found = found.into_iter().map(|outlier| ListedOutlier { unit: unit(&outlier.metric), outlier });
    Ok(Outliers { compared, without_twins: count - compared, groups: groups.len(), outliers: found.collect() })
}

fn series((host, values): (String, Vec<f64>)) -> TwinSeries {
    TwinSeries { host, values }
}

/// Returns the hosts that shipped data, each with its values of the properties that twins have in common.
fn groups_of_hosts(fleet: &Fleet, common: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let span = fleet.span();
    let mut groups: BTreeMap<String, String> = BTreeMap::new();
    for row in &fleet.query(&sql::hosts(span))?.rows {
        if let Some(host) = row.first().and_then(text) {
            groups.insert(host.to_owned(), String::new());
        }
    }
    // Inventories are read once a day.
    let span = span.extended_back(2 * DAY_MS);
    for property in common {
        let (kind, name) = match property.as_str() {
            "kernel" => ("kernel", "release"),
            "model" => ("machine", "model"),
            label => ("label", label),
        };
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        for row in &fleet.with_span(span).query(&sql::property(span, kind, name))?.rows {
            if let [host, value] = &row[..]
                && let (Some(host), Some(value)) = (text(host), text(value))
            {
                values.insert(host.to_owned(), value.to_owned());
            }
        }
        for (host, group) in &mut groups {
            let value = values.get(host).map_or("?", String::as_str);
            *group = if group.is_empty() { value.to_owned() } else { format!("{group}, {value}") };
        }
    }
    Ok(groups)
}

/// Returns a metric of each host by hour; NaN for an hour without a value.
fn hourly(fleet: &Fleet, metric: &ComparedMetric) -> Result<BTreeMap<String, Vec<f64>>, Failure> {
    let rows = fleet.query(&sql::hourly(fleet.span(), metric.table, &metric.value.sql()))?.rows;
    let hour = |row: &[whyslow_rollup::Cell]| Some((text(row.get(1)?)?.to_owned(), text(row.get(2)?)?.to_owned()));
    let hours: BTreeSet<(String, String)> = rows.iter().filter_map(|row| hour(row)).collect();
    let hours: BTreeMap<(String, String), usize> = hours.into_iter().zip(0..).collect();
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in &rows {
        let Some(at) = hour(row).and_then(|hour| hours.get(&hour)) else { continue };
        if let (Some(host), Some(value)) = (text(&row[0]), row.get(3).and_then(double)) {
            values.entry(host.to_owned()).or_insert_with(|| vec![f64::NAN; hours.len()])[*at] = value;
        }
    }
    Ok(values)
}

fn draw(answer: &Answer<Outliers>, sheet: &mut Sheet) {
    let Outliers { compared, without_twins, groups, outliers } = &answer.content;
    sheet.heading(&format!("{compared} hosts compared with their twins, in {groups} groups"));
    if outliers.is_empty() {
        let what = match compared {
            0 => "No host has enough twins to be compared with.",
            _ => "None of them persistently differs from its twins.",
        };
        sheet.paragraph(&[bold(what)]);
    } else {
        let row = |of: &ListedOutlier| {
            let Outlier { host, group, metric, value, usual, twins, .. } = &of.outlier;
            let quantity = |value: f64| human::quantity(value, of.unit);
            [host.clone(), metric.clone(), group.clone(), quantity(*value), quantity(*usual), twins.to_string()]
        };
        let headings = ["host", "differs in", "twins", "usually", "its twins", "how many"];
        sheet.table(headings, 3, outliers.iter().take(MOST_LISTED).map(row));
        if outliers.len() > MOST_LISTED {
            sheet.remark(&format!("{} more with --json.", outliers.len() - MOST_LISTED));
        }
    }
    if *without_twins > 0 {
        sheet.remark(&format!("{without_twins} hosts have fewer than {} twins.", FEWEST - 1));
    }
    note_left_out(sheet, &answer.left_out);
}
