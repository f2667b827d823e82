//! What is wanted: a setting by name, with a value, a bound or a choice.

use crate::error::Error;
use crate::target::Target;

/// A setting that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Of what.
    pub target: Target,
    /// Which value.
    pub wanted: Wanted,
    /// Why, in words; empty where nobody said.
    pub reason: String,
}

/// Which value is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This one.
    Exactly(String),
    /// This number, unless it is higher already.
    AtLeast(String),
    /// This number, unless it is lower already.
    AtMost(String),
    /// The first of these that is to be had.
    FirstOf(Vec<String>),
}

/// Reads `NAME[@THING]=VALUE`.
///
/// # Errors
/// What is missing.
pub fn wish(text: &str) -> Result<Wish, Error> {
    let (target, value) = text
        .split_once('=')
        .ok_or_else(|| Error::Usage(format!("'{text}': a change is written NAME=VALUE or NAME@THING=VALUE")))?;
    let target = target.trim().parse().map_err(Error::Usage)?;
    Ok(Wish { target, wanted: Wanted::Exactly(value.trim().to_owned()), reason: String::new() })
}

impl Wanted {
    /// The wish in the words it came in.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Exactly(value) => value.clone(),
            Self::AtLeast(value) => format!("at least {value}"),
            Self::AtMost(value) => format!("at most {value}"),
            Self::FirstOf(values) => values.join(" or "),
        }
    }
}
