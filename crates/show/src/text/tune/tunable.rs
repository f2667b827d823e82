//! Tunables: a list with their values on this machine, and the description of one.

use super::{effect, risk, value};
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::text::{TextStyle, heading};
use whyslow_documents::tune::{Access, Effect, Here, Persist, Stalls, Tunable, TunableDocument, Unavailable};

/// Number of objects with the same value that are named without `all`.
const NAMED: usize = 4;

/// Columns for names; a longer name shifts its value to the right.
const WIDEST: usize = 36;

/// Formats all tunables with their values; those that this machine does not have only with `all`.
pub fn tunables(list: &[TunableDocument], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let (shown, hidden): (Vec<&TunableDocument>, Vec<_>) =
        list.iter().partition(|entry| style.all || !is_missing(entry));
    let width = shown.iter().map(|entry| plain(&entry.tunable.name).width()).max().unwrap_or(0).min(WIDEST);
    for entry in shown {
        let mut line = vec![Piece::cell(Ink::Bold, &entry.tunable.name, width), plain("  ")];
        line.extend(values(entry, style.all));
        canvas.paragraph(0, width + 4, &line);
    }
    match hidden.len() {
        0 => {}
        1 => canvas.paragraph(0, 2, &[dim("1 more is not available here; -v shows why")]),
        n => canvas.paragraph(0, 2, &[dim(format!("{n} more are not available here; -v shows why"))]),
    }
    canvas.finish()
}

/// Whether this machine lacks the tunable, as opposed to a tunable of objects that have to be named.
fn is_missing(entry: &TunableDocument) -> bool {
    let has_none = !entry.here.is_empty() && entry.here.iter().all(|here| here.value.is_none());
    has_none && entry.here.iter().all(|here| !matches!(here.unavailable, Some(Unavailable::NotPermitted { .. })))
}

/// Formats the values on this machine, each with its objects, and the default if it differs.
fn values(entry: &TunableDocument, all: bool) -> Vec<Piece> {
    if entry.here.is_empty() {
        return vec![dim(format!("@{}", entry.tunable.scope.word()))];
    }
    let has_value = entry.here.iter().any(|here| here.value.is_some());
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for here in entry.here.iter().filter(|here| all || !has_value || here.value.is_some()) {
        let text = match (&here.value, &here.unavailable) {
            (Some(text), _) => quantity(value(text), &entry.tunable.unit),
            (None, Some(why)) if here.instance.is_none() => why.to_string(),
            (None, Some(why)) => kind(why).to_owned(),
            (None, None) => continue,
        };
        let instance = here.instance.as_deref();
        match groups.iter_mut().find(|(other, _)| *other == text) {
            Some((_, things)) => things.extend(instance),
            None => groups.push((text, instance.into_iter().collect())),
        }
    }
    let mut pieces = Vec::new();
    for (number, (text, things)) in groups.iter().enumerate() {
        if number > 0 {
            pieces.push(plain(", "));
        }
        pieces.push(plain(text));
        if !things.is_empty() {
            pieces.push(dim(format!(" ({})", named(things, all))));
        }
    }
    pieces.extend(other_default(entry));
    pieces
}

fn quantity(value: &str, unit: &str) -> String {
    if unit.is_empty() { value.to_owned() } else { format!("{value} {unit}") }
}

/// Returns the reason for a missing value in a word; `tune show` says more.
fn kind(why: &Unavailable) -> &'static str {
    match why {
        Unavailable::Unsupported(_) => "unsupported",
        Unavailable::Absent(_) => "not there",
        Unavailable::NotPermitted { .. } => "not permitted",
        Unavailable::Failed(_) => "failed",
    }
}

fn named(things: &[&str], all: bool) -> String {
    let shown = if all { things.len() } else { NAMED.min(things.len()) };
    let more = things.len() - shown;
    let names = things[..shown].join(", ");
    if more == 0 { names } else { format!("{names} and {more} more") }
}

/// Formats the kernel's default, if it is a number and some value differs.
fn other_default(entry: &TunableDocument) -> Option<Piece> {
    let default = entry.tunable.default.as_deref()?;
    let is_number = !default.is_empty() && default.split(' ').all(|word| word.parse::<i128>().is_ok());
    let differs = entry.here.iter().any(|here| here.value.as_deref().is_some_and(|value| value != default));
    (is_number && differs).then(|| dim(format!(", default {default}")))
}

