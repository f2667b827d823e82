//! Where the output of a format starts.

use crate::format::Format;
use crate::formats::{FORMATS, kernel_files, kernel_log, kernel_names};
use crate::lines::Lines;
use crate::margin::Margin;

/// Start of an output at the next line, and what surrounds its lines.
#[derive(Clone, Copy)]
pub struct OutputStart {
    pub format: &'static Format,
    /// Text before each line.
    margin: Margin,
    /// Whether it is a table whose lines a mail program wrapped.
    is_wrapped: bool,
}

impl OutputStart {
    /// Returns the output that starts at the next line.
    pub fn peek(lines: &mut Lines<'_>) -> Option<Self> {
        let text = lines.peek(0)?.to_owned();
        let joined = lines.look_at_joined(|lines| {
            let format = starting(lines)?;
            Some(Self { is_wrapped: true, ..Self::in_margin(&text, lines, Some(format))? })
        });
        joined.or_else(|| {
            let format = starting(lines);
            Self::in_margin(&text, lines, format)
        })
    }

    /// Returns the output that starts a text within a line or file. Names of files, and of the kernel's numbers, make no output
    /// there: what they become is a file again.
    pub fn peek_text(lines: &mut Lines<'_>) -> Option<Self> {
        let of_names = [kernel_files::FORMAT.name, kernel_names::FORMAT.name];
        Self::peek(lines).filter(|start| !of_names.contains(&start.format.name))
    }

    /// Prepares the lines for the format. The caller removes the margin after the output.
    pub fn enter(self, lines: &mut Lines<'_>) {
        if self.is_wrapped {
            lines.join_wrapped_table();
        }
        lines.set_margin(self.margin);
    }

    /// Finds the margin of an output that starts at the next line, as far as the margin's text is not part of it. `found` is
    /// the format that recognizes the line with its margin.
    fn in_margin(text: &str, lines: &mut Lines<'_>, found: Option<&'static Format>) -> Option<Self> {
        let start = found.map(|format| Self { format, margin: indentation_of(format, lines), is_wrapped: false });
        // A log that is not the kernel's may hold the output of other tools.
        let is_other_log = |start: &Self| start.is_log() && !kernel_log::is_from_kernel(text);
        if start.is_some_and(|start| !is_other_log(&start)) {
            return start;
        }
        let behind = |margin| {
            let format = lines.behind(margin, starting)?;
            Some(Self { format, margin, is_wrapped: false }).filter(|start| !start.is_log())
        };
        let log = start.map(|start| Self { margin: Margin::None, ..start });
        Margin::candidates(text).find_map(behind).or(log)
    }

    fn is_log(&self) -> bool {
        self.format.name == kernel_log::FORMAT.name
    }
}

impl PartialEq for OutputStart {
    fn eq(&self, other: &Self) -> bool {
        let parts = |start: &Self| (start.format.name, start.margin, start.is_wrapped);
        parts(self) == parts(other)
    }
}

impl std::fmt::Debug for OutputStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} {}", self.format.name, self.margin, self.is_wrapped)
    }
}

/// Returns the format that recognizes the next line.
fn starting(lines: &mut Lines<'_>) -> Option<&'static Format> {
    FORMATS.iter().find(|format| (format.starts)(lines))
}

/// Returns the common indentation of the next lines if the format recognizes them without it too: a header may be recognized
/// behind an indentation that would shift the rows below it.
fn indentation_of(format: &Format, lines: &mut Lines<'_>) -> Margin {
    let margin = Margin::Indent(lines.common_indentation());
    let is_same = |lines: &mut Lines<'_>| starting(lines).map(|found| found.name) == Some(format.name);
    if margin != Margin::Indent(0) && lines.behind(margin, is_same) { margin } else { Margin::None }
}
