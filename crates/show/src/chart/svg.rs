//! A chart as a self-contained SVG picture.

use super::heat;
use super::legend::{self, LegendEntry};
use super::scale::Scale;
use super::x_axis::XAxis;
use super::{tick, value};
use crate::escape::xml;
use std::collections::BTreeMap;
use std::fmt::{Arguments, Write};
use whyslow_documents::chart::{Chart, ChartKind, ChartSeries};

/// Lengths are in pixels.
pub(super) const WIDTH: f64 = 960.0;
const MARGIN: f64 = 16.0;
/// Space for the labels of the value axis, half of the last label of the time axis, and the time axis.
const LEFT: f64 = 84.0;
const RIGHT: f64 = 36.0;
const BELOW: f64 = 26.0;
/// The first line of text, and the top of the plot.
const TITLE: f64 = 24.0;
const TOP: f64 = 52.0;
const PLOT: f64 = 220.0;
/// The width of a character of a label, with a margin, as fonts differ.
pub(super) const LETTER: f64 = 7.0;

/// Colours that are distinct for any colour vision (Okabe and Ito 2008), without the yellow, which is too light for lines.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d"];
/// Dashes of the lines of one entity.
const DASHES: [&str; 4] = ["", "5 3", "2 3", "9 3 2 3"];

/// The area in which the data is drawn.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Frame {
    pub(super) fn x(&self, share: f64) -> f64 {
        self.left + share * self.width
    }

    pub(super) fn y(&self, share: f64) -> f64 {
        self.top + (1.0 - share.clamp(0.0, 1.0)) * self.height
    }
}

/// Text written in pieces.
#[derive(Default)]
pub(super) struct Svg(String);

impl Svg {
    pub(super) fn add(&mut self, what: Arguments<'_>) {
        self.0.write_fmt(what).expect("a String takes all");
    }

    /// Adds a line of text; `anchor` is start, middle or end.
    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: &str, style: &str, text: &str) {
        let text = xml(text);
        self.add(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {style}>{text}</text>\n"));
    }
}

/// Style of text on the axes and in the legend.
pub(super) const SMALL: &str = "font-size=\"11\" fill=\"#333333\"";

/// Draws a chart. Times are relative to the first reading if `is_elapsed`.
pub fn svg(chart: &Chart, is_elapsed: bool) -> String {
    let frame = Frame { left: LEFT, top: TOP, width: WIDTH - LEFT - RIGHT, height: PLOT };
    let styles = styles(&chart.series);
    let entries = if chart.kind == ChartKind::Heat { Vec::new() } else { entries(chart, &styles) };
    let legend_top = frame.top + frame.height + BELOW + 18.0;
    let lines = legend::lines(&entries, frame.width);
    let note = note(chart);
    let note_top = legend_top + lines.len() as f64 * legend::LINE;
    let height = note_top + if note.is_empty() { 0.0 } else { legend::LINE } - 2.0;
    let mut out = Svg::default();
    head(&mut out, chart, height);
    let times = XAxis::for_chart(chart, is_elapsed);
    out.text((WIDTH - MARGIN, TITLE), "end", SMALL, &times.words());
    x_axis(&mut out, &times, frame);
    match chart.kind {
        ChartKind::Lines => lines_chart(&mut out, chart, &styles, &times, frame),
        ChartKind::Stacked => stacked_chart(&mut out, chart, &times, frame),
        ChartKind::Heat => heat::draw(&mut out, chart, &times, frame),
    }
    legend::draw(&mut out, &lines, (frame.left, legend_top));
    out.text((frame.left, note_top), "start", "font-size=\"11\" fill=\"#666666\"", &note);
    out.add(format_args!("</svg>\n"));
    out.0
}

