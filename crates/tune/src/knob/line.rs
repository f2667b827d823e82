//! A setting that is a line of a file which the machine reads at boot; empty where there is no such line.

use super::{Handle, sorted};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use whyslow_model::tune::Unavailable;

/// One line, by what stands before and behind its value.
pub(super) struct Line {
    file: PathBuf,
    prefix: String,
    suffix: String,
    header: String,
}

impl Line {
    pub(super) fn new(file: PathBuf, prefix: String, suffix: String, header: String) -> Self {
        Self { file, prefix, suffix, header }
    }

    /// The file; empty where there is none.
    fn text(&self) -> io::Result<String> {
        match fs::read_to_string(&self.file) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()),
            other => other,
        }
    }

    fn value<'a>(&self, line: &'a str) -> Option<&'a str> {
        line.strip_prefix(&self.prefix)?.strip_suffix(&self.suffix)
    }

    /// The file with the line set to a value, or without it.
    fn with(&self, text: &str, value: &str) -> String {
        let header = if text.is_empty() { self.header.as_str() } else { "" };
        let mut lines: Vec<String> = header.lines().chain(text.lines()).map(str::to_owned).collect();
        let new = (!value.is_empty()).then(|| format!("{}{value}{}", self.prefix, self.suffix));
        match lines.iter().position(|line| self.value(line).is_some()) {
            Some(at) => drop(lines.splice(at..=at, new)),
            None => lines.extend(new),
        }
        lines.into_iter().map(|line| line + "\n").collect()
    }

    /// Replaces the file at once and for good: whoever reads it, and whenever the power fails, sees it before or after. A
    /// file in which our header alone is left is removed.
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
                // What is left of a draft is in nobody's way, but of no use either.
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

impl Handle for Line {
    fn read(&self) -> Result<String, Unavailable> {
        let text = self.text().map_err(|e| sorted(&self.file.display().to_string(), &e))?;
        Ok(text.lines().find_map(|line| self.value(line)).unwrap_or_default().to_owned())
    }

    fn write(&self, value: &str) -> Result<(), Unavailable> {
        let replaced = self.text().and_then(|text| self.replace(&self.with(&text, value)));
        replaced.map_err(|e| sorted(&self.file.display().to_string(), &e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(folder: &Path, key: &str) -> Line {
        Line::new(folder.join("d/99-x.conf"), format!("{key} = "), String::new(), "# ours\n".into())
    }

    #[test]
    fn a_line_comes_and_goes_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
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
    fn what_somebody_else_wrote_stays() {
        let folder = tempfile::tempdir().unwrap();
        let a = line(folder.path(), "a");
        fs::create_dir_all(a.file.parent().unwrap()).unwrap();
        fs::write(&a.file, "c = 5\n# a = 9").unwrap();
        a.write("1").unwrap();
        a.write("").unwrap();
        assert_eq!(fs::read_to_string(&a.file).unwrap(), "c = 5\n# a = 9\n");
    }
}
