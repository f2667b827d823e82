//! Explains why *this* is slow: traces a process, control group, unit, container or command while the machine is
//! observed.

use crate::output::{self, Failure};
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use whyslow_diagnose::breakdown::{Awaited, conclude, link, of_waited_for, waited_for};
use whyslow_diagnose::cgroup;
use whyslow_documents::diagnosis::Diagnosis;
use whyslow_documents::time_breakdown::{ChainLink, LockedThread, TimeBreakdown, TimeKind, TimePart};
use whyslow_model::catalogue::{Group, Process};
use whyslow_model::window::Window;
use whyslow_sense::profile::breakdown::{BreakdownTracer, ProcessTimes, ThreadSet, processes_where};
use whyslow_sense::profile::process_name;
use whyslow_sense::{Root, SourceError};

/// Interval for listing the members of a control group again, and for following the chain of waits one step further.
const STEP: Duration = Duration::from_millis(300);
/// Maximum number of programs in a chain.
const LONGEST_CHAIN: usize = 6;
/// Time that a command may keep running after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Whose time to explain.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Why is this slow?")]
pub struct WhyTarget {
    /// Explain where the time of this process goes
    #[arg(long, group = "target", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// ... of the processes of this systemd unit, such as nginx.service
    #[arg(long, group = "target", value_name = "NAME")]
    unit: Option<String>,
    /// ... of this container, by the beginning of its id, or by its name
    #[arg(long, group = "target", value_name = "ID")]
    container: Option<String>,
    /// ... of this control group and those below it, such as /user.slice
    #[arg(long, group = "target", value_name = "PATH")]
    cgroup: Option<String>,
    /// Run this command, and explain why it took so long
    #[arg(last = true, group = "target", value_name = "COMMAND", conflicts_with = "time")]
    command: Vec<OsString>,
}

impl WhyTarget {
    pub fn is_given(&self) -> bool {
        self.pid.is_some()
            || self.unit.is_some()
            || self.container.is_some()
            || self.cgroup.is_some()
            || self.is_command()
    }

    pub fn is_command(&self) -> bool {
        !self.command.is_empty()
    }

    /// Returns whether a process in this control group belongs to the target.
    fn matches(&self, path: &str) -> bool {
        let named = |name: &str, given: &str| name == given || name == given.trim_end_matches(".service");
        if let Some(given) = &self.unit {
            return cgroup::unit(path).is_some_and(|unit| named(&unit, given));
        }
        if let Some(given) = &self.container {
            return cgroup::container(path).is_some_and(|id| id.starts_with(given.get(..id.len()).unwrap_or(given)));
        }
        self.cgroup.as_deref().is_some_and(|group| cgroup::in_group(Some(path), group.trim_end_matches('/')))
    }
}

/// The next link of the chain, for which the previous one waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Process(u32),
    /// Children of this process.
    Children(u32),
    /// A thread of this process.
    Thread {
        pid: u32,
        tid: u32,
    },
}

impl Step {
    fn pid(self) -> u32 {
        match self {
            Self::Process(pid) | Self::Children(pid) | Self::Thread { pid, .. } => pid,
        }
    }

    fn threads(self) -> ThreadSet {
        match self {
            Self::Process(pid) => ThreadSet::Processes(BTreeSet::from([pid])),
            Self::Children(pid) => ThreadSet::Children(pid),
            Self::Thread { tid, .. } => ThreadSet::Thread(tid),
        }
    }

    fn is(self, awaited: Awaited) -> bool {
        match (self, awaited) {
            (Self::Process(pid), Awaited::Process(other)) => pid == other,
            (Self::Thread { tid, .. }, Awaited::Thread(other)) => tid == other,
            (Self::Children(_), Awaited::Children) => true,
            _ => false,
        }
    }
}

/// A target while it is observed.
pub struct TargetWatch {
    target: WhyTarget,
    root: Root,
    tracer: BreakdownTracer,
    child: Option<Child>,
    status: Option<ExitStatus>,
    name: String,
    began: Instant,
    /// Chain of waits after the target.
    chain: Vec<Step>,
    /// Deadlocked threads seen before a command was ended.
    deadlock: Vec<LockedThread>,
    next_step: Instant,
}

