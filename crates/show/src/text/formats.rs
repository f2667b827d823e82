//! The readable formats.

use super::TextStyle;
use crate::canvas::{bold, dim, plain};
use whyslow_model::listing::FormatInfo;

/// A list of formats: name, what it shows, versions.
pub fn formats(formats: &[FormatInfo], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    for format in formats {
        canvas.paragraph(0, 2, &[bold(format.name), plain(": "), plain(format.shows)]);
        canvas.paragraph(2, 2, &[dim(format.versions)]);
    }
    canvas.finish()
}
