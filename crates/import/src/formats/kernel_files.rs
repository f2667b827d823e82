//! Files of /proc and /sys that were printed with their names: by grep, head and tail, by cat at a prompt, or by a loop that
//! prints the name first. They are collected for the readers of the live kernel, like the files of an archive.

use crate::banner::Banner;
use crate::kernel_file::{KernelFile, canonical, file_path, is_one_line};
use crate::prelude::*;
use crate::printed_files::{COUNTERS, PRINTERS, PrintedFiles, absolute};
use crate::table::is_sentence;
use std::collections::BTreeSet;

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

/// Messages that a program or shell prints instead of a file's content.
const ERRORS: [&str; 6] = [
    "No such file or directory",
    "Permission denied",
    "Is a directory",
    "Invalid argument",
    "Input/output error",
    "Operation not permitted",
];
/// Maximum number of lines of one file: no reader needs more.
const MOST_LINES: usize = 50_000;

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

/// Returns the name in `==> memory.max <==`.
fn relative_heading(text: &str) -> Option<&str> {
    text.strip_prefix("==> ")?.strip_suffix(" <==").filter(|name| !name.starts_with('/'))
}

/// Splits `memory.max:max`, as grep prints it.
fn relative_line(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b));
    (is_name && !name.starts_with('/') && !value.is_empty() && !value.starts_with(' ')).then_some((name, value))
}

/// Returns true if a line names a file by its path below the folder of the last command.
pub fn is_relative(text: &str, context: OutputContext<'_>) -> bool {
    relative_heading(text).is_some() || context.command_of("grep").is_some() && relative_line(text).is_some()
}

/// Splits `/sys/block/sda/queue/nr_requests:128` into the file and a line of it.
fn named_line(text: &str) -> Option<(&str, &str)> {
    if !text.starts_with("/proc/") && !text.starts_with("/sys/") {
        return None;
    }
    let (path, value) = split_name(text)?;
    let value = value.strip_prefix([' ', '\t']).filter(|_| is_one_line(path)).unwrap_or(value);
    let is_error = ERRORS.iter().any(|error| value.trim() == *error);
    (!value.trim().is_empty() && !is_error).then_some((file_path(path)?, value))
}

/// Splits text at the first colon, or ` = `, that is not part of a bus address; bus addresses are enclosed by slashes.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    for component in text.split('/') {
        let to = from + component.len();
        if let Some(colon) = component.find(':').filter(|_| to == text.len() || !is_bus_address(component)) {
            return Some((&text[..from + colon], &text[from + colon + 1..]));
        }
        if component.contains(char::is_whitespace) {
            break;
        }
        from = to + 1;
    }
    text.split_once(" = ")
}

/// Returns true for `0000:00:1f.2`, `pci0000:00`, `2:0:0:1`, `1-1:1.0`.
fn is_bus_address(component: &str) -> bool {
    let numbers = component.strip_prefix("pci").unwrap_or(component).split([':', '.', '-']);
    let mut count = 0;
    let all_hexadecimal =
        numbers.inspect(|_| count += 1).all(|n| (1..=4).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_hexdigit()));
    all_hexadecimal && (count >= 3 || component.starts_with("pci"))
}

/// Returns the path in `==> /sys/block/sda/queue/nr_requests <==`, as head and tail print it.
fn heading(text: &str) -> Option<&str> {
    file_path(text.strip_prefix("==> ")?.strip_suffix(" <==")?)
}

/// Returns a path alone on a line, if its content follows; a list of paths does not count.
fn lone_path(lines: &mut Lines<'_>) -> Option<String> {
    let path = lines.peek(0).and_then(|text| file_path(text.trim_end_matches(':')))?.to_owned();
    lines.peek(1).is_some_and(|next| is_content(next) && file_path(next.trim()).is_none()).then_some(path)
}

/// Returns the path of a control group file that the words of its lines identify; the group is unknown.
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

