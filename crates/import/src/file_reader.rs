//! Reads one file: finds where each command's output starts, and passes it to its format.

use crate::banner::Banner;
use crate::captures::Captures;
use crate::clock;
use crate::command::{CommandLine, is_prompt_line};
use crate::format::Format;
use crate::formats::kernel_files;
use crate::formats::{FORMATS, is_for_people, is_read, kernel_log};
use crate::kernel_file::KernelFile;
use crate::lines::Lines;
use crate::margin::Margin;
use crate::merge::MACHINE;
use crate::quotations::{is_doubted, quotations};
use crate::refusal::Refusal;
use crate::shell_session::ShellSession;
use crate::skipped::{KNOWN_OUTPUT, NOTHING, SkippedPlaces, UNKNOWN_ROW, UNKNOWN_TEXT};
use crate::supportconfig;
use crate::table::{is_remark, is_table_row};
use crate::tool_run::{ToolRun, clock_remedy, clock_was_set};
use crate::typed_command::TypedCommand;
use std::io::BufRead;
use whyslow_model::catalogue::MachineInfo;
use whyslow_model::key::MachineKey;
use whyslow_model::value::Name;

/// Start of a script, which only mentions tool output.
const SCRIPT: &str = "#!";
/// Maximum number of lines of a report that is not read as a stream.
const MOST_LINES: u32 = 200_000;
/// Maximum number of lines of an output that is printed repeatedly.
const MOST_LINES_OF_COPY: usize = 2000;
/// Maximum length of a line that begins a report, and the exceptions: JSON, and what mysql prints on one line.
const LONGEST_LINE: usize = 8192;
const LONG_LINES: [&str; 3] = ["{", "[", "InnoDB"];

/// One file to read.
pub struct Input<'r> {
    /// Name of the file in errors and evidence.
    pub name: String,
    /// Contents of the file.
    pub reader: Box<dyn BufRead + 'r>,
}

/// Reads a file into `captures`. Returns the reason if nothing in it could be read.
///
/// # Errors
/// Fails at the first place whose meaning is uncertain, if `strict`.
pub(crate) fn read_file(input: Input<'_>, strict: bool, captures: &mut Captures) -> Result<Option<Refusal>, Refusal> {
    let lines = Lines::new(input.name, input.reader).at(captures.next_file()).strictly(strict);
    let file = lines.file().clone();
    let reader = FileReader {
        lines,
        file,
        strict,
        captures,
        any: false,
        recognized: false,
        empty_output: None,
        skipped: SkippedPlaces::default(),
    };
    reader.read()
}

struct FileReader<'r, 'a> {
    lines: Lines<'r>,
    file: Name,
    strict: bool,
    captures: &'a mut Captures,
    /// Whether anything was read, if only the name of the machine.
    any: bool,
    /// Whether any output was read.
    recognized: bool,
    /// Format of an output that was empty.
    empty_output: Option<&'static str>,
    skipped: SkippedPlaces,
}

impl FileReader<'_, '_> {
    fn read(mut self) -> Result<Option<Refusal>, Refusal> {
        if self.lines.next_is(|text| text.starts_with(SCRIPT)) {
            self.skip_unrecognized("a script; give what it prints");
            self.skipped.note(&self.file, self.captures);
            return Ok(self.skipped.into_first());
        }
        if let Some(line) = without_spaces(&mut self.lines) {
            self.lines.skip(line);
            let expected = "separate columns: the spaces were lost, and the columns ran together";
            let found = "lines without a space in them; save the command's output again, unchanged";
            self.skip(Refusal::described(&self.file, self.lines.number(), expected, found))?;
            while self.lines.take().is_some() {}
        }
        let mut session = ShellSession::in_file(&self.file);
        while let Some(text) = self.lines.peek(0).map(str::to_owned) {
            self.next(&text, &mut session)?;
        }
        if let Some(failure) = self.lines.failure() {
            let (line, found) = (self.lines.number(), failure.to_string());
            self.skip(Refusal::described(&self.file, line, "a file that can be read to its end", found))?;
        }
        self.note_unread(&session);
        if !self.any && self.skipped.is_empty() {
            let found = match (self.lines.number(), self.lines.is_binary()) {
                (1, _) => "nothing: it is empty",
                (_, true) => "binary data",
                _ => NOTHING,
            };
            self.skipped.add(Refusal::described(&self.file, 1, KNOWN_OUTPUT, found), self.captures);
        }
        // Gaps in a readable file are noted in its capture.
        self.skipped.note(&self.file, self.captures);
        Ok(self.skipped.into_first().filter(|_| !self.recognized))
    }

