//! Which part of a host's data is asked for, and why it cannot be had.

use crate::recordings::for_people;
use crate::report::intervals;
use std::ops::RangeInclusive;
use whyslow_series::{ChartSpec, charts};
use whyslow_serve::PageRequest;
use whyslow_store::Span;

/// The latest time that can be asked for, seconds since 1970: in the year 2262, where nanoseconds end.
const LATEST: f64 = 9e9;
const MS: i64 = 1_000_000;

/// Why a request is not answered with what it asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It makes no sense.
    Parameters(String),
    /// There is no such thing.
    Nothing(String),
    /// Not now.
    Busy(String),
}

/// The parameters of a request.
pub struct Parameters<'r>(&'r PageRequest);

impl<'r> Parameters<'r> {
    /// Those of a request, which may have these.
    ///
    /// # Errors
    /// There is another one, or one is given twice.
    pub fn of(asked: &'r PageRequest, known: &[&str]) -> Result<Self, Refusal> {
        for (name, _) in &asked.parameters {
            // The server has looked at it.
            if name != "token" && !known.contains(&name.as_str()) {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Refusal::Parameters(format!("there is no parameter '{name}' here; known: {known}")));
            }
            if asked.parameter(name).is_none() {
                return Err(Refusal::Parameters(format!("'{name}' is given twice")));
            }
        }
        Ok(Self(asked))
    }

    /// A parameter, if it is given.
    pub fn text(&self, name: &str) -> Option<&'r str> {
        self.0.parameter(name)
    }

    /// A time, nanoseconds since 1970, to the millisecond.
    ///
    /// # Errors
    /// It is not a number of seconds.
    pub fn time(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.abs() <= LATEST);
        let wrong = || Refusal::Parameters(format!("{name}={text}: not a time in seconds since 1970"));
        Ok(Some((seconds.ok_or_else(wrong)? * 1e3).round() as i64 * MS))
    }

    /// A number.
    ///
    /// # Errors
    /// It is none, or out of range.
    pub fn number(&self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>, Refusal> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let (least, most) = (range.start(), range.end());
        let number = text.parse::<usize>().ok().filter(|number| range.contains(number));
        let wrong = || Refusal::Parameters(format!("{name}={text}: not a number from {least} to {most}"));
        number.ok_or_else(wrong).map(Some)
    }

    /// The charts that are asked for: all unless some are named.
    ///
    /// # Errors
    /// There is no such chart.
    pub fn charts(&self, name: &str) -> Result<Vec<&'static ChartSpec>, Refusal> {
        let Some(list) = self.text(name) else { return Ok(charts().collect()) };
        let spec = |asked: &str| {
            // Of a chart for each of several things, such as a heat map, all are meant.
            let id = asked.split_once('@').map_or(asked, |(id, _)| id);
            charts()
                .find(|chart| chart.id == id)
                .ok_or_else(|| Refusal::Parameters(format!("there is no chart '{asked}'")))
        };
        let mut specs: Vec<&'static ChartSpec> = list.split(',').map(spec).collect::<Result<_, _>>()?;
        specs.sort_by_key(|spec| charts().position(|chart| chart.id == spec.id));
        specs.dedup_by_key(|spec| spec.id);
        Ok(specs)
    }
}

/// What of a page is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageContent {
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

    /// What a parameter asks for.
    ///
    /// # Errors
    /// It is none of those that there are.
    pub fn of(text: Option<&str>) -> Result<Self, Refusal> {
        let Some(text) = text else { return Ok(Self::default()) };
        let known = Self::NAMES.iter().find(|(name, _)| *name == text);
        let wrong = || Refusal::Parameters(format!("only={text}: it can be 'charts', 'outline' or 'answer'"));
        known.map(|(_, content)| *content).ok_or_else(wrong)
    }

    pub fn has_charts(self) -> bool {
        matches!(self, Self::Everything | Self::Charts)
    }

    pub fn has_answer(self) -> bool {
        matches!(self, Self::Everything | Self::Answer)
    }
}

/// The charts of a time, and what is said of it.
pub struct PagePart {
    /// The first sample.
    pub from: Option<i64>,
    /// The last sample.
    pub to: Option<i64>,
    /// Only what comes after this time, to continue what is there already.
    pub since: Option<i64>,
    /// At most about so many intervals.
    pub intervals: Option<usize>,
    /// These charts.
    pub specs: Vec<&'static ChartSpec>,
    /// What of them.
    pub content: PageContent,
}

