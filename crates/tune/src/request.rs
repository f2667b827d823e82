//! Requested changes: a setting by name, with a value, a bound or a choice.

use crate::Error;
use crate::target::ChangeTarget;

/// A requested change of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRequest {
    /// The setting.
    pub target: ChangeTarget,
    /// The requested value.
    pub wanted: RequestedValue,
    /// The reason given in the request; empty if there is none.
    pub reason: String,
}

/// A requested value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedValue {
    /// This value.
    Exactly(String),
    /// At least this number; several numbers are compared one by one.
    AtLeast(String),
    /// At most this number; several numbers are compared one by one.
    AtMost(String),
    /// Several numbers, each with its own bound.
    Each(Vec<RequestedValue>),
    /// The first of these that is available.
    FirstOf(Vec<String>),
}

/// Parses `NAME[@THING]=VALUE`.
///
/// # Errors
/// Fails if a part is missing.
pub fn parse_change(text: &str) -> Result<ChangeRequest, Error> {
    let (target, value) = text
        .split_once('=')
        .ok_or_else(|| Error::Usage(format!("'{text}': a change is written NAME=VALUE or NAME@THING=VALUE")))?;
    let target = target.trim().parse().map_err(Error::Usage)?;
    Ok(ChangeRequest { target, wanted: RequestedValue::Exactly(value.trim().to_owned()), reason: String::new() })
}

impl RequestedValue {
    /// Returns the numbers without their bounds; `None` for a choice.
    pub(crate) fn value(&self) -> Option<String> {
        match self {
            Self::Exactly(value) | Self::AtLeast(value) | Self::AtMost(value) => Some(value.clone()),
            Self::Each(words) => words.iter().map(Self::value).collect::<Option<Vec<_>>>().map(|words| words.join(" ")),
            Self::FirstOf(_) => None,
        }
    }

    /// Formats the value as in tuned.conf: `>` and `<` before a bound.
    pub(crate) fn in_profile(&self) -> Option<String> {
        match self {
            Self::Exactly(value) => Some(value.clone()),
            Self::AtLeast(value) => Some(format!(">{value}")),
            Self::AtMost(value) => Some(format!("<{value}")),
            Self::Each(words) => {
                words.iter().map(Self::in_profile).collect::<Option<Vec<_>>>().map(|words| words.join(" "))
            }
            Self::FirstOf(values) => values.first().cloned(),
        }
    }

    /// Returns the number to set, given the present one.
    pub(crate) fn resolve(&self, now: i128, value: i128) -> i128 {
        match self {
            Self::AtLeast(_) => now.max(value),
            Self::AtMost(_) => now.min(value),
            _ => value,
        }
    }

    /// Returns the bound for the number at a position.
    pub(crate) fn at(&self, place: usize) -> &Self {
        match self {
            Self::Each(words) => words.get(place).unwrap_or(self),
            whole => whole,
        }
    }

    /// Formats the request as it was given.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Exactly(value) => value.clone(),
            Self::AtLeast(value) => format!("at least {value}"),
            Self::AtMost(value) => format!("at most {value}"),
            Self::Each(words) => words.iter().map(Self::words).collect::<Vec<_>>().join(" "),
            Self::FirstOf(values) => values.join(" or "),
        }
    }
}
