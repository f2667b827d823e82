//! Tables: columns that are dropped on a narrow screen, sorting, filter, selection.

use crate::entity::EntityId;
use crate::text::{Canvas, Line, bold, dim, fit, plain, sparkline};
use ratatui::layout::Rect;
use std::cmp::Ordering;
use unicode_width::UnicodeWidthStr;
use whyslow_model::catalogue::Family;
use whyslow_model::human;
use whyslow_model::window::Change;
use whyslow_quantities::Quantity;

/// Content of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Not read, which is not the same as zero.
    Absent,
    Words(String),
    /// A number and its unit, as `human::quantity` takes it.
    Number(f64, &'static str),
    /// A share of the time. It may exceed 1 if it is summed over threads. Shown and sorted by whole percentages.
    Share(f64),
    /// A time series for a sparkline, and the top of its scale.
    Course(Vec<f64>, f64),
}

impl Value {
    pub(crate) fn number(number: Option<f64>, unit: &'static str) -> Self {
        number.map_or(Self::Absent, |number| Self::Number(number, unit))
    }

    /// Computes a quantity over all steps of an entity.
    pub(crate) fn from_quantity<F: Family>(quantity: &Quantity<F>, change: &Change<'_, F>) -> Self {
        match (quantity.declaration.unit, quantity.over(change)) {
            ("ratio", share) => Self::share(share),
            (unit, number) => Self::number(number, unit),
        }
    }

    pub(crate) fn share(share: Option<f64>) -> Self {
        share.map_or(Self::Absent, Self::Share)
    }

    pub(crate) fn words(words: Option<impl Into<String>>) -> Self {
        words.map_or(Self::Absent, |words| Self::Words(words.into()))
    }

    pub(crate) fn text(&self, width: usize) -> String {
        match self {
            Self::Absent => "-".to_owned(),
            Self::Words(words) => words.clone(),
            Self::Number(number, unit) => human::quantity(*number, unit),
            Self::Share(share) => human::share(*share),
            Self::Course(values, most) => sparkline(values.iter(), *most, width),
        }
    }

    /// Sorts larger numbers first, words alphabetically, and absent values last.
    fn order(&self, other: &Self) -> Ordering {
        match (self.sort_number(), other.sort_number()) {
            (Some(a), Some(b)) => b.total_cmp(&a),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => match (self, other) {
                (Self::Words(a), Self::Words(b)) => a.cmp(b),
                (Self::Words(_), _) => Ordering::Less,
                (_, Self::Words(_)) => Ordering::Greater,
                _ => Ordering::Equal,
            },
        }
    }

    fn sort_number(&self) -> Option<f64> {
        match self {
            Self::Number(number, _) => Some(*number),
            Self::Share(share) => Some((share * 100.0).round()),
            Self::Course(values, _) => values.last().copied().filter(|value| !value.is_nan()),
            Self::Absent | Self::Words(_) => None,
        }
    }
}

/// A column. It is dropped if the screen is too narrow for it and the more important ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Width in columns of the screen; the minimum for a column that grows.
    pub(crate) width: u16,
    /// Words are aligned left, numbers right.
    pub(crate) is_words: bool,
    /// Columns with the lowest numbers are shown first.
    pub(crate) importance: u8,
    /// True if the column takes the remaining width.
    pub(crate) grows: bool,
}

impl Column {
    pub(crate) const fn number(title: &'static str, width: u16, importance: u8) -> Self {
        Self { title, width, is_words: false, importance, grows: false }
    }

    pub(crate) const fn words(title: &'static str, width: u16, importance: u8) -> Self {
        Self { title, width, is_words: true, importance, grows: false }
    }

    pub(crate) const fn growing(self) -> Self {
        Self { grows: true, ..self }
    }
}

/// A row, with its cells in the order of the columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) id: EntityId,
    pub(crate) cells: Vec<Value>,
    /// Child rows in a tree, sorted among themselves.
    pub(crate) below: Vec<Row>,
}

