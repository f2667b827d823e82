//! Profiles: which there are, which fits, and what one asks for and does not get.

use crate::canvas::{Ink, Piece, bold, dim, plain};
use crate::text::{TextStyle, heading};
use whyslow_model::tune::{ProfileInfo, ProfileNote, Recommendation};

/// Every profile with what it is for.
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

/// Which profiles fit, the best first.
pub fn recommendations(list: &[Recommendation], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    for fit in list {
        canvas.paragraph(0, 2, &[bold(&fit.profile), plain(": "), plain(&fit.why)]);
    }
    canvas.finish()
}

/// What a profile asks for and does not get.
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
