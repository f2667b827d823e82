//! A profile as folded text, and as a flame graph.

mod folded;
mod svg;

pub use folded::folded;
pub use svg::svg;

use std::borrow::Cow;
use whyslow_model::human;
use whyslow_model::profile::{Frame, Kind, Profile, Space};

/// What a frame is called: its function; where that is not known the file it is of, in brackets, as `[vdso]` is of itself.
pub(crate) fn name(frame: &Frame) -> Cow<'_, str> {
    match (&frame.function, &frame.module) {
        (Some(function), _) => Cow::Borrowed(function),
        (None, Some(module)) if module.starts_with('[') => Cow::Borrowed(module),
        (None, Some(module)) => Cow::Owned(format!("[{}]", file_name(module))),
        (None, None) if frame.space == Space::Kernel => Cow::Borrowed("[kernel]"),
        (None, None) => Cow::Borrowed("[unknown]"),
    }
}

/// Where a frame's code is from: the last part of the path, or the kernel.
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

/// A weight in words: samples, or time.
pub(crate) fn amount(profile: &Profile, weight: u64) -> String {
    match profile.kind {
        Kind::OnCpu if weight == 1 => "1 sample".into(),
        Kind::OnCpu => format!("{weight} samples"),
        Kind::OffCpu => human::quantity(weight as f64 / 1e6, "s"),
    }
}

/// What the profile is of: `on-CPU profile of toy (pid 7), 10 s at 99 Hz`.
pub(crate) fn title(profile: &Profile) -> String {
    let kind = match profile.kind {
        Kind::OnCpu => "on-CPU",
        Kind::OffCpu => "off-CPU",
    };
    let whose = match &profile.process {
        Some(process) => format!("{} (pid {})", process.name, process.pid),
        None => "the machine".into(),
    };
    let seconds = human::quantity((profile.seconds * 10.0).round() / 10.0, "s");
    let pace = profile.hz.map(|hz| format!(" at {hz} Hz")).unwrap_or_default();
    format!("{kind} profile of {whose}, {seconds}{pace}")
}
