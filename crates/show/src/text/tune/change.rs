//! Plans, checks, and the outcome of changes.

use super::{effect, value};
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::clock::ZonedClock;
use crate::text::TextStyle;
use std::collections::HashMap;
use whyslow_documents::tune::{
    ChangeOutcome, CheckLine, Effect, HistoryEntry, PlanDocument, PlanLine, PlanStep, Reason, Risk, Status,
    Unavailable, Undoing,
};

/// Formats a plan: settings that change, that stay, and that cannot be set.
pub fn plan(plan: &PlanDocument, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let (quiet, told): (Vec<&PlanLine>, Vec<_>) = plan
        .lines
        .iter()
        .partition(|line| !style.all && matches!(line.step, PlanStep::Already | PlanStep::Keep { .. }));
    for alike in alike(told) {
        canvas.paragraph(0, 4, &step(&alike, style.all));
        reason(&mut canvas, alike[0]);
    }
    if !quiet.is_empty() {
        let mut names: Vec<String> = Vec::new();
        for (name, things) in by_name(&quiet) {
            match things.as_slice() {
                [] | [_] => names.push(things.first().map_or(name.to_owned(), |thing| format!("{name}@{thing}"))),
                things => names.push(format!("{name} ({})", counted(things, false))),
            }
        }
        canvas.paragraph(0, 2, &[dim("already set: "), dim(names.join(", "))]);
    }
    canvas.finish()
}

/// Splits a target into the tunable's name and its object. A line that makes a setting persistent is named after the setting.
fn parted(target: &str) -> (&str, Option<&str>) {
    let from = if target.starts_with("persist@") { "persist@".len() } else { 0 };
    match target[from..].find('@') {
        Some(at) => (&target[..from + at], Some(&target[from + at + 1..])),
        None => (target, None),
    }
}

/// Groups lines by setting name, in order, each with its objects.
fn by_name<'a>(lines: &[&'a PlanLine]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut names: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in lines {
        let (name, thing) = parted(&line.target);
        match names.iter_mut().find(|(known, things)| *known == name && !things.is_empty()) {
            Some((_, things)) => things.extend(thing),
            None => names.push((name, thing.into_iter().collect())),
        }
    }
    names
}

/// Merges lines that say the same about several objects: identical changes of all disks are shown once.
fn alike(lines: Vec<&PlanLine>) -> Vec<Vec<&PlanLine>> {
    let mut groups: Vec<Vec<&PlanLine>> = Vec::new();
    let mut places: HashMap<(&str, &str, &str, String), usize> = HashMap::new();
    for line in lines {
        let (name, thing) = parted(&line.target);
        // The reason why something cannot be set includes the object's name too.
        let what = match &line.step {
            PlanStep::Change { .. } => format!("change {} {}", line.lowers, line.confirm),
            other => format!("{other:?}").replace(thing.unwrap_or("\0"), "*"),
        };
        let known = places.entry((name, &line.wanted, &line.reason, what)).or_insert(groups.len());
        match groups.get_mut(*known).filter(|_| thing.is_some()) {
            Some(group) => group.push(line),
            None => {
                *known = groups.len();
                groups.push(vec![line]);
            }
        }
    }
    groups
}

/// Formats the number of objects, and the first of their names.
fn counted(things: &[&str], all: bool) -> String {
    const NAMED: usize = 4;
    if all || things.len() <= NAMED {
        return things.join(", ");
    }
    format!("{} in all: {}, …", things.len(), things[..NAMED].join(", "))
}

