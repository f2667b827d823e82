//! /proc/net/bonding: the ports of a bond (drivers/net/bonding/bond_procfs.c).

use whyslow_model::catalogue::BondPort;
use whyslow_model::key::LinkKey;

/// Properties of a bond as a whole.
#[derive(Debug, Default)]
pub struct Bond {
    mode: Option<String>,
    aggregator: Option<f64>,
    active: Option<String>,
}

impl Bond {
    /// Takes a field of the bond.
    pub fn take(&mut self, field: &str, value: &str) {
        match field {
            "Bonding Mode" => self.mode = Some(value.to_owned()),
            // In the part about 802.3ad: the active aggregator.
            "Aggregator ID" => self.aggregator = number(value),
            "Currently Active Slave" if value != "None" && !value.is_empty() && !value.contains(' ') => {
                self.active = Some(value.to_owned());
            }
            _ => {}
        }
    }

    /// Copies the properties of the bond as a whole into the row of a port.
    pub fn begin(&self, row: &mut BondPort) {
        if let Some(mode) = &self.mode {
            row.mode = mode.as_str().into();
        }
        row.active_aggregator = self.aggregator.into();
        row.active = self.active.as_ref().map(|active| f64::from(u8::from(**active == *row.port.lower))).into();
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse::<u32>().ok().map(f64::from)
}

/// Returns the port that a line introduces: `Slave Interface: eth1`.
pub fn port(line: &str) -> Option<&str> {
    line.strip_prefix("Slave Interface: ").map(str::trim).filter(|name| !name.is_empty() && !name.contains(' '))
}

/// Takes a field of a port.
pub fn take(row: &mut BondPort, field: &str, value: &str) {
    match field {
        "MII Status" => row.link = value.into(),
        "Speed" => row.speed = value.strip_suffix(" Mbps").and_then(number).map(|megabits| megabits * 1e6).into(),
        "Duplex" if ["full", "half"].contains(&value) => row.duplex = value.into(),
        "Link Failure Count" => row.failures = number(value).into(),
        "Aggregator ID" => row.aggregator = number(value).into(),
        _ => {}
    }
}

/// Returns the ports in the file of a bond.
pub fn ports(name: &str, text: &str) -> Vec<BondPort> {
    let (mut bond, mut rows) = (Bond::default(), Vec::new());
    for line in text.lines() {
        if let Some(port) = port(line) {
            let mut row = BondPort::new(LinkKey { upper: name.into(), lower: port.into() });
            bond.begin(&mut row);
            rows.push(row);
        } else if let Some((field, value)) = line.split_once(':') {
            match rows.last_mut() {
                Some(row) => take(row, field.trim(), value.trim()),
                None => bond.take(field.trim(), value.trim()),
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Ethernet Channel Bonding Driver: v6.1.0-50-amd64\n\nBonding Mode: fault-tolerance (active-backup)\n\
        Primary Slave: None\nCurrently Active Slave: eth0\nMII Status: up\n\nSlave Interface: eth0\nMII Status: up\n\
        Speed: 1000 Mbps\nDuplex: full\nLink Failure Count: 0\n\nSlave Interface: eth1\nMII Status: down\n\
        Speed: Unknown\nDuplex: Unknown\nLink Failure Count: 2\n";

    #[test]
    fn each_port_has_its_link_and_whether_it_is_in_use() {
        let rows = ports("bond0", TEXT);
        let found: Vec<_> = rows
            .iter()
            .map(|p| (&*p.port.lower, p.link.get(), p.speed.get(), p.failures.get(), p.active.get()))
            .collect();
        assert_eq!(
            found,
            [("eth0", Some("up"), Some(1e9), Some(0.0), Some(1.0)), ("eth1", Some("down"), None, Some(2.0), Some(0.0))]
        );
        assert_eq!(rows[1].mode.get(), Some("fault-tolerance (active-backup)"));
    }
}
