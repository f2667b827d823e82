//! A screen composed by another crate from the common elements: headings, paragraphs, tables, commands to paste.

use super::table::AlignedTable;
use super::{TextStyle, heading, table};
use crate::canvas::{Canvas, Piece, plain};
use crate::escape::terminal;

/// Lines of text, wrapped and escaped like all other text.
pub struct Sheet {
    canvas: Canvas,
}

impl std::fmt::Debug for Sheet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sheet").field("lines", &self.canvas.lines()).finish()
    }
}

impl Sheet {
    /// Creates an empty sheet.
    pub fn new(style: TextStyle) -> Self {
        Self { canvas: style.canvas() }
    }

    /// Adds a bold line, after an empty one unless it is the first.
    pub fn heading(&mut self, title: &str) {
        if self.canvas.lines() == 0 {
            self.canvas.paragraph(0, 2, &[crate::bold(title)]);
        } else {
            heading(&mut self.canvas, title);
        }
    }

    /// Adds an empty line.
    pub fn blank(&mut self) {
        self.canvas.blank();
    }

    /// Adds a wrapped paragraph of pieces.
    pub fn paragraph(&mut self, pieces: &[Piece]) {
        self.canvas.paragraph(0, 2, pieces);
    }

    /// Adds a paragraph in dim text, which can be skipped.
    pub fn remark(&mut self, text: &str) {
        table::remark(&mut self.canvas, 0, text);
    }

    /// Adds a command to paste.
    pub fn command(&mut self, command: &str) {
        self.canvas.command(2, &plain(command));
    }

    /// Adds rows under headings: the first `left` columns are left-aligned, the others are numbers. Leaves out empty columns, and
    /// the last ones if there is no room.
    pub fn table<const N: usize>(
        &mut self,
        headings: [&str; N],
        left: usize,
        rows: impl IntoIterator<Item = [String; N]>,
    ) {
        self.table_of(&headings, left, rows.into_iter().map(Vec::from));
    }

    /// Adds a table with any number of columns.
    pub fn table_of(&mut self, headings: &[&str], left: usize, rows: impl IntoIterator<Item = Vec<String>>) {
        let mut table = AlignedTable::with_headings(headings.iter().copied()).left(left);
        // Escaped here already, so that columns have the width of the visible text.
        let cell = |cell: String| terminal(&cell).into_owned();
        rows.into_iter().for_each(|row| table.add(row.into_iter().map(cell)));
        table.draw(&mut self.canvas, 0);
    }

    /// Adds a line that is never wrapped.
    pub fn line(&mut self, piece: &Piece) {
        self.canvas.verbatim(0, piece);
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.canvas.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_on_the_left_and_numbers_on_the_right() {
        let style = TextStyle { width: 60, colour: false, all: false, utc: true };
        let mut sheet = Sheet::new(style);
        sheet.heading("Sick");
        let row = |host: &str, lost: &str, finding: &str| [host, finding, lost].map(str::to_owned);
        sheet.table(
            ["host", "finding", "lost"],
            2,
            [row("a\u{202e}", "1 s", "disk.slow"), row("web-10", "120 s", "x")],
        );
        assert_eq!(
            sheet.finish(),
            "Sick\nhost       finding     lost\na\\u{202e}  disk.slow    1 s\nweb-10     x          120 s\n"
        );
    }
}
