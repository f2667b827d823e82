//! Tables of numbers.

use crate::canvas::{Canvas, Ink, NO_BREAK, Piece, dim};
use unicode_width::UnicodeWidthStr;

/// Columns between table columns.
const GAP: usize = 2;

/// Rows under a heading, right-aligned; columns are as wide as their widest cell.
#[derive(Default)]
pub(super) struct AlignedTable {
    /// Number of first columns whose cells are left-aligned.
    left: usize,
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl AlignedTable {
    pub(super) fn new<const N: usize>(heading: [&str; N]) -> Self {
        Self { heading: heading.map(str::to_owned).to_vec(), ..Self::default() }
    }

    pub(super) fn with_headings<'t>(heading: impl Iterator<Item = &'t str>) -> Self {
        Self { heading: heading.map(str::to_owned).collect(), ..Self::default() }
    }

    /// Left-aligns the first columns.
    pub(super) fn left(self, left: usize) -> Self {
        Self { left, ..self }
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    pub(super) fn add(&mut self, cells: impl Iterator<Item = String>) {
        self.rows.push(cells.collect());
    }

    /// Draws it, starting at a column of the canvas. Leaves out empty columns, and the last ones if there is no room.
    pub(super) fn draw(&self, canvas: &mut Canvas, column: usize) {
        self.draw_rows(canvas, column, &self.those_with_room(canvas, column, 0), self.rows.iter());
    }

    /// Draws it in parts that fit the width, each starting with the first column. Leaves out rows that are empty in a part, and
    /// columns wider than the canvas.
    pub(super) fn draw_in_parts(&self, canvas: &mut Canvas, column: usize) {
        let mut next = 1;
        while next < self.heading.len() {
            let columns = self.those_with_room(canvas, column, next);
            let last = columns.last().map_or(0, |&(at, _)| at);
            if last >= next {
                let says = |row: &&Vec<String>| {
                    columns.iter().skip(1).any(|&(at, _)| row.get(at).is_some_and(|cell| !cell.is_empty()))
                };
                self.draw_rows(canvas, column, &columns, self.rows.iter().filter(says));
            }
            next = last.max(next) + 1;
        }
    }

    /// Returns the first column and the non-empty ones from `from` on that fit, each with its width.
    fn those_with_room(&self, canvas: &Canvas, column: usize, from: usize) -> Vec<(usize, usize)> {
        let mut room = canvas.width().saturating_sub(column);
        let mut columns = Vec::new();
        for at in (0..self.heading.len()).filter(|&at| (at == 0 || at >= from) && self.says_something(at)) {
            let width = self.width(at);
            if width > room {
                break;
            }
            columns.push((at, width));
            room = room.saturating_sub(width + GAP);
        }
        columns
    }

    fn draw_rows<'r>(
        &self,
        canvas: &mut Canvas,
        column: usize,
        columns: &[(usize, usize)],
        rows: impl Iterator<Item = &'r Vec<String>>,
    ) {
        if columns.iter().any(|&(at, _)| !self.heading[at].is_empty()) {
            canvas.paragraph(column, column, &line(&self.heading, columns, self.left, Ink::Dim));
        }
        for row in rows {
            canvas.paragraph(column, column, &line(row, columns, self.left, Ink::Plain));
        }
    }

    fn says_something(&self, at: usize) -> bool {
        self.rows.iter().any(|row| row.get(at).is_some_and(|cell| !cell.is_empty()))
    }

    fn width(&self, at: usize) -> usize {
        let cells = self.rows.iter().chain([&self.heading]).filter_map(|row| row.get(at));
        cells.map(|cell| cell.width()).max().unwrap_or(0)
    }
}

/// Formats a row's cells, the first ones left-aligned, the others right-aligned. Lines are not broken at their spaces.
fn line(row: &[String], columns: &[(usize, usize)], left: usize, ink: Ink) -> Vec<Piece> {
    let mut text = String::new();
    for &(at, width) in columns {
        let cell = row.get(at).map_or("", String::as_str);
        let gap = if text.is_empty() { 0 } else { GAP };
        let rest = width.saturating_sub(cell.width());
        let (before, after) = if at < left { (gap, rest) } else { (gap + rest, 0) };
        text.extend(std::iter::repeat_n(NO_BREAK, before));
        text.extend(cell.chars().map(|c| if c == ' ' { NO_BREAK } else { c }));
        text.extend(std::iter::repeat_n(NO_BREAK, after));
    }
    vec![Piece::new(ink, text)]
}

/// Draws a remark under a table.
pub(super) fn remark(canvas: &mut Canvas, column: usize, text: &str) {
    canvas.paragraph(column, column + 2, &[dim(text)]);
}
