//! Prefixes of every line of a pasted output: indentation, a quotation mark, or a time stamp as printed by `ts` and journalctl.

use crate::clock::{MONTHS, date, time_of_day};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Margin {
    #[default]
    None,
    /// Up to this many bytes of white space.
    Indent(usize),
    /// Quotation mark: `| `, `: `
    Mark(char),
    /// List bullet: `- `, `  * `
    Bullet,
    /// Time stamp: `Nov 25 08:00:01 `, `2024-06-01T12:00:00+02:00 host vmstat[123]: `, `[12:00:00] `
    Stamp,
}

/// Quotation marks besides `>`.
const MARKS: [char; 3] = ['|', ':', '!'];

/// List bullets.
const BULLETS: [&str; 3] = ["- ", "* ", "\u{2022} "];

/// Length of `Jun  1 12:00:00`.
const SYSLOG: usize = 15;

impl Margin {
    /// Returns the margins that a line may have.
    pub fn candidates(line: &str) -> impl Iterator<Item = Self> + use<> {
        let indent = indentation(line);
        let mark = line.chars().next().filter(|c| MARKS.contains(c));
        let stamped = stamp(line) > 0;
        let listed = bullet(line) > 0;
        [
            (indent > 0).then_some(Self::Indent(indent)),
            mark.map(Self::Mark),
            stamped.then_some(Self::Stamp),
            listed.then_some(Self::Bullet),
        ]
        .into_iter()
        .flatten()
    }

    /// Returns the length of the margin of a line in bytes.
    pub fn length(self, line: &str) -> usize {
        match self {
            Self::None => 0,
            Self::Indent(most) => indentation(line).min(most),
            Self::Mark(mark) => line.strip_prefix(mark).map_or(0, |rest| 1 + usize::from(rest.starts_with(' '))),
            Self::Stamp => stamp(line),
            Self::Bullet => bullet(line),
        }
    }
}

/// Returns the length of the white space before a line.
pub fn indentation(line: &str) -> usize {
    line.bytes().take_while(|b| matches!(b, b' ' | b'\t')).count()
}

/// Returns the length of a list bullet with the white space around it; 0 if there is none.
fn bullet(line: &str) -> usize {
    let indent = indentation(line);
    let sign = BULLETS.iter().find(|sign| line[indent..].starts_with(**sign));
    sign.map_or(0, |sign| indent + sign.len() + indentation(&line[indent + sign.len()..]))
}

/// Returns the length of a time stamp at the start of a line, with the host and sender that may follow, and one space; 0 if
/// there is none.
fn stamp(line: &str) -> usize {
    let Some(length) = time_stamp(line).filter(|length| line.as_bytes().get(*length) == Some(&b' ')) else { return 0 };
    length + 1 + sender(&line[length + 1..])
}

/// Returns the length of `[12:00:00]`, `12:00:00`, `2024-06-01 12:00:00`, `2024-06-01T12:00:00Z`, `Jun  1 12:00:00` or
/// `1717236000.12`.
fn time_stamp(line: &str) -> Option<usize> {
    if let Some((inside, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (time_stamp(inside)? == inside.len()).then_some(inside.len() + 2);
    }
    let word = line.split(' ').next()?;
    if time_of_day(&[word]).is_some() || is_unix_time(word) || word.split_once('T').is_some_and(is_date_and_time) {
        return Some(word.len());
    }
    if date(word).is_some() {
        let time = line.get(word.len() + 1..)?.split(' ').next()?;
        return time_of_day(&[time]).is_some().then_some(word.len() + 1 + time.len());
    }
    let text = line.get(..SYSLOG).filter(|text| MONTHS.iter().any(|month| text.starts_with(month)))?;
    time_of_day(&[text.get(7..)?]).map(|_| SYSLOG)
}

fn is_date_and_time((day, time): (&str, &str)) -> bool {
    let time = time.split(['+', 'Z', ',', '.']).next().unwrap_or_default();
    date(day).is_some() && time_of_day(&[time]).is_some()
}

fn is_unix_time(word: &str) -> bool {
    let (seconds, fraction) = word.split_once('.').unwrap_or((word, ""));
    seconds.len() == 10
        && seconds.starts_with('1')
        && (seconds.bytes().chain(fraction.bytes())).all(|b| b.is_ascii_digit())
}

/// Returns the length of `host vmstat[123]: ` after a time; 0 if there is none.
fn sender(text: &str) -> usize {
    let mut words = text.split(' ');
    match (words.next(), words.next()) {
        (Some(host), Some(program)) if !host.is_empty() && !host.ends_with(':') && program.ends_with(':') => {
            (host.len() + program.len() + 2).min(text.len())
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_many_tools_are_found() {
        for prefix in [
            "12:00:00 ",
            "[12:00:00] ",
            "2024-06-01 12:00:00 ",
            "[2024-06-01 12:00:00] ",
            "2024-06-01T12:00:00+02:00 ",
            "2024-06-01T12:00:00.123456Z web vmstat[12]: ",
            "Jun  1 12:00:00 ",
            "Jun  1 12:00:00 web vmstat[12]: ",
            "1717236000 ",
            "1717236000.25 ",
        ] {
            for text in ["sda 1 2", "    procs memory", "avg-cpu:  %user"] {
                assert_eq!(Margin::Stamp.length(&format!("{prefix}{text}")), prefix.len(), "{prefix}{text}");
            }
        }
    }

    #[test]
    fn other_lines_have_no_stamp() {
        for line in ["sda 1 2", "", "12 1 2", "[12] x", "June was hot", "1.5 2", "12:00:00", "é 12:00:00 x"] {
            assert_eq!(Margin::Stamp.length(line), 0, "{line}");
        }
    }

    #[test]
    fn signs_of_lists_are_no_part_of_an_output() {
        for prefix in ["- ", "* ", "  -  ", "\u{2022} "] {
            assert_eq!(Margin::Bullet.length(&format!("{prefix}rx_errors: 5")), prefix.len(), "{prefix:?}");
        }
        assert_eq!([Margin::Bullet.length("-5 x"), Margin::Bullet.length("rx - 5")], [0, 0]);
    }

    #[test]
    fn indentation_is_removed_as_far_as_it_goes() {
        assert_eq!(Margin::Indent(4).length("      x"), 4);
        assert_eq!(Margin::Indent(4).length("  x"), 2);
        assert_eq!(Margin::Mark('|').length("| x"), 2);
        assert_eq!(Margin::candidates("    x").collect::<Vec<_>>(), [Margin::Indent(4)]);
    }
}
