//! Tunables, plans, changes, experiments and profiles.

mod change;
mod trial;
mod tunable;

pub use change::{checks, history, plan, undone};
pub use trial::{rehearsal, trial, trials, verdict_in_words, walk};
pub use tunable::{tunable, tunables};

use crate::canvas::{Ink, Piece, bold, dim, plain};
use crate::text::{TextStyle, heading};
use whyslow_documents::tune::{Effect, ProfileInfo, ProfileNote, Recommendation, Risk};

/// Describes when a change takes effect.
fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Instant => "at once",
        Effect::WashOut => "once the effects of the old value have worn off",
        Effect::Reopen => "for files opened afterwards only",
        Effect::Restart => "for processes and connections started afterwards only",
        Effect::Reboot => "at the next boot",
    }
}

/// Describes the risk of a change.
fn risk(risk: Risk) -> &'static str {
    match risk {
        Risk::Low => "low",
        Risk::Medium => "medium: work may be delayed, refused or interrupted",
        Risk::High => "high: processes, data or the machine itself may be lost",
    }
}

/// Formats a value; makes an empty one visible.
fn value(value: &str) -> &str {
    if value.is_empty() { "(empty)" } else { value }
}

/// Formats a list of profiles with their purpose.
pub fn profiles(list: &[ProfileInfo], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let width = list.iter().map(|info| plain(&info.name).width()).max().unwrap_or(0);
    for info in list {
        let mut line = vec![Piece::cell(Ink::Bold, &info.name, width), plain("  "), plain(&info.summary)];
        if style.all {
            line.push(dim(format!(" ({})", info.place)));
        }
        canvas.paragraph(0, width + 2, &line);
    }
    canvas.finish()
}

/// Formats recommended profiles, best first.
pub fn recommendations(list: &[Recommendation], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    for fit in list {
        canvas.paragraph(0, 2, &[bold(&fit.profile), plain(": "), plain(&fit.why)]);
    }
    canvas.finish()
}

/// Formats the parts of a profile that are not applied.
pub fn notes(notes: &[ProfileNote], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    if notes.is_empty() {
        return String::new();
    }
    heading(&mut canvas, "Requested but not done");
    for note in notes {
        let asked = format!("[{}] {}={}", note.unit, note.option, note.value);
        canvas.paragraph(2, 4, &[plain(asked), dim(format!(": {}", note.why))]);
    }
    canvas.finish()
}
