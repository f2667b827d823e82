//! Folded stacks: one line a stack, `process;caller;callee weight`, as flame graph tools read them.

use super::name;
use crate::escape;
use std::collections::BTreeMap;
use std::fmt::Write;
use whyslow_model::profile::{Frame, Profile, Space};

/// One line for each stack, by name; processes of one name are one. Kernel functions end in `_[k]`, inlined ones in `_[i]`,
/// as flamegraph.pl has it. The weight is samples or microseconds.
pub fn folded(profile: &Profile) -> String {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for stack in &profile.stacks {
        let mut line = word(&stack.process.name);
        for frame in profile.frames_of(stack) {
            line.push(';');
            line.push_str(&word(&name(frame)));
            line.push_str(mark(frame));
        }
        let weight = lines.entry(line).or_default();
        *weight = weight.saturating_add(stack.weight);
    }
    lines.into_iter().fold(String::new(), |mut text, (line, weight)| {
        writeln!(text, "{line} {weight}").expect("a String takes all");
        text
    })
}

/// A name in which nothing ends a frame or a line. The convention knows no escape: a semicolon becomes a colon.
fn word(name: &str) -> String {
    escape::terminal(name).replace(';', ":")
}

fn mark(frame: &Frame) -> &'static str {
    match (frame.space, frame.inlined) {
        (Space::Kernel, _) => "_[k]",
        (Space::User, true) => "_[i]",
        (Space::User, false) => "",
    }
}
