//! What is normal of a quantity: the value at which nobody would look twice.

use crate::human;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What is normal of a quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normal {
    /// Unit of the range.
    pub unit: &'static str,
    /// Normal values. `None` if they depend on the workload, or on the cause that the quantity is evidence of.
    pub range: Option<Range>,
    /// Words on it.
    pub words: Words,
}

/// Range of normal values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// Below this value.
    Below(f64),
    /// Below one value on rotational disks, and below another on all others.
    BelowOnDisks {
        /// Limit for rotational disks, and for those whose kind is unknown.
        rotational: f64,
        /// Limit for others.
        others: f64,
    },
    /// Above this value.
    Above(f64),
    /// Zero, or at most this value, which is as good as zero.
    NearZero(f64),
}

/// Words on a normal value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// Stand instead of the range.
    Instead(&'static str),
    /// Stand after the range, and say why. Empty if there are none.
    Why(&'static str),
}

impl Normal {
    /// Creates a value for a quantity of which nothing is known to be normal.
    pub const fn unknown(unit: &'static str) -> Self {
        Self { unit, range: None, words: Words::Why("") }
    }

    /// Returns what is normal of one disk, or of anything else.
    pub fn on_disk(&self, is_rotational: bool) -> Self {
        let range = self.range.map(|range| match range {
            Range::BelowOnDisks { rotational, others } => Range::Below(if is_rotational { rotational } else { others }),
            range => range,
        });
        Self { range, ..*self }
    }

    /// Returns what is normal in words. Empty if nothing is declared.
    pub fn text(&self) -> Cow<'static, str> {
        let (range, why) = match (self.range, self.words) {
            (None, Words::Instead(text) | Words::Why(text)) | (_, Words::Instead(text)) => return text.into(),
            (Some(range), Words::Why(why)) => (range, why),
        };
        let number = |number: f64| without_trailing_zeros(&human::quantity(number, self.unit));
        let range = match range {
            Range::Below(most) => format!("below {}", number(most)),
            Range::BelowOnDisks { rotational, others } => {
                format!("below {}, on rotational disks below {}", number(others), number(rotational))
            }
            Range::Above(least) => format!("above {}", number(least)),
            Range::NearZero(0.0) => number(0.0),
            Range::NearZero(_) => "near 0".to_owned(),
        };
        if why.is_empty() { range.into() } else { format!("{range}: {why}").into() }
    }

    /// Returns how far a value is outside the normal range: the factor by which it is above or below it, from 1 on. `None` if it
    /// is normal, or nobody knows. A value that should be zero has no factor, and is [`FROM_ZERO`] outside.
    pub fn distance(&self, value: f64) -> Option<f64> {
        let distance = match self.range? {
            Range::Below(most) | Range::BelowOnDisks { rotational: most, .. } => value / most,
            Range::Above(least) if least > 0.0 => least / value.max(least / FURTHEST),
            // Levels in dBm.
            Range::Above(least) => value / least,
            Range::NearZero(0.0) => {
                if value > 0.0 {
                    FROM_ZERO
                } else {
                    0.0
                }
            }
            Range::NearZero(most) => value / most,
        };
        (distance > 1.0).then_some(distance.min(FURTHEST))
    }
}

/// Formats a limit as it was chosen, `0.1 %`, not as a measurement is rounded, `0.10 %`.
fn without_trailing_zeros(text: &str) -> String {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    format!("{digits}{unit}")
}

/// Distance of any value from a range that is zero alone.
pub const FROM_ZERO: f64 = 10.0;
/// Largest distance: beyond it, nothing is more unusual.
const FURTHEST: f64 = 1000.0;

impl Serialize for Normal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text().serialize(serializer)
    }
}

impl JsonSchema for Normal {
    fn schema_name() -> Cow<'static, str> {
        "Normal".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

/// Which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Higher is better.
    Higher,
    /// Lower is better.
    Lower,
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn normal(unit: &'static str, range: Range, words: Words) -> Normal {
        Normal { unit, range: Some(range), words }
    }

    #[test]
    fn the_words_follow_from_the_range() {
        let text = |unit, range, words| normal(unit, range, words).text();
        assert_eq!(text("ratio", Range::Below(0.8), Words::Why("")), "below 80 %");
        assert_eq!(text("1/s", Range::NearZero(0.0), Words::Why("nothing is lost")), "0/s: nothing is lost");
        assert_eq!(text("count", Range::NearZero(10.0), Words::Instead("0, or a few")), "0, or a few");
        let disks = Range::BelowOnDisks { rotational: 0.025, others: 0.005 };
        assert_eq!(text("s", disks, Words::Why("")), "below 5 ms, on rotational disks below 25 ms");
        assert_eq!(text("ratio", Range::Below(0.001), Words::Why("")), "below 0.1 %");
        assert_eq!(text("s", Range::Below(0.01), Words::Why("")), "below 10 ms");
        assert_eq!(text("ratio", Range::NearZero(0.0), Words::Why("")), "0 %");
        assert_eq!(Normal::unknown("s").text(), "");
    }

    #[test]
    fn what_is_further_outside_is_more_unusual() {
        let disks = normal("s", Range::BelowOnDisks { rotational: 0.025, others: 0.005 }, Words::Why(""));
        assert_eq!(disks.on_disk(true).distance(0.02), None);
        assert_eq!(disks.on_disk(false).distance(0.02), Some(4.0));
        let above = normal("ratio", Range::Above(0.1), Words::Why(""));
        assert_eq!(above.distance(0.5), None);
        assert_eq!(above.distance(0.05), Some(2.0));
        assert_eq!(above.distance(0.0), Some(FURTHEST));
        let signal = normal("count", Range::Above(-67.0), Words::Why(""));
        assert_eq!(signal.distance(-60.0), None);
        assert!(signal.distance(-80.0) > Some(1.0));
        let zero = normal("count", Range::NearZero(0.0), Words::Why(""));
        assert_eq!((zero.distance(0.0), zero.distance(3.0)), (None, Some(FROM_ZERO)));
    }
}
