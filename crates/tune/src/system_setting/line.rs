//! A setting that is a line of a file which the machine reads at boot; empty if there is no such line.

use super::{Handle, sorted};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use whyslow_documents::tune::Unavailable;

/// One line, identified by the text before and after its value; or several lines that are set together, each with one word of the
/// value.
pub(super) struct BootLine {
    file: PathBuf,
    prefix: String,
    suffix: String,
    header: String,
    more: Vec<String>,
}

impl BootLine {
    pub(super) fn new(file: PathBuf, prefix: String, suffix: String, header: String) -> Self {
        Self { file, prefix, suffix, header, more: Vec::new() }
    }

    /// Adds lines for the further words of a value.
    pub(super) fn with_more(self, more: &[String]) -> Self {
        Self { more: more.to_vec(), ..self }
    }

    /// Reads the file; empty if it does not exist.
    fn text(&self) -> io::Result<String> {
        match fs::read_to_string(&self.file) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()),
            other => other,
        }
    }

    fn value<'a>(&self, line: &'a str) -> Option<&'a str> {
        line.strip_prefix(&self.prefix)?.strip_suffix(&self.suffix)
    }

    /// Returns the value in the text of the file; empty if the line is missing.
    fn value_in(&self, text: &str) -> String {
        let Some(first) = text.lines().find_map(|line| self.value(line)) else { return String::new() };
        let more = self.more.iter().filter_map(|prefix| text.lines().find_map(|line| line.strip_prefix(prefix)));
        std::iter::once(first).chain(more).collect::<Vec<_>>().join(" ")
    }

    /// Formats the lines of a value; none if it is empty.
    fn lines_of(&self, value: &str) -> Vec<String> {
        if value.is_empty() {
            return Vec::new();
        }
        if self.more.is_empty() {
            return vec![format!("{}{value}{}", self.prefix, self.suffix)];
        }
        let prefixes = std::iter::once(&self.prefix).chain(&self.more);
        value.split(' ').zip(prefixes).map(|(word, prefix)| format!("{prefix}{word}{}", self.suffix)).collect()
    }

    /// Returns the text of the file with the line set to a value, or without it.
    fn with(&self, text: &str, value: &str) -> String {
        let header = if text.is_empty() { self.header.as_str() } else { "" };
        let is_further = |line: &&str| self.more.iter().any(|prefix| line.starts_with(prefix.as_str()));
        let kept = header.lines().chain(text.lines()).filter(|line| !is_further(line));
        let mut lines: Vec<String> = kept.map(str::to_owned).collect();
        let new = self.lines_of(value);
        match lines.iter().position(|line| self.value(line).is_some()) {
            Some(at) => drop(lines.splice(at..=at, new)),
            None => lines.extend(new),
        }
        lines.into_iter().map(|line| line + "\n").collect()
    }

    /// Replaces the file atomically and durably: readers see, and a power cut leaves, the old or the new one. Removes a file in
    /// which only our header is left.
    fn replace(&self, text: &str) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        if text == self.header {
            match fs::remove_file(&self.file) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        } else {
            let draft = self.file.with_extension("whyslow-draft");
            let written = write_through(&draft, text).and_then(|()| fs::rename(&draft, &self.file));
            if let Err(e) = written {
                // A leftover draft is harmless but useless.
                let _ = fs::remove_file(&draft);
                return Err(e);
            }
        }
        File::open(folder)?.sync_all()
    }
}

fn write_through(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

impl Handle for BootLine {
    fn read(&self) -> Result<String, Unavailable> {
        let text = self.text().map_err(|e| sorted(&self.file.display().to_string(), &e))?;
        Ok(self.value_in(&text))
    }

    fn write(&self, value: &str) -> Result<(), Unavailable> {
        let replaced = self.text().and_then(|text| self.replace(&self.with(&text, value)));
        replaced.map_err(|e| sorted(&self.file.display().to_string(), &e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(folder: &Path, key: &str) -> BootLine {
        BootLine::new(folder.join("d/99-x.conf"), format!("{key} = "), String::new(), "# ours\n".into())
    }

    #[test]
    fn a_line_comes_and_goes_and_others_stay() {
        let folder = whyslow_testing::folder();
        let (a, b) = (line(folder.path(), "a"), line(folder.path(), "b"));
        assert_eq!(a.read().unwrap(), "");
        a.write("1").unwrap();
        b.write("2 3").unwrap();
        a.write("4").unwrap();
        assert_eq!(fs::read_to_string(&a.file).unwrap(), "# ours\na = 4\nb = 2 3\n");
        assert_eq!((a.read().unwrap(), b.read().unwrap()), ("4".into(), "2 3".into()));
        a.write("").unwrap();
        assert_eq!(fs::read_to_string(&a.file).unwrap(), "# ours\nb = 2 3\n");
        b.write("").unwrap();
        assert!(!b.file.exists());
    }

    #[test]
    fn words_of_a_value_stand_in_lines_of_their_own() {
        let folder = whyslow_testing::folder();
        let file = folder.path().join("x.conf");
        let quota = BootLine::new(file.clone(), "CPUQuota=".into(), String::new(), "[Service]\n".into())
            .with_more(&["CPUQuotaPeriodSec=".to_owned()]);
        quota.write("25% 20ms").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "[Service]\nCPUQuota=25%\nCPUQuotaPeriodSec=20ms\n");
        assert_eq!(quota.read().unwrap(), "25% 20ms");
        fs::write(&file, "[Service]\nCPUQuota=150%\nMemoryMax=1\n").unwrap();
        assert_eq!(quota.read().unwrap(), "150%");
        quota.write("50% 10ms").unwrap();
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            "[Service]\nCPUQuota=50%\nCPUQuotaPeriodSec=10ms\nMemoryMax=1\n"
        );
        quota.write("150%").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "[Service]\nCPUQuota=150%\nMemoryMax=1\n");
        quota.write("").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "[Service]\nMemoryMax=1\n");
    }

    #[test]
    fn what_somebody_else_wrote_stays() {
        let folder = whyslow_testing::folder();
        let a = line(folder.path(), "a");
        fs::create_dir_all(a.file.parent().unwrap()).unwrap();
        fs::write(&a.file, "c = 5\n# a = 9").unwrap();
        a.write("1").unwrap();
        a.write("").unwrap();
        assert_eq!(fs::read_to_string(&a.file).unwrap(), "c = 5\n# a = 9\n");
    }
}