impl Row {
    pub(crate) fn new(id: EntityId, cells: Vec<Value>) -> Self {
        Self { id, cells, below: Vec::new() }
    }

    fn matches(&self, filter: &str) -> bool {
        let words = |cell: &Value| matches!(cell, Value::Words(words) if words.to_lowercase().contains(filter));
        let number = match &self.id {
            EntityId::Process(task) => task.pid.to_string() == filter,
            EntityId::Thread(task) => task.pid.to_string() == filter || task.tid.to_string() == filter,
            _ => false,
        };
        number || self.cells.iter().any(words)
    }
}

/// View of a table: sorting, filter, selection and scrolling.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableView {
    /// Index of the column to sort by.
    pub(crate) sort: usize,
    pub(crate) is_reversed: bool,
    /// Text that rows must contain, in lower case.
    pub(crate) filter: String,
    pub(crate) selected: Option<EntityId>,
    /// Row number of the selection. It stays selected if the entity is gone.
    pub(crate) at: usize,
    /// The first visible row.
    first: usize,
}

/// A visible row and its depth in the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListedRow<'r> {
    pub(crate) row: &'r Row,
    depth: usize,
}

impl TableView {
    pub(crate) fn sorted_by(sort: usize) -> Self {
        Self { sort, ..Self::default() }
    }

    /// Returns the rows that pass the filter, sorted. In a tree, keeps the ancestors and all descendants of a row that passes.
    pub(crate) fn list<'r>(&self, rows: &'r [Row]) -> Vec<ListedRow<'r>> {
        let mut all = Vec::new();
        self.add(rows, 0, self.filter.is_empty(), &mut all);
        all
    }

    fn add<'r>(&self, rows: &'r [Row], depth: usize, passes: bool, all: &mut Vec<ListedRow<'r>>) {
        let mut sorted: Vec<&Row> = rows.iter().collect();
        sorted.sort_by(|a, b| self.order(a, b));
        for row in sorted {
            let passes = passes || row.matches(&self.filter);
            let at = all.len();
            all.push(ListedRow { row, depth });
            self.add(&row.below, depth + 1, passes, all);
            if !passes && all.len() == at + 1 {
                all.pop();
            }
        }
    }

    fn order(&self, a: &Row, b: &Row) -> Ordering {
        let order = match (a.cells.get(self.sort), b.cells.get(self.sort)) {
            (Some(a), Some(b)) => a.order(b),
            _ => Ordering::Equal,
        };
        if self.is_reversed { order.reverse() } else { order }
    }

    /// Moves the selection by a number of rows.
    pub(crate) fn move_by(&mut self, rows: &[ListedRow<'_>], by: isize) {
        let at = self.position(rows).saturating_add_signed(by).min(rows.len().saturating_sub(1));
        self.selected = rows.get(at).map(|listed| listed.row.id.clone());
        self.at = at;
    }

    /// Returns the row number of the selection.
    fn position(&self, rows: &[ListedRow<'_>]) -> usize {
        let found = self.selected.as_ref().and_then(|id| rows.iter().position(|listed| listed.row.id == *id));
        found.unwrap_or(self.at).min(rows.len().saturating_sub(1))
    }

    /// Returns the selected row.
    pub(crate) fn selection<'r>(&self, rows: &[ListedRow<'r>]) -> Option<&'r Row> {
        rows.get(self.position(rows)).map(|listed| listed.row)
    }

    /// Draws head and rows. Scrolls so that the selection is visible.
    pub(crate) fn draw(&mut self, canvas: &mut Canvas<'_>, area: Rect, table: &Drawn<'_>) {
        if area.height == 0 {
            return;
        }
        let rows = self.list(table.rows);
        let widths = widths(table.columns, area.width);
        let mut head: Line = Vec::new();
        for (at, (column, width)) in table.columns.iter().zip(&widths).enumerate() {
            let Some(width) = width else { continue };
            let mark =
                if at == self.sort && table.is_focused { if self.is_reversed { "▲" } else { "▼" } } else { "" };
            let cell = aligned(&format!("{}{mark}", column.title), usize::from(*width), column.is_words);
            head.push(if table.is_focused { bold(cell) } else { dim(cell) });
        }
        canvas.line(area, 0, &head);
        let height = usize::from(area.height) - 1;
        let at = self.position(&rows);
        self.at = at;
        if !table.is_focused {
            self.first = 0;
        } else if at < self.first {
            self.first = at;
        } else if at >= self.first + height {
            self.first = (at + 1).saturating_sub(height);
        }
        self.first = self.first.min(rows.len().saturating_sub(height));
        for (line, (index, listed)) in rows.iter().enumerate().skip(self.first).take(height).enumerate() {
            let cells = cells(listed, table.columns, &widths);
            if table.is_focused && index == at {
                canvas.reversed_line(area, line + 1, &cells);
            } else {
                canvas.line(area, line + 1, &cells);
            }
        }
        if rows.is_empty() && height > 0 {
            let none = if self.filter.is_empty() { table.none } else { "Nothing matches the filter; Esc clears it." };
            canvas.line(area, 1, &[dim(none)]);
        }
    }
}

