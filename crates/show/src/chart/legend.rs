//! The legend below a chart.

use super::svg::{SMALL, Svg};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The height of a line.
pub(super) const LINE: f64 = 17.0;
/// The width of a character of the 11 px font, with a margin, as fonts differ.
const LETTER: f64 = 6.6;
/// The width of a line sample, and the distance between entries.
const SAMPLE: f64 = 24.0;
const GAP: f64 = 22.0;
/// Maximum number of columns of a name.
const WIDEST: usize = 48;

/// A series with its colour.
pub(super) struct LegendEntry {
    pub(super) name: String,
    /// Its mean and maximum.
    pub(super) figures: String,
    pub(super) colour: &'static str,
    pub(super) dash: &'static str,
}

impl LegendEntry {
    fn text(&self) -> String {
        format!("{}: {}", shortened(&self.name), self.figures)
    }

    fn width(&self) -> f64 {
        SAMPLE + 6.0 + self.text().width() as f64 * LETTER + GAP
    }
}

/// Arranges the entries in lines of at most this width.
pub(super) fn lines(entries: &[LegendEntry], width: f64) -> Vec<Vec<&LegendEntry>> {
    let mut lines: Vec<Vec<&LegendEntry>> = Vec::new();
    let mut used = f64::INFINITY;
    for entry in entries {
        match lines.last_mut() {
            Some(line) if used + entry.width() <= width => line.push(entry),
            _ => {
                used = 0.0;
                lines.push(vec![entry]);
            }
        }
        used += entry.width();
    }
    lines
}

pub(super) fn draw(out: &mut Svg, lines: &[Vec<&LegendEntry>], (left, top): (f64, f64)) {
    for (number, line) in lines.iter().enumerate() {
        let y = top + number as f64 * LINE;
        let mut x = left;
        for entry in line {
            let (colour, middle) = (entry.colour, y - 4.0);
            let dash =
                if entry.dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{}\"", entry.dash) };
            out.add(format_args!(
                "<path d=\"M{x:.1} {middle:.1}h{SAMPLE}\" stroke=\"{colour}\" stroke-width=\"3\"{dash}/>\n"
            ));
            out.text((x + SAMPLE + 6.0, y), "start", SMALL, &entry.text());
            x += entry.width();
        }
    }
}

/// Shortens a long name in the middle, because paths of control groups differ at the end.
fn shortened(name: &str) -> String {
    if name.width() <= WIDEST {
        return name.to_owned();
    }
    let half = WIDEST / 2 - 1;
    let start = fitting(name.chars(), half);
    let end = fitting(name.chars().rev(), half);
    format!("{start}…{}", end.chars().rev().collect::<String>())
}

/// Returns the first characters that fit into this many columns.
fn fitting(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= columns
    };
    chars.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shortened("sda reads"), "sda reads");
        let long = format!("/kubepods/{}/web", "x".repeat(60));
        let short = shortened(&long);
        assert_eq!(short.width(), 47);
        assert!(short.starts_with("/kubepods/") && short.ends_with("/web"), "{short}");
        assert!(shortened(&"日本語".repeat(20)).width() <= WIDEST);
    }

    #[test]
    fn entries_go_into_as_many_lines_as_they_need() {
        let entry = || LegendEntry { name: "x".repeat(10), figures: "1 ms".into(), colour: "#000000", dash: "" };
        let entries: Vec<LegendEntry> = (0..5).map(|_| entry()).collect();
        // 24 + 6 + 16 characters of 6.6 + 22 = 157.6 each.
        let counts = |width| lines(&entries, width).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(counts(320.0), [2, 2, 1]);
        assert_eq!(counts(10.0), [1; 5]);
        assert!(lines(&[], 100.0).is_empty());
    }
}
