//! Folded stacks: one line per stack, `process;caller;callee weight`, as flame graph tools read them.

use super::name;
use crate::escape;
use std::collections::BTreeMap;
use std::fmt::Write;
use whyslow_model::profile::{Frame, Space, StackProfile};

/// A line for each stack, by name; processes with the same name are merged. Kernel functions end in `_[k]`, inlined ones in
/// `_[i]`, as in flamegraph.pl. The weight is samples or microseconds.
pub fn folded(profile: &StackProfile) -> String {
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

/// A name that cannot end a frame or a line. The format has no escapes: a semicolon becomes a colon.
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
