//! Files of /proc and /sys that a command prints without their names.

use crate::command::CommandLine;
use crate::kernel_file::{file_path, group_file, is_one_line};

/// Programs that print files unchanged.
pub const PRINTERS: [&str; 5] = ["cat", "head", "tail", "more", "less"];
/// Files in which each protocol has two lines of its own: names and counts.
pub const COUNTERS: [&str; 2] = ["/proc/net/snmp", "/proc/net/netstat"];

/// Files whose contents a command prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrintedFiles {
    /// The contents of these files, one after the other.
    Of(Vec<String>),
    /// The contents of several files whose names the shell expanded.
    Unnamed,
    /// Files below this folder, printed with their names.
    Below(String),
}

impl PrintedFiles {
    /// Returns the files of a command that only prints files of /proc and /sys without their names. Relative names are files in
    /// `folder`.
    pub fn from_command(command: &CommandLine, folder: Option<&str>) -> Option<Self> {
        let program = command.program();
        let selects = command.is_selection();
        let operands: Vec<&str> = match program {
            _ if selects => {
                command.positional(&["-m", "-A", "-B", "-C"]).skip(usize::from(!command.has('e'))).collect()
            }
            _ if PRINTERS.contains(&program) => command.positional(&["-n", "-c"]).collect(),
            _ => return None,
        };
        // With several files, or a pattern of names, grep prints the names.
        if selects && (operands.len() != 1 || operands[0].contains(['*', '?', '[', '{'])) {
            return None;
        }
        let operands = operands.into_iter().filter_map(|word| absolute(word, folder)).flat_map(expanded);
        let operands: Vec<String> = operands.collect();
        // For files of other kinds, the readers need every line.
        let has_lone_lines = |path: &String| {
            path.starts_with("/sys/fs/cgroup/")
                || path.starts_with("/proc/pressure/")
                || COUNTERS.contains(&path.as_str())
        };
        let may_lack_lines = operands.iter().all(has_lone_lines);
        if !(command.is_plain() || (command.is_filtered() && may_lack_lines)) || (selects && !may_lack_lines) {
            return None;
        }
        // head and tail print the names of several files.
        if operands.len() > 1 && ["head", "tail"].contains(&program) {
            return None;
        }
        let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
        let is_kernels = |word: &&str| word.starts_with("/proc/") || word.starts_with("/sys/");
        if operands.is_empty() || !operands.iter().all(is_kernels) {
            return None;
        }
        let paths: Option<Vec<String>> = operands.iter().map(|word| file_path(word).map(str::to_owned)).collect();
        Some(paths.map_or(Self::Unnamed, Self::Of))
    }

    /// Adds the files that are printed directly after these. Returns them if some names are unknown.
    pub fn append(&mut self, more: Self) -> Option<Self> {
        match (self, more) {
            (Self::Of(paths), Self::Of(more)) => {
                paths.extend(more);
                None
            }
            (_, more) => Some(more),
        }
    }

    /// Returns true if it is one file that another format may read.
    pub fn is_of_proc(&self) -> bool {
        matches!(self, Self::Of(paths) if matches!(&paths[..], [path] if path.starts_with("/proc/") && !is_one_line(path)))
    }
}

/// Expands `/proc/pressure/{cpu,io}` as a shell does, and `/proc/pressure/*`, whose files are the same on every machine. Leaves
/// other patterns unchanged.
fn expanded(name: String) -> Vec<String> {
    if name == "/proc/pressure/*" {
        return ["cpu", "io", "irq", "memory"].map(|file| format!("/proc/pressure/{file}")).to_vec();
    }
    let braces = || {
        let (before, rest) = name.split_once('{')?;
        let (list, after) = rest.split_once('}')?;
        let is_plain = |part: &str| !part.contains(['{', '}']) && !part.contains("..");
        (list.contains(',') && is_plain(list) && !after.contains('{'))
            .then(|| list.split(',').map(|part| format!("{before}{part}{after}")).collect())
    };
    braces().unwrap_or_else(|| vec![name.clone()])
}

/// Converts a name to an absolute path, unless it is relative and `folder` is unknown.
pub fn absolute(name: &str, folder: Option<&str>) -> Option<String> {
    if name.starts_with('/') {
        return Some(name.to_owned());
    }
    if folder.is_none() {
        return group_file(name);
    }
    folder.map(|folder| format!("{}/{}", folder.trim_end_matches('/'), name.trim_start_matches("./")))
}

/// Returns the folder below /proc or /sys in which a command at a prompt leaves the shell: that of the prompt, unless the
/// command is cd.
pub fn folder_after(line: &str, before: Option<&str>) -> Option<String> {
    const ROOTS: [&str; 2] = ["/sys/", "/proc/"];
    let parts = ["# ", "$ "].iter().filter_map(|end| line.split_once(end)).min_by_key(|(prompt, _)| prompt.len());
    let (prompt, command) = parts.unwrap_or(("", line));
    let shown = ROOTS.iter().filter_map(|root| prompt.find(root)).min().map(|at| &prompt[at..]);
    let shown = shown.and_then(|path| path.split([']', ' ', '#', '$', '>']).next());
    let mut now = shown.or(before).map(str::to_owned);
    for target in command.split([';', '&']).filter_map(|part| part.trim().strip_prefix("cd ")) {
        // The names in it are plain: no `..`, no variables.
        let is_plain = |path: &String| file_path(&format!("{}/x", path.trim_end_matches('/'))).is_some();
        now = absolute(target.trim(), now.as_deref()).filter(is_plain);
    }
    now
}
