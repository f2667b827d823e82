//! Trino over the compacted files of a store: the same SQL, on as many workers as the fleet needs.
//!
//! Hosts' own files are not read: a damaged one, deliberately or not, would fail every query, and SQL cannot see which
//! of them count, because that is written in the metadata of the compacted files. The compactor has validated every row
//! that it wrote.

mod address;
mod client;
pub(crate) mod ddl;
mod page;
mod question;

pub(crate) use address::{Address, SchemaName};

use crate::cell::text;
use crate::failure::OrFailure;
use crate::left_out::LeftOutLog;
use crate::span::{DAY_MS, HOUR_MS};
use crate::table::reach;
use crate::{Failure, QueryRows, Span, Store, sql};
use client::Client;
use question::Question;
use std::collections::BTreeMap;
use whyslow_rollup::{Hour, TableSpec};

/// Reason why a host's file is not in an answer.
const NOT_COMPACTED: &str = "not compacted yet, and Trino reads compacted files";

/// How far back from the end of the span to look for the last compacted hour, in increasing order.
const REACHES_MS: [i64; 3] = [6 * HOUR_MS, 2 * DAY_MS, i64::MAX];

/// A Trino cluster with the tables that [`ddl`] creates.
#[derive(Debug)]
pub(crate) struct Trino {
    client: Client,
    schema: SchemaName,
    /// Store that hosts ship to, used to report the files that are not compacted yet.
    store: Option<Store>,
}

impl Trino {
    /// Creates an engine for a cluster; with a store, answers report the files that are not compacted yet.
    ///
    /// # Errors
    /// Fails if the password cannot be sent.
    pub(crate) fn new(address: &Address, store: Option<Store>) -> Result<Self, Failure> {
        Ok(Self { client: Client::new(address)?, schema: address.schema.clone(), store })
    }

    /// Shortens the span to end with the last compacted hour.
    ///
    /// # Errors
    /// Fails if no hour of the span is compacted or Trino does not answer.
    pub(crate) async fn compacted(&self, span: Span) -> Result<Span, Failure> {
        for reach in REACHES_MS {
            let end = Span { from_ms: span.from_ms.max(span.to_ms.saturating_sub(reach)), ..span };
            let rows = self.ask(&Question::parse(&sql::last_hour(end))?, end, 1).await?.rows;
            if let Some(hour) = rows.first().and_then(|row| hour(text(row.first()?)?)) {
                return Ok(Span { to_ms: span.to_ms.min(hour.end()), ..span });
            }
            if end == span {
                break;
            }
        }
        Err(Failure::nothing(
            "nothing of that time is compacted, and Trino reads what 'whyslow-fleet compact' has merged",
        ))
    }

    pub(crate) async fn answer(
        &self,
        sql: &str,
        span: Span,
        most: usize,
        left_out: &LeftOutLog,
    ) -> Result<QueryRows, Failure> {
        let question = Question::parse(sql)?;
        let (rows, ()) =
            tokio::try_join!(self.ask(&question, span, most), self.list(&question.tables, span, left_out))?;
        Ok(rows)
    }

    async fn ask(&self, question: &Question, span: Span, most: usize) -> Result<QueryRows, Failure> {
        self.client.query(&question.over(span, &self.schema), most).await
    }

    /// Logs the hosts' files of these tables that Trino does not read.
    async fn list(&self, tables: &[&'static TableSpec], span: Span, left_out: &LeftOutLog) -> Result<(), Failure> {
        let Some(store) = &self.store else { return Ok(()) };
        for table in tables {
            let span = reach(table, span);
            if !left_out.begins(&table.name, span) {
                continue;
            }
            let hours = store.hours(&table.name, span).await.or_failure()?;
            for hour in store.that_count(&table.name, &hours).await.or_failure()? {
                let pending = hour.incoming.iter().map(|file| (file, NOT_COMPACTED));
                let unreadable = hour.unreadable.iter().map(|(file, reason)| (file, reason.as_str()));
                for (file, reason) in pending.chain(unreadable) {
                    let host = file.place.host().unwrap_or_default();
                    left_out.file(file.meta.location.as_ref(), host, reason.to_owned());
                }
            }
        }
        Ok(())
    }

    pub(crate) async fn hosts(&self, span: Span, left_out: &LeftOutLog) -> Result<BTreeMap<String, Hour>, Failure> {
        let rows = self.answer(&sql::last_hours(span), span, usize::MAX, left_out).await?.rows;
        let pair = |row: &Vec<_>| Some((text(row.first()?)?.to_owned(), hour(text(row.get(1)?)?)?));
        Ok(rows.iter().filter_map(pair).collect())
    }
}

/// Parses an hour in the format of [`sql::last_hour`].
fn hour(text: &str) -> Option<Hour> {
    let (day, hour) = text.split_once(' ')?;
    Hour::parse(day, hour)
}

#[cfg(test)]
mod tests;
