//! What a format declares. Everything else that depends on a format (which command lines and file names are recognized,
//! `whyslow formats`, completion, the table in docs/import.md) is derived from this declaration.

use crate::context::CaptureContext;
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::table::AnyColumns;
use crate::tool_run::ToolRun;
use whyslow_model::listing::FormatInfo;

/// The result of reading one output; the values themselves go into the [`ToolRun`].
pub type ReadResult = Result<(), Refusal>;

/// The output of a tool, or a file under /proc.
pub struct Format {
    /// The tool, or the path of the file.
    pub name: &'static str,
    /// The supported versions and variants.
    pub versions: &'static str,
    /// What it shows by itself.
    pub shows: &'static str,
    /// What it does not show.
    pub lacks: &'static str,
    /// The programs that print it, as they stand on a command line.
    pub programs: &'static [Program],
    /// File names it has in sosreports and folders: a name that may be followed by options or an extension, or, with a
    /// trailing `*`, by anything.
    pub files: &'static [&'static str],
    /// The columns whose numbers become metrics.
    pub columns: &'static [&'static dyn AnyColumns],
    /// Whether it is read report by report. Other formats are held in memory until they end, and bounded in length.
    pub streamed: bool,
    /// Whether its output starts at the next line. Only peeks.
    pub starts: fn(&mut Lines<'_>) -> bool,
    /// Takes its output, at least one line, up to the first line that belongs to something else.
    pub read: fn(&mut Lines<'_>, &CaptureContext, &mut ToolRun) -> ReadResult,
}

impl Format {
    /// The defaults of a declaration.
    pub(crate) const NEW: Self = Self {
        name: "",
        versions: "all",
        shows: "",
        lacks: "",
        programs: &[],
        files: &[],
        columns: &[],
        streamed: false,
        starts: |_| false,
        read: |_, _, _| Ok(()),
    };

    /// The description that `whyslow formats` prints.
    pub fn info(&self) -> FormatInfo {
        let metrics = self.columns.iter().flat_map(|columns| columns.metrics()).collect();
        FormatInfo { name: self.name, versions: self.versions, shows: self.shows, lacks: self.lacks, metrics }
    }

    /// Whether a file of this name holds its output.
    pub(crate) fn is_named(&self, file_name: &str) -> bool {
        self.files.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => file_name.starts_with(beginning),
            None => file_name
                .strip_prefix(pattern)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '_', '-', ' '])),
        })
    }
}

/// A program whose output a format reads.
#[derive(Clone, Copy)]
pub struct Program {
    pub name: &'static str,
    pub recognized: Recognized,
}

/// Where the name of a program marks a command line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Recognized {
    /// At the start of any line: `iostat -x 1`.
    Anywhere,
    /// Only after a prompt, since it is a word of other text too: `$ ip -s link`.
    AtPrompt,
    /// Only after a prompt; it also prints things that no format reads.
    Partly,
}

/// A program that is recognized at the start of any line.
pub const fn program(name: &'static str) -> Program {
    Program { name, recognized: Recognized::Anywhere }
}

/// A program whose name is a word of other text too.
pub const fn word(name: &'static str) -> Program {
    Program { name, recognized: Recognized::AtPrompt }
}

/// A program that also prints things that no format reads.
pub const fn partly_read(name: &'static str) -> Program {
    Program { name, recognized: Recognized::Partly }
}