impl PagePart {
    /// At most about how many intervals are meant, of so many samples. However many charts are asked for at once, they have the same.
    pub fn most_intervals(&self, samples: usize) -> usize {
        self.intervals.unwrap_or_else(|| intervals(samples, false))
    }

    /// The span that is meant, of `all` there is; without a start, that is so long before the end.
    ///
    /// # Errors
    /// It ends before it starts, or nothing of it is there.
    pub fn span(&self, all: &Span, length: i64) -> Result<Span, Refusal> {
        let to = self.to.unwrap_or(*all.end());
        let from = self.from.unwrap_or_else(|| to.min(*all.end()).saturating_sub(length));
        if self.to.is_some() && from > to {
            return Err(Refusal::Parameters("from must come before to".into()));
        }
        if from > *all.end() || to < *all.start() {
            return Err(nothing_then(all));
        }
        Ok(from.max(*all.start())..=to.min(*all.end()))
    }
}

/// That nothing was observed at a time that was asked for.
pub fn nothing_then(all: &Span) -> Refusal {
    let (start, end) = (for_people(*all.start()), for_people(*all.end()));
    Refusal::Nothing(format!("nothing was recorded then: what is there is from {start} to {end}"))
}

/// A time in seconds since 1970, to the millisecond, as charts have it.
pub fn seconds(ns: i64) -> f64 {
    (ns as f64 / 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn asked(parameters: &[(&str, &str)]) -> PageRequest {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        PageRequest { path: "/api/page".into(), parameters: parameters.iter().map(own).collect() }
    }

    #[test]
    fn times_and_numbers_are_read_and_nonsense_is_refused() {
        let request = asked(&[("from", "1795279400.1234"), ("intervals", "300"), ("token", "x")]);
        let parameters = Parameters::of(&request, &["from", "intervals"]).unwrap();
        assert_eq!(parameters.time("from"), Ok(Some(1_795_279_400_123 * MS)));
        assert_eq!(parameters.time("to"), Ok(None));
        assert_eq!(parameters.number("intervals", 1..=1500), Ok(Some(300)));
        assert!(parameters.number("intervals", 1..=200).is_err());
        for text in ["", "now", "NaN", "inf", "-1e300", "1e10", "1 2", "0x10"] {
            let request = asked(&[("at", text)]);
            let refused = Parameters::of(&request, &["at"]).unwrap().time("at");
            assert!(matches!(&refused, Err(Refusal::Parameters(_))), "{text}: {refused:?}");
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
    fn charts_are_named_by_their_ids_in_any_order() {
        let ids = |list: &str| {
            let request = asked(&[("charts", list)]);
            let specs = Parameters::of(&request, &["charts"]).unwrap().charts("charts");
            specs.map(|specs| specs.iter().map(|spec| spec.id).collect::<Vec<_>>())
        };
        assert_eq!(
            ids("disk.device_time@read on sda,cpu.modes,disk.device_time@write on sda"),
            Ok(vec!["cpu.modes", "disk.device_time"])
        );
        for list in ["", "cpu.modes,", "cpu", "cpu.modes@,disk"] {
            assert!(ids(list).is_err(), "{list}");
        }
    }

    #[test]
    fn a_part_is_cut_to_what_there_is() {
        let part = |from: Option<i64>, to: Option<i64>| {
            let at = |second: i64| second * S;
            let part = PagePart {
                from: from.map(at),
                to: to.map(at),
                since: None,
                intervals: None,
                specs: Vec::new(),
                content: PageContent::Everything,
            };
            part.span(&(at(100)..=at(500)), at(60)).map(|span| (span.start() / S, span.end() / S))
        };
        assert_eq!(part(None, None), Ok((440, 500)));
        assert_eq!(part(None, Some(200)), Ok((140, 200)));
        assert_eq!(part(None, Some(900)), Ok((440, 500)));
        assert_eq!(part(Some(0), Some(900)), Ok((100, 500)));
        assert_eq!(part(Some(490), None), Ok((490, 500)));
        assert!(matches!(part(Some(300), Some(200)), Err(Refusal::Parameters(_))));
        assert!(matches!(part(Some(600), Some(700)), Err(Refusal::Nothing(_))));
        assert!(matches!(part(Some(600), None), Err(Refusal::Nothing(_))));
        assert!(matches!(part(Some(0), Some(99)), Err(Refusal::Nothing(_))));
    }

    #[test]
    fn times_are_those_of_charts() {
        assert_eq!(seconds(1_795_279_400_123_456_789).to_string(), "1795279400.123");
    }
}
