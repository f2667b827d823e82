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
use merge::Groups;
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
    groups: Groups,
    /// Whether anything was recognised.
    recognised: bool,
    refused: Option<Refusal>,
    notes: usize,
    rows: usize,
    files: u32,
}

/// The most rows of all files together; where there are more, all are thinned out.
const MOST_ROWS: usize = 3 * run::MOST_ROWS;
/// The most notes on what was left out of files.
const MOST_NOTES: usize = 1000;

impl Runs {
    /// Reads one more file.
    ///
    /// # Errors
    /// As [`read`].
    pub(crate) fn add(&mut self, input: Input<'_>, partial: bool) -> Result<(), Refusal> {
        let lines = Lines::new(input.name, input.reader).at(self.files).partly(partial);
        self.files = self.files.saturating_add(1);
        let mut reading = Reading { lines, partial, runs: self, named: 0, any: false, console: false, left_out: None };
        reading.all()?;
        let left_out = reading.left_out;
        self.refused = self.refused.take().or(left_out);
        Ok(())
    }

    /// Notes what was left out of a file, and what would bring it.
    pub(crate) fn note(&mut self, file: &Name, what: &str, why: String, remedy: &str) {
        self.notes += 1;
        if self.notes > MOST_NOTES {
            return;
        }
        let mut run = Run::new(LEFT_OUT, file);
        run.note(what, why, remedy);
        // It tells of no thing, so that it stands in no other's way.
        let _ = self.groups.take(run);
    }

    /// Takes what was read at this place.
    fn take(&mut self, mut run: Run, file: &Name, line: u32) -> Result<(), Refusal> {
        run.end();
        let refused = |expected: String, found: &str| Err(Refusal::described(file, line, expected, found));
        self.recognised = true;
        self.rows += run.rows();
        let Some(held) = self.groups.take(run) else {
            let most = merge::MOST_CAPTURES;
            return refused(
                format!("no more than {most} captures of the same thing without their times"),
                "one more; print the time before each (date), or give fewer",
            );
        };
        if self.rows > MOST_ROWS {
            self.thin();
        }
        if !held || self.rows > MOST_ROWS {
            return refused(
                "no more things than can be held".into(),
                "more processes, sockets or messages; give the part around the incident, or fewer files",
            );
        }
        Ok(())
    }

    /// Leaves each run its part of the rows.
    fn thin(&mut self) {
        let count = self.groups.runs().filter(|run| run.rows() > 0).count().max(1);
        let share = MOST_ROWS / 2 / count;
        self.groups.runs_mut().filter(|run| run.rows() > share).for_each(|run| {
            run.thin(share, share.max(1));
            run.end();
        });
        self.rows = self.groups.runs().map(Run::rows).sum();
    }

    /// Puts together what the files tell.
    ///
    /// # Errors
    /// Where nothing was recognised at all.
    pub(crate) fn done(self) -> Result<Vec<Capture>, Refusal> {
        match self.refused {
            Some(refusal) if !self.recognised => Err(refusal),
            _ => Ok(self.groups.captures()),
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
struct Reading<'r, 'a> {
    lines: Lines<'r>,
    partial: bool,
    runs: &'a mut Runs,
    /// Whether anything was read of it, or said of what was not.
    any: bool,
    /// Whether this is what a console showed, with the kernel's lines among others.
    console: bool,
    /// How many places that were left out are named.
    named: usize,
    left_out: Option<Refusal>,
}

impl Reading<'_, '_> {
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
            if text.len() > LONGEST_LINE && !text.starts_with(['{', '[']) {
                let refusal = self.unrecognised(KNOWN, UNKNOWN_TEXT);
                self.pass_over(refusal);
                self.lines.skip(1);
            } else if text.trim().is_empty() {
                self.lines.skip(1);
            } else if let Some(command) = command_of(&text) {
                asked.command = Some(command);
                asked.banner = None;
                self.lines.skip(1);
            } else if let Some(banner) = Banner::read(&text) {
                let mut run = Run::new(merge::MACHINE, &file);
                let line = self.lines.number();
                banner.tell(&mut run, line);
                self.any = true;
                self.runs.take(run, &file, line)?;
                asked.banner = Some(banner);
                self.lines.skip(1);
            } else if let Some(format) = FORMATS.iter().find(|f| (f.starts)(&mut self.lines)) {
                self.read(format, &asked, &file)?;
            } else if let Some(at) = clock::moment(&text) {
                asked.at = at;
                self.lines.skip(1);
            } else if is_remark(&text) || asked.is_of_another_tool() || self.console {
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
        if !self.any {
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

    fn read(&mut self, format: &Format, asked: &Asked, file: &Name) -> Result<(), Refusal> {
        let before = self.lines.number();
        let mut run = Run::new(format.name, file);
        run.start = asked.at;
        if !STREAMED.contains(&format.name) {
            self.lines.end_after(MOST_LINES);
        }
        let mut result = (format.read)(&mut self.lines, asked, &mut run);
        if self.lines.go_on() {
            let expected = format!("no more than {MOST_LINES} lines of {}", format.name);
            result = result.and(Err(self.unrecognised(&expected, "more; give fewer reports at once")));
        }
        if self.lines.number() == before {
            self.lines.skip(1);
        }
        if !run.is_empty() {
            self.any = true;
            self.console |= format.name == kernel_log::FORMAT.name;
            let taken = self.runs.take(run, file, before);
            taken.or_else(|refusal| self.leave_out(refusal))?;
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
        self.named += 1;
        if self.named > MOST_LEFT_OUT {
            return;
        }
        self.any = true;
        let file = self.lines.file().clone();
        let what = format!("line {}, left out", refusal.line);
        self.runs.note(&file, &what, refusal.reason(), "paste it again, unchanged");
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

/// What is read report by report, however long it is. The others hold what they read until they are through.
const STREAMED: &[&str] = &[
    sysstat::sar::SAR.name,
    sysstat::sar::MPSTAT.name,
    sysstat::document::FORMAT.name,
    sysstat::pidstat::FORMAT.name,
    sysstat::iostat::FORMAT.name,
    procps::vmstat::FORMAT.name,
    procps::vmstat_d::FORMAT.name,
    procps::top::FORMAT.name,
    storage::nfs::NFSIOSTAT.name,
    kernel_log::FORMAT.name,
];
/// The most lines of any other report.
const MOST_LINES: u32 = 200_000;
/// A longer line begins no report, unless it is JSON: no tool prints one.
const LONGEST_LINE: usize = 8192;

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
    first.filter(|_| count >= COLLAPSED_LEAST && !lines.is_binary())
}
