//! /proc/net/dev: packets since boot by interface.

use super::copy;
use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_proc::net_dev;

/// The format.
pub const FORMAT: Format = Format {
    name: "/proc/net/dev",
    versions: "all",
    tells: "counts of packets and of bad ones since boot, by interface; of two copies with their times, rates",
    starts: |lines| lines.peek(0).is_some_and(|line| line.starts_with("Inter-|") && line.contains("Receive")),
    read,
};

const EXPECTED: &str = "an interface, a colon, then eight counts received and eight sent";

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    lines.skip(1);
    if lines.peek(0).is_some_and(|line| line.trim_start().starts_with("face |")) {
        lines.skip(1);
    }
    copy(lines, run, is_line, |text, _| row(text), EXPECTED)
}

/// A line of a copy has these sixteen counts and no more, in whole numbers.
fn row(text: &str) -> Option<whyslow_model::catalogue::Interface> {
    let (_, counts) = text.rsplit_once(':')?;
    let whole = counts.split_whitespace().filter(|c| c.bytes().all(|b| b.is_ascii_digit())).count();
    (whole == 16 && counts.split_whitespace().count() == 16).then(|| net_dev::row(&"".into(), text))?
}

/// `  eth0: 396797541   16425 ...`, or `eth0:396797541`.
fn is_line(text: &str) -> bool {
    let Some((name, rest)) = text.trim_start().rsplit_once(':') else { return false };
    !name.is_empty() && !name.contains(' ') && rest.trim_start().starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use crate::testing::{fixture, refusal_of, window_of};
    use whyslow_model::catalogue::Interface;

    #[test]
    fn a_row_for_each_interface() {
        let text = fixture("proc-net-dev.txt");
        let window = window_of(&text);
        let rows = window.newest::<Interface>();
        let eth0 = rows.values().find(|row| &*row.interface.name == "eth0").unwrap();
        assert!(eth0.rx_bytes.get().is_some_and(|bytes| bytes > 1_000_000));
        let cut = text.lines().take(3).map(|line| line.rsplit_once(' ').unwrap().0).collect::<Vec<_>>().join("\n");
        assert_eq!(refusal_of(&cut).line, 3);
    }
}
