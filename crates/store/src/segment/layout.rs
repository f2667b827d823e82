//! Columns of a Parquet file.

use crate::schema::Table;
use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::Result;
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;
use whyslow_model::catalogue::MetricKind;
use whyslow_model::key::KeyPartKind;

/// Name of the column with the time of a row's sample.
pub(crate) const AT: &str = "at";
/// Names of the columns of a histogram's buckets.
pub(crate) const AT_LEAST: &str = "at_least";
pub(crate) const COUNT: &str = "count";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Nanoseconds since 1970, UTC.
    Time,
    /// Unsigned integers; those beyond 2^63 read as negative.
    Number,
    Level,
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LayoutColumn {
    pub(crate) name: String,
    pub(crate) holds: Holds,
    /// True if every row has a value.
    pub(crate) required: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableLayout {
    pub(crate) name: String,
    pub(crate) columns: Vec<LayoutColumn>,
}

impl TableLayout {
    pub(crate) fn from_table(table: &Table) -> Self {
        let mut columns = Self::keys(table);
        columns.extend(table.metrics.iter().map(|field| LayoutColumn {
            name: field.name.clone(),
            required: false,
            holds: match field.kind {
                MetricKind::Counter | MetricKind::Histogram => Holds::Number,
                MetricKind::Gauge => Holds::Level,
                MetricKind::State => Holds::Text,
            },
        }));
        Self { name: table.name.clone(), columns }
    }

    /// Returns the layout of a histogram's buckets.
    pub(crate) fn buckets(table: &Table, metric: &str) -> Self {
        let mut columns = Self::keys(table);
        columns.extend([AT_LEAST, COUNT].map(|name| LayoutColumn {
            name: name.to_owned(),
            holds: Holds::Number,
            required: true,
        }));
        Self { name: buckets_name(&table.name, metric), columns }
    }

    /// Returns the columns that all files of a table start with.
    fn keys(table: &Table) -> Vec<LayoutColumn> {
        let at = LayoutColumn { name: AT.to_owned(), holds: Holds::Time, required: true };
        let keys = table.keys.iter().map(|key| LayoutColumn {
            name: key.name.clone(),
            required: true,
            holds: match key.kind {
                KeyPartKind::Number => Holds::Number,
                KeyPartKind::Text => Holds::Text,
            },
        });
        std::iter::once(at).chain(keys).collect()
    }

    pub(crate) fn schema(&self) -> Result<TypePtr> {
        let columns = self.columns.iter().map(|column| column.schema().map(Arc::new)).collect::<Result<_>>()?;
        Ok(Arc::new(Type::group_type_builder(&self.name).with_fields(columns).build()?))
    }
}

/// Returns the name of the table with a histogram's buckets.
pub(crate) fn buckets_name(table: &str, metric: &str) -> String {
    format!("{table}_{metric}")
}

impl LayoutColumn {
    fn schema(&self) -> Result<Type> {
        let (physical, logical) = match self.holds {
            Holds::Time => {
                let utc = LogicalType::timestamp(true, TimeUnit::NANOS);
                (Physical::INT64, Some(utc))
            }
            Holds::Number => (Physical::INT64, None),
            Holds::Level => (Physical::DOUBLE, None),
            Holds::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = if self.required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        Type::primitive_type_builder(&self.name, physical)
            .with_logical_type(logical)
            .with_repetition(repetition)
            .build()
    }
}
