//! Reads what other tools printed into [`Window`](whyslow_model::window::Window)s: one file per format.
//!
//! A capture is text that someone pasted: prompts, several commands, wrapped lines, remarks. The recogniser here finds
//! where each command's output starts, its format reads it into a [`Run`], and [`merge`](merge::merge) puts the runs
//! together. What is not certain is refused with file and line; a wrong number is never produced.

mod banner;
mod clock;
mod command;
mod database;
mod format;
mod formats;
mod gather;
mod json;
mod kernel_log;
mod limits;
mod lines;
mod measured;
mod memory;
mod merge;
mod net;
mod number;
mod pace;
mod proc;
mod procps;
mod refusal;
mod run;
mod series;
mod storage;
mod sysstat;
mod table;
#[cfg(test)]
mod testing;

pub use format::Format;
pub use formats::FORMATS;
pub use gather::{Gathered, Incident, ReadCopy, Tree, Trees, Watch, join};
pub use merge::Capture;
pub use refusal::Refusal;
pub use sysstat::converted;

use banner::Banner;
use command::Command;
use format::Asked;
use lines::Lines;
use run::Run;
use std::io::BufRead;
use whyslow_model::value::Name;

/// One file to read.
pub struct Input<'r> {
    /// Its name, as errors and evidence give it.
    pub name: String,
    /// Its bytes.
    pub reader: Box<dyn BufRead + 'r>,
}

/// Reads files of one incident. With `partial`, what cannot be read with certainty is left out, which is said in the
/// Windows' source reports, instead of refused.
///
/// # Errors
/// The first place whose meaning is not certain, or at which a file could not be read; with `partial`, only where
/// nothing was recognised at all.
pub fn read(inputs: Vec<Input<'_>>, partial: bool) -> Result<Vec<Capture>, Refusal> {
    let mut runs = Runs::default();
    for input in inputs {
        runs.add(input, partial)?;
    }
    runs.done()
}

/// What the files of one incident came to.
#[derive(Default)]
pub(crate) struct Runs {
    runs: Vec<Run>,
    refused: Option<Refusal>,
    files: u32,
}

impl Runs {
    /// Reads one more file.
    ///
    /// # Errors
    /// As [`read`].
    pub(crate) fn add(&mut self, input: Input<'_>, partial: bool) -> Result<(), Refusal> {
        let lines = Lines::new(input.name, input.reader).at(self.files).partly(partial);
        let mut reading = Reading { lines, partial, runs: Vec::new(), left_out: None };
        self.files += 1;
        reading.all()?;
        self.refused = self.refused.take().or(reading.left_out);
        self.runs.append(&mut reading.runs);
        Ok(())
    }

    /// Notes what was left out of a file, and what would bring it.
    pub(crate) fn note(&mut self, file: &Name, what: &str, why: String, remedy: &str) {
        let mut run = Run::new(LEFT_OUT, file);
        run.note(what, why, remedy);
        self.runs.push(run);
    }

    /// Puts together what the files tell.
    ///
    /// # Errors
    /// Where nothing was recognised at all.
    pub(crate) fn done(self) -> Result<Vec<Capture>, Refusal> {
        match self.refused {
            Some(refusal) if self.runs.iter().all(|run| run.tool == LEFT_OUT) => Err(refusal),
            _ => Ok(merge::merge(self.runs)),
        }
    }
}

/// Whether something else than `own` begins at the next line: a prompt, or the output of another tool.
pub(crate) fn elsewhere(lines: &mut Lines<'_>, own: &str) -> bool {
    let Some(text) = lines.peek(0) else { return true };
    let prompt = command_of(text).is_some() || Banner::read(text).is_some() || clock::moment(text).is_some();
    prompt || FORMATS.iter().any(|f| f.name != own && (f.starts)(lines))
}

/// What stands where nothing else is expected.
const KNOWN: &str = "output of a tool that 'whyslow formats' lists";
/// From so many numbers on a line is a row of a table, or one whose columns ran together.
const ROW: usize = 5;

