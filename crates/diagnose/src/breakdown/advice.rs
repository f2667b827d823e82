//! Finds the one change that gains the most.

use super::{main_function, name_of, name_of_link};
use whyslow_documents::diagnosis::{Confidence, Finding};
use whyslow_documents::time_breakdown::{Advice, ChainLink, Contributor, TimeKind, TimePart};

pub(super) fn advice(
    part: &TimePart,
    last: Option<&ChainLink>,
    saves: f64,
    fills: bool,
    findings: &[Finding],
) -> Advice {
    let finding = finding_for(part, findings);
    let action = finding.and_then(|finding| finding.actions.first());
    let text = match action {
        Some(action) => action.text.clone(),
        None => own_advice(part, last, fills),
    };
    Advice { text, saves: saves.min(1.0), finding: finding.map(Finding::key) }
}

/// Returns the finding on the machine that explains a part: of the same device, or of the resource that the part waits for.
fn finding_for<'f>(part: &TimePart, findings: &'f [Finding]) -> Option<&'f Finding> {
    let device = part.by.iter().find(|by| by.kind == "device").map(|by| by.name.as_str());
    let explains = |finding: &&Finding| match part.kind {
        TimeKind::CpuWait => finding.id == "cpu.saturated",
        TimeKind::Throttled => finding.id == "cpu.throttled",
        TimeKind::Reclaim => finding.id.starts_with("mem."),
        TimeKind::PageFault => {
            finding.id.starts_with("mem.")
                || finding.id.starts_with("disk.") && Some(finding.subject.name.as_str()) == device
        }
        TimeKind::Nfs => finding.id.starts_with("nfs."),
        kind if kind.is_disk() => {
            (finding.id.starts_with("disk.") || finding.id.starts_with("mem.dirty"))
                && device.is_some_and(|device| {
                    finding.subject.name == device || finding.culprits.iter().any(|c| c.name == device)
                })
        }
        _ => false,
    };
    let sure = findings.iter().filter(|finding| finding.confidence >= Confidence::Medium);
    sure.filter(explains).find(|finding| !finding.actions.is_empty())
}

fn own_advice(part: &TimePart, last: Option<&ChainLink>, fills: bool) -> String {
    let by = part.by.iter().find(|by| by.kind != "member" && by.kind != "client");
    let function = main_function(part).map(|function| function.name.as_str());
    let whose = last.map_or("the program".to_owned(), name_of_link);
    match (part.kind, by) {
        (TimeKind::User, _) => match (function, fills) {
            (Some(function), true) => {
                format!("Make {function} faster, or divide the work among threads: one thread fills its CPU.")
            }
            (Some(function), false) => format!("Make {function} faster: it takes most of the CPU time of {whose}."),
            (None, true) => "Divide the work among threads, or make it cheaper: one thread fills its CPU.".into(),
            (None, false) => format!("Find out with 'whyslow profile' which code of {whose} takes the CPU time."),
        },
        (TimeKind::Kernel, _) => match function {
            Some(function) => {
                format!("Have {whose} make fewer or larger system calls: the kernel spends its time in {function}.")
            }
            None => format!("Have {whose} make fewer or larger system calls."),
        },
        (TimeKind::CpuWait, Some(by)) => {
            format!("Take the CPU from {}: lower its priority (renice -n 10), or move it.", name_of(by))
        }
        (TimeKind::CpuWait, None) => "Give it more CPUs, or a higher priority.".into(),
        (TimeKind::Throttled, _) => "Raise the CPU quota of its control group.".into(),
        (TimeKind::Read, by) => format!("Keep what it reads in memory, or read ahead further{}.", on(by)),
        (TimeKind::Write | TimeKind::DirectIo | TimeKind::BlockIo, by) => {
            format!("Have more requests in flight, or use a faster device{}.", on(by))
        }
        (TimeKind::Fsync | TimeKind::Journal, by) => {
            format!(
                "Flush less often (group commits), or put the log on a device with a protected write cache{}.",
                on(by)
            )
        }
        (TimeKind::Writeback, by) => {
            format!("Write less, or to a faster device{}: dirty pages are at their limit.", on(by))
        }
        (TimeKind::PageFault | TimeKind::Reclaim, _) => "Give it more memory, or have it use less.".into(),
        (TimeKind::Nfs, _) => "Look at the NFS server and the path to it: nfsiostat 1.".into(),
        (TimeKind::Lock, Some(by)) => {
            format!("Have {} hold the lock for less time{}.", name_of(by), waited_in(function))
        }
        (TimeKind::Lock, None) => format!("Hold the lock for less time{}.", waited_in(function)),
        (TimeKind::KernelLock, _) => format!("Avoid the calls that wait for the kernel's lock{}.", within(function)),
        (TimeKind::FileLock, Some(by)) => format!("Have {} hold the file lock for less time.", name_of(by)),
        (TimeKind::Sleep | TimeKind::Pause, _) => {
            format!("Shorten the pause of {whose}{}, or have it wait for the event itself.", within(function))
        }
        (TimeKind::Stopped, _) => format!("Resume {whose}: it was stopped by a signal or a debugger."),
        (TimeKind::Receive | TimeKind::Send | TimeKind::Connect, Some(by)) => {
            format!("Look at {}, the other end of the connection: the program waits for it.", name_of(by))
        }
        (_, Some(by)) => format!("Look at {}: the program waits for it.", name_of(by)),
        (_, None) => format!("Find out with 'whyslow profile --off-cpu' what {whose} waits for."),
    }
}

fn on(by: Option<&Contributor>) -> String {
    by.map(|by| format!(" ({})", by.name)).unwrap_or_default()
}

fn waited_in(function: Option<&str>) -> String {
    function.map(|function| format!("; it is waited for in {function}")).unwrap_or_default()
}

fn within(function: Option<&str>) -> String {
    function.map(|function| format!(" in {function}")).unwrap_or_default()
}
