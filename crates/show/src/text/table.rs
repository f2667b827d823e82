//! Numbers in columns.

use crate::canvas::{Canvas, Ink, NO_BREAK, Piece, dim, plain};
use unicode_width::UnicodeWidthStr;

/// Rows under a heading; columns are as wide as their widest cell, and stand to the right.
#[derive(Default)]
pub(super) struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new<const N: usize>(heading: [&str; N]) -> Self {
        Self { heading: heading.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    /// Draws it from a column on. A column in which no row says anything is left out.
    pub(super) fn draw(&self, canvas: &mut Canvas, column: usize) {
        let said = |at: usize| self.rows.iter().any(|row| row.get(at).is_some_and(|cell| !cell.is_empty()));
        let columns: Vec<usize> = (0..self.heading.len()).filter(|&at| said(at)).collect();
        let width = |at: usize| {
            let cells = self.rows.iter().chain([&self.heading]).filter_map(|row| row.get(at));
            cells.map(|cell| cell.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = columns.iter().map(|&at| width(at)).collect();
        let line = |row: &[String], ink: Ink| {
            let cells = columns.iter().zip(&widths).map(|(&at, &width)| {
                let cell = row.get(at).map_or("", String::as_str);
                let pad = NO_BREAK.to_string().repeat(width.saturating_sub(cell.width()));
                Piece::new(ink, pad + &cell.replace(' ', &NO_BREAK.to_string()))
            });
            let mut line = Vec::new();
            for cell in cells {
                if !line.is_empty() {
                    line.push(plain("  "));
                }
                line.push(cell);
            }
            line
        };
        canvas.paragraph(column, column + 2, &line(&self.heading, Ink::Dim));
        for row in &self.rows {
            canvas.paragraph(column, column + 2, &line(row, Ink::Plain));
        }
    }
}

/// A remark under a table.
pub(super) fn remark(canvas: &mut Canvas, column: usize, text: &str) {
    canvas.paragraph(column, column + 2, &[dim(text)]);
}
