//! What a format can ask about the output that it reads.

use super::ShellSession;
use crate::banner::Banner;
use crate::clock::PrintedTime;
use crate::command::CommandLine;
use crate::printed_files::PrintedFiles;

/// Read-only view of the session at the start of an output: its command line, the printed time, and what was printed before.
#[derive(Clone, Copy)]
pub struct OutputContext<'s>(&'s ShellSession);

impl<'s> OutputContext<'s> {
    pub fn new(session: &'s ShellSession) -> Self {
        Self(session)
    }

    pub fn command(self) -> Option<&'s CommandLine> {
        self.0.last.line()
    }

    /// Returns the command if it runs this program.
    pub fn command_of(self, program: &str) -> Option<&'s CommandLine> {
        self.command().filter(|command| command.program() == program)
    }

    pub fn arguments(self) -> impl Iterator<Item = &'s str> {
        self.command().into_iter().flat_map(CommandLine::arguments)
    }

    /// Returns the interval on the command line.
    pub fn interval(self) -> Option<f64> {
        self.command()?.interval()
    }

    /// Returns the seconds that the command line waits between its outputs.
    pub fn pause(self) -> Option<f64> {
        self.0.last.pause
    }

    /// Returns the files whose contents come next, if the command line names them.
    pub fn files(self) -> Option<&'s PrintedFiles> {
        self.0.last.files()
    }

    /// Returns true if the command line prints files in several steps, with other output between them.
    pub fn prints_in_steps(self) -> bool {
        self.0.last.has_steps()
    }

    /// Returns true if an output of this format was read since the command line began, or since it last printed the time.
    pub fn is_repeated(self, format: &str) -> bool {
        self.0.last.outputs.contains(&format)
    }

    /// Returns true if an output was read since the last command.
    pub fn is_past_command(self) -> bool {
        self.0.last.is_past
    }

    /// Returns true if another output was read since the last command and banner: the next lines may be the rest of it.
    pub fn is_past_output(self) -> bool {
        self.0.is_past_banner && self.is_past_command()
    }

    /// Returns true if the next report is the only one that this tool printed: its command line asks for one, or, without a
    /// command line, the banner at the start of its output is directly above.
    pub fn prints_once(self, tool: &str) -> bool {
        match self.command() {
            Some(command) => command.program() == tool && command.reports() == Some(1),
            None => self.is_below_banner(),
        }
    }

    /// Returns true if the command line cut off the beginning of this tool's output.
    pub fn lacks_beginning(self, tool: &str) -> bool {
        let command = self.command_of(tool).filter(|command| command.reports() != Some(1));
        command.is_some_and(CommandLine::cuts_beginning) && !self.is_below_banner()
    }

    fn is_below_banner(self) -> bool {
        self.0.banner.is_some() && !self.0.is_past_banner
    }

    /// Returns the date in the banner, for tools that print only the time of each row.
    pub fn day(self) -> PrintedTime {
        PrintedTime { date: self.0.banner.as_ref().and_then(Banner::date), ..PrintedTime::default() }
    }

    /// Returns the time printed before the output.
    pub fn at(self) -> PrintedTime {
        self.0.clock.at()
    }

    /// Dates a time of day that follows the time printed before the output.
    pub fn at_time_of_day(self, time: f64) -> PrintedTime {
        self.0.clock.at_time_of_day(time)
    }
}