/// What stands there instead, in words that give nothing of it away.
const UNKNOWN_ROW: &str = "a row of numbers under no known header; --partial leaves it out";
const UNKNOWN_TEXT: &str = "text in no known format";
/// What a program begins with that an interpreter runs: it only mentions what tools print.
const SCRIPT: &str = "#!";

fn is_table_row(text: &str) -> bool {
    let numbers = text.split_whitespace().filter(|w| number::number(w).is_some()).count();
    numbers >= ROW || text.split_whitespace().any(number::ran_together)
}

/// The tool of a run that only says what was left out.
const LEFT_OUT: &str = "left out";
/// How many places of one file that were left out are named.
const MOST_LEFT_OUT: usize = 100;

/// A file being read.
struct Reading<'r> {
    lines: Lines<'r>,
    partial: bool,
    runs: Vec<Run>,
    left_out: Option<Refusal>,
}

impl Reading<'_> {
    fn all(&mut self) -> Result<(), Refusal> {
        let file = self.lines.file().clone();
        let mut asked = Asked { command: Command::in_file_name(&file, TOOLS), ..Asked::default() };
        if self.lines.peek(0).is_some_and(|text| text.starts_with(SCRIPT)) {
            let refusal = self.unrecognised(KNOWN, "a script; give what it prints");
            self.pass_over(refusal);
            return Ok(());
        }
        if let Some(line) = collapsed(&mut self.lines) {
            self.lines.skip(line);
            let expected = "columns apart from each other: the spaces were lost, and the columns ran together";
            let refusal = self.unrecognised(expected, "lines without a space in them; paste it again, unchanged");
            self.leave_out(refusal)?;
            while self.lines.take().is_some() {}
        }
        while let Some(text) = self.lines.peek(0).map(str::to_owned) {
            if let Some(command) = command_of(&text) {
                asked.command = Some(command);
                asked.banner = None;
                self.lines.skip(1);
            } else if let Some(banner) = Banner::read(&text) {
                let mut run = Run::new(merge::MACHINE, &file);
                banner.tell(&mut run, self.lines.number());
                self.runs.push(run);
                asked.banner = Some(banner);
                self.lines.skip(1);
            } else if let Some(format) = FORMATS.iter().find(|f| (f.starts)(&mut self.lines)) {
                self.read(format, &asked, &file)?;
            } else if let Some(at) = clock::moment(&text) {
                asked.at = at;
                self.lines.skip(1);
            } else if is_remark(&text) || asked.is_of_another_tool() || self.is_console() {
                self.lines.skip(1);
            } else {
                // Numbers in columns could be misread or missed; other text is only not known here.
                if is_table_row(&text) {
                    let refusal = self.unrecognised(KNOWN, UNKNOWN_ROW);
                    self.leave_out(refusal)?;
                } else {
                    let refusal = self.unrecognised(KNOWN, UNKNOWN_TEXT);
                    self.pass_over(refusal);
                }
                self.lines.skip(1);
            }
        }
        if let Some(failure) = self.lines.failure() {
            let refusal = Refusal::described(
                &file,
                self.lines.number(),
                "a file that can be read to its end",
                failure.to_string(),
            );
            self.leave_out(refusal)?;
        }
        if self.runs.is_empty() {
            let found = match (self.lines.number(), self.lines.is_binary()) {
                (1, _) => "an empty file",
                (_, true) => "binary data",
                _ => "nothing of the kind in the whole file",
            };
            self.pass_over(Refusal::described(&file, 1, KNOWN, found));
        }
        Ok(())
    }

    /// Refuses the next line without quoting it: nobody knows what it is.
    fn unrecognised(&self, expected: &str, what: &str) -> Refusal {
        Refusal::described(self.lines.file(), self.lines.number(), expected, what)
    }

    /// Whether this is what a console showed, with the kernel's lines among others.
    fn is_console(&self) -> bool {
        self.runs.iter().any(|run| run.tool == kernel_log::FORMAT.name)
    }

    fn read(&mut self, format: &Format, asked: &Asked, file: &Name) -> Result<(), Refusal> {
        let before = self.lines.number();
        let mut run = Run::new(format.name, file);
        run.start = asked.at;
        let result = (format.read)(&mut self.lines, asked, &mut run);
        if self.lines.number() == before {
            self.lines.skip(1);
        }
        if !run.is_empty() {
            self.runs.push(run);
        }
        for refusal in self.lines.left_out() {
            self.leave_out(refusal)?;
        }
        result.or_else(|refusal| self.leave_out(refusal))
    }

    /// Leaves a place out where that is asked for; else it ends the reading.
    fn leave_out(&mut self, refusal: Refusal) -> Result<(), Refusal> {
        if !self.partial {
            return Err(refusal);
        }
        self.name_left_out(refusal);
        Ok(())
    }

    /// Passes over text that is in no known format: of one file it is said once.
    fn pass_over(&mut self, refusal: Refusal) {
        if self.left_out.is_none() {
            self.name_left_out(refusal);
        }
    }

    fn name_left_out(&mut self, refusal: Refusal) {
        if self.runs.iter().filter(|run| run.tool == LEFT_OUT).count() >= MOST_LEFT_OUT {
            return;
        }
        let file = self.lines.file().clone();
        let mut run = Run::new(LEFT_OUT, &file);
        let what = format!("line {}, left out", refusal.line);
        run.note(&what, refusal.reason(), "paste it again, unchanged");
        self.runs.push(run);
        self.left_out.get_or_insert(refusal);
    }
}

