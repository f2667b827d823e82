//! From lines of the log to errors of devices.

use super::disk_of;
use super::event::{Event, Kind};
use super::sense::Sense;
use std::collections::BTreeMap;

/// Errors, and what the log tells of the devices' names.
#[derive(Debug, Default)]
pub struct Errors {
    /// In the order they were logged.
    pub events: Vec<Event>,
    /// Device names by target.
    pub names: BTreeMap<String, String>,
    /// Whether an ATA link was free of errors whenever its port failed (SErr 0x0), by target.
    pub clean_links: BTreeMap<String, bool>,
}

impl Errors {
    /// The name of a target's device.
    pub fn name(&self, target: &str) -> Option<&str> {
        self.names.get(target).map(String::as_str)
    }

    /// The target a device name belongs to, else the name itself.
    fn target_of(&self, device: &str) -> String {
        let disk = self.names.iter().find(|(_, name)| name.as_str() == device || disk_of(device) == name.as_str());
        disk.map_or_else(|| disk_of(device).to_owned(), |(target, _)| target.clone())
    }
}

/// Reads the errors out of a log.
pub fn parse<'a>(lines: impl Iterator<Item = (u64, &'a str)>) -> Errors {
    let mut parser = Parser::default();
    for (sequence, text) in lines {
        parser.line(sequence, text);
    }
    parser.errors
}

#[derive(Default)]
struct Parser {
    errors: Errors,
    /// The target the lines before spoke of: several generations of drivers name it once for several lines.
    context: Option<String>,
    /// The sense that is being told, line by line.
    sense: Option<Sense>,
    sequence: u64,
}

impl Parser {
    fn line(&mut self, sequence: u64, text: &str) {
        self.sequence = sequence;
        if let Some(target) = target(text) {
            if let Some(name) = bracketed(text) {
                self.errors.names.insert(target.clone(), name.to_owned());
            }
            self.context = Some(target);
        }
        // Each line tells of one thing: the first that makes sense of it has it.
        let _ = self.sense_bytes(text)
            || self.sense_key(text)
            || self.additional_sense(text)
            || self.result(text)
            || self.failed_request(text)
            || self.device_state(text)
            || self.ata(text)
            || self.nvme(text);
    }

    fn push(&mut self, target: String, kind: Kind) -> &mut Event {
        self.errors.events.push(Event {
            sequence: self.sequence,
            target,
            kind,
            device: None,
            detail: None,
            sector: None,
        });
        self.errors.events.last_mut().expect("an event was just added")
    }

    fn here(&mut self, kind: Kind) -> Option<&mut Event> {
        let target = self.context.clone()?;
        Some(self.push(target, kind))
    }

    fn tell(&mut self, sense: Sense) {
        self.sense = Some(sense);
        let kind = if sense.is_reset() { Some(Kind::Reset) } else { Kind::of_sense_key(sense.key) };
        if let Some(kind) = kind
            && let Some(event) = self.here(kind)
        {
            event.detail = Some(sense.describe());
        }
    }

    /// `SenseData[12h]: 70 00 06 00 ...`: the bytes say all that the two lines after them repeat.
    fn sense_bytes(&mut self, text: &str) -> bool {
        let Some((_, bytes)) = text.split_once("SenseData[").and_then(|(_, rest)| rest.split_once("]:")) else {
            return false;
        };
        let bytes: Vec<u8> = bytes.split_whitespace().map_while(|b| u8::from_str_radix(b, 16).ok()).collect();
        if let Some(sense) = Sense::decode(&bytes) {
            self.tell(sense);
        }
        true
    }

    /// `Sense Key : Medium Error [current]`, `Key=3h (MEDIUM ERROR)`, `sd08:02: sense key Medium Error`.
    fn sense_key(&mut self, text: &str) -> bool {
        if let Some((_, key)) = text.split_once("Key=") {
            let key = key.chars().next().and_then(|c| c.to_digit(16)).and_then(|k| u8::try_from(k).ok());
            let told = |s: &Sense| s.additional.is_some() && Some(s.key) == key && text.contains("SenseKey=");
            if !self.sense.as_ref().is_some_and(told)
                && let Some(key) = key
            {
                self.tell(Sense { key, additional: None });
            }
            return true;
        }
        let named = text.split_once("Sense Key : ").or_else(|| text.split_once("sense key "));
        let Some(key) = named.and_then(|(_, name)| Sense::key_named(name)) else { return false };
        if let Some(disk) = old_device(text) {
            self.context =
                Some(self.context.take().filter(|c| c.contains(':')).unwrap_or_else(|| self.errors.target_of(&disk)));
            self.name_context(&disk);
        }
        self.tell(Sense { key, additional: None });
        true
    }

