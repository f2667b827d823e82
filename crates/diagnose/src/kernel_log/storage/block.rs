//! Failed requests as the block layer reports them (block/blk-core.c).

use super::target::numbered;
use super::{Kind, Parser};
use crate::kernel_log::disk_of;
use crate::kernel_log::words::{around, number_after, says};

/// Errors that are not faults: a command that the device does not know, a retry, a disk reserved by another host.
const NO_FAULT: [&str; 5] =
    ["not supported error", "reservation conflict", "nonblocking retry", "internal retry", "zone resource"];
/// Devices without a medium of their own.
const NO_DISK: [&str; 5] = ["fd", "sr", "loop", "ram", "zram"];
/// Functions that report how many messages about failed requests were suppressed.
const HELD_BACK: [&str; 4] = ["blk_update_request: ", "print_req_error: ", "end_request: ", "buffer_io_error: "];

impl Parser {
    /// Parses `blk_update_request: 14 callbacks suppressed`.
    pub(super) fn held_back(&mut self, text: &str) -> bool {
        let ours = text.contains("callbacks suppressed") && says(text, &HELD_BACK);
        if ours && !text.contains("buffer_io_error") {
            let count = HELD_BACK.iter().find_map(|word| number_after::<u32>(text, word));
            self.suppressed += f64::from(count.unwrap_or(0));
        }
        ours
    }

    /// Parses `I/O error: dev 08:03, sector 0`, `critical medium error, dev sda, sector 4656`, `Buffer I/O error on device
    /// sda1`.
    pub(super) fn failed_request(&mut self, text: &str) -> bool {
        let split = around(text, "dev ").or_else(|| around(text, "device ").filter(|(b, _)| b.contains("Buffer")));
        let Some((before, rest)) = split.filter(|(before, _)| before.contains("rror")) else { return false };
        let device = rest.split([',', ' ']).next().unwrap_or_default();
        let number = device.split_once(':').and_then(|(a, b)| numbered(a, b));
        let device = number.as_deref().unwrap_or(device).trim_end_matches(':');
        if says(before, &NO_FAULT) || NO_DISK.iter().any(|family| is_of(device, family)) {
            return true;
        }
        // In 2.4 the target is on the previous line, and the device's number on this one.
        if number.is_some() && self.context.as_ref().is_some_and(|c| c.contains(':')) {
            self.name_context(device);
        }
        let target = self.errors.known.target_of(device);
        if self.empty.contains(&target) {
            return true;
        }
        if before.contains("Buffer") {
            self.buffer(target, device);
            return true;
        }
        let (kind, held_back) = (kind(before), std::mem::take(&mut self.suppressed));
        let event = match self.reason_of(&target, kind) {
            Some(at) => &mut self.errors.events[at],
            None => self.push(target, kind),
        };
        event.sector = event.sector.or(number_after(rest, "sector "));
        event.device = Some(device.to_owned());
        event.times += held_back;
        true
    }

    /// Parses `bcache: bch_count_backing_io_errors() sdd: IO error on backing device, unrecoverable` (drivers/md/bcache/io.c).
    pub(super) fn cached_disk(&mut self, text: &str) -> bool {
        let Some((before, _)) = text.split_once(": IO error on backing device") else { return false };
        let device = before.rsplit(' ').next().unwrap_or(before);
        let target = self.errors.known.target_of(device);
        // The driver of the disk reports the same request.
        if self.errors.events.last().is_none_or(|last| last.target != target || last.device.is_some()) {
            self.push(target, Kind::Request).device = Some(device.to_owned());
        }
        true
    }

    /// Returns the index of the preceding event, if it is the reason why this request failed.
    fn reason_of(&self, target: &str, kind: Kind) -> Option<usize> {
        let settled = |name: &str| self.errors.known.settled(name);
        let last = self.errors.events.last()?;
        let fits = kind == Kind::Request || kind == last.kind;
        let open = last.device.is_none() && last.kind != Kind::Reset && fits;
        (open && settled(&last.target) == settled(target)).then(|| self.errors.events.len() - 1)
    }

    /// Handles a cache page that could not be read or written: a consequence, reported only if nothing else is.
    fn buffer(&mut self, target: String, device: &str) {
        if !self.errors.events.iter().rev().take(RECENT).any(|e| e.target == target) {
            self.push(target, Kind::Request).device = Some(device.to_owned());
        }
    }

    /// Learns the name of the current target.
    pub(super) fn name_context(&mut self, device: &str) {
        if let Some(context) = self.context.clone() {
            self.errors.known.name_it(&context, disk_of(device));
        }
    }
}

/// Maximum distance, in events, of a consequence from its cause.
const RECENT: usize = 1000;

fn is_of(device: &str, family: &str) -> bool {
    device.strip_prefix(family).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns the kind for the block layer's name of the error.
fn kind(before: &str) -> Kind {
    if before.contains("medium") {
        Kind::Medium
    } else if before.contains("timeout error") {
        Kind::Timeout
    } else if says(before, &["transport error", "protection error"]) {
        Kind::Transport
    } else if before.contains("device offline error") {
        Kind::Offline
    } else {
        Kind::Request
    }
}
