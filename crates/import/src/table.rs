//! Table reader shared by all formats: joins wrapped lines, refuses rows that do not fit their header, and maps columns to
//! metrics as the formats declare.

use crate::clock::date;
use crate::lines::Lines;
use crate::number::{KIB, MIB, number, ran_together, scaled};
use crate::refusal::Refusal;
use std::marker::PhantomData;
use std::rc::Rc;
use whyslow_model::catalogue::{Family, MetricKind};

/// Minimum count of numbers in a row of a table.
const ROW: usize = 5;
/// Minimum count of numbers in a row where at least every other word is a number.
const SHORT_ROW: usize = 3;
/// Maximum length of a remark of one or two words.
const SHORT: usize = 30;

/// A column of a table: its header, the metric that its numbers become, and the factor to that metric's base unit.
#[derive(Clone, Copy)]
pub struct TableColumn {
    pub header: &'static str,
    pub metric: &'static str,
    pub unit: f64,
    pub add: bool,
}

/// Declares [`MetricColumns`]: `"rkB/s" => read_bytes * KIB` is a column with its header, the metric that it becomes, and the
/// factor to the base unit. If several columns become one metric, the first that a table has is used; a column with `+=` is
/// added to it.
macro_rules! columns {
    ($($header:tt $arrow:tt $metric:ident $(* $unit:expr)?),* $(,)?) => {
        $crate::table::MetricColumns::new(&[$(
            $crate::table::TableColumn {
                header: $header,
                metric: stringify!($metric),
                unit: 1.0 $(* $unit)?,
                add: $crate::table::columns!(@is_added $arrow),
            }
        ),*])
    };
    (@is_added =>) => { false };
    (@is_added +=) => { true };
}
pub(crate) use columns;

/// The columns that become metrics of one family.
pub struct MetricColumns<F> {
    columns: &'static [TableColumn],
    family: PhantomData<fn() -> F>,
}

impl<F: Family> MetricColumns<F> {
    /// Declares the columns of a format.
    pub const fn new(columns: &'static [TableColumn]) -> Self {
        Self { columns, family: PhantomData }
    }

    /// Returns the same columns for a family with the same metrics.
    pub const fn for_family<G: Family>(self) -> MetricColumns<G> {
        MetricColumns::new(self.columns)
    }

    /// Returns the metrics that a row has numbers for, by their position in the family, in base units.
    pub fn values(&self, row: &TableRow) -> Vec<(usize, f64)> {
        let mut values: Vec<(usize, f64)> = Vec::with_capacity(self.columns.len());
        for column in self.columns {
            let Some(value) = row.get(column.header).map(|n| n * column.unit) else { continue };
            let Some(at) = F::INFO.metrics.iter().position(|m| m.name == column.metric) else { continue };
            match values.iter_mut().find(|(metric, _)| *metric == at) {
                Some((_, sum)) if column.add => *sum += value,
                None if !column.add => values.push((at, value)),
                _ => {}
            }
        }
        values
    }

    /// Returns the number a row has for a metric, in base units.
    pub fn value(&self, row: &TableRow, metric: &str) -> Option<f64> {
        self.values(row).into_iter().find(|(at, _)| F::INFO.metrics[*at].name == metric).map(|(_, value)| value)
    }

    /// Returns the header and the metric of each column.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.columns.iter().map(|column| (column.header, column.metric))
    }

    /// Returns the metric of the first column whose header meets a condition.
    pub fn metric(&self, is_header: impl Fn(&str) -> bool) -> Option<&'static str> {
        self.pairs().find(|(header, _)| is_header(header)).map(|(_, metric)| metric)
    }

    /// Returns true if one of the columns has this header.
    pub fn has(&self, header: &str) -> bool {
        self.metric(|own| own == header).is_some()
    }

    /// Returns the sum of all columns, for shares that must add up to the whole.
    pub fn sum(&self, row: &TableRow) -> f64 {
        self.values(row).iter().map(|(_, value)| value).sum()
    }
}

/// [`MetricColumns`] of any family.
pub trait AnyColumns: Sync {
    /// Returns the metrics that the columns become, as `family.metric`.
    fn metrics(&self) -> Vec<String>;
    /// Returns the metrics that the family does not have as a counter or gauge.
    fn unknown(&self) -> Vec<&'static str>;
}

impl<F: Family> AnyColumns for MetricColumns<F> {
    fn metrics(&self) -> Vec<String> {
        let mut metrics: Vec<String> = self.pairs().map(|(_, metric)| format!("{}.{metric}", F::INFO.name)).collect();
        metrics.dedup();
        metrics
    }

