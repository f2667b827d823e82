//! What is measured, as the command line names it.

use std::fmt;
use std::str::FromStr;
use whyslow_diagnose::Figure;
use whyslow_tune::experiment::{MetricSource, MetricSpec};

/// A metric, and which way is better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    what: What,
    /// Whether more of it is better.
    pub more_is_better: bool,
}

/// Of a command its time or number; else a signal of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Time,
    Number,
    Live(Figure),
}

impl Measure {
    /// How long the command takes.
    pub const TIME: Self = Self { what: What::Time, more_is_better: false };

    /// The signal, where it is one.
    pub fn figure(&self) -> Option<&Figure> {
        match &self.what {
            What::Live(figure) => Some(figure),
            What::Time | What::Number => None,
        }
    }

    /// Where its value comes from.
    pub fn measured(&self) -> MetricSource {
        match self.what {
            What::Time => MetricSource::Time,
            What::Number => MetricSource::Number,
            What::Live(_) => MetricSource::Live,
        }
    }

    /// As the record names it, with its unit.
    pub fn spec(&self, command: &[String]) -> MetricSpec {
        let name = match &self.what {
            What::Time => format!("s, of: {}", command.join(" ")),
            What::Number => format!("printed by: {}", command.join(" ")),
            What::Live(figure) => format!("{figure} in {}", figure.unit()),
        };
        MetricSpec { name, lower_is_better: !self.more_is_better }
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (more_is_better, name) = text.strip_prefix('+').map_or((false, text), |name| (true, name));
        let what = match name {
            "time" => What::Time,
            "number" => What::Number,
            name => What::Live(name.parse()?),
        };
        Ok(Self { what, more_is_better })
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.more_is_better {
            write!(f, "+")?;
        }
        match &self.what {
            What::Time => write!(f, "time"),
            What::Number => write!(f, "number"),
            What::Live(figure) => write!(f, "{figure}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Measure;

    #[test]
    fn a_plus_says_that_more_is_better() {
        for text in ["time", "+number", "disk.wait@vda", "+disk.read_rate@vda"] {
            let measure: Measure = text.parse().unwrap();
            assert_eq!((measure.to_string().as_str(), measure.more_is_better), (text, text.starts_with('+')));
        }
        assert!("tim".parse::<Measure>().is_err());
    }
}
