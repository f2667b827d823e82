//! `forecast`: shows what will run out, and when.

use super::Answer;
use crate::cell::{double, text, timestamp};
use crate::options::{note_left_out, show};
use crate::period::duration;
use crate::span::rfc3339;
use crate::{DisplayOptions, Failure, Fleet, QueryOptions, Span, sql};
use clap::Args;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;
use whyslow_compare::fleet::{Forecast, Outlook, forecast};
use whyslow_model::human;
use whyslow_show::bold;
use whyslow_show::text::Sheet;

const MOST_LISTED: usize = 15;

/// A resource that can run out: a table with one row for each entity.
struct Resource {
    name: &'static str,
    unit: &'static str,
    table: &'static str,
    /// Column that names the entity; a literal for resources of the whole host.
    thing: &'static str,
    level: &'static str,
    capacity: &'static str,
}

const RESOURCES: [Resource; 3] = [
    Resource {
        name: "file system",
        unit: "bytes",
        table: "mount",
        thing: "point",
        level: "size - available",
        capacity: "size",
    },
    Resource {
        name: "memory",
        unit: "bytes",
        table: "meminfo",
        thing: "'memory'",
        level: "mem_total - mem_available",
        capacity: "mem_total",
    },
    Resource {
        name: "open files",
        unit: "count",
        table: "limits",
        thing: "'open files'",
        level: "files",
        capacity: "files_max",
    },
];

/// Options of `forecast`.
#[derive(Debug, Args)]
pub struct ForecastArgs {
    /// From how much time the growth is computed; at least a week
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = duration)]
    pub since: Duration,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub store: QueryOptions,
}

/// Schema name of the answer.
pub(super) const SCHEMA: &str = "whyslow.fleet.forecast/1";

/// What will run out.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Forecasts {
    /// How many file systems and other things were looked at.
    looked_at: usize,
    /// Of how many there is too little to say.
    too_short: usize,
    /// What is full or will be, the earliest first; then what may be.
    forecasts: Vec<ListedForecast>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct ListedForecast {
    host: String,
    resource: &'static str,
    name: String,
    unit: &'static str,
    /// RFC 3339; `null` as in the forecast.
    earliest: Option<String>,
    latest: Option<String>,
    #[serde(flatten)]
    forecast: Forecast,
}

/// Runs `whyslow-fleet forecast`.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn run(args: &ForecastArgs, options: &DisplayOptions) -> Result<ExitCode, Failure> {
    let to_ms = Timestamp::now().as_millisecond();
    let ago = i64::try_from(args.since.as_millis()).unwrap_or(i64::MAX);
    let fleet = args.store.open_span(Span { from_ms: to_ms.saturating_sub(ago), to_ms })?;
    let content = ask(&fleet)?;
    let answer = Answer::new(&fleet, SCHEMA, content);
    show(options, &answer, |sheet| draw(&answer, sheet))?;
    Ok(ExitCode::SUCCESS)
}

fn ask(fleet: &Fleet) -> Result<Forecasts, Failure> {
    let (mut looked_at, mut too_short) = (0, 0);
    let mut forecasts = Vec::new();
    for resource in &RESOURCES {
        for ((host, name), things) in levels(fleet, resource)? {
            looked_at += 1;
            let Some((_, _, capacity)) = things.last() else { continue };
            let points: Vec<(i64, f64)> = things.iter().map(|(at, level, _)| (*at, *level)).collect();
            let forecast = forecast(&points, *capacity);
            match forecast.outlook {
                Outlook::TooShort => too_short += 1,
                Outlook::Lasts => {}
                Outlook::Full | Outlook::RunsOut | Outlook::NotBefore => forecasts.push(ListedForecast {
                    host,
                    resource: resource.name,
                    name,
                    unit: resource.unit,
                    earliest: forecast.earliest_ms.map(rfc3339),
                    latest: forecast.latest_ms.map(rfc3339),
                    forecast,
                }),
            }
        }
    }
    let urgency = |one: &ListedForecast| {
        let place = match one.forecast.outlook {
            Outlook::Full => 0,
            Outlook::RunsOut => 1,
            _ => 2,
        };
        (place, one.forecast.earliest_ms)
    };
    forecasts.sort_by(|a, b| urgency(a).cmp(&urgency(b)).then_with(|| (&a.host, &a.name).cmp(&(&b.host, &b.name))));
    Ok(Forecasts { looked_at, too_short, forecasts })
}

