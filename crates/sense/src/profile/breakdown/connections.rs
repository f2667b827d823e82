//! Pairs of connected sockets: TCP and UDP of several network namespaces (proc_pid_net(5)), and the Unix sockets of our own.

use crate::net::netlink::Netlink;
use crate::net::sock_diag::{UnixSocket, unix_sockets};
use crate::root::Root;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Local and remote address with port, in the format of /proc/net/tcp.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Ends {
    is_udp: bool,
    local: String,
    remote: String,
}

/// Destination of a datagram over UDP, and the port it was sent from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) address: SocketAddr,
    pub(super) local_port: u16,
}

impl Destination {
    /// Builds a destination; an IPv4 address of an IPv6 socket becomes an IPv4 address.
    pub(super) fn new(family: u32, bytes: [u8; 16], port: u16, local_port: u16) -> Self {
        let ip = match family as i32 {
            libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical(),
            _ => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
        };
        Self { address: SocketAddr::new(ip, port), local_port }
    }

    /// Whether the peer is a client: its port is in the ephemeral range (ip-sysctl.rst, ip_local_port_range) and ours is not.
    /// Returns `None` if both ports are.
    pub(super) fn is_client(&self, root: &Root) -> Option<bool> {
        let range = root.maybe("proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let mut ends = range.split_ascii_whitespace().filter_map(|word| word.parse::<u16>().ok());
        let (first, last) = (ends.next().unwrap_or(32_768), ends.next().unwrap_or(60_999));
        let given_out = |port: u16| (first..=last).contains(&port);
        match (given_out(self.address.port()), given_out(self.local_port)) {
            (true, true) => None,
            (theirs, ours) => Some(theirs && !ours),
        }
    }

    /// Lists the local addresses of sockets that receive datagrams for this destination, in the kernel's format.
    fn written(&self) -> impl Iterator<Item = String> {
        let port = self.address.port();
        let of_4 = |ip: Ipv4Addr| format!("{:08X}", u32::from_ne_bytes(ip.octets()));
        let of_6 = |ip: Ipv6Addr| {
            let words = ip.octets();
            let words = words.chunks(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
            words.map(|word| format!("{word:08X}")).collect::<String>()
        };
        let own = match self.address.ip() {
            IpAddr::V4(ip) => vec![of_4(ip), of_4(Ipv4Addr::UNSPECIFIED), of_6(ip.to_ipv6_mapped())],
            IpAddr::V6(ip) => vec![of_6(ip)],
        };
        own.into_iter().chain([of_6(Ipv6Addr::UNSPECIFIED)]).map(move |ip| format!("{ip}:{port:04X}"))
    }
}

#[derive(Debug, Default)]
pub(super) struct Connections {
    unix: HashMap<u64, UnixSocket>,
    by_inode: HashMap<u64, Ends>,
    inodes: HashMap<Ends, u64>,
    /// Listening ports in the kernel's format, and whether they are UDP ports.
    listening: HashSet<(bool, String)>,
    /// UDP sockets without a peer, by their local address.
    bound: HashMap<String, u64>,
}

impl Connections {
    /// Reads the sockets of the network namespaces of these processes.
    pub(super) fn read(pids: impl Iterator<Item = u32>, root: &Root) -> Self {
        let unix = Netlink::open(libc::NETLINK_SOCK_DIAG).and_then(|mut netlink| unix_sockets(&mut netlink));
        // On a kernel without unix_diag, Unix sockets have no known peers.
        let unix = unix.unwrap_or_default().into_iter().map(|socket| (socket.inode.into(), socket)).collect();
        let mut all = Self { unix, ..Self::default() };
        let mut seen = HashSet::new();
        for pid in pids {
            let Some(namespace) = root.link(&format!("proc/{pid}/ns/net")) else { continue };
            if seen.insert(namespace) {
                for (table, is_udp) in [("tcp", false), ("tcp6", false), ("udp", true), ("udp6", true)] {
                    all.add(&root.maybe(&format!("proc/{pid}/net/{table}")).unwrap_or_default(), is_udp);
                }
            }
        }
        all
    }

    fn add(&mut self, text: &str, is_udp: bool) {
        for (ends, inode) in text.lines().skip(1).filter_map(|line| connection(line, is_udp)) {
            if port(&ends.remote) == "0000" {
                self.listening.insert((is_udp, port(&ends.local).to_owned()));
                if is_udp {
                    self.bound.insert(ends.local, inode);
                }
            } else {
                self.inodes.insert(ends.clone(), inode);
                self.by_inode.insert(inode, ends);
            }
        }
    }

    pub(super) fn is_known(&self, socket: u64) -> bool {
        self.unix.contains_key(&socket) || self.by_inode.contains_key(&socket)
    }

    /// Returns the address of the peer, in the kernel's format.
    pub(super) fn remote(&self, socket: u64) -> Option<&str> {
        self.by_inode.get(&socket).map(|ends| ends.remote.as_str())
    }

    /// Whether a socket is the server's end.
    pub(super) fn serves(&self, socket: u64) -> bool {
        match self.unix.get(&socket) {
            Some(unix) => unix.serves,
            None => self
                .by_inode
                .get(&socket)
                .is_some_and(|ends| self.listening.contains(&(ends.is_udp, port(&ends.local).to_owned()))),
        }
    }

    /// Returns the socket at the other end of a connection, if it is in one of these namespaces.
    pub(super) fn other_end(&self, socket: u64) -> Option<u64> {
        if let Some(unix) = self.unix.get(&socket) {
            return Some(unix.peer.into()).filter(|&peer| peer != 0);
        }
        let ends = self.by_inode.get(&socket)?;
        let reverse = Ends { local: ends.remote.clone(), remote: ends.local.clone(), is_udp: ends.is_udp };
        let connected = self.inodes.get(&reverse).copied();
        // A UDP server has one socket for all of its clients.
        let address = address(&ends.remote).and_then(|text| text.parse().ok()).filter(|_| ends.is_udp);
        connected.or_else(|| self.bound_at(&Destination { address: address?, local_port: 0 }))
    }

    /// Lists the local ports of UDP sockets without a peer.
    pub(super) fn udp_ports(&self) -> impl Iterator<Item = (u64, u16)> {
        self.bound.iter().filter_map(|(local, inode)| Some((*inode, u16::from_str_radix(port(local), 16).ok()?)))
    }

    /// Returns the socket without a peer that receives datagrams for this destination.
    pub(super) fn bound_at(&self, destination: &Destination) -> Option<u64> {
        destination.written().find_map(|local| self.bound.get(&local).copied())
    }
}

fn port(address: &str) -> &str {
    address.rsplit(':').next().unwrap_or_default()
}

/// Parses `  0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  0  0 12345 ...`.
fn connection(line: &str, is_udp: bool) -> Option<(Ends, u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let inode = fields.get(9)?.parse().ok().filter(|&inode: &u64| inode != 0)?;
    Some((Ends { is_udp, local: (*fields.get(1)?).to_owned(), remote: (*fields.get(2)?).to_owned() }, inode))
}

/// Parses `0100007F:1F90` (127.0.0.1:8080): the address is in words of the machine's byte order, the port in normal notation.
pub(super) fn address(text: &str) -> Option<String> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok().filter(|_| matches!(address.len(), 8 | 32))?;
    let words: Option<Vec<u32>> = address
        .as_bytes()
        .chunks(8)
        .map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok())
        .collect();
    let bytes: Vec<u8> = words?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::never_panics;

