//! Resource use of containers and control groups: docker stats, podman stats, systemd-cgtop(1), kubectl top.

use crate::prelude::*;
use whyslow_model::catalogue::Group;

pub const DOCKER_STATS: Format = Format {
    name: "docker stats",
    versions: "Docker 1.5 on, Podman 3 on; one table or several, or rows that begin with the container's number",
    shows: "CPU time and memory of each container, and how near its memory is to the limit",
    lacks: "throttling by a CPU limit (cpu.stat of the container's cgroup); who waits; page cache, which is not counted",
    programs: &[partly_read("docker"), partly_read("podman")],
    files: &["docker_stats", "podman_stats"],
    starts: |lines| lines.next_is(|line| is_docker_header(line) || is_lone_docker_row(line)),
    read: read_docker,
    ..Format::NEW
};

pub const CGTOP: Format = Format {
    name: "systemd-cgtop",
    versions: "systemd 205 on: -b, or copied from the screen",
    shows: "CPU time and memory of each control group",
    lacks: "limits, throttling and who waits",
    programs: &[program("systemd-cgtop")],
    files: &["systemd-cgtop"],
    starts: |lines| {
        lines.next_is(|line| is_cgtop_header(line) || (line.starts_with("/ ") && cgtop_row(line).is_some()))
    },
    read: read_cgtop,
    ..Format::NEW
};

pub const KUBECTL_TOP: Format = Format {
    name: "kubectl top",
    versions: "kubectl 1.8 on: top pod and top node, with -A and --containers",
    shows: "CPU time and memory of each pod, container or node",
    lacks: "limits, throttling (cpu.stat of the container's cgroup) and who waits",
    programs: &[partly_read("kubectl")],
    files: &["kubectl_top"],
    starts: |lines| lines.next_is(is_kubectl_header),
    read: read_kubectl,
    ..Format::NEW
};

/// Assumed duration of one table in seconds. No rate depends on it.
const ASSUMED: f64 = 1.0;

/// Records a group's CPU time and memory from one of several tables.
fn record(run: &mut ToolRun, table: u32, line: u32, name: &str, cpus: Option<f64>, memory: Option<f64>) {
    let at = f64::from(table) * ASSUMED;
    let interval = ReportInterval { from: at, to: at + ASSUMED };
    let rate = cpus.map(|cpus| cpus * SECOND);
    let row = run.grow::<Group>(interval, line, name.into(), &[("cpu_usage", rate)]);
    row.memory = memory.into();
}

/// Parses `5.629MiB`, `147kB`, `0B`: prefixes without an `i` are powers of 1000.
fn size(text: &str) -> Option<f64> {
    let text = text.strip_suffix('B')?;
    match text.strip_suffix('i') {
        Some(binary) => scaled(binary, KIB, 1.0),
        None => scaled(text, 1000.0, 1.0),
    }
}

/// Returns true for `CONTAINER ID   NAME   CPU %   MEM USAGE / LIMIT   MEM %   NET I/O   BLOCK I/O   PIDS`.
fn is_docker_header(line: &str) -> bool {
    line.contains("CPU %") && line.contains("MEM USAGE / LIMIT")
}

/// Length of a container ID.
const NUMBER: usize = 12;

struct DockerRow {
    name: String,
    cpus: f64,
    memory: f64,
    limit: f64,
}

/// Parses `b95a83497c91   web   0.28%   5.629MiB / 1.952GiB   0.28%   916B / 0B   147kB / 0B   9`.
fn docker_row(line: &str, has_number_and_name: bool) -> Option<DockerRow> {
    let percent = |word: &str| number(word.strip_suffix('%')?);
    let words: Vec<&str> = line.split_whitespace().collect();
    let cpu = words.iter().position(|word| percent(word).is_some())?;
    let name = *words.get(cpu.checked_sub(1)?)?;
    // A row with only the ID lost its name.
    let is_number = |word: &str| word.len() == NUMBER && word.bytes().all(|b| b.is_ascii_hexdigit());
    (cpu > 1 || !has_number_and_name && !is_number(name)).then_some(())?;
    let slash = cpu + 1 + words[cpu + 1..].iter().position(|word| *word == "/")?;
    let memory = size(&words[cpu + 1..slash].concat())?;
    // Old versions put a space between number and unit.
    let end = slash + 1 + words[slash + 1..].iter().position(|word| word.ends_with('%'))?;
    let limit = size(&words[slash + 1..end].concat())?;
    Some(DockerRow { name: name.to_owned(), cpus: percent(words[cpu])? / 100.0, memory, limit })
}

