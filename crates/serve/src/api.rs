//! Requests to a read-only JSON interface: their parameters, and their errors.

use crate::{Page, PageRequest, PageStatus};
use std::ops::RangeInclusive;

/// The latest time that a request can name, seconds since 1970: in the year 2262, the limit of 64-bit nanoseconds.
const LATEST: f64 = 9e9;

/// Reason why a request fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// The request is invalid.
    BadRequest(String),
    /// The requested object does not exist.
    NotFound(String),
    /// The server is busy.
    Busy(String),
}

impl ApiError {
    /// Returns the reason in words.
    pub fn message(&self) -> &str {
        match self {
            Self::BadRequest(why) | Self::NotFound(why) | Self::Busy(why) => why,
        }
    }

    /// Returns the error response, with a document that gives the reason.
    pub fn page(&self, document: String) -> Page {
        let status = match self {
            Self::BadRequest(_) => PageStatus::BadRequest,
            Self::NotFound(_) => PageStatus::NotFound,
            Self::Busy(_) => PageStatus::Unavailable,
        };
        Page { status, ..Page::json(document) }
    }
}

/// The parameters of a request.
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'r>(&'r PageRequest);

impl<'r> Parameters<'r> {
    /// Returns the parameters of a request that accepts the parameters `known`.
    ///
    /// # Errors
    /// Fails if there is another parameter, or one is given twice.
    pub fn parse(asked: &'r PageRequest, known: &[&str]) -> Result<Self, ApiError> {
        for (name, _) in &asked.parameters {
            // The server has checked it already.
            if name != "token" && !known.contains(&name.as_str()) {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(ApiError::BadRequest(format!("there is no parameter '{name}' here; known: {known}")));
            }
            if asked.parameter(name).is_none() {
                return Err(ApiError::BadRequest(format!("'{name}' is given twice")));
            }
        }
        Ok(Self(asked))
    }

    /// Returns a parameter, if it is given.
    pub fn text(&self, name: &str) -> Option<&'r str> {
        self.0.parameter(name)
    }

    /// Returns a required parameter.
    ///
    /// # Errors
    /// Fails if it is missing.
    pub fn needed(&self, name: &str) -> Result<&'r str, ApiError> {
        self.text(name).ok_or_else(|| ApiError::BadRequest(format!("{name} is missing")))
    }

    /// Returns a time in milliseconds; the parameter is in seconds since 1970.
    ///
    /// # Errors
    /// Fails if it is not a number of seconds.
    pub fn milliseconds(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.abs() <= LATEST);
        let wrong = || ApiError::BadRequest(format!("{name}={text}: not a time in seconds since 1970"));
        Ok(Some((seconds.ok_or_else(wrong)? * 1e3).round() as i64))
    }

    /// Returns a number.
    ///
    /// # Errors
    /// Fails if it is not a number, or out of range.
    pub fn number(&self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let (least, most) = (range.start(), range.end());
        let number = text.parse::<usize>().ok().filter(|number| range.contains(number));
        let wrong = || ApiError::BadRequest(format!("{name}={text}: not a number from {least} to {most}"));
        number.ok_or_else(wrong).map(Some)
    }
}

/// The requested parts of a host's page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageContent {
    /// All parts.
    #[default]
    Everything,
    /// Without diagnosis or explanation.
    Charts,
    /// The charts that may have data, but without the data.
    Outline,
    /// Only diagnosis or explanation.
    Answer,
}

impl PageContent {
    const NAMES: [(&str, Self); 3] = [("charts", Self::Charts), ("outline", Self::Outline), ("answer", Self::Answer)];

    /// Parses the parameter `only`.
    ///
    /// # Errors
    /// Fails if the value is unknown.
    pub fn parse(parameters: &Parameters<'_>) -> Result<Self, ApiError> {
        let Some(text) = parameters.text("only") else { return Ok(Self::default()) };
        let known = Self::NAMES.iter().find(|(name, _)| *name == text);
        let wrong = || ApiError::BadRequest(format!("only={text}: it can be 'charts', 'outline' or 'answer'"));
        known.map(|(_, content)| *content).ok_or_else(wrong)
    }

    /// Whether it includes charts with their data.
    pub fn has_charts(self) -> bool {
        matches!(self, Self::Everything | Self::Charts)
    }

    /// Whether it includes the diagnosis or explanation.
    pub fn has_answer(self) -> bool {
        matches!(self, Self::Everything | Self::Answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(parameters: &[(&str, &str)]) -> PageRequest {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        PageRequest { path: "/api/page".into(), parameters: parameters.iter().map(own).collect() }
    }

    #[test]
    fn times_and_numbers_are_read_and_nonsense_is_refused() {
        let request = asked(&[("from", "1795279400.1234"), ("intervals", "300"), ("token", "x")]);
        let parameters = Parameters::parse(&request, &["from", "intervals"]).unwrap();
        assert_eq!(parameters.milliseconds("from"), Ok(Some(1_795_279_400_123)));
        assert_eq!(parameters.milliseconds("to"), Ok(None));
        assert_eq!(parameters.number("intervals", 1..=1500), Ok(Some(300)));
        assert!(parameters.number("intervals", 1..=200).is_err());
        for text in ["", "now", "NaN", "inf", "-1e300", "1e10", "1 2", "0x10"] {
            let request = asked(&[("at", text)]);
            let refused = Parameters::parse(&request, &["at"]).unwrap().milliseconds("at");
            assert!(matches!(&refused, Err(ApiError::BadRequest(_))), "{text}: {refused:?}");
        }
        for text in ["", "-1", "1.5", "many", "99999999999999999999999"] {
            let request = asked(&[("seconds", text)]);
            assert!(Parameters::parse(&request, &["seconds"]).unwrap().number("seconds", 1..=30).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        assert!(Parameters::parse(&asked(&[("form", "1")]), &["from"]).is_err());
        assert!(Parameters::parse(&asked(&[("from", "1"), ("from", "2")]), &["from"]).is_err());
    }

    #[test]
    fn what_is_missing_is_named() {
        let request = asked(&[("host", "web"), ("only", "everything")]);
        let parameters = Parameters::parse(&request, &["host", "only"]).unwrap();
        assert_eq!(parameters.needed("host"), Ok("web"));
        assert_eq!(parameters.needed("by"), Err(ApiError::BadRequest("by is missing".into())));
        assert!(PageContent::parse(&parameters).is_err());
    }
}
