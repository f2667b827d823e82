//! A profile: the functions that took the time, and their callers.

use super::{TextStyle, blind_spots, heading};
use crate::canvas::{Canvas, Ink, NO_BREAK, Piece, bold, dim, plain};
use crate::flame::{amount, name, origin, title};
use crate::human;
use whyslow_documents::profile::{Frame, ProfileKind, Share, Stack, StackProfile};

/// Number of functions and stacks listed without `all`.
const FUNCTIONS: usize = 12;
const STACKS: usize = 4;
/// Number of a stack's callers listed without `all`; the middle of a deep stack is left out.
const CALLERS: usize = 12;
/// Columns of a share: `100 %`.
const PERCENT: usize = 5;

/// Formats the functions with the largest weights, the heaviest stacks, and blind spots.
pub fn profile(profile: &StackProfile, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    canvas.paragraph(0, 2, &[bold(title(profile))]);
    if let Some(finding) = &profile.finding {
        canvas.paragraph(0, 2, &[plain("blamed by "), plain(finding)]);
    }
    canvas.paragraph(0, 2, &[plain(summary(profile))]);
    if !profile.stacks.is_empty() {
        functions(&mut canvas, profile, style.all);
        stacks(&mut canvas, profile, style.all);
    }
    blind_spots(&mut canvas, &profile.blind_spots);
    canvas.finish()
}

/// Returns the total weight, and its meaning on average.
fn summary(profile: &StackProfile) -> String {
    if profile.stacks.is_empty() {
        return match profile.kind {
            ProfileKind::OnCpu => "Nothing ran: it was never on a CPU when a sample was taken.".into(),
            ProfileKind::OffCpu => "Nothing waited.".into(),
        };
    }
    let amount = amount(profile, profile.weight());
    let average = profile.threads().unwrap_or(0.0);
    match (profile.kind, profile.cpus) {
        (ProfileKind::OnCpu, Some(1)) => format!("{amount}: {average:.2} of 1 CPU on average"),
        (ProfileKind::OnCpu, Some(cpus)) => format!("{amount}: {average:.2} of {cpus} CPUs on average"),
        (ProfileKind::OnCpu, None) => format!("{amount}: {average:.2} CPUs on average"),
        (ProfileKind::OffCpu, _) => format!("{amount} waited: {average:.2} threads at any time"),
    }
}

fn functions(canvas: &mut Canvas, profile: &StackProfile, all: bool) {
    heading(canvas, "Functions");
    let shares = profile.functions();
    let shown = if all { shares.len() } else { FUNCTIONS.min(shares.len()) };
    canvas.paragraph(
        2,
        2,
        &[dim(format!("{:>PERCENT$}  {:>PERCENT$}", "self", "all").replace(' ', &NO_BREAK.to_string()))],
    );
    for share in &shares[..shown] {
        function(canvas, profile, share);
    }
    more(canvas, shares.len() - shown);
}

fn function(canvas: &mut Canvas, profile: &StackProfile, share: &Share) {
    let Some(frame) = profile.frame(share.frame) else { return };
    let mut line = vec![percent(profile, share.own), plain("  "), percent(profile, share.total), plain("  ")];
    line.extend(called(frame));
    if frame.function.is_some() && !origin(frame).is_empty() {
        line.extend([plain("  "), dim(origin(frame))]);
    }
    canvas.paragraph(2, 2 + 2 * (PERCENT + 2), &line);
}

fn stacks(canvas: &mut Canvas, profile: &StackProfile, all: bool) {
    heading(canvas, "Heaviest stacks");
    let shown = if all { profile.stacks.len() } else { STACKS.min(profile.stacks.len()) };
    for stack in &profile.stacks[..shown] {
        let whose = format!("{} (pid{NO_BREAK}{})", stack.process.name, stack.process.pid);
        let head =
            [percent(profile, stack.weight), plain("  "), bold(whose), dim(", "), dim(amount(profile, stack.weight))];
        canvas.paragraph(2, 2 + PERCENT + 2, &head);
        canvas.paragraph(2 + PERCENT + 2, 2 + PERCENT + 4, &way(profile, stack, all));
    }
    more(canvas, profile.stacks.len() - shown);
}

/// Formats a stack: `main → work → memset`.
fn way(profile: &StackProfile, stack: &Stack, all: bool) -> Vec<Piece> {
    let frames: Vec<&Frame> = profile.frames_of(stack).collect();
    let left_out = if all { 0 } else { frames.len().saturating_sub(CALLERS) };
    // The outermost callers show on whose behalf the work is done, the innermost functions what is done, which matters more.
    let begin = if left_out == 0 { frames.len() } else { CALLERS / 4 };
    let mut line = Vec::new();
    for (place, frame) in frames.iter().enumerate() {
        if place == begin {
            line.extend([plain(" → "), dim(format!("({left_out}{NO_BREAK}more)"))]);
        }
        if (begin..begin + left_out).contains(&place) {
            continue;
        }
        if place > 0 {
            line.push(plain(" → "));
        }
        line.extend(called(frame));
    }
    if line.is_empty() { vec![dim("no stack could be read")] } else { line }
}

/// Returns a frame's name, and whether it was inlined.
fn called(frame: &Frame) -> Vec<Piece> {
    let ink = if frame.function.is_some() { Ink::Plain } else { Ink::Dim };
    let mut pieces = vec![Piece::new(ink, name(frame))];
    if frame.inlined {
        pieces.push(dim(format!("{NO_BREAK}(inlined)")));
    }
    pieces
}

fn percent(profile: &StackProfile, weight: u64) -> Piece {
    let share = human::share(weight as f64 / profile.weight().max(1) as f64);
    let indent = NO_BREAK.to_string().repeat(PERCENT.saturating_sub(share.chars().count()));
    plain(indent + &share)
}

fn more(canvas: &mut Canvas, left: usize) {
    if left > 0 {
        canvas.paragraph(2, 4, &[dim(format!("and {left} more (--all)"))]);
    }
}
