//! kubectl describe pod and node: reasons why containers ended, evictions, and resources that a node lacks according to its
//! kubelet (kubectl/pkg/describe/describe.go).

use super::containers::note_throttling;
use crate::prelude::*;
use std::collections::BTreeSet;
use whyslow_model::catalogue::Condition;

pub const FORMAT: Format = Format {
    name: "kubectl describe",
    versions: "kubectl 1.8 on: pods and nodes, or the state of a killed container alone",
    shows: "containers that were killed for memory, evicted pods, nodes that are short of memory, disk space or process IDs",
    lacks: "throttling (cpu.stat of the container's cgroup); what uses the resources",
    programs: &[partly_read("kubectl")],
    files: &["kubectl_describe"],
    starts: |lines| {
        lines.next_is(|line| field(line).is_some_and(|(name, _)| name == "Name"))
            && lines.peek(1).and_then(field).is_some_and(|(name, _)| name == "Namespace" || name == "Roles")
            || killed_alone(lines)
    },
    read,
    ..Format::NEW
};

/// Splits `Name:             web-5d8f7c9b6d-x2x7k`, which is not indented.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b' ' || b == b'-');
    is_name.then_some((name, value.trim()))
}

/// Returns true if the state of a container that was killed for memory comes next, cut out of the description of its pod.
fn killed_alone(lines: &mut Lines<'_>) -> bool {
    let is = |lines: &mut Lines<'_>, at: usize, name: &str, value: &str| {
        let found = lines.peek(at).and_then(|line| line.trim().split_once(':'));
        found.is_some_and(|(own, text)| own == name && text.trim() == value)
    };
    let is_reason = |lines: &mut Lines<'_>, at: usize| is(lines, at, "Reason", "OOMKilled");
    let is_end = ["Last State", "State"].iter().any(|name| is(lines, 0, name, "Terminated"));
    is_end && is_reason(lines, 1) || is_reason(lines, 0) && is(lines, 1, "Exit Code", "137")
}

/// Placeholder for the container of a state that was cut out.
const UNNAMED: &str = "container";

/// Pressures that a kubelet reports for its node.
const PRESSURES: [&str; 3] = ["MemoryPressure", "DiskPressure", "PIDPressure"];

#[derive(Default)]
struct Described {
    name: String,
    namespace: String,
    is_node: bool,
    /// First line of the description.
    first: u32,
    /// Last field that was not indented.
    heading: String,
    /// Whether the lines that show the health were seen.
    has_states: bool,
    /// Pressures that a node is reported not to have.
    relieved: BTreeSet<&'static str>,
    container: Container,
    containers: Vec<Container>,
    reason: Option<(u32, String)>,
    message: String,
    pressures: Vec<(u32, &'static str, String)>,
}

#[derive(Default)]
struct Container {
    name: String,
    has_id: bool,
    killed: Option<u32>,
    restarts: Option<f64>,
    memory_max: Option<f64>,
    has_cpu_limit: bool,
    in_limits: bool,
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    if killed_alone(lines) {
        const FIELDS: [&str; 8] =
            ["Last State", "State", "Reason", "Exit Code", "Started", "Finished", "Ready", "Restart Count"];
        let first = lines.number();
        let mut restarts = None;
        while let Some(line) =
            lines.take_if(|text| text.trim().split_once(':').is_some_and(|(f, _)| FIELDS.contains(&f)))
        {
            let (name, value) = line.text.trim().split_once(':').unwrap_or_default();
            restarts = restarts.or_else(|| number(value.trim()).filter(|_| name == "Restart Count"));
        }
        condition(run, first, UNNAMED, "container", "OOMKilled").restarts = restarts.into();
        return Ok(());
    }
    let mut seen = Described { first: lines.number(), ..Described::default() };
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.to_owned();
        let top = field(&text).map(|(name, value)| (name.to_owned(), value.to_owned()));
        let again = top.as_ref().is_some_and(|(name, _)| name == "Name") && !seen.name.is_empty();
        let indented = text.starts_with([' ', '\t']);
        if again
            || (!indented && top.is_none())
            || (blanks > 0 && !indented && another_output_starts_past(lines, blanks))
        {
            break;
        }
        lines.skip(blanks);
        let line = lines.number();
        lines.skip(1);
        match top {
            Some((name, value)) => seen.top(line, name, value),
            None => seen.inside(line, &text),
        }
    }
    seen.record(run);
    Ok(())
}

