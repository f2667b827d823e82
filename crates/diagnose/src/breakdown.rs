//! What the time of a program's threads says: whom it waits for, where the time goes in the end, and the one change that gains most.

use whyslow_model::diagnosis::{Confidence, Finding};
use whyslow_model::human;
use whyslow_model::time_breakdown::{
    Advice, ChainLink, Contributor, FunctionShare, TimeBreakdown, TimeKind, TimePart, UNKNOWN,
};

/// A share of the time that was not idle, from which on another program is the next link of the chain.
const WORTH_FOLLOWING: f64 = 0.25;
/// A share of the whole time below which a change gains nothing that anyone notices.
const WORTH_CHANGING: f64 = 0.05;
/// A share of its life on a CPU from which on a thread fills it.
const FILLS_A_CPU: f64 = 0.85;

/// The program that another one waits for most, if it is for a good part of the time in which that one was not idle: its PID.
pub fn waited_for(parts: &[TimePart]) -> Option<u32> {
    let busy = busy_share(parts);
    let mut waits: Vec<(u32, f64)> = Vec::new();
    for part in parts.iter().filter(|part| part.kind.is_for_others()) {
        for by in part.by.iter().filter(|by| by.kind == "process") {
            let Some(pid) = by.pid else { continue };
            match waits.iter_mut().find(|(known, _)| *known == pid) {
                Some((_, share)) => *share += part.share * by.share,
                None => waits.push((pid, part.share * by.share)),
            }
        }
    }
    let (pid, share) = waits.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (share >= WORTH_FOLLOWING * busy.max(share)).then_some(pid)
}

/// The share of the time in which something was done or waited for that someone else has to do.
fn busy_share(parts: &[TimePart]) -> f64 {
    parts.iter().map(weight).sum()
}

fn weight(part: &TimePart) -> f64 {
    part.share * effective(part)
}

/// The parts of a program that another one waits for: its sleep is then the cause, and not idleness.
pub fn of_waited_for(parts: &[TimePart]) -> Vec<TimePart> {
    let awake = |part: &TimePart| match part.kind {
        TimeKind::Sleep => TimePart { kind: TimeKind::Pause, ..part.clone() },
        _ => part.clone(),
    };
    parts.iter().map(awake).collect()
}

/// How much of a part counts: nothing of what its own processes or its clients are waited for, or of a wait that nobody ended, if a
/// thread without work waits like that.
fn effective(part: &TimePart) -> f64 {
    let of =
        |kinds: &[&str]| part.by.iter().filter(|by| kinds.contains(&by.kind.as_str())).map(|by| by.share).sum::<f64>();
    if part.kind.may_be_idle() {
        return of(&["process", "peer"]).min(1.0);
    }
    (1.0 - of(&["member"])).clamp(0.0, 1.0)
}

/// A link of the chain: what a program did most of the time that it was not idle.
pub fn link(name: &str, pid: u32, parts: &[TimePart]) -> ChainLink {
    let busy = busy_share(parts);
    let most = most(parts).or(parts.first());
    let Some(part) = most else {
        return ChainLink {
            name: name.into(),
            pid,
            kind: TimeKind::Other,
            share: 0.0,
            what: "nothing was seen of it".into(),
        };
    };
    let share = if busy > 0.0 { weight(part) / busy } else { part.share };
    let mut what = phrase(part);
    if effective(part) == 0.0
        && let Some(client) = part.by.iter().find(|by| by.kind == "client")
    {
        what += &format!(" of its client {}", name_of(client));
    }
    ChainLink { name: name.into(), pid, kind: part.kind, share, what }
}

/// The part that took most of the time that was not idle.
fn most(parts: &[TimePart]) -> Option<&TimePart> {
    parts.iter().filter(|part| weight(part) > 0.0).max_by(|a, b| weight(a).total_cmp(&weight(b)))
}

