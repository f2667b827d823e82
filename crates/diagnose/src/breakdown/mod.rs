//! Interprets the time of a program's threads: which process it waits for, where the time goes in the end, and the one change
//! that gains most.

mod advice;
mod conclusion;
#[cfg(test)]
mod tests;

pub use conclusion::conclude;

use whyslow_documents::time_breakdown::{ChainLink, Contributor, FunctionShare, TimeKind, TimePart, UNKNOWN};
use whyslow_model::human;

/// Share of the non-idle time from which another program is the next link of the chain.
const WORTH_FOLLOWING: f64 = 0.25;

/// What a program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Another program, by its PID.
    Process(u32),
    /// One of its own threads that holds a lock, by its TID.
    Thread(u32),
    /// Processes that it started.
    Children,
}

/// Returns what a program waits for most, if it is a good part of the time in which it was not idle.
pub fn waited_for(parts: &[TimePart]) -> Option<Awaited> {
    let busy = busy_share(parts);
    let mut waits: Vec<(Awaited, f64)> = Vec::new();
    for part in parts.iter().filter(|part| part.kind.is_for_others()) {
        for (by, awaited) in part.by.iter().filter_map(|by| Some((by, awaited(part.kind, by)?))) {
            match waits.iter_mut().find(|(known, _)| *known == awaited) {
                Some((_, share)) => *share += part.share * by.share,
                None => waits.push((awaited, part.share * by.share)),
            }
        }
    }
    let (awaited, share) = waits.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (share >= WORTH_FOLLOWING * busy.max(share)).then_some(awaited)
}

/// Threads that hand a lock to each other block each other; one that has it most of the time blocks the others.
fn awaited(kind: TimeKind, by: &Contributor) -> Option<Awaited> {
    match (by.kind.as_str(), kind) {
        ("process", TimeKind::Child) => Some(Awaited::Children),
        ("process", _) => by.pid.map(Awaited::Process),
        ("thread", TimeKind::Lock | TimeKind::FileLock) if by.share >= 0.5 => by.pid.map(Awaited::Thread),
        _ => None,
    }
}

/// Returns the share of the time that was not idle, without waits for processes that are counted themselves.
fn busy_share(parts: &[TimePart]) -> f64 {
    parts.iter().map(weight).sum()
}

/// Returns the share of the time that was not spent waiting for processes that are counted themselves.
fn own_share(parts: &[TimePart]) -> f64 {
    let of_members =
        |part: &TimePart| part.share * part.by.iter().filter(|by| by.kind == "member").map(|by| by.share).sum::<f64>();
    (1.0 - parts.iter().map(of_members).sum::<f64>()).clamp(0.01, 1.0)
}

fn weight(part: &TimePart) -> f64 {
    part.share * effective(part)
}

/// Returns the parts of a program that another one waits for: its sleep is then the cause, not idleness.
pub fn of_waited_for(parts: &[TimePart]) -> Vec<TimePart> {
    let awake = |part: &TimePart| match part.kind {
        TimeKind::Sleep => TimePart { kind: TimeKind::Pause, ..part.clone() },
        _ => part.clone(),
    };
    parts.iter().map(awake).collect()
}

/// Returns how much of a part counts: not the waits for its own processes or for clients, nor a wait without a known waker if an
/// idle thread waits like that.
fn effective(part: &TimePart) -> f64 {
    let of =
        |kinds: &[&str]| part.by.iter().filter(|by| kinds.contains(&by.kind.as_str())).map(|by| by.share).sum::<f64>();
    if part.kind.may_be_idle() {
        return of(&["process", "peer"]).min(1.0);
    }
    (1.0 - of(&["member"])).clamp(0.0, 1.0)
}

/// Returns a link of the chain: the main activity of a program, or of one of its threads, while it was not idle.
pub fn link(name: &str, pid: u32, tid: Option<u32>, parts: &[TimePart]) -> ChainLink {
    let busy = busy_share(parts);
    let most = most(parts).or(parts.first());
    let Some(part) = most else {
        return ChainLink {
            name: name.into(),
            pid,
            tid,
            kind: TimeKind::Other,
            share: 0.0,
            what: "not observed".into(),
        };
    };
    let share = if busy > 0.0 { weight(part) / busy } else { part.share };
    let mut what = phrase(part);
    if effective(part) == 0.0
        && let Some(client) = part.by.iter().find(|by| by.kind == "client")
    {
        what = format!("waiting for its client {}", name_of(client));
    }
    ChainLink { name: name.into(), pid, tid, kind: part.kind, share, what }
}

/// Formats as `thread lockhog (tid 12)` or `postgres (pid 11)`.
fn name_of_link(link: &ChainLink) -> String {
    match link.tid {
        Some(tid) => format!("thread {} (tid {tid})", link.name),
        None => format!("{} (pid {})", link.name, link.pid),
    }
}

/// Returns the part that took most of the non-idle time.
fn most(parts: &[TimePart]) -> Option<&TimePart> {
    parts.iter().filter(|part| weight(part) > 0.0).max_by(|a, b| weight(a).total_cmp(&weight(b)))
}

/// Formats as `waiting for fsync on vda`.
fn phrase(part: &TimePart) -> String {
    let words = part.kind.words();
    let by = part.by.iter().find(|by| by.kind != "member" && by.kind != "client");
    match (part.kind, by) {
        (TimeKind::User | TimeKind::Kernel, _) => match main_function(part) {
            Some(function) => format!("{words} ({} {})", function.name, human::share(function.share)),
            None => words.into(),
        },
        (TimeKind::CpuWait, Some(by)) => format!("{words}, which {} has", name_of(by)),
        (TimeKind::Lock | TimeKind::FileLock, Some(by)) => {
            let place = part.released_in.first().filter(|place| place.share >= 0.5);
            let place = place.map(|place| format!(" in {}", place.name)).unwrap_or_default();
            format!("{words} that {} holds{place}", name_of(by))
        }
        (TimeKind::Child | TimeKind::Pipe | TimeKind::Futex | TimeKind::Ipc | TimeKind::Poll, Some(by)) => {
            format!("{words}: {}", name_of(by))
        }
        (TimeKind::Receive | TimeKind::Send | TimeKind::Connect, Some(by)) => {
            format!("{}: {}", words.replace("a peer", "its peer"), name_of(by))
        }
        (_, Some(by)) => format!("{words} on {}", name_of(by)),
        (_, None) => words.into(),
    }
}

/// Returns the function that takes most of a part, if it is a good share and has a name.
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
