//! Merges the files of all hosts, one table and hour at a time, and deletes what has expired.
//!
//! A compacted file is written atomically under a new name, its generation, and lists its source files. The files that
//! it replaces are deleted later, so that a query that has already listed them can still read them. A compactor may be
//! killed at any time, and two may run at once: the slower one finds that the generation already exists.

mod merge;
mod requests;

use crate::failure::{OrFailure, is_gone, words};
use crate::left_out::{LeftOut, LeftOutLog};
use crate::span::DAY_MS;
use crate::store::{AT_ONCE, Sources, StoredFile, newest};
use crate::{Failure, Store};
use datafusion::error::{DataFusionError, Result};
use futures::stream::{self, StreamExt};
use jiff::civil::Date;
use merge::Merge;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use whyslow_rollup::{COMPACTED, File, Hour, INCOMING, Place, TableSpec, tables};

/// Hosts ship the end of an hour some time after it.
const SETTLE_MS: i64 = 15 * 60_000;
/// A recording covers at most a week: after this time a host no longer has the data of an hour that it had not
/// finished.
const FORGOTTEN_MS: i64 = 8 * DAY_MS;

/// Compacts a store and deletes expired files.
#[derive(Debug)]
pub struct Compactor {
    store: Store,
    keep: Option<Duration>,
    grace: Duration,
}

/// What a pass did.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct Report {
    /// Hours of tables that got a new compacted file.
    pub compacted: u64,
    /// Files of hosts in them.
    pub files: u64,
    /// Files that others replace and nobody reads any more, deleted.
    pub deleted: u64,
    /// Hours of tables deleted because they are too old.
    pub expired: u64,
    /// Requests for parts of recordings, and answers, deleted because they are older than a day.
    pub requests: u64,
    /// What was left out because it is not valid.
    pub left_out: Vec<LeftOut>,
    /// Hours that could not be compacted, and why.
    pub failed: Vec<String>,
}

impl Compactor {
    /// Creates a compactor that deletes hours that ended longer ago than `keep`, and files replaced longer ago than
    /// `grace`.
    pub fn new(store: Store, keep: Option<Duration>, grace: Duration) -> Self {
        Self { store, keep, grace }
    }

    /// Compacts everything due at `now_ms` (milliseconds since 1970) until it is done or `stop` is set.
    ///
    /// # Errors
    /// Fails if the store cannot be listed.
    pub async fn pass(&self, now_ms: i64, stop: &AtomicBool) -> std::result::Result<Report, Failure> {
        let (mut report, left_out) = (Report::default(), LeftOutLog::default());
        for table in tables() {
            let mut days: BTreeSet<Date> = self.store.days(INCOMING, &table.name).await.or_failure()?;
            days.extend(self.store.days(COMPACTED, &table.name).await.or_failure()?);
            for day in days {
                self.day(table, day, now_ms, stop, (&mut report, &left_out)).await.or_failure()?;
            }
        }
        report.requests = self.delete_requests(now_ms).await.or_failure()?;
        report.left_out = left_out.all();
        Ok(report)
    }

