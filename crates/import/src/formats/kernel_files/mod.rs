//! Files of /proc and /sys that were printed with their names: by grep, head and tail, by cat at a prompt, or by a loop that
//! prints the name first. They are collected for the readers of the live kernel, like the files of an archive.

mod file_names;
mod own_lines;
#[cfg(test)]
mod tests;

pub use file_names::is_relative;

use crate::banner::Banner;
use crate::kernel_file::{KernelFile, canonical, file_path, is_one_line};
use crate::prelude::*;
use crate::printed_files::{PRINTERS, PrintedFiles, absolute};
use crate::table::is_sentence;
use file_names::{heading, named_line, relative_heading, relative_line};
use own_lines::{MOST_LINES, lines_of};

pub const FORMAT: Format = Format {
    name: "files of /proc and /sys",
    versions: "printed with their names: grep -H . FILES, head or tail -n +1 FILES, cat FILE at a prompt, echo FILE and cat FILE; cpu.stat and memory.events of a control group without it",
    shows: "what a copy of /proc and /sys shows: settings of queues, clock frequency, memory and the kernel; counts since boot",
    lacks: "rates, of a file that is printed once or without times; then, of a file that comes twice, which of the two is in use",
    starts: |lines| {
        lines.next_is(|text| named_line(text).is_some() || heading(text).is_some())
            || lone_path(lines).is_some()
            || unnamed_table(lines).is_some()
    },
    read,
    ..Format::NEW
};

/// Returns true if the next line may be the first of these files. With several commands on a line, other output may come
/// first.
pub fn begins_next(lines: &mut Lines<'_>, files: &PrintedFiles) -> bool {
    let known = match files {
        PrintedFiles::Of(paths) => {
            paths.first().filter(|path| !is_one_line(path)).and_then(|path| lines_of(lines, 0, path))
        }
        _ => None,
    };
    known.is_some_and(|count| count > 0) || (lines.next_is(is_content) && !another_output_starts(lines, FORMAT.name))
}

/// Returns true if the next lines are certainly those of these files, and not of others.
pub fn are_next(lines: &mut Lines<'_>, files: &PrintedFiles) -> bool {
    let PrintedFiles::Of(paths) = files else { return false };
    let path = paths.first().filter(|path| !is_one_line(path));
    path.and_then(|path| lines_of(lines, 0, path)).is_some_and(|count| count > 0)
}

/// Returns a path alone on a line, if its content follows; a list of paths does not count.
fn lone_path(lines: &mut Lines<'_>) -> Option<String> {
    let path = lines.peek(0).and_then(|text| file_path(text.trim_end_matches(':')))?.to_owned();
    lines.peek(1).is_some_and(|next| is_content(next) && file_path(next.trim()).is_none()).then_some(path)
}

/// Returns the path of a file that the words of its lines identify; of a control group's, the group is unknown.
fn unnamed_table(lines: &mut Lines<'_>) -> Option<&'static str> {
    const TABLES: [(&[&str], &str); 4] = [
        (&["nr_periods", "nr_throttled", "throttled_time"], "/sys/fs/cgroup/cpu/container/cpu.stat"),
        (&["nr_periods", "nr_throttled", "throttled_usec"], "/sys/fs/cgroup/container/cpu.stat"),
        (&["usage_usec", "user_usec", "system_usec"], "/sys/fs/cgroup/container/cpu.stat"),
        (&["low", "high", "max", "oom"], "/sys/fs/cgroup/container/memory.events"),
    ];
    let is_row = |lines: &mut Lines<'_>, at: usize, key: &str| {
        lines
            .peek(at)
            .and_then(|line| line.split_once(' '))
            .is_some_and(|(k, count)| k == key && number(count).is_some())
    };
    if lines.next_is(|line| line.starts_with("sockets: used ")) {
        return Some("/proc/net/sockstat");
    }
    let found = TABLES.iter().find(|(keys, _)| keys.iter().enumerate().all(|(at, key)| is_row(lines, at, key)));
    found.map(|(_, path)| *path)
}

/// Returns true if a line may be the first of a file.
fn is_content(text: &str) -> bool {
    !text.trim().is_empty() && begins_nothing_else(text) && !is_message(text) && !is_sentence(text)
}

/// Returns true if a line is the error message of a program that cannot print a file.
pub fn is_message(text: &str) -> bool {
    PRINTERS.iter().chain(&["grep"]).any(|p| text.strip_prefix(p).is_some_and(|rest| rest.starts_with(": ")))
}

fn begins_nothing_else(text: &str) -> bool {
    let text = text.trim_start();
    !is_command(text)
        && named_line(text).is_none()
        && heading(text).is_none()
        && relative_heading(text).is_none()
        && Banner::read(text).is_none()
        && clock::date_line(text).is_none()
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    match context.files() {
        Some(PrintedFiles::Of(paths)) => return printed(lines, paths, context.prints_in_steps(), run),
        Some(PrintedFiles::Unnamed) => {
            let refusal = lines.refuse(GIVE_NAMES);
            lines.skip(1);
            return Err(Refusal { found: "the values of several".into(), described: true, ..refusal });
        }
        Some(PrintedFiles::Below(folder)) => return below(lines, folder, run),
        None => {}
    }
    if lines.next_is(|text| named_line(text).is_some()) {
        return named_lines(lines, run);
    }
    if let Some(path) = unnamed_table(lines) {
        let count = lines_of(lines, 0, path).unwrap_or(1);
        run.kernel_files.extend(take(lines, path, count));
        return Ok(());
    }
    let path = lines.peek(0).and_then(heading).map(str::to_owned).or_else(|| lone_path(lines));
    lines.skip(1);
    // Files that a format reads as text are left to that format.
    if let Some(path) = path
        && (is_one_line(&path) || !another_output_starts(lines, FORMAT.name))
        && lines.next_is(is_content)
    {
        let file = content(lines, path);
        run.kernel_files.push(file);
    }
    Ok(())
}