    /// Reads the output that begins at the next line, or takes that line.
    fn next(&mut self, text: &str, session: &mut ShellSession) -> Result<(), Refusal> {
        if text.len() > LONGEST_LINE && !LONG_LINES.iter().any(|begin| text.starts_with(begin)) {
            self.skip_unrecognized(UNKNOWN_TEXT);
        } else if text.trim().is_empty() {
        } else if let Some(kind) = supportconfig::section(text) {
            let named = self.lines.peek(1).and_then(|line| supportconfig::printed_file(kind, line));
            self.lines.skip(usize::from(named.is_some()));
            session.section(named);
        } else if let Some(title) = supportconfig::title(&mut self.lines) {
            self.lines.skip(title - 1);
        } else if let Some(typed) = TypedCommand::peek(&mut self.lines, session.variables()) {
            self.lines.skip(typed.lines - 1);
            self.note_silence(&typed);
            session.command(typed, self.lines.number());
        } else if session.last_command().expects_files() && kernel_files::is_message(text) {
            // What is printed next is no longer certain.
            session.files_failed();
            self.note_message(text, session);
        } else if let Some(printed) = session.last_command().files()
            && (!session.last_command().has_steps() || kernel_files::begins_next(&mut self.lines, printed))
        {
            // Files that a format reads as text are left to that format.
            let is_read = printed.is_of_proc() && self.format(text).is_some();
            let read = if is_read { Ok(()) } else { self.output(&kernel_files::FORMAT, session) };
            session.files_printed();
            self.lines.set_margin(Margin::None);
            return read;
        } else if session.is_below_proc() && kernel_files::is_relative(text, session.context()) {
            session.expect_files_below_folder();
            let read = self.output(&kernel_files::FORMAT, session);
            session.expect_no_files();
            return read;
        } else if let Some(banner) = Banner::read(text) {
            let mut run = ToolRun::new(MACHINE, &self.file);
            let line = self.lines.number();
            banner.record(&mut run, line);
            let host = Name::from(banner.host());
            if let Some(prompt) = session.banner(banner) {
                self.captures.rename_host(&self.file, &prompt, &host);
            }
            run.host = Some(host);
            self.any = true;
            self.captures.add(run, &self.file, line)?;
        } else if let Some(count) = session.last_command().counted_cpus(text) {
            let mut run = ToolRun::new("nproc", &self.file);
            let line = self.lines.number();
            run.line = line;
            run.host = session.host();
            run.row::<MachineInfo>(0.0, line, MachineKey).processors = count.into();
            self.any = true;
            session.cpu_count();
            self.captures.add(run, &self.file, line)?;
        } else if !quotations(text).is_empty() && is_doubted(text) {
            self.captures.complaint.add(text);
        } else if let Some(format) = self.format(text) {
            let read = self.output(format, session);
            self.lines.set_margin(Margin::None);
            return read;
        } else if let Some(at) = clock::date_line(text).or_else(|| session.last_command().epoch_line(text)) {
            if let Some(by) = session.printed_time(at) {
                let line = self.lines.number();
                let what = format!("the printed times from line {line} on");
                self.captures.note(&self.file, &what, clock_was_set(by, line), clock_remedy(by));
            }
        } else if self.quotations(text, session)? {
        } else if is_error(text) && session.last_command().line().is_some() {
            self.note_message(text, session);
        } else if is_remark(text) || session.last_command().is_of_unknown_program() || session.is_console() {
            session.sentence(text, self.lines.number());
            self.captures.complaint.add(text);
        } else if is_table_row(text) {
            // Numbers in columns could be misread or missed; other text is merely unknown here.
            session.unknown_output();
            self.skip(Refusal::described(&self.file, self.lines.number(), KNOWN_OUTPUT, UNKNOWN_ROW))?;
        } else {
            session.sentence(text, self.lines.number());
            self.captures.complaint.add(text);
            self.skip_unrecognized(UNKNOWN_TEXT);
        }
        self.lines.skip(1);
        Ok(())
    }

    /// Notes why a file yields no figures, if that is not a mistake.
    fn note_unread(&mut self, session: &ShellSession) {
        let command = session.last_command().line().filter(|command| is_for_people(command));
        let (what, why) = match (self.empty_output, command) {
            _ if self.recognized => return,
            (Some(format), _) => (format!("the output of {format}"), "it lists nothing, or nothing that can be slow"),
            (None, Some(command)) => (
                format!("the output of '{}'", command.shown()),
                "no figures are taken from it: it is for people to read",
            ),
            (None, None) => return,
        };
        self.captures.answer(&self.file, &what, why);
        (self.any, self.recognized) = (true, true);
    }