    async fn day(
        &self,
        table: &'static TableSpec,
        day: Date,
        now_ms: i64,
        stop: &AtomicBool,
        (report, left_out): (&mut Report, &LeftOutLog),
    ) -> Result<()> {
        let hours: Vec<Hour> = (0..24).map(|hour| Hour { day, hour }).collect();
        // Same order as readers use.
        let mut incoming = self.store.files(INCOMING, &table.name, &hours).await?;
        let mut compacted = self.store.files(COMPACTED, &table.name, &hours).await?;
        for hour in hours {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let files = HourOfTable {
                table,
                hour,
                incoming: incoming.remove(&hour).unwrap_or_default(),
                compacted: compacted.remove(&hour).unwrap_or_default(),
            };
            match self.hour(files, now_ms, report, left_out).await {
                // Another compactor was faster.
                Err(error) if is_gone(&error) || is_taken(&error) => {}
                Err(error) => report.failed.push(format!("{} of {hour}: {}", table.name, words(&error))),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    async fn hour(&self, files: HourOfTable, now_ms: i64, report: &mut Report, left_out: &LeftOutLog) -> Result<()> {
        let age_ms = now_ms.saturating_sub(files.hour.end());
        if self.keep.is_some_and(|keep| age_ms > milliseconds(keep)) {
            let all = files.incoming.into_iter().chain(files.compacted).collect::<Vec<_>>();
            report.expired += u64::from(!all.is_empty());
            self.delete(all).await?;
            return Ok(());
        }
        if age_ms < SETTLE_MS || files.incoming.is_empty() && files.compacted.len() < 2 {
            return Ok(());
        }
        let newest = newest(files.compacted.clone());
        let sources = match &newest {
            Some(file) => self.store.sources(file).await?,
            None => Sources::default(),
        };
        let is_new = |file: &&StoredFile| sources.same(&file.meta).is_none();
        let pending: Vec<StoredFile> = files.incoming.iter().filter(is_new).cloned().collect();
        if pending.is_empty() {
            let replaced = self.replaced(files, newest.as_ref(), &sources, now_ms);
            report.deleted += self.delete(replaced).await?;
            return Ok(());
        }
        let taken_in = pending.len() as u64;
        self.compact(files.table, files.hour, newest.as_ref(), sources, pending, left_out).await?;
        report.compacted += 1;
        report.files += taken_in;
        Ok(())
    }

    /// Writes the next generation of an hour.
    async fn compact(
        &self,
        table: &'static TableSpec,
        hour: Hour,
        newest: Option<&StoredFile>,
        sources: Sources,
        pending: Vec<StoredFile>,
        left_out: &LeftOutLog,
    ) -> Result<()> {
        let merge = Merge::new(&self.store, table, sources, left_out)?;
        let bytes = merge.run(newest, pending).await?;
        let path = Place::compacted(&table.name, hour, newest.map_or(0, generation) + 1).path();
        let path = Path::parse(path).map_err(object_store::Error::from)?;
        self.store.objects().put_opts(&path, bytes.into(), PutOptions::from(PutMode::Create)).await?;
        Ok(())
    }

    /// Returns the files that the newest generation has replaced, once no reader can still have them listed. Keeps a
    /// file that its host may still rewrite, because it could do so between listing and deletion.
    fn replaced(
        &self,
        files: HourOfTable,
        newest: Option<&StoredFile>,
        sources: &Sources,
        now_ms: i64,
    ) -> Vec<StoredFile> {
        let Some(newest) = newest else { return Vec::new() };
        if now_ms.saturating_sub(newest.meta.last_modified.timestamp_millis()) < milliseconds(self.grace) {
            return Vec::new();
        }
        let is_forgotten = now_ms.saturating_sub(files.hour.end()) > FORGOTTEN_MS;
        let incoming = files.incoming.into_iter().filter(|file| {
            sources
                .same(&file.meta)
                .is_some_and(|source| source.left_out.is_none() && (source.complete || is_forgotten))
        });
        let older = files.compacted.into_iter().filter(|file| generation(file) < generation(newest));
        incoming.chain(older).collect()
    }

    async fn delete(&self, files: Vec<StoredFile>) -> Result<u64> {
        Ok(self.delete_all(files.into_iter().map(|file| file.meta.location)).await?)
    }

    /// Deletes the objects at these paths and returns how many existed.
    async fn delete_all(&self, paths: impl IntoIterator<Item = Path>) -> object_store::Result<u64> {
        let deletions = paths.into_iter().map(|path| async move { self.store.objects().delete(&path).await });
        let done: Vec<object_store::Result<()>> = stream::iter(deletions).buffer_unordered(AT_ONCE).collect().await;
        let mut deleted = 0;
        for result in done {
            match result {
                Ok(()) => deleted += 1,
                Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }
}

/// Files of a table and hour.
struct HourOfTable {
    table: &'static TableSpec,
    hour: Hour,
    incoming: Vec<StoredFile>,
    compacted: Vec<StoredFile>,
}

fn generation(file: &StoredFile) -> u64 {
    match file.place.file {
        File::Generation(generation) => generation,
        File::Host(_) => 0,
    }
}

/// Returns whether the generation already existed.
fn is_taken(error: &DataFusionError) -> bool {
    matches!(error, DataFusionError::ObjectStore(error)
        if matches!(**error, object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }))
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
