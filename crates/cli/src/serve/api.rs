//! HTTP API of the page. `docs/serve.md` describes it.

use super::hosts::Hosts;
use super::live_host::LiveHost;
use super::part::PagePart;
use super::recorded_host::RecordedHost;
use crate::report::MOST_INTERVALS;
use std::sync::Arc;
use std::time::Duration;
use whyslow_documents::profile::ProfileKind;
use whyslow_series::{ChartSpec, charts, charts_named};
use whyslow_serve::{ApiError, Gate, Page, PageContent, PageFn, PageRequest, PageStatus, Parameters};
use whyslow_show::json;
use whyslow_show::page::{self, ServedPage};

/// Maximum length of a profile, in seconds.
const LONGEST_PROFILE: usize = 30;
/// Default length of a profile, in seconds.
const PROFILE: usize = 5;

/// A document; `None` if there is nothing new.
type Answer = Result<Option<String>, ApiError>;

struct Api {
    hosts: Arc<Hosts>,
    /// Limits slow requests.
    gate: Gate,
}

/// Returns the handler for the pages about these hosts.
pub fn pages(hosts: Arc<Hosts>) -> PageFn {
    let ServedPage { html, policy } = page::served();
    let api = Api { hosts, gate: Gate::default() };
    Box::new(move |asked| match asked.path.as_str() {
        "/" => Some(Page::html(html.clone(), policy.clone())),
        path => path.strip_prefix("/api/").map(|what| answered(api.answer(what, asked))),
    })
}

fn answered(answer: Answer) -> Page {
    match answer {
        Ok(Some(json)) => Page::json(json),
        Ok(None) => Page { status: PageStatus::NoContent, ..Page::default() },
        Err(error) => error.page(json::error(error.message())),
    }
}

/// Parses a time parameter; returns nanoseconds since 1970.
fn time(parameters: &Parameters<'_>, name: &str) -> Result<Option<i64>, ApiError> {
    Ok(parameters.milliseconds(name)?.map(|ms| ms * 1_000_000))
}

/// Returns the named charts, or all by default.
fn specs(parameters: &Parameters<'_>) -> Result<Vec<&'static ChartSpec>, ApiError> {
    parameters.text("charts").map_or_else(|| Ok(charts().collect()), charts_named).map_err(ApiError::BadRequest)
}

/// The requested host.
enum Host {
    Live(Arc<LiveHost>),
    Recorded(Arc<RecordedHost>),
}

impl Api {
    fn answer(&self, what: &str, asked: &PageRequest) -> Answer {
        match what {
            "overview" => {
                Parameters::parse(asked, &[])?;
                Ok(Some(json::line(&self.hosts.overview())))
            }
            "page" => self.page(asked),
            "stack" => self.stack(asked),
            "profile" => self.profile(asked),
            _ => {
                Err(ApiError::NotFound(format!("there is no /api/{what}; there are overview, page, stack and profile")))
            }
        }
    }

    fn page(&self, asked: &PageRequest) -> Answer {
        let parameters = Parameters::parse(asked, &["host", "from", "to", "since", "intervals", "charts", "only"])?;
        let part = PagePart {
            from: time(&parameters, "from")?,
            to: time(&parameters, "to")?,
            since: time(&parameters, "since")?,
            intervals: parameters.number("intervals", 1..=MOST_INTERVALS)?,
            specs: specs(&parameters)?,
            content: PageContent::parse(&parameters)?,
        };
        if part.since.is_some() && (part.from.is_some() || part.to.is_some() || part.intervals.is_some()) {
            return Err(ApiError::BadRequest("since goes with neither from, to nor intervals".into()));
        }
        match self.host(&parameters)? {
            Host::Live(live) => Ok(live.page(&part)?.map(|page| json::line(&page))),
            Host::Recorded(recorded) => {
                let _visit = self.gate.enter()?;
                Ok(Some(json::line(&recorded.page(&part, &self.hosts.book)?)))
            }
        }
    }

    fn stack(&self, asked: &PageRequest) -> Answer {
        let parameters = Parameters::parse(asked, &["host", "at"])?;
        let at = time(&parameters, "at")?;
        match self.host(&parameters)? {
            Host::Live(live) if at.is_none() => Ok(Some(json::line(&live.stack()))),
            Host::Live(_) => {
                Err(ApiError::BadRequest("at is for recordings; the live machine's stacks are those of now".into()))
            }
            Host::Recorded(recorded) => {
                let _visit = self.gate.enter()?;
                Ok(Some(json::line(&recorded.stack(at)?)))
            }
        }
    }

    fn profile(&self, asked: &PageRequest) -> Answer {
        let parameters = Parameters::parse(asked, &["host", "seconds", "kind"])?;
        let seconds = parameters.number("seconds", 1..=LONGEST_PROFILE)?.unwrap_or(PROFILE);
        let kind = match parameters.text("kind") {
            None | Some("on_cpu") => ProfileKind::OnCpu,
            Some("off_cpu") => ProfileKind::OffCpu,
            Some(other) => {
                return Err(ApiError::BadRequest(format!("kind={other}: it can be 'on_cpu' or 'off_cpu'")));
            }
        };
        match self.host(&parameters)? {
            Host::Live(live) => Ok(Some(json::line(&live.profile(kind, Duration::from_secs(seconds as u64))?))),
            Host::Recorded(_) => Err(ApiError::BadRequest("only the live machine can be profiled".into())),
        }
    }

    fn host(&self, parameters: &Parameters<'_>) -> Result<Host, ApiError> {
        let id = parameters.needed("host")?;
        let live = self.hosts.live.as_ref().filter(|_| id == LiveHost::ID).cloned().map(Host::Live);
        let host = live.or_else(|| self.hosts.recording(id).map(Host::Recorded));
        host.ok_or_else(|| ApiError::NotFound(format!("there is no host '{id}'; /api/overview lists those there are")))
    }
}
