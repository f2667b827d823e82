//! Ports of bonds, in the observer's own namespace: /proc/net/bonding (Documentation/networking/bonding.rst).

use super::net_file;
use crate::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::bonding;

pub(super) const INFO: SourceInfo = SourceInfo::new("proc/net/bonding", "ports of bonds that are down").slow();

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let folder = net_file(root, "bonding");
    for bond in root.list(&folder) {
        // A bond that is removed meanwhile has no ports.
        let text = root.maybe(&format!("{folder}/{bond}")).unwrap_or_default();
        out.net.bond_port.extend(bonding::ports(&bond, &text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::stateless;
    use crate::testing::CapturedTree;

    #[test]
    fn ports_are_read_of_each_bond() {
        let text = "Bonding Mode: load balancing (round-robin)\n\nSlave Interface: eth1\nMII Status: down\n";
        let tree = CapturedTree::with_files(&[("proc/net/bonding/bond0", text), ("proc/net/bonding/bond1", "")]);
        let (outcome, out) = tree.read(&mut *stateless(INFO, read));
        assert_eq!(outcome, Ok(()));
        let [port] = &out.net.bond_port[..] else { panic!("{:?}", out.net.bond_port) };
        assert_eq!((&*port.port.upper, &*port.port.lower, port.link.get()), ("bond0", "eth1", Some("down")));
    }
}
