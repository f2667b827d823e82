//! Styled lines of text, wrapped at a width. All text is escaped on entry; there is no other way onto the screen.

use crate::escape;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A space at which no line is broken; drawn as a plain space.
pub(crate) const NO_BREAK: char = '\u{a0}';

/// The minimum width for laying out text.
const NARROWEST: usize = 40;

/// The minimum width beside something else.
const NARROWEST_BESIDE: usize = 20;

/// The style of a piece of text, if colours are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ink {
    /// The terminal's default style.
    #[default]
    Plain,
    /// A heading, or the most important text.
    Bold,
    /// Text that can be skipped.
    Dim,
    /// A failure or a bottleneck.
    Red,
    /// A suspicion or a caveat.
    Yellow,
    /// A healthy state.
    Green,
}

impl Ink {
    /// Returns the Select Graphic Rendition sequence (ECMA-48, 8.3.117).
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Red => "\x1b[1;31m",
            Self::Yellow => "\x1b[1;33m",
            Self::Green => "\x1b[1;32m",
        }
    }
}

/// Escaped text of one style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    ink: Ink,
    text: String,
}

impl Piece {
    /// Escapes a text.
    pub fn new(ink: Ink, text: impl AsRef<str>) -> Self {
        Self { ink, text: escape::terminal(text.as_ref()).into_owned() }
    }

    /// Escapes a text and pads it with spaces to a width, as a table cell.
    pub(crate) fn cell(ink: Ink, text: impl AsRef<str>, width: usize) -> Self {
        let mut piece = Self::new(ink, text);
        piece.text.extend(std::iter::repeat_n(NO_BREAK, width.saturating_sub(piece.width())));
        piece
    }

    /// Creates text that is trusted, such as indentation.
    fn own(text: impl Into<String>) -> Self {
        Self { ink: Ink::Plain, text: text.into() }
    }

    fn write_to(&self, out: &mut String, colour: bool) {
        if colour && self.ink != Ink::Plain {
            out.extend([self.ink.code(), self.text.as_str(), "\x1b[0m"]);
        } else {
            out.push_str(&self.text);
        }
    }

    /// Returns its style.
    pub fn ink(&self) -> Ink {
        self.ink
    }

    /// Returns the escaped text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of columns that it takes.
    pub fn width(&self) -> usize {
        self.text.width()
    }
}

/// Creates a piece of plain text.
pub fn plain(text: impl AsRef<str>) -> Piece {
    Piece::new(Ink::Plain, text)
}

/// Creates a piece of bold text.
pub fn bold(text: impl AsRef<str>) -> Piece {
    Piece::new(Ink::Bold, text)
}

/// Creates a piece of dim text.
pub fn dim(text: impl AsRef<str>) -> Piece {
    Piece::new(Ink::Dim, text)
}

pub(crate) struct Canvas {
    lines: Vec<Vec<Piece>>,
    width: usize,
    colour: bool,
}

