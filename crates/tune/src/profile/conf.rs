//! The syntax of tuned.conf: that of Python's ConfigParser, but with only `=` between name and value, `#` and `;` for comment
//! lines, ` #` for a comment after a value, and indented continuation lines. The last of equal names counts.

use std::collections::HashMap;

/// A section with its options in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ConfigSection {
    pub(super) name: String,
    pub(super) options: Vec<ConfigOption>,
    /// Index of each option, because files may have hundreds of thousands.
    places: HashMap<String, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigOption {
    pub(super) name: String,
    pub(super) value: String,
    /// The comment above it.
    pub(super) comment: String,
}

impl ConfigSection {
    /// Sets an option; an existing one keeps its position.
    pub(super) fn set(&mut self, option: ConfigOption) {
        match self.places.get(&option.name) {
            Some(&at) => self.options[at] = option,
            None => {
                self.places.insert(option.name.clone(), self.options.len());
                self.options.push(option);
            }
        }
    }

    /// Returns an option by its name.
    pub(super) fn get(&self, name: &str) -> Option<&ConfigOption> {
        self.places.get(name).map(|&at| &self.options[at])
    }

    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.places.remove(name)?;
        let value = self.options.remove(at).value;
        for place in self.places.values_mut().filter(|place| **place > at) {
            *place -= 1;
        }
        Some(value)
    }

    /// Removes several options at once.
    pub(super) fn drop(&mut self, names: &[String]) {
        if names.iter().any(|name| self.places.contains_key(name)) {
            let names: std::collections::HashSet<&String> = names.iter().collect();
            self.options.retain(|option| !names.contains(&option.name));
            self.places = self.options.iter().enumerate().map(|(at, option)| (option.name.clone(), at)).collect();
        }
    }
}

/// Parses the sections of a file.
pub(super) fn parse(text: &str) -> Result<Vec<ConfigSection>, String> {
    let mut reader = ConfigParser::default();
    for (number, line) in text.lines().enumerate() {
        reader.line(line).map_err(|why| format!("line {}: {why}", number + 1))?;
    }
    Ok(reader.finish())
}

#[derive(Default)]
struct ConfigParser {
    sections: Vec<ConfigSection>,
    /// Index of each section, by its name.
    places: HashMap<String, usize>,
    /// Index of the section that is being read.
    at: Option<usize>,
    /// The option whose value may continue, and its indentation.
    open: Option<(ConfigOption, usize)>,
    comment: Vec<String>,
}

impl ConfigParser {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let text = line.trim();
        if let Some(comment) = text.strip_prefix(['#', ';']) {
            self.comment.push(comment.trim().to_owned());
            return Ok(());
        }
        let text = without_comment(text);
        if text.is_empty() {
            // An empty line separates a comment from what follows; within a value it is kept.
            if line.trim().is_empty() {
                self.comment.clear();
            }
            return Ok(());
        }
        let depth = line.len() - line.trim_start().len();
        match &mut self.open {
            Some((setting, own)) if depth > *own => {
                setting.value.push('\n');
                setting.value.push_str(text);
                Ok(())
            }
            _ => self.start(text, depth),
        }
    }

    /// Parses a line that begins a section or an option.
    fn start(&mut self, text: &str, depth: usize) -> Result<(), String> {
        self.close();
        if let Some(name) = text.strip_prefix('[').and_then(|rest| rest.rsplit_once(']')).map(|(name, _)| name) {
            let at = *self.places.entry(name.to_owned()).or_insert(self.sections.len());
            if at == self.sections.len() {
                self.sections.push(ConfigSection { name: name.to_owned(), ..ConfigSection::default() });
            }
            self.at = Some(at);
            self.comment.clear();
            return Ok(());
        }
        if self.at.is_none() {
            return Err("it comes before the first [section]".to_owned());
        }
        let (name, value) =
            text.split_once('=').ok_or_else(|| "it is neither a [section] nor name=value".to_owned())?;
        let comment = std::mem::take(&mut self.comment).join(" ");
        self.open =
            Some((ConfigOption { name: name.trim().to_owned(), value: value.trim().to_owned(), comment }, depth));
        Ok(())
    }

    fn close(&mut self) {
        if let (Some((setting, _)), Some(at)) = (self.open.take(), self.at) {
            self.sections[at].set(setting);
        }
    }

    fn finish(mut self) -> Vec<ConfigSection> {
        self.close();
        self.sections
    }
}

/// Removes a comment: a `#` begins one at the start or after a space.
fn without_comment(text: &str) -> &str {
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        if c == '#' && before.is_whitespace() {
            return text[..at].trim_end();
        }
        before = c;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(text: &str) -> Vec<(String, String)> {
        let sections = parse(text).unwrap();
        sections.into_iter().flat_map(|s| s.options).map(|o| (o.name, o.value)).collect()
    }

    #[test]
    fn the_syntax_is_configparsers() {
        let text = "; x\n[main]\nsummary=A: b = c # not this\n\n[sysctl]\n# why\nvm.swappiness =10\nvm.swappiness=20\nk=a#b\n[disk]\ndevices=sda,\n  sdb\nempty=\n[main]\ninclude=x\n";
        let sections = parse(text).unwrap();
        let names: Vec<&str> = sections.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["main", "sysctl", "disk"]);
        assert_eq!(
            values(text),
            [
                ("summary", "A: b = c"),
                ("include", "x"),
                ("vm.swappiness", "20"),
                ("k", "a#b"),
                ("devices", "sda,\nsdb"),
                ("empty", "")
            ]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
        assert_eq!(parse("[a]\n# reason\n# goes on\nx=1\ny=2\n").unwrap()[0].options[0].comment, "reason goes on");
        assert_eq!(parse("[a]\n# reason\n\nx=1\n").unwrap()[0].options[0].comment, "");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        // The error does not repeat the line, because the file may be any file.
        assert_eq!(parse("x=1").unwrap_err(), "line 1: it comes before the first [section]");
        assert_eq!(parse("[a]\nx\n").unwrap_err(), "line 2: it is neither a [section] nor name=value");
    }

    #[test]
    fn many_lines_take_time_in_proportion() {
        let lines = |each: &dyn Fn(usize) -> String| (0..300_000).map(each).collect::<String>();
        for text in [
            lines(&|n| format!("k{n}=v\n")),
            lines(&|n| format!("[s{n}]\nk=v\n")),
            lines(&|_| "# x\n".to_owned()),
            lines(&|_| "  goes on\n".to_owned()),
        ] {
            let start = std::time::Instant::now();
            parse(&format!("[a]\nk=v\n{text}")).unwrap();
            // Takes a second and a half rather than minutes; a busy machine is slower.
            assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
        }
    }

    proptest! {
        #[test]
        fn anything_is_survived(text in "[\\[\\]a=# \n;\\\\${}:]{0,60}") {
            let _ = parse(&text);
        }
    }
}
