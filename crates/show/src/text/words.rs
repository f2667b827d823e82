//! Ids, subjects and settings in words.

use crate::canvas::NO_BREAK;
use crate::human;
use whyslow_documents::diagnosis::{Basis, CaptureComparison, Confidence, Culprit, Finding, Subject, Unattributed};
use whyslow_model::cgroup;

/// Names what was compared: two captures, or runs of one.
pub(super) fn compared(comparison: &CaptureComparison) -> String {
    let CaptureComparison { a, b, .. } = comparison;
    if a == b { format!("{a}: ") } else { format!("{a} → {b}: ") }
}

/// Returns a finding's headline: the id, hedged if the finding is a suspicion, and the subject.
pub(super) fn headline(finding: &Finding) -> String {
    let cause = if finding.confidence == Confidence::Low { suspected(&finding.id) } else { id(&finding.id) };
    if finding.subject.kind == "host" {
        return cause;
    }
    format!("{cause} ({})", subject(&finding.subject))
}

/// Last words of ids that state what something is.
const STATES: [&str; 9] =
    ["saturated", "throttled", "blocked", "full", "slow", "misaligned", "degraded", "limited", "failing"];

/// Formats a suspected id: `net.link_saturated` is 'Network link possibly saturated', `net.loss` is 'Possible network loss'.
fn suspected(name: &str) -> String {
    let mut words: Vec<String> = name.split(['.', '_']).map(word).collect();
    match words.last() {
        // 'Disk possibly flush bound': the word before 'bound' belongs to it.
        Some(last) if last == "bound" => words.insert(1, "possibly".into()),
        Some(last) if STATES.contains(&&**last) => words.insert(words.len() - 1, "possibly".into()),
        _ => words.insert(0, "possible".into()),
    }
    capital(&words.join(" "))
}

/// Describes the time lost by a finding, as far as it is known.
pub(super) fn time_lost(finding: &Finding) -> String {
    if finding.impact_is == Basis::NotMeasured {
        return "lost time not measured".into();
    }
    if let Some(text) = &finding.how_bad {
        return text.clone();
    }
    let share = match finding.impact {
        all if all >= 0.995 => "all".to_owned(),
        little if little < 0.01 && finding.impact_is == Basis::Measured => "less than 1 %".to_owned(),
        share => human::share(share),
    };
    let time = if finding.during.is_some() { "that time" } else { "the time" };
    match finding.impact_is {
        Basis::AtLeast if share != "all" => format!("{} at least {share} of {time}", waited(finding)),
        _ => format!("{} {share} of {time}", waited(finding)),
    }
}

/// Describes who waited for what during the time lost.
pub(super) fn waited(finding: &Finding) -> String {
    if finding.subject.kind == "device" {
        return "requests waited".into();
    }
    let resource = match finding.id.split('.').next() {
        Some("cpu") => "for a CPU",
        Some("disk" | "fs") => "for I/O",
        Some("mem") => "for memory",
        Some("net") => "for the network",
        _ => return "at least one task was delayed".into(),
    };
    format!("at least one task waited {resource}")
}

/// Formats an id in words: `disk.depth_one` is 'Disk depth one'.
pub(super) fn id(id: &str) -> String {
    let mut words = id.split(['.', '_']).map(word);
    let resource = words.next().unwrap_or_default();
    words.fold(capital(&resource), |id, word| format!("{id} {word}"))
}

/// Returns a word of an id in its usual spelling.
fn word(word: &str) -> String {
    match word {
        "cpu" | "oom" | "irq" | "nfs" | "udp" | "arp" | "numa" | "raid" | "ksm" | "thp" => word.to_uppercase(),
        "mem" => "memory".into(),
        "net" => "network".into(),
        "fs" => "file system".into(),
        "db" => "database".into(),
        "io" => "I/O".into(),
        "nic" => "network card".into(),
        "virt" => "virtualization".into(),
        other => other.into(),
    }
}

pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Formats a subject by kind and name, with its PID and TID.
/// Returns a subject at the beginning of a sentence.
pub(super) fn the_subject(of: &Subject) -> String {
    match of.kind.as_str() {
        "host" => {
            of.capture.as_ref().map_or_else(|| "the machine".to_owned(), |capture| format!("the machine in {capture}"))
        }
        _ => subject(of),
    }
}

pub(super) fn subject(subject: &Subject) -> String {
    let mut text = format!("{} {}", subject.kind, subject.name);
    match (subject.pid, subject.tid) {
        (Some(pid), Some(tid)) => text.push_str(&format!(", pid{NO_BREAK}{pid}, thread{NO_BREAK}{tid}")),
        (Some(pid), None) => text.push_str(&format!(", pid{NO_BREAK}{pid}")),
        (None, Some(tid)) => text.push_str(&format!(", thread{NO_BREAK}{tid}")),
        (None, None) => {}
    }
    if let Some(netns) = &subject.netns {
        text.push_str(&format!(", in network namespace {netns}"));
    }
    if let Some(capture) = &subject.capture {
        text.push_str(&format!(", in {capture}"));
    }
    text
}

/// Formats a culprit by name, with the number of its processes and their unit or container; its kind only if it is not a process.
pub(super) fn culprit(culprit: &Culprit) -> String {
    let Some(pid) = culprit.pid else {
        // Memory holders other than processes are named in words.
        let is_in_words = culprit.kind == "memory";
        return if is_in_words { culprit.name.clone() } else { format!("{} {}", culprit.kind, culprit.name) };
    };
    let container = culprit.container.as_ref().map(|id| format!("container{NO_BREAK}{id}"));
    // The scope of a virtual machine only repeats its name.
    let unit = culprit.unit.as_ref().filter(|_| culprit.cgroup.as_deref().and_then(cgroup::guest).is_none());
    let home = container.or_else(|| unit.map(|unit| format!("unit{NO_BREAK}{unit}")));
    let (name, pid) = match culprit.count() {
        1 => (culprit.name.clone(), Some(format!("pid{NO_BREAK}{pid}"))),
        count => (format!("{}{NO_BREAK}×{count}", culprit.name), None),
    };
    let groups = Some(culprit.cgroups.len()).filter(|count| *count > 1);
    let groups = groups.map(|count| format!("{count}{NO_BREAK}control groups"));
    let details: Vec<String> = pid.into_iter().chain(home).chain(groups).collect();
    if details.is_empty() { name } else { format!("{name} ({})", details.join(", ")) }
}

/// Returns the reason why no culprit is named, and the remedy.
pub(super) fn reason(gap: &Unattributed) -> String {
    if gap.remedy.is_empty() { gap.why.clone() } else { format!("{}; {}", gap.why, gap.remedy) }
}