/// Returns the number of lines from the `at`th on that belong to a file: one, or as many as have words that only this file has.
fn lines_of(lines: &mut Lines<'_>, at: usize, path: &str) -> Option<usize> {
    if is_one_line(path) {
        return lines.peek(at).is_some_and(is_content).then_some(1);
    }
    if COUNTERS.contains(&path) {
        return lines_of_counters(lines, at);
    }
    let name = path.rsplit('/').next()?;
    let is_pressure = path.contains("/proc/pressure/");
    // Only newer kernels have this file, which has a single line.
    if is_pressure && name == "irq" {
        return Some(usize::from(lines.peek(at).is_some_and(|line| line.starts_with("full avg"))));
    }
    let is_own: fn(&str) -> bool = match name {
        _ if name.ends_with(".pressure") || is_pressure => {
            |line| line.starts_with("some avg") || line.starts_with("full avg")
        }
        _ if name.contains(".events") && !name.starts_with("cgroup.") => |line| {
            const EVENTS: [&str; 8] =
                ["low", "high", "max", "oom", "oom_kill", "oom_group_kill", "sock_throttled", "fail"];
            line.split_once(' ').is_some_and(|(key, count)| EVENTS.contains(&key) && number(count).is_some())
        },
        "memory.stat" => |line| {
            let (key, count) = line.split_once(' ').unwrap_or_default();
            // These words begin the files that are printed next to it.
            let is_of_other =
                ["low", "some", "full"].contains(&key) || key.ends_with("_usec") || key.starts_with("nr_");
            let is_key = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            is_key && !is_of_other && number(count).is_some()
        },
        "cpu.stat" => |line| {
            const BEGINNINGS: [&str; 7] =
                ["usage_usec ", "user_usec ", "system_usec ", "nice_usec ", "core_sched", "nr_", "throttled_"];
            BEGINNINGS.iter().any(|begin| line.starts_with(begin)) || line.starts_with("burst_usec ")
        },
        "io.max" | "io.stat" => |line| {
            let device = line.split(' ').next().and_then(|word| word.split_once(':'));
            device.is_some_and(|(major, minor)| number(major).is_some() && number(minor).is_some())
        },
        _ => return None,
    };
    // A repeated word begins the next copy.
    let mut seen = BTreeSet::new();
    let mut is_next = |line: &str| is_own(line) && seen.insert(line.split(' ').next().unwrap_or_default().to_owned());
    let count = (at..).take(MOST_LINES).take_while(|at| lines.peek(*at).is_some_and(&mut is_next)).count();
    // Empty if no device has limits, or none did I/O.
    let may_be_empty = name.starts_with("io.") && !name.ends_with(".pressure");
    (count > 0 || may_be_empty).then_some(count)
}

