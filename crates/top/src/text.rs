//! Styled lines of text. All text is escaped when it is created; nothing else reaches the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use whyslow_show::Ink;
pub(crate) use whyslow_show::{Piece, bold, dim, plain};

/// Returns the terminal style for a kind of ink.
fn style(ink: Ink, colour: bool) -> Style {
    let style = Style::new();
    match ink {
        Ink::Plain => style,
        Ink::Bold => style.add_modifier(Modifier::BOLD),
        Ink::Dim => style.add_modifier(Modifier::DIM),
        Ink::Red if colour => style.fg(Color::Red).add_modifier(Modifier::BOLD),
        Ink::Yellow if colour => style.fg(Color::Yellow).add_modifier(Modifier::BOLD),
        Ink::Green if colour => style.fg(Color::Green).add_modifier(Modifier::BOLD),
        Ink::Red | Ink::Yellow | Ink::Green => style.add_modifier(Modifier::BOLD),
    }
}

pub(crate) type Line = Vec<Piece>;

/// Cuts a text to a width. Ends it in '…' if anything was cut.
pub(crate) fn fit(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mut left = width.saturating_sub(1);
    let fitting = text.chars().take_while(|c| {
        let width = c.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    });
    let cut: String = fitting.collect();
    Cow::Owned(if width == 0 { String::new() } else { format!("{cut}…") })
}

/// The buffer to draw on.
pub(crate) struct Canvas<'b> {
    buffer: &'b mut Buffer,
    colour: bool,
}

impl<'b> Canvas<'b> {
    pub(crate) fn new(buffer: &'b mut Buffer, colour: bool) -> Self {
        Self { buffer, colour }
    }

    /// Draws a line in a row of an area, and cuts it if it does not fit.
    pub(crate) fn line(&mut self, area: Rect, row: usize, pieces: &[Piece]) {
        self.styled_line(area, row, pieces, Style::new());
    }

    /// Draws a line in reverse video: a selected row or a title.
    pub(crate) fn reversed_line(&mut self, area: Rect, row: usize, pieces: &[Piece]) {
        self.styled_line(area, row, pieces, Style::new().add_modifier(Modifier::REVERSED));
    }

    fn styled_line(&mut self, area: Rect, row: usize, pieces: &[Piece], style: Style) {
        let area = area.intersection(self.buffer.area);
        let Some(row) = u16::try_from(row).ok().filter(|row| *row < area.height) else { return };
        let (mut x, y) = (area.x, area.y + row);
        self.buffer.set_style(Rect { y, height: 1, ..area }, style);
        let mut all: usize = pieces.iter().map(Piece::width).sum();
        for piece in pieces {
            let left = usize::from(area.right().saturating_sub(x));
            if left == 0 {
                break;
            }
            let width = piece.width();
            // The last piece that fits ends in '…' if others follow it.
            let text =
                if all > left && width >= left { fit_before_more(piece.text(), left) } else { piece.text().into() };
            (x, _) = self.buffer.set_stringn(x, y, text, left, style.patch(self::style(piece.ink(), self.colour)));
            all -= width;
        }
    }
}

/// Cuts a text that is followed by more: ends it in '…' even if it just fits.
fn fit_before_more(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() == width { Cow::Owned(fit(&format!("{text} "), width).into_owned()) } else { fit(text, width) }
}

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the last values as a line of bars. `most` is the top of the scale; an unknown value is blank.
pub(crate) fn sparkline<'v>(values: impl DoubleEndedIterator<Item = &'v f64>, most: f64, width: usize) -> String {
    let level = |value: &f64| -> char {
        if value.is_nan() {
            return ' ';
        }
        let share = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
        LEVELS[((share * LEVELS.len() as f64) as usize).min(LEVELS.len() - 1)]
    };
    let mut bars: Vec<char> = values.rev().take(width).map(level).collect();
    bars.resize(width, ' ');
    bars.reverse();
    bars.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_columns_not_by_letters() {
        assert_eq!(fit("postgres", 8), "postgres");
        assert_eq!(fit("postgres", 5), "post…");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!((fit("x", 0), fit("xy", 1)), ("".into(), "…".into()));
    }

    #[test]
    fn bars_are_in_eighths_of_the_most_and_unknown_values_are_blank() {
        assert_eq!(sparkline([0.0, 0.5, f64::NAN, 1.0].iter(), 1.0, 4), "▁▅ █");
        assert_eq!(sparkline([1.0, 2.0, 4.0].iter(), 4.0, 2), "▅█", "the last ones");
        assert_eq!(sparkline([0.0].iter(), 0.0, 3), "  ▁", "nothing at all");
        assert_eq!(sparkline([9.0].iter(), 1.0, 1), "█");
    }

    #[test]
    fn a_line_ends_in_an_ellipsis_where_anything_was_cut() {
        let drawn = |width: u16, pieces: &[Piece]| {
            let mut buffer = Buffer::empty(Rect::new(0, 0, width, 1));
            Canvas::new(&mut buffer, false).line(Rect::new(0, 0, width, 9), 0, pieces);
            buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect::<String>()
        };
        assert_eq!(drawn(6, &[plain("abc"), plain("def")]), "abcdef");
        assert_eq!(drawn(5, &[plain("abc"), plain("def")]), "abcd…");
        assert_eq!(drawn(3, &[plain("abc"), plain("def")]), "ab…");
    }
}
