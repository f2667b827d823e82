//! A comparison: differences of the machines, then of measurements, the largest effect first.

use super::{TextStyle, heading, words};
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::human;
use whyslow_documents::comparison::{Changed, Comparison, Difference, Side, Spread};

/// Number of differences listed without `all`.
const SOME: usize = 20;
/// With fewer independent samples on a side no test is possible (whyslow-compare, `stats::pieces`).
const FEWEST: usize = 6;

/// Formats a comparison.
pub fn comparison(comparison: &Comparison, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    for (letter, side) in [("A  ", &comparison.a), ("B  ", &comparison.b)] {
        draw_side(&mut canvas, letter, side);
    }
    canvas.blank();
    for conclusion in &comparison.conclusions {
        canvas.paragraph(0, 2, &[bold(conclusion)]);
    }
    // For captures, the conclusions are the headline: captures are rarely long enough for a test.
    let concluded = !comparison.conclusions.is_empty();
    if !concluded || !comparison.differences.is_empty() {
        verdict(&mut canvas, comparison);
    }
    inventory(&mut canvas, &comparison.inventory, style.all);
    differences(&mut canvas, "Differs", &comparison.differences.iter().collect::<Vec<_>>(), style.all);
    let (untested, noise) = if concluded && !style.all { (vec![], vec![]) } else { undecided(comparison) };
    let too_few =
        format!("Changed, but not testable: fewer than {FEWEST} independent samples on one side; measure longer");
    differences(&mut canvas, &too_few, &untested, style.all);
    differences(&mut canvas, "Changed, but may be noise: the values vary as much by themselves", &noise, style.all);
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
    let length = if side.seconds > 0.0 { format!("  {}", human::seconds(side.seconds.round())) } else { String::new() };
    canvas.paragraph(0, 5, &[dim(letter), bold(&side.name), plain(length), dim(when)]);
}

/// Draws the headline, which agrees with the list below it.
fn verdict(canvas: &mut Canvas, comparison: &Comparison) {
    let compared = comparison.compared;
    let (untested, noise) = undecided(comparison);
    let mut line = match (comparison.differences.len(), untested.len() + noise.len()) {
        (0, 0) => vec![
            Piece::new(Ink::Green, "No significant difference"),
            plain(format!(" in any of the {compared} series that both sides have.")),
        ],
        (0, _) => vec![
            Piece::new(Ink::Yellow, "No difference is proven"),
            plain(format!(" in the {compared} series that both sides have.")),
        ],
        (n, _) => vec![
            Piece::new(Ink::Yellow, format!("{n} of {compared} series {}", if n == 1 { "differs" } else { "differ" })),
            plain(" significantly."),
        ],
    };
    if let Some(largest) = untested.first() {
        let (n, figure) = (untested.len(), |value: f64| human::quantity(value, &largest.unit));
        line.push(Piece::new(
            Ink::Yellow,
            format!(" {n} {} changed, but {} measured too briefly to test: ", others(comparison), was(n)),
        ));
        let change = format!("{} → {}", figure(largest.a.median), figure(largest.b.median));
        let first = if n == 1 { "" } else { ", and others" };
        line.push(plain(format!("{} {change}{first}.", series(largest))));
    }
    if !noise.is_empty() {
        let n = noise.len();
        line.push(plain(format!(" {n} {} changed by an amount that may be noise.", others(comparison))));
    }
    canvas.paragraph(0, 2, &line);
}

/// Returns the name of a series, with its subject unless that is the whole machine.
fn series(one: &Difference) -> String {
    match one.subject.kind.as_str() {
        "host" => one.metric.clone(),
        _ => format!("{} of {}", one.metric, words::subject(&one.subject)),
    }
}

fn was(count: usize) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

fn others(comparison: &Comparison) -> &'static str {
    if comparison.differences.is_empty() { "series" } else { "other series" }
}

/// Returns changes large enough to matter but not proven: those with too few samples to test, and those not significant.
fn undecided(comparison: &Comparison) -> (Vec<&Difference>, Vec<&Difference>) {
    comparison.undecided.iter().partition(|one| one.a.pieces.min(one.b.pieces) < FEWEST)
}

fn inventory(canvas: &mut Canvas, changed: &[Changed], all: bool) {
    if changed.is_empty() {
        return;
    }
    heading(canvas, "Hardware and settings that differ");
    let shown = if all { changed.len() } else { SOME };
    for one in changed.iter().take(shown) {
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".to_owned());
        let line = [plain(&one.what), plain("  "), bold(side(&one.a)), dim(" → "), bold(side(&one.b))];
        canvas.paragraph(2, 4, &line);
    }
    and_more(canvas, changed.len(), shown);
}

