//! One file: one hour of one table.

use super::footers::{FileVersion, FooterCache};
use super::layout::TableLayout;
use super::row_group::{RowGroupBuffer, properties};
use crate::error::StoreError;
use crate::folder::{Folder, Hour, SEGMENTS, is_draft, sync_folder};
use crate::permissions::{create_file, create_subfolder};
use bytes::Bytes;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{
    KeyValue, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy, RowGroupMetaData,
};
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedRowGroupReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use whyslow_model::catalogue::families;
use whyslow_model::key::KeyPart;
use whyslow_model::value::Value;

/// Size up to which files are copied in one read; copying column by column takes five system calls for each column.
const SMALL: u64 = 1 << 20;

/// Position of the times among the columns of a file.
const TIME_COLUMN: usize = 0;

/// A segment, as listed in each file that has rows of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Segment {
    /// Time of its first sample, nanoseconds since 1970. Identifies the segment.
    pub(crate) start: i64,
    /// Time of its last sample.
    pub(crate) end: i64,
    /// Boot ID.
    pub(crate) boot: String,
    /// Time since boot at its first sample, nanoseconds: the wall clock may have been set.
    pub(crate) clock: u64,
    /// Number of its row groups in this file; they follow those of the segments listed before it.
    pub(crate) row_groups: usize,
}

pub(crate) struct HourFile {
    path: PathBuf,
    file: Arc<File>,
    footer: Arc<Footer>,
}

/// Footer of a file.
pub(super) struct Footer {
    metadata: ParquetMetaData,
    segments: Vec<Segment>,
}

impl HourFile {
    /// Opens a file to write a new version of it; `None` if there is no such file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or does not belong to a recording.
    fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let Some(file) = open(path)? else { return Ok(None) };
        let footer = Footer::read(path, &file, ParquetStatisticsPolicy::KeepAll)?;
        Ok(Some(Self { path: path.to_owned(), file: Arc::new(file), footer: Arc::new(footer) }))
    }

    /// Opens a file to read rows of it. Its footer is parsed once.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    fn open_to_read(path: &Path, footers: &FooterCache) -> Result<Option<Self>, StoreError> {
        let Some(file) = open(path)? else { return Ok(None) };
        let version = FileVersion::read(&file).map_err(StoreError::io(path))?;
        // Statistics of other columns would take most of the time and memory: each column of each segment has its own.
        let parse = || Footer::read(path, &file, ParquetStatisticsPolicy::skip_except(&[TIME_COLUMN]));
        let footer = footers.get(path, version, parse)?;
        Ok(Some(Self { path: path.to_owned(), file: Arc::new(file), footer }))
    }

    /// Returns the segments that have rows in the file.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.footer.segments
    }

    /// Returns a row group.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub(super) fn row_group(&self, number: usize) -> ParquetResult<SerializedRowGroupReader<'_, File>> {
        let metadata = self.footer.metadata.row_group(number);
        let properties = Arc::new(ReaderProperties::builder().build());
        SerializedRowGroupReader::new(Arc::clone(&self.file), metadata, None, properties)
    }

    /// Adds the path to an error of the parquet crate.
    pub(super) fn error(&self) -> impl FnOnce(ParquetError) -> StoreError {
        StoreError::parquet(&self.path)
    }

    /// Returns the row groups of a segment.
    pub(super) fn row_groups(&self, segment: &Segment) -> std::ops::Range<usize> {
        let all = self.footer.metadata.num_row_groups();
        let before = self.segments().iter().take_while(|s| s.start != segment.start);
        let first = before.map(|s| s.row_groups).sum::<usize>().min(all);
        first..(first + segment.row_groups).min(all)
    }

    fn has_columns(&self, schema: &Type) -> bool {
        self.footer.metadata.file_metadata().schema() == schema
    }
}

impl Footer {
    fn read(path: &Path, file: &File, statistics: ParquetStatisticsPolicy) -> Result<Self, StoreError> {
        let options = ParquetMetaDataOptions::new().with_column_stats_policy(statistics);
        let reader = ParquetMetaDataReader::new().with_metadata_options(Some(options));
        let metadata = reader.parse_and_finish(file).map_err(StoreError::parquet(path))?;
        let words = metadata.file_metadata().key_value_metadata();
        let listed = words.and_then(|all| all.iter().find(|w| w.key == SEGMENTS)).and_then(|w| w.value.as_deref());
        let segments = listed.and_then(|listed| serde_json::from_str(listed).ok());
        let segments = segments.ok_or_else(|| StoreError::invalid(path, "not a recording of whyslow"))?;
        Ok(Self { metadata, segments })
    }

    /// Returns the number of parts it describes, to which its size in memory is proportional.
    pub(super) fn parts(&self) -> usize {
        self.metadata.row_groups().iter().map(RowGroupMetaData::num_columns).sum::<usize>() + 1
    }
}

