//! Files of a store, and the rules that decide which of them count.
//!
//! For each hour of a table, the compacted file with the highest generation counts, and the hosts' files that are not
//! merged into it. A host's file that is newer than the compacted version replaces that host's rows. So nothing is lost
//! or counted twice while the compactor works, or after it was killed.

mod open;
mod sources;

pub use sources::{SourceFile, Sources, tag};

use crate::Span;
use crate::validity::{self, ValidRows};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::DefaultParquetFileReaderFactory;
use datafusion::error::Result as QueryResult;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::stream::{self, StreamExt, TryStreamExt};
use jiff::civil::Date;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use whyslow_rollup::{COMPACTED, File, Hour, INCOMING, Place, TableSpec, VERSION};

/// Maximum number of concurrent requests to the store.
pub(crate) const AT_ONCE: usize = 16;

/// Bytes read first from the end of a Parquet file: enough for the whole footer of a compacted file of a thousand
/// hosts.
pub(crate) const FOOTER_HINT: usize = 128 << 10;

/// A folder or a bucket of an S3-compatible store that hosts ship to.
#[derive(Clone, Debug)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
}

/// A file of the store with its parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// Area, table, hour and name, parsed from the path.
    pub place: Place,
    /// Path, size and entity tag.
    pub meta: ObjectMeta,
}

/// The files of a table and hour that count.
#[derive(Clone, Debug)]
pub struct HourFiles {
    /// Hour of the files.
    pub hour: Hour,
    /// Compacted file, if there is one.
    pub compacted: Option<StoredFile>,
    /// Hosts whose rows in the compacted file do not count, because their own file is newer.
    pub replaced: BTreeSet<String>,
    /// Hosts' files.
    pub incoming: Vec<StoredFile>,
    /// Hosts' files that the compactor could not read, with the reason; they contribute no rows.
    pub unreadable: Vec<(StoredFile, String)>,
}

/// Identity of a host's file, with the rows of it that count.
#[derive(Debug)]
pub struct HostFile {
    /// Identity of the file, as recorded in the compacted file.
    pub source: SourceFile,
    /// Valid rows, or the reason why the file does not count.
    pub rows: Result<ValidRows, String>,
}

impl Store {
    /// Creates a store from an object store: for tests, and for stores that [`open`](Self::open) does not support.
    pub fn from_objects(objects: Arc<dyn ObjectStore>) -> Self {
        Self { objects }
    }

