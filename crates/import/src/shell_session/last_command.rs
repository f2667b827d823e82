//! Last command of a session, and what it prints.

use crate::clock::{self, PrintedTime};
use crate::command::CommandLine;
use crate::formats::is_fully_read;
use crate::kernel_file::file_path;
use crate::print_steps::PrintSteps;
use crate::printed_files::PrintedFiles;

/// The command at the last prompt. Without a prompt, the line is unknown.
#[derive(Clone, Debug, Default)]
pub struct LastCommand {
    pub(super) line: Option<CommandLine>,
    /// Files of /proc and /sys whose contents come next without their names.
    pub(super) files: Option<PrintedFiles>,
    /// Files that the same command line prints after that.
    pub(super) steps: Option<PrintSteps>,
    /// Whether no command printed these, but a title of the text names them.
    is_named_by_text: bool,
    prints_epoch: bool,
    /// Whether a number alone on a line can only come from `nproc`.
    pub(super) counts_cpus: bool,
    /// Seconds that the command line waits between its outputs.
    pub(super) pause: Option<f64>,
    /// Formats of the outputs since the command line began, or since it last printed the time.
    pub(super) outputs: Vec<&'static str>,
    /// Whether an output was read since.
    pub(super) is_past: bool,
}

impl LastCommand {
    /// Creates the command from its line, in which variables were expanded. `folder` is the shell's current folder.
    pub fn new(line: CommandLine, text: &str, folder: Option<&str>) -> Self {
        Self {
            files: PrintedFiles::from_command(&line, folder),
            steps: PrintSteps::parse(text, folder),
            prints_epoch: text.contains("date") && text.contains("+%s"),
            counts_cpus: CommandLine::counts_cpus(text),
            pause: CommandLine::pause(text),
            line: Some(line),
            ..Self::default()
        }
    }

    /// Creates a command that is known without what surrounded it at a prompt.
    pub fn alone(line: Option<CommandLine>) -> Self {
        Self { line, ..Self::default() }
    }

    /// Creates the command that would print a file whose name stands above its contents.
    pub fn printing(line: Option<CommandLine>) -> Self {
        Self { files: line.as_ref().and_then(|line| PrintedFiles::from_command(line, None)), line, ..Self::default() }
    }

    /// Creates the command that would print the only file of /proc or /sys that a title names: `memory (/proc/pressure/memory):`.
    pub fn in_title(text: &str) -> Option<Self> {
        let title =
            text.trim_end().strip_suffix(':').filter(|text| text.contains("/proc/") || text.contains("/sys/"))?;
        let words = title.split(|c: char| c.is_whitespace() || "()[]`'\",".contains(c));
        let mut paths = words.filter_map(file_path);
        let path = paths.next().filter(|_| paths.next().is_none())?;
        let files = Some(PrintedFiles::Of(vec![path.to_owned()]));
        Some(Self { files, is_named_by_text: true, ..Self::default() })
    }

    /// Returns the same command for text within its output, which is not the command's own.
    pub fn within(&self) -> Self {
        Self { line: None, files: None, steps: None, ..self.clone() }
    }

    pub fn is_named_by_text(&self) -> bool {
        self.is_named_by_text
    }

    pub fn line(&self) -> Option<&CommandLine> {
        self.line.as_ref()
    }

    pub fn files(&self) -> Option<&PrintedFiles> {
        self.files.as_ref()
    }

    /// Returns true if the command line prints files in several steps, with other output between them.
    pub fn has_steps(&self) -> bool {
        self.steps.is_some()
    }

    /// Returns true if contents of files may come next.
    pub fn expects_files(&self) -> bool {
        self.files.is_some() || self.has_steps()
    }

    /// Returns true if no printed time shows when the files come, but pauses do.
    pub fn times_files_by_pauses(&self) -> bool {
        self.steps.as_ref().is_some_and(PrintSteps::is_timed_by_pauses)
    }

    /// Parses seconds since 1970 as `date +%s` prints them. Below any other command, a number that stands alone in a line is
    /// ignored.
    pub fn epoch_line(&self, text: &str) -> Option<PrintedTime> {
        clock::epoch_time(text.trim()).filter(|_| self.prints_epoch || self.line.is_none())
    }

    /// Returns the number printed by `nproc`.
    pub fn counted_cpus(&self, text: &str) -> Option<f64> {
        text.trim().parse::<u16>().ok().filter(|count| self.counts_cpus && *count > 0).map(f64::from)
    }

    /// Returns true if the command prints things that no format reads.
    pub fn is_of_unknown_program(&self) -> bool {
        self.line.as_ref().is_some_and(|line| !is_fully_read(line.program()))
    }
}