/// Returns true if a line is a row even without the header: it begins with a container ID, and has all columns.
fn is_lone_docker_row(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_number = |word: &&&str| word.len() == NUMBER && word.bytes().all(|b| b.is_ascii_hexdigit());
    let slashes = words.iter().filter(|word| **word == "/").count();
    words.first().filter(is_number).is_some() && slashes == 3 && docker_row(line, true).is_some()
}

fn read_docker(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut table = 0;
    // A lone row begins with its ID.
    let mut is_alone = lines.next_is(is_lone_docker_row);
    loop {
        let has_both = match std::mem::take(&mut is_alone) {
            true => true,
            false => match lines.take_past_blanks_if(is_docker_header) {
                Some(header) => header.text.contains("CONTAINER ID") && header.text.contains("NAME"),
                None => break,
            },
        };
        while let Some(line) =
            lines.take_if(|text| !text.trim().is_empty() && !is_docker_header(text) && is_docker_row(text))
        {
            let Some(row) = docker_row(&line.text, has_both) else { continue };
            record(run, table, line.number, &row.name, Some(row.cpus), Some(row.memory));
            let at = f64::from(table + 1) * ASSUMED;
            run.row::<Group>(at, line.number, row.name.as_str().into()).memory_max =
                Some(row.limit).filter(|most| *most > 0.0).into();
        }
        table += 1;
    }
    note_throttling(run);
    Ok(())
}

/// Returns true for a row, including that of a stopped container: `b95a83497c91   web   --   -- / --   --   --   --   --`.
fn is_docker_row(text: &str) -> bool {
    docker_row(text, false).is_some() || text.split_whitespace().filter(|word| *word == "--").count() > 3
}

/// Notes what none of these tools shows.
pub(super) fn note_throttling(run: &mut ToolRun) {
    run.note(
        "throttling by a CPU limit",
        "not shown by this tool: a container at its limit is stopped while the machine's CPUs are idle",
        "add cpu.stat of its cgroup, twice: nr_throttled and throttled_usec must not grow",
    );
}

/// Returns true for `Control Group   Tasks   %CPU   Memory  Input/s Output/s`; since systemd 254 `CGroup`.
fn is_cgtop_header(line: &str) -> bool {
    let columns = line.trim_start().strip_prefix("Control Group").or_else(|| line.trim_start().strip_prefix("CGroup"));
    columns.is_some_and(|columns| columns.split_whitespace().eq(["Tasks", "%CPU", "Memory", "Input/s", "Output/s"]))
}

struct CgtopRow<'l> {
    path: &'l str,
    cpus: Option<f64>,
    memory: Option<f64>,
}

/// Parses `/system.slice/cron.service     3    0.1    22.3M   -    -`.
fn cgtop_row(line: &str) -> Option<CgtopRow<'_>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [path, tasks, cpu, memory, input, output] = words[..] else { return None };
    let is_path =
        path.starts_with('/') || path.contains(".slice") || path.ends_with(".service") || path.ends_with(".scope");
    let is_cell = |cell: &str| cell == "-" || scaled(cell.trim_end_matches('B'), KIB, 1.0).is_some();
    let known = is_path && [tasks, cpu, memory, input, output].iter().all(|cell| is_cell(cell));
    known.then(|| CgtopRow {
        path,
        cpus: number(cpu).map(|percent| percent / 100.0),
        memory: scaled(memory.trim_end_matches('B'), KIB, 1.0).filter(|_| memory != "-"),
    })
}

fn read_cgtop(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    // Tables follow each other without a header; each begins with the root.
    let mut table: Option<u32> = None;
    while let Some(line) = lines.take_past_blanks_if(|text| is_cgtop_header(text) || cgtop_row(text).is_some()) {
        let Some(row) = cgtop_row(&line.text) else { continue };
        let next = if row.path == "/" { table.map_or(0, |table| table + 1) } else { table.unwrap_or(0) };
        table = Some(next);
        let path = format!("/{}", row.path.trim_start_matches('/'));
        record(run, next, line.number, &path, row.cpus, row.memory);
    }
    note_throttling(run);
    Ok(())
}

