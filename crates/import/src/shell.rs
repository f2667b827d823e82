//! Splits command lines as a shell does, as far as quotes, separators, pipes and redirections go. Does not follow
//! substitutions.

/// A command with its words, without quotes, and the destination of its output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellCommand {
    pub words: Vec<String>,
    /// Commands that the output is piped through, each as its words.
    pub filters: Vec<Vec<String>>,
    /// Files that the output is redirected to.
    pub targets: Vec<String>,
    /// Whether a word depends on the output of another command: `$(nproc)`.
    pub has_substitution: bool,
}

/// Parts of a command line.
#[derive(Debug, PartialEq, Eq)]
enum Token<'t> {
    Word(String),
    Pipe,
    Redirection,
    /// `;`, `&&`, `||` or `&`, and its byte offset in the line.
    Separator(&'t str, usize),
}

/// Returns the commands on a line as written, including those of a group: `(date; vmstat) | ts`.
pub fn commands(line: &str) -> Vec<&str> {
    let (mut commands, mut begin) = (Vec::new(), 0);
    for token in tokens(line) {
        if let Token::Separator(text, at) = token {
            commands.push(&line[begin..at]);
            begin = at + text.len();
        }
    }
    commands.push(&line[begin..]);
    commands.into_iter().map(ungrouped).filter(|command| !command.is_empty()).collect()
}

/// Removes the parenthesis that opens a group before a command, or closes one after it.
fn ungrouped(command: &str) -> &str {
    let command = command.trim();
    let inner = command.trim_start_matches('(').trim_start();
    match inner.strip_suffix(')') {
        Some(own) if !own.contains('(') => own.trim_end(),
        _ => inner,
    }
}

/// Parses the first command on a line.
pub fn command(line: &str) -> ShellCommand {
    let mut command =
        ShellCommand { has_substitution: line.contains("$(") || line.contains('`'), ..Default::default() };
    let mut is_target = false;
    for token in tokens(line) {
        match token {
            Token::Word(word) if is_target => {
                command.targets.push(word);
                is_target = false;
            }
            Token::Word(word) => command.filters.last_mut().unwrap_or(&mut command.words).push(word),
            Token::Pipe => command.filters.push(Vec::new()),
            Token::Redirection => is_target = true,
            Token::Separator(..) => break,
        }
    }
    command
}

/// Splits a line into tokens. A quote that is not closed is an apostrophe.
fn tokens(line: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut word) = (Vec::new(), None::<String>);
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let at = line.len() - rest.len();
        rest = &rest[c.len_utf8()..];
        match c {
            '\'' | '"' => {
                let own = word.get_or_insert_default();
                match rest.split_once(c) {
                    Some((quoted, behind)) => {
                        own.push_str(quoted);
                        rest = behind;
                    }
                    None => own.push(c),
                }
            }
            '\\' => {
                let next = rest.chars().next();
                word.get_or_insert_default().extend(next);
                rest = &rest[next.map_or(0, char::len_utf8)..];
            }
            '|' if !rest.starts_with('|') => {
                tokens.extend(word.take().map(Token::Word));
                // `|&` pipes stderr as well.
                rest = rest.strip_prefix('&').unwrap_or(rest);
                tokens.push(Token::Pipe);
            }
            '>' | '<' => {
                // The number of a file descriptor is not a word: `2>/dev/null`, `2>&1`.
                tokens.extend(word.take().filter(|word| !matches!(&**word, "1" | "2" | "&")).map(Token::Word));
                rest = rest.trim_start_matches(['>', '<', '&', '(']);
                tokens.push(Token::Redirection);
            }
            '&' if rest.starts_with('>') => {}
            ';' | '&' | '|' => {
                tokens.extend(word.take().map(Token::Word));
                let length = if c != ';' && rest.starts_with(c) { 2 } else { 1 };
                rest = &rest[length - 1..];
                tokens.push(Token::Separator(&line[at..at + length], at));
            }
            // End of a group, unless the word also contains its beginning.
            ')' if word.as_ref().is_some_and(|word| !word.contains('(')) && is_end(rest) => {
                tokens.extend(word.take().map(Token::Word));
            }
            c if c.is_whitespace() => tokens.extend(word.take().map(Token::Word)),
            c => word.get_or_insert_default().push(c),
        }
    }
    tokens.extend(word.map(Token::Word));
    tokens
}

/// Returns true if a command ends before `rest`.
fn is_end(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.is_empty() || rest.starts_with([';', '&', '|', '>'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn separators_in_quotes_are_part_of_a_word() {
        assert_eq!(
            commands("date; egrep '^(a|b); ' x && sleep 5;cat \"y;z\" || true & uptime"),
            ["date", "egrep '^(a|b); ' x", "sleep 5", "cat \"y;z\"", "true", "uptime"]
        );
        assert_eq!(commands("it's 5 o'clock; really"), ["it's 5 o'clock", "really"]);
        assert_eq!(commands("don't; really"), ["don't", "really"]);
        assert_eq!(commands(" ; "), <[&str; 0]>::default());
        assert_eq!(commands("(date; sleep 5; uptime) | ts"), ["date", "sleep 5", "uptime) | ts"]);
        assert_eq!(commands("(date; uptime )"), ["date", "uptime"]);
        assert_eq!(commands("awk '{print f($1)}'"), ["awk '{print f($1)}'"]);
    }

    #[test]
    fn a_command_ends_at_a_pipe_and_its_words_have_no_quotes() {
        let parsed = command("iostat -x 5 2>/dev/null|egrep \"sdj|sdk\" 7 | head >> 'my file'; x");
        assert_eq!(parsed.words, ["iostat", "-x", "5"]);
        assert_eq!(parsed.filters, [vec!["egrep", "sdj|sdk", "7"], vec!["head"]]);
        assert_eq!(command("x |& tee y").filters, [["tee", "y"]]);
        assert_eq!(parsed.targets, ["/dev/null", "my file"]);
        assert_eq!(command("grep '^(a|b) ' --x=\"1 2\"").words, ["grep", "^(a|b) ", "--x=1 2"]);
        assert_eq!(command("x 2>&1 &>/dev/null").words, ["x"]);
        assert_eq!(command("a\\ b").words, ["a b"]);
        let last = command("ethtool -S eth0) | grep -c 'x)'");
        assert_eq!(
            (last.words, last.filters),
            (vec!["ethtool".into(), "-S".into(), "eth0".into()], vec![vec!["grep".into(), "-c".into(), "x)".into()]])
        );
        assert!(command("x $(nproc)").has_substitution);
    }

    proptest! {
        #[test]
        fn any_line_is_split(line in "[ a-z0-9'\"|&;<>$()\\\\ä]{0,60}") {
            let all = commands(&line);
            prop_assert!(all.iter().all(|command| line.contains(command)));
            all.iter().for_each(|text| drop(command(text)));
        }
    }
}