/// A table to draw.
pub(crate) struct Drawn<'t> {
    pub(crate) columns: &'t [Column],
    pub(crate) rows: &'t [Row],
    /// True if keys act on this table.
    pub(crate) is_focused: bool,
    /// Text shown instead of rows if there are none.
    pub(crate) none: &'t str,
}

fn cells(listed: &ListedRow<'_>, columns: &[Column], widths: &[Option<u16>]) -> Line {
    let mut first_words = true;
    let mut line = Vec::new();
    for ((cell, column), width) in listed.row.cells.iter().zip(columns).zip(widths) {
        let indent = if column.is_words && std::mem::take(&mut first_words) { listed.depth * 2 } else { 0 };
        let Some(width) = width.map(usize::from) else { continue };
        let text = format!("{}{}", " ".repeat(indent), escaped(&cell.text(width)));
        let text = aligned(&text, width, column.is_words);
        line.push(if *cell == Value::Absent { dim(text) } else { plain(text) });
    }
    line
}

/// Escapes the text before it is cut and aligned, because escapes take more columns.
fn escaped(text: &str) -> String {
    plain(text).text().to_owned()
}

/// Aligns a cell and appends a blank.
fn aligned(text: &str, width: usize, left: bool) -> String {
    let text = fit(text, width);
    let blank = " ".repeat(width.saturating_sub(text.width()));
    if left { format!("{text}{blank} ") } else { format!("{blank}{text} ") }
}

/// Computes the width of each column that is shown. The most important columns are shown, as many as fit.
fn widths(columns: &[Column], width: u16) -> Vec<Option<u16>> {
    let mut by_importance: Vec<usize> = (0..columns.len()).collect();
    by_importance.sort_by_key(|at| columns[*at].importance);
    let mut widths = vec![None; columns.len()];
    let mut left = width;
    for (order, at) in by_importance.into_iter().enumerate() {
        // A blank follows each column, but the last one can do without. The first is shown however narrow the screen is.
        let wanted = if order == 0 { columns[at].width.min(width) } else { columns[at].width };
        if wanted > left {
            break;
        }
        left = left.saturating_sub(wanted + 1);
        widths[at] = Some(wanted);
    }
    if let Some(at) = columns.iter().zip(&widths).position(|(column, shown)| column.grows && shown.is_some()) {
        widths[at] = widths[at].map(|width| width + left);
    }
    widths
}

