//! What is wanted: a setting by name, with a value, a bound or a choice.

use crate::Error;
use crate::target::Target;

/// A setting that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRequest {
    /// Of what.
    pub target: Target,
    /// Which value.
    pub wanted: RequestedValue,
    /// The reason given for it; empty if there is none.
    pub reason: String,
}

/// Which value is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedValue {
    /// This one.
    Exactly(String),
    /// This number, unless it is higher already; of several numbers each by itself.
    AtLeast(String),
    /// This number, unless it is lower already; of several numbers each by itself.
    AtMost(String),
    /// Several numbers, each with its own bound.
    Each(Vec<RequestedValue>),
    /// The first of these that is available.
    FirstOf(Vec<String>),
}

/// Reads `NAME[@THING]=VALUE`.
///
/// # Errors
/// What is missing.
pub fn parse_change(text: &str) -> Result<ChangeRequest, Error> {
    let (target, value) = text
        .split_once('=')
        .ok_or_else(|| Error::Usage(format!("'{text}': a change is written NAME=VALUE or NAME@THING=VALUE")))?;
    let target = target.trim().parse().map_err(Error::Usage)?;
    Ok(ChangeRequest { target, wanted: RequestedValue::Exactly(value.trim().to_owned()), reason: String::new() })
}

impl RequestedValue {
    /// The numbers themselves, without what is said about them; none where it is a choice.
    pub(crate) fn value(&self) -> Option<String> {
        match self {
            Self::Exactly(value) | Self::AtLeast(value) | Self::AtMost(value) => Some(value.clone()),
            Self::Each(words) => words.iter().map(Self::value).collect::<Option<Vec<_>>>().map(|words| words.join(" ")),
            Self::FirstOf(_) => None,
        }
    }

    /// As tuned.conf writes it: `>` and `<` before a bound.
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

    /// The number to set, given the present one.
    pub(crate) fn of(&self, now: i128, value: i128) -> i128 {
        match self {
            Self::AtLeast(_) => now.max(value),
            Self::AtMost(_) => now.min(value),
            _ => value,
        }
    }

    /// What is said about the number at a place among several.
    pub(crate) fn at(&self, place: usize) -> &Self {
        match self {
            Self::Each(words) => words.get(place).unwrap_or(self),
            whole => whole,
        }
    }

    /// The request in the words it came in.
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