    fn unknown(&self) -> Vec<&'static str> {
        let known = |name: &str| {
            F::INFO.metrics.iter().any(|m| m.name == name && matches!(m.kind, MetricKind::Counter | MetricKind::Gauge))
        };
        self.pairs().map(|(_, metric)| metric).filter(|name| !known(name)).collect()
    }
}

/// The names of a table's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableHeader {
    pub names: Rc<[String]>,
    /// Line on which the header begins.
    pub line: u32,
}

impl TableHeader {
    /// Creates a header with these columns.
    pub fn new<S: ToString>(names: impl IntoIterator<Item = S>, line: u32) -> Self {
        Self { names: names.into_iter().map(|name| name.to_string()).collect(), line }
    }
}

/// One row of a table: first its labels, then its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// First and last line of the row.
    pub line: u32,
    pub last_line: u32,
    /// Leading fields of text: a time, a device.
    pub labels: Vec<String>,
    names: Rc<[String]>,
    numbers: Vec<f64>,
    /// Fields after the last column: a time stamp, or a remark that someone added.
    pub rest: Vec<String>,
}

impl TableRow {
    /// Creates a row that was not printed as a table.
    pub fn new(line: u32, label: &str, numbers: impl IntoIterator<Item = (String, f64)>) -> Self {
        let (names, numbers): (Vec<String>, Vec<f64>) = numbers.into_iter().unzip();
        let labels = vec![label.to_owned()];
        Self { line, last_line: line, labels, names: names.into(), numbers, rest: Vec::new() }
    }

    /// Extends the row to a later line.
    pub fn until(self, last_line: u32) -> Self {
        Self { last_line, ..self }
    }

    /// Returns the number in a column.
    pub fn get(&self, column: &str) -> Option<f64> {
        self.numbers.get(self.names.iter().position(|name| name == column)?).copied()
    }

    /// Returns the number in a column multiplied by a factor.
    pub fn times(&self, column: &str, factor: f64) -> Option<f64> {
        self.get(column).map(|n| n * factor)
    }

    /// Multiplies the numbers in the columns that meet a condition.
    pub fn scale(&mut self, is_wanted: impl Fn(&str) -> bool, factor: f64) {
        let columns = self.names.iter().zip(&mut self.numbers);
        columns.filter(|(name, _)| is_wanted(name)).for_each(|(_, number)| *number *= factor);
    }

    /// Adds to the number in a column, if there is one.
    pub fn add(&mut self, column: &str, amount: f64) {
        let columns = self.names.iter().zip(&mut self.numbers);
        columns.filter(|(name, _)| *name == column).for_each(|(_, number)| *number += amount);
    }

    /// Removes the numbers in these columns.
    pub fn remove(&mut self, columns: &[&str]) {
        let kept = self.names.iter().zip(&self.numbers).filter(|(name, _)| !columns.contains(&name.as_str()));
        let (names, numbers): (Vec<String>, Vec<f64>) = kept.map(|(name, number)| (name.clone(), *number)).unzip();
        (self.names, self.numbers) = (names.into(), numbers);
    }

    /// Returns true if the row has one of these columns.
    pub fn has_any(&self, columns: &[String]) -> bool {
        columns.iter().any(|column| self.names.contains(column))
    }

    /// Returns the last label: the device, interface or CPU.
    pub fn label(&self) -> &str {
        self.labels.last().map_or("", String::as_str)
    }

    /// Adds the second part of a row that was printed in two tables.
    pub fn extend(&mut self, second: Self) {
        self.names = self.names.iter().chain(&*second.names).cloned().collect();
        self.numbers.extend(second.numbers);
    }
}

fn count_numbers(text: &str) -> usize {
    text.split_whitespace().filter(|w| number(w).is_some()).count()
}

/// Returns true if a line is a row of a table, even one whose columns ran together.
pub fn is_table_row(text: &str) -> bool {
    let numbers = count_numbers(text);
    let is_short_row = || numbers >= SHORT_ROW && 2 * numbers >= text.split_whitespace().count();
    numbers >= ROW || is_short_row() || text.split_whitespace().any(ran_together)
}

/// Returns true if a line is text that people put between outputs (rulers, headings, sentences) and cannot be data.
pub fn is_remark(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    let digits = text.chars().filter(|c| c.is_ascii_digit()).count();
    let separate = !text.split_whitespace().any(ran_together);
    let short = text.len() <= SHORT && text.split_whitespace().count() <= 2;
    let sentence = || letters >= 2 * digits && count_numbers(text) <= 2;
    (digits == 0 && letters == 0) || (separate && (short || sentence()))
}

