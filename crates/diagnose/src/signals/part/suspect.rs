//! Where the kinds of errors, and who else has them, say that the fault lies.

use crate::kernel_log::part::{Errors, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// The part to look at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspect {
    /// The disk: its medium or its electronics.
    Disk,
    /// The disk, which is in order as far as it tells, and recovers what it reads.
    RecoveringDisk,
    /// The disk, which does not answer in time though the link to it is in order.
    SlowDisk,
    /// The way to this one disk.
    Path,
    /// What several disks share: bus, backplane, expander, power.
    Bus,
    /// The host adapter.
    Adapter,
    /// The disk or its own way: the errors do not tell them apart.
    Target,
    /// Nothing that was logged tells.
    Unknown,
}

impl Suspect {
    /// As rules name it.
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

    /// As a sentence ends with it.
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

/// The errors of each target by kind, and what several of them have in common.
pub struct Suspects<'e> {
    errors: &'e Errors,
    kinds: BTreeMap<&'e str, BTreeSet<Kind>>,
}

impl<'e> Suspects<'e> {
    /// Over the errors of a log.
    pub fn of(errors: &'e Errors) -> Self {
        let mut kinds: BTreeMap<&str, BTreeSet<Kind>> = BTreeMap::new();
        for event in &errors.events {
            kinds.entry(&event.target).or_default().insert(event.kind);
        }
        Self { errors, kinds }
    }

    /// Targets with errors of their own, and those that a reset hit as bystanders.
    pub fn told_apart(&self) -> (Vec<&'e str>, Vec<&'e str>) {
        self.kinds.keys().copied().partition(|target| self.kinds[target].iter().any(|kind| *kind != Kind::Reset))
    }

    /// Where the fault of a target lies.
    pub fn suspect(&self, target: &str) -> Suspect {
        let none = BTreeSet::new();
        let kinds = self.kinds.get(target).unwrap_or(&none);
        let has = |wanted: &[Kind]| wanted.iter().any(|kind| kinds.contains(kind));
        let unanswered = has(&[Kind::Timeout, Kind::Abort, Kind::NoAnswer, Kind::Offline, Kind::NotReady]);
        let adapter = || self.kinds.values().any(|kinds| kinds.contains(&Kind::Adapter));
        if has(&[Kind::Medium, Kind::Hardware]) {
            Suspect::Disk
        } else if has(&[Kind::Adapter]) || ((unanswered || has(&[Kind::Transport])) && adapter()) {
            Suspect::Adapter
        } else if (unanswered || has(&[Kind::Transport])) && self.failing_beside(target) {
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

    /// Whether another target of the same host is cut off or does not answer.
    fn failing_beside(&self, target: &str) -> bool {
        let fails = |kinds: &BTreeSet<Kind>| kinds.iter().any(|kind| kind.accuses() && *kind != Kind::Recovered);
        let beside = |other: &str| other != target && self.host_of(other) == self.host_of(target);
        self.kinds.iter().any(|(other, kinds)| beside(other) && fails(kinds))
    }

    /// Whether another target is reached by the same host: the ports of ATA controllers count as one.
    pub fn host_of<'t>(&self, target: &'t str) -> &'t str {
        if self.is_ata(target) { "ata" } else { target.split(':').next().unwrap_or(target) }
    }

    fn is_ata(&self, target: &str) -> bool {
        self.errors.clean_links.contains_key(target) || target.starts_with("ata")
    }
}
