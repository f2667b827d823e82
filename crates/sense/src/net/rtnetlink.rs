//! Interfaces, addresses and namespaces from rtnetlink(7).

use super::netlink::{Netlink, attribute, attributes, attributes_after, text, u16_at, u32_at};
use crate::source_error::SourceError;
use std::ffi::CStr;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use whyslow_model::value::Name;

/// Size of struct ifinfomsg.
const LINK_HEAD: usize = 16;
/// Size of struct ifaddrmsg.
const ADDRESS_HEAD: usize = 8;
/// Size of struct fib_rule_hdr.
const RULE_HEAD: usize = 12;
/// FRA_PRIORITY of include/uapi/linux/fib_rules.h.
const RULE_PRIORITY: u16 = 6;
/// IFLA_INET_CONF of include/uapi/linux/if_link.h.
const INET_CONF: u16 = 1;
/// Size of struct rtgenmsg, padded.
const NAMESPACE_HEAD: usize = 4;
/// RTEXT_FILTER_SKIP_STATS: omit the counters of each interface.
const SKIP_STATISTICS: u32 = 1 << 3;
// IFLA_VLAN_ID, IFLA_BOND_MODE and IFLA_VXLAN_LINK of include/uapi/linux/if_link.h.
const VLAN_ID: u16 = 1;
const BOND_MODE: u16 = 1;
const VXLAN_LINK: u16 = 3;
// NETNSA_NSID and NETNSA_FD of include/uapi/linux/net_namespace.h.
const NAMESPACE_ID: u16 = 1;
const NAMESPACE_FD: u16 = 3;

/// An interface as reported by RTM_GETLINK.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkInfo {
    pub index: u32,
    pub name: String,
    /// `veth`, `bridge` ...; `loopback`; `None` for a device with its own driver.
    pub kind: Option<String>,
    pub mtu: Option<u32>,
    /// RFC 2863 state.
    pub operstate: Option<u8>,
    pub tx_queue_length: Option<u32>,
    pub carrier_changes: Option<u32>,
    /// Index of the lower interface, or of the other end of a veth.
    pub lower: Option<u32>,
    /// Namespace id of that interface, if it is in another namespace.
    pub peer_namespace: Option<u32>,
    /// Index of the bridge or bond that it is a port of.
    pub master: Option<u32>,
    pub vlan: Option<u16>,
    pub bond_mode: Option<u8>,
    /// Largest packet to be segmented, bytes.
    pub gso_max: Option<u32>,
    /// Per-interface IPv4 settings, if it resolves addresses by ARP.
    pub arp: Option<ArpSettings>,
}

/// Settings that decide which interface answers for an address, and which packets it accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArpSettings {
    pub arp_filter: u32,
    pub arp_ignore: u32,
    pub rp_filter: u32,
}

impl ArpSettings {
    /// Parses IFLA_INET_CONF: numbers in the order of IPV4_DEVCONF_* of include/uapi/linux/ip.h, which begin with 1.
    fn parse(value: &[u8]) -> Option<Self> {
        let setting = |number: usize| u32_at(value, 4 * (number - 1));
        Some(Self { arp_filter: setting(13)?, arp_ignore: setting(19)?, rp_filter: setting(8)? })
    }

