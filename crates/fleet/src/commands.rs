//! Subcommands.

pub mod change;
pub mod compact;
pub mod forecast;
pub mod host;
pub mod outliers;
pub mod serve;
pub mod sick;
pub mod sql;
pub mod tables;
pub mod why;

use crate::span::rfc3339;
use crate::{Fleet, LeftOut, Span};
use schemars::JsonSchema;
use serde::Serialize;
use whyslow_show::clock::ZonedClock;

/// What all answers begin and end with.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Answer<T> {
    /// The kind of document and its version, `whyslow.fleet.NAME/1`: fields may be added.
    pub schema: &'static str,
    /// The first moment it is about.
    pub from: String,
    /// The first one after it.
    pub to: String,
    /// What it says.
    #[serde(flatten)]
    pub content: T,
    /// What is not in it because it is not valid, or not compacted yet.
    pub left_out: Vec<LeftOut>,
}

impl<T> Answer<T> {
    /// Creates the answer for the span of a fleet, with the rows that were left out.
    pub fn new(fleet: &Fleet, schema: &'static str, content: T) -> Self {
        let Span { from_ms, to_ms } = fleet.span();
        Self { schema, from: rfc3339(from_ms), to: rfc3339(to_ms), content, left_out: fleet.left_out() }
    }
}

/// Formats a timestamp (milliseconds since 1970) to the minute, in the local time zone.
pub(crate) fn minute(ms: i64) -> String {
    let text = ZonedClock::local().at(ms.saturating_mul(1_000_000), true);
    text.get(..16).unwrap_or(&text).to_owned()
}

/// Formats a span in the local time zone.
pub(crate) fn span_in_words(span: Span) -> String {
    ZonedClock::local().span(&rfc3339(span.from_ms), &rfc3339(span.to_ms), true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_testing::documents::{assert_kept, schema};

    #[test]
    fn fields_are_added_to_documents_and_none_is_removed() {
        let of_commands = [
            (change::SCHEMA, schema::<Answer<change::ChangeAnswer>>()),
            (compact::SCHEMA, schema::<compact::CompactAnswer<'_>>()),
            (forecast::SCHEMA, schema::<Answer<forecast::Forecasts>>()),
            (host::SCHEMA, schema::<Answer<host::HostReport>>()),
            (outliers::SCHEMA, schema::<Answer<outliers::Outliers>>()),
            (sick::SCHEMA, schema::<Answer<sick::Sick>>()),
            (sql::SCHEMA, schema::<Answer<sql::SqlAnswer>>()),
            (tables::SCHEMA, schema::<tables::Tables<'_>>()),
            (why::SCHEMA, schema::<Answer<why::WhyFinding>>()),
        ];
        for (id, schema) in of_commands.into_iter().chain(serve::documents()) {
            assert_kept(id, &schema);
        }
    }
}
