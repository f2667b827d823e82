//! Parses messages of the SCSI layer (drivers/scsi/scsi_logging.c, scsi_error.c, and their predecessors since 2.4).

use super::additional;
use super::sense::Sense;
use super::target::old_device;
use super::{Kind, Parser};
use crate::kernel_log::words::{after, after_part, hex_after, hex_after_part, says, until};
use whyslow_model::kernel_log::{SCSI_ABORTS, SCSI_OFFLINE, SCSI_RESETS, SCSI_TIMEOUTS};

impl Parser {
    fn report(&mut self, sense: Sense) {
        self.sense = Some(sense);
        self.described = None;
        if let Some(target) = &self.context {
            self.empty.remove(target);
        }
        if let Some(kind) = sense.kind()
            && let Some(event) = self.here(kind)
        {
            event.detail = Some(sense.describe());
            self.described = Some(self.errors.events.len() - 1);
        }
    }

    /// Adds a code from a line of its own to the event it belongs to.
    fn refine(&mut self, sense: Sense) {
        let described = self.described.filter(|at| *at < self.errors.events.len());
        let Some(at) = described else { return self.report(sense) };
        self.sense = Some(sense);
        if let Some(kind) = sense.kind() {
            let event = &mut self.errors.events[at];
            event.kind = kind;
            event.detail = Some(sense.describe());
        } else {
            self.errors.events.remove(at);
            self.described = None;
        }
    }

    /// Parses `SenseData[12h]: 70 00 06 00 ...`, `Raw sense data:0xf0 0x00 0x03`, `sense data: 70 00 03`: the bytes contain
    /// everything that the lines after them repeat.
    pub(super) fn sense_bytes(&mut self, text: &str) -> bool {
        let bytes = after(text, "SenseData[")
            .and_then(|rest| after(rest, "]:"))
            .or_else(|| after_part(text, "ense data:"))
            .or_else(|| after_part(text, "ense Data:"));
        let Some(bytes) = bytes else { return false };
        let byte = |word: &str| u8::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        let bytes: Vec<u8> = bytes.split_whitespace().map_while(byte).collect();
        if let Some(sense) = Sense::decode(&bytes) {
            self.refine_or_report(sense);
        }
        true
    }

    /// Reports the sense data or refines the event: raw bytes come before or after the lines that repeat them.
    fn refine_or_report(&mut self, sense: Sense) {
        if self.sense.is_some_and(|s| s.key == sense.key && s.additional.is_none()) {
            self.refine(sense);
        } else {
            self.report(sense);
        }
    }

    /// Parses `Sense Key : Medium Error [current]`, `Sense Key : 0x3 [current]`, `Key=3h (MEDIUM ERROR)`, `sd08:02: sense key
    /// Medium Error`, `Current sd08:11: sns = f0  3`.
    pub(super) fn sense_key(&mut self, text: &str) -> bool {
        if let Some(key) = hex_after_part(text, "Key=").and_then(|key| u8::try_from(key).ok()) {
            let told = |s: &Sense| s.additional.is_some() && s.key == key && text.contains("SenseKey=");
            if key < 16 && !self.sense.as_ref().is_some_and(told) {
                self.report(Sense { key, additional: None });
            }
            return true;
        }
        let named =
            ["ense Key : ", "ense Key: ", "ense key: ", "ense key "].iter().find_map(|word| after_part(text, word));
        let numbered = || {
            let mut bytes = after(text, ": sns = ")?.split_whitespace();
            bytes.nth(1).and_then(|key| u8::from_str_radix(key, 16).ok()).map(|key| key & 0x0f)
        };
        let Some(key) = named.and_then(|name| Sense::key_named(name.trim_start())).or_else(numbered) else {
            return false;
        };
        if let Some(disk) = old_device(text) {
            let addressed = self.context.take().filter(|c| c.contains(':'));
            self.context = Some(addressed.unwrap_or_else(|| self.errors.known.target_of(&disk)));
            self.name_context(&disk);
        }
        self.report(Sense { key, additional: codes(text) });
        true
    }

