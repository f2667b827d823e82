//! Parses messages of the drivers for NVMe (drivers/nvme/host), and for memory cards and eMMC (drivers/mmc).

use super::{Kind, Parser};
use crate::kernel_log::words::{after, hex_after, number_after, says, until};
use whyslow_model::kernel_log::{MMC_TIMEOUTS, NVME_OFFLINE};

/// Media and data integrity errors (NVM Express Base Specification, status code types).
const MEDIA: u32 = 2;
/// Path errors.
const PATH: u32 = 3;
/// Value of a controller's registers once it is gone from the bus.
const GONE: u32 = u32::MAX;
/// Controller fatal status, a bit of CSTS.
const FATAL: u32 = 2;

impl Parser {
    /// Parses `nvme nvme0: I/O 12 QID 3 timeout, aborting`; `nvme0n1: Read(0x2) @ LBA 4656, 8 blocks, ... (sct 0x2 / sc 0x81)`.
    pub(super) fn nvme(&mut self, text: &str) -> bool {
        if let Some((name, rest)) =
            text.split_once(": ").filter(|(name, _)| name.starts_with("nvme") && name.contains('n'))
            && let Some(kind) = of_status(rest)
        {
            let target = self.errors.known.target_of(name);
            let event = self.push(target, kind);
            event.sector = number_after(rest, "LBA ");
            event.detail = rest.split(", ").nth(2).map(str::to_owned);
            return true;
        }
        let Some(name) = text.split_once("nvme nvme").and_then(|(_, rest)| rest.split(':').next()) else {
            return false;
        };
        let Some((kind, detail)) = of_controller(text) else { return false };
        self.push(format!("nvme{name}"), kind).detail = detail.map(str::to_owned);
        true
    }

    /// Parses `mmcblk0: error -110 transferring data, sector 4656, nr 8`, `mmc0: Timeout waiting for hardware interrupt.`
    pub(super) fn mmc(&mut self, text: &str) -> bool {
        let Some((name, rest)) = text.split_once(": ").filter(|(name, _)| name.starts_with("mmc")) else {
            return false;
        };
        let code = after(rest, "error -").map(|code| until(code, |c| !c.is_ascii_digit()));
        let kind = match code {
            // ETIMEDOUT and EILSEQ, as the host drivers use them.
            Some("110") => Kind::Timeout,
            Some("84") => Kind::Transport,
            _ if says(rest, MMC_TIMEOUTS) => Kind::Timeout,
            Some(_) => Kind::Hardware,
            None => return false,
        };
        let target = self.errors.known.name(name).unwrap_or(name).to_owned();
        self.push(target, kind).sector = number_after(rest, "sector ");
        true
    }
}

fn of_status(text: &str) -> Option<Kind> {
    match (hex_after(text, "(sct ")?, hex_after(text, "/ sc ")?) {
        (MEDIA, _) => Some(Kind::Medium),
        (PATH, _) | (0, 0x04) => Some(Kind::Transport),
        (0, 0x06) => Some(Kind::Hardware),
        _ => None,
    }
}

/// Returns what happened to the controller, and a note on it.
fn of_controller(text: &str) -> Option<(Kind, Option<&'static str>)> {
    if text.contains("completion polled") {
        return Some((Kind::Timeout, Some("the command was done, its interrupt was lost")));
    }
    // Messages of a controller behind a network end with the word, or name the request.
    if says(text, &["timeout, ", "timeout. ", "timeout request"]) || text.ends_with(" timeout") {
        return Some((Kind::Timeout, None));
    }
    if let Some(status) = hex_after(text, "controller is down; will reset: CSTS=") {
        return Some(match status {
            GONE => (Kind::Transport, Some("CSTS=0xffffffff: gone from the PCIe bus")),
            status if status & FATAL != 0 => (Kind::Hardware, Some("CSTS: controller fatal status")),
            _ => (Kind::Reset, None),
        });
    }
    if says(text, NVME_OFFLINE) {
        return Some((Kind::Offline, None));
    }
    if text.contains("frozen state error detected") {
        return Some((Kind::Transport, Some("PCIe error")));
    }
    text.contains("resetting controller").then_some((Kind::Reset, None))
}