fn head(out: &mut Svg, chart: &Chart, height: f64) {
    let (title, help) = (xml(&chart.title), xml(&chart.help));
    out.add(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{title}\" font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\">\n\
         <title>{title}</title>\n<desc>{help}</desc>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    ));
    out.text((MARGIN, TITLE), "start", "font-size=\"15\" font-weight=\"bold\" fill=\"#111111\"", &chart.title);
    out.text((MARGIN, TITLE + 17.0), "start", "font-size=\"11\" fill=\"#666666\"", &chart.help);
}

/// Returns a note on series that are not drawn.
fn note(chart: &Chart) -> String {
    match (chart.left_out, chart.kind) {
        (0, _) => String::new(),
        (more, ChartKind::Heat) => format!("not drawn: {more} with fewer values"),
        (more, _) => format!("not drawn: {more} with less"),
    }
}

fn x_axis(out: &mut Svg, times: &XAxis<'_>, frame: Frame) {
    let bottom = frame.top + frame.height;
    for (time, label) in times.ticks(frame.width) {
        let x = frame.x(times.share(time));
        out.add(format_args!("<path d=\"M{x:.1} {:.1}V{:.1}\" stroke=\"#e6e6e6\"/>\n", frame.top, bottom + 4.0));
        // A long label at the right edge stays within the picture.
        let middle = x.min(WIDTH - label.chars().count() as f64 * LETTER / 2.0);
        out.text((middle, bottom + 17.0), "middle", SMALL, &label);
    }
}

pub(super) fn value_axis(out: &mut Svg, frame: Frame, ticks: impl Iterator<Item = (f64, String)>) {
    for (share, label) in ticks {
        let (y, right) = (frame.y(share), frame.left + frame.width);
        out.add(format_args!("<path d=\"M{:.1} {y:.1}H{right:.1}\" stroke=\"#e6e6e6\"/>\n", frame.left));
        out.text((frame.left - 7.0, y + 4.0), "end", SMALL, &label);
    }
    let (left, bottom) = (frame.left, frame.top + frame.height);
    out.add(format_args!(
        "<path d=\"M{left:.1} {:.1}V{bottom:.1}H{:.1}\" fill=\"none\" stroke=\"#808080\"/>\n",
        frame.top,
        left + frame.width
    ));
}

/// Colour and dashes of a series: a colour for each entity if there are several, otherwise for each line.
#[derive(Clone, Copy)]
struct Style {
    colour: &'static str,
    dash: &'static str,
}

fn styles(series: &[ChartSeries]) -> Vec<Style> {
    let mut entities: Vec<&str> = Vec::new();
    let mut lines: BTreeMap<usize, usize> = BTreeMap::new();
    let places: Vec<(usize, usize)> = series
        .iter()
        .map(|series| {
            let entity = entities.iter().position(|known| *known == series.entity).unwrap_or_else(|| {
                entities.push(&series.entity);
                entities.len() - 1
            });
            let line = lines.entry(entity).or_default();
            *line += 1;
            (entity, *line - 1)
        })
        .collect();
    let is_one = entities.len() < 2;
    let style = |(entity, line): (usize, usize)| {
        let (colour, dash) = if is_one { (line, line / COLOURS.len()) } else { (entity, line) };
        Style { colour: COLOURS[colour % COLOURS.len()], dash: DASHES[dash % DASHES.len()] }
    };
    places.into_iter().map(style).collect()
}

fn entries(chart: &Chart, styles: &[Style]) -> Vec<LegendEntry> {
    let entry = |(series, style): (&ChartSeries, &Style)| {
        let mean = series.average().map_or_else(|| "unknown".to_owned(), |mean| value(mean, &chart.unit));
        let highest = series.highest().map(|most| value(most, &chart.unit)).filter(|most| *most != mean);
        let figures = match (highest, series.lowest()) {
            (None, _) => mean,
            // A mean over queue depths or sizes is meaningless.
            (Some(most), Some(lowest)) if chart.x.is_some() => format!("{} to {most}", value(lowest, &chart.unit)),
            (Some(most), _) => format!("{mean}, up to {most}"),
        };
        LegendEntry {
            name: series.name.clone(),
            figures,
            colour: style.colour,
            dash: if chart.kind == ChartKind::Stacked { "" } else { style.dash },
        }
    };
    chart.series.iter().zip(styles).map(entry).collect()
}

fn lines_chart(out: &mut Svg, chart: &Chart, styles: &[Style], times: &XAxis<'_>, frame: Frame) {
    let lowest = chart.series.iter().filter_map(ChartSeries::lowest).fold(0.0, f64::min);
    let highest = chart.series.iter().filter_map(ChartSeries::highest).fold(0.0, f64::max);
    let scale = Scale::new(lowest, highest, &chart.unit);
    value_axis(out, frame, scale.ticks().map(|at| (scale.share(at), tick(at, &chart.unit))));
    let x: Vec<f64> = chart.times.iter().map(|time| frame.x(times.share(*time))).collect();
    let y = |value: f64| frame.y(scale.share(value));
    for (series, style) in chart.series.iter().zip(styles) {
        if let (Some(min), Some(max)) = (&series.min, &series.max) {
            for run in runs(min.len(), |at| is_finite(min, at) && is_finite(max, at)) {
                // An isolated point has a bar, and a run has a band.
                if series.points || run.len() == 1 {
                    let bars = run.filter_map(|at| Some((x.get(at)?, y(max[at]?), y(min[at]?))));
                    for (x, top, bottom) in bars {
                        let colour = style.colour;
                        out.add(format_args!(
                            "<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" stroke=\"{colour}\" stroke-width=\"4\" stroke-opacity=\"0.3\"/>\n"
                        ));
                    }
                    continue;
                }
                let top = run.clone().filter_map(|at| Some((x.get(at)?, y(max[at]?))));
                let bottom = run.rev().filter_map(|at| Some((x.get(at)?, y(min[at]?))));
                let outline: String = top.chain(bottom).map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
                let colour = style.colour;
                out.add(format_args!(
                    "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0.15\"/>\n",
                    outline.trim_end()
                ));
            }
        }
    }
    for (series, style) in chart.series.iter().zip(styles) {
        line(out, &x, series, *style, times.is_labelled(), y);
    }
}

/// Draws a line for each run of values; an isolated value is a dot. If values are `marked`, each is a dot, and labels without a
/// value do not interrupt the line.
fn line(out: &mut Svg, x: &[f64], series: &ChartSeries, style: Style, marked: bool, y: impl Fn(f64) -> f64) {
    let mut path = String::new();
    let mut dots = String::new();
    let count = series.mean.len().min(x.len());
    for run in runs(count, |at| marked || is_finite(&series.mean, at)) {
        let known = run.filter(|at| is_finite(&series.mean, *at));
        let points: Vec<(f64, f64)> = known.filter_map(|at| Some((x[at], y(series.mean[at]?)))).collect();
        if marked || series.points || points.len() == 1 {
            let radius = if series.points { 3.5 } else { 2.0 };
            for (x, y) in &points {
                dots += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{}\"/>\n", style.colour);
            }
        }
        if series.points || points.len() == 1 {
            continue;
        }
        for (at, (x, y)) in points.into_iter().enumerate() {
            path += &format!("{}{x:.1} {y:.1}", if at == 0 { "M" } else { "L" });
        }
    }
    let dash = if style.dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{}\"", style.dash) };
    if !path.is_empty() {
        out.add(format_args!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" stroke-linejoin=\"round\"{dash}/>\n",
            style.colour
        ));
    }
    out.add(format_args!("{dots}"));
}

