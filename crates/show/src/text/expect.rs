//! Expected rates of storage and network, next to the measured ones.

use super::{TextStyle, blind_spots};
use crate::canvas::{Canvas, bold, dim, plain};
use crate::human;
use whyslow_documents::expectation::{Expectations, ExpectedRate, LayoutGain, ThingExpected};

/// Formats each thing with its rates; adds formulas and their sources with `all`.
pub fn expectations(expected: &Expectations, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let host = expected.host.as_deref().map_or_else(String::new, |host| format!("{host}: "));
    let watched = human::quantity(expected.seconds, "s");
    canvas.paragraph(0, 2, &[plain(format!("{host}what it should deliver, and what it did in {watched}."))]);
    if expected.things.is_empty() {
        canvas.paragraph(0, 2, &[dim("Nothing is known about it: no drive was busy, and no link reports its speed.")]);
    }
    for thing in &expected.things {
        draw(&mut canvas, thing, style.all);
    }
    if !style.all && expected.things.iter().any(|thing| !thing.rates.is_empty()) {
        canvas.blank();
        canvas.paragraph(
            0,
            2,
            &[dim("What delivered less may have had less to do. -v shows where the formulas are from.")],
        );
    }
    if style.all {
        blind_spots(&mut canvas, &expected.blind_spots);
    }
    canvas.finish()
}

fn draw(canvas: &mut Canvas, thing: &ThingExpected, all: bool) {
    canvas.blank();
    let what = if thing.what.is_empty() { String::new() } else { format!("  {}", thing.what) };
    canvas.paragraph(0, 2, &[bold(&thing.name), plain(what)]);
    for rate in &thing.rates {
        self::rate(canvas, rate);
    }
    for gain in &thing.layouts {
        layout(canvas, gain, all);
    }
    for note in &thing.notes {
        canvas.paragraph(2, 2, &[dim(note.clone())]);
    }
    if all {
        sources(canvas, &thing.rates);
    }
}

fn rate(canvas: &mut Canvas, rate: &ExpectedRate) {
    let quantity = |number: f64| human::quantity(number, &rate.unit);
    let measured = rate.measured.map_or_else(String::new, |measured| {
        let share = (rate.expected > 0.0).then(|| format!(" ({})", human::percent(measured / rate.expected)));
        format!("; measured {}{}", quantity(measured), share.unwrap_or_default())
    });
    canvas.paragraph(2, 4, &[plain(format!("{}: {}{measured}", rate.what, quantity(rate.expected)))]);
    canvas.paragraph(4, 6, &[dim(format!("= {}", rate.formula))]);
}

fn layout(canvas: &mut Canvas, gain: &LayoutGain, all: bool) {
    let times = format!("{:.1} times as many {}", gain.times, gain.what);
    canvas.paragraph(2, 4, &[plain("With "), bold(&gain.change), plain(format!(": {times} = {}.", gain.formula))]);
    canvas.paragraph(4, 4, &[dim(format!("It costs {}.", gain.cost))]);
    if all {
        canvas.paragraph(4, 4, &[dim(gain.source.clone())]);
    }
}

/// Draws each source once.
fn sources(canvas: &mut Canvas, rates: &[ExpectedRate]) {
    let mut told: Vec<&str> = Vec::new();
    for rate in rates.iter().filter(|rate| rate.source != "measured") {
        if !told.contains(&rate.source.as_str()) {
            told.push(&rate.source);
            canvas.paragraph(2, 4, &[dim(format!("{}: {}", rate.what, rate.source))]);
        }
    }
}
