//! Pseudonyms of addresses. Addresses in one network stay in one network, and a private address stays private, so that the
//! diagnosis derives the same from them.
//!
//! Each bit of an address is changed depending on the bits before it (Xu et al., Prefix-Preserving IP Address Anonymization, ICNP
//! 2002).

use crate::Pseudonyms;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Networks with a special meaning, which addresses do not leave: private ones (RFC 1918, RFC 6598) and link-local ones (RFC
/// 3927).
const SPECIAL: [(Ipv4Addr, u32); 5] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
];

impl Pseudonyms {
    /// Returns the pseudonym of an address. Addresses that every machine has (loopback, unspecified, multicast) stay unchanged.
    pub(crate) fn ip(&self, ip: IpAddr) -> IpAddr {
        match ip {
            IpAddr::V4(ip) => self.ipv4(ip).into(),
            IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
                Some(ip) => self.ipv4(ip).to_ipv6_mapped().into(),
                None => self.ipv6(ip).into(),
            },
        }
    }

    fn ipv4(&self, ip: Ipv4Addr) -> Ipv4Addr {
        if is_general(ip) {
            return ip;
        }
        if let Some((_, kept)) = special(ip) {
            return Ipv4Addr::from(self.permuted(ip.octets(), kept));
        }
        // Repeated permutation eventually returns to the address itself, so the loop ends.
        let mut new = ip;
        loop {
            new = Ipv4Addr::from(self.permuted(new.octets(), 0));
            if !is_general(new) && special(new).is_none() {
                return new;
            }
        }
    }

    fn ipv6(&self, ip: Ipv6Addr) -> Ipv6Addr {
        if ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() {
            return ip;
        }
        let kept = match ip.octets() {
            [0xfe, second, ..] if second & 0xc0 == 0x80 => 64,
            [first, ..] if first & 0xfe == 0xfc => 8,
            _ => 3,
        };
        Ipv6Addr::from(self.permuted(ip.octets(), kept))
    }

    /// Changes the bits after the first `kept`, each depending on those before it.
    fn permuted<const N: usize>(&self, bytes: [u8; N], kept: u32) -> [u8; N] {
        let mut new = bytes;
        for at in (kept / 8) as usize..N {
            let hash = self.key.hash("address", &[&[N as u8][..], &bytes[..at]].concat());
            let mut before = 1_usize;
            for depth in 0..8 {
                let bit = bytes[at] >> (7 - depth) & 1;
                if at as u32 * 8 + depth >= kept {
                    new[at] ^= (hash[before / 8] >> (before % 8) & 1) << (7 - depth);
                }
                before = before << 1 | usize::from(bit);
            }
        }
        new
    }

    /// Returns the pseudonym of a word that is an address, with its port or prefix, if any; `None` if the word is not an address.
    pub(crate) fn address_word(&self, word: &str) -> Option<String> {
        let starts = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '[');
        if word.len() < 2 || !word.starts_with(starts) || !word.contains([':', '.']) {
            return None;
        }
        if let Ok(address) = word.parse::<SocketAddr>() {
            return Some(self.socket(address).to_string());
        }
        if let Ok(ip) = word.parse::<IpAddr>() {
            return Some(self.ip(ip).to_string());
        }
        if let Some((address, prefix)) = word.split_once('/') {
            let (ip, bits): (IpAddr, u32) = (address.parse().ok()?, prefix.parse().ok()?);
            return Some(format!("{}/{bits}", self.network(ip, bits)));
        }
        if let Some((address, scope)) = word.split_once('%') {
            let ip: Ipv6Addr = address.parse().ok()?;
            return Some(format!("{}%{}", self.ip(ip.into()), self.interface(scope)));
        }
        // `192.0.2.1:*`, `[::1]:http`
        let (host, port) = match word.strip_prefix('[') {
            Some(rest) => rest.split_once("]:")?,
            None => word.rsplit_once(':').filter(|(host, _)| host.parse::<Ipv4Addr>().is_ok())?,
        };
        let ip: IpAddr = host.parse().ok()?;
        let is_port = port.bytes().all(|b| b.is_ascii_alphanumeric() || b"*-".contains(&b));
        is_port.then(|| match self.ip(ip) {
            IpAddr::V4(ip) => format!("{ip}:{port}"),
            IpAddr::V6(ip) => format!("[{ip}]:{port}"),
        })
    }

    fn socket(&self, address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V4(v4) => SocketAddr::new(self.ip((*v4.ip()).into()), v4.port()),
            SocketAddr::V6(v6) => match self.ip((*v6.ip()).into()) {
                IpAddr::V6(ip) => SocketAddrV6::new(ip, v6.port(), v6.flowinfo(), v6.scope_id()).into(),
                IpAddr::V4(ip) => SocketAddr::new(ip.into(), v6.port()),
            },
        }
    }

    /// Maps a network; its first address stays the first.
    fn network(&self, ip: IpAddr, bits: u32) -> IpAddr {
        match (ip, self.ip(ip)) {
            (IpAddr::V4(old), IpAddr::V4(new)) => {
                let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or(0);
                let is_first = old.to_bits() & !mask == 0;
                if is_first { Ipv4Addr::from_bits(new.to_bits() & mask).into() } else { new.into() }
            }
            (IpAddr::V6(old), IpAddr::V6(new)) => {
                let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0);
                let is_first = old.to_bits() & !mask == 0;
                if is_first { Ipv6Addr::from_bits(new.to_bits() & mask).into() } else { new.into() }
            }
            (_, new) => new,
        }
    }

    /// Returns the pseudonym of an Ethernet address, a locally administered one (IEEE 802); `None` if the word is not an Ethernet
    /// address. The broadcast address and the zero address stay unchanged.
    pub(crate) fn mac_word(&self, word: &str) -> Option<String> {
        let separator = word.chars().find(|c| !c.is_ascii_hexdigit())?;
        if word.len() != 17 || !matches!(separator, ':' | '-') {
            return None;
        }
        let bytes: Vec<u8> = word.split(separator).map(octet).collect::<Option<_>>()?;
        if bytes.len() != 6 || bytes.iter().all(|byte| *byte == 0) || bytes.iter().all(|byte| *byte == 0xff) {
            return None;
        }
        let [a, b, c, d, e, ..] = self.key.hash("ethernet", &bytes);
        let new = [2, a, b, c, d, e].map(|byte| format!("{byte:02x}"));
        Some(new.join(&separator.to_string()))
    }
}

