//! Places of a file that were skipped, with the reasons.

use crate::captures::Captures;
use crate::refusal::Refusal;
use whyslow_model::value::Name;

/// Expected input in errors about lines that no format recognizes.
pub const KNOWN_OUTPUT: &str = "output of a tool that 'whyslow formats' lists";
/// Descriptions of unrecognized input, which is not quoted.
pub const UNKNOWN_ROW: &str = "a row of numbers under no known header";
pub const UNKNOWN_TEXT: &str = "text in no known format";
pub const NOTHING: &str = "nothing of the kind in the whole file";
/// Maximum number of skipped places reported for one file.
const MOST_SKIPPED: usize = 100;
/// Remedy for skipped places.
const SAVE_AGAIN: &str = "save the command's whole output again, unchanged";

/// Skipped places of one file.
#[derive(Default)]
pub struct SkippedPlaces {
    count: usize,
    left_out: Vec<LeftOut>,
    first: Option<Refusal>,
}

impl SkippedPlaces {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn into_first(self) -> Option<Refusal> {
        self.first
    }

    pub fn add(&mut self, refusal: Refusal, captures: &mut Captures) {
        captures.not_recognized(&refusal);
        self.count += 1;
        if self.count <= MOST_SKIPPED {
            match self.left_out.iter_mut().find(|same| same.is_for(&refusal)) {
                Some(same) => same.lines.push(refusal.line),
                None => self.left_out.push(LeftOut { lines: vec![refusal.line], first: refusal.clone() }),
            }
            self.first.get_or_insert(refusal);
        }
    }

    /// Notes all places in the capture.
    pub fn note(&mut self, file: &Name, captures: &mut Captures) {
        for left_out in std::mem::take(&mut self.left_out) {
            match left_out.first.found == UNKNOWN_TEXT {
                true => {
                    let why = format!("skipped, the first of it on line {}", left_out.first.line);
                    captures.note(file, UNKNOWN_TEXT, why, "'whyslow formats' lists what is read");
                }
                false => captures.note(file, &left_out.place(), left_out.why(), SAVE_AGAIN),
            }
        }
    }
}

/// Places of a file that were left out for the same reason.
struct LeftOut {
    first: Refusal,
    lines: Vec<u32>,
}

impl LeftOut {
    /// Formats the line numbers: `line 14`, `lines 14, 20 to 25, 33`.
    fn place(&self) -> String {
        let mut lines = self.lines.clone();
        lines.sort_unstable();
        lines.dedup();
        let runs = lines.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
            [line] => line.to_string(),
            [first, second] => format!("{first}, {second}"),
            [first, .., last] => format!("{first} to {last}"),
            [] => String::new(),
        });
        let all = runs.collect::<Vec<_>>().join(", ");
        format!("{} {all}", if lines.len() > 1 { "lines" } else { "line" })
    }

    fn why(&self) -> String {
        let Refusal { expected, found, described, .. } = &self.first;
        match (*described, self.lines.len()) {
            (true, _) if expected == KNOWN_OUTPUT => format!("left out: {found}"),
            (true, _) => format!("left out: {found}, where {expected} was expected"),
            (false, 1) => format!("left out: {found:?} is not {expected}"),
            (false, _) => format!("left out: they are not {expected}; the first is {found:?}"),
        }
    }

    fn is_for(&self, refusal: &Refusal) -> bool {
        let Refusal { expected, found, described, .. } = &self.first;
        *expected == refusal.expected && *described == refusal.described && (!described || *found == refusal.found)
    }
}

/// Returns true if a place was skipped because no format recognizes it, rather than because it is empty, binary or damaged.
pub(crate) fn is_unknown_text(refusal: &Refusal) -> bool {
    refusal.expected == KNOWN_OUTPUT && [UNKNOWN_ROW, UNKNOWN_TEXT, NOTHING].contains(&refusal.found.as_str())
}