/// Returns true if a command follows the blank lines.
fn another_output_starts_past(lines: &mut Lines<'_>, blanks: usize) -> bool {
    lines.peek(blanks).is_some_and(is_command)
}

impl Described {
    fn top(&mut self, line: u32, name: String, value: String) {
        match name.as_str() {
            "Name" => self.name = first_word(&value),
            "Namespace" => self.namespace = first_word(&value),
            "Roles" => self.is_node = true,
            "Reason" => self.reason = Some((line, value)),
            "Message" => self.message = value,
            _ => {}
        }
        self.heading = name;
    }

    fn inside(&mut self, line: u32, text: &str) {
        match self.heading.as_str() {
            "Conditions" if self.is_node => {
                // `  MemoryPressure   True    Sat, 01 Jun 2024 ...   KubeletHasInsufficientMemory   kubelet has ...`
                let mut words = text.split_whitespace();
                let (kind, status) = (words.next(), words.next());
                let pressure = PRESSURES.iter().find(|pressure| kind == Some(**pressure));
                self.relieved.extend(pressure.filter(|_| status == Some("False")));
                // The third came with Kubernetes 1.10.
                self.has_states = PRESSURES[..2].iter().all(|pressure| self.relieved.contains(pressure));
                if let Some(kind) = pressure
                    && status == Some("True")
                {
                    // Type, status, two times, reason and message.
                    let cells: Vec<&str> = text.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
                    let message = if cells.len() == 6 { cells[5] } else { "" };
                    self.pressures.push((line, kind, message.to_owned()));
                }
            }
            "Containers" | "Init Containers" => {
                self.has_states |= text.trim_start().starts_with("State:");
                self.container_line(line, text);
            }
            _ => {}
        }
    }

    fn container_line(&mut self, line: u32, text: &str) {
        let Some((name, value)) = text.trim().split_once(':') else { return };
        let value = value.trim();
        let depth = text.len() - text.trim_start().len();
        // `  app:` under the heading; the fields of a container are indented further.
        if depth <= 2 && (value.is_empty() || value.starts_with("Container ID:")) {
            self.next_container(name);
            self.container.has_id = !value.is_empty();
            return;
        }
        match (name, value) {
            // `Container ID` is the first field: the name of this container was lost.
            ("Container ID", _) => {
                if self.container.has_id {
                    self.next_container("");
                }
                self.container.has_id = true;
            }
            ("Reason", "OOMKilled") => self.container.killed = Some(line),
            ("Restart Count", count) => self.container.restarts = number(count),
            ("Limits", _) => self.container.in_limits = true,
            ("Requests" | "Liveness" | "Readiness" | "Environment" | "Mounts", _) => self.container.in_limits = false,
            ("memory", limit) if self.container.in_limits => {
                // The requests follow, with the same names.
                self.container.memory_max = quantity(limit);
                self.container.in_limits = false;
            }
            ("cpu", _) if self.container.in_limits => self.container.has_cpu_limit = true,
            _ => {}
        }
    }

    fn next_container(&mut self, name: &str) {
        let next = Container { name: name.to_owned(), ..Container::default() };
        self.containers.push(std::mem::replace(&mut self.container, next));
    }

