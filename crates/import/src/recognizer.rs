//! Recognizes what comes next in a capture. Only peeks: reading it is up to the caller.

use crate::banner::Banner;
use crate::clock::{self, PrintedTime};
use crate::command::CommandLine;
use crate::formats::kernel_files;
use crate::lines::Lines;
use crate::output_start::OutputStart;
use crate::printed_files::PrintedFiles;
use crate::quotations::{is_doubted, quotations};
use crate::shell_session::ShellSession;
use crate::supportconfig;
use crate::table::{is_remark, is_table_row};
use crate::typed_command::TypedCommand;

/// Maximum length of a line that begins a report, and the exceptions: JSON, and what mysql prints on one line.
const LONGEST_LINE: usize = 8192;
const LONG_LINES: [&str; 3] = ["{", "[", "InnoDB"];

/// What begins at the next line of a capture.
#[derive(Debug, PartialEq)]
pub enum LineClass {
    Blank,
    /// A line too long for any report.
    Overlong,
    /// Heading of a section of supportconfig, with the command that would print the file that the next line names.
    Section(Option<CommandLine>),
    /// Title of a file of supportconfig, of this many lines.
    Title(usize),
    Command(TypedCommand),
    /// Message of a program that could not print a file.
    FileError,
    /// Contents of the files that the last command prints.
    Files,
    /// Contents of such a file that a format reads as text.
    TextOfFile(OutputStart),
    /// Files named by their paths below the shell's folder.
    FilesBelowFolder,
    Banner(Banner),
    CpuCount(f64),
    /// Sentence that denies or supposes the output that it quotes.
    DoubtfulQuotation,
    Output(OutputStart),
    Time(PrintedTime),
    /// Sentence that quotes these outputs.
    Quotations(Vec<String>),
    /// Error message of the last command.
    Error,
    /// Text that cannot be data.
    Remark,
    /// A row of a table in no known format, whose numbers are missed.
    UnknownRow,
    UnknownText,
}

impl LineClass {
    /// Says what begins at the next line, whose text is `text`. Only peeks.
    pub fn recognize(text: &str, lines: &mut Lines<'_>, session: &ShellSession) -> Self {
        frame(text, lines, session)
            .or_else(|| expected_by_command(text, lines, session))
            .or_else(|| Banner::read(text).map(Self::Banner))
            .or_else(|| session.last_command().counted_cpus(text).map(Self::CpuCount))
            .or_else(|| output(text, lines, session))
            .unwrap_or_else(|| other_text(text, session))
    }
}

/// Recognizes what surrounds outputs: blank lines, headings of reports, prompts.
fn frame(text: &str, lines: &mut Lines<'_>, session: &ShellSession) -> Option<LineClass> {
    if text.len() > LONGEST_LINE && !LONG_LINES.iter().any(|begin| text.starts_with(begin)) {
        return Some(LineClass::Overlong);
    }
    if text.trim().is_empty() {
        return Some(LineClass::Blank);
    }
    if let Some(kind) = supportconfig::section(text) {
        return Some(LineClass::Section(lines.peek(1).and_then(|line| supportconfig::printed_file(kind, line))));
    }
    let title = supportconfig::title(lines).map(LineClass::Title);
    title.or_else(|| TypedCommand::peek(lines, session.variables()).map(LineClass::Command))
}

/// Recognizes files of /proc and /sys that only the last command names.
fn expected_by_command(text: &str, lines: &mut Lines<'_>, session: &ShellSession) -> Option<LineClass> {
    let command = session.last_command();
    if command.expects_files() && kernel_files::is_message(text) {
        return Some(LineClass::FileError);
    }
    let begins = |files: &PrintedFiles, lines: &mut Lines<'_>| match () {
        () if command.is_named_by_text() => kernel_files::are_next(lines, files),
        () if command.has_steps() => kernel_files::begins_next(lines, files),
        () => true,
    };
    if let Some(files) = command.files()
        && begins(files, lines)
    {
        let text = if files.is_of_proc() { OutputStart::peek(lines) } else { None };
        return Some(text.map_or(LineClass::Files, LineClass::TextOfFile));
    }
    let is_below = session.is_below_proc() && kernel_files::is_relative(text, session.context());
    is_below.then_some(LineClass::FilesBelowFolder)
}

/// Recognizes outputs, printed times, and outputs quoted in a sentence.
fn output(text: &str, lines: &mut Lines<'_>, session: &ShellSession) -> Option<LineClass> {
    let quoted = quotations(text);
    if !quoted.is_empty() && is_doubted(text) {
        return Some(LineClass::DoubtfulQuotation);
    }
    if let Some(start) = OutputStart::peek(lines) {
        return Some(LineClass::Output(start));
    }
    if let Some(at) = clock::date_line(text).or_else(|| session.last_command().epoch_line(text)) {
        return Some(LineClass::Time(at));
    }
    let begins_output = |quotation: &&str| {
        OutputStart::peek_text(&mut Lines::new(lines.file().clone(), quotation.as_bytes())).is_some()
    };
    let outputs: Vec<String> = quoted.into_iter().filter(begins_output).map(str::to_owned).collect();
    (!outputs.is_empty()).then_some(LineClass::Quotations(outputs))
}