fn open(path: &Path) -> Result<Option<File>, StoreError> {
    match File::open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some).map_err(StoreError::io(path)),
    }
}

/// A new version of a file under a temporary name. Removed when dropped, unless it has replaced the old version.
struct HourDraft {
    path: PathBuf,
    temporary: PathBuf,
}

impl Drop for HourDraft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Finished drafts that have yet to replace the old versions.
#[derive(Default)]
pub(super) struct Drafts {
    files: Vec<File>,
    drafts: Vec<HourDraft>,
}

impl Drafts {
    /// Replaces all old versions, durably.
    ///
    /// # Errors
    /// Fails if a file cannot be flushed or renamed. Each file is then either the old or the new version.
    pub(super) fn put_in_place(self) -> Result<(), StoreError> {
        for (file, draft) in self.files.iter().zip(&self.drafts) {
            file.sync_all().map_err(StoreError::io(&draft.temporary))?;
        }
        for HourDraft { path, temporary } in &self.drafts {
            fs::rename(temporary, path).map_err(StoreError::io(path))?;
        }
        // A new name survives a power failure only once its directory is flushed. The table's and the recording's
        // directories may be new, too.
        let folders = self.drafts.iter().flat_map(|draft| draft.path.ancestors().skip(1).take(3));
        folders.collect::<BTreeSet<&Path>>().into_iter().try_for_each(sync_folder)
    }
}

/// A file being written: its previous content, and more segments.
pub(super) struct HourWriter {
    draft: HourDraft,
    writer: SerializedFileWriter<File>,
    segments: Vec<Segment>,
    /// Segments that files of the hour have already, because an earlier attempt was interrupted after this file.
    present: BTreeSet<i64>,
    rows: RowGroupBuffer,
}

impl HourWriter {
    /// Starts to add segments to the hour's file in `folder`. Returns `None` if its files have all of them already.
    pub(super) fn begin<'s>(
        folder: &Path,
        hour: u8,
        layout: &TableLayout,
        segments: impl Iterator<Item = &'s Segment> + Clone,
    ) -> Result<Option<Self>, StoreError> {
        // The table's folder, then the day's.
        for folder in folder.parent().into_iter().chain([folder]) {
            create_subfolder(folder).map_err(StoreError::io(folder))?;
        }
        let schema = layout.schema().map_err(StoreError::parquet(folder))?;
        let properties = properties(layout).map_err(StoreError::parquet(folder))?;
        let mut present = BTreeSet::new();
        let mut part = 0;
        let (path, old) = loop {
            let path = folder.join(file_name(hour, part));
            match HourFile::open(&path) {
                Ok(Some(old)) => {
                    present.extend(old.segments().iter().map(|segment| segment.start));
                    if segments.clone().all(|segment| present.contains(&segment.start)) {
                        return Ok(None);
                    }
                    if old.has_columns(&schema) {
                        break (path, Some(old));
                    }
                    // Written by a version with another catalogue.
                    part += 1;
                }
                Ok(None) => break (path, None),
                // Damaged, or not ours: left as it is. Readers report it.
                Err(error) if error.is_damage() => part += 1,
                Err(error) => return Err(error),
            }
        };
        let temporary = path.with_extension("new");
        let file = create_draft(&temporary)?;
        let draft = HourDraft { path, temporary };
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties));
        let mut writer = writer.map_err(StoreError::parquet(&draft.temporary))?;
        if let Some(old) = &old {
            copy_file(&mut writer, &draft, old.footer.metadata.row_groups())?;
        }
        let segments = old.map_or_else(Vec::new, |old| old.segments().to_vec());
        Ok(Some(Self { draft, writer, segments, present, rows: RowGroupBuffer::new(layout) }))
    }

    /// Adds a segment with the rows that `put` pushes, unless the file has it already.
    pub(super) fn add(
        &mut self,
        segment: &Segment,
        put: impl FnOnce(&mut SegmentRows<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.present.contains(&segment.start) {
            return Ok(());
        }
        let mut rows = SegmentRows { file: self, row_groups: 0 };
        put(&mut rows)?;
        rows.flush()?;
        let row_groups = rows.row_groups;
        self.segments.push(Segment { row_groups, ..segment.clone() });
        Ok(())
    }

    pub(super) fn finish(mut self, drafts: &mut Drafts) -> Result<(), StoreError> {
        let listed = serde_json::to_string(&self.segments).expect("plain data becomes JSON");
        self.writer.append_key_value_metadata(KeyValue::new(SEGMENTS.to_owned(), listed));
        drafts.files.push(self.writer.into_inner().map_err(StoreError::parquet(&self.draft.temporary))?);
        drafts.drafts.push(self.draft);
        Ok(())
    }
}

/// Receiver of a segment's rows.
pub(super) struct SegmentRows<'w> {
    file: &'w mut HourWriter,
    row_groups: usize,
}

