//! From lines of the log to errors of devices.

use super::Errors;
use super::event::{Event, Kind};
use super::sense::Sense;
use super::target::{is_removable, target};
use crate::kernel_log::Said;
use crate::kernel_log::words::{number_after, says};

/// An ATA port's exception and the SCSI layer's account of the same failure stand no further apart than this.
const SAME_FAILURE: u64 = 8;

/// The time after which a command is given up, where nobody set another: of SCSI disks, and of ATA disks by them
/// (SD_TIMEOUT of drivers/scsi/sd.h), and of NVMe (nvme_io_timeout of drivers/nvme/host/core.c).
const TIME_LIMIT: f64 = 30.0;

/// An iSCSI session or a port of a fabric did not come back: its disks go with it, and are in order.
const WAY_LOST: [&str; 2] = ["session recovery timed out", "blocked FC remote port time out"];
/// Lines within which they do.
const WITH_IT: u64 = 1000;

/// Reads the errors out of a log.
pub fn parse<'a>(lines: impl Iterator<Item = Said<'a>>) -> Errors {
    let mut parser = Parser::default();
    for said in lines {
        parser.line(said);
    }
    parser.settle()
}

/// What is known while the log is read.
#[derive(Default)]
pub(super) struct Parser {
    pub(super) errors: Errors,
    /// The target the lines before spoke of: several generations of drivers name it once for several lines.
    pub(super) context: Option<String>,
    /// The sense that is being told, line by line, and the event that was made of it.
    pub(super) sense: Option<Sense>,
    pub(super) told: Option<usize>,
    /// Failed requests of which only the number was logged, with the next one.
    pub(super) suppressed: f64,
    /// How long ago the command was made whose failure is being told, of which target: `cmd_age=30s`.
    age: Option<(String, f64)>,
    /// The line on which the way to the storage of a network was given up.
    pub(super) way_lost: Option<u64>,
    /// The port that failed last, and on which line.
    port: Option<(String, u64)>,
    sequence: u64,
    times: f64,
}

impl Parser {
    fn line(&mut self, said: Said<'_>) {
        (self.sequence, self.times) = (said.sequence, said.times);
        let text = said.text;
        self.errors.known.learn(text);
        if is_removable(text) {
            self.context = None;
            return;
        }
        if let Some(target) = target(text) {
            self.same_failure(&target);
            self.context = Some(target).filter(|t| !self.errors.known.is_removable(t));
        }
        if let Some(age) = number_after::<u32>(text, "cmd_age=") {
            self.age = self.context.clone().map(|target| (target, age.into()));
        }
        if says(text, &WAY_LOST) {
            self.way_lost = Some(said.sequence);
        }
        // Each line tells of one thing: the first that makes sense of it has it.
        let _ = self.sense_bytes(text)
            || self.sense_key(text)
            || self.additional_sense(text)
            || self.result(text)
            || self.held_back(text)
            || self.failed_request(text)
            || self.device_state(text)
            || self.ata(text)
            || self.ide(text)
            || self.nvme(text)
            || self.mmc(text)
            || self.behind_controller(text)
            || self.adapter(text);
    }

    /// An ATA port's failure is told once more by the SCSI layer above, under the address of the device.
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
    pub(super) fn push(&mut self, target: String, kind: Kind) -> &mut Event {
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

    /// Adds an error of the target that the lines speak of; nothing where that is not known.
    pub(super) fn here(&mut self, kind: Kind) -> Option<&mut Event> {
        let target = self.context.clone()?;
        Some(self.push(target, kind))
    }

    /// Whether the way to the disks that are now given up was lost shortly before.
    pub(super) fn has_lost_its_way(&self) -> bool {
        self.way_lost.is_some_and(|at| self.sequence.saturating_sub(at) <= WITH_IT)
    }

    /// Brings together what was told of one device under several names.
    fn settle(mut self) -> Errors {
        let known = &self.errors.known;
        for event in &mut self.errors.events {
            event.target = known.settled(&event.target);
        }
        let clean = std::mem::take(&mut self.errors.clean_links);
        self.errors.clean_links = clean.into_iter().map(|(t, clean)| (known.settled(&t), clean)).collect();
        // What stands on disks fails with them.
        let stacked = |e: &Event| ["dm-", "md", "drbd", "bcache"].iter().any(|family| e.target.starts_with(family));
        if self.errors.events.iter().any(|e| !stacked(e) && e.kind != Kind::Reset) {
            self.errors.events.retain(|e| !stacked(e));
        }
        self.errors.events.dedup_by(|later, earlier| is_told_again(earlier, later));
        self.errors
    }
}

/// Whether commands of this target's kind are given up after the usual time.
fn has_usual_limit(target: &str) -> bool {
    target.contains(':') || ["ata", "nvme", "sd"].iter().any(|family| target.starts_with(family))
}

/// Whether the later event is the earlier one as the layer above tells it; what it adds is taken over.
fn is_told_again(earlier: &mut Event, later: &Event) -> bool {
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
