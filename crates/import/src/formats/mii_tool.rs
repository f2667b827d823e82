//! mii-tool(8): speed and duplex of an interface, and what both ends of its link can do.

use crate::prelude::*;
use whyslow_model::catalogue::Link;

pub const FORMAT: Format = Format {
    name: "mii-tool",
    versions: "net-tools 1.60 and 2.10, with and without -v",
    shows: "the speed and duplex that were negotiated or forced, and what both ends offer",
    lacks: "speeds above 1 Gbit/s, which the tool does not know",
    programs: &[program("mii-tool")],
    files: &["mii-tool"],
    starts: |lines| lines.next_is(|line| state_of(line).is_some()),
    read,
    ..Format::NEW
};

/// Speed in bits a second, and duplex.
type Mode = (f64, Option<&'static str>);

/// Parses `eth0: negotiated 100baseTx-FD flow-control, link ok`, `eth0: 100 Mbit, half duplex, link ok`: the interface and its
/// mode, if it has a link.
fn state_of(line: &str) -> Option<(&str, Option<Mode>)> {
    let (name, state) = line.split_once(": ")?;
    let is_name = !name.is_empty() && name.len() <= 15 && !name.contains(char::is_whitespace);
    let (state, has_link) = match (state.strip_suffix("link ok"), state.strip_suffix("no link")) {
        (Some(state), _) => (state, true),
        (_, Some(state)) => (state, false),
        _ => return None,
    };
    let mode = state.split([',', ' ']).find_map(mode).or_else(|| forced(state));
    let is_state = state.trim().is_empty() || mode.is_some() || state.contains("autonegotiation");
    (is_name && is_state).then_some((name, mode.filter(|_| has_link)))
}

/// Parses `100baseTx-FD`.
fn mode(word: &str) -> Option<Mode> {
    let (megabits, rest) = word.split_once("base")?;
    let duplex = match rest.rsplit_once('-') {
        Some((_, "FD")) => Some("full"),
        Some((_, "HD")) => Some("half"),
        _ => None,
    };
    Some((number(megabits)? * 1e6, duplex))
}

/// Parses `100 Mbit, half duplex, `.
fn forced(state: &str) -> Option<Mode> {
    let (megabits, rest) = state.split_once(" Mbit, ")?;
    let duplex = ["full", "half"].into_iter().find(|duplex| rest.starts_with(duplex));
    Some((number(megabits)? * 1e6, duplex))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    const DETAILS: [&str; 6] =
        ["product info:", "basic mode:", "basic status:", "capabilities:", "advertising:", "link partner:"];
    let Some(first) = lines.take() else { return Ok(()) };
    let Some((name, state)) = state_of(&first.text) else { return Err(lines.refuse("an interface and its state")) };
    let link = run.row::<Link>(0.0, first.number, interface(name));
    link.speed = state.map(|(speed, _)| speed).into();
    link.duplex = state.and_then(|(_, duplex)| duplex).into();
    let is_detail = |text: &str| DETAILS.iter().any(|detail| text.trim_start().starts_with(detail));
    while let Some(line) = lines.take_if(is_detail) {
        let Some((what, modes)) = line.text.trim_start().split_once(':') else { continue };
        let fastest = modes.split_whitespace().filter_map(mode).map(|(speed, _)| speed).reduce(f64::max);
        let link = run.row::<Link>(0.0, line.number, interface(name));
        match what {
            "capabilities" => link.supported_speed = fastest.into(),
            "link partner" => link.partner_speed = fastest.into(),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::row_of;

    #[test]
    fn modes_are_negotiated_or_forced() {
        for (line, expected) in [
            ("eth0: negotiated 100baseTx-FD flow-control, link ok", Some(("eth0", Some((1e8, Some("full")))))),
            ("eth0: 100 Mbit, half duplex, link ok", Some(("eth0", Some((1e8, Some("half")))))),
            ("eth0: no link", Some(("eth0", None))),
            ("eth0: autonegotiation restarted, no link", Some(("eth0", None))),
            ("note: there is no link", None),
            ("resetting the transceiver...", None),
        ] {
            assert_eq!(state_of(line), expected, "{line}");
        }
        let text = "eth0: negotiated 10baseT-FD, link ok\n  basic mode:   autonegotiation enabled\n  \
                    capabilities: 100baseTx-FD 10baseT-HD\n  link partner: 100baseTx-FD 100baseTx-HD 10baseT-FD 10baseT-HD\n";
        let link = row_of::<Link>(text);
        let speeds = [link.speed, link.supported_speed, link.partner_speed].map(whyslow_model::value::Gauge::get);
        assert_eq!(speeds, [Some(1e7), Some(1e8), Some(1e8)]);
    }
}
