//! Tables of a fleet for DataFusion: exactly the rows that count, limited to exactly the span.

mod prune;

use crate::left_out::LeftOutLog;
use crate::schema::{DAY, HOUR, file_schema, partition_fields, partition_values, scalar, scalar_time};
use crate::store::{AT_ONCE, FOOTER_HINT, HourFiles, StoredFile};
use crate::{Span, Store, validity};
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{CatalogProvider, SchemaProvider, Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, ident, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::union::UnionExec;
use futures::stream::{self, StreamExt, TryStreamExt};
use std::sync::Arc;
use whyslow_rollup::{AT, HOST, TableSpec, table, tables};

/// URL of the store in query plans.
pub(crate) const STORE_URL: &str = "store://fleet";
/// Name of the catalog.
pub(crate) const CATALOG: &str = "fleet";
/// Name of its only schema: the version of the tables.
pub(crate) const SCHEMA: &str = whyslow_rollup::VERSION;

/// `inventory` is complete once a day: its rows begin this long before the span, so that it has every host of the span.
pub(crate) const INVENTORY_REACH_MS: i64 = 2 * crate::span::DAY_MS;

/// Returns the time range of a table's rows for a question about this span.
pub(crate) fn reach(table: &TableSpec, span: Span) -> Span {
    span.extended_back(if table.name == "inventory" { INVENTORY_REACH_MS } else { 0 })
}

/// The tables of a store over a span.
#[derive(Clone, Debug)]
pub(crate) struct FleetTables {
    pub(crate) store: Store,
    pub(crate) span: Span,
    pub(crate) left_out: Arc<LeftOutLog>,
}

impl CatalogProvider for FleetTables {
    fn schema_names(&self) -> Vec<String> {
        vec![SCHEMA.to_owned()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        (name == SCHEMA).then(|| Arc::new(self.clone()) as Arc<dyn SchemaProvider>)
    }
}

#[async_trait]
impl SchemaProvider for FleetTables {
    fn table_names(&self) -> Vec<String> {
        tables().iter().map(|table| table.name.clone()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(table) = table(name) else { return Ok(None) };
        Ok(Some(Arc::new(FleetTable {
            table,
            columns: TableSchema::builder(file_schema(table)).with_table_partition_cols(partition_fields()).build(),
            store: self.store.clone(),
            span: reach(table, self.span),
            left_out: Arc::clone(&self.left_out),
        })))
    }

    fn table_exist(&self, name: &str) -> bool {
        table(name).is_some()
    }
}

/// A table over the files that count.
#[derive(Clone, Debug)]
struct FleetTable {
    table: &'static TableSpec,
    /// Columns of the files, then the partitions.
    columns: TableSchema,
    store: Store,
    span: Span,
    left_out: Arc<LeftOutLog>,
}

#[async_trait]
impl TableProvider for FleetTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.columns.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| {
            if prune::is_of_partitions(filter) {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Inexact
            }
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.schema();
        let filter = prune::Filter::new(state, &schema, filters)?;
        let hours = filter.hours(self.store.hours(&self.table.name, self.span).await?)?;
        let files = self.store.that_count(&self.table.name, &hours).await?;
        for (file, reason) in files.iter().flat_map(|hour| &hour.unreadable) {
            let host = file.place.host().unwrap_or_default();
            self.left_out.file(file.meta.location.as_ref(), host, reason.clone());
        }
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        let columns = projection.unwrap_or(&all);
        let mut plans = self.compacted(state, columns, &files)?;
        plans.extend(self.incoming(state, columns, filter.files(files)?)?);
        match plans.len() {
            0 => Ok(Arc::new(EmptyExec::new(Arc::new(schema.project(columns)?)))),
            1 => Ok(plans.swap_remove(0)),
            _ => UnionExec::try_new(plans),
        }
    }
}

impl FleetTable {
    /// Plans scans of the compacted files: one scan for files whose rows all count, further ones with a condition on
    /// the rows.
    fn compacted(
        &self,
        state: &dyn Session,
        columns: &[usize],
        files: &[HourFiles],
    ) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let in_span =
            ident(AT).gt_eq(lit(scalar_time(self.span.from_ms))).and(ident(AT).lt(lit(scalar_time(self.span.to_ms))));
        let (mut whole, mut cut, mut plans) = (Vec::new(), Vec::new(), Vec::new());
        for hour in files {
            let Some(file) = &hour.compacted else { continue };
            if !hour.replaced.is_empty() {
                let replaced = hour.replaced.iter().map(|host| lit(scalar(host))).collect();
                let condition = in_span.clone().and(ident(HOST).in_list(replaced, true));
                plans.push(self.scan_files(state, columns, vec![file], Some(condition))?);
            } else if self.span.covers(hour.hour) {
                whole.push(file);
            } else {
                cut.push(file);
            }
        }
        if !whole.is_empty() {
            plans.push(self.scan_files(state, columns, whole, None)?);
        }
        if !cut.is_empty() {
            plans.push(self.scan_files(state, columns, cut, Some(in_span))?);
        }
        Ok(plans)
    }

    /// Plans a scan of files, optionally with a condition on host and time.
    fn scan_files(
        &self,
        state: &dyn Session,
        columns: &[usize],
        files: Vec<&StoredFile>,
        condition: Option<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut read = columns.to_vec();
        if condition.is_some() {
            // The condition uses host and time, which are the first columns of every table.
            read.extend([0, 1].into_iter().filter(|column| !columns.contains(column)));
        }
        let partitioned = |file: &StoredFile| {
            let values = partition_values(file.place.hour).map(scalar).to_vec();
            PartitionedFile::new_from_meta(file.meta.clone()).with_partition_values(values)
        };
        let group: FileGroup = files.into_iter().map(partitioned).collect();
        let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
        let reader = CachedParquetFileReaderFactory::new(Arc::clone(self.store.objects()), cache);
        let source = ParquetSource::new(self.columns.clone())
            .with_metadata_size_hint(FOOTER_HINT)
            .with_parquet_file_reader_factory(Arc::new(reader));
        let scan = FileScanConfigBuilder::new(ObjectStoreUrl::parse(STORE_URL)?, Arc::new(source))
            .with_file_groups(group.split_files(state.config().target_partitions()))
            .with_projection_indices(Some(read.clone()))?
            .build();
        let scan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(scan);
        let Some(condition) = condition else { return Ok(scan) };
        let read_columns = DFSchema::try_from(self.schema().project(&read)?)?;
        let condition = state.create_physical_expr(condition, &read_columns)?;
        let wanted = (0..columns.len()).collect();
        let filter = FilterExecBuilder::new(condition, scan).apply_projection(Some(wanted))?;
        Ok(Arc::new(filter.build()?))
    }

    /// Plans a scan of hosts' files; each file is read and validated as a whole.
    fn incoming(
        &self,
        state: &dyn Session,
        columns: &[usize],
        files: Vec<StoredFile>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if files.is_empty() {
            return Ok(None);
        }
        let schema = self.schema();
        let parts = state.config().target_partitions().clamp(1, files.len());
        let streams = files.chunks(files.len().div_ceil(parts)).map(|files| {
            let files = files.to_vec();
            Arc::new(IncomingFiles { table: self.clone(), schema: Arc::clone(&schema), files })
                as Arc<dyn PartitionStream>
        });
        let streams = streams.collect();
        let scan = StreamingTableExec::try_new(schema.clone(), streams, Some(&columns.to_vec()), [], false, None)?;
        Ok(Some(Arc::new(scan)))
    }
}

/// A partition of the scan: some hosts' files.
#[derive(Debug)]
struct IncomingFiles {
    table: FleetTable,
    schema: SchemaRef,
    files: Vec<StoredFile>,
}

impl PartitionStream for IncomingFiles {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let table = self.table.clone();
        let read = move |file: StoredFile| {
            let table = table.clone();
            async move { table.read(&file).await }
        };
        let batches = stream::iter(self.files.clone()).map(read).buffered(AT_ONCE);
        let batches =
            batches.map_ok(|batches| stream::iter(batches.into_iter().map(Ok::<_, DataFusionError>))).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

impl FleetTable {
    /// Reads the rows of a host's file that count and are in the span.
    async fn read(&self, file: &StoredFile) -> Result<Vec<RecordBatch>> {
        let (path, host) = (file.meta.location.as_ref(), file.place.host().unwrap_or_default());
        let valid = match self.store.read(file, self.table).await?.rows {
            Ok(valid) => valid,
            Err(reason) => {
                self.left_out.file(path, host, reason);
                return Ok(Vec::new());
            }
        };
        self.left_out.rows(path, host, valid.left_out);
        let values = partition_values(file.place.hour);
        let batches = valid.batches.iter().map(|batch| {
            let batch = prune::within(batch, self.span)?;
            validity::with_constants(&batch, self.columns.table_schema(), &values)
        });
        batches.collect()
    }
}

/// Returns whether a column is a partition column.
fn is_partition(name: &str) -> bool {
    name == DAY || name == HOUR
}
