//! Sockets from sock_diag(7) (include/uapi/linux/inet_diag.h, sock_diag.h).

use super::netlink::{Netlink, attributes_after, text, u32_at};
use crate::source_error::SourceError;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// SOCK_DIAG_BY_FAMILY.
const BY_FAMILY: u16 = 20;
/// Size of struct inet_diag_msg.
const HEAD: usize = 72;
// INET_DIAG_* attributes; in a request, bit N-1 selects attribute N.
const INFO: u16 = 2;
const CONGESTION: u16 = 4;
const MEMORY: u16 = 7;
// SK_MEMINFO_* indices.
const RECEIVE_BUFFER: usize = 1;
const SEND_BUFFER: usize = 3;
const DROPS: usize = 8;

// States of include/net/tcp_states.h.
pub(crate) const TIME_WAIT: u8 = 6;
pub(crate) const LISTEN: u8 = 10;
/// TCP states of connections that carry data: not TIME_WAIT, CLOSE (7) nor NEW_SYN_RECV (12), of which there can be very many.
pub(crate) const CONNECTED_STATES: u32 = 0xfff & !(1 | 1 << TIME_WAIT | 1 << 7 | 1 << LISTEN);
pub(crate) const ALL_STATES: u32 = u32::MAX;

/// Kernel identifier of a socket: its family, and struct inet_diag_sockid, which includes a unique cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketId {
    family: u8,
    sockid: [u8; 48],
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DiagSocket<'a> {
    pub id: SocketId,
    /// TCP state (include/net/tcp_states.h).
    pub state: u8,
    pub local: SocketAddr,
    /// Port 0 if there is no peer.
    pub remote: SocketAddr,
    /// Index of the interface it is bound to, or 0.
    pub interface: u32,
    /// Unread bytes; for a listening socket, connections not yet accepted.
    pub receive_queue: u32,
    /// Unacknowledged bytes; for a listening socket, the limit of its accept queue.
    pub send_queue: u32,
    /// 0 if no process holds the socket.
    pub inode: u32,
    /// struct tcp_info, as far as this kernel provides it.
    pub tcp_info: Option<&'a [u8]>,
    pub congestion_control: Option<String>,
    memory: &'a [u8],
}

impl DiagSocket<'_> {
    pub fn receive_buffer(&self) -> Option<u32> {
        u32_at(self.memory, 4 * RECEIVE_BUFFER)
    }

    pub fn send_buffer(&self) -> Option<u32> {
        u32_at(self.memory, 4 * SEND_BUFFER)
    }

    pub fn drops(&self) -> Option<u32> {
        u32_at(self.memory, 4 * DROPS)
    }
}

