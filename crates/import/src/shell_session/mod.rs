//! The shell session in which the text of a capture was printed.

mod clock;
mod last_command;
mod output_context;
mod prompt_hosts;
mod scheduler;
mod shell_variables;
mod stated;

pub use output_context::OutputContext;
pub use shell_variables::ShellVariables;
pub use stated::is_change;

use crate::banner::Banner;
use crate::clock::PrintedTime;
use crate::command::CommandLine;
use crate::formats::command_in_file_name;
use crate::kernel_file::KernelFile;
use crate::print_steps::PrintSteps;
use crate::printed_files::{PrintedFiles, folder_after};
use crate::prompt::host_at_prompt;
use crate::tool_run::ToolRun;
use crate::typed_command::TypedCommand;
use clock::SessionClock;
use last_command::LastCommand;
use prompt_hosts::PromptHosts;
use stated::StatedSettings;
use whyslow_model::settings::Settings;
use whyslow_model::value::Name;

/// Follows the prompts, printed times, banners and sentences of a capture, so that an output is read with what precedes it.
#[derive(Clone, Debug, Default)]
pub struct ShellSession {
    last: LastCommand,
    variables: ShellVariables,
    /// Current folder of the shell, if it is below /proc or /sys.
    folder: Option<String>,
    container: Option<EnteredContainer>,
    hosts: PromptHosts,
    stated: StatedSettings,
    banner: Option<Banner>,
    /// Whether an output was read since the last banner.
    is_past_banner: bool,
    clock: SessionClock,
    is_console: bool,
}

/// A container in which commands run.
#[derive(Clone, Debug)]
struct EnteredContainer {
    name: String,
    /// Whether it stays current until its shell exits.
    has_shell: bool,
}

/// What happens in the session.
impl ShellSession {
    /// Begins with the command that the name of a file in a sosreport holds.
    pub fn in_file(name: &str) -> Self {
        Self { last: LastCommand::alone(command_in_file_name(name)), ..Self::default() }
    }

    /// Runs the command whose line ends on line `number`.
    pub fn command(&mut self, typed: TypedCommand, number: u32) {
        let TypedCommand { command, text, variables, .. } = typed;
        self.variables = variables;
        self.enter_container(&command);
        self.stated.command(&text, number);
        self.folder = folder_after(&text, self.folder.as_deref());
        self.hosts.enter(command.remote_host(), host_at_prompt(&text));
        self.banner = None;
        self.last = LastCommand::new(command, &text, self.folder.as_deref());
        if self.last.steps.is_some() {
            self.files_printed();
        }
    }

    /// Begins a section of supportconfig: a command that follows, or a file.
    pub fn section(&mut self, file: Option<CommandLine>) {
        self.last = LastCommand::printing(file);
        self.banner = None;
    }

    fn enter_container(&mut self, command: &CommandLine) {
        const LEAVE: [&str; 2] = ["exit", "logout"];
        self.container = match (command.container(), self.container.take()) {
            (Some(name), _) => Some(EnteredContainer { name: name.to_owned(), has_shell: command.is_shell() }),
            (None, before) => before.filter(|container| container.has_shell && !LEAVE.contains(&command.program())),
        };
    }

    /// Reads a line that is neither a command nor output: it may state a setting.
    pub fn sentence(&mut self, text: &str, number: u32, is_below_output: bool) {
        self.stated.sentence(text, number, is_below_output);
        if let Some(last) = LastCommand::in_title(text) {
            self.last = last;
        }
    }

    /// Takes the machine from a banner. Returns its name at the last prompt if that differs and was used until now.
    pub fn banner(&mut self, banner: Banner) -> Option<Name> {
        let host = Name::from(banner.host());
        let renamed = if self.last.is_past { None } else { self.hosts.rename(&host) };
        self.hosts.set_current(Some(host));
        self.banner = Some(banner);
        self.is_past_banner = false;
        renamed
    }

