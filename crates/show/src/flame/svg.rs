//! A flame graph as a self-contained SVG file: the outermost callers on top, with widths proportional to weights. Without
//! scripts it is a picture with tooltips; with scripts, clicking zooms and searching highlights.

use super::{amount, name, origin, title};
use crate::escape::xml;
use std::fmt::Write;
use unicode_width::UnicodeWidthChar;
use whyslow_documents::profile::{CallNode, CallNodeLabel, CallTree, Frame, Space, StackProfile};
use whyslow_model::human;

/// Lengths are in pixels of the drawing, which a browser scales to the window.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const ROW: f64 = 18.0;
/// The width of a character of the monospaced 12 px font, with a margin, as fonts differ.
const LETTER: f64 = 7.3;
/// Narrower frames are invisible, even when zoomed tenfold.
const NARROWEST: f64 = 0.05;
/// The position of the first line of text, and the line height.
const FIRST_LINE: f64 = 26.0;
const LINE: f64 = 17.0;
/// Columns of a note, before wrapping.
const NOTE: usize = 150;

const STYLE: &str = include_str!("flame.css");
const SCRIPT: &str = include_str!("flame.js");

/// Draws the flame graph of a profile.
pub fn svg(profile: &StackProfile) -> String {
    let tree = CallTree::from_profile(profile);
    let notes = notes(profile);
    let top = FIRST_LINE + LINE * (notes.len() as f64 + 2.0);
    let scale = (WIDTH - 2.0 * MARGIN) / (tree.nodes[0].total.max(1) as f64);
    let visible = || tree.nodes.iter().filter(|node| node.total as f64 * scale >= NARROWEST);
    let depth = visible().map(|node| node.depth + 1).max().unwrap_or(1);
    let height = top + depth as f64 * ROW + MARGIN;
    let mut out = String::new();
    head(&mut out, profile, &notes, height);
    write(&mut out, format_args!("<g id=\"graph\" data-left=\"{MARGIN}\" data-wide=\"{}\">\n", WIDTH - 2.0 * MARGIN));
    for node in visible() {
        FrameBox { profile, node, scale, top, whole: tree.nodes[0].total }.draw(&mut out);
    }
    write(&mut out, format_args!("</g>\n<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>\n"));
    out
}

fn write(out: &mut String, what: std::fmt::Arguments<'_>) {
    out.write_fmt(what).expect("a String takes all");
}

/// Writes the drawing's border, title, legend and notes.
fn head(out: &mut String, profile: &StackProfile, notes: &[String], height: f64) {
    let title = title(profile);
    let title = xml(&title);
    write(
        out,
        format_args!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n\
             <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n"
        ),
    );
    write(out, format_args!("<text class=\"title\" x=\"{MARGIN}\" y=\"{FIRST_LINE}\">{title}</text>\n"));
    legend(out);
    for (line, note) in notes.iter().enumerate() {
        let y = FIRST_LINE + LINE * (line as f64 + 1.2);
        write(out, format_args!("<text class=\"note\" x=\"{MARGIN}\" y=\"{y}\">{}</text>\n", xml(note)));
    }
}

fn legend(out: &mut String) {
    let mut x = WIDTH - MARGIN;
    for (class, word) in [("k0", "kernel"), ("i0", "inlined"), ("u0", "program"), ("p", "process")] {
        x -= LETTER * word.len() as f64;
        write(out, format_args!("<text class=\"note\" x=\"{x}\" y=\"{FIRST_LINE}\">{word}</text>"));
        x -= 16.0;
        let y = FIRST_LINE - 10.0;
        write(out, format_args!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\"/>\n"));
        x -= 14.0;
    }
}

/// Returns notes below the graph: the amount of data, and the blind spots.
fn notes(profile: &StackProfile) -> Vec<String> {
    let mut notes = vec![format!("{} in {} stacks", amount(profile, profile.weight()), profile.stacks.len())];
    for spot in &profile.blind_spots {
        wrap(&format!("Not seen: {}: {}", spot.what, spot.why), &mut notes);
    }
    notes
}