    /// `Add. Sense: Unrecovered read error`, `ASC/ASCQ=0Ch/02h`, `Additional sense indicates Write error`.
    fn additional_sense(&mut self, text: &str) -> bool {
        if let Some(sense) = self.sense
            && let Some(codes) = text.split_once("ASC/ASCQ=").map(|(_, codes)| codes)
        {
            if sense.additional.is_none()
                && let Some(additional) = codes_of(codes)
            {
                self.refine(Sense { additional: Some(additional), ..sense });
            }
            return true;
        }
        let words = text.split_once("Add. Sense: ").or_else(|| text.split_once("Additional sense indicates "));
        let Some((_, words)) = words else { return false };
        let reset = ["reset occurred", "Power on"].iter().any(|w| words.contains(w));
        let key = self.sense.map(|s| s.key);
        if reset && key == Some(0x6) {
            self.here(Kind::Reset);
        } else if key.and_then(Kind::of_sense_key).is_some()
            && let Some(event) = self.errors.events.last_mut()
        {
            let before = event.detail.take().unwrap_or_default();
            let words = words.split(" I/O error").next().unwrap_or(words).trim();
            event.detail = Some(format!("{before}: {words}"));
        }
        // Old drivers wrote the next message on the same line.
        self.failed_request(text);
        true
    }

    /// Puts a code that came on a line of its own into the event it belongs to.
    fn refine(&mut self, sense: Sense) {
        let pending = Kind::of_sense_key(sense.key).is_some();
        self.sense = Some(sense);
        if !pending {
            self.tell(sense);
        } else if let Some(event) = self.errors.events.last_mut() {
            event.detail = Some(sense.describe());
        }
    }

    /// `Result: hostbyte=DID_TIME_OUT`, `Done: TIMEOUT_ERROR`, `return code = 27010000`, `aborting command due to timeout`.
    fn result(&mut self, text: &str) -> bool {
        // The host byte is the third from the right (include/scsi/scsi_status.h); 2.4 printed hex without 0x.
        let code = text.split_once("return code = ").map(|(_, code)| code.trim().trim_start_matches("0x"));
        let byte =
            code.and_then(|c| u32::from_str_radix(c.split_whitespace().next()?, 16).ok()).map(|c| (c >> 16) & 0xff);
        let named = text.split_once("hostbyte=").map(|(_, name)| name.split_whitespace().next().unwrap_or(name));
        let timeout = ["TIMEOUT_ERROR", "aborting command due to timeout", "timing out command"];
        let kind = match (byte, named) {
            _ if timeout.iter().any(|w| text.contains(w)) => Kind::Timeout,
            (Some(0x01 | 0x04), _) | (_, Some("DID_NO_CONNECT" | "DID_BAD_TARGET")) => Kind::NoAnswer,
            (Some(0x03), _) | (_, Some("DID_TIME_OUT")) => Kind::Timeout,
            (Some(0x06 | 0x07 | 0x0e), _) => Kind::Transport,
            (_, Some("DID_PARITY" | "DID_ERROR" | "DID_TRANSPORT_DISRUPTED" | "DID_TRANSPORT_FAILFAST")) => {
                Kind::Transport
            }
            _ => return false,
        };
        let detail = code.map(|c| format!("return code {c}")).or_else(|| named.map(str::to_owned));
        if let Some(event) = self.here(kind) {
            event.detail = detail;
        }
        true
    }

    /// `I/O error: dev 08:03, sector 0`, `critical medium error, dev sda, sector 4656`.
    fn failed_request(&mut self, text: &str) -> bool {
        let Some((before, rest)) = text.split_once("dev ") else { return false };
        if !before.contains("rror") || before.contains("Buffer") {
            return false;
        }
        let device = rest.split([',', ' ']).next().unwrap_or_default();
        let number = device.split_once(':').and_then(|(a, b)| numbered(a, b));
        let device = number.as_deref().unwrap_or(device);
        let sector = rest.split_once("sector ").and_then(|(_, s)| s.split([' ', ',']).next()?.parse().ok());
        // In 2.4 the target stands on the line before, the device's number on this one.
        if number.is_some() && self.context.as_ref().is_some_and(|c| c.contains(':')) {
            self.name_context(disk_of(device));
        }
        let target = self.errors.target_of(device);
        let kind = if before.contains("medium") { Kind::Medium } else { Kind::Request };
        let again = self
            .errors
            .events
            .last()
            .is_some_and(|e| e.kind == Kind::Medium && e.target == target && e.sector.is_none());
        if kind == Kind::Medium && again {
            // The same error, told by the block layer once more, with its sector.
            self.name_request(device, sector);
        } else {
            self.push(target, kind);
            self.name_request(device, sector);
        }
        true
    }

    fn name_request(&mut self, device: &str, sector: Option<u64>) {
        if let Some(event) = self.errors.events.last_mut() {
            event.sector = sector;
            event.device = Some(device.to_owned());
        }
    }

    fn name_context(&mut self, device: &str) {
        if let Some(context) = &self.context {
            self.errors.names.entry(context.clone()).or_insert_with(|| disk_of(device).to_owned());
        }
    }

    fn device_state(&mut self, text: &str) -> bool {
        let kind = if ["Device offlined", "rejecting I/O to offline device", "rejecting I/O to dead device"]
            .iter()
            .any(|w| text.contains(w))
        {
            Kind::Offline
        } else if text.contains("bus is being reset for host") || text.contains("device reset occurred") {
            Kind::Reset
        } else {
            return false;
        };
        self.here(kind);
        true
    }

