//! A profile as a flame graph, and as folded stacks: one line per stack, `process;caller;callee weight`, as flame graph
//! tools read them.

mod svg;

pub use svg::svg;

use crate::escape;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use whyslow_documents::profile::{Frame, ProfileKind, Space, StackProfile};
use whyslow_model::human;

/// Returns the label of a frame: its function or, if that is unknown, its file in brackets, like `[vdso]`.
pub(crate) fn name(frame: &Frame) -> Cow<'_, str> {
    match (&frame.function, &frame.module) {
        (Some(function), _) => Cow::Borrowed(function),
        (None, Some(module)) if module.starts_with('[') => Cow::Borrowed(module),
        (None, Some(module)) => Cow::Owned(format!("[{}]", file_name(module))),
        (None, None) if frame.space == Space::Kernel => Cow::Borrowed("[kernel]"),
        (None, None) => Cow::Borrowed("[unknown]"),
    }
}

/// Returns the origin of a frame's code: the last component of the path, or the kernel.
pub(crate) fn origin(frame: &Frame) -> &str {
    match (&frame.module, frame.space) {
        (Some(module), _) => file_name(module),
        (None, Space::Kernel) => "kernel",
        (None, Space::User) => "",
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Formats a weight in words: samples, or time.
pub(crate) fn amount(profile: &StackProfile, weight: u64) -> String {
    match profile.kind {
        ProfileKind::OnCpu if weight == 1 => "1 sample".into(),
        ProfileKind::OnCpu => format!("{weight} samples"),
        ProfileKind::OffCpu => human::quantity(weight as f64 / 1e6, "s"),
    }
}

/// Returns the title of a profile: `on-CPU profile of toy (pid 7), 10 s at 99 Hz`.
pub(crate) fn title(profile: &StackProfile) -> String {
    let kind = match profile.kind {
        ProfileKind::OnCpu => "on-CPU",
        ProfileKind::OffCpu => "off-CPU",
    };
    let whose = match &profile.process {
        Some(process) => format!("{} (pid {})", process.name, process.pid),
        None => "the machine".into(),
    };
    let seconds = human::quantity((profile.seconds * 10.0).round() / 10.0, "s");
    let pace = profile.hz.map(|hz| format!(" at {hz} Hz")).unwrap_or_default();
    format!("{kind} profile of {whose}, {seconds}{pace}")
}

/// Formats a line for each stack, sorted by name; merges processes with the same name. Kernel functions end in `_[k]`, inlined
/// ones in `_[i]`, as in flamegraph.pl. The weight is samples or microseconds.
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

/// Escapes a name so that it cannot end a frame or a line. The format has no escapes, so a semicolon becomes a colon.
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