/// `waiting for fsync on vda`.
fn phrase(part: &TimePart) -> String {
    let words = part.kind.words();
    let by = part.by.iter().find(|by| by.kind != "member" && by.kind != "client");
    match (part.kind, by) {
        (TimeKind::User | TimeKind::Kernel, _) => match main_function(part) {
            Some(function) => format!("{words} ({} {})", function.name, human::share(function.share)),
            None => words.into(),
        },
        (TimeKind::CpuWait, Some(by)) => format!("{words}, which {} has", name_of(by)),
        (TimeKind::Lock, Some(by)) => format!("{words} that {} holds", name_of(by)),
        (
            TimeKind::Child | TimeKind::Pipe | TimeKind::Futex | TimeKind::Ipc | TimeKind::FileLock | TimeKind::Poll,
            Some(by),
        ) => {
            format!("{words}: {}", name_of(by))
        }
        (TimeKind::Receive | TimeKind::Send | TimeKind::Connect, Some(by)) => {
            format!("{}: {}", words.replace("a peer", "its peer"), name_of(by))
        }
        (_, Some(by)) => format!("{words} on {}", name_of(by)),
        (_, None) => words.into(),
    }
}

/// The function that takes most of a part, if it is a good share and has a name.
fn main_function(part: &TimePart) -> Option<&FunctionShare> {
    part.functions.first().filter(|function| function.share >= 0.2 && function.name != UNKNOWN)
}

fn name_of(by: &Contributor) -> String {
    match (by.kind.as_str(), by.pid) {
        ("thread", Some(tid)) => format!("thread {} (tid {tid})", by.name),
        (_, Some(pid)) => format!("{} (pid {pid})", by.name),
        (_, None) => by.name.clone(),
    }
}

/// Adds the conclusion and the advice to a breakdown whose parts and chain are known. `root` are the parts of the last program in
/// the chain; `findings` are those of the machine in the same time.
pub fn conclude(breakdown: &mut TimeBreakdown, root: &[TimePart], findings: &[Finding]) {
    if !breakdown.deadlock.is_empty() {
        let threads: Vec<String> = breakdown.deadlock.iter().map(|t| format!("{} (tid {})", t.name, t.tid)).collect();
        let how = match &threads[..] {
            [one] => format!("the thread {one} waits for a lock that it holds itself"),
            several => format!("the threads {} wait for each other's locks", several.join(" and ")),
        };
        breakdown.conclusion = format!("{} is deadlocked: {how}.", breakdown.target);
        let text = "Restart it, and have all code take these locks in the same order.".into();
        breakdown.advice = Some(Advice { text, saves: 1.0, finding: None });
        return;
    }
    let busy = busy_share(&breakdown.parts);
    let target = breakdown.target.clone();
    let Some(part) = most(&breakdown.parts).filter(|_| busy >= WORTH_CHANGING / 5.0) else {
        breakdown.conclusion = idle(breakdown);
        return;
    };
    let share = weight(part);
    let of_what = if busy < 0.5 {
        format!(
            "has nothing to do {} of the time; of the rest, {} is",
            human::share(1.0 - busy),
            human::share(share / busy)
        )
    } else {
        format!("spends {} of its time", human::share(share))
    };
    let mut sentence = format!("{target} {of_what} {}", phrase(part));
    let last = breakdown.chain.last().filter(|_| breakdown.chain.len() > 1);
    if let Some(last) = last {
        sentence += &format!("; in the end the time goes to {} (pid {}), {}", last.name, last.pid, last.what);
    }
    breakdown.conclusion = sentence + ".";
    let (cause, of_cause) = match last {
        Some(_) => {
            let all = busy_share(root);
            let cause = most(root).or(root.first());
            (cause, cause.map_or(0.0, |cause| if all > 0.0 { weight(cause) / all } else { 1.0 }))
        }
        None => (Some(part), 1.0),
    };
    let saves = share * of_cause / busy;
    let fills = last.is_none() && breakdown.busiest.first().is_some_and(|thread| thread.on_cpu >= FILLS_A_CPU);
    let holds = breakdown.chain.iter().rev().nth(1).is_some_and(|link| link.kind == TimeKind::Lock);
    breakdown.advice = cause.filter(|_| saves >= WORTH_CHANGING).map(|cause| match last {
        Some(last) if holds && cause.kind.may_be_idle() => {
            let ChainLink { name, pid, what, .. } = last;
            Advice {
                text: format!("Have {name} (pid {pid}) release its lock: it holds it while it is {what}."),
                saves,
                finding: None,
            }
        }
        _ => advice(cause, last, saves, fills, findings),
    });
}

