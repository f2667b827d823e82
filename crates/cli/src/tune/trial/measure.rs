//! Metrics as named on the command line, and measurement of signals of the running machine over a window each.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};
use whyslow_diagnose::{SignalSelector, values};
use whyslow_model::window::Window;
use whyslow_sense::{Root, Sampler};
use whyslow_tune::experiment::{Meter, MetricSource, MetricSpec, MetricValues};

/// A metric, and the direction that is better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialMetric {
    what: MetricReading,
    /// Whether a larger value is better.
    pub more_is_better: bool,
}

/// Time or printed number of a command, or a signal of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MetricReading {
    Time,
    Number,
    Live(SignalSelector),
}

impl TrialMetric {
    /// Duration of the command.
    pub const TIME: Self = Self { what: MetricReading::Time, more_is_better: false };

    /// Returns the signal, if the metric is one.
    pub fn selector(&self) -> Option<&SignalSelector> {
        match &self.what {
            MetricReading::Live(selector) => Some(selector),
            MetricReading::Time | MetricReading::Number => None,
        }
    }

    /// Returns the source of its values.
    pub fn measured(&self) -> MetricSource {
        match self.what {
            MetricReading::Time => MetricSource::Time,
            MetricReading::Number => MetricSource::Number,
            MetricReading::Live(_) => MetricSource::Live,
        }
    }

    /// Returns its name in the record, with the unit.
    pub fn spec(&self, command: &[String]) -> MetricSpec {
        let name = match &self.what {
            MetricReading::Time => format!("s, of: {}", command.join(" ")),
            MetricReading::Number => format!("printed by: {}", command.join(" ")),
            MetricReading::Live(selector) => format!("{selector} in {}", selector.unit()),
        };
        MetricSpec { name, lower_is_better: !self.more_is_better }
    }
}

impl FromStr for TrialMetric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (more_is_better, name) = text.strip_prefix('+').map_or((false, text), |name| (true, name));
        let what = match name {
            "time" => MetricReading::Time,
            "number" => MetricReading::Number,
            name => MetricReading::Live(name.parse()?),
        };
        Ok(Self { what, more_is_better })
    }
}

impl fmt::Display for TrialMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.more_is_better {
            write!(f, "+")?;
        }
        match &self.what {
            MetricReading::Time => write!(f, "time"),
            MetricReading::Number => write!(f, "number"),
            MetricReading::Live(selector) => write!(f, "{selector}"),
        }
    }
}

/// Sampling interval within a measurement: some signals are computed from the steps between samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reads selectors over a window from the start to the end of a measurement.
pub struct SignalMeter {
    selectors: Vec<SignalSelector>,
    /// `None` without selectors, because sampling costs time.
    sampler: Option<Sampler>,
    window: Window,
    due: Instant,
}

impl SignalMeter {
    /// Creates a meter for these selectors; loads the BPF programs now, if needed.
    pub fn new(selectors: Vec<SignalSelector>) -> Self {
        // Rarely read sources must be in each window.
        let mut sampler = (!selectors.is_empty()).then(|| Sampler::new(Root::live()).slow(Duration::ZERO));
        if let Some(sampler) = &mut sampler {
            for source in selectors.iter().flat_map(SignalSelector::asks) {
                sampler.ask(source);
            }
        }
        Self { selectors, sampler, window: Window::default(), due: Instant::now() }
    }

    fn sample(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            self.window.push(sampler.sample());
            self.due = Instant::now() + INTERVAL;
        }
    }
}

impl Meter for SignalMeter {
    fn start(&mut self) {
        self.window = Window::default();
        self.sample();
    }

    fn tick(&mut self) {
        if Instant::now() >= self.due {
            self.sample();
        }
    }

    fn stop(&mut self) -> MetricValues {
        self.sample();
        values(&self.window, &self.selectors)
    }
}

#[cfg(test)]
mod tests {
    use super::TrialMetric;

    #[test]
    fn a_plus_says_that_more_is_better() {
        for text in ["time", "+number", "disk.wait@vda", "+disk.read_rate@vda"] {
            let measure: TrialMetric = text.parse().unwrap();
            assert_eq!((measure.to_string().as_str(), measure.more_is_better), (text, text.starts_with('+')));
        }
        assert!("tim".parse::<TrialMetric>().is_err());
    }
}
