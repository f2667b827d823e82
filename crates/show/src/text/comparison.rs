//! What differs: the machine first, then what was measured, the largest effect first.

use super::{TextStyle, heading, words};
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::human;
use whyslow_model::comparison::{Changed, Comparison, Difference, Side, Spread};

/// How many differences, and changes of the inventory, are drawn where not all are asked for.
const SOME: usize = 20;

/// A comparison.
pub fn comparison(comparison: &Comparison, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    for (letter, side) in [("A  ", &comparison.a), ("B  ", &comparison.b)] {
        draw_side(&mut canvas, letter, side);
    }
    canvas.blank();
    verdict(&mut canvas, comparison);
    inventory(&mut canvas, &comparison.inventory, style.all);
    differences(&mut canvas, "Measured", &comparison.differences, style.all);
    differences(
        &mut canvas,
        "Perhaps: too brief, or too unsteady, to tell from noise",
        &comparison.undecided,
        style.all,
    );
    if !comparison.caveats.is_empty() {
        canvas.blank();
    }
    for caveat in &comparison.caveats {
        canvas.paragraph(0, 2, &[dim(caveat)]);
    }
    canvas.finish()
}

fn draw_side(canvas: &mut Canvas, letter: &str, side: &Side) {
    let when = match (&side.start, &side.end) {
        (Some(start), Some(end)) => format!(", {start} to {end}"),
        (Some(start), None) => format!(", from {start}"),
        _ => String::new(),
    };
    let length = format!("  {}", human::seconds(side.seconds.round()));
    canvas.paragraph(0, 5, &[dim(letter), bold(&side.name), plain(length), dim(when)]);
}

fn verdict(canvas: &mut Canvas, comparison: &Comparison) {
    let of = format!(" of {} that both have", comparison.compared);
    let line = match comparison.differences.len() {
        0 => [Piece::new(Ink::Green, "Nothing measured differs"), plain(format!(" beyond noise,{of}."))],
        1 => [Piece::new(Ink::Yellow, "One series differs"), plain(format!(" beyond noise,{of}."))],
        n => [Piece::new(Ink::Yellow, format!("{n} series differ")), plain(format!(" beyond noise,{of}."))],
    };
    canvas.paragraph(0, 2, &line);
}

fn inventory(canvas: &mut Canvas, changed: &[Changed], all: bool) {
    if changed.is_empty() {
        return;
    }
    heading(canvas, "The machine is not the same");
    let shown = if all { changed.len() } else { SOME };
    for one in changed.iter().take(shown) {
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "not there".to_owned());
        let line = [plain(&one.what), plain("  "), bold(side(&one.a)), dim(" → "), bold(side(&one.b))];
        canvas.paragraph(2, 4, &line);
    }
    and_more(canvas, changed.len(), shown);
}

fn differences(canvas: &mut Canvas, title: &str, differences: &[Difference], all: bool) {
    if differences.is_empty() {
        return;
    }
    heading(canvas, title);
    let shown = if all { differences.len() } else { SOME };
    for one in differences.iter().take(shown) {
        draw(canvas, one, all);
    }
    and_more(canvas, differences.len(), shown);
}

fn draw(canvas: &mut Canvas, one: &Difference, all: bool) {
    let ink = match one.better {
        Some(true) => Ink::Green,
        Some(false) => Ink::Red,
        None => Ink::Bold,
    };
    let figure = |value: f64| human::quantity(value, &one.unit);
    let shift = match one.ratio {
        Some(ratio) if ratio.abs() < 10.0 => format!("{:+.0} %", ratio * 100.0),
        _ => format!("{}{}", if one.shift > 0.0 { "+" } else { "" }, figure(one.shift)),
    };
    let line = [
        plain(&one.metric),
        plain(" of "),
        plain(words::subject(&one.subject)),
        plain("  "),
        bold(figure(one.a.median)),
        dim(" → "),
        bold(figure(one.b.median)),
        plain("  "),
        Piece::new(ink, shift),
    ];
    canvas.paragraph(2, 4, &line);
    if all {
        let interval = format!("between {} and {} at 95 %; p {:.4}", figure(one.low), figure(one.high), one.p);
        let of = |spread: &Spread| match (spread.p5, spread.p95) {
            (Some(p5), Some(p95)) => format!("{} to {} ({} pieces)", figure(p5), figure(p95), spread.pieces),
            _ => format!("{} pieces", spread.pieces),
        };
        let spread = format!("; nine in ten values: {} → {}", of(&one.a), of(&one.b));
        canvas.paragraph(4, 6, &[dim(interval), dim(spread)]);
    }
}

fn and_more(canvas: &mut Canvas, all: usize, shown: usize) {
    if let Some(left @ 1..) = all.checked_sub(shown) {
        canvas.paragraph(2, 4, &[dim(format!("and {left} more (--all)"))]);
    }
}