/// Returns true if a line ends a sentence, as people write to introduce their next step. The footer of a page does not.
pub fn is_sentence(text: &str) -> bool {
    const LEAST_WORDS: usize = 3;
    let words = text.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count();
    words >= LEAST_WORDS && text.trim_end().ends_with(['.', ':', '?', '!']) && is_remark(text)
}

/// Returns true if a line consists of at least `least` column names, all from `vocabulary`.
pub fn is_header(line: &str, vocabulary: &[&str], least: usize) -> bool {
    line.split_whitespace().all(|word| vocabulary.contains(&word)) && line.split_whitespace().count() >= least
}

/// Takes the header that comes next, including the parts wrapped to the following lines.
pub fn take_header(lines: &mut Lines<'_>, vocabulary: &[&str]) -> TableHeader {
    take_header_of(lines, |name| vocabulary.contains(&name))
}

/// Takes a header like [`take_header`], with column names that meet a condition.
pub fn take_header_of(lines: &mut Lines<'_>, is_column: impl Fn(&str) -> bool) -> TableHeader {
    let line = lines.number();
    let mut names = words(lines.take().map(|l| l.text).unwrap_or_default().as_str());
    while let Some((blanks, rest)) = lines.peek_past_blanks(0) {
        let more = words(rest);
        if more.iter().any(|name| !is_column(name) || names.contains(name)) {
            break;
        }
        names.extend(more);
        lines.skip(blanks + 1);
    }
    TableHeader::new(names, line)
}

/// Parses the number in a cell: `83.5%` in a column of shares, or a number with a unit, as `--human` prints it, in a column of
/// bytes.
pub fn cell(column: &str, field: &str) -> Option<f64> {
    let is_share = column.starts_with('%');
    number(field).or_else(|| if is_share { number(field.strip_suffix('%')?) } else { with_unit(column, field) })
}

/// Converts `448.1M` to the unit of its column: 448.1 in `MB_read/s`, 458854.4 in `kB_read/s`.
fn with_unit(column: &str, field: &str) -> Option<f64> {
    let unit = if column.contains("MB") {
        MIB
    } else if column.contains("kB") || column.starts_with("kb") || column.ends_with("areq-sz") {
        KIB
    } else {
        return None;
    };
    let bytes = match field.strip_suffix('B') {
        Some(bytes) => number(bytes),
        None => scaled(field, KIB, 1.0),
    };
    bytes.map(|bytes| bytes / unit)
}

/// Takes the next row: `labels` text fields, then a number for each column, from this line and, if it was wrapped, the
/// following ones. Text after the last column becomes [`TableRow::rest`].
///
/// # Errors
/// Fails if the number of fields does not match the header, or a field is not a number.
pub fn take_row(lines: &mut Lines<'_>, header: &Rc<[String]>, labels: usize) -> Result<TableRow, Refusal> {
    take_row_of(lines, header, labels, false)
}

/// Takes a row like [`take_row`]. With `label_last`, its label stands after the numbers.
///
/// # Errors
/// Fails like [`take_row`].
pub fn take_row_of(
    lines: &mut Lines<'_>,
    header: &Rc<[String]>,
    labels: usize,
    label_last: bool,
) -> Result<TableRow, Refusal> {
    let Some(line) = lines.take() else { return Err(lines.refuse("a row of a table")) };
    if let Some(field) = line.text.split_whitespace().find(|f| ran_together(f)) {
        return Err(lines.refuse_at(&line, format!("separate columns: they ran together at {field:?}")));
    }
    let want = labels + header.len();
    let mut fields = words(&line.text);
    while fields.len() < want {
        let rest = lines.peek_past_blanks(0).filter(|(_, rest)| continues(rest, want - fields.len(), label_last));
        let Some((blanks, rest)) = rest.map(|(blanks, rest)| (blanks, words(rest))) else { break };
        fields.extend(rest);
        lines.skip(blanks + 1);
    }
    let rest = fields.split_off(want.min(fields.len()));
    let remark = |f: &String| f.starts_with(|c: char| c.is_alphabetic() || "#<(".contains(c)) || date(f).is_some();
    // Another row may have been joined to it.
    let is_remark = rest.first().is_none_or(remark) && !is_table_row(&rest.join(" "));
    if fields.len() < want || !is_remark {
        let expected = format!("{want} columns as in the header ({})", header.join(" "));
        return Err(lines.refuse_at(&line, expected));
    }
    if label_last {
        fields[labels - 1..].rotate_right(1);
    }
    match header.iter().zip(&fields[labels..]).map(|(column, field)| cell(column, field)).collect() {
        Some(numbers) => {
            fields.truncate(labels);
            let line = line.number;
            Ok(TableRow { line, last_line: line, labels: fields, names: Rc::clone(header), numbers, rest })
        }
        None => Err(lines.refuse_at(&line, format!("a number in each of the columns {}", header.join(" ")))),
    }
}

