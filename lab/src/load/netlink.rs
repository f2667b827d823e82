//! Loads with kernel messages about network interfaces (rtnetlink(7)).

use super::{Endless, Pacer, ready};
use clap::Args;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, setsockopt, socket, sockopt,
};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Multicast group RTMGRP_LINK of include/uapi/linux/rtnetlink.h.
const LINK_CHANGES: u32 = 1;

/// Receives a message for each change of an interface, one at a time
#[derive(Args)]
pub struct NetlinkListener {
    /// SO_RCVBUF
    #[arg(long)]
    buffer: usize,
    /// Time between two messages
    #[arg(long, default_value_t = 0)]
    every_us: u64,
}

impl NetlinkListener {
    pub fn run(self) -> Endless {
        let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
        setsockopt(&socket, sockopt::RcvBuf, &self.buffer)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, LINK_CHANGES))?;
        let (mut pacer, mut buffer) = (Pacer::every(Duration::from_micros(self.every_us)), [0; 8192]);
        ready("")?;
        loop {
            pacer.wait();
            match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                // Messages were lost.
                Ok(_) | Err(Errno::ENOBUFS) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

nix::ioctl_write_ptr_bad!(siocsifmtu, libc::SIOCSIFMTU, libc::ifreq);

/// Keeps changing the MTU of the loopback device
#[derive(Args)]
pub struct LinkChanges {
    /// Changes per second
    #[arg(long)]
    rate: u64,
}

impl LinkChanges {
    pub fn run(self) -> Endless {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        // SAFETY: an ifreq of zeroes is valid: no name, no flags.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        let mut pacer = Pacer::rate(self.rate, 1);
        ready("")?;
        for change in 0.. {
            pacer.wait();
            request.ifr_ifru.ifru_mtu = 65_000 + change % 2;
            // SAFETY: the request is valid and outlives the call.
            unsafe { siocsifmtu(socket.as_raw_fd(), &raw const request) }?;
        }
        super::sleep_forever()
    }
}
