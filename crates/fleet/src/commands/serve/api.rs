//! HTTP API of the page. `docs/fleet.md` describes it.

use super::cache::AnswerCache;
use super::host_page::{self, HostPagePart};
use super::{charts, heat, keys};
use crate::commands::change::{self, ChangeId, ChangeOptions};
use crate::commands::sick::{self, GroupKey};
use crate::commands::why::{self, WhyOptions};
use crate::commands::{Answer, host};
use crate::period::duration;
use crate::span::DAY_MS;
use crate::{Failure, Fleet, Period, Span};
use clap::{Args, Command};
use schemars::JsonSchema;
use serde::Serialize;
use whyslow_series::charts_named;
use whyslow_serve::{ApiError, Gate, Page, PageContent, PageFn, PageRequest, Parameters};
use whyslow_show::json;
use whyslow_show::page::{self, ServedPage};

/// Longest time span of a question.
const LONGEST_MS: i64 = 366 * DAY_MS;
/// Maximum and default number of intervals in a chart.
const MOST_INTERVALS: usize = 1500;
const INTERVALS: usize = 500;
/// Maximum number of hosts in the answer of `sick`.
const MOST_HOSTS: usize = 100;

/// Parameters that select the time span.
const TIME: [&str; 3] = ["since", "from", "to"];

struct Api {
    fleet: Fleet,
    answers: AnswerCache,
    /// Limits questions that must read the store.
    gate: Gate,
}

/// Returns the handler for the pages about this fleet.
pub fn pages(fleet: Fleet) -> PageFn {
    let ServedPage { html, policy } = page::fleet();
    let api = Api { fleet, answers: AnswerCache::default(), gate: Gate::default() };
    Box::new(move |asked| match asked.path.as_str() {
        "/" => Some(Page::html(html.clone(), policy.clone())),
        path => path.strip_prefix("/api/").map(|what| match api.answer(what, asked) {
            Ok(document) => Page::json(document),
            Err(error) => error.page(json::error(error.message())),
        }),
    })
}

/// Schema names of the documents that only the page requests.
const HEAT: &str = "whyslow.fleet.heat/1";
const KEYS: &str = "whyslow.fleet.keys/1";
const PROPERTY: &str = "whyslow.fleet.property/1";
const RAW: &str = "whyslow.fleet.raw/1";

/// What hosts can be grouped by.
#[derive(JsonSchema, Serialize)]
struct Keys {
    keys: Vec<String>,
}

/// The command that asks a host about its own recording.
#[derive(JsonSchema, Serialize)]
struct RawCommand {
    schema: &'static str,
    command: String,
}

fn api_error(failure: Failure) -> ApiError {
    if failure.is_nothing() { ApiError::NotFound(failure.to_string()) } else { ApiError::Busy(failure.to_string()) }
}

impl Api {
    fn answer(&self, what: &str, asked: &PageRequest) -> Result<String, ApiError> {
        match what {
            "heat" => self.ask(asked, &[], |fleet, _| document(fleet, HEAT, heat::heat(fleet))),
            "sick" => self.ask(asked, &["by", "finding"], sick),
            "keys" => {
                self.ask(asked, &[], |fleet, _| document(fleet, KEYS, keys::keys(fleet).map(|keys| Keys { keys })))
            }
            "property" => self.ask(asked, &["by"], |fleet, parameters| {
                let by = parameters.needed("by")?;
                document(fleet, PROPERTY, keys::property(fleet, by, &key(by)?))
            }),
            "why" => self.ask(asked, &["finding", "before", "within"], why),
            "change" => self.ask(asked, &["id", "window", "settle", "within"], change),
            "host" => self.ask(asked, &["host"], |fleet, parameters| {
                let report = host::report(fleet, parameters.needed("host")?, 0);
                document(fleet, host::SCHEMA, report)
            }),
            "page" => self.ask(asked, &["host", "intervals", "charts", "only"], host_page),
            "raw" => raw(asked),
            _ => Err(ApiError::NotFound(format!(
                "there is no /api/{what}; there are heat, sick, keys, property, why, change, host, page and raw"
            ))),
        }
    }

