//! Sums up a breakdown in a sentence, with what could not be measured.

use super::advice::advice;
use super::{busy_share, most, name_of_link, own_share, phrase, weight};
use whyslow_documents::diagnosis::Finding;
use whyslow_documents::time_breakdown::{
    Advice, ChainLink, FEW_SAMPLES, ProgramTime, TimeBreakdown, TimeKind, TimePart, UNKNOWN,
};
use whyslow_model::human;

/// Minimum share of the whole time for a change to be noticeable.
const WORTH_CHANGING: f64 = 0.05;
/// Share of its life on a CPU from which a thread fills the CPU.
const FILLS_A_CPU: f64 = 0.85;
/// Processes that live for less than this, in seconds, mostly start and end; and the number of them that is worth a remark.
const SHORT_LIFE: f64 = 0.05;
const MANY_PROCESSES: usize = 20;
/// Share of the time in which they live from which they are the cause.
const WORTH_FEWER: f64 = 0.3;

/// Adds the conclusion and the advice to a breakdown whose parts and chain are known. `root` holds the parts of the last program
/// in the chain; `findings` are those of the machine in the same time.
pub fn conclude(breakdown: &mut TimeBreakdown, root: &[TimePart], findings: &[Finding]) {
    breakdown.unseen = unseen(breakdown);
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
    let own = own_share(&breakdown.parts);
    let of_what = if busy / own < 0.5 {
        format!(
            "has nothing to do {} of the time; of the rest, {} is",
            human::share(1.0 - busy / own),
            human::share(share / busy)
        )
    } else {
        format!("spends {} of its time", human::share(share / own))
    };
    let mut sentence = format!("{target} {of_what} {}", phrase(part));
    if let Some(program) = part.programs.first().filter(|program| program.share >= 0.5) {
        sentence += &format!(", in {}", program.name);
    }
    let last = breakdown.chain.last().filter(|_| breakdown.chain.len() > 1);
    if let Some(last) = last {
        sentence += &format!("; in the end the time goes to {}, {}", name_of_link(last), last.what);
    }
    let many = many_short_processes(breakdown, own).filter(|_| last.is_none());
    if let Some((program, _)) = &many {
        sentence += &format!("; it started {} {} times", program.name, program.processes);
    }
    breakdown.conclusion = sentence + ".";
    if let Some((program, saves)) = many
        && matches!(part.kind, TimeKind::User | TimeKind::Kernel | TimeKind::CpuWait | TimeKind::PageFault)
    {
        let each = human::quantity(program.seconds / program.processes as f64, "s");
        let text = format!(
            "Start fewer processes: {} lives only {each} each time, most of it to start and end.",
            program.name
        );
        breakdown.advice = Some(Advice { text, saves, finding: None });
        return;
    }
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
    let is_lock = |link: &ChainLink| matches!(link.kind, TimeKind::Lock | TimeKind::FileLock);
    let holds = breakdown.chain.iter().rev().nth(1).is_some_and(is_lock);
    breakdown.advice = cause.filter(|_| saves >= WORTH_CHANGING).map(|cause| match last {
        Some(last) if holds && (cause.kind.may_be_idle() || cause.kind == TimeKind::Pause) => Advice {
            text: format!("Have {} release its lock: it holds it while it is {}.", name_of_link(last), last.what),
            saves,
            finding: None,
        },
        _ => advice(cause, last, saves, fills, findings),
    });
}

/// Returns the program that was started most often, if its processes are short and take a good part of the time; and their share
/// of it.
fn many_short_processes(breakdown: &TimeBreakdown, own: f64) -> Option<(ProgramTime, f64)> {
    let is_short = |program: &&ProgramTime| {
        program.processes >= MANY_PROCESSES && program.seconds < SHORT_LIFE * program.processes as f64
    };
    let short = breakdown.programs.iter().filter(is_short);
    let seconds: f64 = short.clone().map(|program| program.seconds).sum();
    let share = seconds / (breakdown.thread_seconds * own).max(1e-9);
    let most = short.max_by_key(|program| program.processes)?;
    (share >= WORTH_FEWER).then(|| (most.clone(), share.min(1.0)))
}

/// Lists what was too short to be measured.
fn unseen(breakdown: &TimeBreakdown) -> Vec<String> {
    let of = |kind| breakdown.parts.iter().find(|part: &&TimePart| part.kind == kind);
    let running = [TimeKind::User, TimeKind::Kernel].into_iter().filter_map(of);
    let (share, seconds) = running.fold((0.0, 0.0), |sum, part| (sum.0 + part.share, sum.1 + part.seconds));
    let mut unseen = Vec::new();
    if breakdown.samples < FEW_SAMPLES && share >= WORTH_CHANGING {
        unseen.push(format!(
            "It ran on a CPU for only {}, in which {} were taken: which code ran, and how much of it in the kernel, is a guess.",
            human::quantity(seconds, "s"),
            match breakdown.samples {
                0 => "no samples".into(),
                1 => "1 sample".into(),
                samples => format!("{samples} samples"),
            }
        ));
    }
    let unnamed = of(TimeKind::User).and_then(|part| part.functions.iter().find(|function| function.name == UNKNOWN));
    let is_short = |program: &&ProgramTime| program.seconds < SHORT_LIFE * 2.0 * program.processes as f64;
    let short: Vec<&ProgramTime> = breakdown.programs.iter().filter(is_short).collect();
    if let (Some(unnamed), Some(most)) =
        (unnamed.filter(|unnamed| unnamed.share >= 0.2), short.iter().max_by_key(|p| p.processes))
    {
        let processes: usize = short.iter().map(|program| program.processes).sum();
        unseen.push(format!(
            "{processes} processes, most of them {}, ended before their code could be looked up: {} of the time in programs' own code has no functions.",
            most.name,
            human::share(unnamed.share)
        ));
    }
    unseen
}

fn idle(breakdown: &TimeBreakdown) -> String {
    let Some(first) = breakdown.parts.first() else {
        return format!("{} was not observed.", breakdown.target);
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
