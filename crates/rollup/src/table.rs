//! The description of a table.

/// A table of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// Its name, also in paths.
    pub name: String,
    /// Meaning of a row, in one sentence.
    pub meaning: String,
    /// Its columns, in the order of the cells of a row; the first are `host` and `at`.
    pub columns: Vec<Column>,
}

impl TableSpec {
    /// Returns the position of a column.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub kind: ColumnKind,
    /// The unit of its numbers: `ns`, `bytes`, `count`, `ratio`, `s`; empty for everything else.
    pub unit: &'static str,
    /// Meaning of the values, in one sentence.
    pub meaning: String,
    /// Whether it may be null.
    pub nullable: bool,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Milliseconds since 1970, UTC.
    Timestamp,
    /// 64 bits, signed.
    Integer,
    /// 64-bit floating point.
    Double,
    /// UTF-8.
    Text,
    /// True or false.
    Boolean,
}

impl ColumnKind {
    /// Returns its name in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Self::Timestamp => "TIMESTAMP",
            Self::Integer => "BIGINT",
            Self::Double => "DOUBLE",
            Self::Text => "TEXT",
            Self::Boolean => "BOOLEAN",
        }
    }
}