fn differences(canvas: &mut Canvas, title: &str, differences: &[&Difference], all: bool) {
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
    // The interval has the unit of the shift: percent of A, or the unit of the metric.
    let of_a = one.ratio.filter(|ratio| ratio.abs() < 10.0 && one.shift != 0.0).map(|ratio| ratio / one.shift);
    let change = |value: f64| match of_a {
        Some(of_a) => format!("{:+.0} %", value * of_a * 100.0),
        None => format!("{}{}", if value > 0.0 { "+" } else { "" }, figure(value)),
    };
    let line = [
        plain(series(one)),
        plain("  "),
        bold(figure(one.a.median)),
        dim(" → "),
        bold(figure(one.b.median)),
        plain("  "),
        Piece::new(ink, change(one.shift)),
    ];
    canvas.paragraph(2, 4, &line);
    if all {
        let interval = format!("95 % interval {} to {}; p = {:.4}", change(one.low), change(one.high), one.p);
        let of = |spread: &Spread| match (spread.p5, spread.p95) {
            (Some(p5), Some(p95)) => {
                format!("{} to {} ({} independent samples)", figure(p5), figure(p95), spread.pieces)
            }
            _ => format!("{} independent samples", spread.pieces),
        };
        let spread = format!("; 90 % of the values: {} → {}", of(&one.a), of(&one.b));
        canvas.paragraph(4, 6, &[dim(interval), dim(spread)]);
    }
}

fn and_more(canvas: &mut Canvas, all: usize, shown: usize) {
    if let Some(left @ 1..) = all.checked_sub(shown) {
        canvas.paragraph(2, 4, &[dim(format!("and {left} more (--all)"))]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::baseline::BaselineKind;
    use whyslow_documents::comparison::SCHEMA;
    use whyslow_documents::diagnosis::Subject;

    fn busy(pieces: usize) -> Difference {
        let spread = |median| Spread { median, p5: None, p95: None, pieces };
        Difference {
            metric: "disk.busy".into(),
            subject: Subject::new("device", "vda"),
            unit: "ratio".into(),
            better: None,
            a: spread(0.0),
            b: spread(0.85),
            shift: 0.85,
            low: 0.8,
            high: 0.9,
            ratio: None,
            least: 0.01,
            p: 1.0,
        }
    }

    fn said(undecided: Vec<Difference>, all: bool) -> String {
        let side = Side { name: "a".into(), kind: BaselineKind::Period, start: None, end: None, seconds: 10.0 };
        let compared = Comparison {
            schema: SCHEMA.into(),
            a: side.clone(),
            b: side,
            inventory: Vec::new(),
            differences: Vec::new(),
            compared: 30,
            undecided,
            conclusions: Vec::new(),
            caveats: Vec::new(),
        };
        comparison(&compared, &TextStyle { width: 120, colour: false, all, utc: true })
    }

    #[test]
    fn the_headline_does_not_contradict_what_is_below_it() {
        let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let headline = |undecided| words(said(undecided, false).lines().skip(3).take(2).collect::<Vec<_>>().join(" "));
        assert!(headline(vec![]).starts_with("No significant difference in any of the 30 series"));
        let untested = headline(vec![busy(3)]);
        assert!(untested.starts_with("No difference is proven"), "{untested}");
        assert!(untested.contains("measured too briefly to test: disk.busy of"), "{untested}");
        assert!(untested.contains("0 % → 85 %"), "{untested}");
        let noise = headline(vec![busy(8)]);
        assert!(noise.contains("may be noise") && !noise.contains("briefly"), "{noise}");
    }

    #[test]
    fn the_interval_of_a_change_has_its_unit_and_the_smaller_end_first() {
        let halved = Difference {
            a: Spread { median: 0.8, ..busy(8).a },
            b: Spread { median: 0.4, ..busy(8).b },
            shift: -0.4,
            low: -0.48,
            high: -0.32,
            ratio: Some(-0.5),
            ..busy(8)
        };
        let from_nothing = said(vec![busy(8)], true);
        assert!(
            from_nothing.contains("+85 %") && from_nothing.contains("95 % interval +80 % to +90 %"),
            "{from_nothing}"
        );
        let halved = said(vec![halved], true);
        assert!(halved.contains("-50 %") && halved.contains("95 % interval -60 % to -40 %"), "{halved}");
    }
}