/// Returns true if a line is the wrapped rest of a row that lacks `missing` fields.
fn continues(line: &str, missing: usize, label_last: bool) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let numbers = fields.len() - usize::from(label_last && fields.len() == missing);
    (1..=missing).contains(&fields.len()) && fields[..numbers].iter().all(|field| is_cell(field))
}

/// Returns true if a field may be a number, with a unit or without.
pub fn is_cell(field: &str) -> bool {
    number(field.trim_end_matches(['%', 'B', 'k', 'M', 'G', 'T', 'P'])).is_some()
}

/// Returns the fields of a line.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str, columns: &str) -> Result<TableRow, Refusal> {
        take_row(&mut Lines::new("x", text.as_bytes()), &words(columns).into(), 1)
    }

    #[test]
    fn a_wrapped_row_is_put_together() {
        let row = row("sda 1.00\n\n2,50 3\nsdb 1 2 3\n", "a b c").unwrap();
        assert_eq!((row.labels[0].as_str(), row.get("b"), row.get("c")), ("sda", Some(2.5), Some(3.0)));
    }

    #[test]
    fn a_remark_after_the_last_column_is_left_out() {
        let row = row("sda 1 2 3 pause #1\n", "a b c").unwrap();
        assert_eq!(["a", "b", "c"].map(|column| row.get(column)), [Some(1.0), Some(2.0), Some(3.0)]);
    }

    #[test]
    fn a_row_that_does_not_fit_is_refused_with_its_line() {
        for text in [
            "sda 1 2\nsdb 1 2 3\n",
            "sda 1 2 3 4\n",
            "sda 1 2 3 sdb 1 2 3\n",
            "sda 1 x 3\n",
            "sda 1 2\n",
            "sda1.002.003.00\n",
        ] {
            let refusal = row(text, "a b c").unwrap_err();
            assert_eq!(refusal.line, 1);
            assert_eq!(refusal.found, text.lines().next().unwrap());
        }
    }

    #[test]
    fn numbers_with_units_are_in_the_unit_of_their_column() {
        for (column, field, value) in [
            ("kB_read/s", "1.5M", 1536.0),
            ("rkB/s", "0.0k", 0.0),
            ("MB_wrtn/s", "512.0k", 0.5),
            ("rareq-sz", "4.0k", 4.0),
            ("kbmemfree", "1.0G", 1_048_576.0),
            ("kB_read/s", "512.0B", 0.5),
            ("%util", "27.0%", 27.0),
        ] {
            assert_eq!(cell(column, field), Some(value), "{column} {field}");
        }
        for (column, field) in [("tps", "1.5M"), ("r_await", "1%"), ("Blk_read/s", "1.0k"), ("kB_read/s", "1.0x")] {
            assert_eq!(cell(column, field), None, "{column} {field}");
        }
    }

    #[test]
    fn a_label_may_stand_behind_the_numbers_of_a_wrapped_row() {
        let mut lines = Lines::new("x", &b"1.00 2.5M\n0.0k sda\n4 5 6 sdb\n"[..]);
        let columns: Rc<[String]> = words("tps kB_read/s kB_wrtn/s").into();
        let row = take_row_of(&mut lines, &columns, 1, true).unwrap();
        assert_eq!((row.label(), row.get("kB_read/s"), row.get("kB_wrtn/s")), ("sda", Some(2560.0), Some(0.0)));
        assert_eq!(take_row_of(&mut lines, &columns, 1, true).unwrap().label(), "sdb");
    }

    #[test]
    fn a_wrapped_header_is_put_together() {
        let mut lines = Lines::new("x", &b"Device: a b\n\nc d\nsda 1 2 3 4\n"[..]);
        assert_eq!(take_header(&mut lines, &["Device:", "a", "b", "c", "d"]).names.len(), 5);
        assert_eq!(lines.number(), 4);
    }
}
