//! What a profile does not show, with the share of it that concerns.

use super::Ask;
use super::symbolizer::Names;
use crate::os;
use whyslow_model::diagnosis::BlindSpot;
use whyslow_model::human;
use whyslow_model::profile::{Kind, Profile};

/// Shares below this are not worth a line.
const LITTLE: f64 = 0.01;
/// Files without symbols named at most.
const FILES: usize = 4;

/// The blind spots of a profile, whose totals are those of its stacks.
pub(super) fn of(profile: &Profile, names: &Names, ask: &Ask) -> Vec<BlindSpot> {
    let totals = &profile.totals;
    let spots = [
        callers(profile, totals.cut_short),
        stacks(profile, totals.without_user_stack),
        ended(profile, totals.unplaced),
        names_of_functions(profile),
        kernel(names, ask),
        lost(profile, totals.lost),
        unread(names.unread()),
    ];
    spots.into_iter().flatten().collect()
}

fn spot(what: String, why: &str, remedy: &str) -> BlindSpot {
    BlindSpot { what, why: why.into(), remedy: remedy.into() }
}

/// `37 % of the samples`, where that is worth a line.
fn part(profile: &Profile, weight: u64) -> Option<String> {
    let share = weight as f64 / profile.weight().max(1) as f64;
    let of = match profile.kind {
        Kind::OnCpu => "of the samples",
        Kind::OffCpu => "of the time waited",
    };
    (share >= LITTLE).then(|| format!("{} {of}", human::share(share)))
}

fn callers(profile: &Profile, weight: u64) -> Option<BlindSpot> {
    let part = part(profile, weight)?;
    let why = "the stack ends before the place its thread began at: there is code without frame pointers in it";
    let remedy = "build it, and its libraries, with -fno-omit-frame-pointer";
    Some(spot(format!("all callers, in {part}"), why, remedy))
}

fn stacks(profile: &Profile, weight: u64) -> Option<BlindSpot> {
    let part = part(profile, weight)?;
    let why = "its stack was not in memory, or it waits since before the watching began";
    Some(spot(format!("the program's stack, in {part}"), why, ""))
}

fn ended(profile: &Profile, weight: u64) -> Option<BlindSpot> {
    let part = part(profile, weight)?;
    let why = "the process ended before it could be looked at, or is not ours to look at";
    Some(spot(format!("which program, in {part}"), why, ""))
}

/// Which files have no symbols where it counts: where the stacks end.
fn names_of_functions(profile: &Profile) -> Option<BlindSpot> {
    let mut nameless: Vec<(u64, &str)> = Vec::new();
    for share in profile.functions() {
        let Some(frame) = profile.frame(share.frame).filter(|frame| frame.function.is_none()) else { continue };
        let file = frame.module.as_deref().unwrap_or("code of no known file");
        // What the kernel maps itself ([vdso]) is no file to get symbols for.
        if !file.starts_with('[') {
            nameless.push((share.own, file));
        }
    }
    let part = part(profile, nameless.iter().fold(0, |sum, (own, _)| sum.saturating_add(*own)))?;
    let files: Vec<&str> = nameless.iter().filter(|(own, _)| *own > 0).take(FILES).map(|(_, file)| *file).collect();
    let why = format!("no symbols to be read: {}", files.join(", "));
    let remedy = if os::is_root() { "install the debug packages of these files (-dbgsym)" } else { "run as root" };
    Some(spot(format!("the function, in {part}"), &why, remedy))
}

fn kernel(names: &Names, ask: &Ask) -> Option<BlindSpot> {
    let hidden = ask.kernel && !names.has_kernel();
    let why = "/proc/kallsyms hides the addresses (kernel.kptr_restrict)";
    hidden.then(|| spot("the kernel's functions".into(), why, "run as root, with kernel.kptr_restrict at 0 or 1"))
}

fn lost(profile: &Profile, lost: u64) -> Option<BlindSpot> {
    let events = match profile.kind {
        Kind::OnCpu => "samples",
        Kind::OffCpu => "waits",
    };
    let why = "more different stacks than there is room for";
    (lost > 0).then(|| spot(format!("{lost} {events}"), why, "watch one process (--pid), or for a shorter time"))
}

fn unread(files: usize) -> Option<BlindSpot> {
    let why = "reading their symbols took too long, or failed";
    (files > 0).then(|| spot(format!("the functions of {files} files"), why, ""))
}
