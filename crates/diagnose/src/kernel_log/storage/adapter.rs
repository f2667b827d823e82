//! Host adapters: their own faults, and the reports of RAID controllers about the disks behind them.

use super::sense::Sense;
use super::{Kind, Parser};
use crate::kernel_log::words::{after, after_part, leading_number, number_after, says, until, word_after};
use whyslow_model::kernel_log::ADAPTER_FAULTS;

impl Parser {
    /// Parses `mpt3sas_cm0: fault_state(0x2622)!`.
    pub(super) fn adapter(&mut self, text: &str) -> bool {
        let Some(fault) = ADAPTER_FAULTS.iter().find(|words| text.contains(*words)) else { return false };
        let name = text.split(": ").next().unwrap_or(text);
        let detail = after(text, ": ").unwrap_or(fault).trim().to_owned();
        self.push(name.trim().to_owned(), Kind::Adapter).detail = Some(detail);
        true
    }

    /// Parses `megaraid_sas ...: Unexpected sense: PD 04(e0x08/s4) Path ..., Sense: 3/11/00`; `3w-9xxx: scsi0: AEN: ERROR
    /// (0x04:0x000A): Drive error detected:unit=0, port=3.`
    pub(super) fn behind_controller(&mut self, text: &str) -> bool {
        let Some(target) = disk_behind(text) else { return false };
        let sense = sense(text);
        let kind = match sense {
            Some(sense) => sense.kind(),
            None => of_words(text),
        };
        if let Some(kind) = kind {
            self.push(target, kind).detail = sense.map(Sense::describe);
        }
        true
    }
}

/// Returns the controller's name for a disk behind it.
fn disk_behind(text: &str) -> Option<String> {
    if text.contains("mega") {
        return after(text, " PD ").map(|rest| format!("PD {}", until(rest, |c| c.is_whitespace() || c == ',')));
    }
    let host = after(text, ": scsi").filter(|_| text.starts_with("3w-")).map(|h| until(h, |c| c == ':'))?;
    Some(format!(
        "scsi{host} port {}",
        number_after::<u32>(text, "port=").or_else(|| leading_number(after_part(text, "ort #")?))?
    ))
}

/// Parses `Sense: 3/11/00`.
fn sense(text: &str) -> Option<Sense> {
    let mut parts = word_after(text, "Sense: ")?.split('/').map(|part| u8::from_str_radix(part, 16).ok());
    let key = parts.next()?.filter(|key| *key < 16)?;
    Some(Sense { key, additional: parts.next().flatten().zip(parts.next().flatten()) })
}

fn of_words(text: &str) -> Option<Kind> {
    let text = text.to_ascii_lowercase();
    if says(&text, &["medium error", "ecc error"]) && !text.contains("corrected medium error") {
        Some(Kind::Medium)
    } else if says(&text, &["predictive failure", "corrected medium error", "sector repair", "smart threshold"]) {
        Some(Kind::Recovered)
    } else if says(&text, &["drive error", "to failed", "error on pd"]) {
        Some(Kind::Hardware)
    } else if text.contains("timeout") {
        Some(Kind::Timeout)
    } else if says(&text, &["drive removed", "removed: pd"]) {
        Some(Kind::Offline)
    } else if text.contains("reset") {
        Some(Kind::Reset)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_behind_controllers_by_their_slots() {
        let line = "megaraid_sas 0000:03:00.0: 1234 (5s/0x0002/WARN) - Unexpected sense: PD 04(e0x08/s4) Path 4433, CDB: 28 00, Sense: 3/11/00";
        assert_eq!(disk_behind(line).as_deref(), Some("PD 04(e0x08/s4)"));
        assert_eq!(sense(line).unwrap().describe(), "Medium Error, ASC/ASCQ 11h/00h unrecovered read error");
        let line = "3w-9xxx: scsi0: AEN: ERROR (0x04:0x000A): Drive error detected:unit=0, port=3.";
        assert_eq!((disk_behind(line).as_deref(), of_words(line)), (Some("scsi0 port 3"), Some(Kind::Hardware)));
        assert_eq!(disk_behind("sd 0:0:0:0: PD x"), None);
    }
}
