//! Declaration of a format. Everything else that depends on a format (recognized command lines and file names, `whyslow
//! formats`, completion, the table in docs/import.md) is derived from it.

use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::shell_session::OutputContext;
use crate::table::AnyColumns;
use crate::tool_run::ToolRun;
use whyslow_documents::listing::FormatInfo;

/// Result of reading one output; the values themselves go into the [`ToolRun`].
pub type ReadResult = Result<(), Refusal>;

/// Output of a tool, or a file under /proc.
pub struct Format {
    /// Name of the tool, or path of the file.
    pub name: &'static str,
    /// Supported versions and variants.
    pub versions: &'static str,
    /// Information that the output provides by itself.
    pub shows: &'static str,
    /// Information that the output lacks.
    pub lacks: &'static str,
    /// Programs that print it, as named on a command line.
    pub programs: &'static [Program],
    /// File names in sosreports and folders: a name that may be followed by options or an extension, or, with a trailing `*`,
    /// by anything.
    pub files: &'static [&'static str],
    /// Columns whose numbers become metrics.
    pub columns: &'static [&'static dyn AnyColumns],
    /// Whether the output is read report by report. Other outputs are held in memory until they end, and are limited in length.
    pub streamed: bool,
    /// Returns true if the output starts at the next line. Only peeks.
    pub starts: fn(&mut Lines<'_>) -> bool,
    /// Takes the output, at least one line, up to the first line that belongs to something else.
    pub read: fn(&mut Lines<'_>, OutputContext<'_>, &mut ToolRun) -> ReadResult,
}

impl Format {
    /// Defaults of a declaration.
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

    /// Returns the description that `whyslow formats` prints.
    pub fn info(&self) -> FormatInfo {
        let metrics = self.columns.iter().flat_map(|columns| columns.metrics()).collect();
        FormatInfo { name: self.name, versions: self.versions, shows: self.shows, lacks: self.lacks, metrics }
    }

    /// Returns true if a file of this name holds its output.
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

/// Position at which the name of a program marks a command line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Recognized {
    /// At the start of any line: `iostat -x 1`.
    Anywhere,
    /// Only after a prompt, since other text contains the word too: `$ ip -s link`.
    AtPrompt,
    /// Only after a prompt; it also prints things that no format reads.
    Partly,
}

/// Declares a program that is recognized at the start of any line.
pub const fn program(name: &'static str) -> Program {
    Program { name, recognized: Recognized::Anywhere }
}

/// Declares a program whose name also occurs as a word in other text.
pub const fn word(name: &'static str) -> Program {
    Program { name, recognized: Recognized::AtPrompt }
}

/// Declares a program that also prints things that no format reads.
pub const fn partly_read(name: &'static str) -> Program {
    Program { name, recognized: Recognized::Partly }
}
