//! Text for a terminal of 80 columns and more.

mod baseline;
mod bench;
mod catalogue;
mod comparison;
mod finding;
mod formats;
mod profile;
mod recording;
mod rules;
mod study;
mod table;
pub mod tune;
mod words;

pub use baseline::{baseline, baselines, saved};
pub use bench::bench;
pub use catalogue::metrics;
pub use comparison::comparison;
pub use formats::formats;
pub use profile::profile;
pub use recording::{explanation, recorded};
pub use rules::{rule, rules};

use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::human;
use finding::Findings;
use whyslow_model::diagnosis::{Action, BlindSpot, Diagnosis, Origin, RuledOut, Span, Verdict};

/// How many things ruled out are drawn where not all are asked for.
const RULED_OUT: usize = 8;

/// How text is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle {
    /// Columns of the terminal; fewer than 40 are taken as 40.
    pub width: usize,
    /// Whether to use colour.
    pub colour: bool,
    /// Whether to draw all there is: every evidence, culprit and action.
    pub all: bool,
}

impl TextStyle {
    fn canvas(self) -> Canvas {
        Canvas::new(self.width, self.colour)
    }
}

/// The main screen: machine, verdict, findings, what it is not, what was not seen, the next change.
pub fn diagnosis(diagnosis: &Diagnosis, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    machine(&mut canvas, diagnosis);
    verdict(&mut canvas, diagnosis);
    // What clears each resource is the healthy machine's answer, what was not seen the undetermined one's.
    match diagnosis.verdict {
        Verdict::Bottleneck => {
            Findings::of(diagnosis, style.all).draw(&mut canvas);
            ruled_out(&mut canvas, "Ruled out", &diagnosis.ruled_out, style.all);
            blind_spots(&mut canvas, &diagnosis.blind_spots);
        }
        Verdict::Healthy => {
            ruled_out(&mut canvas, "Cleared", &diagnosis.ruled_out, style.all);
            Findings::of(diagnosis, style.all).draw(&mut canvas);
            blind_spots(&mut canvas, &diagnosis.blind_spots);
        }
        Verdict::Undetermined => {
            blind_spots(&mut canvas, &diagnosis.blind_spots);
            Findings::of(diagnosis, style.all).draw(&mut canvas);
            ruled_out(&mut canvas, "Ruled out", &diagnosis.ruled_out, style.all);
        }
    }
    if style.all {
        finding::figures(&mut canvas, &diagnosis.figures);
    }
    // Captures cost nothing to watch.
    if diagnosis.window.source != Origin::Import {
        cost(&mut canvas, diagnosis);
    }
    next_change(&mut canvas, diagnosis);
    canvas.finish()
}

fn machine(canvas: &mut Canvas, d: &Diagnosis) {
    let host = &d.host;
    let facts = [
        host.kernel.as_ref().map(|k| format!("Linux {k}")),
        host.cpus.map(|n| if n == 1 { "1 cpu".into() } else { format!("{n} cpus") }),
        host.memory_bytes.map(human::bytes),
        host.virtualization.as_ref().filter(|v| *v != "none").cloned(),
        Some(watched(&d.window)),
    ];
    let mut line = vec![bold(host.name.as_deref().unwrap_or("this machine"))];
    for fact in facts.into_iter().flatten() {
        line.extend([dim(" · "), plain(fact)]);
    }
    canvas.paragraph(0, 2, &line);
}

fn watched(window: &Span) -> String {
    let time = human::seconds((window.seconds * 10.0).round() / 10.0);
    let watched = if window.source == Origin::Import { "captures of" } else { "watched" };
    match window.samples {
        1 => format!("{watched} {time} (1 sample)"),
        n => format!("{watched} {time} ({n} samples)"),
    }
}

fn verdict(canvas: &mut Canvas, d: &Diagnosis) {
    canvas.blank();
    let line = match d.verdict {
        Verdict::Healthy => {
            [Piece::new(Ink::Green, "Healthy"), plain(": nobody waits for anything that is short or broken.")]
        }
        Verdict::Undetermined => [Piece::new(Ink::Yellow, "Undetermined"), plain(": too little could be seen to say.")],
        Verdict::Bottleneck => [Piece::new(Ink::Red, "Bottleneck"), plain(bottleneck(d))],
    };
    canvas.paragraph(0, 2, &line);
}

fn bottleneck(d: &Diagnosis) -> String {
    let Some(first) = d.findings.first() else { return ".".into() };
    let others = match d.findings.iter().filter(|f| f.explained_by.is_none()).count() {
        0 | 1 => String::new(),
        2 => " One more below.".into(),
        n => format!(" {} more below.", n - 1),
    };
    format!(": {}, {} of the time lost.{others}", words::headline(first), human::share(first.impact))
}

fn ruled_out(canvas: &mut Canvas, title: &str, entries: &[RuledOut], all: bool) {
    if entries.is_empty() {
        return;
    }
    heading(canvas, title);
    // A whole resource tells more than a single cause.
    let (resources, causes): (Vec<&RuledOut>, Vec<_>) = entries.iter().partition(|r| !r.id.contains('.'));
    let shown = if all { entries.len() } else { RULED_OUT.max(resources.len()) };
    for entry in resources.into_iter().chain(causes).take(shown) {
        canvas.paragraph(2, 4, &[plain(words::id(&entry.id)), plain(": "), plain(&entry.because)]);
    }
    if let Some(left @ 1..) = entries.len().checked_sub(shown) {
        canvas.paragraph(2, 4, &[dim(format!("and {left} more (--all)"))]);
    }
}

fn blind_spots(canvas: &mut Canvas, spots: &[BlindSpot]) {
    if spots.is_empty() {
        return;
    }
    heading(canvas, "Not seen");
    for spot in spots {
        let mut line = vec![plain(&spot.what), plain(": "), plain(&spot.why)];
        if !spot.remedy.is_empty() {
            line.extend([plain(" → "), plain(&spot.remedy)]);
        }
        canvas.paragraph(2, 4, &line);
    }
}

fn cost(canvas: &mut Canvas, d: &Diagnosis) {
    canvas.blank();
    for look in &d.closer_looks {
        let text = format!("Looked closer for {}: {} ({}).", human::seconds(look.seconds), look.tells, look.source);
        canvas.paragraph(0, 2, &[dim(text)]);
    }
    if let Some(share) = d.cpu_explained {
        let text = format!("{} of the processor time used is charged to processes.", human::percent(share));
        canvas.paragraph(0, 2, &[dim(text)]);
    }
    let text = format!(
        "Watching cost {} of processor time ({} of the machine), {}.",
        human::seconds(d.cost.cpu_seconds),
        human::percent(d.cost.cpu_share),
        human::bytes(d.cost.memory_bytes)
    );
    canvas.paragraph(0, 2, &[dim(text)]);
}

fn next_change(canvas: &mut Canvas, d: &Diagnosis) {
    let Some(action) = d.findings.first().and_then(|f| f.actions.first()) else { return };
    canvas.blank();
    canvas.paragraph(0, 2, &[bold("Next change: "), plain(&action.text)]);
    for command in words::commands(action) {
        canvas.verbatim(4, &bold(command));
    }
}

fn heading(canvas: &mut Canvas, title: &str) {
    canvas.blank();
    canvas.paragraph(0, 2, &[bold(title)]);
}

/// An action that is not the next change, as a line of its finding.
fn other_action(canvas: &mut Canvas, column: usize, action: &Action) {
    canvas.paragraph(column, column + 2, &[plain("or: "), plain(&action.text)]);
    for command in words::commands(action) {
        canvas.verbatim(column + 4, &plain(command));
    }
}
