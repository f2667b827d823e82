//! Blind spots of a profile, and the affected share.

use super::ProfileOptions;
use super::symbolizer::Symbolizer;
use crate::os;
use whyslow_documents::diagnosis::BlindSpot;
use whyslow_documents::profile::{ProfileKind, StackProfile};
use whyslow_model::human;

/// Smaller shares are not reported.
const MIN_SHARE: f64 = 0.01;
/// Maximum number of files without symbols that are listed.
const MAX_FILES: usize = 4;

pub(super) fn in_profile(
    profile: &StackProfile,
    symbolizer: &Symbolizer<'_>,
    options: &ProfileOptions,
) -> Vec<BlindSpot> {
    let totals = &profile.totals;
    let spots = [
        callers(profile, totals.cut_short),
        stacks(profile, totals.without_user_stack),
        ended(profile, totals.unplaced),
        names_of_functions(profile),
        kernel(symbolizer, options),
        lost(profile, totals.lost),
        unread(symbolizer.unread()),
    ];
    spots.into_iter().flatten().collect()
}

fn spot(what: String, why: &str, remedy: &str) -> BlindSpot {
    BlindSpot { what, why: why.into(), remedy: remedy.into() }
}

/// Formats a share: `37 % of the samples`. Returns `None` if it is small.
fn part(profile: &StackProfile, weight: u64) -> Option<String> {
    let share = weight as f64 / profile.weight().max(1) as f64;
    let of = match profile.kind {
        ProfileKind::OnCpu => "of the samples",
        ProfileKind::OffCpu => "of the time waited",
    };
    (share >= MIN_SHARE).then(|| format!("{} {of}", human::share(share)))
}

fn callers(profile: &StackProfile, weight: u64) -> Option<BlindSpot> {
    let part = part(profile, weight)?;
    let why = "the stack ends before the thread's entry point: some of its code has no frame pointers";
    let remedy = "build it, and its libraries, with -fno-omit-frame-pointer";
    Some(spot(format!("all callers, in {part}"), why, remedy))
}

fn stacks(profile: &StackProfile, weight: u64) -> Option<BlindSpot> {
    let part = part(profile, weight)?;
    let why = "the stack was not in memory, or the wait began before the profile";
    Some(spot(format!("the user stack, in {part}"), why, ""))
}

fn ended(profile: &StackProfile, weight: u64) -> Option<BlindSpot> {
    let part = part(profile, weight)?;
    let why = "the process ended before its mappings could be read, or they may not be read";
    Some(spot(format!("which program, in {part}"), why, ""))
}

/// Lists the files that have no symbols for the innermost frames.
fn names_of_functions(profile: &StackProfile) -> Option<BlindSpot> {
    let mut nameless: Vec<(u64, &str)> = Vec::new();
    for share in profile.functions() {
        let Some(frame) = profile.frame(share.frame).filter(|frame| frame.function.is_none()) else { continue };
        let file = frame.module.as_deref().unwrap_or("code of no known file");
        // A mapping of the kernel's own ([vdso]) is not a file.
        if !file.starts_with('[') {
            nameless.push((share.own, file));
        }
    }
    let part = part(profile, nameless.iter().fold(0, |sum, (own, _)| sum.saturating_add(*own)))?;
    let files: Vec<&str> = nameless.iter().filter(|(own, _)| *own > 0).take(MAX_FILES).map(|(_, file)| *file).collect();
    let why = format!("no symbols in {}", files.join(", "));
    let remedy = if os::is_root() { "install the debug packages of these files (-dbgsym)" } else { "run as root" };
    Some(spot(format!("the function, in {part}"), &why, remedy))
}

fn kernel(symbolizer: &Symbolizer<'_>, options: &ProfileOptions) -> Option<BlindSpot> {
    let hidden = options.kernel && !symbolizer.has_kernel();
    let why = "/proc/kallsyms hides the addresses (kernel.kptr_restrict)";
    hidden.then(|| spot("the kernel's functions".into(), why, "run as root, with kernel.kptr_restrict at 0 or 1"))
}

fn lost(profile: &StackProfile, lost: u64) -> Option<BlindSpot> {
    let events = match profile.kind {
        ProfileKind::OnCpu => "samples",
        ProfileKind::OffCpu => "waits",
    };
    let why = "more distinct stacks than the map holds";
    (lost > 0).then(|| spot(format!("{lost} {events}"), why, "profile one process (--pid), or for a shorter time"))
}

fn unread(files: usize) -> Option<BlindSpot> {
    let why = "reading their symbols timed out or failed";
    (files > 0).then(|| spot(format!("the functions of {files} files"), why, ""))
}