    /// Combines the settings as the kernel does: the larger of an interface's own setting and that for all
    /// (include/linux/inetdevice.h).
    pub(crate) fn with_all(self, all: Self) -> Self {
        Self {
            arp_filter: self.arp_filter.max(all.arp_filter),
            arp_ignore: self.arp_ignore.max(all.arp_ignore),
            rp_filter: self.rp_filter.max(all.rp_filter),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub index: u32,
    pub address: IpAddr,
    pub prefix: u8,
}

pub(crate) fn links(netlink: &mut Netlink) -> Result<Vec<LinkInfo>, SourceError> {
    let mut request = vec![0; LINK_HEAD];
    request.extend(attribute(libc::IFLA_EXT_MASK, &SKIP_STATISTICS.to_ne_bytes()));
    let mut found = Vec::new();
    netlink.dump(libc::RTM_GETLINK, &request, |payload| found.extend(link(payload)))?;
    Ok(found)
}

/// Counts the IPv4 rules that choose a routing table, besides the three that every namespace starts with (ip-rule(8)).
pub(crate) fn routing_rules(netlink: &mut Netlink) -> Result<u64, SourceError> {
    let mut request = [0; RULE_HEAD];
    request[0] = libc::AF_INET as u8;
    let mut count = 0;
    netlink.dump(libc::RTM_GETRULE, &request, |payload| {
        let priority = attributes_after(payload, RULE_HEAD).find(|(kind, _)| *kind == RULE_PRIORITY);
        // The first rule has priority 0, and the kernel omits that attribute.
        let priority = priority.and_then(|(_, value)| u32_at(value, 0)).unwrap_or(0);
        count += u64::from(![0, 32_766, 32_767].contains(&priority));
    })?;
    Ok(count)
}

pub(crate) fn addresses(netlink: &mut Netlink) -> Result<Vec<Address>, SourceError> {
    let mut found = Vec::new();
    netlink.dump(libc::RTM_GETADDR, &[0; ADDRESS_HEAD], |payload| found.extend(address(payload)))?;
    Ok(found)
}

/// Returns the id of another namespace within the socket's namespace, if it has one.
pub(crate) fn namespace_id(netlink: &mut Netlink, other: &File) -> Option<u32> {
    let mut request = vec![0; NAMESPACE_HEAD];
    request.extend(attribute(NAMESPACE_FD, &other.as_raw_fd().to_ne_bytes()));
    let mut found = None;
    netlink.ask(libc::RTM_GETNSID, &request, |payload| found = nsid(payload)).ok()?;
    found
}

/// Returns the name of an interface in the socket's namespace (netdevice(7), SIOCGIFNAME). if_indextoname(3) would open a new
/// socket each time, which costs more than the call.
pub(crate) fn interface_name(netlink: &Netlink, index: u32) -> Option<Name> {
    // SAFETY: all zeros are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_ifru.ifru_ifindex = libc::c_int::try_from(index).ok()?;
    // SAFETY: the descriptor is open, and `request` is what SIOCGIFNAME reads and writes, for the time of the call.
    if unsafe { libc::ioctl(netlink.as_raw_fd(), libc::SIOCGIFNAME as _, &raw mut request) } < 0 {
        return None;
    }
    let name = request.ifr_name.map(|c| c as u8);
    Some(CStr::from_bytes_until_nul(&name).ok()?.to_string_lossy().as_ref().into())
}

/// Returns the index of an interface in the socket's namespace (netdevice(7), SIOCGIFINDEX).
pub(crate) fn interface_index(netlink: &Netlink, name: &str) -> Option<u32> {
    // SAFETY: all zeros are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
    // SAFETY: the descriptor is open, and `request` is what SIOCGIFINDEX reads and writes, for the time of the call.
    if unsafe { libc::ioctl(netlink.as_raw_fd(), libc::SIOCGIFINDEX as _, &raw mut request) } < 0 {
        return None;
    }
    // SAFETY: any bytes are a number, and the kernel wrote this one.
    u32::try_from(unsafe { request.ifr_ifru.ifru_ifindex }).ok()
}

fn link(payload: &[u8]) -> Option<LinkInfo> {
    let mut link = LinkInfo { index: u32_at(payload, 4)?, ..LinkInfo::default() };
    let flags = u32_at(payload, 8)?;
    let mut details = None;
    if u16_at(payload, 2)? == libc::ARPHRD_LOOPBACK {
        link.kind = Some("loopback".into());
    }
    for (kind, value) in attributes_after(payload, LINK_HEAD) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU => link.mtu = u32_at(value, 0),
            libc::IFLA_TXQLEN => link.tx_queue_length = u32_at(value, 0),
            libc::IFLA_OPERSTATE => link.operstate = value.first().copied(),
            libc::IFLA_CARRIER_CHANGES => link.carrier_changes = u32_at(value, 0),
            libc::IFLA_AF_SPEC => link.arp = arp_settings(value).filter(|_| flags & libc::IFF_NOARP as u32 == 0),
            libc::IFLA_LINK_NETNSID => link.peer_namespace = u32_at(value, 0),
            // 0 if the lower interface was removed; a virtual device reports its own index.
            libc::IFLA_LINK => link.lower = u32_at(value, 0).filter(|index| *index != 0),
            libc::IFLA_MASTER => link.master = u32_at(value, 0),
            libc::IFLA_GSO_MAX_SIZE => link.gso_max = u32_at(value, 0),
            libc::IFLA_LINKINFO => {
                link.kind = attributes(value).find(|(k, _)| *k == libc::IFLA_INFO_KIND).map(|(_, v)| text(v));
                details = attributes(value).find(|(k, _)| *k == libc::IFLA_INFO_DATA).map(|(_, v)| v);
            }
            _ => {}
        }
    }
    add_details(&mut link, details.unwrap_or_default());
    if link.peer_namespace.is_none() && link.lower == Some(link.index) {
        link.lower = None;
    }
    Some(link)
}

/// Adds the attributes that only some kinds have.
fn add_details(link: &mut LinkInfo, details: &[u8]) {
    let value = |wanted: u16| attributes(details).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    match link.kind.as_deref() {
        Some("vlan") => link.vlan = value(VLAN_ID).and_then(|value| u16_at(value, 0)),
        Some("bond") => link.bond_mode = value(BOND_MODE).and_then(|value| value.first().copied()),
        Some("vxlan") => link.lower = value(VXLAN_LINK).and_then(|value| u32_at(value, 0)).filter(|index| *index != 0),
        _ => {}
    }
}

fn arp_settings(value: &[u8]) -> Option<ArpSettings> {
    let (_, inet) = attributes(value).find(|(family, _)| *family == libc::AF_INET as u16)?;
    let (_, settings) = attributes(inet).find(|(kind, _)| *kind == INET_CONF)?;
    ArpSettings::parse(settings)
}

