//! Command line as it was typed: with variables, and possibly over several lines.

use crate::command::CommandLine;
use crate::formats::{begins_with_comment, command_of};
use crate::lines::Lines;
use crate::shell_session::ShellVariables;

/// Minimum columns at which mail programs wrap, and maximum lines of a continued command.
const NARROWEST: usize = 60;
const MOST_CONTINUED: usize = 12;

#[derive(Debug, PartialEq)]
pub struct TypedCommand {
    pub command: CommandLine,
    /// First line, with the values of variables instead of their names.
    pub text: String,
    /// Variables of the shell after the command.
    pub variables: ShellVariables,
    /// Number of lines.
    pub lines: usize,
}

impl TypedCommand {
    /// Parses the command line that begins at the next line. `variables` are those set before it.
    pub fn peek(lines: &mut Lines<'_>, variables: &ShellVariables) -> Option<Self> {
        let line = lines.peek(0)?;
        let command = command_of(line.trim_start())?;
        let text = line.to_owned();
        if begins_with_comment(lines) {
            return None;
        }
        let mut variables = variables.clone();
        variables.set(&text);
        let expanded = variables.expanded(&text);
        let command = expanded.as_deref().and_then(|text| command_of(text.trim_start())).unwrap_or(command);
        let text = expanded.unwrap_or(text);
        let (command, lines) = continued(lines, &text).unwrap_or((command, 1));
        Some(Self { command, text, variables, lines })
    }
}

/// Joins a command line with its continuation lines. Returns the number of lines too, or `None` if the command has only one.
fn continued(lines: &mut Lines<'_>, text: &str) -> Option<(CommandLine, usize)> {
    let mut joined = text.trim().to_owned();
    let mut count = 1;
    while let Some(next) = lines.peek(count).filter(|next| count <= MOST_CONTINUED && goes_on(&joined, next)) {
        let next = next.trim();
        // The shell prints this before a continuation line.
        let next = next.strip_prefix("> ").unwrap_or(next);
        joined = format!("{} {next}", joined.trim_end_matches('\\').trim_end());
        count += 1;
    }
    let command = command_of(&joined).filter(|_| count > 1)?;
    Some((command, count))
}

/// Returns true if a command line continues on the next line: after a backslash, or because a mail program wrapped it before an
/// option that would not have fitted.
fn goes_on(command: &str, next: &str) -> bool {
    let is_option = |word: &str| {
        let name = word.split('=').next().unwrap_or_default();
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        // `bs=1M` continues with operands of its kind; output may begin like that too.
        let is_operand = || word.contains('=') && command.contains('=');
        is_name && (word.starts_with('-') && name.bytes().any(|b| b.is_ascii_alphabetic()) || is_operand())
    };
    let first = next.split_whitespace().next().unwrap_or_default();
    let would_not_fit = command.len() + first.len() >= NARROWEST;
    command.ends_with('\\') || would_not_fit && !first.is_empty() && next.split_whitespace().all(is_option)
}
