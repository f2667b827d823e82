//! Locates a fault by the kinds of errors, and by which other devices have them.

use crate::kernel_log::storage::{Errors, Event, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// The part to check first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspect {
    /// The disk: its medium or its electronics.
    Disk,
    /// The disk, which reports no failure but had to recover what it read.
    RecoveringDisk,
    /// The disk, which does not answer in time though its link reports no errors.
    SlowDisk,
    /// The path to this one disk.
    Path,
    /// What several disks share: bus, backplane, expander, power.
    Bus,
    /// The host adapter.
    Adapter,
    /// The disk or its own path: the errors do not distinguish them.
    Target,
    /// Not visible in the log.
    Unknown,
}

impl Suspect {
    /// Returns the name that rules use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk | Self::RecoveringDisk => "disk",
            Self::SlowDisk => "slow disk",
            Self::Path => "path",
            Self::Bus => "bus",
            Self::Adapter => "adapter",
            Self::Target => "target",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the words that end a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::Disk => "the disk itself",
            Self::RecoveringDisk => "the disk itself, which still recovers",
            Self::SlowDisk => {
                "the disk itself, which does not answer in time: the link to it reports no error (SErr 0x0)"
            }
            Self::Path => "the path to it: cable, connector, slot or port",
            Self::Bus => "the bus: several of its targets fail, so cable, backplane, expander, terminator or power",
            Self::Adapter => "the host adapter, its firmware or its slot",
            Self::Target => "this one target: the disk, or its own cable and slot",
            Self::Unknown => "no part: requests failed, and the reason was not logged",
        }
    }
}

/// Maximum distance, in seconds, of the failures of targets that fail because of what they share.
const TOGETHER: f64 = 3600.0;
/// Errors of one target that are less than this apart, in seconds, count as one.
const SHORTLY: f64 = 300.0;

/// Kinds of errors of a target that is cut off or does not answer.
const CUT_OFF: [Kind; 6] = [Kind::Transport, Kind::Timeout, Kind::Abort, Kind::NoAnswer, Kind::Offline, Kind::NotReady];

/// When an event was logged: its file, and seconds on a clock that the lines of that file share.
pub type EventTime = Option<(u64, f64)>;

/// The errors of one target.
#[derive(Default)]
struct TargetErrors<'e> {
    events: Vec<&'e Event>,
    kinds: BTreeSet<Kind>,
    /// When it was cut off or did not answer.
    cut_off: Vec<EventTime>,
}

impl TargetErrors<'_> {
    /// Returns true if it has errors of its own: a reset also hits bystanders.
    fn is_suspicious(&self) -> bool {
        self.kinds.iter().any(|kind| *kind != Kind::Reset)
    }

    /// Returns true if it was cut off or did not answer, and does not itself report a bad medium or bad electronics, which have
    /// the same effect.
    fn is_cut_off(&self) -> bool {
        !self.cut_off.is_empty() && !self.kinds.contains(&Kind::Medium) && !self.kinds.contains(&Kind::Hardware)
    }

    /// Adds a time, unless it is shortly after the last one: a log can have any number of errors.
    fn add_time(&mut self, time: EventTime) {
        let is_shortly_after = match (self.cut_off.last(), time) {
            (Some(Some((file, last))), Some((own, time))) => *file == own && (time - last).abs() < SHORTLY,
            (Some(None), None) => true,
            _ => false,
        };
        if !is_shortly_after {
            self.cut_off.push(time);
        }
    }

    /// Returns true if both were cut off at about the same time, as far as the log has times.
    fn fails_with(&self, other: &Self) -> bool {
        let is_near = |a: &EventTime, b: &EventTime| match (a, b) {
            (Some((file, a)), Some((other, b))) => file == other && (a - b).abs() <= TOGETHER,
            _ => true,
        };
        self.cut_off.iter().any(|a| other.cut_off.iter().any(|b| is_near(a, b)))
    }
}

/// Failures that several targets of one host have in common.
#[derive(Default)]
struct HostErrors<'e> {
    /// Targets that were cut off or did not answer.
    cut_off: Vec<&'e str>,
    /// Targets that only report a reset, with the last line that does, newest first.
    bystanders: Vec<(u64, &'e str)>,
}

/// The errors of each target, and what several of them have in common.
pub struct Suspects<'e> {
    errors: &'e Errors,
    targets: BTreeMap<&'e str, TargetErrors<'e>>,
    hosts: BTreeMap<&'e str, HostErrors<'e>>,
    /// Whether a host adapter reports a fault of its own.
    adapter: bool,
}