impl TargetWatch {
    /// Finds the target and starts to trace it; runs a command.
    ///
    /// # Errors
    /// Fails if there is no such process, unit, container or control group, if tracing is not permitted, or if the
    /// command cannot be run.
    pub fn begin(target: &WhyTarget, json: bool) -> Result<Self, Failure> {
        let root = Root::live();
        let target = container_by_name(target, &root).unwrap_or_else(|| target.clone());
        let mut tracer = BreakdownTracer::start(root.clone()).map_err(cannot)?;
        let (mut child, mut name) = (None, target.given());
        if target.is_command() {
            tracer.follow_own_children().map_err(cannot)?;
            child = Some(run(&target.command, json)?);
            tracer.stop_following_own().map_err(cannot)?;
            name = target.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        } else if let Some(pid) = target.pid {
            let command = process_name(pid, &root).map_err(|error| Failure::usage(error.why()))?;
            name = format!("{command} (pid {pid})");
            tracer.watch(pid).map_err(cannot)?;
        }
        let now = Instant::now();
        let mut watch = Self {
            target,
            root,
            tracer,
            child,
            status: None,
            name,
            began: now,
            chain: Vec::new(),
            deadlock: Vec::new(),
            next_step: now + STEP,
        };
        watch.watch_members()?;
        Ok(watch)
    }

    /// Traces the processes that a group has now.
    fn watch_members(&mut self) -> Result<(), Failure> {
        if self.target.pid.is_some() || self.target.is_command() {
            return Ok(());
        }
        let members = processes_where(&self.root, |path| self.target.matches(path));
        // A group may become empty later.
        if members.is_empty() && self.members().is_empty() {
            return Err(Failure::usage(self.target.missing()));
        }
        for pid in members {
            self.tracer.watch(pid).map_err(cannot)?;
        }
        Ok(())
    }

    /// Returns when to call [`tick`](Self::tick) again: a command may load its libraries and end within milliseconds.
    pub fn pace(&self) -> Duration {
        let so_far = self.began.elapsed().max(Duration::from_millis(1));
        if self.child.is_some() { so_far.min(BreakdownTracer::PACE) } else { BreakdownTracer::PACE }
    }

    /// Polls the tracing. Returns false once the target has ended.
    ///
    /// # Errors
    /// Fails if the tracer cannot be read.
    pub fn tick(&mut self) -> Result<bool, Failure> {
        self.tracer.poll().map_err(cannot)?;
        if Instant::now() >= self.next_step {
            self.watch_members()?;
            self.follow_chain()?;
            // Each step reads all counters: a long run is followed at increasing intervals.
            self.next_step = Instant::now() + STEP.max(self.began.elapsed() / 4);
        }
        let alive = match &mut self.child {
            Some(child) => {
                self.status = child.try_wait().ok().flatten();
                self.status.is_none()
            }
            None => self.members().iter().any(|pid| self.root.at(format!("proc/{pid}")).exists()),
        };
        Ok(alive)
    }

    /// Returns the processes of the target: excludes those of the chain, and the children of a process that was
    /// specified by PID.
    fn members(&self) -> BTreeSet<u32> {
        if let Some(pid) = self.target.pid {
            return BTreeSet::from([pid]);
        }
        let all = self.tracer.processes().unwrap_or_default();
        let of_chain = |root: &u32| self.chain.contains(&Step::Process(*root));
        all.into_iter().filter(|(_, root)| !of_chain(root)).map(|(pid, _)| pid).collect()
    }

    /// Returns the processes of the target and of the first links of the chain. A link that waits for one of them is
    /// idle.
    fn before(&self, links: usize, members: &BTreeSet<u32>, all: &BTreeMap<u32, u32>) -> BTreeSet<u32> {
        let mut before = members.clone();
        for step in &self.chain[..links] {
            match step {
                Step::Process(pid) => drop(before.insert(*pid)),
                Step::Children(of) => before.extend(all.iter().filter(|(_, root)| *root == of).map(|(pid, _)| *pid)),
                Step::Thread { .. } => {}
            }
        }
        before
    }

    /// Traces what the last link of the chain waits for.
    fn follow_chain(&mut self) -> Result<(), Failure> {
        if self.chain.len() >= LONGEST_CHAIN {
            return Ok(());
        }
        let members = self.members();
        let last = self.chain.last().map_or_else(|| ThreadSet::Processes(members.clone()), |step| step.threads());
        let times = self.tracer.read_without_functions(&[last]).map_err(cannot)?;
        let Some(mut times) = times.into_iter().next() else { return Ok(()) };
        if self.chain.is_empty() && !times.deadlock.is_empty() {
            self.deadlock.clone_from(&times.deadlock);
        }
        let all = self.tracer.processes().map_err(cannot)?;
        let before = self.before(self.chain.len(), &members, &all);
        mark_members(&mut times.parts, &before);
        let Some(step) = waited_for(&times.parts).and_then(|awaited| self.step(awaited)) else { return Ok(()) };
        if self.chain.contains(&step) {
            return Ok(());
        }
        match step {
            // Two programs that wait for each other alternate; one that has ended provides no more data.
            Step::Process(pid) => {
                let is_alive = self.root.at(format!("proc/{pid}")).exists();
                if !is_alive || before.contains(&pid) || pid == std::process::id() {
                    return Ok(());
                }
                self.tracer.watch(pid).map_err(cannot)?;
            }
            Step::Children(pid) => self.tracer.watch_children(pid).map_err(cannot)?,
            Step::Thread { tid, .. } => self.tracer.single_out(tid).map_err(cannot)?,
        }
        self.chain.push(step);
        Ok(())
    }

