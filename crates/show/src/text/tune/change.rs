//! Plans, checks, and what became of changes.

use super::{effect, value};
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::text::TextStyle;
use whyslow_model::tune::{
    CheckLine, Effect, HistoryEntry, Outcome, PlanDocument, PlanLine, Reason, Risk, Status, Step, Unavailable, Undoing,
};

/// What would be done: what changes, what stays, what cannot be.
pub fn plan(plan: &PlanDocument, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let (quiet, told): (Vec<&PlanLine>, Vec<_>) =
        plan.lines.iter().partition(|line| !style.all && matches!(line.step, Step::Already | Step::Keep { .. }));
    for line in told {
        canvas.paragraph(0, 4, &step(line));
        reason(&mut canvas, line);
    }
    if !quiet.is_empty() {
        let names: Vec<&str> = quiet.iter().map(|line| line.target.as_str()).collect();
        canvas.paragraph(0, 2, &[dim("as wanted already: "), dim(names.join(", "))]);
    }
    canvas.finish()
}

fn step(line: &PlanLine) -> Vec<Piece> {
    let wanted = value(&line.wanted);
    let mut pieces = vec![bold(&line.target), plain(" ")];
    match &line.step {
        Step::Change { from } => {
            pieces.extend([plain(value(from)), plain(" → "), Piece::new(Ink::Green, wanted)]);
            pieces.extend(warnings(line).into_iter().map(|warning| Piece::new(Ink::Yellow, format!("  {warning}"))));
        }
        Step::Already => pieces.extend([plain(wanted), dim(" already")]),
        Step::Keep { now, why } => pieces.extend([plain("stays "), plain(value(now)), dim(format!(": {why}"))]),
        Step::Cannot(why @ (Unavailable::Unsupported(_) | Unavailable::Absent(_))) => {
            pieces.extend([dim(format!("{wanted}: {why}"))]);
        }
        Step::Cannot(why) => pieces.extend([plain(wanted), Piece::new(Ink::Red, format!(": {why}"))]),
    }
    pieces
}

fn warnings(line: &PlanLine) -> Vec<String> {
    let mut warnings = Vec::new();
    if line.effect != Effect::Instant && line.effect != Effect::WashOut {
        warnings.push(format!("shows {}", effect(line.effect)));
    }
    match line.risk {
        Risk::Low => {}
        Risk::Medium => warnings.push("risky".to_owned()),
        Risk::High => warnings.push("dangerous".to_owned()),
    }
    if line.network {
        warnings.push("of the network".to_owned());
    }
    warnings
}

fn reason(canvas: &mut Canvas, line: &PlanLine) {
    if !line.reason.is_empty() {
        canvas.paragraph(4, 4, &[dim(&line.reason)]);
    }
}

/// What we set, and whether it still holds.
pub fn checks(lines: &[CheckLine], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    if lines.is_empty() {
        canvas.paragraph(0, 2, &[plain("Nothing here is set by whyslow.")]);
    }
    for line in lines {
        let mut pieces = vec![bold(&line.target), plain(" ")];
        if let Some(original) = &line.original {
            pieces.extend([plain(value(original)), plain(" → ")]);
        }
        pieces.push(plain(value(&line.wanted)));
        match (&line.now, &line.unavailable) {
            _ if line.holds => {}
            (Some(now), _) => pieces.push(Piece::new(Ink::Yellow, format!(", and somebody made it {}", value(now)))),
            (None, Some(why)) => pieces.push(Piece::new(Ink::Yellow, format!(", and now it is {why}"))),
            (None, None) => {}
        }
        if let Some(id) = line.id {
            pieces.push(dim(format!("  (change {id})")));
        }
        canvas.paragraph(0, 4, &pieces);
    }
    canvas.finish()
}

/// What became of each change that was taken back; `foreseen` where nothing was done yet.
pub fn undone(outcomes: &[Undoing], foreseen: bool, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    if outcomes.is_empty() {
        canvas.paragraph(0, 2, &[plain("There is nothing to take back.")]);
    }
    for undoing in outcomes {
        let mut pieces = vec![bold(&undoing.target), plain(" ")];
        pieces.extend(outcome(undoing, foreseen));
        pieces.push(dim(format!("  (change {})", undoing.id)));
        canvas.paragraph(0, 4, &pieces);
    }
    canvas.finish()
}

