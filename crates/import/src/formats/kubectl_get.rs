//! kubectl get pods: pods whose container was killed for memory, and evicted pods (kubectl/pkg/cmd/get).

use super::kubectl_describe::{NOTHING, condition};
use crate::prelude::*;

pub const FORMAT: Format = Format {
    name: "kubectl get pods",
    versions: "kubectl 1.8 on: with -A and -o wide; rows without the header",
    shows: "containers that were killed for memory, evicted pods",
    lacks: "limits; why other pods do not run: kubectl describe pod",
    programs: &[partly_read("kubectl")],
    files: &["kubectl_get_pods"],
    starts: |lines| lines.next_is(|line| is_header(line) || Pod::parse(line).is_some()),
    read,
    ..Format::NEW
};

/// Returns true for `NAME   READY   STATUS   RESTARTS   AGE`; with -A, after `NAMESPACE`.
fn is_header(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let words = words.strip_prefix(&["NAMESPACE"]).unwrap_or(&words);
    words.starts_with(&["NAME", "READY", "STATUS", "RESTARTS", "AGE"])
}

/// States that are recognized; those other than `OOMKilled` and `Evicted` indicate no problem with memory.
const STATES: [&str; 12] = [
    "OOMKilled",
    "Evicted",
    "Running",
    "Completed",
    "Error",
    "CrashLoopBackOff",
    "Pending",
    "Terminating",
    "ContainerCreating",
    "ImagePullBackOff",
    "ErrImagePull",
    "Unknown",
];

/// `web-5d8f7c9b6d-x2x7k   0/1   OOMKilled   7 (2m ago)   12m`
struct Pod<'l> {
    name: &'l str,
    state: &'l str,
    restarts: f64,
    /// Position of the column READY.
    ready: usize,
}

impl<'l> Pod<'l> {
    fn parse(line: &'l str) -> Option<Self> {
        const NAMES: usize = 2;
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_count = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        let is_ready = |word: &str| word.split_once('/').is_some_and(|(ready, all)| is_count(ready) && is_count(all));
        let ready = words.iter().position(|word| is_ready(word)).filter(|at| (1..=NAMES).contains(at))?;
        let state = *words.get(ready + 1)?;
        let restarts = words.get(ready + 2).filter(|word| is_count(word))?;
        let is_age =
            |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.ends_with(['s', 'm', 'h', 'd', 'y']);
        let is_pod = STATES.contains(&state) && words[ready + 3..].iter().any(is_age);
        is_pod.then_some(Self { name: words[ready - 1], state, restarts: number(restarts)?, ready })
    }
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let header = lines.take_if(is_header);
    // Below a header, the namespace and the name are in their columns.
    let ready = header.and_then(|header| header.text.split_whitespace().position(|name| name == "READY"));
    let is_own = |text: &str| Pod::parse(text).is_some_and(|pod| ready.is_none_or(|ready| pod.ready == ready));
    let is_cut = |text: &str| {
        let has_state = text.split_whitespace().any(|word| STATES.contains(&word));
        has_state && !is_own(text) && !is_header(text) && !is_command(text)
    };
    let mut first: Option<(u32, String)> = None;
    let mut healthy = true;
    loop {
        // A piece that a mail program broke off a row precedes the next row.
        let is_rest = |text: &str| !text.trim().is_empty() && !is_command(text) && !is_header(text);
        if lines.next_is(is_cut) {
            lines.leave_out("a pod, how many of its containers are ready, its state, restarts and age")?;
            healthy = false;
            continue;
        }
        if lines.next_is(|text| !is_own(text) && is_rest(text)) && lines.peek(1).is_some_and(is_own) {
            lines.skip(1);
        }
        let Some(line) = lines.take_if(is_own) else { break };
        let Some(pod) = Pod::parse(&line.text) else { break };
        first.get_or_insert_with(|| (line.number, pod.name.to_owned()));
        let kind = match pod.state {
            "OOMKilled" => "container",
            "Evicted" => "pod",
            _ => continue,
        };
        condition(run, line.number, pod.name, kind, pod.state).restarts = pod.restarts.into();
        healthy = false;
    }
    if let Some((line, name)) = first.filter(|_| healthy) {
        condition(run, line, &name, "pod", NOTHING);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};
    use whyslow_model::catalogue::Condition;

    /// Written after kubectl's printers.go, since no cluster is available here.
    #[test]
    fn pods_that_were_killed_or_evicted() {
        let window = window_of(&fixture("layouts/kubectl-get-pods.txt"));
        let rows: Vec<_> = window
            .newest::<Condition>()
            .into_values()
            .map(|c| (c.object.get().unwrap(), c.reason.get().unwrap(), c.restarts.get()))
            .collect();
        assert_eq!(
            rows,
            [("batch-28391-abcde", "Evicted", Some(0.0)), ("web-5d8f7c9b6d-x2x7k", "OOMKilled", Some(7.0)),]
        );
        let fine = window_of("web-5d8f7c9b6d-x2x7k   1/1     Running   0          12d\n");
        assert_eq!(fine.the::<Condition>().unwrap().reason.get(), Some(NOTHING));
        assert!(Pod::parse("1/2 Running 3 4d").is_none() && Pod::parse("a 1/2 of Running 3 4d").is_none());
    }
}