    /// Notes that a command printed an error instead of its output.
    fn note_message(&mut self, text: &str, session: &ShellSession) {
        const LONGEST: usize = 160;
        let Some(command) = session.last_command().line().filter(|command| is_read(command) || is_for_people(command))
        else {
            return;
        };
        let what = format!("the output of '{}'", command.shown());
        let message: String = text.trim().chars().take(LONGEST).collect();
        self.captures.answer(&self.file, &what, &format!("it printed an error: {message}"));
        (self.any, self.recognized) = (true, true);
    }

    /// Notes that a command whose output is read printed nothing: that is an answer too.
    fn note_silence(&mut self, typed: &TypedCommand) {
        let TypedCommand { command, text, .. } = typed;
        let next = self.lines.peek_past_blanks(1).map(|(_, next)| next.to_owned());
        // A comment that begins an output looks like a prompt of root.
        let is_at_end = next.is_none_or(|next| is_prompt_line(&next) && !next.starts_with("# "));
        if is_at_end && is_read(command) && CommandLine::at_prompt(text).is_some() && !command.is_silent() {
            let what = format!("the output of '{}'", command.shown());
            self.captures.answer(
                &self.file,
                &what,
                "it printed nothing: there was nothing to find, or it was not copied",
            );
            (self.any, self.recognized) = (true, true);
        }
    }

