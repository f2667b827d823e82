//! Requests to a read-only JSON interface: their parameters, and why one is not answered.

use crate::{Page, PageRequest, PageStatus};
use std::ops::RangeInclusive;

/// The latest time that can be asked for, seconds since 1970: in the year 2262, where nanoseconds end.
const LATEST: f64 = 9e9;

/// Why a request is not answered with what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// It makes no sense.
    BadRequest(String),
    /// There is no such thing.
    NotFound(String),
    /// Not now.
    Busy(String),
}

impl ApiError {
    /// Why, in words.
    pub fn message(&self) -> &str {
        match self {
            Self::BadRequest(why) | Self::NotFound(why) | Self::Busy(why) => why,
        }
    }

    /// An answer that refuses, with a document that says why.
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
    /// Those of a request, which may have these.
    ///
    /// # Errors
    /// There is another one, or one is given twice.
    pub fn of(asked: &'r PageRequest, known: &[&str]) -> Result<Self, ApiError> {
        for (name, _) in &asked.parameters {
            // The server has looked at it.
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

    /// A parameter, if it is given.
    pub fn text(&self, name: &str) -> Option<&'r str> {
        self.0.parameter(name)
    }

    /// A parameter that is needed.
    ///
    /// # Errors
    /// It is missing.
    pub fn needed(&self, name: &str) -> Result<&'r str, ApiError> {
        self.text(name).ok_or_else(|| ApiError::BadRequest(format!("{name} is missing")))
    }

    /// A time given in seconds since 1970, in milliseconds.
    ///
    /// # Errors
    /// It is not a number of seconds.
    pub fn milliseconds(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.abs() <= LATEST);
        let wrong = || ApiError::BadRequest(format!("{name}={text}: not a time in seconds since 1970"));
        Ok(Some((seconds.ok_or_else(wrong)? * 1e3).round() as i64))
    }

    /// A number.
    ///
    /// # Errors
    /// It is none, or out of range.
    pub fn number(&self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let (least, most) = (range.start(), range.end());
        let number = text.parse::<usize>().ok().filter(|number| range.contains(number));
        let wrong = || ApiError::BadRequest(format!("{name}={text}: not a number from {least} to {most}"));
        number.ok_or_else(wrong).map(Some)
    }
}

/// What of the page of a host is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageContent {
    /// All of it.
    #[default]
    Everything,
    /// Without diagnosis or explanation.
    Charts,
    /// The charts that may have data, without it.
    Outline,
    /// Diagnosis or explanation alone.
    Answer,
}

impl PageContent {
    const NAMES: [(&str, Self); 3] = [("charts", Self::Charts), ("outline", Self::Outline), ("answer", Self::Answer)];

    /// What the parameter `only` asks for.
    ///
    /// # Errors
    /// It is none of those that there are.
    pub fn of(parameters: &Parameters<'_>) -> Result<Self, ApiError> {
        let Some(text) = parameters.text("only") else { return Ok(Self::default()) };
        let known = Self::NAMES.iter().find(|(name, _)| *name == text);
        let wrong = || ApiError::BadRequest(format!("only={text}: it can be 'charts', 'outline' or 'answer'"));
        known.map(|(_, content)| *content).ok_or_else(wrong)
    }

    /// Whether charts with their data are.
    pub fn has_charts(self) -> bool {
        matches!(self, Self::Everything | Self::Charts)
    }

    /// Whether what happened is.
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
        let parameters = Parameters::of(&request, &["from", "intervals"]).unwrap();
        assert_eq!(parameters.milliseconds("from"), Ok(Some(1_795_279_400_123)));
        assert_eq!(parameters.milliseconds("to"), Ok(None));
        assert_eq!(parameters.number("intervals", 1..=1500), Ok(Some(300)));
        assert!(parameters.number("intervals", 1..=200).is_err());
        for text in ["", "now", "NaN", "inf", "-1e300", "1e10", "1 2", "0x10"] {
            let request = asked(&[("at", text)]);
            let refused = Parameters::of(&request, &["at"]).unwrap().milliseconds("at");
            assert!(matches!(&refused, Err(ApiError::BadRequest(_))), "{text}: {refused:?}");
        }
        for text in ["", "-1", "1.5", "many", "99999999999999999999999"] {
            let request = asked(&[("seconds", text)]);
            assert!(Parameters::of(&request, &["seconds"]).unwrap().number("seconds", 1..=30).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        assert!(Parameters::of(&asked(&[("form", "1")]), &["from"]).is_err());
        assert!(Parameters::of(&asked(&[("from", "1"), ("from", "2")]), &["from"]).is_err());
    }

    #[test]
    fn what_is_missing_is_named() {
        let request = asked(&[("host", "web"), ("only", "everything")]);
        let parameters = Parameters::of(&request, &["host", "only"]).unwrap();
        assert_eq!(parameters.needed("host"), Ok("web"));
        assert_eq!(parameters.needed("by"), Err(ApiError::BadRequest("by is missing".into())));
        assert!(PageContent::of(&parameters).is_err());
    }
}
