//! Merges the rows of an hour, already compacted ones and those from hosts' files, ordered by host.

use crate::left_out::LeftOutLog;
use crate::schema::{arrow_type, file_schema};
use crate::store::{AT_ONCE, HostFile, Sources, Store, StoredFile};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::arrow_writer::ArrowWriterOptions;
use datafusion::parquet::arrow::async_reader::{AsyncFileReader, ParquetRecordBatchStream};
use datafusion::parquet::arrow::{ArrowWriter, ParquetRecordBatchStreamBuilder};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use whyslow_rollup::{TableSpec, properties};

/// Small enough that queries can skip row groups by host.
const ROWS_IN_GROUP: usize = 1 << 16;

/// Writes one compacted file. Keeps in memory a row group, a few hosts' files, and the compressed output.
pub(super) struct Merge<'a> {
    store: &'a Store,
    table: &'static TableSpec,
    schema: SchemaRef,
    sources: Sources,
    left_out: &'a LeftOutLog,
    writer: ArrowWriter<Vec<u8>>,
}

/// Hosts' files ordered by host, some of them read ahead.
struct Pending<'a> {
    hosts: VecDeque<String>,
    files: BoxStream<'a, Result<(StoredFile, HostFile)>>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(
        store: &'a Store,
        table: &'static TableSpec,
        sources: Sources,
        left_out: &'a LeftOutLog,
    ) -> Result<Self> {
        let schema = file_schema(table);
        let properties =
            properties(table, &[])?.into_builder().set_max_row_group_row_count(Some(ROWS_IN_GROUP)).build();
        // Other engines read the file, so it has no Arrow schema.
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(&schema), options)?;
        Ok(Self { store, table, schema, sources, left_out, writer })
    }

    /// Returns a file with the rows of the compacted one, replacing those of the hosts in `files`.
    pub(super) async fn run(mut self, compacted: Option<&StoredFile>, mut files: Vec<StoredFile>) -> Result<Vec<u8>> {
        files.sort_by(|a, b| a.place.host().cmp(&b.place.host()));
        let hosts: VecDeque<String> =
            files.iter().map(|file| file.place.host().unwrap_or_default().to_owned()).collect();
        let replaced: BTreeSet<String> = hosts.iter().cloned().collect();
        let (store, table) = (self.store, self.table);
        let read = move |file: StoredFile| async move {
            let read = store.read(&file, table).await?;
            Ok((file, read))
        };
        let mut pending = Pending { hosts, files: stream::iter(files).map(read).buffered(AT_ONCE).boxed() };
        if let Some(compacted) = compacted {
            let mut batches = self.batches(compacted).await?;
            while let Some(batch) = batches.try_next().await? {
                let batch = self.with_columns_of_table(&batch)?;
                self.take_batch(&batch, &mut pending, &replaced).await?;
            }
        }
        while !pending.hosts.is_empty() {
            self.take_next(&mut pending).await?;
        }
        self.writer.append_key_value_metadata(self.sources.metadata());
        Ok(self.writer.into_inner()?)
    }

    async fn batches(&self, file: &StoredFile) -> Result<ParquetRecordBatchStream<Box<dyn AsyncFileReader>>> {
        let reader = self.store.reader(file)?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        Ok(ParquetRecordBatchStreamBuilder::new_with_options(reader, options).await?.build()?)
    }

    fn with_columns_of_table(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.table.columns.iter().map(|column| match batch.column_by_name(&column.name) {
            Some(values) => Ok(cast(values, &arrow_type(column.kind))?),
            None => Ok(new_null_array(&arrow_type(column.kind), batch.num_rows())),
        });
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns.collect::<Result<Vec<ArrayRef>>>()?)?)
    }

    /// Copies the rows of hosts that are not replaced, after the files of hosts that sort before them.
    async fn take_batch(
        &mut self,
        batch: &RecordBatch,
        pending: &mut Pending<'_>,
        replaced: &BTreeSet<String>,
    ) -> Result<()> {
        let hosts = batch.column(0).as_string_view().clone();
        let host = |at: usize| if hosts.is_null(at) { "" } else { hosts.value(at) };
        let mut from = 0;
        while from < batch.num_rows() {
            let to = (from..batch.num_rows()).find(|&at| host(at) != host(from)).unwrap_or(batch.num_rows());
            while pending.hosts.front().is_some_and(|next| next.as_str() <= host(from)) {
                self.take_next(pending).await?;
            }
            if !replaced.contains(host(from)) {
                self.writer.write(&batch.slice(from, to - from))?;
            }
            from = to;
        }
        Ok(())
    }

    /// Writes the next host's file.
    async fn take_next(&mut self, pending: &mut Pending<'_>) -> Result<()> {
        pending.hosts.pop_front();
        let Some((file, HostFile { source, rows })) = pending.files.try_next().await? else { return Ok(()) };
        self.sources.insert(source);
        let (path, host) = (file.meta.location.as_ref(), file.place.host().unwrap_or_default());
        match rows {
            Ok(valid) => {
                for batch in &valid.batches {
                    self.writer.write(batch)?;
                }
                self.left_out.rows(path, host, valid.left_out);
            }
            Err(reason) => self.left_out.file(path, host, reason),
        }
        Ok(())
    }
}
