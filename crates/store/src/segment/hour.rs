//! One file: an hour of one table.

use super::chunk::ChunkWriter;
use super::columns::Columns;
use super::layout::Layout;
use crate::error::StoreError;
use crate::flush::flush_all;
use crate::folder::{Folder, Hour, is_draft};
use bytes::Bytes;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Key of the file's own words for what is in it.
pub(crate) const SEGMENTS: &str = "whyslow.segments";
/// Bytes up to which a file is copied at once: column by column takes five system calls each.
const SMALL: u64 = 1 << 20;

/// A segment, as each file that has rows of it names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Segment {
    /// When its first sample was begun, nanoseconds since 1970: its name.
    pub(crate) start: i64,
    /// When its last was.
    pub(crate) end: i64,
    /// Which boot it is of.
    pub(crate) boot: String,
    /// Time since that boot at its first sample, nanoseconds: the wall clock may have been set.
    pub(crate) clock: u64,
    /// How many row groups it has in this file; they follow those of the segments before it.
    pub(crate) row_groups: usize,
}

/// A file that is open for reading.
pub(crate) struct HourFile {
    path: PathBuf,
    pub(super) reader: SerializedFileReader<File>,
    pub(crate) segments: Vec<Segment>,
}

impl HourFile {
    /// Opens a file. `None` where there is none.
    ///
    /// # Errors
    /// Where it cannot be read, or is not a file of ours.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let file = match File::open(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(StoreError::io(path))?,
        };
        let reader = SerializedFileReader::new(file).map_err(StoreError::parquet(path))?;
        let words = reader.metadata().file_metadata().key_value_metadata();
        let words = words.and_then(|all| all.iter().find(|w| w.key == SEGMENTS)).and_then(|w| w.value.as_deref());
        let segments = words.and_then(|words| serde_json::from_str(words).ok());
        let segments: Vec<Segment> =
            segments.ok_or_else(|| StoreError::senseless(path, "not a recording of whyslow"))?;
        Ok(Some(Self { path: path.to_owned(), reader, segments }))
    }

    /// What went wrong in reading it.
    pub(super) fn error(&self) -> impl FnOnce(ParquetError) -> StoreError {
        StoreError::parquet(&self.path)
    }

    /// The row groups of a segment.
    pub(super) fn row_groups(&self, segment: &Segment) -> std::ops::Range<usize> {
        let before = self.segments.iter().take_while(|s| s.start != segment.start);
        let first = before.map(|s| s.row_groups).sum::<usize>().min(self.reader.num_row_groups());
        first..(first + segment.row_groups).min(self.reader.num_row_groups())
    }

    fn has_columns(&self, schema: &Type) -> bool {
        self.reader.metadata().file_metadata().schema() == schema
    }
}

/// A file that is to take the place of an old one. What never does goes: a full disk is the usual reason.
struct Draft {
    path: PathBuf,
    temporary: PathBuf,
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It is not there any more where it has taken its place.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Files that are written.
#[derive(Default)]
pub(super) struct Written {
    files: Vec<File>,
    drafts: Vec<Draft>,
}

impl Written {
    /// Puts them in place of the old ones, for good.
    ///
    /// # Errors
    /// Where they cannot be brought to the device. Each is then the old one or the new one.
    pub(super) fn put_in_place(self) -> Result<(), StoreError> {
        let Some(any) = self.drafts.first().map(|draft| draft.path.clone()) else { return Ok(()) };
        flush_all(&self.files).map_err(StoreError::io(&any))?;
        for Draft { path, temporary } in &self.drafts {
            fs::rename(temporary, path).map_err(StoreError::io(path))?;
        }
        // A new file survives a power cut where its folder does, and those above it that are ours: the table's and the recording's.
        let folders = self.drafts.iter().flat_map(|draft| draft.path.ancestors().skip(1).take(3));
        let folders: BTreeSet<&Path> = folders.collect();
        let folders = folders.into_iter().map(|folder| File::open(folder).map_err(StoreError::io(folder)));
        flush_all(&folders.collect::<Result<Vec<_>, _>>()?).map_err(StoreError::io(&any))
    }
}

/// A file that is being written: all that was in it, and a segment more.
pub(super) struct HourWriter<'c> {
    draft: Draft,
    writer: SerializedFileWriter<File>,
    segments: Vec<Segment>,
    segment: Segment,
    columns: Columns,
    chunks: &'c mut ChunkWriter,
}