/// Time, level and capacity of each entity, by day.
type Levels = BTreeMap<(String, String), Vec<(i64, f64, f64)>>;

fn levels(fleet: &Fleet, of: &Resource) -> Result<Levels, Failure> {
    let mut levels = Levels::new();
    for row in &fleet.query(&sql::daily(fleet.span(), of.table, of.thing, of.level, of.capacity))?.rows {
        let [host, thing, at, level, capacity] = &row[..] else { continue };
        let (Some(host), Some(thing), Some(at)) = (text(host), text(thing), timestamp(at)) else { continue };
        if let (Some(level), Some(capacity)) = (double(level), double(capacity)) {
            levels.entry((host.to_owned(), thing.to_owned())).or_default().push((at, level, capacity));
        }
    }
    Ok(levels)
}

fn draw(answer: &Answer<Forecasts>, sheet: &mut Sheet) {
    let Forecasts { looked_at, too_short, forecasts } = &answer.content;
    let runs_out = forecasts.iter().filter(|one| one.forecast.outlook != Outlook::NotBefore).count();
    sheet.heading(&format!("{looked_at} file systems and other limits looked at"));
    let summary = match runs_out {
        0 => "None of them is full or will surely be.".to_owned(),
        1 => "1 is full or will be.".to_owned(),
        count => format!("{count} are full or will be."),
    };
    sheet.paragraph(&[bold(summary)]);
    if !forecasts.is_empty() {
        let headings = ["host", "what", "full", "used", "of", "growth a day"];
        sheet.table(headings, 3, forecasts.iter().take(MOST_LISTED).map(row));
        if forecasts.len() > MOST_LISTED {
            sheet.remark(&format!("{} more with --json.", forecasts.len() - MOST_LISTED));
        }
    }
    if *too_short > 0 {
        sheet.remark(&format!("{too_short} were observed for less than a week, or are cleaned up too often to tell."));
    }
    note_left_out(sheet, &answer.left_out);
}

fn row(of: &ListedForecast) -> [String; 6] {
    let quantity = |value: f64| human::quantity(value, of.unit);
    let growth = of.forecast.per_day.and_then(|growth| growth.estimate);
    [
        of.host.clone(),
        of.name.clone(),
        when(&of.forecast),
        quantity(of.forecast.level),
        quantity(of.forecast.capacity),
        growth.map_or_else(String::new, quantity),
    ]
}

fn when(forecast: &Forecast) -> String {
    let day = |ms: i64| {
        Timestamp::from_millisecond(ms).map_or_else(|_| "?".to_owned(), |at| at.strftime("%Y-%m-%d").to_string())
    };
    let [earliest, latest] = [forecast.earliest_ms, forecast.latest_ms].map(|ms| ms.map(day));
    match (forecast.outlook, earliest, latest) {
        (Outlook::Full, ..) => "now".to_owned(),
        (_, Some(earliest), Some(latest)) if earliest == latest => earliest,
        (_, Some(earliest), Some(latest)) => format!("{earliest} to {latest}"),
        (_, Some(earliest), None) => format!("not before {earliest}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_ranges_unless_they_are_the_same() {
        let day = |day: i64| Some(day * 86_400_000);
        let of =
            |outlook, earliest_ms, latest_ms| when(&Forecast { outlook, earliest_ms, latest_ms, ..forecast(&[], 1.0) });
        assert_eq!(of(Outlook::RunsOut, day(0), day(31)), "1970-01-01 to 1970-02-01");
        assert_eq!(of(Outlook::RunsOut, day(1), day(1)), "1970-01-02");
        assert_eq!(of(Outlook::NotBefore, day(1), None), "not before 1970-01-02");
        assert_eq!(of(Outlook::Full, None, None), "now");
    }
}
