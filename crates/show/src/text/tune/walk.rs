//! Proposals tried one after the other: what each gave, and before and after of all that helped.

use super::trial::{better, headline, so_far};
use crate::canvas::{Ink, Piece, bold, dim, plain};
use crate::text::TextStyle;
use whyslow_model::human;
use whyslow_model::tune::{Trial, Walk};

/// A walk.
pub fn walk(walk: &Walk, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    canvas.paragraph(0, 2, &[plain(&walk.summary), dim(format!(" ({})", walk.id))]);
    for (number, step) in walk.steps.iter().enumerate() {
        let mut line = vec![plain(format!("{}. ", number + 1)), bold(step.changes.join(" ")), plain(": ")];
        match (&step.trial, &step.skipped) {
            (Some(trial), _) if trial.interrupted => line.extend([headline(trial), plain(", "), plain(so_far(trial))]),
            (Some(trial), _) => line.extend([headline(trial), plain(better(trial.effect.as_ref(), &trial.metric))]),
            (None, why) => line.push(dim(format!("not tried: {}", why.as_deref().unwrap_or("no reason is known")))),
        }
        canvas.paragraph(0, 3, &line);
    }
    if let (Some(together), Some((before, after))) = (&walk.together, walk.before_and_after()) {
        let figures =
            format!("{} → {}", human::quantity(before, together.unit()), human::quantity(after, together.unit()));
        let line = [
            plain("before → after: "),
            bold(figures),
            plain(", all that helped together, on new pairs: "),
            headline(together),
            plain(better(together.effect.as_ref(), &together.metric)),
            dim(format!(" ({})", together.metric)),
        ];
        canvas.paragraph(0, 2, &line);
    }
    let is_helped = walk.steps.iter().any(|step| step.trial.as_ref().is_some_and(Trial::is_proven));
    let end = match walk.kept {
        Some(id) => plain(format!("kept, as change {id}: 'whyslow tune undo {id}' rolls it back")),
        None if walk.interrupted => Piece::new(Ink::Yellow, "interrupted: everything was rolled back"),
        None if is_helped => Piece::new(Ink::Yellow, "it was not confirmed on new pairs: everything was rolled back"),
        None => plain("nothing helped: everything was rolled back"),
    };
    canvas.paragraph(0, 2, &[end]);
    canvas.finish()
}