/// Returns true for `NAMESPACE   NAME   CPU(cores)   MEMORY(bytes)`.
fn is_kubectl_header(line: &str) -> bool {
    line.contains("CPU(cores)") && line.contains("MEMORY(bytes)")
}

fn read_kubectl(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let Some(header) = lines.take() else { return Ok(()) };
    let names: Vec<String> = header.text.split_whitespace().map(str::to_owned).collect();
    let (Some(cpu), Some(memory)) = (position(&names, "CPU(cores)"), position(&names, "MEMORY(bytes)")) else {
        return Err(lines.refuse_at(&header, "the columns CPU(cores) and MEMORY(bytes)"));
    };
    while let Some(line) = lines.take_if(|text| is_kubectl_row(text, names.len(), cpu)) {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let name = words[..cpu].join("/");
        record(run, 0, line.number, &name, cores(words[cpu]), scaled(words[memory].trim_end_matches('i'), KIB, 1.0));
    }
    note_throttling(run);
    Ok(())
}

fn position(names: &[String], name: &str) -> Option<usize> {
    names.iter().position(|own| own == name)
}

fn is_kubectl_row(text: &str, columns: usize, cpu: usize) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.len() == columns && words.get(cpu).is_some_and(|word| cores(word).is_some())
}

/// Parses a number of CPUs; `250m` are thousandths of a CPU.
fn cores(text: &str) -> Option<f64> {
    match text.strip_suffix('m') {
        Some(thousandths) => number(thousandths).map(|n| n / 1000.0),
        None => number(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};
    use std::collections::BTreeMap;

    /// CPUs, memory and limit.
    type Use = (Option<f64>, Option<f64>, Option<f64>);

    fn groups(text: &str) -> BTreeMap<String, Use> {
        let window = window_of(text);
        let of = |change: whyslow_model::window::Change<'_, Group>| {
            let cpus = change.rate(|g| g.cpu_usage).map(|ns| (ns / 1e6).round() / 1000.0);
            (change.key().to_string(), (cpus, change.last().memory.get(), change.last().memory_max.get()))
        };
        window.changes::<Group>().into_iter().map(of).collect()
    }

    #[test]
    fn containers_have_a_limit_and_stopped_ones_nothing() {
        let all = groups(&fixture("layouts/docker-stats.txt"));
        assert_eq!(all["web"], (Some(1.985), Some(1003.0 * MIB), Some(GIB)));
        assert_eq!(all["cache"], (Some(0.003), Some(5.5 * MIB), Some(15.25 * GIB)));
        assert_eq!(all.keys().collect::<Vec<_>>(), ["cache", "web"]);
        let podman = "ID            NAME        CPU %       MEM USAGE / LIMIT  MEM %       NET IO      BLOCK IO    PIDS        CPU TIME    AVG CPU %\n\
            b95a83497c91  web         12.50%      5.5MB / 1.0GB      0.55%       -- / --     -- / --     9           1.2s        3.00%\n";
        assert_eq!(groups(podman)["web"], (Some(0.125), Some(5.5e6), Some(1e9)));
        let old = "CONTAINER           CPU %               MEM USAGE / LIMIT     MEM %               NET I/O\n\
            redis1              0.07%               796 KB / 64 MB        1.21%               788 B / 648 B\n";
        assert_eq!(groups(&old.replace("796 KB", "796 kB"))["redis1"], (Some(0.001), Some(796e3), Some(64e6)));
    }

    #[test]
    fn groups_of_several_tables_are_levels_and_rates() {
        let all = groups(&fixture("layouts/systemd-cgtop-b-n-2.txt"));
        let (cpus, memory, limit) = all["/system.slice/web.service"];
        assert_eq!((cpus, memory, limit), (Some(1.042), Some(5.2 * GIB), None));
        assert_eq!(all["/"].0, Some(1.875));
    }

    #[test]
    fn pods_and_nodes_are_named_as_they_are_listed() {
        let all = groups(&fixture("layouts/kubectl-top-pod-A.txt"));
        assert_eq!(all["shop/web-5d8f7c9b6d-x2x7k"], (Some(0.498), Some(509.0 * MIB), None));
        let nodes = "NAME      CPU(cores)   CPU%   MEMORY(bytes)   MEMORY%\nworker1   3900m        97%    15021Mi         96%\n";
        assert_eq!(groups(nodes)["worker1"], (Some(3.9), Some(15_021.0 * MIB), None));
    }
}
