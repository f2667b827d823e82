//! Text for a terminal of 80 columns and more.

mod baseline;
mod bench;
mod comparison;
mod expect;
mod finding;
mod interference;
mod listing;
mod network;
mod profile;
mod recording;
mod screen;
mod sheet;
mod stack;
mod study;
mod table;
mod ticket;
mod time_breakdown;
pub mod tune;
mod virtual_disks;
mod words;

pub use baseline::{baseline, baselines, saved};
pub use bench::{bench, dropped_caches};
pub use comparison::comparison;
pub use expect::expectations;
pub use listing::{formats, metrics, rule, rules};
pub use profile::profile;
pub use recording::{explanation, recorded, shipped};
pub use sheet::Sheet;
pub use stack::stack;
pub use ticket::ticket;

use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::human;
use finding::Findings;
use whyslow_documents::diagnosis::{
    Action, BlindSpot, CaptureComparison, Diagnosis, Flow, FlowLayer, Holding, Ledger, MemoryHolding, MemoryLedger,
    NotCleared, Origin, RuledOut,
};

/// Options for drawing text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle {
    /// Columns of the terminal, at least 40.
    pub width: usize,
    /// Whether to use colour.
    pub colour: bool,
    /// Whether to show everything: evidence, effects, causes that were ruled out, and blind spots.
    pub all: bool,
    /// Whether times are in UTC instead of the local zone.
    pub utc: bool,
}

impl TextStyle {
    fn canvas(self) -> Canvas {
        Canvas::new(self.width, self.colour)
    }
}

/// Formats the answer in ten lines; with `all`, preceded by all details.
pub fn diagnosis(diagnosis: &Diagnosis, style: &TextStyle) -> String {
    diagnosis_on_canvas(diagnosis, style).finish()
}

/// Returns the diagnosis as styled lines, for a screen that draws them itself.
pub fn diagnosis_lines(diagnosis: &Diagnosis, style: &TextStyle) -> Vec<Vec<Piece>> {
    diagnosis_on_canvas(diagnosis, style).into_lines()
}

fn diagnosis_on_canvas(diagnosis: &Diagnosis, style: &TextStyle) -> Canvas {
    let mut canvas = style.canvas();
    if let Some(breakdown) = &diagnosis.time_breakdown {
        time_breakdown::draw(&mut canvas, breakdown, style.all);
    }
    if style.all {
        details(&mut canvas, diagnosis, style);
    } else {
        screen::draw(&mut canvas, diagnosis, style);
    }
    canvas
}

/// Returns the answer in about this many lines, for a screen that shows other content below it: the problem, the culprit, and the
/// recommended action.
pub fn brief_lines(diagnosis: &Diagnosis, style: &TextStyle, lines: usize) -> Vec<Vec<Piece>> {
    let mut canvas = style.canvas();
    screen::brief(&mut canvas, diagnosis, style, lines);
    canvas.into_lines()
}

/// Draws who holds how much of each whole.
fn ledgers(canvas: &mut Canvas, diagnosis: &Diagnosis) {
    if let Some(MemoryLedger { total, holders }) = &diagnosis.memory {
        ledger_title(canvas, *total, "bytes", "memory");
        for MemoryHolding { holder, bytes, share, how } in holders {
            holding(canvas, &human::quantity(*bytes, "bytes"), *share, holder, how);
        }
    }
    for Ledger { whole, subject, unit, total, holders } in &diagnosis.ledgers {
        let of = if subject.kind == "host" { whole.clone() } else { format!("{whole} {}", subject.name) };
        ledger_title(canvas, *total, unit, &of);
        for Holding { holder, amount, share, how } in holders {
            holding(canvas, &human::quantity(*amount, unit), *share, holder, how);
        }
    }
}

/// Draws how much of what is read and written each layer carries.
fn flows(canvas: &mut Canvas, all: &[Flow]) {
    for Flow { flow, unit, layers } in all {
        heading(canvas, &format!("How much of the {flow} each layer carries"));
        for FlowLayer { layer, amount, of_above, how } in layers {
            let amount = Piece::cell(Ink::Bold, human::quantity(*amount, unit), 12);
            let of_above = of_above.map_or_else(String::new, |ratio| format!("x {}", human::quantity(ratio, "count")));
            let of_above = Piece::cell(Ink::Plain, of_above, 8);
            canvas.paragraph(2, 26, &[amount, plain("  "), of_above, plain("  "), plain(layer), plain("  "), dim(how)]);
        }
    }
}

