//! `whyslow-fleet tables`: the tables and their columns.

use crate::options::show;
use crate::schema::{DAY, HOUR};
use crate::trino::{SchemaName, ddl};
use crate::{DisplayOptions, Failure};
use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;
use whyslow_command::print;
use whyslow_model::suggest::unknown;
use whyslow_rollup::{TableSpec, tables};
use whyslow_show::text::Sheet;
use whyslow_show::{bold, plain};

/// Which table.
#[derive(Debug, Args)]
pub struct TablesArgs {
    /// Only this table, with its columns
    table: Option<String>,
    /// Print the statements that make the tables in this engine, over the compacted files of a store
    #[arg(long, value_name = "ENGINE", requires = "location")]
    ddl: Option<DdlEngine>,
    /// With --ddl: where the store is, s3://BUCKET/PREFIX
    #[arg(long, value_name = "URL", requires = "ddl")]
    location: Option<String>,
    /// With --ddl: the schema with the tables
    #[arg(long, value_name = "CATALOG.SCHEMA", default_value = "hive.v1", value_parser = SchemaName::parse)]
    schema: SchemaName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DdlEngine {
    // No doc comments here: clap would show each as a paragraph of the help.
    Trino,
}

/// Schema name of the answer.
pub(super) const SCHEMA: &str = "whyslow.fleet.tables/1";

#[derive(JsonSchema, Serialize)]
pub(super) struct Tables<'t> {
    schema: &'static str,
    tables: Vec<TableDocument<'t>>,
}

#[derive(JsonSchema, Serialize)]
struct TableDocument<'t> {
    name: &'t str,
    meaning: &'t str,
    columns: Vec<ColumnDocument<'t>>,
}

#[derive(JsonSchema, Serialize)]
struct ColumnDocument<'t> {
    name: &'t str,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    unit: &'t str,
    meaning: &'t str,
}

/// Describes the tables.
///
/// # Errors
/// Fails if the table does not exist.
pub fn run(args: &TablesArgs, options: &DisplayOptions) -> Result<ExitCode, Failure> {
    let all: Vec<&TableSpec> = tables().iter().collect();
    let named = match &args.table {
        None => all,
        Some(name) => {
            let known = all.iter().map(|table| table.name.as_str());
            let missing = || Failure::usage(unknown("table", name, "whyslow-fleet tables", known));
            vec![whyslow_rollup::table(name).ok_or_else(missing)?]
        }
    };
    if let (Some(DdlEngine::Trino), Some(location)) = (args.ddl, &args.location) {
        if !location.starts_with("s3://") {
            return Err(Failure::usage(format!(
                "Trino reads buckets: give --location s3://BUCKET/PREFIX, not {location}"
            )));
        }
        print(ddl::statements(&named, &args.schema, location))?;
        return Ok(ExitCode::SUCCESS);
    }
    let document = Tables { schema: SCHEMA, tables: named.iter().map(|table| table_document(table)).collect() };
    show(options, &document, |sheet| match (&args.table, named.as_slice()) {
        (Some(_), [table]) => columns(sheet, table),
        _ => overview(sheet, &named),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn table_document(table: &TableSpec) -> TableDocument<'_> {
    let columns = table.columns.iter().map(|column| ColumnDocument {
        name: &column.name,
        kind: column.kind.sql(),
        unit: column.unit,
        meaning: &column.meaning,
    });
    TableDocument { name: &table.name, meaning: &table.meaning, columns: columns.chain(partitions()).collect() }
}

fn partitions() -> [ColumnDocument<'static>; 2] {
    let text = |name, meaning| ColumnDocument { name, kind: "TEXT", unit: "", meaning };
    [
        text(DAY, "the day of `at`, UTC: 2026-11-26; a partition"),
        text(HOUR, "the hour of `at`, UTC: 00 to 23; a partition"),
    ]
}

fn overview(sheet: &mut Sheet, tables: &[&TableSpec]) {
    let widest = tables.iter().map(|table| table.name.len()).max().unwrap_or(0);
    for table in tables {
        sheet.paragraph(&[bold(format!("{:widest$}", table.name)), plain("  "), plain(&table.meaning)]);
    }
    sheet.remark("'whyslow-fleet tables NAME' describes its columns.");
}

fn columns(sheet: &mut Sheet, table: &TableSpec) {
    sheet.paragraph(&[bold(&table.name), plain(": "), plain(&table.meaning)]);
    sheet.blank();
    let document = table_document(table);
    let widest = document.columns.iter().map(|column| column.name.len()).max().unwrap_or(0);
    for ColumnDocument { name, kind, unit, meaning } in &document.columns {
        let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
        sheet.paragraph(&[bold(format!("{name:widest$}")), plain(format!("  {kind}{unit}  ")), plain(meaning)]);
    }
}
