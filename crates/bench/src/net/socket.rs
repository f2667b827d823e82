//! Socket options, and the kernel's information about sockets.

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;
use whyslow_documents::bench::{NetLoad, Transport};
use whyslow_model::catalogue::Connection;

/// Buffer size for struct tcp_info, which has 248 bytes in Linux 6; later ones may be longer.
const INFO: usize = 512;
/// Indices SK_MEMINFO_DROPS and SK_MEMINFO_VARS of include/uapi/linux/sock_diag.h.
const DROPS: usize = 8;
const MEMINFO: usize = 9;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which a UDP receiver checks whether the round is over.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Connects over TCP; sets options first, because the first packet announces the segment size.
pub(super) fn connect_tcp(to: SocketAddr, load: &NetLoad) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM.cloexec(), Some(Protocol::TCP))?;
    prepare(&socket, load)?;
    socket.connect_timeout(&to.into(), CONNECT_TIMEOUT)?;
    Ok(socket)
}

/// Returns a connected UDP socket, bound to `from`, which other sockets may share.
pub(super) fn connect_udp(from: Option<SocketAddr>, to: SocketAddr, load: &NetLoad) -> io::Result<Socket> {
    let socket = match from {
        Some(from) => bound_udp(from)?,
        None => Socket::new(Domain::for_address(to), Type::DGRAM.cloexec(), Some(Protocol::UDP))?,
    };
    prepare(&socket, load)?;
    socket.set_read_timeout(Some(POLL_INTERVAL))?;
    socket.connect(&to.into())?;
    Ok(socket)
}

/// Returns a UDP socket bound to an address, which is shared with SO_REUSEPORT.
pub(super) fn bound_udp(at: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM.cloexec(), Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.bind(&SockAddr::from(at))?;
    Ok(socket)
}

/// Sets the options that a load requests.
pub(super) fn prepare(socket: &Socket, load: &NetLoad) -> io::Result<()> {
    if let Some(buffer) = load.buffer {
        socket.set_send_buffer_size(buffer as usize)?;
        socket.set_recv_buffer_size(buffer as usize)?;
    }
    if load.transport == Transport::Tcp {
        socket.set_tcp_nodelay(true)?;
        if let Some(segment) = load.segment {
            socket.set_tcp_mss(segment)?;
        }
        if let Some(name) = &load.congestion {
            let refused = |e| io::Error::other(format!("congestion control {name}: {e}"));
            socket.set_tcp_congestion(name.as_bytes()).map_err(refused)?;
        }
    }
    Ok(())
}

/// Reads TCP_INFO (tcp(7)); empty for a UDP socket.
pub(super) fn tcp_info(socket: &Socket) -> Connection {
    let mut info = [0; INFO];
    let length = option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).unwrap_or(0);
    whyslow_sense::tcp_info(&info[..length])
}

/// Returns the path MTU of a connected socket as the kernel knows it (IP_MTU, ip(7)), in bytes.
pub(super) fn path_mtu(socket: &Socket) -> Option<u32> {
    let (level, name) = match is_v6(socket)? {
        true => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
        false => (libc::IPPROTO_IP, libc::IP_MTU),
    };
    number(socket, level, name)
}

/// Sends packets unfragmented and ignores the known path MTU (IP_PMTUDISC_PROBE, ip(7)).
pub(super) fn forbid_fragments(socket: &Socket) -> io::Result<()> {
    let (level, name, value) = match is_v6(socket) {
        Some(true) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE),
        _ => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
    };
    set(socket, level, name, value)
}

/// Wakes the receiver only once this many bytes have arrived (SO_RCVLOWAT, socket(7)).
pub(super) fn set_low_water(socket: &Socket, bytes: usize) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, i32::try_from(bytes).unwrap_or(i32::MAX))
}

/// Returns the number of datagrams dropped because the receive buffer was full (SO_MEMINFO, since Linux 4.12).
pub(super) fn drops(socket: &Socket) -> Option<u64> {
    let mut info = [0; 4 * MEMINFO];
    let length = option(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut info)?;
    let drops = info[..length].chunks_exact(4).nth(DROPS)?.first_chunk()?;
    Some(u32::from_ne_bytes(*drops).into())
}

pub(super) fn is_v6(socket: &Socket) -> Option<bool> {
    let local = socket.local_addr().ok()?.as_socket()?;
    Some(local.is_ipv6())
}

fn set(socket: &Socket, level: i32, name: i32, value: i32) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value is an int that outlives the call, and its length is given.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn number(socket: &Socket, level: i32, name: i32) -> Option<u32> {
    let mut bytes = [0; 4];
    let length = option(socket, level, name, &mut bytes)?;
    (length == bytes.len()).then(|| u32::from_ne_bytes(bytes))
}

/// Reads an option into `bytes` and returns its length.
fn option(socket: &Socket, level: i32, name: i32, bytes: &mut [u8]) -> Option<usize> {
    let mut length = libc::socklen_t::try_from(bytes.len()).ok()?;
    let place = bytes.as_mut_ptr().cast();
    // SAFETY: there is room for `length` bytes at `place`, and the kernel writes no more than that.
    let got = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, place, &raw mut length) };
    (got == 0).then(|| (length as usize).min(bytes.len()))
}