/// Calls `each` for every socket of a family and protocol that is in one of `states`, a bit mask.
pub(crate) fn dump(
    netlink: &mut Netlink,
    (family, protocol): (i32, i32),
    states: u32,
    mut each: impl FnMut(&DiagSocket<'_>),
) -> Result<(), SourceError> {
    let all = SocketId { family: family as u8, sockid: [0; 48] };
    netlink.dump(BY_FAMILY, &request(&all, protocol, states), |payload| {
        if let Some(socket) = decode(payload) {
            each(&socket);
        }
    })
}

/// Calls `take` with one socket, whatever its state, and returns its result. Fails if the socket is gone.
pub(crate) fn one(
    netlink: &mut Netlink,
    protocol: i32,
    id: &SocketId,
    mut take: impl FnMut(&DiagSocket<'_>) -> bool,
) -> Result<bool, SourceError> {
    let mut taken = false;
    netlink.ask(BY_FAMILY, &request(id, protocol, ALL_STATES), |payload| {
        taken = decode(payload).is_some_and(|socket| take(&socket));
    })?;
    Ok(taken)
}

/// A Unix socket that has a peer, or to which clients send datagrams (include/uapi/linux/unix_diag.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnixSocket {
    pub(crate) inode: u32,
    /// Inode of the peer; 0 if there is none.
    pub(crate) peer: u32,
    /// Whether it is the server's end: it has the name of the socket that it was accepted from, or receives datagrams without
    /// being connected.
    pub(crate) serves: bool,
}

/// Lists the Unix sockets of this network namespace that are connected or receive datagrams.
pub(crate) fn unix_sockets(netlink: &mut Netlink) -> Result<Vec<UnixSocket>, SourceError> {
    const SHOW_NAME: u32 = 1;
    const SHOW_PEER: u32 = 4;
    // struct unix_diag_req: family, states, flags.
    let mut request = [0; 24];
    request[0] = libc::AF_UNIX as u8;
    request[4..8].copy_from_slice(&ALL_STATES.to_ne_bytes());
    request[12..16].copy_from_slice(&(SHOW_NAME | SHOW_PEER).to_ne_bytes());
    let mut sockets = Vec::new();
    netlink.dump(BY_FAMILY, &request, |payload| sockets.extend(unix_socket(payload)))?;
    Ok(sockets)
}

/// Parses struct unix_diag_msg and its attributes UNIX_DIAG_NAME and UNIX_DIAG_PEER.
fn unix_socket(payload: &[u8]) -> Option<UnixSocket> {
    const HEAD: usize = 16;
    let (mut peer, mut named) = (None, false);
    for (kind, value) in attributes_after(payload, HEAD) {
        match kind {
            0 => named = !value.is_empty(),
            2 => peer = u32_at(value, 0),
            _ => {}
        }
    }
    let peer = peer.unwrap_or(0);
    let takes_datagrams = i32::from(*payload.get(1)?) == libc::SOCK_DGRAM;
    // A connected datagram socket is a client, which may have a name so that it receives answers.
    let serves = named && (peer == 0 || !takes_datagrams);
    let inode = u32_at(payload, 4)?;
    (peer != 0 || serves && takes_datagrams).then_some(UnixSocket { inode, peer, serves })
}

/// Builds struct inet_diag_req_v2.
fn request(id: &SocketId, protocol: i32, states: u32) -> [u8; 56] {
    let mut bytes = [0; 56];
    bytes[0] = id.family;
    bytes[1] = protocol as u8;
    bytes[2] = [INFO, CONGESTION, MEMORY].iter().fold(0, |bits, attribute| bits | 1 << (attribute - 1));
    bytes[4..8].copy_from_slice(&states.to_ne_bytes());
    bytes[8..].copy_from_slice(&id.sockid);
    bytes
}

fn decode(payload: &[u8]) -> Option<DiagSocket<'_>> {
    let head = payload.get(..HEAD)?;
    let family = i32::from(head[0]);
    let word = |offset| u32_at(head, offset);
    let mut socket = DiagSocket {
        id: SocketId { family: head[0], sockid: *head[4..].first_chunk()? },
        state: head[1],
        local: SocketAddr::new(address(family, &head[8..24])?, port(&head[4..6])),
        remote: SocketAddr::new(address(family, &head[24..40])?, port(&head[6..8])),
        interface: word(40)?,
        receive_queue: word(56)?,
        send_queue: word(60)?,
        inode: word(68)?,
        tcp_info: None,
        congestion_control: None,
        memory: &[],
    };
    for (kind, value) in attributes_after(payload, HEAD) {
        match kind {
            INFO => socket.tcp_info = Some(value),
            CONGESTION => socket.congestion_control = Some(text(value)),
            MEMORY => socket.memory = value,
            _ => {}
        }
    }
    Some(socket)
}

/// Parses an address in network byte order. The IPv4 peer of an IPv6 socket becomes an IPv4 address.
fn address(family: i32, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        libc::AF_INET => Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into()),
        libc::AF_INET6 => Some(IpAddr::from(Ipv6Addr::from(*bytes.first_chunk::<16>()?)).to_canonical()),
        _ => None,
    }
}

fn port(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |port, byte| port << 8 | u16::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::netlink::attribute;
    use proptest::prelude::*;

    fn message(family: i32) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[0] = family as u8;
        bytes[1] = LISTEN;
        bytes[4..8].copy_from_slice(&[0, 80, 1, 0]);
        bytes[56..60].copy_from_slice(&5u32.to_ne_bytes());
        bytes[68..72].copy_from_slice(&4242u32.to_ne_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), family in 0u8..12) {
            let _ = decode(&bytes);
            let _ = decode(&[&[family], &bytes[..]].concat());
        }
    }

    #[test]
    fn addresses_and_ports_are_in_network_byte_order() {
        let mut bytes = message(libc::AF_INET);
        bytes[8..12].copy_from_slice(&[10, 0, 0, 1]);
        bytes.extend(attribute(MEMORY, &[[0; 4], 212_992u32.to_ne_bytes()].concat()));
        bytes.extend(attribute(CONGESTION, b"cubic\0"));
        let socket = decode(&bytes).unwrap();
        assert_eq!(socket.local, "10.0.0.1:80".parse().unwrap());
        assert_eq!((socket.remote.port(), socket.receive_queue, socket.inode), (256, 5, 4242));
        assert_eq!(socket.congestion_control.as_deref(), Some("cubic"));
        // Old kernels have fewer values.
        assert_eq!((socket.receive_buffer(), socket.send_buffer(), socket.drops()), (Some(212_992), None, None));
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_address_it_maps() {
        let mut bytes = message(libc::AF_INET6);
        bytes[18..24].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        assert_eq!(decode(&bytes).unwrap().local, "10.0.0.1:80".parse().unwrap());
    }
}