    #[test]
    fn addresses_are_written_as_people_write_them() {
        if cfg!(target_endian = "little") {
            assert_eq!(address("0100007F:1F90").as_deref(), Some("127.0.0.1:8080"));
            assert_eq!(address("00000000000000000000000001000000:0050").as_deref(), Some("[::1]:80"));
            assert_eq!(address("0000000000000000FFFF00000100007F:0050").as_deref(), Some("127.0.0.1:80"));
        }
        assert_eq!(
            (address("0100007F"), address("0100:1"), address("x:1"), address("é1007F:1F90")),
            (None, None, None, None)
        );
    }

    #[test]
    fn a_destination_is_written_as_the_kernel_writes_it() {
        let to = Destination { address: "127.0.0.1:53".parse().unwrap(), local_port: 40_000 };
        if cfg!(target_endian = "little") {
            let written: Vec<String> = to.written().collect();
            let zeros = "0".repeat(32);
            let expected =
                ["0100007F:0035", "00000000:0035", "0000000000000000FFFF00000100007F:0035", &format!("{zeros}:0035")];
            assert_eq!(written, expected);
        }
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1];
        assert_eq!(Destination::new(10, mapped, 53, 40_000), to);
        let v4 = [127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Destination::new(2, v4, 53, 40_000), to);
    }

    #[test]
    fn a_client_has_a_port_that_was_given_out_to_it() {
        let folder = whyslow_testing::folder();
        let range = folder.path().join("proc/sys/net/ipv4");
        std::fs::create_dir_all(&range).unwrap();
        std::fs::write(range.join("ip_local_port_range"), "32768\t60999\n").unwrap();
        let root = Root::captured(folder.path());
        let is_client = |port: u16, local_port| {
            Destination { address: SocketAddr::from(([10, 0, 0, 1], port)), local_port }.is_client(&root)
        };
        assert_eq!(
            [is_client(40_000, 53), is_client(53, 40_000), is_client(40_000, 40_001)],
            [Some(true), Some(false), None]
        );
    }

    #[test]
    fn no_line_makes_it_panic() {
        let line = "  0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 12345 1";
        never_panics(line, |text| {
            if let Some((ends, _)) = connection(text, false) {
                address(&ends.remote);
            }
        });
    }
}