fn other_text(text: &str, session: &ShellSession) -> LineClass {
    let command = session.last_command();
    if is_error(text) && command.line().is_some() {
        LineClass::Error
    } else if is_remark(text) || command.is_of_unknown_program() || session.is_console() {
        LineClass::Remark
    } else if is_table_row(text) {
        LineClass::UnknownRow
    } else {
        LineClass::UnknownText
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
pub fn without_spaces(lines: &mut Lines<'_>) -> Option<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, wrapped};

    /// Runs a command, and returns the class of the text below it.
    fn below(command: &str, text: &str) -> LineClass {
        let mut session = ShellSession::default();
        if let Some(typed) = TypedCommand::peek(&mut Lines::new("x", command.as_bytes()), session.variables()) {
            session.command(typed, 1);
        }
        let first = text.lines().next().unwrap_or_default();
        LineClass::recognize(first, &mut Lines::new("x", text.as_bytes()), &session)
    }

    #[test]
    fn a_command_says_what_its_output_means() {
        let number = |command: &str| below(command, "1795514400\n");
        assert_eq!(number("$ date +%s"), LineClass::Time(clock::epoch_time("1795514400").unwrap()));
        assert_eq!(number("$ cat /sys/fs/cgroup/a/memory.current"), LineClass::Files);
        assert_eq!(number("$ vmstat 1"), LineClass::Remark);
        assert_eq!(below("$ nproc", "4\n"), LineClass::CpuCount(4.0));
        assert_eq!(below("$ cat /proc/loadavg", "cat: /proc/loadavg: Permission denied\n"), LineClass::FileError);
        assert_eq!(below("$ ls", "ls: cannot access 'x': No such file or directory\n"), LineClass::Error);
        assert_eq!(below("# cd /sys/fs/cgroup/a; grep . *", "memory.max:max\n"), LineClass::FilesBelowFolder);
        let meminfo = "MemTotal:       16329156 kB\nMemFree:         1035944 kB\n";
        let name = |start: OutputStart| start.format.name;
        assert!(matches!(below("", meminfo), LineClass::Output(start) if name(start) == "/proc/meminfo"));
        let of_file = below("$ cat /proc/meminfo", meminfo);
        assert!(matches!(of_file, LineClass::TextOfFile(start) if name(start) == "/proc/meminfo"));
    }

    #[test]
    fn a_title_may_name_the_file_below_it() {
        let mut session = ShellSession::default();
        session.sentence("an example (/proc/pressure/memory):", 1, false);
        let class = |text: &str| LineClass::recognize(text, &mut Lines::new("x", text.as_bytes()), &session);
        assert!(!matches!(class("It is slow.\n"), LineClass::Files));
        assert_eq!(class("some avg10=70.24 avg60=68.52 avg300=69.91 total=3559632828\n"), LineClass::Files);
    }

    #[test]
    fn text_around_outputs_is_told_apart() {
        for (text, class) in [
            ("", LineClass::Blank),
            ("It is slow.", LineClass::Remark),
            ("1 2 3 4 5 6 7", LineClass::UnknownRow),
            ("16:54:34", LineClass::Time(PrintedTime::of_day(60_874.0))),
            ("It would print `Linux 5.4 (a) 01/14/2010`.", LineClass::DoubtfulQuotation),
            (&"x".repeat(LONGEST_LINE + 1), LineClass::Overlong),
        ] {
            assert_eq!(below("", &format!("{text}\n")), class, "{text}");
        }
        assert!(matches!(below("", "Linux 5.10.62 (large1) 09/04/2021 _x86_64_ (48 CPU)\n"), LineClass::Banner(_)));
        assert!(matches!(below("", "[root@x ~]# vmstat 1 \\\n5\n"), LineClass::Command(typed) if typed.lines == 2));
    }

    #[test]
    fn classifying_a_line_changes_nothing() {
        let vmstat = fixture("x232-vmstat-2.txt");
        let indented: String = vmstat.lines().map(|line| format!("    {line}\n")).collect();
        for text in [wrapped(&fixture("san-iostat-x-2k-1reader.txt"), 72), indented, fixture("proc-sys-cat.txt")] {
            let mut session = ShellSession::default();
            let mut lines = Lines::new("x", text.as_bytes());
            while let Some(line) = lines.peek(0).map(str::to_owned) {
                let next =
                    |lines: &mut Lines<'_>| (0..9).map(|at| lines.peek(at).map(str::to_owned)).collect::<Vec<_>>();
                let before = next(&mut lines);
                let class = LineClass::recognize(&line, &mut lines, &session);
                assert_eq!(next(&mut lines), before);
                assert_eq!(LineClass::recognize(&line, &mut lines, &session), class);
                if let LineClass::Command(typed) = class {
                    session.command(typed, lines.number());
                }
                lines.skip(1);
            }
        }
    }
}
