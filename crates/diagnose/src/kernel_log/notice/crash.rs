//! Finds the kernel functions that crashed.

use crate::kernel_log::LogMessage;
use crate::kernel_log::words::{after, until};
use whyslow_model::kernel_log::LOG_PATTERNS;

/// The location of a crash is logged within this many lines.
const NEAR: u64 = 40;

/// Returns the functions in which the kernel crashed for the first time since boot. Later crashes are often consequences of the
/// first one; they count only if the log lacks that.
pub fn places(lines: &[LogMessage<'_>]) -> Vec<String> {
    let crashes: Vec<&LogMessage<'_>> =
        lines.iter().filter(|l| LOG_PATTERNS.iter().any(|p| p.topic == "oops" && p.matches(l.text))).collect();
    let is_first = |line: &LogMessage<'_>| line.text.contains("[#1]");
    let any_first = crashes.iter().any(|line| is_first(line));
    let mut places = Vec::new();
    for crash in crashes.into_iter().filter(|line| !any_first || is_first(line)) {
        let from = lines.partition_point(|line| line.sequence < crash.sequence);
        let mut near = lines[from..].iter().take_while(|line| line.sequence - crash.sequence <= NEAR);
        let Some(function) = near.find_map(|line| place(line.text)) else { continue };
        let place = if has_one_wrong_bit(crash.text) { format!("{function}{ONE_WRONG_BIT}") } else { function };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Words that rule `kernel.oops` looks for.
const ONE_WRONG_BIT: &str = " at an address with one wrong bit";

/// Returns true if the address of `general protection fault, probably for non-canonical address 0x1000000000000` would be null,
/// or a kernel address, except for one of the upper bits: a sign of memory that flips bits.
fn has_one_wrong_bit(text: &str) -> bool {
    let digits = after(text, "non-canonical address 0x").map(|rest| until(rest, |c: char| !c.is_ascii_hexdigit()));
    let Some(address) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) else { return false };
    let upper = address >> 47;
    (upper != 0 && address.count_ones() == 1) || upper.count_ones() == u64::BITS - 47 - 1
}

/// Parses the function from `RIP: 0010:bio_endio+0x17/0x70`, `RIP: 0010:[<ffffffff8123>]  [<ffffffff8123>] bio_endio+0x17/0x70`,
/// `pc : bio_endio+0x17/0x70`.
fn place(text: &str) -> Option<String> {
    let rest = after(text, "RIP: 0010:").or_else(|| after(text, "pc : "))?;
    let rest = rest.rsplit_once(">] ").map_or(rest, |(_, function)| function);
    let (function, _) = rest.trim().split_once("+0x")?;
    let function = until(function, |c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    (!function.is_empty()).then(|| function.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_log::{log, notice};

    #[test]
    fn the_first_crash_of_each_boot_counts() {
        let lines = [
            "BUG: unable to handle page fault for address: ffffc90000000018",
            "Oops: 0000 [#1] SMP PTI",
            "RIP: 0010:bio_endio+0x17/0x70",
            "general protection fault: 0000 [#2] SMP PTI",
            "RIP: 0010:do_exit+0x47/0xaa0",
            "general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1] SMP PTI",
            "RIP: 0010:[<ffffffff81012345>]  [<ffffffff81012345>] kfree+0x5/0x90",
        ];
        let notices = notice::gather(log(&lines));
        assert_eq!((notices.len(), notices[0].topic, notices[0].count), (1, "oops", 3.0));
        assert_eq!(notices[0].details, ["bio_endio", "kfree"]);
        let fault =
            |address| format!("general protection fault, probably for non-canonical address {address}: 0000 [#1] SMP");
        let flipped = |address| has_one_wrong_bit(&fault(address));
        assert_eq!(["0x1000000000000", "0xfeff888012345678", "0xdead000000000100"].map(flipped), [true, true, false]);
        let arm = ["Internal error: Oops: 96000004 [#1] SMP", "pc : __list_del_entry_valid+0x24/0xc0"];
        assert_eq!(notice::gather(log(&arm))[0].details, ["__list_del_entry_valid"]);
        // A program that crashed is not the kernel.
        let program = ["traps: app[812] general protection fault ip:7f0 sp:7ff error:0 in libc.so.6[7f0+1000]"];
        assert_eq!(notice::gather(log(&program)), []);
    }
}