fn ledger_title(canvas: &mut Canvas, total: f64, unit: &str, whole: &str) {
    let total = human::quantity(total, unit);
    let title = match unit {
        "s" => format!("Where the {total} of {whole} went"),
        _ => format!("Who holds the {total} of {whole}"),
    };
    canvas.blank();
    canvas.paragraph(0, 2, &[bold(title)]);
}

fn holding(canvas: &mut Canvas, amount: &str, share: f64, holder: &str, how: &str) {
    let amount = Piece::cell(Ink::Bold, amount, 10);
    let share = Piece::cell(Ink::Plain, human::share(share), 6);
    canvas.paragraph(2, 22, &[amount, plain("  "), share, plain("  "), plain(holder), plain("  "), dim(how)]);
}

/// Draws everything: findings with evidence and effects, causes that were ruled out, blind spots, overhead; the answer last.
fn details(canvas: &mut Canvas, diagnosis: &Diagnosis, style: &TextStyle) {
    screen::header(canvas, &diagnosis.host, &diagnosis.window, style);
    Findings::from_diagnosis(diagnosis).draw(canvas);
    interference::table(canvas, &diagnosis.interference);
    virtual_disks::table(canvas, &diagnosis.virtual_disks);
    ruled_out(canvas, &diagnosis.ruled_out);
    not_cleared(canvas, &diagnosis.not_cleared);
    finding::deviations(canvas, &diagnosis.stands_out);
    ledgers(canvas, diagnosis);
    flows(canvas, &diagnosis.flows);
    blind_spots(canvas, &diagnosis.blind_spots);
    comparisons(canvas, &diagnosis.comparisons);
    finding::figures(canvas, &diagnosis.figures);
    // Reading captures has no overhead on the machine.
    if diagnosis.window.source != Origin::Import {
        cost(canvas, diagnosis);
    }
    canvas.blank();
    screen::answer(canvas, diagnosis, style);
}

fn comparisons(canvas: &mut Canvas, all: &[CaptureComparison]) {
    if all.is_empty() {
        return;
    }
    heading(canvas, "Compared");
    for comparison in all {
        canvas.paragraph(2, 4, &[dim(words::compared(comparison)), plain(comparison.conclusions.join(" "))]);
    }
}

fn ruled_out(canvas: &mut Canvas, entries: &[RuledOut]) {
    if entries.is_empty() {
        return;
    }
    heading(canvas, "Ruled out");
    // A ruled-out resource is more informative than a single cause.
    let (resources, causes): (Vec<&RuledOut>, Vec<_>) = entries.iter().partition(|r| !r.id.contains('.'));
    for entry in resources.into_iter().chain(causes) {
        canvas.paragraph(2, 4, &[plain(words::id(&entry.id)), plain(": "), plain(&entry.because)]);
    }
}

fn not_cleared(canvas: &mut Canvas, entries: &[NotCleared]) {
    if entries.is_empty() {
        return;
    }
    heading(canvas, "Stands out, without a known cause");
    for entry in entries {
        canvas.paragraph(2, 4, &[plain(words::id(&entry.id)), plain(": "), plain(&entry.because)]);
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
        let how = if look.source.starts_with("bpf/") { "Traced" } else { "Watched" };
        // A source that was enabled for the last sample was read only once.
        let long = if look.seconds > 0.0 { format!("for {}", human::seconds(look.seconds)) } else { "once".into() };
        let text = format!("{how} {long}: {} ({}).", look.tells, look.source);
        canvas.paragraph(0, 2, &[dim(text)]);
    }
    if let Some(share) = d.cpu_explained {
        let text = format!("{} of the CPU time used is attributed to processes.", human::percent(share));
        canvas.paragraph(0, 2, &[dim(text)]);
    }
    let text = format!(
        "Overhead: {} CPU time ({} of the machine), {}.",
        human::seconds(d.cost.cpu_seconds),
        human::percent(d.cost.cpu_share),
        human::bytes(d.cost.memory_bytes)
    );
    canvas.paragraph(0, 2, &[dim(text)]);
}

fn heading(canvas: &mut Canvas, title: &str) {
    canvas.blank();
    canvas.paragraph(0, 2, &[bold(title)]);
}

/// Draws an action as a line of its finding.
fn action_line(canvas: &mut Canvas, column: usize, label: &str, action: &Action) {
    canvas.paragraph(column, column + 2, &[plain(label), plain(&action.text)]);
    if let Some(command) = &action.try_command {
        canvas.command(column + 4, &plain(command));
    }
}