/// Formats one tunable: its meaning, allowed values, and values on this machine.
pub fn tunable(entry: &TunableDocument, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let tunable = &entry.tunable;
    canvas.paragraph(0, 2, &[bold(&tunable.name), plain(": "), plain(&tunable.means)]);
    if !tunable.used_for.is_empty() {
        canvas.paragraph(0, 2, &[plain(&tunable.used_for)]);
    }
    facts(&mut canvas, tunable);
    heading(&mut canvas, "Current value");
    if entry.here.is_empty() {
        canvas.paragraph(2, 4, &[dim(format!("of each {}: name one as {}@…", tunable.scope.word(), tunable.name))]);
    }
    for here in &entry.here {
        canvas.paragraph(2, 4, &now(here));
    }
    canvas.finish()
}

fn now(here: &Here) -> Vec<Piece> {
    let mut line = Vec::new();
    if let Some(instance) = &here.instance {
        line.extend([plain(instance), plain(": ")]);
    }
    match (&here.value, &here.unavailable) {
        (Some(text), _) => line.push(bold(value(text))),
        (None, Some(why)) => line.push(dim(why.to_string())),
        (None, None) => {}
    }
    if here.choices.len() > 1 {
        line.push(dim(format!(" of {}", here.choices.join(", "))));
    }
    line
}

fn facts(canvas: &mut Canvas, tunable: &Tunable) {
    let unit = if tunable.unit.is_empty() { String::new() } else { format!(" {}", tunable.unit) };
    let release = match (&tunable.since, &tunable.until) {
        (Some(since), Some(until)) => Some(format!("from {since} on, before {until}")),
        (Some(since), None) => Some(format!("from {since} on")),
        (None, Some(until)) => Some(format!("before {until}")),
        (None, None) => None,
    };
    let settle = tunable
        .settle
        .filter(|_| tunable.effect == Effect::WashOut)
        .map(|s| format!(" (about {s} s)"))
        .unwrap_or_default();
    let facts = [
        ("values", Some(format!("{}{unit}", tunable.values))),
        ("default", tunable.default.as_deref().map(|default| value(default).to_owned())),
        ("takes effect", Some(format!("{}{settle}", effect(tunable.effect)))),
        ("risk", Some(risk(tunable.risk).to_owned())),
        ("careful", careful(tunable).map(|why| format!("{why}: rolled back unless confirmed"))),
        ("also changes", (!tunable.disturbs.is_empty()).then(|| tunable.disturbs.join(", "))),
        ("written to", Some(access(tunable))),
        ("persisted in", Some(persist(&tunable.persist))),
        ("kernels", release),
        ("source", (!tunable.source.is_empty()).then(|| tunable.source.clone())),
    ];
    for (name, fact) in facts {
        if let Some(fact) = fact {
            canvas.paragraph(2, 18, &[Piece::cell(Ink::Dim, name, 14), plain("  "), plain(fact)]);
        }
    }
    for (system, name) in &tunable.elsewhere {
        let system = format!("on {system}");
        canvas.paragraph(2, 18, &[Piece::cell(Ink::Dim, &system, 14), plain("  "), plain(name)]);
    }
}

fn careful(tunable: &Tunable) -> Option<&'static str> {
    match tunable.stalls {
        _ if tunable.network => Some("network setting that can cut you off"),
        Some(Stalls::Machine) => Some("a wrong value can stall the machine"),
        Some(Stalls::Session) => Some("a wrong value for your own session's group can stall it"),
        _ if tunable.limit => Some("a lower limit can stop programs"),
        _ => None,
    }
}

/// Describes how it is read and written.
fn access(tunable: &Tunable) -> String {
    match &tunable.access {
        Access::Sysctl => format!("the sysctl {}", tunable.name),
        Access::File(path) => format!("/{path}"),
        Access::Cgroup(_) => format!("{} of the group", tunable.name.trim_start_matches("cgroup.")),
        Access::CgroupDisk { file, key, .. } => {
            let key = key.trim_end_matches('=');
            let word = if key.is_empty() { String::new() } else { format!(", the word {key}") };
            format!("{file} of the group, the disk's line{word}")
        }
        Access::Qdisc => "rtnetlink, as tc(8) does".to_owned(),
        Access::Ethtool(_) => "an ioctl on the interface, as ethtool(8) does".to_owned(),
        Access::Mount(_) => "a remount that keeps all other options".to_owned(),
        Access::Process(_) => "a system call on the process".to_owned(),
        Access::Line { file, .. } => format!("a line of /{file}"),
    }
}

fn persist(persist: &Persist) -> String {
    match persist {
        Persist::Sysctl => "a line in /etc/sysctl.d".to_owned(),
        Persist::Tmpfiles => "a line in /etc/tmpfiles.d".to_owned(),
        Persist::Udev(subsystem) => format!("a rule of udev for {subsystem}"),
        Persist::Unit(property) => format!("{property}= in a drop-in of the unit"),
        Persist::No(instead) => format!("not by whyslow; instead: {instead}"),
    }
}