fn idle(breakdown: &TimeBreakdown) -> String {
    let Some(first) = breakdown.parts.first() else {
        return format!("Nothing was seen of {}.", breakdown.target);
    };
    let client = first.by.iter().find(|by| by.kind == "client").map(|by| format!(" (its clients: {})", by.name));
    format!(
        "{} has nothing to do: {} of its time it is {}{}.",
        breakdown.target,
        human::share(first.share),
        first.kind.words(),
        client.unwrap_or_default()
    )
}

fn advice(part: &TimePart, last: Option<&ChainLink>, saves: f64, fills: bool, findings: &[Finding]) -> Advice {
    let finding = finding_for(part, findings);
    let action = finding.and_then(|finding| finding.actions.first());
    let text = match action {
        Some(action) => action.text.clone(),
        None => own_advice(part, last, fills),
    };
    Advice { text, saves: saves.min(1.0), finding: finding.map(Finding::key) }
}

/// The finding on the machine that explains a part: of the same device, or of the resource that the part is a wait for.
fn finding_for<'f>(part: &TimePart, findings: &'f [Finding]) -> Option<&'f Finding> {
    let device = part.by.iter().find(|by| by.kind == "device").map(|by| by.name.as_str());
    let explains = |finding: &&Finding| match part.kind {
        TimeKind::CpuWait => finding.id == "cpu.saturated",
        TimeKind::Throttled => finding.id == "cpu.throttled",
        TimeKind::Reclaim => finding.id.starts_with("mem."),
        TimeKind::PageFault => {
            finding.id.starts_with("mem.")
                || finding.id.starts_with("disk.") && Some(finding.subject.name.as_str()) == device
        }
        TimeKind::Nfs => finding.id.starts_with("nfs."),
        kind if kind.is_disk() => {
            (finding.id.starts_with("disk.") || finding.id.starts_with("mem.dirty"))
                && device.is_some_and(|device| {
                    finding.subject.name == device || finding.culprits.iter().any(|c| c.name == device)
                })
        }
        _ => false,
    };
    let sure = findings.iter().filter(|finding| finding.confidence >= Confidence::Medium);
    sure.filter(explains).find(|finding| !finding.actions.is_empty())
}

fn own_advice(part: &TimePart, last: Option<&ChainLink>, fills: bool) -> String {
    let by = part.by.iter().find(|by| by.kind != "member" && by.kind != "client");
    let function = main_function(part).map(|function| function.name.as_str());
    let whose = last.map_or("the program".to_owned(), |last| format!("{} (pid {})", last.name, last.pid));
    match (part.kind, by) {
        (TimeKind::User, _) => match (function, fills) {
            (Some(function), true) => {
                format!("Make {function} faster, or divide the work among threads: one thread fills its CPU.")
            }
            (Some(function), false) => format!("Make {function} faster: it takes most of the CPU time of {whose}."),
            (None, true) => "Divide the work among threads, or make it cheaper: one thread fills its CPU.".into(),
            (None, false) => format!("Find out with 'whyslow profile' which code of {whose} takes the CPU time."),
        },
        (TimeKind::Kernel, _) => match function {
            Some(function) => {
                format!("Have {whose} make fewer or larger system calls: the kernel spends its time in {function}.")
            }
            None => format!("Have {whose} make fewer or larger system calls."),
        },
        (TimeKind::CpuWait, Some(by)) => {
            format!("Take the CPU from {}: lower its priority (renice -n 10), or move it.", name_of(by))
        }
        (TimeKind::CpuWait, None) => "Give it more CPUs, or a higher priority.".into(),
        (TimeKind::Throttled, _) => "Raise the CPU quota of its control group.".into(),
        (TimeKind::Read, by) => format!("Keep what it reads in memory, or read ahead further{}.", on(by)),
        (TimeKind::Write | TimeKind::DirectIo | TimeKind::BlockIo, by) => {
            format!("Have more requests in flight, or use a faster device{}.", on(by))
        }
        (TimeKind::Fsync | TimeKind::Journal, by) => {
            format!(
                "Flush less often (group commits), or put the log on a device with a protected write cache{}.",
                on(by)
            )
        }
        (TimeKind::Writeback, by) => {
            format!("Write less, or to a faster device{}: dirty pages are at their limit.", on(by))
        }
        (TimeKind::PageFault | TimeKind::Reclaim, _) => "Give it more memory, or have it use less.".into(),
        (TimeKind::Nfs, _) => "Look at the NFS server and the path to it: nfsiostat 1.".into(),
        (TimeKind::Lock, Some(by)) => {
            format!("Have {} hold the lock for less time{}.", name_of(by), waited_in(function))
        }
        (TimeKind::Lock, None) => format!("Hold the lock for less time{}.", waited_in(function)),
        (TimeKind::KernelLock, _) => format!("Avoid the calls that wait for the kernel's lock{}.", within(function)),
        (TimeKind::FileLock, Some(by)) => format!("Have {} hold the file lock for less time.", name_of(by)),
        (TimeKind::Sleep | TimeKind::Pause, _) => {
            format!("Shorten the pause of {whose}{}, or have it wait for the event itself.", within(function))
        }
        (TimeKind::Stopped, _) => format!("Continue {whose}: it was stopped by a signal or a debugger."),
        (TimeKind::Receive | TimeKind::Send | TimeKind::Connect, Some(by)) => {
            format!("Look at {}: it is its turn.", name_of(by))
        }
        (_, Some(by)) => format!("Look at {}: the program waits for it.", name_of(by)),
        (_, None) => format!("Find out with 'whyslow profile --off-cpu' what {whose} waits for."),
    }
}

