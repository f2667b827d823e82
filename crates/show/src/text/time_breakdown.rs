//! Time breakdown of a program: a row for each activity of its threads, the processes it waits for, and the answer.

use super::heading;
use crate::canvas::{Canvas, NO_BREAK, bold, dim, plain};
use crate::human;
use whyslow_documents::time_breakdown::{Contributor, TimeBreakdown, TimePart, UNKNOWN};

/// A part below this share has no row without `all`.
const SMALL: f64 = 0.005;
/// Number of contributors and functions of a part, and of threads, named without `all`.
const NAMED: usize = 2;
/// Columns of a share: `100 %`.
const PERCENT: usize = 5;

pub(super) fn draw(canvas: &mut Canvas, breakdown: &TimeBreakdown, all: bool) {
    canvas.paragraph(0, 2, &[bold("Where the time goes: "), bold(&breakdown.target)]);
    canvas.paragraph(0, 2, &[dim(summary(breakdown))]);
    canvas.blank();
    let shown = breakdown.parts.iter().filter(|part| all || part.share >= SMALL);
    for part in shown {
        row(canvas, part, all);
    }
    let rest: f64 = breakdown.parts.iter().filter(|part| !all && part.share < SMALL).map(|part| part.share).sum();
    if rest > 0.0 {
        canvas.paragraph(2, 2 + PERCENT + 2, &[share(rest), plain("  "), dim("other (--all)")]);
    }
    if breakdown.chain.len() > 1 {
        heading(canvas, "Who waits for whom");
        for (depth, link) in breakdown.chain.iter().enumerate() {
            let column = 2 + 2 * depth;
            let name = match (depth, link.tid) {
                (0, _) => link.name.clone(),
                (_, Some(tid)) => format!("thread {} (tid{NO_BREAK}{tid})", link.name),
                (_, None) => format!("{} (pid{NO_BREAK}{})", link.name, link.pid),
            };
            let what = format!(": {} of the time it is not idle, {}", human::share(link.share), link.what);
            canvas.paragraph(column, column + 2, &[bold(name), plain(what)]);
        }
    }
    programs(canvas, breakdown, all);
    threads(canvas, breakdown, all);
    canvas.blank();
    canvas.paragraph(0, 2, &[bold("Answer"), plain("  "), plain(&breakdown.conclusion)]);
    if let Some(advice) = &breakdown.advice {
        let saves = format!("saves up to {} of the time that it is not idle", human::share(advice.saves));
        canvas.paragraph(0, 2, &[bold("Do"), plain("      "), plain(&advice.text), dim(format!(" ({saves})"))]);
    }
    for unseen in &breakdown.unseen {
        canvas.paragraph(0, 2, &[dim("Not seen: "), dim(unseen)]);
    }
    canvas.blank();
}

/// Formats `8 threads, 80 s of their time in 10 s; ended with exit status: 1. Tracing took 0.3 % of the machine.`
fn summary(breakdown: &TimeBreakdown) -> String {
    let threads = if breakdown.threads == 1 { "1 thread".into() } else { format!("{} threads", breakdown.threads) };
    let mut text = format!(
        "{threads}, {} of their time in {}",
        human::seconds(breakdown.thread_seconds),
        human::seconds(breakdown.seconds)
    );
    if let Some(status) = &breakdown.exit_status {
        text += &format!("; ended with {status}");
    }
    if let Some(cost) = breakdown.cost.cpu_share {
        text += &format!("; tracing took {} of the machine's CPU time", human::percent(cost));
    }
    if breakdown.cost.lost > 0 {
        text += &format!("; {} events did not fit into the tables", breakdown.cost.lost);
    }
    text
}

fn row(canvas: &mut Canvas, part: &TimePart, all: bool) {
    let named = if all { usize::MAX } else { NAMED };
    let mut details: Vec<String> =
        part.by.iter().filter(|by| all || by.share >= 0.1).take(named).map(contributor).collect();
    let functions =
        part.functions.iter().filter(|function| all || function.share >= 0.1 && function.name != UNKNOWN).take(named);
    details.extend(functions.map(|function| format!("in {} {}", function.name, human::share(function.share))));
    let places = part.released_in.iter().filter(|place| all || place.share >= 0.1).take(named);
    details.extend(places.map(|place| format!("released in {} {}", place.name, human::share(place.share))));
    let programs = part.programs.iter().filter(|program| all || program.share >= 0.1).take(named);
    details.extend(programs.map(|program| format!("by {} {}", program.name, human::share(program.share))));
    let mut line = vec![share(part.share), plain("  "), plain(part.kind.words())];
    if !details.is_empty() {
        line.extend([dim(": "), dim(details.join(", "))]);
    }
    canvas.paragraph(2, 2 + PERCENT + 2, &line);
}

fn contributor(by: &Contributor) -> String {
    let share = human::share(by.share);
    match (by.kind.as_str(), by.pid) {
        ("client", _) => format!("its client {} {share}", by.name),
        ("member", None) => format!("its own {} {share}", by.name),
        ("member", Some(pid)) => format!("its own {} (pid{NO_BREAK}{pid}) {share}", by.name),
        ("thread", Some(tid)) => format!("{} (tid{NO_BREAK}{tid}) {share}", by.name),
        (_, Some(pid)) => format!("{} (pid{NO_BREAK}{pid}) {share}", by.name),
        (_, None) => format!("{} {share}", by.name),
    }
}

/// Draws programs: `true ×300: lived 0.4 s, 0.1 s of it on a CPU`.
fn programs(canvas: &mut Canvas, breakdown: &TimeBreakdown, all: bool) {
    let named = if all { usize::MAX } else { NAMED };
    if breakdown.programs.is_empty() {
        return;
    }
    heading(canvas, "Programs");
    for program in breakdown.programs.iter().take(named) {
        let number = if program.processes == 1 { String::new() } else { format!(" ×{}", program.processes) };
        let (lived, ran) = (human::seconds(program.seconds), human::seconds(program.on_cpu));
        canvas.paragraph(2, 4, &[plain(format!("{}{number}: lived {lived}, {ran} on a CPU", program.name))]);
    }
}

fn threads(canvas: &mut Canvas, breakdown: &TimeBreakdown, all: bool) {
    let named = if all { usize::MAX } else { NAMED };
    let busy = breakdown.busiest.iter().filter(|thread| thread.on_cpu + thread.waiting_for_cpu >= 0.05).take(named);
    let lines: Vec<String> = busy
        .map(|thread| {
            let (runs, waits) = (human::share(thread.on_cpu), human::share(thread.waiting_for_cpu));
            format!("{} (tid{NO_BREAK}{}): {runs} on a CPU, {waits} waiting for one", thread.name, thread.tid)
        })
        .collect();
    // A single thread is covered by the rows above.
    if lines.is_empty() || breakdown.threads < 2 {
        return;
    }
    heading(canvas, "Busiest threads");
    lines.into_iter().for_each(|line| canvas.paragraph(2, 4, &[plain(line)]));
}

fn share(share: f64) -> crate::canvas::Piece {
    let text = human::share(share);
    let indent = NO_BREAK.to_string().repeat(PERCENT.saturating_sub(text.chars().count()));
    plain(indent + &text)
}