    /// Parses `Add. Sense: Unrecovered read error`, `ASC/ASCQ=0Ch/02h`, `ASC=0x11 ASCQ=0x0`, `Additional sense indicates Write
    /// error`.
    pub(super) fn additional_sense(&mut self, text: &str) -> bool {
        if let Some(sense) = self.sense
            && let Some(codes) = codes(text)
        {
            if sense.additional.is_none() {
                self.refine(Sense { additional: Some(codes), ..sense });
            }
            return true;
        }
        let introduced = ["Add. Sense: ", "Additional sense indicates ", "Additional sense: "];
        let Some(words) = introduced.iter().find_map(|word| after(text, word)) else { return false };
        // Old drivers wrote the next message on the same line, and typesetters lengthened the dash.
        let words = words.split(" I/O error").next().unwrap_or(words).trim().replace('–', "-");
        if let Some(sense) = self.sense {
            match additional::code_of(&words).or_else(|| is_reset(&words).then_some((0x29, 0x00))) {
                Some(codes) => self.refine(Sense { additional: Some(codes), ..sense }),
                None => self.add_words(&words),
            }
        }
        self.failed_request(text);
        true
    }

    fn add_words(&mut self, words: &str) {
        if let Some(event) = self.described.and_then(|at| self.errors.events.get_mut(at)) {
            let before = event.detail.take().unwrap_or_default();
            event.detail = Some(format!("{before}: {words}"));
        }
    }

    /// Parses `Result: hostbyte=DID_TIME_OUT`, `return code = 27010000`, `Done: TIMEOUT_ERROR`, `aborting command due to
    /// timeout`.
    pub(super) fn result(&mut self, text: &str) -> bool {
        let host = after(text, "hostbyte=").map(|name| until(name, char::is_whitespace).to_owned());
        // The host byte is the third from the right (include/scsi/scsi_status.h); 2.4 printed hex without 0x.
        let code = hex_after(text, "return code =");
        let byte = host.clone().or_else(|| code.map(|code| format!("{:#04x}", (code >> 16) & 0xff)));
        let kind = if says(text, SCSI_TIMEOUTS) {
            Kind::Timeout
        } else if says(text, SCSI_ABORTS) {
            Kind::Abort
        } else if let Some(kind) = byte.as_deref().and_then(Kind::of_host_byte) {
            kind
        } else {
            return false;
        };
        let detail = code.map(|code| format!("return code {code:08x}")).or(host).filter(|d| d != "DID_OK");
        if let Some(event) = self.here(kind) {
            event.detail = detail;
        }
        true
    }

    /// Parses messages about devices that were offlined or reset.
    pub(super) fn device_state(&mut self, text: &str) -> bool {
        if says(text, SCSI_OFFLINE) {
            if self.has_lost_its_path()
                && let Some(event) = self.here(Kind::Transport)
            {
                event.detail = Some("the session or remote port did not come back".into());
            }
            self.here(Kind::Offline);
        } else if says(text, SCSI_RESETS) {
            self.here(Kind::Reset);
        } else {
            return false;
        }
        true
    }
}

fn is_reset(words: &str) -> bool {
    says(words, &["reset occurred", "Power on"])
}

/// Parses `ASC/ASCQ=0Ch/02h`, `ASC=0x11 ASCQ=0x0`, `ASC=11 ASCQ= 0`, `ASC: 0x11 ASCQ: 0x0`.
fn codes(text: &str) -> Option<(u8, u8)> {
    let hex = |word: &str| hex_after(text, word).and_then(|n| u8::try_from(n).ok());
    if let Some(codes) = after(text, "ASC/ASCQ=") {
        let (code, qualifier) = codes.split_once("h/")?;
        let hex = |s: &str| u8::from_str_radix(s, 16).ok();
        return Some((hex(code)?, hex(until(qualifier, |c| c == 'h'))?));
    }
    Some((hex("ASC=").or_else(|| hex("ASC: "))?, hex("ASCQ=").or_else(|| hex("ASCQ: "))?))
}