fn outcome(undoing: &Undoing, foreseen: bool) -> Vec<Piece> {
    let original = value(&undoing.original);
    match &undoing.outcome {
        Outcome::Restored if foreseen => vec![plain("would be "), Piece::new(Ink::Green, original), plain(" again")],
        Outcome::Restored => vec![plain("is "), Piece::new(Ink::Green, original), plain(" again")],
        Outcome::Already => vec![plain("was "), plain(original), plain(" already")],
        Outcome::ChangedSince { now } => {
            vec![Piece::new(Ink::Yellow, format!("left alone: somebody made it {}; it was {original}", value(now)))]
        }
        Outcome::Superseded { by } => {
            vec![Piece::new(Ink::Yellow, format!("left alone: change {by} set it later; undo that one first"))]
        }
        Outcome::Gone { why } => vec![dim(format!("gone: {why}"))],
        Outcome::Failed { why } => vec![Piece::new(Ink::Red, format!("NOT put back to {original}: {why}"))],
    }
}

/// What was changed, by whom, why, and what became of it; the latest last. What a trial made and took back only with `all`.
pub fn history(entries: &[HistoryEntry], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    if entries.is_empty() {
        canvas.paragraph(0, 2, &[plain("Nothing was ever changed by whyslow.")]);
    }
    let (tried, told): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| !style.all && is_only_tried(entry));
    for (number, entry) in told.into_iter().enumerate() {
        if number > 0 {
            canvas.blank();
        }
        draw_entry(&mut canvas, entry, style.all);
    }
    if !tried.is_empty() {
        let more = format!(
            "{} more, made and taken back by trials: 'whyslow tune trials' says what came of them",
            tried.len()
        );
        canvas.paragraph(0, 2, &[dim(more)]);
    }
    canvas.finish()
}

fn is_only_tried(entry: &HistoryEntry) -> bool {
    entry.status == Status::Undone && entry.undone_because == Some(Reason::Tried)
}

fn draw_entry(canvas: &mut Canvas, entry: &HistoryEntry, all: bool) {
    let transaction = &entry.transaction;
    let who = &transaction.who;
    let user = who.user.clone().unwrap_or_else(|| format!("user {}", who.uid));
    let head = [
        bold(transaction.id.to_string()),
        plain("  "),
        plain(&transaction.at),
        plain("  "),
        plain(user),
        plain("  "),
        status(entry),
    ];
    canvas.paragraph(0, 3, &head);
    canvas.paragraph(3, 5, &[dim(&transaction.why)]);
    if all {
        canvas.paragraph(3, 5, &[dim(&who.command)]);
    }
    for (at, change) in transaction.changes.iter().enumerate() {
        let held = entry.held_value(at).unwrap_or_default();
        let mut pieces =
            vec![plain(&change.target), plain(" "), plain(value(&change.original)), plain(" → "), plain(value(held))];
        if let Some(undoing) = entry.undone.iter().find(|undoing| undoing.change == at) {
            pieces.push(dim(", "));
            pieces.extend(outcome(undoing, false));
        }
        canvas.paragraph(3, 7, &pieces);
    }
}

fn status(entry: &HistoryEntry) -> Piece {
    let ink = match entry.status {
        Status::Applied => Ink::Green,
        Status::Unconfirmed | Status::Open | Status::PartlyUndone => Ink::Yellow,
        Status::Undone => Ink::Dim,
    };
    let text = match (&entry.transaction.confirm, entry.undone_because) {
        (Some(confirm), _) if entry.status == Status::Unconfirmed => format!("to be confirmed by {}", confirm.by),
        (_, Some(because)) => format!("{}: {}", entry.status.words(), because.words()),
        (_, None) => entry.status.words().to_owned(),
    };
    Piece::new(ink, text)
}