    /// Answers a question about a time span; `known` are the parameters that it accepts besides the time.
    fn ask(
        &self,
        asked: &PageRequest,
        known: &[&str],
        answer: impl FnOnce(&Fleet, &Parameters<'_>) -> Result<String, ApiError>,
    ) -> Result<String, ApiError> {
        let parameters = Parameters::parse(asked, &[known, &TIME[..]].concat())?;
        let span = span(&parameters)?;
        let document = self.answers.get(&question(asked), || {
            let _visit = self.gate.enter()?;
            answer(&self.fleet.for_question(span), &parameters)
        })?;
        Ok(document.as_ref().to_owned())
    }
}

/// Returns the path and parameters without the token, as a cache key.
fn question(asked: &PageRequest) -> String {
    let mut parameters: Vec<&(String, String)> = asked.parameters.iter().filter(|(name, _)| name != "token").collect();
    parameters.sort();
    format!("{} {parameters:?}", asked.path)
}

/// Returns the requested time span; the default is the last day.
fn span(parameters: &Parameters<'_>) -> Result<Span, ApiError> {
    let bad = ApiError::BadRequest;
    let (from, to) = (parameters.milliseconds("from")?, parameters.milliseconds("to")?);
    let since = parameters.text("since").map(duration).transpose().map_err(bad)?;
    let now =
        Period { since, ..Period::default() }.span().map_err(|failure| ApiError::BadRequest(failure.to_string()))?;
    let span = match (since, from, to) {
        (_, None, None) => now,
        // Clip to now: data from the future cannot be missing.
        (None, Some(from_ms), Some(to_ms)) => Span { from_ms, to_ms: to_ms.min(now.to_ms) },
        _ => return Err(ApiError::BadRequest("a time is 'since', or 'from' and 'to'".into())),
    };
    let length = span.to_ms.saturating_sub(span.from_ms);
    match length {
        ..=0 => Err(ApiError::BadRequest("from must come before to, and before now".into())),
        1..=LONGEST_MS => Ok(span),
        _ => Err(ApiError::BadRequest("at most a year can be asked about".into())),
    }
}

fn document<T: Serialize>(
    fleet: &Fleet,
    schema: &'static str,
    content: Result<T, Failure>,
) -> Result<String, ApiError> {
    Ok(json::line(&Answer::new(fleet, schema, content.map_err(api_error)?)))
}

fn key(by: &str) -> Result<GroupKey, ApiError> {
    GroupKey::parse(by).map_err(|error| ApiError::BadRequest(format!("by={by}: {error}")))
}

/// Parses a command's options from the parameters with the same names; the others keep their command-line defaults.
fn options<O: Args>(parameters: &Parameters<'_>, names: &[&str]) -> Result<O, ApiError> {
    let given = names.iter().filter_map(|name| Some(format!("--{name}={}", parameters.text(name)?)));
    let command = O::augment_args(Command::new("question").no_binary_name(true));
    let parsed = command.try_get_matches_from(given).and_then(|matches| O::from_arg_matches(&matches));
    parsed.map_err(|error| ApiError::BadRequest(whyslow_command::in_one_line(&error.to_string())))
}

fn sick(fleet: &Fleet, parameters: &Parameters<'_>) -> Result<String, ApiError> {
    let by = parameters.text("by").map(key).transpose()?;
    let answer = sick::sick(fleet, parameters.text("finding"), by.as_ref(), MOST_HOSTS);
    document(fleet, sick::SCHEMA, answer)
}

fn why(fleet: &Fleet, parameters: &Parameters<'_>) -> Result<String, ApiError> {
    let finding = parameters.needed("finding")?;
    let options: WhyOptions = options(parameters, &["before", "within"])?;
    document(fleet, why::SCHEMA, why::ask(fleet, finding, &options))
}

fn change(fleet: &Fleet, parameters: &Parameters<'_>) -> Result<String, ApiError> {
    let options: ChangeOptions = options(parameters, &["window", "settle", "within"])?;
    let id = parameters.text("id").map(str::parse::<ChangeId>).transpose().map_err(ApiError::BadRequest)?;
    document(fleet, change::SCHEMA, change::ask(fleet, id.as_ref(), &options))
}

fn host_page(fleet: &Fleet, parameters: &Parameters<'_>) -> Result<String, ApiError> {
    let named = parameters.text("charts");
    // The chart of lost time is not one of the machine's charts.
    let others = named.map(|list| list.split(',').filter(|id| *id != charts::LOST).collect::<Vec<_>>());
    let specs = match others {
        None => whyslow_series::charts().collect(),
        Some(others) if others.is_empty() => Vec::new(),
        Some(others) => charts_named(&others.join(",")).map_err(ApiError::BadRequest)?,
    };
    let part = HostPagePart {
        specs,
        with_lost: named.is_none_or(|list| list.split(',').any(|id| id == charts::LOST)),
        intervals: parameters.number("intervals", 1..=MOST_INTERVALS)?.unwrap_or(INTERVALS),
        content: PageContent::parse(parameters)?,
    };
    let page = host_page::page(fleet, parameters.needed("host")?, part).map_err(api_error)?;
    Ok(json::line(&page))
}

/// Returns the command that asks a host about its own recording; this does not need the store.
fn raw(asked: &PageRequest) -> Result<String, ApiError> {
    let parameters = Parameters::parse(asked, &["host", "export", "since", "from", "to"])?;
    let command = host::raw_command(parameters.needed("host")?, span(&parameters)?, parameters.text("export"));
    let command = command.map_err(|failure| ApiError::BadRequest(failure.to_string()))?;
    Ok(json::line(&RawCommand { schema: RAW, command }))
}

/// Returns these documents with their schemas.
#[cfg(test)]
pub(in super::super) fn documents() -> Vec<(&'static str, serde_json::Value)> {
    use super::super::Answer;
    use whyslow_testing::documents::schema;
    vec![
        (HEAT, schema::<Answer<heat::HeatMap>>()),
        (KEYS, schema::<Answer<Keys>>()),
        (PROPERTY, schema::<Answer<keys::PropertyOfHosts>>()),
        (RAW, schema::<RawCommand>()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(parameters: &[(&str, &str)]) -> PageRequest {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        PageRequest { path: "/api/heat".into(), parameters: parameters.iter().map(own).collect() }
    }

    #[test]
    fn the_same_question_is_one_in_any_order_and_with_any_token() {
        let first = question(&asked(&[("since", "1h"), ("by", "role"), ("token", "a")]));
        assert_eq!(first, question(&asked(&[("token", "b"), ("by", "role"), ("since", "1h")])));
        assert_ne!(first, question(&asked(&[("since", "1h")])));
    }

    #[test]
    fn a_time_is_the_last_part_or_has_two_ends() {
        let of = |parameters: &[(&str, &str)]| span(&Parameters::parse(&asked(parameters), &TIME).unwrap());
        assert_eq!(of(&[("from", "10"), ("to", "20.5")]), Ok(Span { from_ms: 10_000, to_ms: 20_500 }));
        let hour = of(&[("since", "1h")]).unwrap();
        assert_eq!(hour.to_ms - hour.from_ms, 3_600_000);
        let day = of(&[]).unwrap();
        assert_eq!(day.to_ms - day.from_ms, DAY_MS);
        for wrong in [
            &[("from", "20"), ("to", "10")][..],
            &[("from", "20")],
            &[("to", "20")],
            &[("since", "1h"), ("from", "1"), ("to", "2")],
            &[("since", "soon")],
            &[("since", "9999d")],
            &[("from", "9000000000"), ("to", "8999999999")],
        ] {
            assert!(matches!(of(wrong), Err(ApiError::BadRequest(_))), "{wrong:?}");
        }
    }
}