    fn record(mut self, run: &mut ToolRun) {
        self.containers.push(std::mem::take(&mut self.container));
        let Self { name, namespace, is_node, first, has_states, pressures, reason, message, containers, .. } = self;
        let unnamed = || if is_node { "a node" } else { "a pod" }.to_owned();
        let name = Some(name).filter(|name| !name.is_empty()).unwrap_or_else(unnamed);
        let path = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
        let mut healthy = true;
        for (line, pressure, text) in &pressures {
            condition(run, *line, &path, "node", pressure).message = text.as_str().into();
            healthy = false;
        }
        // An evicted pod has the kubelet's reason and message.
        if let Some((line, evicted)) = reason.filter(|(_, reason)| reason == "Evicted" && !is_node) {
            condition(run, line, &path, "pod", &evicted).message = message.as_str().into();
            healthy = false;
        }
        for container in &containers {
            let Some(line) = container.killed else { continue };
            let row = condition(run, line, &format!("{path}/{}", container.name), "container", "OOMKilled");
            row.restarts = container.restarts.into();
            row.memory_max = container.memory_max.into();
            healthy = false;
        }
        if healthy && has_states {
            condition(run, first, &path, if is_node { "node" } else { "pod" }, NOTHING);
        }
        if containers.iter().any(|container| container.has_cpu_limit) {
            note_throttling(run);
        }
    }
}

/// Returns the first word if it has only the characters of a name; leaves out text that was joined to it.
fn first_word(text: &str) -> String {
    let is_name = |word: &&str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    text.split_whitespace().next().filter(is_name).unwrap_or_default().to_owned()
}

/// Reason of an object without problems.
pub const NOTHING: &str = "none";

pub fn condition<'r>(run: &'r mut ToolRun, line: u32, object: &str, kind: &str, reason: &str) -> &'r mut Condition {
    let key = format!("{object}: {reason}");
    let row = run.row::<Condition>(0.0, line, key.as_str().into());
    row.object = object.into();
    row.kind = kind.into();
    row.reason = reason.into();
    row
}

/// Parses `512Mi`, `1Gi`, `500M`, `1073741824`.
fn quantity(text: &str) -> Option<f64> {
    match text.strip_suffix('i') {
        Some(binary) => scaled(binary, KIB, 1.0),
        None => scaled(text, 1000.0, 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    fn conditions(text: &str) -> Vec<Condition> {
        window_of(text).newest::<Condition>().into_values().cloned().collect()
    }

    #[test]
    fn a_container_that_was_killed_for_memory_has_its_limit() {
        let all = conditions(&fixture("layouts/kubectl-describe-pod.txt"));
        assert_eq!(all.len(), 1, "{all:?}");
        let row = &all[0];
        assert_eq!(
            (row.object.get(), row.kind.get(), row.reason.get()),
            (Some("shop/web-5d8f7c9b6d-x2x7k/app"), Some("container"), Some("OOMKilled"))
        );
        assert_eq!((row.restarts.get(), row.memory_max.get()), (Some(7.0), Some(512.0 * MIB)));
    }

    #[test]
    fn an_evicted_pod_and_a_node_under_pressure() {
        let all = conditions(
            "Name:         job-1\nNamespace:    batch\nNode:         worker1/\nStatus:       Failed\n\
            Reason:       Evicted\nMessage:      The node was low on resource: memory. Container app was using 3Gi.\nContainers:\n  app:\n    Image:      job\n",
        );
        assert_eq!((all[0].object.get(), all[0].reason.get()), (Some("batch/job-1"), Some("Evicted")));
        assert!(all[0].message.get().unwrap().contains("resource: memory"));
        let all = conditions(&fixture("layouts/kubectl-describe-node.txt"));
        let seen: Vec<_> = all
            .iter()
            .map(|row| (row.kind.get().unwrap(), row.reason.get().unwrap(), row.message.get().unwrap()))
            .collect();
        assert_eq!(seen, [("node", "MemoryPressure", "kubelet has insufficient memory available")]);
    }

    #[test]
    fn what_is_in_order_has_no_reason() {
        let all = conditions(
            "Name:         job-1\nNamespace:    batch\nStatus:       Running\nContainers:\n  app:\n    State:          Running\n    Ready:          True\n",
        );
        assert_eq!((all.len(), all[0].reason.get(), all[0].kind.get()), (1, Some("none"), Some("pod")));
    }
}