fn address(payload: &[u8]) -> Option<Address> {
    let (mut local, mut other) = (None, None);
    for (kind, value) in attributes_after(payload, ADDRESS_HEAD) {
        match kind {
            libc::IFA_LOCAL => local = ip(value),
            libc::IFA_ADDRESS => other = ip(value),
            _ => {}
        }
    }
    // On a point-to-point link IFA_ADDRESS is the far end. IPv6 has IFA_LOCAL only on such links.
    Some(Address { index: u32_at(payload, 4)?, address: local.or(other)?, prefix: *payload.get(1)? })
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

fn nsid(payload: &[u8]) -> Option<u32> {
    let (_, value) = attributes_after(payload, NAMESPACE_HEAD).find(|(kind, _)| *kind == NAMESPACE_ID)?;
    // NETNSA_NSID_NOT_ASSIGNED is -1.
    u32_at(value, 0).filter(|id| *id != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = (link(&bytes), address(&bytes), nsid(&bytes));
        }
    }

    #[test]
    fn a_veth_is_parsed() {
        let mut bytes = vec![0; LINK_HEAD];
        bytes[4..8].copy_from_slice(&7u32.to_ne_bytes());
        bytes.extend(attribute(libc::IFLA_IFNAME, b"veth0\0"));
        bytes.extend(attribute(libc::IFLA_MTU, &1500u32.to_ne_bytes()));
        bytes.extend(attribute(libc::IFLA_OPERSTATE, &[6]));
        bytes.extend(attribute(libc::IFLA_LINK_NETNSID, &2u32.to_ne_bytes()));
        // Nested attributes carry NLA_F_NESTED in their type.
        bytes.extend(attribute(libc::IFLA_LINKINFO | 0x8000, &attribute(libc::IFLA_INFO_KIND, b"veth\0")));
        let settings: Vec<u8> = (1..=33u32).flat_map(u32::to_ne_bytes).collect();
        let inet = attribute(libc::AF_INET as u16, &attribute(INET_CONF, &settings));
        bytes.extend(attribute(libc::IFLA_AF_SPEC, &inet));
        let expected = LinkInfo {
            index: 7,
            name: "veth0".into(),
            kind: Some("veth".into()),
            mtu: Some(1500),
            operstate: Some(6),
            peer_namespace: Some(2),
            arp: Some(ArpSettings { arp_filter: 13, arp_ignore: 19, rp_filter: 8 }),
            ..LinkInfo::default()
        };
        assert_eq!(link(&bytes), Some(expected));
    }

    #[test]
    fn what_an_interface_is_on_and_belongs_to_is_parsed() {
        let link_of = |kind: &[u8], details: &[u8], others: &[(u16, u32)]| {
            let mut bytes = vec![0; LINK_HEAD];
            bytes[4..8].copy_from_slice(&7u32.to_ne_bytes());
            others.iter().for_each(|(kind, value)| bytes.extend(attribute(*kind, &value.to_ne_bytes())));
            let info = [attribute(libc::IFLA_INFO_KIND, kind), attribute(libc::IFLA_INFO_DATA, details)].concat();
            bytes.extend(attribute(libc::IFLA_LINKINFO, &info));
            link(&bytes).unwrap()
        };
        let vlan = link_of(b"vlan\0", &attribute(VLAN_ID, &100u16.to_ne_bytes()), &[(libc::IFLA_LINK, 2)]);
        assert_eq!((vlan.lower, vlan.vlan, vlan.bond_mode), (Some(2), Some(100), None));
        let bond = link_of(b"bond\0", &attribute(BOND_MODE, &[4]), &[(libc::IFLA_MASTER, 9), (libc::IFLA_LINK, 7)]);
        assert_eq!((bond.lower, bond.master, bond.bond_mode, bond.vlan), (None, Some(9), Some(4), None));
        let tunnel =
            link_of(b"vxlan\0", &attribute(VXLAN_LINK, &3u32.to_ne_bytes()), &[(libc::IFLA_GSO_MAX_SIZE, 65_536)]);
        assert_eq!((tunnel.lower, tunnel.gso_max), (Some(3), Some(65_536)));
        // An index in another namespace may be equal by chance.
        let veth = link_of(b"veth\0", &[], &[(libc::IFLA_LINK, 7), (libc::IFLA_LINK_NETNSID, 0)]);
        assert_eq!((veth.lower, veth.peer_namespace), (Some(7), Some(0)));
    }

    #[test]
    fn a_point_to_point_link_has_the_address_of_its_near_end() {
        let mut bytes = vec![2, 32, 0, 0, 3, 0, 0, 0];
        bytes.extend(attribute(libc::IFA_ADDRESS, &[10, 0, 0, 2]));
        bytes.extend(attribute(libc::IFA_LOCAL, &[10, 0, 0, 1]));
        let near = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(
            address(&bytes),
            Some(Address { index: u32::from_ne_bytes([3, 0, 0, 0]), address: near, prefix: 32 })
        );
    }
}