    /// Returns the next link of the chain. A group's children belong to the group.
    fn step(&self, awaited: Awaited) -> Option<Step> {
        let last = self.chain.last().map(|step| step.pid()).or(self.target.pid);
        Some(match awaited {
            Awaited::Process(pid) => Step::Process(pid),
            Awaited::Children => Step::Children(last?),
            Awaited::Thread(tid) => Step::Thread { pid: self.tracer.process_of(tid)?, tid },
        })
    }

    /// Terminates a command, and waits a while until it has ended.
    pub fn end(&mut self) {
        let Some(child) = &mut self.child else { return };
        let end = Instant::now() + GRACE;
        if let Ok(pid) = i32::try_from(child.id()) {
            // SAFETY: kill(2) of our own child, which has not been waited for yet.
            unsafe { libc::kill(pid, libc::SIGTERM) };
        }
        while Instant::now() < end && self.status.is_none() {
            std::thread::sleep(Duration::from_millis(20));
            self.status = child.try_wait().ok().flatten();
        }
    }

    /// Returns the chain of waits, as far as it holds over the whole time: each link waits most for the next one.
    fn chain(&self, times: &mut [ProcessTimes], members: &BTreeSet<u32>) -> Vec<ChainLink> {
        let all = self.tracer.processes().unwrap_or_default();
        for (number, times) in times.iter_mut().enumerate().skip(1) {
            // A program of the chain that waits for the ones before it is idle.
            mark_members(&mut times.parts, &self.before(number, members, &all));
        }
        let holds = |(times, next): &(&ProcessTimes, &Step)| waited_for(&times.parts).is_some_and(|of| next.is(of));
        let long = times.iter().zip(&self.chain).take_while(holds).count();
        if long == 0 {
            return Vec::new();
        }
        let first = members.first().copied().unwrap_or_default();
        let others = self.chain.iter().zip(&times[1..]).take(long).map(|(step, times)| self.link(*step, times, &all));
        std::iter::once(link(&self.name, first, None, &times[0].parts)).chain(others).collect()
    }

    fn link(&self, step: Step, times: &ProcessTimes, all: &BTreeMap<u32, u32>) -> ChainLink {
        let parts = of_waited_for(&times.parts);
        let name = |pid: u32| self.tracer.name(pid).unwrap_or("an ended process");
        match step {
            Step::Process(pid) => link(name(pid), pid, None, &parts),
            Step::Thread { pid, tid } => link(name(tid), pid, Some(tid), &parts),
            Step::Children(of) => {
                // The program whose processes lived longest, and one of these.
                let program = times.programs.first().map_or("an ended process", |program| program.name.as_str());
                let mut below = all.iter().filter(|(pid, root)| **root == of && **pid != of);
                let pid = below.rfind(|(pid, _)| name(**pid) == program).map_or(of, |(pid, _)| *pid);
                link(program, pid, None, &parts)
            }
        }
    }

    /// Adds the result to the diagnosis of the machine for the same time.
    ///
    /// # Errors
    /// Fails if the tracer cannot be read.
    pub fn finish(mut self, window: &Window, diagnosis: &mut Diagnosis) -> Result<(), Failure> {
        self.tracer.stop().map_err(cannot)?;
        let members = self.members();
        let mut sets = vec![ThreadSet::Processes(members.clone())];
        sets.extend(self.chain.iter().map(|step| step.threads()));
        let mut times = self.tracer.read(&sets).map_err(cannot)?;
        if let Some(own) = times.first_mut() {
            mark_members(&mut own.parts, &members);
            split_throttled(&mut own.parts, throttled(window, &members));
        }
        let chain = self.chain(&mut times, &members);
        let root =
            times.get(chain.len().saturating_sub(1)).map(|times| of_waited_for(&times.parts)).unwrap_or_default();
        let own = times.into_iter().next().unwrap_or_default();
        let is_one_process = own.programs.iter().map(|program| program.processes).sum::<usize>() < 2;
        let mut breakdown = TimeBreakdown {
            target: self.name.clone(),
            seconds: own.seconds,
            exit_status: self.status.map(|status| status.to_string()),
            threads: own.threads,
            thread_seconds: own.thread_seconds,
            samples: own.samples,
            parts: own.parts,
            busiest: own.busiest,
            programs: if is_one_process { Vec::new() } else { own.programs },
            deadlock: if own.deadlock.is_empty() { self.deadlock } else { own.deadlock },
            chain,
            cost: self.tracer.cost(),
            ..TimeBreakdown::default()
        };
        conclude(&mut breakdown, &root, &diagnosis.findings);
        diagnosis.time_breakdown = Some(breakdown);
        Ok(())
    }
}