impl SegmentRows<'_> {
    /// Adds a row at each of these times, all with the same key and values.
    pub(super) fn push(&mut self, at: &[i64], key: &[KeyPart], values: &[Value]) -> Result<(), StoreError> {
        let mut left = at;
        while !left.is_empty() {
            left = &left[self.file.rows.push(left, key, values)..];
            if self.file.rows.is_full() {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let HourWriter { draft, writer, rows, .. } = self.file;
        if rows.is_empty() {
            return Ok(());
        }
        self.row_groups += 1;
        rows.write(writer).map_err(StoreError::parquet(&draft.temporary))
    }
}

/// Creates a draft. Replaces one that a killed recorder left behind, but not a foreign file of that name.
fn create_draft(path: &Path) -> Result<File, StoreError> {
    if is_draft(path) {
        fs::remove_file(path).map_err(StoreError::io(path))?;
    }
    create_file(path).map_err(StoreError::io(path))
}

/// Returns the name of a file. An hour has further parts if the catalogue changed within it.
fn file_name(hour: u8, part: usize) -> String {
    if part == 0 { format!("{hour:02}.parquet") } else { format!("{hour:02}-{part}.parquet") }
}

fn copy_file(
    writer: &mut SerializedFileWriter<File>,
    draft: &HourDraft,
    groups: &[RowGroupMetaData],
) -> Result<(), StoreError> {
    let path = &draft.path;
    let copied = if fs::metadata(path).is_ok_and(|metadata| metadata.len() <= SMALL) {
        copy_row_groups(writer, &Bytes::from(fs::read(path).map_err(StoreError::io(path))?), groups)
    } else {
        copy_row_groups(writer, &File::open(path).map_err(StoreError::io(path))?, groups)
    };
    copied.map_err(StoreError::parquet(&draft.temporary))
}

fn copy_row_groups<R: ChunkReader>(
    writer: &mut SerializedFileWriter<File>,
    from: &R,
    groups: &[RowGroupMetaData],
) -> ParquetResult<()> {
    for group in groups {
        let mut copy = writer.next_row_group()?;
        for column in group.columns() {
            let closed = ColumnCloseResult {
                bytes_written: u64::try_from(column.compressed_size()).unwrap_or(0),
                rows_written: u64::try_from(group.num_rows()).unwrap_or(0),
                metadata: column.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            copy.append_column(from, closed)?;
        }
        copy.close()?;
    }
    Ok(())
}

/// Returns the files of a table's hour, including those under former names of the table.
pub(crate) fn hour_files<'c>(
    folder: &Folder,
    table: &str,
    hour: &Hour,
    footers: &'c FooterCache,
) -> impl Iterator<Item = Result<HourFile, StoreError>> + use<'c> {
    let family = families().into_iter().find(|family| family.name == table);
    let former_names = family.map_or_else(Default::default, |family| family.former_names);
    let days: Vec<PathBuf> =
        std::iter::once(table).chain(former_names.iter().copied()).map(|name| folder.day(name, &hour.day)).collect();
    let hour = hour.hour;
    let open = |path: &Path| HourFile::open_to_read(path, footers);
    days.into_iter()
        .flat_map(move |day| (0..).map_while(move |part| open(&day.join(file_name(hour, part))).transpose()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::{Recorder, Retention};
    use std::time::{Duration, Instant};
    use whyslow_model::catalogue::{Cpu, Family};
    use whyslow_model::snapshot::Snapshot;

    /// Records two samples, the first at this second after 1970, and ends the recording.
    fn record(folder: &Path, second: u64) {
        let log = Arc::new(|_: &str| {});
        let recorder = Recorder::begin(folder, Duration::from_secs(1), Retention::default(), log).unwrap();
        for second in [second, second + 1] {
            let ns = second * 1_000_000_000;
            let mut sample = Snapshot { wall_ns: ns as i64, boot_ns: ns, ..Snapshot::default() };
            sample.processor.cpu.push(Cpu::keyed(0));
            recorder.add(sample, Instant::now());
        }
        recorder.finish().unwrap();
    }

    #[test]
    fn the_footer_of_a_version_of_a_file_is_parsed_once() {
        let folder = whyslow_testing::memory_folder();
        let footers = FooterCache::default();
        let file = folder.path().join("cpu/day=1970-01-01/00.parquet");
        let open = || HourFile::open_to_read(&file, &footers).unwrap().unwrap();
        record(folder.path(), 1000);
        let (first, second) = (open(), open());
        assert!(Arc::ptr_eq(&first.footer, &second.footer));
        record(folder.path(), 1010);
        let later = open();
        assert_eq!([first.segments().len(), later.segments().len()], [1, 2]);
        assert!(Arc::ptr_eq(&later.footer, &open().footer));
    }
}