/// Draws the series stacked; leaves a gap if no value is known.
fn stacked_chart(out: &mut Svg, chart: &Chart, times: &XAxis<'_>, frame: Frame) {
    let count = chart.times.len();
    let known = |at: usize| chart.series.iter().any(|series| is_finite(&series.mean, at));
    // The tops of the areas, from the lowest.
    let mut tops: Vec<Vec<f64>> = vec![vec![0.0; count]];
    for series in &chart.series {
        let below = &tops[tops.len() - 1];
        let value = |at: usize| if is_finite(&series.mean, at) { series.mean[at].unwrap_or(0.0).max(0.0) } else { 0.0 };
        let top = below.iter().enumerate().map(|(at, below)| below + value(at)).collect();
        tops.push(top);
    }
    let highest = tops[tops.len() - 1].iter().copied().fold(0.0, f64::max);
    let scale = Scale::new(0.0, highest, &chart.unit);
    value_axis(out, frame, scale.ticks().map(|at| (scale.share(at), tick(at, &chart.unit))));
    let x: Vec<f64> = chart.times.iter().map(|time| frame.x(times.share(*time))).collect();
    let y = |value: f64| frame.y(scale.share(value));
    for (pair, colour) in tops.windows(2).zip(COLOURS.iter().cycle()) {
        for run in runs(count, known) {
            // An isolated value is as wide as a dot.
            let (left, right) = if run.len() == 1 { (-1.5, 1.5) } else { (0.0, 0.0) };
            let top = run.clone().map(|at| (x[at] + left, y(pair[1][at])));
            let bottom = run.rev().map(|at| (x[at] + right, y(pair[0][at])));
            let points: Vec<(f64, f64)> = top.chain(bottom).collect();
            let points = match points[..] {
                [(left, top), (right, bottom)] => vec![(left, top), (right, top), (right, bottom), (left, bottom)],
                _ => points,
            };
            let outline: String = points.into_iter().map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
            out.add(format_args!(
                "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0.8\"/>\n",
                outline.trim_end()
            ));
        }
    }
}

fn is_finite(values: &[Option<f64>], at: usize) -> bool {
    values.get(at).copied().flatten().is_some_and(f64::is_finite)
}

/// Returns the runs of positions with a known value.
fn runs(count: usize, known: impl Fn(usize) -> bool) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for at in (0..count).filter(|at| known(*at)) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}
