//! The target of a change: a tunable, and the instance that it belongs to; and the files of these names.

use std::fmt;
use std::str::FromStr;

/// A tunable and its instance: `vm.swappiness`, `disk.read_ahead_kb@sda`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeTarget {
    /// The tunable, a sysctl, or a path under /sys or /proc/sys.
    pub name: String,
    /// The instance; `None` if there is only one.
    pub instance: Option<String>,
}

impl ChangeTarget {
    /// Returns a tunable of an instance.
    pub fn new(name: &str, instance: Option<&str>) -> Self {
        Self { name: name.to_owned(), instance: instance.map(str::to_owned) }
    }

    /// Returns another tunable of the same instance.
    pub(crate) fn sibling(&self, name: &str) -> Self {
        Self::new(name, self.instance.as_deref())
    }
}

impl fmt::Display for ChangeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.instance {
            Some(instance) => write!(f, "{}@{instance}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

impl FromStr for ChangeTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, instance) = match text.split_once('@') {
            Some((name, instance)) => (name, Some(instance)),
            None => (text, None),
        };
        if name.is_empty() || instance.is_some_and(str::is_empty) {
            return Err(format!(
                "'{text}': a tunable is named as NAME or NAME@THING, such as vm.swappiness or disk.scheduler@sda"
            ));
        }
        Ok(Self::new(name, instance))
    }
}

/// Returns the file, relative to the root, of an absolute path or the name of a sysctl.
pub(crate) fn file_of(name: &str) -> Result<String, String> {
    let path = match name.strip_prefix('/') {
        Some(path) => path.to_owned(),
        None if name.contains(['.', '/']) => sysctl_path(name),
        None => return Err(format!("'{name}' is not in the catalogue; 'whyslow tune list' lists it")),
    };
    let is_plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !is_plain || !(path.starts_with("sys/") || path.starts_with("proc/sys/")) {
        return Err(format!("'{name}': only files under /sys and /proc/sys are settings"));
    }
    Ok(path)
}

/// Converts a name as sysctl(8) does: the first separator decides which of `.` and `/` separates components; the other is literal
/// then.
pub(crate) fn sysctl_path(name: &str) -> String {
    let is_path = name.find(['.', '/']).is_some_and(|at| name.as_bytes()[at] == b'/');
    format!("proc/sys/{}", if is_path { name.to_owned() } else { swapped(name) })
}

/// Swaps dots and slashes.
fn swapped(text: &str) -> String {
    let swapped = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    text.chars().map(swapped).collect()
}

/// Returns the name of a file that the catalogue does not have: the name of the sysctl, or else its path.
pub(crate) fn name_of(path: &str) -> String {
    match path.strip_prefix("proc/sys/") {
        Some(rest) => swapped(rest),
        None => format!("/{path}"),
    }
}

/// Fills a template with an instance: `{}` is its name, `{0}` and `{1}` the parts of a name with a slash.
pub(crate) fn filled(template: &str, name: &str) -> String {
    let (first, second) = name.split_once('/').unwrap_or((name, ""));
    template.replace("{0}", first).replace("{1}", second).replace("{}", name)
}

/// Matches a path against a template. Returns the instance that `{}`, or `{0}` and `{1}`, stand for, or `Some(None)` without
/// placeholders.
pub(crate) fn captured(template: &str, path: &str) -> Option<Option<String>> {
    let (mut parts, mut words) = (Vec::new(), path.split('/'));
    for part in template.split('/') {
        let word = words.next()?;
        match part {
            "{}" | "{0}" | "{1}" => parts.push(word),
            _ if part == word => {}
            _ => return None,
        }
    }
    words.next().is_none().then(|| (!parts.is_empty()).then(|| parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::ChangeTarget;

    #[test]
    fn a_thing_may_have_any_name() {
        for text in ["vm.swappiness", "disk.scheduler@sda", "interface.mtu@eth0.100", "cgroup.cpu.max@/a@b"] {
            assert_eq!(text.parse::<ChangeTarget>().unwrap().to_string(), text);
        }
        assert_eq!("a@b@c".parse::<ChangeTarget>().unwrap().instance.as_deref(), Some("b@c"));
        assert!("@sda".parse::<ChangeTarget>().is_err());
        assert!("disk.scheduler@".parse::<ChangeTarget>().is_err());
    }
}
