//! Reads one file: finds where each command's output starts, and passes it to its format.

use crate::banner::Banner;
use crate::captures::Captures;
use crate::clock::PrintedTime;
use crate::command::CommandLine;
use crate::format::Format;
use crate::formats::{is_for_people, is_read, kernel_files, kernel_log};
use crate::kernel_file::KernelFile;
use crate::lines::Lines;
use crate::margin::Margin;
use crate::merge::MACHINE;
use crate::output_start::OutputStart;
use crate::prompt::is_prompt_line;
use crate::recognizer::{LineClass, without_spaces};
use crate::refusal::Refusal;
use crate::shell_session::ShellSession;
use crate::skipped::{KNOWN_OUTPUT, NOTHING, SkippedPlaces, UNKNOWN_ROW, UNKNOWN_TEXT};
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
        session: ShellSession::in_file(&file),
        file,
        strict,
        captures,
        any: false,
        recognized: false,
        empty_output: None,
        skipped: SkippedPlaces::default(),
        is_after_gap: true,
    };
    reader.read()
}

struct FileReader<'r, 'a> {
    lines: Lines<'r>,
    session: ShellSession,
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
    /// Whether the previous line was blank, or there is none.
    is_after_gap: bool,
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
        while let Some(text) = self.lines.peek(0).map(str::to_owned) {
            let class = LineClass::recognize(&text, &mut self.lines, &self.session);
            let is_gap = class == LineClass::Blank;
            self.read_class(class, &text)?;
            self.is_after_gap = is_gap;
        }
        if let Some(failure) = self.lines.failure() {
            let (line, found) = (self.lines.number(), failure.to_string());
            self.skip(Refusal::described(&self.file, line, "a file that can be read to its end", found))?;
        }
        self.note_unread();
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
    fn read_class(&mut self, class: LineClass, text: &str) -> Result<(), Refusal> {
        match class {
            LineClass::Output(start) => return self.output(start),
            LineClass::Files => {
                let read = self.read_output(&kernel_files::FORMAT);
                self.session.files_printed();
                return read;
            }
            LineClass::TextOfFile(start) => {
                self.session.files_printed();
                return self.output(start);
            }
            LineClass::FilesBelowFolder => {
                self.session.expect_files_below_folder();
                let read = self.read_output(&kernel_files::FORMAT);
                self.session.expect_no_files();
                return read;
            }
            LineClass::Section(file) => {
                self.lines.skip(usize::from(file.is_some()));
                self.session.section(file);
            }
            LineClass::Title(length) => self.lines.skip(length - 1),
            LineClass::Command(typed) => {
                self.lines.skip(typed.lines - 1);
                self.note_silence(&typed);
                self.session.command(typed, self.lines.number());
            }
            LineClass::FileError => {
                self.session.files_failed();
                self.note_message(text);
            }
            LineClass::Banner(banner) => self.banner(banner)?,
            LineClass::CpuCount(count) => self.cpu_count(count)?,
            LineClass::Time(at) => self.printed_time(at),
            LineClass::Quotations(outputs) => {
                for output in outputs {
                    self.inner(output, self.lines.number()).transpose()?;
                }
            }
            LineClass::Error => self.note_message(text),
            LineClass::DoubtfulQuotation => self.captures.complaint.add(text),
            LineClass::Remark => self.sentence(text),
            // Numbers in columns could be misread or missed; other text is merely unknown here.
            LineClass::UnknownRow => {
                self.session.unknown_output();
                self.skip(Refusal::described(&self.file, self.lines.number(), KNOWN_OUTPUT, UNKNOWN_ROW))?;
            }
            LineClass::UnknownText => {
                self.sentence(text);
                self.skip_unrecognized(UNKNOWN_TEXT);
            }
            LineClass::Overlong => self.skip_unrecognized(UNKNOWN_TEXT),
            LineClass::Blank => {}
        }
        self.lines.skip(1);
        Ok(())
    }

