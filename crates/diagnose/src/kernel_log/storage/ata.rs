//! Parses messages of libata (drivers/ata/libata-eh.c), and of the IDE drivers that it replaced (drivers/ide).

use super::{Kind, Parser};
use crate::kernel_log::words::{after, between, number_after, says, until};
use whyslow_model::kernel_log::{ATA_NO_ANSWER, ATA_OFFLINE, ATA_SLOWED, IDE_MEDIUM, IDE_TIMEOUTS};

/// SError bits for a link that corrupts or loses data.
const LINK_BITS: [&str; 7] = ["BadCRC", "10B8B", "Dispar", "Handshk", "LinkSeq", "PHYRdyChg", "RecovData"];
/// Bits of the error register for the medium.
const MEDIUM_BITS: [&str; 3] = ["UNC", "IDNF", "AMNF"];
/// Minimum timeout, in seconds, of the error handler's own commands.
const SHORTEST: f64 = 5.0;

impl Parser {
    /// Parses `res 40/... Emask 0x4 (timeout)`, `error: { UNC }`, `hard resetting link`.
    pub(super) fn ata(&mut self, text: &str) -> bool {
        let Some(port) = self.context.clone().filter(|c| c.starts_with("ata")) else { return false };
        self.link(&port, text);
        let kind = if let Some(cause) = after(text, " Emask ").and_then(|rest| between(rest, '(', ')')) {
            of_cause(cause)
        } else if let Some(bits) = after(text, "error: {").map(|rest| until(rest, |c| c == '}')) {
            of_bits(bits)
        } else if text.contains("status: {") && text.contains(" DF ") {
            Some(Kind::Hardware)
        } else if text.contains("qc timeout") {
            Some(Kind::Timeout)
        } else if says(text, ATA_SLOWED) {
            Some(Kind::Transport)
        } else if says(text, ATA_NO_ANSWER) {
            Some(Kind::NoAnswer)
        } else if says(text, ATA_OFFLINE) {
            Some(Kind::Offline)
        } else if text.contains("resetting link") {
            Some(Kind::Reset)
        } else {
            None
        };
        let Some(kind) = kind else { return false };
        // The bits of the error register follow the cause of the same command; those of the link come before it.
        let of_one_failure = |e: &super::Event| {
            text.contains("error: {") || e.detail.as_ref().is_some_and(|detail| detail.starts_with("SError"))
        };
        let told = |e: &super::Event| e.target == port && e.kind == kind && e.device.is_none() && of_one_failure(e);
        if !self.errors.events.last().is_some_and(told) {
            let sector = address_of(text).filter(|_| kind == Kind::Medium);
            let event = self.push(port, kind);
            event.sector = sector;
            // Commands of the error handler itself have their own limits, the shortest of 5 s (ata_eh_cmd_timeout_table).
            if text.contains("qc timeout") {
                event.held =
                    Some(number_after::<u32>(text, "timeout after ").map_or(SHORTEST, |ms| f64::from(ms) / 1e3));
            }
        }
        true
    }

    /// Parses `hda: dma_intr: error=0x40 { UncorrectableError }, LBAsect=1234, sector=1234`, `hda: lost interrupt`.
    pub(super) fn ide(&mut self, text: &str) -> bool {
        let Some((name, rest)) = text.split_once(": ") else { return false };
        let letter = name.strip_prefix("hd").filter(|l| l.len() == 1 && l.bytes().all(|b| b.is_ascii_lowercase()));
        if letter.is_none() {
            return false;
        }
        let kind = if rest.contains("BadCRC") {
            Kind::Transport
        } else if says(rest, IDE_MEDIUM) {
            Kind::Medium
        } else if rest.contains("DeviceFault") {
            Kind::Hardware
        } else if says(rest, IDE_TIMEOUTS) {
            Kind::Timeout
        } else if rest.contains("no response") {
            Kind::NoAnswer
        } else {
            return false;
        };
        let sector = number_after(rest, "LBAsect=").or_else(|| number_after(rest, " sector="));
        self.push(name.to_owned(), kind).sector = sector;
        true
    }

    /// Records what SErr reports about the link, each time the port fails.
    fn link(&mut self, port: &str, text: &str) {
        let clean = if let Some(bits) = after(text, " SErr ") {
            bits.split_whitespace().next() == Some("0x0")
        } else if let Some(bits) = after(text, "SError: {") {
            !says(bits, &LINK_BITS)
        } else {
            return;
        };
        *self.errors.clean_links.entry(port.to_owned()).or_insert(true) &= clean;
        if !clean && text.contains("SError: {") {
            let bits = between(text, '{', '}').unwrap_or_default().trim().to_owned();
            self.push(port.to_owned(), Kind::Transport).detail = Some(format!("SError {bits}"));
        }
    }
}

/// Returns the kind for the words of an error mask (ata_err_string).
fn of_cause(cause: &str) -> Option<Kind> {
    match cause {
        "timeout" => Some(Kind::Timeout),
        "media error" => Some(Kind::Medium),
        "ATA bus error" | "HSM violation" => Some(Kind::Transport),
        "host bus error" | "internal error" => Some(Kind::Adapter),
        _ => None,
    }
}

fn of_bits(bits: &str) -> Option<Kind> {
    if bits.contains("ICRC") {
        Some(Kind::Transport)
    } else if bits.split_whitespace().any(|bit| MEDIUM_BITS.contains(&bit)) {
        Some(Kind::Medium)
    } else {
        None
    }
}

/// Parses the address in a result: `res 51/40:00:00:4f:c2/00:00:00:00:00/40` has the error's six bytes of address around the
/// count, the low ones before the slash and the high ones after it.
fn address_of(text: &str) -> Option<u64> {
    let result = after(text, "res ")?.split_whitespace().next()?;
    let parts: Vec<&str> = result.split('/').collect();
    let [_, low, high, _] = parts[..] else { return None };
    let byte = |part: &str, at: usize| u64::from_str_radix(part.split(':').nth(at)?, 16).ok().filter(|b| *b < 256);
    let bytes = [byte(high, 4)?, byte(high, 3)?, byte(high, 2)?, byte(low, 4)?, byte(low, 3)?, byte(low, 2)?];
    Some(bytes.into_iter().fold(0, |address, byte| address << 8 | byte)).filter(|address| *address > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_result() {
        let line = "res 41/40:00:70:55:56/00:00:10:00:00/40 Emask 0x409 (media error) <F>";
        assert_eq!(address_of(line), Some(0x1056_5570));
        assert_eq!(address_of("res 41/40"), None);
        assert_eq!(address_of("res 40/00:00:00:00:00/00:00:00:00:00/00 Emask 0x4 (timeout)"), None);
    }
}
