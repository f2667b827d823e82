//! Errors of storage: of disks, of their paths, and of host adapters, as logged by every generation of drivers since 2.4.

mod adapter;
mod additional;
mod ata;
mod block;
mod event;
mod flash;
mod known_devices;
mod scsi;
mod sense;
mod target;

pub use event::{Event, Kind};
pub use known_devices::KnownDevices;

use self::sense::Sense;
use self::target::{is_removable, target};
use crate::kernel_log::words::{number_after, says};
use crate::kernel_log::{LogMessage, passes_prefilter};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::kernel_log::PATH_LOST;

/// Maximum distance, in lines, between an ATA port's exception and the SCSI layer's report of the same failure.
const SAME_FAILURE: u64 = 8;

/// Default command timeout of SCSI disks, which also applies to ATA disks (SD_TIMEOUT of drivers/scsi/sd.h), and of NVMe
/// (nvme_io_timeout of drivers/nvme/host/core.c), in seconds.
const TIME_LIMIT: f64 = 30.0;

/// Maximum number of lines between the loss of a path and the offlining of its disks.
const WITH_IT: u64 = 1000;

/// Errors, and what the log shows about the devices.
#[derive(Debug, Default)]
pub struct Errors {
    /// Errors in log order.
    pub events: Vec<Event>,
    /// Devices that the log introduces: their names and models.
    pub known: KnownDevices,
    /// Whether an ATA link was free of errors whenever its port failed (SErr 0x0), by target.
    pub clean_links: BTreeMap<String, bool>,
}

/// Finds the errors in a log.
pub fn parse<'a>(lines: impl Iterator<Item = LogMessage<'a>>) -> Errors {
    let mut parser = Parser::default();
    for message in lines {
        let understood = parser.line(message);
        if cfg!(test) && understood {
            assert!(passes_prefilter(message.text), "add words of {:?} to model/src/kernel_log.rs", message.text);
        }
    }
    parser.settle()
}

/// State while a log is read.
#[derive(Default)]
struct Parser {
    errors: Errors,
    /// Target of the previous lines: several generations of drivers name it once for several lines.
    context: Option<String>,
    /// Sense data that is being reported line by line, and the event it became.
    sense: Option<Sense>,
    described: Option<usize>,
    /// Number of suppressed failed requests, to be added to the next one.
    suppressed: f64,
    /// Target and age of the command whose failure is being reported: `cmd_age=30s`.
    age: Option<(String, f64)>,
    /// Line on which the kernel gave up the path to network storage.
    path_lost: Option<u64>,
    /// Targets that last reported that they contain no medium: an ejected stick, the slot of a card reader. Requests to them
    /// fail.
    empty: BTreeSet<String>,
    /// The port that failed last, and the line.
    port: Option<(String, u64)>,
    sequence: u64,
    times: f64,
}

impl Parser {
    /// Reads a line, and returns whether a parser understood it.
    fn line(&mut self, said: LogMessage<'_>) -> bool {
        (self.sequence, self.times) = (said.sequence, said.times);
        let text = said.text;
        self.errors.known.learn(text);
        if is_removable(text) {
            self.has_no_medium(text);
            self.context = None;
            return false;
        }
        if let Some(target) = target(text) {
            self.same_failure(&target);
            self.context = Some(target).filter(|t| !self.errors.known.is_removable(t));
        }
        if let Some(age) = number_after::<u32>(text, "cmd_age=") {
            self.age = self.context.clone().map(|target| (target, age.into()));
        }
        if says(text, PATH_LOST) {
            self.path_lost = Some(said.sequence);
        }
        // Each line reports one error: the first parser that understands it handles it.
        self.sense_bytes(text)
            || self.sense_key(text)
            || self.additional_sense(text)
            || self.result(text)
            || self.held_back(text)
            || self.failed_request(text)
            || self.cached_disk(text)
            || self.device_state(text)
            || self.ata(text)
            || self.ide(text)
            || self.nvme(text)
            || self.mmc(text)
            || self.behind_controller(text)
            || self.adapter(text)
    }

    /// Learns an ATA device's address: the SCSI layer above reports a port's failure again under it.
    fn same_failure(&mut self, target: &str) {
        if target.starts_with("ata") {
            let other = self.port.as_ref().is_some_and(|(port, _)| port != target);
            self.port = (!other).then(|| (target.to_owned(), self.sequence));
        } else if let Some((port, at)) = self.port.take()
            && self.sequence.saturating_sub(at) <= SAME_FAILURE
        {
            self.errors.known.address_it(&port, target);
        }
    }

    /// Adds an error of a target.
    fn push(&mut self, target: String, kind: Kind) -> &mut Event {
        let age = self.age.take_if(|(of, _)| *of == target).map(|(_, age)| age);
        let held = age.or_else(|| (kind == Kind::Timeout && has_usual_limit(&target)).then_some(TIME_LIMIT));
        self.errors.events.push(Event {
            sequence: self.sequence,
            times: self.times,
            target,
            kind,
            device: None,
            detail: None,
            sector: None,
            held,
        });
        self.errors.events.last_mut().expect("an event was just added")
    }

    /// Handles `Add. Sense: Medium not present`: withdraws the error that the sense key on the line before seemed to be.
    fn has_no_medium(&mut self, text: &str) {
        let Some(target) = target(text).filter(|_| says(text, &["edium not present"])) else { return };
        if let Some(at) = self.described.take().filter(|at| *at + 1 == self.errors.events.len()) {
            self.errors.events.remove(at);
        }
        self.sense = None;
        self.empty.insert(target);
    }

    /// Adds an error of the current target, if it is known.
    fn here(&mut self, kind: Kind) -> Option<&mut Event> {
        let target = self.context.clone()?;
        Some(self.push(target, kind))
    }

    /// Returns true if the path to the disks now being offlined was lost shortly before.
    fn has_lost_its_path(&self) -> bool {
        self.path_lost.is_some_and(|at| self.sequence.saturating_sub(at) <= WITH_IT)
    }

    /// Merges reports about one device under several names.
    fn settle(mut self) -> Errors {
        let known = &self.errors.known;
        for event in &mut self.errors.events {
            event.target = known.settled(&event.target);
        }
        let clean = std::mem::take(&mut self.errors.clean_links);
        self.errors.clean_links = clean.into_iter().map(|(t, clean)| (known.settled(&t), clean)).collect();
        // Devices stacked on disks fail with them.
        let stacked = |e: &Event| ["dm-", "md", "drbd", "bcache"].iter().any(|family| e.target.starts_with(family));
        if self.errors.events.iter().any(|e| !stacked(e) && e.kind != Kind::Reset) {
            self.errors.events.retain(|e| !stacked(e));
        }
        self.errors.events.dedup_by(|later, earlier| is_repeated(earlier, later));
        self.errors
    }
}

/// Returns true if commands to this kind of target have the default timeout.
fn has_usual_limit(target: &str) -> bool {
    target.contains(':') || ["ata", "nvme", "sd"].iter().any(|family| target.starts_with(family))
}

/// Returns true if the later event is the earlier one as reported by the layer above; then copies its details to the earlier
/// one.
fn is_repeated(earlier: &mut Event, later: &Event) -> bool {
    let near = later.sequence.saturating_sub(earlier.sequence) <= SAME_FAILURE;
    let again = earlier.kind == Kind::Medium
        && later.kind == earlier.kind
        && later.target == earlier.target
        && near
        && earlier.detail.is_none()
        && later.detail.is_some();
    if again {
        earlier.detail = later.detail.clone();
        earlier.device = later.device.clone();
        earlier.sector = earlier.sector.or(later.sector);
    }
    again
}