    fn banner(&mut self, banner: Banner) -> Result<(), Refusal> {
        let mut run = ToolRun::new(MACHINE, &self.file);
        let line = self.lines.number();
        banner.record(&mut run, line);
        let host = Name::from(banner.host());
        if let Some(prompt) = self.session.banner(banner) {
            self.captures.rename_host(&self.file, &prompt, &host);
        }
        run.host = Some(host);
        self.any = true;
        self.captures.add(run, &self.file, line)
    }

    fn cpu_count(&mut self, count: f64) -> Result<(), Refusal> {
        let mut run = ToolRun::new("nproc", &self.file);
        let line = self.lines.number();
        run.line = line;
        run.host = self.session.host();
        run.row::<MachineInfo>(0.0, line, MachineKey).processors = count.into();
        self.any = true;
        self.session.cpu_count();
        self.captures.add(run, &self.file, line)
    }

    fn printed_time(&mut self, at: PrintedTime) {
        if let Some(by) = self.session.printed_time(at) {
            let line = self.lines.number();
            let what = format!("the printed times from line {line} on");
            self.captures.note(&self.file, &what, clock_was_set(by, line), clock_remedy(by));
        }
    }

    fn sentence(&mut self, text: &str) {
        self.session.sentence(text, self.lines.number(), !self.is_after_gap);
        self.captures.complaint.add(text);
    }

    /// Notes why a file yields no figures, if that is not a mistake.
    fn note_unread(&mut self) {
        let command = self.session.last_command().line().filter(|command| is_for_people(command));
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
    fn note_message(&mut self, text: &str) {
        const LONGEST: usize = 160;
        let Some(command) =
            self.session.last_command().line().filter(|command| is_read(command) || is_for_people(command))
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

    /// Reads the output at the start of a text within a line or file. Returns `None` if the text does not start with output.
    fn inner(&mut self, content: String, line: u32) -> Option<Result<(), Refusal>> {
        let content = std::io::Cursor::new(content);
        let lines = Lines::new(self.file.clone(), content).numbered_from(line).strictly(self.strict);
        let session = self.session.within();
        let outer = (std::mem::replace(&mut self.lines, lines), std::mem::replace(&mut self.session, session));
        let read = OutputStart::peek_text(&mut self.lines).map(|start| self.output(start));
        (self.lines, self.session) = outer;
        read
    }

    fn output(&mut self, start: OutputStart) -> Result<(), Refusal> {
        start.enter(&mut self.lines);
        let read = self.read_output(start.format);
        self.lines.set_margin(Margin::None);
        read
    }

    fn read_output(&mut self, format: &Format) -> Result<(), Refusal> {
        let before = self.lines.number();
        let mut run = ToolRun::new(format.name, &self.file);
        run.line = before;
        self.session.set_origin(&mut run);
        let copy = self.session.context().pause().and_then(|_| self.lines_of_copy());
        if !format.streamed {
            self.lines.end_after(copy.unwrap_or(MOST_LINES));
        }
        let mut result = (format.read)(&mut self.lines, self.session.context(), &mut run);
        run.set_settings(self.session.settings_at(before));
        let is_of_files = format.name == kernel_files::FORMAT.name;
        for file in std::mem::take(&mut run.kernel_files) {
            self.kernel_file(file)?;
        }
        if self.lines.lift_limit() && copy.is_none() {
            let expected = format!("at most {MOST_LINES} lines of {}", format.name);
            let found = "more; give fewer reports at once";
            result = result.and(Err(Refusal::described(&self.file, self.lines.number(), expected, found)));
        }
        if self.lines.number() == before {
            self.lines.skip(1);
        }
        self.session.output(format.name, run.host.clone());
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
                self.session.kernel_messages();
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
    fn kernel_file(&mut self, mut file: KernelFile) -> Result<(), Refusal> {
        self.session.set_origin_of_file(&mut file);
        if file.is_of_proc()
            && let Some(read) = self.inner(file.content.clone(), file.line)
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
