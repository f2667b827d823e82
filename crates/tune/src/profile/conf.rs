//! The syntax of tuned.conf: that of Python's ConfigParser with `=` alone between name and value, `#` and `;` for lines of
//! comment, ` #` for what follows a value, and values that go on in lines set in deeper. The last of equal names counts.

/// A section, its options in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) options: Vec<Setting>,
}

/// An option of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) value: String,
    /// The comment that stands above it.
    pub(super) comment: String,
}

impl Section {
    /// Sets an option, in the place it has.
    pub(super) fn set(&mut self, setting: Setting) {
        match self.options.iter_mut().find(|option| option.name == setting.name) {
            Some(option) => *option = setting,
            None => self.options.push(setting),
        }
    }

    /// Takes an option out.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.options.iter().position(|option| option.name == name)?;
        Some(self.options.remove(at).value)
    }
}

/// The sections of a file.
///
/// # Errors
/// The line that makes no sense.
pub(super) fn parse(text: &str) -> Result<Vec<Section>, String> {
    let mut reader = Reader::default();
    for (number, line) in text.lines().enumerate() {
        reader.line(line).map_err(|why| format!("line {}: {why}", number + 1))?;
    }
    Ok(reader.finish())
}

#[derive(Default)]
struct Reader {
    sections: Vec<Section>,
    /// The section that is being read, by its place.
    at: Option<usize>,
    /// The option whose value may go on, and how far it is set in.
    open: Option<(Setting, usize)>,
    comment: Vec<String>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let text = line.trim();
        if let Some(comment) = text.strip_prefix(['#', ';']) {
            self.comment.push(comment.trim().to_owned());
            return Ok(());
        }
        let text = without_comment(text);
        if text.is_empty() {
            // An empty line parts a comment from what does not belong to it; in a value it is kept.
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

    /// A line that begins a section or an option.
    fn start(&mut self, text: &str, depth: usize) -> Result<(), String> {
        self.close();
        if let Some(name) = text.strip_prefix('[').and_then(|rest| rest.rsplit_once(']')).map(|(name, _)| name) {
            let known = self.sections.iter().position(|section| section.name == name);
            self.at = known.or_else(|| {
                self.sections.push(Section { name: name.to_owned(), options: Vec::new() });
                Some(self.sections.len() - 1)
            });
            self.comment.clear();
            return Ok(());
        }
        if self.at.is_none() {
            return Err(format!("'{text}' stands before the first [section]"));
        }
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("'{text}' is neither [section] nor name=value"))?;
        let comment = std::mem::take(&mut self.comment).join(" ");
        self.open = Some((Setting { name: name.trim().to_owned(), value: value.trim().to_owned(), comment }, depth));
        Ok(())
    }

    fn close(&mut self) {
        if let (Some((setting, _)), Some(at)) = (self.open.take(), self.at) {
            self.sections[at].set(setting);
        }
    }

    fn finish(mut self) -> Vec<Section> {
        self.close();
        self.sections
    }
}

/// A `#` begins a comment where it stands at the start or behind a blank.
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
        assert_eq!(parse("x=1").unwrap_err(), "line 1: 'x=1' stands before the first [section]");
        assert_eq!(parse("[a]\nx\n").unwrap_err(), "line 2: 'x' is neither [section] nor name=value");
    }

    proptest! {
        #[test]
        fn anything_is_survived(text in "[\\[\\]a=# \n;\\\\${}:]{0,60}") {
            let _ = parse(&text);
        }
    }
}