fn on(by: Option<&Contributor>) -> String {
    by.map(|by| format!(" ({})", by.name)).unwrap_or_default()
}

fn waited_in(function: Option<&str>) -> String {
    function.map(|function| format!("; it is waited for in {function}")).unwrap_or_default()
}

fn within(function: Option<&str>) -> String {
    function.map(|function| format!(" in {function}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::time_breakdown::LockedThread;

    fn part(kind: TimeKind, share: f64, by: &[(&str, &str, Option<u32>, f64)]) -> TimePart {
        let contributor = |&(kind, name, pid, share): &(&str, &str, Option<u32>, f64)| Contributor {
            kind: kind.into(),
            name: name.into(),
            pid,
            share,
        };
        let by = by.iter().map(contributor).collect();
        TimePart { kind, seconds: share * 10.0, share, times: 1, by, functions: Vec::new() }
    }

    fn concluded(parts: Vec<TimePart>, chain: Vec<ChainLink>, root: &[TimePart]) -> TimeBreakdown {
        let mut breakdown = TimeBreakdown { target: "app (pid 1)".into(), parts, chain, ..TimeBreakdown::default() };
        conclude(&mut breakdown, root, &[]);
        breakdown
    }

    #[test]
    fn the_longest_part_that_is_not_idle_is_named() {
        let fsync = part(TimeKind::Fsync, 0.7, &[("device", "vda", None, 1.0)]);
        let found = concluded(vec![fsync, part(TimeKind::User, 0.3, &[])], Vec::new(), &[]);
        assert_eq!(found.conclusion, "app (pid 1) spends 70 % of its time waiting for fsync on vda.");
        assert!((found.advice.as_ref().unwrap().saves - 0.7).abs() < 1e-9);
        assert!(found.advice.unwrap().text.contains("(vda)"));
    }

    #[test]
    fn idle_threads_do_not_hide_what_is_slow() {
        let parts =
            vec![part(TimeKind::Poll, 0.9, &[]), part(TimeKind::User, 0.08, &[]), part(TimeKind::Read, 0.02, &[])];
        let found = concluded(parts, Vec::new(), &[]);
        assert_eq!(
            found.conclusion,
            "app (pid 1) has nothing to do 90 % of the time; of the rest, 80 % is on a CPU, in its own code."
        );
        assert!((found.advice.unwrap().saves - 0.8).abs() < 1e-9);
    }

    #[test]
    fn a_program_without_work_is_idle() {
        let found = concluded(vec![part(TimeKind::Poll, 0.999, &[("client", "wrk", None, 0.5)])], Vec::new(), &[]);
        assert_eq!(
            found.conclusion,
            "app (pid 1) has nothing to do: 100 % of its time it is waiting for events (its clients: wrk)."
        );
        assert_eq!(found.advice, None);
    }

    #[test]
    fn the_end_of_the_chain_is_the_cause() {
        let wait = part(TimeKind::Receive, 0.95, &[("process", "db", Some(2), 1.0)]);
        let of_db = [part(TimeKind::Fsync, 0.9, &[("device", "vdb", None, 1.0)]), part(TimeKind::User, 0.1, &[])];
        assert_eq!(waited_for(std::slice::from_ref(&wait)), Some(2));
        let chain = vec![link("app", 1, std::slice::from_ref(&wait)), link("db", 2, &of_db)];
        let found = concluded(vec![wait, part(TimeKind::User, 0.05, &[])], chain, &of_db);
        assert_eq!(
            found.conclusion,
            "app (pid 1) spends 95 % of its time waiting for data of its peer: db (pid 2); in the end the time goes to db (pid 2), waiting for fsync on vdb."
        );
        let advice = found.advice.unwrap();
        assert!((advice.saves - 0.95 * 0.9).abs() < 1e-9);
        assert!(advice.text.contains("vdb"), "{}", advice.text);
    }

    #[test]
    fn a_program_that_is_waited_for_is_not_idle_while_it_sleeps() {
        let wait = part(TimeKind::Receive, 1.0, &[("process", "db", Some(2), 1.0)]);
        let of_db = of_waited_for(&[part(TimeKind::Sleep, 0.98, &[]), part(TimeKind::CpuWait, 0.02, &[])]);
        let chain = vec![link("app", 1, std::slice::from_ref(&wait)), link("db", 2, &of_db)];
        let found = concluded(vec![wait], chain, &of_db);
        assert!(found.conclusion.ends_with("in the end the time goes to db (pid 2), asleep."), "{}", found.conclusion);
        assert!(found.advice.unwrap().text.starts_with("Shorten the pause of db (pid 2)"));
    }

    #[test]
    fn a_deadlock_is_named_first() {
        let thread = |name: &str, tid| LockedThread { name: name.into(), tid };
        let mut breakdown = TimeBreakdown {
            target: "app (pid 1)".into(),
            parts: vec![part(TimeKind::Lock, 1.0, &[])],
            deadlock: vec![thread("one", 2), thread("two", 3)],
            ..TimeBreakdown::default()
        };
        conclude(&mut breakdown, &[], &[]);
        assert_eq!(
            breakdown.conclusion,
            "app (pid 1) is deadlocked: the threads one (tid 2) and two (tid 3) wait for each other's locks."
        );
    }

    #[test]
    fn a_stopped_program_is_not_idle() {
        let found = concluded(vec![part(TimeKind::Stopped, 1.0, &[])], Vec::new(), &[]);
        assert_eq!(found.conclusion, "app (pid 1) spends 100 % of its time stopped.");
    }

    #[test]
    fn an_idle_holder_of_a_lock_is_asked_to_release_it() {
        let wait = part(TimeKind::Lock, 1.0, &[("process", "postgres", Some(2), 1.0)]);
        let of_holder = [part(TimeKind::Poll, 1.0, &[("client", "psql", Some(3), 1.0)])];
        let chain = vec![link("postgres", 1, std::slice::from_ref(&wait)), link("postgres", 2, &of_holder)];
        let found = concluded(vec![wait], chain, &of_holder);
        assert_eq!(
            found.advice.unwrap().text,
            "Have postgres (pid 2) release its lock: it holds it while it is waiting for events of its client psql (pid 3)."
        );
    }

    #[test]
    fn whoever_is_waited_for_little_is_not_followed() {
        let parts = [part(TimeKind::User, 0.9, &[]), part(TimeKind::Pipe, 0.1, &[("process", "tail", Some(3), 1.0)])];
        assert_eq!(waited_for(&parts), None);
        let client = [part(TimeKind::Poll, 1.0, &[("client", "wrk", Some(4), 1.0)])];
        assert_eq!(waited_for(&client), None);
    }

    #[test]
    fn waiting_for_its_own_children_does_not_count() {
        let parts =
            vec![part(TimeKind::Child, 0.5, &[("member", "sort", Some(5), 1.0)]), part(TimeKind::User, 0.5, &[])];
        let found = concluded(parts, Vec::new(), &[]);
        assert!(found.conclusion.contains("spends 50 % of its time on a CPU"), "{}", found.conclusion);
    }

    #[test]
    fn the_function_that_takes_the_time_is_named() {
        let mut user = part(TimeKind::User, 1.0, &[]);
        user.functions = vec![FunctionShare { name: "hash".into(), share: 0.6 }];
        let found = concluded(vec![user], Vec::new(), &[]);
        assert!(found.conclusion.ends_with("in its own code (hash 60 %)."), "{}", found.conclusion);
        assert_eq!(found.advice.unwrap().text, "Make hash faster: it takes most of the CPU time of the program.");
    }
}