impl WhyTarget {
    fn given(&self) -> String {
        let container = self.container.as_ref().map(|id| format!("container {id}"));
        let group = self.cgroup.as_ref().map(|group| format!("control group {group}"));
        self.unit.clone().or(container).or(group).unwrap_or_default()
    }

    fn missing(&self) -> String {
        match (&self.unit, &self.container, &self.cgroup) {
            (Some(unit), _, _) => {
                format!("no process is in the unit {unit}: 'systemctl status {unit}' shows whether it runs")
            }
            (_, Some(id), _) => format!("no process is in a container {id}"),
            (_, _, Some(path)) => {
                format!("no process is in the control group {path}; /proc/PID/cgroup shows how it is spelled")
            }
            _ => "there is no such process".into(),
        }
    }
}

/// Marks waits for other members of the same group as such.
fn mark_members(parts: &mut [TimePart], members: &BTreeSet<u32>) {
    for by in parts.iter_mut().flat_map(|part| &mut part.by) {
        if by.kind == "process" && by.pid.is_some_and(|pid| members.contains(&pid)) {
            by.kind = "member".into();
        }
    }
}

/// Returns the seconds for which the quota stopped the control groups of these processes.
fn throttled(window: &Window, members: &BTreeSet<u32>) -> f64 {
    let processes = window.changes::<Process>();
    let own = processes.iter().filter(|process| members.contains(&process.key().pid));
    let groups: BTreeSet<&str> = own.filter_map(|process| process.last().cgroup.get()).collect();
    let changes = window.changes::<Group>();
    let stopped = changes.iter().filter(|change| groups.iter().any(|of| cgroup::in_group(Some(of), change.key())));
    stopped.filter_map(|change| change.grown(|row| row.throttled_time)).fold(0.0, f64::max)
}

/// Splits the time without a CPU: separates the part caused by the quota.
fn split_throttled(parts: &mut Vec<TimePart>, throttled: f64) {
    let Some(at) = parts.iter().position(|part| part.kind == TimeKind::CpuWait).filter(|_| throttled > 0.0) else {
        return;
    };
    let part = &mut parts[at];
    let seconds = throttled.min(part.seconds);
    let share = part.share * seconds / part.seconds.max(1e-9);
    part.seconds -= seconds;
    part.share -= share;
    let (by, functions, released_in, programs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let quota = TimePart { kind: TimeKind::Throttled, seconds, share, times: 0, by, functions, released_in, programs };
    parts.push(quota);
    parts.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
}

/// Runs a command. It writes to stdout itself, or to stderr if the answer is JSON.
fn run(words: &[OsString], json: bool) -> Result<Child, Failure> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    if json {
        command.stdout(Stdio::from(io::stderr()));
    }
    command.spawn().map_err(|e| Failure::usage(format!("cannot run {}: {e}", words[0].to_string_lossy())))
}

/// Finds a container by name; Docker and Podman store names in files of their own.
fn container_by_name(target: &WhyTarget, root: &Root) -> Option<WhyTarget> {
    let name = target.container.as_deref()?;
    let docker = "var/lib/docker/containers";
    let id = root.list(docker).into_iter().find(|id| {
        let config = root.maybe(&format!("{docker}/{id}/config.v2.json")).unwrap_or_default();
        let config: Option<serde_json::Value> = serde_json::from_str(&config).ok();
        config.is_some_and(|config| config["Name"].as_str().is_some_and(|known| known.trim_start_matches('/') == name))
    });
    let id = id.or_else(|| {
        let all = root.maybe("var/lib/containers/storage/overlay-containers/containers.json")?;
        let all: Vec<serde_json::Value> = serde_json::from_str(&all).ok()?;
        let named = all
            .iter()
            .find(|one| one["names"].as_array().is_some_and(|names| names.iter().any(|known| known == name)))?;
        named["id"].as_str().map(str::to_owned)
    })?;
    Some(WhyTarget { container: Some(id), ..WhyTarget::default() })
}

fn cannot(error: SourceError) -> Failure {
    output::unreadable("trace where the time goes", error)
}