    /// Reads output quoted between backquotes in a sentence. Returns true if there was any.
    fn quotations(&mut self, text: &str, session: &ShellSession) -> Result<bool, Refusal> {
        let mut any = false;
        for quotation in quotations(text) {
            if let Some(read) = self.inner(quotation.to_owned(), self.lines.number(), session) {
                read?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Reads the output at the start of a text within a line or file. Returns `None` if the text does not start with output.
    fn inner(&mut self, content: String, line: u32, session: &ShellSession) -> Option<Result<(), Refusal>> {
        let content = std::io::Cursor::new(content);
        let lines = Lines::new(self.file.clone(), content).numbered_from(line).strictly(self.strict);
        let outer = std::mem::replace(&mut self.lines, lines);
        let mut own = session.within();
        let first = self.lines.peek(0).unwrap_or_default().to_owned();
        let found = self.format(&first).filter(|format| format.name != kernel_files::FORMAT.name);
        let read = found.map(|format| self.output(format, &mut own));
        self.lines = outer;
        read
    }

    /// Returns the format whose output starts at the next line. If a margin precedes the output, sets that margin.
    fn format(&mut self, text: &str) -> Option<&'static Format> {
        let starting = |lines: &mut Lines<'_>| FORMATS.iter().find(|f| (f.starts)(lines));
        let found = self.lines.join_wrapped_table(starting).or_else(|| starting(&mut self.lines));
        let indentation = if found.is_some() { self.lines.common_indentation() } else { 0 };
        if indentation > 0 {
            // A header may be recognized behind an indentation that would shift the rows below it.
            self.lines.set_margin(Margin::Indent(indentation));
            if starting(&mut self.lines).map(|f| f.name) != found.map(|f| f.name) {
                self.lines.set_margin(Margin::None);
            }
        }
        // A log that is not the kernel's may hold the output of other tools.
        let is_other_log =
            || found.is_some_and(|f| f.name == kernel_log::FORMAT.name) && !kernel_log::is_from_kernel(text);
        if found.is_some() && !is_other_log() {
            return found;
        }
        for margin in Margin::candidates(text) {
            self.lines.set_margin(margin);
            if let Some(format) = starting(&mut self.lines).filter(|f| f.name != kernel_log::FORMAT.name) {
                return Some(format);
            }
        }
        self.lines.set_margin(Margin::None);
        found
    }

    fn output(&mut self, format: &Format, session: &mut ShellSession) -> Result<(), Refusal> {
        let before = self.lines.number();
        let mut run = ToolRun::new(format.name, &self.file);
        run.line = before;
        session.set_origin(&mut run);
        let copy = session.context().pause().and_then(|_| self.lines_of_copy());
        if !format.streamed {
            self.lines.end_after(copy.unwrap_or(MOST_LINES));
        }
        let mut result = (format.read)(&mut self.lines, session.context(), &mut run);
        let is_of_files = format.name == kernel_files::FORMAT.name;
        for file in std::mem::take(&mut run.kernel_files) {
            self.kernel_file(file, session)?;
        }
        if self.lines.lift_limit() && copy.is_none() {
            let expected = format!("at most {MOST_LINES} lines of {}", format.name);
            let found = "more; give fewer reports at once";
            result = result.and(Err(Refusal::described(&self.file, self.lines.number(), expected, found)));
        }
        if self.lines.number() == before {
            self.lines.skip(1);
        }
        session.output(format.name, run.host.clone());
        if run.is_empty() && !is_of_files && result.is_ok() && self.lines.number() > before {
            self.empty_output.get_or_insert(format.name);
        }
        for other in std::mem::take(&mut run.of_others).into_iter().filter(|other| !other.is_empty()) {
            let line = other.line;
            let added = self.captures.add(other, &self.file, line);
            added.or_else(|refusal| self.skip(refusal))?;
        }
        if !run.is_empty() {
            (self.any, self.recognized) = (true, true);
            if format.name == kernel_log::FORMAT.name {
                session.kernel_messages();
            }
            let added = self.captures.add(run, &self.file, before);
            added.or_else(|refusal| self.skip(refusal))?;
        }
        for refusal in self.lines.take_skipped() {
            self.skip(refusal)?;
        }
        result.or_else(|refusal| self.skip(refusal))
    }

    /// Returns the number of lines up to the next repetition of the first line, with other numbers. Returns `None` if there is
    /// none.
    fn lines_of_copy(&mut self) -> Option<u32> {
        fn words(text: &str) -> impl Iterator<Item = &str> {
            text.split_whitespace().filter(|word| word.parse::<f64>().is_err())
        }
        let first = self.lines.peek(0)?.to_owned();
        words(&first).next()?;
        // A match after the end of the output does no harm: the output ends by itself before that.
        let begins_again = |at: &usize| self.lines.peek(*at).is_some_and(|text| words(text).eq(words(&first)));
        let at = (1..MOST_LINES_OF_COPY).find(begins_again)?;
        self.lines.distance(at)
    }

    /// Reads a file of /proc that a format reads as text; collects all other files.
    fn kernel_file(&mut self, mut file: KernelFile, session: &mut ShellSession) -> Result<(), Refusal> {
        session.set_origin_of_file(&mut file);
        if file.is_of_proc()
            && let Some(read) = self.inner(file.content.clone(), file.line, session)
        {
            return read;
        }
        (self.any, self.recognized) = (true, true);
        let added = self.captures.add_kernel_file(&self.file, file);
        added.or_else(|refusal| self.skip(refusal))
    }

    /// Skips a place, or fails if strict.
    fn skip(&mut self, refusal: Refusal) -> Result<(), Refusal> {
        if self.strict {
            return Err(refusal);
        }
        self.skipped.add(refusal, self.captures);
        Ok(())
    }

    /// Skips text in no known format, and reports it once per file. Does not quote it: it may be anything.
    fn skip_unrecognized(&mut self, found: &str) {
        if self.skipped.is_empty() {
            let refusal = Refusal::described(&self.file, self.lines.number(), KNOWN_OUTPUT, found);
            self.skipped.add(refusal, self.captures);
        }
    }
}

/// Returns true if a line is the error message of a program that could not do what was asked.
fn is_error(text: &str) -> bool {
    const LONGEST: usize = 300;
    const ERRORS: [&str; 9] = [
        "No such file or directory",
        "Permission denied",
        "Operation not permitted",
        "No such device",
        "command not found",
        "Operation not supported",
        "Invalid argument",
        "onnection refused",
        "was refused",
    ];
    let is_usage = ["Usage: ", "usage: ", "Error: "].iter().any(|begin| text.trim_start().starts_with(begin));
    is_usage || text.len() <= LONGEST && text.contains(':') && ERRORS.iter().any(|error| text.contains(error))
}

/// Returns the position of the first long line in a file whose lines contain no spaces.
fn without_spaces(lines: &mut Lines<'_>) -> Option<usize> {
    /// Number of lines to look at, minimum number of one-word lines, and minimum length of a word that is not a heading.
    const SAMPLE: usize = 40;
    const LEAST: usize = 5;
    const LONG_WORD: usize = 20;
    let mut first = None;
    let mut count = 0;
    for at in 0..SAMPLE {
        let Some(text) = lines.peek(at) else { break };
        match text.split_whitespace().count() {
            0 => {}
            // Paths are long words.
            1 if text.trim_start().starts_with("/sys/") || text.trim_start().starts_with("/proc/") => return None,
            1 => count += 1,
            _ => return None,
        }
        if first.is_none() && text.len() >= LONG_WORD {
            first = Some(at);
        }
    }
    first.filter(|_| count >= LEAST && !lines.is_binary())
}