fn octet(digits: &str) -> Option<u8> {
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// Whether an address means the same on every machine.
fn is_general(ip: Ipv4Addr) -> bool {
    ip.octets()[0] == 0 || ip.is_loopback() || ip.octets()[0] >= 224
}

fn special(ip: Ipv4Addr) -> Option<(Ipv4Addr, u32)> {
    SPECIAL.into_iter().find(|(network, bits)| (ip.to_bits() ^ network.to_bits()) >> (32 - bits) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pseudonyms;

    fn ip(text: &str) -> IpAddr {
        pseudonyms().ip(text.parse().unwrap())
    }

    /// Counts the leading bits that two addresses have in common.
    fn common(a: IpAddr, b: IpAddr) -> u32 {
        match (a, b) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => 0,
        }
    }

    #[test]
    fn what_two_addresses_have_in_common_stays() {
        for (a, b, bits) in [
            ("10.1.2.3", "10.1.2.4", 29),
            ("10.1.2.3", "10.1.3.3", 23),
            ("192.168.7.1", "192.168.135.1", 16),
            ("203.0.113.9", "203.0.113.200", 24),
            ("2001:db8::1", "2001:db8::8001", 112),
            ("fd00:1::1", "fd00:2::1", 30),
        ] {
            assert_eq!(common(a.parse().unwrap(), b.parse().unwrap()), bits, "{a} {b}");
            assert_eq!(common(ip(a), ip(b)), bits, "{a} {b}");
            assert!(ip(a) != a.parse::<IpAddr>().unwrap() || ip(b) != b.parse::<IpAddr>().unwrap(), "{a} {b}");
        }
    }

    #[test]
    fn private_and_general_addresses_stay_that() {
        for (address, network) in [("10.7.8.9", 8), ("172.20.1.1", 12), ("192.168.1.9", 16), ("169.254.3.3", 16)] {
            assert!(common(ip(address), address.parse().unwrap()) >= network, "{address}");
        }
        for address in ["127.0.0.1", "0.0.0.0", "224.0.0.251", "255.255.255.255", "::1", "::", "ff02::1"] {
            assert_eq!(ip(address).to_string(), address);
        }
        for public in (0..200_u8).map(|n| Ipv4Addr::new(n.max(1), 8, n, 4)).filter(|ip| !is_general(*ip)) {
            let new = pseudonyms().ipv4(public);
            assert_eq!((is_general(new), special(new).is_some()), (false, special(public).is_some()), "{public}");
        }
    }

    #[test]
    fn words_are_addresses_with_ports_and_prefixes() {
        let names = pseudonyms();
        let of = |word: &str| names.address_word(word);
        let new = |text: &str| names.ip(text.parse().unwrap());
        assert_eq!(of("10.1.2.3:80"), Some(format!("{}:80", new("10.1.2.3"))));
        assert_eq!(of("[2001:db8::1]:80"), Some(format!("[{}]:80", new("2001:db8::1"))));
        assert_eq!(of("10.1.2.3:*"), Some(format!("{}:*", new("10.1.2.3"))));
        assert_eq!(of("[::]:*").as_deref(), Some("[::]:*"));
        assert!(of("10.1.0.0/16").unwrap().ends_with(".0.0/16"));
        assert_eq!(of("10.1.0.1/16"), Some(format!("{}/16", new("10.1.0.1"))));
        assert!(of("fe80::1%eth0").unwrap().ends_with("%eth0"));
        for word in ["", "eth0", "8:0", "1.5", "12:30:00", "ata1.00", "0000:01:00.0", "a:b", "1/2", "::x"] {
            assert_eq!(of(word), None, "{word}");
        }
    }

    #[test]
    fn an_ethernet_address_becomes_a_local_one() {
        let names = pseudonyms();
        let new = names.mac_word("52:54:00:ab:cd:ef").unwrap();
        assert!(new.starts_with("02:") && new.len() == 17 && !new.contains("ab:cd:ef"), "{new}");
        assert_eq!(names.mac_word("52-54-00-AB-CD-EF").unwrap(), new.replace(':', "-"));
        for word in
            ["ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00", "0000:01:00.0", "52:54:00:ab:cd", "eth0", "5254.00ab.cdef1"]
        {
            assert_eq!(names.mac_word(word), None, "{word}");
        }
    }
}