fn step(alike: &[&PlanLine], all: bool) -> Vec<Piece> {
    let line = alike[0];
    let wanted = value(&line.wanted);
    let things: Vec<&str> = alike.iter().filter_map(|line| parted(&line.target).1).collect();
    let (name, others) = match alike.len() {
        1 => (line.target.as_str(), String::new()),
        _ => (parted(&line.target).0, format!(" ({})", counted(&things, all))),
    };
    let mut pieces = vec![bold(name), dim(others), plain(" ")];
    // The reason is quoted; for several objects, with an asterisk in place of the name.
    let why = |why: &Unavailable| match things.first().filter(|_| alike.len() > 1) {
        Some(thing) => why.to_string().replace(thing, "*"),
        None => why.to_string(),
    };
    match &line.step {
        PlanStep::Change { .. } => {
            let mut before: Vec<&str> = Vec::new();
            for line in alike {
                if let PlanStep::Change { from } = &line.step
                    && !before.contains(&value(from))
                {
                    before.push(value(from));
                }
            }
            let before = if before.len() > 4 { "various values".to_owned() } else { before.join(" or ") };
            pieces.extend([plain(before), plain(" → "), Piece::new(Ink::Green, wanted)]);
            pieces.extend(warnings(line).into_iter().map(|warning| Piece::new(Ink::Yellow, format!("  {warning}"))));
        }
        PlanStep::Already => pieces.extend([plain(wanted), dim(" already")]),
        PlanStep::Keep { now, why } => pieces.extend([plain("stays "), plain(value(now)), dim(format!(": {why}"))]),
        PlanStep::Cannot(reason @ (Unavailable::Unsupported(_) | Unavailable::Absent(_))) => {
            pieces.extend([dim(format!("{wanted}: {}", why(reason)))]);
        }
        PlanStep::Cannot(reason) => pieces.extend([plain(wanted), Piece::new(Ink::Red, format!(": {}", why(reason)))]),
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
    if line.lowers {
        warnings.push("lowers the limit".to_owned());
    }
    if line.confirm {
        warnings.push("rolled back unless confirmed".to_owned());
    }
    warnings
}

fn reason(canvas: &mut Canvas, line: &PlanLine) {
    if !line.reason.is_empty() {
        canvas.paragraph(4, 4, &[dim(&line.reason)]);
    }
}

/// Formats our settings, and whether they still hold.
pub fn checks(lines: &[CheckLine], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    if lines.is_empty() {
        canvas.paragraph(0, 2, &[plain("whyslow has changed nothing that is still in effect.")]);
    }
    for line in lines {
        let mut pieces = vec![bold(&line.target), plain(" ")];
        if let Some(original) = &line.original {
            pieces.extend([plain(value(original)), plain(" → ")]);
        }
        pieces.push(plain(value(&line.wanted)));
        match (&line.now, &line.unavailable) {
            _ if line.holds => {}
            (Some(now), _) => {
                let how = if line.reset {
                    "reset by a reboot to"
                } else if line.now == line.original {
                    // Set by another program, or by a rollback that was interrupted before it was noted.
                    "back at"
                } else {
                    "changed externally to"
                };
                pieces.push(Piece::new(Ink::Yellow, format!(", {how} {}", value(now))));
            }
            (None, Some(why)) => pieces.push(Piece::new(Ink::Yellow, format!(", now {why}"))),
            (None, None) => {}
        }
        if let Some(id) = line.id {
            pieces.push(dim(format!("  (change {id})")));
        }
        canvas.paragraph(0, 4, &pieces);
    }
    canvas.finish()
}

/// Formats the outcome of each change that was rolled back; `foreseen` if nothing was done yet.
pub fn undone(outcomes: &[Undoing], foreseen: bool, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    if outcomes.is_empty() {
        canvas.paragraph(0, 2, &[plain("There is nothing to undo.")]);
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
        ChangeOutcome::Restored if foreseen => {
            vec![plain("would be "), Piece::new(Ink::Green, original), plain(" again")]
        }
        ChangeOutcome::Restored => vec![plain("is "), Piece::new(Ink::Green, original), plain(" again")],
        ChangeOutcome::Already => vec![plain("was "), plain(original), plain(" already")],
        ChangeOutcome::ChangedSince { now } => {
            vec![Piece::new(
                Ink::Yellow,
                format!("not rolled back: changed externally to {}; it was {original}", value(now)),
            )]
        }
        ChangeOutcome::Superseded { by } => {
            vec![Piece::new(Ink::Yellow, format!("not rolled back: change {by} set it later; undo that one first"))]
        }
        ChangeOutcome::Gone { why } => vec![dim(format!("gone: {why}"))],
        ChangeOutcome::Failed { why } => vec![Piece::new(Ink::Red, format!("NOT rolled back to {original}: {why}"))],
    }
}

/// Formats the history of changes: settings, user, reason, and outcome; the latest last. Includes temporary changes of trials
/// only with `all`.
pub fn history(entries: &[HistoryEntry], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    if entries.is_empty() {
        canvas.paragraph(0, 2, &[plain("whyslow has changed nothing so far.")]);
    }
    let (tried, told): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| !style.all && is_only_tried(entry));
    for (number, entry) in told.into_iter().enumerate() {
        if number > 0 {
            canvas.blank();
        }
        draw_entry(&mut canvas, entry, style);
    }
    if !tried.is_empty() {
        let more =
            format!("{} more, made and rolled back by trials; 'whyslow tune trials' shows the results", tried.len());
        canvas.paragraph(0, 2, &[dim(more)]);
    }
    canvas.finish()
}

fn is_only_tried(entry: &HistoryEntry) -> bool {
    entry.status == Status::Undone && entry.undone_because == Some(Reason::Tried)
}

fn draw_entry(canvas: &mut Canvas, entry: &HistoryEntry, style: &TextStyle) {
    let clock = ZonedClock::new(style.utc);
    let transaction = &entry.transaction;
    let who = &transaction.who;
    let user = who.user.clone().unwrap_or_else(|| format!("user {}", who.uid));
    let head = [
        bold(transaction.id.to_string()),
        plain("  "),
        plain(clock.moment(&transaction.at)),
        plain("  "),
        plain(user),
        plain("  "),
        status(entry, &clock),
    ];
    canvas.paragraph(0, 3, &head);
    canvas.paragraph(3, 5, &[dim(&transaction.why)]);
    if style.all {
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

fn status(entry: &HistoryEntry, clock: &ZonedClock) -> Piece {
    let ink = match entry.status {
        Status::Applied => Ink::Green,
        Status::Unconfirmed | Status::Open | Status::PartlyUndone => Ink::Yellow,
        Status::Undone => Ink::Dim,
    };
    let text = match (&entry.transaction.confirm, entry.undone_because) {
        (Some(confirm), _) if entry.status == Status::Unconfirmed => {
            format!("to be confirmed by {}", clock.moment(&confirm.by))
        }
        (_, Some(because)) => format!("{}: {}", entry.status.words(), because.words()),
        (_, None) => entry.status.words().to_owned(),
    };
    Piece::new(ink, text)
}