fn wrap(text: &str, lines: &mut Vec<String>) {
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && line.len() + word.len() >= NOTE {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
}

/// A node as a rectangle with label and tooltip.
struct FrameBox<'a> {
    profile: &'a StackProfile,
    node: &'a CallNode,
    scale: f64,
    top: f64,
    whole: u64,
}

impl FrameBox<'_> {
    fn draw(&self, out: &mut String) {
        let node = self.node;
        let x = MARGIN + node.start as f64 * self.scale;
        let y = self.top + node.depth as f64 * ROW;
        let wide = node.total as f64 * self.scale;
        let label = self.label();
        let share = human::percent(node.total as f64 / self.whole.max(1) as f64);
        let tooltip = format!("{}{}\n{}, {share}", xml(&label), self.origin(), amount(self.profile, node.total));
        write(out, format_args!("<g class=\"block\"><title>{tooltip}</title>"));
        write(
            out,
            format_args!(
                "<rect class=\"{}\" x=\"{x:.2}\" y=\"{y}\" width=\"{wide:.2}\" height=\"{}\"/>",
                self.class(&label),
                ROW - 1.0
            ),
        );
        let fitting = fitting(&label, wide);
        let (x, y) = (x + 3.0, y + 13.0);
        write(out, format_args!("<text x=\"{x:.2}\" y=\"{y}\">{}</text></g>\n", xml(&fitting)));
    }

    fn frame(&self) -> Option<&Frame> {
        match self.node.label {
            CallNodeLabel::Frame(index) => self.profile.frame(index),
            _ => None,
        }
    }

    fn label(&self) -> String {
        match &self.node.label {
            CallNodeLabel::Root => "all".into(),
            CallNodeLabel::Process(name) => name.clone(),
            CallNodeLabel::Frame(_) => self.frame().map_or_else(String::new, |frame| name(frame).into_owned()),
        }
    }

    /// Returns the second line of the tooltip: the origin of the code.
    fn origin(&self) -> String {
        let Some(frame) = self.frame() else { return String::new() };
        let inlined = if frame.inlined { "inlined, " } else { "" };
        match (inlined, origin(frame)) {
            ("", "") => String::new(),
            (inlined, origin) => format!("\n{inlined}{}", xml(origin)),
        }
    }

    /// Returns the class for the colour, in one of three shades chosen by name, so that neighbours differ.
    fn class(&self, label: &str) -> String {
        let Some(frame) = self.frame() else { return "p".into() };
        let family = match (frame.space, &frame.function, frame.inlined) {
            (Space::Kernel, ..) => 'k',
            (Space::User, None, _) => return "n".into(),
            (Space::User, _, true) => 'i',
            (Space::User, _, false) => 'u',
        };
        let shade = label.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % 3;
        format!("{family}{shade}")
    }
}

/// Returns the part of a label that fits into this width; empty if that is hardly a letter.
fn fitting(label: &str, wide: f64) -> String {
    let room = ((wide - 6.0) / LETTER).max(0.0) as usize;
    let width = |c: char| c.width().unwrap_or(0);
    if label.chars().map(width).sum::<usize>() <= room {
        return label.to_owned();
    }
    let mut left = room.saturating_sub(2);
    let kept: String = label
        .chars()
        .take_while(|&c| {
            let fits = width(c) <= left;
            left = left.saturating_sub(width(c));
            fits
        })
        .collect();
    if kept.is_empty() { kept } else { kept + ".." }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_cut_to_their_block() {
        assert_eq!(fitting("main", 100.0), "main");
        assert_eq!(fitting("a_rather_long_function", 6.0 + LETTER * 10.0), "a_rather..");
        assert_eq!(fitting("main", 6.0 + LETTER * 2.0), "");
        assert_eq!(fitting("日本語日本語", 6.0 + LETTER * 7.5), "日本..");
        assert_eq!(fitting("", 0.0), "");
    }

    #[test]
    fn notes_are_wrapped() {
        let mut lines = Vec::new();
        wrap(&"word ".repeat(100), &mut lines);
        assert!(lines.iter().all(|line| line.len() <= NOTE), "{lines:?}");
        assert_eq!(lines.join(" ").split_whitespace().count(), 100);
    }
}