/// The tools whose name alone at the start of a line makes it a command.
const TOOLS: &[&str] = &[
    "vmstat",
    "iostat",
    "mpstat",
    "pidstat",
    "sar",
    "free",
    "top",
    "uptime",
    "cat",
    "dmesg",
    "ethtool",
    "ipcs",
    "sysctl",
    "ulimit",
    "df",
    "netstat",
    "nstat",
    "lsblk",
    "numactl",
    "numastat",
    "nfsiostat",
    "mountstats",
];
/// Further ones whose output is read, with names that are words of other text too: only a prompt makes them commands.
const TOOLS_AT_PROMPTS: &[&str] =
    &["ss", "ip", "tc", "mount", "parted", "perf", "fio", "iperf", "iperf3", "iozone", "smartctl"];

fn command_of(text: &str) -> Option<Command> {
    Command::at_prompt(text).or_else(|| Command::bare(text, TOOLS))
}

/// No row of a table is as short as this, in two words or one.
const SHORT: usize = 30;

/// Text that people put between outputs: blank lines, rulers, headings, sentences. What could be data is none.
fn is_remark(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    let digits = text.chars().filter(|c| c.is_ascii_digit()).count();
    let numbers = text.split_whitespace().filter(|w| number::number(w).is_some()).count();
    let glued = text.split_whitespace().any(number::ran_together);
    let short = text.len() <= SHORT && text.split_whitespace().count() <= 2;
    (digits == 0 && letters == 0) || (short && !glued) || (letters >= 2 * digits && numbers <= 2 && !glued)
}

/// How many lines to look at, and how many of them must be one word, to say that a file lost its spaces.
const COLLAPSED_SAMPLE: usize = 40;
const COLLAPSED_LEAST: usize = 5;
/// One word of this length is no heading.
const LONG_WORD: usize = 20;

/// The first long line of a file in which no line has a space in it.
fn collapsed(lines: &mut Lines<'_>) -> Option<usize> {
    let mut first = None;
    let mut count = 0;
    for at in 0..COLLAPSED_SAMPLE {
        let Some(text) = lines.peek(at) else { break };
        match text.split_whitespace().count() {
            0 => {}
            1 => count += 1,
            _ => return None,
        }
        if first.is_none() && text.len() >= LONG_WORD {
            first = Some(at);
        }
    }
    first.filter(|_| count >= COLLAPSED_LEAST)
}
