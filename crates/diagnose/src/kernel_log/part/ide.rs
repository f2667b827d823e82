//! The words of the IDE drivers that libata replaced (drivers/ide).

use super::event::Kind;
use super::parser::Parser;
use crate::kernel_log::words::{number_after, says};
use whyslow_model::kernel_log::{IDE_MEDIUM, IDE_TIMEOUTS};

impl Parser {
    /// `hda: dma_intr: error=0x40 { UncorrectableError }, LBAsect=1234, sector=1234`, `hda: lost interrupt`
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
}
