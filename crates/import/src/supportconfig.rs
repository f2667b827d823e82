//! Files of SUSE's supportconfig: sections of commands and files, each below a line that says what it is.

use crate::command::CommandLine;
use crate::lines::Lines;

/// Maximum number of lines of the title, which says what the file is and how private it is.
const MOST_TITLE: usize = 30;

/// Returns the kind of a section: `Command` for `#==[ Command ]======================================#`.
pub fn section(line: &str) -> Option<&str> {
    let (kind, rest) = line.trim_end().strip_prefix("#==[ ")?.split_once(" ]=")?;
    (rest.ends_with("=#") && rest.trim_end_matches('#').bytes().all(|b| b == b'=')).then_some(kind)
}

/// Returns the command that would print the same file, from the line below `#==[ Configuration File ]===#`: `# /proc/meminfo`.
pub fn printed_file(kind: &str, line: &str) -> Option<CommandLine> {
    let path = line.strip_prefix("# /")?.split_whitespace().next()?;
    kind.ends_with("File").then(|| CommandLine::at_prompt(&format!("# cat /{path}")))?
}

/// Returns the number of lines in the title, which stands between two rules, if it begins at the next line.
pub fn title(lines: &mut Lines<'_>) -> Option<usize> {
    let is_rule = |line: &str| line.len() >= 40 && line.bytes().all(|b| b == b'=');
    lines.next_is(is_rule).then_some(())?;
    let is_own = (1..4).any(|at| lines.peek(at).is_some_and(|line| line.contains("Supportconfig")));
    let end = (1..MOST_TITLE).find(|at| lines.peek(*at).is_some_and(is_rule))?;
    is_own.then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_and_their_files() {
        assert_eq!(section("#==[ Command ]======================================#"), Some("Command"));
        assert_eq!(section("#==[ Configuration File ]===========================#"), Some("Configuration File"));
        assert_eq!(section("#==[ x ]== y =#"), None);
        let command = printed_file("Log File", "# /var/log/messages - Last 500 Lines").unwrap();
        assert_eq!((command.program(), command.operands().next()), ("cat", Some("/var/log/messages")));
        assert_eq!(printed_file("Command", "# /usr/bin/vmstat 1 4"), None);
    }

    #[test]
    fn the_title_stands_between_rules() {
        let rule = "=".repeat(77);
        let text = format!(
            "{rule}\n                     Supportutils - Supportconfig\n          Script Version: 3.2.8\n\n{rule}\n#==[ x ]=#\n"
        );
        assert_eq!(title(&mut Lines::new("x", text.as_bytes())), Some(5));
        let text = text.replace("Supportconfig", "Report");
        assert_eq!(title(&mut Lines::new("x", text.as_bytes())), None);
    }
}