impl<'c> HourWriter<'c> {
    /// Begins to add a segment to the hour of a layout, in `folder`. `None` where the segment is in it already: an earlier
    /// closing was cut short after this file.
    pub(super) fn begin(
        folder: &Path,
        hour: u8,
        layout: &Layout,
        segment: Segment,
        chunks: &'c mut ChunkWriter,
    ) -> Result<Option<Self>, StoreError> {
        fs::create_dir_all(folder).map_err(StoreError::io(folder))?;
        let schema = layout.schema().map_err(StoreError::parquet(folder))?;
        let mut part = 0;
        let (path, old) = loop {
            let path = folder.join(file_name(hour, part));
            match HourFile::open(&path) {
                Ok(Some(old)) if old.segments.iter().any(|s| s.start == segment.start) => return Ok(None),
                // Written by a whyslow whose catalogue was another.
                Ok(Some(old)) if !old.has_columns(&schema) => part += 1,
                Ok(old) => break (path, old),
                // A damaged file, or somebody else's, stays as it is; readers name it.
                Err(error) if error.is_damage() => part += 1,
                Err(error) => return Err(error),
            }
        };
        let temporary = path.with_extension("new");
        let file = begin_draft(&temporary)?;
        let draft = Draft { path, temporary };
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties()));
        let mut writer = writer.map_err(StoreError::parquet(&draft.temporary))?;
        if let Some(old) = &old {
            let groups = old.reader.metadata().row_groups();
            let path = &draft.path;
            let copied = if fs::metadata(path).is_ok_and(|metadata| metadata.len() <= SMALL) {
                copy(&mut writer, &Bytes::from(fs::read(path).map_err(StoreError::io(path))?), groups)
            } else {
                copy(&mut writer, &File::open(path).map_err(StoreError::io(path))?, groups)
            };
            copied.map_err(StoreError::parquet(&draft.temporary))?;
        }
        let segments = old.map_or_else(Vec::new, |old| old.segments);
        Ok(Some(Self { draft, writer, segments, segment, columns: Columns::new(layout), chunks }))
    }

    /// Adds rows, and writes a row group where there are enough.
    pub(super) fn push(
        &mut self,
        at: &[i64],
        key: &[whyslow_model::key::Part],
        values: &[whyslow_model::value::Value],
    ) -> Result<(), StoreError> {
        let mut left = at;
        while !left.is_empty() {
            left = &left[self.columns.push(left, key, values)..];
            if self.columns.are_full() {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        if self.columns.is_empty() {
            return Ok(());
        }
        self.segment.row_groups += 1;
        self.columns.write(self.chunks, &mut self.writer).map_err(StoreError::parquet(&self.draft.temporary))
    }

    /// Ends the file, which is put in place with the others of its segment.
    pub(super) fn finish(mut self, written: &mut Written) -> Result<(), StoreError> {
        self.flush()?;
        self.segments.push(self.segment.clone());
        let words = serde_json::to_string(&self.segments).expect("plain data becomes JSON");
        self.writer.append_key_value_metadata(KeyValue::new(SEGMENTS.to_owned(), words));
        written.files.push(self.writer.into_inner().map_err(StoreError::parquet(&self.draft.temporary))?);
        written.drafts.push(self.draft);
        Ok(())
    }
}

/// Makes a draft anew. One that a killed recorder left goes; what anybody else put there stays.
fn begin_draft(path: &Path) -> Result<File, StoreError> {
    if is_draft(path) {
        fs::remove_file(path).map_err(StoreError::io(path))?;
    }
    File::options().write(true).create_new(true).open(path).map_err(StoreError::io(path))
}

/// The name of an hour's file; parts beyond the first are for other columns.
fn file_name(hour: u8, part: usize) -> String {
    if part == 0 { format!("{hour:02}.parquet") } else { format!("{hour:02}-{part}.parquet") }
}

/// Copies row groups as they are.
fn copy<R: ChunkReader>(
    writer: &mut SerializedFileWriter<File>,
    from: &R,
    groups: &[RowGroupMetaData],
) -> ParquetResult<()> {
    for group in groups {
        let mut copy = writer.next_row_group()?;
        for column in group.columns() {
            let close = ColumnCloseResult {
                bytes_written: u64::try_from(column.compressed_size()).unwrap_or(0),
                rows_written: u64::try_from(group.num_rows()).unwrap_or(0),
                metadata: column.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            copy.append_column(from, close)?;
        }
        copy.close()?;
    }
    Ok(())
}

/// What a file says of itself; how its columns are written is ours.
pub(super) fn properties() -> WriterProperties {
    WriterProperties::builder().set_created_by(concat!("whyslow ", env!("CARGO_PKG_VERSION")).to_owned()).build()
}

/// The files of a table's hour: more than one where the catalogue changed meanwhile.
pub(crate) fn hour_files(
    folder: &Folder,
    table: &str,
    hour: &Hour,
) -> impl Iterator<Item = Result<HourFile, StoreError>> + use<> {
    let day = folder.day(table, &hour.day);
    let hour = hour.hour;
    (0..).map_while(move |part| HourFile::open(&day.join(file_name(hour, part))).transpose())
}