    /// Sets the time printed before the next output, unless only pauses show when the command line printed its outputs: a date
    /// among them must not set the clock. Returns the seconds by which the clock was set at an unexpected time.
    pub fn printed_time(&mut self, at: PrintedTime) -> Option<f64> {
        let is_begun = !self.last.outputs.is_empty() || self.last.times_files_by_pauses();
        if self.clock.at().time.is_none() && self.last.pause.is_some() && is_begun {
            return None;
        }
        self.last.outputs.clear();
        self.clock.read(at)
    }

    /// Notes that the files that were expected next were printed, and continues with the files after them.
    pub fn files_printed(&mut self) {
        let next = self.last.steps.as_mut().and_then(PrintSteps::advance);
        self.clock.wait(next.as_ref().map_or(0.0, |(_, waited)| *waited));
        self.last.files = next.map(|(files, _)| files);
    }

    /// Notes that a message was printed instead of a file: what comes next is no longer certain.
    pub fn files_failed(&mut self) {
        (self.last.files, self.last.steps) = (None, None);
    }

    /// Expects files that are named by their paths below the current folder.
    pub fn expect_files_below_folder(&mut self) {
        self.last.files = self.folder.clone().map(PrintedFiles::Below);
    }

    pub fn expect_no_files(&mut self) {
        self.last.files = None;
    }

    /// Notes that an output of a format was read, from the machine that it names or that was current before.
    pub fn output(&mut self, format: &'static str, host: Option<Name>) {
        self.hosts.set_current(host);
        if self.last.pause.is_some() {
            self.last.outputs.push(format);
        }
        self.unknown_output();
    }

    /// Notes that an output in no known format was printed.
    pub fn unknown_output(&mut self) {
        (self.is_past_banner, self.last.is_past) = (true, true);
    }

    /// Notes that the number of CPUs was read.
    pub fn cpu_count(&mut self) {
        (self.last.counts_cpus, self.last.is_past) = (false, true);
    }

    /// Notes that kernel messages were printed: from here on, they may stand between all other lines.
    pub fn kernel_messages(&mut self) {
        self.is_console = true;
    }
}

/// Questions of those who read the capture; formats ask an [`OutputContext`].
impl ShellSession {
    pub fn context(&self) -> OutputContext<'_> {
        OutputContext::new(self)
    }

    /// Returns the session for text within a line or file of this one.
    pub fn within(&self) -> Self {
        Self { last: self.last.within(), ..self.clone() }
    }

    pub fn last_command(&self) -> &LastCommand {
        &self.last
    }

    pub fn variables(&self) -> &ShellVariables {
        &self.variables
    }

    /// Returns true if the shell's current folder is below /proc or /sys.
    pub fn is_below_proc(&self) -> bool {
        self.folder.is_some()
    }

    /// Returns true if kernel messages stand among other lines.
    pub fn is_console(&self) -> bool {
        self.is_console
    }

    /// Returns the settings in effect for the output on a line, as far as the text states them.
    pub fn settings_at(&self, line: u32) -> Settings {
        self.stated.at(line)
    }

    pub fn host(&self) -> Option<Name> {
        self.hosts.current().cloned()
    }

    /// Sets the machine, container and time of an output. If the same format was already printed, adds the pauses since its
    /// first output.
    pub fn set_origin(&self, run: &mut ToolRun) {
        run.host = self.host();
        run.container = self.container.as_ref().map(|container| container.name.as_str().into());
        run.start = self.clock.at();
        let Some(pause) = self.last.pause else { return };
        let copies = self.last.outputs.iter().filter(|earlier| **earlier == run.tool).count();
        run.is_relative = run.start.time.is_none();
        run.start.time = Some(run.start.time.unwrap_or(0.0) + pause * copies as f64);
    }

    /// Sets the machine, container and time of a file of /proc or /sys. If no time is printed, the first step of a command line
    /// is at zero.
    pub fn set_origin_of_file(&self, file: &mut KernelFile) {
        file.at = self.clock.now(self.last.times_files_by_pauses());
        file.host = self.host();
        if let Some(container) = &self.container {
            file.set_container(&container.name);
        }
    }
}

#[cfg(test)]
impl ShellSession {
    /// Begins with a command, without what else its line sets.
    pub fn of_command(line: &str) -> Self {
        Self { last: LastCommand::alone(CommandLine::at_prompt(line)), ..Self::default() }
    }
}
