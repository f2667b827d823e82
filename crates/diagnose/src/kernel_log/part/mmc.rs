//! Memory cards and eMMC (drivers/mmc).

use super::event::Kind;
use super::parser::Parser;
use crate::kernel_log::words::{after, number_after, says, until};
use whyslow_model::kernel_log::MMC_TIMEOUTS;

impl Parser {
    /// `mmcblk0: error -110 transferring data, sector 4656, nr 8`, `mmc0: Timeout waiting for hardware interrupt.`
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
