//! jstat(1): the heap of a Java program and its collections (-gc, -gcutil), one row per interval.

use crate::prelude::*;
use whyslow_model::catalogue::Heap;

pub const FORMAT: Format = Format {
    name: "jstat",
    versions: "JDK 6 to 24: jstat -gc and -gcutil, with and without -t",
    shows: "how much of the time a Java program is stopped to collect its heap, and what is left in it then",
    lacks: "the rates, where neither -t nor the command line says how far apart the rows are; why a collection began (jstat -gccause)",
    programs: &[partly_read("jstat")],
    files: &["jstat*"],
    starts: |lines| lines.next_is(is_heading),
    read,
    ..Format::NEW
};

/// Returns true for `S0C S1C S0U S1U EC EU OC OU MC MU CCSC CCSU YGC YGCT FGC FGCT GCT`, and for the percentages of -gcutil.
fn is_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    ["YGC", "FGC", "FGCT", "GCT"].iter().all(|name| words.contains(name))
        && words.iter().any(|w| ["OU", "O"].contains(w))
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let command = context.command_of(FORMAT.name);
    let program = command.and_then(|command| command.operands().find(|word| is_pid(word)));
    let program = program.map_or_else(|| "java".to_owned(), |pid| format!("java ({pid})"));
    let step =
        command.and_then(|command| command.operands().skip_while(|word| !is_pid(word)).nth(1)).and_then(interval);
    let mut heading: Vec<String> = Vec::new();
    let mut rows: Vec<(u32, f64, HeapRow)> = Vec::new();
    let mut steps = 0.0;
    // Rows that were left out are often marked by dots.
    let is_own = |text: &str| is_heading(text) || is_row(text) || text.trim() == "...";
    while let Some(line) = lines.take_if(is_own) {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        if is_heading(&line.text) {
            heading = words.iter().map(|word| (*word).to_owned()).collect();
        } else if is_row(&line.text) {
            let row = (words.len() == heading.len()).then(|| HeapRow::from_heading(&heading, &words)).flatten();
            let row = row.ok_or_else(|| lines.refuse_at(&line, format!("{} numbers as in the heading", heading.len())));
            if let Some(row) = lines.keep(row)? {
                rows.push((line.number, steps, row));
            }
            steps += 1.0;
        } else if rows.last().is_some_and(|(.., row)| row.timestamp.is_none()) {
            // How long the gap is, nothing says.
            rows.clear();
        }
    }
    let begin = rows.first().and_then(|(.., row)| row.timestamp).unwrap_or(0.0);
    for (line, steps, row) in &rows {
        let at = row.timestamp.map_or_else(|| step.unwrap_or(0.0) * steps, |timestamp| timestamp - begin);
        row.record(run.row::<Heap>(at.max(0.0), *line, program.as_str().into()));
    }
    Ok(())
}

fn is_pid(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit())
}

/// Returns true for a line of numbers; survivor spaces that are not in use are `-`.
fn is_row(text: &str) -> bool {
    let mut words = text.split_whitespace();
    words.clone().count() >= 8 && words.all(|word| word == "-" || number(word).is_some())
}

/// Parses the interval of the command line, in seconds: `1000`, `10s`, `500ms`.
fn interval(word: &str) -> Option<f64> {
    let in_ms = |word: &str| number(word).map(|ms| ms / 1000.0);
    match (word.strip_suffix("ms"), word.strip_suffix('s')) {
        (Some(ms), _) => in_ms(ms),
        (None, Some(seconds)) => number(seconds),
        (None, None) => in_ms(word),
    }
}

/// One row: totals since the program started.
struct HeapRow {
    /// Seconds since the program started.
    timestamp: Option<f64>,
    young: (f64, f64),
    full: (f64, f64),
    old_used: Option<f64>,
    old_fill: Option<f64>,
}

impl HeapRow {
    fn from_heading(heading: &[String], words: &[&str]) -> Option<Self> {
        let value = |name: &str| heading.iter().position(|column| column == name).and_then(|at| number(words[at]));
        let used = value("OU").map(|kib| kib * KIB);
        let capacity = value("OC").map(|kib| kib * KIB).filter(|bytes| *bytes > 0.0);
        let share = value("O").map(|percent| percent / 100.0);
        Some(Self {
            timestamp: value("Timestamp"),
            young: (value("YGC")?, value("YGCT")?),
            full: (value("FGC")?, value("FGCT")?),
            old_used: used,
            old_fill: used.zip(capacity).map(|(used, capacity)| used / capacity).or(share).filter(|fill| *fill <= 1.0),
        })
    }

    fn record(&self, row: &mut Heap) {
        let nanoseconds = |seconds: f64| (seconds * SECOND).round() as u64;
        row.uptime = self.timestamp.map(|seconds| seconds * SECOND).into();
        row.young_collections = (self.young.0 as u64).into();
        row.young_time = nanoseconds(self.young.1).into();
        row.full_collections = (self.full.0 as u64).into();
        row.full_time = nanoseconds(self.full.1).into();
        row.old_used = self.old_used.into();
        row.old_fill = self.old_fill.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window_of;

    #[test]
    fn the_time_in_full_collections_is_that_between_the_rows() {
        let text = "$ jstat -gcutil 812 2s\n\
            \x20 S0     S1     E      O      M     CCS    YGC     YGCT    FGC    FGCT     GCT\n\
            \x20 0.00   0.00  11.20  96.10  95.10  91.00    310    4.100    40   60.000   64.100\n\
            \x20 0.00   0.00  40.00  95.00  95.10  91.00    310    4.100    42   61.500   65.600\n";
        let window = window_of(text);
        let change = window.change::<Heap>().unwrap();
        assert_eq!((window.seconds(), change.grown(|h| h.full_collections)), (2.0, Some(2.0)));
        assert_eq!(change.grown(|h| h.full_time), Some(1.5e9));
        assert_eq!((change.last().old_fill.get(), &*change.last().program), (Some(0.95), "java (812)"));
    }

    #[test]
    fn intervals_have_units() {
        assert_eq!(["1000", "10s", "500ms", "x"].map(interval), [Some(1.0), Some(10.0), Some(0.5), None]);
    }
}
