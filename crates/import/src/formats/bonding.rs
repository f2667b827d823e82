//! /proc/net/bonding: the ports of a bond (drivers/net/bonding/bond_procfs.c).

use crate::prelude::*;
use std::collections::BTreeSet;
use whyslow_model::catalogue::BondPort;
use whyslow_model::key::LinkKey;
use whyslow_proc::bonding::{self, Bond, port};

pub const FORMAT: Format = Format {
    name: "/proc/net/bonding",
    versions: "driver 2.4 to 5, and that of newer kernels",
    shows: "ports that are down, that are not in the aggregate in use, or that have another speed than the others",
    lacks: "how the packets are spread over the ports",
    files: &["bond", "bonding"],
    starts: |lines| lines.next_is(|line| line.starts_with(TITLE) || port(line).is_some()),
    read,
    ..Format::NEW
};

const TITLE: &str = "Ethernet Channel Bonding Driver:";
/// Placeholder for a bond that neither the command line nor the file names.
const UNNAMED: &str = "bond";

/// Fields of a port that are read.
const ALL_FIELDS: [&str; 5] = ["MII Status", "Speed", "Duplex", "Link Failure Count", "Aggregator ID"];

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let path = context.command().and_then(|c| c.operands().find_map(|o| o.strip_prefix("/proc/net/bonding/")));
    let named = path.filter(|name| !name.contains(['*', '?', '[', '/']));
    let name = named.or_else(|| named_after_it(lines.file())).unwrap_or(UNNAMED).to_owned();
    let mut bond = Bond::default();
    let mut current: Option<LinkKey> = None;
    let mut seen: BTreeSet<String> = BTreeSet::new();
    lines.take_if(|line| line.starts_with(TITLE));
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let Some((field, value)) = text.split_once(':').map(|(f, v)| (f.trim().to_owned(), v.trim().to_owned())) else {
            // `802.3ad info`
            if text.trim() != "802.3ad info" {
                break;
            }
            lines.skip(blanks + 1);
            continue;
        };
        let is_next = text.starts_with(TITLE);
        lines.skip(blanks);
        if is_next || blanks > 0 && another_output_starts(lines, FORMAT.name) {
            break;
        }
        let Some(line) = lines.take() else { break };
        if let Some(port) = port(&line.text) {
            let key = LinkKey { upper: name.as_str().into(), lower: port.into() };
            let row = run.row::<BondPort>(0.0, line.number, key.clone());
            bond.begin(row);
            current = Some(key);
            seen.clear();
            continue;
        }
        // A repeated field, and what follows it, belong to a port whose title was lost or damaged.
        let is_title = field.starts_with("Slave") && field != "Slave queue ID";
        if current.is_some() && (is_title || seen.contains(&field)) {
            lines.leave_out_line(&line, "a port with each of its fields once")?;
            seen.extend(ALL_FIELDS.map(str::to_owned));
            continue;
        }
        if current.is_some() && ALL_FIELDS.contains(&field.as_str()) {
            seen.insert(field.clone());
        }
        match &current {
            Some(key) => bonding::take(run.row(0.0, 0, key.clone()), &field, &value),
            None => bond.take(&field, &value),
        }
    }
    Ok(())
}

/// Returns the name of a bond, if its file is named after it.
fn named_after_it(file: &str) -> Option<&str> {
    let name = file.rsplit('/').next()?;
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    name.strip_prefix("bond").is_some_and(is_number).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    /// Written after bond_procfs.c, since a bond cannot be created here.
    #[test]
    fn a_port_outside_of_the_aggregate_in_use() {
        let window = window_of(&fixture("layouts/proc-net-bonding-8023ad.txt"));
        let rows: Vec<_> = window
            .newest::<BondPort>()
            .into_values()
            .map(|p| (&*p.port.lower, p.link.get(), p.speed.get(), p.aggregator.get(), p.active_aggregator.get()))
            .collect();
        assert_eq!(
            rows,
            [
                ("eth1", Some("up"), Some(1e10), Some(1.0), Some(1.0)),
                ("eth2", Some("up"), Some(1e10), Some(2.0), Some(1.0))
            ]
        );
        let keys: Vec<String> = window.newest::<BondPort>().keys().map(|key| key.upper.to_string()).collect();
        assert_eq!(keys, ["bond0", "bond0"]);
    }

    #[test]
    fn a_port_that_is_down() {
        let window = window_of(&fixture("layouts/proc-net-bonding-backup.txt"));
        let rows: Vec<_> = window
            .newest::<BondPort>()
            .into_values()
            .map(|p| (&*p.port.lower, p.link.get(), p.speed.get(), p.failures.get(), p.active.get()))
            .collect();
        assert_eq!(
            rows,
            [("eno1", Some("down"), None, Some(3.0), Some(0.0)), ("eno2", Some("up"), Some(1e9), Some(0.0), Some(1.0))]
        );
    }
}