impl Canvas {
    pub(crate) fn new(width: usize, colour: bool) -> Self {
        Self { lines: Vec::new(), width: width.max(NARROWEST), colour }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Creates an empty canvas like this one, to measure how many lines something takes.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.width, self.colour)
    }

    /// Creates an empty canvas for content beside this many columns, such as the lines of a tree.
    pub(crate) fn beside(&self, columns: usize) -> Self {
        let width = self.width.saturating_sub(columns).max(NARROWEST_BESIDE);
        Self { lines: Vec::new(), width, colour: self.colour }
    }

    pub(crate) fn finish(self) -> String {
        let mut out = String::new();
        for line in &self.lines {
            line.iter().for_each(|piece| piece.write_to(&mut out, self.colour));
            out.push('\n');
        }
        out
    }

    /// Returns the lines, for a screen that draws styles itself.
    pub(crate) fn into_lines(self) -> Vec<Vec<Piece>> {
        self.lines
    }

    pub(crate) fn blank(&mut self) {
        self.lines.push(Vec::new());
    }

    /// Draws a paragraph: the first line starts at column `first`, the others at column `rest`.
    pub(crate) fn paragraph(&mut self, first: usize, rest: usize, pieces: &[Piece]) {
        let mut line = Line::at(first);
        for word in words(pieces) {
            if line.is_started() && line.column + word.spaces + word.width > self.width {
                self.end(std::mem::replace(&mut line, Line::at(rest)));
            }
            if line.is_started() {
                line.push(word.space_ink, &" ".repeat(word.spaces));
            }
            self.place(&mut line, rest, &word);
        }
        self.end(line);
    }

    /// Draws a paragraph of at most this many lines; longer text ends in '…'.
    pub(crate) fn at_most(&mut self, lines: usize, first: usize, rest: usize, pieces: &[Piece]) {
        if lines == 1 {
            let cut = self.cut(1, self.width - first, pieces);
            return self.paragraph(first, rest, &cut);
        }
        // Later lines are indented further, so every line is assumed to have only their width.
        let mut columns = lines * (self.width - first.max(rest));
        loop {
            let mut part = Self::new(self.width, self.colour);
            part.paragraph(first, rest, &self.cut(1, columns, pieces));
            if part.lines() <= lines || columns < self.width {
                return self.append(part);
            }
            columns -= 4;
        }
    }

    /// Returns the beginning of the pieces that fits into this many lines and columns, with '…' at the end if it was cut.
    pub(crate) fn cut(&self, lines: usize, columns: usize, pieces: &[Piece]) -> Vec<Piece> {
        let columns = columns * lines;
        if pieces.iter().map(Piece::width).sum::<usize>() <= columns {
            return pieces.to_vec();
        }
        let (mut left, mut cut) = (columns.saturating_sub(1), Vec::new());
        for piece in pieces {
            let mut text = String::new();
            for c in piece.text.chars() {
                let width = c.width().unwrap_or(0);
                if width > left {
                    let kept = whole_words(&text, c);
                    cut.push(Piece { ink: piece.ink, text: format!("{}…", kept.trim_end()) });
                    return cut;
                }
                left -= width;
                text.push(c);
            }
            cut.push(Piece { ink: piece.ink, text });
        }
        cut
    }

    pub(crate) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Appends the lines of another canvas.
    pub(crate) fn append(&mut self, other: Self) {
        self.lines.extend(other.lines);
    }

    /// Appends the lines of another canvas, each after this trusted text.
    pub(crate) fn append_beside(&mut self, first: &str, rest: &str, other: Self) {
        for (number, line) in other.lines.into_iter().enumerate() {
            let margin = Piece::own(if number == 0 { first } else { rest });
            self.lines.push([vec![margin], line].concat());
        }
    }

    /// Draws a command to paste: if it is too long for a line, it continues in the next after a backslash, but is not broken
    /// within quotes or between an option and its value, unless a single word is longer than a line.
    pub(crate) fn command(&mut self, column: usize, piece: &Piece) {
        let text = piece.text.as_str();
        let is_option = |at: usize| text[..at].rsplit(' ').next().is_some_and(|word| word.starts_with("--"));
        let is_break = |(at, c): &(usize, char)| {
            *c == ' ' && !is_quoted(text, *at) && !is_option(*at) && !text[..*at].ends_with('\\')
        };
        let breaks = text.char_indices().filter(is_break).map(|(at, _)| at);
        let mut ends: Vec<usize> = breaks.collect();
        ends.push(text.len());
        let (mut from, mut upto, mut indent) = (0, 0, column);
        let line = |canvas: &mut Self, indent: usize, text: String| {
            let mut indent = indent;
            for text in words_broken(&text, indent, canvas.width) {
                canvas.verbatim(indent, &Piece { ink: piece.ink, text });
                // A space before the rest of a word would split it in two.
                indent = 0;
            }
        };
        for end in ends {
            if indent + text[from..end].width() + 2 > self.width && upto > from {
                line(self, indent, format!("{} \\", &text[from..upto]));
                (from, indent) = (upto + 1, column + 2);
            }
            upto = end;
        }
        line(self, indent, text[from..].to_owned());
    }

    /// Draws a line that is never wrapped, for copying: not even no-break spaces are replaced.
    pub(crate) fn verbatim(&mut self, column: usize, piece: &Piece) {
        self.lines.push(vec![Piece::own(" ".repeat(column)), piece.clone()]);
    }

    /// Adds a word; a word longer than a line is cut at the end of the line.
    fn place(&mut self, line: &mut Line, rest: usize, word: &Word) {
        for (ink, c) in &word.letters {
            let width = c.width().unwrap_or(0);
            if line.is_started() && line.column + width > self.width {
                self.end(std::mem::replace(line, Line::at(rest)));
            }
            line.push(*ink, c.encode_utf8(&mut [0; 4]));
        }
    }

    fn end(&mut self, line: Line) {
        let runs = line.runs.into_iter().map(|(ink, text)| Piece { ink, text: text.replace(NO_BREAK, " ") });
        let mut pieces: Vec<Piece> = std::iter::once(Piece::own(" ".repeat(line.indent))).chain(runs).collect();
        // Trailing spaces are invisible, but would be copied.
        while let Some(last) = pieces.last_mut() {
            last.text.truncate(last.text.trim_end_matches(' ').len());
            if !last.text.is_empty() {
                break;
            }
            pieces.pop();
        }
        self.lines.push(pieces);
    }
}