/// Counts the lines `Udp: InDatagrams NoPorts` and `Udp: 12 0`, with each protocol once.
fn lines_of_counters(lines: &mut Lines<'_>, at: usize) -> Option<usize> {
    let mut seen = BTreeSet::new();
    let mut protocol = |lines: &mut Lines<'_>, at: usize| {
        let (name, _) = lines.peek(at)?.split_once(": ")?;
        let name = name.to_owned();
        let (own, counts) = lines.peek(at + 1)?.split_once(": ")?;
        let is_pair = own == name && counts.split(' ').all(|count| count.parse::<i64>().is_ok());
        (is_pair && seen.insert(name)).then_some(())
    };
    let pairs = (0..MOST_LINES).take_while(|pair| protocol(lines, at + 2 * pair).is_some()).count();
    (pairs > 0).then_some(2 * pairs)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incident::Incident;
    use crate::testing::{fixture, row_of};
    use std::sync::Arc;
    use whyslow_model::catalogue::Meminfo;

    /// Returns the files of each tree, with their contents on one line. Leaves out the machine's name, which comes from a
    /// prompt.
    fn trees(text: &str, strict: bool) -> Result<Vec<Vec<(String, String)>>, Refusal> {
        let mut incident = Incident::new(strict, Arc::default());
        incident.add("x", text.as_bytes())?;
        let contents = incident.done()?;
        let files = |tree: &crate::ProcTree| {
            let mut files = Vec::new();
            collect(&tree.path, &tree.path, &mut files);
            files.retain(|(name, _)| name != "proc/sys/kernel/hostname");
            files.sort();
            files
        };
        Ok(contents.trees.iter().map(files).collect())
    }

    fn collect(root: &std::path::Path, folder: &std::path::Path, into: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(root, &path, into);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                into.push((name, std::fs::read_to_string(&path).unwrap().trim_end().replace('\n', "|")));
            }
        }
    }

    /// Returns the files of the only tree of a text.
    fn files(text: &str) -> Vec<(String, String)> {
        let mut all = trees(text, true).unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn content(files: &[(String, String)], path: &str) -> String {
        files.iter().find(|(name, _)| name == path).map_or("none", |(_, content)| content).to_owned()
    }

    #[test]
    fn lines_of_grep_with_the_names_of_files() {
        let found = files(&fixture("proc-sys-grep.txt"));
        assert_eq!(found.len(), 52);
        assert_eq!(content(&found, "sys/block/vda/queue/scheduler"), "none [mq-deadline] kyber bfq");
        assert_eq!(content(&found, "sys/block/vda/queue/nr_requests"), "256");
        assert_eq!(content(&found, "proc/sys/net/ipv4/tcp_rmem"), "4096\t131072\t33554432");
        // This file is read as text by a format.
        assert_eq!(content(&found, "proc/meminfo"), "none");
    }

    #[test]
    fn headings_of_tail_and_files_at_prompts() {
        let found = files(&fixture("proc-sys-tail.txt"));
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let queue =
            ["nr_requests", "read_ahead_kb", "rotational", "scheduler"].map(|f| format!("sys/block/vda/queue/{f}"));
        assert_eq!(names[..2], ["proc/loadavg", "proc/sys/vm/dirty_ratio"]);
        assert_eq!(names[2..], queue);
        let found = files(&fixture("proc-sys-cat.txt"));
        assert_eq!(content(&found, "sys/block/vda/queue/nr_requests"), "256");
        assert_eq!(content(&found, "sys/block/vda/queue/read_ahead_kb"), "8192");
        assert_eq!(content(&found, "proc/sys/vm/dirty_ratio"), "20");
        assert_eq!(content(&found, "sys/block/vda/queue/rotational"), "1");
        assert_eq!(content(&found, "proc/stat"), "none");
    }

    #[test]
    fn bus_addresses_are_part_of_the_name() {
        for (line, path, value) in [
            ("/sys/bus/pci/devices/0000:00:1f.2/irq:16", "/sys/bus/pci/devices/0000:00:1f.2/irq", "16"),
            ("/sys/devices/pci0000:00/0000:00:1f.2/x:1:2", "/sys/devices/pci0000:00/0000:00:1f.2/x", "1:2"),
            (
                "/sys/class/scsi_device/2:0:0:1/device/state:running",
                "/sys/class/scsi_device/2:0:0:1/device/state",
                "running",
            ),
            ("/sys/block/sda/dev:8:0", "/sys/block/sda/dev", "8:0"),
            ("/sys/block/sda/dev: 8:0", "/sys/block/sda/dev", "8:0"),
            ("/proc/sys/vm/swappiness = 60", "/proc/sys/vm/swappiness", "60"),
            ("/proc/net/dev:  eth0: 1", "/proc/net/dev", "  eth0: 1"),
        ] {
            assert_eq!(
                named_line(line).map(|(path, value)| (path, value.trim_start_matches(' '))),
                Some((path, value.trim_start()))
            );
        }
        for line in [
            "/sys/block/sda:",
            "/sys/block/sda/x: Permission denied",
            "/sys/../etc/shadow:x",
            "/etc/passwd:root:x",
            "see /sys/block/sda/dev:8",
        ] {
            assert_eq!(named_line(line), None, "{line}");
        }
    }

    #[test]
    fn a_file_that_comes_twice_is_in_two_trees() {
        let text = "/sys/a:1\n/sys/b:2\n\nThen I changed it:\n\n/sys/a:3\n/sys/c:4\n";
        let of =
            |files: &[(&str, &str)]| files.iter().map(|(n, c)| ((*n).to_owned(), (*c).to_owned())).collect::<Vec<_>>();
        let found = trees(text, true).unwrap_or_default();
        assert_eq!(found, [of(&[("sys/a", "1"), ("sys/b", "2")]), of(&[("sys/a", "3"), ("sys/c", "4")])]);
    }

    #[test]
    fn names_below_the_folder_of_the_prompt() {
        let of = |text: &str| trees(text, true).unwrap_or_else(|refusal| panic!("{refusal}"));
        let folder = "sys/fs/cgroup/app";
        let one = |name: &str, content: &str| (format!("{folder}/{name}"), content.to_owned());
        let expected = [vec![one("cpu.max", "50000 100000"), one("memory.max", "1073741824")]];
        for text in [
            "# cd /sys/fs/cgroup/app\n# cat memory.max cpu.max\n1073741824\n50000 100000\n",
            "root@web:/sys/fs/cgroup/app# cat memory.max cpu.max\n1073741824\n50000 100000\n",
            "$ cd /sys/fs/cgroup/app && head memory.max cpu.max\n==> memory.max <==\n1073741824\n\n==> cpu.max <==\n50000 100000\n",
            "# cd /sys/fs/cgroup; cd app; grep . memory.max cpu.max\nmemory.max:1073741824\ncpu.max:50000 100000\n",
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
        let several = "# cd /sys/fs/cgroup/app\n# cat memory.max memory.events io.pressure\nmax\nlow 0\nhigh 3\nmax 0\noom 0\n\
            some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=4\n";
        let files = of(several).concat();
        let names: Vec<&str> = files.iter().map(|(name, _)| name.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["io.pressure", "memory.events", "memory.max"]);
        assert!(files[1].1.starts_with("low 0") && files[0].1.starts_with("some avg10"));
        let container = "$ cat /sys/fs/cgroup/cpu.max\n50000 100000\n$ cat /sys/fs/cgroup/memory/memory.failcnt\n12\n";
        let names: Vec<String> = of(container).concat().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["sys/fs/cgroup/container/cpu.max", "sys/fs/cgroup/memory/container/memory.failcnt"]);
        let unnamed = of("It says\n\nnr_periods 1000\nnr_throttled 900\nthrottled_time 123\n\nevery time.\n").concat();
        assert_eq!(unnamed.len(), 1);
        assert_eq!(unnamed[0].0, "sys/fs/cgroup/cpu/container/cpu.stat");
        // Outside of /proc and /sys a name is meaningless.
        assert!(trees("# cd /etc/x\n# cat memory.max cpu.max\n1\n2\n", false).unwrap_or_default().is_empty());
        assert!(
            trees("# cd /sys/fs/cgroup/app\n# cd ../..\n# cat memory.max\n1\n", false).unwrap_or_default().is_empty()
        );
    }

    #[test]
    fn pressure_files_are_told_apart_by_their_first_lines() {
        let of = |text: &str| {
            let files = trees(text, true).unwrap_or_else(|refusal| panic!("{refusal}")).concat();
            let named = |(name, content): (String, String)| {
                (
                    name.rsplit('/').next().unwrap().to_owned(),
                    content.split("total=").map(|part| part[..1].to_owned()).skip(1).collect::<String>(),
                )
            };
            files.into_iter().map(named).collect::<Vec<_>>()
        };
        let line = |kind: &str, total: u32| format!("{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
        let both = |from: u32| line("some", from) + &line("full", from + 1);
        let files = |named: &[(&str, &str)]| {
            named.iter().map(|(name, totals)| ((*name).to_owned(), (*totals).to_owned())).collect::<Vec<_>>()
        };
        for (command, content, expected) in [
            ("cat /proc/pressure/cpu /proc/pressure/io", both(1) + &both(3), files(&[("cpu", "12"), ("io", "34")])),
            ("cat /proc/pressure/{io,memory}", both(1) + &both(3), files(&[("io", "12"), ("memory", "34")])),
            (
                "cat /proc/pressure/*",
                both(1) + &both(3) + &line("full", 5) + &both(6),
                files(&[("cpu", "12"), ("io", "34"), ("irq", "5"), ("memory", "67")]),
            ),
            (
                "cat /proc/pressure/*",
                line("some", 1) + &both(2) + &both(4),
                files(&[("cpu", "1"), ("io", "23"), ("memory", "45")]),
            ),
        ] {
            assert_eq!(of(&format!("# {command}\n{content}# uptime\n")), expected, "{command}");
        }
    }

    #[test]
    fn files_that_one_line_prints_twice_are_two_copies() {
        let text = "[root@app ~]# cd /sys/fs/cgroup/app; date; cat cpu.stat; free -m; cat cpu.max io.max; sleep 30; date; cat cpu.stat\n\
            Wed Mar 12 10:14:01 CET 2025\nnr_periods 100\nnr_throttled 1\n\
            \x20              total        used        free      shared  buff/cache   available\n\
            Mem:           15906        1234        9000           1        5672       14000\n\
            Swap:              0           0           0\n\
            200000 100000\n8:0 rbps=max wbps=max riops=120 wiops=max\n\
            Wed Mar 12 10:14:31 CET 2025\nnr_periods 400\nnr_throttled 250\n\
            [root@app ~]# uptime\n 10:14:40 up 1 day,  1:00,  1 user,  load average: 1.00, 1.00, 1.00\n";
        let found = trees(text, true).unwrap();
        let of = |at: usize, file: &str| content(&found[at], &format!("sys/fs/cgroup/app/{file}"));
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(
            [of(0, "cpu.stat"), of(1, "cpu.stat")],
            ["nr_periods 100|nr_throttled 1", "nr_periods 400|nr_throttled 250"]
        );
        assert_eq!([of(0, "cpu.max"), of(0, "io.max")], ["200000 100000", "8:0 rbps=max wbps=max riops=120 wiops=max"]);
        assert_eq!(of(1, "cpu.max"), "200000 100000", "a limit is printed once");
    }

    #[test]
    fn a_loop_prints_a_copy_each_time_until_one_cannot_be_printed() {
        let text = "$ while sleep 5; do cat /sys/fs/cgroup/app/memory.current; done\n1000\n2000\n\
            cat: /sys/fs/cgroup/app/memory.current: No such file or directory\n3000\n";
        let found = trees(text, false).unwrap();
        let values: Vec<String> =
            found.iter().map(|files| content(files, "sys/fs/cgroup/app/memory.current")).collect();
        assert_eq!(values, ["1000", "2000"]);
    }

    #[test]
    fn a_loop_ends_that_prints_a_file_for_a_format_behind_a_margin() {
        let text = "# while true; do cat /proc/meminfo; sleep 1; done\n- MemTotal:       16329156 kB\n\
            - MemFree:         1035944 kB\n- MemAvailable:    2035944 kB\n";
        let memory = row_of::<Meminfo>(text);
        assert_eq!(memory.mem_free.get(), Some(1_035_944.0 * KIB));
    }

    #[test]
    fn values_whose_files_are_not_clear_are_refused() {
        for text in [
            "# cat /sys/block/*/queue/scheduler\n[none]\nnone [bfq]\n",
            "# cat /sys/block/sda/queue/scheduler /sys/block/sdb/queue/scheduler\n[none]\n",
            "# cat /proc/sys/vm/swappiness /proc/stat\n60\ncpu 1 2 3\n",
        ] {
            assert_eq!(trees(text, true).map_err(|refusal| refusal.line), Err(2), "{text}");
        }
    }

    #[test]
    fn lists_of_files_and_hostile_paths_are_no_content() {
        for text in [
            "/sys/block/sda\n/sys/block/sdb\n/sys/block/sdc\n",
            "/sys/../../etc/cron.d/x:1\n",
            "==> /proc/../../tmp/x <==\n1\n",
            "# cat /proc/sys/../../etc/passwd\nroot:x:0:0\n",
            "/sys/block/sda/queue/scheduler\ncat: /sys/block/sda/queue/scheduler: Permission denied\n",
        ] {
            assert!(trees(text, false).unwrap_or_default().is_empty(), "{text}");
        }
    }
}
