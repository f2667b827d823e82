//! Experiments: the verdict, the effect with its interval, and the pairs it rests on.

use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::text::{TextStyle, heading};
use whyslow_model::human;
use whyslow_model::tune::{Pair, Trial, TrialVerdict};

/// Columns of the mark that stands for a pair.
const PLOT: usize = 41;

/// One experiment.
pub fn trial(trial: &Trial, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    draw(&mut canvas, trial, style.all);
    canvas.finish()
}

/// Every experiment that was made, the latest last.
pub fn trials(trials: &[Trial], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    if trials.is_empty() {
        canvas.paragraph(0, 2, &[plain("Nothing was ever tried by whyslow.")]);
    }
    for (number, trial) in trials.iter().enumerate() {
        if number > 0 {
            canvas.blank();
        }
        canvas.paragraph(0, 2, &[dim(&trial.at)]);
        draw(&mut canvas, trial, style.all);
    }
    canvas.finish()
}

fn draw(canvas: &mut Canvas, trial: &Trial, all: bool) {
    let (ink, verdict) = match trial.verdict {
        TrialVerdict::Helped => (Ink::Green, "Helped"),
        TrialVerdict::Harmed => (Ink::Red, "Harmed"),
        TrialVerdict::Equivalent => (Ink::Plain, "Equivalent"),
        TrialVerdict::Inconclusive => (Ink::Yellow, "Inconclusive"),
    };
    canvas.paragraph(0, 2, &[Piece::new(ink, verdict), plain(": "), bold(trial.changes.join(" "))]);
    if let Some(effect) = &trial.effect {
        let of = |ratio: f64| format!("{:+.1} %", ratio * 100.0);
        let better = format!(
            "{} better, between {} and {} at 95 %; p {:.3} over {} pairs; what counts is more than {:.1} %",
            of(effect.better),
            of(effect.low),
            of(effect.high),
            effect.p,
            trial.pairs.len(),
            effect.threshold * 100.0
        );
        canvas.paragraph(2, 4, &[plain(better), dim(format!(" ({})", trial.metric))]);
    }
    if let Some(needed) = trial.pairs_needed {
        canvas.paragraph(2, 4, &[plain(format!("about {needed} pairs would tell"))]);
    }
    let kept = match trial.kept {
        Some(id) => format!("kept, as change {id}"),
        None => "all is as it was before".to_owned(),
    };
    canvas.paragraph(2, 4, &[plain(kept)]);
    if all {
        pairs(canvas, "Pairs without any change", &trial.noise, trial.lower_is_better);
        pairs(canvas, "Pairs without and with the change", &trial.pairs, trial.lower_is_better);
    }
}

/// A line for each pair: what was measured, and how much better it was with the change as a mark right of the middle.
fn pairs(canvas: &mut Canvas, title: &str, pairs: &[Pair], lower_is_better: bool) {
    if pairs.is_empty() {
        return;
    }
    heading(canvas, title);
    let gain = |pair: &Pair| if lower_is_better { pair.without / pair.with } else { pair.with / pair.without }.ln();
    let widest = pairs.iter().map(|pair| gain(pair).abs()).fold(f64::MIN_POSITIVE, f64::max);
    for pair in pairs {
        let order = if pair.with_first { "with first" } else { "without first" };
        let figures = format!("{} → {}", human::quantity(pair.without, ""), human::quantity(pair.with, ""));
        let line = [
            Piece::cell(Ink::Plain, figures, 20),
            plain("  "),
            Piece::cell(Ink::Bold, mark(gain(pair) / widest), PLOT),
            dim(format!("  {order}")),
        ];
        canvas.paragraph(2, 4, &line);
    }
}

/// A mark between -1 and 1, with the middle drawn.
fn mark(at: f64) -> String {
    let half = PLOT / 2;
    let place = (half as f64 * (1.0 + at.clamp(-1.0, 1.0))).round() as usize;
    let column = |column: usize| match column {
        column if column == place => '●',
        column if column == half => '│',
        _ => '·',
    };
    (0..PLOT).map(column).collect()
}