impl<'e> Suspects<'e> {
    /// Collects the errors of a log by target.
    pub fn from_errors(errors: &'e Errors, time: impl Fn(&Event) -> EventTime) -> Self {
        let mut targets: BTreeMap<&str, TargetErrors<'_>> = BTreeMap::new();
        for event in &errors.events {
            let errors = targets.entry(&event.target).or_default();
            errors.kinds.insert(event.kind);
            errors.events.push(event);
            if CUT_OFF.contains(&event.kind) {
                errors.add_time(time(event));
            }
        }
        let adapter = targets.values().any(|errors| errors.kinds.contains(&Kind::Adapter));
        let mut all = Self { errors, targets, hosts: BTreeMap::new(), adapter };
        all.hosts = all.gather();
        all
    }

    fn gather(&self) -> BTreeMap<&'e str, HostErrors<'e>> {
        let mut hosts: BTreeMap<&str, HostErrors<'_>> = BTreeMap::new();
        for (target, errors) in &self.targets {
            let host = hosts.entry(self.host_of(target)).or_default();
            host.cut_off.extend(Some(*target).filter(|_| errors.is_cut_off()));
            if !errors.is_suspicious() {
                host.bystanders.extend(errors.events.last().map(|event| (event.sequence, *target)));
            }
        }
        hosts.values_mut().for_each(|host| host.bystanders.sort_unstable_by(|a, b| b.cmp(a)));
        hosts
    }

    /// Iterates over the targets with errors of their own.
    pub fn suspicious(&self) -> impl Iterator<Item = &'e str> {
        self.targets.iter().filter(|(_, errors)| errors.is_suspicious()).map(|(target, _)| *target)
    }

    /// Returns a target's events in order.
    pub fn events(&self, target: &str) -> &[&'e Event] {
        self.targets.get(target).map_or(&[], |errors| &errors.events)
    }

    /// Returns up to `most` targets of the same host that reported only a reset, after this one's first error.
    pub fn bystanders(&self, target: &str, most: usize) -> Vec<&'e str> {
        let first = self.events(target).first().map_or(0, |event| event.sequence);
        let host = self.hosts.get(self.host_of(target));
        let all = host.iter().flat_map(|host| &host.bystanders);
        let mut hit: Vec<&str> = all.take_while(|(last, _)| *last > first).take(most).map(|(_, name)| *name).collect();
        hit.sort_unstable();
        hit
    }

    /// Locates the fault of a target.
    pub fn suspect(&self, target: &str) -> Suspect {
        let none = TargetErrors::default();
        let errors = self.targets.get(target).unwrap_or(&none);
        let has = |wanted: &[Kind]| wanted.iter().any(|kind| errors.kinds.contains(kind));
        let unanswered = has(&[Kind::Timeout, Kind::Abort, Kind::NoAnswer, Kind::Offline, Kind::NotReady]);
        // The ports of ATA controllers report a fault of their controller themselves.
        let adapter = self.adapter && !self.is_ata(target);
        if has(&[Kind::Medium, Kind::Hardware]) {
            Suspect::Disk
        } else if has(&[Kind::Adapter]) || ((unanswered || has(&[Kind::Transport])) && adapter) {
            Suspect::Adapter
        } else if (unanswered || has(&[Kind::Transport])) && self.failing_beside(target, errors) {
            if self.is_ata(target) { Suspect::Adapter } else { Suspect::Bus }
        } else if has(&[Kind::Transport]) {
            Suspect::Path
        } else if has(&[Kind::Timeout]) && self.errors.clean_links.get(target) == Some(&true) {
            Suspect::SlowDisk
        } else if unanswered {
            Suspect::Target
        } else if has(&[Kind::Recovered]) {
            Suspect::RecoveringDisk
        } else {
            Suspect::Unknown
        }
    }

    /// Returns true if another target of the same host is cut off or does not answer at about the same time.
    fn failing_beside(&self, target: &str, errors: &TargetErrors<'_>) -> bool {
        let others = self.hosts.get(self.host_of(target)).into_iter().flat_map(|host| &host.cut_off);
        others.filter(|other| **other != target).any(|other| self.targets[other].fails_with(errors))
    }

    /// Returns the host of a target: the ports of ATA controllers count as one.
    fn host_of<'t>(&self, target: &'t str) -> &'t str {
        if self.is_ata(target) { "ata" } else { target.split(':').next().unwrap_or(target) }
    }

    fn is_ata(&self, target: &str) -> bool {
        self.errors.clean_links.contains_key(target) || target.starts_with("ata")
    }
}
