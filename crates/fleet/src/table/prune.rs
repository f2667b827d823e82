//! Pruning: hours and files that a query does not need to read.

use super::is_partition;
use crate::Span;
use crate::schema::{DAY, HOUR, partition_values};
use crate::store::{HourFiles, StoredFile};
use crate::validity::MARGIN_MS;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringViewArray, TimestampMillisecondArray,
};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{SchemaRef, TimestampMillisecondType};
use datafusion::catalog::Session;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use std::collections::HashSet;
use std::sync::Arc;
use whyslow_rollup::{AT, HOST, Hour};

/// Returns whether a filter uses only partition columns, so that it accepts or rejects whole hours.
pub(super) fn is_of_partitions(filter: &Expr) -> bool {
    let columns = filter.column_refs();
    !columns.is_empty() && columns.iter().all(|column| is_partition(&column.name)) && !filter.is_volatile()
}

/// Filters of a query on a table.
pub(super) struct Filter {
    /// Conjunction of the filters that use only partition columns.
    partitions: Option<Arc<dyn PhysicalExpr>>,
    /// Predicate of all filters on the minimum and maximum values of a part of the table.
    predicate: Option<Arc<PruningPredicate>>,
    schema: SchemaRef,
}

impl Filter {
    pub(super) fn new(state: &dyn Session, schema: &SchemaRef, filters: &[Expr]) -> Result<Self> {
        let columns = DFSchema::try_from(Arc::clone(schema))?;
        let physical =
            |filter: Option<Expr>| filter.map(|filter| state.create_physical_expr(filter, &columns)).transpose();
        let of_partitions = filters.iter().filter(|filter| is_of_partitions(filter)).cloned();
        let all = physical(conjunction(filters.iter().cloned()))?;
        let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema));
        Ok(Self {
            partitions: physical(conjunction(of_partitions))?,
            predicate: all.and_then(|all| builder.build(all)),
            schema: Arc::clone(schema),
        })
    }

    /// Returns the hours that may have matching rows.
    pub(super) fn hours(&self, mut hours: Vec<Hour>) -> Result<Vec<Hour>> {
        if let Some(partitions) = &self.partitions {
            let batch = self.partition_rows(&hours)?;
            let fulfils = partitions.evaluate(&batch)?.into_array(hours.len())?;
            let fulfils = fulfils.as_boolean();
            let mut at = 0..;
            hours.retain(|_| at.next().is_some_and(|at| fulfils.is_valid(at) && fulfils.value(at)));
        }
        let containers = Containers { hours: hours.clone(), hosts: Vec::new() };
        self.pruned(hours, &containers)
    }

    /// Returns the hosts' files that may have matching rows.
    pub(super) fn files(&self, hours: Vec<HourFiles>) -> Result<Vec<StoredFile>> {
        let files: Vec<StoredFile> = hours.into_iter().flat_map(|hour| hour.incoming).collect();
        let containers = Containers {
            hours: files.iter().map(|file| file.place.hour).collect(),
            hosts: files.iter().map(|file| file.place.host().unwrap_or_default().to_owned()).collect(),
        };
        self.pruned(files, &containers)
    }

    fn pruned<T>(&self, mut all: Vec<T>, containers: &Containers) -> Result<Vec<T>> {
        let Some(predicate) = self.predicate.as_ref().filter(|_| !all.is_empty()) else { return Ok(all) };
        let mut is_needed = predicate.prune(containers)?.into_iter();
        all.retain(|_| is_needed.next().unwrap_or(true));
        Ok(all)
    }

    /// Returns a row for each hour with its partition columns; everything else is null.
    fn partition_rows(&self, hours: &[Hour]) -> Result<RecordBatch> {
        let columns = self.schema.fields().iter().map(|field| {
            let partition = |at: usize| -> ArrayRef {
                Arc::new(StringViewArray::from_iter_values(
                    hours.iter().map(|&hour| partition_values(hour)[at].clone()),
                ))
            };
            match field.name().as_str() {
                DAY => partition(0),
                HOUR => partition(1),
                _ => datafusion::arrow::array::new_null_array(field.data_type(), hours.len()),
            }
        });
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns.collect())?)
    }
}

/// Minimum and maximum values of hours, or of hosts' files.
struct Containers {
    hours: Vec<Hour>,
    /// Hosts of the files, parallel to `hours`; empty for whole hours.
    hosts: Vec<String>,
}

impl Containers {
    fn bound(&self, column: &Column, time: impl Fn(Hour) -> i64) -> Option<ArrayRef> {
        let partition = |at: usize| -> ArrayRef {
            Arc::new(StringViewArray::from_iter_values(
                self.hours.iter().map(|&hour| partition_values(hour)[at].clone()),
            ))
        };
        match column.name() {
            DAY => Some(partition(0)),
            HOUR => Some(partition(1)),
            AT => {
                let times = self.hours.iter().map(|&hour| time(hour));
                Some(Arc::new(TimestampMillisecondArray::from_iter_values(times).with_timezone("UTC")))
            }
            HOST if !self.hosts.is_empty() => Some(Arc::new(StringViewArray::from_iter_values(&self.hosts))),
            _ => None,
        }
    }
}

impl PruningStatistics for Containers {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bound(column, |hour| hour.start() - MARGIN_MS)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bound(column, |hour| hour.end() + MARGIN_MS)
    }

    fn num_containers(&self) -> usize {
        self.hours.len()
    }

    fn null_counts(&self, _: &Column) -> Option<ArrayRef> {
        None
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        if column.name() != HOST || self.hosts.is_empty() {
            return None;
        }
        let texts: HashSet<&str> = values.iter().filter_map(|value| value.try_as_str().flatten()).collect();
        Some(self.hosts.iter().map(|host| Some(texts.contains(host.as_str()))).collect())
    }
}

/// Returns the rows of a batch that lie in a span.
pub(super) fn within(batch: &RecordBatch, span: Span) -> Result<RecordBatch> {
    let times = batch.column(1).as_primitive::<TimestampMillisecondType>();
    let is_within: BooleanArray = times.iter().map(|at| at.map(|at| span.contains(at))).collect();
    Ok(filter_record_batch(batch, &is_within)?)
}
