//! `whyslow-fleet sql`: answers an SQL query.

use super::Answer;
use crate::fleet::QueryRows;
use crate::options::{note_left_out, show};
use crate::span::rfc3339;
use crate::{DisplayOptions, Failure, Period, QueryOptions};
use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::process::ExitCode;
use whyslow_command::print;
use whyslow_rollup::Cell;
use whyslow_show::rows::{csv_line, quoted};
use whyslow_show::text::Sheet;
use whyslow_show::{Ink, Piece};

/// Which question.
#[derive(Debug, Args)]
pub struct SqlArgs {
    /// The question: SELECT or EXPLAIN; the tables have the rows of the time that is asked about
    query: String,
    #[command(flatten)]
    store: QueryOptions,
    #[command(flatten)]
    period: Period,
    /// The most rows to show; 0: all
    #[arg(long, value_name = "ROWS", default_value_t = 1000)]
    limit: usize,
    /// How to write the rows
    #[arg(long, default_value = "table", conflicts_with = "json")]
    format: SqlFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SqlFormat {
    // No doc comments here: clap would show each as a paragraph of the help.
    Table,
    Csv,
}

/// Schema name of the answer.
pub(super) const SCHEMA: &str = "whyslow.fleet.sql/1";

#[derive(JsonSchema, Serialize)]
pub(super) struct SqlAnswer {
    columns: Vec<String>,
    rows: Vec<Map<String, Json>>,
    /// Whether there are more rows than were asked for.
    is_cut: bool,
}

/// Answers the query.
///
/// # Errors
/// Fails if the query is not allowed or not valid SQL, or if the store cannot be read.
pub fn run(args: &SqlArgs, options: &DisplayOptions) -> Result<ExitCode, Failure> {
    let fleet = args.store.open(&args.period)?;
    let most = if args.limit == 0 { usize::MAX } else { args.limit };
    let rows = fleet.query_some(&args.query, most)?;
    if args.format == SqlFormat::Csv && !options.json {
        print(csv(&rows))?;
        for what in remarks(&rows, &fleet.left_out()) {
            crate::failure::complain(&what);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let content = SqlAnswer { columns: rows.columns.clone(), rows: json(&rows), is_cut: rows.is_cut };
    let answer = Answer::new(&fleet, SCHEMA, content);
    show(options, &answer, |sheet| {
        table(sheet, &rows);
        if rows.is_cut {
            sheet.remark(&more(&rows));
        }
        note_left_out(sheet, &answer.left_out);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn more(rows: &QueryRows) -> String {
    format!("There are more rows than these {}: --limit 0 shows all.", rows.rows.len())
}

/// Returns the remarks for stderr, used when stdout has only rows.
fn remarks(rows: &QueryRows, left_out: &[crate::LeftOut]) -> Vec<String> {
    let cut = rows.is_cut.then(|| more(rows));
    let left_out = (!left_out.is_empty()).then(|| {
        let count: u64 = left_out.iter().map(|out| out.rows).sum();
        let hosts = left_out.len();
        format!("{count} rows and some files of hosts are left out ({hosts} reasons; --json names them)")
    });
    cut.into_iter().chain(left_out).collect()
}

fn words(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Timestamp(ms) => rfc3339(*ms),
        Cell::Integer(number) => number.to_string(),
        Cell::Double(number) => number.to_string(),
        Cell::Text(text) => text.to_string(),
        Cell::Boolean(is) => is.to_string(),
    }
}

/// Draws each column as wide as its widest cell, without a limit: every row stays on one line. Right-aligns numbers.
fn table(sheet: &mut Sheet, rows: &QueryRows) {
    const GAP: &str = "  ";
    let heading: Vec<Piece> = rows.columns.iter().map(|name| Piece::new(Ink::Dim, name)).collect();
    let cells: Vec<Vec<Piece>> =
        rows.rows.iter().map(|row| row.iter().map(|cell| Piece::new(Ink::Plain, words(cell))).collect()).collect();
    let width = |at: usize| {
        let column = cells.iter().chain([&heading]).filter_map(|row| row.get(at));
        column.map(Piece::width).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let is_number = |at: usize| rows.rows.iter().any(|row| matches!(row[at], Cell::Integer(_) | Cell::Double(_)));
    let is_number: Vec<bool> = (0..heading.len()).map(is_number).collect();
    let line = |row: &[Piece]| {
        let cells = row.iter().enumerate().map(|(at, piece)| {
            let padding = " ".repeat(widths[at] - piece.width());
            if is_number[at] { format!("{padding}{}", piece.text()) } else { format!("{}{padding}", piece.text()) }
        });
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    sheet.line(&Piece::new(Ink::Dim, line(&heading)));
    cells.iter().for_each(|row| sheet.line(&Piece::new(Ink::Plain, line(row))));
}

fn csv(rows: &QueryRows) -> String {
    let cell = |cell: &Cell| if let Cell::Text(text) = cell { quoted(text) } else { words(cell) };
    let header = csv_line(rows.columns.iter().map(|name| quoted(name)));
    let lines = rows.rows.iter().map(|row| csv_line(row.iter().map(cell)));
    std::iter::once(header).chain(lines).collect()
}

fn json(rows: &QueryRows) -> Vec<Map<String, Json>> {
    let value = |cell: &Cell| match cell {
        Cell::Null => Json::Null,
        Cell::Timestamp(_) | Cell::Text(_) => Json::from(words(cell)),
        Cell::Integer(number) => Json::from(*number),
        Cell::Double(number) => Json::from(*number),
        Cell::Boolean(is) => Json::from(*is),
    };
    let row = |row: &Vec<Cell>| rows.columns.iter().cloned().zip(row.iter().map(value)).collect();
    rows.rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_show::text::TextStyle;

    fn rows() -> QueryRows {
        let columns = ["host", "n"].map(str::to_owned).to_vec();
        let rows = vec![vec![Cell::text("=web\u{1b}[2J"), Cell::Integer(7)], vec![Cell::Null, Cell::Double(0.5)]];
        QueryRows { columns, rows, is_cut: false }
    }

    #[test]
    fn hostile_text_stays_in_its_cell() {
        let mut sheet = Sheet::new(TextStyle { width: 40, colour: false, all: false, utc: true });
        table(&mut sheet, &rows());
        assert_eq!(sheet.finish(), "host           n\n=web\\x1b[2J    7\n             0.5\n");
        assert_eq!(csv(&rows()), "\"host\",\"n\"\r\n\"'=web\\x1b[2J\",7\r\n,0.5\r\n");
        assert_eq!(json(&rows())[1]["host"], Json::Null);
    }
}
