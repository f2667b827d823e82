//! Memory and CPU benchmarks: a table for each study, and its method.

use super::table::{AlignedTable, remark};
use super::{heading, words};
use crate::canvas::Canvas;
use crate::human;
use whyslow_documents::bench::{Measurement, Study};

/// Smaller noise is not shown.
const QUIET: f64 = 0.02;

pub(super) fn study(canvas: &mut Canvas, study: &Study, all: bool) {
    heading(canvas, &words::capital(&study.name));
    if study.figures.iter().any(|figure| figure.spread.is_some()) {
        spreads(canvas, &study.figures);
    } else if all {
        one_by_one(canvas, &study.figures);
    } else {
        side_by_side(canvas, &study.figures);
    }
    let disturbed = study.figures.iter().filter(|figure| figure.disturbed > 0).count();
    if disturbed > 0 {
        remark(
            canvas,
            2,
            &format!("{disturbed} of {} figures were disturbed: a thread waited for its CPU", study.figures.len()),
        );
    }
    remark(canvas, 2, &study.method);
}

/// Draws a row for each name and a column for each condition; transposed if there are more conditions than names.
fn side_by_side(canvas: &mut Canvas, figures: &[Measurement]) {
    let names = each_once(figures.iter().map(|figure| &*figure.name));
    let unders = each_once(figures.iter().map(|figure| &*figure.under));
    let turned = unders.len() > names.len();
    let (rows, columns) = if turned { (unders, names) } else { (names, unders) };
    let mut table = AlignedTable::with_headings([""].into_iter().chain(columns.iter().copied()));
    for row in rows {
        let cell = |column: &&str| {
            let (name, under) = if turned { (*column, row) } else { (row, *column) };
            let figure = figures.iter().find(|figure| figure.name == name && figure.under == under);
            figure.map_or_else(String::new, value)
        };
        table.add([row.to_owned()].into_iter().chain(columns.iter().map(cell)));
    }
    table.draw_in_parts(canvas, 2);
}

/// Draws a row for each figure, with its interval.
fn one_by_one(canvas: &mut Canvas, figures: &[Measurement]) {
    let mut table = AlignedTable::new(["", "", "median", "from", "to", "waited"]);
    for figure in figures {
        let bound =
            |at: usize| figure.interval.map_or_else(String::new, |ends| human::quantity(ends[at], &figure.unit));
        let value = human::quantity(figure.value, &figure.unit);
        let waited = if figure.disturbed > 0 { figure.disturbed.to_string() } else { String::new() };
        table.row([figure.name.clone(), figure.under.clone(), value, bound(0), bound(1), waited]);
    }
    table.draw(canvas, 2);
}

/// Draws a table of distributions of times.
fn spreads(canvas: &mut Canvas, figures: &[Measurement]) {
    let mut table = AlignedTable::new(["", "", "median", "p99", "max", "times"]);
    for figure in figures {
        let spread = figure.spread.as_ref();
        let p99 = spread.and_then(|spread| spread.percentile(0.99));
        table.row([
            figure.name.clone(),
            figure.under.clone(),
            value(figure),
            p99.map_or_else(String::new, human::seconds),
            spread.map_or_else(String::new, |spread| human::seconds(spread.max)),
            spread.map_or_else(String::new, |spread| spread.count.to_string()),
        ]);
    }
    table.draw(canvas, 2);
}

fn value(figure: &Measurement) -> String {
    let value = human::quantity(figure.value, &figure.unit);
    match figure.noise.filter(|&noise| noise >= QUIET) {
        Some(noise) => format!("{value} ±{:.0}%", noise * 100.0),
        None => value,
    }
}

fn each_once<'t>(words: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let mut once = Vec::new();
    for word in words {
        if !once.contains(&word) {
            once.push(word);
        }
    }
    once
}