/// Returns the text before `next`, without a word that the cut divides; keeps a divided word that is as long as a path.
fn whole_words(text: &str, next: char) -> &str {
    const LONG_WORD: usize = 20;
    match text.rfind(' ') {
        Some(space) if next != ' ' && text[space..].width() <= LONG_WORD => &text[..space],
        _ => text,
    }
}

/// Splits a line of a command into lines that fit, each but the last with a backslash at its end, which a shell removes together
/// with the newline. Within single quotes it does not, so those are closed and opened again.
fn words_broken(text: &str, indent: usize, width: usize) -> Vec<String> {
    // Room for a quote and the backslash.
    const MARK: usize = 2;
    let (mut lines, mut line) = (Vec::new(), String::new());
    let mut column = indent;
    for (at, c) in text.char_indices() {
        let rest = text[at..].width();
        // A backslash must stay together with the next character.
        let may_break = !line.ends_with('\\') && column > MARK;
        if may_break && column + rest > width && column + c.width().unwrap_or(0) + MARK > width {
            let quote = if quote_at(text, at) == Some('\'') { "'" } else { "" };
            lines.push(format!("{line}{quote}\\"));
            (line, column) = (quote.to_owned(), quote.len());
        }
        line.push(c);
        column += c.width().unwrap_or(0);
    }
    lines.push(line);
    lines
}

/// Whether a position in a command is within quotes.
fn is_quoted(command: &str, at: usize) -> bool {
    quote_at(command, at).is_some()
}

/// Returns the quote that encloses a position in a command.
fn quote_at(command: &str, at: usize) -> Option<char> {
    let mut quote = None;
    for c in command[..at].chars() {
        match quote {
            None if c == '\'' || c == '"' => quote = Some(c),
            Some(open) if c == open => quote = None,
            _ => {}
        }
    }
    quote
}

/// A line under construction: runs of one style.
struct Line {
    indent: usize,
    column: usize,
    runs: Vec<(Ink, String)>,
}

impl Line {
    fn at(indent: usize) -> Self {
        Self { indent, column: indent, runs: Vec::new() }
    }

    fn is_started(&self) -> bool {
        !self.runs.is_empty()
    }

    fn push(&mut self, ink: Ink, text: &str) {
        self.column += text.width();
        match self.runs.last_mut() {
            Some((last, run)) if *last == ink => run.push_str(text),
            _ => self.runs.push((ink, text.to_owned())),
        }
    }
}

/// Unbreakable text, possibly of several styles, up to the next space.
#[derive(Default)]
struct Word {
    spaces: usize,
    /// The style of the surrounding text, so that spaces do not break up its run.
    space_ink: Ink,
    letters: Vec<(Ink, char)>,
    width: usize,
}