    /// libata: `ata2.00: failed command: ...`, `res 40/... Emask 0x4 (timeout)`, `error: { UNC }`.
    fn ata(&mut self, text: &str) -> bool {
        if let Some((_, link)) = text.split_once(" SErr ")
            && let Some(target) = self.context.clone().filter(|c| c.starts_with("ata"))
        {
            let clean = link.split_whitespace().next() == Some("0x0");
            *self.errors.clean_links.entry(target).or_insert(true) &= clean;
        }
        let kind = if text.contains("Emask 0x4 (timeout)") {
            Kind::Timeout
        } else if text.contains("error: { UNC") {
            Kind::Medium
        } else if text.contains("error: { ICRC") || text.contains("BadCRC") {
            Kind::Transport
        } else if text.contains("ata") && (text.contains("hard resetting link") || text.contains("soft resetting link"))
        {
            Kind::Reset
        } else {
            return false;
        };
        if self.context.as_ref().is_some_and(|c| c.starts_with("ata")) {
            self.here(kind);
        }
        true
    }

    fn nvme(&mut self, text: &str) -> bool {
        let Some(name) = text.split_once("nvme nvme").and_then(|(_, rest)| rest.split(':').next()) else {
            return false;
        };
        let controller = format!("nvme{name}");
        let kind = if text.contains("timeout") {
            Kind::Timeout
        } else if text.contains("Removing after probe failure") || text.contains("Device not ready") {
            Kind::Offline
        } else if text.contains("controller is down") {
            Kind::Reset
        } else {
            return false;
        };
        self.push(controller, kind);
        true
    }
}

/// host:channel:target:lun of a line, in the spelling of each generation.
fn target(text: &str) -> Option<String> {
    modern(text).or_else(|| spelled_out(text)).or_else(|| short(text)).or_else(|| port(text))
}

/// `sd 0:0:2:0: [sdc]`
fn modern(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("sd ").or_else(|| text.split_once("scsi "))?;
    let address = rest.split_whitespace().next()?.trim_end_matches(':');
    let parts: Vec<&str> = address.split(':').collect();
    (parts.len() == 4 && parts.iter().all(|p| p.parse::<u64>().is_ok())).then(|| address.to_owned())
}

/// `host 0 channel 0 id 1 lun 0`, `scsi0, channel 0, id 1, lun 0`, `scsi0: ERROR on channel 0, id 0, lun 0`
fn spelled_out(text: &str) -> Option<String> {
    let after = |word: &str| {
        let rest = text.split_once(word)?.1.trim_start();
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
    };
    let host = after("host ").or_else(|| after("scsi"))?;
    Some(format!("{host}:{}:{}:{}", after("channel ")?, after("id ")?, after("lun ")?))
}

/// `(0:1:0)`, which is host, target and lun; `scsi0 (1:0)`, target and lun of that host.
fn short(text: &str) -> Option<String> {
    let (before, rest) = text.split_once('(')?;
    let numbers: Vec<u32> = rest.split(')').next()?.split(':').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    match numbers[..] {
        [host, id, lun] if before.contains("SCSI Error") => Some(format!("{host}:0:{id}:{lun}")),
        [id, lun] => {
            let host: u32 = before.trim().rsplit_once("scsi")?.1.parse().ok()?;
            Some(format!("{host}:0:{id}:{lun}"))
        }
        _ => None,
    }
}

/// `ata2.00:`, `ata2:`
fn port(text: &str) -> Option<String> {
    let word = text.split_whitespace().find(|w| w.starts_with("ata") && w.ends_with(':'))?.trim_end_matches(':');
    let number = &word[3..];
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    match number.split_once('.') {
        Some((port, device)) if digits(port) && digits(device) => Some(word.to_owned()),
        None if digits(number) => Some(format!("{word}.00")),
        _ => None,
    }
}

/// `[sdc]`
fn bracketed(text: &str) -> Option<&str> {
    let name = text.split_once(": [")?.1.split(']').next()?;
    (name.starts_with("sd") && name.bytes().all(|b| b.is_ascii_alphanumeric())).then_some(name)
}

/// `Deferred sd08:02: sense key`: the device's number in hexadecimal.
fn old_device(text: &str) -> Option<String> {
    let rest = text.split_once(" sd")?.1;
    let (major, minor) = rest.split(": ").next()?.split_once(':')?;
    numbered(major, minor)
}

/// 2.4 printed a device's number in hexadecimal.
fn numbered(major: &str, minor: &str) -> Option<String> {
    let hex = |s: &str| u32::from_str_radix(s, 16).ok();
    whyslow_model::device::by_number(hex(major)?, hex(minor)?)
}

fn codes_of(codes: &str) -> Option<(u8, u8)> {
    let (asc, rest) = codes.split_once("h/")?;
    let hex = |s: &str| u8::from_str_radix(s, 16).ok();
    Some((hex(asc)?, hex(rest.split('h').next()?)?))
}