/// Builds a two-column table of names and values for a details page. Skips absent values.
pub(crate) fn pairs(all: &[(&str, Value)]) -> Vec<Line> {
    let width = all.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    let known = all.iter().filter(|(_, value)| *value != Value::Absent);
    known.map(|(name, value)| vec![dim(format!("  {name:width$}  ")), plain(value.text(20))]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] =
        [Column::number("CPU", 6, 1), Column::words("NAME", 8, 0).growing(), Column::number("READ", 10, 2)];

    fn row(cpu: u32, cells: [Value; 3]) -> Row {
        Row::new(EntityId::Cpu(cpu), cells.to_vec())
    }

    fn words(text: &str) -> Value {
        Value::Words(text.into())
    }

    fn listed(view: &TableView, rows: &[Row]) -> Vec<u32> {
        let number = |row: &ListedRow<'_>| match row.row.id {
            EntityId::Cpu(number) => number,
            _ => 0,
        };
        view.list(rows).iter().map(number).collect()
    }

    #[test]
    fn columns_give_way_by_importance_and_one_grows() {
        assert_eq!(widths(&COLUMNS, 80), [Some(6), Some(61), Some(10)]);
        assert_eq!(widths(&COLUMNS, 26), [Some(6), Some(8), Some(10)]);
        assert_eq!(widths(&COLUMNS, 20), [Some(6), Some(12), None]);
        assert_eq!(widths(&COLUMNS, 9), [None, Some(8), None]);
        assert_eq!(widths(&COLUMNS, 3), [None, Some(3), None]);
    }

    #[test]
    fn larger_numbers_come_first_and_absent_ones_last() {
        let rows = [
            row(1, [Value::Share(0.102), words("b"), Value::Absent]),
            row(2, [Value::Share(0.104), words("a"), Value::Number(1.0, "bytes/s")]),
            row(3, [Value::Share(0.5), words("c"), Value::Number(0.0, "bytes/s")]),
        ];
        assert_eq!(listed(&TableView::sorted_by(0), &rows), [3, 1, 2], "equal percentages keep their order");
        assert_eq!(listed(&TableView::sorted_by(1), &rows), [2, 1, 3]);
        assert_eq!(listed(&TableView::sorted_by(2), &rows), [2, 3, 1]);
        assert_eq!(listed(&TableView { is_reversed: true, ..TableView::sorted_by(0) }, &rows), [1, 2, 3]);
    }

    #[test]
    fn a_tree_keeps_what_is_above_and_below_what_passes_the_filter() {
        let leaf = |cpu, name| row(cpu, [Value::Share(0.0), words(name), Value::Absent]);
        let rows = [
            Row { below: vec![leaf(11, "nginx"), leaf(12, "php")], ..leaf(1, "web.slice") },
            Row { below: vec![leaf(21, "postgres")], ..leaf(2, "db.slice") },
        ];
        let filtered = |filter: &str| listed(&TableView { filter: filter.into(), ..TableView::sorted_by(1) }, &rows);
        assert_eq!(filtered(""), [2, 21, 1, 11, 12]);
        assert_eq!(filtered("php"), [1, 12]);
        assert_eq!(filtered("db"), [2, 21]);
        assert_eq!(filtered("nothing"), <[u32; 0]>::default());
    }

    #[test]
    fn the_selection_stays_with_its_entity_and_else_with_its_row() {
        let rows: Vec<Row> = (0..5).map(|n| row(n, [Value::Share(f64::from(n)), words("x"), Value::Absent])).collect();
        let mut view = TableView::sorted_by(0);
        view.move_by(&view.list(&rows), 1);
        assert_eq!(view.selected, Some(EntityId::Cpu(3)));
        view.is_reversed = true;
        assert_eq!(view.selection(&view.list(&rows)).map(|r| &r.id), Some(&EntityId::Cpu(3)));
        view.move_by(&view.list(&rows), 9);
        assert_eq!(view.selected, Some(EntityId::Cpu(4)), "reversed, the last one");
        assert_eq!(view.selection(&view.list(&rows[..2])).map(|r| &r.id), Some(&EntityId::Cpu(1)), "it is gone");
        view.move_by(&view.list(&[]), -1);
        assert_eq!(view.selected, None);
    }
}
