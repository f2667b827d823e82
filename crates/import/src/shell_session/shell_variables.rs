//! Variables of the shell.

use crate::command::CommandLine;
use std::collections::BTreeMap;

/// Shell variables with plain values: `CG=/sys/fs/cgroup/system.slice/app.service`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellVariables(BTreeMap<String, String>);

impl ShellVariables {
    const MOST: usize = 30;
    const LONGEST: usize = 512;

    /// Sets the variables that a command line assigns.
    pub fn set(&mut self, line: &str) {
        let (commands, _) = CommandLine::each(line);
        for (name, value) in commands.iter().flat_map(CommandLine::assignments) {
            let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !name.is_empty();
            let is_plain = value.len() <= Self::LONGEST && !value.contains(['$', '`', '(', '"', '\'']);
            if is_name && is_plain && self.0.len() < Self::MOST {
                self.0.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    /// Expands the variables in a line: `cat $CG/io.stat`, `cat ${CG}/io.stat`.
    pub fn expanded(&self, line: &str) -> Option<String> {
        if self.0.is_empty() || !line.contains('$') {
            return None;
        }
        let mut text = String::new();
        let mut rest = line;
        while let Some((before, behind)) = rest.split_once('$') {
            text.push_str(before);
            let is_braced = behind.starts_with('{');
            let inner = behind.strip_prefix('{').unwrap_or(behind);
            let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
            let (name, after) = inner.split_at(end);
            let after = if is_braced { after.strip_prefix('}') } else { Some(after) };
            match self.0.get(name).zip(after) {
                Some((value, after)) => {
                    text.push_str(value);
                    rest = after;
                }
                None => {
                    text.push('$');
                    rest = behind;
                }
            }
        }
        text.push_str(rest);
        (text != line).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_stand_for_their_values() {
        let mut variables = ShellVariables::default();
        for line in ["$ CG=/sys/fs/cgroup/app", "# CGROUP=\"/sys/x\" D=$(ls) X=1", "$ vmstat interval=1"] {
            variables.set(line);
        }
        let expanded = |line: &str| variables.expanded(line);
        assert_eq!(
            expanded("# cat $CG/io.max ${CGROUP}/a $CGROUP/b $D $CGX ${CG").as_deref(),
            Some("# cat /sys/fs/cgroup/app/io.max /sys/x/a /sys/x/b $D $CGX ${CG")
        );
        assert_eq!((expanded("$ vmstat 1"), expanded("# echo $interval")), (None, None));
    }
}