const GIVE_NAMES: &str = "the name of the file before each value (grep -H . FILES)";

/// Reads lines with names. Consecutive lines of one file belong together.
fn named_lines(lines: &mut Lines<'_>, run: &mut ToolRun) -> ReadResult {
    while let Some(line) = lines.take_past_blanks_if(|text| named_line(text).is_some()) {
        let Some((path, value)) = named_line(&line.text) else { break };
        match run.kernel_files.last_mut().filter(|last| last.path == canonical(path) && !is_one_line(path)) {
            Some(last) => last.push(line.number, value),
            None => run.kernel_files.push(KernelFile::new(path, line.number, value)),
        }
    }
    Ok(())
}

/// Reads the contents of files without their names. If they are `beside` the output of other commands, a file ends with the
/// last of its own lines.
fn printed(lines: &mut Lines<'_>, paths: &[String], beside: bool, run: &mut ToolRun) -> ReadResult {
    let mut paths = paths.to_vec();
    // The rest of a wrapped command line.
    let are_paths =
        |text: &str| !text.trim().is_empty() && text.split_whitespace().all(|word| file_path(word).is_some());
    while let Some(rest) = lines.take_if(are_paths) {
        paths.extend(rest.text.split_whitespace().map(str::to_owned));
    }
    if let [path] = &paths[..]
        && (!beside || lines_of(lines, 0, path).is_none())
    {
        let file = content(lines, path.clone());
        run.kernel_files.push(file);
        return Ok(());
    }
    let mut counts = Vec::new();
    let mut at = 0;
    for path in &paths {
        let count = lines_of(lines, at, path);
        at += count.unwrap_or(0);
        counts.push(count);
    }
    let is_filled = !beside && lines.peek(at).is_some_and(is_content);
    let counts: Option<Vec<usize>> = counts.into_iter().collect();
    let Some(counts) = counts.filter(|_| !is_filled && at > 0) else {
        let refusal = lines.refuse(GIVE_NAMES);
        while lines.take_if(is_content).is_some() {}
        lines.skip(usize::from(lines.number() == refusal.line));
        return Err(Refusal { found: "other lines than one of each".into(), described: true, ..refusal });
    };
    for (path, count) in paths.into_iter().zip(counts) {
        run.kernel_files.extend(take(lines, &path, count));
    }
    Ok(())
}

/// Takes a file of this many lines.
fn take(lines: &mut Lines<'_>, path: &str, count: usize) -> Option<KernelFile> {
    if count == 0 {
        return None;
    }
    let first = lines.take()?;
    let mut file = KernelFile::new(path, first.number, &first.text);
    for _ in 1..count {
        let line = lines.take()?;
        file.push(line.number, &line.text);
    }
    Some(file)
}

/// Reads files below a folder, with their names before each file or before each of its lines.
fn below(lines: &mut Lines<'_>, folder: &str, run: &mut ToolRun) -> ReadResult {
    let path_of = |name: &str| absolute(name, Some(folder)).and_then(|path| file_path(&path).map(str::to_owned));
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        if let Some(name) = relative_heading(text) {
            let path = path_of(name);
            lines.skip(blanks + 1);
            if let Some(path) = path
                && lines.next_is(is_content)
            {
                let file = content(lines, path);
                run.kernel_files.push(file);
            }
        } else if let Some((path, value)) =
            relative_line(text).and_then(|(name, value)| Some((path_of(name)?, value.to_owned())))
            && !is_command(text)
        {
            lines.skip(blanks);
            let number = lines.number();
            match run.kernel_files.last_mut().filter(|last| last.path == canonical(&path) && !is_one_line(&path)) {
                Some(last) => last.push(number, &value),
                None => run.kernel_files.push(KernelFile::new(&path, number, &value)),
            }
            lines.skip(1);
        } else {
            break;
        }
    }
    Ok(())
}

/// Takes the content of a file: at least the next line, up to a blank line. After a blank line, a file of records continues
/// with the word that it began with.
fn content(lines: &mut Lines<'_>, path: String) -> KernelFile {
    let number = lines.number();
    let first = lines.take().map(|line| line.text).unwrap_or_default();
    let mut file = KernelFile::new(&path, number, &first);
    if is_one_line(&path) {
        return file;
    }
    let key = first.split_whitespace().next().unwrap_or_default().to_owned();
    for _ in 0..MOST_LINES {
        let Some((blanks, text)) = lines.peek_past_blanks(0) else { break };
        let goes_on = if blanks == 0 { is_content(text) } else { text.split_whitespace().next() == Some(&key) };
        if !goes_on {
            break;
        }
        (0..blanks).for_each(|_| file.push(number, ""));
        lines.skip(blanks);
        if let Some(line) = lines.take() {
            file.push(line.number, &line.text);
        }
    }
    file
}