fn words(pieces: &[Piece]) -> Vec<Word> {
    let mut words = vec![Word::default()];
    for piece in pieces {
        for c in piece.text.chars() {
            let mut word = words.pop().unwrap_or_default();
            if c == ' ' && !word.letters.is_empty() {
                words.push(word);
                word = Word::default();
            }
            if c == ' ' {
                word.spaces += 1;
                word.space_ink = piece.ink;
            } else {
                word.width += c.width().unwrap_or(0);
                word.letters.push((piece.ink, c));
            }
            words.push(word);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(width: usize, first: usize, rest: usize, pieces: &[Piece]) -> String {
        let mut canvas = Canvas::new(width, false);
        canvas.paragraph(first, rest, pieces);
        canvas.finish()
    }

    #[test]
    fn wraps_at_words_and_hangs() {
        let text = plain("one two three four five six seven eight nine ten");
        assert_eq!(drawn(40, 2, 4, &[text]), "  one two three four five six seven\n    eight nine ten\n");
    }

    #[test]
    fn cuts_what_no_line_can_hold() {
        let text = plain("x".repeat(90));
        assert!(drawn(40, 0, 2, &[text]).lines().all(|l| l.len() <= 40));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let text = plain("日".repeat(30));
        let lines: Vec<usize> = drawn(40, 0, 0, &[text]).lines().map(|l| l.width()).collect();
        assert_eq!(lines, [40, 20]);
    }

    #[test]
    fn a_word_may_have_several_inks() {
        let mut canvas = Canvas::new(40, true);
        canvas.paragraph(0, 0, &[bold("my disk"), plain(": sda")]);
        assert_eq!(canvas.finish(), "\x1b[1mmy disk\x1b[0m: sda\n");
    }

    #[test]
    fn a_long_command_goes_on_behind_a_backslash_but_not_within_quotes() {
        let mut canvas = Canvas::new(50, false);
        canvas.command(4, &plain("whyslow try net.ipv4.tcp_rmem='4096 131072 6291456' --metric x"));
        let expected = "    whyslow try \\\n      net.ipv4.tcp_rmem='4096 131072 6291456' \\\n      --metric x\n";
        assert_eq!(canvas.finish(), expected);
    }

    /// Splits a drawn command into words as a shell does.
    fn pasted(drawn: &str) -> Vec<String> {
        let script = format!("set -- {drawn}\nprintf '%s\\n' \"$@\"");
        let out = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_command_with_a_word_longer_than_a_line_fits_and_stays_the_same() {
        let pids = (100_000..100_012).map(|pid| pid.to_string()).collect::<Vec<_>>().join(",");
        let long = "x ".repeat(40);
        for command in [
            format!("whyslow try process.nice@{pids}=10 --metric cpu.waiting_normal"),
            format!("whyslow tune set 'a.b={long}' c=d"),
            format!("whyslow tune set \"a.b={long}\" c=d"),
            format!("cat {}\\ b", "y".repeat(33)),
        ] {
            let mut canvas = Canvas::new(40, false);
            canvas.command(4, &plain(&command));
            let drawn = canvas.finish();
            assert!(drawn.lines().all(|line| line.width() <= 40), "{drawn}");
            assert_eq!(pasted(&drawn), pasted(&command), "{drawn}");
        }
    }

    #[test]
    fn a_paragraph_of_so_many_lines_ends_in_an_ellipsis() {
        let mut canvas = Canvas::new(40, false);
        canvas.at_most(2, 0, 2, &[plain("word ".repeat(40))]);
        let drawn = canvas.finish();
        assert_eq!(drawn.lines().count(), 2, "{drawn}");
        assert!(drawn.ends_with("…\n") && drawn.lines().all(|line| line.width() <= 40), "{drawn}");
    }

    #[test]
    fn a_number_is_not_parted_from_its_unit() {
        let text = plain(format!("{} 62{NO_BREAK}%", "x".repeat(36)));
        assert_eq!(drawn(40, 0, 0, &[text]), format!("{}\n62 %\n", "x".repeat(36)));
    }
}