    /// Returns the underlying object store.
    pub fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.objects
    }

    /// Returns the hours of a span for which a table may have files, judged by the folders of its days.
    pub async fn hours(&self, table: &str, span: Span) -> QueryResult<Vec<Hour>> {
        let mut days = self.days(INCOMING, table).await?;
        days.extend(self.days(COMPACTED, table).await?);
        let hours = days.into_iter().flat_map(|day| (0..24).map(move |hour| Hour { day, hour }));
        Ok(hours.filter(|&hour| span.touches(hour)).collect())
    }

    /// Returns the days for which a table has files.
    pub async fn days(&self, area: &str, table: &str) -> QueryResult<BTreeSet<Date>> {
        let folder = Path::parse(format!("{VERSION}/{area}/{table}")).map_err(object_store::Error::from)?;
        let listed = self.objects.list_with_delimiter(Some(&folder)).await?;
        let day = |path: &Path| path.filename()?.strip_prefix("day=")?.parse().ok();
        Ok(listed.common_prefixes.iter().filter_map(day).collect())
    }

    /// Returns the files of these hours; skips names that cannot be parsed.
    pub async fn files(&self, area: &str, table: &str, hours: &[Hour]) -> QueryResult<BTreeMap<Hour, Vec<StoredFile>>> {
        let wanted: BTreeSet<Hour> = hours.iter().copied().collect();
        let listings = folders(area, table, &wanted).into_iter().map(|folder| async move {
            let folder = Path::parse(folder).map_err(object_store::Error::from)?;
            self.objects.list(Some(&folder)).try_collect::<Vec<ObjectMeta>>().await
        });
        let listed: Vec<Vec<ObjectMeta>> = stream::iter(listings).buffered(AT_ONCE).try_collect().await?;
        let mut files: BTreeMap<Hour, Vec<StoredFile>> = BTreeMap::new();
        for meta in listed.into_iter().flatten() {
            if let Some(place) = Place::parse(meta.location.as_ref())
                && wanted.contains(&place.hour)
            {
                files.entry(place.hour).or_default().push(StoredFile { place, meta });
            }
        }
        Ok(files)
    }

    /// Returns the files of these hours that count.
    pub async fn that_count(&self, table: &str, hours: &[Hour]) -> QueryResult<Vec<HourFiles>> {
        // In this order: a file that is compacted and deleted in between is then found in its generation, instead of
        // nowhere.
        let mut incoming = self.files(INCOMING, table, hours).await?;
        let mut compacted = self.files(COMPACTED, table, hours).await?;
        let decisions = hours.iter().filter_map(|&hour| {
            let incoming = incoming.remove(&hour).unwrap_or_default();
            let compacted = compacted.remove(&hour).and_then(newest);
            (compacted.is_some() || !incoming.is_empty()).then_some((hour, compacted, incoming))
        });
        let decisions: Vec<_> = decisions.collect();
        let decided = decisions.into_iter().map(|(hour, compacted, incoming)| self.decide(hour, compacted, incoming));
        stream::iter(decided).buffered(AT_ONCE).try_collect().await
    }

    async fn decide(
        &self,
        hour: Hour,
        compacted: Option<StoredFile>,
        incoming: Vec<StoredFile>,
    ) -> QueryResult<HourFiles> {
        let sources = match &compacted {
            // Without hosts' files nothing needs to be compared.
            Some(file) if !incoming.is_empty() => self.sources(file).await?,
            _ => Sources::default(),
        };
        let mut files =
            HourFiles { hour, compacted, replaced: BTreeSet::new(), incoming: Vec::new(), unreadable: Vec::new() };
        for file in incoming {
            match sources.same(&file.meta) {
                Some(SourceFile { left_out: Some(reason), .. }) => files.unreadable.push((file, reason.clone())),
                Some(_) => {}
                None => {
                    files.replaced.extend(file.place.host().map(str::to_owned));
                    files.incoming.push(file);
                }
            }
        }
        Ok(files)
    }

    /// Reads a host's file. Returns the identity of what was read: the host may have replaced the file since it was
    /// listed.
    pub async fn read(&self, file: &StoredFile, table: &TableSpec) -> QueryResult<HostFile> {
        let got = self.objects.get(&file.meta.location).await?;
        let mut source = SourceFile {
            name: file.meta.location.filename().unwrap_or_default().to_owned(),
            size: got.meta.size,
            tag: tag(&got.meta),
            complete: false,
            left_out: None,
        };
        let rows = if got.meta.size > validity::MOST_BYTES {
            Err(validity::too_large())
        } else {
            validity::read(got.bytes().await?, table, &file.place)
        };
        match &rows {
            Ok(valid) => source.complete = valid.complete,
            Err(reason) => source.left_out = Some(reason.clone()),
        }
        Ok(HostFile { source, rows })
    }

    /// Opens a file for reading parts of it.
    pub(crate) fn reader(&self, file: &StoredFile) -> QueryResult<Box<dyn AsyncFileReader>> {
        let readers = DefaultParquetFileReaderFactory::new(Arc::clone(&self.objects));
        let file = PartitionedFile::new_from_meta(file.meta.clone());
        Ok(readers.create_reader(0, file, Some(FOOTER_HINT), &ExecutionPlanMetricsSet::new())?)
    }

    /// Returns the sources of a compacted file.
    pub async fn sources(&self, file: &StoredFile) -> QueryResult<Sources> {
        let metadata = self.reader(file)?.get_metadata(Some(&ArrowReaderOptions::new())).await?;
        Ok(Sources::from_metadata(metadata.file_metadata()))
    }

    /// Returns the hosts that shipped data to a table in a span, each with the last hour: from the file names, without
    /// reading rows. Ignores files that the compactor could not read.
    pub async fn hosts(&self, table: &str, span: Span) -> QueryResult<BTreeMap<String, Hour>> {
        let hours = self.hours(table, span).await?;
        let mut incoming = self.files(INCOMING, table, &hours).await?;
        let mut compacted = self.files(COMPACTED, table, &hours).await?;
        let hosts = hours.into_iter().map(|hour| {
            let (incoming, compacted) = (incoming.remove(&hour), compacted.remove(&hour).and_then(newest));
            self.hosts_of(hour, incoming.unwrap_or_default(), compacted)
        });
        let hosts: Vec<(Hour, Vec<String>)> = stream::iter(hosts).buffered(AT_ONCE).try_collect().await?;
        // In chronological order: the last hour of a host replaces the others.
        Ok(hosts.into_iter().flat_map(|(hour, hosts)| hosts.into_iter().map(move |host| (host, hour))).collect())
    }
    async fn hosts_of(
        &self,
        hour: Hour,
        incoming: Vec<StoredFile>,
        compacted: Option<StoredFile>,
    ) -> QueryResult<(Hour, Vec<String>)> {
        let sources = match &compacted {
            Some(file) => self.sources(file).await?,
            None => Sources::default(),
        };
        let is_read = |file: &&StoredFile| sources.same(&file.meta).is_none_or(|source| source.left_out.is_none());
        let waiting = incoming.iter().filter(is_read).filter_map(|file| Some(file.place.host()?.to_owned()));
        Ok((hour, sources.hosts(hour).chain(waiting).collect()))
    }
}

/// Returns the compacted file with the highest generation.
pub(crate) fn newest(files: Vec<StoredFile>) -> Option<StoredFile> {
    files.into_iter().max_by_key(|file| match file.place.file {
        File::Generation(generation) => generation,
        File::Host(_) => 0,
    })
}

/// Returns the folders to list: the folder of a whole day if all of its hours are wanted.
fn folders(area: &str, table: &str, hours: &BTreeSet<Hour>) -> Vec<String> {
    let mut days: BTreeMap<Date, Vec<Hour>> = BTreeMap::new();
    for hour in hours {
        days.entry(hour.day).or_default().push(*hour);
    }
    let folders = days.into_iter().flat_map(|(day, hours)| {
        if hours.len() == 24 {
            return vec![format!("{VERSION}/{area}/{table}/day={day}")];
        }
        hours.into_iter().map(|hour| Place::folder(area, table, hour)).collect()
    });
    folders.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_day_is_listed_at_once() {
        let hours: BTreeSet<Hour> = (22..24)
            .map(|hour| Hour { day: jiff::civil::date(2026, 11, 25), hour })
            .chain((0..24).map(|hour| Hour { day: jiff::civil::date(2026, 11, 26), hour }))
            .collect();
        assert_eq!(
            folders(COMPACTED, "minute", &hours),
            [
                "v1/compacted/minute/day=2026-11-25/hour=22",
                "v1/compacted/minute/day=2026-11-25/hour=23",
                "v1/compacted/minute/day=2026-11-26",
            ]
        );
    }
}
